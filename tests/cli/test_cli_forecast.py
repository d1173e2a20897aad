"""`edgewise train series.csv --edges edges.csv --task-type forecast`: what it learns of neighbors, says and refuses."""

import json

import numpy as np
import pandas as pd
import pytest

from cli_tables import read_csv, write_csv
from edgewise import EdgewiseError, Forecaster
from edgewise.learn.readers.graphs.series import read_series

SMALL = ["--task-type", "forecast", "--context", 3, "--horizon", 2, "--model-dim", 8]


@pytest.fixture
def chain(tmp_path):
    """Noise enters at node a; b is a one step later, c is b one step later: nothing else predicts b and c."""
    noise = np.random.default_rng(0).normal(size=200).round(3)
    table = {"step": range(200), "a": noise, "b": np.roll(noise, 1), "c": np.roll(noise, 2)}
    series = write_csv(tmp_path / "series.csv", {name: list(column) for name, column in table.items()})
    return series, write_csv(tmp_path / "edges.csv", {"from": ["a", "b"], "to": ["b", "c"]})


@pytest.fixture
def learn(edgewise, chain, tmp_path):
    def run(*words, folder="run"):
        flags = ["--edges", chain[1], "--directed", "--time-column", "step", *SMALL, *words]
        return edgewise("train", chain[0], *flags, "-o", tmp_path / folder)

    return run


def test_no_validation_is_said(learn):
    """Patience and the best epoch do nothing then, which was passed over for series, sentences and pairs."""
    code, out, _ = learn("--epochs", 1, "--split-sizes", 0.8, 0, 0.2, "--patience", 1)
    assert code == 0
    assert "0 validation and 36 test stretches" in out
    assert "no validation stretches: the last epoch is used" in out


def test_a_forecast_depends_on_the_neighbors(learn, chain, edgewise, paste, tmp_path):
    recipe = ["--epochs", 6, "--learning-rate", 0.03, "--batch-size", 8]
    code, out, err = learn(*recipe)
    assert (code, err) == (0, "")
    for words in (
        "200 steps of 3 nodes, 0 empty cells",
        "2 edges, one way each; 0 nodes have no neighbor",
        "136 training, 16 validation and 36 test stretches, by time: 3 steps read, 2 predicted",
        "test stretches, 1 step ahead",
        "test stretches, 2 steps ahead",
        "stays as it was",
    ):
        assert words in out
    paste(out)
    (tmp_path / "next.csv").unlink()
    assert learn(*recipe, "--model", "gru", folder="alone")[0] == 0
    with_graph, alone = (
        json.loads((tmp_path / folder / "metrics.json").read_text())["test"]["mae"][0] for folder in ("run", "alone")
    )
    assert with_graph < 0.75 * alone, "a is noise for both; b and c are known to who hears a and b"
    predicted = tmp_path / "next.csv"
    code, _, err = edgewise("predict", tmp_path / "run", chain[0], "--edges", chain[1], "-o", predicted)
    assert (code, err) == (0, f"2 steps after '199': {predicted}\n")
    rows = read_csv(predicted)
    assert [list(row) for row in rows] == [["steps_ahead", "step", "a", "b", "c"]] * 2
    assert [row["step"] for row in rows] == ["200", "201"]
    frame = pd.read_csv(chain[0])
    assert abs(float(rows[0]["c"]) - frame["b"].iloc[-1]) < 0.5

    turned, again = tmp_path / "turned.csv", tmp_path / "again.csv"
    frame[["c", "step", "a", "b"]].to_csv(turned, index=False)
    assert edgewise("predict", tmp_path / "run", turned, "--edges", chain[1], "-o", again)[0] == 0
    assert again.read_bytes() == predicted.read_bytes(), "columns are found by their names"

    model, nodes = Forecaster.load(tmp_path / "run"), frame.drop(columns="step")
    ahead = model.predict(nodes, edges=np.array([[0, 1], [1, 2]]))
    np.testing.assert_array_equal(model.predict(nodes[["c", "a", "b"]], edges=np.array([[1, 2], [2, 0]])), ahead)


def test_missing_times_are_refused_or_filled_and_said(learn, chain, edgewise, tmp_path):
    header, *rows = chain[0].read_text().splitlines()
    rows = [*rows[:20], *rows[50:100][::-1], *rows[100:]]
    chain[0].write_text("\n".join([header, *rows]) + "\n")
    code, _, err = learn("--epochs", 1)
    assert (code, "30 steps are missing, the first after '19'" in err) == (2, True), err
    code, out, _ = learn("--epochs", 1, "--gaps", "mask")
    assert (code, "200 steps of 3 nodes, 90 empty cells" in out) == (0, True)
    assert "50 rows were out of order and sorted by time" in out and "30 steps are missing" in out
    code, _, err = edgewise("predict", tmp_path / "run", chain[0], "--edges", chain[1], "-o", tmp_path / "next.csv")
    assert (code, "30 steps are missing" in err) == (0, True), err
    assert [row["step"] for row in read_csv(tmp_path / "next.csv")] == ["200", "201"]


def test_a_run_goes_on_with_the_same_bits(learn, tmp_path, monkeypatch):
    from edgewise.learn.training.training import Training

    original = Training.end_epoch

    def stop_early(self, *details):
        original(self, *details)
        if self.epoch == 1:
            raise KeyboardInterrupt

    words = ["--model", "gru", "--epochs", 2, "--period", 7]
    assert learn(*words, folder="whole")[0] == 0
    monkeypatch.setattr(Training, "end_epoch", stop_early)
    assert learn(*words)[0] == 130
    monkeypatch.setattr(Training, "end_epoch", original)
    assert learn(*words, "--resume")[0] == 0
    one, other = (tmp_path / folder / "model.safetensors" for folder in ("whole", "run"))
    assert one.read_bytes() == other.read_bytes()


