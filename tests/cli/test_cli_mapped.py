"""Tables that are too large for memory are read into mapped files: the run is the same, byte for byte."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from cli_tables import SMALL, molecules, read_csv, write_csv
from edgewise.learn.tables import mapped, read

FILES = ("model.safetensors", "model.json", "splits.json", "test_predictions.csv", "rejected.csv")
"""What a run leaves that does not hold times or names of files."""


def rows(count: int) -> dict[str, list]:
    """Molecules that come again in other writings and as InChI, with solvents, groups, and cells that are wrong."""
    rings = ["C1CC1", "c1ccncc1", "C1CCCC1", "c1ccoc1", "C1COCCO1", "c1ccc2ccccc2c1", "C1CCNCC1", "c1cscn1"]
    known = molecules()[:32] + rings
    ethanol = ["OCC", "C(O)C", "InChI=1S/C2H6O/c1-2-3/h3H,2H2,1H3"]
    smiles = [ethanol[row % 3] if row % 7 == 0 else known[row * 3 % 40] for row in range(count)]
    smiles[5], smiles[count - 3], smiles[11] = "C1CC", "C1CC", "InChI=1S/no"
    numbers = [f"{len(text) + row % 5 / 10:.2f}" for row, text in enumerate(smiles)]
    numbers[17] = "many"
    return {
        "name": [f"row {row}\nin two lines" for row in range(count)],
        "smiles": smiles,
        "solvent": [known[row % 4] for row in range(count)],
        "kelvin": [str(280 + row % 9) for row in range(count)],
        "y": numbers,
        "lab": [f"lab {row % 12}" for row in range(count)],
        "label": ["high" if len(text) > 6 else "low" for text in smiles],
    }


def flat(scores: dict) -> dict[str, float]:
    """Scores by split, target and name."""
    frame = pd.json_normalize(scores)
    return {} if frame.empty else frame.iloc[0].dropna().to_dict()


@pytest.fixture
def run_both(edgewise, monkeypatch, tmp_path):
    """Trains on files in memory and mapped, and compares what the runs leave; the lines of the mapped one."""

    def run(kind: str, data: list[Path], *words: object) -> str:
        outputs = {}
        for way in ("memory", "mapped"):
            with monkeypatch.context() as patch:
                if way == "mapped":
                    patch.setattr(mapped, "MAPPED_ROWS", 50)
                    patch.setattr(mapped, "ROWS", 32)
                    patch.setattr(read, "CHUNK_ROWS", 24)
                    patch.setattr(read, "WHOLE_BYTES", 0)
                code, outputs[way], err = edgewise("train", kind, *data, *words, "-o", tmp_path / way)
                assert (code, err) == (0, ""), err
        for name in FILES:
            assert (tmp_path / "mapped" / name).read_bytes() == (tmp_path / "memory" / name).read_bytes(), name
        known, found = (json.loads((tmp_path / way / "metrics.json").read_text()) for way in ("memory", "mapped"))
        del known["seconds"], found["seconds"]
        # The trees of a forest are added up in the order in which threads finish.
        forests = [flat(each["baselines"].pop("forest", {})) for each in (found, known)]
        assert found == known
        assert forests[0] == pytest.approx(forests[1], rel=1e-12)
        assert "rows, more than 50: cells and features are in files in" in outputs["mapped"]
        assert "cells and features are in files" not in outputs["memory"]
        return outputs["mapped"]

    return run


COLUMNS = ("--smiles-columns", "smiles", "--target-columns", "y")


@pytest.mark.parametrize(
    ("words", "columns"),
    [
        (("--split-type", "random"), COLUMNS),
        (("--split-type", "scaffold", "--ensemble-size", "2"), COLUMNS),
        (("--group-column", "lab"), COLUMNS),
        (
            ("--descriptors-columns", "kelvin"),
            ("--smiles-columns", "smiles", "solvent", "--target-columns", "y"),
        ),
        (("--task-type", "classification"), ("--smiles-columns", "smiles", "--target-columns", "label")),
    ],
    ids=["random", "scaffold", "group", "pairs", "classes"],
)
def test_molecules_are_trained_on_alike_in_memory_and_in_mapped_files(run_both, tmp_path, words, columns):
    table = write_csv(tmp_path / "data.csv", rows(100))
    used = {*columns, *words}
    ignored = [name for name in ("name", "solvent", "kelvin", "lab", "label", "y") if name not in used]
    run_both("molecules", [table], *columns, *words, "--ignore-columns", *ignored, *SMALL)


def test_files_and_parquet_are_mapped_below_each_other(run_both, tmp_path):
    content = pd.DataFrame(rows(120))
    paths = [tmp_path / "train.parquet", tmp_path / "test.parquet"]
    content[:90].to_parquet(paths[0], row_group_size=40)
    content[["label", *content.columns[:-1]]][90:].to_parquet(paths[1])
    ignored = ("--ignore-columns", "name", "solvent", "kelvin", "lab", "label")
    out = run_both("molecules", paths, *COLUMNS, *ignored, *SMALL)
    assert "120 rows, more than 50" in out and "4 rows rejected" in out


def reviews(count: int) -> dict[str, list]:
    """Texts with something to learn; some come again, some are empty, some are longer than the model reads."""
    words = ["good", "fine", "film", "bad", "worst", "plot", "actor", "scene"]
    texts = [" ".join(words[(row * step) % 8] for step in range(1, 3 + row % 9)) for row in range(count)]
    texts[3], texts[count - 2] = " ", "The END,\nat last."
    return {
        "title": [f"{words[row % 5]}!" if row != 3 else "" for row in range(count)],
        "text": texts,
        "label": ["yes" if "good" in text or row % 7 == 0 else "no" for row, text in enumerate(texts)],
        "stars": [f"{len(text) / 7:.3f}" for text in texts],
    }


@pytest.mark.parametrize(
    ("words", "columns"),
    [
        (("--model", "gru", "--context", "8"), ("--text-columns", "text", "--target-columns", "label")),
        (("--hidden-dim", "16"), ("--text-columns", "title", "text", "--target-columns", "stars")),
    ],
    ids=["classes", "numbers"],
)
def test_texts_are_trained_on_alike_in_memory_and_in_mapped_files(run_both, tmp_path, words, columns):
    table = write_csv(tmp_path / "data.csv", reviews(160))
    ignored = [name for name in ("title", "label", "stars") if name not in columns]
    run_both("texts", [table], *columns, *words, "--ignore-columns", *ignored, "--epochs", "2")


def test_what_needs_all_rows_takes_some_of_many_and_says_so(edgewise, monkeypatch, tmp_path):
    for module in ("task", "encoder"):
        monkeypatch.setattr(f"edgewise.learn.tasks.molecules.{module}.MAX_KNOWN", 20)
    monkeypatch.setattr("edgewise.learn.tasks.table_task.MAX_SCORED", 11)
    for module in ("table_task", "targets"):
        monkeypatch.setattr(f"edgewise.learn.tasks.{module}.MAX_FITTED", 30)
    monkeypatch.setattr("edgewise.learn.tasks.table_task.ROW_CHUNK", 4)
    monkeypatch.setattr("edgewise.learn.tasks.table_task.MAX_ROWS", 5)
    monkeypatch.setattr("edgewise.learn.tasks.report.evaluation.MAX_ROWS", 5)
    monkeypatch.setattr("edgewise.learn.tasks.molecules.encoder.ROWS_IN_MEMORY", 3)
    table, run = write_csv(tmp_path / "data.csv", rows(150)), tmp_path / "run"
    words = ("--smiles-columns", "smiles", "solvent", "--target-columns", "y", "--ignore-columns", "name", "kelvin")
    code, out, err = edgewise("train", "molecules", table, *words, "lab", "label", *SMALL, "-o", run)
    assert (code, err) == (0, ""), err
    for line in (
        "of each split at most 11 rows are scored, evenly chosen",
        "the report shows 5 of the test rows, evenly chosen",
        "baselines are fitted to 30 of the training rows, evenly chosen",
        "the spread of descriptors is that of 20 of the 3",
        "new combinations of molecules will be compared with 20 of the",
    ):
        assert line in out
    model, metrics = (json.loads((run / f"{name}.json").read_text()) for name in ("model", "metrics"))
    assert len(model["known_rows"]) == 20 < model["num_known"]
    assert [metrics[split]["y"]["num_rows"] for split in ("test", "validation", "training")] == [11, 11, 11]
    assert metrics["rows"]["test"] == 15 and metrics["leakage"]["test"]["rows"] == 15
    splits = json.loads((run / "splits.json").read_text())
    predicted = read_csv(run / "test_predictions.csv")
    assert len(predicted) == 11 and {int(row["row_in_data"]) for row in predicted} < set(splits["test"])
    assert "similarity" in predicted[0] and "new" not in predicted[0]
    assert edgewise("predict", run, table, "-o", tmp_path / "p.csv")[0] == 0
    of_file = read_csv(tmp_path / "p.csv")
    for row in predicted:
        other = of_file[int(row["row_in_data"])]
        assert float(row["y_pred"]) == pytest.approx(float(other["y_pred"]), abs=1e-5)
        assert row["similarity"] == other["similarity"]


LIMITED = """
import resource, sys
import numpy as np, sklearn.metrics
import edgewise.cli.main as cli, edgewise.learn.tasks.molecules.task, edgewise.learn.tasks.run
import edgewise.learn.training.fit
from edgewise.learn.readers.molecules import distinct
from edgewise.learn.readers.molecules.bounded import Featurized
from edgewise.learn.readers.molecules.feature import molecule_arrays
from edgewise.learn.readers.molecules.molecule import GLOBAL_FEATURE_NAMES, read_molecule

