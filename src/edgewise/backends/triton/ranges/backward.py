"""Attention over runs of keys, backward: passes over blocks that a program owns, so that nothing is added by two.

    backward_queries   a block of queries and the keys they see → dq, dvector, what d bias has of these rows, centers
    backward_keys      a block of keys and the queries that see them → dk, dv, what d bias has of these columns
    backward_bias      a block of pairs in all members that share a bias → d bias

Scores and weights are computed anew, from two numbers a row. Where the score is a product, dq = ds k is one as well.
Else dq_i = Σ_j ds_ij f'(q_i, k_j) is added pair by pair with all features of its own side in registers: ds of a block
goes through a small piece of memory that each program has, to be read from there one key after the other.
"""

from typing import no_type_check

import triton.language as tl

import triton
from edgewise.backends.triton.formulas import activated, slopes_of, steepness, unfinished
from edgewise.backends.triton.ranges.scores import inverse, is_near, scores_of
from edgewise.backends.triton.ranges.tiles import (
    Member,
    Operands,
    at_hand,
    block_at,
    blocks_of,
    home,
    kept_pairs,
    member_of,
    mixed,
    nodes_of,
    product_of_nodes,
    put_nodes,
    run_of,
    side_of,
    visible,
    weights_of,
)


@triton.constexpr_function
def is_crowded(form):
    """Whether gradients of wide heads leave no registers for what could be made ready before a loop."""
    return form.key_width + form.value_width >= 512


@triton.jit
@no_type_check
def numbers_at(numbers, member, first, extent, BEYOND: tl.constexpr, F: tl.constexpr):
    """A number of each query of a block, and another one beyond the last."""
    place = first + tl.arange(0, F.queries)
    return tl.load(numbers + member.number * extent.queries + place, mask=place < extent.queries, other=BEYOND)


@triton.jit
@no_type_check
def kept_numbers(stats, member, first, start, stop, extent, F: tl.constexpr):
    """What the forward pass kept of each row; of those beyond the last a largest score of ∞, which leaves no weight.

    With any other they would have weights without bound, which meet gradients of zero as NaN where they are infinite.
    """
    if F.normalizer == "Mean":
        rest = 1.0 / tl.maximum(stop - start, 1).to(tl.float32)
        return rest, rest
    elif stats is None:
        nothing = tl.full((F.queries,), 0.0, tl.float32)
        return nothing, nothing
    else:
        second = stats + (tl.full((), 0, tl.int64) + extent.members) * extent.queries
        most = numbers_at(stats, member, first, extent, float("inf"), F)
        return most, numbers_at(second, member, first, extent, 0.0, F)


@triton.jit
@no_type_check
def gained_by(grad, grad_out, operands, member, first, at, extent, F: tl.constexpr):
    """do · v of a block of pairs."""
    values = nodes_of(operands.value, member, at, extent.keys, F.keys, F.value_dim, F.value_width, F)
    return product_of_nodes(
        grad, values, grad_out, operands.value, member, first, at, extent, F.value_dim, F.value_width, F
    )


@triton.jit
@no_type_check
def pairs_of(operands, member, first, at, asking, asked, vector, near, grad, grad_out, start, stop, most, rest, center,
             extent, WHOLE: tl.constexpr, F: tl.constexpr):  # fmt: skip
    """Of a block: the weights as values meet them, ds toward the bias, ds toward the sum of the score, what is there.

    The scores of a row are those of the forward pass bit for bit, so that what was the largest there is so here.
    """
    there = visible(start, stop, at, F)
    raw, score = scores_of(asking, asked, vector, near, operands, member, first, at, there, extent, WHOLE, F)
    weight = weights_of(score, most, rest, there, WHOLE, F)
    gained = gained_by(grad, grad_out, operands, member, first, at, extent, F)
    left = weight if WHOLE else tl.where(there, weight, 0.0)  # a row that is broken is so everywhere
    if F.drops:
        factor = kept_pairs(operands, member, first, at, F)
        left, gained = left * factor, gained * factor
    slope = slopes_of(weight, gained, center[:, None], F)
    if not WHOLE:
        slope = tl.where(there, slope, 0.0)
    return left, slope, unfinished(slope, raw, operands.number, F), there


