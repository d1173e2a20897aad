"""What callers give, checked where it enters: numbers, sizes, batch axes; without waiting for a device."""

import math
import numbers
import operator
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from edgewise.errors import SettingError, ShapeError


def whole(owner: str, name: str, value: Any) -> int:
    """`value` as a whole number; those of numpy and torch are welcome, fractions are not."""
    if torch.compiler.is_compiling():  # a symbol is not to be bound
        return value
    try:
        return operator.index(value)
    except TypeError:
        raise ShapeError(f"{owner}: {name} must be a whole number, not {value!r}.") from None


def count(owner: str, name: str, value: Any) -> int:
    """`value` as a whole number of at least 1."""
    if not isinstance(value, bool):
        with suppress(TypeError):
            if (found := operator.index(value)) >= 1:
                return found
    raise SettingError(f"{owner}: {name} must be a whole number of at least 1, not {value!r}.")


def can_be_read(x: Tensor) -> bool:
    """Whether a look at the numbers of a tensor is free: on a CPU, where nothing is traced or transformed."""
    return type(x) in (Tensor, torch.nn.Parameter) and x.device.type == "cpu" and not is_traced()


def is_traced() -> bool:
    """Whether a compiler or a transform of torch.func is at work, for which no number of a tensor is known."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def number(owner: str, name: str, value: Any) -> float:
    """`value` as a number, which may be infinite; a tensor of one number is none, its gradient would be lost."""
    if torch.compiler.is_compiling():  # a symbol is not to be bound
        return value
    if isinstance(value, numbers.Real) and not math.isnan(value):
        return value if isinstance(value, int) else float(value)
    raise SettingError(f"{owner}: {name} must be a number, not {value!r}.")


def not_positive(value: float | Tensor) -> float | None:
    """The number, or one of a tensor, that is not above 0; None where there is none, or nobody may look."""
    if not isinstance(value, Tensor):
        return None if torch.compiler.is_compiling() or value > 0 else value
    if not can_be_read(value) or value.numel() == 0:
        return None
    least = float(value.detach().min())  # NaN where one is
    return None if least > 0 else least


def check_offsets(owner: str, offsets: Tensor, num_nodes: int) -> None:
    """Raise unless offsets begin at 0, do not fall, and end at the number of nodes; on a device nobody looks."""
    if offsets.dim() != 1 or offsets.numel() == 0 or offsets.is_floating_point():
        raise ShapeError(
            f"{owner}: offsets must be whole numbers (boundary), not {offsets.dtype} of shape {tuple(offsets.shape)}."
        )
    if not can_be_read(offsets):
        return
    first, last = int(offsets[0]), int(offsets[-1])
    if first != 0 or last != num_nodes or not bool((offsets[1:] >= offsets[:-1]).all()):
        raise ShapeError(
            f"{owner}: offsets must begin at 0, not fall, and end at the number of nodes, {num_nodes}; they go from "
            f"{first} to {last}. Nodes of graph g are offsets[g]:offsets[g + 1]."
        )


def check_range(name: str, index: Tensor, size: int) -> None:
    """Raise where a position of a node is negative or beyond the last."""
    if index.numel() == 0:
        return
    low, high = map(int, index.aminmax())
    if low < 0 or high >= size:
        raise ShapeError(f"Edges: {name} must lie in 0 … {size - 1}; found {low if low < 0 else high}.")


def check_edges(senders: Tensor, receivers: Tensor, num_senders: int, num_receivers: int) -> None:
    """Raise where two lists are no edges between so many nodes."""
    for name, index in (("senders", senders), ("receivers", receivers)):
        if index.dim() != 1:
            raise ShapeError(f"Edges: {name} must have the one axis 'edge', not shape {tuple(index.shape)}.")
    in_senders, in_receivers = senders.shape[0], receivers.shape[0]
    if in_senders != in_receivers:
        raise ShapeError(f"Edges: axis 'edge' is {in_senders} in senders but {in_receivers} in receivers.")
    if torch.compiler.is_compiling():  # a check that reads values cannot be traced
        return
    if min(num_senders, num_receivers) < 0:
        raise ShapeError(
            f"Edges: num_senders and num_receivers must not be negative, not {num_senders} and {num_receivers}."
        )
    check_range("senders", senders, num_senders)
    check_range("receivers", receivers, num_receivers)


Sizes = tuple[int | None, int | None]
"""The number of queries and of keys, None where it is not known."""


def joint_sizes(owner: str, parts: Sequence[Sizes]) -> Sizes:
    """The sizes of several parts together, which must agree where they are known."""
    found: Sizes = (None, None)
    for sizes in parts:
        for axis, one, other in zip(("query", "key"), found, sizes, strict=True):
            if None not in (one, other) and one != other:
                raise ShapeError(f"{owner}: axis '{axis}' is {one} in one part but {other} in another.")
        found = known_sizes(found, sizes)
    return found


def known_sizes(*parts: Sizes) -> Sizes:
    """The sizes of the first part that knows them."""
    queries, keys = (next((size for size in sizes if size is not None), None) for sizes in zip(*parts, strict=True))
    return queries, keys


def joint_batch(owner: str, shapes: Sequence[torch.Size]) -> torch.Size:
    """The batch axes of several parts together."""
    joint: list[int] = []
    for shape in shapes:
        joint = [1] * (len(shape) - len(joint)) + joint
        for axis in range(-1, -len(shape) - 1, -1):
            if 1 not in (joint[axis], shape[axis]) and joint[axis] != shape[axis]:
                raise ShapeError(
                    f"{owner}: axis 'batch {axis}' is {joint[axis]} in one part but {shape[axis]} in another."
                )
            joint[axis] = shape[axis] if joint[axis] == 1 else joint[axis]
    return torch.Size(joint)


def broadcast_shape(*shapes: Sequence[int]) -> torch.Size:
    """The shape that all of these broadcast to, as `torch.broadcast_shapes` has it.

    That function imports the algebra of torch's compiler at its first call, for half a second and 60 MB, and takes as
    long as the checks of a call together.
    """
    if torch.compiler.is_compiling():  # sizes may be symbols, which a comparison would bind
        return torch.broadcast_shapes(*shapes)
    found: Sequence[int] = ()
    for shape in shapes:
        if shape == found or not shape:
            continue
        if len(shape) < len(found):
            shape, found = found, shape
        own, start = list(shape), len(shape) - len(found)
        for place, size in enumerate(found, start):
            if own[place] == 1:
                own[place] = size
            elif size not in (1, own[place]):
                return torch.broadcast_shapes(*shapes)  # which raises
        found = own
    return torch.Size(found)
