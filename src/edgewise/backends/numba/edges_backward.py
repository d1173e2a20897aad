"""Attention over lists of edges, backward: two passes, each over the rows that it owns.

    backward_receivers per receiver: scores and weights again, and their derivatives → dQ, d bias, dK^e, dV^e and Δ
    backward_senders   per sender: the weights of its edges again, from a, b and Δ of each receiver → dK, dV

Where edges are few, the first pass saves weight and d_score of each for the second, which has half of its work then;
where they are many, that would be most of the memory of a call. Where scores are made of one number a head and rows
of values are wide, a pass of `edges_backward_narrow` comes before the first then, and one stands for the second.

What is summed over all rows (the vector of a score) is summed for each chunk of work and then over the chunks in order;
the chunks do not depend on the number of threads.
"""

from typing import Any, NamedTuple

import numpy as np

from edgewise.backends.numba.compiled import bound_kernel, inlined
from edgewise.backends.numba.edges import biased, drop, put_all_factors
from edgewise.backends.numba.heads import broadcast, heads_of, load_heads, store_heads, width_of
from edgewise.backends.numba.normalize import Column, d_score_of, delta_of, weigh
from edgewise.backends.numba.pairs import put_narrow_scores, put_scores_and_products
from edgewise.backends.numba.score import d_raw_of, has_vector, toward_key, toward_query, toward_vector, vector_of
from edgewise.backends.numba.simd import WIDE, WIDTH, fill, fma, get, keep_alive, load, pointer, prefetch, store, stream
from edgewise.backends.numba.tables import (
    AHEAD,
    BLOCK,
    Absent,
    Table,
    features,
    first_row,
    is_streamed,
    longest_row,
    no_features,
    pointers_of,
    prefetch_ahead,
    prefetch_next,
    row_of,
    source,
)


@inlined
def clear(target: Any, width: int) -> None:
    """Zeros in scratch."""
    for d in range(0, width, WIDTH):
        store(target, d, fill(target, 0.0))


@inlined
def copy(target: Any, at: int, source: Any, width: int, streams: bool) -> None:
    """From scratch to where a row belongs."""
    if streams:
        for d in range(0, width, WIDTH):
            stream(target, at + d, load(source, d))
    else:
        for d in range(0, width, WIDTH):
            store(target, at + d, load(source, d))


@inlined
def receiver_sums(score: Any, sizes: Any, lists: Any, begin: int, count: int, query: Any, key: Any,
                  edge_key: Any, d_scores: Any, sums: Any, grad_edge_key: Any, shift: int, grad_vector: Any,
                  none: Any) -> None:  # fmt: skip
    """dq of a row into `sums`; dk^e of its edges; and what it adds to the gradient of the vector."""
    for start in range(0, count, BLOCK):
        stop = min(start + BLOCK, count)
        for head in range(0, sizes.heads, heads_of(none)):
            edge_at, step = get(edge_key.heads, head) if edge_key.there else 0, sizes.key_dim
            for d in range(0, sizes.key_dim, width_of(none)):
                feature, own_at, key_at = head * step + d, get(query.heads, head) + d, get(key.heads, head) + d
                query_lanes = load_heads(query.data, own_at, step, none)
                vector, d_query = vector_of(score, feature, step, query_lanes), load_heads(sums, own_at, step, none)
                d_vector = load_heads(grad_vector, feature, step, none) if has_vector(score) else query_lanes

                for e in range(start, stop):
                    d_score, edge = broadcast(d_scores, e * sizes.lanes + head, none), get(lists.rows, begin + e)
                    sender_at = get(lists.neighbors, begin + e) * key.stride + key_at
                    key_lanes = features(key, sender_at, edge_key, edge * edge_key.stride + edge_at + d, step, none)
                    d_query = toward_query(score, d_query, d_score, query_lanes, key_lanes, vector)
                    d_vector = toward_vector(score, d_vector, d_score, query_lanes, key_lanes)

                    if edge_key.there:
                        at = (edge + shift) * grad_edge_key.stride + edge_at + d
                        d_key = load_heads(grad_edge_key.data, at, step, none)
                        d_key = toward_key(score, d_key, d_score, query_lanes, key_lanes, vector)
                        store_heads(grad_edge_key.data, at, step, d_key)

                store_heads(sums, own_at, step, d_query)
                if has_vector(score):
                    store_heads(grad_vector, feature, step, d_vector)


