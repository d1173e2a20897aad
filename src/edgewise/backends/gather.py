"""Plain torch, any score, every neighborhood, in bounded memory: the backend that takes what no faster one does.

*Edges*: gather the features of both ends of every edge, score, normalize over each receiver, add up. The node axis goes
first, so that one gathered row serves all heads.
*Tables*: blocks of queries against the keys they can reach; each block is computed again in the backward pass, so that
never more than one slice of the (query, key) table is held.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from edgewise.backends.call import Call
from edgewise.backends.rows import EdgeRows, TableRows
from edgewise.neighborhood import Edges
from edgewise.score import DotProduct, Score

NAME = "gather"
SLICE = 2**22
"""How many numbers of the widest intermediate a block may hold (16 MiB in float32)."""


def refusals(call: Call) -> tuple[str, ...]:
    """Gather takes every call."""
    return ()


def run(call: Call) -> Tensor:
    """o_i = Σ_j α_ij (v_j + v^e_ij)."""
    dtype = call.query.dtype
    call = call.in_float32()
    out = _run_edges(call, call.neighborhood) if isinstance(call.neighborhood, Edges) else _run_table(call)
    return out.to(dtype)


def edge_weights(call: Call, edges: Edges) -> Tensor:
    """α of every edge, `(edge, *batch)`."""
    query, key = _nodes_first(call.query), _nodes_first(call.key)
    edge_key = None if call.edge_key is None else _nodes_first(call.edge_key)

    def score(start: int, stop: int) -> Tensor:
        left = query.index_select(0, edges.receivers[start:stop])
        right = key.index_select(0, edges.senders[start:stop])
        return call.score(left, right if edge_key is None else right + edge_key[start:stop])

    blocks = list(_blocks(edges.num_edges, call.batch_size * max(query.shape[-1], key.shape[-1])))
    scores = torch.cat(_each(score, blocks)) if len(blocks) > 1 else score(*blocks[0])
    if call.bias is not None:
        scores = scores + call.bias.movedim(-1, 0).to(scores.dtype)
    return call.normalize(scores, EdgeRows(edges.receivers, edges.num_receivers))


def table_blocks(call: Call) -> Iterator[tuple[int, int, int, int]]:
    """Blocks of the table: queries `[0]:[1]` against keys `[2]:[3]`, the only ones they can reach."""
    if torch.compiler.is_exporting():  # sizes are symbols: no span may depend on them
        yield 0, call.num_queries, 0, call.num_keys
        return
    pairwise = 1 if isinstance(call.score, DotProduct) else call.key.shape[-1]
    for start, stop in _blocks(call.num_queries, call.num_keys * pairwise * call.batch_size):
        yield start, stop, *call.neighborhood.key_span(start, stop, call.num_queries, call.num_keys)


def block_weights(call: Call, start: int, stop: int, first: int, last: int) -> tuple[Tensor, Tensor]:
    """α of queries `start:stop` over keys `first:last`, and which of these pairs are in the neighborhood."""
    device = call.query.device
    queries, keys = torch.arange(start, stop, device=device), torch.arange(first, last, device=device)
    mask = call.neighborhood.block(queries, keys, call.num_queries, call.num_keys)
    query, query_broken = _finite_part(call.query[..., start:stop, :])
    key, key_broken = _finite_part(call.key[..., first:last, :])
    scores = table_scores(call.score, query, key)
    if call.bias is not None:
        bias = call.bias.expand(*call.bias.shape[:-2], call.num_queries, call.num_keys)[..., start:stop, first:last]
        scores = scores + bias.to(scores.dtype)
    if _is_whole(mask, query_broken, key_broken):
        return call.normalize(scores, TableRows(mask, is_whole=True)), mask
    broken = query_broken.unsqueeze(-1) | key_broken.unsqueeze(-2)
    # A pair outside the neighborhood reaches nothing, not even as NaN; a pair inside it is as broken as its ends.
    scores = torch.where(mask, torch.where(broken, torch.nan, scores), 0.0)
    return call.normalize(scores, TableRows(mask)), mask


def _is_whole(mask: Tensor, query_broken: Tensor, key_broken: Tensor) -> bool:
    """Whether every pair of a block is in the neighborhood, and no end of one is broken: nothing need be kept out.

    Asked where asking is free: not of a GPU, nor of a program that is traced or transformed.
    """
    if mask.device.type != "cpu" or torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    return bool(mask.all()) and not bool(query_broken.any()) and not bool(key_broken.any())


def table_scores(score: Score, query: Tensor, key: Tensor) -> Tensor:
    """s of every query with every key, `(*batch, query, key)`; a matrix product where the score is one."""
    if isinstance(score, DotProduct):
        left, right = score.factors(query, key)
        return left @ right.transpose(-2, -1)
    left, right = _nodes_first(query).unsqueeze(1), _nodes_first(key).unsqueeze(0)
    return score(left, right).movedim((0, 1), (-2, -1))


def _run_edges(call: Call, edges: Edges) -> Tensor:
    assert call.value is not None
    weights = F.dropout(edge_weights(call, edges), call.dropout)
    value = _nodes_first(call.value)
    edge_value = None if call.edge_value is None else _nodes_first(call.edge_value)

    def add_up(start: int, stop: int) -> Tensor:
        carried = value.index_select(0, edges.senders[start:stop])
        if edge_value is not None:
            carried = carried + edge_value[start:stop]
        rows = EdgeRows(edges.receivers[start:stop], edges.num_receivers)
        return rows.collect(weights[start:stop].unsqueeze(-1) * carried)

    blocks = list(_blocks(edges.num_edges, call.batch_size * value.shape[-1]))
    first, *rest = _each(add_up, blocks)
    return sum(rest, start=first).movedim(0, -2)


def _run_table(call: Call) -> Tensor:
    assert call.value is not None
    whole = call.value

    def attend_block(start: int, stop: int, first: int, last: int) -> Tensor:
        weights, mask = block_weights(call, start, stop, first, last)
        broken = ~torch.isfinite(whole[..., first:last, :])
        value = torch.where(broken, 0.0, whole[..., first:last, :])
        out = F.dropout(weights, call.dropout).to(value.dtype) @ value
        if torch.compiler.is_compiling() or bool(broken.any()):
            reached = mask.to(value.dtype) @ broken.to(value.dtype) > 0
            out = torch.where(reached, torch.nan, out)
        return out

    return torch.cat(_each(attend_block, list(table_blocks(call))), -2)


def _each(compute: Callable[..., Tensor], blocks: Sequence[tuple[int, ...]]) -> list[Tensor]:
    """The result of every block; where there are several, their intermediates are computed again for the gradient."""
    if len(blocks) == 1 or not torch.is_grad_enabled():
        return [compute(*block) for block in blocks]
    return [checkpoint(compute, *block, use_reentrant=False) for block in blocks]


def _blocks(count: int, row_size: int) -> Iterator[tuple[int, int]]:
    """Runs of rows that hold about SLICE numbers together; one run where sizes are symbols (an exported program)."""
    if torch.compiler.is_exporting():
        yield 0, count
        return
    step = max(1, SLICE // max(1, row_size))
    for start in range(0, max(count, 1), step):
        yield start, min(start + step, count)


def _nodes_first(x: Tensor) -> Tensor:
    """`(*batch, node, feature)` as `(node, *batch, feature)`."""
    return x.movedim(-2, 0)


def _finite_part(x: Tensor) -> tuple[Tensor, Tensor]:
    """x with 0 for what is not finite, and which nodes held such a thing."""
    finite = torch.isfinite(x)
    return torch.where(finite, x, 0.0), ~finite.all(-1)


def largest(call: Call) -> Tensor:
    """The largest of each feature over the neighborhood, 0 where that is empty: `(*batch, query, value_dim)`."""
    neighborhood, value = call.neighborhood, call.value
    assert value is not None
    if isinstance(neighborhood, Edges):
        carried = _nodes_first(value).index_select(0, neighborhood.senders)
        if call.edge_value is not None:
            carried = carried + _nodes_first(call.edge_value)
        index = neighborhood.receivers.view(-1, *[1] * (carried.dim() - 1)).expand_as(carried)
        # The floor counts among those that share the gradient wherever it equals the largest: it must lie below all.
        floor = carried.new_full((neighborhood.num_receivers, *carried.shape[1:]), -torch.inf)
        found = floor.scatter_reduce(0, index, carried, "amax", include_self=False)
        empty = (neighborhood.degrees() == 0).view(-1, *[1] * (carried.dim() - 1))
        return torch.where(empty, 0.0, found).movedim(0, -2)

    def block(start: int, stop: int) -> Tensor:
        queries = torch.arange(start, stop, device=value.device)
        keys = torch.arange(call.num_keys, device=value.device)
        mask = neighborhood.block(queries, keys, call.num_queries, call.num_keys)
        found = torch.where(mask.unsqueeze(-1), value.unsqueeze(-3), -torch.inf)
        found = found.amax(-2) if call.num_keys > 0 else found.sum(-2)
        return torch.where(mask.any(-1, keepdim=True), found, 0.0)

    width = call.num_keys * value.shape[-1] * call.batch_size
    return torch.cat(_each(block, list(_blocks(call.num_queries, width))), -2)
