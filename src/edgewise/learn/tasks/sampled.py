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
from edgewise.learn.training.estimate import in_bytes, of_counts
from edgewise.learn.training.loader import Idle, Shard
from edgewise.learn.training.settings import TrainSettings
from edgewise.neighborhood import Edges
from edgewise.sampling import NeighborSampler
from edgewise.sampling.ahead import ahead

NUM_WORKERS = 1
"""Threads that sample while the model trains."""
SAMPLED_BATCH_SIZE = 1024
"""Rows per batch where neighbors are sampled, unless a batch size is given."""
FANOUTS = (15, 10, 5)
"""Neighbors that are sampled per node in each hop where the whole graph does not fit; further hops have the last."""


SampleBatch: TypeAlias = Callable[[np.ndarray, int, int], Batch]
"""Called with rows, the epoch and the number of the batch; returns these rows and the graph that is sampled around
them. The same arguments give the same sample."""


class GraphSampler:
    """Samples around rows of a graph in memory. Self-loops are not sampled: each sampled node keeps its own.

    Args:
        graph: the whole graph, its features scaled for the model.
        fanouts: neighbors per node in each hop; −1 takes all.
        seed: of the samples.
    """

    def __init__(self, graph: Graph, fanouts: Sequence[int], seed: int):
        self.graph, edges = graph, graph.edges
        num_nodes = edges.num_receivers
        is_loop = edges.senders == edges.receivers
        self.non_loop_ids = (~is_loop).nonzero().flatten()
        loops = is_loop.nonzero().flatten()
        self.loop_ids = loops[edges.receivers[loops].argsort(stable=True)]
        self.loop_offsets = offsets_of(np.bincount(edges.receivers[loops].numpy(), minlength=num_nodes))
        ends = edges.senders[self.non_loop_ids], edges.receivers[self.non_loop_ids]
        edges_without_loops = Edges(*ends, num_nodes, num_nodes)
        self.sampler = NeighborSampler(Graph(None, edges_without_loops), fanouts, seed=seed)

    def sample(self, rows: np.ndarray, epoch: int, batch: int) -> Batch:
        """Rows and the sampled graph around them."""
        sample = self.sampler.sample(rows, epoch=epoch, batch=batch)
        nodes, num_nodes = sample.n_id.numpy(), len(sample.n_id)
        positions, offsets = runs(self.loop_offsets, nodes)
        loop_nodes = torch.from_numpy(np.repeat(np.arange(num_nodes), np.diff(offsets)))
        edges = sample.graph.edges
        ends = torch.cat([edges.senders, loop_nodes]), torch.cat([edges.receivers, loop_nodes])
        edge_ids = torch.cat([self.non_loop_ids[sample.e_id], self.loop_ids[torch.from_numpy(positions)]])
        subgraph = self.graph.select(sample.n_id, edge_ids, Edges(*ends, num_nodes, num_nodes), None)
        return Batch(subgraph, Supervision(nodes=sample.seeds))


class SampledLoader:
    """Batches of training rows, each with the neighborhood that is sampled around it.

    The order of the rows follows from (seed, epoch), a sample from (seed, epoch, batch): a run that is continued sees
    the batches that it would have seen. Where processes share a batch, each samples around its own rows.

    Args:
        batches: the targets and weights of all rows.
        sample: draws the graph around rows.
        rows: the training rows.
        batch_size: rows per batch, at most; the rows of an epoch are shared out evenly.
        seed: shuffles the rows; that of the samples belongs to `sample`.
    """

    def __init__(self, batches: RowBatches, sample: SampleBatch, rows: np.ndarray, batch_size: int, seed: int):
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

        def drawn(numbered_rows: tuple[int, np.ndarray]) -> Batch | Idle:
            number, rows = numbered_rows
            return self.shard.batch(rows, partial(self.batch, epoch=epoch, number=number))

        yield from ahead(drawn, enumerate(np.array_split(order, len(self))), NUM_WORKERS)

    def batch(self, rows: np.ndarray, epoch: int, number: int) -> Batch:
        """Rows, their targets, and the sampled graph around them."""
        targets, weights = self.batches.targets[rows], self.batches.weights[rows]
        return self.sample(rows, epoch, number).with_targets(torch.from_numpy(targets), torch.from_numpy(weights))


