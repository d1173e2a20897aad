"""Batches of seeds and their samples, prefetched in threads while a model trains."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from edgewise.errors import SettingError, ShapeError
from edgewise.sampling.ahead import ahead
from edgewise.sampling.sample import Sample
from edgewise.sampling.sampler import NeighborSampler, checked_nodes


class NeighborLoader:
    """Samples around the seeds of one epoch, batch after batch.

    The order of the seeds is determined by (seed, epoch), the samples by (seed, epoch, batch), whatever the number of
    threads. Each pass is the next epoch; `loader.epoch = 3` sets it.

    Args:
        sampler: draws the samples.
        seeds: nodes, or a mask; None for all nodes.
        batch_size: seeds per batch; the last batch may have fewer.
        times: the time of each seed, if the sampler has edge times.
        shuffle: whether seeds are shuffled in each epoch.
        drop_last: whether to drop a last batch with fewer seeds.
        num_workers: threads that prefetch samples; they release the GIL. 0 samples when a batch is needed.

    >>> from edgewise.graph import Graph
    >>> graph = Graph.of(torch.tensor([[1, 2, 0], [0, 1, 2]]))
    >>> loader = NeighborLoader(NeighborSampler(graph, [1]), batch_size=2)
    >>> [sample.n_id.tolist() for sample in loader]
    [[0, 1, 2], [2, 0]]
    """

    def __init__(
        self,
        sampler: NeighborSampler,
        seeds: Any = None,
        *,
        batch_size: int = 1024,
        times: Any = None,
        shuffle: bool = False,
        drop_last: bool = False,
        num_workers: int = 1,
    ):
        if batch_size < 1:
            raise SettingError(f"NeighborLoader: batch_size is {batch_size}; expected at least 1.")
        if num_workers < 0:
            raise SettingError(f"NeighborLoader: num_workers is {num_workers}; expected 0 or more threads.")

        num_nodes = sampler.graph.num_nodes
        self.sampler = sampler
        self.seeds = checked_nodes(
            "seeds", torch.arange(num_nodes, device="cpu") if seeds is None else seeds, num_nodes
        )
        self.times = None if times is None else torch.as_tensor(times, device="cpu")

        if self.times is not None and self.times.shape != (len(self.seeds),):
            raise ShapeError(
                f"NeighborLoader: times is {tuple(self.times.shape)}, expected ({len(self.seeds)},), one per seed."
            )

        self.batch_size, self.shuffle, self.num_workers = batch_size, shuffle, num_workers
        self.num_batches = len(self.seeds) // batch_size if drop_last else math.ceil(len(self.seeds) / batch_size)
        self.epoch = 0

    def __len__(self) -> int:
        return self.num_batches

    def __iter__(self) -> Iterator[Sample]:
        # A generator starts at the first `next`, by which time the epoch may have been set.
        epoch, self.epoch = self.epoch, self.epoch + 1
        order = np.arange(len(self.seeds))
        if self.shuffle:
            order = np.random.default_rng([self.sampler.seed, epoch]).permutation(order)

        def sample_batch(batch: int) -> Sample:
            rows = order[batch * self.batch_size : (batch + 1) * self.batch_size]
            times = None if self.times is None else self.times[rows]
            return self.sampler.sample(torch.from_numpy(self.seeds[rows]), times=times, epoch=epoch, batch=batch)

        yield from ahead(sample_batch, range(len(self)), self.num_workers)