arrays, values = molecule_arrays(read_molecule("CCOC(=O)CN")), np.arange(len(GLOBAL_FEATURE_NAMES), dtype=float)


def featurize(smiles, limits, names):
    return (Featurized(text, arrays, values * text.count("N")) for text in smiles)


distinct.featurize = featurize  # RDKit would take many minutes
limit, rows, small, large, *words = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
# What a run compiles and imports is there before the limit.
if code := cli.main(["train", "molecules", small, *words, "-o", f"{small}.run"]):
    sys.exit(code)
used = int(open("/proc/self/statm").read().split()[5]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_DATA, (used + limit, used + limit))
try:
    np.ones((rows, len(values)))
    sys.exit("the descriptors fit, and the test proves nothing")
except MemoryError:
    sys.exit(cli.main(["train", "molecules", large, *words, "-o", f"{large}.run"]))
"""


@pytest.mark.nightly
def test_molecules_larger_than_memory_are_trained_on(tmp_path):
    """Private memory is limited to less than the descriptors need; files that are mapped do not count."""
    count, limit, scratch = 200_000, 200 * 2**20, tmp_path / "scratch"
    scratch.mkdir()
    tables = []
    for name, rows in (("small", 400), ("large", count)):
        smiles = ["".join("CNOS"[row >> 2 * place & 3] for place in range(10)) for row in range(rows)]
        split = [("train", "train", "val", "test")[row % 4] if row < 2400 else "" for row in range(rows)]
        number = [text.count("N") + row % 10 / 20 for row, text in enumerate(smiles)]
        content = {"smiles": smiles, "y": number, "split": split}
        tables.append(write_csv(tmp_path / f"{name}.csv", content))
    words = [*COLUMNS, "--splits-column", "split", "--no-baselines", *SMALL, "--threads", "1"]
    command = [sys.executable, "-c", LIMITED, limit, count, *tables, *words]
    environment = {**os.environ, "TMPDIR": str(scratch)}
    found = subprocess.run([*map(str, command)], capture_output=True, text=True, env=environment)
    assert found.returncode == 0, found.stderr[-2000:]
    assert "200,000 rows, more than 65,536" in found.stdout
    assert list(scratch.iterdir()) == []
    assert json.loads((tmp_path / "large.csv.run" / "metrics.json").read_text())["test"]["y"]["r2"] > 0