def sampled_loader(
    rows: np.ndarray, batches: RowBatches, fanouts: Sequence[int], train_settings: TrainSettings
) -> SampledLoader:
    """Batches of rows of a graph, in memory or in the files of a store."""
    graph, seed = batches.graph, train_settings.seed
    assert graph is not None  # rows of a graph have one
    stored = graph.stored
    sampler = stored.sampler(fanouts, seed) if isinstance(stored, StoredNodes) else GraphSampler(graph, fanouts, seed)
    return SampledLoader(batches, sampler.sample, rows, train_settings.batch_size or SAMPLED_BATCH_SIZE, seed)


def sampled_if_large(prepared: Prepared, batch_size: int | None) -> Prepared:
    """The same run with sampled neighbors where a step over the whole graph would not fit into memory.

    Which of both is decided once: the settings then have fanouts, or `whole_graph`. Nothing is sampled where the memory
    is not to be checked, or the graph has virtual nodes, which sampling would leave without their neighbors.

    Args:
        prepared: a run over one graph, whose batch size is that of a step over the whole graph.
        batch_size: the one that the user gave; None for the default.
    """
    settings = prepared.settings
    if settings.fanouts or settings.whole_graph:
        return prepared
    whole = replace(prepared, settings=replace(settings, whole_graph=True))
    if settings.model.num_virtual_nodes or not settings.train.check_memory:
        return whole
    data, fitted = prepared.data, prepared.fitted
    num_nodes, width = data.features.shape
    num_edges = data.num_edges + num_nodes * settings.model.has_loops
    # Read into memory before the first step: features; both ends, two places in the plan and its order, 8 bytes each
    # for an edge; and the features of edges.
    bytes_to_load = 4 * num_nodes * width + num_edges * (40 + 4 * fitted.encoder.sizes.num_edge_features)
    with torch.device("meta"):
        model = fitted.new_member()
    device = pick_device(settings.train.device)
    full_step = of_counts(
        model, num_nodes, num_edges, settings.train, device, bytes_to_load if data.edges is None else 0
    )
    if full_step.available is None or full_step.needed <= full_step.available:
        return whole
    # A layer over distances reaches all hops: more than those of FANOUTS would sample nearly the whole graph.
    hops = min(settings.model.reach, len(FANOUTS)) if settings.model.spec.over_distances else settings.model.reach
    fanouts = tuple(FANOUTS[min(hop, len(FANOUTS) - 1)] for hop in range(hops))
    chosen = replace(
        settings,
        fanouts=fanouts,
        train=replace(settings.train, batch_size=batch_size or SAMPLED_BATCH_SIZE),
    )
    line = (
        f"neighbors are sampled, --fanouts {' '.join(map(str, fanouts))}: a step over the whole graph needs about "
        f"{in_bytes(full_step.needed)} of memory, and only {in_bytes(full_step.available)} are available"
    )
    return replace(prepared, settings=chosen, decisions=(*prepared.decisions, line))


def note_of_fanouts(fanouts: Sequence[int], model: NodeSettings, batch_size: int | None) -> str:
    """What a step samples."""
    around = plural(batch_size or SAMPLED_BATCH_SIZE, "node")
    hops = ", then ".join("all" if count < 0 else f"up to {count:,}" for count in fanouts)
    note = f"a step samples {hops} neighbors per node around {around}; validation sees the whole graph"
    if len(fanouts) < model.reach:
        note += f"; the model reaches {plural(model.reach, 'hop')}, --fanouts has {len(fanouts)}"
    return note
