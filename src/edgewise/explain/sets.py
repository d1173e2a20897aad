"""The sets of transformations that a function may be tested against, and how one of each is drawn."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from edgewise.errors import SettingError, ShapeError, plural
from edgewise.explain.groups import Action, Group, TransformationStep, agreed_sizes
from edgewise.explain.leaves import FIXED, Array, Axes, Leaf, as_numpy, largest_number, remedy
from edgewise.neighborhood import Edges

MAX_ENUMERATED = 120
"""A set of at most this many transformations is enumerated, and drawn without repetition."""
MAX_FACTOR = 4.0
"""Scaling draws factors between this and its inverse."""
MAX_NUMBERS, MAX_NODES = 4, 12
"""Longer vectors and lists of nodes are cut in messages."""


@dataclass(frozen=True)
class Permutation(Group):
    """Renumbering of nodes: the rows of features and coordinates, and the ends of edges, whose order stays.

        x'_i = x_{order(i)}        an edge j → i becomes order⁻¹(j) → order⁻¹(i)

    Half of the draws swap two nodes, so that a failure is easy to understand; the others shuffle all nodes.
    """

    words = "permutation of nodes"
    offsets: Sequence[int] | Array | None = None
    """Boundaries of the members of a batch, within each of which nodes are renumbered; None for a single graph."""

    def draws(self, generator: np.random.Generator, inputs: list[Leaf]) -> Iterator[TransformationStep]:
        (num_nodes,) = agreed_sizes(self, inputs, _num_nodes, "node")
        members = [np.arange(start, stop) for start, stop in itertools.pairwise(self._bounds(num_nodes))]
        large = [member for member in members if len(member) > 1]
        if not large:
            largest = max(map(len, members), default=0)
            raise ShapeError(f"check: {self} needs a graph of at least two nodes; the largest has {largest}.")

        if math.prod(math.factorial(min(len(member), MAX_ENUMERATED)) for member in large) <= MAX_ENUMERATED + 1:
            member_orders = itertools.product(*(itertools.permutations(member.tolist()) for member in members))
            orders = [np.array([node for part in parts for node in part]) for parts in member_orders][1:]
            yield from (permuted(orders[i]) for i in generator.permutation(len(orders)))
            return

        while True:
            order = np.arange(num_nodes)
            if generator.random() < 0.5:
                member = large[generator.choice(len(large))]
                pair = generator.choice(member, 2, replace=False)
                order[pair] = pair[::-1]
            else:
                order = np.concatenate([generator.permutation(member) for member in members])
            if (order != np.arange(num_nodes)).any():
                yield permuted(order)

    def _bounds(self, num_nodes: int) -> list[int]:
        """The offsets as integers, validated."""
        if self.offsets is None:
            return [0, num_nodes]
        bounds = [int(bound) for bound in self.offsets]
        if not bounds or bounds[0] != 0 or bounds[-1] != num_nodes or sorted(bounds) != bounds:
            raise ShapeError(
                f"Permutation: offsets must rise from 0 to the number of nodes, here {num_nodes}; they are {bounds}."
            )
        return bounds


def permuted(order: np.ndarray) -> Action:
    """A permutation of nodes: node order[i] moves to position i."""
    num_nodes, new_positions = len(order), np.argsort(order)

    def misfit(array: Array, axes: Axes) -> str | None:
        if (reason := _lacks(array, axes.nodes)) is not None:
            return reason
        if wrong := [axis for axis in axes.nodes if array.shape[axis] != num_nodes]:
            return f"has {plural(array.shape[wrong[0]], 'node')} along axis {wrong[0]}, not {num_nodes}"
        index = as_numpy(array) if axes.is_index else np.zeros(0, dtype=np.int64)
        if index.dtype.kind not in "iu":
            return f"holds {array.dtype}, not node indices"
        if index.size and not 0 <= index.min() <= index.max() < num_nodes:
            return f"holds node indices from {index.min()} to {index.max()}, but there are {num_nodes} nodes"
        return None

    def move(plain: np.ndarray, axes: Axes) -> np.ndarray:
        plain = np.asarray(new_positions[plain]) if axes.is_index else plain
        for axis in axes.nodes:
            plain = plain.take(order, axis)
        return plain

    def move_edges(edges: Edges) -> Edges:
        position = torch.as_tensor(new_positions, device=edges.senders.device)
        return Edges(position[edges.senders], position[edges.receivers], edges.num_senders, edges.num_receivers)

    moved_nodes = np.flatnonzero(order != np.arange(num_nodes))
    words = (
        f"nodes {moved_nodes[0]} and {moved_nodes[1]} exchanged"
        if len(moved_nodes) == 2
        else (
            f"nodes put in the order {' '.join(map(str, order[:MAX_NODES]))}"
            + (f" … ({num_nodes} nodes)" if num_nodes > MAX_NODES else "")
        )
    )

    return Action(words, lambda axes: bool(axes.nodes) or axes.is_index, misfit, move, move_edges, order)


@dataclass(frozen=True)
class Translation(Group):
    """A translation by the same vector everywhere: x' = x + t.

    t is normal with the size of the largest coordinate among the inputs, so that rounding loses neither.
    """

    words = "translation"

    def draws(self, generator: np.random.Generator, inputs: list[Leaf]) -> Iterator[TransformationStep]:
        anchored = [leaf for leaf in inputs if leaf.meaning.is_anchored]
        (num_coordinates,) = agreed_sizes(self, anchored, _coordinates, "coordinate")
        spread = max(largest_number(leaf.value) for leaf in anchored) or 1.0
        while True:
            yield moved(spread * generator.normal(size=num_coordinates))


def moved(vector: np.ndarray) -> Action:
    """One translation, by (coordinate) in the unit of the coordinates."""
    words = f"translation by {_vector_in_words(vector)}"
    return _motion(words, len(vector), lambda axes: axes.is_anchored, lambda rows: rows + vector, vector)


@dataclass(frozen=True)
class Rotation(Group):
    """A rotation about the origin: x' = R x, Rᵀ R = 1, det R = 1; all R are equally likely.

    Source: Mezzadri 2007: Q of the QR decomposition of a normal matrix, with the signs of the diagonal of R.
    """

    words = "rotation"

    def draws(self, generator: np.random.Generator, inputs: list[Leaf]) -> Iterator[TransformationStep]:
        (num_coordinates,) = agreed_sizes(self, inputs, _coordinates, "coordinate")
        if num_coordinates < 2:
            raise ShapeError(f"check: {self} needs at least two coordinates, not {num_coordinates}.")
        while True:
            orthogonal, triangle = np.linalg.qr(generator.normal(size=(num_coordinates, num_coordinates)))
            turn = orthogonal * np.sign(np.diag(triangle))
            turn[:, 0] *= np.sign(np.linalg.det(turn))
            yield turned(turn, _rotation_in_words(turn))


@dataclass(frozen=True)
class Reflection(Group):
    """A reflection in a plane through the origin: x' = x − 2 (n·x) n, ‖n‖ = 1; all n are equally likely."""

    words = "reflection"

    def draws(self, generator: np.random.Generator, inputs: list[Leaf]) -> Iterator[TransformationStep]:
        (num_coordinates,) = agreed_sizes(self, inputs, _coordinates, "coordinate")
        if num_coordinates < 1:
            raise ShapeError(f"check: {self} needs at least one coordinate, not {num_coordinates}.")
        while True:
            normal = generator.normal(size=num_coordinates)
            normal /= np.linalg.norm(normal)
            mirror = np.eye(num_coordinates) - 2 * np.outer(normal, normal)
            yield turned(mirror, f"reflection along {_vector_in_words(normal)}")


