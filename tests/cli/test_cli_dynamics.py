"""`edgewise train motion.npz`: what a run leaves, that it learns a law, that what it learned turns with the bodies."""

import json

import numpy as np
import pytest
from cli_tables import read_csv

from edgewise import SettingError
from edgewise.data.motion import read_motion
from edgewise.estimators.dynamics.estimator import DynamicsModel

SMALL = ["--num-layers", 2, "--model-dim", 16]


@pytest.fixture(scope="module")
def springs(tmp_path_factory):
    from edgewise.cli.main import main

    path = tmp_path_factory.mktemp("motion") / "springs.npz"
    words = "simulate springs --num-trajectories 60 --num-bodies 3 --num-steps 400 --keep-every 100 -o"
    assert main([*words.split(), str(path)]) == 0
    return path


def test_it_learns_a_law_and_turns_with_the_bodies(springs, edgewise, tmp_path):
    run = tmp_path / "run"
    recipe = ["--ahead", 3, "--epochs", 50, "--batch-size", 12, "--learning-rate", 5e-3]
    code, out, err = edgewise("train", springs, *SMALL, *recipe, "-o", run)
    assert (code, err) == (0, "")
    for words in (
        "60 trajectories of 3 bodies in 3 dimensions, 5 moments",
        "72 training, 24 validation and 24 test moments, each told 3 moments ahead",
        "goes straight on",
        "stays",
    ):
        assert words in out
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["test"]["mse"] < 0.3 * metrics["baselines"]["straight_on"]["test"]["mse"]
    rows = read_csv(run / "test_predictions.csv")
    assert len(rows) == 24 * 3
    apart = [float(row[f"{axis}_pred"]) - float(row[axis]) for row in rows for axis in "xyz"]
    assert np.mean(np.square(apart)) == pytest.approx(metrics["test"]["mse"], rel=1e-3)
    code, _, err = edgewise("predict", run, springs, "-o", tmp_path / "later.npz")
    assert (code, "positions 3 moments after each of 5 moments of 60 trajectories" in err) == (0, True)
    with np.load(tmp_path / "later.npz") as found:
        told = found["positions_pred"]
    motion, model = read_motion(str(springs)), DynamicsModel.load(run)
    np.testing.assert_allclose(model.predict(motion, 2), told[:, 2], atol=1e-5)
    # A quarter turn about z, and a shift: what is told turns and shifts alike.
    turn = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]], dtype=np.float32)
    content = {name: getattr(motion, name) for name in ("times", "couplings")}
    moved = {"positions": motion.positions @ turn.T + 5, "velocities": motion.velocities @ turn.T}
    np.savez(tmp_path / "turned.npz", **content, **moved)
    turned = model.predict(read_motion(str(tmp_path / "turned.npz")))
    np.testing.assert_allclose(turned, told[:, 0] @ turn.T + 5, atol=1e-4)


def test_a_run_goes_on_with_the_same_bits(springs, edgewise, tmp_path, monkeypatch):
    from edgewise.train.keeper import EpochKeeper

    original = EpochKeeper.on_train_epoch_end

    def stop_early(self, trainer, task):
        original(self, trainer, task)
        if trainer.current_epoch == 1:
            raise KeyboardInterrupt

    words = [springs, *SMALL, "--ahead", 2, "--epochs", 3, "--model", "graph_network", "-o"]
    assert edgewise("train", *words, tmp_path / "whole")[0] == 0
    monkeypatch.setattr(EpochKeeper, "on_train_epoch_end", stop_early)
    assert edgewise("train", *words, tmp_path / "run")[0] == 130
    monkeypatch.setattr(EpochKeeper, "on_train_epoch_end", original)
    assert edgewise("train", *words, tmp_path / "run", "--resume")[0] == 0
    one, other = (tmp_path / folder / "model.safetensors" for folder in ("whole", "run"))
    assert one.read_bytes() == other.read_bytes()


def test_the_face_in_python(springs, tmp_path):
    motion = read_motion(str(springs))
    model = DynamicsModel(ahead=2, start=1, epochs=2, num_layers=1, model_dim=8, weighing="attention").fit(motion)
    assert model.predict(motion).shape == (60, 3, 3)
    assert model.metrics_["rows"] == {"train": 36, "val": 12, "test": 12}
    model.save(tmp_path / "kept")
    np.testing.assert_array_equal(DynamicsModel.load(tmp_path / "kept").predict(motion, 4), model.predict(motion, 4))
    with pytest.raises(SettingError, match="is not fitted yet"):
        DynamicsModel().predict(motion)


def test_bad_words(springs, edgewise, tmp_path):
    np.savez(tmp_path / "flat.npz", positions=np.zeros((2, 4, 3, 2)), velocities=np.zeros((2, 4, 3, 2)))
    for words, message in [
        ((springs, "--ahead", 5), "has 5 moments, 0 to 4"),
        ((springs, "--model", "gcn"), "for moving bodies expected one of equivariant, graph_network"),
        ((springs, "--model", "graph_network", "--weighing", "gate"), "--weighing goes with --model equivariant"),
        ((springs, springs, "--task-type", "dynamics"), "expected one file of trajectories"),
        ((springs, "--split-sizes", 1, 0), "three parts that sum to 1"),
        ((springs, "--context", 5), "unknown setting 'context'"),
        ((tmp_path / "none.npz", "--task-type", "dynamics"), "no such file"),
    ]:
        code, out, err = edgewise("train", *words, "-o", tmp_path / "bad")
        assert (code, out) == (2, ""), words
        assert message in err, err
    words = ["--ahead", 2, "--epochs", 1, *SMALL, "-o", tmp_path / "run"]
    assert edgewise("train", springs, *words)[0] == 0
    code, _, err = edgewise("predict", tmp_path / "run", tmp_path / "flat.npz", "-o", tmp_path / "x.npz")
    assert (code, "has 2 dimensions and 1 numbers of a body, but the model was trained on 3 and 1" in err) == (2, True)
    code, _, err = edgewise("predict", tmp_path / "run", springs, "-o", tmp_path / "x.csv")
    assert (code, "expected a name that ends in .npz" in err) == (2, True)
