"""The arrays and edges among the inputs and outputs of a function, and the meaning of their axes.

The meaning of its axes alone decides how a transformation acts on an array.
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
    """The meaning of the axes of one array; by default no transformation changes the array."""

    nodes: tuple[int, ...] = ()
    """The axes of nodes. A table of pairs has two."""
    coordinates: int | None = None
    """The axis of x, y, z, which is rotated and reflected."""
    is_anchored: bool = False
    """Whether a translation changes it: a position is changed, a direction is not."""
    power: float = 0
    """A scaling by s multiplies by s ** power: 1 for lengths, 2 for areas, 0 for numbers without a length."""
    grid: tuple[int, ...] = ()
    """The axes of a grid, such as rows and columns of pixels."""
    is_index: bool = False
    """Whether the entries are node indices, as in an `edge_index`; a permutation of nodes renumbers them."""


FIXED = Axes()
"""Never changed: features of edges (which keep their order), of a whole graph, settings."""
NODES = Axes(nodes=(-2,))
"""(…, node, feature): features that do not depend on space."""
POINTS = Axes(nodes=(-2,), coordinates=-1, is_anchored=True, power=1)
"""(…, node, coordinate): positions of nodes."""
VECTORS = Axes(nodes=(-2,), coordinates=-1, power=1)
"""(…, node, coordinate): directions, such as velocities, which are rotated but not translated."""
PAIRS = Axes(nodes=(-2, -1))
"""(…, node, node): attention weights, an adjacency matrix."""
INDEX = Axes(is_index=True)
"""Node indices, in any shape."""
PIXELS = Axes(grid=(-2, -1))
"""(…, row, column)."""


@dataclass(frozen=True, eq=False)
class GeometricGraph:
    """A graph with coordinates, as an input or output of a function; the meaning of its fields is known."""

    node_features: Shaped[Array, " *batch node feature"]
    """One row per node."""
    edges: Edges
    """A permutation renumbers the ends and keeps the order of the edges."""
    coordinates: Shaped[Array, " *batch node coordinate"] | None = None
    """The positions of the nodes, in any unit; None if they have none."""
    edge_features: Shaped[Array, " *batch edge edge_feature"] | None = None
    """One row per edge, in the order of `edges`."""


_GRAPH_AXES = {"node_features": NODES, "coordinates": POINTS}


@dataclass(frozen=True, eq=False)
class Leaf:
    """One array, or one list of edges, and its name in messages."""

    name: str
    """The path to it, such as `inputs[1]`."""
    value: Any
    """An array, a tensor or `Edges`."""
    axes: Axes | None
    """The declared meaning; None if it is not declared."""

    @property
    def meaning(self) -> Axes:
        """The declared meaning, or else one by the number of axes.

            (…, node, coordinate) and (…, row, column)      two or more
            (node), (coordinate) and (cell)                 one
            a length                                        none

        The transformation decides: a permutation reads an axis as nodes, a rotation as coordinates.
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
        """The size of a declared axis."""
        shape = tuple(self.value.shape)
        if not -len(shape) <= axis < len(shape):
            raise ShapeError(f"check: {self.name} has shape {shape} and no axis {axis}; {remedy(self.name)}.")
        return shape[axis]


def replaced(tree: Any, meanings: Any, name: str, change: Callable[[Leaf], Any]) -> Any:
    """A copy of a tree of tuples, lists, dicts and dataclasses with every leaf changed.

    Args:
        tree: inputs or outputs of a function.
        meanings: one `Axes` for all leaves, or a tree of the same structure; None if nothing is declared. Arrays of a
            dict or dataclass that are not named are fixed.
        name: the name of the tree in messages.
        change: maps a leaf to its replacement.

    Raises:
        SettingError: `meanings` has another structure than the tree.
    """
    if isinstance(tree, Array | Edges):
        if not isinstance(meanings, Axes | None):
            raise SettingError(f"check: {name} is one array, so its meaning must be one Axes, not {meanings!r}.")
        return change(Leaf(name, tree, meanings))

    if isinstance(tree, tuple | list):
        item_meanings = _meanings_of_items(meanings, len(tree), name)
        changed = [
            replaced(part, meaning, f"{name}[{i}]", change)
            for i, (part, meaning) in enumerate(zip(tree, item_meanings))
        ]
        return type(tree)(*changed) if hasattr(tree, "_fields") else type(tree)(changed)

    if isinstance(tree, dict):
        meanings_by_name = _meanings_by_name(meanings, tree, name)
        return {key: replaced(part, meanings_by_name[key], f"{name}[{key!r}]", change) for key, part in tree.items()}
    if is_dataclass(tree) and not isinstance(tree, type):
        field_values = {field.name: getattr(tree, field.name) for field in fields(tree) if field.init}
        meanings_by_name = _meanings_by_name(
            _GRAPH_AXES if meanings is None and isinstance(tree, GeometricGraph) else meanings, field_values, name
        )
        return replace(
            tree,
            **{
                key: replaced(part, meanings_by_name[key], f"{name}.{key}", change)
                for key, part in field_values.items()
            },
        )

    return tree


