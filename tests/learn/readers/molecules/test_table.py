"""Rows as molecules, targets, conditions and weights; single bad rows keep their place."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdkit import Chem

from edgewise.errors import DataError, SettingError
from edgewise.learn.readers.molecules.data import Columns, MoleculeData, molecules_from_arrays, read_molecules
from edgewise.learn.tables.cell import read_number

COLUMNS = Columns(("smiles",), ("y",))


def read(tmp_path, content: str, columns: Columns = COLUMNS, **options) -> MoleculeData:
    path = tmp_path / "data.csv"
    path.write_text(content)
    return read_molecules(path, columns, with_descriptors=False, **options)


def refused(tmp_path, content: str, columns: Columns = COLUMNS, **options) -> str:
    with pytest.raises(DataError) as caught:
        read(tmp_path, content, columns, **options)
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_a_table_by_hand(tmp_path):
    content = "id,cation,anion,T,P,y,z,w\na,C[NH3+],[Cl-],300,1.5,1.5,,1\nb,CC,[Cl-],310,2e1,,-2,0\n"
    content += "c,[NH3+]C,[Br-],3,4,5,6,2\n"
    columns = Columns(("cation", "anion"), ("y", "z"), ("T", "P"), weight_column="w", ignore_columns=("id",))
    table = read(tmp_path, content, columns)
    assert table.rows.source == str(tmp_path / "data.csv")
    assert table.rows.cells.frame["y"].tolist() == ["1.5", "", "5"]
    assert table.graph_of_row.dtype == np.int64
    assert [[table.store.smiles[graph] for graph in row] for row in table.graph_of_row] == [
        ["C[NH3+]", "[Cl-]"],
        ["CC", "[Cl-]"],
        ["C[NH3+]", "[Br-]"],
    ]
    assert len(table.store) == 4
    np.testing.assert_array_equal(table.rows.targets, [[1.5, np.nan], [np.nan, -2], [5, 6]])
    np.testing.assert_array_equal(table.conditions, [[300, 1.5], [310, 20], [3, 4]])
    np.testing.assert_array_equal(table.rows.weights, [1, 0, 2])
    assert table.rows.status == ["ok"] * 3
    assert table.rows.rejected == [] and table.rows.classes == {}
    assert table.rows.usable.tolist() == [True] * 3
    assert len(table.rows) == 3


def test_without_conditions_and_weights(tmp_path):
    table = read(tmp_path, "smiles,y\nC,1\nN,2\n")
    assert table.conditions.shape == (2, 0)
    assert table.rows.weights.tolist() == [1.0, 1.0]


def test_molecules_that_differ_by_atom_map_numbers_are_one(tmp_path):
    rows = read(tmp_path, "smiles,y\n[CH3:1][OH:2],1\nCO,2\n[CH3:1]c1ccccc1,3\n[CH3:7][c:1]1ccccc1,4\n").rows
    assert rows.cells.frame["smiles"].tolist()[0] == "[CH3:1][OH:2]"  # as it was written
    numbers = np.arange(4)
    assert rows.keys(numbers).tolist() == [0, 0, 1, 1]
    assert rows.num_distinct == 2
    assert rows.contents.scaffolds is not None
    assert rows.contents.scaffolds(numbers) == ["CO", "CO", "c1ccccc1", "c1ccccc1"]


def test_a_molecule_of_rdkit_keeps_its_map_numbers():
    numbered = Chem.MolFromSmiles("[CH3:1][OH:2]")
    data = molecules_from_arrays([numbered, "CO"], [1.0, 2.0], with_descriptors=False)
    assert data.graph_of_row.tolist() == [[0], [0]]
    assert [atom.GetAtomMapNum() for atom in numbered.GetAtoms()] == [1, 2]


BAD_ROWS = [
    ("C1CC,1,300,1", "smiles", "C1CC", "'C1CC' is not a SMILES that RDKit can read: unclosed ring"),
    (
        "C\u041e,1,300,1",
        "smiles",
        "C\u041e",
        "'C\u041e' is not a SMILES: character 2 is U+041E (CYRILLIC CAPITAL LETTER O), but SMILES are written in "
        "ASCII; replace it or delete it",
    ),
    (",1,300,1", "smiles", "", "The SMILES is empty, expected one molecule"),
    ("C,abc,300,1", "y", "abc", "'abc' is not a number"),
    ("C,inf,300,1", "y", "inf", "'inf' is infinite, expected a finite number"),
    ("C,-Infinity,300,1", "y", "-Infinity", "'-Infinity' is infinite, expected a finite number"),
    ("C,1e999,300,1", "y", "1e999", "'1e999' is infinite, expected a finite number"),
    ("C,1_000,300,1", "y", "1_000", "'1_000' is not a number"),
    ('C,"1,5",300,1', "y", "1,5", "'1,5' is not a number"),
    ("C,,300,1", "y", "", "the target cell is empty"),
    ("C,NaN,300,1", "y", "", "the target cell is empty"),
    ("C,1,,1", "T", "", "empty cell, expected a number"),
    ("C,1,hot,1", "T", "hot", "'hot' is not a number"),
    ("C,1,nan,1", "T", "nan", "'nan' is not a number"),
    ("C,1,inf,1", "T", "inf", "'inf' is infinite, expected a finite number"),
    ("C,1,300,-1", "w", "-1", "'-1' is negative, expected zero or more"),
    ("C,1,300,", "w", "", "empty cell, expected a number"),
    ("C,1,300,x", "w", "x", "'x' is not a number"),
]
ALL_ROLES = Columns(("smiles",), ("y",), ("T",), weight_column="w")


@pytest.mark.parametrize(("row", "column", "value", "reason"), BAD_ROWS)
def test_a_bad_row_keeps_its_place_and_says_why(tmp_path, row, column, value, reason):
    table = read(tmp_path, f"smiles,y,T,w\nN,1,300,1\n{row}\nO,2,310,2\n", ALL_ROLES)
    assert table.rows.status == ["ok", f"{column}: {reason}", "ok"]
    assert table.rows.usable.tolist() == [True, False, True]
    (rejection,) = table.rows.rejected
    assert (rejection.file, rejection.line, rejection.column) == (str(tmp_path / "data.csv"), 3, column)
    assert (rejection.value, rejection.reason) == (value, reason)
    assert len(table.rows.cells.frame) == 3
    assert table.rows.targets[[0, 2], 0].tolist() == [1, 2]


@pytest.mark.parametrize(("row", "column", "value", "reason"), BAD_ROWS)
def test_strict_stops_at_a_bad_row(tmp_path, row, column, value, reason):
    message = refused(tmp_path, f"smiles,y,T,w\nN,1,300,1\n\n{row}\nC,x,x,x\n", ALL_ROLES, strict=True)
    assert message == (
        f"data.csv, row 2 (line 4), column {column!r}: {reason}; the cell is {value!r}. "
        "Fix the cell, or drop --strict to skip the row."
    )


def test_a_row_with_several_faults_is_listed_once_by_its_first(tmp_path):
    table = read(tmp_path, "smiles,y,T,w\nC,1,1,1\nxyz,abc,hot,-1\n", ALL_ROLES)
    assert [(rejection.line, rejection.column) for rejection in table.rows.rejected] == [(3, "smiles")]
    assert table.graph_of_row.tolist() == [[0], [-1]]
    assert (
        math.isnan(table.conditions[1, 0])
        and math.isnan(table.rows.targets[1, 0])
        and math.isnan(table.rows.weights[1])
    )


def test_one_target_is_enough_but_none_or_a_wrong_one_is_not(tmp_path):
    table = read(tmp_path, "smiles,y,z\nC,1,\nC,,2\nC,,\nC,1,abc\n", Columns(("smiles",), ("y", "z")))
    assert table.rows.status == ["ok", "ok", "y: every target cell of the row is empty", "z: 'abc' is not a number"]
    np.testing.assert_array_equal(table.rows.targets, [[1, np.nan], [np.nan, 2], [np.nan, np.nan], [1, np.nan]])


def test_a_file_without_one_good_row_is_refused(tmp_path):
    assert refused(tmp_path, "smiles,y\nxyz,1\nC,\n") == (
        "data.csv: none of its 2 rows can be used; line 2, smiles: 'xyz' is not a SMILES that RDKit can read: "
        "syntax error while parsing: xyz."
    )


def test_rows_to_predict_need_neither_targets_nor_weights(tmp_path):
    columns = Columns(("smiles",), ("y",), ("T",), weight_column="w", splits_column="s", group_column="g")
    table = read(tmp_path, "smiles,T\nC,1\nxyz,2\nN,\n", columns, need_targets=False)
    assert [status == "ok" for status in table.rows.status] == [True, False, False]
    assert np.isnan(table.rows.targets).all() and table.rows.targets.shape == (3, 1)
    assert table.rows.weights.tolist() == [1.0] * 3
    table = read(tmp_path, "smiles,T,y\nC,1,abc\nN,2,3\n", columns, need_targets=False)
    assert table.rows.status == ["ok", "ok"]
    np.testing.assert_array_equal(table.rows.targets, [[np.nan], [3.0]])
    table = read(tmp_path, "smiles,T\nxyz,2\n", columns, need_targets=False)
    assert table.rows.usable.tolist() == [False]


def test_rows_to_predict_need_their_conditions(tmp_path):
    columns = Columns(("smiles",), ("y",), ("T",))
    assert refused(tmp_path, "smiles,t\nC,1\n", columns, need_targets=False) == (
        "data.csv: no column 'T' (did you mean 't'?); the file has 'smiles', 't'."
    )


@pytest.mark.parametrize(
    "columns",
    [
        Columns(("s",), ("y",)),
        Columns(("smiles",), ("s",)),
        Columns(("smiles",), ("y",), ("s",)),
        Columns(("smiles",), ("y",), ignore_columns=("s",)),
        Columns(("smiles",), ("y",), weight_column="s"),
        Columns(("smiles",), ("y",), splits_column="s"),
        Columns(("smiles",), ("y",), group_column="s"),
    ],
)
def test_a_column_of_any_role_must_be_there(tmp_path, columns):
    assert refused(tmp_path, "smiles,y\nC,1\n", columns) == "data.csv: no column 's'; the file has 'smiles', 'y'."


def test_targets_are_the_columns_without_another_role(tmp_path):
    columns = Columns(("smiles",), descriptors_columns=("T",), ignore_columns=("name",))
    table = read(tmp_path, "name,smiles,y,T,z\na,C,1,2,3\n", columns)
    assert table.rows.columns.target_columns == ("y", "z")
    assert refused(tmp_path, "name,smiles,T\na,C,1\n", columns) == (
        "data.csv: no column is left for a target: add one to the file or name it."
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"smiles_columns": ()}, "--smiles-columns is empty: name at least one column with SMILES."),
        (
            {"smiles_columns": ("a",), "task_type": "ranking"},
            "--task-type is 'ranking'; expected one of regression, classification, multiclass, auto.",
        ),
        (
            {"smiles_columns": ("a",), "target_columns": ("a",)},
            "Column 'a' is named in --smiles-columns and in --target-columns: a column has one role.",
        ),
        (
            {"smiles_columns": ("a", "a")},
            "Column 'a' is named in --smiles-columns twice: a column has one role.",
        ),
        (
            {"smiles_columns": ("a",), "weight_column": "w", "group_column": "w"},
            "Column 'w' is named in --weight-column and in --group-column: a column has one role.",
        ),
    ],
)
def test_columns_have_one_role(arguments, message):
    with pytest.raises(SettingError) as caught:
        Columns(**arguments)
    assert str(caught.value) == message


def labels(tmp_path, cells: list[str], task_type: str = "classification", **options) -> MoleculeData:
    content = "smiles,y\n" + "".join(f"C,{cell}\n" for cell in cells)
    return read(tmp_path, content, Columns(("smiles",), ("y",), task_type=task_type), **options)


@pytest.mark.parametrize(
    ("task_type", "cells", "names", "numbers"),
    [
        ("classification", ["1", "0", "1"], ["0", "1"], [1, 0, 1]),
        ("classification", ["1.0", "0.0", "1"], ["0", "1"], [1, 0, 1]),
        ("classification", ["1", "1"], ["0", "1"], [1, 1]),
        ("classification", ["yes", "no", " no "], ["no", "yes"], [1, 0, 0]),
        ("classification", ["True", "False"], ["False", "True"], [1, 0]),
        ("classification", ["2", "10"], ["2", "10"], [0, 1]),
        ("multiclass", ["b", "c", "a", "b"], ["a", "b", "c"], [1, 2, 0, 1]),
        ("multiclass", ["10", "9", "-1"], ["-1", "9", "10"], [2, 1, 0]),
    ],
)
def test_classes_are_numbered_in_order(tmp_path, task_type, cells, names, numbers):
    table = labels(tmp_path, cells, task_type)
    assert table.rows.classes == {"y": names}
    assert table.rows.targets[:, 0].tolist() == numbers


def test_a_mistake_among_whole_numbers_is_no_class(tmp_path):
    table = labels(tmp_path, ["0", "1", "abc", "inf", "0.5", "", "1", "0"])
    assert table.rows.classes == {"y": ["0", "1"]}
    assert table.rows.status == [
        "ok",
        "ok",
        "y: 'abc' is not one of the classes '0', '1'",
        "y: 'inf' is not one of the classes '0', '1'",
        "y: '0.5' is not one of the classes '0', '1'",
        "y: the target cell is empty",
        "ok",
        "ok",
    ]


def test_known_classes_are_kept(tmp_path):
    table = labels(tmp_path, ["b", "c"], classes={"y": ["a", "b"]})
    assert table.rows.classes == {"y": ["a", "b"]}
    assert table.rows.status == ["ok", "y: 'c' is not one of the classes 'a', 'b'"]
    assert table.rows.targets[0, 0] == 1


@pytest.mark.parametrize(
    ("task_type", "cells", "message"),
    [
        (
            "classification",
            ["a", "b", "c"],
            "data.csv, column 'y': 3 classes ('a', 'b', 'c'), expected two; use the task type multiclass.",
        ),
        (
            "classification",
            ["0", "1", "2"],
            "data.csv, column 'y': 3 classes ('0', '1', '2'), expected two; use the task type multiclass.",
        ),
        ("classification", ["a", "a"], "data.csv, column 'y': the only class is 'a', expected two or more."),
        ("multiclass", ["1", "1"], "data.csv, column 'y': the only class is '1', expected two or more."),
        ("classification", ["", "nan"], "data.csv, column 'y': every cell is empty, expected classes."),
        (
            "multiclass",
            ["1.5", "2.5", "3"],
            "data.csv, column 'y': 1.5 is a number with a fraction, expected classes; use the task type regression.",
        ),
    ],
)
def test_classes_that_cannot_be(tmp_path, task_type, cells, message):
    with pytest.raises(DataError) as caught:
        labels(tmp_path, cells, task_type)
    assert str(caught.value).replace(f"{tmp_path}/", "") == message


def test_several_files_are_one_table(tmp_path):
    (tmp_path / "a.csv").write_text("smiles,y\nC,1\nxyz,2\n")
    (tmp_path / "b.csv").write_text("y,smiles\n3,C\nabc,N\n")
    table = read_molecules([tmp_path / "a.csv", tmp_path / "b.csv"], COLUMNS, with_descriptors=False)
    assert table.rows.cells.files == (f"{tmp_path}/a.csv", f"{tmp_path}/b.csv")
    assert table.rows.cells.file_of_row.tolist() == [0, 0, 1, 1]
    assert table.graph_of_row[:, 0].tolist() == [0, -1, 0, 1]
    assert [(rejection.file[-5:], rejection.line) for rejection in table.rows.rejected] == [("a.csv", 3), ("b.csv", 3)]
    (tmp_path / "a.csv").write_text("smiles,y\nC,1\nN,2\n")
    with pytest.raises(DataError, match=r"b\.csv, row 2 \(line 3\), column 'y': 'abc' is not a number"):
        read_molecules([tmp_path / "a.csv", tmp_path / "b.csv"], COLUMNS, strict=True, with_descriptors=False)
    with pytest.raises(SettingError, match="paths is empty: name at least one file"):
        read_molecules([], COLUMNS)


def test_two_files_with_different_columns_are_both_named(tmp_path):
    (tmp_path / "a.csv").write_text("smiles,y,name\nC,1,x\n")
    (tmp_path / "b.csv").write_text("smiles,y\nC,1\n")
    with pytest.raises(DataError) as caught:
        read_molecules([tmp_path / "a.csv", tmp_path / "b.csv"], COLUMNS)
    assert str(caught.value).replace(f"{tmp_path}/", "") == (
        "a.csv and b.csv have different columns: only a.csv has 'name'. Give both files the same columns."
    )


def test_arrays_make_the_same_table_as_a_file(tmp_path):
    rng = np.random.default_rng(0)
    y, t = rng.standard_normal(3), rng.standard_normal((3, 2))
    y[1] = np.nan
    frame = pd.DataFrame({"smiles": ["C", "N", "CC"], "target": y, "condition_1": t[:, 0], "condition_2": t[:, 1]})
    frame.to_csv(tmp_path / "data.csv", index=False)
    columns = Columns(("smiles",), ("target",), ("condition_1", "condition_2"), missing="impute")
    from_file = read_molecules(tmp_path / "data.csv", columns, with_descriptors=False)
    from_arrays = molecules_from_arrays(["C", "N", "CC"], y, t, with_descriptors=False)
    np.testing.assert_array_equal(from_arrays.rows.targets, from_file.rows.targets)
    np.testing.assert_array_equal(from_arrays.conditions, from_file.conditions)
    np.testing.assert_array_equal(from_arrays.conditions, t)
    assert from_arrays.rows.status == from_file.rows.status == ["ok", "target: the target cell is empty", "ok"]
    assert from_arrays.rows.columns == columns


def test_arrays_of_pairs_classes_weights_and_groups():
    table = molecules_from_arrays(
        [("C", "[Cl-]"), ("N", "[Br-]")],
        np.array(["good", "bad"]),
        weights=[1, 2],
        groups=["g", "h"],
        task_type="classification",
        with_descriptors=False,
    )
    assert table.rows.columns.smiles_columns == ("smiles_1", "smiles_2")
    assert table.rows.columns.group_column == "group"
    assert table.rows.targets.tolist() == [[1.0], [0.0]]
    assert table.rows.weights.tolist() == [1.0, 2.0]
    assert molecules_from_arrays(pd.Series(["C"]), with_descriptors=False).rows.usable.tolist() == [True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"targets": [1.0]}, "target has 1 row, but smiles has 2."),
        ({"targets": [1.0, 2.0], "weights": [[1.0], [1.0]]}, "weight has 2 axes, expected (row,)."),
        (
            {"targets": [1.0, math.inf], "strict": True},
            "arrays, row 1, column 'target': 'inf' is infinite, expected a finite number; the cell is 'inf'. "
            "Fix the cell, or leave the row out.",
        ),
    ],
)
def test_arrays_that_do_not_fit(arguments, message):
    with pytest.raises(DataError) as caught:
        molecules_from_arrays(["C", "N"], **arguments, with_descriptors=False)
    assert str(caught.value) == message


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_read_as_it_was_written(number):
    assert read_number(f" {number!r} ") == (number, "")


@given(st.text())
def test_any_text_is_a_finite_number_or_has_a_reason(text):
    number, reason = read_number(text)
    assert math.isfinite(number) if not reason else math.isnan(number)
