"""Edges grouped by receiver and by sender, as kernels read them: created once per edge list, not at every call."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import no_type_check

import numpy as np
import torch
from jaxtyping import Int, Int64
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from edgewise.errors import ShapeError
from edgewise.neighborhood.checks import check_range
from edgewise.neighborhood.index import outside_modes, sent
from edgewise.neighborhood.operator import define

INT32_LIMIT = 2**31
"""A plan uses int32 if the numbers of edges, senders and receivers are all below this."""


@dataclass(frozen=True, eq=False)
class Plan:
    """The edges grouped by receiver and by sender, as kernels read them.

    All tensors are int32 if every size is below 2³¹, else int64. Within a group the edges keep the caller's order.

    >>> from edgewise import Edges
    >>> plan = Edges([2, 0, 2], [1, 0, 0], 3, 2).plan
    >>> plan.receiver_offsets.tolist(), plan.senders.tolist(), plan.receiver_edges.tolist()
    ([0, 2, 3], [0, 2, 2], [1, 2, 0])
    >>> plan.sender_offsets.tolist(), plan.receivers.tolist(), plan.sender_edges.tolist()
    ([0, 1, 1, 3], [0, 1, 0], [1, 0, 2])
    """

    receiver_offsets: Int[Tensor, " receiver_boundary"]
    """The edges of receiver i are at positions `receiver_offsets[i]:receiver_offsets[i + 1]`."""
    senders: Int[Tensor, " edge"]
    """The sender at each of these positions."""
    receiver_edges: Int[Tensor, " edge"]
    """The original index of the edge at each of these positions, ascending within a receiver."""
    sender_offsets: Int[Tensor, " sender_boundary"]
    """The edges of sender j are at positions `sender_offsets[j]:sender_offsets[j + 1]`."""
    receivers: Int[Tensor, " edge"]
    """The receiver at each of these positions."""
    sender_edges: Int[Tensor, " edge"]
    """The original index of the edge at each of these positions, ascending within a sender."""

    @property
    def lists(self) -> list[Tensor]:
        """All six, in the order of the fields, as operators take them."""
        by_receiver = [self.receiver_offsets, self.senders, self.receiver_edges]
        return [*by_receiver, self.sender_offsets, self.receivers, self.sender_edges]

    @classmethod
    def of(
        cls, senders: Int64[Tensor, " edge"], receivers: Int64[Tensor, " edge"], num_senders: int, num_receivers: int
    ) -> "Plan":
        """The plan of the edges senders[e] → receivers[e].

        Raises:
            ShapeError: a position is negative or beyond the last node (checked on a CPU only).

        Cost: O(edge + node) on a CPU with numba, else two sorts.
        """
        dtype = _dtype(senders.shape[0], num_senders, num_receivers)
        return cls(*group_edges(senders, receivers, num_senders, num_receivers, dtype))

    def to(self, device: torch.device | str) -> "Plan":
        """The same plan with its tensors on `device`; the CPU tensors are remembered, see `at_home`."""
        return Plan(*(_sent_from_home(getattr(self, field.name), device) for field in fields(self)))


def at_home(x: Tensor) -> Tensor:
    """The CPU copy of a tensor of a plan, readable without synchronizing, if the plan was created on the CPU."""
    return _homes.get(x, x)


_homes: WeakIdKeyDictionary = WeakIdKeyDictionary()


def _sent_from_home(x: Tensor, device: torch.device | str) -> Tensor:
    moved = sent(x, device)
    if x.device.type == "cpu" and moved is not x:
        _homes[moved] = x
    return moved


def group(senders: Tensor, receivers: Tensor, num_senders: int, num_receivers: int, dtype: torch.dtype) -> list[Tensor]:
    """The six tensors of a plan, in the order of its fields."""
    if dtype == torch.int32 and max(senders.shape[0], num_senders, num_receivers) >= INT32_LIMIT:
        raise ShapeError(
            "Edges: a program traced with dynamic sizes uses int32 indices, but there are 2³¹ or more nodes or edges; "
            "trace it for these sizes."
        )
    can_count = senders.device.type == "cpu" and counting_sort() is not None
    with outside_modes():  # a plan created during evaluation may be used in training
        group_function = group_by_counting if can_count else group_by_sorting
        return group_function(senders, receivers, num_senders, num_receivers, dtype)


def group_by_counting(
    senders: Tensor, receivers: Tensor, num_senders: int, num_receivers: int, dtype: torch.dtype
) -> list[Tensor]:
    """Both groups by a counting sort in numba, in O(edge + node)."""
    sort = counting_sort()
    assert sort is not None

    directions = ("receivers", receivers, senders, num_receivers), ("senders", senders, receivers, num_senders)
    grouped = []
    for name, keys, others, num_keys in directions:
        offsets = keys.new_zeros(num_keys + 1, dtype=dtype)
        placed, edges = (keys.new_empty(keys.shape, dtype=dtype) for _ in range(2))
        # As unsigned integers, negative ones are beyond every node.
        unsigned = keys.contiguous().numpy().view(np.uint64)
        if not sort(unsigned, others.contiguous().numpy(), offsets.numpy(), placed.numpy(), edges.numpy()):
            check_range(name, keys, num_keys)
        grouped += [offsets, placed, edges]

    return grouped


def group_by_sorting(
    senders: Tensor, receivers: Tensor, num_senders: int, num_receivers: int, dtype: torch.dtype
) -> list[Tensor]:
    """Both groups by two sorts in torch, on any device."""
    grouped = []
    for keys, others, num_keys in ((receivers, senders, num_receivers), (senders, receivers, num_senders)):
        ordered, edges = keys.sort(stable=True)
        boundaries = torch.arange(num_keys + 1, device=keys.device)
        offsets = torch.searchsorted(ordered, boundaries, out_int32=dtype == torch.int32)
        grouped += [offsets, others[edges].to(dtype), edges.to(dtype)]
    if senders.device.type == "cpu":
        check_range("receivers", receivers, num_receivers)
        check_range("senders", senders, num_senders)
    return grouped


@cache
def counting_sort() -> Callable[..., bool] | None:
    """`place_by_counting`, compiled; None if numba cannot be imported, or compilation is disabled."""
    try:
        from numba import config

        from edgewise.neighborhood.jit import compiled
    except (ImportError, OSError):  # not installed, or its library does not load
        return None
    if config.DISABLE_JIT:  # type: ignore[attr-defined]  # set by numba at import
        return None
    return compiled(place_by_counting, nogil=True)


@no_type_check  # numba compiles it as written
def place_by_counting(keys, others, offsets, placed, edges):
    """A stable counting sort of the edges by key.

    Args:
        keys, others: uint64 and int64 `(edge)`, the node to sort by and the one at the other end.
        offsets: zeros `(boundary)`; becomes the first position of each key, and the number of edges at the end.
        placed, edges: `(edge)`; become the other end and the index of the edge at each position.

    Returns:
        False, with nothing written, if a key is not a node.
    """
    num_edges, num_keys = keys.shape[0], offsets.shape[0] - 1
    ascending = True
    for edge in range(num_edges):
        if keys[edge] >= num_keys:
            return False
        if edge > 0 and keys[edge] < keys[edge - 1]:
            ascending = False
        offsets[keys[edge]] += 1

    total = 0
    for key in range(num_keys + 1):
        count = offsets[key]
        offsets[key] = total
        total += count

    if ascending:  # a sorted list is copied, which is faster
        for edge in range(num_edges):
            placed[edge], edges[edge] = others[edge], edge
        return True

    for edge in range(num_edges):
        position = offsets[keys[edge]]
        placed[position], edges[position] = others[edge], edge
        offsets[keys[edge]] = position + 1

    # Each offset is now the start of the next key.
    for key in range(num_keys, 0, -1):
        offsets[key] = offsets[key - 1]
    offsets[0] = 0
    return True


def _dtype(*sizes: int) -> torch.dtype:
    """int32 if all sizes are below the limit; symbolic sizes of a traced program are assumed to be."""
    if torch.compiler.is_compiling():
        from torch.fx.experimental.symbolic_shapes import statically_known_true

        return torch.int64 if any([statically_known_true(size >= INT32_LIMIT) for size in sizes]) else torch.int32
    return torch.int64 if max(sizes) >= INT32_LIMIT else torch.int32


def _shapes(
    senders: Tensor,
    receivers: Tensor,
    num_senders: int | torch.SymInt,
    num_receivers: int | torch.SymInt,
    dtype: torch.dtype,
) -> list[Tensor]:
    """The empty tensors of a plan for tracing."""
    num_edges = senders.shape[0]
    sizes = num_receivers + 1, num_edges, num_edges, num_senders + 1, num_edges, num_edges
    return [senders.new_empty((size,), dtype=dtype) for size in sizes]


group_edges = define("plan", group, _shapes)
