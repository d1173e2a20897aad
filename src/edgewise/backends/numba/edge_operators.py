"""The kernels over edges as torch operators: plain tensors in and out, with shapes for tracing, and gradients."""

from array import array
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from edgewise.backends import formula
from edgewise.backends.autograd import define_with_gradient
from edgewise.backends.formula import EdgeInputs, value_of
from edgewise.backends.numba.arrays import array_of, factors_of
from edgewise.backends.numba.edge_kernels import (
    NOWHERE,
    TENSORS,
    EdgeForm,
    EdgeKernels,
    absent,
    chunks_of,
    edge_kernels,
    heads_of,
    lanes_of,
    places_in_row,
    values_of,
)
from edgewise.backends.numba.tables import Absent, Lists, Table

Operands = tuple[Tensor | None, ...]
"""Query, key, value, edge_key, edge_value, bias and vector."""


def forward_edges(inputs: EdgeInputs) -> tuple[Tensor, Tensor]:
    """Attention over lists of edges, and the two numbers of each row that the gradient needs.

    Args:
        inputs: dims are whole numbers of vectors. Query, key and value have heads of their own, as `heads` says. Where
            a head has one number, query, key and edge_key are `(…, lane, 1)`: lanes are all heads of the call, and more
            up to a whole vector, and so is bias `(edge, lane)`.

    Returns:
        `(receiver, head, value_dim)` and `(receiver, 2, lane)`.
    """
    operands = operands_of(inputs)
    out, stats = edges_shapes(inputs)
    values = array("q", [0, 0, 0, 0, *values_of((*_by_receiver(inputs.lists), *operands, stats, out))])
    kernels_of(inputs, operands).forward(values, _seed_of(inputs))
    return out, stats


def edges_shapes(inputs: EdgeInputs) -> tuple[Tensor, Tensor]:
    """What tracers see of the output."""
    query, num_heads = inputs.query, _num_heads(inputs)
    out = query.new_empty(query.shape[0], num_heads, value_of(inputs).shape[-1])
    dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
    return out, query.new_empty(query.shape[0], 2, lanes_of(num_heads), dtype=dtype)


def backward_edges(grad_out: Tensor, outputs: list[Tensor], inputs: EdgeInputs, needs: Sequence[bool]) -> list[Tensor]:
    """The gradients of query, key, value, edge_key, edge_value, bias and vector; empty where a tensor is absent."""
    operands, (stats,), lists = operands_of(inputs), outputs, inputs.lists
    of_nodes = [torch.empty(x.shape, dtype=x.dtype, device="cpu") for x in operands[:3] if x is not None]
    tensors = *_by_receiver(lists), *operands, stats, readable(grad_out), *_by_sender(lists), *of_nodes
    edge_shapes, vector = [None if x is None else tuple(x.shape) for x in operands[3:6]], inputs.vector
    values = array("q", [0, 0, 0, 0, *values_of((*tensors, *[None] * (len(TENSORS) - len(tensors))))])
    of_others = kernels_of(inputs, operands).backward(
        values, _seed_of(inputs), stats, edge_shapes,
        0 if vector is None else vector.numel(), are_shared(lists), needs,
    )  # fmt: skip
    grads = zip((*of_nodes, *of_others), inputs[:7], strict=True)
    return [_gradient(x, tensor, stats) for x, tensor in grads]


def _gradient(gradient: Tensor | None, tensor: Tensor | None, stats: Tensor) -> Tensor:
    if tensor is None:
        return stats.new_empty(0) if gradient is None else gradient
    return torch.zeros_like(tensor) if gradient is None else gradient.view_as(tensor).to(tensor.dtype)


def edges_formula(inputs: EdgeInputs) -> Tensor:
    """The output in plain torch."""
    assert inputs.heads is not None
    num_heads, is_narrow = _num_heads(inputs), inputs.query.shape[-1] == 1

    tables: list[Any] = list(inputs[:5])
    for index, table in enumerate(tables):
        if is_narrow and index in (0, 1, 3):
            tables[index] = None if table is None else table[:, :num_heads]
        elif table is not None and table.shape[1] not in (1, num_heads):
            tables[index] = table.index_select(1, inputs.heads[index])

    factors = None
    if inputs.dropout > 0:
        edges = torch.arange(len(inputs.lists[2]), device="cpu").unsqueeze(1)
        factors = factors_of(inputs.dropout, inputs.seed, edges, torch.arange(num_heads, device="cpu"))
    bias = None if inputs.bias is None else inputs.bias[:, :num_heads]

    if are_shared(inputs.lists):
        numbers, rows = inputs.lists[2].long(), inputs.lists[6].long()
        rows = torch.empty_like(rows).index_copy_(0, numbers, rows)  # in the caller's order
        tables[3:] = [None if x is None else x.index_select(0, rows) for x in tables[3:]]
        bias = None if bias is None else bias.index_select(0, rows)

    return formula.over_edges(EdgeInputs(*[*tables, bias, *inputs[6:]]), factors)


