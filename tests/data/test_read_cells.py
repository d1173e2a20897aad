"""Files as strings, and everything a file can have wrong with it."""

import gzip

import numpy as np
import pandas as pd
import pytest

from edgewise.data.read import cells_from_arrays, check_columns_exist, join_cells, read_cells
from edgewise.errors import DataError

CSV = "smiles,y\nCCO,1.50\nC,\n"


def written(tmp_path, content: str | bytes, name: str = "data.csv") -> str:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def refused(tmp_path, content: str | bytes, name: str = "data.csv") -> str:
    """The message for a file, without its folder."""
    with pytest.raises(DataError) as caught:
        read_cells(written(tmp_path, content, name))
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_cells_stay_the_strings_they_are(tmp_path):
    cells = read_cells(written(tmp_path, 'smiles,y,note\nCCO,1.50,NA\n"C",,"a, ""b"""\n N ,nan,007\n'))
    assert cells.frame.to_dict("list") == {
        "smiles": ["CCO", "C", " N "],
        "y": ["1.50", "", "nan"],
        "note": ["NA", 'a, "b"', "007"],
    }
    assert cells.lines.tolist() == [2, 3, 4]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", CSV.encode()),
        ("a.CSV", CSV.encode()),
        ("a.csv", b"\xef\xbb\xbf" + CSV.encode()),
        ("a.csv", CSV.replace("\n", "\r\n").encode()),
        ("a.csv", CSV.replace("\n", "\r").encode()),
        ("a.csv", CSV.rstrip("\n").encode()),
        ("a.tsv", CSV.replace(",", "\t").encode()),
        ("a.csv.gz", gzip.compress(CSV.encode(), mtime=0)),
        ("a.tsv.gz", gzip.compress(CSV.replace(",", "\t").encode(), mtime=0)),
    ],
)
def test_the_same_table_in_every_dress(tmp_path, name, content):
    cells = read_cells(written(tmp_path, content, name))
    assert cells.frame.to_dict("list") == {"smiles": ["CCO", "C"], "y": ["1.50", ""]}
    assert cells.lines.tolist() == [2, 3]
    assert cells.files == (str(tmp_path / name),)


def test_parquet_keeps_every_digit_and_empties_what_is_missing(tmp_path):
    path = tmp_path / "a.parquet"
    frame = pd.DataFrame({"smiles": ["C", None], "y": [0.1 + 0.2, np.nan], "n": [3, 4], "b": [True, False]})
    frame.to_parquet(path)
    cells = read_cells(path)
    assert cells.frame.to_dict("list") == {
        "smiles": ["C", ""],
        "y": ["0.30000000000000004", ""],
        "n": ["3", "4"],
        "b": ["True", "False"],
    }
    assert cells.lines.tolist() == [2, 3]


def test_lines_are_those_of_the_file(tmp_path):
    cells = read_cells(written(tmp_path, 'smiles,note\nC,"two\nlines"\n\n   \nN,x\n\n'))
    assert cells.frame["note"].tolist() == ["two\nlines", "x"]
    assert cells.lines.tolist() == [2, 6]


