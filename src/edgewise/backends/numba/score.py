"""How well a query and a key match, on lanes: each score is its sum over the features and the derivatives of it.

    raw = Σ_d pair(q_d, k_d)        s = finish(raw)
    dq_d = ds' · toward_query       dk_d = ds' · toward_key       dv_d = ds' · toward_vector       ds' = unfinish(s, ds)

Both forms, edges and ranges, are written over these few functions; a new score is a class here and its entry in PARTS.
Scores that a change of the operands turns into another (cosine, bilinear, GAT, a learned length) are made in `lower`.
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


class Product(NamedTuple):
    """s = after · (before · q)·k, so that no product overflows whose score does not; see `edgewise.score.parted`."""

    before: float
    after: float


class Blind(NamedTuple):
    """s = value, whatever the pair."""

    value: float


class Bent(NamedTuple):
    """s = v · LeakyReLU(q + k); ReLU where the slope is 0."""

    vector: np.ndarray
    """v of every head, `head · key_dim`."""
    slope: float


class Smooth(NamedTuple):
    """s = v · f(q + k), f one of TANH, SIGMOID, SILU, GELU."""

    vector: np.ndarray
    """v of every head, `head · key_dim`."""
    activation: int


class Twist(NamedTuple):
    """s = v · (1 − 2 / (1 + x y)), which for x = e²ᵠ and y = e²ᵏ is v · tanh(q + k) without an exponential a pair."""

    vector: np.ndarray
    """v of every head, `head · key_dim`."""


class Square(NamedTuple):
    """s = −‖q − k‖², or its root with a minus."""

    root: int
    """1 for the distance itself, 0 for its square."""


def pair(score: Any, sums: Any, query: Any, key: Any, vector: Any) -> Any:
    """The sums so far and what these features add."""


def finish(score: Any, raw: Any) -> Any:
    """The score, from the sum over all features."""


def unfinish(score: Any, found: Any, slope: Any) -> Any:
    """The derivative toward the sum, from the score and the derivative toward it."""


def toward_query(score: Any, sums: Any, slope: Any, query: Any, key: Any, vector: Any) -> Any:
    """The gradient of the query's features so far, and what this pair adds."""


def toward_key(score: Any, sums: Any, slope: Any, query: Any, key: Any, vector: Any) -> Any:
    """The gradient of the key's features so far, and what this pair adds."""


def toward_vector(score: Any, sums: Any, slope: Any, query: Any, key: Any) -> Any:
    """The gradient of the vector's features so far, and what this pair adds."""


def vector_of(score: Any, index: int, step: int, otherwise: Any) -> Any:
    """The vector's features from `index` on, as `load_heads` reads them; `otherwise` where the score has none."""


def spread_vector_of(score: Any, index: int, otherwise: Any) -> Any:
    """One feature of the vector, in all lanes; `otherwise` where the score has none."""


def has_vector(score: Any) -> Any:
    """Whether the score has a vector."""


def _product_pair(score, sums, query, key, vector):
    return fma(query * score.before, key, sums)


def _bent_pair(score, sums, query, key, vector):
    z = query + key
    return fma(vector, where(z > 0.0, z, z * score.slope), sums)


def _smooth_pair(score, sums, query, key, vector):
    return fma(vector, activated(score.activation, query + key), sums)


def _twist_pair(score, sums, query, key, vector):
    return fma(vector, fma(-2.0, inverse(fma(query, key, fill(key, 1.0))), fill(key, 1.0)), sums)


def _square_pair(score, sums, query, key, vector):
    gap = query - key
    return fma(gap, gap, sums)


def _blind_pair(score, sums, query, key, vector):
    return sums


def _product_finish(score, raw):
    return raw * score.after


def _as_it_is(score, raw):
    return raw


def _square_finish(score, raw):
    return 0.0 - square_root(raw) if score.root else 0.0 - raw


def _blind_finish(score, raw):
    return raw + score.value


def _product_unfinish(score, found, slope):
    return slope * score.before * score.after


def _unchanged(score, found, slope):
    return slope


def _square_unfinish(score, found, slope):
    # −√raw has the derivative 1 / (2 · −√raw); at the distance 0 it has none, and gets 0.
    if score.root:
        return where(found == 0.0, 0.0, slope / where(found == 0.0, 1.0, found + found))
    return 0.0 - slope


def _product_toward_query(score, sums, slope, query, key, vector):
    return fma(slope, key, sums)


def _product_toward_key(score, sums, slope, query, key, vector):
    return fma(slope, query, sums)