def leaves(tree: Any, meanings: Any, name: str) -> list[Leaf]:
    """The leaves of a tree, from left to right."""
    collected: list[Leaf] = []

    def collect(leaf: Leaf) -> Any:
        collected.append(leaf)
        return leaf.value

    replaced(tree, meanings, name, collect)
    return collected


def copied(tree: Any) -> Any:
    """A deep copy of the tree, so that a function may write into its arguments."""

    def copy(leaf: Leaf) -> Any:
        if isinstance(leaf.value, Tensor):
            return leaf.value.detach().clone().requires_grad_(leaf.value.requires_grad)
        return leaf.value.copy() if isinstance(leaf.value, np.ndarray) else leaf.value

    return replaced(tree, None, "", copy)


def as_numpy(value: Any) -> np.ndarray:
    """An array, tensor or list of edges as an array: floats in float64 or complex128, other dtypes unchanged."""
    if isinstance(value, Edges):
        value = torch.stack([value.senders, value.receivers])
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        value = value.double().numpy() if value.is_floating_point() else value.resolve_conj().resolve_neg().numpy()
    return value.astype(np.result_type(value, np.float64)) if value.dtype.kind in "fc" else value


def largest_number(value: Any) -> float:
    """The largest finite absolute value in an array; 0 if there is none."""
    array = as_numpy(value)
    return float(np.abs(array[np.isfinite(array)]).max(initial=0))


def through_numpy(change: Callable[[np.ndarray], np.ndarray], array: Array) -> Array:
    """The changed array with the type, dtype and device of the array; floats are changed in float64."""
    changed = np.array(change(as_numpy(array)), order="C")  # keeps a 0-d array an array
    if isinstance(array, Tensor):
        return torch.from_numpy(changed).to(array.device, array.dtype).requires_grad_(array.requires_grad)
    return changed.astype(array.dtype)


def remedy(name: str) -> str:
    """The advice for an array whose meaning was guessed wrongly."""
    argument = "output_as" if name.startswith("output") else "inputs_as"
    return f"declare what the arrays are, such as {argument}=(NODES, FIXED), a dict for the fields of a record"


def _meanings_of_items(meanings: Any, length: int, name: str) -> Any:
    if isinstance(meanings, tuple | list):
        if len(meanings) != length:
            raise SettingError(f"check: {name} has {length} parts, but the meaning of {len(meanings)} is declared.")
        return meanings
    if isinstance(meanings, dict):
        raise SettingError(f"check: {name} is not a dict, but its parts are declared by name: {', '.join(meanings)}.")
    return [meanings] * length


def _meanings_by_name(meanings: Any, parts: dict[Any, Any], name: str) -> dict[Any, Any]:
    if isinstance(meanings, Axes | None):
        return dict.fromkeys(parts, meanings)
    if not isinstance(meanings, dict):
        raise SettingError(f"check: the parts of {name} must be declared by name, in a dict, not {meanings!r}.")
    if unknown := [key for key in meanings if key not in parts]:
        raise SettingError(f"check: {name} has no {unknown[0]!r}; it has {', '.join(map(str, parts))}.")
    return {key: meanings.get(key, None if isinstance(part, Edges) else FIXED) for key, part in parts.items()}
