"""What the kernels over edges take, and how they read it."""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from edgewise.backends.numba.compiled import inlined
from edgewise.backends.numba.heads import TILE, load_heads, prefetch_tile, zero_lanes
from edgewise.backends.numba.simd import LINE, WIDE, WIDTH, get, load, pointer, prefetch, put, shifted, store

AHEAD = 16
"""How many edges ahead the row of a neighbor is prefetched: some times a memory access over an edge."""
ROWS_AHEAD = 4
"""How many rows ahead that of a node itself is prefetched."""
PAST_CACHES = 2**22
"""Bytes from which on an output is written past the caches: most of it would have left them before it is read again."""
BLOCK = 16
"""Edges taken together, so that what they gather is still in the first cache when it is used again."""


class Lists(NamedTuple):
    """The edges of every row, in the order of the plan."""

    offsets: np.ndarray
    """The edges of row r stand at places offsets[r]:offsets[r + 1]."""
    neighbors: np.ndarray
    """The node at the other end, at each place."""
    edges: np.ndarray
    """The caller's number of the edge, at each place."""
    rows: np.ndarray
    """The row of the edge in what edges carry, at each place: its number, or one that many edges share."""


class Table(NamedTuple):
    """Features of nodes or edges: those of head h of node n begin at data[n · stride + heads[h]]."""

    data: np.ndarray
    stride: int
    """From one node to the next."""
    width: int
    """Features of a node, all heads together."""
    heads: np.ndarray
    """Where each head begins; heads that share features begin at the same place."""


class Absent(NamedTuple):
    """A table that the call does not have; kernels are compiled without what they would do with it."""

    data: np.ndarray
    stride: int
    width: int
    heads: np.ndarray


class Sizes(NamedTuple):
    """What all tables agree on."""

    heads: int
    lanes: int
    """The same, rounded up to whole vectors."""
    key_dim: int
    """Features of a key, a whole number of vectors; 1 where each head has one number, 0 where scores need none."""
    value_dim: int
    """Features of a value, a whole number of vectors."""


class WideSizes(NamedTuple):
    """The same, where dims are whole numbers of wide vectors; its type decides how features are read."""

    heads: int
    lanes: int
    key_dim: int
    value_dim: int


class TiledSizes(NamedTuple):
    """The same, where moreover heads come in whole groups, each with features of its own that follow on each other."""

    heads: int
    lanes: int
    key_dim: int
    value_dim: int


LANES = {Sizes: WIDTH, WideSizes: WIDE, TiledSizes: TILE}
"""How many features are read at once."""


class EdgeOperands(NamedTuple):
    """What scores and values are made of: tables, any of those of the edges absent."""

    query: Table | Absent
    key: Table | Absent
    value: Table | Absent
    edge_key: Table | Absent
    edge_value: Table | Absent
    bias: Table | Absent


class DropoutRule(NamedTuple):
    """Which weights are set to zero: a function of the seed, the edge and the head alone."""

    rate: float
    seed: int


class CallSettings(NamedTuple):
    """What is the same for all rows of a call."""

    score: Any
    """Its type decides which formula is compiled."""
    normalizer: int
    """Its code."""
    sizes: Any
    """Its type decides how features are read."""
    dropout: DropoutRule


class Places(NamedTuple):
    """Lists as the loops read them."""

    offsets: Any
    neighbors: Any
    edges: Any
    rows: Any
    num_rows: int
    last: int


class TableView(NamedTuple):
    """A table as the loops read it."""

    data: Any
    stride: int
    width: int
    heads: Any
    bytes_each: int
    there: bool
    """Whether the call has such a tensor."""


def source(table: Any) -> Any:
    """The pointers of a table."""


@overload(source, strict=False, jit_options={"forceinline": True})
def _source_of(table):
    there, bytes_each = table.instance_class is not Absent, table.types[0].dtype.bitwidth // 8

    def pointers(table):
        data, heads = pointer(table.data), pointer(table.heads)
        return TableView(data, table.stride, table.width, heads, bytes_each, there)

    return pointers


def row_of(table: Any, row: int, scratch: Any) -> Any:
    """A table with one row of another, in the numbers that are computed with: what a row meets each of its neighbors
    with is not converted once for each. `scratch` holds a row."""