def _bent_toward(score, sums, slope, query, key, vector):
    return fma(slope, where(query + key > 0.0, vector, vector * score.slope), sums)


def _smooth_toward(score, sums, slope, query, key, vector):
    return fma(slope, vector * activation_slope(score.activation, query + key), sums)


def _twist_toward_query(score, sums, slope, query, key, vector):
    found = inverse(fma(query, key, fill(key, 1.0)))
    return fma(slope + slope, vector * key * found * found, sums)


def _twist_toward_key(score, sums, slope, query, key, vector):
    found = inverse(fma(query, key, fill(key, 1.0)))
    return fma(slope + slope, vector * query * found * found, sums)


def _square_toward_query(score, sums, slope, query, key, vector):
    return fma(slope + slope, query - key, sums)


def _square_toward_key(score, sums, slope, query, key, vector):
    return fma(slope + slope, key - query, sums)


def _blind_toward(score, sums, slope, query, key, vector):
    return sums


def _bent_toward_vector(score, sums, slope, query, key):
    z = query + key
    return fma(slope, where(z > 0.0, z, z * score.slope), sums)


def _twist_toward_vector(score, sums, slope, query, key):
    return fma(slope, fma(-2.0, inverse(fma(query, key, fill(key, 1.0))), fill(key, 1.0)), sums)


def _smooth_toward_vector(score, sums, slope, query, key):
    return fma(slope, activated(score.activation, query + key), sums)


def _no_vector(score, sums, slope, query, key):
    return sums


def _own_vector(score, index, step, otherwise):
    return load_heads(pointer(score.vector), index, step, otherwise)


def _own_spread_vector(score, index, otherwise):
    return fill(otherwise, get(pointer(score.vector), index))


def _otherwise(score, index, step, otherwise):
    return otherwise


def _spread_otherwise(score, index, otherwise):
    return otherwise


def _yes(score):
    return True


def _no(score):
    return False


DEFAULTS = {
    finish: _as_it_is,
    unfinish: _unchanged,
    toward_vector: _no_vector,
    vector_of: _otherwise,
    spread_vector_of: _spread_otherwise,
    has_vector: _no,
}
"""A score that is the sum itself and has no vector."""
WITH_VECTOR = {vector_of: _own_vector, spread_vector_of: _own_spread_vector, has_vector: _yes}
PARTS: dict[type, dict[Any, Any]] = {
    Product: {
        pair: _product_pair,
        finish: _product_finish,
        unfinish: _product_unfinish,
        toward_query: _product_toward_query,
        toward_key: _product_toward_key,
    },
    Bent: {
        **WITH_VECTOR,
        pair: _bent_pair,
        toward_query: _bent_toward,
        toward_key: _bent_toward,
        toward_vector: _bent_toward_vector,
    },
    Smooth: {
        **WITH_VECTOR,
        pair: _smooth_pair,
        toward_query: _smooth_toward,
        toward_key: _smooth_toward,
        toward_vector: _smooth_toward_vector,
    },
    Twist: {
        **WITH_VECTOR,
        pair: _twist_pair,
        toward_query: _twist_toward_query,
        toward_key: _twist_toward_key,
        toward_vector: _twist_toward_vector,
    },
    Square: {
        pair: _square_pair,
        finish: _square_finish,
        unfinish: _square_unfinish,
        toward_query: _square_toward_query,
        toward_key: _square_toward_key,
    },
    Blind: {pair: _blind_pair, finish: _blind_finish, toward_query: _blind_toward, toward_key: _blind_toward},
}
"""What each score is made of, where it is not the default."""


def _choose(function: Any) -> None:
    """numba picks the part by the type of the score, when it compiles a kernel."""

    @overload(function, strict=False, jit_options={"forceinline": True, "error_model": "numpy"})
    def chosen(score, *arguments):
        return (DEFAULTS | PARTS[score.instance_class])[function]


for _function in (*DEFAULTS, pair, toward_query, toward_key):
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
def activation_slope(activation, z):
    """f′(z)."""
    if activation == TANH:
        found = tanh(z)
        return 1.0 - found * found
    if activation == SIGMOID:
        found = sigmoid(z)
        return found * (1.0 - found)
    if activation == SILU:
        found = sigmoid(z)
        return found * (1.0 + z * (1.0 - found))
    density = exp(-0.5 * z * z) * 0.3989422804014327
    return 0.5 + 0.5 * erf(z * 0.7071067811865476) + z * density