def test_a_blank_line_between_the_rows_of_one_column_is_an_empty_cell(tmp_path):
    cells = read_cells(written(tmp_path, "smiles\nC\n\nN\n\n\n"))
    assert cells.frame["smiles"].tolist() == ["C", "", "N"]
    assert cells.lines.tolist() == [2, 3, 4]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "data.csv: the file is empty, expected a first line with the names of the columns."),
        (" \n\n", "data.csv: the file is empty, expected a first line with the names of the columns."),
        ("smiles,y\n", "data.csv: the file has a header but no rows."),
        ("smiles,y\n\n\n", "data.csv: the file has a header but no rows."),
        (
            b"smiles,name\nC,ok\nN,caf\xe9\n",
            "data.csv, line 3: byte 0xe9 at offset 22 is not UTF-8; save the file as UTF-8.",
        ),
        (
            b"\xef\xbb\xbfsmiles,name\nN,caf\xe9\n",
            "data.csv, line 2: byte 0xe9 at offset 20 is not UTF-8; save the file as UTF-8.",
        ),
        ("a,b".encode("utf-16"), "data.csv: not a CSV file but text in UTF-16; save it as UTF-8."),
        (
            b"PK\x03\x04rest",
            "data.csv: not a CSV file but an Excel workbook or a zip archive; save the sheet as CSV.",
        ),
        (
            gzip.compress(b"a,b\n1,2\n", mtime=0),
            "data.csv: not a CSV file but gzip-compressed; let its name end in .csv.gz or .tsv.gz.",
        ),
        (b"PAR1....", "data.csv: not a CSV file but a Parquet file; let its name end in .parquet."),
        (b"a,b\n1,\x002\n", "data.csv, line 2: not a CSV file, it holds a zero byte."),
        (
            "smiles,y\nC,1\nN,2,3\n",
            "data.csv, line 3: 3 cells, but the header has 2 columns; a cell that holds ',' must stand in double "
            "quotes.",
        ),
        (
            'smiles,y\n"C\nC",1\nN\n',
            "data.csv, line 4: 1 cell, but the header has 2 columns; a cell that holds ',' must stand in double "
            "quotes.",
        ),
        (
            "smiles\nC,1\n",
            "data.csv, line 2: 2 cells, but the header has 1 column; a cell that holds ',' must stand in double "
            "quotes.",
        ),
        ('smiles,y\nC,1\n"N,2\n', "data.csv, line 3: not a CSV file (unexpected end of data)."),
        ('smiles,y\n"C"x,1\n', "data.csv, line 2: not a CSV file (',' expected after '\"')."),
        (
            "smiles,y,smiles,y,smiles\nC,1,C,2,C\n",
            "data.csv, line 1: two columns have one name: 'smiles' is column 1, 3 and 5; 'y' is column 2 and 4. "
            "Rename one.",
        ),
    ],
)
def test_a_file_that_is_no_table_says_where(tmp_path, content, message):
    assert refused(tmp_path, content) == message


def test_a_field_beyond_the_limit_of_csv_says_where(tmp_path):
    message = refused(tmp_path, "smiles,y\nC,1\n" + "C" * 200_000 + ",1\n")
    assert message == "data.csv, line 3: not a CSV file (field larger than field limit (131072))."


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("data.xlsx", "data.xlsx: its name ends in '.xlsx', expected .csv, .tsv, .csv.gz, .tsv.gz or .parquet."),
        ("data.gz", "data.gz: its name ends in '.gz', expected .csv, .tsv, .csv.gz, .tsv.gz or .parquet."),
        ("data", "data: its name ends in '', expected .csv, .tsv, .csv.gz, .tsv.gz or .parquet."),
    ],
)
def test_an_unknown_ending_lists_the_known_ones(tmp_path, name, message):
    assert refused(tmp_path, CSV, name) == message


def test_no_file_and_a_folder(tmp_path):
    with pytest.raises(DataError) as caught:
        read_cells(tmp_path / "nothing.csv")
    assert str(caught.value) == f"{tmp_path}/nothing.csv: no such file."
    with pytest.raises(DataError) as caught:
        read_cells(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: is a folder, expected a file that ends in .csv, .tsv, .csv.gz, .tsv.gz or .parquet."
    )


