"""Acyclic graphs whose edges all lead to one node, the root: merger trees, expressions, pedigrees."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from edgewise.errors import plural
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.readers.graphs.union import offsets_of

NAMED = 3
"""Nodes that a message names, at most."""


@dataclass(frozen=True, eq=False)
class Trees:
    """The root of each of many graphs. A graph is a tree here when its edges run in no circle and all lead to it.

    A node may have several ways to the root. Loops are not circles, and are ignored.
    """

    roots: Int64[np.ndarray, " graph"]
    """The only node of each graph that no edge leaves, among all nodes; −1 where the graph is not a tree."""
    depths: Int64[np.ndarray, " graph"]
    """The length of the longest path to the root; −1 where the graph is not a tree."""
    reasons: dict[int, str]
    """Why a graph is not a tree."""

    @classmethod
    def of(cls, edges: EdgeList, offsets: Int64[np.ndarray, " boundary"], names: Sequence[str]) -> "Trees":
        """Find the roots.

        Args:
            edges: those of all graphs, graph after graph, each as the file has it.
            offsets: nodes of graph g are `offsets[g]:offsets[g + 1]`.
            names: of the nodes, for the reasons.

        Cost: O(node + edge).
        """
        num_nodes, num_graphs = int(offsets[-1]), len(offsets) - 1
        apart = edges.senders != edges.receivers
        senders, receivers = edges.senders[apart], edges.receivers[apart]
        graph_of_node = np.repeat(np.arange(num_graphs), np.diff(offsets))
        ends = np.flatnonzero(np.bincount(senders, minlength=num_nodes) == 0)
        begins = np.flatnonzero(np.bincount(receivers, minlength=num_nodes) == 0)
        num_ends, num_begins = (np.bincount(graph_of_node[nodes], minlength=num_graphs) for nodes in (ends, begins))
        levels = levels_of(senders, receivers, num_nodes)
        roots = np.full(num_graphs, -1)
        roots[graph_of_node[ends]] = ends
        reasons: dict[int, str] = {}
        for graph in np.flatnonzero(np.diff(offsets) == 0).tolist():
            reasons[graph] = "it is empty: expected at least one node"

        # Every node of level −1 has one before it: on the circle, or between it and the node.
        edges_on_cycles = np.flatnonzero((levels[senders] < 0) & (levels[receivers] < 0))
        graphs, starts = np.unique(graph_of_node[senders[edges_on_cycles]], return_index=True)
        for graph, members in zip(graphs.tolist(), np.split(edges_on_cycles, starts[1:]), strict=False):
            name = names[_on_circle(senders[members], receivers[members])]
            reasons[graph] = f"its edges run in a circle through the node {name!r}"

        for graph in np.flatnonzero(num_ends > 1).tolist():
            last = [names[node] for node in ends[graph_of_node[ends] == graph][: NAMED + 1]]
            listed = ", ".join(map(repr, last[:NAMED])) + (", ..." if len(last) > NAMED else "")
            hint = "; one node has none that comes: do the edges run from the root?" if num_begins[graph] == 1 else ""
            reasons.setdefault(
                graph,
                f"{plural(num_ends[graph], 'node has', 'nodes have')} no edge that leaves "
                f"({listed}), expected one, the root{hint}",
            )

        roots[list(reasons)] = -1
        depths = np.where(roots < 0, -1, levels[roots]) if num_nodes else roots
        return cls(roots, depths, reasons)


def levels_of(
    senders: Int64[np.ndarray, " edge"], receivers: Int64[np.ndarray, " edge"], num_nodes: int
) -> Int64[np.ndarray, " node"]:
    """The length of the longest path that ends at each node; −1 for nodes on or after a cycle.

    Source: Kahn 1962, all nodes of a level at a time.
    """
    order = np.argsort(senders, kind="stable")
    starts = offsets_of(np.bincount(senders, minlength=num_nodes))
    reached_by, waiting = receivers[order], np.bincount(receivers, minlength=num_nodes)
    levels = np.full(num_nodes, -1)

    frontier, level = np.flatnonzero(waiting == 0), 0
    while len(frontier):
        levels[frontier] = level
        counts = starts[frontier + 1] - starts[frontier]
        positions = np.arange(counts.sum()) + np.repeat(starts[frontier] - offsets_of(counts)[:-1], counts)
        reached, times = np.unique(reached_by[positions], return_counts=True)
        waiting[reached] -= times
        frontier, level = reached[waiting[reached] == 0], level + 1

    return levels


def _on_circle(senders: np.ndarray, receivers: np.ndarray) -> int:
    """A node on a cycle: follows edges backward until a node repeats."""
    before = dict(zip(receivers.tolist(), senders.tolist(), strict=True))
    visited, node = set[int](), int(senders[0])
    while node not in visited:
        visited.add(node)
        node = before[node]
    return node
