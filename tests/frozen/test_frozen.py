"""Runs that earlier versions wrote: they open, predict, explain and generate as they did when they were written."""

import contextlib
import csv
import io
import json
import math
import pickle
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openings import OPENINGS, explained, facts_of, in_folder

import edgewise
from edgewise.cli.main import main
from edgewise.learn.tasks.registry import task_of
from edgewise.learn.tasks.task import PredictRequest
from edgewise.learn.training.folder import RunFolder

HERE = Path(__file__).parent
FOLDERS = sorted(path.parent for path in HERE.glob("*/*/expected"))
"""`<version>/<kind>`."""
TOLERANCE = 1e-6
VECTORS = 3e-6
"""Absolute and relative tolerance of a number: the float32 precision of an output, also on another processor."""
LARGEST, LARGEST_OF_ALL = 300_000, 2_500_000
"""Bytes of a folder, and of all folders of a version."""


def frozen(part: str) -> Any:
    """Runs a test for all folders whose table has this part."""
    folders = [folder for folder in FOLDERS if getattr(OPENINGS[folder.name], part)]
    return pytest.mark.parametrize("folder", folders, ids=lambda folder: f"{folder.parent.name}/{folder.name}")


@pytest.fixture(scope="session")
def copies(tmp_path_factory):
    """The folders where a test may write."""
    made: dict[Path, Path] = {}

    def copy(folder: Path) -> Path:
        if folder not in made:
            place = tmp_path_factory.mktemp(folder.name)
            shutil.copytree(folder, place, dirs_exist_ok=True)
            (place / "found").mkdir()
            made[folder] = place
        return made[folder]

    return copy


def ran(words: str) -> str:
    """What a command prints; it must not fail."""
    printed, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
        code = main(shlex.split(words))
    assert code == 0, f"edgewise {words}: {errors.getvalue()}"
    return printed.getvalue()


def assert_same(found: Any, expected: Any, where: str) -> None:
    """Numbers are close, everything else is equal; what is expected of an object must be there, more may be."""
    if isinstance(expected, dict):
        assert isinstance(found, dict), where
        for name, each in expected.items():
            assert name in found, f"{where}: {name} is missing"
            assert_same(found[name], each, f"{where}: {name}")
    elif isinstance(expected, list):
        assert isinstance(found, list) and len(found) == len(expected), f"{where}: {found} for {expected}"
        for place, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_same(one, other, f"{where}[{place}]")
    elif isinstance(expected, float) and isinstance(found, int | float):
        assert math.isclose(found, expected, rel_tol=TOLERANCE, abs_tol=TOLERANCE), f"{where}: {found} for {expected}"
    else:
        assert found == expected, f"{where}: {found!r} for {expected!r}"


