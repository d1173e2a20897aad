"""From scores to weights, for both forms: lanes are rows, and the neighbors of a row stand below each other.

A table of scratch holds one vector a neighbor; lane l of it belongs to row l (a head of a receiver, or a query). Two
numbers say all there is to know about a row:

    α_ij = weigh(s_ij; a_i, b_i)        ds_ij = α′_ij · (dα_ij − Δ_i)        Δ_i = Σ_j α′ dα / Σ_j α′

Softmax has a = the largest score and b = 1 / Σ exp(s − a); sparsemax and entmax a = the largest score and b = their
threshold below it; and so on. Δ is 0 where a weight does not depend on the rest of its row. So the forward pass stores
two numbers a row, and the backward passes compute each weight again where they need it, with the same bits.
"""

import math
from typing import Any, NamedTuple

from edgewise.backends.numba.compiled import inlined
from edgewise.backends.numba.functions import exp, sigmoid
from edgewise.backends.numba.simd import fill, fma, load, maximum, some, square_root, store, where

SOFTMAX, HARDMAX, SPARSEMAX, ENTMAX15, SIGMOID, MEAN, IDENTITY = range(7)
ITERATIONS = 100
"""More than any row needs until its support is found: each step drops a score, or is the last."""


class Column(NamedTuple):
    """Scratch for some rows at once: neighbor e of all of them at data[at + e · step]."""

    data: Any
    at: int
    """Where the first neighbor stands."""
    step: int
    """From one neighbor to the next."""
    size: int
    start: Any
    """Lanes: the first neighbor that each row has."""
    stop: Any
    """Lanes: one past the last that it has."""
    ragged: bool
    """Whether rows have different neighbors; start and stop are read only then."""


@inlined
def cell(column: Any, e: int, otherwise: Any) -> Any:
    """What stands at a neighbor, in the rows that have it; `otherwise` in the others."""
    scores = load(column.data, column.at + e * column.step)
    if column.ragged:
        neighbor = fill(scores, e)
        scores = where(neighbor >= column.start, where(neighbor < column.stop, scores, otherwise), otherwise)
    return scores


@inlined
def put_cell(column: Any, e: int, lanes: Any) -> None:
    """Write to a neighbor, 0 in the rows that do not have it."""
    if column.ragged:
        neighbor = fill(lanes, e)
        lanes = where(neighbor >= column.start, where(neighbor < column.stop, lanes, 0.0), 0.0)
    store(column.data, column.at + e * column.step, lanes)


@inlined
def weigh(normalizer: int, scores: Any, a: Any, b: Any) -> Any:
    """α, from scores and the two numbers of their row."""
    if normalizer == SOFTMAX:
        return exp(scores - a) * b
    if normalizer == HARDMAX:
        return where(a == a, where(scores == a, b, 0.0), a)
    if normalizer == SPARSEMAX:
        return maximum(scores - a - b, 0.0)
    if normalizer == ENTMAX15:
        root = maximum((scores - a) * 0.5 - b, 0.0)
        return root * root
    if normalizer == SIGMOID:
        return sigmoid(scores)
    if normalizer == MEAN:
        return b

    return scores


@inlined
def derivative(normalizer: int, weights: Any) -> Any:
    """α′: how fast a weight grows with its own score."""
    if normalizer == SOFTMAX:
        return weights
    if normalizer == SPARSEMAX:
        return where(weights > 0.0, fill(weights, 1.0), 0.0)
    if normalizer == ENTMAX15:
        return square_root(weights)
    if normalizer == SIGMOID:
        return weights * (1.0 - weights)
    return fill(weights, 1.0)


@inlined
def d_score_of(normalizer: int, weights: Any, gradient: Any) -> Any:
    """ds of a pair, from its weight and dα − Δ; 0, whatever the gradient, where small changes of a score do nothing."""
    if normalizer in (HARDMAX, MEAN):
        return fill(weights, 0.0)
    return derivative(normalizer, weights) * gradient


@inlined
def delta_of(normalizer: int, weights: Any, gradients: Any) -> Any:
    """Δ of each row, from the columns of α and dα."""
    zero = fill(weights.start, 0.0)
    if normalizer != SOFTMAX and normalizer != SPARSEMAX and normalizer != ENTMAX15:
        return zero
    weighted, moved = zero, zero
    for e in range(weights.size):
        share = derivative(normalizer, cell(weights, e, 0.0))
        weighted = fma(share, cell(gradients, e, 0.0), weighted)
        moved = moved + share
    return weighted / where(moved == 0.0, 1.0, moved)


