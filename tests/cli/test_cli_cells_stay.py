"""Cells of the input come back byte for byte, whatever a model reads in them."""

import csv
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from cli_tables import SMALL, molecules

ETHANOL = "InChI=1S/C2H6O/c1-2-3/h3H,2H2,1H3"
CELLS = {
    "note": (" blanks ", "=1+1", 'a "quote"', "two\nlines", "1.50", "1e3", "", "NaN", "é\u2028", "'"),
    "y": ("1.50", " 2", "3e0", "+4", "05", "6.0", "7", "8.", "9.000", "1e1"),
}


def _rows(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _write(path: Path, columns: dict[str, list[str]]) -> Path:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def _columns(**first: list[str]) -> dict[str, list[str]]:
    return {**first, **{name: [cells[row % 10] for row in range(40)] for name, cells in CELLS.items()}}


@pytest.mark.parametrize("way", ["memory", "mapped"])
@pytest.mark.parametrize("task", ["molecules", "texts"])
def test_cells_of_tables_stay(task, way, edgewise, tmp_path, monkeypatch):
    if way == "mapped":
        monkeypatch.setattr("edgewise.learn.tables.mapped.MAPPED_ROWS", 20)
        monkeypatch.setattr("edgewise.learn.tables.read.WHOLE_BYTES", 0)
    if task == "molecules":
        texts = [ETHANOL if row % 3 == 0 else f" {text}" for row, text in enumerate(molecules())]
        words = ["--smiles-columns", "input", *SMALL]
    else:
        texts = [f" Text of the row,\n{row % 7} " for row in range(40)]
        words = ["--text-columns", "input", "--model-dim", 8, "--num-layers", 1, "--epochs", 1]
    columns = _columns(input=texts)
    data, run = _write(tmp_path / "data.csv", columns), tmp_path / "run"
    words += ["--target-columns", "y", "--task-type", "regression", "--no-baselines"]
    code, _, err = edgewise("train", task, data, *words, "-o", run)
    assert code == 0, err
    code, _, err = edgewise("predict", run, data, "-o", tmp_path / "out.csv")
    assert code == 0, err

    assert [[row[name] for name in columns] for row in _rows(tmp_path / "out.csv")] == list(
        map(list, zip(*columns.values(), strict=True))
    )
    tested = _rows(run / "test_predictions.csv")
    assert tested
    for row in tested:
        assert {name: row[name] for name in columns} == {
            name: cells[int(row["row_in_data"])] for name, cells in columns.items()
        }


def test_numbers_with_a_decimal_comma_stay(edgewise, tmp_path):
    """They came back with a point, in columns of names, too; and test rows of such a run could not be explained."""
    columns = {
        "smiles": molecules(),
        "kelvin": [f"{row},50" for row in range(40)],
        "name": [f"{row},{row}" for row in range(40)],
        "y": [f"{len(text)},0" for text in molecules()],
    }
    rows = [";".join(row) for row in zip(*columns.values(), strict=True)]
    (tmp_path / "data.csv").write_text("\n".join([";".join(columns), *rows]) + "\n")
    data, run, out = tmp_path / "data.csv", tmp_path / "run", tmp_path / "out.csv"
    words = ["--smiles-columns", "smiles", "--descriptors-columns", "kelvin", "--target-columns", "y", "--no-baselines"]
    code, _, err = edgewise("train", data, *words, "--delimiter", ";", "--decimal", ",", *SMALL, "-o", run)
    assert code == 0, err
    assert edgewise("predict", run, data, "-o", out)[0] == 0
    assert [[row[name] for name in columns] for row in _rows(out)] == [row.split(";") for row in rows]
    code, _, err = edgewise("explain", run, "-o", tmp_path / "explained.json")
    assert code == 0, err


def test_columns_of_parquet_keep_their_types_and_bytes_are_texts(edgewise, tmp_path, trained_run, monkeypatch):
    """Numbers, dates and truth values came back as texts, and bytes as `b'...'`, which the model read so."""
    monkeypatch.setattr("edgewise.learn.tables.read.CHUNK_ROWS", 2)
    monkeypatch.setattr("edgewise.learn.tables.read.WHOLE_BYTES", 0)
    columns = {
        "text": pa.array([b"a fine film", b"a dull film", b"fine acting"], pa.binary()),
        "number": pa.array([1, None, 3], pa.int32()),
        "fraction": pa.array([0.1, None, 1e5], pa.float32()),
        "is_new": pa.array([True, None, False]),
        "day": pa.array([date(2024, 2, 29)] * 3),
        "moment": pa.array([datetime(2024, 2, 29, 1, 2)] * 3, pa.timestamp("ns", tz="Europe/Berlin")),
        "kind": pa.array(["a", None, "b"]).dictionary_encode(),
        "picture": pa.array([b"\xff\x00", None, b""], pa.binary()),
        "large": pa.array([2**53 + 1, None, -(2**63)], pa.int64()),
        "largest": pa.array([2**64 - 1, None, 0], pa.uint64()),
        "price": pa.array([Decimal("1.10"), None, Decimal("-0.05")], pa.decimal128(20, 2)),
        "several": pa.array([[1, 2], None, []], pa.list_(pa.int64())),
        "nothing": pa.nulls(3),
    }
    data, out = tmp_path / "data.parquet", tmp_path / "out.parquet"
    parquet.write_table(pa.table(columns), data)
    run = trained_run("texts")
    assert edgewise("predict", run, data, "-o", out)[0] == 0
    found = parquet.read_table(out)
    assert found.schema.field("label_pred") and found.num_rows == 3
    for name, values in columns.items():
        assert found[name].type == values.type and found[name].to_pylist() == values.to_pylist()
    assert edgewise("predict", run, data, "-o", tmp_path / "out.csv")[0] == 0
    assert [row["text"] for row in _rows(tmp_path / "out.csv")] == ["a fine film", "a dull film", "fine acting"]


def test_columns_that_pandas_wrote_have_its_types_again(edgewise, tmp_path, trained_run):
    """The file said beside each column that it is text, so that pandas made text of it again."""
    numbers = pd.array([1, None, 3], dtype="Int64")
    frame = pd.DataFrame({"text": ["a fine film", "a dull film", "fine"], "number": numbers, "several": [[1], [], [2]]})
    frame = frame.assign(count=[1, 2, 3], day=pd.date_range("2024-02-28", periods=3), row=[7, 8, 9]).set_index("row")
    frame.to_parquet(tmp_path / "data.parquet")
    assert edgewise("predict", trained_run("texts"), tmp_path / "data.parquet", "-o", tmp_path / "out.parquet")[0] == 0
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out.parquet")[list(frame.columns)], frame)


def test_the_unnamed_index_of_pandas_comes_back(edgewise, tmp_path, trained_run):
    frame = pd.DataFrame({"text": ["a fine film", "a dull film", "fine"]}, index=[5, 0, 3])
    frame.to_parquet(tmp_path / "data.parquet")
    assert edgewise("predict", trained_run("texts"), tmp_path / "data.parquet", "-o", tmp_path / "out.parquet")[0] == 0
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out.parquet")[["text"]], frame)


def test_cells_of_a_table_of_graphs_stay(edgewise, tmp_path):
    columns = _columns(graph=[f" g{row} " if row % 2 else f"g{row}" for row in range(40)])
    graphs, run = _write(tmp_path / "graphs.csv", columns), tmp_path / "run"
    nodes = {"node": [str(node) for node in range(80)], "graph": [f"g{node // 2}" for node in range(80)]}
    nodes = _write(tmp_path / "nodes.csv", {**nodes, "x": [str(node % 7) for node in range(80)]})
    edges = _write(
        tmp_path / "edges.csv",
        {side: [str(2 * g + n) for g in range(40)] for n, side in enumerate(("source", "target"))},
    )
    tables = ["--graphs", graphs, "--edges", edges]
    words = [nodes, *tables, "--graph-column", "graph", "--descriptors-columns", "x", "--target-columns", "y"]
    words += ["--task-type", "regression", "--model-dim", 8, "--num-layers", 1, "--epochs", 1, "--no-baselines"]
    code, _, err = edgewise("train", "graphs", *words, "-o", run)
    assert code == 0, err
    code, _, err = edgewise("predict", run, nodes, *tables, "-o", tmp_path / "out.csv")
    assert code == 0, err

    written = _rows(tmp_path / "out.csv")
    assert [[row[name] for name in columns] for row in written] == list(map(list, zip(*columns.values(), strict=True)))
