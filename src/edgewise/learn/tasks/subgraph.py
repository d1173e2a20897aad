"""The subgraph that the predictions of some nodes depend on, and predictions without some of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64

from edgewise.graph import Batch, Graph, SparseFeatures, Supervision
from edgewise.learn.networks.graph_settings import NodeSettings
from edgewise.neighborhood import Edges

BATCH_SIZE = 2**18
"""Nodes and edges that are computed together, about."""
Removed = tuple[np.ndarray, np.ndarray]
"""Nodes, and edges, that are removed."""


@dataclass(frozen=True, eq=False)
class Subgraph:
    """The nodes within some hops of the center nodes, against the direction of the edges: all they depend on."""

    nodes: Int64[np.ndarray, " node"]
    """Where each stands in the whole graph; the center nodes first, then by hops."""
    hops: Int64[np.ndarray, " node"]
    """How many edges lie between it and the nearest center."""
    graph: Graph
    """These nodes and the edges among them."""
    num_centers: int
    """How many nodes are centers."""

    @classmethod
    def of(cls, graph: Graph, centers: int | Sequence[int], reach: int, border: int, *, is_whole: bool = False) -> Self:
        """The nodes within `reach + border` hops and the edges among them that lead to one within `reach − 1 + border`.

        A graph with virtual nodes stays whole: through these every node depends on every other.

        Args:
            graph: all of it, in the units of a model.
            centers: the center node, or several different ones.
            reach: the hops that the model reaches.
            border: 1 where a node that is `reach` hops away must still know how many edges come to it.
            is_whole: whether all other nodes and edges come after these.
        """
        first = np.atleast_1d(np.asarray(centers, dtype=np.int64))
        senders, receivers = graph.edges.senders.numpy(), graph.edges.receivers.numpy()
        num_nodes = graph.num_nodes
        # A way over a virtual node is none between two nodes of the graph: it would make all of them neighbors.
        is_own = (senders < num_nodes) & (receivers < num_nodes)
        distance = np.full(graph.edges.num_receivers, -1)
        distance[first] = 0
        is_inside = np.zeros(len(senders), dtype=bool)
        for hop in range(1, reach + border + 1):
            is_inside = is_own & (distance[receivers] >= 0)
            neighbors = senders[is_inside]
            neighbors = neighbors[distance[neighbors] < 0]
            distance[neighbors] = hop
            if not len(neighbors):
                break
        distance = distance[:num_nodes]
        if is_whole or graph.num_virtual_nodes:
            distance[distance < 0] = num_nodes
            is_inside[:] = True
        others = np.flatnonzero((distance >= 0) & ~np.isin(np.arange(num_nodes), first))
        nodes = np.concatenate([first, others[np.argsort(distance[others], kind="stable")]])
        return cls(nodes, distance[nodes], _part(graph, nodes, np.flatnonzero(is_inside)), len(first))

    @property
    def batch(self) -> Batch:
        """The subgraph, with the centers as rows."""
        return Batch(self.graph, Supervision(nodes=torch.arange(self.num_centers)))

    @property
    def size(self) -> int:
        """Nodes and edges: what one computation costs."""
        return len(self.nodes) + self.graph.num_edges


@dataclass(frozen=True, eq=False)
class NodePerturbation:
    """The explained number without some nodes and edges.

    A node that is removed loses its edges, so that nothing depends on it. Centers keep them: their own features
    become zero, the mean where they are scaled by their spread.
    """

    number: Callable[[Batch], np.ndarray]
    """Computes the explained number in each copy of a graph, whose rows are the center nodes, copy after copy."""
    subgraph: Subgraph
    """All that it depends on."""

    def without_nodes(self, removed: Sequence[np.ndarray]) -> Float64[np.ndarray, " removal"]:
        """The number without each of these lists of nodes."""
        return self([(nodes, np.zeros(0, dtype=np.int64)) for nodes in removed])

    def without_edges(self, removed: Sequence[np.ndarray]) -> Float64[np.ndarray, " removal"]:
        """The number without each of these lists of edges of the part."""
        return self([(np.zeros(0, dtype=np.int64), edges) for edges in removed])

    def __call__(self, removed: Sequence[Removed]) -> Float64[np.ndarray, " removal"]:
        """The number without these nodes and edges, each removal in a copy of the graph of its own."""
        # Virtual nodes come after all others, once: then a batch holds one copy.
        step = 1 if self.subgraph.graph.num_virtual_nodes else max(1, BATCH_SIZE // self.subgraph.size)
        numbers = [self._predict(removed[start : start + step]) for start in range(0, len(removed), step)]
        return np.concatenate([np.zeros(0), *numbers])

    def _predict(self, removed: Sequence[Removed]) -> np.ndarray:
        graph, num_centers = self.subgraph.graph, self.subgraph.num_centers
        senders, receivers = graph.edges.senders.numpy(), graph.edges.receivers.numpy()
        edges, copies, is_blank = [], [], np.zeros((len(removed), num_centers), dtype=bool)
        for copy, (nodes, gone) in enumerate(removed):
            is_cut = np.zeros(graph.edges.num_receivers, dtype=bool)
            is_cut[nodes] = True
            is_blank[copy], is_cut[:num_centers] = is_cut[:num_centers], False
            # A loop leads to no other node, and nothing depends on a node that is cut off: loops may stay.
            stays = ~(is_cut[senders] | is_cut[receivers]) | (senders == receivers)
            stays[gone] = False
            edges.append(np.flatnonzero(stays))
            copies.append(np.full(len(edges[-1]), copy))
        return self.number(_copies(graph, np.concatenate(edges), np.concatenate(copies), is_blank))


def border_of(settings: NodeSettings) -> int:
    """1 where a layer divides by how many edges come to a sender, else 0."""
    return int(settings.spec.reads_sender_degrees)


def _part(graph: Graph, nodes: np.ndarray, edges: np.ndarray) -> Graph:
    """Some nodes of a graph, in an order, and some edges among them; virtual nodes stay."""
    total = len(nodes) + graph.num_virtual_nodes
    new_index = np.full(graph.edges.num_receivers, -1)
    new_index[nodes] = np.arange(len(nodes))
    new_index[graph.num_nodes :] = np.arange(len(nodes), total)
    senders, receivers = (
        torch.from_numpy(new_index[side.numpy()[edges]]) for side in (graph.edges.senders, graph.edges.receivers)
    )
    local_edges = Edges(senders, receivers, total, total)
    return graph.select(torch.from_numpy(nodes), torch.from_numpy(edges), local_edges, None)


def _copies(
    graph: Graph, edges: np.ndarray, copy_of_edge: np.ndarray, is_blank: Bool[np.ndarray, " copy center"]
) -> Batch:
    """Copies of a part side by side, each with its own edges; the features of blank centers are zero."""
    (num_copies, num_centers), num_nodes = is_blank.shape, graph.num_nodes
    size = num_nodes * num_copies + graph.num_virtual_nodes
    shift, links = torch.from_numpy(copy_of_edge) * num_nodes, torch.from_numpy(edges)
    senders, receivers = (side[links] + shift for side in (graph.edges.senders, graph.edges.receivers))
    nodes = torch.arange(num_nodes).repeat(num_copies)
    copied = graph.select(nodes, links, Edges(senders, receivers, size, size), None)

    blank = torch.zeros(num_copies, num_nodes, dtype=torch.bool)
    blank[:, :num_centers] = torch.from_numpy(is_blank)
    centers = torch.arange(num_centers) + torch.arange(num_copies)[:, None] * num_nodes
    batch = Batch(copied, Supervision(nodes=centers.flatten()))
    return batch.with_node_features(_blanked(copied.node_features, blank.flatten()))


def _blanked(features: object, blank: torch.Tensor) -> torch.Tensor | SparseFeatures:
    """Features of nodes, those of blank nodes all zero."""
    if isinstance(features, SparseFeatures):
        return SparseFeatures(features.edges, torch.where(blank[features.edges.receivers], 0, features.values))
    assert isinstance(features, torch.Tensor)
    return torch.where(blank[:, None], 0, features)
