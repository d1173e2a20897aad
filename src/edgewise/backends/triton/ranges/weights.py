"""The strongest weights of every query over runs of keys, held in registers while a program walks over its keys.

A score and its key make one whole number, the score in its upper half, so that whole numbers stand in the order of the
scores, and of equal scores by key. The largest few of each block join the largest few so far. Weights never fall where
scores grow, whatever the normalizer: the few that are left at the end are weighed then, in one walk for most of them.
"""
# mypy: ignore-errors

from typing import Any

import torch
import triton.language as tl
from torch import Tensor

import triton
from edgewise.backends.formula import RangeInputs
from edgewise.backends.lower import Lowered
from edgewise.backends.triton.formulas import finite
from edgewise.backends.triton.ranges.forward import numbers_before, softened
from edgewise.backends.triton.ranges.layout import MIN_SIDE, inputs_of, launch_tiles, tilings_of
from edgewise.backends.triton.ranges.operators import RangeKernelArguments
from edgewise.backends.triton.ranges.scores import is_factored, scores_of
from edgewise.backends.triton.ranges.tiles import (
    PanelOperands,
    block_at,
    blocks_of,
    member_of,
    operand_of,
    query_block,
    visible,
    weights_of,
)
from edgewise.backends.triton.sizes import power_of_two
from edgewise.neighborhood.operator import define, with_signature

MAX_SCORES = 1024
"""Scores that a program holds, of all its queries."""
NOBODY = tl.constexpr(-(2**63))
"""Where no pair is there: less than every score with a key, of which NaN is the largest."""
LOWER = tl.constexpr(2**32 - 1)
"""The lower half of a whole number."""


def strongest_of(lowered: Lowered, top: int, queries: Tensor | None) -> tuple[Tensor, Tensor]:
    """The strongest weights of all queries or of some, and their keys, `(*batch, query, top)`; without a gradient.

    The strongest stand first, of equals that with the smallest key. Where a query has fewer neighbors the weight is −∞.
    """
    inputs, batch = inputs_of(lowered, lowered.call.query.new_empty(1), queries)
    values, keys = (x.reshape(*batch, *x.shape[2:]) for x in weigh_ranges(*inputs._replace(dropout=0.0), top))
    return values, keys


