"""Classes of molecules: a random forest over their descriptors and substructures stands beside the network, as heavy
as the validation rows want it."""

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file

from edgewise.errors import RunFolderError
from edgewise.learn.estimators import MoleculeClassifier, MoleculeRegressor
from edgewise.learn.readers.molecules.data import molecules_from_arrays
from edgewise.learn.tasks.companions import FittingRows
from edgewise.learn.tasks.molecules.companions import grow_forest
from edgewise.learn.tasks.molecules.settings import SETTINGS
from edgewise.learn.tasks.molecules.task import TASK
from edgewise.learn.tasks.run import fit
from edgewise.learn.tasks.targets import outputs_of
from edgewise.learn.training.loss import TargetLoss
from edgewise.learn.training.metrics import scores_by_target
from edgewise.learn.training.settings import TrainSettings

SMALL = {"epochs": 2, "model_dim": 8, "num_heads": 2, "num_layers": 1, "head_dim": 8, "num_variants": 2}
ENDS = ("O", "N", "Cl", "C(=O)O", "c1ccccc1")
SMILES = [f"{'C' * (1 + number // 5)}{ENDS[number % 5]}" for number in range(40)]
LABELS = {"two": np.where(np.arange(40) % 5 < 2, "polar", "other"), "three": np.arange(40) % 5 % 3}
NEW = ["CCCCN", "CC(=O)Nc1ccccc1", "Clc1ccccc1"]


@pytest.fixture(scope="module", params=LABELS)
def classifier(request):
    """Two members, trained with a condition."""
    model = MoleculeClassifier(**SMALL, ensemble_size=2)
    return model.fit(SMILES, LABELS[request.param], conditions=np.arange(40.0)[:, None] % 7)


def predicted(classifier, smiles=NEW, numbers=(3.0, 4.0, 5.0)):
    return classifier.predict_proba(smiles, conditions=np.array(numbers)[:, None])


def test_a_probability_is_the_networks_and_the_forests_by_their_shares(classifier):
    fitted = classifier.trained
    table = molecules_from_arrays(NEW, None, np.array([[3.0], [4.0], [5.0]]))
    batch = fitted.batches(table).batch(np.arange(3))
    by_network, by_forest = [], []
    with torch.no_grad():
        for member in fitted.members:
            by_network.append(fitted.output.finish(member.network(batch).double()).numpy())
            by_forest.append(fitted.output.finish(member.companions["forest"](batch).double()).numpy())
    share = fitted.shares["forest"]
    expected = (1 - share) * np.mean(by_network, 0) + share * np.mean(by_forest, 0)
    found = predicted(classifier)
    np.testing.assert_allclose(found[:, -expected.shape[1] :], expected, atol=1e-6)
    assert np.abs(np.mean(by_network, 0) - np.mean(by_forest, 0)).max() > 0.05


def test_validation_rows_are_scored_before_they_are_learned(tmp_path):
    """Their labels are drawn: a forest that has learned them knows them, one that has not guesses."""
    labels = np.random.default_rng(0).integers(2, size=40)
    pd.DataFrame({"smiles": SMILES, "y": labels}).to_csv(tmp_path / "rows.csv", index=False)
    given = {"data": [str(tmp_path / "rows.csv")], "smiles_columns": ["smiles"], "target_columns": ["y"], "epochs": 2}
    given |= {"task_type": "classification", "split_sizes": [0.5, 0.3, 0.2], "baselines": False}
    prepared = TASK.prepare(SETTINGS.of(given, "test"))
    results, fitted, rows = fit(TASK, prepared), prepared.fitted, prepared.splits.val
    scores = TASK.evaluate(prepared, results)
    learned = scores_by_target(
        prepared.data.rows.targets[rows],
        outputs_of(fitted.predict_rows(prepared.data, rows)),
        ["y"],
        "classification",
    )
    assert scores["validation"]["y"]["roc_auc"] < 0.8 < 0.95 < learned["y"]["roc_auc"]
    assert scores["training"]["y"]["roc_auc"] > 0.95
    assert TASK.evaluate(prepared, results)["validation"] == scores["validation"]


