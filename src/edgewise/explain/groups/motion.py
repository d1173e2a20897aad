"""Transformations of space: translation, rotation, reflection, scaling."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from edgewise.errors import ShapeError
from edgewise.explain.groups.axes import Axes
from edgewise.explain.groups.fit import agreed_sizes, holds_whole_numbers, lacks, size
from edgewise.explain.groups.group import Group, Step
from edgewise.explain.groups.leaves import Array, Leaf, largest_number, through_numpy
from edgewise.plural import plural

SHOWN = 4
"""A longer vector is cut in a message."""
LARGEST_FACTOR = 4.0
"""Scaling draws factors between this and its inverse."""


@dataclass(frozen=True)
class Translation(Group):
    """Everything moved by the same vector: x' = x + t.

    t is normal with the size of the largest coordinate among the inputs, so that it is neither lost beside it nor
    takes its digits.
    """

    def draws(self, generator: np.random.Generator, inputs: list[Leaf]) -> Iterator[Step]:
        anchored = [leaf for leaf in inputs if leaf.meaning.is_anchored]
        (num_coordinates,) = agreed_sizes(self, anchored, _coordinates, "coordinate")
        spread = max(largest_number(leaf.value) for leaf in anchored) or 1.0
        while True:
            yield Moved(spread * generator.normal(size=num_coordinates))

    def __str__(self) -> str:
        return "translation"


@dataclass(frozen=True)
class Rotation(Group):
    """Everything turned about the origin: x' = R x, Rᵀ R = 1, det R = 1; all R are equally likely.

    Source: Mezzadri 2007: the orthogonal factor of a matrix of normal numbers, with the signs of the other's diagonal.
    """

    def draws(self, generator: np.random.Generator, inputs: list[Leaf]) -> Iterator[Step]:
        (num_coordinates,) = agreed_sizes(self, inputs, _coordinates, "coordinate")
        if num_coordinates < 2:
            raise ShapeError(f"check: {self} needs at least two coordinates, not {num_coordinates}.")
        while True:
            orthogonal, triangle = np.linalg.qr(generator.normal(size=(num_coordinates, num_coordinates)))
            turn = orthogonal * np.sign(np.diag(triangle))
            turn[:, 0] *= np.sign(np.linalg.det(turn))
            yield Turned(turn, _rotation_in_words(turn))

    def __str__(self) -> str:
        return "rotation"


@dataclass(frozen=True)
class Reflection(Group):
    """Everything mirrored in a plane through the origin: x' = x − 2 (n·x) n, ‖n‖ = 1; all n are equally likely."""

    def draws(self, generator: np.random.Generator, inputs: list[Leaf]) -> Iterator[Step]:
        (num_coordinates,) = agreed_sizes(self, inputs, _coordinates, "coordinate")
        if num_coordinates < 1:
            raise ShapeError(f"check: {self} needs at least one coordinate, not {num_coordinates}.")
        while True:
            normal = generator.normal(size=num_coordinates)
            normal /= np.linalg.norm(normal)
            mirror = np.eye(num_coordinates) - 2 * np.outer(normal, normal)
            yield Turned(mirror, f"reflection along {_vector_in_words(normal)}")

    def __str__(self) -> str:
        return "reflection"


@dataclass(frozen=True)
class Scaling(Group):
    """Every length multiplied by the same positive number: x' = s^power x, from a quarter to four.

    What holds an area has power 2, what no length is part of has power 0; see `Axes`.
    """

    def draws(self, generator: np.random.Generator, inputs: list[Leaf]) -> Iterator[Step]:
        agreed_sizes(self, inputs, lambda leaf: [(1,)] if leaf.meaning.power else [], "length")
        while True:
            yield Scaled(math.exp(generator.uniform(-1, 1) * math.log(LARGEST_FACTOR)))

    def __str__(self) -> str:
        return "scaling"


@dataclass(frozen=True, eq=False)
class Moved(Step):
    """One translation."""

    vector: np.ndarray
    """(coordinate): t, in the unit of the coordinates."""

    def concerns(self, axes: Axes) -> bool:
        return axes.is_anchored

    def refusal(self, array: Array, axes: Axes) -> str | None:
        return _misfit(array, axes, len(self.vector))

    def act(self, array: Array, axes: Axes) -> Array:
        return through_numpy(lambda x: _along(x, axes, lambda rows: rows + self.vector), array)

    def __str__(self) -> str:
        return f"translation by {_vector_in_words(self.vector)}"


@dataclass(frozen=True, eq=False)
class Turned(Step):
    """One rotation or reflection."""

    matrix: np.ndarray
    """(coordinate, coordinate): R, orthogonal."""
    words: str
    """What it does."""

    def concerns(self, axes: Axes) -> bool:
        return axes.coordinates is not None

    def refusal(self, array: Array, axes: Axes) -> str | None:
        return _misfit(array, axes, len(self.matrix))

    def act(self, array: Array, axes: Axes) -> Array:
        return through_numpy(lambda x: _along(x, axes, lambda rows: rows @ self.matrix.T), array)

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, eq=False)
class Scaled(Step):
    """One scaling."""

    factor: float
    """s."""

    def concerns(self, axes: Axes) -> bool:
        return axes.power != 0

    def refusal(self, array: Array, axes: Axes) -> str | None:
        return holds_whole_numbers(array)

    def act(self, array: Array, axes: Axes) -> Array:
        return through_numpy(lambda x: x * self.factor**axes.power, array)

    def __str__(self) -> str:
        return f"scaling by {self.factor:.3g}"


def _coordinates(leaf: Leaf) -> list[tuple[int, ...]]:
    axis = leaf.meaning.coordinates
    return [] if axis is None else [(size(leaf, axis),)]


def _misfit(array: Array, axes: Axes, num_coordinates: int) -> str | None:
    """The refusal of an array without so many coordinates."""
    if axes.coordinates is None:
        return "is anchored, but has no axis of coordinates"
    if (reason := lacks(array, (axes.coordinates,)) or holds_whole_numbers(array)) is not None:
        return reason
    count = array.shape[axes.coordinates]
    if count != num_coordinates:
        return f"has {plural(count, 'coordinate')} along axis {axes.coordinates}, not {num_coordinates}"
    return None


def _along(x: np.ndarray, axes: Axes, change: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """x with its coordinates changed, which `change` finds on the last axis."""
    assert axes.coordinates is not None
    return np.moveaxis(change(np.moveaxis(x, axes.coordinates, -1)), -1, axes.coordinates)


def _rotation_in_words(turn: np.ndarray) -> str:
    """By which angle and, in space, around which axis."""
    if len(turn) == 2:
        return f"rotation by {math.degrees(math.atan2(turn[1, 0], turn[0, 0])):.1f} degrees"
    if len(turn) > 3:
        return f"rotation in {plural(len(turn), 'dimension')}"
    # The eigenvector of 1 is the axis; the rest of the turn is seen from its tip.
    values, vectors = np.linalg.eig(turn)
    axis = np.real(vectors[:, np.argmin(np.abs(values - 1))])
    swirl = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
    angle = math.degrees(math.atan2(float(swirl @ axis) / 2, (float(np.trace(turn)) - 1) / 2))
    return f"rotation by {angle:.1f} degrees around {_vector_in_words(axis)}"


def _vector_in_words(vector: np.ndarray) -> str:
    shown = [f"{entry:.3g}" for entry in vector[:SHOWN]]
    return f"({', '.join([*shown, '…'] if len(vector) > SHOWN else shown)})"
