"""`edgewise predict` and `edgewise fingerprint`: every row keeps its place."""

import argparse
import gzip
import json
import shutil

import numpy as np
import pandas as pd
import pytest

from cli_tables import read_csv, write_csv
from edgewise.cli import predict


@pytest.fixture
def new(tmp_path):
    """New rows: good, bad, odd."""
    return write_csv(
        tmp_path / "new.csv",
        {
            "id": ["007", "1e5", 'say "hi", then go', "d", "e"],
            "smiles": ["CCO", "C(" + "\xe9" * 300, "", "CCO", "C1CC1[Si](C)(C)C"],
        },
    )


def test_columns_and_places_are_kept(trained, edgewise, new, tmp_path):
    code, out, err = edgewise("predict", trained, new, "-o", tmp_path / "out.csv")
    assert (code, out) == (0, "")
    assert "3 of 5 rows predicted; 2 could not be" in err
    rows = read_csv(tmp_path / "out.csv")
    assert list(rows[0]) == ["id", "smiles", "y_pred", "y_std", "y_low", "y_high", "similarity", "status"]
    assert [(row["id"], row["smiles"]) for row in rows] == [(row["id"], row["smiles"]) for row in read_csv(new)]
    assert [row["status"] == "ok" for row in rows] == [True, False, False, True, True]
    for row in rows:
        filled = [bool(row[name]) for name in ("y_pred", "y_std", "y_low", "y_high", "similarity")]
        assert filled == [row["status"] == "ok"] * 5
    assert "U+00E9 (LATIN SMALL LETTER E WITH ACUTE)" in rows[1]["status"]
    assert "smiles" in rows[2]["status"]
    assert rows[0] | {"id": ""} == rows[3] | {"id": ""}
    assert float(rows[0]["y_low"]) < float(rows[0]["y_pred"]) < float(rows[0]["y_high"])
    assert 0 < float(rows[4]["similarity"]) < 0.5


def test_training_molecules_are_known_in_any_writing(trained, edgewise, tmp_path):
    splits = json.loads((trained / "splits.json").read_text())
    known = json.loads((trained / "model.json").read_text())["known_rows"]
    assert len(known) == len(splits["train"])
    data = write_csv(tmp_path / "d.csv", {"smiles": [known[0][0], "[H]" + known[0][0]]})
    edgewise("predict", trained, data, "-o", tmp_path / "out.csv")
    assert read_csv(tmp_path / "out.csv")[0]["similarity"] == "1"


def test_a_prediction_does_not_depend_on_its_neighbors(trained, edgewise, tmp_path):
    smiles = ["CCO", "CCCCN", "c1ccccc1C"] * 300
    write_csv(tmp_path / "many.csv", {"smiles": smiles})
    write_csv(tmp_path / "one.csv", {"smiles": ["CCCCN"]})
    for name in ("many", "one"):
        edgewise("predict", trained, tmp_path / f"{name}.csv", "-o", tmp_path / f"{name}.out.csv")
    alone = float(read_csv(tmp_path / "one.out.csv")[0]["y_pred"])
    assert [float(row["y_pred"]) for row in read_csv(tmp_path / "many.out.csv")[1::3]] == pytest.approx(
        [alone] * 300, rel=1e-5
    )


def test_wider_coverage_gives_wider_intervals(trained, edgewise, new, tmp_path):
    widths = []
    for coverage in ("0.5", "0.9"):
        edgewise("predict", trained, new, "-o", tmp_path / f"{coverage}.csv", "--coverage", coverage)
        row = read_csv(tmp_path / f"{coverage}.csv")[0]
        widths.append(float(row["y_high"]) - float(row["y_low"]))
    assert 0 < widths[0] < widths[1]
    code, _, err = edgewise("predict", trained, new, "-o", tmp_path / "x.csv", "--coverage", "1.5")
    assert (code, "--coverage is 1.5" in err) == (2, True)
    # Ten validation rows cannot promise 99%.
    edgewise("predict", trained, new, "-o", tmp_path / "y.csv", "--coverage", "0.99")
    assert read_csv(tmp_path / "y.csv")[0]["y_low"] == ""