@inlined
def narrow_receiver_sums(score: Any, sizes: Any, lists: Any, begin: int, count: int, query: Any, key: Any,
                         edge_key: Any, d_scores: Any, sums: Any, grad_edge_key: Any, shift: int) -> None:  # fmt: skip
    """The same where each head has one number: lanes are heads."""
    for group in range(0, sizes.lanes, WIDTH):
        query_lanes, d_query = load(query.data, group), load(sums, group)
        one = fill(query_lanes, 1.0)
        for e in range(count):
            sender, edge = get(lists.neighbors, begin + e), get(lists.rows, begin + e)
            key_lanes = features(
                key, sender * key.stride + group, edge_key, edge * edge_key.stride + group, 0, query_lanes
            )
            d_score = load(d_scores, e * sizes.lanes + group)
            d_query = toward_query(score, d_query, d_score, query_lanes, key_lanes, one)
            if edge_key.there:
                at = (edge + shift) * grad_edge_key.stride + group
                d_key = toward_key(score, load(grad_edge_key.data, at), d_score, query_lanes, key_lanes, one)
                store(grad_edge_key.data, at, d_key)

        store(sums, group, d_query)


@inlined
def load_products(sizes: Any, lists: Any, begin: int, count: int, products: Any, scratch: Any) -> None:
    """The products of a run of edges, or what took their place, into scratch."""
    for e in range(count):
        prefetch(products.data, get(lists.edges, min(begin + e + AHEAD, lists.last)) * products.stride)
        at = get(lists.edges, begin + e) * products.stride
        for group in range(0, sizes.lanes, WIDTH):
            store(scratch, e * sizes.lanes + group, load(products.data, at + group))


@inlined
def value_edge_gradients(sizes: Any, edge: int, weights: Any, at: int, grad_out: Any, grad: Any,
                         none: Any) -> None:  # fmt: skip
    """dv^e = α dO of one edge, added up where heads share it."""
    step = sizes.value_dim
    for head in range(0, sizes.heads, heads_of(none)):
        weight, grad_at = broadcast(weights, at + head, none), edge * grad.stride + get(grad.heads, head)
        for d in range(0, sizes.value_dim, width_of(none)):
            grad_lanes = load_heads(grad_out.data, head * step + d, step, none)
            d_value = fma(weight, grad_lanes, load_heads(grad.data, grad_at + d, step, none))
            store_heads(grad.data, grad_at + d, step, d_value)


class ReceiverRows(NamedTuple):
    """What both passes know of receivers and edges."""

    stats: np.ndarray
    """a and b of each row, `(receiver, 2, lane)`, from the forward pass."""
    deltas: np.ndarray
    """δ, `(receiver, lane)`: from the first pass to the second where nothing is saved."""
    saved: Table | Absent
    """d_score and weight of each edge, `(edge, 2 lanes)`, where they are saved."""
    products: Table | Absent
    """dO · (v + v^e) of each edge, `(edge, lane)`, where an earlier pass made them; d_score takes their place."""
    grad_out: Table | Absent


class ReceiverGradients(NamedTuple):
    """What the first pass writes."""

    query: Table | Absent
    edge_key: Table | Absent
    edge_value: Table | Absent
    bias: Table | Absent
    vector: np.ndarray
    """A share for each chunk of work."""
    rows_a_chunk: int
    """Where edges share rows, each chunk of work adds up rows of its own, so many; else 0."""


class SenderGradients(NamedTuple):
    """What the second pass writes."""

    key: Table | Absent
    value: Table | Absent


