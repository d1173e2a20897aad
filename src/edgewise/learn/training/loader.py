"""Batches of rows in an order that depends on the seed and the epoch alone."""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import Field, dataclass
from typing import ClassVar, Protocol, Self, TypeVar

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from edgewise.learn.batches.tokens import TokenBatch

CACHED_ROWS = 2**14
"""Loaders with at most this many rows and no seed keep their batches in memory from one epoch to the next."""


class BatchLike(Protocol):
    """Rows as a network takes them, with what it learns from them: a dataclass."""

    __dataclass_fields__: "ClassVar[dict[str, Field[object]]]"

    @property
    def targets(self) -> Tensor | None:
        """In model units, class numbers or numbers of tokens; None where nothing is learned."""

    @property
    def weights(self) -> Tensor | None:
        """How much each row counts; None where all count the same."""

    def to(self, device: torch.device | str, /) -> Self:
        """The same on another device."""


BatchT = TypeVar("BatchT", bound=BatchLike)


@dataclass(frozen=True)
class Shard:
    """The share of each batch that one of several processes computes; together they compute the whole batch."""

    rank: int = 0
    """The number of this process, from 0."""
    size: int = 1
    """The number of processes."""

    def of(self, rows: np.ndarray) -> np.ndarray:
        """The share of the rows of a batch: no two processes have the same row, and none is left out."""
        return rows if self.size == 1 else np.array_split(rows, self.size)[self.rank]

    def batch(self, rows: np.ndarray, make_batch: Callable[[np.ndarray], BatchT]) -> "BatchT | Idle":
        """The share of a batch; `Idle` where there are fewer rows than processes, and none for this one."""
        share = self.of(rows)
        return make_batch(share) if len(share) or not len(rows) else Idle(make_batch(rows[:1]))


@dataclass(frozen=True, eq=False)
class Idle:
    """A batch of weight zero: its process takes part in a step without rows for it."""

    batch: BatchLike
    """The batch that is computed nevertheless, as all processes have to run the same layers."""