def rows_of(path: Path) -> list[Any]:
    """The rows of a file of predictions: numbers where cells are some, and whether there is a prediction."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return [{name: array.astype(float).ravel().tolist() for name, array in arrays.items()}]
    if path.suffix == ".jsonl":
        rows: list[Any] = [json.loads(line) for line in path.read_text().splitlines()]
    else:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    return [{name: cell_of(name, cell) for name, cell in row.items()} for row in rows]


def cell_of(name: str, cell: Any) -> Any:
    """A cell as a number, where it is one; reasons may be said in other words."""
    if name == "status":
        return str(cell).startswith("ok")
    try:
        return float(cell)
    except (TypeError, ValueError):
        return cell


@frozen("writes_rows")
def test_it_predicts(copies, folder):
    opening, copy = OPENINGS[folder.name], copies(folder)
    with in_folder(copy):
        for words in opening.commands("found"):
            if not words.startswith("explain"):
                ran(words)
    if opening.predict is not None:
        found, expected = (rows_of(copy / name / f"predictions{opening.ending}") for name in ("found", "expected"))
        for row, other in zip(found, expected, strict=True):  # the spread of an ensemble has its own name since then
            for name in [name for name in row if name.endswith("_ensemble_std") and name not in other]:
                target, own = name.removesuffix("_ensemble_std"), row.pop(name)
                if not any(column.startswith(f"{target}_prob_") for column in row):
                    row[f"{target}_std"] = own
        for row, other in zip(found, expected, strict=True):
            assert list(row) == list(other)
        assert_same(found, expected, "predictions")
    if opening.vectors is not None:
        with np.load(copy / "found/vectors.npz") as found, np.load(copy / "expected/vectors.npz") as expected:
            # Single precision, out of a network: processors of another maker differ by 1.4e-6 of numbers about 1.
            np.testing.assert_allclose(found["vectors"], expected["vectors"], rtol=VECTORS, atol=VECTORS)
            np.testing.assert_array_equal(found["row"], expected["row"])


@pytest.mark.filterwarnings("ignore:(predict|fingerprint). .* out of vocabulary:UserWarning")  # new texts are short
@frozen("python")
def test_it_opens_in_python(copies, folder):
    expected = json.loads((folder / "expected/python.json").read_text())
    with in_folder(copies(folder)):
        assert_same(facts_of(OPENINGS[folder.name]), expected, "Python")


def test_an_estimator_of_every_kind_is_pickled():
    """As `joblib` does it for scikit-learn."""
    for folder in FOLDERS:
        if OPENINGS[folder.name].python is not None:
            kind = json.loads((folder / "expected/python.json").read_text())["class"]
            loaded = getattr(edgewise, kind).load(folder / "run")
            again = pickle.loads(pickle.dumps(loaded))
            assert again.get_params() == loaded.get_params(), folder.name


@frozen("explain")
def test_it_explains(copies, folder):
    copy = copies(folder)
    with in_folder(copy):
        ran(OPENINGS[folder.name].commands("found")[-1])
    (found,) = json.loads((copy / "found/explanation.json").read_text())
    expected, model = (
        json.loads((folder / name).read_text()) for name in ("expected/explanation.json", "run/model.json")
    )
    found = explained(found)
    if model.get("ensemble_size", 1) > 1 and not model["classes"]:  # it was the spread of the ensemble then
        for one, other in zip(found["predictions"], expected["predictions"], strict=True):
            assert one[3] > 0
            one[3] = other[3]
    assert_same(found, expected, "explanation")


@frozen("generate")
def test_it_writes_the_same_text(copies, folder):
    with in_folder(copies(folder)):
        assert OPENINGS[folder.name].written() == (folder / "expected/written.txt").read_text()


@frozen("report")
def test_its_page_is_written_again_and_nothing_is_left_to_train(copies, folder):
    copy = copies(folder)
    with in_folder(copy):
        ran("report run")
        assert "there is nothing to resume" in ran("train --resume -o run")
    assert (copy / "run/report.html").stat().st_size > 1000


def test_notes_on_new_data_are_left_to_the_caller(copies, capsys):
    """A task that reads new texts prints nothing itself; the command line shows its notes on stderr."""
    copy = copies(HERE / "0.2.0/texts_classification")
    (copy / "unknown.csv").write_text("title,text\nqzx,vwk jjq\nxxq,wvz\n")
    with in_folder(copy):
        run = RunFolder.finished("run")
        task_of(run).read(PredictRequest(folder="run", data="unknown.csv"))
        assert capsys.readouterr() == ("", "")
        assert main(["predict", "run", "unknown.csv", "-o", "-"]) == 0
    found = capsys.readouterr()
    assert found.out.startswith("title,text,")
    assert "out of vocabulary" in found.err


def test_folders_are_small_and_complete():
    for version in {folder.parent for folder in FOLDERS}:
        sizes = {
            folder.name: sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            for folder in FOLDERS
            if folder.parent == version
        }
        assert max(sizes.values()) <= LARGEST, sizes
        assert sum(sizes.values()) <= LARGEST_OF_ALL
    assert {folder.name for folder in FOLDERS} == OPENINGS.keys()
