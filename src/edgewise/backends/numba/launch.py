"""Attention over edges from the caller's own tensors: what follows from their form is made once.

    tensors of a known form → read where they are, or copied node by node → kernels → output and gradients

`layout` does the same by operations of torch, one after the other, for calls of every kind, and is what tracers see.
"""

import math
from array import array
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from edgewise.backends.autograd import gradients_by_formula, is_transformed
from edgewise.backends.lower import Lowered
from edgewise.backends.numba.edge_kernels import (
    PLACES,
    TENSORS,
    EdgeForm,
    EdgeKernels,
    edge_kernels,
    lanes_of,
)
from edgewise.backends.numba.simd import WIDTH
from edgewise.neighborhood.operator import PLAIN
from edgewise.neighborhood.plan import Plan

KINDS = ("Dot", "GATv2", "Additive", "Distance")
"""Scores that are made of a query and a key."""


class MemoryLayout(NamedTuple):
    """How kernels have a tensor of the caller's in memory: node by node, its heads one after the other, padded."""

    shape: tuple[int, ...]
    """In the caller's axes."""
    strides: tuple[int, ...]
    """Those of the caller's axes in that memory."""
    size: int
    """How many numbers it has."""
    like: Tensor
    """An empty tensor of its dtype: torch makes others from it faster than from nothing."""
    row: tuple[int, ...]
    """The shape of a node."""
    is_padded: bool
    own_strides: tuple[int, ...] | None
    """Those of the caller's tensor, where it may be read in place: each of its rows is one run of memory."""

    @property
    def dtype(self) -> torch.dtype:
        """That of its numbers."""
        return self.like.dtype

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return math.prod(self.row)

    @property
    def step(self) -> int:
        """From one row to the next, where they are read."""
        is_apart = self.own_strides is not None and self.size > self.width
        return self.own_strides[len(self.shape) - len(self.row)] if is_apart and self.own_strides else self.width

    def empty(self) -> Tensor:
        """Memory for it, in the caller's axes."""
        if self.is_padded:
            return self.like.new_empty(self.size).as_strided(self.shape, self.strides)
        return self.like.new_empty_strided(self.shape, self.strides)

    def copied(self, x: Tensor) -> Tensor:
        """A tensor with these numbers, in that memory from its beginning on."""
        if self.is_padded:
            memory = self.like.new_zeros(self.size)
            memory.as_strided(self.shape, self.strides).copy_(x)
            return memory
        return self.like.new_empty_strided(self.shape, self.strides).copy_(x)

    def is_as_given(self, x: Tensor) -> bool:
        """Whether a tensor that was saved is still that of the form: hooks of saved tensors may have changed it."""
        return x.stride() == self.own_strides and x.shape == self.shape and x.dtype == self.dtype and x.is_cpu


def memory_layout_of(
    shape: tuple[int, ...], own_strides: tuple[int, ...] | None, dtype: torch.dtype, heads: int | None, dim: int
) -> MemoryLayout:
    """The layout of `(*batch, node, feature)`.

    Args:
        shape: that of the tensor.
        own_strides: its strides; None where it is to be made.
        dtype: its numbers.
        heads: how many heads there are in memory; those of the tensor where None.
        dim: how many features.
    """
    *batch, num_nodes, features = shape
    own_heads = math.prod(batch)
    heads = own_heads if heads is None else heads
    steps = [dim * math.prod(batch[axis + 1 :]) for axis in range(len(batch))]
    is_padded = heads * dim != own_heads * features
    fits = own_strides is not None and not is_padded and (features == 1 or own_strides[-1] == 1)
    if own_strides is not None:
        fits = fits and all(size == 1 or own == step for size, own, step in zip(batch, own_strides, steps))
    strides = (*steps, heads * dim, 1)
    like = torch.empty(0, dtype=dtype, device="cpu")
    return MemoryLayout(
        tuple(shape), strides, num_nodes * heads * dim, like, (heads, dim), is_padded, own_strides if fits else None
    )


