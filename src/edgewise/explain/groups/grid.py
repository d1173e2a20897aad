"""Transformations of a grid of cells, such as the pixels of an image."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from edgewise.errors import ShapeError
from edgewise.explain.groups.axes import Axes
from edgewise.explain.groups.fit import FEW, agreed_sizes, lacks, size
from edgewise.explain.groups.group import Group, Step
from edgewise.explain.groups.leaves import Array, Leaf, through_numpy
from edgewise.plural import plural


@dataclass(frozen=True)
class CyclicShift(Group):
    """The translation of a grid: x'_{i + t} = x_i; what leaves at one side comes in at the other."""

    def draws(self, generator: np.random.Generator, inputs: list[Leaf]) -> Iterator[Step]:
        sizes = agreed_sizes(self, inputs, _cells, "grid")
        if math.prod(sizes) < 2:
            raise ShapeError(f"check: {self} needs a grid of at least two cells, not {sizes}.")
        if math.prod(sizes) <= FEW + 1:
            every = list(itertools.product(*map(range, sizes)))[1:]
            yield from (CyclicallyShifted(every[i], sizes) for i in generator.permutation(len(every)))
            return
        while True:
            shift = tuple(int(generator.integers(size)) for size in sizes)
            if any(shift):
                yield CyclicallyShifted(shift, sizes)

    def __str__(self) -> str:
        return "cyclic shift"


@dataclass(frozen=True)
class QuarterTurn(Group):
    """The rotation of a grid, by 90, 180 and 270 degrees from the first axis to the second."""

    def draws(self, generator: np.random.Generator, inputs: list[Leaf]) -> Iterator[Step]:
        sizes = agreed_sizes(self, inputs, _cells, "grid")
        if len(sizes) != 2:
            raise ShapeError(f"check: {self} needs a grid of two axes, rows and columns, not {len(sizes)}.")
        yield from (QuarterTurned(int(count)) for count in generator.permutation([1, 2, 3]))

    def __str__(self) -> str:
        return "quarter turn"


@dataclass(frozen=True, eq=False)
class CyclicallyShifted(Step):
    """One cyclic shift."""

    shift: tuple[int, ...]
    """t, one number for each axis of the grid."""
    sizes: tuple[int, ...]
    """How many cells there are along each axis."""

    def concerns(self, axes: Axes) -> bool:
        return bool(axes.grid)

    def refusal(self, array: Array, axes: Axes) -> str | None:
        if (reason := lacks(array, axes.grid)) is not None:
            return reason
        sizes = tuple(array.shape[axis] for axis in axes.grid)
        return None if sizes == self.sizes else f"has a grid of {sizes} cells, not {self.sizes}"

    def act(self, array: Array, axes: Axes) -> Array:
        return through_numpy(lambda x: np.roll(x, self.shift, axes.grid), array)

    def __str__(self) -> str:
        return f"shift by {plural(self.shift[0], 'cell') if len(self.shift) == 1 else f'{self.shift} cells'}"


@dataclass(frozen=True, eq=False)
class QuarterTurned(Step):
    """One, two or three quarter turns."""

    count: int
    """How many."""

    def concerns(self, axes: Axes) -> bool:
        return bool(axes.grid)

    def refusal(self, array: Array, axes: Axes) -> str | None:
        if len(axes.grid) != 2:
            return f"has a grid of {plural(len(axes.grid), 'axis', 'axes')}, not 2"
        return lacks(array, axes.grid)

    def act(self, array: Array, axes: Axes) -> Array:
        first, second = axes.grid
        return through_numpy(lambda x: np.rot90(x, self.count, (first, second)), array)

    def __str__(self) -> str:
        return f"turn by {90 * self.count} degrees"


def _cells(leaf: Leaf) -> list[tuple[int, ...]]:
    grid = leaf.meaning.grid
    return [tuple(size(leaf, axis) for axis in grid)] if grid else []
