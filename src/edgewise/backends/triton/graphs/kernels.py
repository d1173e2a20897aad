"""Attention within small graphs: a program has whole graphs and a head, every pair of their nodes at once.

    forward    scores of all pairs → weights of those that are edges → the sum of the values
    backward   the same again, and all gradients in one pass: nobody else has these nodes

Nothing is gathered: nodes of a tile lie next to each other. Scores and sums are products of matrices; which pairs are
edges is read from bits, and the number of an edge from how many bits stand before it.

Such a product multiplies all weights, also those of pairs that are no edge, and 0 · ∞ is NaN. So what comes out with
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
"""Flags that a program looks at."""


class Tiles(NamedTuple):
    """Where the nodes and edges of each tile are; see `work.Packing`."""

    firsts: Any
    counts: Any
    words: Any
    seen: Any
    """The bits."""
    offsets: Any
    edges: Any


class Gradients(NamedTuple):
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
    """Receivers that are looked at together."""


class Pairs(NamedTuple):
    """Some receivers of a tile with all its senders, `(row, node)`."""

    row: Any
    """The receivers, counted within the tile."""
    seen: Any
    """1 where there is an edge."""
    edge: Any
    """The caller's number of each edge, where it is needed."""


@triton.jit
def home_of(table, row, head):
    """Where a head of a row begins, in int64."""
    zero = tl.full((), 0, tl.int64)
    return table.data + (zero + row) * table.row + (zero + head) * table.head


@triton.jit
def nodes_of(table, first, node, count, head, DIM: tl.constexpr, WIDTH: tl.constexpr, F: tl.constexpr):
    """A head of some nodes of a tile, `(node, feature)`; zeros where there is none."""
    feature = tl.arange(0, WIDTH)
    home = home_of(table, first, head)
    inside = (node < count)[:, None]
    if DIM != WIDTH:
        inside = inside & (feature < DIM)[None, :]
    found = tl.load(home + (node[:, None] * table.row + feature[None, :]), mask=inside, other=0.0)
    return found if F.compiled or found.dtype != tl.bfloat16 else found.to(tl.float32)


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
def pairs_of(tiles, tile, first, count, begin, NUMBERED: tl.constexpr, F: tl.constexpr):
    """The next receivers of a tile, and which senders each of them sees."""
    words: tl.constexpr = F.nodes // 32
    row = begin + tl.arange(0, F.rows)
    at = tl.load(tiles.words + tile) + row[:, None] * words + tl.arange(0, words)[None, :]
    bits = tl.load(tiles.seen + at, mask=(row < count)[:, None], other=0)
    seen = (tl.expand_dims(bits, 2) >> tl.arange(0, 32)[None, None, :]) & 1
    seen = tl.reshape(seen, (F.rows, F.nodes))
    edge = seen
    if NUMBERED:
        before = tl.cumsum(seen, 1) - seen
        offset = tl.load(tiles.offsets + first + row, mask=row < count, other=0)
        edge = tl.load(tiles.edges + offset[:, None] + before, mask=seen != 0, other=0)
    return Pairs(row, seen, edge)


@triton.jit
def scores_of(operands, queries, keys, pairs, head, F: tl.constexpr):
    """s + b of every pair, −∞ where there is no edge."""
    if F.kind == "Dot":
        score = product(queries, tl.trans(keys)) * operands.number
    else:
        score = tl.full((F.rows, F.nodes), 0.0, tl.float32) + operands.number
    if operands.bias is not None:
        at = home_of(operands.bias, pairs.edge, head)
        score += tl.load(at, mask=pairs.seen != 0, other=0.0).to(tl.float32)
    return tl.where(pairs.seen != 0, score, float("-inf"))


@triton.jit
def row_weights(score, seen, F: tl.constexpr):
    """α of every pair; 0 where there is no edge."""
    there = seen != 0
    if F.normalizer == "Softmax":
        share = tl.exp(score - finite(tl.max(score, 1))[:, None])
        total = tl.sum(share, 1)
        return share * (1.0 / tl.where(total == 0.0, 1.0, total))[:, None]
    elif F.normalizer == "Mean":
        row_sum = 1.0 / tl.maximum(tl.sum(seen, 1), 1).to(tl.float32)
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
def factors_of_pairs(operands, edge, head, F: tl.constexpr):
    """What dropout does to each weight, by the number of its edge: the same as in the kernels over lists."""
    edge = edge.to(tl.uint32)
    zero = edge * 0
    chance, _, _, _ = tl.philox(tl.load(operands.seed), edge, (zero + head).to(tl.uint32), zero, zero)
    return tl.where(tl.uint_to_uniform_float(chance) < operands.dropout, 0.0, 1.0 / (1.0 - operands.dropout))


@triton.jit
def is_broken(tile):
    """NaN where anything in a tile is not finite, else 0."""
    return tl.sum(tl.sum(tile * 0.0, 1), 0)


