"""Attention over lists of edges, forward: low rows several to a program, high rows alone, hubs in chunks.

    forward          scores of a piece's edges → running softmax → the sum of the values; of a hub, one part of it
    merge            the parts of each hub, in order
    score_edges      the scores alone, for normalizers that must see a whole row before they can weigh one edge
    normalize_rows   these scores into weights, in place

Every number is written by the program that owns it: no atomics, and the same bits in every run.
"""
# mypy: ignore-errors

from typing import Any, NamedTuple

import triton.language as tl

import triton
from edgewise.backends.triton.edges.tiles import (
    block_of,
    chunk_of,
    factors_of_edges,
    for_edges,
    form_of,
    gathered,
    longest,
    max_of_edges,
    numbers_of,
    over_edges,
    put,
    put_numbers,
    scored,
    spread,
    tile_of,
    vector_of,
)
from edgewise.backends.triton.formulas import finite, nearer_threshold, over_threshold


class Parts(NamedTuple):
    """Workspaces of hubs, a row a chunk."""

    outs: Any
    row_max: Any
    """Their largest score, for softmax."""
    row_sum: Any
    """Σ exp(s − max) of them."""


class Operands(NamedTuple):
    """What the scores and values of edges are made of; tables, of which those of the edges may be absent.

    Kernels build tuples of tuples again: in loops, triton 3.6 loses the constants of those that come as arguments.
    """

    query: Any
    key: Any
    value: Any
    edge_key: Any
    edge_value: Any
    bias: Any
    vector: Any
    """The vector of the score, `head · key_dim`."""
    weights: Any
    """Made beforehand, by the caller's edges."""
    number: Any
    dropout: Any
    seed: Any


@triton.jit
def keys_of(operands, neighbor, edge, there, group, F: tl.constexpr):
    """k + k^e of a block of edges, as a tile; one number where no score is made of them."""
    if F.kind == "Constant":
        return tl.full((F.rows * F.block, 1), 0.0, tl.float32)
    else:
        keys = gathered(operands.key, neighbor, there, group, F.key_dim, F.key_width, F)
        if operands.edge_key is not None:
            keys += gathered(operands.edge_key, edge, there, group, F.key_dim, F.key_width, F)
        return keys


@triton.jit
def raw_scores(operands, queries, keys, vector, F: tl.constexpr):
    """s of a block of edges, `(row · block, head)`, from tiles of both sides."""
    if F.kind == "Constant":
        return tl.full((F.rows * F.block, F.heads), 0.0, tl.float32) + operands.number
    else:
        return scored(queries, keys, vector, operands.number, F)


@triton.jit
def biased(operands, score, edge, there, group, F: tl.constexpr):
    """s + b of a block of edges; −∞ where there is none."""
    if operands.bias is not None:
        score += numbers_of(operands.bias, edge, there, group, F)
    return tl.where(there[:, None], score, float("-inf"))


@triton.jit
def values_of(operands, neighbor, edge, there, group, F: tl.constexpr):
    """v + v^e of a block of edges, as a tile."""
    values = gathered(operands.value, neighbor, there, group, F.value_dim, F.value_width, F)
    if operands.edge_value is not None:
        values += gathered(operands.edge_value, edge, there, group, F.value_dim, F.value_width, F)
    return values


@triton.jit
def own_query(operands, row, here, group, F: tl.constexpr):
    """The queries of a program's rows; one number where no score is made of them."""
    if F.kind == "Constant" or F.given:
        return tl.full((F.rows, 1), 0.0, tl.float32)
    else:
        return gathered(operands.query, row, here, group, F.key_dim, F.key_width, F)


@triton.jit
def forward(operands, lists, chunks, out, logsumexp, part_outs, part_max, part_sum, FORMS: tl.constexpr):
    """out = Σ α (v + v^e) of each piece's row, and ln Σ exp s in `logsumexp`; or a part of both."""
    operands = Operands(*operands)
    first, level = tile_of(chunks, tl.program_id(0))
    for index in tl.static_range(len(FORMS)):
        if level == index:
            forward_tile(
                operands, lists, chunks, first, out, logsumexp, part_outs, part_max, part_sum, form_of(FORMS, index)
            )


