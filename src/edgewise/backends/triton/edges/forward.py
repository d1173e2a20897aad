"""Attention over lists of edges, forward: low rows several to a program, high rows alone, hubs in chunks.

    forward          scores of a piece's edges → running softmax → the sum of the values; of a hub, one part of it
    merge            the parts of each hub, in order
    score_edges      the scores alone, for normalizers that must see a whole row before they can weigh one edge
    normalize_rows   these scores into weights, in place

Every number is written by the program that owns it: no atomics, and the same bits in every run.
"""

from typing import Any, NamedTuple, no_type_check

import triton.language as tl

import triton
from edgewise.backends.triton.edges.tiles import (
    block_of,
    for_edges,
    gathered,
    kept,
    most_of_edges,
    numbers_of,
    over_edges,
    piece_of,
    put,
    put_numbers,
    scored,
    spread,
    vector_of,
)
from edgewise.backends.triton.formulas import finite, nearer_threshold, over_threshold


class Operands(NamedTuple):
    """What the scores and values of edges are made of; tables, of which those of the edges may be absent.

    Kernels take them one by one and put them together: triton 3.6 loses constants of tuples within tuples.
    """

    query: Any
    """Of the receivers."""
    key: Any
    """Of the senders."""
    value: Any
    """Of the senders."""
    edge_key: Any
    """Joins the key."""
    edge_value: Any
    """Joins the value."""
    bias: Any
    """Joins the score."""
    vector: Any
    """Of the score, `head · key_dim`."""
    weights: Any
    """Made beforehand, by the caller's edges."""
    number: Any
    """Scale, slope or value of the score."""
    dropout: Any
    """The rate."""
    seed: Any
    """Where the seed of the dropout is."""


@triton.jit
@no_type_check
def keys_of(operands, neighbor, edge, there, group, F: tl.constexpr):
    """k + k^e of a block of edges, as a tile; one number where no score is made of them."""
    if F.kind == "Blind":
        return tl.full((F.rows * F.block, 1), 0.0, tl.float32)
    else:
        found = gathered(operands.key, neighbor, there, group, F.key_dim, F.key_width, F)
        if operands.edge_key is not None:
            found += gathered(operands.edge_key, edge, there, group, F.key_dim, F.key_width, F)
        return found


@triton.jit
@no_type_check
def raw_scores(operands, queries, keys, vector, F: tl.constexpr):
    """s of a block of edges, `(row · block, head)`, from tiles of both sides."""
    if F.kind == "Blind":
        return tl.full((F.rows * F.block, F.heads), 0.0, tl.float32) + operands.number
    else:
        return scored(queries, keys, vector, operands.number, F)


@triton.jit
@no_type_check
def biased(operands, score, edge, there, group, F: tl.constexpr):
    """s + b of a block of edges; −∞ where there is none."""
    if operands.bias is not None:
        score += numbers_of(operands.bias, edge, there, group, F)
    return tl.where(there[:, None], score, float("-inf"))


@triton.jit
@no_type_check
def values_of(operands, neighbor, edge, there, group, F: tl.constexpr):
    """v + v^e of a block of edges, as a tile."""
    found = gathered(operands.value, neighbor, there, group, F.value_dim, F.value_width, F)
    if operands.edge_value is not None:
        found += gathered(operands.edge_value, edge, there, group, F.value_dim, F.value_width, F)
    return found


@triton.jit
@no_type_check
def own_query(operands, row, here, group, F: tl.constexpr):
    """The queries of a program's rows; one number where no score is made of them."""
    if F.kind == "Blind" or F.given:
        return tl.full((F.rows, 1), 0.0, tl.float32)
    else:
        return gathered(operands.query, row, here, group, F.key_dim, F.key_width, F)


