"""What a transformation is, and what a set of transformations has to know: two interfaces, and their combinations."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgewise.errors import ShapeError
from edgewise.explain.groups.axes import Axes
from edgewise.explain.groups.fit import remedy
from edgewise.explain.groups.leaves import Array, Leaf, replaced
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


class Group(ABC):
    """A set of transformations of one kind, and how one of them is drawn. Join sets with `|`."""

    @abstractmethod
    def draws(self, generator: np.random.Generator, inputs: list[Leaf]) -> Iterator[Step]:
        """Transformations that fit the inputs, in random order and none of them the one that changes nothing.

        Ends where there are few and all have been given.

        Raises:
            ShapeError: the inputs do not fit each other, or not this set.
            SettingError: no input is concerned.
        """

    @abstractmethod
    def __str__(self) -> str:
        """What the transformations are, as in "rotation"."""

    def __or__(self, other: "Group | Together") -> "Together":
        """Both sets, each alone and one after the other."""
        return Together((self, *(other.groups if isinstance(other, Together) else (other,))))


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
        """As `act`, with arrays of which nothing is said left as they are where they do not fit; whether any did."""
        touched: list[bool] = []
        moved = replaced(tree, kinds, name, lambda leaf: self._acted_where_it_can(leaf, touched))
        return moved, any(touched)

    def _acted_where_it_can(self, leaf: Leaf, touched: list[bool]) -> Any:
        moved, is_touched = self._acted(leaf, is_strict=False)
        touched.append(is_touched)
        return moved

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
