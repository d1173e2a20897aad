"""Attention over runs of keys, backward: passes over blocks that a program owns, so that nothing is added by two.

    backward_queries   a block of queries and the keys they see → dq, dvector, what d bias has of these rows, deltas
    backward_keys      a block of keys and the queries that see them → dk, dv, what d bias has of these columns
    backward_bias      a block of pairs in all members that share a bias → d bias

Scores and weights are computed anew, from two numbers a row. Where the score is a product, dq = ds k is one as well.
Else dq_i = Σ_j ds_ij f'(q_i, k_j) is added pair by pair with all features of its own side in registers: ds of a block
goes through a small piece of memory that each program has, to be read from there one key after the other.
"""
# mypy: ignore-errors

import triton.language as tl

import triton
from edgewise.backends.triton.formulas import activated, activation_derivative, d_raw_of, d_score_of
from edgewise.backends.triton.ranges.scores import inverse, is_factored, scores_of
from edgewise.backends.triton.ranges.tiles import (
    Along,
    KeyGradients,
    Member,
    PanelOperands,
    QueryGradients,
    RowGradients,
    Stored,
    block_at,
    blocks_of,
    factors_of_pairs,
    member_of,
    mixed,
    nodes_of,
    operand_of,
    product_of_nodes,
    put_nodes,
    query_block,
    reloaded,
    runs_of_block,
    start_of,
    visible,
    weights_of,
    with_queries,
)

CROWDED = tl.constexpr(512)
"""Features of gradients, of so wide a head, that leave no registers for what could be made ready before a loop."""


@triton.jit
def numbers_at(numbers, member, first, extent, BEYOND: tl.constexpr, F: tl.constexpr):
    """A number of each query of a block, and another one beyond the last."""
    query = first + tl.arange(0, F.queries)
    return tl.load(numbers + member.number * extent.queries + query, mask=query < extent.queries, other=BEYOND)


@triton.jit
def stats_of(stats, rows, extent, F: tl.constexpr):
    """What the forward pass stored of each row; of those beyond the last a largest score of ∞, which leaves no weight.

    With any other they would have weights without bound, which meet gradients of zero as NaN where they are infinite.
    """
    if F.normalizer == "Mean":
        row_sum = 1.0 / tl.maximum(rows.stop - rows.start, 1).to(tl.float32)
        return row_sum, row_sum
    elif stats is None:
        nothing = tl.full((F.queries,), 0.0, tl.float32)
        return nothing, nothing
    else:
        second = stats + (tl.full((), 0, tl.int64) + extent.members) * extent.queries
        row_max = numbers_at(stats, rows.member, rows.first, extent, float("inf"), F)
        return row_max, numbers_at(second, rows.member, rows.first, extent, 0.0, F)


@triton.jit
def gradients_of(rows, grad_out, stats, deltas, extent, F: tl.constexpr):
    """What the forward pass and the first backward pass stored of a block of queries."""
    row_max, row_sum = stats_of(stats, rows, extent, F)
    tile = nodes_of(grad_out, rows.member, rows.first, extent.queries, F.queries, F.value_dim, F.value_width, F)
    delta = tl.full((F.queries,), 0.0, tl.float32)
    if deltas is not None:
        delta = numbers_at(deltas, rows.member, rows.first, extent, 0.0, F)
    return RowGradients(tile, grad_out, row_max, row_sum, delta)


@triton.jit
def d_weights_of(operands, rows, grads, at, extent, F: tl.constexpr):
    """dO · v of a block of pairs."""
    values = nodes_of(operands.value, rows.member, at, extent.keys, F.keys, F.value_dim, F.value_width, F)
    return product_of_nodes(
        grads.tile, values, grads.panel, operands.value, rows.member, rows.first, at, extent, F.value_dim,
        F.value_width, F,
    )  # fmt: skip


@triton.jit
def pairs_of(operands, rows, grads, k_tile, at, extent, WHOLE: tl.constexpr, F: tl.constexpr):
    """For a block: the weights as values meet them, ds toward the bias, ds toward the sum of the score, what is there.

    The scores of a row are those of the forward pass bit for bit, so that what was the largest there is so here.
    """
    there = visible(rows.start, rows.stop, at, F)
    raw, score = scores_of(operands, rows, k_tile, at, there, extent, WHOLE, F)
    weight = weights_of(score, grads.row_max, grads.row_sum, there, WHOLE, F)
    d_weight = d_weights_of(operands, rows, grads, at, extent, F)
    dropped = weight if WHOLE else tl.where(there, weight, 0.0)  # a row that is broken is so everywhere
    if F.drops:
        factor = factors_of_pairs(operands, rows.member, rows.first, at, F)
        dropped, d_weight = dropped * factor, d_weight * factor
    d_score = d_score_of(weight, d_weight, grads.delta[:, None], F)
    if not WHOLE:
        d_score = tl.where(there, d_score, 0.0)

    return dropped, d_score, d_raw_of(d_score, raw, operands.number, F), there


