"""What the axes of an array mean; that, and nothing else, says how a transformation acts on it."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Axes:
    """The meaning of the axes of one array; an array of which nothing is said is left as it is by everything."""

    nodes: tuple[int, ...] = ()
    """Axes along which the nodes stand. A table of pairs has two."""
    coordinates: int | None = None
    """The axis of x, y, z, which is turned and reflected."""
    is_anchored: bool = False
    """Whether a translation moves it: a place is moved, a direction is not."""
    power: float = 0
    """A scaling by s multiplies by s ** power: 1 for lengths, 2 for areas, 0 for what no length is part of."""
    grid: tuple[int, ...] = ()
    """Axes along which cells stand side by side, such as rows and columns of pixels."""
    is_index: bool = False
    """Whether the entries are numbers of nodes, as in an `edge_index`: where nodes are renumbered, so are they."""


FIXED = Axes()
"""Left as it is: features of edges (which keep their order), of a graph as a whole, settings."""
NODES = Axes(nodes=(-2,))
"""(…, node, feature): features that know nothing of space."""
POINTS = Axes(nodes=(-2,), coordinates=-1, is_anchored=True, power=1)
"""(…, node, coordinate): where the nodes are."""
VECTORS = Axes(nodes=(-2,), coordinates=-1, power=1)
"""(…, node, coordinate): directions, such as velocities, which turn but have no place."""
PAIRS = Axes(nodes=(-2, -1))
"""(…, node, node): attention weights, an adjacency matrix."""
INDEX = Axes(is_index=True)
"""Numbers of nodes, in any shape."""
PIXELS = Axes(grid=(-2, -1))
"""(…, row, column)."""


def usual_axes(array: Any) -> Axes:
    """What an array is taken for where nothing is said of it, by the number of its axes.

        (…, node, coordinate) and (…, row, column)      two or more
        (node), (coordinate) and (cell)                 one
        a length                                        none

    The transformation chooses: a permutation sees nodes in it, a rotation coordinates.
    """
    if array.ndim == 0:
        return Axes(power=1)
    nodes, grid = ((-2,), (-2, -1)) if array.ndim > 1 else ((-1,), (-1,))
    return Axes(nodes=nodes, coordinates=-1, is_anchored=True, power=1, grid=grid)
