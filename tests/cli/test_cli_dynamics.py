"""`edgewise train motion.npz`: what a run leaves, that it learns a law, that what it learned turns with the bodies."""

import json

import numpy as np
import pytest

from cli_tables import read_csv
from edgewise import DynamicsModel, EdgewiseError
from edgewise.learn.readers.motion.motion import read_motion

PULLS = ("--target-quantity", "accelerations")
SMALL = ["--num-layers", 2, "--model-dim", 16]


@pytest.fixture(scope="module")
def springs(tmp_path_factory):
    from edgewise.cli.main import main

    path = tmp_path_factory.mktemp("motion") / "springs.npz"
    words = "simulate springs --num-trajectories 60 --num-bodies 3 --num-steps 400 --keep-every 100 -o"
    assert main([*words.split(), str(path)]) == 0
    return path


def test_it_learns_a_law_and_turns_with_the_bodies(springs, edgewise, paste, tmp_path):
    run = tmp_path / "run"
    recipe = ["--horizon", 3, "--epochs", 50, "--batch-size", 12, "--learning-rate", 5e-3]
    code, out, err = edgewise("train", springs, *SMALL, *recipe, "-o", run)
    assert (code, err) == (0, "")
    for words in (
        "60 trajectories of 3 bodies in 3 dimensions, 5 moments",
        "72 training, 24 validation and 24 test moments, each predicted 3 moments ahead",
        "goes straight on",
        "stays",
    ):
        assert words in out
    assert len(paste(out)) == 2
    (tmp_path / "later.npz").unlink()
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["test"]["mse"] < 0.3 * metrics["baselines"]["straight_on"]["test"]["mse"]
    rows = read_csv(run / "test_predictions.csv")
    assert len(rows) == 24 * 3
    apart = [float(row[f"{axis}_pred"]) - float(row[axis]) for row in rows for axis in "xyz"]
    assert np.mean(np.square(apart)) == pytest.approx(metrics["test"]["mse"], rel=1e-3)
    code, _, err = edgewise("predict", run, springs, "-o", tmp_path / "later.npz")
    assert (code, "positions 3 moments after each of 5 moments of 60 trajectories" in err) == (0, True)
    with np.load(tmp_path / "later.npz") as found:
        predicted = found["positions_pred"]
    motion, model = read_motion(str(springs)), DynamicsModel.load(run)
    np.testing.assert_allclose(model.predict(motion, 2), predicted[:, 2], atol=1e-5)
    # A quarter turn about z, and a shift: the predictions turn and shift alike.
    turn = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]], dtype=np.float32)
    content = {name: getattr(motion, name) for name in ("times", "couplings")}
    moved = {"positions": motion.positions @ turn.T + 5, "velocities": motion.velocities @ turn.T}
    np.savez(tmp_path / "turned.npz", **content, **moved)
    turned = model.predict(read_motion(str(tmp_path / "turned.npz")))
    np.testing.assert_allclose(turned, predicted[:, 0] @ turn.T + 5, atol=1e-4)


def test_places_far_from_the_origin_are_written_with_all_their_digits(springs, edgewise, tmp_path):
    with np.load(springs) as content:
        arrays = {**content, "positions": content["positions"] + np.array([5e5, 5.8e6, 0.0])}
    np.savez(tmp_path / "far.npz", **arrays)
    run = tmp_path / "run"
    words = [tmp_path / "far.npz", *SMALL, "--horizon", 2, "--start", 0, "--epochs", 1]
    assert edgewise("train", *words, "-o", run)[0] == 0
    metrics, rows = json.loads((run / "metrics.json").read_text()), read_csv(run / "test_predictions.csv")
    for row in rows:
        place = arrays["positions"][int(row["trajectory"]), 2, int(row["body"])]
        np.testing.assert_allclose([float(row[axis]) for axis in "xyz"], place, rtol=0, atol=1e-4)
    errors = [float(row[f"{axis}_pred"]) - float(row[axis]) for row in rows for axis in "xyz"]
    assert np.mean(np.square(errors)) == pytest.approx(metrics["test"]["mse"], rel=1e-2)
    assert edgewise("predict", run, tmp_path / "far.npz", "-o", tmp_path / "later.npz")[0] == 0
    with np.load(tmp_path / "later.npz") as found:
        assert found["positions_pred"].dtype == np.float64


