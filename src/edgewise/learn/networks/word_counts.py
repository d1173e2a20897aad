"""What each token of a text says of the outputs by counting words in the training rows, as naive Bayes does."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from edgewise.learn.networks.text_settings import CountSizes

KINDS = 3
"""What is counted: words, their stems, and pairs of words."""
STEM = 5
"""Letters of a stem."""
MAX_PAIRS = 2**19
"""Pairs of words that are counted, the most frequent ones, for up to eight outputs."""
MAX_PAIR_COUNTS = 8 * MAX_PAIRS
"""Pairs times outputs: with many classes or targets fewer pairs are counted."""
MAX_PAIRED = 2**18
"""Rows in which the most frequent pairs are looked for, evenly chosen where there are more."""
BATCH_SIZE = 2**12
"""Rows that are counted together."""


class WordCounts(nn.Module):
    """How much each token speaks for each output.

        r_f = ln (n_f + 2π) / (m_f + 2(1 − π)) − ln π / (1 − π)

    n_f and m_f are how many training rows with the feature f are of the class and how many are not, and π is the share
    of the class. A feature is a word, its stem (the first five letters) or a word and the one before it. What was never
    seen says nothing: r = 0. A pair is shared evenly by its two words.

    In training a row is left out of the counts that it is read with (n_f, m_f and π without it). Otherwise words that
    occur in one row alone would give its class away, and the model would learn nothing else.

    Memory: 8 bytes for each output and each word, stem and pair, in every member of an ensemble; at most 32 MiB of them
    for pairs, while words and stems grow with the vocabulary. A batch needs some 40 numbers for each token and output.

    Args:
        num_tokens: size of the vocabulary.
        sizes: how many stems and pairs there are, and the classes of each target.

    Source: Wang & Manning 2012, whose r these are with one smoothing for all sizes of classes; they learn a linear
    model over them. Leaving the row out, and stems, are ours.
    """

    stem_of_token: Tensor
    pairs: Tensor
    counts: Tensor
    rows: Tensor

    def __init__(self, num_tokens: int, sizes: CountSizes):
        super().__init__()
        self.num_tokens, self.sizes = num_tokens, sizes
        self.first_pair = num_tokens + sizes.num_stems
        # The last feature is that of all unseen pairs.
        num_features = self.first_pair + sizes.num_pairs + 1
        self.register_buffer("stem_of_token", torch.zeros(num_tokens, dtype=torch.int64))
        self.register_buffer("pairs", torch.zeros(sizes.num_pairs, dtype=torch.int64))
        self.register_buffer("counts", torch.zeros(2, num_features, sizes.num_outputs))
        self.register_buffer("rows", torch.zeros(2, sizes.num_outputs))

    @property
    def num_columns(self) -> int:
        """Numbers that a token gets."""
        return KINDS * self.sizes.num_outputs

    def forward(
        self,
        tokens: Int64[Tensor, " token"],
        offsets: Int64[Tensor, " boundary"],
        targets: Float[Tensor, " row target"] | None = None,
    ) -> Float[Tensor, " token kind output"]:
        """r of the word, of its stem, and of the pairs that it is in.

        Args:
            tokens: texts one behind the other.
            offsets: text i is `offsets[i]:offsets[i + 1]`.
            targets: leave each row out of the counts; None where the rows are not those of the training.
        """
        starts = offsets[:-1][offsets.diff() > 0]
        features = self._features(tokens, starts)
        counts, rows = self.counts[:, features], self.rows.view(2, 1, 1, -1)
        if targets is not None:
            own_counts = memberships(targets, self.sizes.num_classes).to(counts.dtype)
            own_counts = own_counts.repeat_interleave(offsets.diff(), 1).unsqueeze(2)
            counts, rows = (counts - own_counts).clamp(min=0), (rows - own_counts).clamp(min=0)

        share = (rows[0] + 1) / (rows.sum(0) + 2)
        ratios = torch.log((counts[0] + 2 * share) / (counts[1] + 2 * (1 - share))) - torch.logit(share)
        words, pairs = ratios[:, :2], ratios[:, 2] / 2
        is_first = torch.zeros_like(tokens, dtype=torch.bool).index_fill(0, starts, True).unsqueeze(1)

        # A text begins with a pair of which only the second is a word.
        after = torch.where(is_first, 0, pairs).roll(-1, 0)
        return torch.cat([words, (torch.where(is_first, 2 * pairs, pairs) + after).unsqueeze(1)], 1)

    def _features(self, tokens: Tensor, starts: Tensor) -> Int64[Tensor, " token kind"]:
        """The numbers of the features that end at each token."""
        keys = tokens.roll(1, 0).index_fill(0, starts, self.num_tokens) * self.num_tokens + tokens
        positions = torch.searchsorted(self.pairs, keys)
        is_known = torch.cat([self.pairs, keys.new_full((1,), -1)])[positions] == keys
        pairs = self.first_pair + torch.where(is_known, positions, len(self.pairs))
        return torch.stack([tokens, self.num_tokens + self.stem_of_token[tokens], pairs], 1)

    @classmethod
    def counted(
        cls,
        names: Sequence[str],
        texts: Sequence[np.ndarray],
        targets: Float[Tensor, " row target"],
        num_classes: tuple[int, ...],
    ) -> "WordCounts":
        """The counts of some rows.

        Args:
            names: the words of the vocabulary.
            texts: the tokens of each row; some of them are in memory at the same time.
            targets: class numbers; NaN where missing.
            num_classes: the classes of each target; empty where all are yes or no.
        """
        from scipy.sparse import csr_array

        stems, stem_of_token = np.unique([name[:STEM].lower() for name in names], return_inverse=True)
        num_tokens = len(names)
        pairs, times = _counted_pairs(texts, num_tokens)
        num_outputs = sum(num_classes) or targets.shape[1]
        max_pairs = min(MAX_PAIRS, MAX_PAIR_COUNTS // num_outputs)
        pairs = np.sort(pairs[np.argsort(-times, kind="stable")[:max_pairs]])
        model = cls(num_tokens, CountSizes(len(stems), len(pairs), targets.shape[1], num_classes))
        model.stem_of_token.copy_(torch.from_numpy(stem_of_token))
        model.pairs.copy_(torch.from_numpy(pairs))

        for start in range(0, len(texts), BATCH_SIZE):
            batch = texts[start : start + BATCH_SIZE]
            tokens = np.concatenate([np.zeros(0, np.int64), *batch])
            offsets = np.cumsum([0, *map(len, batch)], dtype=np.int64)
            starts = torch.from_numpy(offsets[:-1][np.diff(offsets) > 0])
            features = model._features(torch.from_numpy(tokens), starts).flatten().numpy()
            shape = len(batch), model.counts.shape[1]
            occurrences = csr_array((np.ones(len(features), dtype=np.float32), features, KINDS * offsets), shape=shape)
            # A row counts once, however often it has the word.
            occurrences.sum_duplicates()
            occurrences.data[:] = 1
            for side, members in enumerate(memberships(targets[start : start + BATCH_SIZE], num_classes)):
                model.counts[side].add_(torch.from_numpy(occurrences.T @ members.numpy()))
                model.rows[side].add_(members.sum(0))

        model.counts[:, -1] = 0
        return model


def _counted_pairs(texts: Sequence[np.ndarray], num_tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """The different pairs of tokens and how often each occurs, in at most `MAX_PAIRED` of the texts."""
    step = -(-len(texts) // MAX_PAIRED) or 1
    pairs, times = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for start in range(0, len(texts), BATCH_SIZE * step):
        batch = texts[start : start + BATCH_SIZE * step : step]
        tokens = np.concatenate([np.zeros(0, np.int64), *batch])
        before = np.concatenate([np.zeros(0, np.int64), *([num_tokens, *text[:-1]] for text in batch if len(text))])
        new, counts = np.unique(before * num_tokens + tokens, return_counts=True)
        pairs, positions = np.unique(np.concatenate([pairs, new]), return_inverse=True)
        times = np.bincount(positions, np.concatenate([times, counts])).astype(np.int64)
    return pairs, times


def memberships(
    targets: Float[Tensor, " row target"], num_classes: tuple[int, ...]
) -> Float[Tensor, " side row output"]:
    """1 where a row is of the class of an output, and 1 where it is not; 0 for both where that is unknown."""
    is_known = (~targets.isnan()).to(targets.dtype)
    values = targets.nan_to_num(0)
    if num_classes:
        one_hot = [nn.functional.one_hot(v.long(), size) for v, size in zip(values.T, num_classes, strict=True)]
        is_known = is_known.repeat_interleave(torch.tensor(num_classes, device=is_known.device), 1)
        values = torch.cat(one_hot, 1).to(is_known.dtype)
    return torch.stack([values * is_known, (1 - values) * is_known])
