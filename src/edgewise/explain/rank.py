"""Ranks, and their correlation."""

import math

import numpy as np
from jaxtyping import Float


def spearman(first: Float[np.ndarray, " unit"], second: Float[np.ndarray, " unit"]) -> float:
    """Spearman's rank correlation: Pearson's correlation of the ranks, where equal numbers share their mean rank.

    Returns:
        From −1, the reverse order, to 1, the same order; NaN if a number is NaN, or if all numbers of a list are equal.

    Source: Spearman 1904.

    >>> spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 1000.0]))
    1.0
    """
    if len(first) < 2 or np.isnan(first).any() or np.isnan(second).any():
        return math.nan

    a, b = (values - values.mean() for values in (ranks(first), ranks(second)))
    size = math.sqrt((a @ a) * (b @ b))
    return float(a @ b) / size if size > 0 else math.nan


def ranks(values: np.ndarray) -> np.ndarray:
    """The rank of each number in ascending order, from 1; equal numbers share their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (counts.cumsum() - (counts - 1) / 2)[inverse]