def test_a_run_goes_on_with_the_same_bits(springs, edgewise, tmp_path, monkeypatch):
    from edgewise.learn.training.training import Training

    original = Training.end_epoch

    def stop_early(self, *details):
        original(self, *details)
        if self.epoch == 2:
            raise KeyboardInterrupt

    words = [springs, *SMALL, "--horizon", 2, "--epochs", 3, "--model", "graph_network", "-o"]
    assert edgewise("train", *words, tmp_path / "whole")[0] == 0
    monkeypatch.setattr(Training, "end_epoch", stop_early)
    assert edgewise("train", *words, tmp_path / "run")[0] == 130
    monkeypatch.setattr(Training, "end_epoch", original)
    assert edgewise("train", *words, tmp_path / "run", "--resume")[0] == 0
    one, other = (tmp_path / folder / "model.safetensors" for folder in ("whole", "run"))
    assert one.read_bytes() == other.read_bytes()


def test_the_face_in_python(springs, tmp_path):
    motion = read_motion(str(springs))
    model = DynamicsModel(horizon=2, start=1, epochs=2, num_layers=1, model_dim=8, aggregation="attention").fit(motion)
    assert model.predict(motion).shape == (60, 3, 3)
    assert model.metrics_["rows"] == {"train": 36, "val": 12, "test": 12}
    model.save(tmp_path / "kept")
    np.testing.assert_array_equal(DynamicsModel.load(tmp_path / "kept").predict(motion, 4), model.predict(motion, 4))
    assert np.isfinite(model.score(motion, moment=2))
    for method, moment, message in (
        (model.predict, 5, "moment 5: .* has 5 moments, 0 to 4.$"),
        (model.predict, -1, "moment -1: .* has 5 moments, 0 to 4.$"),
        (model.score, 3, "moment 3: .* 0 to 4, of which the last 2 lack a target.$"),
    ):
        with pytest.raises(EdgewiseError, match=message):
            method(motion, moment=moment)
    with pytest.raises(EdgewiseError, match="is not fitted yet"):
        DynamicsModel().predict(motion)


def test_steps_and_units_that_differ_from_the_training_are_said(springs, edgewise, tmp_path):
    """A file with steps twice as long was predicted as that of the training, without a word."""
    with np.load(springs) as file:
        arrays = dict(file)
    units = json.loads(str(arrays["units"]))
    np.savez(tmp_path / "a.npz", **arrays | {"units": np.array(json.dumps(units | {"position": "km"}))})
    twice = arrays | {"times": 2 * arrays["times"], "units": np.array(json.dumps(units | {"position": "m"}))}
    np.savez(tmp_path / "b.npz", **twice)
    run = tmp_path / "run"
    assert edgewise("train", tmp_path / "a.npz", *SMALL, "--horizon", 2, "--epochs", 1, "-o", run)[0] == 0
    for name, said in (("a", False), ("b", True)):
        code, _, err = edgewise("predict", run, tmp_path / f"{name}.npz", "-o", tmp_path / f"{name}_later.npz")
        assert code == 0
        assert ("2 steps last 4, but 2 in the training: positions are predicted 2 later" in err) == said, err
        assert ("position is in m, but was in km in the training" in err) == said
    model = DynamicsModel.load(run)
    with pytest.warns(UserWarning, match="predict: 2 steps last 4, but 2 in the training"):
        model.predict(read_motion(str(tmp_path / "b.npz")))
    model.save(tmp_path / "saved")  # which has no metrics.json
    code, _, err = edgewise("predict", tmp_path / "saved", tmp_path / "b.npz", "-o", tmp_path / "saved.npz")
    assert (code, "2 steps last 4" in err) == (0, True), err


@pytest.fixture(scope="module")
def pulled(tmp_path_factory):
    """A run over bodies under gravity that predicts accelerations, its file, and what was printed."""
    import contextlib
    import io

    from edgewise.cli.main import main

    folder, printed = tmp_path_factory.mktemp("pulled"), io.StringIO()
    words = "simulate nbody --num-trajectories 15 --num-bodies 3 --num-steps 400 --keep-every 40 --time-step 5e-3 -o"
    assert main([*words.split(), str(folder / "nbody.npz")]) == 0
    recipe = [*PULLS, "--epochs", "100", "--batch-size", "20", "--model-dim", "32"]
    recipe += ["--learning-rate", "1e-2"]
    with contextlib.redirect_stdout(printed):
        assert main(["train", str(folder / "nbody.npz"), *recipe, "-o", str(folder / "run")]) == 0
    return folder / "run", folder / "nbody.npz", printed.getvalue()


