"""Parts of the kernels over edges: tiles of gathered rows, the pair formula of every score, and its derivatives.

A tile holds the features of some edges, `(edge, head · dim)`, flat, so that one gathered row of memory is one run of
addresses; it is seen as `(edge, head, dim)` only to sum each head. Everything is float32 from the load on.

    raw = Σ_d pair(q_d, k_d)        s = finish(raw)
    dq_d = ds' · toward_query       dk_d = ds' · toward_key       dv_d = ds' · toward_vector       ds' = d_raw_of(s, ds)

Tables and forms are named tuples, which kernels take as they are: tables hold pointers and numbers, a form is compiled
in.
"""
# mypy: ignore-errors

from typing import Any, NamedTuple

import triton.language as tl

import triton
from edgewise.backends.triton.formulas import activated, activation_derivative


class HeadTable(NamedTuple):
    """Rows of heads in memory, features of a head next to each other."""

    data: Any
    """Where the first number is."""
    row: Any
    """From a row to the next."""
    head: Any
    """From a head to the next; 0 where all heads read the same."""


class EdgeLists(NamedTuple):
    """The edges of each row, as a plan has them."""

    offsets: Any
    neighbors: Any
    edges: Any


class Form(NamedTuple):
    """What is compiled in: which formulas, and which sizes."""

    kind: str
    activation: str = ""
    root: bool = False
    steep: bool = False
    """Whether the slope of GATv2 is not one above 0, up to 1, with which LeakyReLU is the larger of z and slope · z."""
    normalizer: str = ""
    given: bool = False
    """Whether the weights were made beforehand."""
    drops: bool = False
    carries: bool = False
    """Whether edges have keys or values of their own."""
    shares: bool = False
    """Whether the keys are the values too, as in GATv2: they are gathered once."""
    sums: bool = False
    """Whether keys and values are one tensor, of which there is one gradient."""
    both: bool = False
    """Whether edges have one tensor for their keys and their values, likewise."""
    num_heads: int = 0
    key_dim: int = 0
    value_dim: int = 0
    heads: int = 0
    """Heads of a program, a power of two."""
    key_width: int = 0
    """key_dim, or the power of two above it."""
    value_width: int = 0
    """value_dim, or the power of two above it."""
    rows: int = 0
    """Rows of a program."""
    block: int = 0
    """Edges of each row that are read at once."""
    short: bool = False
    """Whether they are all that a row has: then the loop over blocks falls away, which costs as much again."""
    unit: int = 1
    """A power of two that divides all distances between rows and between heads: so many numbers may be read at once."""


@triton.constexpr_function
def form_of(forms, level):
    """The form of a level, compiled in."""
    return forms[level]


@triton.jit
def channels(group, HEADS: tl.constexpr, DIM: tl.constexpr):
    """The head and the feature of each channel of a tile."""
    channel = tl.arange(0, HEADS * DIM)
    return group * HEADS + channel // DIM, channel % DIM


@triton.jit
def places(table, row, head, F: tl.constexpr):
    """Where each head of each row begins; in int64, since a table, and what lies before a head, may exceed 2³¹."""
    unit: tl.constexpr = F.unit
    rows, heads = row.to(tl.int64) * table.row, head.to(tl.int64) * table.head
    if unit > 1:
        rows, heads = tl.multiple_of(rows, unit), tl.multiple_of(heads, unit)
    return rows[:, None] + heads[None, :]


@triton.jit
def gathered(table, row, there, group, DIM: tl.constexpr, PADDED: tl.constexpr, F: tl.constexpr):
    """The rows of a table as a tile; zeros where there is none."""
    head, feature = channels(group, F.heads, PADDED)
    at = places(table, row, head, F) + feature[None, :]
    if F.num_heads % F.heads == 0 and DIM == PADDED:
        features = tl.load(table.data + at, mask=there[:, None], other=0.0)
    else:
        inside = (head < F.num_heads) & (feature < DIM)
        features = tl.load(table.data + at, mask=there[:, None] & inside[None, :], other=0.0)
    return features.to(tl.float32)


