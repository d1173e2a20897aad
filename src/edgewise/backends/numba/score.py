"""How well a query and a key match, on lanes: each score is its sum over the features and the derivatives of it.

    raw = Σ_d pair(q_d, k_d)        s = finish(raw)
    dq_d = ds' · toward_query       dk_d = ds' · toward_key       dv_d = ds' · toward_vector       ds' = d_raw_of(s, ds)

Both forms, edges and ranges, are written over these few functions; a new score is a class here, which says what is not
the default. Scores that a change of the operands turns into another (cosine, bilinear, GAT, a learned length) are made
in `lower`.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from edgewise.backends.numba.compiled import inlined
from edgewise.backends.numba.functions import erf, exp, sigmoid, tanh
from edgewise.backends.numba.heads import load_heads
from edgewise.backends.numba.simd import fill, fma, get, inverse, pointer, square_root, where

ACTIVATIONS = ("tanh", "sigmoid", "silu", "gelu")
TANH, SIGMOID, SILU, GELU = range(4)


class DotKernel(NamedTuple):
    """s = after · (before · q)·k, so that no product overflows whose score does not; see `edgewise.score.parted`."""

    before: float
    after: float

    @staticmethod
    def pair(score, sums, query, key, vector):
        return fma(query * score.before, key, sums)

    @staticmethod
    def finish(score, raw):
        return raw * score.after

    @staticmethod
    def d_raw_of(score, value, d_score):
        return d_score * score.before * score.after

    @staticmethod
    def toward_query(score, sums, d_raw, query, key, vector):
        return fma(d_raw, key, sums)

    @staticmethod
    def toward_key(score, sums, d_raw, query, key, vector):
        return fma(d_raw, query, sums)


class ConstantKernel(NamedTuple):
    """s = value, whatever the pair."""

    value: float

    @staticmethod
    def pair(score, sums, query, key, vector):
        return sums

    @staticmethod
    def finish(score, raw):
        return raw + score.value

    @staticmethod
    def toward_query(score, sums, d_raw, query, key, vector):
        return sums

    @staticmethod
    def toward_key(score, sums, d_raw, query, key, vector):
        return sums


class GATv2Kernel(NamedTuple):
    """s = v · LeakyReLU(q + k); ReLU where the slope is 0."""

    vector: np.ndarray
    """v of every head, `head · key_dim`."""
    negative_slope: float

    @staticmethod
    def pair(score, sums, query, key, vector):
        z = query + key
        return fma(vector, where(z > 0.0, z, z * score.negative_slope), sums)

    @staticmethod
    def toward_query(score, sums, d_raw, query, key, vector):
        return fma(d_raw, where(query + key > 0.0, vector, vector * score.negative_slope), sums)

    @staticmethod
    def toward_key(score, sums, d_raw, query, key, vector):
        return fma(d_raw, where(query + key > 0.0, vector, vector * score.negative_slope), sums)

    @staticmethod
    def toward_vector(score, sums, d_raw, query, key):
        z = query + key
        return fma(d_raw, where(z > 0.0, z, z * score.negative_slope), sums)


class AdditiveKernel(NamedTuple):
    """s = v · f(q + k), f one of TANH, SIGMOID, SILU, GELU."""

    vector: np.ndarray
    activation: int

    @staticmethod
    def pair(score, sums, query, key, vector):
        return fma(vector, activated(score.activation, query + key), sums)

    @staticmethod
    def toward_query(score, sums, d_raw, query, key, vector):
        return fma(d_raw, vector * activation_derivative(score.activation, query + key), sums)

    @staticmethod
    def toward_key(score, sums, d_raw, query, key, vector):
        return fma(d_raw, vector * activation_derivative(score.activation, query + key), sums)

    @staticmethod
    def toward_vector(score, sums, d_raw, query, key):
        return fma(d_raw, activated(score.activation, query + key), sums)


class FactoredTanhKernel(NamedTuple):
    """s = v · (1 − 2 / (1 + x y)), which for x = e²ᵠ and y = e²ᵏ is v · tanh(q + k) without an exponential a pair."""

    vector: np.ndarray

    @staticmethod
    def pair(score, sums, query, key, vector):
        return fma(vector, fma(-2.0, inverse(fma(query, key, fill(key, 1.0))), fill(key, 1.0)), sums)

    @staticmethod
    def toward_query(score, sums, d_raw, query, key, vector):
        reciprocal = inverse(fma(query, key, fill(key, 1.0)))
        return fma(d_raw + d_raw, vector * key * reciprocal * reciprocal, sums)

    @staticmethod
    def toward_key(score, sums, d_raw, query, key, vector):
        reciprocal = inverse(fma(query, key, fill(key, 1.0)))
        return fma(d_raw + d_raw, vector * query * reciprocal * reciprocal, sums)

    @staticmethod
    def toward_vector(score, sums, d_raw, query, key):
        return fma(d_raw, fma(-2.0, inverse(fma(query, key, fill(key, 1.0))), fill(key, 1.0)), sums)


class DistanceKernel(NamedTuple):
    """s = −‖q − k‖², or its root with a minus."""

    root: int
    """1 for the distance itself, 0 for its square."""

    @staticmethod
    def pair(score, sums, query, key, vector):
        gap = query - key
        return fma(gap, gap, sums)

    @staticmethod
    def finish(score, raw):
        return 0.0 - square_root(raw) if score.root else 0.0 - raw

    @staticmethod
    def d_raw_of(score, distance, d_score):
        # −√raw has the derivative 1 / (2 · −√raw); at the distance 0 it has none, and gets 0.
        if score.root:
            return where(distance == 0.0, 0.0, d_score / where(distance == 0.0, 1.0, distance + distance))
        return 0.0 - d_score

    @staticmethod
    def toward_query(score, sums, d_raw, query, key, vector):
        return fma(d_raw + d_raw, query - key, sums)

    @staticmethod
    def toward_key(score, sums, d_raw, query, key, vector):
        return fma(d_raw + d_raw, key - query, sums)


def pair(score: Any, sums: Any, query: Any, key: Any, vector: Any) -> Any:
    """The sums so far and what these features add."""


def finish(score: Any, raw: Any) -> Any:
    """The score, from the sum over all features."""


def d_raw_of(score: Any, value: Any, d_score: Any) -> Any:
    """The derivative toward the sum, from the score and the derivative toward it."""


def toward_query(score: Any, sums: Any, d_raw: Any, query: Any, key: Any, vector: Any) -> Any:
    """The gradient of the query's features so far, and what this pair adds."""


