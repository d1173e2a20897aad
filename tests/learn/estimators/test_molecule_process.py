"""Numbers of molecules: a Gaussian process stands beside the network, as heavy as the validation rows want it."""

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file

from edgewise.errors import RunFolderError, SettingError
from edgewise.learn.companions.gaussian_process import GaussianProcess
from edgewise.learn.companions.stack import Stack, network_of
from edgewise.learn.estimators import MoleculeRegressor
from edgewise.learn.readers.molecules.data import molecules_from_arrays
from edgewise.learn.tasks.companions import add_companion, best_share
from edgewise.learn.tasks.molecules.companions import PROCESS_OF_NUMBERS
from edgewise.learn.tasks.molecules.settings import SETTINGS
from edgewise.learn.tasks.molecules.task import TASK
from edgewise.learn.tasks.run import fit

SMALL = {"epochs": 2, "model_dim": 8, "num_heads": 2, "num_layers": 1, "head_dim": 8, "num_variants": 2}
ENDS = ("O", "N", "Cl", "C(=O)O", "c1ccccc1")
SMILES = [f"{'C' * (1 + number // 5)}{ENDS[number % 5]}" for number in range(60)]
RINGS = ("c1ccccc1", "C1CCCCC1", "C1CCCC1", "C1CCOC1", "c1ccncc1", "C1CCNCC1", "c1ccoc1", "c1ccsc1", "C1CC1", "C1CCC1")
CONDITIONS = np.arange(60.0)[:, None] % 7
TARGETS = np.array([len(smiles) for smiles in SMILES]) + CONDITIONS[:, 0] / 5
NEW = ["CCCCCCN", "CC(=O)Nc1ccccc1", "Clc1ccccc1"]


@pytest.fixture(scope="module", params=[1, 2])
def regressor(request):
    return MoleculeRegressor(**SMALL, ensemble_size=request.param).fit(SMILES, TARGETS, conditions=CONDITIONS)


def process_of(member):
    """The Gaussian process of a member; None where the network is alone."""
    return member.companions["gaussian-process"] if isinstance(member, Stack) else None


def predicted(model, smiles=NEW, numbers=(3.0, 4.0, 5.0)):
    return model.predict(smiles, conditions=np.array(numbers)[:, None])


def test_a_prediction_is_the_mean_of_variants_and_copies(regressor):
    fitted = regressor.trained
    batch = fitted.batches(molecules_from_arrays(NEW, None, np.array([[3.0], [4.0], [5.0]]))).batch(np.arange(3))
    copies, parts = fitted.companions["gaussian-process"], []
    assert copies == 32  # the network has hardly learned anything: the process has the most that it may have
    with torch.no_grad():
        for member in fitted.members:
            process = member.companions["gaussian-process"]
            parts.append((member.network(batch).double().sum(1) + copies * process(batch)) / (2 + copies))
    expected = fitted.output.finish(torch.stack(parts).mean(0))[:, 0].numpy()
    np.testing.assert_allclose(predicted(regressor), expected, rtol=1e-6)


def test_a_covariance_that_does_not_fit_is_refused_before_the_training(monkeypatch):
    """54 training and 6 validation rows: 28,800 bytes."""
    monkeypatch.setattr("edgewise.learn.tasks.molecules.task.available_memory", lambda: 28_799)
    with pytest.raises(SettingError, match=r"needs 29 kB .* 60 rows, but only 29 kB .*companions none"):
        MoleculeRegressor(**SMALL).fit(SMILES, TARGETS)
    MoleculeRegressor(**SMALL, companions=()).fit(SMILES, TARGETS)
    MoleculeRegressor(**SMALL, check_memory=False).fit(SMILES, TARGETS)
    monkeypatch.setattr("edgewise.learn.tasks.molecules.task.available_memory", lambda: 28_800)
    MoleculeRegressor(**SMALL).fit(SMILES, TARGETS)