def turned(matrix: np.ndarray, words: str) -> Action:
    """One rotation or reflection by an orthogonal matrix (coordinate, coordinate)."""
    return _motion(words, len(matrix), lambda axes: axes.coordinates is not None, lambda rows: rows @ matrix.T, matrix)


@dataclass(frozen=True)
class Scaling(Group):
    """A scaling of all lengths by the same positive number: x' = s^power x, from a quarter to four.

    Areas have power 2, numbers without a length have power 0; see `Axes`.
    """

    words = "scaling"

    def draws(self, generator: np.random.Generator, inputs: list[Leaf]) -> Iterator[TransformationStep]:
        agreed_sizes(self, inputs, lambda leaf: [(1,)] if leaf.meaning.power else [], "length")
        while True:
            yield scaled(math.exp(generator.uniform(-1, 1) * math.log(MAX_FACTOR)))


def scaled(factor: float) -> Action:
    """One scaling by s."""

    def move(x: np.ndarray, axes: Axes) -> np.ndarray:
        return np.asarray(x * factor**axes.power)

    words = f"scaling by {factor:.3g}"
    return Action(words, lambda axes: axes.power != 0, lambda array, _: _unmovable(array), move, value=factor)


@dataclass(frozen=True)
class CyclicShift(Group):
    """A cyclic translation of a grid: x'_{i + t} = x_i; cells that leave at one side enter at the other."""

    words = "cyclic shift"

    def draws(self, generator: np.random.Generator, inputs: list[Leaf]) -> Iterator[TransformationStep]:
        sizes = agreed_sizes(self, inputs, _cells, "grid")
        if math.prod(sizes) < 2:
            raise ShapeError(f"check: {self} needs a grid of at least two cells, not {sizes}.")
        if math.prod(sizes) <= MAX_ENUMERATED + 1:
            shifts = list(itertools.product(*map(range, sizes)))[1:]
            yield from (shifted(shifts[i], sizes) for i in generator.permutation(len(shifts)))
            return
        while True:
            shift = tuple(int(generator.integers(size)) for size in sizes)
            if any(shift):
                yield shifted(shift, sizes)


