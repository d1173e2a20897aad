"""Columns of texts: stripped and counted as Python would do it, cell by cell, however they lie in memory."""

import random

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from edgewise.learn.tables.cell import Problems, distinct, missing, parse_columns, read_numbers, stripped

SIGNS = ["", "a", " ", "B", "é", "\u00a0", "\x1c", "\u2003", "\t", "中", "x y", "\x7f", "\u200b", "\x85", "nan"]
FORMS = {
    "list": list,
    "frame": lambda rows: pd.Series(rows, dtype=str),
    "array": lambda rows: pa.array(rows, pa.large_string()),
    "slice": lambda rows: pa.array(["é ", *rows, " "], pa.large_string())[1:-1],
    "string": lambda rows: pa.array(rows, pa.string()),
    "chunks": lambda rows: pa.chunked_array(
        [pa.array(rows[:2], pa.large_string()), pa.array([], pa.large_string()), pa.array(rows[2:], pa.large_string())]
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_columns_are_judged_as_python_judges_each_cell(form):
    chosen = random.Random(0)
    for _ in range(150):
        signs = chosen.choice([SIGNS, SIGNS[:4], SIGNS[1:2]])
        rows = ["".join(chosen.choices(signs, k=chosen.randint(0, 3))) for _ in range(chosen.randint(0, 6))]
        cells = FORMS[form](rows)
        assert stripped(cells).to_pylist() == [text.strip() for text in rows]
        assert missing(cells).tolist() == [text.strip().lower() in ("", "nan") for text in rows]
        values, codes = distinct(cells)
        assert values == list(dict.fromkeys(rows))
        assert [values[code] for code in codes] == rows


def test_truth_values_are_one_and_zero_where_numbers_are_read():
    """So pandas writes what `get_dummies` makes; the same column as an array was read."""
    values, bad = parse_columns([["True", " FALSE", "false", "1", "yes", ""]], np.float64)
    assert values[:4, 0].tolist() == [1, 0, 0, 1]
    assert bad == [{4: ("yes", "'yes' is not a number"), 5: ("", "empty cell, expected a number")}]


def test_messages_have_the_digits_of_the_type():
    problems = Problems()
    read_numbers(np.array([1, -0.1], dtype=np.float32), "weight", problems, may_be_negative=False)
    assert problems.first == {1: ("weight", "-0.1", "'-0.1' is negative, expected zero or more")}


def test_a_column_without_blanks_is_not_copied():
    column = FORMS["chunks"](["one", "two", "", "three"])
    assert [chunk.buffers()[2] for chunk in stripped(column).chunks] == [chunk.buffers()[2] for chunk in column.chunks]


def test_columns_side_by_side():
    values, bad = parse_columns([["1", "x"], [" 2 ", ""]], np.float32)
    assert np.isnan(values).tolist() == [[False, False], [True, True]]
    assert (values.dtype, values[0].tolist()) == (np.float32, [1, 2])
    assert bad == [{1: ("x", "'x' is not a number")}, {1: ("", "empty cell, expected a number")}]
    assert parse_columns([], np.float64)[0].shape == (0, 0)
