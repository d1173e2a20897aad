"""The run folder: nothing half written, nothing silently replaced, nothing foreign removed."""

import csv
import io
import math
from pathlib import Path

import numpy as np
import pytest

from edgewise.errors import RunFolderError
from edgewise.learn.tasks.config import is_same, require_same
from edgewise.learn.training.folder import RunFolder, csv_text, read_toml


def begun(path) -> RunFolder:
    folder = RunFolder(path)
    folder.begin()
    folder.write_config({"epochs": 2})
    return folder


def finished(path) -> RunFolder:
    folder = begun(path)
    folder.write("model.safetensors", b"")
    folder.write_json("model.json", {})
    folder.write_json("metrics.json", {})
    return folder


def test_rows_and_tables_are_written_in_parts_as_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("edgewise.learn.training.folder.BATCH_SIZE", 3)
    for number, splits in enumerate(({}, {"train": [], "val": [7]}, {"train": range(10), "test": [1, 2, 3]})):
        folder = begun(tmp_path / str(number))
        folder.write_rows("splits.json", {name: np.array([*rows], np.int64) for name, rows in splits.items()})
        folder.write_json("metrics.json", {name: [*rows] for name, rows in splits.items()})
        assert (folder.path / "splits.json").read_bytes() == (folder.path / "metrics.json").read_bytes()
        rows = [[place, "a\r\nb"] for place in range(number * 3)]
        folder.write_table("rejected.csv", ["line", "cell"], iter(rows))
        assert (folder.path / "rejected.csv").read_bytes() == csv_text(["line", "cell"], rows).encode()


def test_a_new_or_an_empty_folder_may_be_used(tmp_path):
    RunFolder(tmp_path / "new").check()
    RunFolder(tmp_path).check()
    RunFolder(tmp_path / "new").check(resume=True)


def test_a_finished_run_is_kept(tmp_path):
    folder = finished(tmp_path)
    with pytest.raises(RunFolderError, match=r"holds a finished run; .* -o, or replace it with --overwrite"):
        folder.check()
    folder.check(overwrite=True)


def test_a_finished_cross_validation_is_not_called_unfinished(tmp_path):
    folder = begun(tmp_path)
    folder.write_config({"num-folds": 2})
    finished(tmp_path / "fold_0")
    with pytest.raises(RunFolderError, match="holds an unfinished run"):
        folder.check()
    finished(tmp_path / "fold_1")
    folder.write_json("metrics.json", {})
    with pytest.raises(RunFolderError, match="holds a finished run"):
        folder.check()
    assert not folder.is_finished, "no model is there to predict with"


def test_an_unfinished_run_asks_what_to_do(tmp_path):
    folder = begun(tmp_path)
    assert folder.is_started
    assert not folder.is_finished
    with pytest.raises(
        RunFolderError, match=r"unfinished run; continue it with --resume, or replace it with --overwrite"
    ):
        folder.check()
    folder.check(resume=True)


def test_a_file_of_a_run_without_a_run_is_kept_too(tmp_path):
    RunFolder(tmp_path).write_json("splits.json", {})
    with pytest.raises(RunFolderError, match=r"already holds splits.json; .*--overwrite"):
        RunFolder(tmp_path).check()


def test_contradicting_wishes_and_files_are_refused(tmp_path):
    with pytest.raises(RunFolderError, match="contradict"):
        RunFolder(tmp_path).check(overwrite=True, resume=True)
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file/run"):
        with pytest.raises(RunFolderError, match="file is a file; choose another folder"):
            RunFolder(folder).check(overwrite=True)


def test_begin_removes_the_files_of_a_run_and_nothing_else(tmp_path):
    folder = finished(tmp_path)
    folder.checkpoint_folder(1)
    (tmp_path / "demo.csv").write_text("smiles\nC\n")
    folder.begin()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".edgewise-run.json", "demo.csv"]


@pytest.mark.parametrize("count", range(7))
def test_what_an_interrupted_removal_leaves_is_not_continued(tmp_path, monkeypatch, count):
    """`--resume` after a kill within `--overwrite` found the settings of the earlier run without its checkpoints."""
    folder, removed, unlink = finished(tmp_path / "run"), [], Path.unlink
    folder.checkpoint_folder(0)
    folder.write_json("checkpoints/data.json", {})

    def stopped(path: Path, missing_ok: bool = False) -> None:
        if len(removed) == count:
            raise KeyboardInterrupt
        if path.suffix != ".part":
            removed.append(path.name)
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", stopped)
    with pytest.raises(KeyboardInterrupt):
        folder.begin()
    assert len(removed) == count and folder.is_finished == (count == 0)
    assert folder.is_started == (count <= 2), "only while nothing but the marks of a finished run is gone"


@pytest.mark.parametrize(("repeats", "names"), [(1, ["fold_0", "fold_1"]), (2, ["repeat_0/fold_1", "repeat_1/fold_0"])])
def test_begin_removes_the_folds_of_a_cross_validation_and_no_other_run(tmp_path, repeats, names):
    top = begun(tmp_path / "cv")
    top.write_config({"num-folds": 2, "num-repeats": repeats})
    for name in (*names, "fold_2", "elsewhere"):
        finished(top.path / name)
    (top.path / names[0] / "notes.txt").write_text("mine")
    top.begin()
    left = sorted(path.relative_to(top.path).as_posix() for path in top.path.rglob("*.*") if path.is_file())
    whole = [
        f"{run}/{file}"
        for run in ("elsewhere", "fold_2")
        for file in sorted(path.name for path in finished(tmp_path / run).path.iterdir())
    ]
    assert left == sorted([".edgewise-run.json", f"{names[0]}/.edgewise-run.json", f"{names[0]}/notes.txt", *whole])
    assert not (top.path / names[1]).exists()


