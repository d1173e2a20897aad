"""Quotes of a text that enclose rows by mistake are said, and can be read as text."""

from pathlib import Path

import pytest

from edgewise.cli.main import main
from edgewise.errors import DataError
from edgewise.learn.progress import collected_remarks
from edgewise.learn.tables.options import TableFormat, table_format
from edgewise.learn.tables.read import TableChunks, read_cells
from edgewise.learn.tables.stream import TableStream

LONG = 2**23 // 100  # rows of a file that is read in chunks


def _write(path: Path, rows: list[tuple[str, ...]]) -> str:
    sign = "\t" if path.suffix == ".tsv" else ","
    path.write_text("".join(f"{sign.join(row)}\n" for row in rows))
    return str(path)


def _reviews(num_rows: int = 24, filling: str = "") -> list[tuple[str, ...]]:
    rows = [("label", "text"), *((str(row % 2), f"film {row} is {row % 7}{filling}") for row in range(num_rows))]
    rows[5] = ("1", '"Good film')
    rows[9] = ("0", 'bad screen 5"')
    return rows


def _whole(name: str) -> int:
    return len(read_cells(name).lines)


def _chunks(name: str) -> int:
    return sum(len(cells.lines) for cells in TableChunks(name))


def _stream(name: str) -> int:
    return sum(chunk.num_rows for chunk in TableStream(name).chunks(["label", "text"]))


@pytest.mark.parametrize("read", [_whole, _chunks, _stream])
@pytest.mark.parametrize("is_careful", [False, True], ids=["fast", "careful"])
@pytest.mark.parametrize("num_rows", [24, LONG])
def test_a_quoted_cell_that_holds_rows_is_said_with_both_lines(read, is_careful, num_rows, tmp_path):
    rows = _reviews(num_rows, " " * 100 if num_rows == LONG else "")
    if is_careful:  # a quote within a cell is for Python's csv
        rows[15] = ("0", 'the so-called "film" of the year')
    name = _write(tmp_path / "reviews.tsv", rows)
    with collected_remarks() as remarks:
        assert read(name) == num_rows - 4
    assert remarks == [
        f"warning: {name}, lines 6 to 10: one quoted cell of 'text' reaches over them and reads as 4 further rows of "
        "the table; if its quotes belong to the text, add --quoting none"
    ]
    with table_format(TableFormat(quoting="none")), collected_remarks() as remarks:
        assert read(name) == num_rows
    assert remarks == []


@pytest.mark.parametrize("first", [True, False], ids=["text first", "text last"])
def test_two_lines_are_enough_and_cells_are_counted(first, tmp_path):
    rows = [(f"text {row}", str(row / 10)) for row in range(20)]
    rows[3], rows[4] = ('"one', "0.5"), ('two"', "0.7")
    rows[8], rows[10] = ('"one', "0.5"), ('two"', "0.7")
    if not first:
        rows = [row[::-1] for row in rows]
    name = _write(tmp_path / "table.csv", [("a", "b"), *rows])
    with pytest.warns(UserWarning, match=r"lines 5 to 6: .* 1 further row of .* 1 more such cell, 3 rows in all"):
        assert _whole(name) == 17


@pytest.mark.parametrize(
    "cell",
    ["one\nline\nafter another", "Dear Sir, hello\nbye", "a list:\n\n- one, 5\n- two, 6", "1\n2\n3"],
)
@pytest.mark.filterwarnings("error")
def test_texts_of_several_lines_are_not_suspect(cell, tmp_path):
    rows = [("text", "label"), *((f"text {row}", "good" if row % 2 else "bad") for row in range(12))]
    rows[4] = (f'"{cell}"', "good")
    name = _write(tmp_path / "table.csv", rows)
    assert read_cells(name).texts("text")[3] == cell
    rows = [row[::-1] for row in rows]
    name = _write(tmp_path / "table.csv", rows)
    assert read_cells(name).texts("text")[3] == cell


def test_quotes_that_fit_no_cell_come_with_the_remedy(tmp_path):
    rows = [("label", "text"), *(("0", f"text {row}") for row in range(9))]
    rows[4] = ("1", '"good" film')
    name = _write(tmp_path / "table.csv", rows)
    with pytest.raises(DataError, match=r"line 5: not a CSV file .* add --quoting none"):
        read_cells(name)
    rows[4] = ("1", '"good')
    with pytest.raises(DataError, match=r"line 5: not a CSV file .* add --quoting none"):
        read_cells(_write(tmp_path / "table.csv", rows))
    with table_format(TableFormat(quoting="none")):
        assert read_cells(name).texts("text")[3] == '"good'


def test_the_summary_of_a_run_says_it_and_predict_reads_as_the_run_did(tmp_path, capsys):
    name, run = _write(tmp_path / "reviews.tsv", _reviews(40)), str(tmp_path / "run")
    command = [name, "--text-column", "text", "--target-columns", "label", "-o", run, "--epochs", "1"]
    small = ["--model-dim", "8", "--num-layers", "1", "--no-baselines"]
    assert main(["train", "texts", *command, *small]) == 0
    assert "lines 6 to 10: one quoted cell of 'text'" in capsys.readouterr().out
    assert main(["predict", run, name, "-o", str(tmp_path / "out.csv")]) == 0
    assert "lines 6 to 10: one quoted cell of 'text'" in capsys.readouterr().err
    assert main(["train", "texts", *command, *small, "--quoting", "none", "--overwrite"]) == 0
    assert "40 rows" in capsys.readouterr().out
    assert main(["predict", run, name, "-o", str(tmp_path / "text.csv")]) == 0
    captured = capsys.readouterr().err
    assert "40 of 40 rows predicted" in captured and "quoted" not in captured


def test_in_a_single_column_a_cell_of_several_lines_is_suspect_where_it_is_the_only_one(tmp_path):
    lines = [f"line {number}" for number in range(20)]
    lines[5], lines[9] = '"Good', 'bad 5"'
    name = _write(tmp_path / "texts.csv", [("text",), *((line,) for line in lines)])
    with pytest.warns(UserWarning, match=r"lines 7 to 11: one quoted cell of 'text' .* reads as 4 further rows"):
        assert _whole(name) == 16
    lines[12] = '"as meant\nhere"'
    name = _write(tmp_path / "texts.csv", [("text",), *((line,) for line in lines)])
    with collected_remarks() as remarks:
        assert len(read_cells(name).lines) == 16
    assert remarks == []
    name = _write(tmp_path / "few.csv", [("text",), ("a b",), ('"Good',), ("c d",), ('bad 5"',)])
    with pytest.warns(UserWarning, match=r"lines 3 to 5: one quoted cell of 'text' .* reads as 2 further rows"):
        assert _whole(name) == 2
