"""Class labels: which task they ask for, and that different ones stay different."""

import os

import numpy as np
import pytest

from edgewise.errors import DataError
from edgewise.learn.tables.cell import Problems
from edgewise.learn.tables.labels import (
    alike,
    choose_task,
    class_hint,
    find_classes,
    label_notes,
    read_labels,
    target_notes,
)
from edgewise.learn.tables.read import read_cells

DATA = os.environ.get("EDGEWISE_DATA")


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


@pytest.mark.parametrize("numbers", [("7", "007"), ("5", "1e3"), ("0", "1")])
def test_a_mistyped_cell_beside_two_numbers_leaves_the_task_and_is_rejected(numbers):
    """`007` counted as a number for the task, and not for its classes: two were refused for being three."""
    cells = [*numbers * 2, "NA"]
    assert choose_task({"y": cells}, "data.csv") == "classification"
    names, places, rejected = classes(cells, two=True)
    assert (names, places[:2], list(rejected)) == (list(numbers), [0, 1], [4])


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
    ("columns", "task"),
    [
        ({"y": ["3", "0", "7"]}, "regression"),
        ({"y": ["0.5", "1"]}, "regression"),
        ({"y": ["1", "-1", "1", ""]}, "classification"),
        ({"y": ["a", "b", "c"]}, "multiclass"),
        ({"y": ["9" * 400, "8" * 400]}, "classification"),
        ({"y": ["0", "1"], "z": ["0", "5", "9"]}, "regression"),
        ({"y": ["0", "1"], "z": ["a", "b", "c"]}, "multiclass"),
        ({"y": [str(row % 3) for row in range(150)]}, "multiclass"),
        ({"y": [str(row % 3) for row in range(149)]}, "regression"),
        ({"y": [str(row % 20) for row in range(1000)]}, "multiclass"),
        ({"y": [str(row % 21) for row in range(2100)]}, "regression"),
        ({"y": [str(row % 3) for row in range(300)], "z": ["0.5"] * 300}, "regression"),
        ({"y": [str(row % 3) for row in range(300)], "z": ["0", "1"] * 150}, "multiclass"),
        ({}, "regression"),
        ({"y": ["1", "1", ""]}, "regression"),
        ({"y": ["0", "0"], "z": ["0", "1"]}, "classification"),
        ({"y": ["a", "a"]}, "classification"),
    ],
)
def test_the_task_that_targets_call_for(columns, task):
    assert choose_task(columns, "data.csv") == task


def test_whole_numbers_that_are_labels_by_their_type_are_classes():
    columns = {"y": [str(row % 30) for row in range(60)]}
    assert choose_task(columns, "graph.npz", {"y"}) == "multiclass"
    assert choose_task({"y": columns["y"][:59]}, "graph.npz", {"y"}) == "regression"
    assert choose_task({"y": ["0.5", *columns["y"]]}, "graph.npz", {"y"}) == "regression"


def test_what_is_learned_is_said():
    numbers = np.array([[0, 1.5], [1, np.nan], [0, -3.25]])
    assert target_notes(numbers[:, :1], ["active"], {"active": ["0", "1"]}) == [
        "active: classes 0 (2), 1 (1); for numbers: --task-type regression"
    ]
    assert target_notes(numbers[:, :1], ["mood"], {"mood": ["bad", "good"]}) == ["mood: classes bad (2), good (1)"]
    assert target_notes(numbers, ["count", "logS"], {}) == [
        "count: a number, 0 to 1; for classes: --task-type multiclass",
        "logS: a number, -3.25 to 1.5",
    ]
    late = np.array([[1.69999995e9, 100_000.25], [1.700000069e9, 100_010.0]])
    assert target_notes(late, ["t", "u"], {}) == [
        "t: a number, 1699999950 to 1700000069; for classes: --task-type multiclass",
        "u: a number, 100000.2 to 100010",
    ]
    many = target_notes(np.arange(7.0).repeat(2)[:, None], ["y"], {"y": list("abcdefg")})
    assert many == ["y: classes a (2), b (2), c (2), d (2), e (2) and 2 more"]
    assert target_notes(np.zeros((2, 7)), list("abcdefg"), {})[-1] == "and 2 more targets"


