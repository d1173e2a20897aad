"""Numbers as people read them: three significant digits at least, whatever their size."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import edgewise
from edgewise.cli.explain import prediction_words
from edgewise.explain.explanation import Curve, Explanation, TargetPrediction
from edgewise.explain.numbers import formatted, percent
from edgewise.learn.tasks.motion.forces import power
from edgewise.learn.tasks.scores import by_own_name, score_table
from edgewise.view.explanation import prediction_words as words_of_a_page

FIXED = re.compile(r":,?\.\d[f%]\}")
"""A format with a fixed number of decimals, which shows 0.0000 for what is small."""
ALLOWED = {
    "explain/numbers.py": 1,  # what all others call
    "learn/tasks/report/sections.py": 1,  # seconds
    "learn/tasks/motion/forces.py": 1,  # an exponent
    "learn/tasks/scores.py": 1,  # seconds
    "learn/tasks/graph_explainable.py": 1,  # a large share
    "learn/tasks/molecules/explainable.py": 1,  # a large share
    "learn/progress.py": 2,  # seconds
    "explain/sets.py": 2,  # degrees
    "explain/verdict.py": 1,  # the confidence
    "learn/training/estimate.py": 2,  # gigabytes, kilobytes
    "cli/verify.py": 1,  # megabytes
    "learn/readers/store/build.py": 1,  # megabytes
    "learn/tables/arrays.py": 2,  # gigabytes
    "view/molecule.py": 2,  # places on a page
    "view/force.py": 1,  # an exponent
}


@given(st.floats(1e-300, 1e300) | st.floats(1e-6, 1e6))
def test_three_digits_survive(value):
    for each in (value, -value, np.float32(value) if 1e-30 < value < 1e30 else value):
        assert float(formatted(each)) == pytest.approx(float(each), rel=5.1e-3)
    assert float(percent(value).removesuffix("%")) == pytest.approx(100 * value, rel=5.1e-3)


def test_by_hand():
    numbers = [None, float("nan"), 0.0, 3, 12_345, 0.98765432, 0.0123, 0.00123456, 1.23456e-9, -2.5e-12, 12.3456, 1e6]
    assert [formatted(number) for number in numbers] == [
        *("-", "-", "0", "3", "12,345", "0.9877", "0.0123", "0.00123", "1.23e-09", "-2.5e-12", "12.35", "1e+06"),
    ]
    assert [percent(share) for share in (0.0, 0.925, 1.0, 0.04567, 1e-6, float("nan"))] == [
        *("0%", "92.5%", "100%", "4.57%", "0.0001%", "-"),
    ]


def test_small_scores_and_predictions_are_read():
    rows = score_table("y", {"edgewise": {"rmse": 1.2345e-9, "mae": 0.0}}, by_own_name("rmse", "mae")).rows
    assert rows == [["edgewise", "1.23e-09", "0"]]
    small = TargetPrediction("y", 1.2345e-9, std=2e-10, low=1e-9, high=1.5e-9)
    assert prediction_words(small) == "y 1.23e-09 ± 2e-10 (1e-09 to 1.5e-09)"
    assert words_of_a_page(small) == "y = 1.23e-09"
    late = TargetPrediction("t", 1.7000000123e9, std=31.88, low=1.69999999e9, high=1.7000000891e9)
    assert prediction_words(late) == "t 1700000012 ± 31.88 (1699999990 to 1700000089)"
    assert words_of_a_page(late) == "t = 1700000012"
    explanation = Explanation(
        "graph", "n", {}, (late,), "t", (), curves=(Curve("x", *np.full((2, 1), 1.70000001e9), 0.0),)
    )
    plain = explanation.to_json()
    assert plain["predictions"][0]["value"] == 1.7000000123e9
    assert plain["curves"][0]["predictions"] == [1.70000001e9]
    assert power({"exponent": -2.0, "plus_minus": 1.23456e-5}) == "r^-2.000 ± 1.23e-05"


def test_no_number_of_unknown_size_has_fixed_decimals():
    """A new one is written by `formatted` or `percent`, or its size is known, and it is listed above."""
    source = Path(edgewise.__file__).parent
    counts = {str(path.relative_to(source)): len(FIXED.findall(path.read_text())) for path in source.rglob("*.py")}
    assert {name: count for name, count in counts.items() if count} == ALLOWED