def test_other_endings_and_the_screen(trained, edgewise, new, tmp_path):
    code, out, _ = edgewise("predict", trained, new, "-o", "-")
    assert code == 0
    edgewise("predict", trained, new, "-o", tmp_path / "out.csv")
    assert out == (tmp_path / "out.csv").read_text()
    for name in ("out.tsv", "out.csv.gz", "out.parquet"):
        assert edgewise("predict", trained, new, "-o", tmp_path / name)[0] == 0
    assert gzip.decompress((tmp_path / "out.csv.gz").read_bytes()).decode() == out
    tabs = pd.read_csv(tmp_path / "out.tsv", sep="\t", dtype=str, keep_default_na=False)
    assert tabs.to_dict("records") == read_csv(tmp_path / "out.csv")
    frame = pd.read_parquet(tmp_path / "out.parquet")
    assert frame["y_pred"].dtype == np.float64
    assert frame["y_pred"].isna().tolist() == [False, True, True, False, False]
    assert frame["id"].tolist() == tabs["id"].tolist()


def test_cells_stay_as_they_are_unless_formulas_are_escaped(trained, edgewise, tmp_path):
    cells = ["=1+1", "@SUM(A1)", "-2.5", "+x", "-", "a=b"]
    data = write_csv(tmp_path / "new.csv", {"=note": cells, "smiles": ["CCO"] * 6})
    for end in ("csv", "tsv"):
        assert edgewise("predict", trained, data, "-o", tmp_path / f"plain.{end}")[0] == 0
        assert edgewise("predict", trained, data, "-o", tmp_path / f"safe.{end}", "--escape-formulas")[0] == 0
    assert [row["=note"] for row in read_csv(tmp_path / "plain.csv")] == cells
    escaped = ["'=1+1", "'@SUM(A1)", "-2.5", "'+x", "'-", "a=b"]
    rows = read_csv(tmp_path / "safe.csv")
    assert [row["'=note"] for row in rows] == escaped
    assert [row["y_pred"] for row in rows] == [row["y_pred"] for row in read_csv(tmp_path / "plain.csv")]
    tabs = pd.read_csv(tmp_path / "safe.tsv", sep="\t", dtype=str)
    assert tabs["'=note"].tolist() == escaped
    code, _, err = edgewise("predict", trained, data, "-o", tmp_path / "x.parquet", "--escape-formulas")
    assert (code, "--escape-formulas is for .csv and .tsv, but -o is" in err) == (2, True)


def test_the_input_may_hold_the_target_and_be_wrong_there(trained, edgewise, tmp_path):
    data = write_csv(tmp_path / "d.csv", {"smiles": ["CCO"], "y": ["abc"]})
    edgewise("predict", trained, data, "-o", tmp_path / "out.csv")
    (row,) = read_csv(tmp_path / "out.csv")
    assert (row["y"], row["status"]) == ("abc", "ok")


def test_columns_may_be_called_otherwise(trained, edgewise, tmp_path):
    data = write_csv(tmp_path / "d.csv", {"structure": ["CCO"]})
    code, _, err = edgewise("predict", trained, data, "-o", tmp_path / "out.csv")
    assert (code, "'smiles'" in err) == (2, True)
    words = ["--smiles-columns", "structure"]
    assert edgewise("predict", trained, data, *words, "-o", tmp_path / "out.csv")[0] == 0
    code, _, err = edgewise("predict", trained, data, *words, "other", "-o", tmp_path / "other.csv")
    assert (code, "--smiles-columns names 2, but the model was trained on 1: smiles" in err) == (2, True)


def test_rows_of_which_none_can_be_read(trained, edgewise, tmp_path):
    data = write_csv(tmp_path / "d.csv", {"smiles": ["x", "y"]})
    code, _, err = edgewise("predict", trained, data, "-o", tmp_path / "out.csv")
    assert (code, "0 of 2 rows predicted" in err) == (0, True)
    assert [row["y_pred"] for row in read_csv(tmp_path / "out.csv")] == ["", ""]
    code, _, err = edgewise("fingerprint", trained, data, "-o", tmp_path / "out.npz")
    assert (code, "d.csv: no row can be read; the first: smiles: " in err) == (2, True)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("there.csv", "there.csv exists already; choose another name with -o, or replace it with --overwrite."),
        ("new.csv", "new.csv is the input; choose another name with -o."),
        ("out.xlsx", "expected a name that ends in .csv, .tsv, .csv.gz, .tsv.gz, .parquet."),
        ("absent/out.csv", "absent is not a folder; create it, or choose another name with -o."),
        ("/proc/out.csv", "Choose another with -o."),
    ],
)
def test_outputs_that_must_not_be_written(trained, edgewise, new, tmp_path, output, message):
    (tmp_path / "there.csv").write_text("mine")
    code, _, err = edgewise("predict", trained, new, "-o", tmp_path / output)
    assert code == 2
    assert err.startswith("edgewise: error: ")
    assert err.endswith(message + "\n")
    assert (tmp_path / "there.csv").read_text() == "mine"