@triton.jit
@no_type_check
def center_of(operands, member, first, asking, vector, near, grad, grad_out, start, stop, most, rest, spans, extent,
              F: tl.constexpr):  # fmt: skip
    """Σ g dα / Σ g of each row, g = 1[α > 0] for sparsemax and √α for entmax-1.5."""
    top = tl.full((F.queries,), 0.0, tl.float32)
    bottom = tl.full((F.queries,), 0.0, tl.float32)
    for block in range(spans.begin, spans.end):
        at = block * F.keys
        there = visible(start, stop, at, F)
        asked = side_of(operands.key, member, at, extent.keys, F.keys, F)
        _, score = scores_of(asking, asked, vector, near, operands, member, first, at, there, extent, False, F)
        weight = weights_of(score, most, rest, there, False, F)
        gained = gained_by(grad, grad_out, operands, member, first, at, extent, F)
        if F.drops:
            gained *= kept_pairs(operands, member, first, at, F)
        share = tl.sqrt(weight) if F.normalizer == "Entmax15" else tl.where(weight > 0.0, 1.0, 0.0)
        top += tl.sum(tl.where(there, share * gained, 0.0), 1)
        bottom += tl.sum(share, 1)
    return top / tl.where(bottom > 0.0, bottom, 1.0)


@triton.jit
@no_type_check
def add_pairs(grown, grown_vector, along, member, first, count, other, slopes, near, number, OWN: tl.constexpr,
              COUNT: tl.constexpr, WITH_VECTOR: tl.constexpr, F: tl.constexpr):  # fmt: skip
    """Adds to the gradient of nodes what they get from each of COUNT others, and to that of the vector.

    `grown` lacks a factor that all of a feature have, see `completed`. A slope of zero stands for no pair: what the
    other side has there may be anything.
    """
    node, feature = tl.arange(0, OWN), tl.arange(0, F.key_width)
    own = nodes_of(along, member, first, count, OWN, F.key_width, F.key_width, F)
    if F.kind == "Smooth":
        if near:
            for j in range(0, COUNT, 2):
                one = tl.load(other + j * F.key_width + feature)[None, :]
                two = tl.load(other + (j + 1) * F.key_width + feature)[None, :]
                slope, slope_two = tl.load(slopes + j * OWN + node), tl.load(slopes + (j + 1) * OWN + node)
                one, two = tl.fma(own, one, 1.0), tl.fma(own, two, 1.0)
                both = inverse(one * two, F)
                one, two = both * two, both * one
                grown = tl.fma(slope[:, None], one - one * one, grown)
                grown = tl.fma(slope_two[:, None], two - two * two, grown)
                if WITH_VECTOR:
                    grown_vector = tl.fma(slope[:, None], one, grown_vector)
                    grown_vector = tl.fma(slope_two[:, None], two, grown_vector)
        else:
            for j in range(0, COUNT):
                z = own + tl.load(other + j * F.key_width + feature)[None, :]
                slope = tl.load(slopes + j * OWN + node)[:, None]
                grown += tl.where(slope == 0.0, 0.0, slope * steepness(z, F))
                if WITH_VECTOR:
                    grown_vector += tl.where(slope == 0.0, 0.0, slope * activated(z, F))
    else:
        for j in range(0, COUNT):
            other_one = tl.load(other + j * F.key_width + feature)[None, :]
            slope = tl.load(slopes + j * OWN + node)[:, None]
            if F.kind == "Square":
                grown += tl.where(slope == 0.0, 0.0, slope * (own - other_one))
            else:
                z = own + other_one
                bent = tl.where(z > 0.0, slope, slope * number)
                grown += bent
                if WITH_VECTOR:
                    grown_vector += tl.where(slope == 0.0, 0.0, bent * z)
    return grown, grown_vector


@triton.jit
@no_type_check
def completed(grown, vector, near, F: tl.constexpr):
    """With the factor that all pairs of a feature have."""
    if F.kind == "Product" or F.kind == "Blind":
        return grown
    elif F.kind == "Square":
        return grown * 2.0
    else:
        feature = tl.arange(0, F.key_width)
        factor = tl.load(vector + feature, mask=feature < F.steps, other=0.0)
        if F.activation == "tanh":  # f' = 4 (r − r²)
            factor = tl.where(near, 4.0 * factor, factor)
        return grown * factor[None, :]


@triton.jit
@no_type_check
def put_pairs(panel, member, first, at, numbers, extent, F: tl.constexpr):
    """A number a pair of a block into the table of a member."""
    query, key = tl.arange(0, F.queries), tl.arange(0, F.keys)
    place = panel.data + home(panel, member) + (tl.full((), 0, tl.int64) + first) * panel.row + at
    place = place + (query[:, None] * panel.row + key[None, :])
    inside = (first + query < extent.queries)[:, None] & (at + key < extent.keys)[None, :]
    tl.store(place, numbers.to(panel.data.dtype.element_ty), mask=inside)


