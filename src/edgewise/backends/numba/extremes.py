"""The largest value of each feature over the edges of a receiver, and its gradient, which values that tie share.

First the kernels, then the operator that torch sees.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from edgewise.backends import formula
from edgewise.backends.autograd import define_with_gradient
from edgewise.backends.numba.compiled import inlined, kernel
from edgewise.backends.numba.edge_operators import chunks_of_lists, lists_by_receiver, lists_by_sender, table_of
from edgewise.backends.numba.simd import WIDTH, fill, get, load, maximum, store, where
from edgewise.backends.numba.tables import features, first_row, pointers_of, prefetch_ahead, source


@inlined
def carried(lists: Any, position: int, value: Any, edge_value: Any, d: int, like: Any) -> Any:
    """v + v^e of the edge at a place, WIDTH features from d on."""
    sender, edge = get(lists.neighbors, position), get(lists.edges, position)
    return features(value, sender * value.stride + d, edge_value, edge * edge_value.stride + d, 0, like)


@kernel
def largest(first, step, lists, chunks, value, edge_value, out):
    """out = max (v + v^e) of every receiver, 0 for one without edges."""
    value, edge_value, out, lists = source(value), source(edge_value), source(out), pointers_of(lists)
    for chunk in range(first, chunks, step):
        for row in range(first_row(lists, chunk, chunks), first_row(lists, chunk + 1, chunks)):
            begin, end = get(lists.offsets, row), get(lists.offsets, row + 1)
            for position in range(begin, end):
                prefetch_ahead(lists, position, value)
            for d in range(0, out.width, WIDTH):
                zero = fill(load(out.data, row * out.stride + d), 0.0)
                row_max = fill(zero, -math.inf) if end > begin else zero
                for position in range(begin, end):
                    row_max = maximum(row_max, carried(lists, position, value, edge_value, d, zero))
                store(out.data, row * out.stride + d, row_max)


@kernel
def share_among_ties(first, step, lists, chunks, value, edge_value, out, grad_out, shares, grad_edge_value):
    """The gradient of every receiver divided by how many values tie; and d v^e."""
    value, edge_value, out, lists = source(value), source(edge_value), source(out), pointers_of(lists)
    grad_out, shares, grad_edge_value = source(grad_out), source(shares), source(grad_edge_value)
    for chunk in range(first, chunks, step):
        for row in range(first_row(lists, chunk, chunks), first_row(lists, chunk + 1, chunks)):
            begin, end = get(lists.offsets, row), get(lists.offsets, row + 1)
            for d in range(0, out.width, WIDTH):
                top = load(out.data, row * out.stride + d)
                many = fill(top, 0.0)
                for position in range(begin, end):
                    many = many + where(carried(lists, position, value, edge_value, d, top) == top, fill(top, 1.0), 0.0)
                share = load(grad_out.data, row * grad_out.stride + d) / maximum(many, 1.0)
                store(shares.data, row * shares.stride + d, share)

                if edge_value.there:
                    for position in range(begin, end):
                        wins = carried(lists, position, value, edge_value, d, top) == top
                        at = get(lists.edges, position) * grad_edge_value.stride + d
                        store(grad_edge_value.data, at, where(wins, share, 0.0))


@kernel
def collect_shares(first, step, lists, chunks, value, edge_value, out, shares, grad_value):
    """dv of every sender: the shares of the receivers for which it is the largest."""
    value, edge_value, out, lists = source(value), source(edge_value), source(out), pointers_of(lists)
    shares, grad_value = source(shares), source(grad_value)
    for chunk in range(first, chunks, step):
        for row in range(first_row(lists, chunk, chunks), first_row(lists, chunk + 1, chunks)):
            begin, end = get(lists.offsets, row), get(lists.offsets, row + 1)
            for d in range(0, value.width, WIDTH):
                value_lanes = load(value.data, row * value.stride + d)
                sums = fill(value_lanes, 0.0)
                for position in range(begin, end):
                    receiver, edge = get(lists.neighbors, position), get(lists.edges, position)
                    edge_lanes = value_lanes
                    if edge_value.there:
                        edge_lanes = value_lanes + load(edge_value.data, edge * edge_value.stride + d)
                    wins = edge_lanes == load(out.data, receiver * out.stride + d)
                    sums = sums + where(wins, load(shares.data, receiver * shares.stride + d), 0.0)

                store(grad_value.data, row * grad_value.width + d, sums)


class LargestInputs(NamedTuple):
    """What the operator takes."""

    value: Tensor
    """`(sender, feature)`, features a whole number of vectors."""
    edge_value: Tensor | None
    """`(edge, feature)`."""
    lists: Sequence[Tensor]
    """Offsets, neighbors and edges by receiver, then by sender."""


def forward(inputs: LargestInputs) -> Tensor:
    """The largest v + v^e of every receiver."""
    value, by_receiver, out = inputs.value, lists_by_receiver(inputs.lists), shapes(inputs)
    chunks = chunks_of_lists(by_receiver, value.shape[-1])
    tables = table_of(value), table_of(inputs.edge_value, None, value), table_of(out)
    largest.run(chunks, by_receiver, chunks, *tables)
    return out


def shapes(inputs: LargestInputs) -> Tensor:
    """What tracers see of the output."""
    return inputs.value.new_empty(inputs.lists[0].shape[0] - 1, inputs.value.shape[-1])


def backward(grad_out: Tensor, outputs: list[Tensor], inputs: LargestInputs, needs: Sequence[bool]) -> list[Tensor]:
    """The gradients of value and edge_value; the second empty where the call lacks such a tensor."""
    (out,), (value, edge_value, lists) = outputs, inputs
    by_receiver, by_sender = lists_by_receiver(lists), lists_by_sender(lists)
    chunks, sender_chunks = chunks_of_lists(by_receiver, value.shape[-1]), chunks_of_lists(by_sender, value.shape[-1])
    shares, grad_value = torch.empty_like(out), value.new_empty(value.shape)
    grad_edge_value = value.new_empty(0 if edge_value is None else edge_value.shape)
    common = table_of(value), table_of(edge_value, None, value), table_of(out)
    to_edges = table_of(grad_out), table_of(shares), table_of(grad_edge_value)
    share_among_ties.run(chunks, by_receiver, chunks, *common, *to_edges)
    collect_shares.run(sender_chunks, by_sender, sender_chunks, *common, table_of(shares), table_of(grad_value))
    return [grad_value, grad_edge_value]


largest_over_edges = define_with_gradient(
    "largest_over_edges", LargestInputs, forward, shapes, backward, lambda inputs: formula.largest(*inputs),
    num_differentiable=2, saved_outputs=(0,),
)  # fmt: skip
