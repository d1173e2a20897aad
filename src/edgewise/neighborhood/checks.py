"""Checks of arguments: numbers, sizes, batch axes; without synchronizing with a device."""

import math
import numbers
import operator
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from edgewise.errors import SettingError, ShapeError


def whole(owner: str, name: str, value: Any) -> int:
    """`value` as an integer, which may be of numpy or torch; fractions raise."""
    if torch.compiler.is_compiling():  # symbolic values must not be specialized
        return value
    try:
        return operator.index(value)
    except TypeError:
        raise ShapeError(f"{owner}: {name} must be a whole number, not {value!r}.") from None


def count(owner: str, name: str, value: Any, least: int = 1) -> int:
    """`value` as an integer of at least `least`."""
    if not isinstance(value, bool):
        with suppress(TypeError):
            if (integer := operator.index(value)) >= least:
                return integer
    raise SettingError(f"{owner}: {name} must be a whole number of at least {least}, not {value!r}.")


def require_sizes(owner: str, least: int = 1, **sizes: Any) -> None:
    """Raise a SettingError unless each is a whole number of at least `least`."""
    for name, size in sizes.items():
        count(owner, name, size, least)


def require_rate(owner: str, **rates: float) -> None:
    """Raise a SettingError unless each is the probability of a dropout."""
    for name, rate in rates.items():
        if not (type(rate) is float or isinstance(rate, numbers.Real)) or not 0 <= rate < 1:
            raise SettingError(f"{owner}: {name} must be at least 0 and less than 1, not {rate!r}.")


def can_be_read(x: Tensor) -> bool:
    """Whether the values of a tensor can be read at no cost: on a CPU, outside tracing and transforms."""
    return type(x) in (Tensor, torch.nn.Parameter) and x.device.type == "cpu" and not is_traced()


def is_traced() -> bool:
    """Whether torch.compile or a torch.func transform is active, under which tensors are abstract."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def is_abstract(x: Tensor) -> bool:
    """Whether the values of a tensor cannot be read, even by waiting: while tracing, or on the device `meta`."""
    return is_traced() or x.is_meta


def number(owner: str, name: str, value: Any) -> float:
    """`value` as a number, possibly infinite; a tensor is refused, as its gradient would be lost."""
    if torch.compiler.is_compiling():  # symbolic values must not be specialized
        return value
    if isinstance(value, numbers.Real) and not math.isnan(value):
        return value if isinstance(value, int) else float(value)
    raise SettingError(f"{owner}: {name} must be a number, not {value!r}.")


def positive(owner: str, name: str, value: Any) -> float:
    """`value` as a finite number above 0."""
    if torch.compiler.is_compiling() or 0 < number(owner, name, value) < math.inf:
        return value
    raise SettingError(f"{owner}: {name} must be a number above 0, not {value!r}.")


def not_positive(value: float | Tensor) -> float | None:
    """The number, or an entry of a tensor, that is not above 0; None if there is none, or if values cannot be read."""
    if not isinstance(value, Tensor):
        return None if torch.compiler.is_compiling() or value > 0 else value
    if not can_be_read(value) or value.numel() == 0:
        return None
    minimum = float(value.detach().min())  # NaN if any is NaN
    return None if minimum > 0 else minimum


def check_offsets(owner: str, offsets: Tensor, num_nodes: int) -> None:
    """Raise unless offsets start at 0, do not decrease, and end at the number of nodes.

    A device is not waited for: it stops by itself, with a RuntimeError at the next operation that waits for it. Offsets
    that it has checked once, as the first of several layers had them, are not checked again.
    """
    if offsets.dim() != 1 or offsets.numel() == 0 or offsets.is_floating_point():
        raise ShapeError(
            f"{owner}: offsets must be whole numbers (boundary), not {offsets.dtype} of shape {tuple(offsets.shape)}."
        )
    if not can_be_read(offsets):
        if type(offsets) is Tensor and offsets.device.type in ASSERTING_DEVICES and not is_traced():
            _assert_offsets(owner, offsets, num_nodes)
        return
    first, last = int(offsets[0]), int(offsets[-1])
    if first != 0 or last != num_nodes or not bool((offsets[1:] >= offsets[:-1]).all()):
        raise ShapeError(
            f"{owner}: offsets must begin at 0, not fall, and end at the number of nodes, {num_nodes}; they go from "
            f"{first} to {last}. Nodes of graph g are offsets[g]:offsets[g + 1]."
        )


ASSERTING_DEVICES = ("cpu", "cuda", "meta")
"""Those that check a condition when they come to it."""
_num_nodes_of: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""The number of nodes of offsets that were checked on a device."""


