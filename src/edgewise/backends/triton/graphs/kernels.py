"""Attention within small graphs: a program has whole graphs and a head, every pair of their nodes at once.

    forward    scores of all pairs → weights of those that are edges → the sum of the values
    backward   the same again, and all gradients in one pass: no other program has these nodes

Nothing is gathered: nodes of a tile lie next to each other. Scores and sums are products of matrices; which pairs are
edges is read from bits, and the number of an edge from how many bits stand before it.

Such a product multiplies all weights, also those of pairs that are not edges, and 0 · ∞ is NaN. So what comes out with
anything that is not finite is flagged, and done again with care: no node that is not there reaches another, not as NaN.
To take care everywhere costs twice the registers and instructions.
"""
# mypy: ignore-errors

from typing import Any, NamedTuple

import triton.language as tl

import triton
from edgewise.backends.triton.edges.forward import Operands
from edgewise.backends.triton.formulas import d_raw_of, d_score_of, finite, nearer_threshold, over_threshold
from edgewise.backends.triton.ranges.tiles import mixed, product, weights_of

RUN = tl.constexpr(256)
"""Flags that a program reads."""


class TileInputs(NamedTuple):
    """Where the nodes and edges of each tile are; see `work.Packing`."""

    firsts: Any
    counts: Any
    words: Any
    seen: Any
    """The bits."""
    offsets: Any
    edges: Any


class GraphGradients(NamedTuple):
    """Where gradients go; None where none is wanted."""

    query: Any
    key: Any
    value: Any
    bias: Any


class TileForm(NamedTuple):
    """What is compiled in: which formulas, and which sizes."""

    kind: str
    normalizer: str
    drops: bool
    compiled: bool
    """Whether for a device: the interpreter multiplies no bfloat16."""
    num_heads: int
    key_dim: int
    value_dim: int
    key_width: int
    value_width: int
    nodes: int
    """Nodes of a tile, a multiple of 32."""
    rows: int
    """Receivers that are computed together."""
    sums: bool
    """Whether keys and values are one tensor, of which there is one gradient."""
    numbered: bool
    """Whether the numbers of edges are needed, for a bias or for dropout."""


class TilePairs(NamedTuple):
    """Some receivers of a tile with all its senders, `(row, node)`."""

    row: Any
    """The receivers, counted within the tile."""
    seen: Any
    """0 for pairs without an edge; else 1 or, where numbers are needed, the caller's number of the edge and 1."""


@triton.jit
def home_of(table, row, head):
    """Where a head of a row begins, in int64."""
    zero = tl.full((), 0, tl.int64)
    return table.data + (zero + row) * table.row + (zero + head) * table.head


@triton.jit
def nodes_of(table, first, node, count, head, DIM: tl.constexpr, WIDTH: tl.constexpr, F: tl.constexpr):
    """A head of some nodes of a tile, `(node, feature)`; zeros where there is none.

    They pass by the first cache, where the biases of a tile wait for its next head.
    """
    feature = tl.arange(0, WIDTH)
    home = home_of(table, first, head)
    inside = (node < count)[:, None]
    if DIM != WIDTH:
        inside = inside & (feature < DIM)[None, :]
    at = home + (node[:, None] * table.row + feature[None, :])
    features = tl.load(at, mask=inside, other=0.0, cache_modifier=".cg")
    return features if F.compiled or features.dtype != tl.bfloat16 else features.to(tl.float32)


@triton.jit
def operand_of(table, first, node, count, head, F: tl.constexpr):
    """Queries or keys of some nodes; one number where no score is made of them."""
    if F.kind == "Constant":
        return 0.0
    else:
        return nodes_of(table, first, node, count, head, F.key_dim, F.key_width, F)


@triton.jit
def put_nodes(table, first, node, count, head, tile, DIM: tl.constexpr, WIDTH: tl.constexpr):
    """The other way."""
    feature = tl.arange(0, WIDTH)
    home = home_of(table, first, head)
    inside = (node < count)[:, None] & (feature < DIM)[None, :]
    at = home + (node[:, None] * table.row + feature[None, :])
    tl.store(at, tile.to(table.data.dtype.element_ty), mask=inside)


