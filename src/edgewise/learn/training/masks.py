"""Masked tokens: texts in chunks, the choice of masked tokens, and batches of them."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from edgewise.learn.batches.tokens import MaskedBatch
from edgewise.learn.training.loader import Idle, Shard

MASKED, SWAPPED = 0.8, 0.1
"""The shares of the tokens to predict that become the mask, and a random token. The rest stays, since texts at
prediction time are without masks."""
FIXED_DRAW = 2019
"""Seed of the masks for validation and test: the same for all models of one text."""


@dataclass(frozen=True, eq=False)
class TokenChunks:
    """Texts as tokens, concatenated, in chunks of at most the model's context."""

    numbers: np.ndarray
    """(token): numbers in the vocabulary."""
    offsets: np.ndarray
    """(chunk + 1): tokens of chunk p are `offsets[p]:offsets[p + 1]`."""
    num_texts: int
    """The number of texts."""
    num_cut: int
    """The number of texts that were longer than the context, and are several chunks."""

    @classmethod
    def of(cls, texts: Sequence[np.ndarray], context: int) -> "TokenChunks":
        """Texts, those with more than `context` tokens cut into chunks of that length; the last one may be shorter."""
        stops, num_tokens = [0], 0
        for text in texts:
            stops += range(num_tokens + context, num_tokens + len(text), context)
            num_tokens += len(text)
            if len(text):
                stops.append(num_tokens)
        numbers = np.concatenate([np.zeros(0, np.int64), *texts])
        return cls(numbers, np.array(stops), len(texts), sum(len(text) > context for text in texts))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def packed(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The tokens of some chunks, concatenated, and where each begins."""
        starts, lengths = self.offsets[rows], self.offsets[rows + 1] - self.offsets[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        positions = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return self.numbers[positions], offsets


@dataclass(frozen=True, eq=False)
class Masking:
    """Chooses the tokens of a text that are masked, and their replacements.

    A share of the tokens is to be predicted. Of these 80 % become the mask, 10 % a token drawn at random, 10 % stay.

    Source: Devlin et al. 2019, section 3.1.
    """

    mask: int
    """The mask token."""
    ordinary: np.ndarray
    """The tokens that can be masked, and drawn: all but the special ones."""
    part: float = 0.15
    """The share of tokens to predict."""

    def able(self, numbers: np.ndarray) -> np.ndarray:
        """The positions at which a token can be masked."""
        return np.flatnonzero(np.isin(numbers, self.ordinary))

    def __call__(self, numbers: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The tokens with some of them masked, and the masked positions: at least one, where any can be."""
        able = self.able(numbers)
        count = min(len(able), max(1, round(self.part * len(able))))
        masked_positions = np.sort(random.choice(able, count, replace=False))
        draw, hidden = random.random(count), numbers.copy()
        hidden[masked_positions[draw < MASKED]] = self.mask
        swapped = masked_positions[(draw >= MASKED) & (draw < MASKED + SWAPPED)]
        hidden[swapped] = random.choice(self.ordinary, len(swapped))
        return hidden, masked_positions


class MaskLoader:
    """Batches of about the same number of tokens, concatenated, some of them masked.

    With a seed, order and masked tokens are drawn anew in every epoch, from the seed and its number alone; without one
    the order is that of the chunks, and the draw always the same.

    Args:
        chunks: The texts.
        masking: Chooses the masked tokens.
        batch_tokens: Tokens of a batch, approximately: chunks are not cut.
        seed: Seed of the draws.
    """

    def __init__(self, chunks: TokenChunks, masking: Masking, batch_tokens: int, seed: int | None = None):
        self.chunks, self.masking, self.seed = chunks, masking, seed
        self.epoch, self.shard = 0, Shard()
        # A number that does not depend on the order: the steps of all epochs are counted before the first.
        self.num_batches = min(len(chunks), math.ceil(len(chunks.numbers) / batch_tokens))
        self.cached: list[MaskedBatch | Idle] = []

    def __len__(self) -> int:
        return self.num_batches

    def __iter__(self) -> Iterator[MaskedBatch | Idle]:
        # The body runs at the first `next`, so `epoch` and `shard` may be set after `iter`.
        if self.seed is not None:
            random = np.random.default_rng([self.seed, self.epoch])
            yield from self.batches(random.permutation(len(self.chunks)), random)
            return
        if not self.cached:
            self.cached = list(self.batches(np.arange(len(self.chunks)), np.random.default_rng(FIXED_DRAW)))
        yield from self.cached

    def batches(self, order: np.ndarray, random: np.random.Generator) -> Iterator[MaskedBatch | Idle]:
        """The chunks in an order, divided evenly into batches."""
        if not len(self):
            return
        ends = np.cumsum(np.diff(self.chunks.offsets)[order])
        inner = np.arange(1, len(self))
        # Cut where an even share ends, but so that every batch has a chunk.
        spare = np.searchsorted(ends, inner * (ends[-1] / len(self))) + 1 - inner
        cuts = inner + np.maximum.accumulate(spare.clip(0, len(order) - len(self)))
        for rows in np.split(order, cuts):
            numbers, offsets = self.chunks.packed(rows)
            # Masks are drawn for the whole batch: they must not depend on the number of processes that share it.
            masked = (numbers, offsets, *self.masking(numbers, random))
            yield self.shard.batch(np.arange(len(rows)), partial(masked_batch, *masked))


def masked_batch(
    numbers: np.ndarray, offsets: np.ndarray, hidden: np.ndarray, all_positions: np.ndarray, chosen: np.ndarray
) -> MaskedBatch:
    """Some consecutive chunks of a packed batch.

    Args:
        numbers, offsets: the tokens of all chunks, and where each chunk begins and ends.
        hidden: the tokens, some of them masked, at `all_positions`.
        chosen: numbers of the chunks.
    """
    bounds = offsets[chosen[0] : chosen[-1] + 2]
    first, last = bounds[0], bounds[-1]
    masked_positions = all_positions[(all_positions >= first) & (all_positions < last)]
    tokens, targets = torch.from_numpy(hidden[first:last]), torch.from_numpy(numbers[masked_positions])
    return MaskedBatch(tokens, torch.from_numpy(bounds - first), torch.from_numpy(masked_positions - first), targets)