class Loader(Protocol):
    """The batches of a training, epoch after epoch."""

    epoch: int
    """The number of the epoch that the next iteration is for."""
    shard: Shard
    """The share of each batch that is served: the batches themselves do not depend on it."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[BatchLike | Idle]: ...


class StepLoader:
    """A loader whose epochs have a chosen number of steps, cut from the epochs of another one.

    Args:
        loader: Its batches depend on its epoch alone.
        num_steps: The steps of an epoch.
    """

    def __init__(self, loader: Loader, num_steps: int):
        self.loader = loader
        self.num_steps = num_steps
        self.epoch, self.shard = 0, loader.shard
        self.next_step = -1
        self.batches: Iterator[BatchLike | Idle] = iter(())

    def __len__(self) -> int:
        return self.num_steps

    def __iter__(self) -> Iterator[BatchLike | Idle]:
        self.loader.shard = self.shard
        first = self.epoch * self.num_steps
        for step in range(first, first + self.num_steps):
            # Go on with the epoch of the other loader; a resumed run makes the batches before it and drops them.
            if step != self.next_step or step % len(self.loader) == 0:
                self.loader.epoch, offset = divmod(step, len(self.loader))
                self.batches = itertools.islice(self.loader, offset, None)
            self.next_step = step + 1
            yield next(self.batches)


class RowLoader:
    """Serves the given rows as batches of nearly equal size; shuffled anew in every epoch when a seed is given.

    Args:
        rows: Row numbers, (row).
        make_batch: Turns row numbers into a batch.
        batch_size: Rows a batch, at most.
        seed: Seed of the order; None keeps the order of `rows`, and up to `CACHED_ROWS` the batches once made.
    """

    def __init__(
        self,
        rows: np.ndarray,
        make_batch: Callable[[np.ndarray], BatchLike],
        batch_size: int,
        seed: int | None = None,
    ):
        self.rows = np.asarray(rows, dtype=np.int64)
        self.make_batch = make_batch
        self.num_batches = math.ceil(len(self.rows) / batch_size)
        self.seed = seed
        self.epoch, self.shard = 0, Shard()
        self.cached: list[BatchLike | Idle] = []

    def __len__(self) -> int:
        return self.num_batches

    def __iter__(self) -> Iterator[BatchLike | Idle]:
        if not len(self):
            return
        # The body runs at the first `next`, so `epoch` and `shard` may be set after `iter`.
        if self.seed is not None:
            for rows in np.array_split(
                np.random.default_rng([self.seed, self.epoch]).permutation(self.rows), len(self)
            ):
                yield self.shard.batch(rows, self.make_batch)
            return
        if self.cached:
            yield from self.cached
            return
        batches = (self.shard.batch(rows, self.make_batch) for rows in np.array_split(self.rows, len(self)))
        if len(self.rows) <= CACHED_ROWS:
            self.cached = list(batches)
        yield from self.cached or batches


class WindowLoader:
    """Windows of one long text, each token with the one that follows it.

    With a seed they begin at random positions, drawn anew in every epoch; without one they are consecutive, so that
    every token of the text but the first is predicted once.

    Args:
        tokens: The text.
        context: Tokens of a window.
        batch_size: Windows a batch.
        num_batches: Batches of an epoch, which is for a loader with a seed alone; by default as many as cover the text.
        seed: Seed of the positions.

    Raises:
        ValueError: num_batches without a seed.
    """

    def __init__(
        self,
        tokens: Int64[Tensor, " token"],
        context: int,
        batch_size: int,
        num_batches: int | None = None,
        seed: int | None = None,
    ):
        if num_batches is not None and seed is None:
            raise ValueError("WindowLoader: num_batches needs a seed; without one every window is served once.")
        self.tokens, self.context, self.batch_size, self.seed = tokens, context, batch_size, seed
        self.epoch, self.shard = 0, Shard()
        self.num_whole = (len(tokens) - 1) // context
        has_rest = (len(tokens) - 1) % context > 0
        self.num_batches = math.ceil(self.num_whole / batch_size) + has_rest if num_batches is None else num_batches

    def __len__(self) -> int:
        return self.num_batches

    def __iter__(self) -> Iterator[BatchLike | Idle]:
        if self.seed is not None:
            random = np.random.default_rng([self.seed, self.epoch])
            for _ in range(len(self)):
                starts = random.integers(0, len(self.tokens) - self.context, self.batch_size)
                yield self.shard.batch(starts, self.windows)
            return
        for first in range(0, self.num_whole, self.batch_size):
            starts = np.arange(first, min(first + self.batch_size, self.num_whole)) * self.context
            yield self.shard.batch(starts, self.windows)
        if (remainder := self.tokens[self.num_whole * self.context :]).shape[0] > 1:
            last = TokenBatch(remainder[None, :-1], targets=remainder[None, 1:])
            yield self.shard.batch(np.zeros(1), lambda _: last)  # one row, which the first process gets

    def windows(self, starts: np.ndarray) -> TokenBatch:
        """The windows that begin at these positions."""
        positions = torch.from_numpy(starts)[:, None] + torch.arange(self.context + 1)
        windows = self.tokens[positions]
        return TokenBatch(windows[:, :-1], targets=windows[:, 1:])


class LengthLoader:
    """Batches of rows of similar length, to reduce padding, with a limited number of tokens.

    With a seed, rows of equal length and the batches are shuffled anew in every epoch.

    Args:
        lengths: Tokens of each row.
        make_batch: Turns row numbers into a batch.
        batch_tokens: Tokens of a batch, padding included, at most (a longer row is a batch of its own).
        seed: Seed of the order; with None the batches of the shortest rows come first, always the same.
    """

    def __init__(
        self,
        lengths: np.ndarray,
        make_batch: Callable[[np.ndarray], BatchLike],
        batch_tokens: int,
        seed: int | None = None,
    ):
        self.lengths, self.make_batch, self.seed = np.asarray(lengths), make_batch, seed
        self.epoch, self.shard = 0, Shard()
        ordered = np.sort(self.lengths)
        # Whatever the order of rows of one length, the lengths of a batch, and so their number, stay the same.
        self.cuts = [0]
        for row, length in enumerate(ordered):
            if row > self.cuts[-1] and length * (row + 1 - self.cuts[-1]) > batch_tokens:
                self.cuts.append(row)

    def __len__(self) -> int:
        return len(self.cuts) if len(self.lengths) else 0

    def __iter__(self) -> Iterator[BatchLike | Idle]:
        random = None if self.seed is None else np.random.default_rng([self.seed, self.epoch])
        tie = np.arange(len(self.lengths)) if random is None else random.permutation(len(self.lengths))
        batches = np.split(np.lexsort([tie, self.lengths]), self.cuts[1:])
        for number in range(len(self)) if random is None else random.permutation(len(self)):
            yield self.shard.batch(batches[number], self.make_batch)


def seed_of(*numbers: int) -> int:
    """One well-mixed seed out of several small numbers, such as the seed and the epoch."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))
