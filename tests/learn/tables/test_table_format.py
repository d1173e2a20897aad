"""Other delimiters, decimal commas, encodings, Excel workbooks and InChI."""

import gzip
from datetime import date, datetime

import openpyxl
import pytest

from edgewise.errors import DataError, MissingExtraError, SettingError
from edgewise.learn.readers.molecules.data import molecules_from_arrays, read_molecules
from edgewise.learn.readers.texts.tokenizer import Tokenizer, read_text
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tables.options import TableFormat, table_format
from edgewise.learn.tables.read import read_cells
from edgewise.learn.tasks.report.evaluation import _cells
from edgewise.learn.training.folder import RunFolder

SEMICOLON = "smiles;y;note\nCCO;1,50;a, b\nC;-,5e1;1.2.3\n"
FORM = TableFormat(delimiter=";", decimal=",")
ETHANOL = "InChI=1S/C2H6O/c1-2-3/h3H,2H2,1H3"


def written(tmp_path, content: str | bytes, name: str = "data.csv") -> str:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def refused(path: str, form: TableFormat = TableFormat()) -> str:
    """The message for a file, without its folder."""
    with pytest.raises(DataError) as caught:
        read_cells(path, form)
    return str(caught.value).replace(f"{path.rpartition('/')[0]}/", "")


def workbook(tmp_path, rows, change=lambda book: None) -> str:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    change(book)
    path = str(tmp_path / "data.xlsx")
    book.save(path)
    return path


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delimiter": ";;"}, "--delimiter is ';;'; expected one ASCII character"),
        ({"delimiter": ""}, "--delimiter is ''"),
        ({"delimiter": "a"}, "--delimiter is 'a'"),
        ({"delimiter": "¦"}, "--delimiter is '¦'"),
        ({"delimiter": '"'}, "--delimiter is '\"'"),
        ({"decimal": "·"}, "--decimal is '·'; expected '.' or ','"),
        ({"delimiter": ",", "decimal": ","}, "--decimal and --delimiter are both ','"),
        ({"encoding": "utf-9"}, "--encoding is 'utf-9', which Python does not know"),
        ({"encoding": "base64"}, "--encoding is 'base64'"),
        ({"encoding": "a\0b"}, "--encoding is"),
    ],
)
def test_impossible_formats_are_refused(options, message):
    with pytest.raises(SettingError) as caught:
        TableFormat(**options)
    assert str(caught.value).startswith(message)


def test_the_tab_has_names():
    assert {TableFormat(delimiter=name).delimiter for name in ("tab", "\\t", "\t")} == {"\t"}


@pytest.mark.parametrize("name", ["data.csv", "data.tsv.gz"])
def test_numbers_with_a_decimal_comma_get_a_point(tmp_path, name):
    content = gzip.compress(SEMICOLON.encode()) if name.endswith("gz") else SEMICOLON
    cells = read_cells(written(tmp_path, content, name), FORM)
    assert cells.frame.to_dict("list") == {
        "smiles": ["CCO", "C"], "y": ["1.50", "-.5e1"], "note": ["a, b", "1.2.3"],
    }  # fmt: skip


@pytest.mark.parametrize("cells", ["1,5\n1.234,5", "1,5\n1.234", "12\n1.234", "1.234.567\nnan"])
def test_a_point_beside_a_decimal_comma_is_ambiguous(tmp_path, cells):
    message = refused(written(tmp_path, f"y\n{cells}\n"), FORM)
    assert "column 'y': '1.234" in message
    assert "has a point, but --decimal is ','; write all numbers with a comma and without thousands" in message


@pytest.mark.parametrize("other", ["01.02.2020", "1.2.3", "10.0.0.1"])
def test_dates_and_versions_are_no_numbers_with_a_point(tmp_path, other):
    path = written(tmp_path, f"y;other\n1,5;{other}\n2;{other}\n")
    assert read_cells(path, FORM).frame.to_dict("list") == {"y": ["1.5", "2"], "other": [other, other]}


def test_numbers_of_a_sheet_have_no_decimal_separator(tmp_path):
    """They were refused under a decimal comma for the point that they are written with; texts obey the comma."""
    path = workbook(tmp_path, [("y", "n"), (0.5, 1.25), ("1,5", "a"), (2, True)])
    cells = read_cells(path, FORM)
    assert cells.frame.to_dict("list") == {"y": ["0.5", "1.5", "2"], "n": ["1.25", "a", "True"]}
    assert cells.as_written["y"].tolist() == ["0.5", "1,5", "2"]
    path = workbook(tmp_path, [("y",), (0.5,), ("1.5",)])
    assert "data.xlsx, line 3, column 'y': '1.5' has a point, but --decimal is ','" in refused(path, FORM)


def test_readers_take_the_format_of_the_command(tmp_path):
    path = written(tmp_path, SEMICOLON)
    with table_format(FORM):
        table = read_molecules(path, Columns(smiles_columns=("smiles",), target_columns=("y",)), with_descriptors=False)
    assert table.rows.targets[:, 0].tolist() == [1.5, -5.0]
    assert "add --delimiter ';'" in refused(path)