@triton.jit
def delta_of(operands, rows, grads, extent, F: tl.constexpr):
    """Σ g dα / Σ g of each row, g = 1[α > 0] for sparsemax and √α for entmax-1.5."""
    top = tl.full((F.queries,), 0.0, tl.float32)
    bottom = tl.full((F.queries,), 0.0, tl.float32)
    for block in range(rows.spans.begin, rows.spans.end):
        at = block * F.keys
        there = visible(rows.start, rows.stop, at, F)
        k_tile = operand_of(operands.key, rows.member, at, extent.keys, F.keys, F)
        _, score = scores_of(operands, rows, k_tile, at, there, extent, False, F)
        weight = weights_of(score, grads.row_max, grads.row_sum, there, False, F)
        d_weight = d_weights_of(operands, rows, grads, at, extent, F)
        if F.drops:
            d_weight *= factors_of_pairs(operands, rows.member, rows.first, at, F)
        share = tl.sqrt(weight) if F.normalizer == "Entmax15" else tl.where(weight > 0.0, 1.0, 0.0)
        top += tl.sum(tl.where(there, share * d_weight, 0.0), 1)
        bottom += tl.sum(share, 1)

    return top / tl.where(bottom > 0.0, bottom, 1.0)


@triton.jit
def add_pairs(d_own, d_vector, along, member, first, count, other, d_scores, factored, number, OWN: tl.constexpr,
              COUNT: tl.constexpr, WITH_VECTOR: tl.constexpr, F: tl.constexpr):  # fmt: skip
    """Adds to the gradient of nodes what they get from each of COUNT others, and to that of the vector.

    `d_own` lacks a factor that all of a feature have, see `completed`. A d_score of zero stands for no pair: what the
    other side has there may be anything.
    """
    node, feature = tl.arange(0, OWN), tl.arange(0, F.key_width)
    nodes = nodes_of(along, member, first, count, OWN, F.key_width, F.key_width, F)
    if F.kind == "Additive":
        if factored:
            for j in range(0, COUNT, 2):
                one = tl.load(other + j * F.key_width + feature)[None, :]
                two = tl.load(other + (j + 1) * F.key_width + feature)[None, :]
                d_score, slope_two = tl.load(d_scores + j * OWN + node), tl.load(d_scores + (j + 1) * OWN + node)
                one, two = tl.fma(nodes, one, 1.0), tl.fma(nodes, two, 1.0)
                both = inverse(one * two, F)
                one, two = both * two, both * one
                d_own = tl.fma(d_score[:, None], one - one * one, d_own)
                d_own = tl.fma(slope_two[:, None], two - two * two, d_own)
                if WITH_VECTOR:
                    d_vector = tl.fma(d_score[:, None], one, d_vector)
                    d_vector = tl.fma(slope_two[:, None], two, d_vector)
        else:
            for j in range(0, COUNT):
                z = nodes + tl.load(other + j * F.key_width + feature)[None, :]
                d_score = tl.load(d_scores + j * OWN + node)[:, None]
                d_own += tl.where(d_score == 0.0, 0.0, d_score * activation_derivative(z, F))
                if WITH_VECTOR:
                    d_vector += tl.where(d_score == 0.0, 0.0, d_score * activated(z, F))
    else:
        for j in range(0, COUNT):
            other_one = tl.load(other + j * F.key_width + feature)[None, :]
            d_score = tl.load(d_scores + j * OWN + node)[:, None]
            if F.kind == "Distance":
                d_own += tl.where(d_score == 0.0, 0.0, d_score * (nodes - other_one))
            else:
                z = nodes + other_one
                bent = tl.where(z > 0.0, d_score, d_score * number)
                d_own += bent
                if WITH_VECTOR:
                    d_vector += tl.where(d_score == 0.0, 0.0, bent * z)

    return d_own, d_vector


