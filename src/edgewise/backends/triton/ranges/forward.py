"""Attention over runs of keys, forward: a program has a block of queries and walks over the blocks of keys they see.

    copy_nodes   copies of queries or keys for scores that add features one by one
    forward   scores of a block → running softmax → the sum of the values; other normalizers first ask the whole row

What a row must know before it can weigh one key (the largest score, how many share it, a threshold) is found by walking
over its keys once more, whose scores are computed anew: no number a pair is ever stored.
"""
# mypy: ignore-errors

import triton.language as tl

import triton
from edgewise.backends.triton.formulas import finite, nearer_threshold, over_threshold
from edgewise.backends.triton.ranges.scores import is_factored, scores_of
from edgewise.backends.triton.ranges.tiles import (
    NODES,
    PanelOperands,
    block_at,
    blocks_of,
    factors_of_pairs,
    member_of,
    mixed,
    nodes_of,
    operand_of,
    put_nodes,
    query_block,
    start_of,
    visible,
    weights_of,
)


@triton.jit
def copy_nodes(panel, max_abs, extent, count, across, along, BLOCK: tl.constexpr, F: tl.constexpr):
    """Nodes in float32, as e^(c x) where scores are factored: `across` with nodes side by side, `along` with features.

    Both hold whole blocks, filled up with zeros (or ones, which are e⁰), so that no kernel need look for the end.
    """
    tile, padded = tl.program_id(0), tl.cdiv(count, NODES) * NODES
    blocks = padded // BLOCK
    member, first = member_of(tile // blocks, extent), (tile % blocks) * BLOCK
    features = nodes_of(panel, member, first, count, BLOCK, F.key_dim, F.key_width, F).to(tl.float32)
    if is_factored(max_abs, F):
        features = tl.exp(2.0 * features if F.activation == "tanh" else -features)
    node, feature = first + tl.arange(0, BLOCK), tl.arange(0, F.key_width)
    at = across.data + start_of(across, member) + ((node // NODES) * (F.steps * NODES) + node % NODES * 2)[:, None]
    at = at + ((feature // 2) * (NODES * 2) + feature % 2)[None, :]
    tl.store(at, features, mask=(node < padded)[:, None] & (feature < F.steps)[None, :])
    if along is not None:
        put_nodes(along, member, first, padded, features, BLOCK, F.key_width, F.key_width)


@triton.jit
def row_numbers(operands, rows, extent, F: tl.constexpr):
    """The largest score of each row, and what else its normalizer must know.

    hardmax     1 / how many share the largest
    sparsemax   τ of Σ max(s − max − τ, 0) = 1          entmax-1.5   τ of Σ max((s − max)/2 − τ, 0)² = 1
    """
    row_max = tl.full((F.queries,), float("-inf"), tl.float32)
    row_sum = tl.full((F.queries,), 0.0, tl.float32)
    for block in range(rows.spans.begin, rows.spans.end):
        at = block * F.keys
        there = visible(rows.start, rows.stop, at, F)
        k_tile = operand_of(operands.key, rows.member, at, extent.keys, F.keys, F)
        _, score = scores_of(operands, rows, k_tile, at, there, extent, False, F)
        higher = tl.maximum(row_max, tl.max(score, 1))
        if F.normalizer == "Hardmax":
            same = tl.sum(tl.where(score == higher[:, None], 1.0, 0.0), 1)
            row_sum = same + tl.where(higher > row_max, 0.0, row_sum)
        row_max = higher

    if F.normalizer == "Hardmax":
        return row_max, 1.0 / tl.maximum(row_sum, 1.0)
    else:
        row_max, row_sum = finite(row_max), row_sum - 1.0
        step, moves = 0, 1
        while (moves > 0) & (step < 64):  # about ten are needed
            total = tl.full((F.queries,), 0.0, tl.float32)
            falls = tl.full((F.queries,), 0.0, tl.float32)
            for block in range(rows.spans.begin, rows.spans.end):
                at = block * F.keys
                there = visible(rows.start, rows.stop, at, F)
                k_tile = operand_of(operands.key, rows.member, at, extent.keys, F.keys, F)
                _, score = scores_of(operands, rows, k_tile, at, there, extent, False, F)
                weight, fall = over_threshold(score - row_max[:, None], row_sum[:, None], F)
                total += tl.sum(weight, 1)
                falls += tl.sum(fall, 1)

            row_sum, moved = nearer_threshold(row_sum, total, falls)
            moves = tl.max(moved, 0)
            step += 1

        return row_max, row_sum


@triton.jit
def numbers_before(operands, rows, extent, F: tl.constexpr):
    """The two numbers of each row as far as they must be known before its keys are walked over."""
    if F.normalizer == "Hardmax" or F.normalizer == "Sparsemax" or F.normalizer == "Entmax15":
        return row_numbers(operands, rows, extent, F)
    else:
        row_max = tl.full((F.queries,), float("-inf"), tl.float32)
        row_sum = tl.full((F.queries,), 0.0, tl.float32)
        if F.normalizer == "Mean":
            row_sum = 1.0 / tl.maximum(rows.stop - rows.start, 1).to(tl.float32)
        return row_max, row_sum


@triton.jit
def softened(score, row_max, row_sum):
    """One block more of a softmax: e^(s − max), what the sums so far shrink by, the largest score, Σ e^(s − max)."""
    higher = tl.maximum(row_max, tl.max(score, 1))
    shrink = tl.exp(row_max - finite(higher))
    weight = tl.exp(score - finite(higher)[:, None])
    return weight, shrink, higher, row_sum * shrink + tl.sum(weight, 1)


@triton.jit
def add_values(operands, rows, extent, row_max, row_sum, sums, WHOLE: tl.constexpr, F: tl.constexpr):
    """Σ α v over the blocks of keys that are seen as a whole, or over the others; of softmax, as far as it has come."""
    for step in range(0, blocks_of(rows.spans, WHOLE)):
        at = block_at(rows.spans, step, WHOLE) * F.keys
        there = visible(rows.start, rows.stop, at, F)
        values = nodes_of(operands.value, rows.member, at, extent.keys, F.keys, F.value_dim, F.value_width, F)
        score = row_max
        if F.normalizer != "Mean":
            k_tile = operand_of(operands.key, rows.member, at, extent.keys, F.keys, F)
            _, score = scores_of(operands, rows, k_tile, at, there, extent, WHOLE, F)
        if F.normalizer == "Softmax":
            weight, shrink, row_max, row_sum = softened(score, row_max, row_sum)
            sums *= shrink[:, None]
        else:
            weight = weights_of(score, row_max, row_sum, there, WHOLE, F)
        if F.drops:
            weight *= factors_of_pairs(operands, rows.member, rows.first, at, F)
        sums += mixed(weight, there, values, WHOLE)

    return row_max, row_sum, sums


@triton.jit
def forward(operands, runs, extent, out, stats, F: tl.constexpr):
    """out = Σ α v of a block of queries, and two numbers a row, by which every weight can be computed again."""
    operands = PanelOperands(*operands)
    blocks = tl.cdiv(extent.queries, F.queries)
    # The last queries of a causal text see row_max: they come first.
    member, first = member_of(tl.program_id(0) // blocks, extent), (blocks - 1 - tl.program_id(0) % blocks) * F.queries
    rows = query_block(operands, runs, member, first, is_factored(operands.max_abs, F), extent, F)
    row_max, row_sum = numbers_before(operands, rows, extent, F)
    sums = tl.full((F.queries, F.value_width), 0.0, tl.float32)
    row_max, row_sum, sums = add_values(operands, rows, extent, row_max, row_sum, sums, True, F)
    row_max, row_sum, sums = add_values(operands, rows, extent, row_max, row_sum, sums, False, F)
    if F.normalizer == "Softmax":
        row_sum = tl.where(row_sum == 0.0, 1.0, row_sum)
        sums *= (1.0 / row_sum)[:, None]
        row_max, row_sum = finite(row_max), tl.log(row_sum)

    put_nodes(out, member, first, extent.queries, sums, F.queries, F.value_dim, F.value_width)
    if stats is not None:
        query = first + tl.arange(0, F.queries)
        at, is_there = stats + member.number * extent.queries + query, query < extent.queries
        tl.store(at, row_max, mask=is_there)
        tl.store(
            at + (tl.full((), 0, tl.int64) + extent.members) * extent.queries, row_sum, mask=query < extent.queries
        )