@triton.jit
def forward_tile(
    operands,
    lists,
    chunks,
    first,
    out,
    logsumexp,
    part_outs,
    part_max,
    part_sum,
    F: tl.constexpr,
):
    """The rows of one tile."""
    operands = Operands(*operands)
    group = tl.program_id(1)
    row, begin, end, slot, here = chunk_of(chunks, first, F)
    query, vector = own_query(operands, row, here, group, F), vector_of(operands.vector, group, F)
    row_max = tl.full((F.rows, F.heads), float("-inf"), tl.float32)
    row_sum = tl.full((F.rows, F.heads), 0.0, tl.float32)
    sums = tl.full((F.rows, F.heads * F.value_width), 0.0, tl.float32)
    if F.normalizer == "Mean":
        count = tl.load(lists.offsets + row + 1, mask=here, other=1) - tl.load(lists.offsets + row, mask=here, other=0)
        share = for_edges((1.0 / tl.maximum(count, 1).to(tl.float32))[:, None], F.block)

    for at in range(0, longest(begin, end, F), F.block):
        neighbor, edge, there = block_of(lists, begin, end, at, F)
        if F.given:
            weight = numbers_of(operands.weights, edge, there, group, F)
        elif F.normalizer == "Mean":
            weight = tl.where(there[:, None], share, 0.0) + tl.full((F.rows * F.block, F.heads), 0.0, tl.float32)
        else:
            keys = keys_of(operands, neighbor, edge, there, group, F)
            score = raw_scores(operands, for_edges(query, F.block), keys, vector, F)
            score = biased(operands, score, edge, there, group, F)

            if F.normalizer == "Softmax":
                higher = tl.maximum(row_max, max_of_edges(score, F.rows))
                shrink = tl.exp(row_max - finite(higher))
                weight = tl.exp(score - for_edges(finite(higher), F.block))
                row_sum = row_sum * shrink + over_edges(weight, F.rows)
                sums *= spread(shrink, F.value_width)
                row_max = higher
            elif F.normalizer == "Sigmoid":
                weight = 1.0 / (1.0 + tl.exp(-score))
            else:
                weight = tl.where(there[:, None], score, 0.0)
        if F.drops:
            weight *= factors_of_edges(operands.seed, edge, group, operands.dropout, F)
        values = keys if F.shares else values_of(operands, neighbor, edge, there, group, F)
        sums += over_edges(spread(weight, F.value_width) * values, F.rows)

    is_whole = here & (slot < 0)
    if part_outs is not None and not F.short:
        part = here & (slot >= 0)
        put(part_outs, slot, part, group, sums, F.value_dim, F.value_width, F)
        if F.normalizer == "Softmax":
            put_numbers(part_max, slot, part, group, row_max, F)
            put_numbers(part_sum, slot, part, group, row_sum, F)
    if F.normalizer == "Softmax":
        row_sum = tl.where(row_sum == 0.0, 1.0, row_sum)
        sums *= spread(1.0 / row_sum, F.value_width)
        put_numbers(logsumexp, row, is_whole, group, finite(row_max) + tl.log(row_sum), F)

    put(out, row, is_whole, group, sums, F.value_dim, F.value_width, F)


@triton.jit
def merge(parts, hubs, hub_slots, out, logsumexp, F: tl.constexpr):
    """The parts of a hub, block after block, as one row; F.block of them at once."""
    parts = Parts(*parts)
    hub, group = tl.program_id(0), tl.program_id(1)
    first, last = tl.load(hub_slots + hub), tl.load(hub_slots + hub + 1)
    row = tl.load(hubs + hub) + tl.full((1,), 0, tl.int32)
    here = row >= 0
    row_max = tl.full((1, F.heads), float("-inf"), tl.float32)
    row_sum = tl.full((1, F.heads), 0.0, tl.float32)
    sums = tl.full((1, F.heads * F.value_width), 0.0, tl.float32)

    for at in range(first, last, F.block):
        slot = at + tl.arange(0, F.block)
        there = slot < last
        part_sums = gathered(parts.outs, slot, there, group, F.value_dim, F.value_width, F)

        if F.normalizer == "Softmax":
            part_max = tl.where(there[:, None], numbers_of(parts.row_max, slot, there, group, F), float("-inf"))
            higher = tl.maximum(row_max, max_of_edges(part_max, 1))
            shrink, share = tl.exp(row_max - finite(higher)), tl.exp(part_max - finite(higher))
            row_sum = row_sum * shrink + over_edges(share * numbers_of(parts.row_sum, slot, there, group, F), 1)
            sums = sums * spread(shrink, F.value_width) + over_edges(spread(share, F.value_width) * part_sums, 1)
            row_max = higher
        else:
            sums += over_edges(part_sums, 1)

    if F.normalizer == "Softmax":
        row_sum = tl.where(row_sum == 0.0, 1.0, row_sum)
        sums *= spread(1.0 / row_sum, F.value_width)
        put_numbers(logsumexp, row, here, group, finite(row_max) + tl.log(row_sum), F)

    put(out, row, here, group, sums, F.value_dim, F.value_width, F)


