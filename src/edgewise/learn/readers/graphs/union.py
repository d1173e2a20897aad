"""Disjoint unions of graphs by index arithmetic: some of many graphs, or copies without some nodes and edges."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int64, Integer
from torch import Tensor

from edgewise.errors import UnsupportedError
from edgewise.graph import Batch, Graph, Supervision
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
    the graphs and rows. A graph may lose all of its nodes, but not its root. Targets, names and substructures are left
    out.

    Args:
        batch: any graphs of one type of nodes and edges.
        nodes: which nodes each copy keeps.
        edges: which edges each copy keeps; all where None.

    Returns:
        The rows of the first copy, then those of the second, and so on.

    Raises:
        UnsupportedError: a copy loses a root, and a tree without its root is none.

    Cost: proportional to the result, without a loop over copies.
    """
    graph, num_copies = batch.graph, len(nodes)
    node, edge, union, offsets, number = _union(graph, nodes, edges)
    features, edge_features = graph.node_features, graph.edge_features
    assert isinstance(features, Tensor) and not isinstance(edge_features, tuple)
    copied = Graph.unchecked(
        take(features, node),
        union,
        None if edge_features is None else take(edge_features, edge),
        graph_features=repeated(graph.graph_features, num_copies),
        offsets=offsets,
        coordinates=None if graph.coordinates is None else take(graph.coordinates, node),
        position_encodings=None if graph.position_encodings is None else take(graph.position_encodings, node),
    )
    return Batch(copied, _rows_of_copies(batch, nodes, number))


def _rows_of_copies(batch: Batch, nodes: np.ndarray, number: np.ndarray) -> Supervision:
    """The rows of each copy; `number` (copy, node) is the number of each remaining node in their union."""
    rows, num_copies = batch.supervision, len(nodes)
    roots, graph_of_row = None, rows.graph_of_row
    if rows.nodes is not None:
        columns = rows.nodes.numpy()
        if not nodes[:, columns].all():
            raise UnsupportedError("copies: a root is taken away; a tree without its root is none.")
        roots = torch.from_numpy(number[:, columns].flatten())
    if graph_of_row is not None:
        shift = batch.graph.num_graphs * torch.arange(num_copies)[:, None, None]
        graph_of_row = (graph_of_row + shift).flatten(0, 1)
    return Supervision(nodes=roots, graph_of_row=graph_of_row, row_features=repeated(rows.row_features, num_copies))


def repeated(table: Tensor | None, count: int) -> Tensor | None:
    """The table several times, one below the other."""
    return None if table is None else table.repeat(count, 1)


def nodes_reaching(
    edges: Edges, roots: np.ndarray, nodes: Bool[np.ndarray, " copy node"], remaining: Bool[np.ndarray, " copy edge"]
) -> Bool[np.ndarray, " copy node"]:
    """Which nodes of each copy have a way to one of the roots, along edges and nodes that the copy keeps.

    Cost: O(copy · edge) for each step of the longest way.

    >>> chain = Edges([0, 1], [1, 2], 3, 3)  # 0 → 1 → 2
    >>> remaining = np.array([[True, True], [True, False]])
    >>> nodes_reaching(chain, np.array([2]), np.ones((2, 3), dtype=bool), remaining).tolist()
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
    graph: Graph, nodes: np.ndarray, marked: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, Edges, Tensor, np.ndarray]:
    """What remains, copy after copy: places of nodes and of edges, the edges among them, the boundaries of graphs, and
    the number of each remaining node (copy, node)."""
    senders, receivers, boundaries = graph.edges.senders.numpy(), graph.edges.receivers.numpy(), graph.offsets
    assert boundaries is not None
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
