"""Attention over lists of edges, backward: two passes, each over the rows that it owns.

    backward_receivers per receiver: scores and weights again, and their derivatives → dq, d bias, dk^e, dv^e and δ
    backward_senders   per sender: the weights of its edges again, from a, b and δ of each receiver → dk, dv

Where edges are few, weights and derivatives of each are kept from the first pass for the second, which has half of its
work then; where they are many, that would be most of the memory of a call.

What is summed over all rows (the vector of a score) is summed for each piece of work and then over the pieces in order;
the pieces do not depend on the number of threads.
"""

from typing import Any

import numpy as np

from edgewise.backends.numba.compiled import inlined, kernel
from edgewise.backends.numba.edges import biased, drop, put_all_factors
from edgewise.backends.numba.heads import (
    heads_of,
    load_heads,
    spread,
    store_heads,
    width_of,
)
from edgewise.backends.numba.normalize import Column, center, move, weigh
from edgewise.backends.numba.pairs import put_scores_and_products
from edgewise.backends.numba.score import has_vector, toward_key, toward_query, toward_vector, unfinish, vector_of
from edgewise.backends.numba.simd import (
    WIDE,
    WIDTH,
    fill,
    fma,
    get,
    keep,
    load,
    pointer,
    prefetch,
    store,
    stream,
)
from edgewise.backends.numba.tables import (
    AHEAD,
    BLOCK,
    ask_ahead,
    ask_next,
    features,
    first_row,
    is_streamed,
    longest_row,
    no_features,
    places,
    row_of,
    source,
)


@inlined
def clear(target: Any, width: int) -> None:
    """Zeros in scratch."""
    for d in range(0, width, WIDTH):
        store(target, d, fill(target, 0.0))


@inlined
def copy(target: Any, at: int, found: Any, width: int, streams: bool) -> None:
    """From scratch to where a row belongs."""
    if streams:
        for d in range(0, width, WIDTH):
            stream(target, at + d, load(found, d))
    else:
        for d in range(0, width, WIDTH):
            store(target, at + d, load(found, d))


@inlined
def receiver_sums(score: Any, sizes: Any, lists: Any, begin: int, count: int, query: Any, key: Any,
                  edge_key: Any, slopes: Any, sums: Any, grad_edge_key: Any, grad_vector: Any,
                  none: Any) -> None:  # fmt: skip
    """dq of a row into `sums`; dk^e of its edges; and what it adds to the gradient of the vector."""
    for start in range(0, count, BLOCK):
        stop = min(start + BLOCK, count)
        for head in range(0, sizes.heads, heads_of(none)):
            edge_at, step = get(edge_key.heads, head) if edge_key.there else 0, sizes.key_dim
            for d in range(0, sizes.key_dim, width_of(none)):
                feature, own_at, key_at = head * step + d, get(query.heads, head) + d, get(key.heads, head) + d
                own = load_heads(query.data, own_at, step, none)
                vector, grown = vector_of(score, feature, step, own), load_heads(sums, own_at, step, none)
                grown_vector = load_heads(grad_vector, feature, step, none) if has_vector(score) else own
                for e in range(start, stop):
                    moved, edge = spread(slopes, e * sizes.lanes + head, none), get(lists.edges, begin + e)
                    sender_at = get(lists.neighbors, begin + e) * key.stride + key_at
                    other = features(key, sender_at, edge_key, edge * edge_key.stride + edge_at + d, step, none)
                    grown = toward_query(score, grown, moved, own, other, vector)
                    grown_vector = toward_vector(score, grown_vector, moved, own, other)
                    if edge_key.there:
                        at = edge * grad_edge_key.stride + edge_at + d
                        found = load_heads(grad_edge_key.data, at, step, none)
                        found = toward_key(score, found, moved, own, other, vector)
                        store_heads(grad_edge_key.data, at, step, found)
                store_heads(sums, own_at, step, grown)
                if has_vector(score):
                    store_heads(grad_vector, feature, step, grown_vector)