def shifted(shift: tuple[int, ...], sizes: tuple[int, ...]) -> Action:
    """One cyclic shift of a grid with these sizes."""

    def misfit(array: Array, axes: Axes) -> str | None:
        if (reason := _lacks(array, axes.grid)) is not None:
            return reason
        grid_sizes = tuple(array.shape[axis] for axis in axes.grid)
        return None if grid_sizes == sizes else f"has a grid of {grid_sizes} cells, not {sizes}"

    words = f"shift by {plural(shift[0], 'cell') if len(shift) == 1 else f'{shift} cells'}"
    return Action(words, _on_grid, misfit, lambda x, axes: np.roll(x, shift, axes.grid), value=shift)


@dataclass(frozen=True)
class QuarterTurn(Group):
    """A rotation of a grid, by 90, 180 and 270 degrees from the first axis to the second."""

    words = "quarter turn"

    def draws(self, generator: np.random.Generator, inputs: list[Leaf]) -> Iterator[TransformationStep]:
        sizes = agreed_sizes(self, inputs, _cells, "grid")
        if len(sizes) != 2:
            raise ShapeError(f"check: {self} needs a grid of two axes, rows and columns, not {len(sizes)}.")
        yield from (quarter_turned(int(count)) for count in generator.permutation([1, 2, 3]))


def quarter_turned(count: int) -> Action:
    """One, two or three quarter turns."""

    def misfit(array: Array, axes: Axes) -> str | None:
        if len(axes.grid) != 2:
            return f"has a grid of {plural(len(axes.grid), 'axis', 'axes')}, not 2"
        return _lacks(array, axes.grid)

    words = f"turn by {90 * count} degrees"
    return Action(
        words, _on_grid, misfit, lambda x, axes: np.rot90(x, count, (axes.grid[0], axes.grid[1])), value=count
    )


@dataclass(frozen=True)
class Map(Group):
    """A function of your own on arrays, such as softmax: f is invariant to it if f(map(x)) = f(x).

    It acts on outputs that have the shape of an input, so that equivariance is f(map(x)) = map(f(x)).
    """

    name: str
    """Its name in messages."""
    function: Callable[[Any], Any]
    """Maps an array or tensor, like the inputs, to another."""

    def draws(self, generator: np.random.Generator, inputs: list[Leaf]) -> Iterator[TransformationStep]:
        arrays = [leaf for leaf in inputs if not isinstance(leaf.value, Edges) and leaf.axes != FIXED]
        if not arrays:
            raise SettingError(f"check: {self} moves none of the inputs; {remedy('inputs')}.")
        yield MapStep(self.name, self.function, frozenset(_signature(leaf.value) for leaf in arrays))

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class MapStep(TransformationStep):
    """A user's function, applied to every array with the signature of an input."""

    name: str
    """Its name in messages."""
    function: Callable[[Any], Any]
    """Maps an array to another."""
    signatures: frozenset[tuple[tuple[int, ...], str]]
    """Shapes of the inputs, and whether they are integers or floats."""

    def concerns(self, axes: Axes) -> bool:
        return axes != FIXED

    def refusal(self, array: Array, axes: Axes) -> str | None:
        fits = _signature(array) in self.signatures
        return None if fits else f"has shape {tuple(array.shape)} and dtype {array.dtype}, unlike every input of {self}"

    def act(self, array: Array, axes: Axes) -> Array:
        return self.function(array)

    def __str__(self) -> str:
        return self.name


