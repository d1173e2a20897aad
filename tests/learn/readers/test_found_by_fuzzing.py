"""Inputs that the attacks of `tests/attack` found: each raised another error than ours, or was read wrongly."""

import gzip
import sqlite3
import zipfile

import pyarrow as pa
import pytest
from pyarrow import parquet

from edgewise.errors import DataError, SettingError
from edgewise.interop.graphml import read_graphml
from edgewise.learn.networks.graph_settings import NodeSettings
from edgewise.learn.readers.molecules.bounded import featurize
from edgewise.learn.readers.molecules.cache import FeatureCache
from edgewise.learn.readers.molecules.descriptor import DESCRIPTOR_NAMES
from edgewise.learn.readers.molecules.limits import MoleculeLimits
from edgewise.learn.readers.texts.data import read_texts
from edgewise.learn.readers.texts.pairs import read_corpus, read_pairs
from edgewise.learn.readers.texts.tags import read_tagged
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tables.read import read_cells
from edgewise.learn.tasks.registry import settings_of

MARKS = "one\u2028\x85\x0c two"
"""Signs at which `str.splitlines` ends a line, and no editor does."""


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_line_of_text_ends_where_those_of_a_table_end(tmp_path, end):
    text, other = tmp_path / "a.txt", tmp_path / "b.txt"
    text.write_bytes(f"{MARKS}{end}three{end}".encode())
    other.write_bytes(f"eins{end}{MARKS}".encode())
    lines = read_texts([str(text)], Columns(text_columns=("text",)), need_targets=False)
    assert lines.rows.cells.frame["text"].tolist() == [MARKS, "three"]
    assert read_corpus([str(text)], ()).texts == [MARKS, "three"]
    pairs = read_pairs([str(text), str(other)], (), ())
    assert (pairs.sources, pairs.targets) == ([MARKS, "three"], ["eins", MARKS])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_file_of_tagged_words_may_have_lines_of_any_program(tmp_path, end):
    columns, objects = tmp_path / "a.conll", tmp_path / "a.jsonl"
    columns.write_bytes(end.join(["EU B-ORG", "says O", "", "no O", ""]).encode())
    objects.write_bytes(end.join(['{"tokens": ["no"], "tags": ["O"]}'] * 2).encode())
    assert read_tagged([str(columns)]).words == [["EU", "says"], ["no"]]
    assert read_tagged([str(objects)]).words == [["no"], ["no"]]


@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
def test_a_mark_behind_the_header_stays_in_its_cell(tmp_path, suffix):
    path, content = tmp_path / f"table.{suffix}", "\ufeffword,y\n\ufeffa,1\n\ufeffb,2\n".encode()
    path.write_bytes(gzip.compress(content) if suffix == "csv.gz" else content)
    cells = read_cells(path)
    assert (list(cells.frame), cells.texts("word")) == (["word", "y"], ["\ufeffa", "\ufeffb"])


def test_parquet_that_holds_no_utf8_is_named(tmp_path):
    path = tmp_path / "table.parquet"
    not_utf8 = pa.StringArray.from_buffers(1, pa.py_buffer(bytes([0, 0, 0, 0, 2, 0, 0, 0])), pa.py_buffer(b"\xff\xfe"))
    parquet.write_table(pa.table({"word": not_utf8}), path)
    with pytest.raises(DataError, match=r"table\.parquet: it is named \.parquet, but cannot be read \(.*UTF8"):
        read_cells(path)


