"""Files as strings, and everything a file can have wrong with it."""

import csv
import gzip
import io
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.errors import DataError, SettingError
from edgewise.learn.tables.options import read_limits
from edgewise.learn.tables.read import cells_from_arrays, check_columns_exist, join_cells, read_cells

CSV = "smiles,y\nCCO,1.50\nC,\n"
_QUOTES = " Where quotes belong to the text, add --quoting none."


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


def test_a_first_column_may_be_called_as_parquet_begins(tmp_path):
    """PAR1 is a gene."""
    assert read_cells(written(tmp_path, "PAR1,y\n0.5,1\n")).frame["PAR1"].tolist() == ["0.5"]


@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_parquet_of_less_precision_has_no_digits_more(tmp_path, kind):
    """298.15 of float32 was read as 298.1499938964844, and 0.1 was the class 0.10000000149011612."""
    values = np.array([0.1, 298.2, np.nan, 3], dtype=kind)
    pd.DataFrame({"x": values}).to_parquet(tmp_path / "a.parquet")
    assert read_cells(tmp_path / "a.parquet").frame["x"].tolist() == ["0.1", "298.2", "", "3.0"]


def test_arrays_of_less_precision_have_no_digits_more():
    cells, _ = cells_from_arrays({"x": np.array([0.1, np.nan], dtype=np.float32)})
    assert cells.texts("x") == ["0.1", ""]


def test_the_unnamed_index_of_pandas_is_no_column(tmp_path):
    """Rows that were shuffled keep their numbers as `__index_level_0__`, which was a feature or a target."""
    frame = pd.DataFrame({"y": [1, 2, 3]}, index=[2, 0, 1])
    frame.to_parquet(tmp_path / "a.parquet")
    assert list(read_cells(tmp_path / "a.parquet").frame) == ["y"]
    frame.rename_axis("compound").to_parquet(tmp_path / "a.parquet")
    assert list(read_cells(tmp_path / "a.parquet").frame) == ["y", "compound"]
    pd.DataFrame({"__index_level_0__": [1]}).to_parquet(tmp_path / "a.parquet")
    assert list(read_cells(tmp_path / "a.parquet").frame) == ["__index_level_0__"], "here it is no index"


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
            "data.csv, line 3: byte 0xe9 at offset 22 is not UTF-8; save the file as UTF-8, or name its encoding, "
            "such as --encoding cp1252.",
        ),
        (
            b"\xef\xbb\xbfsmiles,name\nN,caf\xe9\n",
            "data.csv, line 2: byte 0xe9 at offset 20 is not UTF-8; save the file as UTF-8, or name its encoding, "
            "such as --encoding cp1252.",
        ),
        (
            "a,b".encode("utf-16"),
            "data.csv: not a CSV file but text in UTF-16; save it as UTF-8, or add --encoding utf-16.",
        ),
        (
            b"PK\x03\x04rest",
            "data.csv: not a CSV file but an Excel workbook or a zip archive; let its name end in "
            ".xlsx, or save the sheet as CSV.",
        ),
        (
            gzip.compress(b"a,b\n1,2\n", mtime=0),
            "data.csv: not a CSV file but gzip-compressed; let its name end in .csv.gz or .tsv.gz.",
        ),
        (b"PAR1....PAR1", "data.csv: not a CSV file but a Parquet file; let its name end in .parquet."),
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
        ('smiles,y\nC,1\n"N,2\n', "data.csv, line 3: not a CSV file (unexpected end of data)." + _QUOTES),
        ('smiles,y\n"C"x,1\n', "data.csv, line 2: not a CSV file (',' expected after '\"')." + _QUOTES),
        (
            "smiles,y,smiles,y,smiles\nC,1,C,2,C\n",
            "data.csv, line 1: two columns have one name: 'smiles' is column 1, 3 and 5; 'y' is column 2 and 4. "
            "Rename one.",
        ),
    ],
)
def test_a_file_that_is_no_table_says_where(tmp_path, content, message):
    assert refused(tmp_path, content) == message


def test_a_row_beyond_the_limit_says_where(tmp_path):
    content = "smiles,y\nC,1\n" + "C" * 200_000 + ",1\nN,2\n"
    assert read_cells(written(tmp_path, content)).frame["smiles"].str.len().tolist() == [1, 200_000, 1]
    expected = (
        'data.csv, line 3: the row that begins here has more than 100,000 bytes. Is a quote (") in it never closed? '
        "Where quotes belong to the text, add --quoting none. If the row is meant to be so long, raise --max-row-bytes."
    )
    with read_limits(max_row_bytes=100_000):
        assert refused(tmp_path, content) == expected
        assert refused(tmp_path, 'smiles,y\nC,1\n"' + "C,1\n" * 50_000) == expected
        # A quote within a cell: Python's csv reads the file.
        assert refused(tmp_path, 'smiles,y\nC5",1\n"' + "C,1\n" * 50_000) == expected
        assert refused(tmp_path, "smiles,y\nC,1\n" + '"' * 200_000) == expected


