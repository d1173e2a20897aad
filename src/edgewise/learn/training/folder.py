"""The run folder: one place for everything a training leaves behind, never half written, never silently replaced."""

import contextlib
import csv
import hashlib
import itertools
import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import tomli_w

from edgewise.errors import EdgewiseError, RunFolderError
from edgewise.learn.files import JsonObject, atomic_write, parse_json, remove_parts, write_bytes
from edgewise.learn.training import claim

if TYPE_CHECKING:
    import numpy as np

CHECKSUM = "sha256"
"""Where model.json holds a checksum of the rest of it."""
CHECKED_FILES = ("model.safetensors", "tokenizer.json", "config.toml")
"""What a prediction is computed from besides model.json, which holds their checksums."""
FILE_SETTINGS = ("data", "validation-data", "edges", "features", "graphs", "nodes", "pretrained")
"""Settings that name files or runs: these may be moved, and config.toml be edited to say where they are."""
BATCH_SIZE = 2**13
"""Rows of a file that are written together."""


@dataclass(frozen=True)
class RunFolder:
    """A folder that holds one run.

    config.toml            the settings, enough to repeat the run
    splits.json            the rows of each part, numbered from 0 in file order
    metrics.json           the scores; written last, so a folder that has it is finished
    model.json             what the model is and how its columns are scaled, with a format version
    model.safetensors      every tensor of every ensemble member
    checkpoints/ logs/     where an interrupted run continues; the numbers of each epoch
    test_predictions.csv   the test rows with their predictions; .jsonl where they are sentences
    rejected.csv           the cells that could not be used, and why
    force.csv rollout.npz  of moving bodies: the learned force by distance, and where it leads the test bodies
    report.html            the page about the run
    *.svg *.png            of moving bodies: the pictures that `edgewise report` draws
    .edgewise-run.json     the files that runs wrote here; no other file is ever replaced or removed
    .edgewise-lock         who writes here at the moment
    """

    path: Path
    """Where the folder is."""

    @property
    def is_started(self) -> bool:
        """Whether a run was started here."""
        return (self.path / "config.toml").is_file()

    @property
    def is_finished(self) -> bool:
        """Whether a run was finished here."""
        return (self.path / "metrics.json").is_file() and (self.path / "model.json").is_file()

    @property
    def is_cross_validated(self) -> bool:
        """Whether a cross-validation was finished here: the folder holds the scores of all its runs, and no model."""
        return (self.path / "metrics.json").is_file() and bool(self.folds())

    @contextlib.contextmanager
    def claimed(self, *, overwrite: bool = False, resume: bool = False) -> Iterator[Self]:
        """The folder for one run alone: made, checked as `check` does, and locked until the block ends.

        Folders that were made for it are removed again where nothing was written into them.
        """
        self.check(overwrite=overwrite, resume=resume)
        with claim.removing_empty_folders(self.path), self.locked():
            self.check(overwrite=overwrite, resume=resume, is_locked=True)  # another run may have come first
            yield self

    @contextlib.contextmanager
    def locked(self) -> Iterator[Self]:
        """Locks the folder until the block ends; raises RunFolderError that names who holds the lock."""
        with claim.locked(self.path):
            for folder in claim.own_folders(self.path):
                remove_parts(folder)
            yield self

    def check(self, *, overwrite: bool = False, resume: bool = False, is_locked: bool = False) -> None:
        """Raise RunFolderError where a run in this folder would hide or destroy what is there.

        Args:
            overwrite: An earlier run in the folder may be replaced.
            resume: An unfinished run in the folder is to be continued.
            is_locked: This process holds the lock.
        """
        claim.reject_protected_path(self.path)
        claim.refuse_file(self.path)
        if overwrite and resume:
            raise RunFolderError("--overwrite and --resume contradict each other; give one of them.")
        if not self.path.exists():
            return

        if not is_locked:
            claim.check_unlocked(self.path)
        owned = self._owned()
        if owned is None:
            return
        for name in owned:
            claim.require_own_folders(self.path, name)

        if foreign := claim.existing_outputs(self.path) - owned:
            raise RunFolderError(
                f"{self.path} holds {claim.shown(foreign)}, which no run of Edgewise wrote; move it away, or choose "
                "another folder with -o."
            )
        if overwrite or resume:
            return
        if self.is_finished or self.is_cross_validated:
            raise RunFolderError(
                f"{self.path} holds a finished run; choose another folder with -o, or replace it with --overwrite."
            )
        if self.is_started:
            raise RunFolderError(
                f"{self.path} holds an unfinished run; continue it with --resume, or replace it with --overwrite."
            )
        if outputs := claim.existing_outputs(self.path):
            raise RunFolderError(
                f"{self.path} already holds {claim.shown(outputs)}; choose another folder with -o, or replace it with "
                "--overwrite."
            )

    def _owned(self) -> frozenset[str] | None:
        """The files that runs wrote here; None where the folder is empty, and an error where others use it."""
        owned = claim.owned_files(self.path)
        if owned is None and (foreign := claim.foreign_content(self.path)):
            raise RunFolderError(
                f"{self.path} is not a run folder and holds {claim.shown(foreign)}; choose an empty or a new folder "
                "with -o."
            )
        return owned

    def begin(self) -> None:
        """Makes the folder and removes the files of an earlier run, and only those; of a cross-validation its folds,
        too."""
        self.path.mkdir(parents=True, exist_ok=True)
        owned = self._owned() or frozenset()
        folds = self._folds()
        for fold in folds:
            fold.check(overwrite=True)
        claim.write_marker(self.path, owned)
        outputs = {name for name in owned if claim.is_output(name)}
        # The marks of a finished run go first: what is left after an interruption must not look finished.
        first = [name for name in ("metrics.json", "model.json") if name in outputs]
        claim.remove_outputs(self.path, first)
        for fold in folds:
            with fold.locked():
                fold.begin()
            claim.remove_folder(fold.path, self.path)
        # Then the settings, which say where folds are: without them, what is left cannot be continued.
        settings = outputs & {"config.toml"}
        claim.remove_outputs(self.path, settings)
        claim.remove_outputs(self.path, sorted(outputs - settings - set(first)))
        claim.write_marker(self.path, owned - outputs)

    def write(self, name: str, content: bytes) -> None:
        """Writes a file of the run, and lists it as ours; raises RunFolderError where a file of another program is
        there."""
        self._own([name])
        write_bytes(self.path / name, content)

    def _own(self, names: Sequence[str]) -> None:
        """Lists files as ours before they are written."""
        self.path.mkdir(parents=True, exist_ok=True)
        for name in names:
            claim.require_own_folders(self.path, name)
        owned = self._owned()
        new = set(names) - (owned or set())
        for name in sorted(new):
            if os.path.lexists(self.path / name):
                raise RunFolderError(f"{self.path / name} was not written by a run of Edgewise; move it away.")
        if new or not (self.path / claim.MARKER).is_file():
            claim.write_marker(self.path, (owned or frozenset()) | new)

    def checkpoint_folder(self, member: int) -> Path:
        """Where an ensemble member keeps its checkpoints; made if it is not there."""
        name = f"checkpoints/member_{member}"
        self._own([f"{name}/{checkpoint}" for checkpoint in claim.CHECKPOINTS])
        (self.path / name).mkdir(parents=True, exist_ok=True)
        return self.path / name

    def log_folder(self) -> Path:
        """Where the numbers of each epoch are; made if it is not there."""
        self._own(["logs/metrics.csv"])
        (self.path / "logs").mkdir(parents=True, exist_ok=True)
        return self.path / "logs"

    def write_config(self, settings: Mapping[str, object]) -> None:
        """Writes config.toml; settings that are None are left out."""
        content = {name: value for name, value in settings.items() if value is not None}
        text = "# Repeat this run: edgewise train --config-path config.toml -o another_folder\n" + tomli_w.dumps(
            content
        )
        self.write("config.toml", text.encode())

    def read_config(self) -> JsonObject:
        """The settings in config.toml."""
        config = read_toml(self.path / "config.toml")
        if "descriptors-columns" in config:  # without the key, missing numbers are not filled
            config.setdefault("missing", "drop")
        return config

    def write_json(self, name: str, content: object) -> None:
        """Writes a JSON file; NaN and infinities are refused, as JSON has none."""
        self.write(name, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())

    def write_rows(self, name: str, splits: "Mapping[str, Sequence[int] | np.ndarray]") -> None:
        """Writes the rows of each split as `write_json` does, some at a time, as there may be many."""
        self._own([name])
        with atomic_write(self.path / name) as file:
            before = "{"
            for split, rows in splits.items():
                file.write(f"{before}\n {json.dumps(split)}: [".encode())
                for start in range(0, len(rows), BATCH_SIZE):
                    numbers = map(int, rows[start : start + BATCH_SIZE])
                    file.write(("," * (start > 0) + ",".join(f"\n  {number}" for number in numbers)).encode())
                file.write(b"\n ]" if len(rows) else b"]")
                before = ","
            file.write(b"\n}\n" if splits else b"{}\n")

    def read_json(self, name: str) -> object:
        """Reads a JSON file of the folder; raises RunFolderError where it is missing or damaged."""
        return read_json(self.path / name)

    def read_object(self, name: str) -> JsonObject:
        """Reads a JSON file that holds an object; raises RunFolderError where it is missing, damaged, or another."""
        content = self.read_json(name)
        if not isinstance(content, dict):
            raise RunFolderError(
                f"{self.path / name} is damaged: it holds {type(content).__name__}, expected an object."
            )
        return content

    def read_model(self, kind: str, newest: int) -> JsonObject:
        """The content of model.json; raises RunFolderError where it is of another kind, or newer than can be read.

        Args:
            kind: The value of `format`.
            newest: The largest `format_version` that can be read.
        """
        content, path = self.read_json("model.json"), self.path / "model.json"
        if not isinstance(content, dict) or content.get("format") != kind:
            actual = self.read_format() or ""
            difference = f" but an {actual[:60]}" if actual.startswith("edgewise ") else ""
            raise RunFolderError(f"{path} is not an {kind}{difference}.")

        version = content.get("format_version")
        if type(version) is not int or version < 1:
            raise RunFolderError(f"{path} is damaged: format_version is {version!r:.60}, expected a whole number.")
        if version > newest:
            raise RunFolderError(
                f"{path} has format {version}, this Edgewise reads up to {newest}; "
                "upgrade it: pip install --upgrade edgewise"
            )

        return content

    def write_model(self, content: Mapping[str, object]) -> None:
        """Writes model.json, with a checksum of all that it says."""
        hashed = {name: value for name, value in content.items() if name != CHECKSUM}
        self.write_json("model.json", {**hashed, CHECKSUM: checksum_of(hashed)})

    def checksums(self) -> dict[str, str]:
        """The SHA-256 of each of `CHECKED_FILES` that is there; of config.toml of the settings that name no files."""
        digests = {}
        for path in (self.path / name for name in CHECKED_FILES):
            if path.suffix == ".toml" and path.is_file():
                settings = read_toml(path)
                digests[path.name] = checksum_of({name: settings[name] for name in settings.keys() - {*FILE_SETTINGS}})
            elif path.is_file():
                with path.open("rb") as file:
                    digests[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
        return digests

    def check_model(self, content: Mapping[str, object], checksums: Mapping[str, str]) -> None:
        """Raise RunFolderError where model.json, or a file whose checksum it has, was changed since it was written.

        Args:
            content: The content of model.json.
            checksums: What `checksums` returned then; of a file that it does not name, nothing is known.
        """
        hashed = {name: value for name, value in content.items() if name != CHECKSUM}
        now = {"model.json": checksum_of(hashed), **self.checksums()}
        before = {"model.json": content.get(CHECKSUM), **checksums}
        for name, checksum in now.items():
            if name in before and before[name] != checksum:
                raise RunFolderError(
                    f"{self.path / name} is damaged: it was changed since it was written (its checksum differs); "
                    "restore it, or train again."
                )

    def read_format(self) -> str | None:
        """The value of `format` in model.json; raises RunFolderError where the file is missing or damaged."""
        content = self.read_json("model.json")
        format_name = content.get("format") if isinstance(content, dict) else None
        return format_name if isinstance(format_name, str) else None

    def write_table(self, name: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Writes a CSV file, some rows at a time."""
        self._own([name])
        lines = iter(rows)
        with atomic_write(self.path / name) as file:
            file.write(csv_text(header, ()).encode())
            while block := list(itertools.islice(lines, BATCH_SIZE)):
                file.write(csv_text(None, block).encode())

    def folds(self) -> list[Path]:
        """The finished runs of a cross-validation, whose folder holds runs instead of a model."""
        return [fold.path for fold in self._folds() if (fold.path / "model.json").is_file()]

    def _folds(self) -> list["RunFolder"]:
        """The runs of a cross-validation that were started; none where the folder holds another run."""
        try:
            config = self.read_config() if self.is_started else {}
        except RunFolderError:  # damaged
            config = {}
        num_folds, num_repeats = config.get("num-folds"), config.get("num-repeats", 1)
        if "fold" in config or not isinstance(num_folds, int) or not isinstance(num_repeats, int):
            return []
        names = [fold_name(fold, repeat, num_repeats) for repeat in range(num_repeats) for fold in range(num_folds)]
        folders = [RunFolder(self.path / name) for name in names]
        return [folder for folder in folders if claim.is_inside(folder.path, self.path)]

    @classmethod
    def finished(cls, path: str | os.PathLike[str]) -> Self:
        """The folder of a finished run; raises RunFolderError where there is none."""
        folder = cls(Path(path))
        if folder.path.is_file():
            raise RunFolderError(
                f"{path} is a file; expected the folder of a run, which `edgewise train ... -o` makes."
            )
        if not folder.path.is_dir():
            raise RunFolderError(
                f"{path} is not a run folder: it does not exist. `edgewise train ... -o {path}` makes one."
            )
        if (folder.path / "model.json").is_file() and (folder.path / "model.safetensors").is_file():
            return folder
        if folder.is_cross_validated:
            folds = folder.folds()
            raise RunFolderError(
                f"{path} holds a cross-validation: its {len(folds)} folds are runs of their own; name one of them: "
                f"{folds[0]}"
            )
        if folder.is_started:
            raise RunFolderError(f"{path} holds an unfinished run; continue it: edgewise train --resume -o {path}")

        runs = sorted(model_file.parent for model_file in folder.path.glob("*/model.json"))
        shown = f"; it holds {claim.shown({str(run) for run in runs})}: name one" if runs else ""
        raise RunFolderError(f"{path} is not a run folder: model.json or model.safetensors is missing{shown}.")


def fold_name(fold: int, repeat: int, num_repeats: int) -> str:
    """Where the run of a fold is in the folder of a cross-validation."""
    return f"fold_{fold}" if num_repeats == 1 else f"repeat_{repeat}/fold_{fold}"


@contextlib.contextmanager
def corrupt_as_run_error(path: Path) -> Iterator[None]:
    """Reports errors while reading results as damage of the folder; only reports read them."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, csv.Error) as error:
        if isinstance(error, EdgewiseError):
            raise
        raise RunFolderError(f"{path} holds a damaged file of results: {type(error).__name__}: {error}") from error


def read_toml(path: str | os.PathLike[str]) -> JsonObject:
    """The content of a TOML file; raises RunFolderError that names the file where it cannot be read."""
    try:
        return tomllib.loads(Path(path).read_bytes().decode())
    except FileNotFoundError:
        raise RunFolderError(f"{path} does not exist.") from None
    except IsADirectoryError:
        raise RunFolderError(f"{path} is a folder; expected a TOML file such as config.toml in it.") from None
    except (ValueError, RecursionError) as error:
        raise RunFolderError(f"{path} is not a TOML file: {error}.") from error
    except OSError as error:
        raise RunFolderError(f"{path} cannot be read: {error.strerror}.") from error


def read_json(path: Path) -> object:
    """The content of a JSON file; raises RunFolderError that names the file where it cannot be read."""
    try:
        return parse_json(path.read_bytes())
    except FileNotFoundError:
        raise RunFolderError(f"{path} does not exist.") from None
    except (ValueError, RecursionError) as error:
        raise RunFolderError(f"{path} is not a JSON file: {error}.") from error
    except OSError as error:
        raise RunFolderError(f"{path} cannot be read: {error.strerror}.") from error


def csv_text(header: Sequence[str] | None, rows: Iterable[Sequence[object]], delimiter: str = ",") -> str:
    """A CSV file as text; without a header, rows that follow on others."""
    lines = _Lines()
    # With "\n" alone the writer would leave a cell that holds "\r" without quotes, and readers end the row there.
    writer = csv.writer(lines, delimiter=delimiter, lineterminator="\r\n")
    if header is not None:
        writer.writerow(header)
    writer.writerows(rows)
    return "".join(lines)


class _Lines(list[str]):
    """Rows as `csv.writer` writes them, each ended by "\n"."""

    def write(self, row: str) -> None:
        """Adds a row that ends in "\r\n"."""
        self.append(f"{row[:-2]}\n")


def json_lines(rows: Iterable[Mapping[str, object]]) -> str:
    """Objects as text, one a line."""
    return "".join(json_line(row) + "\n" for row in rows)


def json_line(row: Mapping[str, object]) -> str:
    """An object on one line, signs beyond ASCII as they are unless one is half a character, which UTF-8 lacks."""
    line = json.dumps(row, ensure_ascii=False)
    return json.dumps(row) if any("\ud800" <= sign <= "\udfff" for sign in line) else line


def checksum_of(content: Mapping[str, object]) -> str:
    """The SHA-256 of the content of a JSON or a TOML file, which may have dates, however it is written."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()