def test_the_face_in_python(chain, tmp_path):
    series = read_series(str(chain[0]), str(chain[1]), time_column="step", edge_columns=(), is_directed=True)
    model = Forecaster(model="gru", context=3, horizon=4, epochs=1).fit(series)
    assert model.predict(series).shape == (4, 3)
    assert len(model.metrics_["test"]["rmse"]) == 4
    model.save(tmp_path / "kept")
    np.testing.assert_array_equal(Forecaster.load(tmp_path / "kept").predict(series), model.predict(series))
    with pytest.raises(EdgewiseError, match="is not fitted yet"):
        Forecaster().predict(series)


def test_bad_words(learn, chain, edgewise, tmp_path):
    for words, message in [
        (["--model", "gcn"], "expected one of gaan_gru, gru"),
        (["--model-dim", 7], "must be a multiple of --num-heads"),
        (["--horizon", 0], "--horizon is 0; expected at least 1"),
        (["--context", 500], "fewer than --context + --horizon"),
        (["--split-sizes", 1, 0], "three fractions that sum to 1"),
        (["--edges", tmp_path / "none.csv"], "no such file"),
        (["--model", "gru", "--num-heads", 8], "--num-heads does nothing with --model gru"),
        (["--edge-feature-columns", "weight"], "--edge-feature-columns does nothing for forecast"),
        (["--edge-category-columns", "weight"], "--edge-category-columns does nothing for forecast"),
        (["--aggregation", "gate"], "--aggregation applies to"),
        (["--no-baselines"], "--baselines applies to"),
        (["--pretrained", "runs/read"], "--pretrained applies to"),
    ]:
        code, out, err = learn(*words, folder="bad")
        assert (code, out) == (2, ""), words
        assert message in err, err
    assert learn("--model", "gru", "--epochs", 1)[0] == 0
    other = write_csv(tmp_path / "other.csv", {"step": [0, 1, 2], "a": [1, 2, 3], "q": [1, 2, 3]})
    short = write_csv(tmp_path / "short.csv", {"step": [0], "a": [1], "b": [1], "c": [1]})
    for table, message in (
        (other, "has 2 columns, a, q, ...; the model was trained on 3"),
        (short, "has 1 step, but"),
    ):
        code, _, err = edgewise("predict", tmp_path / "run", table, "-o", "-")
        assert (code, message in err) == (2, True), err


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (pd.date_range("1970-01-01", periods=62, freq="D").strftime("%Y-%m-%d"), ["1970-03-02", "1970-03-03"]),
        ([str(1709251265123 + 7 * step) for step in range(62)], ["1709251265543", "1709251265550"]),
    ],
)
def test_times_of_predictions_go_on(edgewise, tmp_path, times, expected):
    values = np.random.default_rng(0).normal(size=60).round(3).tolist()
    series = write_csv(tmp_path / "s.csv", {"step": list(times[:60]), "a": values, "b": values})
    edges, run = write_csv(tmp_path / "e.csv", {"from": ["a"], "to": ["b"]}), tmp_path / "run"
    flags = ["--edges", edges, "--time-column", "step", *SMALL, "--epochs", 1]
    assert edgewise("train", series, *flags, "-o", run)[0] == 0
    code, _, err = edgewise("predict", run, series, "--edges", edges, "-o", tmp_path / "next.csv")
    assert code == 0, err
    assert [row["step"] for row in read_csv(tmp_path / "next.csv")] == expected


def test_edges_go_as_in_the_training_whatever_the_order_of_columns(chain, edgewise, tmp_path):
    ends = {"u": ["a", "b"], "v": ["b", "c"]}
    edges = write_csv(tmp_path / "ends.csv", ends)
    turned = write_csv(tmp_path / "turned.csv", {name: ends[name] for name in ("v", "u")})
    words = ["--edges", edges, "--directed", "--time-column", "step", *SMALL, "--epochs", 1]
    assert edgewise("train", chain[0], *words, "-o", tmp_path / "run")[0] == 0
    for name, table in (("expected", edges), ("found", turned)):
        words = ["predict", tmp_path / "run", chain[0], "--edges", table, "-o", tmp_path / f"{name}.csv"]
        assert edgewise(*words)[0] == 0
    assert (tmp_path / "found.csv").read_text() == (tmp_path / "expected.csv").read_text()


def test_a_model_of_edges_does_not_predict_without_them_unsaid(learn, chain, edgewise, tmp_path):
    """Without --edges, a run that was trained with edges predicted as if there were none, without a word."""
    assert learn("--epochs", 1)[0] == 0
    code, out, err = edgewise("predict", tmp_path / "run", chain[0], "-o", "-")
    assert (code, out) == (2, "")
    assert "reads the edges between the series; name their table: --edges edges.csv, or --edges none" in err
    code, without, err = edgewise("predict", tmp_path / "run", chain[0], "--edges", "none", "-o", "-")
    assert (code, len(without.splitlines())) == (0, 3), err
    assert edgewise("predict", tmp_path / "run", chain[0], "--edges", chain[1], "-o", "-")[1] != without

    assert learn("--epochs", 1, "--model", "gru", folder="gru")[0] == 0
    alone = ["train", chain[0], "--time-column", "step", *SMALL, "--epochs", 1, "-o", tmp_path / "alone"]
    assert edgewise(*alone)[0] == 0
    for folder in ("gru", "alone"):
        code, _, err = edgewise("predict", tmp_path / folder, chain[0], "-o", "-")
        assert code == 0, f"{folder} reads no edges: {err}"