def test_a_row_of_many_pieces_is_not_passed_over_at_each_of_them(tmp_path, monkeypatch):
    from edgewise.learn.tables import scan

    sizes, pass_over = [], scan._scan_chunk
    monkeypatch.setattr(
        scan, "_scan_chunk", lambda name, piece, *rest: sizes.append(len(piece)) or pass_over(name, piece, *rest)
    )
    cells = read_cells(written(tmp_path, f"a,b\n{'x' * 3_000_000},1\n\n2,3\n"))
    assert (cells.frame["a"].str.len().tolist(), cells.lines.tolist()) == ([3_000_000, 1], [2, 4])
    assert sum(sizes) < 4 * 3_000_000


def test_the_line_of_a_fault_far_behind(tmp_path):
    good = "a,b\n" + "1,2\n" * 100_000
    assert refused(tmp_path, good + "1,\0\n") == "data.csv, line 100002: not a CSV file, it holds a zero byte."
    for name, content in (("data.csv", good.encode()), ("data.csv.gz", None)):
        bad = good.encode() + b"1,\xff\n"
        message = refused(tmp_path, bad if content else gzip.compress(bad), name)
        assert message.startswith(f"{name}, line 100002: byte 0xff at offset 400006 is not UTF-8")


def test_a_table_with_too_many_columns_says_so(tmp_path):
    with read_limits(max_columns=1_000):
        for header in (",".join(map(str, range(1_001))), 'x"y,' + ",".join(map(str, range(1_000)))):
            assert refused(tmp_path, f"{header}\n") == (
                "data.csv, line 1: 1,001 columns, expected at most 1,000; if the table is meant to be so wide, raise "
                "--max-columns."
            )
        pd.DataFrame({str(place): [1] for place in range(1_001)}).to_parquet(tmp_path / "a.parquet")
        with pytest.raises(DataError, match=r"1,001 columns, expected at most 1,000"):
            read_cells(tmp_path / "a.parquet")
    with pytest.raises(SettingError, match="--max-columns is 0; expected at least 1"), read_limits(max_columns=0):
        pass


def test_a_packed_table_that_unpacks_to_very_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("edgewise.learn.tables.options._FREE", 2**18)
    message = refused(tmp_path, gzip.compress(b"a,b\n" + b"1,2\n" * 2**18), "a.csv.gz")
    assert "or more, over 100 times as many; if the file is what it should be, raise --max-unpack-ratio." in message
    pd.DataFrame({"a": np.zeros(2**18, dtype=np.int64)}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match="raise --max-unpack-ratio"):
        read_cells(tmp_path / "a.parquet")
    with read_limits(max_unpack_ratio=100_000):
        assert len(read_cells(tmp_path / "a.csv.gz").frame) == 2**18


CELL = st.text('ab ,;"\n\r\té', max_size=4)


@given(st.data())
def test_the_fast_reader_reads_what_pythons_csv_reads(data):
    """Tables of all kinds, written well or badly: the same cells, lines and errors, whichever reads them."""
    content = data.draw(st.text('ab,"\n\r \té', max_size=30))
    if data.draw(st.booleans()):
        width = data.draw(st.integers(1, 3))
        buffer = io.StringIO(newline="")
        rows = data.draw(st.lists(st.lists(CELL, min_size=width, max_size=width), max_size=5))
        quoting = data.draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
        ending = data.draw(st.sampled_from(["\n", "\r\n"]))
        csv.writer(buffer, quoting=quoting, lineterminator=ending).writerows([["x", "y", "z"][:width], *rows])
        content = buffer.getvalue()

    def outcome():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.csv"
            path.write_bytes(content.encode())
            try:
                cells = read_cells(path)
            except DataError as error:
                return str(error).replace(folder, "")
        return cells.frame.to_dict("list"), cells.lines.tolist()

    found = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edgewise.learn.tables.delimited.DelimitedFile._columns", lambda _: None)
        assert found == outcome()


