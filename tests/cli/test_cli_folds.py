"""Cross-validation, class weights, chosen scores, formats of tables, validation every N steps, and warnings."""

import csv
import dataclasses
import json
import math
import re
import shutil

import numpy as np
import pandas as pd
import pytest
import torch

from cli_tables import SMALL, molecules, write_csv
from edgewise.errors import DataError
from edgewise.learn.readers.molecules.data import molecules_from_arrays
from edgewise.learn.tables.split import split_folds
from edgewise.learn.tasks.folds import baselines_of, predictions_of, score_tables, summary
from edgewise.learn.tasks.report.sections import rejected_rows
from edgewise.learn.tasks.run import Run
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.loader import RowLoader, StepLoader
from edgewise.learn.training.loss import TargetLoss

COLUMNS = ["--smiles-columns", "smiles", "--target-columns", "y"]
QUICK = [*COLUMNS, *SMALL, "--epochs", 1]


@pytest.fixture
def data(tmp_path):
    smiles = molecules()
    columns = {"smiles": smiles, "y": [len(text) + 0.5 for text in smiles], "g": [f"g{n % 7}" for n in range(40)]}
    return write_csv(tmp_path / "data.csv", columns)


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_every_row_is_tested_once_in_each_repeat(edgewise, data, tmp_path):
    words = ["train", "molecules", data, *QUICK, "--num-folds", 2, "--num-repeats", 2, "--ignore-columns", "g"]
    code, out, err = edgewise(*words, "-o", tmp_path / "cv")
    assert code == 0, err
    metrics = json.loads((tmp_path / "cv/metrics.json").read_text())
    assert [fold["folder"] for fold in metrics["folds"]][::2] == ["repeat_0/fold_0", "repeat_1/fold_0"]
    rmse = [fold["test"]["y"]["rmse"] for fold in metrics["folds"]]
    assert metrics["test"]["y"]["rmse"]["mean"] == pytest.approx(np.mean(rmse))
    assert metrics["test"]["y"]["rmse"]["std"] == pytest.approx(np.std(rmse, ddof=1))
    assert metrics["test"]["y"]["rmse"]["folds"] == 4
    tested = rows_of(tmp_path / "cv/test_predictions.csv")
    for repeat in range(2):
        own = [int(row["row_in_data"]) for row in tested if row["fold"].startswith(f"repeat_{repeat}/")]
        assert sorted(own) == list(range(40))
    assert re.search(r"edgewise +\S+ ± \S+", out) and "fold 2 of 2" in out and "mean" in metrics["baselines"]
    assert edgewise("predict", tmp_path / "cv/repeat_0/fold_0", data, "-o", tmp_path / "new.csv")[0] == 0


def test_finished_folds_are_kept_when_a_run_is_resumed(edgewise, data, tmp_path):
    words = ["train", "molecules", data, *QUICK, "--num-folds", 2, "--no-baselines", "--ignore-columns", "g"]
    assert edgewise(*words, "-o", tmp_path / "cv")[0] == 0
    whole = json.loads((tmp_path / "cv/metrics.json").read_text())
    (tmp_path / "cv/metrics.json").unlink()
    (tmp_path / "cv/fold_1/metrics.json").unlink()
    before = (tmp_path / "cv/fold_0/metrics.json").stat().st_mtime_ns
    code, _, err = edgewise("train", "--resume", "-o", tmp_path / "cv")
    assert code == 0, err
    assert (tmp_path / "cv/fold_0/metrics.json").stat().st_mtime_ns == before
    assert json.loads((tmp_path / "cv/metrics.json").read_text())["test"] == whole["test"]
    assert "--overwrite" in edgewise(*words, "-o", tmp_path / "cv")[2]