@overload(row_of, strict=False, jit_options={"forceinline": True})
def _row_of(table, row, scratch):
    if table.types[0].dtype == scratch.dtype:
        return lambda table, row, scratch: TableView(
            shifted(table.data, row * table.stride), 0, table.width, table.heads, table.bytes_each, table.there
        )

    def converted(table, row, scratch):
        for d in range(0, table.width, WIDTH):
            store(scratch, d, load(table.data, row * table.stride + d))
        return TableView(scratch, 0, table.width, table.heads, table.bytes_each, table.there)

    return converted


@inlined
def is_streamed(table: Any) -> bool:
    """Whether a table that is written once, row after row, is written past the caches: a large one, in whole lines."""
    data = table.data
    in_lines = data.ctypes.data % LINE == 0 and table.width * data.itemsize % LINE == 0
    return in_lines and table.stride == table.width and data.size * data.itemsize >= PAST_CACHES


@inlined
def pointers_of(lists: Any) -> Any:
    """The pointers of lists."""
    at = pointer(lists.offsets), pointer(lists.neighbors), pointer(lists.edges), pointer(lists.rows)
    return Places(at[0], at[1], at[2], at[3], lists.offsets.size - 1, lists.neighbors.size - 1)


@inlined
def first_row(lists: Any, chunk: int, chunks: int) -> int:
    """Where a chunk of work begins: rows are split where they and their edges are alike in number, and the split is the
    same for any number of threads."""
    low, high = 0, lists.num_rows
    before = (lists.num_rows + lists.last + 1) * chunk // chunks
    while low < high:
        middle = (low + high) // 2
        if middle + get(lists.offsets, middle) < before:
            low = middle + 1
        else:
            high = middle
    return low


def no_features(sizes: Any, like: Any) -> Any:
    """Lanes of zeros, as many as features are read at once."""


@overload(no_features, strict=False, jit_options={"forceinline": True})
def _no_features_of(sizes, like):
    count = LANES[sizes.instance_class]
    return lambda sizes, like: zero_lanes(like, count)


@inlined
def chance(seed: int, edge: Any, head: Any) -> Any:
    """A number from 0 to 1 (splitmix64 as a hash of edge, head and seed)."""
    x = np.uint64(edge) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(head) * np.uint64(0xC2B2AE3D27D4EB4F)
    x = (x ^ np.uint64(seed)) * np.uint64(0xD6E8FEB86659FD93)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return np.float64(x >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@inlined
def dropout_factor(dropout: Any, edge: int, head: int) -> Any:
    """1 / (1 − rate) where the weight stays, 0 where it is dropped."""
    return 0.0 if chance(dropout.seed, edge, head) < dropout.rate else 1.0 / (1.0 - dropout.rate)


@inlined
def put_factors(dropout: Any, edge: int, heads: int, factors: Any, at: int) -> None:
    """What dropout does to the weights of an edge, head by head."""
    for head in range(heads):
        put(factors, at + head, dropout_factor(dropout, edge, head))


@inlined
def prefetch_row(table: Any, row: int) -> None:
    """Prefetch a row; it may lie outside the table."""
    at, end = row * table.stride, row * table.stride + table.width
    if table.width % TILE == 0:
        while at < end:
            prefetch_tile(table.data, at)
            at += TILE
    while at < end:
        prefetch(table.data, at)
        at += LINE // table.bytes_each


@inlined
def prefetch_ahead(lists: Any, position: int, table: Any) -> None:
    """Prefetch the row of the neighbor that comes some edges later."""
    prefetch_row(table, get(lists.neighbors, min(position + AHEAD, lists.last)))


@inlined
def prefetch_next(table: Any, row: int) -> None:
    """Prefetch the row of a node that comes soon, where nodes are walked in order: between rows from anywhere the
    processor does not see that these follow on each other."""
    prefetch_row(table, row + ROWS_AHEAD)


@inlined
def features(nodes: Any, node_at: int, edges: Any, edge_at: int, step: int, like: Any) -> Any:
    """Features of a node, and of the edge where edges have some; those of the next head stand `step` further."""
    node_features = load_heads(nodes.data, node_at, step, like)
    return node_features + load_heads(edges.data, edge_at, step, like) if edges.there else node_features


@inlined
def longest_row(lists: Any) -> int:
    """How many edges the longest row has."""
    longest = 1
    for row in range(lists.offsets.size - 1):
        longest = max(longest, int(lists.offsets[row + 1] - lists.offsets[row]))
    return longest
