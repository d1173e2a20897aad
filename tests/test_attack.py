"""The attack on files in a bounded form; `make attack` runs it for minutes."""

import gc
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from attack import files, fuzz, runs, tables
from attack._outcome import Outcomes
from edgewise.errors import RunFolderError
from edgewise.learn.tasks.explainer import num_training_rows
from edgewise.learn.tasks.report.sections import write_report
from edgewise.learn.training.folder import RunFolder

pytestmark = pytest.mark.usefixtures("shapes_unchecked")


@pytest.fixture(autouse=True)
def no_collection_in_deep_recursion() -> Iterator[None]:
    """Content that nests deeply fills the stack: there, what other tests left behind could not be finalized."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_no_damaged_file_raises_anything_but_our_own_errors(tmp_path):
    targets = [*files.array_targets(tmp_path), *files.model_targets(tmp_path), *files.folder_targets(tmp_path)]
    for target in targets:
        target.read(target.content)  # as it is, each can be read
    found = files.attack(targets, 2.5, random.Random(0), most=1500)
    assert found["foreign"] == 0, found["examples"]
    assert found["ours"] > 0.5 * found["inputs"]


def test_no_damaged_checkpoint_raises_anything_but_our_own_errors(tmp_path):
    targets = files.checkpoint_targets(tmp_path)
    for target in targets:
        target.read(target.content)
    found = files.attack(targets, 2.5, random.Random(0), most=60)
    assert found["foreign"] == 0, found["examples"]
    assert found["ours"] > 0


@pytest.mark.parametrize("group", ["tables", "graphs", "molecules", "texts", "settings", "archives", "requests"])
def test_no_reader_loses_what_it_was_given(tmp_path, group):
    """Rows and cells are compared with a judge; the undamaged content is read."""
    targets = list(fuzz.targets_of(group, tmp_path / group).values())
    for target in targets:
        target.read(target.content)
    found = files.attack(targets, 20, random.Random(1), most=25 * len(targets))
    assert found["foreign"] == 0, found["examples"]
    assert found["inputs"] == 25 * len(targets) and found["ours"] > 0


def test_an_attack_sees_a_lost_row_and_a_crash(tmp_path, monkeypatch):
    target = fuzz.targets_of("graphs", tmp_path / "graphs")["pairs.csv"]
    found = Outcomes()
    found.add(target, b"a,b\na,c\nb,zz\n")
    assert (found.read, found.foreign) == (1, 0)
    monkeypatch.setattr("attack._readers.rows_of", lambda content: (["a", "b"], [["a", "c"]]))
    found.add(target, b"a,b\na,c\nb,zz\n")
    assert "2 of 1 rows are accounted for" in next(iter(found.finds))
    monkeypatch.setattr("edgewise.learn.readers.graphs.links.read_cells", lambda path: 1 // 0)
    found.add(target, b"a,b\na,c\n")
    assert found.foreign == 2 and any("ZeroDivisionError" in each for each in found.finds)


@pytest.mark.nightly
@pytest.mark.parametrize("engine", fuzz.ENGINES)
@pytest.mark.parametrize("name", ["tables/table.csv", "texts/words.conll", "settings/config.toml"])
def test_readers_under_each_engine(engine, name):
    if engine == "atheris":
        pytest.importorskip("atheris", reason="atheris is not installed: pip install 'edgewise[fuzz]'")
    command = ["-m", "attack.fuzz", "--engine", engine, "--readers", name, "--inputs", "500", "--seconds", "300"]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=Path(__file__).parent)
    found = json.loads(done.stdout)
    assert found["inputs"] == 500 and found["read"] > 0, done.stderr
    assert "foreign" not in found and "crashed" not in found, found


def test_a_page_about_damaged_results_is_an_error_of_ours(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.begin()
    run.write_config({"data": ["a.csv"]})
    for name, content in {"model.json": {"format": "edgewise text model"}, "metrics.json": 3}.items():
        run.write_json(name, content)
    with pytest.raises(RunFolderError, match=r"metrics\.json is damaged: it holds int, expected an object"):
        write_report(run)


@pytest.mark.parametrize("damage", [3, {"train": 3}, {"train": ["a"]}])
def test_damaged_splits_are_an_error_of_ours(tmp_path, damage):
    run = RunFolder(tmp_path / "run")
    run.write_json("splits.json", damage)
    with pytest.raises(RunFolderError, match=r"splits\.json is damaged: .* expected"):
        num_training_rows(run)


def test_tables_as_people_write_them_come_to_what_they_say(tmp_path, trained_run):
    found = tables.attack(trained_run("texts"), tmp_path, random.Random(0), 100, most=8)
    assert found["foreign"] == 0, found["finds"]
    assert [sum(kind.values()) for kind in found["kinds"].values()] == [8] * len(tables.KINDS)
    assert sum(kind.get("refused", 0) for kind in found["kinds"].values()) <= 8


def test_an_attack_sees_a_cell_that_changed(tmp_path, monkeypatch):
    monkeypatch.setattr("attack.tables.choose_task", lambda *given: "regression")
    found = tables.attack(None, tmp_path, random.Random(0), 10, most=9)
    assert found["foreign"] > 0 and "expected classification" in "".join(found["finds"])


def test_damaged_run_folders_are_refused_by_name_or_predict_as_before(tmp_path):
    attacked = [runs.AttackedRun.of(name, tmp_path) for name in ("texts_classification", "nodes_gat", "forecast")]
    found = runs.attack(attacked, 100, random.Random(0), most=50)
    assert found["foreign"] == 0, found["finds"]
    assert found["inputs"] == 50 and found["refused"] > 15 and found["held"] > 10


def test_an_attack_sees_a_changed_prediction_and_a_traceback(tmp_path, monkeypatch):
    attacked = [runs.AttackedRun.of("forecast", tmp_path)]
    monkeypatch.setattr("attack.runs.AttackedRun.files", [attacked[0].path / "model.safetensors"])
    monkeypatch.setattr("attack.runs.DAMAGES", (lambda draw, content: content[:-1] + bytes([content[-1] ^ 1]),))
    monkeypatch.setattr("edgewise.learn.training.folder.RunFolder.check_model", lambda *_: None)
    assert runs.attack(attacked, 100, random.Random(0), most=1)["silent"] == 1
    monkeypatch.setattr("edgewise.learn.fitted.read_tensors", lambda path: 1 // 0)
    found = runs.attack(attacked, 100, random.Random(0), most=1)
    assert found["foreign"] == 1 and "ZeroDivisionError" in found["finds"][0]
