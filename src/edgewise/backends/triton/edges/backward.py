"""Attention over lists of edges, backward: two passes, each over the rows that it owns.

    backward_receivers  per receiver: scores and weights again, and their derivatives → dq, d bias, dk^e, dv^e, dvector
    backward_senders    per sender: the weights of its edges again, from what is stored of each receiver → dK, dV
    delta_rows          what sparsemax and entmax subtract from the derivative of every weight of a row
    merge_deltas        the same of hubs, from their parts
    merge_sums          the gradients of hubs, from their parts

Softmax subtracts Σ α dα, which is dO · o of the row: the first pass computes it and leaves it to the second, in
`deltas`. Gradients go where there is a table for them; None where none is wanted.
"""
# mypy: ignore-errors

from typing import Any, NamedTuple

import triton.language as tl

import triton
from edgewise.backends.triton.edges.forward import Operands, biased, keys_of, raw_scores, values_of
from edgewise.backends.triton.edges.tiles import (
    block_of,
    chunk_of,
    factors_of_edges,
    for_edges,
    form_of,
    gathered,
    longest,
    numbers_of,
    over_edges,
    per_head,
    places,
    put,
    put_numbers,
    spread,
    tile_of,
    toward_key,
    toward_query,
    toward_vector,
    vector_of,
)
from edgewise.backends.triton.formulas import d_raw_of, d_score_of


class ReceiverState(NamedTuple):
    """What all passes know of receivers."""

    out: Any
    grad_out: Any
    logsumexp: Any
    """L = ln Σ exp s, of softmax."""
    deltas: Any
    """Δ, where the normalizer subtracts it."""
    offsets: Any
    """Where the edges of each receiver begin."""


class EdgeGradients(NamedTuple):
    """Where gradients go; None where none is wanted."""

    query: Any
    key: Any
    value: Any
    edge_key: Any
    edge_value: Any
    bias: Any
    vector: Any


class Shared(NamedTuple):
    """What all heads have one of, each of them compiled in."""

    edge_key: bool
    edge_value: bool
    bias: bool


@triton.jit
def weights_of(operands, score, there, edge, neighbor, lse, offsets, group, F: tl.constexpr):
    """α of each edge again; `lse` is ln Σ exp s of its receiver, and `neighbor` names it where the mean is taken."""
    if F.given:
        return numbers_of(operands.weights, edge, there, group, F)
    elif F.normalizer == "Softmax":
        return tl.exp(score - lse)
    elif F.normalizer == "Sigmoid":
        return 1.0 / (1.0 + tl.exp(-score))
    elif F.normalizer == "Mean":
        count = tl.load(offsets + neighbor + 1, mask=there, other=1) - tl.load(offsets + neighbor, mask=there, other=0)
        share = tl.where(there, 1.0 / tl.maximum(count, 1).to(tl.float32), 0.0)
        return share[:, None] + tl.full((F.rows * F.block, F.heads), 0.0, tl.float32)
    else:
        return tl.where(there[:, None], score, 0.0)


@triton.jit
def put_shared(table, row, there, group, tile, DIM: tl.constexpr, PADDED: tl.constexpr, SHARED: tl.constexpr,
               F: tl.constexpr):  # fmt: skip
    """A tile into the rows of edges, summed over the heads where they share one."""
    if SHARED:
        rows: tl.constexpr = tile.shape[0]
        feature = tl.arange(0, PADDED)
        total = tl.sum(tl.reshape(tile, (rows, F.heads, PADDED)), 1)
        at = places(table, row, feature * 0, F) + feature[None, :]
        tl.store(table.data + at, total.to(table.data.dtype.element_ty), mask=there[:, None] & (feature < DIM)[None, :])
    else:
        put(table, row, there, group, tile, DIM, PADDED, F)


@triton.jit
def put_d_scores(table, row, there, group, d_score, SHARED: tl.constexpr, F: tl.constexpr):
    """One number a head into the rows of edges, summed over the heads where they share one."""
    if SHARED:
        at = row.to(tl.int64) * table.row
        tl.store(table.data + at, tl.sum(d_score, 1).to(table.data.dtype.element_ty), mask=there)
    else:
        put_numbers(table, row, there, group, d_score, F)