def test_damaged_archives(tmp_path):
    whole = gzip.compress(CSV.encode() * 50, mtime=0)
    assert refused(tmp_path, whole[: len(whole) // 2], "a.csv.gz").startswith(
        "a.csv.gz: its name says gzip, but it cannot be unpacked (Compressed file ended"
    )
    assert refused(tmp_path, CSV, "a.csv.gz") == (
        "a.csv.gz: its name says gzip, but it cannot be unpacked (Not a gzipped file (b'sm'))."
    )
    assert refused(tmp_path, CSV, "a.parquet").startswith("a.parquet: its name says Parquet, but it cannot be read (")


def test_an_empty_parquet_has_no_rows(tmp_path):
    pd.DataFrame({"smiles": []}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet: the file has a header but no rows\."):
        read_cells(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("header", "wanted", "message"),
    [
        (
            "Smiles,log_solubility,name",
            ("smiles", "log_solubilty"),
            "data.csv: no columns 'smiles' (did you mean 'Smiles'?), 'log_solubilty' (did you mean 'log_solubility'?); "
            "the file has 'Smiles', 'log_solubility', 'name'.",
        ),
        ("a,b,c", ("zzzzzz",), "data.csv: no column 'zzzzzz'; the file has 'a', 'b', 'c'."),
        (
            "smiles1,smiles2,b",
            ("smiles", "smiles"),
            "data.csv: no column 'smiles' (did you mean 'smiles2' or 'smiles1'?); the file has 'smiles1', 'smiles2', "
            "'b'.",
        ),
    ],
)
def test_a_missing_column_names_its_neighbors(tmp_path, header, wanted, message):
    cells = read_cells(written(tmp_path, f"{header}\n1,2,3\n"))
    with pytest.raises(DataError) as caught:
        check_columns_exist(cells, wanted)
    assert str(caught.value).replace(f"{tmp_path}/", "") == message


def test_a_missing_column_of_a_file_with_another_separator(tmp_path):
    cells = read_cells(written(tmp_path, "smiles;y\nC;1\n"))
    with pytest.raises(DataError) as caught:
        check_columns_exist(cells, ("smiles",))
    assert str(caught.value).endswith(
        "the file has 'smiles;y'. Its first line looks separated by ';', expected commas in .csv and tabs in .tsv."
    )


def test_files_below_each_other(tmp_path):
    first = read_cells(written(tmp_path, "smiles,y\nC,1\nN,2\n", "a.csv"))
    second = read_cells(written(tmp_path, "y\tsmiles\n3\tO\n", "b.tsv"))
    joined = join_cells([first, second])
    assert joined.frame.to_dict("list") == {"smiles": ["C", "N", "O"], "y": ["1", "2", "3"]}
    assert joined.file_of_row.tolist() == [0, 0, 1]
    assert joined.lines.tolist() == [2, 3, 2]
    assert joined.source == f"{tmp_path}/a.csv, {tmp_path}/b.tsv"


def test_files_of_different_columns_are_both_named(tmp_path):
    first = read_cells(written(tmp_path, "smiles,y,t\nC,1,1\n", "a.csv"))
    second = read_cells(written(tmp_path, "smiles,z\nC,1\n", "b.csv"))
    with pytest.raises(DataError) as caught:
        join_cells([first, second])
    assert str(caught.value).replace(f"{tmp_path}/", "") == (
        "a.csv and b.csv have different columns: only a.csv has 'y', 't'; only b.csv has 'z'. "
        "Give both files the same columns."
    )


def test_arrays_are_cells_with_every_digit():
    cells, columns = cells_from_arrays({"smiles": np.array([["C", "N"], ["O", None]]), "target": [0.1 + 0.2, np.nan]})
    assert columns == {"smiles": ("smiles_1", "smiles_2"), "target": ("target",)}
    assert cells.frame.to_dict("list") == {
        "smiles_1": ["C", "O"],
        "smiles_2": ["N", ""],
        "target": ["0.30000000000000004", ""],
    }
    assert cells.lines.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"smiles": ["C", "N"], "target": [1.0]}, "target has 1 rows, but smiles has 2."),
        ({"smiles": np.zeros((1, 1, 1))}, "smiles has 3 axes, expected (row,) or (row, column)."),
        ({"smiles": []}, "smiles is empty, expected at least one row."),
    ],
)
def test_arrays_that_do_not_fit(arrays, message):
    with pytest.raises(DataError) as caught:
        cells_from_arrays(arrays)
    assert str(caught.value) == message
