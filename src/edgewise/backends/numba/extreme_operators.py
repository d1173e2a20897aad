"""The kernels for the largest value as torch operators."""

from collections.abc import Sequence

import torch
from torch import Tensor

from edgewise.backends import formula
from edgewise.backends.numba.edge_operators import as_lists, pieces_of, table_of
from edgewise.backends.numba.extremes import collect_shares, largest, share_among_ties
from edgewise.operator import Gradient, define


def forward(value: Tensor, edge_value: Tensor | None, lists: Sequence[Tensor]) -> Tensor:
    """The largest v + v^e of every receiver.

    Args:
        value: `(sender, feature)`, features a whole number of vectors; edge_value: `(edge, feature)`.
        lists: offsets, neighbors and edges by receiver, then by sender.
    """
    by_receiver = as_lists(lists[:3])
    pieces = pieces_of(by_receiver, value.shape[-1])
    out = value.new_empty(len(by_receiver.offsets) - 1, value.shape[-1])
    tables = table_of(value), table_of(edge_value, None, value), table_of(out)
    largest.run(pieces, by_receiver, pieces, *tables)
    return out


def shapes(value: Tensor, edge_value: Tensor | None, lists: Sequence[Tensor]) -> Tensor:
    """What tracers see of the output."""
    return value.new_empty(lists[0].shape[0] - 1, value.shape[-1])


def backward(
    grad_out: Tensor, out: Tensor, value: Tensor, edge_value: Tensor | None, lists: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """The gradients of value and edge_value; the second empty where there is no such tensor."""
    by_receiver, by_sender = as_lists(lists[:3]), as_lists(lists[3:])
    pieces, sender_pieces = pieces_of(by_receiver, value.shape[-1]), pieces_of(by_sender, value.shape[-1])
    shares, grad_value = torch.empty_like(out), value.new_empty(value.shape)
    grad_edge_value = value.new_empty(0 if edge_value is None else edge_value.shape)
    common = table_of(value), table_of(edge_value, None, value), table_of(out)
    to_edges = table_of(grad_out), table_of(shares), table_of(grad_edge_value)
    share_among_ties.run(pieces, by_receiver, pieces, *common, *to_edges)
    to_senders = table_of(shares), table_of(grad_value)
    collect_shares.run(sender_pieces, by_sender, sender_pieces, *common, *to_senders)
    return grad_value, grad_edge_value


def backward_shapes(
    grad_out: Tensor, out: Tensor, value: Tensor, edge_value: Tensor | None, lists: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """What tracers see of the gradients."""
    return value.new_empty(value.shape), value.new_empty(0 if edge_value is None else edge_value.shape)


def _differentiate(grad_out: Tensor, kept: list, arguments: list, needs: list[bool]) -> list[Tensor | None]:
    grad_value, grad_edge_value = largest_over_edges_backward(grad_out, *kept, *arguments)
    return [grad_value, None if arguments[1] is None else grad_edge_value]


largest_over_edges_backward = define("largest_over_edges_backward", backward, backward_shapes)
largest_over_edges = define(
    "largest_over_edges", forward, shapes, Gradient(_differentiate, formula.largest, keeps=(0,))
)
