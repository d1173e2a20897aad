"""`edgewise train`: every file and flag of a run."""

import json
import math
import tomllib

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from cli_tables import SMALL, molecules, read_csv, write_csv


def test_a_run_leaves_everything_it_promises(table, edgewise, paste, tmp_path):
    run = tmp_path / "it's a run"
    (tmp_path / "predictions.csv").touch()
    words = ["--smiles-columns", "smiles", "--target-columns", "y", "--ignore-columns", "name", "-o", run]
    code, out, err = edgewise("train", table, *words, *SMALL, "--split-sizes", "0.5", "0.25", "0.25")
    assert (code, err) == (0, "")
    files = [path.relative_to(run) for path in run.rglob("*") if path.is_file()]
    names = {str(path) for path in files if "tensorboard" not in path.parts}
    assert names == {
        ".edgewise-run.json",
        "config.toml",
        "splits.json",
        "metrics.json",
        "model.json",
        "model.safetensors",
        "test_predictions.csv",
        "rejected.csv",
        "report.html",
        "logs/metrics.csv",
        "checkpoints/data.json",
        "checkpoints/member_0/last.ckpt",
        "checkpoints/member_0/best.ckpt",
        "checkpoints/member_0/finished.ckpt",
    }
    metrics = json.loads((run / "metrics.json").read_text())
    for part, count in (("test", 10), ("validation", 10), ("training", 20)):
        assert metrics["rows"][part] == metrics[part]["y"]["num_rows"] == count
        assert {"rmse", "mae", "r2"} <= metrics[part]["y"].keys()
    assert metrics["coverage"]["promised"] == 0.9
    assert 0 <= metrics["coverage"]["test"]["y"] <= 1
    for baseline in ("mean", "forest"):
        assert metrics["baselines"][baseline]["test"]["y"]["num_rows"] == 10
    splits = json.loads((run / "splits.json").read_text())
    assert sorted(splits["train"] + splits["val"] + splits["test"]) == list(range(40))
    predictions = read_csv(run / "test_predictions.csv")
    assert [int(row["row_in_data"]) for row in predictions] == splits["test"]
    errors = [float(row["y_pred"]) - float(row["y"]) for row in predictions]
    assert math.sqrt(np.mean(np.square(errors))) == pytest.approx(metrics["test"]["y"]["rmse"], rel=1e-5)
    inside = [float(row["y_low"]) <= float(row["y"]) <= float(row["y_high"]) for row in predictions]
    assert np.mean(inside) == metrics["coverage"]["test"]["y"]
    for word in ("40 rows, 40 distinct molecules, 0 rows rejected", "random forest", "training mean", "rmse", str(run)):
        assert word in out
    assert paste(out) == [["edgewise", "predict", str(run), str(table), "-o", "predictions_2.csv"]]
    assert len(read_csv(run / "logs" / "metrics.csv")) == 2
    assert (run / "rejected.csv").read_text() == "file,line,column,value,reason\n"


def test_one_endless_molecule_costs_its_row_only(edgewise, tmp_path):
    columns = {"smiles": [*("C" * count for count in range(1, 9)), "C" * 5000], "y": list(range(9))}
    table, run, predicted = write_csv(tmp_path / "t.csv", columns), tmp_path / "run", tmp_path / "p.csv"
    words = ["--smiles-columns", "smiles", "--target-columns", "y", "-o", run, "--no-baselines", "--max-atoms", 7]
    code, _, err = edgewise("train", table, *words, *SMALL)
    assert (code, err) == (0, "")
    rejected = read_csv(run / "rejected.csv")
    assert [(row["line"], row["column"], row["reason"][-57:]) for row in rejected] == [
        ("9", "smiles", "'CCCCCCCC' has 8 atoms, more than 7; --max-atoms raises the bound"[-57:]),
        ("10", "smiles", "CCCC…' has 5,000 characters, more than 350 for 7 atoms; --max-atoms raises the bound"[-57:]),
    ]
    assert edgewise("predict", run, table, "-o", predicted, "--max-atoms", 8)[0] == 0
    assert [row["status"] == "ok" for row in read_csv(predicted)] == [True] * 8 + [False]
    assert edgewise("explain", run, "C" * 8, "-o", tmp_path / "e.json")[0] == 2