@triton.jit
def attend_tile(operands, tiles, tile, head, out, WHOLE: tl.constexpr, F: tl.constexpr):
    """out = Σ α v of a head of the nodes of a tile; and whether all of it is finite, see `is_broken`."""
    first, count = tl.load(tiles.firsts + tile), tl.load(tiles.counts + tile)
    node = tl.arange(0, F.nodes)
    numbered: tl.constexpr = F.drops or operands.bias is not None
    keys = operand_of(operands.key, first, node, count, head, F)
    values = nodes_of(operands.value, first, node, count, head, F.value_dim, F.value_width, F)
    broken = 0.0
    for begin in range(0, count, F.rows):
        pairs = pairs_of(tiles, tile, first, count, begin, numbered, F)
        queries = operand_of(operands.query, first, pairs.row, count, head, F)
        score = scores_of(operands, queries, keys, pairs, head, F)
        weight = row_weights(score, pairs.seen, F)
        if F.drops:
            weight *= factors_of_pairs(operands, pairs.edge, head, F)
        found = mixed(weight, pairs.seen, values, WHOLE)
        put_nodes(out, first, pairs.row, count, head, found, F.value_dim, F.value_width)
        if WHOLE:
            broken += is_broken(found)
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
def differentiate_tile(operands, tiles, tile, head, grad_out, gradients, WHOLE: tl.constexpr, F: tl.constexpr):
    """dq, dk and dv of a head of the nodes of a tile, and d bias of its edges; and whether all are finite."""
    first, count = tl.load(tiles.firsts + tile), tl.load(tiles.counts + tile)
    node = tl.arange(0, F.nodes)
    numbered: tl.constexpr = F.drops or operands.bias is not None
    keys = operand_of(operands.key, first, node, count, head, F)
    values = nodes_of(operands.value, first, node, count, head, F.value_dim, F.value_width, F)
    d_key = tl.full((F.nodes, F.key_width), 0.0, tl.float32)
    d_value = tl.full((F.nodes, F.value_width), 0.0, tl.float32)
    broken = 0.0
    for begin in range(0, count, F.rows):
        pairs = pairs_of(tiles, tile, first, count, begin, numbered, F)
        there = pairs.seen != 0
        queries = operand_of(operands.query, first, pairs.row, count, head, F)
        grad = nodes_of(grad_out, first, pairs.row, count, head, F.value_dim, F.value_width, F)
        score = scores_of(operands, queries, keys, pairs, head, F)
        tl.debug_barrier()  # what comes behind must not start before: its numbers would find no register
        weight = row_weights(score, pairs.seen, F)
        d_weight = product(grad, tl.trans(values))
        tl.debug_barrier()
        dropped = tl.where(there, weight, 0.0)  # a row that is broken is so everywhere
        if F.drops:
            factor = factors_of_pairs(operands, pairs.edge, head, F)
            dropped, d_weight = dropped * factor, d_weight * factor
        if gradients.value is not None:
            if F.drops:  # read again, as the queries are below: they do not stay in registers so long
                grad = nodes_of(grad_out, first, pairs.row, count, head, F.value_dim, F.value_width, F)
            d_value += mixed(tl.trans(dropped), tl.trans(pairs.seen), grad, WHOLE)
        if gradients.bias is not None or gradients.query is not None or gradients.key is not None:
            delta = delta_of(weight, d_weight, there, F)
            d_score = tl.where(there, d_score_of(weight, d_weight, delta[:, None], F), 0.0)
            if gradients.bias is not None:
                at = home_of(gradients.bias, pairs.edge, head)
                tl.store(at, d_score.to(gradients.bias.data.dtype.element_ty), mask=there)
            d_score = d_raw_of(d_score, score, operands.number, F)
            if gradients.query is not None:
                found = mixed(d_score, pairs.seen, keys, WHOLE)
                put_nodes(gradients.query, first, pairs.row, count, head, found, F.key_dim, F.key_width)
                if WHOLE:
                    broken += is_broken(found)
            if gradients.key is not None:
                queries = operand_of(operands.query, first, pairs.row, count, head, F)
                d_key += mixed(tl.trans(d_score), tl.trans(pairs.seen), queries, WHOLE)
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
    """The run of flags that a program looks at: an empty one where none is set."""
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
def forward(operands, tiles, flags, count, heads, out, AGAIN: tl.constexpr, F: tl.constexpr):
    """out = Σ α v of a tile and some heads; or of the flagged ones of a run of such pairs."""
    operands = Operands(*operands)
    if AGAIN:
        begin, end = flagged_run(flags, count)
        for at in range(begin, end):
            if tl.load(flags + at) != 0:
                attend_tile(operands, tiles, at // F.num_heads, at % F.num_heads, out, False, F)
    else:
        tile, begin, end = heads_of(heads, F)
        for head in range(begin, end):
            broken = attend_tile(operands, tiles, tile, head, out, True, F)
            tl.store(flags + tile * F.num_heads + head, (broken != 0.0).to(tl.int8))


@triton.jit
def backward(operands, tiles, flags, count, heads, grad_out, gradients, AGAIN: tl.constexpr, F: tl.constexpr):
    """dq, dk, dv and d bias, likewise."""
    operands, gradients = Operands(*operands), Gradients(*gradients)
    if AGAIN:
        begin, end = flagged_run(flags, count)
        for at in range(begin, end):
            if tl.load(flags + at) != 0:
                differentiate_tile(operands, tiles, at // F.num_heads, at % F.num_heads, grad_out, gradients, False, F)
    else:
        tile, begin, end = heads_of(heads, F)
        for head in range(begin, end):
            broken = differentiate_tile(operands, tiles, tile, head, grad_out, gradients, True, F)
            tl.store(flags + tile * F.num_heads + head, (broken != 0.0).to(tl.int8))
