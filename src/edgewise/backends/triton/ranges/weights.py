"""The strongest weights of every query over runs of keys, kept in registers while a program walks over its keys.

A score and its key make one whole number, the score in its upper half, so that whole numbers stand in the order of the
scores, and of equal scores by key. The largest few of each block join the largest few so far. Weights never fall where
scores grow, whatever the normalizer: the few that are left at the end are weighed then, in one walk for most of them.
"""

from typing import no_type_check

import torch
import triton.language as tl
from torch import Tensor

import triton
from edgewise.backends.triton.formulas import finite
from edgewise.backends.triton.ranges.forward import numbers_before, softened
from edgewise.backends.triton.ranges.launch import LEAST, launch_tiles, tilings_of
from edgewise.backends.triton.ranges.operators import Job
from edgewise.backends.triton.ranges.scores import is_near, scores_of
from edgewise.backends.triton.ranges.tiles import (
    Operands,
    block_at,
    blocks_of,
    member_of,
    run_of,
    side_of,
    visible,
    weights_of,
)
from edgewise.backends.triton.sizes import power_of_two
from edgewise.operator import define

KEPT = 1024
"""Scores that a program keeps, of all its queries."""
NOBODY = tl.constexpr(-(2**63))
"""Where no pair is there: less than every score with a key, of which NaN is the largest."""
LOWER = tl.constexpr(2**32 - 1)
"""The lower half of a whole number."""


def range_weights(
    query: Tensor,
    key: Tensor,
    bias: Tensor | None,
    vector: Tensor | None,
    starts: Tensor,
    stops: Tensor,
    kind: str,
    activation: str,
    root: bool,
    number: float,
    normalizer: str,
    top: int,
) -> tuple[Tensor, Tensor]:
    """The strongest weights of each query, the strongest first, and their keys; arguments as in `ranges`.

    Returns:
        `(outer, inner, query, top)` each, float32 and int64, without a gradient. Where a query has fewer neighbors, the
        weight is −∞ and the key is any number.
    """
    weights, keys = range_weights_shapes(query, key, bias, vector, starts, stops, kind, activation, root, number,
                                         normalizer, top)  # fmt: skip
    if weights.numel() == 0 or key.shape[-2] == 0:
        return weights.fill_(-torch.inf), keys
    form, _, _ = tilings_of(kind, activation, root, normalizer, False, query.shape[-1], 1, query.itemsize == 2, False)
    kept = power_of_two(top)
    queries = max(LEAST, min(form.queries, KEPT // kept))
    form = form._replace(queries=queries, lanes=min(form.lanes, queries))
    job = Job(query, key, None, bias, vector, starts, stops, number, 0.0, None, form)
    launch_tiles(
        strongest, job.blocks_of_queries(form), form, *job.operands, job.runs, job.extent, weights, keys, top, KEPT=kept
    )
    return weights, keys


def range_weights_shapes(query, key, bias, vector, starts, stops, kind, activation, root, number, normalizer, top):
    """What tracers see of them."""
    shape = (*query.shape[:-1], top)
    return query.new_empty(shape, dtype=torch.float32), query.new_empty(shape, dtype=torch.int64)


@triton.jit
@no_type_check
def packed(score, there, at, F: tl.constexpr):
    """Scores of a block with their keys, as whole numbers in the order of the scores; NaN above all."""
    bits = tl.where(score == score, tl.where(score == 0.0, 0.0, score), float("nan")).to(tl.int32, bitcast=True)
    bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # of negative numbers, the larger has fewer bits
    key = (at + tl.arange(0, F.keys)).to(tl.int64)
    return tl.where(there, (bits.to(tl.int64) << 32) | (~key & LOWER)[None, :], NOBODY)


@triton.jit
@no_type_check
def unpacked(both):
    """The scores and the keys, and which are there."""
    bits = (both >> 32).to(tl.int32)
    bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return bits.to(tl.float32, bitcast=True), ~both & LOWER, both != NOBODY


@triton.jit
@no_type_check
def stronger(best, block):
    """The largest of what was kept and of a block, the largest first: as many as were kept."""
    rows: tl.constexpr = best.shape[0]
    kept: tl.constexpr = best.shape[1]
    keys: tl.constexpr = block.shape[1]
    if keys > kept:
        block = tl.topk(block, kept)
    elif keys < kept:
        first = tl.arange(0, kept // keys)[None, :, None] == 0
        block = tl.reshape(tl.where(first, tl.expand_dims(block, 1), NOBODY), (rows, kept))
    return tl.topk(tl.reshape(tl.join(best, block), (rows, 2 * kept)), kept)


@triton.jit
@no_type_check
def strongest_of_keys(operands, member, first, asking, vector, near, start, stop, spans, extent, most, rest, best,
                      WHOLE: tl.constexpr, F: tl.constexpr):  # fmt: skip
    """Walks over the blocks of keys that are seen as a whole, or over the others."""
    for step in range(0, blocks_of(spans, WHOLE)):
        at = block_at(spans, step, WHOLE) * F.keys
        there = visible(start, stop, at, F)
        score = tl.full((F.queries, F.keys), 0.0, tl.float32)
        if F.normalizer != "Mean":
            asked = side_of(operands.key, member, at, extent.keys, F.keys, F)
            _, score = scores_of(asking, asked, vector, near, operands, member, first, at, there, extent, WHOLE, F)
        if F.normalizer == "Softmax":
            _, _, most, rest = softened(score, most, rest)
        best = stronger(best, packed(score, there, at, F))
    return most, rest, best


@triton.jit
@no_type_check
def strongest(
    query, key, value, bias, vector, reach, number, dropout, seed, runs, extent, weights, keys, top,
    KEPT: tl.constexpr, F: tl.constexpr,
):  # fmt: skip
    """The `top` strongest weights of each of a block of queries, and their keys."""
    operands = Operands(query, key, value, bias, vector, reach, number, dropout, seed)
    blocks = tl.cdiv(extent.queries, F.queries)
    member, first = member_of(tl.program_id(0) // blocks, extent), (blocks - 1 - tl.program_id(0) % blocks) * F.queries
    start, stop, spans = run_of(runs, member, first, extent, F)
    asking = side_of(operands.query, member, first, extent.queries, F.queries, F)
    vector = vector if vector is None else vector + member.number * F.steps
    near = is_near(reach, F)
    most, rest = numbers_before(operands, member, first, asking, vector, near, start, stop, spans, extent, F)
    best = tl.full((F.queries, KEPT), NOBODY, tl.int64)
    most, rest, best = strongest_of_keys(
        operands, member, first, asking, vector, near, start, stop, spans, extent, most, rest, best, True, F
    )
    most, rest, best = strongest_of_keys(
        operands, member, first, asking, vector, near, start, stop, spans, extent, most, rest, best, False, F
    )
    if F.normalizer == "Softmax":
        most, rest = finite(most), tl.log(tl.where(rest == 0.0, 1.0, rest))
    score, found, there = unpacked(best)
    weight = tl.where(there, weights_of(score, most, rest, there, True, F), float("-inf"))
    place, slot = first + tl.arange(0, F.queries), tl.arange(0, KEPT)
    at = (member.number * extent.queries + place)[:, None] * top + slot[None, :]
    inside = (place < extent.queries)[:, None] & (slot < top)[None, :]
    tl.store(weights + at, weight, mask=inside)
    tl.store(keys + at, found, mask=inside)


weigh_ranges = define("triton_range_weights", range_weights, range_weights_shapes)
