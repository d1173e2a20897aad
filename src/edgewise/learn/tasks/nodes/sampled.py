"""Training rows of one graph in batches that see a sampled neighborhood instead of the whole graph."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np
import torch

from edgewise.graph import Batch, Graph, Supervision
from edgewise.learn.readers.graphs.union import offsets_of, runs
from edgewise.learn.tasks.batches import RowBatches
from edgewise.learn.training.loader import Idle, Shard
from edgewise.neighborhood import Edges
from edgewise.sampling import NeighborSampler
from edgewise.sampling.ahead import ahead

NUM_WORKERS = 1
"""Threads that sample while the model trains."""


@runtime_checkable
class Samples(Protocol):
    """Samples the graph around rows."""

    def sample(self, rows: np.ndarray, epoch: int, batch: int) -> Batch:
        """Rows and the sampled graph around them; it follows from the seed, the epoch and the batch."""


class GraphSampler:
    """Samples around rows of a graph in memory. A self-loop is not sampled: a node keeps its own.

    Args:
        graph: all of it, in the units of a model.
        fanouts: edges a node in each hop.
        seed: of the samples.
    """

    def __init__(self, graph: Graph, fanouts: Sequence[int], seed: int):
        self.graph, edges = graph, graph.edges
        num_nodes = edges.num_receivers
        is_loop = edges.senders == edges.receivers
        self.links = (~is_loop).nonzero().flatten()
        loops = is_loop.nonzero().flatten()
        self.loops = loops[edges.receivers[loops].argsort(stable=True)]
        self.loop_offsets = offsets_of(np.bincount(edges.receivers[loops].numpy(), minlength=num_nodes))
        edges_without_loops = Edges(edges.senders[self.links], edges.receivers[self.links], num_nodes, num_nodes)
        self.sampler = NeighborSampler(Graph(None, edges_without_loops), fanouts, seed=seed)

    def sample(self, rows: np.ndarray, epoch: int, batch: int) -> Batch:
        """Rows and the sampled graph around them."""
        sample = self.sampler.sample(rows, epoch=epoch, batch=batch)
        nodes, size = sample.n_id.numpy(), len(sample.n_id)
        positions, offsets = runs(self.loop_offsets, nodes)
        looped = torch.from_numpy(np.repeat(np.arange(size), np.diff(offsets)))
        edges = sample.graph.edges
        senders, receivers = torch.cat([edges.senders, looped]), torch.cat([edges.receivers, looped])
        of_edges = torch.cat([self.links[sample.e_id], self.loops[torch.from_numpy(positions)]])
        part = self.graph.select(sample.n_id, of_edges, Edges(senders, receivers, size, size), None)
        return Batch(part, Supervision(nodes=sample.seeds))


class SampledLoader:
    """Batches of training rows, each with the neighborhood that is sampled around it.

    The order of the rows follows from (seed, epoch), a sample from (seed, epoch, batch): a run that is continued sees
    the batches that it would have seen. Where processes share a batch, each samples around its own rows.

    Args:
        batches: the rows and their targets.
        samples: draws the graph around rows.
        rows: those to learn from.
        batch_size: rows a batch, at most; the rows of an epoch are shared out evenly.
        seed: of the order.
    """

    def __init__(self, batches: RowBatches, samples: Samples, rows: np.ndarray, batch_size: int, seed: int):
        self.batches, self.samples, self.seed = batches, samples, seed
        self.rows = np.asarray(rows, dtype=np.int64)
        self.num_batches = -(-len(self.rows) // batch_size)
        self.epoch, self.shard = 0, Shard()

    def __len__(self) -> int:
        return self.num_batches

    def __iter__(self) -> Iterator[Batch | Idle]:
        # A generator starts at the first `next`: by then the number of the epoch has been set.
        epoch = self.epoch
        order = np.random.default_rng([self.seed, epoch]).permutation(self.rows)
        yield from ahead(
            lambda batch: self.shard.batch(batch[1], partial(self.batch, epoch=epoch, batch=batch[0])),
            enumerate(np.array_split(order, len(self))),
            NUM_WORKERS,
        )

    def batch(self, rows: np.ndarray, epoch: int, batch: int) -> Batch:
        """Rows, their targets, and the sampled graph around them."""
        targets, weights = self.batches.targets[rows], self.batches.weights[rows]
        sample = self.samples.sample(rows, epoch, batch)
        return sample.with_targets(torch.from_numpy(targets), torch.from_numpy(weights))