attend_edges = define_with_gradient(
    "attend_edges", EdgeInputs, forward_edges, edges_shapes, backward_edges, edges_formula, num_differentiable=7,
    saved_outputs=(1,),
)  # fmt: skip


def kernels_of(inputs: EdgeInputs, operands: Operands) -> EdgeKernels:
    """The kernels that an operator runs."""
    assert inputs.heads is not None
    rows = tuple([None if x is None else tuple(x.shape[1:]) for x in operands[:6]])
    dtypes = tuple([None if x is None else x.dtype for x in operands[:6]])
    settings = inputs.kind, inputs.activation, inputs.root, inputs.number, inputs.normalizer
    heads, index_dtype = inputs.heads.numpy().tobytes(), inputs.lists[0].dtype
    return edge_kernels(
        EdgeForm(rows, dtypes, heads, inputs.vector is not None, index_dtype, settings, float(inputs.dropout))
    )


def operands_of(inputs: EdgeInputs) -> Operands:
    """Query, key, value, edge_key, edge_value, bias and vector, as kernels can read them."""
    tensors = inputs.query, inputs.key, value_of(inputs), *inputs[3:7]
    return tuple([None if x is None else readable(x) for x in tensors])


def readable(x: Tensor) -> Tensor:
    """A tensor whose rows may lie apart, but each is one run of memory."""
    if x.is_neg():
        x = x.resolve_neg()
    if x.is_contiguous() or (x.numel() > 0 and x.stride()[1:] == (x.shape[-1], 1)[3 - x.dim() :]):
        return x
    return x.contiguous()


def _by_receiver(lists: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return lists[0], lists[1], lists[2], lists[6] if are_shared(lists) else lists[2]


def _by_sender(lists: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return lists[3], lists[4], lists[5], lists[7] if are_shared(lists) else lists[5]


def _seed_of(inputs: EdgeInputs) -> int:
    return int(inputs.seed) if inputs.dropout > 0 else 0


def _num_heads(inputs: EdgeInputs) -> int:
    assert inputs.heads is not None
    return inputs.heads.shape[1]


def table_of(x: Tensor | None, head_bytes: bytes | None = None, like: Tensor | None = None) -> Table | Absent:
    """A tensor `(node, head, dim)` or `(edge, head)` as a table; rows may lie apart, but a row is one run of memory.

    What is None becomes a table that is absent, of numbers like those of another tensor. `own` are the heads that the
    heads of the call read, as int64; without it each reads its own.
    """
    if x is None:
        assert like is not None
        return absent(like.dtype)
    if x.numel() == 0:
        return Table(absent(x.dtype).data, 0, 0, NOWHERE if head_bytes is None else heads_of(head_bytes))

    width, heads = places_in_row(x.shape[1:], head_bytes)
    if x.is_contiguous():
        return Table(array_of(x), width, width, heads)
    if x.stride()[1:] != (x.shape[-1], 1)[3 - x.dim() :]:
        return Table(array_of(x.contiguous()), width, width, heads)

    flat = x.as_strided(((x.shape[0] - 1) * x.stride(0) + width,), (1,))
    return Table(array_of(flat), x.stride(0), width, heads)


def are_shared(lists: Sequence[Tensor]) -> bool:
    """Whether edges share rows of what they carry: then two more lists stand behind the six of a plan."""
    return len(lists) > 6


def lists_by_receiver(lists: Sequence[Tensor]) -> Lists:
    """The lists of a plan by receiver, as a kernel takes them."""
    offsets, neighbors, edges = lists[0].numpy(), lists[1].numpy(), lists[2].numpy()
    return Lists(offsets, neighbors, edges, lists[6].numpy() if len(lists) > 6 else edges)


def lists_by_sender(lists: Sequence[Tensor]) -> Lists:
    """The same by sender."""
    offsets, neighbors, edges = lists[3].numpy(), lists[4].numpy(), lists[5].numpy()
    return Lists(offsets, neighbors, edges, lists[7].numpy() if len(lists) > 6 else edges)


def chunks_of_lists(lists: Lists, width: int) -> int:
    """The same for the rows of some lists."""
    return chunks_of(len(lists.offsets) - 1, len(lists.edges), width)