@pytest.mark.filterwarnings("ignore:fit. intervals calibrated on 5 scaffolds")
def test_it_has_learned_from_the_training_rows_of_its_member_alone(tmp_path):
    """Intervals are calibrated on rows that it must not know; members that leave out other rows are saved together."""
    rings = [f"{'C' * (1 + length)}{ring}" for number, ring in enumerate(RINGS) for length in range(number + 1)]
    numbers = np.array([len(smiles) for smiles in rings])
    model = MoleculeRegressor(**SMALL, calibration="scaffold", ensemble_size=3, random_state=1).fit(rings, numbers)
    processes = [process_of(member) for member in model.trained.members]
    learned = [int((process.coefficients != 0).sum()) for process in processes]
    assert len(set(learned)) > 1 and max(learned) < len(rings)
    assert [len(process.molecules) for process in processes] == learned
    model.save(tmp_path / "run")
    assert np.array_equal(MoleculeRegressor.load(tmp_path / "run").predict(NEW), model.predict(NEW))


def test_validation_rows_judge_before_they_are_learned(tmp_path):
    """The scores of the validation rows, and intervals, are those of a model that has not seen them; then the process
    learns from them, too."""
    rows = pd.DataFrame({"smiles": SMILES, "y": TARGETS + np.random.default_rng(0).normal(size=60)})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    given = {"data": [str(tmp_path / "rows.csv")], "smiles_columns": ["smiles"], "target_columns": ["y"], "epochs": 2}
    prepared = TASK.prepare(SETTINGS.of(given | {"baselines": False}, "test"))
    results, (_, rows) = fit(TASK, prepared), prepared.splits.of_member(0)
    fitted, table = prepared.fitted, prepared.data
    (member,), targets = fitted.members, table.rows.targets[rows, 0]
    assert process_of(member).later is None and (process_of(member).coefficients != 0).sum() == 54
    after = fitted.predict(table, rows=rows)[0].value[rows]
    scores = TASK.evaluate(prepared, results)["validation"]["y"]
    fitted.members, fitted.companions = [network_of(member)], {}
    kind = PROCESS_OF_NUMBERS
    members = [prepared.splits.of_member(0)]
    add_companion(fitted, table, kind, members, prepared.settings.train, TASK.loss(prepared), uses_validation=False)
    before = fitted.predict(table, rows=rows)[0].value[rows]
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean((before - targets) ** 2)), rel=1e-4)
    assert np.abs(after - targets).mean() < 0.9 * np.abs(before - targets).mean()
    np.testing.assert_allclose(fitted.intervals.errors[:, 0], before - targets, rtol=1e-4)


def test_it_is_saved_and_loaded(regressor, tmp_path):
    regressor.save(tmp_path / "run")
    assert np.array_equal(predicted(MoleculeRegressor.load(tmp_path / "run")), predicted(regressor))


def test_a_damaged_one_is_refused(regressor, tmp_path):
    regressor.save(tmp_path / "run")
    path = tmp_path / "run" / "model.safetensors"
    tensors = load_file(path)
    tensors["member_0.companions.gaussian-process.molecules"][0] = 10**6
    save_file(tensors, path)
    with pytest.raises(RunFolderError, match=r"model\.safetensors is damaged: process\.molecules is beyond"):
        MoleculeRegressor.load(tmp_path / "run")


def test_it_has_no_weight_where_the_network_alone_is_best(monkeypatch):
    monkeypatch.setattr(
        GaussianProcess, "forward", lambda self, batch: torch.full((len(batch.supervision.graph_of_row), 1), 1e3)
    )
    model = MoleculeRegressor(**SMALL).fit(SMILES, TARGETS)
    assert not model.trained.companions and process_of(model.trained.members[0]) is None
    assert not model.trained.encoder.num_substructures and np.isfinite(model.predict(NEW)).all()


@pytest.mark.parametrize(("rows", "copies"), [(0, 32), (100, 32), (10**9, 4)])
def test_rows_of_the_usual_weight_count_beside_the_validation_rows(monkeypatch, rows, copies):
    """As a hundred they do not outvote validation rows on which the network is much worse."""
    monkeypatch.setattr("edgewise.learn.tasks.companions.PRIOR_ROWS", rows)
    model = MoleculeRegressor(**SMALL).fit(SMILES, TARGETS, conditions=CONDITIONS)
    assert model.trained.companions == {"gaussian-process": copies}


def test_a_gain_within_its_standard_error_is_none():
    """Four rows, of which the companion halves the errors of some: by hand, gain 4 against a standard error of 2·√3."""
    errors = np.array([[8.0, 8.0, 8.0, 8.0], [8.0, 8.0, 8.0, 4.0]])
    assert best_share(errors, np.zeros(2)) == 1
    assert best_share(errors, np.array([0, 0.6])) == 0  # 3.4 < 3.46
    assert best_share(errors, np.array([0.6, 0])) == 1