@triton.jit
def score_edges(operands, lists, chunks, scores, FORMS: tl.constexpr):
    """s + b of the edges of each piece, by the caller's edges."""
    operands = Operands(*operands)
    first, level = tile_of(chunks, tl.program_id(0))
    for index in tl.static_range(len(FORMS)):
        if level == index:
            score_tile(operands, lists, chunks, first, scores, form_of(FORMS, index))


@triton.jit
def score_tile(operands, lists, chunks, first, scores, F: tl.constexpr):
    """The rows of one tile."""
    operands = Operands(*operands)
    group = tl.program_id(1)
    row, begin, end, _, here = chunk_of(chunks, first, F)
    query, vector = own_query(operands, row, here, group, F), vector_of(operands.vector, group, F)
    for at in range(0, longest(begin, end, F), F.block):
        neighbor, edge, there = block_of(lists, begin, end, at, F)
        keys = keys_of(operands, neighbor, edge, there, group, F)
        score = biased(
            operands, raw_scores(operands, for_edges(query, F.block), keys, vector, F), edge, there, group, F
        )
        put_numbers(scores, edge, there, group, score, F)


@triton.jit
def relative(weights, lists, begin, end, at, row_max, group, F: tl.constexpr):
    """The scores of a block relative to the largest of their row; −∞ where there is none."""
    _, edge, there = block_of(lists, begin, end, at, F)
    scores = tl.where(there[:, None], numbers_of(weights, edge, there, group, F), float("-inf"))
    return scores - for_edges(finite(row_max), F.block), edge, there


@triton.jit
def normalize_rows(weights, lists, rows, count, NORMALIZER: tl.constexpr, F: tl.constexpr):
    """The scores of whole rows into weights, in place.

    softmax     α = exp(s − max) / Σ exp(s − max)       hardmax      α = 1[s = max] / how many are
    sparsemax   α = max(s − max − τ, 0), Σ α = 1        entmax-1.5   α = max((s − max)/2 − τ, 0)², Σ α = 1
    """
    group = tl.program_id(1)
    at_row = tl.program_id(0) * F.rows + tl.arange(0, F.rows)
    here = at_row < count
    row = tl.load(rows + at_row, mask=here, other=0)
    begin = tl.load(lists.offsets + row, mask=here, other=0)
    end = tl.load(lists.offsets + row + 1, mask=here, other=0)
    length = longest(begin, end, F)
    row_max = tl.full((F.rows, F.heads), float("-inf"), tl.float32)

    for at in range(0, length, F.block):
        _, edge, there = block_of(lists, begin, end, at, F)
        scores = tl.where(there[:, None], numbers_of(weights, edge, there, group, F), float("-inf"))
        row_max = tl.maximum(row_max, max_of_edges(scores, F.rows))

    threshold = tl.full((F.rows, F.heads), -1.0, tl.float32)
    row_sum = tl.full((F.rows, F.heads), 0.0, tl.float32)
    if NORMALIZER == "Hardmax" or NORMALIZER == "Softmax":
        for at in range(0, length, F.block):
            scores, edge, there = relative(weights, lists, begin, end, at, row_max, group, F)
            share = tl.exp(scores) if NORMALIZER == "Softmax" else tl.where(scores == 0.0, 1.0, 0.0)
            row_sum += over_edges(share, F.rows)
        row_sum = tl.where(row_sum == 0.0, 1.0, row_sum)
    else:
        step, moves = 0, 1
        while (moves > 0) & (step < 64):  # about ten are needed
            row_sum = tl.full((F.rows, F.heads), 0.0, tl.float32)
            falls = tl.full((F.rows, F.heads), 0.0, tl.float32)
            for at in range(0, length, F.block):
                scores, edge, there = relative(weights, lists, begin, end, at, row_max, group, F)
                weight, fall = over_threshold(scores, for_edges(threshold, F.block), F)
                row_sum += over_edges(weight, F.rows)
                falls += over_edges(fall, F.rows)

            threshold, moved = nearer_threshold(threshold, row_sum, falls)
            moves = tl.max(tl.max(moved, 1), 0)
            step += 1

    for at in range(0, length, F.block):
        scores, edge, there = relative(weights, lists, begin, end, at, row_max, group, F)
        if NORMALIZER == "Hardmax" or NORMALIZER == "Softmax":
            share = tl.exp(scores) if NORMALIZER == "Softmax" else tl.where(scores == 0.0, 1.0, 0.0)
            weight = share / for_edges(row_sum, F.block)
        else:
            weight, _ = over_threshold(scores, for_edges(threshold, F.block), F)
        put_numbers(weights, edge, there, group, weight, F)
