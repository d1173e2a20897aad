"""What a report computes: coverage and reliability by hand, confusion, the worst rows."""

from dataclasses import replace

import numpy as np
import pytest

from edgewise.learn.tasks.report.evaluation import (
    MAX_LABELS,
    OTHERS,
    EvaluatedRows,
    Labels,
    Numbers,
    confusion,
    coverage,
    reliability,
    worst,
)
from edgewise.learn.tasks.report.sections import label_sections
from edgewise.learn.training.conformal import interval_radius

ROWS = EvaluatedRows([], (), [], 0)


def numbers(true, predicted, errors):
    return Numbers(
        "y", *(np.array(each, dtype=float) for each in (true, predicted)), ROWS, np.array(errors, dtype=float)
    )


def labels(true, probabilities, classes=("a", "b")):
    return Labels("y", classes, np.array(true), np.array(probabilities, dtype=float), ROWS)


def test_coverage_by_hand():
    # Nine validation errors 1 … 9: the radius for 0.1 is 1, for 0.9 it is 9; 0.95 and 0.99 would need more of them.
    found = coverage(numbers([0] * 4, [0.5, -2.5, 8.5, 20], range(1, 10)))
    np.testing.assert_allclose(found.nominal, np.arange(1, 10) / 10)
    np.testing.assert_allclose(found.observed, [0.25, 0.25, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.75])
    assert found.num_rows == 4


def test_coverage_is_that_of_the_intervals():
    rng = np.random.default_rng(0)
    true, errors = rng.normal(size=200), rng.normal(size=99)
    predicted = true + rng.normal(size=200)
    found = coverage(numbers(true, predicted, errors))
    for promise, observed in zip(found.nominal, found.observed, strict=True):
        radius = interval_radius(errors, promise)
        assert observed == pytest.approx(np.mean((predicted - radius <= true) & (true <= predicted + radius)))
        assert abs(observed - promise) < 0.15


def test_no_coverage_without_errors_or_rows():
    assert coverage(numbers([1], [1], [])) is None
    assert coverage(numbers([np.nan], [1], [1] * 20)) is None


def test_reliability_by_hand():
    chances = np.array([0.05, 0.05, 0.75, 0.75, 0.75, 1.0])
    found = reliability(labels([0, 1, 1, 1, 0, 1], np.stack([1 - chances, chances], 1)))
    assert found.event == "being b"
    np.testing.assert_allclose(found.mean, [0.05, 0.75, 1.0])
    np.testing.assert_allclose(found.observed, [0.5, 2 / 3, 1.0])
    assert found.counts.tolist() == [2, 3, 1]
    assert found.error == pytest.approx((2 * 0.45 + 3 * (0.75 - 2 / 3)) / 6)


def test_reliability_of_several_classes_uses_the_most_probable():
    found = reliability(labels([2, 0, -1], [[0.1, 0.2, 0.7], [0.1, 0.2, 0.7], [1, 0, 0]], ("a", "b", "c")))
    assert (found.event, found.counts.tolist(), found.observed.tolist()) == ("being right", [2], [0.5])
    assert reliability(labels([-1], [[0.5, 0.5]])) is None


def test_confusion_by_hand_and_of_many_classes():
    found = confusion(["a", "a", "b"], ["a", "b", "b"], ("b", "a", "c"))
    assert found.labels == ("b", "a")
    assert found.counts.tolist() == [[1, 0], [1, 1]]
    names = [f"{number:02}" for number in range(30)]
    often = [name for place, name in enumerate(names) for _ in range(40 - place)]
    found = confusion(often, often)
    assert len(found.labels) == MAX_LABELS
    assert found.labels[-1] == OTHERS
    assert found.labels[:-1] == tuple(names[: MAX_LABELS - 1])
    assert found.counts.sum() == np.trace(found.counts) == len(often)


def test_the_worst_rows():
    assert worst(numbers([1, 2, np.nan, 4], [1.5, 0, 9, 4], []), 2).tolist() == [1, 0]
    predicted = labels([0, 1, 1, -1], [[0.2, 0.8], [0.9, 0.1], [0.4, 0.6], [1, 0]])
    assert worst(predicted, 5).tolist() == [1, 0], (
        "the least probable true class first; what is right and what is unknown is not among them"
    )


def test_a_report_looks_at_the_probabilities_of_all_rows_once_however_many_are_wrong(monkeypatch):
    found = labels([0] * 300, [[0.2, 0.8]] * 300)
    looks = []
    monkeypatch.setattr(np, "isnan", lambda array, of=np.isnan: looks.append(np.size(array)) or of(array))
    label_sections(replace(found, rows=EvaluatedRows([str(row) for row in range(300)], (), [()] * 300, 300)))
    assert sum(looks) < 20 * 600, "the time of a report grows with the rows, not with their square"
