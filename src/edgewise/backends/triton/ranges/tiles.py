"""Parts of the kernels over runs of keys: blocks of nodes and of pairs, and what is computed of a pair from its score.

A program has a block of queries and a block of keys, `(query, key)`, and walks over the blocks of the other side.
Everything is float32 from the load on, but products of half precision. The scores of a block are in `scores`.
"""
# mypy: ignore-errors

from typing import Any, NamedTuple

import triton.language as tl

import triton

NODES = tl.constexpr(128)
"""Nodes that lie next to each other in copies of queries and keys, two features of each; a multiple of every block."""


class MemberPanel(NamedTuple):
    """Nodes of every member: what member (outer, inner) has at (node, feature), or a number a pair."""

    data: Any
    """Where the first number is."""
    outer: Any
    """From one outer member to the next; 0 where all have the same."""
    inner: Any
    row: Any
    column: Any


class KeyRuns(NamedTuple):
    """Query i of a member sees keys `starts[i]:stops[i]`."""

    starts: Any
    stops: Any
    outer: Any
    inner: Any


class Counts(NamedTuple):
    """How many of everything there are."""

    queries: Any
    keys: Any
    inner: Any
    """Inner members of an outer one."""
    members: Any
    """Inner members of all."""


class Member(NamedTuple):
    """A member of the batch."""

    number: Any
    outer: Any
    inner: Any


class QueryBlock(NamedTuple):
    """A block of queries, and what its program knows of it."""

    member: Any
    first: Any
    tile: Any
    """The queries as scores read them, see `operand_of`."""
    start: Any
    stop: Any
    spans: Any
    factored: Any
    """See `scores.is_factored`."""


class Stored(NamedTuple):
    """What passes read of all queries."""

    out: Any
    grad_out: Any
    stats: Any
    """Two numbers a row, from the forward pass; None where the normalizer needs none."""
    deltas: Any
    """Δ, which the first pass writes; None where the normalizer subtracts none."""


class QueryGradients(NamedTuple):
    """What the first pass writes; None where nothing is wanted."""

    query: Any
    vector: Any
    """A part for each block of queries."""
    bias: Any
    """A number a pair."""
    rows: Any
    """d bias, summed over the keys of each query."""


class KeyGradients(NamedTuple):
    """What the second pass writes; None where nothing is wanted."""

    key: Any
    value: Any
    columns: Any
    """d bias, summed over the queries of each key."""


class RowGradients(NamedTuple):
    """What the backward pass knows of a block of queries."""

    tile: Any
    """dO, `(query, value_dim)`."""
    panel: Any
    row_max: Any
    row_sum: Any
    """The second number of each row."""
    delta: Any


class Along(NamedTuple):
    """What pairs are added up from where the score is not a product."""

    query: Any
    """Copies of the queries, features next to each other."""
    key: Any
    scratch: Any
    """Memory of a program for d_raw of a block."""


class Spans(NamedTuple):
    """Blocks of keys that some query of a block sees: `begin:end`; all queries see all of `whole_begin:whole_end`."""

    begin: Any
    whole_begin: Any
    whole_end: Any
    end: Any


class PanelOperands(NamedTuple):
    """What scores and values are made of.

    Kernels build tuples of tuples again: in loops, triton 3.6 loses the constants of those that come as arguments.
    """

    query: Any
    """As scores read it: nodes where they are products, else nodes next to each other."""
    key: Any
    value: Any
    bias: Any
    """A number a pair, or absent."""
    vector: Any
    """The vector of the score, `(member, steps)`, or absent."""
    max_abs: Any
    """The largest |q| and the largest |k|."""
    number: Any
    dropout: Any
    seed: Any


class Tiling(NamedTuple):
    """What is compiled in: which formulas, and which sizes."""

    kind: str
    activation: str
    root: bool
    normalizer: str
    drops: bool
    compiled: bool
    """Whether for a device: the interpreter multiplies no bfloat16 and knows no instruction of the device."""
    key_dim: int
    value_dim: int
    key_width: int
    value_width: int
    steps: int
    """Features that scores add one by one: key_dim, filled up to a multiple of four with zeros."""
    queries: int
    keys: int
    lanes: int
    """Queries that the threads have side by side, each with 16 keys."""
    features_at_once: int
    """Features of which a product of nodes reads so many at a time."""