@bound_kernel
def backward_receivers(first, step, call, lists, chunks, operands, rows, gradients):
    """dq, dk^e, dv^e, d bias and, for each chunk, its share in d vector; and for the second pass either δ of each row
    or d_score and weight of each edge."""
    score, normalizer, sizes, dropout = call.score, call.normalizer, call.sizes, call.dropout
    stats, streams, longest, lanes = rows.stats, is_streamed(gradients.query), longest_row(lists), sizes.lanes
    query, key, value, lists = source(operands.query), source(operands.key), source(operands.value), pointers_of(lists)
    edge_key, edge_value, bias = source(operands.edge_key), source(operands.edge_value), source(operands.bias)
    grad_out, saved, grad_query = source(rows.grad_out), source(rows.saved), source(gradients.query)
    products = source(rows.products)
    grad_edge_key, grad_edge_value = source(gradients.edge_key), source(gradients.edge_value)
    grad_bias = source(gradients.bias)
    drops, vector_width = dropout.rate > 0.0, sizes.heads * sizes.key_dim if has_vector(score) else 0
    scratch = np.zeros((4, longest * lanes), stats.dtype)
    scores, weights, d_scores, factors = (
        pointer(scratch[0]), pointer(scratch[1]), pointer(scratch[2]), pointer(scratch[3]),
    )  # fmt: skip
    row_sums = np.zeros(WIDTH * WIDE + 2 * query.width + grad_out.width, stats.dtype)
    parts, sums = pointer(row_sums), pointer(row_sums[WIDTH * WIDE :])
    query_scratch = pointer(row_sums[WIDTH * WIDE + query.width :])
    grad_scratch = pointer(row_sums[WIDTH * WIDE + 2 * query.width :])
    numbers, deltas, zero, none = pointer(stats), pointer(rows.deltas), fill(scores, 0.0), no_features(sizes, scores)

    for chunk in range(first, chunks, step):
        vector_sums, shift = pointer(gradients.vector[chunk * vector_width :]), chunk * gradients.rows_a_chunk
        for row in range(first_row(lists, chunk, chunks), first_row(lists, chunk + 1, chunks)):
            begin = get(lists.offsets, row)
            count = get(lists.offsets, row + 1) - begin
            prefetch_next(query, row)
            prefetch_next(grad_out, row)
            query_row, grad_row = row_of(query, row, query_scratch), row_of(grad_out, row, grad_scratch)

            if products.there:
                put_narrow_scores(score, sizes, lists, begin, count, query_row, key, edge_key, False, scores)
                load_products(sizes, lists, begin, count, products, d_scores)
            else:
                put_scores_and_products(
                    score, sizes, lists, begin, count, query_row, key, edge_key, grad_row, value, edge_value, False,
                    scores, d_scores, parts, none,
                )  # fmt: skip
            if drops:
                put_all_factors(sizes, lists, begin, count, dropout, factors)
                drop(sizes, d_scores, factors, count)

            for group in range(0, lanes, WIDTH):
                of = row * 2 * lanes + group
                a, b = load(numbers, of), load(numbers, of + lanes)
                for e in range(count):
                    at = e * lanes + group
                    score_lanes = biased(load(scores, at), bias, get(lists.rows, begin + e), group)
                    store(weights, at, weigh(normalizer, score_lanes, a, b))

            for group in range(0, lanes, WIDTH):
                weight_column = Column(weights, group, lanes, count, zero, zero, False)
                delta = delta_of(normalizer, weight_column, Column(d_scores, group, lanes, count, zero, zero, False))
                if not saved.there and not products.there:
                    store(deltas, row * lanes + group, delta)

                for e in range(count):
                    at = e * lanes + group
                    d_score = d_score_of(normalizer, load(weights, at), load(d_scores, at) - delta)
                    if bias.there:
                        of = (get(lists.rows, begin + e) + shift) * grad_bias.stride + group
                        store(grad_bias.data, of, load(grad_bias.data, of) + d_score)
                    store(d_scores, at, d_raw_of(score, load(scores, at), d_score))

            if drops and (edge_value.there or saved.there):
                drop(sizes, weights, factors, count)
            if saved.there:
                for e in range(count):
                    at = get(lists.edges, begin + e) * saved.stride
                    for group in range(0, lanes, WIDTH):
                        store(saved.data, at + group, load(d_scores, e * lanes + group))
                        store(saved.data, at + lanes + group, load(weights, e * lanes + group))
            if products.there:
                for e in range(count):
                    at = get(lists.edges, begin + e) * products.stride
                    for group in range(0, lanes, WIDTH):
                        store(products.data, at + group, load(d_scores, e * lanes + group))
            if edge_value.there:
                for e in range(count):
                    edge = get(lists.rows, begin + e) + shift
                    value_edge_gradients(sizes, edge, weights, e * lanes, grad_row, grad_edge_value, none)

            clear(sums, query.width)
            if sizes.key_dim == 1:
                narrow_receiver_sums(
                    score, sizes, lists, begin, count, query_row, key, edge_key, d_scores, sums, grad_edge_key, shift
                )
            else:
                receiver_sums(
                    score, sizes, lists, begin, count, query_row, key, edge_key, d_scores, sums, grad_edge_key,
                    shift, vector_sums, none,
                )  # fmt: skip

            copy(grad_query.data, row * query.width, sums, query.width, streams)

    keep_alive(scratch)
    keep_alive(row_sums)