def test_overwrite_replaces_an_output_but_never_the_input(trained, edgewise, new, tmp_path):
    (tmp_path / "there.csv").write_text("old")
    assert edgewise("predict", trained, new, "-o", tmp_path / "there.csv", "--overwrite")[0] == 0
    assert "y_pred" in (tmp_path / "there.csv").read_text()
    assert edgewise("predict", trained, new, "-o", new, "--overwrite")[0] == 2


def test_a_column_that_predictions_need_is_not_replaced(trained, edgewise, tmp_path):
    data = write_csv(tmp_path / "d.csv", {"smiles": ["CCO"], "status": ["mine"]})
    code, _, err = edgewise("predict", trained, data, "-o", tmp_path / "out.csv")
    assert (code, "already has the column 'status', which predictions need; give it another name" in err) == (2, True)


def test_strict_stops(trained, edgewise, new, tmp_path):
    code, _, err = edgewise("predict", trained, new, "-o", tmp_path / "out.csv", "--strict")
    assert code == 2
    assert "new.csv" in err
    assert "'smiles'" in err
    assert not (tmp_path / "out.csv").exists()


def test_fingerprints_by_row(trained, edgewise, new, tmp_path):
    assert edgewise("fingerprint", trained, new, "-o", tmp_path / "out.npz")[0] == 0
    found = np.load(tmp_path / "out.npz")
    assert found["row"].tolist() == [0, 1, 2, 3, 4]
    assert np.isnan(found["vectors"]).all(axis=1).tolist() == [False, True, True, False, False]
    assert np.isfinite(found["vectors"][[0, 3, 4]]).all()
    assert np.array_equal(found["vectors"][0], found["vectors"][3])
    assert not np.array_equal(found["vectors"][0], found["vectors"][4])
    assert found["status"][0] == "ok"
    assert edgewise("fingerprint", trained, new, "-o", tmp_path / "out.npz")[0] == 2
    assert edgewise("fingerprint", trained, new, "-o", tmp_path / "out.csv")[0] == 2


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda run: (run / "model.json").write_text("{"), "model.json is not a JSON file"),
        (
            lambda run: (run / "model.json").write_text("[]"),
            "model.json is not a model that this version of Edgewise can read",
        ),
        (lambda run: (run / "model.safetensors").write_bytes(b"x"), "model.safetensors is damaged"),
        (lambda run: (run / "model.safetensors").unlink(), "unfinished run"),
        (lambda run: newer(run), "has format 99, this Edgewise reads up to 1; upgrade it"),
        (lambda run: changed(run, "descriptors", ["other"]), "another release of RDKit"),
        (lambda run: changed(run, "ensemble_size", 2), "does not fit the model: the tensor"),
        (lambda run: changed(run, "sizes", {}), "model.json is damaged: sizes.num_node_features is missing"),
    ],
)
def test_a_damaged_run_is_named(trained, edgewise, new, tmp_path, damage, message):
    run = tmp_path / "damaged"
    shutil.copytree(trained, run)
    damage(run)
    code, _, err = edgewise("predict", run, new, "-o", tmp_path / "out.csv")
    assert code == 2
    assert err.startswith("edgewise: error: ")
    assert err.count("\n") == 1
    assert message in err


def newer(run):
    changed(run, "format_version", 99)


def changed(run, name, value):
    content = json.loads((run / "model.json").read_text())
    (run / "model.json").write_text(json.dumps(content | {name: value}))


@pytest.mark.parametrize(
    ("words", "variable", "expected"),
    [([], None, 8), ([], "3", 3), (["--threads", "2"], "3", 2), (["--engine", "ray"], None, 1)],
)
def test_threads_of_a_prediction(words, variable, expected, monkeypatch):
    monkeypatch.setattr("edgewise.learn.training.settings.available_cores", lambda: 16)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if variable is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", variable)
    parser = argparse.ArgumentParser()
    predict.add_arguments(parser)
    arguments = parser.parse_args(["run", "new.csv", "-o", "out.csv", *words])
    assert predict.request_of(arguments).threads == expected