@triton.jit
@no_type_check
def walk_keys(
    operands, member, first, asking, vector, near, grad, grad_out, start, stop, most, rest, center, spans, extent,
    query_along, key_along, scratch, grown, grown_vector, total, grad_bias, BIAS_PAIRS: tl.constexpr,
    TOTAL: tl.constexpr, NEEDS_QUERY: tl.constexpr, WITH_VECTOR: tl.constexpr, WHOLE: tl.constexpr, F: tl.constexpr,
):  # fmt: skip
    """What a block of queries gets from the blocks of keys that it sees as a whole, or from the others."""
    query, seen = tl.arange(0, F.queries), tl.arange(0, F.keys)
    for step in range(0, blocks_of(spans, WHOLE)):
        at = block_at(spans, step, WHOLE) * F.keys
        asked = side_of(operands.key, member, at, extent.keys, F.keys, F)
        _, slope, raw_slope, there = pairs_of(
            operands, member, first, at, asking, asked, vector, near, grad, grad_out, start, stop, most, rest, center,
            extent, WHOLE, F,
        )  # fmt: skip
        if BIAS_PAIRS:
            put_pairs(grad_bias, member, first, at, slope, extent, F)
        if TOTAL:
            total += tl.sum(slope, 1)
        if NEEDS_QUERY:
            if F.kind == "Product":
                asked = at_hand(asked, operands.key, member, at, extent.keys, F.keys, F.key_dim, F.key_width, F)
                grown += mixed(raw_slope, there, asked, WHOLE)
            else:
                tl.store(scratch + seen[None, :] * F.queries + query[:, None], raw_slope)
                tl.debug_barrier()
                others = key_along.data + home(key_along, member) + (tl.full((), 0, tl.int64) + at) * F.key_width
                grown, grown_vector = add_pairs(
                    grown, grown_vector, query_along, member, first, extent.queries, others, scratch, near,
                    operands.number, F.queries, F.keys, WITH_VECTOR, F,
                )  # fmt: skip
                tl.debug_barrier()
    return grown, grown_vector, total


