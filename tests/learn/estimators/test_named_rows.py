"""Errors in Python call rows as their owner does, and advise parameters in place of flags of the command line."""

import numpy as np
import pandas as pd
import pytest

from edgewise import DataError, SettingError
from edgewise.learn.estimators import MoleculeRegressor, NodeRegressor, Tagger, TextClassifier, TextRegressor
from edgewise.learn.estimators.parameters import parameters_of, without_flags

TEXTS = ["good", "fine", "bad", "poor"] * 4
SMILES = ["C" * size for size in range(1, 17)]
NAN = np.array([*range(7), np.nan, *range(8, 16)])
LABELS = pd.Series(["a", "b"] * 8, dtype=object)
LABELS[3] = None
SMALL = {"model": "gru", "epochs": 1, "model_dim": 8}


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda: TextRegressor().fit(TEXTS, NAN), "row 7, column 'target': the target cell is empty"),
        (lambda: MoleculeRegressor().fit(SMILES, NAN), "row 7, column 'target': the target cell is empty"),
        (
            lambda: TextRegressor().fit(pd.Series(TEXTS, index=range(100, 116)), NAN),
            "row 7 (index 107), column 'target': the target cell is empty",
        ),
        (
            lambda: TextRegressor().fit(TEXTS, pd.Series(NAN, index=[f"film {row}" for row in range(16)])),
            "row 7 (index 'film 7'), column 'target': the target cell is empty",
        ),
        (
            lambda: TextRegressor().fit(TEXTS, np.ones(16), validation=(TEXTS[:8], NAN[:8])),
            "row 7 of validation, column 'target': the target cell is empty",
        ),
        (lambda: TextRegressor().fit(["a", "b", ""], np.ones(3)), "row 2, column 'text': the text is empty"),
        (lambda: TextClassifier().fit(TEXTS, LABELS), "fit: row 3 of y has no label"),
        (lambda: TextClassifier().fit(TEXTS, LABELS.set_axis(range(5, 21))), "fit: row 3 (index 8) of y has no label"),
        (
            lambda: TextRegressor().fit(TEXTS, np.ones(16), groups=[*["a"] * 5, "", *["b"] * 10]),
            "row 5, column 'group': the group is empty",
        ),
        (
            lambda: TextRegressor().fit(TEXTS, np.ones(16), sample_weight=[*[1.0] * 5, -1, *[1.0] * 10]),
            "fit: row 5 of sample_weight is -1.0; expected a finite number, zero or more",
        ),
    ],
)  # fmt: skip
def test_rows_are_counted_as_their_owner_does(fit, message):
    with pytest.raises(DataError) as caught:
        fit()
    assert str(caught.value).startswith(message)
    assert "strict" not in str(caught.value) and "line" not in str(caught.value)


def test_a_row_that_cannot_be_read_is_called_by_its_label():
    fitted = TextClassifier(**SMALL).fit(TEXTS, ["a", "b"] * 8)
    with pytest.raises(DataError, match=r"predict: row 1 \(index 'second'\) cannot be read: text: the text is empty"):
        fitted.predict(pd.Series(["good", ""], index=["first", "second"]))


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda: TextClassifier(epochs=0).fit(TEXTS, ["a", "b"] * 8), "epochs is 0"),
        (lambda: TextRegressor(class_weight="balanced").fit(TEXTS, np.ones(16)), "class_weight goes with classes"),
        (lambda: NodeRegressor(model="grn").fit(np.ones((4, 1)), np.ones(4), edges=[[0], [1]]), "model is 'grn'"),
        (lambda: Tagger(epochs=0).fit([["a"]] * 4, [["X"]] * 4), "epochs is 0"),
    ],
)
def test_errors_name_parameters(fit, message):
    with pytest.raises(SettingError) as caught:
        fit()
    assert message in str(caught.value) and "--" not in str(caught.value)


def test_flags_become_parameters_and_nothing_else_does():
    known = parameters_of(TextClassifier)
    assert without_flags("take --no-baselines or --seed 3", known) == "take baselines=False or random_state 3"
    assert without_flags("'--unheard-of' is no number; a--b, --x", known) == "'--unheard-of' is no number; a--b, --x"
