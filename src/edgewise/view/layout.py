"""The layout of a graph: rings around the explained node, or a force-directed layout without one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

GOLDEN = (math.sqrt(5) - 1) / 2
"""The fractional parts of its multiples are evenly distributed."""
RING_GAP = 2.4
"""The distance between rings, in distances of neighboring nodes."""
MAX_FORCE_NODES = 400
"""Larger graphs are laid out in rings: the force-directed layout takes time quadratic in the nodes."""
STEPS = 150
MAX_SINGLE = 400
"""Larger graphs are drawn as groups first."""
NUM_GROUPS, MIN_RING_GROUPS = 120, 8
"""About how many groups there are; at least how many a ring has, so that their centers lie on it."""


@dataclass(frozen=True, eq=False)
class GraphLayout:
    """The positions of the nodes of a graph."""

    places: np.ndarray
    """(node, 2): positions within the unit circle around (0, 0)."""
    hops: np.ndarray
    """(node): hops from the center; −1 if it cannot be reached."""
    groups: np.ndarray
    """(node): the group of each node when zoomed out; empty for small graphs."""

    def to_json(self) -> dict[str, Any]:
        """The layout as lists, positions to four decimals."""
        return {"places": self.places.round(4).tolist(), "hops": self.hops.tolist(), "groups": self.groups.tolist()}


def lay_out(num_nodes: int, edges: Sequence[tuple[int, int]], center: int | None = None) -> GraphLayout:
    """Positions of nodes; the same graph always gets the same layout.

    With a center, it is in the middle, and nodes h hops away are in the h-th ring around it, near the node through
    which they are reached. A ring has equal density, so that a large one is a broad band. Without a center,
    graphs of up to 400 nodes get a force-directed layout (Fruchterman & Reingold 1991), larger ones rings around the
    node with the most edges.

    Args:
        num_nodes: nodes are 0 … num_nodes − 1.
        edges: pairs of nodes; direction, loops and repetitions do not matter.
        center: the node in the middle; None for no center.

    Empty: no nodes give empty arrays.

    Cost: O(nodes + edges); force-directed 150 · nodes².

    Source: T. Fruchterman, E. Reingold, Graph drawing by force-directed placement, 1991; rings as in G. Wills,
        NicheWorks, 1999.
    """
    if num_nodes == 0:
        return GraphLayout(np.zeros((0, 2)), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))

    rings, hops, parents = _rings_around(num_nodes, edges, center)
    positions = _ring_positions(rings, parents)
    if center is None and num_nodes <= MAX_FORCE_NODES:
        positions = _force_directed(positions, edges)
    return GraphLayout(
        positions, hops, _groups(positions, hops) if num_nodes > MAX_SINGLE else np.zeros(0, dtype=np.int64)
    )


def _rings_around(num_nodes: int, edges: Sequence[tuple[int, int]], root: int | None) -> tuple[list[Any], Any, Any]:
    """The rings around a node, by default that with the most edges; the ring of each node, and its parent.

    A ring lists its nodes in breadth-first order. Unreachable nodes form a last ring, one connected component after
    the other.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    pairs = np.unique([pair for a, b in edges if a != b for pair in ((a, b), (b, a))], axis=0).reshape(-1, 2)
    graph = csr_array((np.ones(len(pairs)), tuple(pairs.T.astype(np.int32))), shape=(num_nodes, num_nodes))
    root = int(np.diff(graph.indptr).argmax()) if root is None else root
    order, parents = breadth_first_order(graph, root)
    hops = np.full(num_nodes, -1)
    hops[root] = 0
    for node in order[1:]:
        hops[node] = hops[parents[node]] + 1
    rings = np.split(order, np.flatnonzero(np.diff(hops[order])) + 1)

    seen, unreached = hops >= 0, []
    for node in np.flatnonzero(~seen).tolist():
        stack = [] if seen[node] else [node]
        seen[node] = True
        while stack:
            unreached.append(stack.pop())
            neighbors = graph.indices[graph.indptr[unreached[-1]] : graph.indptr[unreached[-1] + 1]]
            new = neighbors[~seen[neighbors]]
            seen[new] = True
            stack += new.tolist()

    return [*rings, np.array(unreached)] if unreached else rings, hops, np.maximum(parents, -1)


