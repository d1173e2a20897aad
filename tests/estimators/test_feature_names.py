"""Columns of a DataFrame are taken by their names, as scikit-learn does."""

import numpy as np
import pandas as pd
import pytest

from edgewise import DataError
from edgewise.estimators import LanguageModel, MoleculeRegressor, TextClassifier

SMALL = {"epochs": 1, "model_dim": 8, "num_layers": 1}
WORDS = ["good", "fine", "bad", "poor"] * 6
TEXTS = pd.DataFrame({"title": WORDS, "body": ["it is " + word for word in WORDS[::-1]]})
LABELS = np.array(["yes", "yes", "no", "no"] * 6)
MOLECULES = pd.DataFrame(
    {
        "cation": ["C" * size + "[NH3+]" for size in range(1, 13)] * 2,
        "anion": ["[Cl-]", "[Br-]"] * 12,
        "kelvin": np.linspace(280, 320, 24),
        "bar": np.linspace(1, 9, 24),
    }
)


def classifier():
    return TextClassifier(model="gru", random_state=0, **SMALL).fit(TEXTS, LABELS)


def regressor():
    return MoleculeRegressor(molecule_descriptors=False, random_state=0, **SMALL).fit(MOLECULES, MOLECULES["kelvin"])


@pytest.mark.parametrize(("fit", "data"), [(classifier, TEXTS), (regressor, MOLECULES)])
def test_columns_are_taken_by_name(fit, data, tmp_path):
    fitted = fit()
    assert fitted.feature_names_in_.tolist() == list(data.columns)
    expected = fitted.predictions(data)[0]
    fitted.save(tmp_path / "model")
    loaded = type(fitted).load(tmp_path / "model")
    assert loaded.feature_names_in_.tolist() == list(data.columns)
    turned = data[data.columns[::-1]].assign(more="not read")
    for model in (fitted, loaded):
        predicted = model.predictions(turned)[0]
        for name in ("value", "probabilities"):
            if getattr(expected, name) is not None:
                np.testing.assert_allclose(getattr(predicted, name), getattr(expected, name), atol=1e-6)
        np.testing.assert_allclose(model.fingerprint(turned), model.fingerprint(data), atol=1e-6)
        last = data.columns[-1]
        with pytest.raises(DataError, match=f"X lacks {last}, which the model was trained on"):
            model.predict(data.rename(columns={last: "other"}))
        with pytest.raises(DataError, match=f"X lacks {last}"):
            model.score(data.drop(columns=last), LABELS)


def test_arrays_have_no_names():
    fitted = TextClassifier(model="gru", **SMALL).fit(TEXTS.to_numpy(), LABELS)
    assert not hasattr(fitted, "feature_names_in_")
    renamed = TEXTS.rename(columns={"title": "heading"})
    assert len(fitted.predict(renamed)) == len(TEXTS)
    named = fitted.fit(renamed, LABELS)
    assert named.feature_names_in_.tolist() == ["heading", "body"]
    assert not hasattr(named.fit(TEXTS.to_numpy(), LABELS), "feature_names_in_")


def test_one_token_has_no_score():
    fitted = LanguageModel(steps=1, context=4, model_dim=8, num_layers=1, num_heads=1).fit("abab" * 20)
    for text in ("a", ""):
        with pytest.raises(DataError, match="a score needs two or more"):
            fitted.score(text)
    assert fitted.score("ab") < 0