def test_without_validation_rows_it_has_the_usual_weight():
    model = MoleculeRegressor(**SMALL, validation_size=0).fit(SMILES, TARGETS)
    assert model.trained.companions == {"gaussian-process": 4}
    assert model.trained.shares == pytest.approx({"network": 1 / 3, "gaussian-process": 2 / 3})


def test_it_can_be_explained(regressor):
    found = regressor.explain("CC(=O)Nc1ccccc1", conditions=[4.0])
    assert any("Gaussian process" in note and "94%" in note for note in found.notes)
    assert all(np.isfinite(each.values).all() for each in found.attributions)
    (told,) = found.predictions
    assert told.value == pytest.approx(predicted(regressor, ["CC(=O)Nc1ccccc1"], [4.0])[0], rel=1e-5)


def test_where_an_atom_is_removed_the_whole_model_predicts_what_is_left(regressor):
    """Occlusion by hand: without the oxygen of acetanilide, N-ethylaniline, of which the process sees all anew."""
    whole, without = ("CC(=O)Nc1ccccc1",), ("CCNc1ccccc1",)
    found = regressor.explain(whole[0], conditions=[4.0], methods=["occlusion"])
    (occlusion,) = found.attributions
    values = predicted(regressor, [whole[0], without[0]], [4.0, 4.0])
    assert occlusion.values.reshape(-1)[2] == pytest.approx(values[0] - values[1], rel=1e-4)

    fitted = regressor.trained
    data = molecules_from_arrays([whole[0], without[0]], None, np.full((2, 1), 4.0))
    with torch.no_grad():
        of_process = process_of(fitted.members[0])(fitted.batches(data).batch(np.arange(2)))
    assert abs(of_process[0] - of_process[1]).max() > 1e-4


def test_a_head_of_many_variants_is_read_again(tmp_path):
    """As the process may be 16 for each, there are more than any number of layers."""
    model = MoleculeRegressor(**{**SMALL, "num_variants": 300}).fit(SMILES, TARGETS, conditions=CONDITIONS)
    assert model.trained.companions["gaussian-process"] == 4800
    model.save(tmp_path / "run")
    assert np.array_equal(predicted(MoleculeRegressor.load(tmp_path / "run")), predicted(model))


def test_where_there_is_none():
    for more in ({"companions": ["none"]}, {"molecule_descriptors": False}):
        model = MoleculeRegressor(**SMALL, **more).fit(SMILES, TARGETS)
        assert process_of(model.trained.members[0]) is None and not model.trained.companions


def test_the_same_seed_gives_the_same_predictions():
    one, other = (MoleculeRegressor(**SMALL, random_state=3).fit(SMILES, TARGETS) for _ in range(2))
    assert np.array_equal(one.predict(NEW), other.predict(NEW))


def test_a_covariance_that_would_take_too_long_is_left_out(monkeypatch):
    """Eight targets take as long as one of twice the rows."""
    monkeypatch.setattr("edgewise.learn.tasks.molecules.companions.PROCESS_ROWS", 100)
    eight = np.stack([TARGETS * factor for factor in range(1, 9)], 1)
    assert process_of(MoleculeRegressor(**SMALL).fit(SMILES, TARGETS).trained.members[0]) is not None
    assert process_of(MoleculeRegressor(**SMALL).fit(SMILES, eight).trained.members[0]) is None


@pytest.mark.filterwarnings("ignore:fit. intervals calibrated on 1 molecule may")
def test_of_molecules_with_many_rows_it_learns_from_some(monkeypatch):
    """Rows of few molecules say much the same: some of them, evenly chosen, are enough where all are too many."""
    monkeypatch.setattr("edgewise.learn.tasks.molecules.companions.PROCESS_ROWS", 30)
    few = [SMILES[number % 5] for number in range(60)]
    model = MoleculeRegressor(**SMALL, validation_size=0).fit(few, CONDITIONS[:, 0], conditions=CONDITIONS)
    new = MoleculeRegressor(**SMALL, calibration="group").fit(few, CONDITIONS[:, 0], conditions=CONDITIONS)
    assert "gaussian-process" not in new.trained.companions  # of new molecules it knows no more than the network
    assert len(process_of(model.trained.members[0]).conditions) == 30
    np.testing.assert_allclose(predicted(model, few[:3], [2.0, 3.0, 4.0]), [2, 3, 4], atol=1)