@inlined
def narrow_receiver_sums(score: Any, sizes: Any, lists: Any, begin: int, count: int, query: Any, key: Any,
                         edge_key: Any, slopes: Any, sums: Any, grad_edge_key: Any) -> None:  # fmt: skip
    """The same where each head has one number: lanes are heads."""
    for group in range(0, sizes.lanes, WIDTH):
        own, grown = load(query.data, group), load(sums, group)
        one = fill(own, 1.0)
        for e in range(count):
            sender, edge = get(lists.neighbors, begin + e), get(lists.edges, begin + e)
            other = features(key, sender * key.stride + group, edge_key, edge * edge_key.stride + group, 0, own)
            moved = load(slopes, e * sizes.lanes + group)
            grown = toward_query(score, grown, moved, own, other, one)
            if edge_key.there:
                found = toward_key(score, fill(own, 0.0), moved, own, other, one)
                store(grad_edge_key.data, edge * grad_edge_key.stride + group, found)
        store(sums, group, grown)


@inlined
def value_edge_gradients(sizes: Any, edge: int, weights: Any, at: int, grad_out: Any, grad: Any,
                         none: Any) -> None:  # fmt: skip
    """dv^e = α dO of one edge, added up where heads share it."""
    step = sizes.value_dim
    for head in range(0, sizes.heads, heads_of(none)):
        weight, grad_at = spread(weights, at + head, none), edge * grad.stride + get(grad.heads, head)
        for d in range(0, sizes.value_dim, width_of(none)):
            own = load_heads(grad_out.data, head * step + d, step, none)
            grown = fma(weight, own, load_heads(grad.data, grad_at + d, step, none))
            store_heads(grad.data, grad_at + d, step, grown)


@kernel
def backward_receivers(first, step, score, normalizer, sizes, lists, pieces, query, key, value, edge_key, edge_value,
                       bias, dropout, stats, grad_out, centers, kept, grad_query, grad_edge_key, grad_edge_value,
                       grad_bias, grad_vector):  # fmt: skip
    """What the receivers own: dq, dk^e, dv^e, d bias and, for each piece, its share in d vector; and for those who own
    the senders either δ of each row in `centers`, `(receiver, lane)`, or the derivatives and weights of each edge in
    `kept`, `(edge, 2 lanes)`."""
    longest, lanes = longest_row(lists), sizes.lanes
    drops, vector_width = dropout.rate > 0.0, sizes.heads * sizes.key_dim if has_vector(score) else 0
    scratch = np.zeros((4, longest * lanes), stats.dtype)
    scores, weights, slopes, factors = (
        pointer(scratch[0]), pointer(scratch[1]), pointer(scratch[2]), pointer(scratch[3]),
    )  # fmt: skip
    row_sums = np.zeros(WIDTH * WIDE + 2 * query.width + grad_out.width, stats.dtype)
    parts, sums = pointer(row_sums), pointer(row_sums[WIDTH * WIDE :])
    room = pointer(row_sums[WIDTH * WIDE + query.width :])
    grad_room = pointer(row_sums[WIDTH * WIDE + 2 * query.width :])
    numbers, deltas, zero, none = pointer(stats), pointer(centers), fill(scores, 0.0), no_features(sizes, scores)
    streams = is_streamed(grad_query)
    query, key, value, lists = source(query), source(key), source(value), places(lists)
    edge_key, edge_value, bias = source(edge_key), source(edge_value), source(bias)
    grad_out, grad_query, grad_bias = source(grad_out), source(grad_query), source(grad_bias)
    grad_edge_key, grad_edge_value, kept = source(grad_edge_key), source(grad_edge_value), source(kept)
    for piece in range(first, pieces, step):
        vector_sums = pointer(grad_vector[piece * vector_width :])
        for row in range(first_row(lists, piece, pieces), first_row(lists, piece + 1, pieces)):
            begin = get(lists.offsets, row)
            count = get(lists.offsets, row + 1) - begin
            ask_next(query, row)
            ask_next(grad_out, row)
            own, own_grad = row_of(query, row, room), row_of(grad_out, row, grad_room)
            put_scores_and_products(
                score, sizes, lists, begin, count, own, key, edge_key, own_grad, value, edge_value, False,
                scores, slopes, parts, none,
            )  # fmt: skip
            if drops:
                put_all_factors(sizes, lists, begin, count, dropout, factors)
                drop(sizes, slopes, factors, count)
            for group in range(0, lanes, WIDTH):
                of = row * 2 * lanes + group
                a, b = load(numbers, of), load(numbers, of + lanes)
                for e in range(count):
                    at = e * lanes + group
                    found = biased(load(scores, at), bias, get(lists.edges, begin + e), group)
                    store(weights, at, weigh(normalizer, found, a, b))
            for group in range(0, lanes, WIDTH):
                weight_column = Column(weights, group, lanes, count, zero, zero, False)
                delta = center(normalizer, weight_column, Column(slopes, group, lanes, count, zero, zero, False))
                if not kept.there:
                    store(deltas, row * lanes + group, delta)
                for e in range(count):
                    at = e * lanes + group
                    moved = move(normalizer, load(weights, at), load(slopes, at) - delta)
                    if bias.there:
                        store(grad_bias.data, get(lists.edges, begin + e) * grad_bias.stride + group, moved)
                    store(slopes, at, unfinish(score, load(scores, at), moved))
            if drops and (edge_value.there or kept.there):
                drop(sizes, weights, factors, count)
            if kept.there:
                for e in range(count):
                    at = get(lists.edges, begin + e) * kept.stride
                    for group in range(0, lanes, WIDTH):
                        store(kept.data, at + group, load(slopes, e * lanes + group))
                        store(kept.data, at + lanes + group, load(weights, e * lanes + group))
            if edge_value.there:
                for e in range(count):
                    edge = get(lists.edges, begin + e)
                    value_edge_gradients(sizes, edge, weights, e * lanes, own_grad, grad_edge_value, none)
            clear(sums, query.width)
            if sizes.key_dim == 1:
                narrow_receiver_sums(score, sizes, lists, begin, count, own, key, edge_key, slopes, sums, grad_edge_key)
            else:
                receiver_sums(
                    score, sizes, lists, begin, count, own, key, edge_key, slopes, sums, grad_edge_key,
                    vector_sums, none,
                )  # fmt: skip
            copy(grad_query.data, row * query.width, sums, query.width, streams)
    keep(scratch)
    keep(row_sums)


