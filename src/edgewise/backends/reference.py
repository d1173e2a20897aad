"""The meaning of the operator, written to be read: every pair in one table. The other backends are judged by it.

An edge list becomes a table too, with one column an edge: receiver i may attend to edge e where receivers[e] == i.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise.backends.call import Call
from edgewise.backends.rows import TableScoreRows
from edgewise.neighborhood import Edges
from edgewise.normalize import weights_of
from edgewise.score import score_pairs

NAME = "reference"


def refusals(call: Call) -> tuple[str, ...]:
    """The reference takes every call."""
    return ()


def run(call: Call) -> Tensor:
    """o_i = Σ_j α_ij (v_j + v^e_ij). Memory O(query · key · feature)."""
    dtype = call.query.dtype
    call = call.in_float32()
    assert call.value is not None
    mask = table_mask(call)
    weights = F.dropout(table_weights(call, mask), call.dropout)
    value = _per_column(call, call.value, call.edge_value)
    # What is not attended to is replaced before it is multiplied: 0 · NaN would be NaN, also in the gradient.
    pairs = torch.where(mask[..., None], value.unsqueeze(-3), 0.0)
    return (weights[..., None] * pairs).sum(-2).to(dtype)


def table_weights(call: Call, mask: Tensor) -> Tensor:
    """α, `(*batch, query, column)`, zero outside the neighborhood."""
    query, key = call.query, _per_column(call, call.key, call.edge_key)
    cell = mask[..., None]
    left, right = torch.where(cell, query.unsqueeze(-2), 0.0), torch.where(cell, key.unsqueeze(-3), 0.0)
    # A score reads (pair, *batch, feature), so that its fields may have batch axes.
    left, right = left.movedim((-3, -2), (0, 1)), right.movedim((-3, -2), (0, 1))
    scores = score_pairs(call.score, left, right).movedim((0, 1), (-2, -1))
    if call.bias is not None:
        bias = call.bias.unsqueeze(-2) if isinstance(call.neighborhood, Edges) else call.bias
        scores = scores + torch.where(mask, bias, 0.0).to(scores.dtype)
    return weights_of(call.normalize, scores, TableScoreRows(mask))


def table_mask(call: Call) -> Tensor:
    """True where a query may attend to a column, which is a key or, for `Edges`, an edge."""
    if isinstance(call.neighborhood, Edges):
        queries = torch.arange(call.num_queries, device=call.query.device)
        return queries[:, None] == call.neighborhood.receivers
    return call.neighborhood.to_mask(call.num_queries, call.num_keys, call.query.device)


def _per_column(call: Call, nodes: Tensor, edges: Tensor | None) -> Tensor:
    """What stands in each column of the table: a key's own features, or those of an edge's sender and of the edge."""
    if not isinstance(call.neighborhood, Edges):
        return nodes
    columns = nodes.index_select(-2, call.neighborhood.senders)
    return columns if edges is None else columns + edges
