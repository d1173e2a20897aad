"""Writing a file: whole or not at all, never through a link, nothing left beside it."""

import ast
import os
import resource
from pathlib import Path

import pytest

from edgewise.errors import WriteError
from edgewise.learn.files import remove_parts, write_bytes

SOURCE = Path(__file__).parents[1] / "src" / "edgewise"
WRITERS = {"write_bytes", "write_text", "savefig", "save_file", "savez", "savez_compressed", "to_csv", "to_parquet"}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_failure_leaves_the_old_content_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "metrics.json"
    write_bytes(path, b"old")
    monkeypatch.setattr("os.replace", lambda *_: os.stat("/proc/self/nothing"))
    with pytest.raises(WriteError, match=r"metrics\.json cannot be written: No such file"):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["metrics.json"]


def test_a_disk_that_is_full_is_named_with_the_file(tmp_path):
    path = tmp_path / "model.safetensors"
    write_bytes(path, b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(WriteError, match=r"model\.safetensors cannot be written: .*; free some space"):
            write_bytes(path, bytes(20_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["model.safetensors"]


def test_links_are_replaced_and_not_followed(tmp_path):
    victim, folder = tmp_path / "victim", tmp_path / "run"
    victim.write_text("mine")
    folder.mkdir()
    for name in ("config.toml", "config.toml.part"):
        (folder / name).symlink_to(victim)
    write_bytes(folder / "config.toml", b"new")
    assert victim.read_text() == "mine"
    assert (folder / "config.toml").read_bytes() == b"new"
    assert not (folder / "config.toml").is_symlink()


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path):
    for name in (".edgewise-0123.part", "mine.part", ".edgewise-notes"):
        (tmp_path / name).write_text("")
    remove_parts(tmp_path)
    assert names(tmp_path) == [".edgewise-notes", "mine.part"]


def test_every_file_of_the_package_is_written_in_one_place():
    """Whatever else is called like a writer writes into memory: a buffer, or a string that gets its name later."""
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        if path == SOURCE / "learn/files.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            first = ast.unparse(node.args[0]) if node.args else ""
            if called == "open" and len(node.args) > 1 and set(ast.unparse(node.args[1])) & set("wax"):
                wrong.append(f"{path}:{node.lineno}: {called}")
            if "." in called and called.split(".")[-1] in WRITERS and first not in ("", "buffer"):
                wrong.append(f"{path}:{node.lineno}: {called}")
    assert wrong == []