def test_folds_behind_links_and_in_use_are_not_removed(tmp_path):
    top = begun(tmp_path / "cv")
    top.write_config({"num-folds": 2})
    elsewhere = finished(tmp_path / "elsewhere")
    (top.path / "fold_0").symlink_to(elsewhere.path)
    used = finished(top.path / "fold_1")
    with used.locked(), pytest.raises(RunFolderError, match=r"fold_1 is in use"):
        top.begin()
    assert top.is_started and used.is_finished
    top.begin()
    assert elsewhere.is_finished and not used.path.exists()


def test_config_survives_awkward_words(tmp_path):
    folder = RunFolder(tmp_path)
    settings = {
        "smiles-columns": ['a "quoted" name', "tab\there", "back\\slash", "ünïcode ✓", "", "new\nline", "del\x7f"],
        "temperature": math.inf,
        "epochs": 3,
        "strict": False,
        "learning-rate": 1e-5,
    }
    folder.write_config({**settings, "weight-column": None})
    assert folder.read_config() == settings


def test_json_has_no_nan(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        RunFolder(tmp_path).write_json("metrics.json", {"rmse": math.nan})
    assert not (tmp_path / "metrics.json").exists()


def test_damaged_files_are_named(tmp_path):
    (tmp_path / "model.json").write_text("{")
    with pytest.raises(RunFolderError, match=r"model\.json is not a JSON file"):
        RunFolder(tmp_path).read_json("model.json")
    (tmp_path / "config.toml").write_text("a = ")
    with pytest.raises(RunFolderError, match=r"config\.toml is not a TOML file"):
        read_toml(tmp_path / "config.toml")
    (tmp_path / "config.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(RunFolderError, match=r"config\.toml is not a TOML file"):
        read_toml(tmp_path / "config.toml")
    with pytest.raises(RunFolderError, match=r"absent\.toml does not exist"):
        read_toml(tmp_path / "absent.toml")
    with pytest.raises(RunFolderError, match="is a folder; expected a TOML file"):
        read_toml(tmp_path)


def test_a_cross_validation_says_which_runs_it_holds(tmp_path):
    begun(tmp_path / "cv").write_config({"num-folds": 2})
    for name in ("fold_0", "fold_1", "fold_2"):  # the last is a run of its own
        finished(tmp_path / "cv" / name)
    with pytest.raises(RunFolderError, match="unfinished run"):
        RunFolder.finished(tmp_path / "cv")
    (tmp_path / "cv/metrics.json").write_text("{}")
    with pytest.raises(RunFolderError, match=r"cross-validation: its 2 folds are runs of their own.*cv/fold_0$"):
        RunFolder.finished(tmp_path / "cv")


def test_only_a_finished_run_predicts(tmp_path):
    with pytest.raises(RunFolderError, match="does not exist"):
        RunFolder.finished(tmp_path / "absent")
    with pytest.raises(RunFolderError, match=r"not a run folder: model\.json or model\.safetensors is missing"):
        RunFolder.finished(tmp_path)
    begun(tmp_path / "begun")
    with pytest.raises(RunFolderError, match="unfinished run; continue it: edgewise train --resume -o"):
        RunFolder.finished(tmp_path / "begun")
    finished(tmp_path / "done")
    assert RunFolder.finished(tmp_path / "done").is_finished
    with pytest.raises(RunFolderError, match=r"safetensors is missing; it holds .*/done: name one\.$"):
        RunFolder.finished(tmp_path)


def test_tables_quote_what_needs_it(tmp_path):
    RunFolder(tmp_path).write_table("rejected.csv", ["value", "reason"], [["a,b", 'say "no"']])
    assert (tmp_path / "rejected.csv").read_text() == 'value,reason\n"a,b","say ""no"""\n'


def test_a_carriage_return_in_a_cell_ends_no_row():
    rows = [["x\ry", "1"], ["\r", "2"], ["a\r\nb\n", "3"]]
    for delimiter in ",\t":
        text = csv_text(["a", "b"], rows, delimiter)
        assert list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)) == [["a", "b"], *rows]
    assert csv_text(None, [["a", "b"]]) == "a,b\n"


def test_no_companions_are_the_same_typed_and_written(tmp_path):
    """A finished run was refused by the very command that had made it: it was started with [], but now it is none."""
    require_same(RunFolder(tmp_path), {"companions": []}, {"companions": ["none"]})
    require_same(RunFolder(tmp_path), {"companions": ["none"]}, {"companions": []})
    assert not is_same([], ["word-counts"]) and not is_same(["none"], ["word-counts"]) and not is_same("none", [])


def test_the_same_file_by_another_name_is_the_same_setting(tmp_path, monkeypatch):
    """A finished run whose data was named by its whole path was refused as one of other data."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.csv", "b.csv", "other/a.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "link.csv").symlink_to("a.csv")
    for name in ("./a.csv", str(tmp_path / "a.csv"), "link.csv", "other/../a.csv"):
        assert is_same(["a.csv", "b.csv"], [name, "b.csv"])
        require_same(RunFolder(tmp_path / "run"), {"data": ["a.csv"]}, {"data": [name]})
    assert not is_same(["a.csv"], ["b.csv"]) and not is_same(["a.csv"], ["other/a.csv"])
    assert not is_same(["a.csv"], ["a.csv", "b.csv"]) and not is_same("absent", "b.csv")
    monkeypatch.chdir(tmp_path / "other")  # where the relative path of the run leads nowhere
    assert is_same("b.csv", str(tmp_path / "b.csv"))