def range_weights(*arguments: Any) -> tuple[Tensor, Tensor]:
    """The strongest weights of each query, the strongest first, and their keys.

    Returns:
        `(outer, inner, query, top)` each, float32 and int64, without a gradient. Where a query has fewer neighbors, the
        weight is −∞ and the key is any number.
    """
    inputs, top = RangeInputs(*arguments[:-1]), arguments[-1]
    weights, keys = range_weights_shapes(*arguments)
    if weights.numel() == 0 or inputs.key.shape[-2] == 0:
        return weights.fill_(-torch.inf), keys

    form, _, _ = tilings_of(inputs._replace(bias=None))
    num_top = power_of_two(top)
    num_queries = max(MIN_SIDE, min(form.queries, MAX_SCORES // num_top))
    form = form._replace(queries=num_queries, lanes=min(form.lanes, num_queries))
    job = RangeKernelArguments(inputs, form)
    programs, rows = job.blocks_of_queries(form), (job.runs, job.extent)
    launch_tiles(strongest, programs, form, job.operands, *rows, weights, keys, top, NUM_TOP=num_top)

    return weights, keys


def range_weights_shapes(query: Tensor, *row_sum: Any) -> tuple[Tensor, Tensor]:
    """What tracers see of them."""
    shape = (*query.shape[:-1], row_sum[-1])
    return query.new_empty(shape, dtype=torch.float32), query.new_empty(shape, dtype=torch.int64)


@triton.jit
def packed(score, there, at, F: tl.constexpr):
    """Scores of a block with their keys, as whole numbers in the order of the scores; NaN above all."""
    bits = tl.where(score == score, tl.where(score == 0.0, 0.0, score), float("nan")).to(tl.int32, bitcast=True)
    bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # of negative numbers, the larger has fewer bits
    key = (at + tl.arange(0, F.keys)).to(tl.int64)
    return tl.where(there, (bits.to(tl.int64) << 32) | (~key & LOWER)[None, :], NOBODY)


@triton.jit
def unpacked(both):
    """The scores and the keys, and which are there."""
    bits = (both >> 32).to(tl.int32)
    bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return bits.to(tl.float32, bitcast=True), ~both & LOWER, both != NOBODY


@triton.jit
def stronger(best, block):
    """The largest of those so far and of a block, the largest first: as many as so far."""
    rows: tl.constexpr = best.shape[0]
    num_top: tl.constexpr = best.shape[1]
    keys: tl.constexpr = block.shape[1]
    if keys > num_top:
        block = tl.topk(block, num_top)
    elif keys < num_top:
        first = tl.arange(0, num_top // keys)[None, :, None] == 0
        block = tl.reshape(tl.where(first, tl.expand_dims(block, 1), NOBODY), (rows, num_top))
    return tl.topk(tl.reshape(tl.join(best, block), (rows, 2 * num_top)), num_top)


@triton.jit
def strongest_of_keys(operands, rows, extent, row_max, row_sum, best, WHOLE: tl.constexpr, F: tl.constexpr):
    """Walks over the blocks of keys that are seen as a whole, or over the others."""
    for step in range(0, blocks_of(rows.spans, WHOLE)):
        at = block_at(rows.spans, step, WHOLE) * F.keys
        there = visible(rows.start, rows.stop, at, F)
        score = tl.full((F.queries, F.keys), 0.0, tl.float32)
        if F.normalizer != "Mean":
            k_tile = operand_of(operands.key, rows.member, at, extent.keys, F.keys, F)
            _, score = scores_of(operands, rows, k_tile, at, there, extent, WHOLE, F)
        if F.normalizer == "Softmax":
            _, _, row_max, row_sum = softened(score, row_max, row_sum)
        best = stronger(best, packed(score, there, at, F))
    return row_max, row_sum, best


@triton.jit
def strongest(operands, runs, extent, weights, keys, top, NUM_TOP: tl.constexpr, F: tl.constexpr):
    """The `top` strongest weights of each of a block of queries, and their keys."""
    operands = PanelOperands(*operands)
    blocks = tl.cdiv(extent.queries, F.queries)
    member, first = member_of(tl.program_id(0) // blocks, extent), (blocks - 1 - tl.program_id(0) % blocks) * F.queries
    rows = query_block(operands, runs, member, first, is_factored(operands.max_abs, F), extent, F)
    row_max, row_sum = numbers_before(operands, rows, extent, F)
    best = tl.full((F.queries, NUM_TOP), NOBODY, tl.int64)
    row_max, row_sum, best = strongest_of_keys(operands, rows, extent, row_max, row_sum, best, True, F)
    row_max, row_sum, best = strongest_of_keys(operands, rows, extent, row_max, row_sum, best, False, F)
    if F.normalizer == "Softmax":
        row_max, row_sum = finite(row_max), tl.log(tl.where(row_sum == 0.0, 1.0, row_sum))
    score, key, there = unpacked(best)
    weight = tl.where(there, weights_of(score, row_max, row_sum, there, True, F), float("-inf"))
    query, slot = first + tl.arange(0, F.queries), tl.arange(0, NUM_TOP)
    at = (member.number * extent.queries + query)[:, None] * top + slot[None, :]
    inside = (query < extent.queries)[:, None] & (slot < top)[None, :]
    tl.store(weights + at, weight, mask=inside)
    tl.store(keys + at, key, mask=inside)


SCHEMA = RangeInputs.__annotations__ | {"top": int}
range_weights = with_signature(range_weights, SCHEMA, tuple[Tensor, Tensor])
weigh_ranges = define("triton_range_weights", range_weights, range_weights_shapes)