@triton.jit
def completed(d_own, operands, member, factored, F: tl.constexpr):
    """With the factor that all pairs of a feature have."""
    if F.kind == "Dot" or F.kind == "Constant":
        return d_own
    elif F.kind == "Distance":
        return d_own * 2.0
    else:
        feature = tl.arange(0, F.key_width)
        vector = operands.vector + member.number * F.steps
        factor = tl.load(vector + feature, mask=feature < F.steps, other=0.0)
        if F.activation == "tanh":  # f' = 4 (r − r²)
            factor = tl.where(factored, 4.0 * factor, factor)
        return d_own * factor[None, :]


@triton.jit
def put_pairs(panel, member, first, at, numbers, extent, F: tl.constexpr):
    """A number a pair of a block into the table of a member."""
    query, key = tl.arange(0, F.queries), tl.arange(0, F.keys)
    address = panel.data + start_of(panel, member) + (tl.full((), 0, tl.int64) + first) * panel.row + at
    address = address + (query[:, None] * panel.row + key[None, :])
    inside = (first + query < extent.queries)[:, None] & (at + key < extent.keys)[None, :]
    tl.store(address, numbers.to(panel.data.dtype.element_ty), mask=inside)


@triton.jit
def walk_keys(
    operands, rows, grads, extent, along, d_query, d_vector, total, grad_bias, BIAS_PAIRS: tl.constexpr,
    TOTAL: tl.constexpr, NEEDS_QUERY: tl.constexpr, WITH_VECTOR: tl.constexpr, WHOLE: tl.constexpr, F: tl.constexpr,
):  # fmt: skip
    """What a block of queries gets from the blocks of keys that it sees as a whole, or from the others."""
    query, seen, member = tl.arange(0, F.queries), tl.arange(0, F.keys), rows.member
    for step in range(0, blocks_of(rows.spans, WHOLE)):
        at = block_at(rows.spans, step, WHOLE) * F.keys
        k_tile = operand_of(operands.key, member, at, extent.keys, F.keys, F)
        _, d_score, d_raw, there = pairs_of(operands, rows, grads, k_tile, at, extent, WHOLE, F)
        if BIAS_PAIRS:
            put_pairs(grad_bias, member, rows.first, at, d_score, extent, F)
        if TOTAL:
            total += tl.sum(d_score, 1)
        if NEEDS_QUERY:
            if F.kind == "Dot":
                k_tile = reloaded(k_tile, operands.key, member, at, extent.keys, F.keys, F.key_dim, F.key_width, F)
                d_query += mixed(d_raw, there, k_tile, WHOLE)
            else:
                tl.store(along.scratch + seen[None, :] * F.queries + query[:, None], d_raw)
                tl.debug_barrier()
                others = along.key.data + start_of(along.key, member) + (tl.full((), 0, tl.int64) + at) * F.key_width
                d_query, d_vector = add_pairs(
                    d_query, d_vector, along.query, member, rows.first, extent.queries, others, along.scratch,
                    rows.factored, operands.number, F.queries, F.keys, WITH_VECTOR, F,
                )  # fmt: skip
                tl.debug_barrier()

    return d_query, d_vector, total


