"""Several targets of classes, as scikit-learn's multi-output classifiers have them; and targets keep their names."""

import json

import numpy as np
import pandas as pd
import pytest

from edgewise import DataError
from edgewise.cli.main import main
from edgewise.learn.estimators import (
    GraphNodes,
    MoleculeClassifier,
    MoleculeRegressor,
    NodeClassifier,
    NodeKFold,
    TextClassifier,
    TextRegressor,
)

SMALL = {"epochs": 2, "model_dim": 8, "random_state": 0}
TEXTS = ["good film", "bad film", "good book", "bad book"] * 6
FEELING, KIND = ["yes", "no", "yes", "no"] * 6, [0, 0, 1, 1] * 6
Y = pd.DataFrame({"feeling": FEELING, "kind": KIND})
COLORS = np.array([["red", "round"], ["blue", "flat"], ["green", "flat"]] * 8)


@pytest.fixture(scope="module")
def fitted():
    return TextClassifier(model="gru", **SMALL).fit(TEXTS, Y)


def test_several_targets_are_predicted_and_scored(fitted):
    assert [each.tolist() for each in fitted.classes_] == [["no", "yes"], [0, 1]]
    probabilities, found = fitted.predict_proba(TEXTS), fitted.predict(TEXTS)
    assert [each.shape for each in probabilities] == [(24, 2), (24, 2)]
    assert found.shape == (24, 2) and found.dtype == object
    assert found[:, 0].tolist() == [["no", "yes"][place] for place in probabilities[0].argmax(1)]
    assert set(found[:, 1].tolist()) <= {0, 1}
    right = (found == Y.to_numpy()).all(1)
    assert fitted.score(TEXTS, Y) == right.mean() == fitted.score(TEXTS, Y[["kind", "feeling"]])
    weights = np.arange(24.0)
    assert fitted.score(TEXTS, Y.to_numpy(), sample_weight=weights) == pytest.approx(np.average(right, weights=weights))
    with pytest.raises(DataError, match=r"score: y is \(24,\), but predictions are \(24, 2\)"):
        fitted.score(TEXTS, FEELING)


def test_targets_keep_their_names(fitted, tmp_path):
    assert list(fitted.metrics_["validation"]) == ["feeling", "kind"]
    explained = fitted.explain(TEXTS[0], target="kind", methods=["attention"])
    assert [each.name for each in explained.predictions] == ["feeling", "kind"]
    fitted.save(tmp_path / "model")
    loaded = TextClassifier.load(tmp_path / "model")
    assert [each.tolist() for each in loaded.classes_] == [["no", "yes"], [0, 1]]
    for one, other in zip(loaded.predict_proba(TEXTS), fitted.predict_proba(TEXTS), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    assert json.loads((tmp_path / "model" / "model.json").read_text())["columns"]["target_columns"] == [
        "feeling",
        "kind",
    ]
    pd.DataFrame({"text": TEXTS}).to_csv(tmp_path / "new.csv", index=False)
    assert main(["predict", str(tmp_path / "model"), str(tmp_path / "new.csv"), "-o", str(tmp_path / "out.csv")]) == 0
    columns = pd.read_csv(tmp_path / "out.csv").columns
    assert {"feeling_pred", "feeling_prob_yes", "kind_pred", "kind_prob_1"} <= set(columns)


@pytest.mark.parametrize(
    ("y", "names"),
    [
        (pd.Series(np.arange(24.0), name="stars"), ["stars"]),
        (pd.DataFrame({"stars": np.arange(24.0)}), ["stars"]),
        (pd.Series(np.arange(24.0)), ["target"]),
        (pd.Series(np.arange(24.0), name=7), ["target"]),
        (pd.Series(np.arange(24.0), name="text"), ["target"]),
        (pd.Series(np.arange(24.0), name="weight"), ["target"]),
        (pd.DataFrame(np.ones((24, 2)) * np.arange(24.0)[:, None]), ["target_1", "target_2"]),
    ],
)  # fmt: skip
def test_names_of_targets(y, names):
    model = TextRegressor(model="gru", **SMALL).fit(TEXTS, y, sample_weight=np.linspace(1, 2, 24))
    assert list(model.metrics_["validation"]) == names


def test_molecules_and_nodes_have_several_targets():
    smiles = ["C" * size for size in range(1, 25)]
    model = MoleculeClassifier(molecule_descriptors=False, **SMALL).fit(smiles, COLORS)
    assert [each.tolist() for each in model.classes_] == [["blue", "green", "red"], ["flat", "round"]]
    assert [each.shape for each in model.predict_proba(smiles)] == [(24, 3), (24, 2)]
    assert model.predict(smiles).shape == (24, 2)
    named = MoleculeRegressor(molecule_descriptors=False, **SMALL).fit(smiles, pd.Series(np.arange(24.0), name="bp"))
    assert list(named.metrics_["validation"]) == ["bp"]


def test_a_label_may_be_missing_in_one_of_several_targets():
    features, edges = np.eye(24), np.array([range(23), range(1, 24)])
    labels = COLORS.astype(object)
    labels[3, 0], labels[4:6] = None, None
    model = NodeClassifier(model="gcn", **SMALL).fit(GraphNodes(features, edges), labels)
    found = model.predict(features, edges=edges)
    assert found.shape == (24, 2)
    known = labels != None  # noqa: E711
    right = ((found == labels) | ~known).all(1)
    assert model.score(features, labels, edges=edges) == pytest.approx(right[known.any(1)].mean())
    folds = list(NodeKFold(2).split(features, labels))
    assert sorted(np.concatenate([test for _, test in folds]).tolist()) == [
        row for row in range(24) if row not in (4, 5)
    ]
    with pytest.raises(DataError, match="row 4 of y has no label"):
        TextClassifier(model="gru").fit(TEXTS, labels)
    half = COLORS.astype(object)
    half[3, 0] = None
    model = TextClassifier(model="gru", **SMALL).fit(TEXTS, half, validation=(TEXTS[:6], half[:6]))
    assert model.metrics_["validation"]["target_1"]["num_rows"] == 5