def toward_key(score: Any, sums: Any, d_raw: Any, query: Any, key: Any, vector: Any) -> Any:
    """The gradient of the key's features so far, and what this pair adds."""


def toward_vector(score: Any, sums: Any, d_raw: Any, query: Any, key: Any) -> Any:
    """The gradient of the vector's features so far, and what this pair adds."""


def vector_of(score: Any, index: int, step: int, otherwise: Any) -> Any:
    """The vector's features from `index` on, as `load_heads` reads them; `otherwise` where the score has none."""


def spread_vector_of(score: Any, index: int, otherwise: Any) -> Any:
    """One feature of the vector, in all lanes; `otherwise` where the score has none."""


def has_vector(score: Any) -> Any:
    """Whether the score has a vector."""


WITHOUT_VECTOR: dict[str, Any] = {
    "finish": lambda score, raw: raw,
    "d_raw_of": lambda score, found, d_score: d_score,
    "toward_vector": lambda score, sums, d_raw, query, key: sums,
    "vector_of": lambda score, index, step, otherwise: otherwise,
    "spread_vector_of": lambda score, index, otherwise: otherwise,
    "has_vector": lambda score: False,
}
"""The defaults: a score that is the sum itself, without a vector."""
WITH_VECTOR = WITHOUT_VECTOR | {
    "vector_of": lambda score, index, step, otherwise: load_heads(pointer(score.vector), index, step, otherwise),
    "spread_vector_of": lambda score, index, otherwise: fill(otherwise, get(pointer(score.vector), index)),
    "has_vector": lambda score: True,
}


def _choose(function: Any) -> None:
    """numba picks the part by the type of the score, when it compiles a kernel."""

    @overload(function, strict=False, jit_options={"forceinline": True, "error_model": "numpy"})
    def chosen(score, *arguments):
        score_class, name = score.instance_class, function.__name__
        return (
            getattr(score_class, name, None)
            or (WITH_VECTOR if "vector" in score_class._fields else WITHOUT_VECTOR)[name]
        )


_PARTS = pair, toward_query, toward_key, finish, d_raw_of, toward_vector, vector_of, spread_vector_of, has_vector
for _function in _PARTS:
    _choose(_function)


@inlined
def activated(activation, z):
    """f(z)."""
    if activation == TANH:
        return tanh(z)
    if activation == SIGMOID:
        return sigmoid(z)
    if activation == SILU:
        return z * sigmoid(z)
    return z * (0.5 + 0.5 * erf(z * 0.7071067811865476))


@inlined
def activation_derivative(activation, z):
    """f′(z)."""
    if activation == TANH:
        value = tanh(z)
        return 1.0 - value * value
    if activation == SIGMOID:
        value = sigmoid(z)
        return value * (1.0 - value)
    if activation == SILU:
        value = sigmoid(z)
        return value * (1.0 + z * (1.0 - value))
    density = exp(-0.5 * z * z) * 0.3989422804014327
    return 0.5 + 0.5 * erf(z * 0.7071067811865476) + z * density