@triton.jit
@no_type_check
def forward(
    query, key, value, edge_key, edge_value, bias, vector, weights, number, dropout, seed,
    lists, pieces, out, stats, part_sums, part_most, part_total, F: tl.constexpr,
):  # fmt: skip
    """out = Σ α (v + v^e) of each piece's row, and ln Σ exp s in `stats`; or a part of both."""
    operands = Operands(query, key, value, edge_key, edge_value, bias, vector, weights, number, dropout, seed)
    group = tl.program_id(1)
    row, begin, end, slot, here = piece_of(pieces, tl.program_id(0), F)
    own, vector = own_query(operands, row, here, group, F), vector_of(operands.vector, group, F)
    most = tl.full((F.rows, F.heads), float("-inf"), tl.float32)
    total = tl.full((F.rows, F.heads), 0.0, tl.float32)
    sums = tl.full((F.rows, F.heads * F.value_width), 0.0, tl.float32)
    if F.normalizer == "Mean":
        count = tl.load(lists.offsets + row + 1, mask=here, other=1) - tl.load(lists.offsets + row, mask=here, other=0)
        share = for_edges((1.0 / tl.maximum(count, 1).to(tl.float32))[:, None], F.block)
    for at in range(0, tl.max(end - begin, 0), F.block):
        neighbor, edge, there = block_of(lists, begin, end, at, F)
        if F.given:
            weight = numbers_of(operands.weights, edge, there, group, F)
        elif F.normalizer == "Mean":
            weight = tl.where(there[:, None], share, 0.0) + tl.full((F.rows * F.block, F.heads), 0.0, tl.float32)
        else:
            keys = keys_of(operands, neighbor, edge, there, group, F)
            score = raw_scores(operands, for_edges(own, F.block), keys, vector, F)
            score = biased(operands, score, edge, there, group, F)
            if F.normalizer == "Softmax":
                higher = tl.maximum(most, most_of_edges(score, F.rows))
                shrink = tl.exp(most - finite(higher))
                weight = tl.exp(score - for_edges(finite(higher), F.block))
                total = total * shrink + over_edges(weight, F.rows)
                sums *= spread(shrink, F.value_width)
                most = higher
            elif F.normalizer == "Sigmoid":
                weight = 1.0 / (1.0 + tl.exp(-score))
            else:
                weight = tl.where(there[:, None], score, 0.0)
        if F.drops:
            weight *= kept(operands.seed, edge, group, operands.dropout, F)
        values = keys if F.shares else values_of(operands, neighbor, edge, there, group, F)
        sums += over_edges(spread(weight, F.value_width) * values, F.rows)
    whole = here & (slot < 0)
    if part_sums is not None:
        part = here & (slot >= 0)
        put(part_sums, slot, part, group, sums, F.value_dim, F.value_width, F)
        if F.normalizer == "Softmax":
            put_numbers(part_most, slot, part, group, most, F)
            put_numbers(part_total, slot, part, group, total, F)
    if F.normalizer == "Softmax":
        total = tl.where(total == 0.0, 1.0, total)
        sums *= spread(1.0 / total, F.value_width)
        put_numbers(stats, row, whole, group, finite(most) + tl.log(total), F)
    put(out, row, whole, group, sums, F.value_dim, F.value_width, F)


@triton.jit
@no_type_check
def merge(part_sums, part_most, part_total, hubs, hub_slots, out, stats, F: tl.constexpr):
    """The parts of a hub, block after block, as one row; F.block of them at once."""
    hub, group = tl.program_id(0), tl.program_id(1)
    first, last = tl.load(hub_slots + hub), tl.load(hub_slots + hub + 1)
    row = tl.load(hubs + hub) + tl.full((1,), 0, tl.int32)
    here = row >= 0
    most = tl.full((1, F.heads), float("-inf"), tl.float32)
    total = tl.full((1, F.heads), 0.0, tl.float32)
    sums = tl.full((1, F.heads * F.value_width), 0.0, tl.float32)
    for at in range(first, last, F.block):
        slot = at + tl.arange(0, F.block)
        there = slot < last
        found = gathered(part_sums, slot, there, group, F.value_dim, F.value_width, F)
        if F.normalizer == "Softmax":
            each = tl.where(there[:, None], numbers_of(part_most, slot, there, group, F), float("-inf"))
            higher = tl.maximum(most, most_of_edges(each, 1))
            shrink, grown = tl.exp(most - finite(higher)), tl.exp(each - finite(higher))
            total = total * shrink + over_edges(grown * numbers_of(part_total, slot, there, group, F), 1)
            sums = sums * spread(shrink, F.value_width) + over_edges(spread(grown, F.value_width) * found, 1)
            most = higher
        else:
            sums += over_edges(found, 1)
    if F.normalizer == "Softmax":
        total = tl.where(total == 0.0, 1.0, total)
        sums *= spread(1.0 / total, F.value_width)
        put_numbers(stats, row, here, group, finite(most) + tl.log(total), F)
    put(out, row, here, group, sums, F.value_dim, F.value_width, F)


