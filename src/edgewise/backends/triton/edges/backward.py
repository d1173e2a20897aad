"""Attention over lists of edges, backward: two passes, each over the rows that it owns.

    backward_receivers  per receiver: scores and weights again, and their derivatives → dq, d bias, dk^e, dv^e, dvector
    backward_senders    per sender: the weights of its edges again, from what each receiver keeps → dk, dv
    center_rows         what sparsemax and entmax subtract from the derivative of every weight of a row

Softmax subtracts Σ α dα, which is dO · o of the row: the first pass computes it and leaves it to the second, in
`centers`. Gradients go where there is a table for them; None where nobody asks.
"""

from typing import NamedTuple, no_type_check

import triton.language as tl

import triton
from edgewise.backends.triton.edges.forward import Operands, biased, keys_of, raw_scores, values_of
from edgewise.backends.triton.edges.tiles import (
    block_of,
    for_edges,
    gathered,
    kept,
    numbers_of,
    over_edges,
    per_head,
    piece_of,
    places,
    put,
    put_numbers,
    spread,
    toward_key,
    toward_query,
    toward_vector,
    vector_of,
)
from edgewise.backends.triton.formulas import slopes_of, unfinished


class Shared(NamedTuple):
    """What all heads have one of, each of them compiled in."""

    edge_key: bool
    """k^e."""
    edge_value: bool
    """v^e."""
    bias: bool
    """b."""


@triton.jit
@no_type_check
def weights_of(operands, score, there, edge, neighbor, base, offsets, group, F: tl.constexpr):
    """α of each edge again; `base` is ln Σ exp s of its receiver, and `neighbor` names it where the mean is taken."""
    if F.given:
        return numbers_of(operands.weights, edge, there, group, F)
    elif F.normalizer == "Softmax":
        return tl.exp(score - base)
    elif F.normalizer == "Sigmoid":
        return 1.0 / (1.0 + tl.exp(-score))
    elif F.normalizer == "Mean":
        count = tl.load(offsets + neighbor + 1, mask=there, other=1) - tl.load(offsets + neighbor, mask=there, other=0)
        share = tl.where(there, 1.0 / tl.maximum(count, 1).to(tl.float32), 0.0)
        return share[:, None] + tl.full((F.rows * F.block, F.heads), 0.0, tl.float32)
    else:
        return tl.where(there[:, None], score, 0.0)


@triton.jit
@no_type_check
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
@no_type_check
def put_slopes(table, row, there, group, slope, SHARED: tl.constexpr, F: tl.constexpr):
    """One number a head into the rows of edges, summed over the heads where they share one."""
    if SHARED:
        at = row.to(tl.int64) * table.row
        tl.store(table.data + at, tl.sum(slope, 1).to(table.data.dtype.element_ty), mask=there)
    else:
        put_numbers(table, row, there, group, slope, F)


