"""The arrays and edges in whatever a function takes or gives: found, named, replaced, compared."""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from edgewise.errors import SettingError
from edgewise.explain.groups.axes import FIXED, NODES, POINTS, Axes, usual_axes
from edgewise.neighborhood import Edges

Array = np.ndarray | Tensor


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph as a function of graphs may take and give it; what each field holds is known."""

    node_features: Shaped[Array, " *batch node feature"]
    """One row a node."""
    edges: Edges
    """Who is connected with whom; a permutation renumbers the ends and keeps the order of the edges."""
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
    """What it was said to be; None where nothing was said."""

    @property
    def meaning(self) -> Axes:
        """What it is taken for."""
        if isinstance(self.value, Edges):
            return FIXED if self.axes == FIXED else Axes(nodes=(0,))
        return usual_axes(self.value) if self.axes is None else self.axes


def replaced(tree: Any, kinds: Any, name: str, change: Callable[[Leaf], Any]) -> Any:
    """A copy of a tree of tuples, lists, dicts and dataclasses with every leaf changed; all else is kept.

    Args:
        tree: what a function takes or gives.
        kinds: what the leaves are: one `Axes` for all, or as the tree is built; None where nothing is said. Of a
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
        parts_of = {field.name: getattr(tree, field.name) for field in fields(tree) if field.init}
        if kinds is None and isinstance(tree, Graph):
            kinds = _GRAPH
        named = _named(kinds, parts_of, name)
        return replace(
            tree, **{key: replaced(part, named[key], f"{name}.{key}", change) for key, part in parts_of.items()}
        )
    return tree


def leaves(tree: Any, kinds: Any, name: str) -> list[Leaf]:
    """The leaves of a tree from left to right."""
    found: list[Leaf] = []
    replaced(tree, kinds, name, lambda leaf: _noted(leaf, found))
    return found


def copied(tree: Any) -> Any:
    """The tree with arrays of its own, so that a function that writes into its arguments spoils nothing."""
    return replaced(tree, None, "", _copy)


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
        moved = torch.from_numpy(changed).to(array.device, array.dtype)
        return moved.requires_grad_(array.requires_grad)
    return changed.astype(array.dtype)


def _noted(leaf: Leaf, found: list[Leaf]) -> Any:
    found.append(leaf)
    return leaf.value


def _copy(leaf: Leaf) -> Any:
    if isinstance(leaf.value, Tensor):
        return leaf.value.detach().clone().requires_grad_(leaf.value.requires_grad)
    return leaf.value.copy() if isinstance(leaf.value, np.ndarray) else leaf.value


def _each(kinds: Any, length: int, name: str) -> Any:
    if isinstance(kinds, tuple | list):
        if len(kinds) != length:
            raise SettingError(f"check: {name} has {length} parts, but what they are is said of {len(kinds)}.")
        return kinds
    if isinstance(kinds, dict):
        raise SettingError(f"check: {name} has no names, but what it holds is said by name: {', '.join(kinds)}.")
    return [kinds] * length


def _named(kinds: Any, parts: dict[Any, Any], name: str) -> dict[Any, Any]:
    if isinstance(kinds, Axes | None):
        return dict.fromkeys(parts, kinds)
    if not isinstance(kinds, dict):
        raise SettingError(f"check: what {name} holds must be said by name, in a dict, not {kinds!r}.")
    if unknown := [key for key in kinds if key not in parts]:
        raise SettingError(f"check: {name} has no {unknown[0]!r}; it has {', '.join(map(str, parts))}.")
    return {key: kinds.get(key, None if isinstance(part, Edges) else FIXED) for key, part in parts.items()}