def test_files_of_edgewise_and_of_checkpoints_keep_their_own_format(tmp_path):
    written(tmp_path, "y,y_pred\n1.5,2\n", "test_predictions.csv")
    vocabulary = written(tmp_path, "[UNK]\ncafé\n", "vocab.txt")
    with table_format(TableFormat(delimiter=";", decimal=",", encoding="utf-16")):
        assert _cells(RunFolder(tmp_path)) == ({"y": ["1.5"], "y_pred": ["2"]}, 1)
        assert len(Tokenizer.from_word_pieces(vocabulary)) == 2


@pytest.mark.parametrize(("encoding", "pack"), [("cp1252", False), ("utf-16", False), ("latin-1", True)])
def test_files_in_another_encoding(tmp_path, encoding, pack):
    content = 'name,y\r\ncafé,1\r\n"é\r\n",2\r\n'.encode(encoding)
    path = written(tmp_path, gzip.compress(content) if pack else content, "a.csv.gz" if pack else "a.csv")
    cells = read_cells(path, TableFormat(encoding=encoding))
    assert cells.frame["name"].tolist() == ["café", "é\r\n"]
    assert cells.lines.tolist() == [2, 3]
    path = written(tmp_path, "café\n".encode("utf-16"), "a.txt")
    with table_format(TableFormat(encoding="utf-16")):
        assert read_text(path) == "café\n"


def test_a_byte_that_does_not_decode_names_its_line(tmp_path):
    path = written(tmp_path, b"a,b\n1,2\n3,\x81\n")
    assert refused(path, TableFormat(encoding="cp1252")) == (
        "data.csv, line 3: byte 0x81 at offset 10 is not cp1252; name another --encoding, or save the file as UTF-8 "
        "and leave --encoding out."
    )
    assert refused(path).endswith("name its encoding, such as --encoding cp1252.")
    assert "is not utf-16" in refused(written(tmp_path, b"\xff\xfea"), TableFormat(encoding="utf-16"))


def test_a_sheet_is_a_table(tmp_path):
    rows = [
        (),
        (None, "smiles", "y", "day", "n"),
        (None, "C", 0.1, date(2024, 2, 29), 3),
        (),
        (None, "N", "#N/A", datetime(2024, 1, 1, 12, 30), None),
    ]
    cells = read_cells(workbook(tmp_path, rows))
    assert cells.frame.to_dict("list") == {
        "smiles": ["C", "N"],
        "y": ["0.1", ""],
        "day": ["2024-02-29", "2024-01-01 12:30:00"],
        "n": ["3", ""],
    }
    assert cells.lines.tolist() == [3, 5]


def test_sheets_by_name(tmp_path):
    def change(book):
        book.active.title = "first"
        book.active.sheet_state = "hidden"
        for number, title in enumerate(("second", "third")):
            book.create_sheet(title).append(["y"])
            book[title].append([number])

    path = workbook(tmp_path, [("y",), (7,)], change)
    values = {sheet: read_cells(path, TableFormat(sheet=sheet)).frame["y"].tolist() for sheet in ("first", "third")}
    assert values == {"first": ["7"], "third": ["1"]}
    assert read_cells(path).frame["y"].tolist() == ["0"], "the first sheet is hidden"
    assert refused(path, TableFormat(sheet="Third")) == (
        "data.xlsx: no sheet 'Third'; the workbook has 'first' (hidden), 'second', 'third'. Name one with --sheet."
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("y",), ("=1+1",)], "data.xlsx, cell A2: the formula lacks a computed value; open the workbook in Excel"),
        ([], "data.xlsx: the sheet 'Sheet' is empty"),
        ([("y",)], "data.xlsx: the sheet has a header but no rows."),
        ([("y", "y"), (1, 2)], "data.xlsx, line 1: two columns have one name"),
        ([("y",), (1,), (2, 3)], "data.xlsx, line 3: a cell stands in a column without a name; name it in line 1."),
    ],
)
def test_unusable_sheets(tmp_path, rows, message):
    assert refused(workbook(tmp_path, rows)).startswith(message)


def test_what_is_no_workbook(tmp_path, monkeypatch):
    path = written(tmp_path, "y\n1\n", "data.xlsx")
    assert refused(path) == (
        "data.xlsx: not an Excel workbook (File is not a zip file); save it as .xlsx, without a password."
    )
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=r"openpyxl is not installed: pip install 'edgewise\[excel\]'"):
        read_cells(path)


def test_inchi_is_read_and_its_cells_stay(tmp_path):
    path = written(tmp_path, f'structure,y\n"{ETHANOL}",1\nOCC,2\n"InChI=1S/nonsense",3\n')
    table = read_molecules(path, Columns(smiles_columns=("structure",), target_columns=("y",)))
    assert table.graph_of_row[:, 0].tolist() == [0, 0, -1]
    assert table.rows.cells.frame["structure"].tolist() == [ETHANOL, "OCC", "InChI=1S/nonsense"]
    assert [table.store.smiles[0], len(table.store)] == ["CCO", 1]
    (rejection,) = table.rows.rejected
    assert (rejection.line, rejection.column) == (4, "structure")
    assert rejection.reason == "'InChI=1S/nonsense' is not an InChI that RDKit can read"
    long = "InChI=1S/" + "C" * 30_000
    assert "too many for 500 atoms" in molecules_from_arrays(["C", long], [1.0, 2.0]).rows.rejected[0].reason
