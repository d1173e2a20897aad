"""Attention over runs of keys: each query attends to keys start … stop − 1 of its member of the batch.

    forward   per WIDTH queries: scores of the keys that one of them has → scratch → weights → the sum of the values
    backward  the same again, and the derivatives → dq, d bias; dk and dv add up over the queries of a slice

Lanes are queries while scores, weights and outputs are computed, so that one key or value that is read serves all of
them, and features while dk and dv are. A member is cut into slices of queries, each with its own dk and dv, which are
added in order: no atomics, and the same bits for any number of threads, on which the slices do not depend.
"""

from typing import Any, NamedTuple

import numpy as np

from edgewise.backends.numba.compiled import inlined, kernel
from edgewise.backends.numba.normalize import Column, cell, d_score_of, delta_of, normalize, put_cell
from edgewise.backends.numba.score import (
    d_raw_of,
    finish,
    has_vector,
    pair,
    spread_vector_of,
    toward_key,
    toward_query,
    toward_vector,
    vector_of,
)
from edgewise.backends.numba.simd import WIDTH, fill, fma, get, keep_alive, load, pointer, put, store, where
from edgewise.backends.numba.tables import dropout_factor

KEYS = 4
"""Keys, or features of a value, taken together: as many sums as fit into registers beside what they are made of."""


class Panel(NamedTuple):
    """Nodes of every member: feature d of node n of member m is data[members[m] + n · stride + d]."""

    data: np.ndarray
    """All features; none where the call lacks such a tensor."""
    members: np.ndarray
    """Where each member begins."""
    stride: int
    """From one node to the next."""


class Runs(NamedTuple):
    """The keys of query i of member m: starts[members[m] + i] … stops[members[m] + i] − 1."""

    starts: np.ndarray
    stops: np.ndarray
    members: np.ndarray


class Extent(NamedTuple):
    """Sizes of a call."""

    queries: int
    keys: int
    key_dim: int
    """Features that scores read."""
    key_width: int
    """The same, rounded up to whole vectors; what lies beyond is zero."""
    value_dim: int
    """Features of a value, a whole number of vectors."""
    rows: int
    """Queries taken together: WIDTH, or 1 where something is not finite and must not reach those who do not see it."""


class Bias(NamedTuple):
    """One number a pair: that of (i, j) of member m is data[members[m] + i · query_stride + j · key_stride]."""

    data: np.ndarray
    members: np.ndarray
    query_stride: int
    key_stride: int


class RangeOperands(NamedTuple):
    """What scores and values are made of, and who attends to whom."""

    query: Panel
    key: Panel
    value: Panel
    bias: Bias
    runs: Runs


class RangeGradients(NamedTuple):
    """What the backward pass writes, and adds to; zeros before."""

    query: np.ndarray
    """`(member, query, key_width)`."""
    bias: np.ndarray
    """`(member, query, key)`."""
    keys: np.ndarray
    """What each slice of a member adds to dk."""
    values: np.ndarray
    """The same for dv."""
    vectors: np.ndarray
    """The same for the vector of the score."""


@inlined
def transpose(source: Any, at: int, stride: int, rows: int, dim: int, target: Any) -> None:
    """Feature d of row r to target[d · WIDTH + r]; zeros in the lanes beyond the rows."""
    for d in range(dim):
        for row in range(WIDTH):
            put(target, d * WIDTH + row, get(source, at + row * stride + d) if row < rows else 0.0)


@inlined
def run_of(runs: Any, member: int, first: int, rows: int, bounds: Any) -> Any:
    """Starts and stops of some queries, in lanes, counted from the first key that any of them has; which that is; how
    many keys lie between it and the last; and whether the queries differ."""
    low, high, ragged = np.intp(2**62), np.intp(0), rows < WIDTH
    at = runs.members[member] + first
    for row in range(rows):
        start, stop = np.intp(runs.starts[at + row]), np.intp(runs.stops[at + row])
        ragged = ragged or start != runs.starts[at] or stop != runs.stops[at]
        if stop > start:
            low, high = min(low, start), max(high, stop)

    low = min(low, high)
    for row in range(WIDTH):
        start = np.intp(runs.starts[at + row]) if row < rows else low
        stop = np.intp(runs.stops[at + row]) if row < rows else low
        put(bounds, row, start - low if stop > start else 0)
        put(bounds, WIDTH + row, stop - low if stop > start else 0)

    return load(bounds, 0), load(bounds, WIDTH), low, high - low, ragged


