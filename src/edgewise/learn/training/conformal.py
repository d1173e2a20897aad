"""Intervals with a promised coverage, from the errors on rows the model has not learned from.

    low, high = prediction ∓ r · σ(x)        r = quantile of |errorᵢ| / σ(xᵢ) over the calibration rows

σ(x), the difficulty of a row, grows with its distance to the training rows and with the spread of the model's outputs.
Where new rows come from groups that the model has not seen (molecules, scaffolds), the calibration rows must come from
unseen groups, too.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Self

import numpy as np
from jaxtyping import Float, Int64

from edgewise.errors import SettingError

COVERAGES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""Nominal coverages that are compared with the observed ones."""
MIN_ROWS, MIN_GROUPS = 50, 5
"""Calibration rows and groups needed to learn the difficulty of a row; with fewer it is the same for all."""
FEW_GROUPS = 20
"""Groups below which the coverage of a single calibration is uncertain: with 9 it varied by 0.07 (standard deviation)
between calibrations on CO₂ in ionic liquids."""
NUM_PARTS = 5
"""Parts of the calibration rows; the difficulty of each part is learned from the others."""
NUM_STEPS = 50
"""Steps of Newton's method at most."""


def interval_radius(errors: Float[np.ndarray, " row"], coverage: float) -> float:
    """Half the width of a split-conformal interval; with errors divided by σ(x), half the width divided by σ(x).

        r = the ⌈(n + 1) · coverage⌉-th smallest of |error₁| … |errorₙ|

    A new row from where the n rows came lies within prediction ± r with a probability of at least `coverage`. Rows of
    one group come together: with few groups the promise holds on average over calibrations, and less surely for one.

    Args:
        errors: Prediction minus target on rows the model has not learned from; NaN where the target is missing.
        coverage: The promised probability, between 0 and 1.

    Returns:
        The radius in the unit of the errors; infinite where n is too small to promise anything.

    Source: Lei et al. 2018, Distribution-free predictive inference for regression, algorithm 2; for groups Dunn,
    Wasserman & Ramdas 2022, Distribution-free prediction sets for two-layer hierarchical models (pooling).
    """
    check_coverage(coverage)
    sizes = np.sort(np.abs(errors[~np.isnan(errors)]))
    # Rounding first: 9 · 0.9 is a little more than 8.1 in floating point, and 10 · 0.9 must not become 10.
    rank = math.ceil(round((len(sizes) + 1) * coverage, 9))
    return float(sizes[rank - 1]) if rank <= len(sizes) else math.inf


def rows_for(coverage: float) -> int:
    """The smallest number of calibration rows with which an interval is finite."""
    count = max(1, math.floor(coverage / (1 - coverage)) - 1)
    while math.ceil(round((count + 1) * coverage, 9)) > count:
        count += 1
    return count


def empty_intervals(counts: Mapping[str, int], coverage: float) -> str:
    """Why the intervals of a target stay empty, and the remedy; empty where all have intervals.

    Args:
        counts: Calibration rows of each target.
        coverage: The promised probability.
    """
    needed = rows_for(coverage)
    for name, count in counts.items():
        if count < needed:
            largest = math.floor(100 * count / (count + 1)) / 100
            alternative = f", or a coverage of at most {largest:g}" if count else ""
            return (
                f"intervals of {name} stay empty: a coverage of {coverage:g} takes {needed} validation rows with a "
                f"target, there {'is' if count == 1 else 'are'} {count}; give more{alternative}"
            )

    return ""