@triton.jit
@no_type_check
def backward_queries(
    query, key, value, bias, vector, reach, number, dropout, seed, runs, extent, out, grad_out, stats, centers,
    query_along, key_along, scratch, grad_query, grad_vector, grad_bias, grad_rows, F: tl.constexpr,
):  # fmt: skip
    """dq of a block of queries; what bias and vector get of it; and the centers of its rows, for the other passes."""
    operands = Operands(query, key, value, bias, vector, reach, number, dropout, seed)
    near, blocks = is_near(reach, F), tl.cdiv(extent.queries, F.queries)
    pairs: tl.constexpr = grad_bias is not None
    needs_query: tl.constexpr = F.kind != "Blind" and (grad_query is not None or grad_vector is not None)
    with_vector: tl.constexpr = grad_vector is not None
    adds_up: tl.constexpr = grad_rows is not None or with_vector
    mine = scratch if scratch is None else scratch + tl.program_id(0) * (F.queries * F.keys)
    for tile in tl.range(tl.program_id(0), blocks * extent.members, tl.num_programs(0), disable_licm=is_crowded(F)):
        member, first = member_of(tile // blocks, extent), (blocks - 1 - tile % blocks) * F.queries
        start, stop, spans = run_of(runs, member, first, extent, F)
        most, rest = kept_numbers(stats, member, first, start, stop, extent, F)
        asking = side_of(operands.query, member, first, extent.queries, F.queries, F)
        grad = nodes_of(grad_out, member, first, extent.queries, F.queries, F.value_dim, F.value_width, F)
        weights = vector if vector is None else vector + member.number * F.steps
        center = tl.full((F.queries,), 0.0, tl.float32)
        if F.normalizer == "Softmax":
            found = nodes_of(out, member, first, extent.queries, F.queries, F.value_dim, F.value_width, F)
            center = tl.sum(grad.to(tl.float32) * found.to(tl.float32), 1)
        elif F.normalizer == "Sparsemax" or F.normalizer == "Entmax15":
            center = center_of(
                operands,
                member,
                first,
                asking,
                weights,
                near,
                grad,
                grad_out,
                start,
                stop,
                most,
                rest,
                spans,
                extent,
                F,
            )
        place = first + tl.arange(0, F.queries)
        if centers is not None:
            tl.store(centers + member.number * extent.queries + place, center, mask=place < extent.queries)
        grown = tl.full((F.queries, F.key_width), 0.0, tl.float32)
        grown_vector, total = grown, tl.full((F.queries,), 0.0, tl.float32)
        grown, grown_vector, total = walk_keys(
            operands, member, first, asking, weights, near, grad, grad_out, start, stop, most, rest, center, spans,
            extent,
            query_along, key_along, mine, grown, grown_vector, total, grad_bias, pairs, adds_up, needs_query,
            with_vector, True, F,
        )  # fmt: skip
        grown, grown_vector, total = walk_keys(
            operands, member, first, asking, weights, near, grad, grad_out, start, stop, most, rest, center, spans,
            extent,
            query_along, key_along, mine, grown, grown_vector, total, grad_bias, pairs, adds_up, needs_query,
            with_vector, False, F,
        )  # fmt: skip
        if grad_query is not None:
            grown = completed(grown, weights, near, F)
            put_nodes(grad_query, member, first, extent.queries, grown, F.queries, F.key_dim, F.key_width)
        if grad_rows is not None:
            tl.store(grad_rows + member.number * extent.queries + place, total, mask=place < extent.queries)
        if with_vector:
            each = tl.sum(grown_vector, 0)
            if F.activation == "tanh":  # f = 1 − 2 r
                each = tl.where(near, tl.sum(total, 0) - 2.0 * each, each)
            number_of_tile = tl.full((), 0, tl.int64) + tile
            tl.store(grad_vector + number_of_tile * F.key_width + tl.arange(0, F.key_width), each)


@triton.jit
@no_type_check
def walk_block(
    operands, member, first, at, asked, vector, near, start, stop, grad_out, stats, centers, query_along, key_along,
    extent, scratch, grown, grown_value, total, TOTAL: tl.constexpr, NEEDS_KEY: tl.constexpr,
    NEEDS_VALUE: tl.constexpr, WHOLE: tl.constexpr, F: tl.constexpr,
):  # fmt: skip
    """What a block of keys gets from a block of queries."""
    most, rest = kept_numbers(stats, member, first, start, stop, extent, F)
    asking = side_of(operands.query, member, first, extent.queries, F.queries, F)
    grad = nodes_of(grad_out, member, first, extent.queries, F.queries, F.value_dim, F.value_width, F)
    center = tl.full((F.queries,), 0.0, tl.float32)
    if centers is not None:
        center = numbers_at(centers, member, first, extent, 0.0, F)
    left, slope, raw_slope, there = pairs_of(
        operands, member, first, at, asking, asked, vector, near, grad, grad_out, start, stop, most, rest, center,
        extent, WHOLE, F,
    )  # fmt: skip
    if TOTAL:
        total += tl.sum(slope, 0)
    if NEEDS_KEY and F.kind != "Product":
        query, mine = tl.arange(0, F.queries), tl.arange(0, F.keys)
        tl.store(scratch + query[:, None] * F.keys + mine[None, :], raw_slope)
    if NEEDS_VALUE:
        grad = at_hand(grad, grad_out, member, first, extent.queries, F.queries, F.value_dim, F.value_width, F)
        grown_value += mixed(tl.trans(left), tl.trans(there), grad, WHOLE)
    if NEEDS_KEY:
        if F.kind == "Product":
            asking = at_hand(
                asking, operands.query, member, first, extent.queries, F.queries, F.key_dim, F.key_width, F
            )
            grown += mixed(tl.trans(raw_slope), tl.trans(there), asking, WHOLE)
        else:
            tl.debug_barrier()
            others = query_along.data + home(query_along, member) + (tl.full((), 0, tl.int64) + first) * F.key_width
            grown, _ = add_pairs(
                grown, grown, key_along, member, at, extent.keys, others, scratch, near, operands.number, F.keys,
                F.queries, False, F,
            )  # fmt: skip
            tl.debug_barrier()
    return grown, grown_value, total


@triton.jit
@no_type_check
def backward_keys(
    query, key, value, bias, vector, reach, number, dropout, seed, runs, extent, reached, grad_out, stats, centers,
    query_along, key_along, scratch, grad_key, grad_value, grad_columns, F: tl.constexpr,
):  # fmt: skip
    """dk and dv of a block of keys. Of the blocks of queries between the first and the last that see any of them, those
    that see none are passed over."""
    operands = Operands(query, key, value, bias, vector, reach, number, dropout, seed)
    near, blocks = is_near(reach, F), tl.cdiv(extent.keys, F.keys)
    needs_key: tl.constexpr = F.kind != "Blind" and grad_key is not None
    needs_value: tl.constexpr = grad_value is not None
    adds_up: tl.constexpr = grad_columns is not None
    mine = scratch if scratch is None else scratch + tl.program_id(0) * (F.queries * F.keys)
    for tile in tl.range(tl.program_id(0), blocks * extent.members, tl.num_programs(0), disable_licm=is_crowded(F)):
        block = tile % blocks
        member, at = member_of(tile // blocks, extent), block * F.keys
        asked = side_of(operands.key, member, at, extent.keys, F.keys, F)
        weights = vector if vector is None else vector + member.number * F.steps
        grown = tl.full((F.keys, F.key_width), 0.0, tl.float32)
        grown_value = tl.full((F.keys, F.value_width), 0.0, tl.float32)
        total = tl.full((F.keys,), 0.0, tl.float32)
        place = member.outer * reached.outer + member.inner * reached.inner + block
        begin, end = tl.load(reached.starts + place), tl.load(reached.stops + place)
        for block_of_queries in tl.range(begin, end, disable_licm=is_crowded(F)):
            first = block_of_queries * F.queries
            start, stop, spans = run_of(runs, member, first, extent, F)
            if (block >= spans.whole_begin) & (block < spans.whole_end):
                grown, grown_value, total = walk_block(
                    operands, member, first, at, asked, weights, near, start, stop, grad_out, stats, centers,
                    query_along, key_along, extent, mine, grown, grown_value, total, adds_up, needs_key, needs_value,
                    True, F,
                )  # fmt: skip
            elif (block >= spans.begin) & (block < spans.end):
                grown, grown_value, total = walk_block(
                    operands, member, first, at, asked, weights, near, start, stop, grad_out, stats, centers,
                    query_along, key_along, extent, mine, grown, grown_value, total, adds_up, needs_key, needs_value,
                    False, F,
                )  # fmt: skip
        if needs_key:
            grown = completed(grown, weights, near, F)
            put_nodes(grad_key, member, at, extent.keys, grown, F.keys, F.key_dim, F.key_width)
        if needs_value:
            put_nodes(grad_value, member, at, extent.keys, grown_value, F.keys, F.value_dim, F.value_width)
        if adds_up:
            key_place = at + tl.arange(0, F.keys)
            tl.store(grad_columns + member.number * extent.keys + key_place, total, mask=key_place < extent.keys)


@triton.jit
@no_type_check
def backward_bias(
    query, key, value, bias, vector, reach, number, dropout, seed, runs, extent, grad_out, stats, centers,
    grad_bias, outers, inners, inner_groups, F: tl.constexpr,
):  # fmt: skip
    """d bias of a block of pairs, over the `outers` · `inners` members that share it."""
    operands = Operands(query, key, value, bias, vector, reach, number, dropout, seed)
    near = is_near(reach, F)
    rows, columns = tl.cdiv(extent.queries, F.queries), tl.cdiv(extent.keys, F.keys)
    tile, group = tl.program_id(0) % (rows * columns), tl.program_id(0) // (rows * columns)
    first, block = (tile // columns) * F.queries, tile % columns
    at = block * F.keys
    total = tl.full((F.queries, F.keys), 0.0, tl.float32)
    zero = tl.full((), 0, tl.int64)
    for step in range(0, outers * inners):
        # A group is one member of each axis that the bias has, and all of each that it has not.
        outer, inner = zero + group // inner_groups + step // inners, zero + group % inner_groups + step % inners
        member = Member(outer * extent.inner + inner, outer, inner)
        start, stop, spans = run_of(runs, member, first, extent, F)
        if (block >= spans.begin) & (block < spans.end):
            most, rest = kept_numbers(stats, member, first, start, stop, extent, F)
            asking = side_of(operands.query, member, first, extent.queries, F.queries, F)
            asked = side_of(operands.key, member, at, extent.keys, F.keys, F)
            grad = nodes_of(grad_out, member, first, extent.queries, F.queries, F.value_dim, F.value_width, F)
            center = tl.full((F.queries,), 0.0, tl.float32)
            if centers is not None:
                center = numbers_at(centers, member, first, extent, 0.0, F)
            weights = vector if vector is None else vector + member.number * F.steps
            _, slope, _, _ = pairs_of(
                operands, member, first, at, asking, asked, weights, near, grad, grad_out, start, stop, most, rest,
                center, extent, False, F,
            )  # fmt: skip
            total += slope
    put_pairs(
        grad_bias,
        Member(zero + group, zero + group // inner_groups, zero + group % inner_groups),
        first,
        at,
        total,
        extent,
        F,
    )
