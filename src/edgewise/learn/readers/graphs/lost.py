"""Unreadable edges, and unreadable features of nodes: the predictions that they would change."""

import re
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int64

from edgewise.errors import plural
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.tables.cell import OK

EDGES, FEATURES = "edges", "features"
"""What cannot be read."""
REASONS = {EDGES: "without edges that cannot be read", FEATURES: "near nodes whose features cannot be read"}
"""The note about rows whose neighborhoods lack them."""
UNREAD = "cannot be read"
"""How the status of such a row ends."""
NOWHERE = np.iinfo(np.int64).max
"""The distance to lost edges where none is within reach."""
ANYWHERE = NOWHERE - 1
"""The same where a model joins all nodes, or uses their positions in the whole graph."""


def hops_to_lost(edges: EdgeList, num_nodes: int, reach: int, *, sees_all: bool = False) -> Int64[np.ndarray, " node"]:
    """The distance from each node to the nearest unreadable edge: 0 where the node itself lost one.

    Of an edge whose other end no node is called, only the end that is known counts.

    Args:
        edges: those that can be read, and the ends of those that cannot.
        num_nodes, reach, sees_all: as `hops_from` has them.
    """
    ends = edges.rejected_ends[(edges.rejected_ends >= 0) & (edges.rejected_ends < num_nodes)]
    return hops_from(ends, edges, num_nodes, reach, sees_all=sees_all and len(edges.rejected_ends) > 0)


def hops_from(
    nodes: Sequence[int] | np.ndarray, edges: EdgeList, num_nodes: int, reach: int, *, sees_all: bool = False
) -> Int64[np.ndarray, " node"]:
    """The distance from the nearest of some nodes to each node.

    Args:
        nodes: their numbers.
        edges: those that can be read.
        num_nodes: how many nodes there are.
        reach: how many hops away the nodes are that an output depends on.
        sees_all: whether each output depends on all nodes.
    """
    starts = np.asarray(nodes, dtype=np.int64)
    hops = np.full(num_nodes, ANYWHERE if sees_all else NOWHERE)
    hops[starts] = 0
    for hop in range(1, reach + 1 if len(starts) else 1):
        reached = edges.receivers[hops[edges.senders] == hop - 1]
        hops[reached] = np.minimum(hops[reached], hop)

    return hops


def with_lost(status: Sequence[str], hops: Int64[np.ndarray, " row"], owner: str, what: str = EDGES) -> list[str]:
    """The status of each row, and of those that are predicted, what the prediction lacks.

    Args:
        status: of each row, as it was read.
        hops: how far the nearest edge or node is that cannot be read.
        owner: whose edges or features these are at distance 0: the node, its nodes, the graph.
        what: EDGES or FEATURES.
    """
    statuses, lacks = list(status), f"{OK}, but "
    for row in np.flatnonzero(hops != NOWHERE).tolist():
        if statuses[row] == OK or statuses[row].startswith(lacks):
            joint = lacks.removeprefix(OK) if statuses[row] == OK else "; "
            statuses[row] += f"{joint}{what} {_where(int(hops[row]), owner)} {UNREAD}"
    return statuses


def of_ends(hops: np.ndarray, ends: Sequence[np.ndarray], rows: np.ndarray, num_rows: int) -> np.ndarray:
    """The distances from the nearer of both ends, senders and receivers, of some rows; `NOWHERE` for all others."""
    of_all_rows = np.full(num_rows, NOWHERE)
    of_all_rows[rows] = np.minimum(*(hops[end] for end in ends))
    return of_all_rows


def num_lacking(statuses: Sequence[str], what: str) -> int:
    """The predicted rows whose status says that EDGES or FEATURES cannot be read."""
    said = re.compile(rf"{OK}, but (.*; )?{what} [^;]* {UNREAD}")
    return sum(said.match(status) is not None for status in statuses)


def _where(hops: int, owner: str) -> str:
    if hops == ANYWHERE:
        return "of the graph"
    return f"{plural(hops, 'hop')} away" if hops else f"of {owner}"