@triton.jit
@no_type_check
def backward_receivers(
    query, key, value, edge_key, edge_value, bias, vector, weights, number, dropout, seed,
    lists, pieces, out, grad_out, stats, centers, receiver_offsets,
    grad_query, grad_key, grad_value, grad_edge_key, grad_edge_value, grad_bias, grad_vector,
    parts, SHARED: tl.constexpr, F: tl.constexpr,
):  # fmt: skip
    """dq of each piece's row, or a part of it; what belongs to its edges; and the row's center, for the second pass.

    A program takes every so many-th tile, so that the parts of the vector's gradient stay few.
    """
    operands = Operands(query, key, value, edge_key, edge_value, bias, vector, weights, number, dropout, seed)
    group = tl.program_id(1)
    vector = vector_of(operands.vector, group, F)
    grown_vector = tl.full((1, F.heads * F.key_width), 0.0, tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(pieces.count, F.rows), tl.num_programs(0)):
        row, begin, end, slot, here = piece_of(pieces, tile, F)
        own = tl.full((F.rows, 1), 0.0, tl.float32)
        if F.kind != "Blind":
            # A row without edges has no gradient, and adds nothing to that of the vector, whatever it holds.
            own = gathered(operands.query, row, here & (begin < end), group, F.key_dim, F.key_width, F)
        grad = gathered(grad_out, row, here, group, F.value_dim, F.value_width, F)
        base = tl.full((F.rows, F.heads), 0.0, tl.float32)
        center = tl.full((F.rows, F.heads), 0.0, tl.float32)
        if F.normalizer == "Softmax":
            base = numbers_of(stats, row, here, group, F)
            center = per_head(grad * gathered(out, row, here, group, F.value_dim, F.value_width, F), F.value_width)
            if centers is not None:
                put_numbers(centers, row, here, group, center, F)
        elif centers is not None:
            center = numbers_of(centers, row, here, group, F)
        base, center = for_edges(base, F.block), for_edges(center, F.block)
        receiver = tl.reshape(for_edges(row[:, None], F.block), (F.rows * F.block,))
        grown = tl.full((F.rows, F.heads * F.key_width), 0.0, tl.float32)
        for at in range(0, tl.max(end - begin, 0), F.block):
            neighbor, edge, there = block_of(lists, begin, end, at, F)
            other = keys_of(operands, neighbor, edge, there, group, F)
            asking = for_edges(own, F.block)
            raw = raw_scores(operands, asking, other, vector, F)
            score = biased(operands, raw, edge, there, group, F)
            weight = weights_of(operands, score, there, edge, receiver, base, lists.offsets, group, F)
            block_grad = for_edges(grad, F.block)
            values = other if F.shares else values_of(operands, neighbor, edge, there, group, F)
            product = per_head(block_grad * values, F.value_width)
            left = weight
            if F.drops:
                factor = kept(operands.seed, edge, group, operands.dropout, F)
                left, product = weight * factor, product * factor
            if grad_edge_value is not None:
                tile_of_edges = spread(left, F.value_width) * block_grad
                put_shared(
                    grad_edge_value, edge, there, group, tile_of_edges, F.value_dim, F.value_width, SHARED.edge_value, F
                )
            slope = tl.where(there[:, None], slopes_of(weight, product, center, F), 0.0)
            if grad_bias is not None:
                put_slopes(grad_bias, edge, there, group, slope, SHARED.bias, F)
            if F.kind != "Blind":
                moved = spread(unfinished(slope, raw, operands.number, F), F.key_width)
                grown += over_edges(toward_query(moved, asking, other, vector, operands.number, F), F.rows)
                if grad_edge_key is not None:
                    found = toward_key(moved, asking, other, vector, operands.number, F)
                    put_shared(grad_edge_key, edge, there, group, found, F.key_dim, F.key_width, SHARED.edge_key, F)
                if grad_vector is not None:
                    grown_vector += over_edges(toward_vector(moved, asking, other, operands.number, F), 1)
        if grad_query is not None:
            put(grad_query, row, here & (slot < 0), group, grown, F.key_dim, F.key_width, F)
            if parts is not None:
                put(parts, slot, here & (slot >= 0), group, grown, F.key_dim, F.key_width, F)
    if grad_vector is not None:
        program = tl.program_id(0) + tl.full((1,), 0, tl.int32)
        put(grad_vector, program, program >= 0, group, grown_vector, F.key_dim, F.key_width, F)