def test_a_resumed_fold_has_its_own_rows_where_the_settings_of_the_whole_are_gone(edgewise, data, tmp_path):
    """The second fold was trained on the rows of the first, which is finished."""
    words = ["train", "molecules", data, *QUICK, "--num-folds", 2, "--no-baselines", "--ignore-columns", "g"]
    assert edgewise(*words, "-o", tmp_path / "cv")[0] == 0
    for name in ("config.toml", "metrics.json", "test_predictions.csv"):
        (tmp_path / "cv" / name).unlink()
    shutil.rmtree(tmp_path / "cv/fold_1")
    code, _, err = edgewise(*words, "--resume", "-o", tmp_path / "cv")
    assert code == 0, err
    assert RunFolder(tmp_path / "cv/fold_1").read_config()["fold"] == 1
    tested = [int(row["row_in_data"]) for row in rows_of(tmp_path / "cv/test_predictions.csv")]
    assert sorted(tested) == list(range(40))

    (tmp_path / "cv/config.toml").unlink()
    (tmp_path / "cv/metrics.json").unlink()
    data.write_text(data.read_text().replace("g1", "g2"))
    code, _, err = edgewise(*words, "--resume", "-o", tmp_path / "cv")
    assert code == 2 and "fold_0 was started with other content in" in err


def test_a_resumed_cross_validation_removes_what_is_left_of_an_earlier_run(edgewise, data, tmp_path):
    """After a kill within --overwrite it was refused, though a single run went on."""
    RunFolder(tmp_path / "cv").write("model.safetensors", b"")
    words = ["train", "molecules", data, *QUICK, "--num-folds", 2, "--no-baselines", "--ignore-columns", "g"]
    code, _, err = edgewise(*words, "--resume", "-o", tmp_path / "cv")
    assert code == 0, err
    assert not (tmp_path / "cv/model.safetensors").exists() and RunFolder(tmp_path / "cv").is_cross_validated


def test_an_earlier_cross_validation_is_replaced_as_a_whole(edgewise, data, tmp_path, monkeypatch):
    """Folds of other settings beside new ones would be taken for theirs when the run is resumed."""
    words = ["train", "molecules", data, *QUICK, "--no-baselines", "--ignore-columns", "g", "-o", tmp_path / "cv"]
    assert edgewise(*words, "--num-folds", 3)[0] == 0
    before = sorted(tmp_path.rglob("*"))
    code, _, err = edgewise(*words, "--num-folds", 2, "--group-column", "nowhere", "--overwrite")
    assert code == 2 and "nowhere" in err
    assert edgewise(*words, "--num-folds", 2, "--overwrite", "--device", "cpu", "--cuda-graph")[0] == 2
    assert sorted(tmp_path.rglob("*")) == before, "nothing is removed before the new run can start"

    original = Run.finish

    def stopped(run):
        if run.prepared.settings.fold == 1:
            raise KeyboardInterrupt
        return original(run)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "finish", stopped)
        assert edgewise(*words, "--num-folds", 3, "--model-dim", 24, "--overwrite")[0] == 130
    assert edgewise("train", "--resume", "-o", tmp_path / "cv")[0] == 0
    sizes = [json.loads((tmp_path / f"cv/fold_{fold}/metrics.json").read_text())["parameters"] for fold in range(3)]
    assert len(set(sizes)) == 1
    assert edgewise(*words, "--num-folds", 2, "--overwrite")[0] == 0
    assert not (tmp_path / "cv/fold_2").exists()
    assert edgewise(*words, "--overwrite")[0] == 0
    assert not [*(tmp_path / "cv").glob("fold_*")]


@pytest.mark.parametrize(
    "words", [["--device", "cpu", "--cuda-graph"], ["--device", "cpu", "--precision", "16"], ["--logger", "none-such"]]
)
def test_a_trained_model_stays_where_the_next_one_cannot_be_trained(edgewise, data, tmp_path, words):
    train = ["train", "molecules", data, *QUICK, "--no-baselines", "--ignore-columns", "g"]
    assert edgewise(*train, "-o", tmp_path / "run")[0] == 0
    assert edgewise(*train, *words, "-o", tmp_path / "run", "--overwrite")[0] == 2
    assert edgewise("predict", tmp_path / "run", data, "-o", tmp_path / "new.csv")[0] == 0
    assert edgewise(*train, *words, "-o", tmp_path / "other")[0] == 2
    assert not (tmp_path / "other").exists()


