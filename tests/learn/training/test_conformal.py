"""Intervals cover what they promise."""

import math

import numpy as np
import pytest

from edgewise.errors import SettingError
from edgewise.learn.training.conformal import (
    MIN_GROUPS,
    MIN_ROWS,
    Difficulty,
    coverage_of,
    interval_radius,
    learn_difficulty,
)


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


def test_difficulty_by_hand():
    # For exponential errors, the maximum-likelihood σ is the mean size: 2 where the feature is 0, 8 where it is 1.
    feature = np.array([[0.0], [0.0], [1.0], [1.0], [1.0]])
    errors = np.array([1.0, -3.0, 8.0, -4.0, 12.0])
    found = Difficulty.fit(feature, errors)
    assert (found.constant, found.slopes) == (
        pytest.approx(math.log(2), abs=1e-4),
        (pytest.approx(math.log(4), abs=1e-4),),
    )
    np.testing.assert_allclose(found(np.array([[0.0], [1.0], [0.5]])), [2, 8, 4], rtol=1e-4)
    # Nothing may make a row easier the farther away it is: σ is the mean size of all.
    assert Difficulty.fit(1 - feature, errors).slopes == (0.0,)
    np.testing.assert_allclose(Difficulty.fit(1 - feature, errors)(feature), 28 / 5, rtol=1e-4)
    missing = Difficulty.fit(np.append(feature, [[1.0]], axis=0), np.append(errors, np.nan))
    assert missing == found
    assert Difficulty.fit(feature, np.zeros(5))(feature).tolist() == [1] * 5, "errors that are all zero"


def test_expected_errors_of_a_group_are_learned_without_it():
    random = np.random.default_rng(0)
    groups, feature = np.repeat(np.arange(20), 10), random.random((200, 2))
    errors = random.normal(size=200)
    _, before = learn_difficulty(feature, errors, groups)
    _, after = learn_difficulty(feature, np.where(groups == 3, 100 * errors, errors), groups)
    np.testing.assert_array_equal(before[groups == 3], after[groups == 3])
    assert (before[groups != 3] != after[groups != 3]).any()


def test_few_rows_or_groups_are_all_as_difficult():
    feature, errors = np.arange(float(MIN_ROWS))[:, None], np.arange(1.0, MIN_ROWS + 1)
    assert learn_difficulty(feature, errors)[0].slopes[0] > 0
    for few in (
        learn_difficulty(feature[1:], errors[1:]),
        learn_difficulty(feature, np.where(errors == 1, np.nan, errors)),
        learn_difficulty(feature, errors, np.arange(MIN_ROWS) % (MIN_GROUPS - 1)),
        learn_difficulty(feature[:, :0], errors),
    ):
        assert few[0] == Difficulty()
        assert (few[1] == 1).all()
        assert (few[0](feature) == 1).all()


def test_intervals_grow_where_errors_do():
    random = np.random.default_rng(0)
    feature = random.random((4000, 1))
    errors = random.normal(size=4000) * np.exp(3 * feature[:, 0])
    difficulty, sigma = learn_difficulty(feature[:500], errors[:500])
    half = interval_radius(errors[:500] / sigma, 0.9) * difficulty(feature[500:])
    plain, new, hard = interval_radius(errors[:500], 0.9), np.abs(errors[500:]), feature[500:, 0] > 0.8
    assert 0.88 < (new <= half).mean() < 0.92
    assert 0.86 < (new <= half)[hard].mean() < 0.94
    assert (new <= plain)[hard].mean() < 0.75, "as wide for all rows, intervals fail where errors are large"
    assert half.mean() < 0.85 * plain