@triton.jit
@no_type_check
def score_edges(
    query, key, value, edge_key, edge_value, bias, vector, weights, number, dropout, seed,
    lists, pieces, made, F: tl.constexpr,
):  # fmt: skip
    """s + b of the edges of each piece, by the caller's edges."""
    operands = Operands(query, key, value, edge_key, edge_value, bias, vector, weights, number, dropout, seed)
    group = tl.program_id(1)
    row, begin, end, _, here = piece_of(pieces, tl.program_id(0), F)
    own, vector = own_query(operands, row, here, group, F), vector_of(operands.vector, group, F)
    for at in range(0, tl.max(end - begin, 0), F.block):
        neighbor, edge, there = block_of(lists, begin, end, at, F)
        keys = keys_of(operands, neighbor, edge, there, group, F)
        score = biased(operands, raw_scores(operands, for_edges(own, F.block), keys, vector, F), edge, there, group, F)
        put_numbers(made, edge, there, group, score, F)


@triton.jit
@no_type_check
def relative(weights, lists, begin, end, at, most, group, F: tl.constexpr):
    """The scores of a block relative to the largest of their row; −∞ where there is none."""
    _, edge, there = block_of(lists, begin, end, at, F)
    found = tl.where(there[:, None], numbers_of(weights, edge, there, group, F), float("-inf"))
    return found - for_edges(finite(most), F.block), edge, there


@triton.jit
@no_type_check
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
    length = tl.max(end - begin, 0)
    most = tl.full((F.rows, F.heads), float("-inf"), tl.float32)
    for at in range(0, length, F.block):
        _, edge, there = block_of(lists, begin, end, at, F)
        found = tl.where(there[:, None], numbers_of(weights, edge, there, group, F), float("-inf"))
        most = tl.maximum(most, most_of_edges(found, F.rows))
    threshold = tl.full((F.rows, F.heads), -1.0, tl.float32)
    total = tl.full((F.rows, F.heads), 0.0, tl.float32)
    if NORMALIZER == "Hardmax" or NORMALIZER == "Softmax":
        for at in range(0, length, F.block):
            found, edge, there = relative(weights, lists, begin, end, at, most, group, F)
            share = tl.exp(found) if NORMALIZER == "Softmax" else tl.where(found == 0.0, 1.0, 0.0)
            total += over_edges(share, F.rows)
        total = tl.where(total == 0.0, 1.0, total)
    else:
        step, moves = 0, 1
        while (moves > 0) & (step < 64):  # about ten are needed
            total = tl.full((F.rows, F.heads), 0.0, tl.float32)
            falls = tl.full((F.rows, F.heads), 0.0, tl.float32)
            for at in range(0, length, F.block):
                found, edge, there = relative(weights, lists, begin, end, at, most, group, F)
                weight, fall = over_threshold(found, for_edges(threshold, F.block), F)
                total += over_edges(weight, F.rows)
                falls += over_edges(fall, F.rows)
            threshold, moved = nearer_threshold(threshold, total, falls)
            moves = tl.max(tl.max(moved, 1), 0)
            step += 1
    for at in range(0, length, F.block):
        found, edge, there = relative(weights, lists, begin, end, at, most, group, F)
        if NORMALIZER == "Hardmax" or NORMALIZER == "Softmax":
            share = tl.exp(found) if NORMALIZER == "Softmax" else tl.where(found == 0.0, 1.0, 0.0)
            weight = share / for_edges(total, F.block)
        else:
            weight, _ = over_threshold(found, for_edges(threshold, F.block), F)
        put_numbers(weights, edge, there, group, weight, F)