def test_a_column_with_the_name_of_a_prediction(edgewise, data, tmp_path):
    """The file of test predictions has each name once, and a model whose inputs predict refuses is not trained."""
    frame = pd.read_csv(data).assign(y_pred=1.0, row_in_data=2, fold=3, similarity=0.5)
    frame.to_csv(data, index=False)
    train = ["train", "molecules", data, *QUICK, "--no-baselines", "--num-folds", 2]
    code, _, err = edgewise(*train, "-o", tmp_path / "cv")
    assert code == 0, err
    assert "test_predictions.csv lacks the column 'y_pred' of the data" in err
    for folder in ("cv", "cv/fold_0"):
        header = (tmp_path / folder / "test_predictions.csv").read_text().splitlines()[0].split(",")
        assert len(set(header)) == len(header)
    assert edgewise("report", tmp_path / "cv/fold_0")[0] == 0
    for name in ("y_pred", "row_in_data", "fold", "similarity"):
        code, _, err = edgewise(*train, "--descriptors-columns", name, "-o", tmp_path / "refused")
        assert code == 2
        assert f"predictions add a column '{name}' to a table; give this one another name" in err


@pytest.mark.parametrize("weight", [1, 0])
def test_a_target_without_a_training_value_is_named(edgewise, tmp_path, weight):
    smiles, splits = molecules(), ["train", "test", "val", "train"] * 10
    label = ["" if weight and split == "train" else str(row % 2) for row, split in enumerate(splits)]
    weights = [weight if split == "train" and row % 3 else 1 for row, split in enumerate(splits)]
    label = [text if weights[row] == 0 or splits[row] != "train" else "" for row, text in enumerate(label)]
    table = {"smiles": smiles, "a": [row % 2 for row in range(40)], "b": label, "split": splits, "w": weights}
    data = write_csv(tmp_path / "data.csv", table)
    words = ["--smiles-columns", "smiles", "--target-columns", "a", "b", "--splits-column", "split", *SMALL]
    code, _, err = edgewise("train", "molecules", data, *words, "--weight-column", "w", "-o", tmp_path / "run")
    assert code == 2
    assert "column 'b': no training row" in err and "leave the target out" in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("task", ["molecules", "texts"])
def test_members_that_learn_from_validation_rows_do_not_hide_a_target_without_a_training_value(
    edgewise, tmp_path, task
):
    """The baselines, which learn from the training rows, failed after the training."""
    splits = ["train", "train", "val", "test"] * 10
    table = {
        "text": molecules(),
        "a": [row + 0.5 for row in range(40)],
        "b": ["" if split == "train" else row + 0.5 for row, split in enumerate(splits)],
        "g": [f"g{row // 8}" for row in range(40)],
        "split": splits,
    }
    data, role = write_csv(tmp_path / "data.csv", table), "smiles" if task == "molecules" else "text"
    words = [f"--{role}-columns", "text", "--target-columns", "a", "b", "--splits-column", "split", "--model-dim", 8]
    words += ["--num-layers", 1, "--num-heads", 1, "--epochs", 1, "--group-column", "g", "--ensemble-size", 2]
    code, _, err = edgewise("train", task, data, *words, "-o", tmp_path / "run")
    assert code == 2
    assert "column 'b': no training row has a value" in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", ["group", "scaffold"])