@inlined
def normalize(normalizer: int, scores: Any) -> Any:
    """Turn a column of scores into weights, and give back a and b of each row."""
    zero = fill(scores.start, 0.0)
    if normalizer in (SIGMOID, IDENTITY):
        return _weighed(normalizer, scores, zero, zero)
    if normalizer == MEAN:
        many = scores.stop - scores.start if scores.ragged else fill(zero, scores.size)
        return _weighed(normalizer, scores, zero, 1.0 / maximum(many, 1.0))

    peak = fill(zero, -math.inf)
    for e in range(scores.size):
        peak = maximum(peak, cell(scores, e, -math.inf))
    if normalizer == SOFTMAX:
        return _softmax(scores, where(peak == -math.inf, 0.0, peak))
    if normalizer == HARDMAX:
        return _hardmax(scores, where(peak == -math.inf, 0.0, peak))

    none = peak == -math.inf
    a = where(none, 0.0, where(peak == math.inf, math.nan, peak))
    b = _sparsemax_threshold(scores, a) if normalizer == SPARSEMAX else _entmax_threshold(scores, a)
    return _weighed(normalizer, scores, a, where(none, math.inf, b))


@inlined
def _weighed(normalizer: int, scores: Any, a: Any, b: Any) -> Any:
    for e in range(scores.size):
        put_cell(scores, e, weigh(normalizer, cell(scores, e, 0.0), a, b))
    return a, b


@inlined
def _softmax(scores: Any, a: Any) -> Any:
    sums = fill(a, 0.0)
    for e in range(scores.size):
        share = exp(cell(scores, e, -math.inf) - a)
        store(scores.data, scores.at + e * scores.step, share)
        sums = sums + share
    b = 1.0 / where(sums == 0.0, 1.0, sums)
    for e in range(scores.size):
        at = scores.at + e * scores.step
        store(scores.data, at, load(scores.data, at) * b)
    return a, b


@inlined
def _hardmax(scores: Any, a: Any) -> Any:
    many = fill(a, 0.0)
    for e in range(scores.size):
        many = many + where(cell(scores, e, -math.inf) == a, fill(a, 1.0), 0.0)
    return _weighed(HARDMAX, scores, a, 1.0 / maximum(many, 1.0))


@inlined
def _sums_above(scores: Any, a: Any, scale: float, low: Any) -> Any:
    """How many x = scale (s − a) lie above `low`, Σ(x − low) and Σ(x − low)² of these.

    Each sum takes along what rounding lost of it before (Kahan): a row may have thousands of equal scores, whose
    threshold lies within a thousandth of them.
    """
    many, sums, squares, lost, lost_squares = fill(a, 0.0), fill(a, 0.0), fill(a, 0.0), fill(a, 0.0), fill(a, 0.0)
    for e in range(scores.size):
        x = (cell(scores, e, -math.inf) - a) * scale - low
        inside = where(x > 0.0, x, 0.0)
        many = many + where(x > 0.0, fill(a, 1.0), 0.0)
        sums, lost = _added(sums, lost, inside)
        squares, lost_squares = _added(squares, lost_squares, inside * inside)
    return many, sums, squares


@inlined
def _added(total: Any, lost: Any, term: Any) -> Any:
    """A sum with one term more, and how much too large it is now."""
    term = term - lost
    larger = total + term
    return larger, (larger - total) - term


@inlined
def _sparsemax_threshold(scores: Any, a: Any) -> Any:
    """τ with Σ max(s − a − τ, 0) = 1: Newton's steps rise to it from below, and end where rounding ends them."""
    low = fill(a, -1.0)
    for _ in range(ITERATIONS):
        many, sums, _ = _sums_above(scores, a, 1.0, low)
        step = (sums - 1.0) / maximum(many, 1.0)
        step = where(step > 0.0, step, 0.0)
        if not some(low + step > low):
            break
        low = low + step
    return low


@inlined
def _entmax_threshold(scores: Any, a: Any) -> Any:
    """τ with Σ max(x − τ, 0)² = 1, x = (s − a) / 2, in the same way."""
    low = fill(a, -1.0)
    for _ in range(ITERATIONS):
        _, sums, squares = _sums_above(scores, a, 0.5, low)
        step = (squares - 1.0) / (sums + sums)
        step = where(step > 0.0, step, 0.0)
        if not some(low + step > low):
            break
        low = low + step
    return low
