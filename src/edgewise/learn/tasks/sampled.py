"""Training rows of one graph in batches that see a sampled neighborhood instead of the whole graph."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np
import torch

from edgewise.errors import plural
from edgewise.graph import Batch, Graph, Supervision
from edgewise.learn.networks.graph_settings import NodeSettings
from edgewise.learn.readers.graphs.union import offsets_of, runs
from edgewise.learn.readers.store.graph import StoredNodes
from edgewise.learn.tasks.batches import RowBatches
from edgewise.learn.tasks.task import Prepared
from edgewise.learn.training.device import pick_device
from edgewise.learn.training.estimate import of_counts, size
from edgewise.learn.training.loader import Idle, Shard
from edgewise.learn.training.settings import TrainSettings
from edgewise.neighborhood import Edges
from edgewise.sampling import NeighborSampler
from edgewise.sampling.ahead import ahead

NUM_WORKERS = 1
"""Threads that sample while the model trains."""
SAMPLED_BATCH_SIZE = 1024
"""Rows a batch where neighbors are sampled, unless a batch size is given."""
FANOUTS = (15, 10, 5)
"""Edges a node in each hop where the whole graph does not fit; further hops have the last."""


Sample: TypeAlias = Callable[[np.ndarray, int, int], Batch]
"""From rows, epoch and batch to these rows and the graph that is sampled around them, which follows from the seed."""


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
        sample: draws the graph around rows.
        rows: those to learn from.
        batch_size: rows a batch, at most; the rows of an epoch are shared out evenly.
        seed: of the order.
    """

    def __init__(self, batches: RowBatches, sample: Sample, rows: np.ndarray, batch_size: int, seed: int):
        self.batches, self.sample, self.seed = batches, sample, seed
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
        return self.sample(rows, epoch, batch).with_targets(torch.from_numpy(targets), torch.from_numpy(weights))


def sampled_loader(
    rows: np.ndarray, batches: RowBatches, fanouts: Sequence[int], recipe: TrainSettings
) -> SampledLoader:
    """Batches of rows of a graph, in memory or in the files of a store."""
    graph, seed = batches.graph, recipe.seed
    assert graph is not None
    stored = graph.stored
    sampler = stored.sampler(fanouts, seed) if isinstance(stored, StoredNodes) else GraphSampler(graph, fanouts, seed)
    return SampledLoader(batches, sampler.sample, rows, recipe.batch_size or SAMPLED_BATCH_SIZE, seed)


def sampled_if_large(prepared: Prepared, batch_size: int | None) -> Prepared:
    """The same run with sampled neighbors where a step over the whole graph would not fit into memory.

    Args:
        prepared: a run over one graph.
        batch_size: the one that was given.
    """
    settings = prepared.settings
    if settings.fanouts or settings.model.num_virtual_nodes or not settings.train.check_memory:
        return prepared
    data, fitted = prepared.data, prepared.fitted
    num_nodes, width = data.features.shape
    num_edges = data.num_edges + num_nodes * settings.model.has_loops
    # What is read into memory before the first step: features, ends of edges and their plan, what is known of edges.
    read = 4 * num_nodes * width + num_edges * (40 + 4 * fitted.encoder.sizes.num_edge_features)
    with torch.device("meta"):
        model = fitted.new_member()
    device = pick_device(settings.train.device)
    full_step = of_counts(model, num_nodes, num_edges, settings.train, device, read if data.edges is None else 0)
    if full_step.available is None or full_step.needed <= full_step.available:
        return prepared
    hops = min(settings.model.reach, len(FANOUTS)) if settings.model.spec.over_distances else settings.model.reach
    fanouts = tuple(FANOUTS[min(hop, len(FANOUTS) - 1)] for hop in range(hops))
    chosen = replace(
        settings, fanouts=fanouts, train=replace(settings.train, batch_size=batch_size or SAMPLED_BATCH_SIZE)
    )
    line = (
        f"neighbors are sampled, --fanouts {' '.join(map(str, fanouts))}: a step over the whole graph needs about "
        f"{size(full_step.needed)} of memory, and {size(full_step.available)} are available"
    )
    return replace(prepared, settings=chosen, decisions=(*prepared.decisions, line))


def note_of_fanouts(fanouts: Sequence[int], model: NodeSettings, batch_size: int | None) -> str:
    """What a step samples."""
    around = plural(batch_size or SAMPLED_BATCH_SIZE, "node")
    hops = ", then ".join("all" if count < 0 else f"up to {count:,}" for count in fanouts)
    note = f"a step samples {hops} edges a node around {around}; validation sees the whole graph"
    if len(fanouts) < model.reach:
        note += f"; the model reaches {plural(model.reach, 'hop')}, --fanouts has {len(fanouts)}"
    return note