def _signature(array: Array) -> tuple[tuple[int, ...], str]:
    return tuple(array.shape), as_numpy(array).dtype.kind


def _num_nodes(leaf: Leaf) -> list[tuple[int, ...]]:
    nodes = leaf.meaning.nodes
    if isinstance(leaf.value, Edges):
        return [(leaf.value.num_senders,), (leaf.value.num_receivers,)] if nodes else []
    return [(leaf.size(axis),) for axis in nodes]


def _coordinates(leaf: Leaf) -> list[tuple[int, ...]]:
    axis = leaf.meaning.coordinates
    return [] if axis is None else [(leaf.size(axis),)]


def _on_grid(axes: Axes) -> bool:
    return bool(axes.grid)


def _cells(leaf: Leaf) -> list[tuple[int, ...]]:
    grid = leaf.meaning.grid
    return [tuple(leaf.size(axis) for axis in grid)] if grid else []


def _lacks(array: Array, axes: tuple[int, ...]) -> str | None:
    """The reason to refuse an array that lacks one of the axes."""
    missing = [axis for axis in axes if not -array.ndim <= axis < array.ndim]
    return f"has shape {tuple(array.shape)} and no axis {missing[0]}" if missing else None


def _unmovable(array: Array) -> str | None:
    """The reason to refuse an array that cannot be rotated, translated or scaled."""
    if as_numpy(array).dtype.kind in "fc":
        return None
    return f"holds {array.dtype}, which can be permuted but not translated, rotated or scaled"


def _motion(
    words: str, size: int, on: Callable[[Axes], bool], change: Callable[[np.ndarray], np.ndarray], value: np.ndarray
) -> Action:
    """A transformation of space; `change` gets the coordinates on the last axis."""

    def misfit(array: Array, axes: Axes) -> str | None:
        if axes.coordinates is None:
            return "is anchored, but lacks an axis of coordinates"
        if (reason := _lacks(array, (axes.coordinates,)) or _unmovable(array)) is not None:
            return reason
        count = array.shape[axes.coordinates]
        if count != size:
            return f"has {plural(count, 'coordinate')} along axis {axes.coordinates}, not {size}"
        return None

    def move(x: np.ndarray, axes: Axes) -> np.ndarray:
        assert axes.coordinates is not None
        return np.moveaxis(change(np.moveaxis(x, axes.coordinates, -1)), -1, axes.coordinates)

    return Action(words, on, misfit, move, value=value)


def _rotation_in_words(matrix: np.ndarray) -> str:
    """The angle and, in three dimensions, the axis of a rotation."""
    if len(matrix) == 2:
        return f"rotation by {math.degrees(math.atan2(matrix[1, 0], matrix[0, 0])):.1f} degrees"
    if len(matrix) > 3:
        return f"rotation in {plural(len(matrix), 'dimension')}"
    # The eigenvector of eigenvalue 1 is the axis; the angle is measured around it.
    values, vectors = np.linalg.eig(matrix)
    axis = np.real(vectors[:, np.argmin(np.abs(values - 1))])
    antisymmetric = np.array([matrix[2, 1] - matrix[1, 2], matrix[0, 2] - matrix[2, 0], matrix[1, 0] - matrix[0, 1]])
    angle = math.degrees(math.atan2(float(antisymmetric @ axis) / 2, (float(np.trace(matrix)) - 1) / 2))
    return f"rotation by {angle:.1f} degrees around {_vector_in_words(axis)}"


def _vector_in_words(vector: np.ndarray) -> str:
    shown = [f"{entry:.3g}" for entry in vector[:MAX_NUMBERS]]
    return f"({', '.join([*shown, '…'] if len(vector) > MAX_NUMBERS else shown)})"
