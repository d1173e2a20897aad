"""Sums of neighbors with weights that no score makes: Σ_e w_e v_e, the product of a sparse matrix, and its gradients.

    out = Σ (number + w_e) v        d v = Σ (number + w_e) dO, over the lists by sender        d w_e = dO · v
    out = Σ v / count               d v = Σ dO / count of each receiver

All heads share the weight of an edge, and so a node is one row of features. First the kernels, then the operator.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from edgewise.backends import formula
from edgewise.backends.autograd import define_with_gradient
from edgewise.backends.lower import Lowered
from edgewise.backends.numba.arrays import array_of
from edgewise.backends.numba.compiled import inlined, kernel
from edgewise.backends.numba.edge_operators import chunks_of_lists, lists_by_receiver, lists_by_sender, table_of
from edgewise.backends.numba.heads import load_heads, store_heads, stream_heads, zero_lanes
from edgewise.backends.numba.simd import WIDE, WIDTH, fma, get, load, pointer, put, total
from edgewise.backends.numba.tables import first_row, is_streamed, pointers_of, prefetch_ahead, source
from edgewise.normalize import Identity, Mean

CONSTANT, BY_EDGE, BY_ROW, BY_NEIGHBOR = range(4)
"""The weight of an edge: a number; that and a number an edge; one of the row that is summed; one of the neighbor."""
DTYPES = (torch.float32, torch.float64)


@inlined
def weight_of(how: int, number: Any, weights: Any, lists: Any, row: int, position: int) -> Any:
    """The weight of the edge at a place."""
    if how == BY_EDGE:
        return number + get(weights, get(lists.edges, position))
    if how == BY_ROW:
        return get(weights, row)
    if how == BY_NEIGHBOR:
        return get(weights, get(lists.neighbors, position))
    return number


@kernel
def sum_rows(first, step, how, number, lists, chunks, value, weights, out):
    """out = Σ w v of every row."""
    streams, width = is_streamed(out), out.width
    lists, value, out, weights = pointers_of(lists), source(value), source(out), pointer(weights)
    wide, narrow = zero_lanes(value.data, WIDE), zero_lanes(value.data, WIDTH)

    for chunk in range(first, chunks, step):
        for row in range(first_row(lists, chunk, chunks), first_row(lists, chunk + 1, chunks)):
            begin, end = get(lists.offsets, row), get(lists.offsets, row + 1)
            for d in range(0, width - WIDE + 1, WIDE):
                sums = wide
                for position in range(begin, end):
                    if d == 0:
                        prefetch_ahead(lists, position, value)
                    value_lanes = load_heads(value.data, get(lists.neighbors, position) * value.stride + d, 0, wide)
                    sums = fma(weight_of(how, number, weights, lists, row, position), value_lanes, sums)

                if streams:
                    stream_heads(out.data, row * out.stride + d, 0, sums)
                else:
                    store_heads(out.data, row * out.stride + d, 0, sums)

            if width % WIDE:
                d, narrow_sums = width - WIDTH, narrow
                for position in range(begin, end):
                    value_lanes = load_heads(value.data, get(lists.neighbors, position) * value.stride + d, 0, narrow)
                    narrow_sums = fma(weight_of(how, number, weights, lists, row, position), value_lanes, narrow_sums)
                store_heads(out.data, row * out.stride + d, 0, narrow_sums)


@kernel
def multiply_rows(first, step, lists, chunks, value, grad_out, products):
    """dO · v of every edge."""
    lists, value, grad_out, products = pointers_of(lists), source(value), source(grad_out), pointer(products)
    for chunk in range(first, chunks, step):
        for row in range(first_row(lists, chunk, chunks), first_row(lists, chunk + 1, chunks)):
            for position in range(get(lists.offsets, row), get(lists.offsets, row + 1)):
                prefetch_ahead(lists, position, value)
                sums, at = zero_lanes(value.data, WIDTH), get(lists.neighbors, position) * value.stride
                for d in range(0, value.width, WIDTH):
                    sums = fma(load(grad_out.data, row * grad_out.stride + d), load(value.data, at + d), sums)
                put(products, get(lists.edges, position), total(sums))


class SumInputs(NamedTuple):
    """What the operator takes."""

    value: Tensor
    """`(sender, feature)`, features a whole number of vectors."""
    weight: Tensor | None
    """`(edge)`."""
    lists: Sequence[Tensor]
    """Offsets, neighbors and edges by receiver, then by sender."""
    number: float
    """What is added to each weight; the weight where there is none."""
    is_mean: bool
    """Whether the weight is 1 / (number of edges of the receiver), and nothing else."""


def forward(inputs: SumInputs) -> Tensor:
    """The sums of every receiver, `(receiver, feature)`."""
    out, how = shapes(inputs), BY_ROW if inputs.is_mean else CONSTANT if inputs.weight is None else BY_EDGE
    run(inputs, how, lists_by_receiver(inputs.lists), inputs.value, out)
    return out


def shapes(inputs: SumInputs) -> Tensor:
    """What tracers see of the output."""
    return inputs.value.new_empty(inputs.lists[0].shape[0] - 1, inputs.value.shape[-1])


def backward(grad_out: Tensor, outputs: list[Tensor], inputs: SumInputs, needs: Sequence[bool]) -> list[Tensor]:
    """The gradients of the values and of the weights."""
    value, weight = inputs.value, inputs.weight
    grad_value = torch.empty_like(value, memory_format=torch.contiguous_format)
    grad_weight = value.new_empty(0 if weight is None else weight.shape)
    if needs[0]:
        how = BY_NEIGHBOR if inputs.is_mean else CONSTANT if weight is None else BY_EDGE
        run(inputs, how, lists_by_sender(inputs.lists), grad_out, grad_value)
    if needs[1]:
        lists = lists_by_receiver(inputs.lists)
        chunks = chunks_of_lists(lists, 2 * value.shape[-1])
        multiply_rows.run(chunks, lists, chunks, table(value), table(grad_out), array_of(grad_weight))
    return [grad_value, grad_weight]


def run(inputs: SumInputs, how: int, lists: Any, value: Tensor, out: Tensor) -> None:
    """Sums of rows of `value` into `out`."""
    weights = value.new_empty(0)
    if how in (BY_ROW, BY_NEIGHBOR):
        counts = inputs.lists[0].diff().to(value.dtype)
        weights = 1 / counts.clamp(min=1)
    elif inputs.weight is not None:
        weights = inputs.weight.contiguous()
    chunks = chunks_of_lists(lists, value.shape[-1])
    sum_rows.run(chunks, how, inputs.number, lists, chunks, table(value), array_of(weights), table(out))


def table(x: Tensor) -> Any:
    """Rows `(node, feature)` as a table of one head."""
    return table_of(x.unsqueeze(1))


def plain(inputs: SumInputs) -> Tensor:
    """The sums in plain torch."""
    edges = formula.edges_of(inputs.lists, inputs.value.shape[0], inputs.lists[0].shape[0] - 1)
    messages = inputs.value.index_select(0, edges.senders)
    if not inputs.is_mean:
        messages = messages * (inputs.number if inputs.weight is None else inputs.number + inputs.weight.unsqueeze(-1))
    out = messages.new_zeros(edges.num_receivers, messages.shape[-1]).index_add(0, edges.receivers, messages)
    return out / edges.degrees().clamp(min=1).to(out.dtype).unsqueeze(-1) if inputs.is_mean else out


sum_over_edges = define_with_gradient(
    "sum_over_edges", SumInputs, forward, shapes, backward, plain, num_differentiable=2
)


def takes(lowered: Lowered, batch: Sequence[int]) -> bool:
    """Whether a call is such a sum: a weight that all heads share, and nothing at the edges beside it."""
    call = lowered.call
    if lowered.kind != "Constant" or lowered.normalizer not in (Identity, Mean) or call.dropout > 0:
        return False
    assert call.value is not None
    fits = call.edge_value is None and call.value.dtype in DTYPES and call.value.shape[:-2] == tuple(batch)
    bias = call.bias
    return fits and (bias is None or (math.prod(bias.shape[:-1]) == 1 and bias.dtype == call.value.dtype))