@triton.jit
def put(table, row, there, group, tile, DIM: tl.constexpr, PADDED: tl.constexpr, F: tl.constexpr):
    """A tile into the rows of a table."""
    head, feature = channels(group, F.heads, PADDED)
    at = places(table, row, head, F) + feature[None, :]
    tile = tile.to(table.data.dtype.element_ty)
    if F.num_heads % F.heads == 0 and DIM == PADDED:
        tl.store(table.data + at, tile, mask=there[:, None])
    else:
        inside = (head < F.num_heads) & (feature < DIM)
        tl.store(table.data + at, tile, mask=there[:, None] & inside[None, :])


@triton.jit
def numbers_of(table, row, there, group, F: tl.constexpr):
    """One number a head, `(row, head)`; 0 where there is none."""
    head = group * F.heads + tl.arange(0, F.heads)
    at = row.to(tl.int64)[:, None] * table.row + head.to(tl.int64)[None, :] * table.head
    return tl.load(table.data + at, mask=there[:, None] & (head < F.num_heads)[None, :], other=0.0).to(tl.float32)


@triton.jit
def put_numbers(table, row, there, group, numbers, F: tl.constexpr):
    """One number a head into the rows of a table."""
    head = group * F.heads + tl.arange(0, F.heads)
    at = row.to(tl.int64)[:, None] * table.row + head.to(tl.int64)[None, :] * table.head
    numbers = numbers.to(table.data.dtype.element_ty)
    tl.store(table.data + at, numbers, mask=there[:, None] & (head < F.num_heads)[None, :])


@triton.jit
def vector_of(vector, group, F: tl.constexpr):
    """The vector of a score as a tile of one row; 1 where it has none."""
    if vector is None:
        return tl.full((1, F.heads * F.key_width), 1.0, tl.float32)
    else:
        head, feature = channels(group, F.heads, F.key_width)
        inside = (head < F.num_heads) & (feature < F.key_dim)
        return tl.load(vector + head * F.key_dim + feature, mask=inside, other=0.0)[None, :]


@triton.jit
def spread(numbers, DIM: tl.constexpr):
    """`(edge, head)` as a tile, each number for all features of its head."""
    rows: tl.constexpr = numbers.shape[0]
    heads: tl.constexpr = numbers.shape[1]
    return tl.reshape(tl.broadcast_to(tl.expand_dims(numbers, 2), (rows, heads, DIM)), (rows, heads * DIM))


@triton.jit
def per_head(tile, DIM: tl.constexpr):
    """Σ over the features of each head, `(edge, head)`."""
    rows: tl.constexpr = tile.shape[0]
    heads: tl.constexpr = tile.shape[1] // DIM
    return tl.sum(tl.reshape(tile, (rows, heads, DIM)), 2)


@triton.jit
def over_edges(tile, ROWS: tl.constexpr):
    """Σ over the edges of each of the rows that a tile holds together, `(row, channel)`."""
    edges: tl.constexpr = tile.shape[0] // ROWS
    width: tl.constexpr = tile.shape[1]
    if ROWS == 1:
        return tl.expand_dims(tl.sum(tile, 0), 0)
    else:
        return tl.sum(tl.reshape(tile, (ROWS, edges, width)), 1)


@triton.jit
def max_of_edges(numbers, ROWS: tl.constexpr):
    """The largest over the edges of each row, `(row, head)`."""
    edges: tl.constexpr = numbers.shape[0] // ROWS
    width: tl.constexpr = numbers.shape[1]
    if ROWS == 1:
        return tl.expand_dims(tl.max(numbers, 0), 0)
    else:
        return tl.max(tl.reshape(numbers, (ROWS, edges, width)), 1)


@triton.jit
def for_edges(tile, BLOCK: tl.constexpr):
    """`(row, channel)` for each of the edges of each row, `(row · BLOCK, channel)`."""
    rows: tl.constexpr = tile.shape[0]
    width: tl.constexpr = tile.shape[1]
    if rows == 1:
        return tl.broadcast_to(tile, (BLOCK, width))
    else:
        return tl.reshape(tl.broadcast_to(tl.expand_dims(tile, 1), (rows, BLOCK, width)), (rows * BLOCK, width))


