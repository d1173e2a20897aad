"""Intervals with a promised coverage, from the errors on rows the model has not learned from."""

import math

import numpy as np

from edgewise.errors import SettingError


def interval_radius(errors: np.ndarray, coverage: float) -> float:
    """Half the width of a split-conformal interval.

        r = the ⌈(n + 1) · coverage⌉-th smallest of |error₁| … |errorₙ|

    A new row from where the n rows came lies within prediction ± r with a probability of at least `coverage`.

    Args:
        errors: Prediction minus target on validation rows; NaN where the target is missing.
        coverage: The promised probability, between 0 and 1.

    Returns:
        The radius in the unit of the errors; infinite where n is too small to promise anything.

    Source: Lei et al. 2018, Distribution-free predictive inference for regression, algorithm 2.
    """
    check_coverage(coverage)
    sizes = np.sort(np.abs(errors[~np.isnan(errors)]))
    # Rounding first: 9 · 0.9 is a little more than 8.1 in floating point, and 10 · 0.9 must not become 10.
    rank = math.ceil(round((len(sizes) + 1) * coverage, 9))
    return float(sizes[rank - 1]) if rank <= len(sizes) else math.inf


def coverage_of(targets: np.ndarray, low: np.ndarray, high: np.ndarray) -> float | None:
    """The part of the known targets that lies within its interval; None where there are none, or no intervals."""
    known = ~np.isnan(targets) & ~np.isnan(low) & ~np.isnan(high)
    if not known.any():
        return None
    return float(((low <= targets) & (targets <= high))[known].mean())


def check_coverage(coverage: float) -> None:
    """Raise SettingError unless the coverage is a probability that an interval can promise."""
    if not 0 < coverage < 1:
        raise SettingError(f"--coverage is {coverage}; expected a number above 0 and below 1, such as 0.9.")