@dataclass(frozen=True)
class Difficulty:
    """The expected size of the error of a row: σ(x) = exp(a + Σ_j b_j f_j(x)), b_j ≥ 0.

    Source: Papadopoulos, Vovk & Gammerman 2011, Regression conformal prediction with nearest neighbours, eq. 16
    (normalized nonconformity); here σ is a model of |error| as an exponential variable.
    """

    constant: float = 0.0
    """a."""
    slopes: tuple[float, ...] = ()
    """b, one for each feature; none where all rows count the same."""

    @classmethod
    def fit(cls, features: Float[np.ndarray, " row feature"], errors: Float[np.ndarray, " row"]) -> Self:
        """Learns σ by maximum likelihood, Σ log σ(xᵢ) + |errorᵢ| / σ(xᵢ); features with a negative slope are left out.

        Args:
            features: What grows with the difficulty of a row, such as the distance to the training rows.
            errors: Prediction minus target; NaN rows are left out.
        """
        is_known = ~np.isnan(errors)
        features, sizes = features[is_known], np.abs(errors[is_known])
        if not len(sizes) or not sizes.any():
            return cls(0.0, (0.0,) * features.shape[1])

        used = [column for column in range(features.shape[1]) if np.ptp(features[:, column]) > 0]
        while True:
            coefficients = _likeliest(features[:, used], sizes)
            if not (coefficients[1:] < 0).any():
                break
            used.pop(int(np.argmin(coefficients[1:])))

        slopes = np.zeros(features.shape[1])
        slopes[used] = coefficients[1:]
        return cls(float(coefficients[0]), tuple(slopes.tolist()))

    def __call__(self, features: Float[np.ndarray, " row feature"]) -> Float[np.ndarray, " row"]:
        """σ of each row."""
        if not self.slopes:
            return np.ones(len(features))
        return np.exp(self.constant + features @ np.array(self.slopes))


def learn_difficulty(
    features: Float[np.ndarray, " row feature"],
    errors: Float[np.ndarray, " row"],
    groups: Int64[np.ndarray, " row"] | None = None,
) -> tuple[Difficulty, Float[np.ndarray, " row"]]:
    """σ, and σ of each calibration row, learned without its group.

    A σ that had seen the errors would call large errors expected, and the quantile would be too small.

    Args:
        features: What grows with the difficulty of a row.
        errors: Prediction minus target; NaN where the target is missing.
        groups: The group of each row; None if each row is its own.

    Returns:
        The same for all rows, 1, where there are too few rows or groups to learn from.
    """
    groups = np.arange(len(errors)) if groups is None else groups
    names, group = np.unique(groups, return_inverse=True)
    num_known = int((~np.isnan(errors)).sum())
    if not features.shape[1] or num_known < MIN_ROWS or len(np.unique(groups[~np.isnan(errors)])) < MIN_GROUPS:
        return Difficulty(), np.ones(len(errors))
    part = (np.random.default_rng(0).permutation(len(names)) % NUM_PARTS)[group]

    sigma = np.ones(len(errors))
    for number in range(NUM_PARTS):
        in_fold = part == number
        sigma[in_fold] = Difficulty.fit(features[~in_fold], errors[~in_fold])(features[in_fold])
    return Difficulty.fit(features, errors), sigma


def coverage_of(targets: np.ndarray, low: np.ndarray, high: np.ndarray) -> float | None:
    """The share of the known targets within their intervals; None without targets or intervals."""
    is_known = ~np.isnan(targets) & ~np.isnan(low) & ~np.isnan(high)
    if not is_known.any():
        return None
    return float(((low <= targets) & (targets <= high))[is_known].mean())


def check_coverage(coverage: float) -> None:
    """Raise SettingError unless the coverage is a probability that an interval can promise."""
    if not isinstance(coverage, Real) or not 0 < coverage < 1:
        raise SettingError(f"--coverage is {coverage!r:.60}; expected a number above 0 and below 1, such as 0.9.")


def _likeliest(features: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The constant and the slopes of greatest likelihood: a convex problem, by Newton's method with halved steps."""
    design = np.concatenate([np.ones((len(sizes), 1)), features], axis=1)
    coefficients = np.zeros(design.shape[1])
    coefficients[0] = math.log(sizes.mean())
    ridge = 1e-6 * len(sizes) * np.eye(len(coefficients))

    def loss(weights: np.ndarray) -> float:
        expected = design @ weights
        return float((expected + sizes * np.exp(-np.clip(expected, -500, 500))).sum())

    for _ in range(NUM_STEPS):
        ratio = sizes * np.exp(-np.clip(design @ coefficients, -500, 500))
        step = np.linalg.solve((design * ratio[:, None]).T @ design + ridge, design.T @ (ratio - 1))
        before, share = loss(coefficients), 1.0
        while loss(coefficients + share * step) > before and share > 1e-6:
            share /= 2
        coefficients = coefficients + share * step
        if np.abs(step).max() < 1e-8:
            break

    return coefficients