class Launch:
    """Calls of one form: their kernels, and where they read and write.

    It holds no tensor of a call. Tensors are query, key, value, edge_key, edge_value, bias and vector.
    """

    def __init__(
        self, lowered: Lowered, batch: tuple[int, ...], head_bytes: bytes, index_dtype: torch.dtype,
        formula: Callable[..., Tensor],
    ):  # fmt: skip
        call, vector = lowered.call, lowered.vector
        assert call.value is not None
        self.formula, self.batch, num_heads = formula, batch, math.prod(batch)
        lanes = lanes_of(num_heads)
        key_lanes, key_dim = (lanes, 1) if lowered.is_narrow else (None, _whole(call.query.shape[-1]))
        value_dim = _whole(call.value.shape[-1])
        parts: tuple[tuple[Tensor | None, int | None, int], ...] = (
            (call.query, key_lanes, key_dim), (call.key, key_lanes, key_dim), (call.value, None, value_dim),
            (call.edge_key, key_lanes, key_dim), (call.edge_value, None, value_dim),
            (None if call.bias is None else call.bias.unsqueeze(-1), lanes, 1),
        )  # fmt: skip
        layouts = [
            None if x is None else memory_layout_of(x.shape, x.stride(), x.dtype, heads, dim) for x, heads, dim in parts
        ]
        if (bias := layouts[5]) is not None:
            own = None if bias.own_strides is None else bias.own_strides[:-1]
            layouts[5] = bias._replace(
                shape=bias.shape[:-1], strides=bias.strides[:-1], row=bias.row[:1], own_strides=own
            )
        self.layouts = tuple(layouts)

        self.is_narrow, self.num_heads, self.dropout = lowered.is_narrow, num_heads, float(call.dropout)
        form = EdgeForm(
            tuple([None if x is None else x.row for x in self.layouts]),
            tuple([None if x is None else x.dtype for x in self.layouts]),
            head_bytes, vector is not None, index_dtype, lowered.formula, self.dropout,
        )  # fmt: skip
        self.kernels: EdgeKernels = edge_kernels(form)
        precise = self.kernels.dtype
        self.ones = torch.ones(num_heads, dtype=precise, device="cpu") if lowered.is_narrow else None
        """The vector of heads of one number."""
        self.vector_shape = None if vector is None or lowered.is_narrow else vector.shape
        self.vector_size = 0 if vector is None else num_heads * key_dim
        shape = (*batch, call.num_queries, call.value.shape[-1])
        self.out = memory_layout_of(shape, None, call.value.dtype, num_heads, value_dim)
        self.stats_shape, self.precise = (call.num_queries, 2, lanes), torch.empty(0, dtype=precise, device="cpu")
        self.forward_values, self.backward_values = self._templates()
        self.edge_shapes = [None if x is None else (x.size // x.width, *x.row) for x in self.layouts[3:]]
        self.is_present = [x is not None for x in (*self.layouts, vector)]

    def __call__(self, plan: Plan, seed: int, *tensors: Tensor | None) -> Tensor:
        """The output, `(*batch, query, value_dim)`."""
        if torch.is_grad_enabled() and any([x is not None and x.requires_grad for x in tensors]):
            present = [x for x in tensors if x is not None]  # torch takes its time for each argument
            out: Tensor = _Launched.apply((self, plan, seed), *present)
            return out
        return self.forward(plan, seed, tensors)[0]

    def forward(self, plan: Plan, seed: int, tensors: Sequence[Tensor | None]) -> tuple[Tensor, Tensor]:
        """The output, and the two numbers of each row."""
        values = self.forward_values[:]
        memory = [
            x if x is None or layout is None or layout.own_strides is not None else layout.copied(x)
            for x, layout in zip(tensors, self.layouts, strict=False)
        ]
        memory.append(self._vector(tensors[6]))  # copies must live until the kernels have read them
        out, stats = self.out.empty(), self.precise.new_empty(self.stats_shape)
        _put_lists(values, PLACES["offsets"], plan.receiver_offsets, plan.senders, plan.receiver_edges)
        _put_addresses(values, _FORWARD, (*memory, stats, out))
        self.kernels.forward(values, seed)
        return out, stats

    def backward(
        self, plan: Plan, seed: int, tensors: Sequence[Tensor | None], stats: Tensor, grad_out: Tensor,
        needs: Sequence[bool],
    ) -> list[Tensor | None]:  # fmt: skip
        """The gradients of the tensors, None where none is wanted."""
        values, memory = self.backward_values[:], []
        for name, layout, x in zip(_OPERANDS, self.layouts, tensors):
            if x is not None and layout is not None and not layout.is_as_given(x):
                x, values[PLACES[name] + 2] = layout.copied(x), layout.width
            memory.append(x)
        memory.append(self._vector(tensors[6]))
        stats = stats.contiguous()
        outward = grad_out if grad_out.stride() == self.out.strides and not self.out.is_padded else None
        outward = self.out.copied(grad_out) if outward is None or outward.is_neg() else outward
        of_nodes = [x.empty() for x in self.layouts[:3] if x is not None]
        _put_lists(values, PLACES["offsets"], plan.receiver_offsets, plan.senders, plan.receiver_edges)
        _put_lists(values, PLACES["sender_offsets"], plan.sender_offsets, plan.receivers, plan.sender_edges)
        _put_addresses(values, _BACKWARD, (*memory, stats, outward, *of_nodes))
        of_others = self.kernels.backward(values, seed, stats, self.edge_shapes, self.vector_size, False, needs)

        grads: list[Tensor | None] = [*of_nodes]
        for layout, x in zip(self.layouts[3:], of_others):
            of_edges = None if layout is None or x is None else x.as_strided(layout.shape, layout.strides)
            grads.append(of_edges if of_edges is None or layout is None else of_edges.to(layout.dtype))
        of_vector = of_others[3]
        grads.append(None if self.vector_shape is None or of_vector is None else of_vector.view(self.vector_shape))
        return [x if need else None for x, need in zip(grads, needs)]

    def apart(self, present: Sequence[Any]) -> list[Any]:
        """What belongs to the tensors that are there, with None for the others."""
        remaining = iter(present)
        return [next(remaining) if is_present else None for is_present in self.is_present]

    def _vector(self, vector: Tensor | None) -> Tensor | None:
        """The vector of the score, its numbers one behind the other."""
        vector = self.ones if self.is_narrow else vector
        return vector if vector is None or vector.is_contiguous() else vector.contiguous()

    def _templates(self) -> tuple[array, array]:
        """The values of a forward and a backward pass, with what does not change from call to call."""
        values = [0] * (PLACES[TENSORS[-1]] + 3)
        for name, x in zip(_OPERANDS, self.layouts):
            if x is not None:
                values[PLACES[name] + 1 : PLACES[name] + 3] = x.size, x.step
        for name, x in zip(("d_query", "d_key", "d_value"), self.layouts):
            if x is not None:
                values[PLACES[name] + 1 : PLACES[name] + 3] = x.size, x.width
        values[PLACES["vector"] + 1] = self.vector_size
        values[PLACES["stats"] + 1] = math.prod(self.stats_shape)
        values[PLACES["out"] + 1 : PLACES["out"] + 3] = self.out.size, self.out.step
        return array("q", values[: PLACES["sender_offsets"]]), array("q", values)


def _whole(dim: int) -> int:
    """A whole number of vectors."""
    return dim + -dim % WIDTH


def _put_lists(values: array, at: int, offsets: Tensor, neighbors: Tensor, edges: Tensor) -> None:
    """Where three lists of a plan begin, and how long they are; edges have the rows of their numbers."""
    values[at], values[at + 1] = offsets.data_ptr(), offsets.numel()
    values[at + 3], values[at + 4] = neighbors.data_ptr(), neighbors.numel()
    values[at + 6], values[at + 7] = values[at + 9], values[at + 10] = edges.data_ptr(), edges.numel()


def _put_addresses(values: array, places: Sequence[int], tensors: Sequence[Tensor | None]) -> None:
    """Where tensors begin."""
    for place, x in zip(places, tensors):
        if x is not None:
            values[place] = x.data_ptr()


_OPERANDS = ("query", "key", "value", "edge_key", "edge_value", "bias")
_FORWARD = tuple([PLACES[name] for name in (*_OPERANDS, "vector", "stats", "out")])
_BACKWARD = (*_FORWARD, *[PLACES[name] for name in ("d_query", "d_key", "d_value")])


class _Launched(torch.autograd.Function):
    """A launch whose output has gradients; see `edgewise.backends.autograd` for those of gradients."""

    @staticmethod
    def forward(ctx: Any, launched: tuple[Launch, Plan, int], *present: Tensor) -> Tensor:
        launch, plan, seed = ctx.launched = launched
        out, stats = launch.forward(plan, seed, launch.apart(present))
        ctx.save_for_backward(stats, *present)
        ctx.set_materialize_grads(False)
        return out

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor | None) -> tuple:
        launch, plan, seed = ctx.launched
        (stats, *present), needs = ctx.saved_tensors, ctx.needs_input_grad[1:]
        if grad_out is None:
            return None, *[None] * len(present)
        tensors, needs = launch.apart(present), [need is True for need in launch.apart(needs)]
        is_plain = _are_plain(grad_out, present)
        if is_plain and not torch.is_grad_enabled():
            gradients: Sequence = launch.backward(plan, seed, tensors, stats, grad_out, needs)
        else:

            def formula(*tensors: Tensor | None) -> Tensor:
                out: Tensor = launch.formula(plan, seed, *tensors)
                return out

            computed = None
            if is_plain:
                with torch.no_grad():
                    computed = launch.backward(plan, seed, tensors, stats, grad_out, needs)
            gradients = gradients_by_formula(formula, grad_out, tensors, needs, [None] * len(tensors), computed)
        return None, *[x for x, is_present in zip(gradients, launch.is_present) if is_present]


def _are_plain(grad_out: Tensor, tensors: Sequence[Tensor]) -> bool:
    """Whether kernels can read tensors: neither tracers' nor some that a transform of torch is at work on."""
    if type(grad_out) not in PLAIN or is_transformed(grad_out) or torch.compiler.is_compiling():
        return False
    return all([type(x) in PLAIN for x in tensors])
