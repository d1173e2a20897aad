"""Missing numbers are filled with the medians of training rows, and marked, as scikit-learn's SimpleImputer does."""

import json

import numpy as np
import pytest

from edgewise import DataError
from edgewise.learn.tables.impute import Imputer, filled_notes, with_filled
from edgewise.learn.tables.scale import ColumnScaler
from edgewise.learn.training.document import read_value, to_document

NAN = np.nan
VALUES = np.array([[1.0, NAN, 5.0], [3.0, 10.0, 5.0], [NAN, 40.0, 5.0], [8.0, 20.0, 5.0]])


def test_as_scikit_learn():
    from sklearn.impute import SimpleImputer

    imputer, theirs = Imputer.fit([VALUES]), SimpleImputer(strategy="median", add_indicator=True).fit(VALUES)
    new = np.array([[NAN, NAN, NAN], [2.0, 30.0, 4.0]])
    found = np.concatenate([imputer.fill(new), imputer.marks(new)], axis=1)
    np.testing.assert_array_equal(found, theirs.transform(new))  # the last column lacked nothing in training
    assert imputer.median == (3.0, 20.0, 5.0)
    assert imputer.marked == (0, 1)
    several = Imputer.fit([VALUES[:1], VALUES[1:]])
    assert several == imputer
    assert Imputer.fit([np.full((3, 1), NAN)]) == Imputer((0.0,), ()), "nothing is known, and nothing to be marked"


def test_a_scale_fills_before_all_else():
    scaler = ColumnScaler.fit(VALUES, np.arange(4))
    assert scaler.num_features == 3 + 2
    assert read_value(ColumnScaler, json.loads(json.dumps(to_document(scaler))), "") == scaler
    filled = ColumnScaler.fit(np.where(np.isnan(VALUES), [3.0, 20.0, 5.0], VALUES), np.arange(4))
    np.testing.assert_array_equal(scaler.transform(VALUES)[:, :3], filled.transform(scaler.imputer.fill(VALUES)))
    assert scaler.transform(VALUES)[:, 3:].tolist() == [[0, 1], [0, 0], [1, 0], [0, 0]]
    rows = ColumnScaler.fit(VALUES, np.array([1, 3]))  # the medians are those of the rows that are given
    assert rows.imputer == Imputer((5.5, 15.0, 5.0), ())
    assert np.isfinite(rows.transform(np.full((1, 3), NAN))).all()
    with pytest.raises(DataError, match="inf is beyond"):
        ColumnScaler.fit(np.array([[np.inf], [1.0]]), np.arange(2))
    with pytest.raises(DataError, match="marked must be columns of median"):
        Imputer((1.0,), (1,))


def test_words():
    status = with_filled(
        ["ok", "a: empty", "ok, but edges of the node cannot be read", "okay: empty"],
        {0: ["'a'"], 1: ["'a'"], 2: ["'a'", "'b'"], 3: ["'a'"]},
    )
    assert status == [
        "ok, but 'a' is missing, filled with the median",
        "a: empty",
        "ok, but edges of the node cannot be read; 'a', 'b' are missing, filled with the median",
        "okay: empty",  # a row that is not predicted: the column begins with `ok`
    ]
    assert filled_notes(np.isnan(VALUES).sum(axis=0), ["'a'", "'b'", "'c'"], "nodes", len(VALUES)) == [
        "warning: 2 missing numbers of nodes were filled with the median of the training rows, and marked: 'a' 1, 'b' 1"
    ]
    assert filled_notes(np.zeros(1, int), ["'c'"], "nodes", len(VALUES)) == []
