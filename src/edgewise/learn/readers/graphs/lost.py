"""Unreadable edges: the predictions that they would change."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int64

from edgewise.errors import plural
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.tables.cell import OK

REASON = "without edges that cannot be read"
"""The note about rows whose neighborhoods lack edges."""
NOWHERE = np.iinfo(np.int64).max
"""The distance to lost edges where none is within reach."""
ANYWHERE = NOWHERE - 1
"""The same where a model joins all nodes, or uses their positions in the whole graph."""


def hops_to_lost(edges: EdgeList, num_nodes: int, reach: int, *, sees_all: bool = False) -> Int64[np.ndarray, " node"]:
    """The distance from each node to the nearest unreadable edge: 0 where the node itself lost one.

    Of an edge whose other end no node is called, only the end that is known counts.

    Args:
        edges: those that can be read, and the ends of those that cannot.
        num_nodes: how many nodes there are.
        reach: how many hops away the nodes are that an output depends on.
        sees_all: whether each output depends on all edges.
    """
    ends = edges.rejected_ends[(edges.rejected_ends >= 0) & (edges.rejected_ends < num_nodes)]
    hops = np.full(num_nodes, ANYWHERE if sees_all and len(edges.rejected_ends) else NOWHERE)
    hops[ends] = 0
    for hop in range(1, reach + 1 if len(ends) else 1):
        reached = edges.receivers[hops[edges.senders] == hop - 1]
        hops[reached] = np.minimum(hops[reached], hop)

    return hops


def with_lost(status: Sequence[str], hops: Int64[np.ndarray, " row"], owner: str) -> list[str]:
    """The status of each row, and of those that are predicted, which edges the prediction lacks.

    Args:
        status: of each row, as it was read.
        hops: how far the nearest edge is that cannot be read.
        owner: whose edges these are at distance 0: the node, its nodes, the graph.
    """
    statuses = list(status)
    for row in np.flatnonzero(hops != NOWHERE).tolist():
        if statuses[row] == OK:
            statuses[row] = f"{OK}, but edges {_where(int(hops[row]), owner)} cannot be read"
    return statuses


def _where(hops: int, owner: str) -> str:
    if hops == ANYWHERE:
        return "of the graph"
    return f"{plural(hops, 'hop')} away" if hops else f"of {owner}"
