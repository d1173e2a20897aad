"""Protection of folders: paths that are never a run folder, the lock of the writer, the list of a run's files."""

import contextlib
import itertools
import json
import os
import re
import socket
import time
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO

from edgewise.errors import RunFolderError
from edgewise.learn.files import PART_PREFIX, PART_SUFFIX, write_bytes

MARKER, LOCK = ".edgewise-run.json", ".edgewise-lock"
FORMAT, FORMAT_VERSION = "edgewise run folder", 1
FILES = (
    "config.toml",
    "splits.json",
    "metrics.json",
    "model.safetensors",
    "model.json",
    "tokenizer.json",
    "test_predictions.csv",
    "test_predictions.jsonl",
    "rejected.csv",
    "force.csv",
    "rollout.npz",
    "report.html",
    *(f"{picture}.{ending}" for picture in ("orbits", "apart", "force") for ending in ("svg", "png")),
)
"""The files of a run at the top of its folder."""
FOLDERS = ("checkpoints", "logs")
CHECKPOINTS = ("last.ckpt", "previous.ckpt", "best.ckpt", "finished.ckpt")
_DEEPER = re.compile(
    r"checkpoints/(data\.json|member_\d{1,6}/(last|previous|best|finished)\.ckpt)"
    r"|logs/(metrics\.csv|tensorboard/(events\.out\.tfevents\.[^/]+|hparams\.yaml))"
)
_EVENTS = re.compile(r"logs/tensorboard/.+")
_SHOWN = 3


def is_output(name: str) -> bool:
    """Whether a training writes a file of this name: no other name is ever removed, whatever a marker lists."""
    return name in FILES or _DEEPER.fullmatch(name) is not None


def reject_protected_path(path: Path) -> None:
    """Raise RunFolderError for paths such as the home folder, links followed."""
    real = Path(os.path.realpath(path))
    home, current = Path(os.path.realpath(Path("~").expanduser())), Path(os.path.realpath("."))
    reason = None
    if real == Path(real.anchor):
        reason = "the root of the file system"
    elif real == home:
        reason = "your home folder"
    elif real in home.parents:
        reason = "above your home folder"
    elif real in current.parents:
        reason = "above the folder that you are in"
    elif os.path.ismount(real):
        reason = "a mount point"

    if reason is not None:
        raise RunFolderError(f"{path} is {reason}, which is never a run folder; choose a folder of its own with -o.")


def existing_outputs(path: Path) -> set[str]:
    """The files in a folder, links among them, that have names of a run's files; links to folders are not followed."""
    outputs = {name for name in FILES if os.path.lexists(path / name) and not _is_folder(path / name)}
    for folder in FOLDERS:
        for at, _, names in os.walk(path / folder) if _is_folder(path / folder) else ():
            relative = Path(at).relative_to(path).as_posix()
            outputs |= {f"{relative}/{name}" for name in names if is_output(f"{relative}/{name}")}
    return outputs


def own_folders(path: Path) -> list[Path]:
    """A folder and those in it where a run writes; links are left out."""
    members = (path / "checkpoints").glob("member_*") if _is_folder(path / "checkpoints") else ()
    return [folder for folder in (path, path / "logs", *members) if folder == path or _is_folder(folder)]


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def owned_files(path: Path) -> frozenset[str] | None:
    """The files in a folder that runs of ours wrote, or None where no run of ours was ever there.

    The marker lists them.

    Raises:
        RunFolderError: The marker is damaged, or of a newer format.
    """
    marker = path / MARKER
    if not os.path.lexists(marker):
        return None
    content = None if marker.is_symlink() else _json(marker)
    names = content.get("files") if isinstance(content, dict) and content.get("format") == FORMAT else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise RunFolderError(f"{marker} is damaged, so nothing here is replaced; choose another folder with -o.")

    version = content.get("format_version") if isinstance(content, dict) else None
    if version != FORMAT_VERSION:
        raise RunFolderError(
            f"{marker} has format {version!r}, this Edgewise writes {FORMAT_VERSION}; choose another folder with -o."
        )

    # The other logger names its files itself; its folder is ours.
    return frozenset(names) | {name for name in existing_outputs(path) if _EVENTS.fullmatch(name)}