@triton.jit
def pairs_of(tiles, tile, first, count, begin, F: tl.constexpr):
    """The next receivers of a tile, and which senders each of them sees."""
    words: tl.constexpr = F.nodes // 32
    row = begin + tl.arange(0, F.rows)
    at = tl.load(tiles.words + tile) + row[:, None] * words + tl.arange(0, words)[None, :]
    bits = tl.load(tiles.seen + at, mask=(row < count)[:, None], other=0)
    seen = (tl.expand_dims(bits, 2) >> tl.arange(0, 32)[None, None, :]) & 1
    seen = tl.reshape(seen, (F.rows, F.nodes))
    if F.numbered:
        before = tl.cumsum(seen, 1) - seen
        offset = tl.load(tiles.offsets + first + row, mask=row < count, other=0)
        seen = tl.load(tiles.edges + offset[:, None] + before, mask=seen != 0, other=-1) + 1
    return TilePairs(row, seen)


@triton.jit
def edges_in(table, pairs, head):
    """Where a head of each edge begins; in 32 bits, which a packing is for."""
    zero = tl.full((), 0, tl.int64)
    return table.data + (zero + head) * table.head + (pairs.seen - 1).to(tl.uint32) * tl.cast(table.row, tl.uint32)


@triton.jit
def scores_of(operands, queries, keys, pairs, head, F: tl.constexpr):
    """s + b of every pair, −∞ for pairs without an edge."""
    if F.kind == "Dot":
        score = product(queries, tl.trans(keys)) * operands.number
    else:
        score = tl.full((F.rows, F.nodes), 0.0, tl.float32) + operands.number
    if operands.bias is not None:
        score += tl.load(edges_in(operands.bias, pairs, head), mask=pairs.seen != 0, other=0.0).to(tl.float32)
    return tl.where(pairs.seen != 0, score, float("-inf"))


@triton.jit
def row_weights(score, seen, F: tl.constexpr):
    """α of every pair; 0 for pairs without an edge."""
    there = seen != 0
    if F.normalizer == "Softmax":
        share = tl.exp(score - finite(tl.max(score, 1))[:, None])
        total = tl.sum(share, 1)
        return share * (1.0 / tl.where(total == 0.0, 1.0, total))[:, None]
    elif F.normalizer == "Mean":
        row_sum = 1.0 / tl.maximum(tl.sum(tl.where(there, 1, 0), 1), 1).to(tl.float32)
        return weights_of(score, row_sum, row_sum, there, False, F)
    elif F.normalizer == "Hardmax":
        row_max = tl.max(score, 1)
        row_sum = 1.0 / tl.maximum(tl.sum(tl.where(score == row_max[:, None], 1.0, 0.0), 1), 1.0)
        return weights_of(score, row_max, row_sum, there, False, F)
    elif F.normalizer == "Sparsemax" or F.normalizer == "Entmax15":
        row_max = finite(tl.max(score, 1))
        return weights_of(score, row_max, threshold_of(score, row_max, F), there, False, F)
    else:
        return weights_of(score, score, score, there, False, F)


@triton.jit
def threshold_of(score, row_max, F: tl.constexpr):
    """τ of each row; see `nearer_threshold`."""
    threshold = row_max * 0.0 - 1.0
    step, moves = 0, 1
    while (moves > 0) & (step < 64):  # about ten are needed
        weight, fall = over_threshold(score - row_max[:, None], threshold[:, None], F)
        threshold, moved = nearer_threshold(threshold, tl.sum(weight, 1), tl.sum(fall, 1))
        moves = tl.max(moved, 0)
        step += 1
    return threshold


@triton.jit
def factors_of_pairs(operands, pairs, head, F: tl.constexpr):
    """What dropout does to each weight, by the number of its edge: the same as in the kernels over lists."""
    edge = (pairs.seen - 1).to(tl.uint32)
    zero = edge * 0
    chance, _, _, _ = tl.philox(tl.load(operands.seed), edge, (zero + head).to(tl.uint32), zero, zero)
    return tl.where(tl.uint_to_uniform_float(chance) < operands.dropout, 0.0, 1.0 / (1.0 - operands.dropout))


@triton.jit
def is_broken(tile):
    """NaN where anything in a tile is not finite, or all of it together, else 0."""
    return tl.sum(tl.sum(tile, 1), 0) * 0.0


@triton.jit
def attend_rows(operands, pairs, keys, values, first, count, head, out, WHOLE: tl.constexpr, F: tl.constexpr):
    """out = Σ α v of a head of some receivers of a tile; and whether all of it is finite, see `is_broken`."""
    queries = operand_of(operands.query, first, pairs.row, count, head, F)
    score = scores_of(operands, queries, keys, pairs, head, F)
    weight = row_weights(score, pairs.seen, F)
    if F.drops:
        weight *= factors_of_pairs(operands, pairs, head, F)
    sums = mixed(weight, tl.where(pairs.seen != 0, 1, 0), values, WHOLE)
    put_nodes(out, first, pairs.row, count, head, sums, F.value_dim, F.value_width)
    return is_broken(sums) if WHOLE else 0.0


