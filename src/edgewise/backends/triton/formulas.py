"""Formulas that kernels over edges, small graphs and ranges share; F is what is compiled in, of any of them."""

from typing import no_type_check

import triton.language as tl

import triton


@triton.jit
@no_type_check
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
@no_type_check
def steepness(x, F: tl.constexpr):
    """f'(x)."""
    if F.activation == "tanh":
        found = 1.0 - 2.0 / (1.0 + tl.exp(2.0 * x))
        return 1.0 - found * found
    elif F.activation == "sigmoid":
        found = 1.0 / (1.0 + tl.exp(-x))
        return found * (1.0 - found)
    elif F.activation == "silu":
        found = 1.0 / (1.0 + tl.exp(-x))
        return found * (1.0 + x * (1.0 - found))
    else:
        return 0.5 * (1.0 + tl.erf(x * 0.7071067811865476)) + x * 0.3989422804014327 * tl.exp(-0.5 * x * x)


@triton.jit
@no_type_check
def unfinished(slope, score, number, F: tl.constexpr):
    """The derivative toward the sum over features, from that toward the score."""
    if F.kind == "Product":
        return slope * number
    elif F.kind == "Square":
        # d(−√x) = −dx / (2 √x); at no distance the slope is taken to be 0.
        return tl.where(score < 0.0, slope * 0.5 / tl.where(score < 0.0, score, 1.0), 0.0) if F.root else -slope
    else:
        return slope


@triton.jit
@no_type_check
def slopes_of(weight, product, center, F: tl.constexpr):
    """ds of each edge, from its weight, the derivative toward the weight and the center of its row."""
    if F.normalizer == "Softmax":
        return weight * (product - center)
    elif F.normalizer == "Sparsemax":
        return tl.where(weight > 0.0, product - center, 0.0)
    elif F.normalizer == "Entmax15":
        return tl.sqrt(weight) * (product - center)
    elif F.normalizer == "Sigmoid":
        return weight * (1.0 - weight) * product
    elif F.normalizer == "Identity":
        return product
    else:
        return 0.0 * product


@triton.jit
@no_type_check
def finite(most):
    """The largest score, to be subtracted; 0 where all are −∞."""
    return tl.where(most == float("-inf"), 0.0, most)


@triton.jit
@no_type_check
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
@no_type_check
def nearer_threshold(threshold, total, fall):
    """A threshold nearer to that of Σ α = 1, and 1 where it moved; `fall` is how fast Σ α falls.

    By Newton's method from −1, where the sum is at least 1: it is convex and falls, so that every step ends before the
    root, and the last one moves no more (Martins & Astudillo 2016; Peters et al. 2019).
    """
    higher = threshold + tl.where(fall > 0.0, (total - 1.0) / tl.where(fall > 0.0, fall, 1.0), 0.0)
    return tl.maximum(higher, threshold), tl.where(higher > threshold, 1, 0)