def _json(path: Path) -> object:
    """The content of a JSON file; None where it cannot be read."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def write_marker(path: Path, names: Collection[str]) -> None:
    """Notes which files runs of ours wrote."""
    content = {"format": FORMAT, "format_version": FORMAT_VERSION, "files": sorted(names)}
    write_bytes(path / MARKER, (json.dumps(content, indent=1) + "\n").encode())


def foreign_content(path: Path) -> list[str]:
    """What a folder holds beside traces of a training that was killed before it wrote a file."""
    names = sorted(entry.name for entry in path.iterdir())
    return [
        name for name in names if name != LOCK and not (name.startswith(PART_PREFIX) and name.endswith(PART_SUFFIX))
    ]


def shown(names: Collection[str]) -> str:
    """The first of some names."""
    first = sorted(names)[:_SHOWN]
    return ", ".join(first) + (f" and {len(names) - len(first)} more" if len(names) > len(first) else "")


def require_own_folders(path: Path, name: str) -> None:
    """Raise RunFolderError where a folder on the way to a file of a run is a link: it would lead out of the run."""
    for parent in list(Path(name).parents)[:-1]:
        if (path / parent).is_symlink():
            raise RunFolderError(
                f"{path / parent} is a link; a run writes inside its own folder only. Remove the link, or choose "
                "another folder with -o."
            )


def remove_outputs(path: Path, names: Collection[str]) -> None:
    """Removes files of a run, and its folders where nothing else is in them."""
    for name in names:
        require_own_folders(path, name)
    for name in names:
        (path / name).unlink(missing_ok=True)
    for folder in sorted({parent for name in names for parent in Path(name).parents if parent.parts}, reverse=True):
        with contextlib.suppress(OSError):
            (path / folder).rmdir()


def is_inside(path: Path, top: Path) -> bool:
    """Whether a run of ours is in a folder below another one, without links on the way."""
    parents = itertools.takewhile(lambda folder: folder != top, (path, *path.parents))
    return (path / MARKER).is_file() and not any(folder.is_symlink() for folder in parents)


def remove_folder(path: Path, top: Path) -> None:
    """Removes a folder that holds nothing but the list of a run's files, and those between it and `top` that are
    empty."""
    if [entry.name for entry in path.iterdir()] == [MARKER]:
        (path / MARKER).unlink()
    for folder in itertools.takewhile(lambda folder: folder != top, (path, *path.parents)):
        with contextlib.suppress(OSError):
            folder.rmdir()


def refuse_file(path: Path) -> None:
    """Raise RunFolderError where the path of a folder, or of one above it, is a file."""
    for part in (path, *path.parents):
        if part.exists() and not part.is_dir():
            raise RunFolderError(f"{part} is a file; choose another folder with -o.")


@contextlib.contextmanager
def removing_empty_folders(path: Path) -> Iterator[None]:
    """Removes what the block made of a folder and those above it, where nothing was written into them."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        yield
    finally:
        for folder in missing:
            with contextlib.suppress(OSError):
                folder.rmdir()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock of a folder, which is made if it is not there; the system drops it when the process ends.

    Raises:
        RunFolderError: Another process holds it; the message names the process, its machine, and since when.
    """
    file, lock_path = _acquire(path), path / LOCK
    try:
        holder = {"process": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        file.write(json.dumps(holder).encode())
        file.flush()
        yield
    finally:
        with contextlib.suppress(OSError):
            # Before it is released: a process that waits for this file notices that its name is gone.
            lock_path.unlink()
        file.close()


def _acquire(path: Path) -> IO[bytes]:
    """The lock file, locked; retries where the file was removed meanwhile."""
    lock_path = path / LOCK
    while True:
        path.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        except FileNotFoundError:  # the folder was removed by a training that found no data
            continue

        file = os.fdopen(descriptor, "r+b")
        if not _lock(file):
            file.close()
            raise RunFolderError(_in_use(path))

        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(lock_path, follow_symlinks=False)):
                file.truncate(0)
                return file

        file.close()


def check_unlocked(path: Path) -> None:
    """Raise RunFolderError where a process holds the lock of a folder."""
    with contextlib.suppress(FileNotFoundError), open(path / LOCK, "r+b") as file:
        if not _lock(file):
            raise RunFolderError(_in_use(path))


def _lock(file: IO[bytes]) -> bool:
    """Locks an open file as long as it is open; whether that was possible."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError) as error:
        warnings.warn(
            f"{file.name}: this file system does not support locks ({error}); train once at a time.", stacklevel=3
        )
    return True


def _in_use(path: Path) -> str:
    holder = _json(path / LOCK)
    who = "another process"
    if isinstance(holder, dict):
        who = f"process {holder.get('process')} on {holder.get('host')} since {holder.get('since')}"
    return f"{path} is in use by {who}; wait until it ends, stop it, or choose another folder with -o."