@triton.jit
def backward_receivers(
    operands, lists, chunks, rows, gradients, parts, begin, end, SHARED: tl.constexpr, FORMS: tl.constexpr
):
    """dq of each piece's row, or a part of it; what belongs to its edges; and the row's delta, for the second pass.

    For the gradient of the vector a program takes every so many-th of the tiles of one level, begin / 16 to end / 16:
    so its parts stay few. The loop would take too many registers with several levels in it.
    """
    operands, rows, gradients = Operands(*operands), ReceiverState(*rows), EdgeGradients(*gradients)
    F: tl.constexpr = form_of(FORMS, 0)
    vector = vector_of(operands.vector, tl.program_id(1), F)
    d_vector = tl.full((1, F.heads * F.key_width), 0.0, tl.float32)
    if gradients.vector is None:
        first, level = tile_of(chunks, tl.program_id(0))
        for index in tl.static_range(len(FORMS)):
            if level == index:
                receivers_tile(
                    operands,
                    lists,
                    chunks,
                    first,
                    rows,
                    gradients,
                    parts,
                    vector,
                    d_vector,
                    SHARED,
                    form_of(FORMS, index),
                )
    else:
        for tile in range(begin // 16 + tl.program_id(0), end // 16, tl.num_programs(0)):
            first = tl.load(chunks.firsts + tile)
            d_vector = receivers_tile(
                operands, lists, chunks, first, rows, gradients, parts, vector, d_vector, SHARED, F
            )
        program = tl.program_id(0) + tl.full((1,), 0, tl.int32)
        put(gradients.vector, program, program >= 0, tl.program_id(1), d_vector, F.key_dim, F.key_width, F)


@triton.jit
def receivers_tile(
    operands,
    lists,
    chunks,
    first,
    rows,
    gradients,
    parts,
    vector,
    d_vector,
    SHARED: tl.constexpr,
    F: tl.constexpr,
):
    """The rows of one tile; returns what they add to the gradient of the vector, added to `d_vector`."""
    operands, rows, gradients = Operands(*operands), ReceiverState(*rows), EdgeGradients(*gradients)
    group = tl.program_id(1)
    row, begin, end, slot, here = chunk_of(chunks, first, F)
    query = tl.full((F.rows, 1), 0.0, tl.float32)
    if F.kind != "Constant":
        # A row without edges gets a gradient of zero, and adds nothing to that of the vector, whatever it holds.
        query = gathered(operands.query, row, here & (begin < end), group, F.key_dim, F.key_width, F)
    grad = gathered(rows.grad_out, row, here, group, F.value_dim, F.value_width, F)
    lse = tl.full((F.rows, F.heads), 0.0, tl.float32)
    delta = tl.full((F.rows, F.heads), 0.0, tl.float32)

    if F.normalizer == "Softmax":
        lse = numbers_of(rows.logsumexp, row, here, group, F)
        delta = per_head(grad * gathered(rows.out, row, here, group, F.value_dim, F.value_width, F), F.value_width)
        if rows.deltas is not None:
            put_numbers(rows.deltas, row, here, group, delta, F)
    elif rows.deltas is not None:
        delta = numbers_of(rows.deltas, row, here, group, F)

    lse, delta = for_edges(lse, F.block), for_edges(delta, F.block)
    receiver = tl.reshape(for_edges(row[:, None], F.block), (F.rows * F.block,))
    d_query = tl.full((F.rows, F.heads * F.key_width), 0.0, tl.float32)

    for at in range(0, longest(begin, end, F), F.block):
        neighbor, edge, there = block_of(lists, begin, end, at, F)
        other = keys_of(operands, neighbor, edge, there, group, F)
        queries = for_edges(query, F.block)
        raw = raw_scores(operands, queries, other, vector, F)
        score = biased(operands, raw, edge, there, group, F)
        weight = weights_of(operands, score, there, edge, receiver, lse, lists.offsets, group, F)
        block_grad = for_edges(grad, F.block)
        values = other if F.shares else values_of(operands, neighbor, edge, there, group, F)
        d_weight = per_head(block_grad * values, F.value_width)
        dropped = weight
        if F.drops:
            factor = factors_of_edges(operands.seed, edge, group, operands.dropout, F)
            dropped, d_weight = weight * factor, d_weight * factor
        if gradients.edge_value is not None:
            d_values = spread(dropped, F.value_width) * block_grad
            put_shared(
                gradients.edge_value, edge, there, group, d_values, F.value_dim, F.value_width, SHARED.edge_value, F
            )

        d_score = tl.where(there[:, None], d_score_of(weight, d_weight, delta, F), 0.0)
        if gradients.bias is not None:
            put_d_scores(gradients.bias, edge, there, group, d_score, SHARED.bias, F)
        if F.kind != "Constant":
            d_raw = spread(d_raw_of(d_score, raw, operands.number, F), F.key_width)
            d_query += over_edges(toward_query(d_raw, queries, other, vector, operands.number, F), F.rows)
            if gradients.edge_key is not None:
                d_keys = toward_key(d_raw, queries, other, vector, operands.number, F)
                if F.both:
                    d_keys += spread(dropped, F.value_width) * block_grad
                put_shared(gradients.edge_key, edge, there, group, d_keys, F.key_dim, F.key_width, SHARED.edge_key, F)
            if gradients.vector is not None:
                d_vector += over_edges(toward_vector(d_raw, queries, other, operands.number, F), 1)

    if gradients.query is not None:
        put(gradients.query, row, here & (slot < 0), group, d_query, F.key_dim, F.key_width, F)
        if parts is not None and not F.short:
            put(parts, slot, here & (slot >= 0), group, d_query, F.key_dim, F.key_width, F)

    return d_vector


@triton.jit
def backward_senders(operands, lists, chunks, rows, gradients, key_parts, value_parts, FORMS: tl.constexpr):
    """dk and dv of each piece's row, a sender whose neighbors are its receivers; or parts of both."""
    operands, rows, gradients = Operands(*operands), ReceiverState(*rows), EdgeGradients(*gradients)
    first, level = tile_of(chunks, tl.program_id(0))
    for index in tl.static_range(len(FORMS)):
        if level == index:
            senders_tile(operands, lists, chunks, first, rows, gradients, key_parts, value_parts, form_of(FORMS, index))


@triton.jit
def senders_tile(operands, lists, chunks, first, rows, gradients, key_parts, value_parts, F: tl.constexpr):
    """The rows of one tile."""
    operands, rows, gradients = Operands(*operands), ReceiverState(*rows), EdgeGradients(*gradients)
    group = tl.program_id(1)
    row, begin, end, slot, here = chunk_of(chunks, first, F)
    vector = vector_of(operands.vector, group, F)
    key = tl.full((F.rows, 1), 0.0, tl.float32)
    d_key = tl.full((F.rows, F.heads * F.key_width), 0.0, tl.float32)
    if F.kind != "Constant":
        key = gathered(operands.key, row, here & (begin < end), group, F.key_dim, F.key_width, F)
    if gradients.key is not None:
        own_value = gathered(operands.value, row, here, group, F.value_dim, F.value_width, F)
    d_value = tl.full((F.rows, F.heads * F.value_width), 0.0, tl.float32)

    for at in range(0, longest(begin, end, F), F.block):
        neighbor, edge, there = block_of(lists, begin, end, at, F)
        keys = for_edges(key, F.block)
        queries = tl.full((F.rows * F.block, 1), 0.0, tl.float32)
        if F.kind != "Constant":
            queries = gathered(operands.query, neighbor, there, group, F.key_dim, F.key_width, F)
            if operands.edge_key is not None:
                keys += gathered(operands.edge_key, edge, there, group, F.key_dim, F.key_width, F)

        raw = raw_scores(operands, queries, keys, vector, F)
        score = biased(operands, raw, edge, there, group, F)
        lse = numbers_of(rows.logsumexp, neighbor, there, group, F) if F.normalizer == "Softmax" else 0.0
        weight = weights_of(operands, score, there, edge, neighbor, lse, rows.offsets, group, F)
        grad = gathered(rows.grad_out, neighbor, there, group, F.value_dim, F.value_width, F)
        dropped = weight
        if F.drops:
            factor = factors_of_edges(operands.seed, edge, group, operands.dropout, F)
            dropped = weight * factor
        if gradients.value is not None or F.sums:
            d_value += over_edges(spread(dropped, F.value_width) * grad, F.rows)
        if gradients.key is not None:
            values = for_edges(own_value, F.block)
            if operands.edge_value is not None:
                values += gathered(operands.edge_value, edge, there, group, F.value_dim, F.value_width, F)
            d_weight = per_head(grad * values, F.value_width)
            if F.drops:
                d_weight *= factor
            delta = tl.full((F.rows * F.block, F.heads), 0.0, tl.float32)
            if rows.deltas is not None:
                delta = numbers_of(rows.deltas, neighbor, there, group, F)
            d_score = tl.where(there[:, None], d_score_of(weight, d_weight, delta, F), 0.0)
            d_raw = spread(d_raw_of(d_score, raw, operands.number, F), F.key_width)
            d_key += over_edges(toward_key(d_raw, queries, keys, vector, operands.number, F), F.rows)

    if F.sums:
        d_key += d_value
    is_whole, is_part = here & (slot < 0), here & (slot >= 0)
    if gradients.value is not None:
        put(gradients.value, row, is_whole, group, d_value, F.value_dim, F.value_width, F)
        if value_parts is not None and not F.short:
            put(value_parts, slot, is_part, group, d_value, F.value_dim, F.value_width, F)
    if gradients.key is not None:
        put(gradients.key, row, is_whole, group, d_key, F.key_dim, F.key_width, F)
        if key_parts is not None and not F.short:
            put(key_parts, slot, is_part, group, d_key, F.key_dim, F.key_width, F)


@triton.jit
def delta_rows(operands, lists, chunks, rows, part_tops, part_bottoms, FORMS: tl.constexpr):
    """Σ g dα / Σ g of each piece's row, g = 1[α > 0] for sparsemax and √α for entmax-1.5; or a part of both sums."""
    operands, rows = Operands(*operands), ReceiverState(*rows)
    first, level = tile_of(chunks, tl.program_id(0))
    for index in tl.static_range(len(FORMS)):
        if level == index:
            deltas_tile(operands, lists, chunks, first, rows, part_tops, part_bottoms, form_of(FORMS, index))


@triton.jit
def deltas_tile(operands, lists, chunks, first, rows, part_tops, part_bottoms, F: tl.constexpr):
    """The rows of one tile."""
    operands, rows = Operands(*operands), ReceiverState(*rows)
    group = tl.program_id(1)
    row, begin, end, slot, here = chunk_of(chunks, first, F)
    grad = for_edges(gathered(rows.grad_out, row, here, group, F.value_dim, F.value_width, F), F.block)
    top = tl.full((F.rows, F.heads), 0.0, tl.float32)
    bottom = tl.full((F.rows, F.heads), 0.0, tl.float32)

    for at in range(0, longest(begin, end, F), F.block):
        neighbor, edge, there = block_of(lists, begin, end, at, F)
        weight = numbers_of(operands.weights, edge, there, group, F)
        d_weight = per_head(grad * values_of(operands, neighbor, edge, there, group, F), F.value_width)
        if F.drops:
            d_weight *= factors_of_edges(operands.seed, edge, group, operands.dropout, F)
        share = tl.sqrt(weight) if F.normalizer == "Entmax15" else tl.where(weight > 0.0, 1.0, 0.0)
        top += over_edges(share * d_weight, F.rows)
        bottom += over_edges(share, F.rows)

    put_numbers(rows.deltas, row, here & (slot < 0), group, top / tl.where(bottom > 0.0, bottom, 1.0), F)
    if part_tops is not None and not F.short:
        part = here & (slot >= 0)
        put_numbers(part_tops, slot, part, group, top, F)
        put_numbers(part_bottoms, slot, part, group, bottom, F)


@triton.jit
def merge_deltas(part_tops, part_bottoms, hubs, hub_slots, deltas, F: tl.constexpr):
    """The same of each hub, from its parts, in order; F.block of them at once."""
    hub, group = tl.program_id(0), tl.program_id(1)
    first, last = tl.load(hub_slots + hub), tl.load(hub_slots + hub + 1)
    row = tl.load(hubs + hub) + tl.full((1,), 0, tl.int32)
    top = tl.full((1, F.heads), 0.0, tl.float32)
    bottom = tl.full((1, F.heads), 0.0, tl.float32)
    for at in range(first, last, F.block):
        slot = at + tl.arange(0, F.block)
        there = slot < last
        top += over_edges(numbers_of(part_tops, slot, there, group, F), 1)
        bottom += over_edges(numbers_of(part_bottoms, slot, there, group, F), 1)
    put_numbers(deltas, row, row >= 0, group, top / tl.where(bottom > 0.0, bottom, 1.0), F)


@triton.jit
def merge_sums(key_parts, value_parts, hubs, hub_slots, to_keys, to_values, F: tl.constexpr):
    """The parts of each hub's gradients, in order: of a query or a key, and of a value; None where none is wanted."""
    hub, group = tl.program_id(0), tl.program_id(1)
    first, last = tl.load(hub_slots + hub), tl.load(hub_slots + hub + 1)
    row = tl.load(hubs + hub) + tl.full((1,), 0, tl.int32)
    if key_parts is not None:
        merge_parts(key_parts, first, last, to_keys, row, group, F.key_dim, F.key_width, F)
    if value_parts is not None:
        merge_parts(value_parts, first, last, to_values, row, group, F.value_dim, F.value_width, F)


@triton.jit
def merge_parts(parts, first, last, to, row, group, DIM: tl.constexpr, WIDTH: tl.constexpr, F: tl.constexpr):
    """The sum of the parts in the slots first to last, into a row; F.block of them at once."""
    total = tl.full((1, F.heads * WIDTH), 0.0, tl.float32)
    for at in range(first, last, F.block):
        slot = at + tl.arange(0, F.block)
        total += over_edges(gathered(parts, slot, slot < last, group, DIM, WIDTH, F), 1)
    put(to, row, row >= 0, group, total, DIM, WIDTH, F)