@inlined
def sender_sums(score: Any, sizes: Any, lists: Any, begin: int, count: int, query: Any, key: Any,
                edge_key: Any, grad_out: Any, d_scores: Any, weights: Any, key_sums: Any, value: Any, value_sums: Any,
                none: Any) -> None:  # fmt: skip
    """What a block of edges adds to dk and dv of its sender."""
    for head in range(0, sizes.heads, heads_of(none)):
        edge_at, step = get(edge_key.heads, head) if edge_key.there else 0, sizes.key_dim
        for d in range(0, sizes.key_dim if sizes.key_dim > 1 else 0, width_of(none)):
            query_at, key_at = get(query.heads, head) + d, get(key.heads, head) + d
            d_key = load_heads(key_sums, key_at, step, none)
            vector = vector_of(score, head * step + d, step, none)

            for e in range(count):
                query_lanes = load_heads(
                    query.data, get(lists.neighbors, begin + e) * query.stride + query_at, step, none
                )
                edge = get(lists.rows, begin + e) * edge_key.stride if edge_key.there else 0
                key_lanes = features(key, key_at, edge_key, edge + edge_at + d, step, none)
                d_key = toward_key(
                    score, d_key, broadcast(d_scores, e * sizes.lanes + head, none), query_lanes, key_lanes, vector
                )

            store_heads(key_sums, key_at, step, d_key)

        step = sizes.value_dim
        for d in range(0, sizes.value_dim, width_of(none)):
            value_at, out_at = get(value.heads, head) + d, head * step + d
            d_value = load_heads(value_sums, value_at, step, none)
            for e in range(count):
                receiver = get(lists.neighbors, begin + e)
                query_lanes = load_heads(grad_out.data, receiver * grad_out.stride + out_at, step, none)
                d_value = fma(broadcast(weights, e * sizes.lanes + head, none), query_lanes, d_value)
            store_heads(value_sums, value_at, step, d_value)


@inlined
def narrow_sender_sums(score: Any, sizes: Any, lists: Any, begin: int, count: int, query: Any, key: Any,
                       edge_key: Any, d_scores: Any, key_sums: Any) -> None:  # fmt: skip
    """dk where each head has one number: lanes are heads."""
    for group in range(0, sizes.lanes, WIDTH):
        d_key = load(key_sums, group)
        for e in range(count):
            edge_at = get(lists.rows, begin + e) * edge_key.stride + group
            key_lanes = features(key, group, edge_key, edge_at, 0, d_key)
            query_lanes = load(query.data, get(lists.neighbors, begin + e) * query.stride + group)
            d_key = toward_key(
                score, d_key, load(d_scores, e * sizes.lanes + group), query_lanes, key_lanes, fill(key_lanes, 1.0)
            )
        store(key_sums, group, d_key)


@inlined
def load_saved(sizes: Any, lists: Any, begin: int, count: int, saved: Any, query: Any, grad_out: Any, d_scores: Any,
              weights: Any) -> None:  # fmt: skip
    """What the first pass saved of a run of edges, into scratch; and a prefetch of the rows that come later."""
    for e in range(count):
        prefetch_ahead(lists, begin + e, query)
        prefetch_ahead(lists, begin + e, grad_out)
        at = get(lists.edges, begin + e) * saved.stride
        for group in range(0, sizes.lanes, WIDTH):
            store(d_scores, e * sizes.lanes + group, load(saved.data, at + group))
            store(weights, e * sizes.lanes + group, load(saved.data, at + sizes.lanes + group))