@inlined
def score_block(score: Any, extent: Any, queries: Any, key: Any, key_at: int, stride: int, count: int, vector_at: int,
                scores: Any, zero: Any) -> None:  # fmt: skip
    """s of WIDTH queries with `count` keys, KEYS of them at a time."""
    for j in range(0, count - KEYS + 1, KEYS):
        at = key_at + j * stride
        first, second, third, fourth = zero, zero, zero, zero
        for d in range(extent.key_dim):
            query_lanes, vector = load(queries, d * WIDTH), spread_vector_of(score, vector_at + d, zero)
            first = pair(score, first, query_lanes, fill(zero, get(key, at + d)), vector)
            second = pair(score, second, query_lanes, fill(zero, get(key, at + stride + d)), vector)
            third = pair(score, third, query_lanes, fill(zero, get(key, at + 2 * stride + d)), vector)
            fourth = pair(score, fourth, query_lanes, fill(zero, get(key, at + 3 * stride + d)), vector)

        store(scores, j * WIDTH, finish(score, first))
        store(scores, (j + 1) * WIDTH, finish(score, second))
        store(scores, (j + 2) * WIDTH, finish(score, third))
        store(scores, (j + 3) * WIDTH, finish(score, fourth))

    for j in range(count // KEYS * KEYS, count):
        sums, at = zero, key_at + j * stride
        for d in range(extent.key_dim):
            vector = spread_vector_of(score, vector_at + d, zero)
            sums = pair(score, sums, load(queries, d * WIDTH), fill(zero, get(key, at + d)), vector)
        store(scores, j * WIDTH, finish(score, sums))


@inlined
def add_bias(bias: Any, member: int, first: int, rows: int, low: int, count: int, scores: Any) -> None:
    """s + b of every pair of a block."""
    data = pointer(bias.data)
    for row in range(rows):
        at = bias.members[member] + (first + row) * bias.query_stride + low * bias.key_stride
        for j in range(count):
            index = j * WIDTH + row
            put(scores, index, get(scores, index) + get(data, at + j * bias.key_stride))


@inlined
def drop_block(
    dropout: Any, extent: Any, member: int, first: int, rows: int, low: int, count: int, weights: Any
) -> None:
    """Weights of a block times what dropout does to them."""
    for row in range(rows):
        pair_number = (member * extent.queries + first + row) * extent.keys + low
        for j in range(count):
            index = j * WIDTH + row
            put(weights, index, get(weights, index) * dropout_factor(dropout, pair_number + j, 0))


@inlined
def sum_block(weights: Any, count: int, value: Any, value_at: int, stride: int, dim: int, out: Any, zero: Any) -> None:
    """out[d] = Σ_j α_j v_jd in lanes, KEYS features at a time; dim is a multiple of WIDTH and so of KEYS."""
    for d in range(0, dim, KEYS):
        first, second, third, fourth = zero, zero, zero, zero
        for j in range(count):
            weight, at = load(weights, j * WIDTH), value_at + j * stride + d
            first = fma(get(value, at), weight, first)
            second = fma(get(value, at + 1), weight, second)
            third = fma(get(value, at + 2), weight, third)
            fourth = fma(get(value, at + 3), weight, fourth)
        store(out, d * WIDTH, first)
        store(out, (d + 1) * WIDTH, second)
        store(out, (d + 2) * WIDTH, third)
        store(out, (d + 3) * WIDTH, fourth)


@kernel
def forward(first_slice, step, call, operands, per_member, out):
    """out = Σ α v of every query of every member, `(member, query, value_dim)`."""
    score, normalizer, extent, dropout = call.score, call.normalizer, call.sizes, call.dropout
    query, key, value, bias, runs = operands.query, operands.key, operands.value, operands.bias, operands.runs
    dim, width = extent.value_dim, extent.key_width
    memory = np.zeros((extent.keys + max(dim, width) + extent.key_dim + 2) * WIDTH, out.dtype)
    scores = pointer(memory)
    block_out = pointer(memory[extent.keys * WIDTH :])
    queries = pointer(memory[(extent.keys + max(dim, width)) * WIDTH :])
    bounds = pointer(memory[(extent.keys + max(dim, width) + extent.key_dim) * WIDTH :])
    zero, target = fill(scores, 0.0), pointer(out)
    data, keys, values = pointer(query.data), pointer(key.data), pointer(value.data)

    num_members = query.members.size
    for slice_number in range(first_slice, num_members * per_member, step):
        member, part = slice_number // per_member, slice_number % per_member
        begin = extent.queries * part // per_member

        end = extent.queries * (part + 1) // per_member
        for first in range(begin, end, extent.rows):
            rows = min(extent.rows, end - first)
            start, stop, low, count, ragged = run_of(runs, member, first, rows, bounds)
            transpose(data, query.members[member] + first * query.stride, query.stride, rows, extent.key_dim, queries)
            key_at, value_at = key.members[member] + low * key.stride, value.members[member] + low * value.stride
            score_block(score, extent, queries, keys, key_at, key.stride, count, member * width, scores, zero)
            if bias.data.size > 0:
                add_bias(bias, member, first, rows, low, count, scores)
            normalize(normalizer, Column(scores, 0, WIDTH, count, start, stop, ragged))
            if dropout.rate > 0.0:
                drop_block(dropout, extent, member, first, rows, low, count, scores)
            sum_block(scores, count, values, value_at, value.stride, dim, block_out, zero)

            for row in range(rows):
                at = (member * extent.queries + first + row) * dim
                for d in range(dim):
                    put(target, at + d, get(block_out, d * WIDTH + row))

    keep_alive(memory)


@inlined
def add_gradients(score: Any, extent: Any, rows: int, count: int, queries: Any, key: Any, key_at: int, stride: int,
                  d_scores: Any, vector_at: int, grad_query: Any, grad_key: Any, grad_vector: Any) -> None:  # fmt: skip
    """dq of a block, and what it adds to dk and to the gradient of the vector; lanes are features."""
    width = extent.key_width
    for d in range(0, width, WIDTH):
        vector = vector_of(score, vector_at + d, 0, load(queries, d))
        d_vector = load(grad_vector, d) if has_vector(score) else vector
        for j in range(count):
            key_lanes, d_key = load(key, key_at + j * stride + d), load(grad_key, j * width + d)
            for row in range(rows):
                d_score, query_lanes = get(d_scores, j * WIDTH + row), load(queries, row * width + d)
                d_key = toward_key(score, d_key, d_score, query_lanes, key_lanes, vector)
                at = row * width + d
                store(
                    grad_query, at, toward_query(score, load(grad_query, at), d_score, query_lanes, key_lanes, vector)
                )
                d_vector = toward_vector(score, d_vector, d_score, query_lanes, key_lanes)

            store(grad_key, j * width + d, d_key)

        if has_vector(score):
            store(grad_vector, d, d_vector)


@inlined
def add_values(dim: int, rows: int, count: int, weights: Any, grad_out: Any, out_at: int, stride: int,
               grad_value: Any) -> None:  # fmt: skip
    """What a block adds to dv; lanes are features."""
    for j in range(count):
        for d in range(0, dim, WIDTH):
            d_value = load(grad_value, j * dim + d)
            for row in range(rows):
                d_value = fma(get(weights, j * WIDTH + row), load(grad_out, out_at + row * stride + d), d_value)
            store(grad_value, j * dim + d, d_value)


@kernel
def backward(first_slice, step, call, operands, per_member, grad_out, gradients):
    """dq, d bias, and what each slice of a member adds to dk, dv and the gradient of the vector."""
    score, normalizer, extent, dropout = call.score, call.normalizer, call.sizes, call.dropout
    query, key, value, bias, runs = operands.query, operands.key, operands.value, operands.bias, operands.runs
    grad_query, grad_bias, grad_vectors = gradients.query, gradients.bias, gradients.vectors
    dim, width, many = extent.value_dim, extent.key_width, extent.keys * WIDTH
    tall = max(dim, width, extent.key_dim) * WIDTH
    memory = np.zeros(4 * many + 3 * tall + 2 * WIDTH, grad_query.dtype)
    scores, weights, d_scores, factors = (
        pointer(memory), pointer(memory[many:]), pointer(memory[2 * many :]), pointer(memory[3 * many :]),
    )  # fmt: skip
    queries, outs, own_rows = (
        pointer(memory[4 * many :]), pointer(memory[4 * many + tall :]), pointer(memory[4 * many + 2 * tall :]),
    )  # fmt: skip
    bounds, zero = pointer(memory[4 * many + 3 * tall :]), fill(scores, 0.0)
    data, keys, values, gradient = pointer(query.data), pointer(key.data), pointer(value.data), pointer(grad_out.data)

    for slice_number in range(first_slice, query.members.size * per_member, step):
        member, part = slice_number // per_member, slice_number % per_member
        begin = extent.queries * part // per_member
        end = extent.queries * (part + 1) // per_member
        grad_vector = pointer(grad_vectors[slice_number * width :]) if has_vector(score) else pointer(grad_vectors)

        for first in range(begin, end, extent.rows):
            rows = min(extent.rows, end - first)
            start, stop, low, count, ragged = run_of(runs, member, first, rows, bounds)
            query_at = query.members[member] + first * query.stride
            out_at = grad_out.members[member] + first * grad_out.stride
            key_at, value_at = key.members[member] + low * key.stride, value.members[member] + low * value.stride
            transpose(data, query_at, query.stride, rows, extent.key_dim, queries)
            transpose(gradient, out_at, grad_out.stride, rows, dim, outs)
            score_block(score, extent, queries, keys, key_at, key.stride, count, member * width, scores, zero)

            for j in range(count):
                store(weights, j * WIDTH, load(scores, j * WIDTH))
                store(factors, j * WIDTH, zero + 1.0)

            if bias.data.size > 0:
                add_bias(bias, member, first, rows, low, count, weights)
            column = Column(weights, 0, WIDTH, count, start, stop, ragged)
            normalize(normalizer, column)
            sum_products(outs, values, value_at, value.stride, dim, count, d_scores, zero)
            if dropout.rate > 0.0:
                drop_block(dropout, extent, member, first, rows, low, count, factors)
            d_scores_of_block(normalizer, count, weights, d_scores, factors, start, stop, ragged)

            if bias.data.size > 0:
                for row in range(rows):
                    at = (member * extent.queries + first + row) * extent.keys + low
                    for j in range(count):
                        put(pointer(grad_bias), at + j, get(d_scores, j * WIDTH + row))

            for j in range(count):
                at = j * WIDTH
                store(d_scores, at, masked_d_raw_of(score, load(scores, at), load(d_scores, at)))

            add_values(
                dim, rows, count, weights, gradient, out_at, grad_out.stride,
                pointer(gradients.values[(slice_number * extent.keys + low) * dim :]),
            )  # fmt: skip

            if width > 0:
                for row in range(rows):
                    for d in range(0, width, WIDTH):
                        store(own_rows, row * width + d, load(data, query_at + row * query.stride + d))
                add_gradients(
                    score, extent, rows, count, own_rows, keys, key_at, key.stride, d_scores, member * width,
                    pointer(grad_query[(member * extent.queries + first) * width :]),
                    pointer(gradients.keys[(slice_number * extent.keys + low) * width :]), grad_vector,
                )  # fmt: skip

    keep_alive(memory)


@inlined
def sum_products(
    outs: Any, value: Any, value_at: int, stride: int, dim: int, count: int, products: Any, zero: Any
) -> None:
    """dO · v of WIDTH queries with `count` values, KEYS of them at a time."""
    for j in range(0, count - KEYS + 1, KEYS):
        at = value_at + j * stride
        first, second, third, fourth = zero, zero, zero, zero
        for d in range(dim):
            out_lanes = load(outs, d * WIDTH)
            first = fma(get(value, at + d), out_lanes, first)
            second = fma(get(value, at + stride + d), out_lanes, second)
            third = fma(get(value, at + 2 * stride + d), out_lanes, third)
            fourth = fma(get(value, at + 3 * stride + d), out_lanes, fourth)

        store(products, j * WIDTH, first)
        store(products, (j + 1) * WIDTH, second)
        store(products, (j + 2) * WIDTH, third)
        store(products, (j + 3) * WIDTH, fourth)

    for j in range(count // KEYS * KEYS, count):
        sums, at = zero, value_at + j * stride
        for d in range(dim):
            sums = fma(get(value, at + d), load(outs, d * WIDTH), sums)
        store(products, j * WIDTH, sums)


@inlined
def d_scores_of_block(normalizer: int, count: int, weights: Any, d_scores: Any, factors: Any,
                      start: Any, stop: Any, ragged: bool) -> None:  # fmt: skip
    """From dO·v to ds toward the bias, in place, 0 outside the runs; and the weights as dropout leaves them."""
    for j in range(count):
        at = j * WIDTH
        store(d_scores, at, load(d_scores, at) * load(factors, at))
    weight_column = Column(weights, 0, WIDTH, count, start, stop, ragged)
    d_score_column = Column(d_scores, 0, WIDTH, count, start, stop, ragged)
    delta = delta_of(normalizer, weight_column, d_score_column)
    for j in range(count):
        at = j * WIDTH
        put_cell(d_score_column, j, d_score_of(normalizer, cell(weight_column, j, 0.0), load(d_scores, at) - delta))
        put_cell(weight_column, j, load(weights, at) * load(factors, at))


@inlined
def masked_d_raw_of(score: Any, scores: Any, d_scores: Any) -> Any:
    """ds toward the sum; 0 where ds is 0, whatever the score of a pair outside the neighborhood."""
    return where(d_scores == 0.0, 0.0, d_raw_of(score, scores, d_scores))