@triton.jit
def attend_tile(operands, tiles, tile, pairs, head, out, WHOLE: tl.constexpr, F: tl.constexpr):
    """The same of all receivers; `pairs` are those of a tile that is computed as a whole, see `pairs_of_tile`."""
    first, count = tl.load(tiles.firsts + tile), tl.load(tiles.counts + tile)
    node = tl.arange(0, F.nodes)
    keys = operand_of(operands.key, first, node, count, head, F)
    values = nodes_of(operands.value, first, node, count, head, F.value_dim, F.value_width, F)
    if F.rows == F.nodes:
        return attend_rows(operands, TilePairs(*pairs), keys, values, first, count, head, out, WHOLE, F)
    else:
        broken = 0.0
        for begin in range(0, count, F.rows):
            next_pairs = pairs_of(tiles, tile, first, count, begin, F)
            broken += attend_rows(operands, next_pairs, keys, values, first, count, head, out, WHOLE, F)
        return broken


@triton.jit
def delta_of(weight, d_weight, there, F: tl.constexpr):
    """What is subtracted from dα: Σ α dα of softmax; Σ g dα / Σ g, g = 1[α > 0] or √α, of sparsemax and entmax-1.5."""
    if F.normalizer == "Softmax":
        return tl.sum(tl.where(there, weight * d_weight, 0.0), 1)
    elif F.normalizer == "Sparsemax" or F.normalizer == "Entmax15":
        share = tl.sqrt(weight) if F.normalizer == "Entmax15" else tl.where(weight > 0.0, 1.0, 0.0)
        top, bottom = tl.sum(tl.where(there, share * d_weight, 0.0), 1), tl.sum(share, 1)
        return top / tl.where(bottom > 0.0, bottom, 1.0)
    else:
        return tl.full((F.rows,), 0.0, tl.float32)


@triton.jit
def differentiate_rows(
    operands, pairs, keys, values, d_key, d_value, first, count, head, grad_out, gradients, WHOLE: tl.constexpr,
    F: tl.constexpr
):  # fmt: skip
    """dq of a head of some receivers of a tile, and d bias of their edges; dk and dv of the tile with what these
    receivers add; and whether dq is finite."""
    broken = 0.0
    there = pairs.seen != 0
    linked = tl.where(there, 1, 0)
    queries = operand_of(operands.query, first, pairs.row, count, head, F)
    grad = nodes_of(grad_out, first, pairs.row, count, head, F.value_dim, F.value_width, F)
    score = scores_of(operands, queries, keys, pairs, head, F)
    tl.debug_barrier()  # what comes behind must not start before: its numbers would find no register
    weight = row_weights(score, pairs.seen, F)
    d_weight = product(grad, tl.trans(values))
    tl.debug_barrier()
    dropped = tl.where(there, weight, 0.0)  # a row that is broken is so everywhere
    if F.drops:
        factor = factors_of_pairs(operands, pairs, head, F)
        dropped, d_weight = dropped * factor, d_weight * factor
    if gradients.value is not None or F.sums:
        if F.drops:  # read again, as the queries are below: they do not stay in registers so long
            grad = nodes_of(grad_out, first, pairs.row, count, head, F.value_dim, F.value_width, F)
        d_value += mixed(tl.trans(dropped), tl.trans(linked), grad, WHOLE)
    if gradients.bias is not None or gradients.query is not None or gradients.key is not None:
        delta = delta_of(weight, d_weight, there, F)
        d_score = tl.where(there, d_score_of(weight, d_weight, delta[:, None], F), 0.0)
        if gradients.bias is not None:
            at = edges_in(gradients.bias, pairs, head)
            tl.store(at, d_score.to(gradients.bias.data.dtype.element_ty), mask=there)
        d_score = d_raw_of(d_score, score, operands.number, F)

        if gradients.query is not None:
            d_query = mixed(d_score, linked, keys, WHOLE)
            put_nodes(gradients.query, first, pairs.row, count, head, d_query, F.key_dim, F.key_width)
            if WHOLE:
                broken += is_broken(d_query)
        if gradients.key is not None:
            queries = operand_of(operands.query, first, pairs.row, count, head, F)
            d_key += mixed(tl.trans(d_score), tl.trans(linked), queries, WHOLE)

    return broken, d_key, d_value


