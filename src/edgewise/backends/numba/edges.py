"""Attention over lists of edges, forward: one gathered row of memory serves all heads of an edge.

    per receiver: scores of its edges → scratch → weights → the sum of the values

Lanes are features while a row of memory is read, and heads in the scratch, WIDTH heads together. Every row of the
output is written by the thread that owns it: no atomics, and the same bits for any number of threads.
"""

from typing import Any

import numpy as np

from edgewise.backends.numba.compiled import bound_kernel, inlined
from edgewise.backends.numba.heads import broadcast, heads_of, load_heads, store_heads, stream_heads, width_of
from edgewise.backends.numba.normalize import Column, normalize
from edgewise.backends.numba.pairs import put_scores
from edgewise.backends.numba.simd import WIDE, WIDTH, fill, fma, get, keep_alive, load, pointer, store
from edgewise.backends.numba.tables import (
    BLOCK,
    features,
    first_row,
    is_streamed,
    longest_row,
    no_features,
    pointers_of,
    prefetch_ahead,
    prefetch_next,
    put_factors,
    row_of,
    source,
)


@inlined
def biased(scores: Any, bias: Any, edge: int, group: int) -> Any:
    """s + b of one edge."""
    return scores + load(bias.data, edge * bias.stride + group) if bias.there else scores


@inlined
def put_all_factors(sizes: Any, lists: Any, begin: int, count: int, dropout: Any, factors: Any) -> None:
    """What dropout does to each weight of a run of edges."""
    for e in range(count):
        put_factors(dropout, get(lists.edges, begin + e), sizes.heads, factors, e * sizes.lanes)


@inlined
def drop(sizes: Any, weights: Any, factors: Any, count: int) -> None:
    """Weights times what dropout does to them."""
    for at in range(0, count * sizes.lanes, WIDTH):
        store(weights, at, load(weights, at) * load(factors, at))


@inlined
def sum_row(sizes: Any, lists: Any, begin: int, count: int, value: Any, edge_value: Any, weights: Any, so_far: Any,
            out: Any, out_at: int, streams: bool, none: Any) -> None:  # fmt: skip
    """out = Σ α (v + v^e), in blocks of edges whose values stay in the first cache for all heads."""
    step = sizes.value_dim
    for start in range(0, max(count, 1), BLOCK):
        stop = min(start + BLOCK, count)
        for head in range(0, sizes.heads, heads_of(none)):
            for d in range(0, sizes.value_dim, width_of(none)):
                feature, at = head * step + d, get(value.heads, head) + d
                edge_at = get(edge_value.heads, head) + d if edge_value.there else 0
                sums = load_heads(so_far, feature, step, none) if start > 0 else none

                for position in range(begin + start, begin + stop):
                    if feature == 0:
                        prefetch_ahead(lists, position, value)
                    row, edge = (
                        get(lists.neighbors, position) * value.stride,
                        get(lists.rows, position) * edge_value.stride,
                    )
                    value_lanes = features(value, row + at, edge_value, edge + edge_at, step, none)
                    sums = fma(broadcast(weights, (position - begin) * sizes.lanes + head, none), value_lanes, sums)

                if stop < count:
                    store_heads(so_far, feature, step, sums)
                elif streams:
                    stream_heads(out.data, out_at + feature, step, sums)
                else:
                    store_heads(out.data, out_at + feature, step, sums)


@bound_kernel
def forward(first, step, call, lists, chunks, operands, stats, out):
    """out = Σ α (v + v^e) of every receiver; a and b of each row in `stats`, `(receiver, 2, lane)`."""
    score, normalizer, sizes, dropout = call.score, call.normalizer, call.sizes, call.dropout
    longest, lanes, streams, out = longest_row(lists), sizes.lanes, is_streamed(out), source(out)
    query, key, value, lists = source(operands.query), source(operands.key), source(operands.value), pointers_of(lists)
    edge_key, edge_value, bias = source(operands.edge_key), source(operands.edge_value), source(operands.bias)
    scratch = np.zeros((2, longest * lanes), stats.dtype)
    scores, factors, numbers = pointer(scratch[0]), pointer(scratch[1]), pointer(stats)
    sums = np.zeros(sizes.heads * sizes.value_dim + WIDTH * WIDE + query.width, stats.dtype)
    parts, so_far, query_scratch = (
        pointer(sums),
        pointer(sums[WIDTH * WIDE + query.width :]),
        pointer(sums[WIDTH * WIDE :]),
    )
    zero, none = fill(scores, 0.0), no_features(sizes, scores)

    for chunk in range(first, chunks, step):
        for row in range(first_row(lists, chunk, chunks), first_row(lists, chunk + 1, chunks)):
            begin = get(lists.offsets, row)
            count = get(lists.offsets, row + 1) - begin
            prefetch_next(query, row)
            query_row = row_of(query, row, query_scratch)
            put_scores(score, sizes, lists, begin, count, query_row, key, edge_key, scores, parts, none)

            if bias.there:
                for e in range(count):
                    for group in range(0, lanes, WIDTH):
                        at = e * lanes + group
                        store(scores, at, biased(load(scores, at), bias, get(lists.rows, begin + e), group))

            for group in range(0, lanes, WIDTH):
                a, b = normalize(normalizer, Column(scores, group, lanes, count, zero, zero, False))
                store(numbers, row * 2 * lanes + group, a)
                store(numbers, row * 2 * lanes + lanes + group, b)

            if dropout.rate > 0.0:
                put_all_factors(sizes, lists, begin, count, dropout, factors)
                drop(sizes, scores, factors, count)
            sum_row(sizes, lists, begin, count, value, edge_value, scores, so_far, out, row * out.stride, streams, none)

    keep_alive(scratch)
    keep_alive(sums)
