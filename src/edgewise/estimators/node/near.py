"""The part of a graph that a node hears of, and the model asked about the node without some of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64

from edgewise.estimators.explained import Explained
from edgewise.models.node_settings import NodeSettings
from edgewise.neighborhood import Edges
from edgewise.records import NodeBatch, SparseFeatures

TOGETHER = 2**18
"""Nodes and edges that are computed at a time, about."""
Removed = tuple[np.ndarray, np.ndarray]
"""Nodes, and edges, that are taken away."""


@dataclass(frozen=True, eq=False)
class Near:
    """What lies within some hops of a node, against the direction of the edges: all that its prediction comes from."""

    nodes: Int64[np.ndarray, " node"]
    """Where each stands in the whole graph; the node itself first, then by hops."""
    hops: Int64[np.ndarray, " node"]
    """How many edges lie between it and the node."""
    batch: NodeBatch
    """These nodes, the edges among them, and the one row that is asked about."""

    @classmethod
    def of(cls, graph: NodeBatch, node: int, reach: int, border: int) -> Self:
        """The nodes within `reach + border` hops and the edges among them that lead to one within `reach − 1 + border`.

        Args:
            graph: all of it, in the units of a model.
            node: the one that is asked about.
            reach: the hops that the model looks.
            border: 1 where a node that is `reach` hops away must still know how many edges come to it.
        """
        senders, receivers = graph.edges.senders.numpy(), graph.edges.receivers.numpy()
        distance = np.full(graph.edges.num_receivers, -1)
        distance[node] = 0
        is_inside = np.zeros(len(senders), dtype=bool)
        for hop in range(1, reach + border + 1):
            is_inside = distance[receivers] >= 0
            found = senders[is_inside]
            found = found[distance[found] < 0]
            distance[found] = hop
            if not len(found):
                break
        nodes = np.flatnonzero(distance >= 0)
        nodes = nodes[np.argsort(distance[nodes], kind="stable")]
        return cls(nodes, distance[nodes], _part(graph, nodes, np.flatnonzero(is_inside)))

    @property
    def size(self) -> int:
        """Nodes and edges: what one computation costs."""
        return len(self.nodes) + self.batch.edges.num_edges


@dataclass(frozen=True, eq=False)
class NodeQuestions:
    """What is told of a node without some nodes and edges.

    A node that is taken away loses its edges, so that nothing of it is heard of. The one that is asked about keeps
    them: its own features become zero, the mean where they are scaled by their spread.
    """

    explained: Explained
    """The number that is told."""
    near: Near
    """All that it comes from."""

    def without_nodes(self, removed: Sequence[np.ndarray]) -> Float64[np.ndarray, " question"]:
        """The number without each of these lists of nodes."""
        return self([(nodes, np.zeros(0, dtype=np.int64)) for nodes in removed])

    def without_edges(self, removed: Sequence[np.ndarray]) -> Float64[np.ndarray, " question"]:
        """The number without each of these lists of edges of the part."""
        return self([(np.zeros(0, dtype=np.int64), edges) for edges in removed])

    def __call__(self, removed: Sequence[Removed]) -> Float64[np.ndarray, " question"]:
        """The number without these nodes and edges, each question in a copy of the graph of its own."""
        step = max(1, TOGETHER // self.near.size)
        told = [self._told(removed[start : start + step]) for start in range(0, len(removed), step)]
        return np.concatenate([np.zeros(0), *told])

    def _told(self, removed: Sequence[Removed]) -> np.ndarray:
        batch, num_nodes = self.near.batch, len(self.near.nodes)
        senders, receivers = batch.edges.senders.numpy(), batch.edges.receivers.numpy()
        edges, copies, is_blank = [], [], np.zeros(len(removed), dtype=bool)
        for copy, (nodes, gone) in enumerate(removed):
            is_cut = np.zeros(num_nodes, dtype=bool)
            is_cut[nodes] = True
            is_blank[copy], is_cut[0] = is_cut[0], False
            # A loop is no way to others, and a node that is cut off is not heard of: loops may stay.
            stays = ~(is_cut[senders] | is_cut[receivers]) | (senders == receivers)
            stays[gone] = False
            edges.append(np.flatnonzero(stays))
            copies.append(np.full(len(edges[-1]), copy))
        return self.explained.of_batch(_copies(batch, np.concatenate(edges), np.concatenate(copies), is_blank))


def border_of(settings: NodeSettings) -> int:
    """1 where a layer divides by how many edges come to a sender, else 0."""
    return int(settings.model in ("gcn", "hops"))


def reach_of(settings: NodeSettings) -> int:
    """How many hops a model looks."""
    return settings.num_hops if settings.model == "hops" else settings.num_layers


def _part(graph: NodeBatch, nodes: np.ndarray, edges: np.ndarray) -> NodeBatch:
    """Some nodes of a graph, in an order, and some edges among them; the first node is the row."""
    place = np.full(graph.edges.num_receivers, -1)
    place[nodes] = np.arange(len(nodes))
    kept = torch.from_numpy(edges)
    senders, receivers = (torch.from_numpy(place)[side[kept]] for side in (graph.edges.senders, graph.edges.receivers))
    return NodeBatch(
        _features_of(graph.features, place, nodes),
        Edges(senders, receivers, len(nodes), len(nodes)),
        graph.edge_features[kept],
        torch.zeros(1, dtype=torch.int64),
    )


def _features_of(
    features: torch.Tensor | SparseFeatures, place: np.ndarray, nodes: np.ndarray
) -> torch.Tensor | SparseFeatures:
    if isinstance(features, torch.Tensor):
        return features[torch.from_numpy(nodes)]
    rows = torch.from_numpy(place)[features.edges.receivers]
    kept = rows >= 0
    # Those of one node behind those of another, as they stand in the whole.
    order = rows[kept].argsort(stable=True)
    entries = Edges(features.edges.senders[kept][order], rows[kept][order], features.shape[1], len(nodes))
    return SparseFeatures(entries, features.values[kept][order])


def _copies(
    batch: NodeBatch, edges: np.ndarray, copy_of_edge: np.ndarray, is_blank: Bool[np.ndarray, " copy"]
) -> NodeBatch:
    """Copies of a part side by side, each with its own edges; where it is blank, its first node has no features."""
    num_nodes, num_copies = batch.edges.num_receivers, len(is_blank)
    kept, shift = torch.from_numpy(edges), torch.from_numpy(copy_of_edge) * num_nodes
    senders, receivers = (side[kept] + shift for side in (batch.edges.senders, batch.edges.receivers))
    blank = torch.from_numpy(is_blank)
    features: torch.Tensor | SparseFeatures
    if isinstance(batch.features, torch.Tensor):
        features = batch.features.repeat(num_copies, 1)
        features[torch.arange(num_copies)[blank] * num_nodes] = 0
    else:
        entries, copies = batch.features.edges, torch.arange(num_copies)[:, None]
        rows = (entries.receivers + copies * num_nodes).flatten()
        values = torch.where(blank[:, None] & (entries.receivers == 0), 0, batch.features.values)
        columns = entries.senders.repeat(num_copies)
        features = SparseFeatures(Edges(columns, rows, entries.num_senders, num_nodes * num_copies), values.flatten())
    size = num_nodes * num_copies
    return replace(
        batch,
        features=features,
        edges=Edges(senders, receivers, size, size),
        edge_features=batch.edge_features[kept],
        rows=torch.arange(num_copies) * num_nodes,
    )
