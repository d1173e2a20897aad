"""What units add: functions that are sums over units are explained by their terms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.explain.additive import KnownInputs, contributions

TERMS = {"a": 1.5, "b": -2.0, "c": 0.25, "d": 4.0}
BASELINE = 0.7


def value(units):
    return BASELINE + sum(TERMS[unit] for unit in units)


def explained(units, known, noise=1e-3):
    inputs = KnownInputs.of([[(unit,) for unit in row] for row in known], noise, [1.0])
    lacking = [units, *(units[:place] + units[place + 1 :] for place in range(len(units)))]
    atoms = [[(unit,) for unit in row] for row in lacking]
    predictions = np.array([value(row) for row in lacking])
    noises = np.r_[0.0, np.full(len(units), noise)]
    return contributions(atoms, predictions, noises, inputs, np.array([value(row) for row in known]))


KNOWN = ["a", "bb", "acc", "dd", "abcd", "bbda", "cccc", "bcd"]


def test_a_sum_is_explained_by_its_terms():
    found = explained("aabd", KNOWN, 1e-5)
    np.testing.assert_allclose(found.values, [1.5, 1.5, -2, 4], atol=1e-3)
    assert found.baseline == pytest.approx(BASELINE, abs=1e-3)


@given(st.text("abcd", min_size=1, max_size=8), st.randoms())
def test_values_sum_to_the_prediction_and_follow_their_units(units, random):
    found = explained(units, KNOWN)
    assert found.values.sum() + found.baseline == pytest.approx(value(units), abs=1e-9)
    order = random.sample(range(len(units)), len(units))
    again = explained("".join(units[place] for place in order), KNOWN)
    np.testing.assert_allclose(again.values, found.values[order], atol=1e-6)


def test_what_two_units_cause_together_is_shared_evenly():
    """6 where both are there, nothing else: each gets 3."""
    known = KnownInputs.of([[("c",)], [("a",)], [("b",)]], 1e-6, [1.0])
    found = contributions([[("a",), ("b",), ("c",)]], np.array([6.0]), np.zeros(1), known, np.zeros(3))
    assert found.values[0] == pytest.approx(found.values[1])


def test_units_that_no_known_input_has():
    known = KnownInputs.of([[("c",)], [("c",), ("c",)]], 1e-2, [1.0])
    found = contributions([[("z",)]], np.array([5.0]), np.zeros(1), known, np.array([1.0, 2.0]))
    assert np.isfinite(found.values).all()
    assert found.values.sum() + found.baseline == pytest.approx(5)
