"""Intervals cover what they promise."""

import math

import numpy as np
import pytest

from edgewise.errors import SettingError
from edgewise.train.conformal import coverage_of, interval_radius


@pytest.mark.parametrize(
    ("coverage", "expected"),
    # Nine errors: ranks ceil(10 · coverage).
    [(0.9, 9.0), (0.89, 9.0), (0.8, 8.0), (0.5, 5.0), (0.51, 6.0), (0.1, 1.0), (0.91, math.inf)],
)
def test_radius_by_hand(coverage, expected):
    errors = np.array([3.0, -1.0, 2.0, -5.0, 4.0, 9.0, 7.0, -6.0, 8.0, np.nan])
    assert interval_radius(errors, coverage) == expected


def test_too_few_rows_promise_nothing():
    assert interval_radius(np.zeros(0), 0.5) == math.inf
    assert interval_radius(np.zeros(8), 0.9) == math.inf
    assert interval_radius(np.zeros(9), 0.9) == 0.0


@pytest.mark.parametrize("coverage", [0.0, 1.0, -0.5, 90, math.nan])
def test_coverage_is_a_probability(coverage):
    with pytest.raises(SettingError, match=r"--coverage is .*; expected a number above 0 and below 1"):
        interval_radius(np.ones(5), coverage)


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9])
def test_new_rows_are_covered_as_promised_on_average(coverage):
    random = np.random.default_rng(0)
    covered = [
        (np.abs(random.standard_t(2, 100)) <= interval_radius(random.standard_t(2, 19), coverage)).mean()
        for _ in range(2000)
    ]
    # The theorem: coverage ≤ P(covered) ≤ coverage + 1 / (n + 1).
    assert coverage - 0.01 <= np.mean(covered) <= coverage + 1 / 20 + 0.01


def test_coverage_of_counts_ends_as_inside_and_leaves_missing_rows_out():
    targets = np.array([1.0, 2.0, np.nan, 3.0, 9.0])
    low, high = np.array([1.0, 2.5, 0.0, 0.0, np.nan]), np.array([2.0, 3.0, 0.0, 3.0, np.nan])
    assert coverage_of(targets, low, high) == pytest.approx(2 / 3)
    assert coverage_of(np.array([np.nan]), np.zeros(1), np.ones(1)) is None
