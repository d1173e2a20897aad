"""Transformations, sets of transformations, and their combinations."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from edgewise.errors import SettingError, ShapeError
from edgewise.explain.leaves import Array, Axes, Leaf, remedy, replaced, through_numpy
from edgewise.neighborhood import Edges


class TransformationStep(ABC):
    """A single transformation: a rotation, a swap of two nodes."""

    @abstractmethod
    def concerns(self, axes: Axes) -> bool:
        """Whether it acts on an array with these axes."""

    @abstractmethod
    def refusal(self, array: Array, axes: Axes) -> str | None:
        """Why the array, which has these axes, cannot be transformed, as in "has no axis -2"; None if it can."""

    @abstractmethod
    def act(self, array: Array, axes: Axes) -> Array:
        """The transformed array."""

    def act_on_edges(self, edges: Edges) -> Edges:
        """The transformed edges; only a permutation of nodes changes them."""
        return edges

    @abstractmethod
    def __str__(self) -> str:
        """A description, as in "nodes 3 and 7 exchanged"."""


@dataclass(frozen=True, eq=False)
class Action(TransformationStep):
    """A transformation defined by functions."""

    words: str
    """The description."""
    on: Callable[[Axes], bool]
    """Whether it acts on an array with these axes."""
    misfit: Callable[[Array, Axes], str | None]
    """Why an array cannot be transformed; None if it can."""
    move: Callable[[np.ndarray, Axes], np.ndarray]
    """Transforms an array."""
    move_edges: Callable[[Edges], Edges] = lambda edges: edges
    """Transforms edges."""
    value: Any = None
    """The order, vector, matrix, factor, shift or number of turns."""

    def concerns(self, axes: Axes) -> bool:
        return self.on(axes)

    def refusal(self, array: Array, axes: Axes) -> str | None:
        return self.misfit(array, axes)

    def act(self, array: Array, axes: Axes) -> Array:
        return through_numpy(lambda plain: self.move(plain, axes), array)

    def act_on_edges(self, edges: Edges) -> Edges:
        return self.move_edges(edges)

    def __str__(self) -> str:
        return self.words


class Group(ABC):
    """A set of transformations, and how to draw one of them. Join sets with `|`."""

    words: ClassVar[str]
    """The name of a transformation, as in "rotation"."""

    @abstractmethod
    def draws(self, generator: np.random.Generator, inputs: list[Leaf]) -> Iterator[TransformationStep]:
        """Transformations that fit the inputs, in random order, without the identity.

        Ends if the set is small and all have been drawn.

        Raises:
            ShapeError: the inputs do not fit each other or this set.
            SettingError: the set acts on none of the inputs.
        """

    def __str__(self) -> str:
        return self.words

    def __or__(self, other: "Group | Together") -> "Together":
        """Both sets: each alone, and one after the other."""
        return Together((self,)) | other


@dataclass(frozen=True)
class Together:
    """Several sets of transformations; made by `|`."""

    groups: tuple[Group, ...]
    """The sets, in the order in which they act."""

    def __or__(self, other: "Group | Together") -> "Together":
        return Together((*self.groups, *(other.groups if isinstance(other, Together) else (other,))))

    def __str__(self) -> str:
        return ", ".join(map(str, self.groups))


@dataclass(frozen=True, eq=False)
class Transformation:
    """A sequence of steps."""

    steps: tuple[TransformationStep, ...]
    """The steps, first to last: one per set."""

    def __str__(self) -> str:
        return ", then ".join(map(str, self.steps))

    def act(self, tree: Any, meanings: Any = None, name: str = "inputs") -> Any:
        """The transformed inputs or outputs of a function.

        Args:
            tree: arrays, edges, and tuples, lists, dicts and dataclasses of them.
            meanings: what the arrays are, as in `check`.
            name: the name of the tree in messages.

        Raises:
            ShapeError: an array cannot be transformed.
        """
        return replaced(tree, meanings, name, lambda leaf: self._transform_leaf(leaf, is_strict=True)[0])

    def act_if_possible(self, tree: Any, meanings: Any, name: str) -> tuple[Any, bool]:
        """Like `act`, but undeclared arrays that do not fit stay as they are; also returns whether any array fitted."""
        flags: list[bool] = []

        def transform(leaf: Leaf) -> Any:
            moved, is_touched = self._transform_leaf(leaf, is_strict=False)
            flags.append(is_touched)
            return moved

        return replaced(tree, meanings, name, transform), any(flags)

    def _transform_leaf(self, leaf: Leaf, is_strict: bool) -> tuple[Any, bool]:
        """The transformed leaf, and whether the transformation acted on it."""
        moved, axes, is_touched = leaf.value, leaf.meaning, False
        for step in self.steps:
            if not step.concerns(axes):
                continue
            if isinstance(leaf.value, Edges):
                before, moved = moved, step.act_on_edges(moved)
                is_touched = is_touched or moved is not before
                continue

            # The original shape is checked: an earlier step, such as a quarter turn, may have changed it.
            if (reason := step.refusal(leaf.value, axes)) is not None:
                if is_strict or leaf.axes is not None:
                    raise ShapeError(f"check: {leaf.name} {reason}; {remedy(leaf.name)}.")
                continue

            moved, is_touched = step.act(moved, axes), True

        return moved, is_touched


def agreed_sizes(
    group: Group, inputs: list[Leaf], sizes_of: Callable[[Leaf], list[tuple[int, ...]]], axis: str
) -> tuple[int, ...]:
    """The common sizes of all inputs that a set of transformations acts on.

    Args:
        group: the set, for the message.
        inputs: the leaves of all inputs.
        sizes_of: the sizes of one leaf; an empty list if the set does not act on it.
        axis: the name of the axis in messages.
    """
    named_sizes = [(leaf.name, sizes) for leaf in inputs for sizes in sizes_of(leaf)]
    if not named_sizes:
        raise SettingError(f"check: {group} moves none of the inputs; {remedy('inputs')}.")

    first_name, agreed = named_sizes[0]
    for name, sizes in named_sizes:
        if sizes != agreed:
            ours, theirs = (str(shape[0]) if len(shape) == 1 else str(shape) for shape in (agreed, sizes))
            raise ShapeError(
                f"check: axis '{axis}' is {ours} in {first_name} but {theirs} in {name}; {remedy('inputs')}."
            )

    return agreed