@triton.jit
def block_of(lists, begin, end, at, F: tl.constexpr):
    """The next edges of each row: neighbor, the caller's number, and whether there is one, `(row · block)`."""
    position = (begin + at)[:, None] + tl.arange(0, F.block)[None, :]
    there = tl.reshape(position < end[:, None], (F.rows * F.block,))
    position = tl.reshape(position, (F.rows * F.block,))
    neighbor = tl.load(lists.neighbors + position, mask=there, other=0)
    return neighbor, tl.load(lists.edges + position, mask=there, other=0), there


@triton.jit
def longest(begin, end, F: tl.constexpr):
    """The most edges of a program's rows."""
    if F.short:
        most: tl.constexpr = F.block
        return most
    else:
        return tl.max(end - begin, 0)


@triton.jit
def tile_of(chunks, tile):
    """The first chunk of a tile, and its level."""
    return tl.load(chunks.firsts + tile), tl.load(chunks.levels + tile)


@triton.jit
def chunk_of(chunks, first, F: tl.constexpr):
    """The chunks of a tile: row, first place, one past the last, slot, and whether there is one, `(row)`."""
    chunk = first + tl.arange(0, F.rows)
    slot = tl.load(chunks.slots + chunk)
    row, begin, end = tl.load(chunks.rows + chunk), tl.load(chunks.starts + chunk), tl.load(chunks.stops + chunk)
    return row, begin, end, slot, slot > -2  # which is NO_ROW of work.py: kernels read no globals


@triton.jit
def bent(z, slope, F: tl.constexpr):
    """LeakyReLU(z)."""
    return tl.where(z > 0.0, z, z * slope) if F.steep else tl.maximum(z, z * slope)


@triton.jit
def scored(query, key, vector, number, F: tl.constexpr):
    """s of each edge and head, from tiles of queries and keys."""
    if F.kind == "Dot":
        return number * per_head(query * key, F.key_width)
    elif F.kind == "GATv2":
        return per_head(vector * bent(query + key, number, F), F.key_width)
    elif F.kind == "Additive":
        return per_head(vector * activated(query + key, F), F.key_width)
    else:
        gap = query - key
        squares = per_head(gap * gap, F.key_width)
        return -tl.sqrt(squares) if F.root else -squares


@triton.jit
def toward_query(d_raw, query, key, vector, number, F: tl.constexpr):
    """What each pair adds to the gradient of the query; `d_raw` as a tile."""
    if F.kind == "Dot":
        return d_raw * key
    elif F.kind == "GATv2":
        return d_raw * tl.where(query + key > 0.0, vector, vector * number)
    elif F.kind == "Additive":
        return d_raw * vector * activation_derivative(query + key, F)
    else:
        return d_raw * 2.0 * (query - key)


@triton.jit
def toward_key(d_raw, query, key, vector, number, F: tl.constexpr):
    """What each pair adds to the gradient of the key; `d_raw` as a tile."""
    if F.kind == "Dot":
        return d_raw * query
    elif F.kind == "Distance":
        return d_raw * 2.0 * (key - query)
    else:
        return toward_query(d_raw, query, key, vector, number, F)


@triton.jit
def toward_vector(d_raw, query, key, number, F: tl.constexpr):
    """What each pair adds to the gradient of the vector; `d_raw` as a tile."""
    z = query + key
    if F.kind == "GATv2":
        return d_raw * bent(z, number, F)
    else:
        return d_raw * activated(z, F)


@triton.jit
def factors_of_edges(seed, edge, group, dropout, F: tl.constexpr):
    """What dropout does to the weight of each edge and head: 0, or 1 / (1 − dropout); the same in every kernel."""
    head = (group * F.heads + tl.arange(0, F.heads)).to(tl.uint32)[None, :]
    edge = edge.to(tl.uint32)[:, None]
    zero = (edge + head) * 0
    first, _, _, _ = tl.philox(tl.load(seed), edge + zero, head + zero, zero, zero)
    return tl.where(tl.uint_to_uniform_float(first) < dropout, 0.0, 1.0 / (1.0 - dropout))
