"""Batches of rows in an order that depends on nothing but the seed and the epoch."""

import math
from collections.abc import Callable, Iterator

import numpy as np

from edgewise.records import Batch


class RowLoader:
    """Serves the given rows as batches of nearly equal size; shuffled anew in every epoch when a seed is given.

    Args:
        rows: Row numbers, (row).
        make_batch: Turns row numbers into a batch.
        batch_size: Rows a batch, at most.
        seed: Seed of the order; None keeps the order of `rows`, and the batches once made.
    """

    def __init__(
        self,
        rows: np.ndarray,
        make_batch: Callable[[np.ndarray], Batch],
        batch_size: int,
        seed: int | None = None,
    ):
        self.rows = np.asarray(rows, dtype=np.int64)
        self.make_batch = make_batch
        self.num_batches = math.ceil(len(self.rows) / batch_size)
        self.seed = seed
        self.epoch = 0
        self.kept: list[Batch] = []

    def __len__(self) -> int:
        return self.num_batches

    def __iter__(self) -> Iterator[Batch]:
        # Generators start at the first `next`: by then the epoch's number has been set.
        if self.seed is not None:
            for rows in np.array_split(
                np.random.default_rng([self.seed, self.epoch]).permutation(self.rows), len(self)
            ):
                yield self.make_batch(rows)
            return
        if not self.kept and len(self):
            self.kept = [self.make_batch(rows) for rows in np.array_split(self.rows, len(self))]
        yield from self.kept


def seed_of(*numbers: int) -> int:
    """One well-mixed seed out of several small numbers, such as the seed and the epoch."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))
