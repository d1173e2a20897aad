"""Class labels: which task they ask for, and that different ones stay different."""

import numpy as np
import pytest

from edgewise.data.tables.cell import Problems
from edgewise.data.tables.labels import alike, choose_task, class_hint, find_classes, label_notes, read_labels
from edgewise.errors import DataError


def classes(cells: list[str], two: bool = False) -> tuple[list[str], list[float], dict]:
    problems = Problems()
    names = find_classes(cells, "y", "data.csv", two=two)
    return names, read_labels(cells, "y", names, problems).tolist(), problems.first


def test_whole_numbers_that_float64_merges_are_different_classes():
    cells = ["9007199254740992", "9007199254740993", "9007199254740992"]
    assert classes(cells) == (["9007199254740992", "9007199254740993"], [0, 1, 0], {})


@pytest.mark.parametrize("digits", [400, 5000])
def test_a_label_of_many_digits_is_text(digits):
    names = ["9" * digits, "9" * (digits - 1) + "8"]
    assert classes(names, two=True) == (sorted(names), [1, 0], {})


def test_a_word_among_numbers_is_a_class_and_no_row_is_lost():
    assert classes(["1", "1.0", "one"] * 3, two=True) == (["1", "one"], [0, 0, 1] * 3, {})
    names, numbers, problems = classes(["2", "0", "1", "0", "one"])
    assert (names, numbers, problems) == (["0", "1", "2", "one"], [2, 0, 1, 0, 3], {})
    (note,) = label_notes(["2", "0", "1", "0", "one"], "y", names)
    assert note == "'y': beside whole numbers, 'one' is a class too, in 1 of 5 rows"


def test_leading_zeros_are_part_of_a_name():
    assert classes(["01", "1", "01"]) == (["1", "01"], [1, 0, 1], {})


@pytest.mark.parametrize(
    ("labels", "pairs"),
    [
        (["pos", "Pos", "neg"], [("pos", "Pos")]),
        (["a b", "a  B", "A b"], [("a b", "a  B"), ("a b", "A b")]),
        (["1", "01", "+001.0", "-1"], [("1", "01"), ("1", "+001.0")]),
        (["yes", "yes\u200b", "\uff59es"], [("yes", "yes\u200b"), ("yes", "\uff59es")]),
        (["stra\xdfe", "STRASSE"], [("stra\xdfe", "STRASSE")]),
        (["cat", "cart", "10", "100", "1e1"], []),
    ],
)
def test_labels_that_are_alike_are_named_both(labels, pairs):
    assert alike(labels) == pairs
    notes = [note for note in label_notes(labels, "y", labels) if "alike" in note]
    assert [f"{one!r} and {other!r}" in note for note in notes for one, other in pairs] == [True] * len(pairs)


def test_a_class_of_minus_one_is_kept_and_named():
    cells = ["-1", "0", "1", "2", "-1"]
    names, numbers, problems = classes(cells)
    assert (names, numbers, problems) == (["-1", "0", "1", "2"], [0, 1, 2, 3, 0], {})
    assert label_notes(cells, "y", names) == [
        "'y': -1 is a class, in 2 of 5 rows; where it means no label, leave the cell empty"
    ]
    assert label_notes(["-1", "1"], "y", ["-1", "1"]) == []


@pytest.mark.parametrize(
    ("columns", "task", "why"),
    [
        ({"y": ["3", "0", "7"]}, "regression", "'y' holds 3 different whole numbers ('0', '3', '7')"),
        ({"y": ["0.5", "1"]}, "regression", "'y' holds numbers with fractions"),
        ({"y": ["1", "-1", "1", ""]}, "classification", "'y' holds 2 different values ('-1', '1')"),
        ({"y": ["a", "b", "c"]}, "multiclass", "'y' holds 3 different labels ('a', 'b', 'c')"),
        ({"y": ["9" * 400, "8" * 400]}, "classification", "'y' holds 2 different labels ("),
        ({"y": ["0", "1"], "z": ["0", "5", "9"]}, "regression", "'z' holds 3 different whole numbers"),
        ({"y": ["0", "1"], "z": ["a", "b", "c"]}, "multiclass", "'z' holds 3 different labels"),
    ],
)
def test_the_task_and_why(columns, task, why):
    chosen, reason = choose_task(columns, "data.csv")
    assert chosen == task
    assert reason.startswith(f"task: {task}, because {why}")
    if "whole numbers" in why:
        assert reason.endswith("; for classes: --task-type multiclass")


def test_numbers_and_words_are_not_learned_together():
    with pytest.raises(
        DataError, match=r"some targets are numbers, others classes: y \(regression\), z \(multiclass\)"
    ):
        choose_task({"y": ["1.5", "2"], "z": ["a", "b", "c"]}, "data.csv")


def test_words_where_numbers_are_expected_give_a_hint():
    assert class_hint(["b", "a", "b"], "y").endswith("for classes: --task-type classification")
    assert class_hint(["b", "a", "c"], "y").endswith("for classes: --task-type multiclass")
    for cells in (["1,5", "2,5"], ["1", "b"], ["", "nan"]):
        assert class_hint(cells, "y") == ""


def test_many_cells_are_read_by_their_distinct_texts():
    cells = ["a", "b"] * 3
    values = read_labels(cells, "y", ["b"], problems := Problems())
    np.testing.assert_array_equal(values, [np.nan, 0] * 3)
    assert list(problems.first) == [0, 2, 4]


def test_versions_are_classes_and_numbers_by_mistake_are_not():
    cells = ["2.1", "2.10", "3.0", "2.1", "2.10", "3.0"]
    names = find_classes(cells, "version", "a.csv", two=False)
    assert names == ["3", "2.1", "2.10"]
    assert alike(names) == [("2.1", "2.10")]
    assert read_labels(cells, "version", names, Problems()).tolist() == [1, 2, 0, 1, 2, 0]
    with pytest.raises(DataError, match=r"0\.25 is a number with a fraction, expected classes"):
        find_classes([str(row + 0.25) for row in range(9)], "y", "a.csv", two=False)