def test_groups_and_scaffolds_stay_whole(kind):
    rings = ["c1ccccc1", "C1CCCCC1", "c1ccncc1", "C1CCCC1", "C1CC1", "c1ccoc1", "c1ccsc1", "C1CCOCC1"]
    table = molecules_from_arrays(["C" * (1 + n // 8) + rings[n % 8] for n in range(40)], list(range(40))).rows
    table = dataclasses.replace(table, columns=dataclasses.replace(table.columns, group_column="g"))
    table.cells.frame["g"] = [f"g{n % 7}" for n in range(40)]
    rows = np.arange(40)
    keys = table.contents.scaffolds(rows) if kind == "scaffold" else [f"g{n % 7}" for n in range(40)]
    folds = 4
    splits = [split_folds(table, kind=kind, num_folds=folds, fold=fold, seed=1) for fold in range(folds)]
    assert sorted(row for split in splits for row in split.test) == list(range(40))
    for split in splits:
        named = [{keys[row] for row in rows} for rows in (split.train, split.val, split.test)]
        assert not named[0] & named[2] and not named[0] & named[1] and not named[1] & named[2]
        assert len(split.val)
    with pytest.raises(DataError, match="cannot fill 50 folds; choose a smaller --num-folds"):
        split_folds(table, kind=kind, num_folds=50, fold=0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--num-folds", 1], "--num-folds is 1; expected at least 2"),
        (["--num-folds", 41], "40 rows cannot fill 41 folds; choose a smaller --num-folds"),
        (["--num-repeats", 3], "--num-repeats goes with --num-folds"),
        (["--num-folds", 3, "--splits-column", "g"], "--num-folds splits the rows itself"),
        (["--class-weight", "balanced"], "--class-weight goes with classes, but the targets are numbers"),
        (["--class-weight", "even"], "--class-weight is 'even'; expected one of balanced"),
        (["--metrics", "rmse", "roc_auc"], "--metrics has 'roc_auc'; for regression expected some of rmse, mae"),
        (["--eval-steps", 0], "--eval-steps is 0; expected at least 1"),
        (["--delimiter", "ab"], "--delimiter is 'ab'"),
        (["--encoding", "klingon"], "--encoding is 'klingon'"),
    ],
)
def test_what_is_refused(edgewise, data, tmp_path, words, message):
    code, _, err = edgewise("train", "molecules", data, *QUICK, *words, "-o", tmp_path / "run")
    assert code == 2
    assert message in err


def test_a_score_that_the_first_fold_lacks_is_counted_in_the_others():
    folds = [{"y": {"num_rows": 0}}, {"y": {"num_rows": 3, "rmse": 2.0}}, {"y": {"num_rows": 4, "rmse": 4.0}}]
    assert summary(folds)["y"]["rmse"] == {"mean": 3.0, "std": pytest.approx(2**0.5), "folds": 2}


def test_a_baseline_that_a_fold_lacks_is_summarized_over_the_others():
    """The cross-validation ended in a KeyError after all folds were trained, or dropped what the first fold lacked."""

    def scored(**accuracies):
        of_baselines = {name: {"test": {"y": {"accuracy": score}}} for name, score in accuracies.items()}
        return {"folder": "f", "test": {"y": {"accuracy": 0.5}}, "baselines": of_baselines}

    for folds in ([scored(a=0.5, b=1.0), scored(a=0.7)], [scored(a=0.5), scored(a=0.7, b=1.0)]):
        scores = baselines_of(folds)
        assert scores["a"]["test"]["y"]["accuracy"] == {"mean": 0.6, "std": pytest.approx(0.02**0.5), "folds": 2}
        assert scores["b"]["test"]["y"]["accuracy"] == {"mean": 1.0, "std": None, "folds": 1}
    assert baselines_of([{}, {}]) == {}
    metrics = {"test": summary([fold["test"] for fold in folds]), "baselines": scores, "folds": folds}
    (table,) = score_tables(metrics, "multiclass", ["accuracy"])
    assert [label for label, _ in table.rows] == ["f", "f", "edgewise", "a", "b (1 of 2 folds)"]


def test_cells_may_be_as_long_as_those_of_the_data(tmp_path):
    """Python's reader stops at 131,072 characters unless it is told otherwise, and afterwards it does so again."""
    folder, limit = RunFolder(tmp_path / "fold_0"), csv.field_size_limit()
    folder.begin()
    folder.write_table("test_predictions.csv", ["text", "fold"], [["a" * 200_000, "b"]])
    header, rows = predictions_of({"fold_0": folder})
    assert (header, next(rows)) == (["fold", "text"], ["fold_0", "a" * 200_000])
    assert csv.field_size_limit() == limit
    folder.write_table(
        "rejected.csv", ["file", "line", "column", "value", "reason"], [["f", 2, "c", "a" * 200_000, "no"]]
    )
    assert len(rejected_rows(folder)) == 1


def test_one_fold_has_no_spread_and_missing_scores_are_left_out():
    assert summary([{"y": {"rmse": 2.0, "r2": None}}]) == {
        "y": {"rmse": {"mean": 2.0, "std": None, "folds": 1}, "r2": None}
    }


def test_balanced_classes_count_the_same():
    """The loss of four rows of one class and one of the other is that of one row of each."""
    output = torch.tensor([[0.3]] * 4 + [[-0.2]])
    targets = torch.tensor([[0.0]] * 4 + [[1.0]])
    weights = ((5 / 8, 5 / 2),)
    total, count = TargetLoss("classification", "mse", class_weights=weights)(output, targets, None)
    even, each = TargetLoss("classification", "mse")(output[3:], targets[3:], None)
    assert float(total / count) == pytest.approx(float(even / each))
    missing = torch.tensor([[torch.nan]] * 5)
    assert float(TargetLoss("classification", "mse", class_weights=weights)(output, missing, None)[1]) == 0


def test_class_weights_reach_the_training(edgewise, tmp_path):
    smiles = molecules()
    data = write_csv(tmp_path / "c.csv", {"smiles": smiles, "y": ["yes" if n % 8 == 0 else "no" for n in range(40)]})
    words = ["train", "molecules", data, *QUICK, "--task-type", "classification", "--no-baselines"]
    assert edgewise(*words, "-o", tmp_path / "plain")[0] == 0
    code, out, err = edgewise(*words, "--class-weight", "balanced", "--metrics", "mcc", "-o", tmp_path / "weighted")
    assert code == 0, err
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("plain", "weighted")]
    assert weights[0] != weights[1]
    assert "mcc" in out and "roc_auc" not in out
    assert "roc_auc" in (tmp_path / "weighted/metrics.json").read_text()


def test_validation_every_few_steps(edgewise, data, tmp_path):
    made, epochs = [], []
    loader = RowLoader(np.arange(7), lambda rows: made.append(rows) or rows.tolist(), 2, seed=0)
    for epoch in range(3):
        loader.epoch = epoch
        epochs += list(loader)
    steps = StepLoader(loader, 3)
    made.clear()
    found = []
    for epoch in range(4):
        steps.epoch = epoch
        found.append(list(steps))
    assert [batch for each in found for batch in each] == epochs
    assert [len(each) for each in found] == [3, 3, 3, 3]
    assert len(made) == 12, "each batch is made once"
    steps.epoch = 1
    assert list(steps) == found[1], "a training that continues begins within an epoch"
    words = ["train", "molecules", data, *COLUMNS, *SMALL, "--batch-size", 8, "--no-baselines", "--ignore-columns", "g"]
    code, _, err = edgewise(*words, "--epochs", 3, "--eval-steps", 2, "-o", tmp_path / "run")
    assert code == 0, err
    assert [int(row["step"]) for row in rows_of(tmp_path / "run/logs/metrics.csv")] == [2, 4, 6, 8, 10, 12]


def test_predict_knows_the_format_of_the_training(edgewise, tmp_path):
    lines = ["smiles;y;t", *(f"{text};{len(text)},5;298,15" for text in molecules())]
    data = tmp_path / "data.csv"
    data.write_bytes("\r\n".join(lines).encode("utf-16"))
    words, kelvin = ["--delimiter", ";", "--decimal", ",", "--encoding", "utf-16"], ["--descriptors-columns", "t"]
    code, _, err = edgewise("train", "molecules", data, *QUICK, *words, *kelvin, "-o", tmp_path / "run")
    assert code == 0, err
    assert 'delimiter = ";"' in (tmp_path / "run/config.toml").read_text()
    code, _, err = edgewise("predict", tmp_path / "run", data, "-o", tmp_path / "new.csv")
    assert code == 0 and "40 of 40 rows predicted" in err
    plain = write_csv(tmp_path / "plain.csv", {"smiles": molecules(), "t": [298.15] * 40})
    words = ["--delimiter", ",", "--decimal", ".", "--encoding", "utf-8"]
    code, _, err = edgewise("predict", tmp_path / "run", plain, *words, "-o", tmp_path / "other.csv")
    assert code == 0 and "40 of 40 rows predicted" in err
    found = [[row["y_pred"] for row in rows_of(tmp_path / name)] for name in ("new.csv", "other.csv")]
    assert found[0] == found[1]


def test_a_constant_target_is_noticed(edgewise, tmp_path):
    data = write_csv(tmp_path / "flat.csv", {"smiles": molecules(), "y": [3] * 40})
    _, out, _ = edgewise("train", "molecules", data, *QUICK, "--no-baselines", "-o", tmp_path / "run")
    assert "warning: target 'y' is constant in the training rows" in out


def test_texts_of_unknown_words_are_noticed(edgewise, tmp_path):
    known = [f"{word} day" for word in ("good", "bad", "fine", "poor")] * 10
    data = write_csv(tmp_path / "texts.csv", {"text": known, "y": [1, 0, 1, 0] * 10})
    small = ["--num-layers", 1, "--num-heads", 1, "--model-dim", 8, "--hidden-dim", 8, "--epochs", 1, "--no-baselines"]
    words = ["--text-columns", "text", "--target-columns", "y", *small]
    assert edgewise("train", "texts", data, *words, "-o", tmp_path / "run")[0] == 0
    other = write_csv(tmp_path / "other.csv", {"text": ["good zebra", "bad xylophone"]})
    _, _, err = edgewise("predict", tmp_path / "run", other, "-o", tmp_path / "a.csv")
    assert "warning: 2 of 4 tokens (50%) are out of vocabulary" in err
    _, _, err = edgewise("predict", tmp_path / "run", data, "-o", tmp_path / "b.csv")
    assert "out of vocabulary" not in err


def test_weights_that_are_all_zero_are_refused_before_the_training(edgewise, tmp_path):
    smiles = molecules()
    zero = write_csv(
        tmp_path / "zero.csv", {"smiles": smiles, "y": [len(text) + 0.5 for text in smiles], "w": [0] * len(smiles)}
    )
    code, _, err = edgewise("train", "molecules", zero, *QUICK, "--weight-column", "w", "-o", tmp_path / "zero")
    assert code == 2
    assert "column 'w': the weight of every training row is zero" in err
    assert not (tmp_path / "zero").exists()


def test_only_ratios_of_weights_matter(edgewise, tmp_path):
    """The sums of large weights were infinite: the training was said to diverge."""
    smiles, predictions = molecules() * 3, []
    for power in (0, 121):
        weights = [math.ldexp(1 + row % 3, power) for row in range(120)]
        columns = {"smiles": smiles, "y": [len(text) + 0.5 for text in smiles], "w": weights}
        data, run = write_csv(tmp_path / f"{power}.csv", columns), tmp_path / f"run {power}"
        words = ["--weight-column", "w", "--split", "random", "--no-baselines"]
        code, _, err = edgewise("train", "molecules", data, *QUICK, *words, "-o", run)
        assert code == 0, err
        predictions.append([row["y_pred"] for row in rows_of(run / "test_predictions.csv")])
    assert predictions[0] == predictions[1]


def test_the_summary_says_the_model_and_the_best_epoch(edgewise, data, tmp_path):
    words = ["train", "molecules", data, *QUICK, "--ignore-columns", "g", "--model", "gcn", "-o", tmp_path / "said"]
    code, out, _ = edgewise(*words)
    assert code == 0
    assert "\nmodel: gcn\n" in out
    metrics = json.loads((tmp_path / "said/metrics.json").read_text())
    assert (metrics["epochs"], metrics["best_epochs"]) == ([1], [1])
    assert "\n1 epoch; the validation loss was lowest in epoch 1\n" in out