def _ring_positions(rings: list[np.ndarray], parents: np.ndarray) -> np.ndarray:
    """Positions in sectors, each as wide as the nodes reached through its node need; the radius depends on the ring."""
    inner, outer = _radii([len(ring) for ring in rings])
    width = np.zeros(len(parents))
    for number, ring in reversed(list(enumerate(rings))):
        for node in ring:
            width[node] = max(width[node], 1 / max(1.0, inner[number]))
            if parents[node] >= 0:
                width[parents[node]] += width[node]

    positions = np.zeros((len(parents), 2))
    starts = np.zeros(len(parents))
    share = np.ones(len(parents))
    for number, ring in enumerate(rings):
        if number == 0:
            continue

        total = width[ring].sum()
        offset = 0.0
        for index, node in enumerate(ring):
            parent = parents[node]
            if parent >= 0:
                sector_start, sector = starts[parent], share[parent] * width[node] / max(width[parent], 1e-12)
                starts[parent] += sector
            else:
                sector_start, sector = offset, width[node] / total
                offset += sector

            starts[node], share[node] = sector_start, sector
            angle = 2 * math.pi * (sector_start + sector / 2)
            fraction = (index * GOLDEN) % 1
            radius = math.sqrt(inner[number] ** 2 + fraction * (outer[number] ** 2 - inner[number] ** 2))
            positions[node] = radius * math.cos(angle), radius * math.sin(angle)

    return positions / max(outer[-1], 1e-12)


def _radii(counts: list[int]) -> tuple[list[float], list[float]]:
    """The inner and outer radius of each ring: a circle if its nodes fit on one, else a band."""
    inner, outer = [0.0], [0.0]
    for count in counts[1:]:
        radius_inside = outer[-1] + RING_GAP
        fits = 2 * math.pi * radius_inside >= 1.6 * count
        inner.append(radius_inside)
        outer.append(radius_inside if fits else math.sqrt(radius_inside**2 + count / math.pi))
    return inner, [max(radius, 1.0 if len(counts) == 1 else 0.0) for radius in outer]


def _force_directed(positions: np.ndarray, edges: Sequence[tuple[int, int]]) -> np.ndarray:
    """Positions after a force-directed layout: edges attract, all nodes repel each other, with cooling."""
    num_nodes = len(positions)
    length = 1.5 / math.sqrt(num_nodes)
    pairs = sorted({(min(edge), max(edge)) for edge in edges if edge[0] != edge[1]})

    first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    for step in range(STEPS):
        differences = positions[:, None] - positions[None]
        squares = (differences**2).sum(-1) + 1e-9
        move = (differences * (length**2 / squares)[..., None]).sum(1)
        edge_vectors = positions[first] - positions[second]
        pull = edge_vectors * np.sqrt((edge_vectors**2).sum(-1, keepdims=True)) / length
        np.add.at(move, first, -pull)
        np.add.at(move, second, pull)
        move -= 0.3 * positions  # keeps disconnected components together
        step_size = np.sqrt((move**2).sum(-1, keepdims=True)) + 1e-12
        positions = positions + move / step_size * np.minimum(step_size, 0.12 * (1 - step / STEPS))

    positions = positions - (positions.max(0) + positions.min(0)) / 2
    return positions / max(np.sqrt((positions**2).sum(-1)).max(), 1e-12)


def _groups(positions: np.ndarray, hops: np.ndarray) -> np.ndarray:
    """Groups of neighboring nodes in a ring, about 120 in all; a broad ring is split into rows first."""
    group_size = -(-len(positions) // NUM_GROUPS)
    angles, radii = np.arctan2(positions[:, 1], positions[:, 0]), np.sqrt((positions**2).sum(-1))

    groups = np.zeros(len(positions), dtype=np.int64)
    number = 0
    for hop in sorted(set(hops.tolist())):
        ring = np.flatnonzero(hops == hop)
        ring = ring[np.argsort(radii[ring], kind="stable")]
        circumference = math.pi * (radii[ring[0]] + radii[ring[-1]])
        breadth = float(radii[ring[-1]] - radii[ring[0]])
        num_rows = max(1, round(math.sqrt(len(ring) / group_size * breadth / max(circumference, 1e-12))))
        for row in np.array_split(ring, num_rows):
            row = row[np.argsort(angles[row], kind="stable")]
            for part in np.array_split(row, max(-(-len(row) // group_size), min(len(row), MIN_RING_GROUPS))):
                groups[part] = number
                number += 1

    return groups