def test_it_learns_accelerations_and_says_which_force(pulled):
    run, data, out = pulled
    for words in (
        "99 training, 33 validation and 33 test moments, each with its accelerations",
        "relative error",
        "nothing pulls",
        "force of body 0 on body 1, from ",
        "; by the law r^-1.",
        "3 test trajectories let run by it for 10 moments, a time of 2: at its end ",
        "energy drift by the law: ",
        f"edgewise report {run}",
    ):
        assert words in out
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["test"]["relative"] < 0.4
    force = metrics["force"]
    assert force["learned"]["exponent"] == pytest.approx(force["law"]["exponent"], abs=0.15)
    assert metrics["rollout"]["distance"] < 0.1 * metrics["rollout"]["distance_straight_on"]
    rows = read_csv(run / "test_predictions.csv")
    assert len(rows) == 3 * 11 * 3
    motion = read_motion(str(data))
    for row in rows[::10]:
        place = tuple(int(row[name]) for name in ("trajectory", "moment", "body"))
        assert [float(row[f"a{axis}"]) for axis in "xyz"] == pytest.approx(
            motion.accelerations[place].tolist(), rel=1e-5
        )
    rows = read_csv(run / "force.csv")
    assert list(rows[0]) == ["distance", "learned", "law"]
    for row in rows:
        r = float(row["distance"])
        assert float(row["law"]) == pytest.approx(r / (r * r + 0.01) ** 1.5, rel=1e-4)
    with np.load(run / "rollout.npz") as found:
        chosen = found["trajectories"]
        np.testing.assert_array_equal(found["positions_real"], motion.positions[chosen])
        far = np.linalg.norm(found["positions"] - found["positions_real"], axis=-1)
    assert np.median(far[:, -1]) == pytest.approx(metrics["rollout"]["distance"])


def test_accelerations_are_predicted(pulled, edgewise, tmp_path):
    run, data, _ = pulled
    code, _, err = edgewise("predict", run, data, "-o", tmp_path / "pulls.npz")
    assert (code, "accelerations at each of 11 moments of 15 trajectories" in err) == (0, True)
    motion, model = read_motion(str(data)), DynamicsModel.load(run)
    with np.load(tmp_path / "pulls.npz") as found:
        assert found.files == ["accelerations_pred"]
        np.testing.assert_allclose(found["accelerations_pred"][:, 4], model.predict(motion, 4), rtol=1e-4, atol=1e-5)


def test_a_file_that_says_little(pulled, edgewise, tmp_path):
    """Without accelerations, masses and couplings, assumptions are printed and the ends are not trained on."""
    with np.load(pulled[1]) as found:
        content = {name: found[name] for name in ("positions", "velocities", "times")}
    np.savez(tmp_path / "bare.npz", **content)
    words = [
        tmp_path / "bare.npz",
        "--target-quantity",
        "accelerations",
        "--epochs",
        1,
        "--model",
        "equivariant",
        *SMALL,
    ]
    code, out, err = edgewise("train", *words, "-o", tmp_path / "run")
    assert (code, err) == (0, "")
    for said in (
        "81 training, 27 validation and 27 test moments, each with its accelerations",
        "  no accelerations in the file: they are made of positions and velocities, but for the first and the last",
        "  no couplings in the file: a force is counted in the product of the charges, or else of the masses",
        "  no masses in the file: every body weighs 1",
    ):
        assert said in out
    assert "by the law" not in out
    assert list(read_csv(tmp_path / "run" / "force.csv")[0]) == ["distance", "learned"]
    assert edgewise("report", tmp_path / "run")[0] == 0


