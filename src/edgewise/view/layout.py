"""Where the nodes of a graph are drawn: rings around the one that is explained, or by springs where there is none."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

GOLDEN = (math.sqrt(5) - 1) / 2
"""Its multiples, less their whole parts, lie as evenly as can be."""
RING_GAP = 2.4
"""From one ring to the next, in distances of neighboring nodes."""
MAX_BY_SPRINGS = 400
"""More nodes than this are laid out in rings: springs take time with the square of their number."""
STEPS = 150
MAX_SINGLE = 400
"""More nodes than this are drawn as groups first."""
NUM_GROUPS, FEWEST_AROUND = 120, 8
"""Groups of all nodes; of a ring, however few nodes it has, so that the middle of each lies on it."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the nodes are."""

    places: np.ndarray
    """(node, 2) within the circle of radius 1; the middle is (0, 0)."""
    hops: np.ndarray
    """(node): edges from the center; −1 where there is no way to it."""
    groups: np.ndarray
    """(node): the group each is drawn in from afar; empty where there are few nodes."""

    def to_json(self) -> dict[str, Any]:
        """The layout as lists, places to four decimals."""
        return {"places": self.places.round(4).tolist(), "hops": self.hops.tolist(), "groups": self.groups.tolist()}


def lay_out(num_nodes: int, edges: Sequence[tuple[int, int]], center: int | None = None) -> Layout:
    """Places for nodes; the same graph gives the same places.

    With a center: it stands in the middle, and what is h edges away in the h-th ring around it, near the node through
    which it is reached. A ring holds its nodes at equal density, so that a large one is a broad band. Without a center,
    springs along the edges and a push between all nodes (Fruchterman & Reingold 1991) for up to 400 nodes, and rings
    around the node with the most edges beyond.

    Args:
        num_nodes: nodes are 0 … num_nodes − 1.
        edges: pairs of nodes; direction, loops and repetitions do not matter.
        center: the node in the middle; None where no node is special.

    Empty: no nodes give empty arrays.

    Cost: O(nodes + edges); by springs 150 · nodes².

    Source: T. Fruchterman, E. Reingold, Graph drawing by force-directed placement, 1991; rings as in G. Wills,
        NicheWorks, 1999.
    """
    if num_nodes == 0:
        return Layout(np.zeros((0, 2)), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    rings, hops, parents = _in_rings(num_nodes, edges, center)
    places = _ring_places(rings, parents)
    if center is None and num_nodes <= MAX_BY_SPRINGS:
        places = _by_springs(places, edges)
    return Layout(places, hops, _groups(places, hops) if num_nodes > MAX_SINGLE else np.zeros(0, dtype=np.int64))


def _in_rings(num_nodes: int, edges: Sequence[tuple[int, int]], root: int | None) -> tuple[list[Any], Any, Any]:
    """The rings around a node, by default that with the most edges; the ring of each node, and its parent.

    A ring holds its nodes in the order in which they are reached. What cannot be reached forms a last ring, one
    connected part after the other.
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
        waiting = [] if seen[node] else [node]
        seen[node] = True
        while waiting:
            unreached.append(waiting.pop())
            others = graph.indices[graph.indptr[unreached[-1]] : graph.indptr[unreached[-1] + 1]]
            new = others[~seen[others]]
            seen[new] = True
            waiting += new.tolist()
    return [*rings, np.array(unreached)] if unreached else rings, hops, np.maximum(parents, -1)


def _ring_places(rings: list[np.ndarray], parents: np.ndarray) -> np.ndarray:
    """A sector for every node, as wide as what is reached through it needs; the radius by ring."""
    inner, outer = _radii([len(ring) for ring in rings])
    width = np.zeros(len(parents))
    for number, ring in reversed(list(enumerate(rings))):
        for node in ring:
            width[node] = max(width[node], 1 / max(1.0, inner[number]))
            if parents[node] >= 0:
                width[parents[node]] += width[node]
    places = np.zeros((len(parents), 2))
    begins = np.zeros(len(parents))
    share = np.ones(len(parents))
    for number, ring in enumerate(rings):
        if number == 0:
            continue
        total = width[ring].sum()
        at = 0.0
        for place, node in enumerate(ring):
            parent = parents[node]
            if parent >= 0:
                begin, part = begins[parent], share[parent] * width[node] / max(width[parent], 1e-12)
                begins[parent] += part
            else:
                begin, part = at, width[node] / total
                at += part
            begins[node], share[node] = begin, part
            angle = 2 * math.pi * (begin + part / 2)
            even = (place * GOLDEN) % 1
            radius = math.sqrt(inner[number] ** 2 + even * (outer[number] ** 2 - inner[number] ** 2))
            places[node] = radius * math.cos(angle), radius * math.sin(angle)
    return places / max(outer[-1], 1e-12)


def _radii(counts: list[int]) -> tuple[list[float], list[float]]:
    """The inner and outer radius of each ring: a circle where its nodes fit on one, else a band that holds them."""
    inner, outer = [0.0], [0.0]
    for count in counts[1:]:
        near = outer[-1] + RING_GAP
        fits = 2 * math.pi * near >= 1.6 * count
        inner.append(near)
        outer.append(near if fits else math.sqrt(near**2 + count / math.pi))
    return inner, [max(radius, 1.0 if len(counts) == 1 else 0.0) for radius in outer]


def _by_springs(places: np.ndarray, edges: Sequence[tuple[int, int]]) -> np.ndarray:
    """Places after springs pulled along edges and all nodes pushed each other, cooling down."""
    number = len(places)
    length = 1.5 / math.sqrt(number)
    pairs = sorted({(min(edge), max(edge)) for edge in edges if edge[0] != edge[1]})
    first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    for step in range(STEPS):
        away = places[:, None] - places[None]
        squares = (away**2).sum(-1) + 1e-9
        move = (away * (length**2 / squares)[..., None]).sum(1)
        along = places[first] - places[second]
        pull = along * np.sqrt((along**2).sum(-1, keepdims=True)) / length
        np.add.at(move, first, -pull)
        np.add.at(move, second, pull)
        move -= 0.3 * places  # parts that nothing connects do not fly away
        size = np.sqrt((move**2).sum(-1, keepdims=True)) + 1e-12
        places = places + move / size * np.minimum(size, 0.12 * (1 - step / STEPS))
    places = places - (places.max(0) + places.min(0)) / 2
    return places / max(np.sqrt((places**2).sum(-1)).max(), 1e-12)


def _groups(places: np.ndarray, hops: np.ndarray) -> np.ndarray:
    """Groups of nodes that lie side by side in one ring, about 120 in all: a broad ring is cut into rows first."""
    most = -(-len(places) // NUM_GROUPS)
    angles, radii = np.arctan2(places[:, 1], places[:, 0]), np.sqrt((places**2).sum(-1))
    groups = np.zeros(len(places), dtype=np.int64)
    number = 0
    for hop in sorted(set(hops.tolist())):
        ring = np.flatnonzero(hops == hop)
        ring = ring[np.argsort(radii[ring], kind="stable")]
        around = math.pi * (radii[ring[0]] + radii[ring[-1]])
        broad = float(radii[ring[-1]] - radii[ring[0]])
        num_rows = max(1, round(math.sqrt(len(ring) / most * broad / max(around, 1e-12))))
        for row in np.array_split(ring, num_rows):
            row = row[np.argsort(angles[row], kind="stable")]
            for part in np.array_split(row, max(-(-len(row) // most), min(len(row), FEWEST_AROUND))):
                groups[part] = number
                number += 1
    return groups