@triton.jit
def member_of(number, extent):
    """A member by its number."""
    number = tl.full((), 0, tl.int64) + number
    return Member(number, number // extent.inner, number % extent.inner)


@triton.jit
def start_of(panel, member):
    """Where a member begins."""
    return member.outer * panel.outer + member.inner * panel.inner


@triton.jit
def nodes_of(panel, member, first, count, BLOCK: tl.constexpr, DIM: tl.constexpr, WIDTH: tl.constexpr,
             F: tl.constexpr, begin=0):  # fmt: skip
    """A block of nodes `(node, feature)`, of all features or from some on; zeros beyond the last."""
    node, feature = tl.arange(0, BLOCK), begin + tl.arange(0, WIDTH)
    at = panel.data + (start_of(panel, member) + (tl.full((), 0, tl.int64) + first) * panel.row)
    at = at + (node[:, None] * panel.row + feature[None, :] * panel.column)
    inside = (first + node < count)[:, None]
    if DIM % WIDTH != 0:
        inside = inside & (feature < DIM)[None, :]
    nodes = tl.load(at, mask=inside, other=0.0)
    return nodes if F.compiled or nodes.dtype != tl.bfloat16 else nodes.to(tl.float32)


@triton.jit
def put_nodes(panel, member, first, count, tile, BLOCK: tl.constexpr, DIM: tl.constexpr, WIDTH: tl.constexpr):
    """The other way."""
    node, feature = tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    at = panel.data + (start_of(panel, member) + (tl.full((), 0, tl.int64) + first) * panel.row)
    at = at + (node[:, None] * panel.row + feature[None, :] * panel.column)
    inside = (first + node < count)[:, None] & (feature < DIM)[None, :]
    tl.store(at, tile.to(panel.data.dtype.element_ty), mask=inside)


@triton.jit
def operand_of(panel, member, first, count, BLOCK: tl.constexpr, F: tl.constexpr):
    """A block of queries or keys as scores read it: the nodes; or where their first feature is, each."""
    if F.kind == "Dot":
        return nodes_of(panel, member, first, count, BLOCK, F.key_dim, F.key_width, F)
    elif F.kind == "Constant":
        return 0.0
    else:
        return panel.data + (start_of(panel, member) + (first // NODES) * (F.steps * NODES) + first % NODES * 2)


@triton.jit
def product(left, right):
    """left · right, added up in float32."""
    return tl.dot(left.to(right.dtype), right, input_precision="tf32x3")


@triton.jit
def product_of_nodes(one, other, left, right, member, first, at, extent, DIM: tl.constexpr, WIDTH: tl.constexpr,
                     F: tl.constexpr):  # fmt: skip
    """Σ over the features of a block of queries `one`, of the panel `left`, and a block of keys `other`.

    What a product of float32 makes of its factors takes more registers than all of their features leave: then it reads
    a few of them at a time, and what was read before is not used, nor held.
    """
    if F.features_at_once < WIDTH:
        sums = tl.full((F.queries, F.keys), 0.0, tl.float32)
        for begin in range(0, WIDTH, F.features_at_once):
            features = nodes_of(left, member, first, extent.queries, F.queries, DIM, F.features_at_once, F, begin)
            others = nodes_of(right, member, at, extent.keys, F.keys, DIM, F.features_at_once, F, begin)
            sums = tl.dot(features, tl.trans(others), sums, input_precision="tf32x3")
        return sums
    else:
        return product(one, tl.trans(other))


@triton.jit
def reloaded(tile, panel, member, first, count, BLOCK: tl.constexpr, DIM: tl.constexpr, WIDTH: tl.constexpr,
            F: tl.constexpr):  # fmt: skip
    """A block of nodes that was read before; read again where products read it piece by piece."""
    if F.features_at_once < WIDTH:
        return nodes_of(panel, member, first, count, BLOCK, DIM, WIDTH, F)
    else:
        return tile


@triton.jit
def mixed(weights, there, rows, WHOLE: tl.constexpr):
    """Σ of rows, weighted; where not all are there, what is not finite reaches only those to whom it is there."""
    if WHOLE:
        return product(weights, rows)
    else:
        sound = tl.abs(rows.to(tl.float32)) < float("inf")
        sums = product(weights, tl.where(sound, rows, 0.0).to(rows.dtype))
        broken = tl.dot(there.to(tl.float16), tl.where(sound, 0.0, 1.0).to(tl.float16))
        return tl.where(broken > 0.0, float("nan"), sums)


@triton.jit
def run_of(runs, member, first, extent, F: tl.constexpr):
    """Starts and stops of a block of queries, and the blocks of keys that they see."""
    query = first + tl.arange(0, F.queries)
    here = query < extent.queries
    at = member.outer * runs.outer + member.inner * runs.inner + query
    start = tl.load(runs.starts + at, mask=here, other=0)
    stop = tl.load(runs.stops + at, mask=here, other=0)
    sees = stop > start
    low = tl.min(tl.where(sees, start, extent.keys), 0)
    high = tl.max(tl.where(sees, stop, 0), 0)

    # What lies beyond the last query is not written anywhere and may see all.
    late = tl.max(tl.where(here, tl.where(sees, start, extent.keys), 0), 0)
    early = tl.min(tl.where(here, tl.where(sees, stop, 0), extent.keys), 0)
    begin = low // F.keys
    end = tl.maximum(tl.cdiv(high, F.keys), begin)
    whole_begin = tl.minimum(tl.maximum(tl.cdiv(late, F.keys), begin), end)
    whole_end = tl.minimum(tl.maximum(early // F.keys, whole_begin), end)

    return start, stop, Spans(begin, whole_begin, whole_end, end)


@triton.jit
def query_block(operands, runs, member, first, factored, extent, F: tl.constexpr):
    """A block of queries and all that its program knows of it."""
    return with_queries(operands, runs_of_block(operands, runs, member, first, factored, extent, F), extent, F)


@triton.jit
def runs_of_block(operands, runs, member, first, factored, extent, F: tl.constexpr):
    """The same without the queries themselves."""
    start, stop, spans = run_of(runs, member, first, extent, F)
    return QueryBlock(member, first, 0.0, start, stop, spans, factored)


@triton.jit
def with_queries(operands, rows, extent, F: tl.constexpr):
    """The block with its queries."""
    tile = operand_of(operands.query, rows.member, rows.first, extent.queries, F.queries, F)
    return QueryBlock(rows.member, rows.first, tile, rows.start, rows.stop, rows.spans, rows.factored)


@triton.jit
def blocks_of(spans, WHOLE: tl.constexpr):
    """How many blocks of keys are seen as a whole, or how many only in part."""
    num_whole = spans.whole_end - spans.whole_begin
    return num_whole if WHOLE else spans.end - spans.begin - num_whole


@triton.jit
def block_at(spans, step, WHOLE: tl.constexpr):
    """Which block of keys is the next of these."""
    if WHOLE:
        return spans.whole_begin + step
    else:
        block = spans.begin + step
        return block + tl.where(block >= spans.whole_begin, spans.whole_end - spans.whole_begin, 0)


@triton.jit
def visible(start, stop, at, F: tl.constexpr):
    """Which pairs of a block are there."""
    key = at + tl.arange(0, F.keys)[None, :]
    return (key >= start[:, None]) & (key < stop[:, None])


@triton.jit
def weights_of(score, row_max, row_sum, there, WHOLE: tl.constexpr, F: tl.constexpr):
    """α of a block from what the forward pass keeps of each row: the largest score, and a second number."""
    if F.normalizer == "Softmax":
        return tl.exp(score - row_max[:, None] - row_sum[:, None])
    elif F.normalizer == "Hardmax":
        best = (score >= row_max[:, None]) & (score > float("-inf"))
        return tl.where(score == score, tl.where(best, row_sum[:, None], 0.0), score)
    elif F.normalizer == "Sparsemax":
        return tl.maximum(score - row_max[:, None] - row_sum[:, None], 0.0, propagate_nan=tl.PropagateNan.ALL)
    elif F.normalizer == "Entmax15":
        above = (score - row_max[:, None]) * 0.5 - row_sum[:, None]
        above = tl.maximum(above, 0.0, propagate_nan=tl.PropagateNan.ALL)
        return above * above
    elif F.normalizer == "Sigmoid":
        return 1.0 / (1.0 + tl.exp(-score))
    elif F.normalizer == "Mean":
        return tl.where(there, row_sum[:, None], 0.0)
    else:
        return score if WHOLE else tl.where(there, score, 0.0)


@triton.jit
def factors_of_pairs(operands, member, first, at, F: tl.constexpr):
    """What dropout does to each weight of a block: 0, or 1 / (1 − dropout); the same wherever it is k_tile."""
    zero = tl.full((F.queries, F.keys), 0, tl.uint32)
    query = zero + (first + tl.arange(0, F.queries)).to(tl.uint32)[:, None]
    key = zero + (at + tl.arange(0, F.keys)).to(tl.uint32)[None, :]
    chance, _, _, _ = tl.philox(tl.load(operands.seed), key, query, zero + member.number.to(tl.uint32), zero)
    return tl.where(tl.uint_to_uniform_float(chance) < operands.dropout, 0.0, 1.0 / (1.0 - operands.dropout))