def test_the_forest_stands_beside_the_model_on_the_same_rows(table, edgewise, tmp_path):
    edgewise("train", table, "--smiles-columns", "smiles", "--target-columns", "y", *SMALL, "-o", tmp_path / "run")
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    splits = json.loads((tmp_path / "run/splits.json").read_text())
    targets = np.array([float(row["y"]) for row in read_csv(table)])
    mean = targets[splits["train"]].mean()
    expected = np.abs(targets[splits["test"]] - mean).mean()
    assert metrics["baselines"]["mean"]["test"]["y"]["mae"] == pytest.approx(expected)
    # The target is the length of the SMILES: descriptors know it nearly.
    assert metrics["baselines"]["forest"]["test"]["y"]["rmse"] < metrics["baselines"]["mean"]["test"]["y"]["rmse"]


def test_a_configuration_repeats_a_run_to_the_bit(table, train, edgewise, tmp_path):
    train(table, "-o", tmp_path / "first", "--seed", "3", "--temperature", "0.5", "--learning-rate", "1e-3")
    config = tmp_path / "first/config.toml"
    assert edgewise("train", "--config-path", config, "-o", tmp_path / "second")[0] == 0
    for name in ("model.safetensors", "config.toml", "splits.json", "test_predictions.csv"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
    # A typed flag wins over the file.
    assert edgewise("train", "--config-path", config, "--seed", "4", "-o", tmp_path / "third")[0] == 0
    written = tomllib.loads((tmp_path / "third/config.toml").read_text())
    assert (written["seed"], written["temperature"]) == (4, 0.5)
    assert (tmp_path / "first/model.safetensors").read_bytes() != (tmp_path / "third/model.safetensors").read_bytes()


def test_every_flag_of_the_model_and_the_recipe_reaches_the_run(table, edgewise, tmp_path):
    words = {
        "--score": "additive",
        "--normalize": "sparsemax",
        "--combine": "mean",
        "--num-heads": 4,
        "--num-layers": 1,
        "--model-dim": 16,
        "--epochs": 1,
        "--batch-size": 10,
        "--patience": 5,
        "--device": "cpu",
        "--precision": "64",
        "--loss-function": "mae",
        "--data-seed": 7,
        "--ensemble-size": 2,
        "--split": "random",
        "--coverage": 0.8,
    }
    flat = [word for pair in words.items() for word in pair]
    run = tmp_path / "run"
    columns = ["--smiles-columns", "smiles", "--target-columns", "y"]
    code, _, err = edgewise("train", table, *columns, *flat, "--no-baselines", "-o", run)
    assert (code, err) == (0, "")
    written = tomllib.loads((run / "config.toml").read_text())
    assert {flag: written[flag[2:]] for flag in words} == words
    assert "baselines" not in json.loads((run / "metrics.json").read_text())
    assert {name.split(".")[0] for name in load_file(run / "model.safetensors")} == {
        "member_0",
        "member_1",
        "validation",
    }


def test_half_precision_trains(table, train, tmp_path):
    code, _, err = train(table, "--precision", "bf16", "-o", tmp_path / "run")
    assert (code, err) == (0, "")


def test_the_training_step_is_compiled_by_torch(table, train, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(torch, "compile", lambda function, **how: asked.append((function.__name__, how)) or function)
    code, _, err = train(table, "--compile", "-o", tmp_path / "run")
    assert (code, err) == (0, "")
    assert asked == [("loss_of", {"dynamic": True})]
    assert tomllib.loads((tmp_path / "run/config.toml").read_text())["compile"] is True


@pytest.mark.parametrize("model", ["gat", "gatv2", "gcn", "sage", "gin"])
def test_other_layers_train(table, train, tmp_path, model):
    code, _, err = train(table, "--model", model, "-o", tmp_path / "run")
    assert (code, err) == (0, "")


def test_cation_and_anion_with_conditions_weights_and_groups(train, edgewise, tmp_path):
    rows = range(48)
    cations, anions = ("C[n+]1ccn(C)c1", "CC[NH3+]", "C[N+](C)(C)C"), ("[Cl-]", "F[B-](F)(F)F", "O=C[O-]")
    data = write_csv(
        tmp_path / "ions.csv",
        {
            "cation": [cations[row % 3] for row in rows],
            "anion": [anions[row // 3 % 3] for row in rows],
            "kelvin": [290 + row for row in rows],
            "bar": [10 ** (row % 4) for row in rows],
            "how_much": [1 + row % 2 for row in rows],
            "il": [row % 9 for row in rows],
            "x": [0.01 * row for row in rows],
        },
    )
    run = tmp_path / "run"
    columns = ["--smiles-columns", "cation", "anion", "--descriptors-columns", "kelvin", "bar", "--target-columns", "x"]
    more = ["--weight-column", "how_much", "--group-column", "il", "--split", "group", "--ensemble-size", "2"]
    code, out, err = edgewise("train", data, *columns, *more, *SMALL, "-o", run)
    assert (code, err) == (0, "")
    assert "48 rows, 6 distinct molecules" in out
    splits = json.loads((run / "splits.json").read_text())
    groups = [{row % 9 for row in splits[part]} for part in ("train", "val", "test")]
    assert all(len(group) >= 1 for group in groups)
    assert not (groups[0] & groups[1] or groups[0] & groups[2] or groups[1] & groups[2])
    assert edgewise("predict", run, data, "-o", tmp_path / "out.csv")[0] == 0
    found = read_csv(tmp_path / "out.csv")
    assert all(float(row["x_std"]) > 0 for row in found)
    assert len({row["x_pred"] for row in found}) > 40
    assert edgewise("fingerprint", run, data, "-o", tmp_path / "out.npz")[0] == 0
    vectors = np.load(tmp_path / "out.npz")["vectors"]
    # The same pair of ions has the same vector at every temperature.
    assert np.array_equal(vectors[0], vectors[9])


def test_several_targets_with_empty_cells(edgewise, tmp_path):
    smiles = molecules()
    data = write_csv(
        tmp_path / "two.csv",
        {
            "smiles": smiles,
            "a": [len(text) if row % 3 else "" for row, text in enumerate(smiles)],
            "b": [row if row % 3 != 1 else "" for row in range(40)],
        },
    )
    run = tmp_path / "run"
    # Without --target-columns every column without another role is a target.
    code, out, err = edgewise("train", data, "--smiles-columns", "smiles", *SMALL, "-o", run)
    assert (code, err) == (0, "")
    assert "0 rows rejected" in out
    metrics = json.loads((run / "metrics.json").read_text())
    counts = [sum(metrics[part][name]["num_rows"] for part in ("test", "validation", "training")) for name in "ab"]
    assert counts == [26, 27]
    assert edgewise("predict", run, data, "-o", tmp_path / "out.csv")[0] == 0
    assert all(row["a_pred"] and row["b_pred"] for row in read_csv(tmp_path / "out.csv"))


def test_classification_gives_probabilities(edgewise, tmp_path):
    smiles = molecules()
    data = write_csv(tmp_path / "c.csv", {"smiles": smiles, "active": ["yes" if "O" in s else "no" for s in smiles]})
    run = tmp_path / "run"
    words = ["--smiles-columns", "smiles", "--target-columns", "active", "--task-type", "classification", *SMALL]
    code, out, err = edgewise("train", data, *words, "-o", run)
    assert (code, err) == (0, "")
    assert "roc_auc" in out
    assert "accuracy" in json.loads((run / "metrics.json").read_text())["test"]["active"]
    assert edgewise("predict", run, data, "-o", tmp_path / "out.csv")[0] == 0
    for row in read_csv(tmp_path / "out.csv"):
        yes, no = float(row["active_prob_yes"]), float(row["active_prob_no"])
        assert yes + no == pytest.approx(1, abs=1e-5)
        assert row["active_pred"] == ("yes" if yes > no else "no")
        assert float(row["active_std"]) == pytest.approx(math.sqrt(yes * no), abs=1e-5)


def test_multiclass_gives_a_probability_for_each_class(edgewise, tmp_path):
    smiles = molecules()
    data = write_csv(tmp_path / "m.csv", {"smiles": smiles, "kind": [row % 3 for row in range(40)]})
    run = tmp_path / "run"
    words = ["--smiles-columns", "smiles", "--target-columns", "kind", "--task-type", "multiclass", *SMALL]
    code, out, err = edgewise("train", data, *words, "-o", run)
    assert (code, err) == (0, "")
    assert "balanced_accuracy" in out
    assert edgewise("predict", run, data, "-o", tmp_path / "out.csv")[0] == 0
    for row in read_csv(tmp_path / "out.csv"):
        probabilities = [float(row[f"kind_prob_{number}"]) for number in range(3)]
        assert sum(probabilities) == pytest.approx(1, abs=1e-5)
        assert row["kind_pred"] == str(int(np.argmax(probabilities)))


def test_a_splits_column_in_any_of_its_words(train, tmp_path):
    words = (["train"] * 6 + ["val", "valid", "test", ""]) * 4
    smiles = molecules()
    data = write_csv(tmp_path / "s.csv", {"smiles": smiles, "y": [len(s) for s in smiles], "part": words})
    code, out, _ = train(data, "--splits-column", "part", "-o", tmp_path / "run")
    assert (code, "  4 rows in no split: the cell in column 'part' is empty\n" in out) == (0, True)
    splits = json.loads((tmp_path / "run/splits.json").read_text())
    assert splits["val"] == [row for row in range(40) if row % 10 in (6, 7)]
    assert splits["test"] == [8, 18, 28, 38]
    assert len(splits["train"]) == 24
    assert "no validation rows" not in out


def test_a_splits_column_or_files_without_validation_rows(train, edgewise, tmp_path):
    smiles = molecules()
    target = [len(text) for text in smiles]
    part = ["train"] * 30 + ["test"] * 10
    data = write_csv(tmp_path / "s.csv", {"smiles": smiles, "y": target, "part": part})
    code, out, _ = train(data, "--splits-column", "part", "-o", tmp_path / "column")
    said = " no validation rows: 3 of 30 training rows became validation rows\n"
    assert (code, f"  column 'part' names{said}" in out) == (0, True)
    assert "27 training, 3 validation and 10 test rows" in out
    halves = [
        write_csv(tmp_path / f"{name}.csv", {"smiles": smiles[rows], "y": target[rows]})
        for name, rows in (("a", slice(0, 30)), ("b", slice(30, 40)))
    ]
    words = ["--smiles-columns", "smiles", "--target-columns", "y", *SMALL, "--no-baselines"]
    code, out, _ = edgewise("train", *halves, *words, "-o", tmp_path / "files")
    assert (code, f"  the files name{said}" in out) == (0, True)


def test_three_files_are_the_three_parts(train, tmp_path):
    smiles = molecules()
    files = [
        write_csv(tmp_path / f"{name}.csv", {"smiles": smiles[part], "y": [len(s) for s in smiles[part]]})
        for name, part in (("a", slice(0, 24)), ("b", slice(24, 32)), ("c", slice(32, 40)))
    ]
    from edgewise.cli.main import main

    words = ["--smiles-columns", "smiles", "--target-columns", "y", *SMALL, "--no-baselines", "-o", tmp_path / "run"]
    assert main([str(word) for word in ["train", *files, *words]]) == 0
    splits = json.loads((tmp_path / "run/splits.json").read_text())
    assert (splits["train"], splits["val"], splits["test"]) == (
        list(range(24)),
        list(range(24, 32)),
        list(range(32, 40)),
    )


@pytest.mark.parametrize("sizes", [("1", "0", "0"), ("0.8", "0", "0.2"), ("0.8", "0.2", "0"), ("0.8", "0.2")])
def test_a_part_may_be_empty(table, train, edgewise, tmp_path, sizes):
    run = tmp_path / "run"
    code, out, err = train(table, "--split-sizes", *sizes, "-o", run)
    assert (code, err) == (0, "")
    metrics = json.loads((run / "metrics.json").read_text())
    assert (metrics["test"] == {}) == (len(sizes) == 3 and sizes[2] == "0")
    assert edgewise("predict", run, table, "-o", tmp_path / "out.csv")[0] == 0
    row = read_csv(tmp_path / "out.csv")[0]
    assert row["y_pred"]
    if len(sizes) == 3 and sizes[1] == "0":
        assert "no validation rows" in out
        assert (row["y_low"], row["y_high"], row["y_std"]) == ("", "", "")


def test_without_descriptors_the_graph_alone_learns(table, train, edgewise, tmp_path):
    assert train(table, "--no-molecule-descriptors", "-o", tmp_path / "run")[0] == 0
    assert edgewise("predict", tmp_path / "run", table, "-o", tmp_path / "out.csv")[0] == 0
    assert json.loads((tmp_path / "run/model.json").read_text())["sizes"]["num_global_features"] == 0


def test_nothing_finished_is_replaced_unasked(table, train, tmp_path):
    run = tmp_path / "run"
    assert train(table, "-o", run)[0] == 0
    before = (run / "model.safetensors").read_bytes()
    code, _, err = train(table, "-o", run, "--seed", "9")
    assert code == 2
    assert err == (
        f"edgewise: error: {run} holds a finished run; choose another folder with -o, or replace it with --overwrite.\n"
    )
    assert (run / "model.safetensors").read_bytes() == before
    assert train(table, "-o", run, "--seed", "9", "--overwrite")[0] == 0
    assert (run / "model.safetensors").read_bytes() != before
    code, out, _ = train(table, "-o", run, "--resume")
    assert code == 0
    assert "is finished; there is nothing to resume" in out


def test_a_finished_run_is_resumed_as_it_was_only(table, train, edgewise, tmp_path):
    run = tmp_path / "run"
    assert train(table, "-o", run)[0] == 0
    for changed, said in (
        (["--epochs", 7], "epochs = 2, but now it is 7"),
        (["--model-dim", 64], "but now it is 64"),
        (["--seed", 9, "--learning-rate", 0.5], r"learning-rate = "),
    ):
        code, _, err = edgewise("train", "--resume", "-o", run, *changed)
        assert (code, said in err) == (2, True), err
        for flag in changed[::2]:
            assert flag[2:] in err
    code, _, err = edgewise("train", "texts", "--resume", "-o", run)
    assert (code, "is a run of another task" in err) == (2, True), err
    (tmp_path / "other.csv").write_text(table.read_text())
    code, _, err = edgewise("train", tmp_path / "other.csv", "--resume", "-o", run)
    assert (code, "data = " in err) == (2, True), err
    assert edgewise("train", "--resume", "-o", run)[0] == 0
    table.write_text(table.read_text() + "CCCCCCO,1.0\n")
    code, _, err = edgewise("train", "--resume", "-o", run)
    assert (code, "other content" in err) == (2, True), err
    table.unlink()
    code, out, _ = edgewise("train", "--resume", "-o", run)
    assert (code, "nothing to resume" in out) == (0, True)


def test_data_before_the_run_is_turned_round(trained, table, edgewise, tmp_path):
    for verb, more in (("predict", ["-o", tmp_path / "x.csv"]), ("explain", ["-o", tmp_path / "x.html"])):
        code, _, err = edgewise(verb, table, trained, *more)
        assert (code, f"expected: edgewise {verb} {trained} {table}" in err) == (2, True), err
    assert "is a file; expected the folder of a run" in edgewise("predict", table, table, "-o", tmp_path / "x.csv")[2]


@pytest.mark.parametrize("flag", ["--num-layers", "--model-dim", "--seed", "--ensemble-size", "--batch-size"])
def test_a_number_beyond_all_bounds_is_refused_at_once(table, train, tmp_path, flag):
    code, _, err = train(table, "-o", tmp_path / "run", flag, "9" * 23)
    assert (code, f"{flag} is" in err and "at most" in err) == (2, True), err


def test_a_bad_table_does_not_cost_an_earlier_run(table, train, tmp_path):
    run = tmp_path / "run"
    assert train(table, "-o", run)[0] == 0
    assert train(tmp_path / "absent.csv", "-o", run, "--overwrite")[0] == 2
    assert (run / "metrics.json").is_file()


@pytest.mark.parametrize("listed", [2**16, 5], ids=["rows by number", "rows by checksum"])
def test_resume_keeps_settings_and_data(table, train, edgewise, tmp_path, monkeypatch, listed):
    import edgewise.learn.tasks.run as job

    monkeypatch.setattr("edgewise.learn.tasks.content.MAX_LISTED", listed)
    run = tmp_path / "run"
    original = job.fit

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(job, "fit", interrupted)
    code, _, err = train(table, "-o", run)
    assert code == 130
    assert err == f"edgewise: interrupted; continue with: edgewise train --resume -o {run}\n"
    monkeypatch.setattr(job, "fit", original)
    code, _, err = train(table, "-o", run)
    assert (code, "holds an unfinished run; continue it with --resume" in err) == (2, True)
    code, _, err = edgewise("train", "--resume", "-o", run, "--epochs", "5")
    assert code == 2
    assert "was started with epochs = 2, but now it is 5; leave it out to continue" in err
    content = table.read_bytes()
    table.write_bytes(content.replace(b"2.25", b"2.26"))
    code, _, err = edgewise("train", "--resume", "-o", run)
    assert (code, "was started with other content in" in err) == (2, True)
    table.write_bytes(content)
    assert edgewise("train", "--resume", "-o", run)[0] == 0
    assert (run / "metrics.json").is_file()


def test_checkpoints_open_without_pickle(trained):
    for path in trained.glob("checkpoints/member_0/*.ckpt"):
        torch.load(path, weights_only=True)
    assert load_file(trained / "model.safetensors")


def test_tensorboard_beside_csv(table, train, tmp_path):
    pytest.importorskip("tensorboard")
    assert train(table, "-o", tmp_path / "run")[0] == 0
    assert list((tmp_path / "run/logs/tensorboard").glob("events*"))
    assert (tmp_path / "run/logs/metrics.csv").is_file()
