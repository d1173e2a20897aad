"""The run folder: one place for everything a training leaves behind, never half written, never silently replaced."""

import csv
import io
import json
import os
import shutil
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import tomli_w

from edgewise.errors import RunFolderError

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
    *(f"{picture}.{kind}" for picture in ("orbits", "apart", "force") for kind in ("svg", "png")),
)
FOLDERS = ("checkpoints", "logs")


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
    """

    path: Path
    """Where the folder is."""

    @property
    def is_begun(self) -> bool:
        """Whether a run was started here."""
        return (self.path / "config.toml").is_file()

    @property
    def is_finished(self) -> bool:
        """Whether a run was finished here."""
        return (self.path / "metrics.json").is_file() and (self.path / "model.json").is_file()

    def check(self, *, overwrite: bool = False, resume: bool = False) -> None:
        """Raise RunFolderError where a run in this folder would hide or destroy what is there.

        Args:
            overwrite: An earlier run in the folder may be replaced.
            resume: An unfinished run in the folder is to be continued.
        """
        if self.path.exists() and not self.path.is_dir():
            raise RunFolderError(f"{self.path} is a file; choose another folder with -o.")
        if overwrite and resume:
            raise RunFolderError("--overwrite and --resume contradict each other; give one of them.")
        if not self.path.exists() or overwrite or resume:
            return
        if self.is_finished:
            raise RunFolderError(
                f"{self.path} holds a finished run; choose another folder with -o, or replace it with --overwrite."
            )
        if self.is_begun:
            raise RunFolderError(
                f"{self.path} holds an unfinished run; continue it with --resume, or replace it with --overwrite."
            )
        taken = [name for name in (*FILES, *FOLDERS) if (self.path / name).exists()]
        if taken:
            raise RunFolderError(
                f"{self.path} already holds {', '.join(taken)}; choose another folder with -o, or replace it with "
                "--overwrite."
            )

    def begin(self) -> None:
        """Makes the folder and removes the files of an earlier run, and only those."""
        self.path.mkdir(parents=True, exist_ok=True)
        # The marks of a finished run go first: what is left after an interruption must not look finished.
        for name in ("metrics.json", "model.json", *FILES):
            (self.path / name).unlink(missing_ok=True)
        for name in FOLDERS:
            shutil.rmtree(self.path / name, ignore_errors=True)

    def checkpoint_folder(self, member: int) -> Path:
        """Where an ensemble member keeps its checkpoints; made if it is not there."""
        folder = self.path / "checkpoints" / f"member_{member}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def write_config(self, settings: Mapping[str, Any]) -> None:
        """Writes config.toml; settings that are None are left out."""
        known = {name: value for name, value in settings.items() if value is not None}
        text = "# Repeat this run: edgewise train --config-path config.toml -o another_folder\n" + tomli_w.dumps(known)
        write_bytes(self.path / "config.toml", text.encode())

    def read_config(self) -> dict[str, Any]:
        """The settings in config.toml."""
        return read_toml(self.path / "config.toml")

    def write_json(self, name: str, content: Any) -> None:
        """Writes a JSON file; NaN and infinities are refused, as JSON has none."""
        write_bytes(self.path / name, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())

    def read_json(self, name: str) -> Any:
        """Reads a JSON file of the folder; raises RunFolderError where it is missing or damaged."""
        return read_json(self.path / name)

    def read_model(self, kind: str, newest: int) -> dict[str, Any]:
        """Reads model.json; raises RunFolderError where it is damaged, of another kind, or newer than can be read.

        Args:
            kind: What stands under `format`.
            newest: The largest `format_version` that can be read.
        """
        content, path = self.read_json("model.json"), self.path / "model.json"
        if not isinstance(content, dict) or content.get("format") != kind:
            raise RunFolderError(f"{path} is no {kind}.")
        if content["format_version"] > newest:
            raise RunFolderError(
                f"{path} has format {content['format_version']}, this Edgewise reads up to {newest}; "
                "upgrade it: pip install --upgrade edgewise"
            )
        return content

    def write_table(self, name: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Writes a CSV file."""
        write_bytes(self.path / name, csv_text(header, rows).encode())

    @classmethod
    def finished(cls, path: str | os.PathLike[str]) -> Self:
        """The folder of a finished run; raises RunFolderError where there is none."""
        folder = cls(Path(path))
        if not folder.path.is_dir():
            raise RunFolderError(
                f"{path} is no run folder: it does not exist. `edgewise train ... -o {path}` makes one."
            )
        if (folder.path / "model.json").is_file() and (folder.path / "model.safetensors").is_file():
            return folder
        if folder.is_begun:
            raise RunFolderError(f"{path} holds an unfinished run; continue it: edgewise train --resume -o {path}")
        raise RunFolderError(f"{path} is no run folder: it has no model.json and model.safetensors.")


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a TOML file; raises RunFolderError that names the file where it cannot be read."""
    try:
        return tomllib.loads(Path(path).read_bytes().decode())
    except FileNotFoundError:
        raise RunFolderError(f"{path} does not exist.") from None
    except IsADirectoryError:
        raise RunFolderError(f"{path} is a folder; expected a TOML file such as config.toml in it.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RunFolderError(f"{path} is not a TOML file: {error}.") from error


def read_json(path: Path) -> Any:
    """The content of a JSON file; raises RunFolderError that names the file where it cannot be read."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise RunFolderError(f"{path} does not exist.") from None
    except ValueError as error:
        raise RunFolderError(f"{path} is not a JSON file: {error}.") from error


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A CSV file as text."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return buffer.getvalue()


def json_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    """Objects as text, one a line."""
    return "".join(json_line(row) + "\n" for row in rows)


def json_line(row: Mapping[str, Any]) -> str:
    """An object on one line, signs beyond ASCII as they are unless one is half a character, which UTF-8 lacks."""
    line = json.dumps(row, ensure_ascii=False)
    return json.dumps(row) if any("\ud800" <= sign <= "\udfff" for sign in line) else line


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file in one stroke: whoever reads it sees the old content or the new, never a part."""
    with_suffix = path.with_name(path.name + ".part")
    with_suffix.write_bytes(content)
    os.replace(with_suffix, path)
