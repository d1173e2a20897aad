"""Attention over lists of edges, forward: one gathered row of memory serves all heads of an edge.

    per receiver: scores of its edges → scratch → weights → the sum of the values

Lanes are features while a row of memory is read, and heads in the scratch, WIDTH heads together. Every row of the
output is written by the thread that owns it: no atomics, and the same bits for any number of threads.
"""

from typing import Any

import numpy as np

from edgewise.backends.numba.compiled import inlined, kernel
from edgewise.backends.numba.heads import (
    LINE,
    heads_of,
    lay_aside,
    load_heads,
    spread,
    store_heads,
    totals,
    width_of,
)
from edgewise.backends.numba.normalize import Column, normalize
from edgewise.backends.numba.score import finish, pair, vector_of
from edgewise.backends.numba.simd import (
    WIDE,
    WIDTH,
    fill,
    fma,
    get,
    keep,
    load,
    pointer,
    put,
    store,
)
from edgewise.backends.numba.tables import (
    AHEAD,
    BLOCK,
    ask_for,
    features,
    longest_row,
    no_features,
    places,
    put_factors,
    source,
)


@inlined
def scores_of(score: Any, sizes: Any, group: int, query: Any, receiver: int, key: Any, sender: int, edge_key: Any,
              edge: int, parts: Any, none: Any) -> Any:  # fmt: skip
    """s of one edge, for WIDTH heads from `group` on."""
    query_row, key_row, edge_row = receiver * query.stride, sender * key.stride, edge * edge_key.stride
    zero = fill(parts, 0.0)
    if sizes.key_dim == 1:
        own = load(query.data, query_row + group)
        other = features(key, key_row + group, edge_key, edge_row + group, 0, own)
        found = pair(score, zero, own, other, fill(own, 1.0))
    elif sizes.key_dim == 0:
        found = zero
    else:
        step, sums = sizes.key_dim, none
        for head in range(group, min(group + WIDTH, sizes.heads), heads_of(none)):
            sums, query_at, key_at = none, query_row + get(query.heads, head), key_row + get(key.heads, head)
            edge_at = edge_row + get(edge_key.heads, head) if edge_key.there else 0
            for d in range(0, sizes.key_dim, width_of(none)):
                own = load_heads(query.data, query_at + d, step, none)
                other = features(key, key_at + d, edge_key, edge_at + d, step, none)
                sums = pair(score, sums, own, other, vector_of(score, head * step + d, step, none))
            lay_aside(parts, head - group, sums)
        found = totals(parts, sums)
    return finish(score, found)


@inlined
def biased(scores: Any, bias: Any, edge: int, group: int) -> Any:
    """s + b of one edge."""
    return scores + load(bias.data, edge * bias.stride + group) if bias.there else scores


@inlined
def drop(sizes: Any, weights: Any, factors: Any, count: int) -> None:
    """Weights times what dropout does to them."""
    for at in range(0, count * sizes.lanes, WIDTH):
        store(weights, at, load(weights, at) * load(factors, at))


@inlined
def sum_row(sizes: Any, lists: Any, begin: int, count: int, value: Any, edge_value: Any, weights: Any, so_far: Any,
            rows: Any, out: Any, out_at: int, none: Any) -> None:  # fmt: skip
    """out = Σ α (v + v^e), in blocks of edges whose values stay in the first cache for all heads."""
    for start in range(0, max(count, 1), BLOCK):
        stop = min(start + BLOCK, count)
        for e in range(start, stop):
            put(rows, e - start, get(lists.neighbors, begin + e) * value.stride)
            put(rows, BLOCK + e - start, get(lists.edges, begin + e) * edge_value.stride)
        for head in range(0, sizes.heads, heads_of(none)):
            value_at, step = get(value.heads, head), sizes.value_dim
            edge_at = get(edge_value.heads, head) if edge_value.there else 0
            for d in range(0, sizes.value_dim, width_of(none)):
                feature = head * step + d
                sums = load_heads(so_far, feature, step, none) if start > 0 else none
                for e in range(start, stop):
                    row, edge = get(rows, e - start), get(rows, BLOCK + e - start)
                    found = features(value, row + value_at + d, edge_value, edge + edge_at + d, step, none)
                    sums = fma(spread(weights, e * sizes.lanes + head, none), found, sums)
                if stop >= count:
                    store_heads(out.data, out_at + feature, step, sums)
                else:
                    store_heads(so_far, feature, step, sums)


@kernel
def forward(
    first,
    step,
    score,
    normalizer,
    sizes,
    lists,
    bounds,
    query,
    key,
    value,
    edge_key,
    edge_value,
    bias,
    dropout,
    stats,
    out,
):
    """out = Σ α (v + v^e) of every receiver; a and b of each row in `stats`, `(receiver, 2, lane)`."""
    longest, lanes, line = longest_row(lists, bounds), sizes.lanes, LINE // key.data.itemsize
    scratch = np.zeros((2, longest * lanes), stats.dtype)
    scores, factors, numbers = pointer(scratch[0]), pointer(scratch[1]), pointer(stats)
    sums = np.zeros(sizes.heads * sizes.value_dim + WIDTH * WIDE, stats.dtype)
    parts, so_far = pointer(sums), pointer(sums[WIDTH * WIDE :])
    memory = np.empty(2 * BLOCK, np.int64)
    rows, zero, none = pointer(memory), fill(scores, 0.0), no_features(sizes, scores)
    query, key, value, out, lists = source(query), source(key), source(value), source(out), places(lists)
    edge_key, edge_value, bias = source(edge_key), source(edge_value), source(bias)
    for piece in range(first, bounds.size - 1, step):
        for row in range(bounds[piece], bounds[piece + 1]):
            begin = get(lists.offsets, row)
            count = get(lists.offsets, row + 1) - begin
            for e in range(count):
                coming = get(lists.neighbors, min(begin + e + AHEAD, lists.last))
                ask_for(key, coming, line)
                ask_for(value, coming, line)
                sender, edge = get(lists.neighbors, begin + e), get(lists.edges, begin + e)
                for group in range(0, lanes, WIDTH):
                    found = scores_of(score, sizes, group, query, row, key, sender, edge_key, edge, parts, none)
                    store(scores, e * lanes + group, biased(found, bias, edge, group))
                if dropout.rate > 0.0:
                    put_factors(dropout, edge, sizes.heads, factors, e * lanes)
            for group in range(0, lanes, WIDTH):
                a, b = normalize(normalizer, Column(scores, group, lanes, count, zero, zero, False))
                store(numbers, row * 2 * lanes + group, a)
                store(numbers, row * 2 * lanes + lanes + group, b)
            if dropout.rate > 0.0:
                drop(sizes, scores, factors, count)
            sum_row(sizes, lists, begin, count, value, edge_value, scores, so_far, rows, out, row * out.stride, none)
    keep(scratch)
    keep(sums)
    keep(memory)
