"""Tables of texts: what is read, what a target is taken for, what is refused."""

import sys
from functools import partial

import numpy as np
import pytest

from edgewise.errors import DataError, SettingError
from edgewise.learn.readers.texts.data import read_texts, texts_from_arrays
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tables.split import split_folds, split_rows


def table_of(tmp_path, content, **columns):
    path = tmp_path / "reviews.csv"
    path.write_text(content)
    given = {"text_columns": ("text",), "target_columns": ("y",), "task_type": "auto", **columns}
    return read_texts([path], Columns(**given))


def test_a_table_by_hand(tmp_path):
    table = table_of(tmp_path, 'title,text,y\nA,"one, two",good\n,three,bad\n , ,bad\n', text_columns=("title", "text"))
    assert table.texts == [("A", "one, two"), ("", "three"), (" ", " ")]
    assert table.rows.status == ["ok", "ok", "title: the text is empty"]
    assert [(each.line, each.column, each.reason) for each in table.rows.rejected] == [
        (4, "title", "the text is empty")
    ]
    assert table.rows.columns.task_type == "classification"
    assert table.rows.classes == {"y": ["bad", "good"]}
    assert table.rows.targets[:, 0].tolist() == [1.0, 0.0, 0.0]
    assert (table.rows.num_distinct, table.rows.contents.noun) == (2, "texts")


def test_rows_are_no_objects_of_python(tmp_path):
    read = partial(table_of, tmp_path, "text,y\n" + "".join(f"text {row},{row % 2}\n" for row in range(3000)))
    read()
    before = sys.getallocatedblocks()
    table = read()
    assert sys.getallocatedblocks() - before < 1000
    assert table.of_rows(np.array([2999, 0])) == [("text 2999",), ("text 0",)]


@pytest.mark.parametrize(
    ("cells", "task"),
    [
        (["0", "1", "1"], "classification"),
        (["yes", "no", ""], "classification"),
        (["0", "1", "2"], "regression"),
        (["0", "1", "1", "oops"], "classification"),
        (["True", "False"], "classification"),
        (["red", "green", "blue"], "multiclass"),
        (["0.5", "1", "2"], "regression"),
        ([str(number) for number in range(21)], "regression"),
        (["0.5", "1", "2", "oops"], "regression"),
    ],
    ids=str,
)
def test_what_a_target_is_taken_for(tmp_path, cells, task):
    content = "text,y\n" + "".join(f"text {row},{cell}\n" for row, cell in enumerate(cells))
    assert table_of(tmp_path, content).rows.columns.task_type == task


def test_targets_of_two_kinds_are_trained_apart(tmp_path):
    content = "text,y,z\none,0.5,red\ntwo,0.7,blue\n"
    with pytest.raises(DataError, match=r"y \(regression\), z \(classification\); train them apart"):
        table_of(tmp_path, content, target_columns=("y", "z"))


def test_lines_are_texts_to_predict_only(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("one\n\nthree\n")
    table = read_texts([path], Columns(text_columns=("text",)), need_targets=False)
    assert table.texts == [("one",), ("",), ("three",)]
    assert table.rows.status == ["ok", "text: the text is empty", "ok"]
    with pytest.raises(DataError, match="lines of text lack targets"):
        read_texts([path], Columns(text_columns=("text",), target_columns=("y",)))
    with pytest.raises(DataError, match="the model reads 2 columns: title, text"):
        read_texts([path], Columns(text_columns=("title", "text")), need_targets=False)


def test_the_same_text_in_training_and_test_is_counted():
    table = texts_from_arrays(["a b"] * 10, np.arange(10) + 0.5)
    assert split_rows(table.rows, sizes=(0.5, 0, 0.5)).leakage == 1
    with pytest.raises(SettingError, match="--split is scaffold, but only molecules have scaffolds"):
        split_rows(table.rows, kind="scaffold")
    for split, more in ((split_rows, {}), (split_folds, {"num_folds": 2, "fold": 0})):
        with pytest.raises(SettingError, match="--calibration is scaffold, but only molecules have scaffolds"):
            split(table.rows, kind="random", calibration="scaffold", **more)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"smiles_columns": ("s",)}, "a molecule or a text"),
        ({"descriptors_columns": ("t",)}, "belong to molecules"),
        ({"target_columns": ("text",)}, "a column has one role"),
    ],
    ids=str,
)
def test_columns_that_contradict_each_other(columns, message):
    with pytest.raises(SettingError, match=message):
        Columns(text_columns=("text",), **columns)
