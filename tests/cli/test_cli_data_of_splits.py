"""Warnings about the data of a run before it trains: a file given twice, labels without training rows."""

import os

import pytest

from cli_tables import molecules, write_csv

TINY = ["--model-dim", 8, "--num-layers", 1, "--epochs", 1]


@pytest.mark.parametrize("second", ["same", "other way", "link"])
@pytest.mark.parametrize("task", ["texts", "molecules", "tagging", "language", "translation", "masked"])
def test_a_file_is_given_once(task, second, edgewise, tmp_path):
    text = tmp_path / ("data.csv" if task in ("texts", "molecules", "translation") else "data.txt")
    text.write_text("text,y\ngood,1\n" * 5)
    names = {
        "same": text,
        "other way": f"{tmp_path}/../{tmp_path.name}/{text.name}",
        "link": tmp_path / f"b{text.suffix}",
    }
    os.link(text, tmp_path / f"b{text.suffix}")
    columns = {
        "texts": ["--text-columns", "text", "--target-columns", "y"],
        "translation": ["--text-columns", "text", "--target-columns", "y"],
        "molecules": ["--smiles-columns", "text", "--target-columns", "y"],
    }.get(task, [])
    code, _, err = edgewise("train", task, text, names[second], *columns, "-o", tmp_path / "run")
    assert code == 2
    assert f"{names[second]} is given twice as data" in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("task", ["texts", "molecules", "graphs", "nodes", "edges"])
def test_labels_without_training_rows_are_said(task, edgewise, tmp_path):
    split = ["train"] * 30 + ["val"] * 5 + ["test"] * 5
    labels = ["a", "b"] * 15 + ["a", "new", "b", "a", "b"] + ["a", "new", "rare", "a", "b"]
    columns = {"part": split, "y": labels, "text": [f"word {row % 7}" for row in range(40)], "smiles": molecules()}
    words = ["--splits-column", "part", "--target-columns", "y", "--task-type", "multiclass"]
    if task == "texts":
        words += ["--text-columns", "text", *TINY]
    elif task == "molecules":
        words += ["--smiles-columns", "smiles", *TINY]
    elif task in ("graphs", "nodes"):
        names = [f"n{row}" for row in range(40)]
        ring = {"source": names, "target": [*names[1:], names[0]]}
        columns |= {"size": [str(row % 5) for row in range(40)]}
        if task == "graphs":
            columns |= {"graph": names}
            ring = {"graph": names, "source": names, "target": names}
            words += ["--graph-column", "graph"]
        columns |= {"node": names}
        words += ["--node-column", "node"]
        words += ["--edges", write_csv(tmp_path / "edges.csv", ring), "--feature-columns", "size", "--epochs", 1]
    else:
        columns = {"source": [f"n{row}" for row in range(40)], "target": [f"n{row + 1}" for row in range(40)]} | columns
        del columns["text"], columns["smiles"]
        words += ["--epochs", 1]
    if task in ("graphs", "nodes"):
        del columns["text"], columns["smiles"]
    data = write_csv(tmp_path / "data.csv", columns)
    code, out, err = edgewise("train", task, data, *words, "--no-baselines", "-o", tmp_path / "run")
    assert code == 0, err
    assert (
        "warning: 'new', 'rare' of 'y' stand in 1 validation row and 2 test rows and in no training row: "
        "no model can learn to predict it"
    ) in out