TARGETS = {
    "moleculenet/bace.csv": {"bace1_inhibitor": "classification", "pIC50": "regression"},
    "moleculenet/bbbp.csv": {"bbb_permeable": "classification"},
    "moleculenet/esol.csv": {"log_solubility_log10_mol_per_L": "regression"},
    "moleculenet/freesolv.csv": {"hydration_free_energy_kcal_per_mol": "regression"},
    "moleculenet/lipophilicity.csv": {"logD_pH7_4": "regression"},
    "molecules_more/aqsoldb.csv": {"log_solubility_log10_mol_per_L": "regression"},
    "molecules_more/malaria.csv": {"log_ec50": "regression"},
    "molecules_more/clintox.csv": {"FDA_APPROVED": "classification", "CT_TOX": "classification"},
    "molecules_more/sider.csv": {f"SIDER{number}": "classification" for number in range(1, 28)},
    "molecules_more/tox21.csv": {"NR-AR": "classification", "SR-p53": "classification"},
    "co2_ionic_liquids/co2_ionic_liquids.csv": {"x_co2_mole_fraction": "regression"},
    "co2_ionic_liquids/il_group_counts.csv": {"[CH2]": "regression", "[CH3]": "regression", "[OH]": "regression"},
    "rt_polarity/rt_polarity.csv": {"label": "classification"},
    "sst2/train.csv": {"label": "classification"},
}


@pytest.mark.skipif(DATA is None, reason="EDGEWISE_DATA names no folder of data sets")
@pytest.mark.parametrize("file", TARGETS)
def test_the_rule_on_tables_of_real_data(file):
    cells = read_cells(f"{DATA}/{file}")
    for name, task in TARGETS[file].items():
        assert choose_task({name: cells.frame[name]}, file, cells.label_columns) == task, name


@pytest.mark.skipif(DATA is None, reason="EDGEWISE_DATA names no folder of data sets")
@pytest.mark.parametrize(
    "file",
    [
        *("planetoid/cora.npz", "planetoid/citeseer.npz", "planetoid/pubmed_graph_labels_only.npz"),
        "facebook_pages/facebook_pages.npz",
    ],
)
def test_the_rule_on_graphs_of_real_data(file):
    with np.load(f"{DATA}/{file}") as arrays:
        y = arrays["y"]
    assert np.issubdtype(y.dtype, np.integer)
    for labels in ((), ("y",)):
        assert choose_task({"y": [str(label) for label in y.tolist()]}, file, labels) == "multiclass"


def test_a_target_without_a_cell_is_named():
    """It was said to be classes, beside others that are numbers."""
    with pytest.raises(DataError, match=r"data\.csv, column 'z': every cell is empty, expected numbers or classes"):
        choose_task({"y": ["1.5", "2.5"], "z": ["", "nan"]}, "data.csv")


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


@pytest.mark.parametrize("name", ["NA", "n/a", "None", "?", "unknown"])
def test_a_class_that_may_mean_no_label_is_named(name):
    """R writes NA where nothing is known: it became a third class."""
    cells = ["yes", "no", name, "no"]
    assert label_notes(cells, "y", find_classes(cells, "y", "data.csv", two=False)) == [
        f"'y': {name!r} is a class, in 1 of 4 rows; where it means no label, leave the cell empty"
    ]


@pytest.mark.parametrize("written", ["{},5", "${}", "{} mg", "{}%", "<{}", "1,{:03}", "{} °C", "≈ {}"])
def test_classes_that_read_as_numbers_are_said_to(written):
    """A column with decimal commas became as many classes as it has numbers."""
    cells = [written.format(number) for number in range(1, 9)] * 2
    (note,) = label_notes(cells, "y", find_classes(cells, "y", "data.csv", two=False))
    assert note.startswith(f"'y': 8 classes in 16 rows read as numbers ({min(cells)!r}, ")
    assert "leave out units and other signs; --decimal ','" in note
    doses = ["5 mg", "10 mg", "20 mg"] * 50  # each with many rows: classes
    assert label_notes(doses, "y", find_classes(doses, "y", "data.csv", two=False)) == []


def test_classes_of_one_row_each_are_said_to_be_that():
    cells = [f"row {letter}{other}" for letter in "abcdef" for other in "abcd"]
    assert label_notes(cells, "y", find_classes(cells, "y", "data.csv", two=False)) == [
        "'y': 24 classes in 24 rows: most stand in one row alone, from which no model can learn them; "
        "is this the target?"
    ]
    assert label_notes(cells * 2, "y", find_classes(cells, "y", "data.csv", two=False)) == []