@triton.jit
def differentiate_tile(operands, tiles, tile, pairs, head, grad_out, gradients, WHOLE: tl.constexpr, F: tl.constexpr):
    """dq, dk and dv of a head of the nodes of a tile, and d bias of its edges; and whether all are finite."""
    first, count = tl.load(tiles.firsts + tile), tl.load(tiles.counts + tile)
    node = tl.arange(0, F.nodes)
    keys = operand_of(operands.key, first, node, count, head, F)
    values = nodes_of(operands.value, first, node, count, head, F.value_dim, F.value_width, F)
    d_key = tl.full((F.nodes, F.key_width), 0.0, tl.float32)
    d_value = tl.full((F.nodes, F.value_width), 0.0, tl.float32)
    broken = 0.0

    if F.rows == F.nodes:
        broken, d_key, d_value = differentiate_rows(
            operands, TilePairs(*pairs), keys, values, d_key, d_value, first, count, head, grad_out, gradients, WHOLE, F
        )
    else:
        for begin in range(0, count, F.rows):
            next_pairs = pairs_of(tiles, tile, first, count, begin, F)
            rows_broken, d_key, d_value = differentiate_rows(
                operands, next_pairs, keys, values, d_key, d_value, first, count, head, grad_out, gradients, WHOLE, F
            )
            broken += rows_broken
    if F.sums:
        d_key += d_value
    if gradients.key is not None:
        put_nodes(gradients.key, first, node, count, head, d_key, F.key_dim, F.key_width)
        if WHOLE:
            broken += is_broken(d_key)
    if gradients.value is not None:
        put_nodes(gradients.value, first, node, count, head, d_value, F.value_dim, F.value_width)
        if WHOLE:
            broken += is_broken(d_value)

    return broken


@triton.jit
def flagged_run(flags, count):
    """The run of flags that a program reads: an empty one where none is set."""
    begin = tl.program_id(0) * RUN
    at = begin + tl.arange(0, RUN)
    flagged = tl.max(tl.load(flags + at, mask=at < count, other=0).to(tl.int32), 0)
    return begin, tl.where(flagged > 0, tl.minimum(begin + RUN, count), begin)


@triton.jit
def heads_of(heads, F: tl.constexpr):
    """The tile of a program, and which of its heads. Numbers of edges that one head reads lie beside the next one's."""
    groups = tl.cdiv(F.num_heads, heads)
    begin = (tl.program_id(0) % groups) * heads
    return tl.program_id(0) // groups, begin, tl.minimum(begin + heads, F.num_heads)


@triton.jit
def pairs_of_tile(tiles, tile, F: tl.constexpr):
    """The pairs of a tile that is computed as a whole, for all heads of a program; of others the first rows."""
    return pairs_of(tiles, tile, tl.load(tiles.firsts + tile), tl.load(tiles.counts + tile), 0, F)


@triton.jit
def forward(operands, tiles, flags, count, heads, out, AGAIN: tl.constexpr, F: tl.constexpr):
    """out = Σ α v of a tile and some heads; or of the flagged ones of a run of such pairs."""
    operands = Operands(*operands)
    if AGAIN:
        begin, end = flagged_run(flags, count)
        for at in range(begin, end):
            if tl.load(flags + at) != 0:
                tile = at // F.num_heads
                pairs = pairs_of_tile(tiles, tile, F)
                attend_tile(operands, tiles, tile, pairs, at % F.num_heads, out, False, F)
    else:
        tile, begin, end = heads_of(heads, F)
        pairs = pairs_of_tile(tiles, tile, F)
        for head in range(begin, end):
            broken = attend_tile(operands, tiles, tile, pairs, head, out, True, F)
            tl.store(flags + tile * F.num_heads + head, (broken != 0.0).to(tl.int8))


@triton.jit
def backward(operands, tiles, flags, count, heads, grad_out, gradients, AGAIN: tl.constexpr, F: tl.constexpr):
    """dq, dk, dv and d bias, likewise."""
    operands, gradients = Operands(*operands), GraphGradients(*gradients)
    if AGAIN:
        begin, end = flagged_run(flags, count)
        for at in range(begin, end):
            if tl.load(flags + at) != 0:
                tile = at // F.num_heads
                pairs = pairs_of_tile(tiles, tile, F)
                differentiate_tile(operands, tiles, tile, pairs, at % F.num_heads, grad_out, gradients, False, F)
    else:
        tile, begin, end = heads_of(heads, F)
        pairs = pairs_of_tile(tiles, tile, F)
        for head in range(begin, end):
            broken = differentiate_tile(operands, tiles, tile, pairs, head, grad_out, gradients, True, F)
            tl.store(flags + tile * F.num_heads + head, (broken != 0.0).to(tl.int8))
