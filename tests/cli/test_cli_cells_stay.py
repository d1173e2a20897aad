"""Cells of the input come back byte for byte, whatever a model reads in them."""

import csv
from pathlib import Path

import pytest

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
        monkeypatch.setattr("edgewise.data.tables.mapped.MAPPED_ROWS", 20)
        monkeypatch.setattr("edgewise.data.tables.read.WHOLE_BYTES", 0)
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
