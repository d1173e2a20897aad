"""A table in chunks: together they are what is read whole, from whichever kind of file, and errors are the same."""

import csv
import gzip
import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from edgewise.errors import DataError
from edgewise.learn.tables.options import TableFormat
from edgewise.learn.tables.read import TableChunks, read_cells


@pytest.fixture(autouse=True)
def every_file_is_large(monkeypatch):
    monkeypatch.setattr("edgewise.learn.tables.read.WHOLE_BYTES", 0)


def joined(chunks):
    """The chunks below each other, and the rows of each."""
    parts = list(chunks)
    frame = pd.concat([cells.frame for cells in parts], ignore_index=True)
    assert [cells.first_row for cells in parts] == np.cumsum([0, *map(len, (c.lines for c in parts))])[:-1].tolist()
    return frame, np.concatenate([cells.lines for cells in parts]), [len(cells.lines) for cells in parts]


def assert_as_whole(path, rows, **form):
    whole = read_cells(path, TableFormat(**form))
    frame, lines, sizes = joined(TableChunks(path, rows, TableFormat(**form)))
    assert frame.to_dict("list") == whole.frame.to_dict("list")
    assert lines.tolist() == whole.lines.tolist()
    assert set(sizes[:-1]) <= {rows} and 0 < sizes[-1] <= rows
    return frame


NUMBERS = "".join(f"{place},{'x' * (place % 7)},{place / 8}\n" for place in range(200_000))


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet"])
def test_files_of_several_blocks(tmp_path, name):
    content, path = "n,text,value\n" + NUMBERS, tmp_path / name
    assert len(content) > 2 * 2**20
    if name.endswith("parquet"):
        parquet.write_table(pa.table(pd.read_csv(io.StringIO(content))), path, row_group_size=70_000)
    else:
        path.write_bytes(gzip.compress(content.encode(), 1) if name.endswith("gz") else content.encode())
    assert TableChunks(path).num_rows == 200_000
    assert_as_whole(path, 30_000)
    chunks = TableChunks(path, 150_000)
    assert [len(cells.lines) for cells in chunks] == [150_000, 50_000]
    assert [len(cells.lines) for cells in chunks] == [150_000, 50_000], "they can be read again"


@given(st.data())
def test_any_csv_is_the_same_in_chunks(tmp_path_factory, data):
    width = data.draw(st.integers(1, 3))
    cell = st.text(st.sampled_from('ab ,;"\n\r1é'), max_size=4)
    rows = data.draw(st.lists(st.lists(cell, min_size=1, max_size=width), max_size=12))
    buffer = io.StringIO()
    quoting = data.draw(st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]))
    csv.writer(buffer, quoting=quoting).writerows([["x", "y", "z"][:width], *rows])
    path = tmp_path_factory.mktemp("any") / "a.csv"
    path.write_bytes(buffer.getvalue().encode() + data.draw(st.sampled_from([b"", b"\n", b"\n\n"])))

    def outcome(read):
        try:
            return read()
        except (DataError, UserWarning) as error:  # a suspicious quoted cell is the same one in chunks
            return str(error)

    def in_chunks():
        frame, lines, _ = joined(TableChunks(path, 2))
        return frame.to_dict("list"), lines.tolist()

    def whole():
        cells = read_cells(path)
        return cells.frame.to_dict("list"), cells.lines.tolist()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edgewise.learn.tables.read.WHOLE_BYTES", 0)
        assert outcome(in_chunks) == outcome(whole)


def test_decimal_commas_are_judged_over_the_whole_file(tmp_path):
    rows = [f"{place};1,5" for place in range(50)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["n;x", *rows]) + "\n")
    frame = assert_as_whole(path, 7, delimiter=";", decimal=",")
    assert set(frame["x"]) == {"1.5"}
    path.write_text("\n".join(["n;x", "0;2.5", *rows]) + "\n")
    with pytest.raises(DataError, match=r"a.csv, line 2, column 'x': '2.5' has a point, but --decimal is ','"):
        next(iter(TableChunks(path, 1, TableFormat(delimiter=";", decimal=","))))
    # A column of names is none of numbers, whatever one of its cells looks like.
    path.write_text("n;x\na;2.5\nb;name\n")
    assert assert_as_whole(path, 1, delimiter=";", decimal=",")["x"].tolist() == ["2.5", "name"]


def large(rows, number, line):
    """A file of some megabytes whose row of a number, from 1, is another one."""
    lines = ["smiles,y", *["CCO,1.25"] * rows]
    lines[number] = line
    return "\n".join(lines).encode() + b"\n"


def test_faults_far_into_a_file_are_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(large(300_000, 250_001, "CCO,1,2"))
    with pytest.raises(DataError, match=r"a.csv, line 250002: 3 cells, but the header has 2 columns"):
        list(TableChunks(path))
    path.write_bytes(large(300_000, 250_001, "CCO,é").decode().encode("latin-1"))
    with pytest.raises(DataError, match=r"a.csv, line 250002: byte 0xe9 at offset \d+ is not UTF-8"):
        TableChunks(path)
    path.write_bytes(large(300_000, 250_001, 'C"CO,1'))
    assert joined(TableChunks(path))[0]["smiles"][250_000] == 'C"CO'
    path.write_bytes(b"")
    with pytest.raises(DataError, match=r"a.csv: the file is empty"):
        TableChunks(path)
    path.write_bytes(b"x,y\n")
    with pytest.raises(DataError, match=r"a.csv: the file has a header but no rows"):
        list(TableChunks(path))


def test_a_damaged_parquet_file_is_named(tmp_path):
    path = tmp_path / "a.parquet"
    frame = pd.DataFrame({"x": np.random.default_rng(0).integers(0, 10**9, 200_000)})
    frame.to_parquet(path, row_group_size=20_000)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"a.parquet: it is named .parquet, but cannot be read \(Parquet magic bytes"):
        TableChunks(path)
    third = len(content) // 3
    path.write_bytes(content[:third] + b"\xff" * 4096 + content[third + 4096 :])
    with pytest.raises(DataError, match=r"a.parquet: .*cannot be read after row [0-9,]+ \("):
        list(TableChunks(path))


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_a_line_break_in_a_cell_stays_whole_where_a_block_ends_in_it(tmp_path, name):
    row, path = '"aaaaaa\r\nbbb",1\n', tmp_path / name
    content = ("aaaa,12\n" + row * 2**16).encode()
    assert content[2**20 - 1 : 2**20 + 1] == b"\r\n", "pyarrow reads a mebibyte at a time"
    content = b"x,y\n" + content
    path.write_bytes(gzip.compress(content, 1) if name.endswith("gz") else content)
    assert set(assert_as_whole(path, 10_000)["x"][1:]) == {"aaaaaa\r\nbbb"}
