"""Whose folder it is: other people's files stay, and one training at a time."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgewise.errors import RunFolderError
from edgewise.learn.training.claim import LOCK, MARKER
from edgewise.learn.training.folder import RunFolder

HOLDER = """
import sys
from pathlib import Path
from edgewise.learn.training.folder import RunFolder
with RunFolder(Path(sys.argv[1])).claimed():
    print("held", flush=True)
    sys.stdin.read()
"""


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"mine: {name}")


def run_in(path) -> RunFolder:
    """A finished run of today."""
    folder = RunFolder(path)
    with folder.claimed():
        folder.begin()
        folder.checkpoint_folder(0)
        folder.write_json("checkpoints/data.json", {"sha256": []})
        (folder.checkpoint_folder(0) / "last.ckpt").write_bytes(b"weights")
        folder.write_config({"epochs": 2})
        (folder.log_folder() / "metrics.csv").write_text("")
        write(path, "logs/tensorboard/events.out.tfevents.1.host.2.0", "logs/tensorboard/hparams.yaml")
        folder.write("model.safetensors", b"")
        folder.write_json("model.json", {"format": "edgewise property model", "format_version": 1})
        folder.write_json("metrics.json", {})
    return folder


@pytest.mark.parametrize("wish", [{}, {"overwrite": True}, {"resume": True}])
def test_a_folder_of_other_files_is_refused_with_any_flag(tmp_path, wish):
    write(tmp_path, "logs/journal.txt", "checkpoints/llama.bin", "report.html", "model.safetensors", "model.json")
    before = contents(tmp_path)
    reason = r"is not a run folder and holds checkpoints, logs, model\.json and 2 more"
    with pytest.raises(RunFolderError, match=reason), RunFolder(tmp_path).claimed(**wish):
        pass
    with pytest.raises(RunFolderError, match="is not a run folder"):
        RunFolder(tmp_path).begin()
    with pytest.raises(RunFolderError, match="is not a run folder"):
        RunFolder(tmp_path).write_json("metrics.json", {})
    assert contents(tmp_path) == before


def test_overwrite_replaces_what_a_run_wrote_and_only_that(tmp_path):
    folder = run_in(tmp_path)
    mine = ("notes.txt", "logs/journal.txt", "checkpoints/llama.bin", "checkpoints/member_0/my.ckpt")
    write(tmp_path, *mine)
    with folder.claimed(overwrite=True):
        folder.begin()
    assert set(contents(tmp_path)) == {*mine, MARKER}
    assert not (tmp_path / "logs" / "tensorboard").exists()


@pytest.mark.parametrize("name", ["report.html", "checkpoints/member_3/best.ckpt"])
def test_a_file_of_another_with_the_name_of_a_run_stays(tmp_path, name):
    folder = run_in(tmp_path)
    write(tmp_path, name)
    with pytest.raises(RunFolderError, match=rf"holds {name}, which no run of Edgewise wrote; move it away"):
        folder.check(overwrite=True)
    with pytest.raises(RunFolderError, match=rf"{name} was not written by a run of Edgewise"):
        folder.write(name, b"")
    assert (tmp_path / name).read_text() == f"mine: {name}"


def test_a_marker_cannot_name_other_files(tmp_path):
    folder, victim = run_in(tmp_path / "run"), tmp_path / "victim"
    victim.write_text("mine")
    write(folder.path, "notes.txt")
    marker = json.loads((folder.path / MARKER).read_text())
    marker["files"] += ["../victim", str(victim), "notes.txt", "checkpoints/member_0/../../../victim"]
    (folder.path / MARKER).write_text(json.dumps(marker))
    with folder.claimed(overwrite=True):
        folder.begin()
    assert victim.read_text() == "mine"
    assert (folder.path / "notes.txt").exists()


@pytest.mark.parametrize("damage", ["{", "[]", '{"format": "edgewise run folder", "files": 3}', '{"files": ["a"]}'])
def test_a_damaged_marker_replaces_nothing(tmp_path, damage):
    folder = run_in(tmp_path)
    (tmp_path / MARKER).write_text(damage)
    before = contents(tmp_path)
    with pytest.raises(RunFolderError, match=r"\.edgewise-run\.json is damaged, so nothing here is replaced"):
        folder.check(overwrite=True)
    assert contents(tmp_path) == before


def test_links_to_folders_are_refused(tmp_path):
    folder = run_in(tmp_path / "run")
    write(tmp_path, "other/last.ckpt", "other/best.ckpt")
    for each in (folder.path / "checkpoints" / "member_0").iterdir():
        each.unlink()
    (folder.path / "checkpoints" / "member_0").rmdir()
    (folder.path / "checkpoints" / "member_0").symlink_to(tmp_path / "other")
    for call in (lambda: folder.check(overwrite=True), folder.begin, lambda: folder.checkpoint_folder(0)):
        with pytest.raises(RunFolderError, match="member_0 is a link; a run writes inside its own folder only"):
            call()
    assert (tmp_path / "other" / "last.ckpt").read_text() == "mine: other/last.ckpt"


def test_root_home_and_what_is_above_are_refused(tmp_path, monkeypatch):
    home, current = tmp_path / "users" / "me", tmp_path / "projects" / "mine"
    for each in (home, current):
        each.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(current)
    (current / "to_root").symlink_to("/")
    (current / "to_home").symlink_to(home)
    places = {
        "/": "the root of the file system",
        "to_root": "the root of the file system",
        str(home): "your home folder",
        "to_home": "your home folder",
        str(home.parent): "above your home folder",
        "..": "above the folder that you are in",
        "/proc": "a mount point",
    }
    for place, reason in places.items():
        for wish in ({}, {"overwrite": True}, {"resume": True}):
            with pytest.raises(RunFolderError, match=f"is {reason}, which is never a run folder"):
                RunFolder(Path(place)).check(**wish)
    RunFolder(current / "to_home" / "run").check()


def test_one_training_at_a_time_and_a_killed_one_does_not_count(tmp_path):
    path = tmp_path / "run"
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        for wish in ({}, {"overwrite": True}, {"resume": True}):
            in_use = rf"run is in use by process {holder.pid} on \S+ since \d{{4}}-"
            with pytest.raises(RunFolderError, match=in_use), RunFolder(path).claimed(**wish):
                pass
        with pytest.raises(RunFolderError, match=f"in use by process {holder.pid}"), RunFolder(path).locked():
            pass
        holder.kill()
    assert (path / LOCK).exists()
    (path / ".edgewise-00.part").write_text("half")
    with RunFolder(path).claimed() as folder:
        assert str(os.getpid()) in (path / LOCK).read_text()
        assert not (path / ".edgewise-00.part").exists()
        with pytest.raises(RunFolderError, match=f"in use by process {os.getpid()}"):
            RunFolder(path).check()
        folder.begin()
    assert [each.name for each in path.iterdir()] == [MARKER]


def test_nothing_is_left_where_nothing_was_written(tmp_path):
    with pytest.raises(ValueError, match="no data"), RunFolder(tmp_path / "runs" / "new").claimed():
        raise ValueError("no data")
    assert list(tmp_path.iterdir()) == []
