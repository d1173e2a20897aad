"""Attention over many edges, backward, where a score is made of one number a head, as GAT's: three passes.

    backward_values     per sender: dV, and dO · (v + v^e) of each edge
    backward_receivers  per receiver: what it owns, from these products, and d_score of each edge in their place
    backward_keys       per sender: dK, from d_score

Rows of values and of dO are wide, and those of keys and queries are not. So dO alone is gathered, and once; the two
passes of `edges_backward` gather both.
"""

import numpy as np

from edgewise.backends.numba.compiled import bound_kernel
from edgewise.backends.numba.edges import biased, drop, put_all_factors
from edgewise.backends.numba.edges_backward import clear, copy, load_products, narrow_sender_sums, sender_sums
from edgewise.backends.numba.normalize import weigh
from edgewise.backends.numba.pairs import put_scores_and_products
from edgewise.backends.numba.simd import WIDE, WIDTH, get, keep_alive, load, pointer, prefetch, store
from edgewise.backends.numba.tables import (
    AHEAD,
    BLOCK,
    first_row,
    is_streamed,
    no_features,
    pointers_of,
    prefetch_ahead,
    prefetch_next,
    row_of,
    source,
)


@bound_kernel
def backward_values(first, step, call, lists, chunks, operands, rows, grad_value):
    """dv; and dO · (v + v^e) of each edge, before dropout, into `rows.products`."""
    score, normalizer, sizes, dropout = call.score, call.normalizer, call.sizes, call.dropout
    stats, streams, grad_value = rows.stats, is_streamed(grad_value), source(grad_value)
    query, key, value, lists = source(operands.query), source(operands.key), source(operands.value), pointers_of(lists)
    edge_key, edge_value, bias = source(operands.edge_key), source(operands.edge_value), source(operands.bias)
    grad_out, products, lanes, numbers = source(rows.grad_out), source(rows.products), sizes.lanes, pointer(stats)
    scratch = np.zeros((4, BLOCK * lanes), stats.dtype)
    scores, weights, product_scratch, factors = (
        pointer(scratch[0]), pointer(scratch[1]), pointer(scratch[2]), pointer(scratch[3]),
    )  # fmt: skip
    sums = np.zeros(WIDTH * WIDE + key.width + 2 * value.width, stats.dtype)
    parts, key_scratch = pointer(sums), pointer(sums[WIDTH * WIDE :])
    value_sums = pointer(sums[WIDTH * WIDE + key.width :])
    value_scratch = pointer(sums[WIDTH * WIDE + key.width + value.width :])
    none = no_features(sizes, weights)

    for chunk in range(first, chunks, step):
        for row in range(first_row(lists, chunk, chunks), first_row(lists, chunk + 1, chunks)):
            begin, end = get(lists.offsets, row), get(lists.offsets, row + 1)
            prefetch_next(key, row)
            prefetch_next(value, row)
            key_row, value_row = row_of(key, row, key_scratch), row_of(value, row, value_scratch)
            clear(value_sums, value.width)

            for start in range(begin, end, BLOCK):
                count = min(BLOCK, end - start)
                put_scores_and_products(
                    score, sizes, lists, start, count, key_row, query, edge_key, value_row, grad_out, edge_value, True,
                    scores, product_scratch, parts, none,
                )  # fmt: skip

                for e in range(count):
                    coming = min(start + e + AHEAD, lists.last)
                    prefetch(numbers, get(lists.neighbors, coming) * 2 * lanes)
                    prefetch(products.data, get(lists.edges, coming) * products.stride)
                    receiver, edge = get(lists.neighbors, start + e), get(lists.rows, start + e)
                    edge_at = get(lists.edges, start + e) * products.stride

                    for group in range(0, lanes, WIDTH):
                        at, of = e * lanes + group, receiver * 2 * lanes + group
                        a, b = load(numbers, of), load(numbers, of + lanes)
                        store(weights, at, weigh(normalizer, biased(load(scores, at), bias, edge, group), a, b))
                        store(products.data, edge_at + group, load(product_scratch, at))

                if dropout.rate > 0.0:
                    put_all_factors(sizes, lists, start, count, dropout, factors)
                    drop(sizes, weights, factors, count)
                sender_sums(
                    score, sizes, lists, start, count, query, key_row, edge_key, grad_out, scores, weights, scores,
                    value, value_sums, none,
                )  # fmt: skip

            copy(grad_value.data, row * value.width, value_sums, value.width, streams)

    keep_alive(scratch)
    keep_alive(sums)


@bound_kernel
def backward_keys(first, step, call, lists, chunks, operands, rows, grad_key):
    """dk."""
    score, sizes, streams, grad_key = call.score, call.sizes, is_streamed(grad_key), source(grad_key)
    query, key, edge_key, lists = (
        source(operands.query), source(operands.key), source(operands.edge_key), pointers_of(lists),
    )  # fmt: skip
    products, lanes = source(rows.products), sizes.lanes
    scratch = np.zeros(BLOCK * lanes + 2 * key.width, rows.stats.dtype)
    d_scores, sums = pointer(scratch), pointer(scratch[BLOCK * lanes :])
    key_scratch = pointer(scratch[BLOCK * lanes + key.width :])

    for chunk in range(first, chunks, step):
        for row in range(first_row(lists, chunk, chunks), first_row(lists, chunk + 1, chunks)):
            begin, end = get(lists.offsets, row), get(lists.offsets, row + 1)
            key_row = row_of(key, row, key_scratch)
            clear(sums, key.width)

            for start in range(begin, end, BLOCK):
                count = min(BLOCK, end - start)
                for e in range(count):
                    prefetch_ahead(lists, start + e, query)
                load_products(sizes, lists, start, count, products, d_scores)
                narrow_sender_sums(score, sizes, lists, start, count, query, key_row, edge_key, d_scores, sums)

            copy(grad_key.data, row * key.width, sums, key.width, streams)

    keep_alive(scratch)
