"""Settings as the flat table of a `config.toml`, and whether a run that is continued still has the same ones."""

import dataclasses
import difflib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from edgewise.data.tables.cell import Rejection
from edgewise.errors import RunFolderError, SettingError
from edgewise.models.text_settings import CONFIGURATIONS, TransformerSettings
from edgewise.train.folder import RunFolder
from edgewise.train.settings import require

TYPED = {"from_run": "from"}
"""Settings whose flags are called otherwise."""
FREE = {"check-memory"}
"""Settings that may be others when a run is continued: they change nothing of what is learned."""


def job_to_config(job: Any) -> dict[str, Any]:
    """The job as one flat table, names written as the flags are; settings that are None are left out."""
    flat: dict[str, Any] = {}
    for name, value in ((f.name, getattr(job, f.name)) for f in fields(job)):
        if dataclasses.is_dataclass(value):
            flat.update({f.name: getattr(value, f.name) for f in fields(value)})
        else:
            flat[name] = value
    return {
        name.replace("_", "-"): list(value) if isinstance(value, tuple) else value
        for name, value in flat.items()
        if value is not None
    }


def arranged(
    config: Mapping[str, Any], source: str, job: type, kinds: Mapping[str, type], missing: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The values of a flat table, sorted by whom they belong to: the job itself, and each of its parts.

    Args:
        config: Names as the flags, with hyphens or underscores; what is left out has its default.
        source: What an error calls the table, such as its file name.
        job: The dataclass of the job.
        kinds: The dataclasses of its parts.
        missing: What is said where a setting without a default is not given.

    Raises:
        SettingError: A name is not known, or a value is of the wrong kind.
    """
    given = {name.replace("-", "_"): value for name, value in config.items()}
    owners = {f.name: ("", f) for f in fields(job) if f.name not in kinds}
    owners |= {f.name: (part, f) for part, kind in kinds.items() for f in fields(kind)}
    values: dict[str, dict[str, Any]] = {"": {}, **{part: {} for part in kinds}}
    for name, value in given.items():
        if name not in owners:
            close = difflib.get_close_matches(name, owners, n=1)
            hint = f"; did you mean {close[0].replace('_', '-')!r}?" if close else "."
            raise SettingError(f"{source} has the unknown setting {as_typed(name, value)!r}{hint}")
        part, owner = owners[name]
        values[part][name] = checked(source, name, value, owner)
    for name in missing:
        if not given.get(name):
            raise SettingError(missing[name])
    return values.pop(""), values


def as_typed(name: str, value: Any) -> str:
    """How a setting is called by its flag: what is switched off begins with `no-`."""
    typed = TYPED.get(name, name.replace("_", "-"))
    return f"no-{typed}" if value is False else typed


def named_model(
    config: Mapping[str, Any], default: TransformerSettings, what: str
) -> tuple[dict[str, Any], TransformerSettings]:
    """A flat table without `model`, and the settings that it names there, which the rest of the table changes.

    Args:
        config: Names as the flags.
        default: The settings where `model` is not given.
        what: What is learned from, for the message.

    Raises:
        SettingError: It is none of `CONFIGURATIONS`.
    """
    rest = {name: value for name, value in config.items() if name != "model"}
    named = config.get("model")
    if named is not None and named not in CONFIGURATIONS:
        raise SettingError(f"--model is {named!r}; for {what} expected one of {', '.join(CONFIGURATIONS)}.")
    return rest, default if named is None else CONFIGURATIONS[named]


def check_two_parts(split_sizes: tuple[float, ...]) -> None:
    """Raise SettingError unless these are parts for training and validation."""
    fits = len(split_sizes) == 2 and min(split_sizes) >= 0 and 0 < sum(split_sizes) <= 1 + 1e-9
    require("--split-sizes", split_sizes, fits and split_sizes[0] > 0, "two parts, training and validation")


def check_three_parts(split_sizes: tuple[float, ...]) -> None:
    """Raise SettingError unless these are parts for training, validation and test."""
    fits = len(split_sizes) == 3 and min(split_sizes) >= 0 and abs(sum(split_sizes) - 1) < 1e-6
    require("--split-sizes", split_sizes, fits and split_sizes[0] > 0, "three parts that sum to 1")


def check_foreign(given: Mapping[str, Any], usual: Any, own: Sequence[str], name: str) -> None:
    """Raise SettingError where a setting was changed that the model `name` does not look at.

    Args:
        given: What was asked for; a run that is continued asks for everything, unchanged.
        usual: The settings of the model.
        own: Those that it looks at.
        name: What it is called.
    """
    for setting, value in given.items():
        if setting not in own and value != getattr(usual, setting):
            raise SettingError(f"--{setting.replace('_', '-')} does nothing with --model {name}; leave it out.")


def checked(source: str, name: str, value: Any, owner: dataclasses.Field) -> Any:
    """The value in the type of its field; raises SettingError where it cannot be."""
    kinds = kinds_of(owner.type)
    if tuple in kinds:
        if isinstance(value, (list, tuple)):
            return tuple(value)
        if isinstance(value, (str, int, float)):
            return (value,)
    if float in kinds and type(value) is int:
        return float(value)
    if type(value) in kinds or (value is None and NoneType in get_args(owner.type)):
        return value
    expected = " or ".join(kind.__name__ for kind in kinds)
    raise SettingError(f"{source} has {name.replace('_', '-')} = {value!r}; expected {expected}.")


def kinds_of(annotation: Any) -> tuple[type, ...]:
    """The plain types that an annotation allows, None left out."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return tuple(kind for part in get_args(annotation) for kind in kinds_of(part))
    if origin is Literal:
        return tuple(dict.fromkeys(type(choice) for choice in get_args(annotation)))
    kind = origin or annotation
    return () if kind is NoneType else (kind,)


def begin(
    folder: RunFolder,
    job: Any,
    *,
    resume: bool,
    rows: dict[str, list[int]] | None = None,
    rejected: Sequence[Rejection] = (),
    files: Sequence[str] = (),
) -> bool:
    """Begins the folder of a run whose data is known to be good, or checks that it goes on with what it was begun with.

    Args:
        folder: Checked already.
        job: What is to be done; its `data` names the files.
        resume: Whether checkpoints are to be continued, if there are any.
        rows: The rows of each part, where the data has rows.
        rejected: Those that cannot be used.
        files: All that are read, where `data` does not name them all.

    Returns:
        Whether there are checkpoints to continue.

    Raises:
        RunFolderError: The folder holds a run with other settings or other data.
    """
    checked = {"sha256": checksums(files or job.data), **({} if rows is None else {"rows": rows})}
    config, data = job_to_config(job), checked
    if resume and folder.is_begun:
        check_same(folder, config, data)
        return True
    folder.begin()
    folder.checkpoint_folder(0)
    folder.write_json("checkpoints/data.json", data)
    if rows is not None:
        folder.write_json("splits.json", rows)
        listed = [[each.file, each.line, each.column, each.value, each.reason] for each in rejected]
        folder.write_table("rejected.csv", ["file", "line", "column", "value", "reason"], listed)
    folder.write_config(config)
    return False


def check_same(folder: RunFolder, config: dict[str, Any], data: dict[str, Any]) -> None:
    """Raise RunFolderError unless a run to be continued has the settings and the data it was begun with."""
    begun = folder.read_config()
    for name in sorted((begun.keys() | config.keys()) - FREE):
        if begun.get(name) != config.get(name):
            raise RunFolderError(
                f"{folder.path} was begun with {name} = {begun.get(name)!r}, but now it is {config.get(name)!r}; "
                "leave it out to continue, or start again with --overwrite."
            )
    if folder.read_json("checkpoints/data.json") != data:
        raise RunFolderError(
            f"{folder.path} was begun with other content in {', '.join(config['data'])}; "
            "bring the old file back to continue, or start again with --overwrite."
        )


def checksums(files: Sequence[str]) -> list[str]:
    """The SHA-256 of each data file."""
    return [hashlib.sha256(Path(name).read_bytes()).hexdigest() for name in files]
