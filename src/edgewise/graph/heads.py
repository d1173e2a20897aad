"""Weights of several heads, as a dense table or as one list of edges."""

import torch
from torch import Tensor

from edgewise.neighborhood.checks import can_be_read


def dense_table(senders: Tensor, receivers: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """`(*batch, receiver, sender)`: zero without an edge; the values of parallel edges add up."""
    cell = receivers * shape[1] + senders
    size = shape[0] * shape[1]
    table = values.new_zeros(*values.shape[:-1], size)
    if cell.dim() == 1 and can_be_read(cell) and bool((cell[1:] > cell[:-1]).all()):
        # No cell repeats, so nothing adds up; a list as long as the table is the table.
        table = values.clone() if cell.shape[0] == size else table.index_copy(-1, cell, values)
    else:
        table = table.scatter_add(-1, cell.expand(values.shape), values)
    return table.unflatten(-1, shape)


def edges_of_heads(
    senders: Tensor, receivers: Tensor, values: Tensor, num_senders: int
) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """The senders and receivers of the edges of all heads, and their values `(edge, head)`.

    If the heads keep different senders, each edge is listed once, with 0 in the other heads.
    """
    heads = values.reshape(values.shape[:-1].numel(), values.shape[-1])
    if senders.dim() == 1:
        return (senders, receivers), heads.T

    cells = receivers * num_senders + senders.expand(values.shape).reshape(heads.shape)
    codes, inverse = cells.unique(return_inverse=True)
    features = heads.new_zeros(codes.shape[0], heads.shape[0])
    columns = torch.arange(heads.shape[0], device=heads.device)[:, None].expand_as(inverse)
    features = features.index_put((inverse, columns), heads, accumulate=True)
    return (codes % num_senders, codes // num_senders), features
