"""Numbers of new molecules, where few have many rows each: a network without descriptors stands beside the network."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file

from edgewise.errors import RunFolderError
from edgewise.learn.companions.stack import companions_of
from edgewise.learn.estimators import MoleculeClassifier, MoleculeRegressor
from edgewise.learn.tasks.companions import FittingRows
from edgewise.learn.tasks.molecules import structure_network, task
from edgewise.learn.tasks.molecules.settings import SETTINGS
from edgewise.learn.tasks.molecules.structure_network import NETWORK_OF_STRUCTURES
from edgewise.learn.tasks.molecules.task import TASK

pytestmark = pytest.mark.filterwarnings("ignore:fit. intervals calibrated on")
SMALL = {"epochs": 2, "model_dim": 8, "num_heads": 2, "num_layers": 1, "head_dim": 8, "num_variants": 2}
NAME = "structure-network"
MOLECULES = [f"{'C' * (1 + number // 3)}{('O', 'N', 'Cl')[number % 3]}" for number in range(12)]
SMILES = [smiles for smiles in MOLECULES for _ in range(10)]
HEAT = np.tile(np.arange(10.0), 12)[:, None]
TARGETS = np.array([len(smiles) for smiles in SMILES]) + HEAT[:, 0] / 4
NEW, WARM = ["CCCCCCN", "CC(=O)Nc1ccccc1"], np.array([[3.0], [4.0]])


@pytest.fixture(scope="module")
def regressor():
    return MoleculeRegressor(**SMALL, calibration="group").fit(SMILES, TARGETS, conditions=HEAT)


def prepared_table(folder, **settings):
    rows = pd.DataFrame({"smiles": SMILES, "heat": HEAT[:, 0], "y": TARGETS, "part": "train"})
    rows.loc[rows["smiles"].isin(MOLECULES[:2]), "part"] = "val"
    rows.to_csv(folder / "rows.csv", index=False)
    roles = {"smiles_columns": ["smiles"], "target_columns": ["y"], "descriptors_columns": ["heat"]}
    columns = {"data": [str(folder / "rows.csv")], **roles, "splits_column": "part", "calibration": "group"}
    return TASK.prepare(SETTINGS.of({**columns, "epochs": 1, "baselines": False, **settings}, "this test"))


def test_it_stands_where_few_molecules_have_many_rows_and_others_are_predicted(regressor, monkeypatch, tmp_path):
    assert regressor.trained.companions.keys() == {NAME}
    assert prepared_table(tmp_path).settings.companions == (NAME,)
    assert prepared_table(tmp_path, calibration="random").settings.companions == ("gaussian-process",)
    assert prepared_table(tmp_path, molecule_descriptors=False).settings.companions == ()
    assert prepared_table(tmp_path, companions=["none"]).settings.companions == ()
    monkeypatch.setattr(task, "MANY_MOLECULES", 10)
    assert prepared_table(tmp_path).settings.companions == ()


def test_it_reads_structures_and_conditions_and_no_descriptors(regressor):
    fitted = regressor.trained
    (member,) = fitted.members
    module = companions_of(member)[NAME]
    data = prepared_batch(regressor, NEW, WARM)
    changed = replace(data, graph=replace(data.graph, graph_features=data.graph.graph_features + 1))
    warmer = prepared_batch(regressor, NEW, WARM + 5)
    swapped = prepared_batch(regressor, NEW[::-1], WARM)
    with torch.no_grad():
        outputs, of_changed, of_warmer, of_swapped = (module(batch) for batch in (data, changed, warmer, swapped))
        assert not torch.allclose(member.network(data), member.network(changed))
    assert outputs.shape == (2, 1)
    assert torch.equal(outputs, of_changed)
    assert not torch.allclose(outputs, of_warmer)
    assert not torch.allclose(outputs, of_swapped)


def prepared_batch(regressor, smiles, conditions):
    from edgewise.learn.readers.molecules.data import molecules_from_arrays

    rows = molecules_from_arrays(smiles, None, conditions)
    return regressor.trained.batches(rows).batch(np.arange(len(smiles)))


def test_it_learns_from_validation_rows_after_they_have_judged_it(tmp_path, monkeypatch):
    monkeypatch.setattr(structure_network, "EPOCHS", 2)
    learned = []
    loader = structure_network.RowLoader
    monkeypatch.setattr(
        structure_network, "RowLoader", lambda rows, *given: learned.append(rows) or loader(rows, *given)
    )
    prepared = prepared_table(tmp_path, companions=[NAME])
    splits, recipe = prepared.splits, prepared.settings.train
    rows = FittingRows(splits.train, splits.val, recipe, TASK.loss(prepared))
    first, again = (NETWORK_OF_STRUCTURES.fit(prepared.fitted, prepared.data, rows) for _ in range(2))
    other = NETWORK_OF_STRUCTURES.fit(prepared.fitted, prepared.data, replace(rows, recipe=replace(recipe, seed=1)))
    later = first.with_validation()
    for found, expected in zip(learned, [*[splits.train] * 3, np.union1d(splits.train, splits.val)], strict=True):
        assert np.array_equal(found, expected)
    states = [module.state_dict() for module in (first.module, again.module, other.module, later)]
    same, drawn, taught = (all(torch.equal(state[name], states[0][name]) for name in states[0]) for state in states[1:])
    assert (same, drawn, taught) == (True, False, False)
    assert not later.training


def test_it_predicts_classes_where_it_is_named():
    classes = ["long" if len(smiles) > 3 else "short" for smiles in SMILES]
    model = MoleculeClassifier(**SMALL, companions=(NAME,)).fit(SMILES, classes, conditions=HEAT)
    shares = model.predict_proba(SMILES, conditions=HEAT)
    np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-5)
    assert model.trained.companions.keys() <= {NAME}


def test_it_is_saved_and_loaded_and_explained(regressor, tmp_path):
    regressor.save(tmp_path / "run")
    loaded = MoleculeRegressor.load(tmp_path / "run")
    assert np.array_equal(loaded.predict(NEW, conditions=WARM), regressor.predict(NEW, conditions=WARM))
    found = loaded.explain(NEW[1], conditions=[4.0], methods=["occlusion"])
    assert any("second network, which reads structures" in note for note in found.notes)
    # Without the oxygen of acetanilide: N-ethylaniline.
    whole, without = loaded.predict([NEW[1], "CCNc1ccccc1"], conditions=WARM[[1, 1]])
    assert found.attributions[0].values.reshape(-1)[2] == pytest.approx(whole - without, rel=1e-3)


def test_a_damaged_one_is_refused(regressor, tmp_path):
    regressor.save(tmp_path / "run")
    path = tmp_path / "run/model.safetensors"
    tensors = load_file(path)
    name = next(name for name in tensors if name.startswith(f"member_0.companions.{NAME}") and "weight" in name)
    save_file({**tensors, name: tensors[name][1:].clone()}, path)
    with pytest.raises(RunFolderError, match=r"model\.safetensors"):
        MoleculeRegressor.load(tmp_path / "run")
    del tensors[name]
    save_file(tensors, path)
    with pytest.raises(RunFolderError, match=r"model\.safetensors"):
        MoleculeRegressor.load(tmp_path / "run")