def test_parquet_whose_columns_have_names_that_are_no_utf8_is_named(tmp_path):
    path = tmp_path / "table.parquet"
    parquet.write_table(pa.table({"wordless": ["a"]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"wordless", b"\xff\xff\xff\xff\xff\xff\xff\xff"))
    with pytest.raises(DataError, match=r"table\.parquet: it is named \.parquet, but cannot be read \('utf-8' codec"):
        read_cells(path)


def test_a_workbook_whose_parts_have_names_that_are_no_utf8_is_named(tmp_path):
    path = tmp_path / "table.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("é/sheet", "1")
    path.write_bytes(path.read_bytes().replace("é".encode(), b"\xff\xfe"))
    with pytest.raises(DataError, match=r"table\.xlsx: not an Excel workbook \('utf-8' codec"):
        read_cells(path)


def test_parquet_that_holds_fewer_rows_than_it_declares_is_named(tmp_path):
    path = tmp_path / "table.parquet"
    parquet.write_table(pa.table({"y": [1, 2, 3]}), path, compression="none", store_schema=False)
    content = path.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    footer = content[start:-8]
    assert footer.count(b"\x16\x06\x19") == 1  # Thrift: a whole number, 3, and the list of row groups
    path.write_bytes(content[:start] + footer.replace(b"\x16\x06\x19", b"\x16\x08\x19") + content[-8:])
    with pytest.raises(DataError, match=r"table\.parquet: the file is damaged, it declares 4 rows, but holds 3\."):
        read_cells(path)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ((b'"double"', b'"doubl"'), "KeyError\\('doubl'\\)"),
        ((b">0.5<", b">half<"), "could not convert string to float"),
    ],
)
def test_graphml_of_unknown_types_or_words_for_numbers_is_named(tmp_path, damage, reason):
    path = tmp_path / "graph.graphml"
    written = (
        b'<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key id="w" for="edge" attr.name="w" '
        b'attr.type="double"/><graph edgedefault="directed"><node id="a"/><node id="b"/><edge source="a" target="b">'
        b'<data key="w">0.5</data></edge></graph></graphml>'
    )
    path.write_bytes(written.replace(*damage))
    with pytest.raises(DataError, match=rf"graph\.graphml is not GraphML of one graph: {reason}"):
        read_graphml(path)


def test_a_damaged_cache_of_molecules_is_computed_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEWISE_CACHE", str(tmp_path))
    smiles = ["C" * length for length in range(1, 65)]
    usual = list(featurize(smiles, MoleculeLimits(), DESCRIPTOR_NAMES))
    path = tmp_path / "edgewise-molecules.sqlite"
    content = path.read_bytes()
    assert content.count(b"tablemoleculesmolecules") == 1
    path.write_bytes(content.replace(b"tablemoleculesmolecules", b"tablemolec\xf5lesmolecules"))
    with pytest.raises(UnicodeDecodeError):
        sqlite3.connect(path).execute("SELECT * FROM molecules")
    again = list(featurize(smiles, MoleculeLimits(), DESCRIPTOR_NAMES))
    assert [each.canonical for each in again] == [each.canonical for each in usual]


@pytest.mark.parametrize("name", ["num_virtual_nodes", "expander_degree"])
def test_a_graph_is_not_extended_beyond_memory_because_a_file_says_so(name):
    with pytest.raises(SettingError, match="1024"):
        NodeSettings(model="attention", **{name: 10**9})


def test_a_number_that_no_float_can_hold_is_refused():
    with pytest.raises(SettingError, match=r"the settings has learning-rate = 1000+; expected float"):
        settings_of("language").of({"data": "a.txt", "learning-rate": 10**400})


def test_a_workbook_with_a_password_is_named(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    path, book = tmp_path / "table.xlsx", openpyxl.Workbook()
    book.active.append(["word", "y"])
    book.active.append(["a", 1])
    book.save(path)
    content = path.read_bytes()
    in_list = content.index(b"xl/styles.xml", content.index(b"PK\x01\x02")) - 46
    flags = content[in_list + 8] | 1
    path.write_bytes(content[: in_list + 8] + bytes([flags]) + content[in_list + 9 :])
    with pytest.raises(DataError, match=r"table\.xlsx: it is named \.xlsx, but cannot be read \(.*encrypted"):
        read_cells(path)


def test_what_a_damaged_index_of_known_molecules_gives_is_passed_over(tmp_path):
    cache = FeatureCache(tmp_path / "molecules.sqlite")

    class Damaged:
        def execute(self, query, names):
            return [(b"", b"of another"), (names[0][:3], b"of another")]

    cache.connection = Damaged()
    assert cache.read(["C", "CC"]) == {}


def test_a_second_mark_is_a_letter_of_the_header(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes("\ufeff\ufeff\n1e3\n".encode())
    cells = read_cells(path)
    assert (list(cells.frame), cells.texts("\ufeff")) == (["\ufeff"], ["1e3"])
