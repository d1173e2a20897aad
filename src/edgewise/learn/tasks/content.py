"""Which data a run was trained on: the content of its files, and the rows of each split."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.errors import RunFolderError
from edgewise.learn.files import JsonObject
from edgewise.learn.training.folder import RunFolder

if TYPE_CHECKING:
    import numpy as np

MAX_LISTED = 2**16
"""Rows of a split above which a checkpoint has their checksum."""


def check_content(folder: RunFolder, files: Sequence[str]) -> None:
    """Raise RunFolderError where a data file has other content than a run was trained on; it may be gone."""
    if (folder.path / "checkpoints/data.json").is_file() and all(Path(name).exists() for name in files):
        check_same_content(folder, files, {"sha256": checksums(files)})


def check_same_content(folder: RunFolder, files: Sequence[str], data: JsonObject) -> None:
    """Raise RunFolderError that names the files that have other content, or rows in other splits, than a run had."""
    before = folder.read_object("checkpoints/data.json")
    changed = _changed(before, files, data["sha256"])
    if changed or any(before.get(name) != data[name] for name in data):
        what = f"other content in {', '.join(changed)}" if changed else f"other splits of the rows in {files[0]}"
        raise RunFolderError(
            f"{folder.path} was started with {what}; bring the old {'files' if len(changed) > 1 else 'file'} back to "
            "continue, or start again with --overwrite."
        )


def changed_files(folder: RunFolder, files: Sequence[str]) -> list[str]:
    """Those of the data files that have other content than a run was trained on; none where the folder does not say."""
    if not (folder.path / "checkpoints/data.json").is_file():
        return []
    before = folder.read_object("checkpoints/data.json")
    return _changed(before, files, checksums(files)) if "sha256" in before else []


def _changed(before: JsonObject, files: Sequence[str], now: Sequence[str]) -> list[str]:
    then = before.get("sha256")
    then = then if isinstance(then, list) and len(then) == len(files) else [None] * len(files)
    return [name for name, old, new in zip(files, then, now, strict=True) if old != new]


def checksums(files: Sequence[str]) -> list[str]:
    """The SHA-256 of each file; of a store or a run, that of the file there that has the checksums of the others."""
    lists = {name: [Path(name) / part for part in ("store.json", "model.json")] for name in files}
    paths = [next((path for path in lists[name] if path.is_file()), Path(name)) for name in files]
    found = []
    for path in paths:
        with open(path, "rb") as file:
            found.append(hashlib.file_digest(file, "sha256").hexdigest())
    return found


def listed_or_checksum(rows: "Sequence[int] | np.ndarray") -> list[int] | str:
    """The numbers of some rows, a list or an array; of many their SHA-256."""
    if len(rows) <= MAX_LISTED:
        return [*map(int, rows)]
    import numpy as np  # not for flags and settings, which are there at once

    return hashlib.sha256(np.asarray(rows, np.int64).tobytes()).hexdigest()
