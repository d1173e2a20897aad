"""Messages of edges go on to the edges that leave their receiver, but for the one that leads back; and the gradient.

First the kernels, then the operator that torch sees. A node adds up what arrives once, for all edges that leave it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from edgewise.backends import formula
from edgewise.backends.autograd import define_with_gradient
from edgewise.backends.numba.arrays import array_of
from edgewise.backends.numba.compiled import kernel
from edgewise.backends.numba.edge_operators import chunks_of_lists, lists_by_receiver, lists_by_sender, table_of
from edgewise.backends.numba.simd import WIDTH, fill, get, load, maximum, pointer, store, where
from edgewise.backends.numba.tables import first_row, pointers_of, source


@kernel
def pass_on(first, step, arriving, leaving, reverse, chunks, start, sent, out):
    """out_e = max(0, start_e + Σ sent_e'), e' the edges that arrive where e leaves, but for its reverse."""
    arrives, leaves, back = pointers_of(arriving), pointers_of(leaving), pointer(reverse)
    start, sent, out = source(start), source(sent), source(out)
    for chunk in range(first, chunks, step):
        for node in range(first_row(arrives, chunk, chunks), first_row(arrives, chunk + 1, chunks)):
            for d in range(0, out.width, WIDTH):
                total = fill(load(sent.data, d), 0.0)
                for position in range(get(arrives.offsets, node), get(arrives.offsets, node + 1)):
                    total = total + load(sent.data, get(arrives.edges, position) * sent.stride + d)

                for position in range(get(leaves.offsets, node), get(leaves.offsets, node + 1)):
                    edge = get(leaves.edges, position)
                    opposite = get(back, edge)
                    message = load(start.data, edge * start.stride + d) + total
                    if opposite >= 0:
                        message = message - load(sent.data, opposite * sent.stride + d)
                    store(out.data, edge * out.stride + d, maximum(message, 0.0))


@kernel
def pass_back(first, step, arriving, leaving, reverse, chunks, out, grad_out, grad_start, grad_sent):
    """grad_start_e = grad_out_e where out_e > 0, else 0; grad_sent_e' = Σ grad_start_e over the edges e it went to."""
    arrives, leaves, back = pointers_of(arriving), pointers_of(leaving), pointer(reverse)
    out, grad_out = source(out), source(grad_out)
    grad_start, grad_sent = source(grad_start), source(grad_sent)

    for chunk in range(first, chunks, step):
        for node in range(first_row(arrives, chunk, chunks), first_row(arrives, chunk + 1, chunks)):
            for d in range(0, out.width, WIDTH):
                zero = fill(load(out.data, d), 0.0)
                total = zero
                for position in range(get(leaves.offsets, node), get(leaves.offsets, node + 1)):
                    edge = get(leaves.edges, position)
                    passed = load(out.data, edge * out.stride + d) > 0.0
                    gradient = where(passed, load(grad_out.data, edge * grad_out.stride + d), zero)
                    store(grad_start.data, edge * grad_start.stride + d, gradient)
                    total = total + gradient

                for position in range(get(arrives.offsets, node), get(arrives.offsets, node + 1)):
                    edge = get(arrives.edges, position)
                    opposite, gradient = get(back, edge), total
                    if opposite >= 0:
                        gradient = gradient - load(grad_start.data, opposite * grad_start.stride + d)
                    store(grad_sent.data, edge * grad_sent.stride + d, gradient)


class OnwardInputs(NamedTuple):
    """What the operator takes."""

    start: Tensor
    """`(edge, feature)`, features a whole number of vectors."""
    sent: Tensor
    """`(edge, feature)`."""
    reverse: Tensor
    """`(edge)`, −1 where there is none."""
    lists: Sequence[Tensor]
    """Offsets, neighbors and edges by receiver, then by sender."""


def forward(inputs: OnwardInputs) -> Tensor:
    """The messages after the step."""
    arriving, leaving = lists_by_receiver(inputs.lists), lists_by_sender(inputs.lists)
    out = torch.empty_like(inputs.start)
    chunks, tables = chunks_of_lists(arriving, 3 * out.shape[-1]), (table_of(inputs.start), table_of(inputs.sent))
    pass_on.run(chunks, arriving, leaving, array_of(inputs.reverse), chunks, *tables, table_of(out))
    return out


def shapes(inputs: OnwardInputs) -> Tensor:
    """What tracers see of the output."""
    return inputs.start.new_empty(inputs.start.shape)


def backward(grad_out: Tensor, outputs: list[Tensor], inputs: OnwardInputs, needs: Sequence[bool]) -> list[Tensor]:
    """The gradients of start and sent."""
    (out,) = outputs
    arriving, leaving = lists_by_receiver(inputs.lists), lists_by_sender(inputs.lists)
    chunks, grads = chunks_of_lists(arriving, 3 * out.shape[-1]), [torch.empty_like(out) for _ in range(2)]
    tables = table_of(out), table_of(grad_out), table_of(grads[0]), table_of(grads[1])
    pass_back.run(chunks, arriving, leaving, array_of(inputs.reverse), chunks, *tables)
    return grads


onward = define_with_gradient(
    "onward", OnwardInputs, forward, shapes, backward, lambda inputs: formula.onward(*inputs), num_differentiable=2,
    saved_outputs=(0,),
)  # fmt: skip
