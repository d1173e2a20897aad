"""Plain torch, any score, every neighborhood, in bounded memory: the backend that takes what no faster one does.

*Edges*: gather the features of both ends of every edge, score, normalize over each receiver, add up, block by block:
beside the scores, a number an edge and head, there is never more than a few tables of nodes. The node axis goes first,
so that one gathered row serves all heads.
*Tables*: blocks of queries against the keys they can reach; each block is computed again in the backward pass, so that
never more than one slice of the (query, key) table is held.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from edgewise.backends import kernels
from edgewise.backends.call import Call, tensors_of
from edgewise.backends.lower import without_unpaired
from edgewise.backends.rows import EdgeScoreRows, TableScoreRows, signs_of_infinities, with_infinities
from edgewise.neighborhood import Edges, Full
from edgewise.neighborhood.checks import broadcast_shape, can_be_read, is_abstract
from edgewise.normalize import Mean, is_hard, weights_of
from edgewise.score import Constant, Dot, Score, is_dot_product, score_pairs

NAME = "gather"
SLICE = 2**22
"""How many numbers of the widest intermediate a block may hold (16 MiB in float32)."""
Drop = Callable[..., Tensor]
"""What dropout leaves of the weights: of `(edge, *batch)`, or of a block `(*batch, query, key)` and its four bounds."""


def refusals(call: Call) -> tuple[str, ...]:
    """Gather takes every call."""
    return ()


def run(call: Call, drop: Drop | None = None) -> Tensor:
    """o_i = Σ_j α_ij (v_j + v^e_ij); with `drop`, its choice of weights is dropped in place of a random one."""
    dtype = call.query.dtype
    call = call.in_float32()
    if drop is None:
        drop = partial(_drop, call.dropout)
    edges = call.neighborhood
    out = _run_edges(call, edges, drop) if isinstance(edges, Edges) else _run_table(call, drop)
    return out.to(dtype)


def _drop(rate: float, weights: Tensor, *block: int) -> Tensor:
    return F.dropout(weights, rate)


def edge_weights(call: Call, edges: Edges) -> Tensor:
    """α of every edge, `(edge, *batch)`."""
    if is_dot_product(call.score) and is_hard(call.normalize, call.query.dtype) and call.edge_key is None:
        # The factors of nodes, not of edges: of these a matrix product may differ in the last digit for one node.
        paired = without_unpaired(call)
        left, right = call.score.factors(paired.query, paired.key)
        call = replace(call, query=left, key=right, score=Dot())
    query, key = _nodes_first(call.query), _nodes_first(call.key)

    def score(receivers: Tensor, senders: Tensor, edge_key: Tensor | None = None) -> Tensor:
        left, right = query.index_select(0, receivers), key.index_select(0, senders)
        return score_pairs(call.score, left, right if edge_key is None else right + edge_key)

    row_size = call.batch_size * max(query.shape[-1], key.shape[-1])
    blocks = _edge_blocks(edges, row_size, edges.receivers, edges.senders, call.edge_key)
    scores = torch.cat(list(_each(score, blocks, _scored(call)))) if len(blocks) > 1 else score(*blocks[0])
    if call.bias is not None:
        scores = scores + call.bias.movedim(-1, 0).to(scores.dtype)
    return weights_of(call.normalize, scores, EdgeScoreRows(edges.receivers, edges.num_receivers))


def table_blocks(call: Call) -> Iterator[tuple[int, int, int, int]]:
    """Blocks of the table: queries `[0]:[1]` against keys `[2]:[3]`, the only ones they can reach."""
    if kernels.is_exporting():  # sizes are symbols: no span may depend on them
        yield 0, call.num_queries, 0, call.num_keys
        return
    for start, stop in _blocks(call.num_queries, call.num_keys * pair_size(call) * call.batch_size):
        yield start, stop, *call.neighborhood.key_span(start, stop, call.num_queries, call.num_keys)


def pair_size(call: Call) -> int:
    """How many numbers are made for each pair of a table: one where its score is part of a matrix product."""
    return 1 if _is_matrix_product(call) else call.key.shape[-1]


def _is_matrix_product(call: Call) -> bool:
    """Whether the scores of a table are computed as a matrix product. In the last digit, it may give equal keys other
    scores in one column than in another, and a hard choice would not let them share: it has each pair by itself."""
    return is_dot_product(call.score) and not is_hard(call.normalize, call.query.dtype)


def block_weights(call: Call, start: int, stop: int, first: int, last: int) -> tuple[Tensor, TableScoreRows]:
    """α of queries `start:stop` over keys `first:last`, and which of these pairs are in the neighborhood."""
    queries = torch.arange(start, stop, device=call.query.device)
    bias = None if call.bias is None else _whole_bias(call, call.bias)[..., start:stop, first:last]
    return _pair_weights(call, queries, call.query[..., start:stop, :], bias, first, last)


def row_weights(call: Call, queries: Tensor, first: int, last: int) -> tuple[Tensor, TableScoreRows]:
    """The same for queries at any positions."""
    bias = None if call.bias is None else _whole_bias(call, call.bias)[..., queries, first:last]
    return _pair_weights(call, queries, call.query.index_select(-2, queries), bias, first, last)


def _whole_bias(call: Call, bias: Tensor) -> Tensor:
    return bias.expand(*bias.shape[:-2], call.num_queries, call.num_keys)


def _pair_weights(
    call: Call, queries: Tensor, query: Tensor, bias: Tensor | None, first: int, last: int
) -> tuple[Tensor, TableScoreRows]:
    key, keys = call.key[..., first:last, :], torch.arange(first, last, device=queries.device)
    mask = call.neighborhood.block(queries, keys, call.num_queries, call.num_keys)
    if can_be_read(mask) and is_dot_product(call.score):
        scores = _pair_scores(call, query, key, bias, mask)
        # Where there are scores, every number is in one of them: if they are finite, so is all that they were made of.
        if scores.numel() > 0 and math.isfinite(scores.detach().sum()):
            rows = TableScoreRows(mask, is_whole=bool(mask.all()))
            return weights_of(call.normalize, scores, rows), rows

    # A pair outside the neighborhood reaches nothing, not even as NaN; a pair inside it is what its ends make of it.
    query_broken, key_broken = _is_broken(query), _is_broken(key)
    broken = query_broken.unsqueeze(-1) | key_broken.unsqueeze(-2)
    if not (is_abstract(broken) or bool(query_broken.any() | key_broken.any())):
        scores = _pair_scores(call, query, key, bias, mask)
    elif _is_matrix_product(call):
        query_finite, key_finite = (torch.where(x.isfinite(), x, 0.0) for x in (query, key))
        scores = _pair_scores(call, query_finite, key_finite, bias, mask)
        with torch.no_grad():  # the gradient of the product would be NaN at the ends of all pairs
            scores_of_broken = _pair_scores(call, query, key, bias, mask)
        scores = torch.where(broken, scores_of_broken, scores)
    else:
        scores = _pair_scores(call, query, key, bias, mask, broken & ~mask)

    rows = TableScoreRows(mask)
    return weights_of(call.normalize, torch.where(mask, scores, 0.0), rows), rows


def _pair_scores(
    call: Call, query: Tensor, key: Tensor, bias: Tensor | None, mask: Tensor, left_out: Tensor | None = None
) -> Tensor:
    if _is_matrix_product(call):
        scores = table_scores(call.score, query, key)
    else:
        scores = _pair_by_pair(call.score, query, key, left_out)
    if mask.dim() > 2:  # whether a mask forbids a pair may not decide which axes the weights have
        scores = scores.expand(broadcast_shape(scores.shape, mask.shape))
    return scores if bias is None else scores + bias.to(scores.dtype)


def table_scores(score: Score, query: Tensor, key: Tensor) -> Tensor:
    """s of every query with every key, `(*batch, query, key)`; a matrix product where the score is one."""
    if is_dot_product(score):
        left, right = score.factors(query, key)
        return left @ right.transpose(-2, -1)
    return _pair_by_pair(score, query, key)


def _pair_by_pair(score: Score, query: Tensor, key: Tensor, left_out: Tensor | None = None) -> Tensor:
    """The same, without a matrix product; pairs that are `left_out`, `(*batch, query, key)`, have features of zeros.

    The features of a node lie together in memory, so that sums over them are alike in all pairs."""
    left, right = query.contiguous().unsqueeze(-2), key.contiguous().unsqueeze(-3)
    if left_out is not None:
        left, right = (torch.where(left_out.unsqueeze(-1), 0.0, x) for x in (left, right))
    left, right = left.movedim((-3, -2), (0, 1)), right.movedim((-3, -2), (0, 1))
    return score_pairs(score, left, right).movedim((0, 1), (-2, -1))


def _run_edges(call: Call, edges: Edges, drop: Drop) -> Tensor:
    assert call.value is not None
    weights = drop(edge_weights(call, edges)).unsqueeze(-1)
    value = _nodes_first(call.value)

    def weighted(weights: Tensor, senders: Tensor, edge_value: Tensor | None = None) -> Tensor:
        carried = value.index_select(0, senders)
        return weights * (carried if edge_value is None else carried + edge_value)

    row_size = call.batch_size * value.shape[-1]
    blocks = _edge_blocks(edges, row_size, weights, edges.senders, call.edge_value)
    if len(blocks) == 1:
        return EdgeScoreRows(edges.receivers, edges.num_receivers).collect(weighted(*blocks[0])).movedim(0, -2)

    total, receivers = None, edges.receivers.split(len(blocks[0][1]))
    needed = [call.value] if weights.requires_grad else []
    for rows, block in zip(receivers, _each(weighted, blocks, needed), strict=True):
        total = block.new_zeros(edges.num_receivers, *block.shape[1:]) if total is None else total
        # Unlike index_add, it does not keep the block for the gradient.
        total = total.scatter_add(0, rows.view(-1, *[1] * (block.dim() - 1)).expand_as(block), block)

    assert total is not None
    return total.movedim(0, -2)


def _run_table(call: Call, drop: Drop) -> Tensor:
    assert call.value is not None
    values = call.value

    def attend_block(start: int, stop: int, first: int, last: int) -> Tensor:
        weights, rows = block_weights(call, start, stop, first, last)
        value = values[..., first:last, :]
        broken = ~torch.isfinite(value)
        weights = drop(weights, start, stop, first, last).to(value.dtype)
        if not (is_abstract(broken) or bool(broken.any())):
            return weights @ torch.where(broken, 0.0, value)
        signs = signs_of_infinities(value)
        out = weights @ torch.where(broken, signs, value)  # not 0, which an infinite weight makes NaN
        reached = rows.mask.to(value.dtype) @ broken.to(value.dtype)
        return with_infinities(out, reached, weights.detach().sign() @ signs)

    return torch.cat(list(_each(attend_block, list(table_blocks(call)), _read_by_table(call))), -2)


def _each(compute: Callable[..., Tensor], blocks: Sequence[tuple], needed: Sequence[Tensor]) -> Iterator[Tensor]:
    """The result of every block; where there are several, their intermediates are computed again for the gradient.

    Args:
        compute: the result of one.
        blocks: its arguments, block by block.
        needed: other tensors that the gradient is computed from. As they are not saved, torch does not notice a change.

    Raises:
        RuntimeError: at the gradient, as torch does, where one of `needed` was changed in place.
    """
    # Transforms of torch.func allow no recomputation: they are left before the gradient is computed.
    recomputes = len(blocks) > 1 and torch.is_grad_enabled()
    if not recomputes or torch._C._are_functorch_transforms_active():
        yield from (compute(*block) for block in blocks)
        return

    versions: list[tuple[Tensor, int]] = []
    if not torch.compiler.is_compiling():  # which computes with copies of what changes
        versions = [(x, x._version) for x in needed if x.numel() > 0 and not x.is_inference()]

    def compute_unchanged(*block: Any) -> Tensor:
        for x, version in versions:
            if x._version != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"[{x.type()} {list(x.shape)}] is at version {x._version}; expected version {version} instead. "
                    "Arguments of a call must not change before its gradient is computed: write x = x + attend(x, …), "
                    "not x += attend(x, …)."
                )
        return compute(*block)

    for block in blocks:
        yield checkpoint(compute_unchanged, *block, use_reentrant=False)


def _scored(call: Call) -> list[Tensor]:
    """What scores are computed from, other than features of edges."""
    nodes = [] if isinstance(call.score, Constant) else [call.query, call.key]
    return [*nodes, *tensors_of(call.score)]


def _read_by_table(call: Call) -> list[Tensor]:
    """What the gradient of a table is computed from."""
    read = tensors_of(call.neighborhood)
    if isinstance(call.normalize, Mean):
        return read
    weighed = [*_scored(call), *tensors_of(call.normalize), *([] if call.bias is None else [call.bias])]
    # That of the weights is computed from the values, that of the values from the weights alone. A custom score
    # may hold tensors out of sight.
    if call.value is not None and (type(call.score) not in kernels.SCORES or any(x.requires_grad for x in weighed)):
        weighed.append(call.value)
    return read + weighed


def _edge_blocks(edges: Edges, row_size: int, first: Tensor, second: Tensor, carried: Tensor | None) -> list[tuple]:
    """What belongs to the edges, `(edge, …)` twice and perhaps `(*batch, edge, feature)`, in parts.

    A part holds about SLICE numbers, or as many as the nodes do: the gradient of each is one of all nodes.
    """
    parts = [first, second] if carried is None else [first, second, _nodes_first(carried)]
    runs = list(_blocks(edges.num_edges, row_size, least=max(edges.num_senders, edges.num_receivers)))
    if len(runs) == 1:
        return [tuple(parts)]
    _, step = runs[0]
    return list(zip(*(x.split(step) for x in parts), strict=True))


def _blocks(count: int, row_size: int, least: int = 1) -> Iterator[tuple[int, int]]:
    """Runs of rows, at least so many, that hold about SLICE numbers together.

    One run where sizes are symbols (an exported program).
    """
    if kernels.is_exporting():
        yield 0, count
        return
    step = max(least, 1, SLICE // max(1, row_size))
    for start in range(0, max(count, 1), step):
        yield start, min(start + step, count)


def _nodes_first(x: Tensor) -> Tensor:
    """`(*batch, node, feature)` as `(node, *batch, feature)`."""
    return x.movedim(-2, 0)


def _is_broken(x: Tensor) -> Tensor:
    """Which nodes have a feature that is not finite."""
    return ~torch.isfinite(x).all(-1)


def largest(call: Call) -> Tensor:
    """The largest of each feature over the neighborhood, 0 where that is empty: `(*batch, query, value_dim)`."""
    neighborhood, value = call.neighborhood, call.value
    assert value is not None
    if type(neighborhood) is Full and call.num_keys > 0:
        return value.amax(-2, keepdim=True).expand(*value.shape[:-2], call.num_queries, value.shape[-1])
    if isinstance(neighborhood, Edges):
        blocks = list(_blocks(value.shape[-1], neighborhood.num_edges * call.batch_size))
        needed = [value] if call.edge_value is None else [value, call.edge_value]
        return torch.cat(list(_each(partial(_largest_over_edges, call, neighborhood), blocks, needed)), -1)

    def block(start: int, stop: int) -> Tensor:
        queries = torch.arange(start, stop, device=value.device)
        keys = torch.arange(call.num_keys, device=value.device)
        mask = neighborhood.block(queries, keys, call.num_queries, call.num_keys)
        largest_values = torch.where(mask.unsqueeze(-1), value.unsqueeze(-3), -torch.inf)
        largest_values = largest_values.amax(-2) if call.num_keys > 0 else largest_values.sum(-2)
        return torch.where(mask.any(-1, keepdim=True), largest_values, 0.0)

    width = call.num_keys * value.shape[-1] * call.batch_size
    blocks = list(_blocks(call.num_queries, width))
    return torch.cat(list(_each(block, blocks, [value, *tensors_of(neighborhood)])), -2)


def _largest_over_edges(call: Call, edges: Edges, first: int, last: int) -> Tensor:
    """The largest of the features `first:last`: edges side by side share the gradient where they are alike."""
    assert call.value is not None
    carried = _nodes_first(call.value[..., first:last]).index_select(0, edges.senders)
    if call.edge_value is not None:
        carried = carried + _nodes_first(call.edge_value[..., first:last])
    index = edges.receivers.view(-1, *[1] * (carried.dim() - 1)).expand_as(carried)
    # The floor counts among those that share the gradient wherever it equals the largest: it must lie below all.
    floor = carried.new_full((edges.num_receivers, *carried.shape[1:]), -torch.inf)
    largest_values = floor.scatter_reduce(0, index, carried, "amax", include_self=False)
    empty = (edges.degrees() == 0).view(-1, *[1] * (carried.dim() - 1))
    return torch.where(empty, 0.0, largest_values).movedim(0, -2)
