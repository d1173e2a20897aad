"""Disjoint unions of graphs by index arithmetic: some of many graphs, or copies without some nodes and edges."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Int64, Integer
from torch import Tensor

from edgewise.errors import UnsupportedError
from edgewise.graph.records import Batch, GraphBatch
from edgewise.neighborhood import Edges


@dataclass(frozen=True, eq=False)
class GraphUnion:
    """Some graphs of many as one, in the given order."""

    nodes: Int64[np.ndarray, " node"]
    """The number of each of its nodes among the nodes of all graphs."""
    edge_places: Int64[np.ndarray, " edge"]
    """The number of each of its edges among the edges of all graphs."""
    edges: Edges
    """Its edges, nodes counted within the union."""
    offsets: Int64[Tensor, " boundary"]
    """Nodes of graph g are `offsets[g]:offsets[g + 1]`."""

    @classmethod
    def of(
        cls,
        graphs: np.ndarray,
        node_offsets: Int64[Tensor, " boundary"],
        edge_offsets: Int64[Tensor, " boundary"],
        senders: Integer[Tensor, " every_edge"],
        receivers: Integer[Tensor, " every_edge"],
    ) -> "GraphUnion":
        """The union of some graphs.

        Args:
            graphs: their places.
            node_offsets, edge_offsets: nodes and edges of graph g are `offsets[g]:offsets[g + 1]`.
            senders, receivers: of all edges, nodes counted within their graph.

        Cost: proportional to the nodes and edges of the union, without a loop over graphs.
        """
        nodes, offsets = runs(node_offsets.numpy(), graphs)
        edge_rows, edge_offsets_here = runs(edge_offsets.numpy(), graphs)
        shift = torch.from_numpy(np.repeat(offsets[:-1], np.diff(edge_offsets_here)))
        edges = Edges(take(senders, edge_rows) + shift, take(receivers, edge_rows) + shift, len(nodes), len(nodes))
        return cls(nodes, edge_rows, edges, torch.from_numpy(offsets))


def offsets_of(counts: Sequence[int] | np.ndarray) -> np.ndarray:
    """The boundaries of consecutive runs, from their lengths."""
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def take(values: Tensor, index: np.ndarray) -> Tensor:
    """`values[index]` through numpy: torch would wake its threads for a copy that takes microseconds."""
    return torch.from_numpy(values.numpy().take(index, axis=0))


def runs(boundaries: np.ndarray, graphs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every index in the runs `boundaries[g]:boundaries[g + 1]` of the graphs, and the offsets of the runs."""
    starts = boundaries[graphs]
    counts = boundaries[graphs + 1] - starts
    offsets = offsets_of(counts)
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], counts), offsets


def copies(
    batch: Batch, nodes: Bool[np.ndarray, " copy node"], edges: Bool[np.ndarray, " copy edge"] | None = None
) -> Batch:
    """One copy of the batch a line of `nodes`, each with the nodes and edges alone that are marked there.

    An edge goes with a node at either of its ends. All else stays: the features of the nodes that are left, those of
    the graphs, the conditions. A graph may lose all of its nodes. Targets and weights are left out.

    Args:
        batch: any rows.
        nodes: which nodes each copy keeps.
        edges: which edges each copy keeps; all where None.

    Returns:
        The rows of the first copy, then those of the second, and so on.

    Cost: proportional to the result, without a loop over copies.
    """
    num_copies = len(nodes)
    node, edge, union, offsets, _ = _union(batch.edges, batch.offsets, nodes, edges)
    shift = batch.num_graphs * torch.arange(num_copies)[:, None, None]
    return replace(
        batch,
        node_features=take(batch.node_features, node),
        edges=union,
        edge_features=take(batch.edge_features, edge),
        global_features=batch.global_features.repeat(num_copies, 1),
        offsets=offsets,
        graph_of_row=(batch.graph_of_row + shift).flatten(0, 1),
        conditions=batch.conditions.repeat(num_copies, 1),
        targets=None,
        weights=None,
        coordinates=None if batch.coordinates is None else take(batch.coordinates, node),
        substructures=None if batch.substructures is None else batch.substructures.repeat(num_copies, 1),
    )


def graph_copies(
    batch: GraphBatch, nodes: Bool[np.ndarray, " copy node"], edges: Bool[np.ndarray, " copy edge"] | None = None
) -> GraphBatch:
    """The same for graphs; where roots are needed, every copy contains them.

    Raises:
        UnsupportedError: a copy loses a root, and a tree without its root is none.
    """
    roots = batch.roots.numpy()
    if not nodes[:, roots].all():
        raise UnsupportedError("graph_copies: a root is taken away; a tree without its root is none.")
    node, edge, union, offsets, number = _union(batch.edges, batch.offsets, nodes, edges)
    return replace(
        batch,
        features=take(batch.features, node),
        edges=union,
        edge_features=take(batch.edge_features, edge),
        offsets=offsets,
        roots=torch.from_numpy(number[:, roots].flatten()),
        conditions=batch.conditions.repeat(len(nodes), 1),
        targets=None,
        weights=None,
    )


def led_to(
    edges: Edges, roots: np.ndarray, nodes: Bool[np.ndarray, " copy node"], remaining: Bool[np.ndarray, " copy edge"]
) -> Bool[np.ndarray, " copy node"]:
    """Which nodes of each copy have a way to one of the roots, along edges and nodes that the copy keeps.

    Cost: O(copy · edge) for each step of the longest way.

    >>> chain = Edges([0, 1], [1, 2], 3, 3)  # 0 → 1 → 2
    >>> led_to(chain, np.array([2]), np.ones((2, 3), dtype=bool), np.array([[True, True], [True, False]])).tolist()
    [[True, True, True], [False, False, True]]
    """
    senders, receivers = edges.senders.numpy(), edges.receivers.numpy()
    open_ = remaining & nodes[:, senders] & nodes[:, receivers]
    is_reached = np.zeros_like(nodes)
    is_reached[:, roots] = nodes[:, roots]

    while True:
        copy, edge = (open_ & is_reached[:, receivers] & ~is_reached[:, senders]).nonzero()
        if not len(edge):
            return is_reached
        is_reached[copy, senders[edge]] = True


def _union(
    edges: Edges, boundaries: Tensor, nodes: np.ndarray, marked: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, Edges, Tensor, np.ndarray]:
    """What remains, copy after copy: places of nodes and of edges, the edges among them, the boundaries of graphs, and
    the number of each remaining node (copy, node)."""
    senders, receivers = edges.senders.numpy(), edges.receivers.numpy()
    remaining = nodes[:, senders] & nodes[:, receivers]
    of_copy, edge = (remaining if marked is None else remaining & marked).nonzero()
    node = nodes.nonzero()[1]

    # The number of each remaining node in the union, and how many remain before each node of its copy.
    number = nodes.ravel().cumsum().reshape(nodes.shape) - 1
    before = np.pad(nodes.cumsum(axis=1), ((0, 0), (1, 0)))
    offsets = boundaries.numpy()
    counts = before[:, offsets[1:]] - before[:, offsets[:-1]]
    new_senders, new_receivers = (torch.from_numpy(number[of_copy, side[edge]]) for side in (senders, receivers))
    union = Edges(new_senders, new_receivers, len(node), len(node))

    return node, edge, union, torch.from_numpy(offsets_of(counts.ravel())), number