def test_it_weighs_classes_as_the_loss_does():
    """Of 20 molecules that nothing tells apart 2 are of the rare class: by rows a tenth, balanced a half."""
    fitted = MoleculeClassifier(**SMALL).fit(SMILES, LABELS["two"]).trained
    labels = np.arange(20) % 10 == 0
    data = molecules_from_arrays(["CCO"] * 20, labels.astype(float), task_type="classification")
    batch, nothing, rare = fitted.batches(data).batch(np.arange(1)), np.zeros(0, np.int64), []
    for class_weights in ((), ((20 / (2 * 18), 20 / (2 * 2)),)):
        loss = TargetLoss("classification", "mse", class_weights=class_weights)
        forest = grow_forest(fitted, data, FittingRows(np.arange(20), nothing, TrainSettings(), loss)).module
        rare.append(forest(batch).sigmoid().item())
    assert rare == pytest.approx([0.1, 0.5], abs=0.08)


def test_more_training_rows_than_a_forest_learns_from_leave_no_room_for_validation_rows(monkeypatch):
    monkeypatch.setattr("edgewise.learn.tasks.molecules.companions.FOREST_ROWS", 20)
    model = MoleculeClassifier(**SMALL, companions=("forest",)).fit(SMILES, LABELS["two"])
    assert np.isfinite(model.predict_proba(NEW)).all()


@pytest.mark.parametrize("kind", [MoleculeClassifier, MoleculeRegressor])
def test_further_validation_rows_weigh_as_training_rows_do(kind):
    """They are learned from in the end, so weights of another scale change nothing."""
    y = LABELS["three"] % 2
    models = [
        kind(**SMALL, random_state=0).fit(
            SMILES[:30], y[:30], sample_weight=np.full(30, scale), validation=(SMILES[30:], y[30:])
        )
        for scale in (1, 2.0**-12)
    ]
    one, other = (model.predict_proba(NEW) if kind is MoleculeClassifier else model.predict(NEW) for model in models)
    np.testing.assert_allclose(one, other, rtol=1e-3)


def test_it_is_saved_and_loaded(classifier, tmp_path):
    classifier.save(tmp_path / "run")
    loaded = MoleculeClassifier.load(tmp_path / "run")
    assert np.array_equal(predicted(loaded), predicted(classifier))


def test_a_damaged_forest_is_refused(classifier, tmp_path):
    classifier.save(tmp_path / "run")
    path = tmp_path / "run" / "model.safetensors"
    tensors = load_file(path)
    tensors["member_0.companions.forest.branches"][0] = (
        0  # the first node leads to itself on one side, and so in a circle
    )
    tensors["member_0.companions.forest.branches"][1] = torch.tensor([0, 1], dtype=torch.int32)
    save_file(tensors, path)
    with pytest.raises(RunFolderError, match=r"model\.safetensors is damaged: the branches of a tree"):
        MoleculeClassifier.load(tmp_path / "run")


def test_the_same_seed_grows_the_same_forest(classifier):
    labels = classifier.classes_[np.argmax(predicted(classifier, SMILES, np.arange(40.0) % 7), axis=1)]
    one, other = (MoleculeClassifier(**SMALL, random_state=3).fit(SMILES, labels) for _ in range(2))
    assert np.array_equal(one.predict_proba(NEW), other.predict_proba(NEW))


def test_it_can_be_explained(classifier):
    """Where an atom is removed, the network sees the rest, and the forest counts its substructures."""
    found = classifier.explain("CC(=O)Nc1ccccc1", conditions=[4.0])
    assert any("random forest" in note for note in found.notes)
    assert all(np.isfinite(each.values).all() for each in found.attributions)
    (told,) = found.predictions
    expected = predicted(classifier, ["CC(=O)Nc1ccccc1"], [4.0])[0]
    assert list(told.probabilities.values()) == pytest.approx(expected.tolist(), rel=1e-5)
    assert any(len(set(curve.predictions)) > 2 for curve in found.curves)


def test_where_there_is_none():
    labels = LABELS["two"]
    for model in (
        MoleculeRegressor(**SMALL).fit(SMILES, np.arange(40.0)),
        MoleculeClassifier(**SMALL, molecule_descriptors=False).fit(SMILES, labels),
        MoleculeClassifier(**SMALL, companions=()).fit(SMILES, labels),
        MoleculeClassifier(**SMALL, class_weight="balanced").fit(SMILES, labels),
    ):
        assert "forest" not in model.trained.companions
