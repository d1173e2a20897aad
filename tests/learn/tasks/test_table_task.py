"""What a task over the rows of a table does between its models and its data."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from edgewise.learn.readers.molecules.data import molecules_from_arrays
from edgewise.learn.tables.split import Splits, evenly_spaced
from edgewise.learn.tasks.molecules.task import TABLE
from edgewise.learn.tasks.targets import balanced, rows_to_fit

NAN = np.nan


@pytest.mark.parametrize("max_scored", [100, 5])
def test_each_calibration_row_has_the_similarity_of_its_own(max_scored):
    """Where only some rows of a fold calibrate, the similarities of others stood at wrong rows."""
    empty, left_out = np.arange(0), (np.arange(0, 12, 2), np.arange(1, 12, 2))
    splits = Splits(np.arange(12), empty, empty, calibration="group", left_out=left_out)
    compared = []

    def similarities(data, rows, reference_rows):
        compared.append(reference_rows.tolist())
        return {"similarity": rows.astype(float)}

    prepared = SimpleNamespace(fitted=SimpleNamespace(similarities=similarities), data=None, splits=splits)
    rows = evenly_spaced(splits.calibrating, max_scored)
    found = TABLE.held_out_similarities(prepared, rows)
    assert found["similarity"].tolist() == rows.tolist()
    assert compared == [list(range(1, 12, 2)), list(range(0, 12, 2))], "the whole of what the others learned from"


def test_rows_of_a_rare_target_are_among_those_that_baselines_are_fitted_to(monkeypatch):
    """Trees of a target without any value were fitted, which scikit-learn refuses, after the training."""
    monkeypatch.setattr("edgewise.learn.tasks.targets.MAX_FITTED", 4)
    targets = np.stack([np.arange(13.0), np.full(13, NAN)], axis=1)
    targets[[2, 7, 12], 1] = 1.0  # row 7 is chosen, but weighs nothing; row 12 is no training row
    table = molecules_from_arrays(["C"] * 13, targets, weights=[1.0] * 7 + [0.0] + [1.0] * 5).rows
    assert rows_to_fit(table, np.arange(12)).tolist() == [0, 2, 4, 7, 11]
    targets[11, 1] = 1.0
    assert rows_to_fit(replace(table, targets=targets), np.arange(12)).tolist() == [0, 4, 7, 11]


def test_classes_are_balanced_as_scikit_learn_balances_them():
    """Rows were counted whatever they weigh: those without weight, too, made their class common."""
    from sklearn.utils.class_weight import compute_class_weight

    targets, weights = np.array([0.0, 0, 0, 1, NAN, 2, 2]), np.array([2.0, 1, 0, 1, 9, 0.5, 1.5])
    is_known = ~np.isnan(targets)
    expected = compute_class_weight(
        "balanced", classes=np.arange(3), y=targets[is_known].astype(int), sample_weight=weights[is_known]
    )
    np.testing.assert_allclose(balanced(targets, weights, 3), expected)
    doubled = np.repeat(targets[is_known], np.array([2, 1, 0, 1, 1, 3]))
    as_doubled = balanced(targets[is_known], np.array([2.0, 1, 0, 1, 1, 3]), 3)
    assert balanced(doubled, np.ones(len(doubled)), 3) == as_doubled
