"""What a transformation is, what a set of transformations has to know, and their combinations."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from edgewise.errors import SettingError, ShapeError
from edgewise.explain.leaves import Array, Axes, Leaf, remedy, replaced, through_numpy
from edgewise.neighborhood import Edges


class Step(ABC):
    """One transformation of one kind: a rotation, an exchange of nodes."""

    @abstractmethod
    def concerns(self, axes: Axes) -> bool:
        """Whether an array with these axes is moved at all."""

    @abstractmethod
    def refusal(self, array: Array, axes: Axes) -> str | None:
        """Why the array, which has these axes, cannot be moved, as in "has no axis -2"; None where it can."""

    @abstractmethod
    def act(self, array: Array, axes: Axes) -> Array:
        """The array moved."""

    def act_on_edges(self, edges: Edges) -> Edges:
        """The edges moved; only what renumbers nodes does."""
        return edges

    @abstractmethod
    def __str__(self) -> str:
        """What is done, as in "nodes 3 and 7 exchanged"."""


@dataclass(frozen=True, eq=False)
class Action(Step):
    """One transformation, by its parts."""

    words: str
    """What is done."""
    on: Callable[[Axes], bool]
    """Which axes it concerns."""
    misfit: Callable[[Array, Axes], str | None]
    """Why an array cannot be moved."""
    move: Callable[[np.ndarray, Axes], np.ndarray]
    """What it does."""
    move_edges: Callable[[Edges], Edges] = lambda edges: edges
    """What it does to edges."""
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
    """A set of transformations of one kind, and how one of them is drawn. Join sets with `|`."""

    words: ClassVar[str]
    """What the transformations are, as in "rotation"."""

    @abstractmethod
    def draws(self, generator: np.random.Generator, inputs: list[Leaf]) -> Iterator[Step]:
        """Transformations that fit the inputs, in random order and none of them the one that changes nothing.

        Ends where there are few and all have been given.

        Raises:
            ShapeError: the inputs do not fit each other, or not this set.
            SettingError: no input is concerned.
        """

    def __str__(self) -> str:
        return self.words

    def __or__(self, other: "Group | Together") -> "Together":
        """Both sets, each alone and one after the other."""
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
    """Steps, one after the other."""

    steps: tuple[Step, ...]
    """What is done, first to last; one for a single set, one of each for several."""

    def __str__(self) -> str:
        return ", then ".join(map(str, self.steps))

    def act(self, tree: Any, kinds: Any = None, name: str = "inputs") -> Any:
        """What a function takes or gives, moved.

        Args:
            tree: arrays, edges, and tuples, lists, dicts and dataclasses of them.
            kinds: what the arrays are, as in `check`.
            name: what the tree is called in a message.

        Raises:
            ShapeError: an array cannot be moved.
        """
        return replaced(tree, kinds, name, lambda leaf: self._acted(leaf, is_strict=True)[0])

    def act_where_it_can(self, tree: Any, kinds: Any, name: str) -> tuple[Any, bool]:
        """As `act`, with undeclared arrays left as they are where they do not fit; and whether any did."""
        touched: list[bool] = []

        def acted(leaf: Leaf) -> Any:
            moved, is_touched = self._acted(leaf, is_strict=False)
            touched.append(is_touched)
            return moved

        return replaced(tree, kinds, name, acted), any(touched)

    def _acted(self, leaf: Leaf, is_strict: bool) -> tuple[Any, bool]:
        """The leaf moved, and whether it was this transformation's to move."""
        moved, axes, is_touched = leaf.value, leaf.meaning, False
        for step in self.steps:
            if not step.concerns(axes):
                continue
            if isinstance(leaf.value, Edges):
                before, moved = moved, step.act_on_edges(moved)
                is_touched = is_touched or moved is not before
                continue
            # What an earlier step has done to the shape, such as a quarter turn, a later one follows.
            if (reason := step.refusal(leaf.value, axes)) is not None:
                if is_strict or leaf.axes is not None:
                    raise ShapeError(f"check: {leaf.name} {reason}; {remedy(leaf.name)}.")
                continue
            moved, is_touched = step.act(moved, axes), True
        return moved, is_touched


def agreed_sizes(
    group: Group, inputs: list[Leaf], sizes_of: Callable[[Leaf], list[tuple[int, ...]]], axis: str
) -> tuple[int, ...]:
    """The sizes that all inputs a set of transformations is concerned with have in common.

    Args:
        group: the set, for the message.
        inputs: the leaves of all inputs.
        sizes_of: the sizes of one leaf; an empty list where it is not concerned.
        axis: what the sizes are called.
    """
    found = [(leaf.name, sizes) for leaf in inputs for sizes in sizes_of(leaf)]
    if not found:
        raise SettingError(f"check: {group} moves none of the inputs; {remedy('inputs')}.")
    first, agreed = found[0]
    for name, sizes in found:
        if sizes != agreed:
            ours, theirs = (str(each[0]) if len(each) == 1 else str(each) for each in (agreed, sizes))
            raise ShapeError(f"check: axis '{axis}' is {ours} in {first} but {theirs} in {name}; {remedy('inputs')}.")
    return agreed