@inlined
def sender_sums(score: Any, sizes: Any, lists: Any, begin: int, count: int, query: Any, key: Any,
                edge_key: Any, grad_out: Any, slopes: Any, weights: Any, key_sums: Any, value: Any, value_sums: Any,
                none: Any) -> None:  # fmt: skip
    """What a block of edges adds to dk and dv of its sender."""
    for head in range(0, sizes.heads, heads_of(none)):
        edge_at, step = get(edge_key.heads, head) if edge_key.there else 0, sizes.key_dim
        for d in range(0, sizes.key_dim if sizes.key_dim > 1 else 0, width_of(none)):
            query_at, key_at = get(query.heads, head) + d, get(key.heads, head) + d
            grown = load_heads(key_sums, key_at, step, none)
            vector = vector_of(score, head * step + d, step, none)
            for e in range(count):
                other = load_heads(query.data, get(lists.neighbors, begin + e) * query.stride + query_at, step, none)
                edge = get(lists.edges, begin + e) * edge_key.stride if edge_key.there else 0
                own = features(key, key_at, edge_key, edge + edge_at + d, step, none)
                grown = toward_key(score, grown, spread(slopes, e * sizes.lanes + head, none), other, own, vector)
            store_heads(key_sums, key_at, step, grown)
        step = sizes.value_dim
        for d in range(0, sizes.value_dim, width_of(none)):
            value_at, out_at = get(value.heads, head) + d, head * step + d
            grown = load_heads(value_sums, value_at, step, none)
            for e in range(count):
                receiver = get(lists.neighbors, begin + e)
                other = load_heads(grad_out.data, receiver * grad_out.stride + out_at, step, none)
                grown = fma(spread(weights, e * sizes.lanes + head, none), other, grown)
            store_heads(value_sums, value_at, step, grown)


@inlined
def narrow_sender_sums(score: Any, sizes: Any, lists: Any, begin: int, count: int, query: Any, key: Any,
                       edge_key: Any, slopes: Any, key_sums: Any) -> None:  # fmt: skip
    """dk where each head has one number: lanes are heads."""
    for group in range(0, sizes.lanes, WIDTH):
        grown = load(key_sums, group)
        for e in range(count):
            edge_at = get(lists.edges, begin + e) * edge_key.stride + group
            own = features(key, group, edge_key, edge_at, 0, grown)
            other = load(query.data, get(lists.neighbors, begin + e) * query.stride + group)
            grown = toward_key(score, grown, load(slopes, e * sizes.lanes + group), other, own, fill(own, 1.0))
        store(key_sums, group, grown)