@triton.jit
def backward_queries(operands, runs, extent, stored, along, gradients, F: tl.constexpr):
    """dq of a block of queries; what bias and vector get of it; and Δ of its rows, for the other passes."""
    operands, stored, gradients = PanelOperands(*operands), Stored(*stored), QueryGradients(*gradients)
    factored, blocks = is_factored(operands.max_abs, F), tl.cdiv(extent.queries, F.queries)
    pairs: tl.constexpr = gradients.bias is not None
    needs_query: tl.constexpr = F.kind != "Constant" and (gradients.query is not None or gradients.vector is not None)
    with_vector: tl.constexpr = gradients.vector is not None
    adds_up: tl.constexpr = gradients.rows is not None or with_vector
    crowded: tl.constexpr = F.key_width + F.value_width >= CROWDED
    mine = along.scratch if along.scratch is None else along.scratch + tl.program_id(0) * (F.queries * F.keys)
    along = Along(along.query, along.key, mine)

    for tile in tl.range(tl.program_id(0), blocks * extent.members, tl.num_programs(0), disable_licm=crowded):
        member, first = member_of(tile // blocks, extent), (blocks - 1 - tile % blocks) * F.queries
        rows = query_block(operands, runs, member, first, factored, extent, F)
        grads = gradients_of(rows, stored.grad_out, stored.stats, None, extent, F)
        delta = grads.delta

        if F.normalizer == "Softmax":
            out_tile = nodes_of(stored.out, member, first, extent.queries, F.queries, F.value_dim, F.value_width, F)
            delta = tl.sum(grads.tile.to(tl.float32) * out_tile.to(tl.float32), 1)
        elif F.normalizer == "Sparsemax" or F.normalizer == "Entmax15":
            delta = delta_of(operands, rows, grads, extent, F)

        query = first + tl.arange(0, F.queries)
        if stored.deltas is not None:
            tl.store(stored.deltas + member.number * extent.queries + query, delta, mask=query < extent.queries)
        grads = RowGradients(grads.tile, grads.panel, grads.row_max, grads.row_sum, delta)
        d_query = tl.full((F.queries, F.key_width), 0.0, tl.float32)
        d_vector, total = d_query, tl.full((F.queries,), 0.0, tl.float32)
        d_query, d_vector, total = walk_keys(
            operands, rows, grads, extent, along, d_query, d_vector, total, gradients.bias, pairs, adds_up, needs_query,
            with_vector, True, F,
        )  # fmt: skip
        d_query, d_vector, total = walk_keys(
            operands, rows, grads, extent, along, d_query, d_vector, total, gradients.bias, pairs, adds_up, needs_query,
            with_vector, False, F,
        )  # fmt: skip
        if gradients.query is not None:
            d_query = completed(d_query, operands, member, factored, F)
            put_nodes(gradients.query, member, first, extent.queries, d_query, F.queries, F.key_dim, F.key_width)
        if gradients.rows is not None:
            tl.store(gradients.rows + member.number * extent.queries + query, total, mask=query < extent.queries)
        if with_vector:
            vector_part = tl.sum(d_vector, 0)
            if F.activation == "tanh":  # f = 1 − 2 r
                vector_part = tl.where(factored, tl.sum(total, 0) - 2.0 * vector_part, vector_part)
            number_of_tile = tl.full((), 0, tl.int64) + tile
            tl.store(gradients.vector + number_of_tile * F.key_width + tl.arange(0, F.key_width), vector_part)


@triton.jit
def walk_block(
    operands, rows, k_tile, at, stored, extent, along, d_key, d_value, total, TOTAL: tl.constexpr,
    NEEDS_KEY: tl.constexpr, NEEDS_VALUE: tl.constexpr, WHOLE: tl.constexpr, F: tl.constexpr,
):  # fmt: skip
    """What a block of keys gets from a block of queries."""
    member, first, rows = rows.member, rows.first, with_queries(operands, rows, extent, F)
    grads = gradients_of(rows, stored.grad_out, stored.stats, stored.deltas, extent, F)
    dropped, d_score, d_raw, there = pairs_of(operands, rows, grads, k_tile, at, extent, WHOLE, F)
    if TOTAL:
        total += tl.sum(d_score, 0)
    if NEEDS_KEY and F.kind != "Dot":
        query, mine = tl.arange(0, F.queries), tl.arange(0, F.keys)
        tl.store(along.scratch + query[:, None] * F.keys + mine[None, :], d_raw)
    if NEEDS_VALUE:
        grad = reloaded(
            grads.tile, stored.grad_out, member, first, extent.queries, F.queries, F.value_dim, F.value_width, F
        )
        d_value += mixed(tl.trans(dropped), tl.trans(there), grad, WHOLE)
    if NEEDS_KEY:
        if F.kind == "Dot":
            q_tile = reloaded(
                rows.tile, operands.query, member, first, extent.queries, F.queries, F.key_dim, F.key_width, F
            )
            d_key += mixed(tl.trans(d_raw), tl.trans(there), q_tile, WHOLE)
        else:
            tl.debug_barrier()
            others = along.query.data + start_of(along.query, member) + (tl.full((), 0, tl.int64) + first) * F.key_width
            d_key, _ = add_pairs(
                d_key, d_key, along.key, member, at, extent.keys, others, along.scratch, rows.factored, operands.number,
                F.keys, F.queries, False, F,
            )  # fmt: skip
            tl.debug_barrier()

    return d_key, d_value, total


@triton.jit
def backward_keys(operands, runs, extent, stored, along, gradients, seen_from, F: tl.constexpr):
    """dk and dv of a block of keys. Of the blocks of queries between the first and the last that see any of them, those
    that see none are passed over."""
    operands, stored, gradients = PanelOperands(*operands), Stored(*stored), KeyGradients(*gradients)
    factored, blocks = is_factored(operands.max_abs, F), tl.cdiv(extent.keys, F.keys)
    needs_key: tl.constexpr = F.kind != "Constant" and gradients.key is not None
    needs_value: tl.constexpr = gradients.value is not None
    adds_up: tl.constexpr = gradients.columns is not None
    crowded: tl.constexpr = F.key_width + F.value_width >= CROWDED
    mine = along.scratch if along.scratch is None else along.scratch + tl.program_id(0) * (F.queries * F.keys)
    along = Along(along.query, along.key, mine)

    for tile in tl.range(tl.program_id(0), blocks * extent.members, tl.num_programs(0), disable_licm=crowded):
        block = tile % blocks
        member, at = member_of(tile // blocks, extent), block * F.keys
        k_tile = operand_of(operands.key, member, at, extent.keys, F.keys, F)
        d_key = tl.full((F.keys, F.key_width), 0.0, tl.float32)
        d_value = tl.full((F.keys, F.value_width), 0.0, tl.float32)
        total = tl.full((F.keys,), 0.0, tl.float32)
        index = member.outer * seen_from.outer + member.inner * seen_from.inner + block

        begin, end = tl.load(seen_from.starts + index), tl.load(seen_from.stops + index)
        for block_of_queries in tl.range(begin, end, disable_licm=crowded):
            first = block_of_queries * F.queries
            rows = runs_of_block(operands, runs, member, first, factored, extent, F)
            if (block >= rows.spans.whole_begin) & (block < rows.spans.whole_end):
                d_key, d_value, total = walk_block(
                    operands, rows, k_tile, at, stored, extent, along, d_key, d_value, total, adds_up,
                    needs_key, needs_value, True, F,
                )  # fmt: skip
            elif (block >= rows.spans.begin) & (block < rows.spans.end):
                d_key, d_value, total = walk_block(
                    operands, rows, k_tile, at, stored, extent, along, d_key, d_value, total, adds_up,
                    needs_key, needs_value, False, F,
                )  # fmt: skip

        if needs_key:
            d_key = completed(d_key, operands, member, factored, F)
            put_nodes(gradients.key, member, at, extent.keys, d_key, F.keys, F.key_dim, F.key_width)
        if needs_value:
            put_nodes(gradients.value, member, at, extent.keys, d_value, F.keys, F.value_dim, F.value_width)
        if adds_up:
            key_place = at + tl.arange(0, F.keys)
            tl.store(gradients.columns + member.number * extent.keys + key_place, total, mask=key_place < extent.keys)


@triton.jit
def backward_bias(operands, runs, extent, stored, grad_bias, outers, inners, inner_groups, F: tl.constexpr):
    """d bias of a block of pairs, over the `outers` · `inners` members that share it."""
    operands, stored = PanelOperands(*operands), Stored(*stored)
    factored = is_factored(operands.max_abs, F)
    blocks, columns = tl.cdiv(extent.queries, F.queries), tl.cdiv(extent.keys, F.keys)
    tile, group = tl.program_id(0) % (blocks * columns), tl.program_id(0) // (blocks * columns)
    first, block = (tile // columns) * F.queries, tile % columns
    at = block * F.keys
    total = tl.full((F.queries, F.keys), 0.0, tl.float32)
    zero = tl.full((), 0, tl.int64)

    for step in range(0, outers * inners):
        # A group is one member of each axis that the bias has, and all of each that it has not.
        outer, inner = zero + group // inner_groups + step // inners, zero + group % inner_groups + step % inners
        member = Member(outer * extent.inner + inner, outer, inner)
        row_runs = runs_of_block(operands, runs, member, first, factored, extent, F)
        if (block >= row_runs.spans.begin) & (block < row_runs.spans.end):
            rows = with_queries(operands, row_runs, extent, F)  # a name of its own: a branch may change no type
            k_tile = operand_of(operands.key, member, at, extent.keys, F.keys, F)
            grads = gradients_of(rows, stored.grad_out, stored.stats, stored.deltas, extent, F)
            _, d_score, _, _ = pairs_of(operands, rows, grads, k_tile, at, extent, False, F)
            total += d_score

    group_member = Member(zero + group, zero + group // inner_groups, zero + group % inner_groups)
    put_pairs(grad_bias, group_member, first, at, total, extent, F)
