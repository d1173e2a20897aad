"""Attention over runs of keys, forward: a program has a block of queries and walks over the blocks of keys they see.

    arrange   copies of queries or keys for scores that add features one by one
    forward   scores of a block → running softmax → the sum of the values; other normalizers first ask the whole row

What a row must know before it can weigh one key (the largest score, how many share it, a threshold) is found by walking
over its keys once more, whose scores are computed anew: no number a pair is ever stored.
"""

from typing import no_type_check

import triton.language as tl

import triton
from edgewise.backends.triton.formulas import finite, nearer_threshold, over_threshold
from edgewise.backends.triton.ranges.scores import is_near, scores_of
from edgewise.backends.triton.ranges.tiles import (
    NODES,
    Operands,
    block_at,
    blocks_of,
    home,
    kept_pairs,
    member_of,
    mixed,
    nodes_of,
    put_nodes,
    run_of,
    side_of,
    visible,
    weights_of,
)


@triton.jit
@no_type_check
def arrange(given, reach, extent, count, across, along, BLOCK: tl.constexpr, F: tl.constexpr):
    """Nodes in float32, as e^(c x) where that is near: `across` with nodes next to each other, `along` with features.

    Both have room for whole blocks, filled up with zeros (or ones, which are e⁰), so that nobody need ask for the end.
    """
    tile, room = tl.program_id(0), tl.cdiv(count, NODES) * NODES
    blocks = room // BLOCK
    member, first = member_of(tile // blocks, extent), (tile % blocks) * BLOCK
    found = nodes_of(given, member, first, count, BLOCK, F.key_dim, F.key_width, F).to(tl.float32)
    if is_near(reach, F):
        found = tl.exp(2.0 * found if F.activation == "tanh" else -found)
    node, feature = first + tl.arange(0, BLOCK), tl.arange(0, F.key_width)
    at = across.data + home(across, member) + ((node // NODES) * (F.steps * NODES) + node % NODES * 2)[:, None]
    at = at + ((feature // 2) * (NODES * 2) + feature % 2)[None, :]
    tl.store(at, found, mask=(node < room)[:, None] & (feature < F.steps)[None, :])
    if along is not None:
        put_nodes(along, member, first, room, found, BLOCK, F.key_width, F.key_width)


@triton.jit
@no_type_check
def row_numbers(operands, member, first, asking, vector, near, start, stop, spans, extent, F: tl.constexpr):
    """The largest score of each row, and what else its normalizer must know.

    hardmax     1 / how many share the largest
    sparsemax   τ of Σ max(s − max − τ, 0) = 1          entmax-1.5   τ of Σ max((s − max)/2 − τ, 0)² = 1
    """
    most = tl.full((F.queries,), float("-inf"), tl.float32)
    rest = tl.full((F.queries,), 0.0, tl.float32)
    for block in range(spans.begin, spans.end):
        at = block * F.keys
        there = visible(start, stop, at, F)
        asked = side_of(operands.key, member, at, extent.keys, F.keys, F)
        _, score = scores_of(asking, asked, vector, near, operands, member, first, at, there, extent, False, F)
        higher = tl.maximum(most, tl.max(score, 1))
        if F.normalizer == "Hardmax":
            same = tl.sum(tl.where(score == higher[:, None], 1.0, 0.0), 1)
            rest = same + tl.where(higher > most, 0.0, rest)
        most = higher
    if F.normalizer == "Hardmax":
        return most, 1.0 / tl.maximum(rest, 1.0)
    else:
        most, rest = finite(most), rest - 1.0
        step, moves = 0, 1
        while (moves > 0) & (step < 64):  # about ten are needed
            total = tl.full((F.queries,), 0.0, tl.float32)
            falls = tl.full((F.queries,), 0.0, tl.float32)
            for block in range(spans.begin, spans.end):
                at = block * F.keys
                there = visible(start, stop, at, F)
                asked = side_of(operands.key, member, at, extent.keys, F.keys, F)
                _, score = scores_of(asking, asked, vector, near, operands, member, first, at, there, extent, False, F)
                weight, fall = over_threshold(score - most[:, None], rest[:, None], F)
                total += tl.sum(weight, 1)
                falls += tl.sum(fall, 1)
            rest, moved = nearer_threshold(rest, total, falls)
            moves = tl.max(moved, 0)
            step += 1
        return most, rest


@triton.jit
@no_type_check
def numbers_before(operands, member, first, asking, vector, near, start, stop, spans, extent, F: tl.constexpr):
    """The two numbers of each row as far as they must be known before its keys are walked over."""
    if F.normalizer == "Hardmax" or F.normalizer == "Sparsemax" or F.normalizer == "Entmax15":
        return row_numbers(operands, member, first, asking, vector, near, start, stop, spans, extent, F)
    else:
        most = tl.full((F.queries,), float("-inf"), tl.float32)
        rest = tl.full((F.queries,), 0.0, tl.float32)
        if F.normalizer == "Mean":
            rest = 1.0 / tl.maximum(stop - start, 1).to(tl.float32)
        return most, rest


@triton.jit
@no_type_check
def softened(score, most, rest):
    """One block more of a softmax: e^(s − max), what the sums so far shrink by, the largest score, Σ e^(s − max)."""
    higher = tl.maximum(most, tl.max(score, 1))
    shrink = tl.exp(most - finite(higher))
    weight = tl.exp(score - finite(higher)[:, None])
    return weight, shrink, higher, rest * shrink + tl.sum(weight, 1)


@triton.jit
@no_type_check
def add_values(operands, member, first, asking, vector, near, start, stop, spans, extent, most, rest, sums,
               WHOLE: tl.constexpr, F: tl.constexpr):  # fmt: skip
    """Σ α v over the blocks of keys that are seen as a whole, or over the others; of softmax, as far as it has come."""
    for step in range(0, blocks_of(spans, WHOLE)):
        at = block_at(spans, step, WHOLE) * F.keys
        there = visible(start, stop, at, F)
        values = nodes_of(operands.value, member, at, extent.keys, F.keys, F.value_dim, F.value_width, F)
        score = most
        if F.normalizer != "Mean":
            asked = side_of(operands.key, member, at, extent.keys, F.keys, F)
            _, score = scores_of(asking, asked, vector, near, operands, member, first, at, there, extent, WHOLE, F)
        if F.normalizer == "Softmax":
            weight, shrink, most, rest = softened(score, most, rest)
            sums *= shrink[:, None]
        else:
            weight = weights_of(score, most, rest, there, WHOLE, F)
        if F.drops:
            weight *= kept_pairs(operands, member, first, at, F)
        sums += mixed(weight, there, values, WHOLE)
    return most, rest, sums


@triton.jit
@no_type_check
def forward(
    query, key, value, bias, vector, reach, number, dropout, seed, runs, extent, out, stats, F: tl.constexpr
):  # fmt: skip
    """out = Σ α v of a block of queries, and two numbers a row, by which every weight can be computed again."""
    operands = Operands(query, key, value, bias, vector, reach, number, dropout, seed)
    blocks = tl.cdiv(extent.queries, F.queries)
    # The last queries of a causal text see most: they come first.
    member, first = member_of(tl.program_id(0) // blocks, extent), (blocks - 1 - tl.program_id(0) % blocks) * F.queries
    start, stop, spans = run_of(runs, member, first, extent, F)
    asking = side_of(operands.query, member, first, extent.queries, F.queries, F)
    vector = vector if vector is None else vector + member.number * F.steps
    near = is_near(reach, F)
    most, rest = numbers_before(operands, member, first, asking, vector, near, start, stop, spans, extent, F)
    sums = tl.full((F.queries, F.value_width), 0.0, tl.float32)
    most, rest, sums = add_values(
        operands, member, first, asking, vector, near, start, stop, spans, extent, most, rest, sums, True, F
    )
    most, rest, sums = add_values(
        operands, member, first, asking, vector, near, start, stop, spans, extent, most, rest, sums, False, F
    )
    if F.normalizer == "Softmax":
        rest = tl.where(rest == 0.0, 1.0, rest)
        sums *= (1.0 / rest)[:, None]
        most, rest = finite(most), tl.log(rest)
    put_nodes(out, member, first, extent.queries, sums, F.queries, F.value_dim, F.value_width)
    if stats is not None:
        place = first + tl.arange(0, F.queries)
        at = stats + member.number * extent.queries + place
        tl.store(at, most, mask=place < extent.queries)
        tl.store(at + (tl.full((), 0, tl.int64) + extent.members) * extent.queries, rest, mask=place < extent.queries)