def test_what_a_predicted_file_does_not_say_is_printed(springs, pulled, edgewise, tmp_path):
    """A file without masses was predicted as that of bodies of mass 1, without a word."""
    run, data, _ = pulled
    assert edgewise("train", springs, *SMALL, "--horizon", 1, "--epochs", 1, "-o", tmp_path / "later")[0] == 0
    weighs, forces = "no masses in the file: every body weighs 1", "no couplings in the file: a force is counted in the"
    for folder, path, pairs in (
        (run, data, forces),
        (tmp_path / "later", springs, "no couplings in the file: every pair has the coupling 0"),
    ):
        with np.load(path) as file:
            bare = {name: file[name] for name in ("positions", "velocities", "times")}
        np.savez(tmp_path / "bare.npz", **bare)
        for source, is_bare in ((path, False), (tmp_path / "bare.npz", True)):
            code, _, err = edgewise("predict", folder, source, "-o", tmp_path / "out.npz", "--overwrite")
            assert (code, weighs in err, pairs in err) == (0, is_bare, is_bare), err
            assert "no accelerations" not in err, "they are predicted, not read"


def test_bad_words(springs, edgewise, tmp_path):
    zeros = np.zeros((2, 4, 3, 2))
    np.savez(tmp_path / "flat.npz", positions=zeros, velocities=zeros)
    np.savez(tmp_path / "still.npz", positions=zeros)
    np.savez(tmp_path / "light.npz", positions=zeros, velocities=zeros, masses=np.zeros((2, 3)))
    for words, message in [
        ((springs, "--horizon", 5), "has 5 moments, 0 to 4"),
        ((springs, "--model", "gcn"), "expected one of equivariant, graph_network"),
        ((springs, "--model", "graph_network", "--aggregation", "gate"), "--aggregation goes with --model equivariant"),
        ((springs, springs, "--task-type", "dynamics"), "expected one file of trajectories"),
        ((springs, "--split-sizes", 1, 0), "three fractions that sum to 1"),
        ((springs, "--context", 5), "--context applies to"),
        ((tmp_path / "none.npz", "--task-type", "dynamics"), "no such file"),
        (
            (springs, *PULLS, "--horizon", 2),
            "--horizon 2 does nothing with --target-quantity accelerations",
        ),
        ((springs, *PULLS, "--start", 9), "--start 9: "),
        (
            (springs, "--target-quantity", "speeds"),
            "--target-quantity is 'speeds'; expected one of positions, accelerations",
        ),
        ((springs, "--model", "forces"), "--model forces goes with --target-quantity accelerations"),
        (
            (springs, *PULLS, "--num-layers", 2),
            "--num-layers does nothing with --model forces",
        ),
        (
            (springs, *PULLS, "--aggregation", "gate"),
            "--aggregation goes with --model equivariant",
        ),
        ((tmp_path / "still.npz", "--task-type", "dynamics"), "the array 'velocities' is missing"),
        ((tmp_path / "light.npz", *PULLS), "masses holds a number that is not above 0"),
    ]:
        code, out, err = edgewise("train", *words, "-o", tmp_path / "bad")
        assert (code, out) == (2, ""), words
        assert message in err, err
    words = ["--horizon", 2, "--epochs", 1, *SMALL, "-o", tmp_path / "run"]
    assert edgewise("train", springs, *words)[0] == 0
    code, _, err = edgewise("predict", tmp_path / "run", tmp_path / "flat.npz", "-o", tmp_path / "x.npz")
    assert (code, "flat.npz has 2 dimensions, but the model was trained on 3" in err) == (2, True)
    code, _, err = edgewise("predict", tmp_path / "run", springs, "-o", tmp_path / "x.csv")
    assert (code, "expected a name that ends in .npz" in err) == (2, True)


@pytest.mark.parametrize("quantity", [("--horizon", 2), PULLS])
def test_predictions_that_are_not_finite_have_no_score(quantity, edgewise, tmp_path):
    """Test bodies far beyond those of the training ended the run with a traceback, after the training."""
    positions = np.cumsum(np.random.default_rng(3).normal(size=(1, 60, 3, 2)), axis=1)
    positions[:, 55:] *= 1e6
    np.savez(tmp_path / "flies.npz", positions=positions, velocities=np.gradient(positions, axis=1))
    model = ["--model", "equivariant", "--model-dim", 8, "--epochs", 1]
    code, out, err = edgewise("train", tmp_path / "flies.npz", *quantity, *model, "-o", tmp_path / "run")
    assert (code, err) == (0, "")
    assert "warning: some predictions are not finite, so the model gets no score" in out
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert set(metrics["test"].values()) == {None}
    assert all(score > 0 for of_baseline in metrics["baselines"].values() for score in of_baseline["test"].values())
