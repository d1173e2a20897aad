"""The Molecule Attention Transformer from Python and from the command line: everything a model of molecules does."""

import csv
import json

import numpy as np
import pytest

from edgewise.cli.main import main
from edgewise.errors import DataError, SettingError
from edgewise.graph import Trace
from edgewise.learn.estimators import MoleculeRegressor
from edgewise.learn.estimators.molecules import MOLECULES
from edgewise.learn.estimators.row_methods import data_of
from edgewise.learn.readers.molecules import bounded
from edgewise.learn.tasks.explainer import Explainer

SMALL = {
    "epochs": 2,
    "model_dim": 8,
    "num_heads": 2,
    "num_layers": 1,
    "head_dim": 8,
    "num_variants": 2,
    "device": "cpu",
}
FEW = [f"{'C' * length}{end}" for length in range(1, 5) for end in ("O", "N", "Cl", "c1ccccc1")]
SIZES = np.array([float(len(text)) for text in FEW])


@pytest.fixture(scope="module")
def regressor() -> MoleculeRegressor:
    """Two members, with enough validation rows for an interval."""
    return MoleculeRegressor(model="mat", **SMALL, validation_size=0.25, coverage=0.7, ensemble_size=2).fit(FEW, SIZES)


def test_predictions_intervals_and_fingerprints(regressor):
    with pytest.warns(UserWarning, match="1 of [0-9]+ rows cannot be read"):
        value = regressor.predict([*FEW, "no molecule"])
    assert np.isfinite(value[:-1]).all() and np.isnan(value[-1])
    low, high = regressor.predict_interval(FEW)
    assert ((low < value[:-1]) & (value[:-1] < high)).all()
    vectors = regressor.fingerprint(FEW)
    assert vectors.shape == (16, 2 * (8 + 8))
    assert len(np.unique(vectors, axis=0)) == 16
    alone = MoleculeRegressor(model="mat", **SMALL, molecule_descriptors=False).fit(FEW, SIZES)
    assert alone.fingerprint(FEW).shape == (16, 8)


def test_the_writing_changes_nothing(regressor):
    written = ["CCCC(=O)O", "C1=CC=CC=C1CCC", "OCC"]
    other = ["OC(=O)CCC", "CCCc1ccccc1", "C(C)O"]
    np.testing.assert_allclose(regressor.predict(written), regressor.predict(other), rtol=1e-5)


def test_it_is_kept_and_read_again(regressor, tmp_path):
    regressor.save(tmp_path / "run")
    again = MoleculeRegressor.load(tmp_path / "run")
    assert again.trained_.encoder.settings == regressor.trained_.encoder.settings
    assert np.array_equal(again.predict(FEW), regressor.predict(FEW))


def test_a_trace_holds_what_each_atom_attends_to(regressor):
    trained = regressor.trained_
    table = data_of(regressor, MOLECULES, ["CCO"], {})
    trace = Trace()
    trained.members[0](trained.batches(table).batch(np.array([0])), trace)
    (weights,) = trace.weights
    # Three atoms and the dummy.
    assert weights.to_dense().shape == (2, 4, 4)


def test_it_learns():
    trained = MoleculeRegressor(model="mat", **SMALL | {"epochs": 100, "learning_rate": 0.01}).fit(FEW, SIZES)
    assert trained.score(FEW, SIZES) > 0.9


def test_what_it_does_not_look_at_is_refused():
    with pytest.raises(SettingError, match="combine does nothing with model mat; leave it out"):
        MoleculeRegressor(model="mat", combine="mean").fit(FEW, SIZES)


def test_the_command_line_says_whose_places_are_guessed(tmp_path, capsys):
    rows = [*zip(FEW, SIZES), ("F[Fe](F)(F)(F)(F)F", 7.0)]
    data, run = tmp_path / "data.csv", tmp_path / "run"
    data.write_text("smiles,y\n" + "".join(f"{smiles},{value}\n" for smiles, value in rows))
    words = ["--smiles-columns", "smiles", "--target-columns", "y", "--model", "mat", "--distance-share", "0.5"]
    sizes = ["--model-dim", "8", "--num-heads", "2", "--num-layers", "1", "--head-dim", "8", "--num-variants", "2"]
    words += [*sizes, "--epochs", "1", "--device", "cpu", "--logger", "csv", "--no-baselines", "-o", str(run)]
    assert main(["train", str(data), *words]) == 0
    note = "conformers: 1 embedded but not relaxed, with atoms that the force field lacks (first F[Fe](F)(F)(F)(F)F)"
    assert note in capsys.readouterr().out
    settings = json.loads((run / "model.json").read_text())["settings"]
    assert (settings["model"], settings["distance_share"]) == ("mat", 0.5)
    for verb, name in (("predict", "out.csv"), ("fingerprint", "out.npz")):
        assert main([verb, str(run), str(data), "-o", str(tmp_path / name)]) == 0
        assert note in capsys.readouterr().err
    assert main(["train", "--config-path", str(run / "config.toml"), "--overwrite", "-o", str(run)]) == 0


def test_the_status_of_a_row_says_that_its_molecule_is_not_in_space(regressor, tmp_path, monkeypatch, capsys):
    """As where embedding takes too long, and drawing, too: one such molecule ended the prediction of all rows."""
    regressor.save(tmp_path / "run")
    (tmp_path / "new.csv").write_text("smiles\nCCO\nC1CC1CN\nno molecule\n")
    monkeypatch.setattr(bounded, "_is_embedded_at_once", lambda smiles: smiles != "C1CC1CN")
    monkeypatch.setattr(bounded, "_in_process", lambda process, function, *others: DataError("too slow"))
    assert main(["predict", str(tmp_path / "run"), str(tmp_path / "new.csv"), "-o", str(tmp_path / "out.csv")]) == 0
    with open(tmp_path / "out.csv") as file:
        first, late, bad = (row["status"] for row in csv.DictReader(file))
    why = "was placed by counting bonds, since drawing takes longer than --molecule-timeout"
    assert (first, late) == ("ok", f"ok; smiles {why}") and "no molecule" in bad
    assert "2 of 3 rows predicted; 1 could not be" in capsys.readouterr().err
    explainer = Explainer.open(tmp_path / "run")
    assert explainer.statuses([{"smiles": "CCO"}, {"smiles": "C1CC1CN"}]) == [first, late]
    archive = tmp_path / "out.npz"
    assert main(["fingerprint", str(tmp_path / "run"), str(tmp_path / "new.csv"), "-o", str(archive)]) == 0
    assert f"2 of 3 rows have a vector of 32, 1 of them with a remark in status: {archive}" in capsys.readouterr().out
