"""Formulas that kernels over edges, small graphs and ranges share; F is what is compiled in, of any of them."""
# mypy: ignore-errors

import torch
import triton.language as tl
from torch import Tensor

import triton
from edgewise.backends.triton.sizes import ceiling

BLOCK = 1024
"""Factors that a program of `draw` makes."""


def dropout_factors(seed: Tensor, rate: float, members: int, queries: tuple[int, int], keys: tuple[int, int]) -> Tensor:
    """0 where a weight is dropped, else 1 / (1 − rate): `(member, query, key)`, of queries and keys from … to.

    For formulas in plain torch, which the kernels do without. Over edges a key is an edge and a query is a head.
    """
    shape = members, queries[1] - queries[0], keys[1] - keys[0]
    factors = torch.empty(shape, dtype=torch.float32, device=seed.device)
    if factors.numel() > 0:
        grid = (ceiling(factors.numel(), BLOCK),)
        draw[grid](seed, float(rate), factors, factors.numel(), queries[0], keys[0], *shape[1:], BLOCK=BLOCK)
    return factors


@triton.jit
def activated(x, F: tl.constexpr):
    """f(x)."""
    if F.activation == "tanh":
        return 1.0 - 2.0 / (1.0 + tl.exp(2.0 * x))
    elif F.activation == "sigmoid":
        return 1.0 / (1.0 + tl.exp(-x))
    elif F.activation == "silu":
        return x / (1.0 + tl.exp(-x))
    else:
        return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.jit
def activation_derivative(x, F: tl.constexpr):
    """f'(x)."""
    if F.activation == "tanh":
        value = 1.0 - 2.0 / (1.0 + tl.exp(2.0 * x))
        return 1.0 - value * value
    elif F.activation == "sigmoid":
        value = 1.0 / (1.0 + tl.exp(-x))
        return value * (1.0 - value)
    elif F.activation == "silu":
        value = 1.0 / (1.0 + tl.exp(-x))
        return value * (1.0 + x * (1.0 - value))
    else:
        return 0.5 * (1.0 + tl.erf(x * 0.7071067811865476)) + x * 0.3989422804014327 * tl.exp(-0.5 * x * x)


@triton.jit
def d_raw_of(d_score, score, number, F: tl.constexpr):
    """The derivative toward the sum over features, from that toward the score."""
    if F.kind == "Dot":
        return d_score * number
    elif F.kind == "Distance":
        # d(−√x) = −dx / (2 √x); at no distance the d_score is taken to be 0.
        return tl.where(score < 0.0, d_score * 0.5 / tl.where(score < 0.0, score, 1.0), 0.0) if F.root else -d_score
    else:
        return d_score


@triton.jit
def d_score_of(weight, d_weight, delta, F: tl.constexpr):
    """ds of each edge, from its weight, dα and Δ of its row."""
    if F.normalizer == "Softmax":
        return weight * (d_weight - delta)
    elif F.normalizer == "Sparsemax":
        return tl.where(weight > 0.0, d_weight - delta, 0.0)
    elif F.normalizer == "Entmax15":
        return tl.sqrt(weight) * (d_weight - delta)
    elif F.normalizer == "Sigmoid":
        return weight * (1.0 - weight) * d_weight
    elif F.normalizer == "Identity":
        return d_weight
    else:
        return 0.0 * d_weight


@triton.jit
def finite(row_max):
    """The largest score, to be subtracted; 0 where all are −∞."""
    return tl.where(row_max == float("-inf"), 0.0, row_max)


@triton.jit
def over_threshold(distance, threshold, F: tl.constexpr):
    """α of a score less the largest one, and how fast it falls as τ grows.

    sparsemax   α = max(s − max − τ, 0)        entmax-1.5   α = max((s − max)/2 − τ, 0)²
    """
    if F.normalizer == "Entmax15":
        above = tl.maximum(distance * 0.5 - threshold, 0.0)
        return above * above, 2.0 * above
    else:
        above = tl.maximum(distance - threshold, 0.0)
        return above, tl.where(above > 0.0, 1.0, 0.0)


@triton.jit
def nearer_threshold(threshold, total, fall):
    """A threshold nearer to that of Σ α = 1, and 1 where it moved; `fall` is how fast Σ α falls.

    By Newton's method from −1, where the sum is at least 1: it is convex and falls, so that every step ends before the
    root, and the last one moves no more (Martins & Astudillo 2016; Peters et al. 2019).
    """
    higher = threshold + tl.where(fall > 0.0, (total - 1.0) / tl.where(fall > 0.0, fall, 1.0), 0.0)
    return tl.maximum(higher, threshold), tl.where(higher > threshold, 1, 0)


@triton.jit
def draw(seed, dropout, factors, count, first_query, first_key, num_queries, num_keys, BLOCK: tl.constexpr):
    """The factors that `factors_of_edges` and `factors_of_pairs` draw."""
    at = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    key = (first_key + at % num_keys).to(tl.uint32)
    query = (first_query + at // num_keys % num_queries).to(tl.uint32)
    member = (at // num_keys // num_queries).to(tl.uint32)
    chance, _, _, _ = tl.philox(tl.load(seed), key, query, member, key * 0)
    factor = tl.where(tl.uint_to_uniform_float(chance) < dropout, 0.0, 1.0 / (1.0 - dropout))
    tl.store(factors + at, factor, mask=at < count)