def _assert_offsets(owner: str, offsets: Tensor, num_nodes: int) -> None:
    if _num_nodes_of.get(offsets) == num_nodes:
        return
    fit = (offsets[0] == 0) & (offsets[-1] == num_nodes) & (offsets.diff() >= 0).all()
    message = f"{owner}: offsets must begin at 0, not fall, and end at the number of nodes, {num_nodes}."
    torch._assert_async(fit, message)
    _num_nodes_of[offsets] = num_nodes


def check_range(name: str, index: Tensor, size: int) -> None:
    """Raise if a node index is negative or beyond the last node."""
    if index.numel() == 0:
        return
    low, high = map(int, index.aminmax())
    if low < 0 or high >= size:
        raise ShapeError(f"Edges: {name} must lie in 0 … {size - 1}; found {low if low < 0 else high}.")


def check_edges(senders: Tensor, receivers: Tensor, num_senders: int, num_receivers: int) -> None:
    """Raise unless two lists are valid edges between nodes of these numbers."""
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
"""The number of queries and of keys; None if unknown."""


def joint_sizes(owner: str, parts: Sequence[Sizes]) -> Sizes:
    """The common sizes of several parts, which must agree if they are known."""
    joint: Sizes = (None, None)
    for sizes in parts:
        for axis, size, other_size in zip(("query", "key"), joint, sizes, strict=True):
            if None not in (size, other_size) and size != other_size:
                raise ShapeError(f"{owner}: axis '{axis}' is {size} in one part but {other_size} in another.")
        joint = known_sizes(joint, sizes)
    return joint


def known_sizes(*parts: Sizes) -> Sizes:
    """The sizes of the first part in which they are known."""
    queries, keys = (next((size for size in sizes if size is not None), None) for sizes in zip(*parts, strict=True))
    return queries, keys


def resolved_sizes(
    verb: str, owner: str, num_queries: int | None, num_keys: int | None, sizes: Sizes, fixed_sizes: Sizes
) -> tuple[int, int]:
    """The sizes of a call: those given, else those of the neighborhood `owner`; keys default to queries.

    Raises:
        ShapeError: a size differs from the one that the neighborhood fixes, or nothing says the number of queries.
    """
    for axis, call_size, fixed_size in zip(("query", "key"), (num_queries, num_keys), fixed_sizes, strict=True):
        if call_size is not None and fixed_size is not None and call_size != fixed_size:
            raise ShapeError(f"{verb}: axis '{axis}' is {call_size} in the call but {fixed_size} in {owner}.")

    num_queries, num_keys = known_sizes((num_queries, num_keys), sizes)
    if num_queries is None:
        raise ShapeError(
            f"{verb}: {owner} does not determine the number of queries; pass num_queries (and num_keys, if it differs)."
        )
    return num_queries, num_queries if num_keys is None else num_keys


def joint_batch(owner: str, shapes: Sequence[torch.Size]) -> torch.Size:
    """The common batch axes of several parts."""
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
    """The shape that all shapes broadcast to, like `torch.broadcast_shapes`.

    That function imports parts of torch's compiler at its first call, which takes half a second and 60 MB, and is as
    slow as all checks of a call together.
    """
    if torch.compiler.is_compiling():  # sizes may be symbolic, which a comparison would specialize
        return torch.broadcast_shapes(*shapes)

    result: Sequence[int] = ()
    for shape in shapes:
        if shape == result or not shape:
            continue

        if len(shape) < len(result):
            shape, result = result, shape
        broadcast, start = list(shape), len(shape) - len(result)
        for axis, size in enumerate(result, start):
            if broadcast[axis] == 1:
                broadcast[axis] = size
            elif size not in (1, broadcast[axis]):
                return torch.broadcast_shapes(*shapes)  # which raises

        result = broadcast

    return torch.Size(result)
