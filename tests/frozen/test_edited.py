"""Runs whose model.json was edited: an error of ours, or what was predicted before; never a traceback.

An edit with a checksum that fits it must not pass either where a field no longer fits the others.
"""

import copy
import json
import random
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openings import OPENINGS, in_folder

from edgewise.cli.main import main
from edgewise.errors import RunFolderError
from edgewise.learn.tasks.registry import task_of
from edgewise.learn.training.folder import CHECKSUM, RunFolder, checksum_of

FOLDERS = sorted(path.parent for path in Path(__file__).parent.glob("*/*/expected"))
ODD: list[Any] = ["x", -1, 0, None, [], 1e300, True]
NUM_EDITS = 10
"""Edits per folder; raise it for a full check: all 15,000 take three minutes."""
OPEN = {"text_columns", "known_rows", "predicted"}
"""Lists whose length no other field says: texts of a row, known molecules, types with targets."""


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every value of a document, and the keys that lead to it."""
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        yield (*path, key), value
        yield from places(value, (*path, key))


def edits(document: Any) -> list[tuple[tuple[Any, ...], str, Any]]:
    """Where something is removed, doubled or replaced, how, and by what; of long lists at the first two items."""
    found: list[tuple[tuple[Any, ...], str, Any]] = []
    for path, value in places(document):
        if path[0] in ("format", "format_version", "estimator") or any(type(key) is int and key > 1 for key in path):
            continue
        found += [(path, "remove", None)] * (type(path[-1]) is int) + [(path, "double", None)] * (type(path[-1]) is int)
        found += [(path, "replace", odd) for odd in ODD if type(odd) is not type(value) or odd != value]
    return found


def edited(document: Any, path: tuple[Any, ...], how: str, value: Any) -> Any:
    """The document after one edit."""
    changed = copy.deepcopy(document)
    inside = changed
    for key in path[:-1]:
        inside = inside[key]
    if how == "remove":
        del inside[path[-1]]
    elif how == "double":
        inside.insert(path[-1], copy.deepcopy(inside[path[-1]]))
    else:
        inside[path[-1]] = value
    return changed


def command_of(name: str) -> str:
    """What uses the run, and writes to out.* or prints."""
    opening = OPENINGS[name]
    if opening.predict is not None:
        return f"predict run {opening.predict} --overwrite -o out{opening.ending}"
    if opening.vectors is not None:
        return f"fingerprint run {opening.vectors} --overwrite -o out.npz"
    if opening.generate:
        return f"generate run {opening.generate[0]}"
    return f"explain run {opening.explain} --overwrite -o out.json"


def outcome(words: str, capsys: Any) -> tuple[int, Any]:
    """The exit code of a command; and what it said went wrong, or what it wrote."""
    code = main(shlex.split(words))
    printed, errors = capsys.readouterr()
    if code:
        return code, errors.splitlines()[-1]
    (written,) = [path.read_bytes() for path in Path().glob("out.*")] or [printed]
    return code, written


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_an_edited_model_is_refused_or_predicts_as_before(folder, tmp_path, capsys):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    words, path = command_of(folder.name), tmp_path / "run/model.json"
    document = json.loads(path.read_text())
    del document[CHECKSUM]
    every = edits(document)
    of_items = [edit for edit in every if edit[1] != "replace"]
    draw = random.Random(folder.name)
    chosen = draw.sample(every, NUM_EDITS) + draw.sample(of_items, min(NUM_EDITS, len(of_items)))
    with in_folder(tmp_path):
        code, expected = outcome(words, capsys)
        assert code == 0, expected
        for edit in chosen:
            RunFolder(tmp_path / "run").write_model(edited(document, *edit))
            code, found = outcome(words, capsys)
            assert code == 0 or found.startswith("edgewise: error: "), (edit, found)
            if code == 0 and edit[1] != "replace" and OPEN.isdisjoint(edit[0]):
                assert found == expected, edit


def one_of_each() -> list[Path]:
    """A folder for each format."""
    return list({json.loads((folder / "run/model.json").read_text())["format"]: folder for folder in FOLDERS}.values())


@pytest.mark.parametrize("folder", one_of_each(), ids=lambda folder: folder.name)
def test_an_edit_without_a_new_checksum_is_always_seen(folder, tmp_path):
    shutil.copytree(folder / "run", tmp_path / "run")
    run = RunFolder(tmp_path / "run")
    task = task_of(run)
    task.load(run).save(run)
    document = run.read_json("model.json")
    assert document[CHECKSUM] == checksum_of({name: each for name, each in document.items() if name != CHECKSUM})
    task.load(run)
    for edit in random.Random(folder.name).sample(edits(document), NUM_EDITS):
        if edit[0][0] != CHECKSUM:
            run.write_json("model.json", edited(document, *edit))
            with pytest.raises(RunFolderError):
                task.load(run)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.toml"])
def test_a_file_that_changed_since_it_was_written_is_refused_by_name(name, tmp_path):
    """A flipped bit of a weight, a changed token and a setting that was lost changed predictions without a word."""
    shutil.copytree(Path(__file__).parent / "0.2.0/texts_classification/run", tmp_path / "run")
    run, path = RunFolder(tmp_path / "run"), tmp_path / "run" / name
    task = task_of(run)
    task.load(run).save(run)
    task.load(run)

    content = path.read_bytes()
    changed = {
        "model.safetensors": content[:-1] + bytes([content[-1] ^ 1]),
        "tokenizer.json": content.replace(b'"film"', b'"FILM"'),
        "config.toml": content.replace(b'decimal = "."\n', b""),
    }[name]
    assert changed != content
    path.write_bytes(changed)
    with pytest.raises(RunFolderError, match=rf"{name} is damaged: it was changed since it was written"):
        task.load(run)


def test_where_the_data_lies_may_be_edited(tmp_path):
    shutil.copytree(Path(__file__).parent / "0.2.0/nodes_gat/run", tmp_path / "run")
    run = RunFolder(tmp_path / "run")
    task = task_of(run)
    task.load(run).save(run)
    config = tmp_path / "run/config.toml"
    config.write_text(config.read_text().replace("nodes.csv", "moved/nodes.csv").replace("\n", "\r\n"))
    task.load(run)