@bound_kernel
def backward_senders(first, step, call, lists, chunks, operands, rows, gradients):
    """dk and dv."""
    score, normalizer, sizes, dropout = call.score, call.normalizer, call.sizes, call.dropout
    stats, grad_key, grad_value = rows.stats, source(gradients.key), source(gradients.value)
    streams_key, streams_value = is_streamed(gradients.key), is_streamed(gradients.value)
    query, key, value, lists = source(operands.query), source(operands.key), source(operands.value), pointers_of(lists)
    edge_key, edge_value, bias = source(operands.edge_key), source(operands.edge_value), source(operands.bias)
    grad_out, saved = source(rows.grad_out), source(rows.saved)
    drops, lanes = dropout.rate > 0.0, sizes.lanes
    scratch = np.zeros((4, BLOCK * lanes), stats.dtype)
    scores, weights, d_scores, factors = (
        pointer(scratch[0]), pointer(scratch[1]), pointer(scratch[2]), pointer(scratch[3]),
    )  # fmt: skip
    sums = np.zeros(WIDTH * WIDE + 2 * (key.width + value.width), stats.dtype)
    parts, key_sums = pointer(sums), pointer(sums[WIDTH * WIDE :])
    key_scratch = pointer(sums[WIDTH * WIDE + key.width :])
    value_sums = pointer(sums[WIDTH * WIDE + 2 * key.width :])
    value_scratch = pointer(sums[WIDTH * WIDE + 2 * key.width + value.width :])
    one, none = fill(weights, 1.0), no_features(sizes, weights)
    numbers, deltas = pointer(stats), pointer(rows.deltas)

    for chunk in range(first, chunks, step):
        for row in range(first_row(lists, chunk, chunks), first_row(lists, chunk + 1, chunks)):
            begin, end = get(lists.offsets, row), get(lists.offsets, row + 1)
            prefetch_next(key, row)
            prefetch_next(value, row)
            key_row, value_row = row_of(key, row, key_scratch), row_of(value, row, value_scratch)
            clear(key_sums, key.width)
            clear(value_sums, value.width)

            for start in range(begin, end, BLOCK):
                count = min(BLOCK, end - start)
                if saved.there:
                    load_saved(sizes, lists, start, count, saved, query, grad_out, d_scores, weights)
                else:
                    put_scores_and_products(
                        score, sizes, lists, start, count, key_row, query, edge_key, value_row, grad_out, edge_value,
                        True, scores, d_scores, parts, none,
                    )  # fmt: skip
                    for at in range(0, count * lanes, WIDTH):
                        store(factors, at, one)
                    if drops:
                        put_all_factors(sizes, lists, start, count, dropout, factors)

                    for e in range(count):
                        coming = get(lists.neighbors, min(start + e + AHEAD, lists.last))
                        prefetch(numbers, coming * 2 * lanes)
                        prefetch(deltas, coming * lanes)
                        receiver, edge = get(lists.neighbors, start + e), get(lists.rows, start + e)

                        for group in range(0, lanes, WIDTH):
                            at, of = e * lanes + group, receiver * 2 * lanes + group
                            a, b = load(numbers, of), load(numbers, of + lanes)
                            delta = load(deltas, receiver * lanes + group)
                            score_lanes, factor = load(scores, at), load(factors, at)
                            weight = weigh(normalizer, biased(score_lanes, bias, edge, group), a, b)
                            d_score = d_score_of(normalizer, weight, load(d_scores, at) * factor - delta)
                            store(weights, at, weight * factor)
                            store(d_scores, at, d_raw_of(score, score_lanes, d_score))
                if sizes.key_dim == 1:
                    narrow_sender_sums(score, sizes, lists, start, count, query, key_row, edge_key, d_scores, key_sums)
                sender_sums(
                    score, sizes, lists, start, count, query, key_row, edge_key, grad_out, d_scores, weights,
                    key_sums, value, value_sums, none,
                )  # fmt: skip

            copy(grad_key.data, row * key.width, key_sums, key.width, streams_key)
            copy(grad_value.data, row * value.width, value_sums, value.width, streams_value)

    keep_alive(scratch)
    keep_alive(sums)
