"""What a function takes and gives: its arrays and edges, and what their axes mean.

The meaning of its axes, and nothing else, decides how a transformation acts on an array.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from edgewise.errors import SettingError, ShapeError
from edgewise.neighborhood import Edges

Array = np.ndarray | Tensor


@dataclass(frozen=True)
class Axes:
    """The meaning of the axes of one array; without any, every transformation leaves the array as it is."""

    nodes: tuple[int, ...] = ()
    """Axes along which the nodes stand. A table of pairs has two."""
    coordinates: int | None = None
    """The axis of x, y, z, which is rotated and reflected."""
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
"""(…, node, feature): features that do not depend on space."""
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


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph as a function of graphs may take and give it; what each field holds is known."""

    node_features: Shaped[Array, " *batch node feature"]
    """One row a node."""
    edges: Edges
    """A permutation renumbers the ends and keeps the order of the edges."""
    coordinates: Shaped[Array, " *batch node coordinate"] | None = None
    """Where the nodes are, in any unit; None where they are nowhere."""
    edge_features: Shaped[Array, " *batch edge edge_feature"] | None = None
    """One row an edge, in the order of `edges`."""


_GRAPH = {"node_features": NODES, "coordinates": POINTS}


@dataclass(frozen=True, eq=False)
class Leaf:
    """One array, or one list of edges, and what it is called in a message."""

    name: str
    """Where it stands, such as `inputs[1]`."""
    value: Any
    """An array, a tensor or `Edges`."""
    axes: Axes | None
    """What it is declared to be; None where nothing is declared."""

    @property
    def meaning(self) -> Axes:
        """What it is taken for; undeclared, by the number of its axes.

            (…, node, coordinate) and (…, row, column)      two or more
            (node), (coordinate) and (cell)                 one
            a length                                        none

        The transformation chooses: a permutation sees nodes in it, a rotation coordinates.
        """
        if isinstance(self.value, Edges):
            return FIXED if self.axes == FIXED else Axes(nodes=(0,))
        if self.axes is not None:
            return self.axes
        if self.value.ndim == 0:
            return Axes(power=1)
        nodes, grid = ((-2,), (-2, -1)) if self.value.ndim > 1 else ((-1,), (-1,))
        return Axes(nodes=nodes, coordinates=-1, is_anchored=True, power=1, grid=grid)

    def size(self, axis: int) -> int:
        """The size of an axis that it is declared to have."""
        shape = tuple(self.value.shape)
        if not -len(shape) <= axis < len(shape):
            raise ShapeError(f"check: {self.name} has shape {shape} and no axis {axis}; {remedy(self.name)}.")
        return shape[axis]


def replaced(tree: Any, kinds: Any, name: str, change: Callable[[Leaf], Any]) -> Any:
    """A copy of a tree of tuples, lists, dicts and dataclasses with every leaf changed.

    Args:
        tree: what a function takes or gives.
        kinds: what the leaves are: one `Axes` for all, or as the tree is built; None where nothing is declared. Of a
            dict or dataclass, arrays that are not named are fixed.
        name: what the tree is called.
        change: from a leaf to what stands in its place.

    Raises:
        SettingError: `kinds` is built otherwise than the tree.
    """
    if isinstance(tree, Array | Edges):
        if not isinstance(kinds, Axes | None):
            raise SettingError(f"check: {name} is one array, so what it is must be one Axes, not {kinds!r}.")
        return change(Leaf(name, tree, kinds))
    if isinstance(tree, tuple | list):
        parts = _each(kinds, len(tree), name)
        changed = [replaced(part, kind, f"{name}[{i}]", change) for i, (part, kind) in enumerate(zip(tree, parts))]
        return type(tree)(*changed) if hasattr(tree, "_fields") else type(tree)(changed)
    if isinstance(tree, dict):
        named = _named(kinds, tree, name)
        return {key: replaced(part, named[key], f"{name}[{key!r}]", change) for key, part in tree.items()}
    if is_dataclass(tree) and not isinstance(tree, type):
        own = {field.name: getattr(tree, field.name) for field in fields(tree) if field.init}
        named = _named(_GRAPH if kinds is None and isinstance(tree, Graph) else kinds, own, name)
        return replace(tree, **{key: replaced(part, named[key], f"{name}.{key}", change) for key, part in own.items()})
    return tree


def leaves(tree: Any, kinds: Any, name: str) -> list[Leaf]:
    """The leaves of a tree from left to right."""
    found: list[Leaf] = []

    def noted(leaf: Leaf) -> Any:
        found.append(leaf)
        return leaf.value

    replaced(tree, kinds, name, noted)
    return found


def copied(tree: Any) -> Any:
    """The tree with arrays of its own, so that a function that writes into its arguments spoils nothing."""

    def copy(leaf: Leaf) -> Any:
        if isinstance(leaf.value, Tensor):
            return leaf.value.detach().clone().requires_grad_(leaf.value.requires_grad)
        return leaf.value.copy() if isinstance(leaf.value, np.ndarray) else leaf.value

    return replaced(tree, None, "", copy)


def as_numpy(value: Any) -> np.ndarray:
    """An array, tensor or list of edges as an array: fractions in float64 or complex128, all else as it is."""
    if isinstance(value, Edges):
        value = torch.stack([value.senders, value.receivers])
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        value = value.double().numpy() if value.is_floating_point() else value.resolve_conj().resolve_neg().numpy()
    return value.astype(np.result_type(value, np.float64)) if value.dtype.kind in "fc" else value


def largest_number(value: Any) -> float:
    """The largest finite number in an array, without sign; 0 where there is none."""
    array = as_numpy(value)
    return float(np.abs(array[np.isfinite(array)]).max(initial=0))


def through_numpy(change: Callable[[np.ndarray], np.ndarray], array: Array) -> Array:
    """The changed array in the type, dtype and place of the array; fractions are changed in float64."""
    changed = np.array(change(as_numpy(array)), order="C")  # which keeps an array without axes an array
    if isinstance(array, Tensor):
        return torch.from_numpy(changed).to(array.device, array.dtype).requires_grad_(array.requires_grad)
    return changed.astype(array.dtype)


def remedy(name: str) -> str:
    """What to do about an array that was taken for what it is not."""
    argument = "output_as" if name.startswith("output") else "inputs_as"
    return f"say what the arrays are, such as {argument}=(NODES, FIXED), a dict for the fields of a record"


def _each(kinds: Any, length: int, name: str) -> Any:
    if isinstance(kinds, tuple | list):
        if len(kinds) != length:
            raise SettingError(f"check: {name} has {length} parts, but what they are is given for {len(kinds)}.")
        return kinds
    if isinstance(kinds, dict):
        raise SettingError(f"check: {name} has no names, but what it holds is given by name: {', '.join(kinds)}.")
    return [kinds] * length


def _named(kinds: Any, parts: dict[Any, Any], name: str) -> dict[Any, Any]:
    if isinstance(kinds, Axes | None):
        return dict.fromkeys(parts, kinds)
    if not isinstance(kinds, dict):
        raise SettingError(f"check: what {name} holds must be given by name, in a dict, not {kinds!r}.")
    if unknown := [key for key in kinds if key not in parts]:
        raise SettingError(f"check: {name} has no {unknown[0]!r}; it has {', '.join(map(str, parts))}.")
    return {key: kinds.get(key, None if isinstance(part, Edges) else FIXED) for key, part in parts.items()}
