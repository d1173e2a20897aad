"""Functions of the user's own as transformations."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgewise.errors import SettingError
from edgewise.explain.groups.axes import FIXED, Axes
from edgewise.explain.groups.fit import remedy
from edgewise.explain.groups.group import Group, Step
from edgewise.explain.groups.leaves import Array, Leaf, as_numpy
from edgewise.neighborhood import Edges


@dataclass(frozen=True)
class Map(Group):
    """A function of your own on arrays, such as softmax: f is invariant to it if f(map(x)) = f(x).

    Of the outputs it acts on those that have the shape of an input, so that equivariance is f(map(x)) = map(f(x)).
    """

    name: str
    """What it is called."""
    function: Callable[[Any], Any]
    """From an array or tensor, as the inputs are, to another."""

    def draws(self, generator: np.random.Generator, inputs: list[Leaf]) -> Iterator[Step]:
        arrays = [leaf for leaf in inputs if not isinstance(leaf.value, Edges) and leaf.axes != FIXED]
        if not arrays:
            raise SettingError(f"check: {self} moves none of the inputs; {remedy('inputs')}.")
        yield Mapped(self.name, self.function, frozenset(_signature(leaf.value) for leaf in arrays))

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Mapped(Step):
    """A function of the user's on every array that it was made for."""

    name: str
    """What it is called."""
    function: Callable[[Any], Any]
    """From an array to another."""
    signatures: frozenset[tuple[tuple[int, ...], str]]
    """Shapes of the inputs, and whether they are whole numbers or fractions."""

    def concerns(self, axes: Axes) -> bool:
        return axes != FIXED

    def refusal(self, array: Array, axes: Axes) -> str | None:
        fits = _signature(array) in self.signatures
        return None if fits else f"has shape {tuple(array.shape)} and dtype {array.dtype}, which no input of {self} has"

    def act(self, array: Array, axes: Axes) -> Array:
        return self.function(array)

    def __str__(self) -> str:
        return self.name


def _signature(array: Array) -> tuple[tuple[int, ...], str]:
    return tuple(array.shape), as_numpy(array).dtype.kind
