"""Whether inputs and transformations fit each other, and the words for it where they do not."""

from collections.abc import Callable
from typing import Any

from edgewise.errors import SettingError, ShapeError
from edgewise.explain.groups.leaves import Array, Leaf, as_numpy

FEW = 120
"""So many transformations of a kind are written out: they are drawn without repetition, and all of them where asked."""


def remedy(name: str) -> str:
    """What to do about an array that was taken for what it is not."""
    argument = "output_as" if name.startswith("output") else "inputs_as"
    return f"say what the arrays are, such as {argument}=(NODES, FIXED), a dict for the fields of a record"


def agreed_sizes(
    group: Any, inputs: list[Leaf], sizes_of: Callable[[Leaf], list[tuple[int, ...]]], axis: str
) -> tuple[int, ...]:
    """The sizes that all inputs a set of transformations is concerned with have in common.

    Args:
        group: the set, for the message.
        inputs: the leaves of all inputs.
        sizes_of: the sizes of one leaf; an empty list where it is not concerned.
        axis: what the sizes are called.

    Raises:
        ShapeError: two inputs have different sizes.
        SettingError: no input is concerned.
    """
    first: tuple[str, tuple[int, ...]] | None = None
    for leaf in inputs:
        for sizes in sizes_of(leaf):
            if first is None:
                first = leaf.name, sizes
            if sizes != first[1]:
                raise ShapeError(
                    f"check: axis '{axis}' is {_written(first[1])} in {first[0]} but {_written(sizes)} in {leaf.name}; "
                    f"{remedy('inputs')}."
                )
    if first is None:
        raise SettingError(f"check: {group} moves none of the inputs; {remedy('inputs')}.")
    return first[1]


def size(leaf: Leaf, axis: int) -> int:
    """The size of an axis that the leaf is said to have."""
    shape = tuple(leaf.value.shape)
    if not -len(shape) <= axis < len(shape):
        raise ShapeError(f"check: {leaf.name} has shape {shape} and no axis {axis}; {remedy(leaf.name)}.")
    return shape[axis]


def lacks(array: Array, axes: tuple[int, ...]) -> str | None:
    """The refusal of an array that has not all of these axes."""
    missing = [axis for axis in axes if not -array.ndim <= axis < array.ndim]
    return f"has shape {tuple(array.shape)} and no axis {missing[0]}" if missing else None


def holds_whole_numbers(array: Array) -> str | None:
    """The refusal of an array that cannot be turned, moved or scaled."""
    if as_numpy(array).dtype.kind in "fc":
        return None
    return f"holds {array.dtype}, which can be permuted but not moved, turned or scaled"


def _written(sizes: tuple[int, ...]) -> str:
    return str(sizes[0]) if len(sizes) == 1 else str(sizes)
