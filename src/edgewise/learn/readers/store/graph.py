"""The graph of a store in the units of a model: sampled around rows, in parts for a layer, or whole."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from edgewise.graph import Batch, Graph, Supervision
from edgewise.learn.files import mapped_array
from edgewise.learn.memory import available_memory
from edgewise.learn.readers.graphs.union import runs
from edgewise.learn.readers.store.data import EDGE_CHUNK, StoredNodeData
from edgewise.learn.tables.impute import Imputer
from edgewise.neighborhood import Edges
from edgewise.sampling import NeighborSampler
from edgewise.sampling.incoming import Incoming

MEMORY_SHARE, MIN_BYTES, MAX_BYTES = 32, 2**21, 2**26
"""The part of the free memory that the vectors of a part may take, and its bounds."""
MAX_ROWS = 2**18
"""Nodes of a part, at most."""


class StoredNodes:
    """The graph of a store, from which parts are read.

    Args:
        data: the nodes.
        scale: from features as they stand in the files, `(node, feature)`, to the units of the model.
        has_loops: whether each node without a loop gets one.
        reads_weights: whether the one feature of an edge is its weight.
        reads_sender_degrees: whether layers divide by how many edges come to a sender.
        adds_degrees: whether in- and out-degree are features, too.
        imputer: fills the missing numbers of edges.
        are_marked: whether further features of an edge say which of its numbers were filled.
        scratch: the folder for what does not fit into memory; that of temporary files by default.
    """

    def __init__(
        self,
        data: StoredNodeData,
        scale: Callable[[np.ndarray], torch.Tensor],
        *,
        has_loops: bool,
        reads_weights: bool,
        reads_sender_degrees: bool,
        adds_degrees: bool = False,
        imputer: Imputer,
        are_marked: bool,
        scratch: str | None = None,
    ):
        self.stored_features = replace(data.features, adds_degrees=adds_degrees)
        self.data, self.store, self.scale = data, data.store, scale
        self.has_loops, self.reads_sender_degrees = has_loops, reads_sender_degrees
        self.num_nodes, self.scratch_folder = data.store.num_nodes, scratch
        self.offsets, self.links = (self.store.array(f"incoming_{name}") for name in ("offsets", "links"))
        self.loops = self.store.array("loops")
        self.reads_weights, self.imputer, self.are_marked = reads_weights, imputer, are_marked
        self._weights: np.ndarray | None = None
        self._kept: dict[tuple[int, str], tuple[nn.Module, tuple[int, ...], torch.Tensor]] = {}

    def features(self, nodes: np.ndarray) -> torch.Tensor:
        """The features of some nodes, in model units."""
        return self.scale(self.stored_features.of_rows(nodes))

    def scratch(self, shape: tuple[int, int]) -> np.ndarray:
        """An array in a file without a name."""
        return mapped_array(shape, np.float32, self.scratch_folder)

    def parts(self, nodes: np.ndarray, width: int, *, with_edges: bool) -> Iterator[tuple[np.ndarray, Graph, int]]:
        """Some nodes in turn; see `edgewise.graph.StoredGraph`."""
        free = available_memory() or MAX_BYTES * MEMORY_SHARE
        room = min(max(free // MEMORY_SHARE, MIN_BYTES), MAX_BYTES) // (4 * max(width, self.stored_features.shape[1]))
        start = 0
        while start < len(nodes):
            rows = nodes[start : start + min(MAX_ROWS, max(room, 1))]
            if with_edges:
                counts = self.offsets[rows + 1].astype(np.int64) - self.offsets[rows] + 1
                rows = rows[: max(1, int(np.searchsorted(np.cumsum(counts), room, side="right")))]
            yield self._part(rows) if with_edges else (rows, self._without_edges(len(rows)), len(rows))
            start += len(rows)

    @property
    def graph(self) -> Graph:
        """The whole graph, which stays in its files."""
        return Graph.unchecked(None, no_edges(self.num_nodes), stored=self)

    def _without_edges(self, count: int) -> Graph:
        num_features = self.num_edge_features
        return Graph.unchecked(None, no_edges(count), torch.zeros(0, num_features) if num_features else None)

    def _part(self, rows: np.ndarray) -> tuple[np.ndarray, Graph, int]:
        """Some nodes, ascending, with all edges that come to them."""
        edges, ends = runs(self.offsets, rows)
        senders = self.links[edges, 0].astype(np.int64)
        nodes = self._with_senders(rows, senders)
        self._place[nodes] = np.arange(len(nodes))
        local = self._place[senders]
        receivers = np.repeat(np.arange(len(rows)), np.diff(ends))
        local_edges, features = self.edges(nodes, local, receivers, edges, np.arange(len(rows)))
        degrees = self.degrees(nodes) if self.reads_sender_degrees else None
        return nodes, Graph.unchecked(None, local_edges, features, full_degrees=degrees), len(rows)

    def _with_senders(self, rows: np.ndarray, senders: np.ndarray) -> np.ndarray:
        """Some nodes, then the other senders of their edges, ascending; marks are faster than a sort of all senders."""
        self._is_sender[senders] = True
        self._is_sender[rows] = False
        others = np.flatnonzero(self._is_sender)
        self._is_sender[others] = False
        return np.concatenate([rows, others])

    @cached_property
    def _is_sender(self) -> np.ndarray:
        return mapped_array((self.num_nodes,), np.bool_, self.scratch_folder)

    @cached_property
    def _place(self) -> np.ndarray:
        """Where nodes stand in the part that was read last; of others it says nothing."""
        return mapped_array((self.num_nodes,), np.int32, self.scratch_folder)

    @property
    def num_edge_features(self) -> int:
        """Numbers of an edge as the model reads them; loops that were added have a mark."""
        num_features = self.data.num_edge_features + len(self.imputer.marked) * self.are_marked
        return num_features + (num_features > 0 and self.has_loops)

    def degrees(self, nodes: np.ndarray) -> torch.Tensor:
        """Edges that come to some nodes, or the sums of their weights."""
        if not self.reads_weights:
            num_loops = np.searchsorted(self.loops, nodes, side="right") - np.searchsorted(self.loops, nodes)
            return torch.from_numpy(self.offsets[nodes + 1].astype(np.int64) - self.offsets[nodes] + num_loops).float()
        if self._weights is None:
            self._weights = self._summed_weights()
        return torch.from_numpy(self._weights[nodes])

    def _summed_weights(self) -> np.ndarray:
        sums = mapped_array((self.num_nodes,), np.float32, self.scratch_folder)
        for start in range(0, self.num_nodes, MAX_ROWS):
            stop = min(start + MAX_ROWS, self.num_nodes)
            low, high = int(self.offsets[start]), int(self.offsets[stop])
            for first in range(low, high, EDGE_CHUNK):
                edges = np.arange(first, min(first + EDGE_CHUNK, high))
                of_edge = np.searchsorted(self.offsets[start : stop + 1], edges, side="right") - 1
                weights = self._edge_features("edge", edges)[:, 0]
                sums[start:stop] += np.bincount(of_edge, weights, minlength=stop - start).astype(np.float32)
        np.add.at(sums, self.loops, self._edge_features("loop", np.arange(len(self.loops)))[:, 0])
        return sums

    def edges(
        self, nodes: np.ndarray, senders: np.ndarray, receivers: np.ndarray, places: np.ndarray, looped: np.ndarray
    ) -> tuple[Edges, torch.Tensor | None]:
        """Edges between some nodes, their loops, and the features of both.

        Args:
            nodes: by number.
            senders, receivers: the ends of the edges without self-loops, as positions in `nodes`.
            places: where the edges stand in the store.
            looped: the places in `nodes` of those that get their loops.
        """
        first, last = (np.searchsorted(self.loops, nodes[looped], side=side) for side in ("left", "right"))
        counts = last - first
        own_loops = np.repeat(last - counts.cumsum(), counts) + np.arange(counts.sum())
        at_loops = np.repeat(looped, counts)
        added = looped[counts == 0] if self.has_loops else looped[:0]
        ends = [np.concatenate([side, at_loops, added]).astype(np.int64) for side in (senders, receivers)]
        local_edges = Edges(torch.from_numpy(ends[0]), torch.from_numpy(ends[1]), len(nodes), len(nodes))
        tables = [self._edge_features("edge", places), self._edge_features("loop", own_loops)]
        features = torch.from_numpy(np.concatenate(tables))
        if not features.shape[1]:
            return local_edges, None
        if self.has_loops:
            marked = F.pad(features.new_ones(len(added), 1), (features.shape[1], 0))
            features = torch.cat([F.pad(features, (0, 1)), marked])
        return local_edges, features

    def _edge_features(self, kind: str, places: np.ndarray) -> np.ndarray:
        """What is known of some edges, or loops, filled."""
        return self.imputer.complete(self.data.edge_features(kind, places), are_marked=self.are_marked)

    def whole(self) -> Graph:
        """The whole graph, in memory."""
        everyone = np.arange(self.num_nodes)
        edges = np.arange(len(self.links))
        counts = self.offsets[1:].astype(np.int64) - self.offsets[:-1]
        receivers = np.repeat(everyone, counts)
        local_edges, edge_features = self.edges(everyone, self.links[:, 0].astype(np.int64), receivers, edges, everyone)
        features = torch.cat([self.features(rows) for rows in np.array_split(everyone, self.num_nodes // MAX_ROWS + 1)])
        return Graph(features, local_edges, edge_features)

    def sampler(self, fanouts: Sequence[int], seed: int) -> "StoreSampler":
        """Samples around rows."""
        return StoreSampler(self, fanouts, seed)

    def outputs(self, member: nn.Module, compute: Callable[[], torch.Tensor], kind: str) -> torch.Tensor:
        """What a model gives for all nodes, computed once as long as its weights stay."""
        key, versions = (id(member), kind), tuple(weight._version for weight in member.parameters())
        # The model is kept too: while it is, no other has its id.
        if key not in self._kept or self._kept[key][1] != versions:
            self._kept[key] = member, versions, compute()
        return self._kept[key][2]


class StoreSampler:
    """Samples around rows of a store.

    Args:
        nodes: the graph.
        fanouts: edges a node in each hop.
        seed: of the samples.
    """

    def __init__(self, nodes: StoredNodes, fanouts: Sequence[int], seed: int):
        self.nodes = nodes
        graph = Graph(None, no_edges(nodes.num_nodes))
        empty = np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0)
        # The files of a store are compared with their checksums where they may have changed.
        incoming = Incoming(nodes.offsets, nodes.links, *empty, is_trusted=True)
        self.sampler = NeighborSampler(graph, fanouts, seed=seed, incoming=incoming)

    def sample(self, rows: np.ndarray, epoch: int, batch: int) -> Batch:
        """Rows and the sampled graph around them."""
        sample = self.sampler.sample(rows, epoch=epoch, batch=batch)
        numbers, edges = sample.n_id.numpy(), sample.graph.edges
        ends = edges.senders.numpy(), edges.receivers.numpy()
        local_edges, features = self.nodes.edges(numbers, *ends, sample.e_id.numpy(), np.arange(len(numbers)))
        graph = Graph.unchecked(self.nodes.features(numbers), local_edges, features)
        return Batch(graph, Supervision(nodes=sample.seeds))


def no_edges(num_nodes: int) -> Edges:
    """The edges of a graph that has none."""
    nothing = torch.zeros(0, dtype=torch.int64)
    return Edges(nothing, nothing, num_nodes, num_nodes)
