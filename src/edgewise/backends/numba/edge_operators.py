"""The kernels over edges as torch operators: plain tensors in and out, with shapes for tracing, and gradients."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgewise.backends import formula
from edgewise.backends.autograd import define_with_gradient
from edgewise.backends.formula import EdgeInputs, value_of
from edgewise.backends.numba.arrays import CODES, array_of, factors_of, score_of
from edgewise.backends.numba.edges import forward
from edgewise.backends.numba.edges_backward import (
    ReceiverGradients,
    ReceiverRows,
    SenderGradients,
    backward_receivers,
    backward_senders,
)
from edgewise.backends.numba.edges_backward_narrow import backward_keys, backward_values
from edgewise.backends.numba.simd import WIDE, WIDTH
from edgewise.backends.numba.tables import (
    Absent,
    CallSettings,
    DropoutRule,
    EdgeOperands,
    Lists,
    Sizes,
    Table,
    TiledSizes,
    WideSizes,
)

CHUNK = 2**19
"""Numbers to gather in one chunk of work: some tenths of a millisecond."""
MAX_CHUNKS = 64
MAX_SAVED_BYTES = 2**24
"""Bytes of weights and d_score, two numbers an edge and head, up to which they are saved from one backward pass to the
next."""
WIDE_ROW = 16
"""Features of values for each lane from which on three backward passes that gather one wide row an edge are faster
than two that gather two: chosen by `benchmarks/narrow_scores.py`."""


def forward_edges(inputs: EdgeInputs) -> tuple[Tensor, Tensor]:
    """Attention over lists of edges, and the two numbers of each row that the gradient needs.

    Args:
        inputs: dims are whole numbers of vectors. Query, key and value have heads of their own, as `heads` says. Where
            a head has one number, query, key and edge_key are `(…, lane, 1)`: lanes are all heads of the call, and more
            up to a whole vector, and so is bias `(edge, lane)`.

    Returns:
        `(receiver, head, value_dim)` and `(receiver, 2, lane)`.
    """
    job = EdgeArguments(inputs)
    out, stats = edges_shapes(inputs)
    by_receiver = lists_by_receiver(inputs.lists)
    chunks = chunks_of(by_receiver, job.width)
    forward.run(chunks, job.call, by_receiver, chunks, job.operands, array_of(stats), table_of(out))
    return out, stats


def edges_shapes(inputs: EdgeInputs) -> tuple[Tensor, Tensor]:
    """What tracers see of the output."""
    query, num_heads = inputs.query, _num_heads(inputs)
    out = query.new_empty(query.shape[0], num_heads, value_of(inputs).shape[-1])
    dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
    return out, query.new_empty(query.shape[0], 2, lanes_of(num_heads), dtype=dtype)


def backward_edges(grad_out: Tensor, outputs: list[Tensor], inputs: EdgeInputs, needs: Sequence[bool]) -> list[Tensor]:
    """The gradients of query, key, value, edge_key, edge_value, bias and vector; empty where a tensor is absent."""
    job, (stats,) = EdgeArguments(inputs), outputs
    tensors, vector = inputs[:6], inputs.vector
    # A convolution: no score is made of a query and a key, and only the values have gradients.
    of_values_only = inputs.key.shape[-1] == 0 and not any(needs[4:6])
    grads = [torch.empty(x.shape, dtype=x.dtype, device="cpu") for x in (inputs.query, inputs.key, value_of(inputs))]
    by_receiver, by_sender = lists_by_receiver(inputs.lists), lists_by_sender(inputs.lists)
    chunks, sender_chunks = chunks_of(by_receiver, 2 * job.width), chunks_of(by_sender, 2 * job.width)

    # Heads that share what an edge carries add up in its gradient, and so do edges, those of each chunk in rows of
    # their own.
    copies = chunks if are_shared(inputs.lists) else 1
    of_edges = [x for x in inputs[3:6] if x is not None]
    rows_a_chunk = len(of_edges[0]) if of_edges and are_shared(inputs.lists) else 0
    grads += [stats.new_zeros(0 if x is None else (copies * len(x), *x.shape[1:])) for x in inputs[3:6]]
    vector_parts = stats.new_zeros(chunks, 0 if vector is None else vector.numel(), dtype=job.dtype)
    num_edges, lanes = len(by_receiver.edges), job.call.sizes.lanes
    saves = not of_values_only and 2 * lanes * num_edges * stats.element_size() <= MAX_SAVED_BYTES
    is_narrow = not saves and not of_values_only and gathers_once(job.call.sizes)
    saved = table_of(stats.new_empty(num_edges, 2 * lanes) if saves else None, None, stats)
    products = table_of(stats.new_empty(num_edges, lanes) if is_narrow else None, None, stats)
    deltas = stats.new_empty(0 if saves or is_narrow else stats.shape[0], stats.shape[2])
    rows = ReceiverRows(array_of(stats), array_of(deltas), saved, products, table_of(grad_out))
    if is_narrow:
        of_value = table_of(grads[2])
        backward_values.run(sender_chunks, job.call, by_sender, sender_chunks, job.operands, rows, of_value)
    if of_values_only:  # which need the weights alone, and no δ
        deltas.zero_()
    else:
        to_edges = table_of(grads[3], job.heads[3]), table_of(grads[4], job.heads[4]), table_of(grads[5])
        gradients = ReceiverGradients(table_of(grads[0]), *to_edges, array_of(vector_parts), rows_a_chunk)
        backward_receivers.run(chunks, job.call, by_receiver, chunks, job.operands, rows, gradients)
    if is_narrow:
        of_key = table_of(grads[1])
        backward_keys.run(sender_chunks, job.call, by_sender, sender_chunks, job.operands, rows, of_key)
    else:
        to_senders = SenderGradients(table_of(grads[1]), table_of(grads[2]))
        backward_senders.run(sender_chunks, job.call, by_sender, sender_chunks, job.operands, rows, to_senders)
    if copies > 1:
        grads[3:] = [x.unflatten(0, (copies, -1)).sum(0) if x.numel() else x for x in grads[3:]]
    grads.append(stats.new_empty(0) if vector is None else vector_parts.sum(0).view_as(vector))

    return [x if tensor is None else x.to(tensor.dtype) for x, tensor in zip(grads, (*tensors, vector), strict=True)]


def gathers_once(sizes: Any) -> bool:
    """Whether the backward pass over many edges gathers dO alone, because gathering values too takes longer than
    writing and reading one number a lane for each edge."""
    return sizes.key_dim == 1 and sizes.heads * sizes.value_dim >= WIDE_ROW * sizes.lanes


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


class EdgeArguments:
    """The arguments of an operator as the kernels take them."""

    def __init__(self, inputs: EdgeInputs):
        query, key, value = inputs.query, inputs.key, value_of(inputs)
        assert inputs.heads is not None
        self.dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
        tensors = inputs[:5]
        sizes = sizes_of(tuple([None if x is None else x.shape for x in tensors]), _num_heads(inputs))
        self.heads = _rows_of(inputs.heads.numpy().tobytes(), len(tensors))
        bytes_of_tables = [*self.heads, None]
        self.operands = EdgeOperands(
            *(table_of(x, head_bytes, query) for x, head_bytes in zip(inputs[:6], bytes_of_tables, strict=True))
        )
        self.width = key.shape[1] * key.shape[2] + value.shape[1] * value.shape[2]
        dropout = DropoutRule(float(inputs.dropout), int(inputs.seed)) if inputs.dropout > 0 else NO_DROPOUT
        score = score_of(inputs.kind, inputs.activation, inputs.root, inputs.number, inputs.vector)
        self.call = CallSettings(score, CODES[inputs.normalizer], sizes, dropout)


def _num_heads(inputs: EdgeInputs) -> int:
    assert inputs.heads is not None
    return inputs.heads.shape[1]


# What follows from shapes alone is remembered: for a small graph the kernels are done in a third of a millisecond.


@lru_cache(maxsize=1024)
def sizes_of(shapes: tuple, num_heads: int) -> Any:
    """What query, key, value, edge_key and edge_value agree on; its type says how features can be read at once, which
    is compiled in."""
    lanes, dims = lanes_of(num_heads), (shapes[0][-1], shapes[2][-1])
    wide = [shape for shape in shapes if shape is not None and shape[-1] > 1]
    if any(shape[-1] % WIDE for shape in wide):
        return Sizes(num_heads, lanes, *dims)
    has_tiles = num_heads % WIDTH == 0 and all(shape[1] == num_heads for shape in wide)
    return (TiledSizes if has_tiles else WideSizes)(num_heads, lanes, *dims)


@lru_cache(maxsize=1024)
def _rows_of(heads: bytes, number: int) -> list[bytes]:
    """The rows of a table of heads, each as what it can be remembered by."""
    step = len(heads) // number
    return [heads[row * step : (row + 1) * step] for row in range(number)]


def lanes_of(num_heads: int) -> int:
    """Heads, rounded up to whole vectors."""
    return (num_heads + WIDTH - 1) // WIDTH * WIDTH


NOWHERE = np.zeros(0, np.int64)
NO_DROPOUT = DropoutRule(0.0, 0)


def table_of(x: Tensor | None, head_bytes: bytes | None = None, like: Tensor | None = None) -> Table | Absent:
    """A tensor `(node, head, dim)` or `(edge, head)` as a table; rows may lie apart, but a row is one run of memory.

    What is None becomes a table that is absent, of numbers like those of another tensor. `own` are the heads that the
    heads of the call read, as int64; without it each reads its own.
    """
    if x is None:
        assert like is not None
        return _absent(like.dtype)
    if x.numel() == 0:
        return Table(_absent(x.dtype).data, 0, 0, NOWHERE if head_bytes is None else _heads_of(head_bytes))

    width, heads = _places_in_row(x.shape[1:], head_bytes)
    if x.is_contiguous():
        return Table(array_of(x), width, width, heads)
    if x.stride()[1:] != (x.shape[-1], 1)[3 - x.dim() :]:
        return Table(array_of(x.contiguous()), width, width, heads)

    flat = x.as_strided(((x.shape[0] - 1) * x.stride(0) + width,), (1,))
    return Table(array_of(flat), x.stride(0), width, heads)


@lru_cache(maxsize=1024)
def _places_in_row(shape: tuple, head_bytes: bytes | None) -> tuple[int, np.ndarray]:
    """How many numbers a row `(head, dim)` or `(head)` has, and where in it each head begins."""
    dim = shape[1] if len(shape) == 2 else 1
    heads = np.arange(shape[0]) if head_bytes is None else _heads_of(head_bytes)
    return shape[0] * dim, heads * dim


@lru_cache(maxsize=1024)
def _heads_of(head_bytes: bytes) -> np.ndarray:
    """A copy, which can be written to: kernels are compiled anew for arrays that cannot."""
    return np.frombuffer(head_bytes, np.int64).copy()


@lru_cache
def _absent(dtype: torch.dtype) -> Absent:
    return Absent(array_of(torch.empty(0, dtype=dtype, device="cpu")), 0, 0, NOWHERE)


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


def chunks_of(lists: Lists, width: int) -> int:
    """How many chunks of work there are, where each row or edge gathers so many numbers."""
    return max(1, min(MAX_CHUNKS, (len(lists.offsets) - 1 + len(lists.edges)) * max(width, 1) // CHUNK))