@inlined
def take_kept(sizes: Any, lists: Any, begin: int, count: int, kept: Any, query: Any, grad_out: Any, slopes: Any,
              weights: Any) -> None:  # fmt: skip
    """What the receivers' pass kept of a run of edges, into scratch; and the rows that come later are asked for."""
    for e in range(count):
        ask_ahead(lists, begin + e, query)
        ask_ahead(lists, begin + e, grad_out)
        at = get(lists.edges, begin + e) * kept.stride
        for group in range(0, sizes.lanes, WIDTH):
            store(slopes, e * sizes.lanes + group, load(kept.data, at + group))
            store(weights, e * sizes.lanes + group, load(kept.data, at + sizes.lanes + group))


@kernel
def backward_senders(first, step, score, normalizer, sizes, lists, pieces, query, key, value, edge_key, edge_value,
                     bias, dropout, stats, centers, kept, grad_out, grad_key, grad_value):  # fmt: skip
    """What the senders own: dk and dv."""
    drops, lanes = dropout.rate > 0.0, sizes.lanes
    scratch = np.zeros((4, BLOCK * lanes), stats.dtype)
    scores, weights, slopes, factors = (
        pointer(scratch[0]), pointer(scratch[1]), pointer(scratch[2]), pointer(scratch[3]),
    )  # fmt: skip
    sums = np.zeros(WIDTH * WIDE + 2 * (key.width + value.width), stats.dtype)
    parts, key_sums, room = pointer(sums), pointer(sums[WIDTH * WIDE :]), pointer(sums[WIDTH * WIDE + key.width :])
    value_sums = pointer(sums[WIDTH * WIDE + 2 * key.width :])
    value_room = pointer(sums[WIDTH * WIDE + 2 * key.width + value.width :])
    one, none = fill(weights, 1.0), no_features(sizes, weights)
    numbers, deltas, lists = pointer(stats), pointer(centers), places(lists)
    streams_key, streams_value = is_streamed(grad_key), is_streamed(grad_value)
    query, key, value, grad_out = source(query), source(key), source(value), source(grad_out)
    edge_key, edge_value, bias = source(edge_key), source(edge_value), source(bias)
    grad_key, grad_value, kept = source(grad_key), source(grad_value), source(kept)
    for piece in range(first, pieces, step):
        for row in range(first_row(lists, piece, pieces), first_row(lists, piece + 1, pieces)):
            begin, end = get(lists.offsets, row), get(lists.offsets, row + 1)
            ask_next(key, row)
            ask_next(value, row)
            own, own_value = row_of(key, row, room), row_of(value, row, value_room)
            clear(key_sums, key.width)
            clear(value_sums, value.width)
            for start in range(begin, end, BLOCK):
                count = min(BLOCK, end - start)
                if kept.there:
                    take_kept(sizes, lists, start, count, kept, query, grad_out, slopes, weights)
                else:
                    put_scores_and_products(
                        score, sizes, lists, start, count, own, query, edge_key, own_value, grad_out, edge_value,
                        True, scores, slopes, parts, none,
                    )  # fmt: skip
                    for at in range(0, count * lanes, WIDTH):
                        store(factors, at, one)
                    if drops:
                        put_all_factors(sizes, lists, start, count, dropout, factors)
                    for e in range(count):
                        coming = get(lists.neighbors, min(start + e + AHEAD, lists.last))
                        prefetch(numbers, coming * 2 * lanes)
                        prefetch(deltas, coming * lanes)
                        receiver, edge = get(lists.neighbors, start + e), get(lists.edges, start + e)
                        for group in range(0, lanes, WIDTH):
                            at, of = e * lanes + group, receiver * 2 * lanes + group
                            a, b = load(numbers, of), load(numbers, of + lanes)
                            delta = load(deltas, receiver * lanes + group)
                            found, factor = load(scores, at), load(factors, at)
                            weight = weigh(normalizer, biased(found, bias, edge, group), a, b)
                            moved = move(normalizer, weight, load(slopes, at) * factor - delta)
                            store(weights, at, weight * factor)
                            store(slopes, at, unfinish(score, found, moved))
                if sizes.key_dim == 1:
                    narrow_sender_sums(score, sizes, lists, start, count, query, own, edge_key, slopes, key_sums)
                sender_sums(
                    score, sizes, lists, start, count, query, own, edge_key, grad_out, slopes, weights,
                    key_sums, value, value_sums, none,
                )  # fmt: skip
            copy(grad_key.data, row * key.width, key_sums, key.width, streams_key)
            copy(grad_value.data, row * value.width, value_sums, value.width, streams_value)
    keep(scratch)
    keep(sums)