@pytest.mark.parametrize(
    ("content", "line"),
    [("id;x;y\na;1,5;2,5\n", 2), ("id;x\na;2\nb;1,5\n", 3)],
)
def test_decimal_commas_between_semicolons_are_named(tmp_path, content, line):
    message = refused(tmp_path, content)
    assert message.startswith(f"data.csv, line {line}: ")
    assert message.endswith(
        "but the header has 1 column. Its first line looks separated by ';': add --delimiter ';'. For numbers with a "
        "decimal comma, add --decimal ','."
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("data.xls", "data.xls: its name ends in '.xls', expected .csv, .tsv, .csv.gz, .tsv.gz, .xlsx or .parquet."),
        ("data.gz", "data.gz: its name ends in '.gz', expected .csv, .tsv, .csv.gz, .tsv.gz, .xlsx or .parquet."),
        ("data", "data: its name ends in '', expected .csv, .tsv, .csv.gz, .tsv.gz, .xlsx or .parquet."),
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
        f"{tmp_path}: is a folder, expected a file that ends in .csv, .tsv, .csv.gz, .tsv.gz, .xlsx or .parquet."
    )


def test_damaged_archives(tmp_path):
    whole = gzip.compress(CSV.encode() * 50, mtime=0)
    assert refused(tmp_path, whole[: len(whole) // 2], "a.csv.gz").startswith(
        "a.csv.gz: it is named .gz, but cannot be unpacked (Compressed file ended"
    )
    assert refused(tmp_path, CSV, "a.csv.gz") == (
        "a.csv.gz: it is named .gz, but cannot be unpacked (Not a gzipped file (b'sm'))."
    )
    assert refused(tmp_path, CSV, "a.parquet").startswith("a.parquet: it is named .parquet, but cannot be read (")


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
        "the file has 'smiles;y'. Its first line looks separated by ';': add --delimiter ';'."
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
    arrays = {"smiles": np.array([["C", "N"], ["O", None]]), "target": [0.1 + 0.2, None], "group": [3, 10]}
    cells, columns = cells_from_arrays(arrays)
    assert columns == {"smiles": ("smiles_1", "smiles_2"), "target": ("target",), "group": ("group",)}
    assert {name: cells.texts(name) for name in cells.frame} == {
        "smiles_1": ["C", "O"],
        "smiles_2": ["N", ""],
        "target": ["0.30000000000000004", ""],
        "group": ["3", "10"],
    }
    assert cells.lines.tolist() == [1, 2]


@pytest.mark.parametrize("as_given", [list, np.array, pd.Series], ids=["list", "array", "series"])
def test_numbers_of_arrays_never_become_text(monkeypatch, as_given):
    from edgewise.learn.readers.molecules.data import molecules_from_arrays

    def only_text(value):
        assert isinstance(value, str), f"{value!r} was written as text"
        return value

    for module in ("cell", "read"):
        monkeypatch.setattr(f"edgewise.learn.tables.{module}.as_text", only_text)
    numbers = as_given([0.1 + 0.2, 2.0, 3.0])
    how = {"conditions": numbers, "weights": numbers, "with_descriptors": False}
    table = molecules_from_arrays(["C", "CC", "CCC"], numbers, **how)
    assert table.rows.targets[:, 0].tolist() == table.rows.weights.tolist() == table.conditions[:, 0].tolist()
    assert table.rows.targets[0, 0] == 0.1 + 0.2


def test_of_numbers_that_are_labels_each_is_written_once():
    from edgewise.learn.readers.molecules.data import molecules_from_arrays

    for labels in ([0, 1, 1], np.array([0.0, 1.0, 1.0]), np.array([0, 1, 1], dtype=np.uint8)):
        table = molecules_from_arrays(["C", "CC", "CCC"], labels, task_type="classification", with_descriptors=False)
        assert (table.rows.classes, table.rows.targets[:, 0].tolist()) == ({"target": ["0", "1"]}, [0, 1, 1])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"smiles": ["C", "N"], "target": [1.0]}, "target has 1 row, but smiles has 2."),
        ({"smiles": np.zeros((1, 1, 1))}, "smiles has 3 axes, expected (row,) or (row, column)."),
        ({"smiles": []}, "smiles is empty, expected at least one row."),
    ],
)
def test_arrays_that_do_not_fit(arrays, message):
    with pytest.raises(DataError) as caught:
        cells_from_arrays(arrays)
    assert str(caught.value) == message


def test_all_columns_that_cannot_be_read_are_named_at_once(tmp_path):
    from edgewise.learn.readers.molecules.data import Columns, read_molecules

    path = written(tmp_path, "smiles,a,b,c,y\nC,x,1,u,1\nCC,y,2,,3\n")
    columns = Columns(smiles_columns=("smiles",), target_columns=("y",), descriptors_columns=("a", "b", "c"))
    with pytest.raises(DataError) as caught:
        read_molecules(path, columns, with_descriptors=False)
    assert str(caught.value).endswith(
        "none of its 2 rows can be used; line 2, a: 'x' is not a number. No cell of 'c' can be read either: "
        "'u' is not a number."
    )
