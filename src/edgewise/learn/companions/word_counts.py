"""A linear model over the words of a text, beside a network: log-count ratios of classes, shrunken means of numbers,
as tensors that are saved with the weights of the network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from edgewise.errors import DataError
from edgewise.learn.batches.tokens import TextRowBatch

NUM_KINDS = 3
"""Kinds of features: words, their stems, and pairs of adjacent words (bigrams)."""
STEM_LENGTH = 5
"""The stem of a word is its first letters, lowercased."""
MAX_PAIRS = 2**19
"""Pairs of words that are counted, the most frequent ones, for up to eight outputs."""
MAX_PAIR_COUNTS = 8 * MAX_PAIRS
"""Pairs times outputs: with many classes or targets fewer pairs are counted."""
MAX_PAIRED = 2**18
"""Rows in which the most frequent pairs are looked for, evenly chosen where there are more."""
MAX_SUMS = 2**22
"""Rows times kinds times outputs that the weights of the kinds are fitted to, at most; of more rows, every n-th."""
BATCH_SIZE = 2**12
"""Rows that are counted together."""
SHRINKAGE = 2.0
"""For numbers: rows with the mean of the target that are added to those of each feature."""
PRIOR, PRIOR_OF_BIAS = 1.0, 0.01
"""L2 penalties that pull the weights of the kinds to 1, as in naive Bayes, and biases to 0."""
MAX_STEPS = 100
"""Iterations of L-BFGS at most: the weights of the kinds are few."""


class Loss(Protocol):
    """The loss of outputs, and what the targets are."""

    @property
    def task_type(self) -> str:
        """regression, classification or multiclass."""

    @property
    def num_classes(self) -> tuple[int, ...]:
        """The number of classes of each target; read for multiclass only."""

    def __call__(self, output: Tensor, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """The weighted sum of the losses of all known targets, and the sum of their weights."""


class WordCounts(nn.Module):
    """A linear model over the words of a text, their stems, and pairs of words.

        y_o = b_o + Σ_i Σ_k v_{f_k(i), o} / √n    over the n tokens i of a text

    f_k(i) is the feature of kind k that ends at token i: the word, its stem (the first five letters, lowercased), or
    the word and the one before it. v_f = w_k r_f, where r_f follows from counts, see `FeatureCounts`, and v_f = 0 for
    what was never seen. The optimizer of the network does not train it: `fit` counts, then fits w_k and b by L-BFGS.

    Memory: 4 bytes for each output and each word, stem and pair, in every member of an ensemble; at most 16 MiB of them
    for pairs, while words and stems grow with the vocabulary. `fit` takes three times as much.

    Args:
        num_tokens: size of the vocabulary.
        num_stems: how many stems its words have.
        num_pairs: pairs of words that are counted.
        num_outputs: outputs of a row.

    Source: Wang & Manning 2012 (NB-SVM), whose log-count ratios r are smoothed equally for both classes; they learn a
    weight for each feature. A weight for each kind, and stems, are ours.
    """

    stem_of_token: Tensor
    pairs: Tensor
    weights: Tensor
    bias: Tensor

    def __init__(self, num_tokens: int, num_stems: int, num_pairs: int, num_outputs: int):
        super().__init__()
        self.num_tokens, self.num_stems = num_tokens, num_stems
        self.first_pair = num_tokens + num_stems
        # The last feature is that of all unseen pairs. Sizes from a damaged file may be negative.
        num_features = max(0, self.first_pair + num_pairs) + 1
        self.register_buffer("stem_of_token", torch.zeros(num_tokens, dtype=torch.int64))
        self.register_buffer("pairs", torch.zeros(num_pairs, dtype=torch.int64))
        self.register_buffer("weights", torch.zeros(num_features, num_outputs))
        self.register_buffer("bias", torch.zeros(num_outputs))

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], num_tokens: int, num_outputs: int) -> Self:
        """A module of the sizes that its saved tensors have, still empty."""
        num_pairs = len(tensors["pairs"])
        return cls(num_tokens, len(tensors["weights"]) - num_tokens - num_pairs - 1, num_pairs, num_outputs)

    def check(self) -> None:
        """Raise DataError unless every token has a stem, pairs are in order, and all weights are numbers."""
        if not ((self.stem_of_token >= 0) & (self.stem_of_token < self.num_stems)).all():
            raise DataError(f"word-counts.stem_of_token is beyond 0 to {self.num_stems - 1}.")
        if not (self.pairs.diff() > 0).all():
            raise DataError("word-counts.pairs are not in ascending order.")
        for name, values in (("weights", self.weights), ("bias", self.bias)):
            if not values.isfinite().all():
                raise DataError(f"word-counts.{name} has a value that is not a finite number.")

    def forward(self, batch: TextRowBatch) -> Float[Tensor, " row output"]:
        """The outputs of each row: logits, or numbers in the units of the network."""
        return self.of_tokens(self.by_token(batch), batch.offsets)

    def by_token(self, batch: TextRowBatch) -> Float[Tensor, " token output"]:
        """What each token adds to the outputs of its row; a pair is shared evenly by its two words."""
        starts = _starts(batch.offsets)
        words, pairs = self.weights[self.feature_ids(batch.tokens, starts)].split([NUM_KINDS - 1, 1], 1)
        pairs = pairs.squeeze(1) / 2
        is_first = torch.zeros_like(batch.tokens, dtype=torch.bool).index_fill(0, starts, True).unsqueeze(1)

        # A text begins with a pair of which only the second is a word.
        after = torch.where(is_first, 0, pairs).roll(-1, 0)
        token_outputs = words.sum(1) + torch.where(is_first, 2 * pairs, pairs) + after
        lengths = batch.offsets.diff()
        return token_outputs / lengths.repeat_interleave(lengths, output_size=len(token_outputs)).sqrt().unsqueeze(1)

    def of_tokens(
        self, token_outputs: Float[Tensor, " token output"], offsets: Int64[Tensor, " boundary"]
    ) -> Float[Tensor, " row output"]:
        """The outputs of rows whose tokens add this."""
        return self.bias + _summed(token_outputs, offsets)

    def feature_ids(
        self, tokens: Int64[Tensor, " token"], starts: Int64[Tensor, " row"]
    ) -> Int64[Tensor, " token kind"]:
        """The features that end at each token, as rows of `weights`.

        Args:
            tokens: texts one after the other.
            starts: where each of them starts.
        """
        keys = tokens.roll(1, 0).index_fill(0, starts, self.num_tokens) * self.num_tokens + tokens
        positions = torch.searchsorted(self.pairs, keys)
        is_known = torch.cat([self.pairs, keys.new_full((1,), -1)])[positions] == keys
        pairs = self.first_pair + torch.where(is_known, positions, len(self.pairs))
        return torch.stack([tokens, self.num_tokens + self.stem_of_token[tokens], pairs], 1)

    @classmethod
    def fit(
        cls,
        vocabulary: Sequence[str],
        texts: Sequence[np.ndarray],
        targets: Float[Tensor, " row target"],
        weights: Float[Tensor, " row"],
        loss: Loss,
    ) -> Self:
        """The model of some training rows.

        Args:
            vocabulary: the word of each token.
            texts: the tokens of each row; may be read lazily, a slice at a time.
            targets: class numbers, or numbers in the units of the network; NaN where missing.
            weights: of each row, in the loss and in counts, where the mean row counts once; above 0.
            loss: of outputs and targets; its classes are those of each target.
        """
        stems, stem_of_token = np.unique([word[:STEM_LENGTH].lower() for word in vocabulary], return_inverse=True)
        num_outputs = sum(loss.num_classes) if loss.task_type == "multiclass" else targets.shape[1]
        pairs, times = _counted_pairs(texts, len(vocabulary))
        max_pairs = min(MAX_PAIRS, MAX_PAIR_COUNTS // num_outputs)
        pairs = np.sort(pairs[np.argsort(-times, kind="stable")[:max_pairs]])
        model = cls(len(vocabulary), len(stems), len(pairs), num_outputs)
        model.stem_of_token.copy_(torch.from_numpy(stem_of_token))
        model.pairs.copy_(torch.from_numpy(pairs))

        weights = weights / weights.mean()
        counts = FeatureCounts.of(model, texts, targets, loss, weights)
        step = -(-len(texts) * NUM_KINDS * num_outputs // MAX_SUMS) or 1
        sums = counts.sums(model, texts, targets, step)
        kind_weights, bias = _weights_of_kinds(sums, targets[::step], weights[::step], loss)

        features_of_kind = torch.tensor([model.num_tokens, model.num_stems, len(pairs) + 1])
        model.weights.copy_(counts.ratios() * kind_weights.repeat_interleave(features_of_kind, 0))
        model.bias.copy_(bias)
        return model


@dataclass(frozen=True, eq=False)
class FeatureCounts:
    """In how many rows features occur, and the ratios or means that follow.

        classes:  r_f = ln[(n_f + 2π) / (m_f + 2(1 − π))] − ln[π / (1 − π)]
        numbers:  r_f = Σ_{rows with f} y / (n_f + 2)

    Of classes, n_f and m_f are how many rows with the feature f are of the class and how many are not, and
    π = (n + 1) / (n + m + 2) is the smoothed share of the class, of n and m rows. Of numbers, n_f is how many rows have
    the feature; y has the mean 0.
    """

    feature_counts: Float[Tensor, " side feature output"]
    """n_f and m_f; of numbers, the sum of y and n_f."""
    row_counts: Float[Tensor, " side output"]
    """n and m; of numbers, the sum of y and the number of rows."""
    loss: Loss
    """What the targets are."""
    weights: Float[Tensor, " row"] | None = None
    """How much each row counts; None where all count once."""

    @classmethod
    def of(
        cls,
        model: WordCounts,
        texts: Sequence[np.ndarray],
        targets: Tensor,
        loss: Loss,
        weights: Float[Tensor, " row"] | None = None,
    ) -> Self:
        """The counts of some rows, each of which counts as much as it weighs, however often it has a feature."""
        from scipy.sparse import csr_array

        feature_counts = model.weights.new_zeros(2, *model.weights.shape)
        row_counts = model.weights.new_zeros(2, len(model.bias))
        for start in range(0, len(texts), BATCH_SIZE):
            chosen = slice(start, start + BATCH_SIZE)
            tokens, offsets = _packed(texts[chosen])
            columns = model.feature_ids(tokens, _starts(offsets)).flatten().numpy()
            shape, row_starts = (len(offsets) - 1, len(model.weights)), NUM_KINDS * offsets.numpy()
            occurrences = csr_array((np.ones(len(columns), np.float32), columns, row_starts), shape=shape)
            occurrences.sum_duplicates()
            occurrences.data[:] = 1
            for side, members in enumerate(sides_of(targets[chosen], loss, weights_of(weights, chosen))):
                feature_counts[side].add_(torch.from_numpy(occurrences.T @ members.numpy()))
                row_counts[side].add_(members.sum(0))

        feature_counts[:, -1] = 0  # unseen pairs weigh 0
        return cls(feature_counts, row_counts, loss, weights)

    def ratios(self) -> Float[Tensor, " feature output"]:
        """r of each feature."""
        return self._ratios(self.feature_counts, self.row_counts.unsqueeze(1))

    def _ratios(self, feature_counts: Float[Tensor, " side *feature output"], row_counts: Tensor) -> Tensor:
        if self.loss.task_type == "regression":
            return feature_counts[0] / (feature_counts[1] + SHRINKAGE)
        n_f, m_f = feature_counts
        share = (row_counts[0] + 1) / (row_counts.sum(0) + 2)
        return torch.log((n_f + 2 * share) / (m_f + 2 * (1 - share))) - torch.logit(share)

    def sums(
        self, model: WordCounts, texts: Sequence[np.ndarray], targets: Tensor, step: int
    ) -> Float[Tensor, " row kind output"]:
        """Σ_i r_{f_k(i)} / √n of every `step`-th of the rows that were counted, leave-one-out: the r of a row are those
        of the counts without it.

        Otherwise words that occur in one row alone would give its target away.
        """
        parts = []
        for start in range(0, len(texts), BATCH_SIZE * step):
            chosen = slice(start, start + BATCH_SIZE * step, step)
            tokens, offsets = _packed(texts[chosen])
            lengths = offsets.diff()
            feature_ids = model.feature_ids(tokens, _starts(offsets))
            is_counted = (feature_ids < len(model.weights) - 1).unsqueeze(2)
            of_row = (
                sides_of(targets[chosen], self.loss, weights_of(self.weights, chosen))
                .repeat_interleave(lengths, 1)
                .unsqueeze(2)
            )
            feature_counts = self.feature_counts[:, feature_ids] - of_row * is_counted
            ratios = self._ratios(feature_counts, self.row_counts.view(2, 1, 1, -1) - of_row)
            parts.append(_summed(ratios, offsets) / lengths.clamp(min=1).sqrt().view(-1, 1, 1))
        return torch.cat(parts)


def weights_of(weights: Tensor | None, rows: slice) -> Tensor | None:
    """The weights of some rows; None where all count the same."""
    return None if weights is None else weights[rows]


def sides_of(
    targets: Float[Tensor, " row target"], loss: Loss, weights: Float[Tensor, " row"] | None = None
) -> Float[Tensor, " side row output"]:
    """1 where a row is of the class of an output, and 1 where it is not; of numbers, the number and 1. 0 for both where
    it is unknown. All are multiplied by the weight of the row."""
    is_known, values = (~targets.isnan()).float(), targets.nan_to_num(0).float()
    if weights is not None:
        is_known = is_known * weights.float().unsqueeze(1)
    if loss.task_type == "regression":
        return torch.stack([values * is_known, is_known])
    if loss.task_type == "multiclass":
        one_hot = [nn.functional.one_hot(v.long(), size) for v, size in zip(values.T, loss.num_classes, strict=True)]
        is_known = is_known.repeat_interleave(torch.tensor(loss.num_classes), 1)
        values = torch.cat(one_hot, 1).float()
    return torch.stack([values * is_known, (1 - values) * is_known])


def _weights_of_kinds(
    sums: Float[Tensor, " row kind output"], targets: Tensor, weights: Tensor, loss: Loss
) -> tuple[Float[Tensor, " kind output"], Float[Tensor, " output"]]:
    """The weight of each kind of features, the same for all classes of a target, and the bias of each output.

    min  Σ_rows loss(b + Σ_k w_k s_k) + ½ Σ_k (w_k − 1)² + ½ Σ_o b_o² / 100    for each target
    """
    from scipy.optimize import minimize

    class_counts = torch.tensor(loss.num_classes if loss.task_type == "multiclass" else [1] * targets.shape[1])
    sums, targets, weights = sums.double(), targets.double(), weights.double()
    sizes = [NUM_KINDS * len(class_counts), sums.shape[2]]

    def parts(values: Tensor) -> tuple[Tensor, Tensor]:
        target_weights, bias = values.split(sizes)
        return target_weights.view(NUM_KINDS, -1).repeat_interleave(class_counts, 1), bias

    def objective(array: np.ndarray) -> tuple[float, np.ndarray]:
        values = torch.from_numpy(array).requires_grad_()
        kind_weights, bias = parts(values)
        total, count = loss(bias + (sums * kind_weights).sum(1), targets, weights)
        penalty = PRIOR * (values[: sizes[0]] - 1).square().sum() + PRIOR_OF_BIAS * bias.square().sum()
        mean = (total + penalty / 2) / count.clamp(min=1)
        (gradient,) = torch.autograd.grad(mean, values)
        return mean.item(), gradient.numpy()

    start = np.concatenate([np.ones(sizes[0]), np.zeros(sizes[1])])
    with torch.enable_grad():
        optimum = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": MAX_STEPS, "ftol": 1e-10})
    kind_weights, bias = parts(torch.from_numpy(optimum.x))
    return kind_weights.float(), bias.float()


def _starts(offsets: Int64[Tensor, " boundary"]) -> Int64[Tensor, " row"]:
    """Where each text with a token starts."""
    return offsets[:-1][offsets.diff() > 0]


def _packed(texts: Sequence[np.ndarray]) -> tuple[Int64[Tensor, " token"], Int64[Tensor, " boundary"]]:
    """Texts one after the other, and where each starts and the last ends."""
    tokens = np.concatenate([np.zeros(0, np.int64), *texts])
    return torch.from_numpy(tokens), torch.from_numpy(np.cumsum([0, *map(len, texts)], dtype=np.int64))


def _summed(
    token_outputs: Float[Tensor, " token *output"], offsets: Int64[Tensor, " boundary"]
) -> Float[Tensor, " row *output"]:
    """The sums over the tokens of each text."""
    lengths = offsets.diff()
    rows = torch.arange(len(lengths), device=lengths.device)
    rows = rows.repeat_interleave(lengths, output_size=len(token_outputs))
    return token_outputs.new_zeros(len(lengths), *token_outputs.shape[1:]).index_add(0, rows, token_outputs)


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