@triton.jit
@no_type_check
def backward_senders(
    query, key, value, edge_key, edge_value, bias, vector, weights, number, dropout, seed,
    lists, pieces, out, grad_out, stats, centers, receiver_offsets,
    grad_query, grad_key, grad_value, grad_edge_key, grad_edge_value, grad_bias, grad_vector,
    key_parts, value_parts, F: tl.constexpr,
):  # fmt: skip
    """dk and dv of each piece's row, a sender whose neighbors are its receivers; or parts of both."""
    operands = Operands(query, key, value, edge_key, edge_value, bias, vector, weights, number, dropout, seed)
    group = tl.program_id(1)
    row, begin, end, slot, here = piece_of(pieces, tl.program_id(0), F)
    vector = vector_of(operands.vector, group, F)
    own = tl.full((F.rows, 1), 0.0, tl.float32)
    grown = tl.full((F.rows, F.heads * F.key_width), 0.0, tl.float32)
    if F.kind != "Blind":
        own = gathered(operands.key, row, here & (begin < end), group, F.key_dim, F.key_width, F)
    if grad_key is not None:
        own_value = gathered(operands.value, row, here, group, F.value_dim, F.value_width, F)
    grown_value = tl.full((F.rows, F.heads * F.value_width), 0.0, tl.float32)
    for at in range(0, tl.max(end - begin, 0), F.block):
        neighbor, edge, there = block_of(lists, begin, end, at, F)
        asked = for_edges(own, F.block)
        asking = tl.full((F.rows * F.block, 1), 0.0, tl.float32)
        if F.kind != "Blind":
            asking = gathered(operands.query, neighbor, there, group, F.key_dim, F.key_width, F)
            if operands.edge_key is not None:
                asked += gathered(operands.edge_key, edge, there, group, F.key_dim, F.key_width, F)
        raw = raw_scores(operands, asking, asked, vector, F)
        score = biased(operands, raw, edge, there, group, F)
        base = numbers_of(stats, neighbor, there, group, F) if F.normalizer == "Softmax" else 0.0
        weight = weights_of(operands, score, there, edge, neighbor, base, receiver_offsets, group, F)
        grad = gathered(grad_out, neighbor, there, group, F.value_dim, F.value_width, F)
        left = weight
        if F.drops:
            factor = kept(operands.seed, edge, group, operands.dropout, F)
            left = weight * factor
        if grad_value is not None:
            grown_value += over_edges(spread(left, F.value_width) * grad, F.rows)
        if grad_key is not None:
            values = for_edges(own_value, F.block)
            if operands.edge_value is not None:
                values += gathered(operands.edge_value, edge, there, group, F.value_dim, F.value_width, F)
            product = per_head(grad * values, F.value_width)
            if F.drops:
                product *= factor
            center = tl.full((F.rows * F.block, F.heads), 0.0, tl.float32)
            if centers is not None:
                center = numbers_of(centers, neighbor, there, group, F)
            slope = tl.where(there[:, None], slopes_of(weight, product, center, F), 0.0)
            moved = spread(unfinished(slope, raw, operands.number, F), F.key_width)
            grown += over_edges(toward_key(moved, asking, asked, vector, operands.number, F), F.rows)
    whole, part = here & (slot < 0), here & (slot >= 0)
    if grad_value is not None:
        put(grad_value, row, whole, group, grown_value, F.value_dim, F.value_width, F)
        if value_parts is not None:
            put(value_parts, slot, part, group, grown_value, F.value_dim, F.value_width, F)
    if grad_key is not None:
        put(grad_key, row, whole, group, grown, F.key_dim, F.key_width, F)
        if key_parts is not None:
            put(key_parts, slot, part, group, grown, F.key_dim, F.key_width, F)


@triton.jit
@no_type_check
def center_rows(
    query, key, value, edge_key, edge_value, bias, vector, weights, number, dropout, seed,
    lists, chosen, count, out, grad_out, stats, centers, receiver_offsets, F: tl.constexpr,
):  # fmt: skip
    """Σ g dα / Σ g of whole rows, g = 1[α > 0] for sparsemax and √α for entmax-1.5."""
    operands = Operands(query, key, value, edge_key, edge_value, bias, vector, weights, number, dropout, seed)
    group = tl.program_id(1)
    at_row = tl.program_id(0) * F.rows + tl.arange(0, F.rows)
    here = at_row < count
    row = tl.load(chosen + at_row, mask=here, other=0)
    begin = tl.load(lists.offsets + row, mask=here, other=0)
    end = tl.load(lists.offsets + row + 1, mask=here, other=0)
    grad = for_edges(gathered(grad_out, row, here, group, F.value_dim, F.value_width, F), F.block)
    top = tl.full((F.rows, F.heads), 0.0, tl.float32)
    bottom = tl.full((F.rows, F.heads), 0.0, tl.float32)
    for at in range(0, tl.max(end - begin, 0), F.block):
        neighbor, edge, there = block_of(lists, begin, end, at, F)
        weight = numbers_of(operands.weights, edge, there, group, F)
        product = per_head(grad * values_of(operands, neighbor, edge, there, group, F), F.value_width)
        if F.drops:
            product *= kept(operands.seed, edge, group, operands.dropout, F)
        share = tl.sqrt(weight) if F.normalizer == "Entmax15" else tl.where(weight > 0.0, 1.0, 0.0)
        top += over_edges(share * product, F.rows)
        bottom += over_edges(share, F.rows)
    put_numbers(centers, row, here, group, top / tl.where(bottom > 0.0, bottom, 1.0), F)
