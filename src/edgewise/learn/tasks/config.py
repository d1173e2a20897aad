"""Settings of a run: from a flat table, as flags and `config.toml` have them, to dataclasses and back."""

import dataclasses
import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, get_args

from edgewise.errors import RunFolderError, SettingError
from edgewise.learn.files import JsonObject
from edgewise.learn.settings import SettingField, Values, check_value, choices_of, flag_of, spelled, to_field_type
from edgewise.learn.tables.columns import AUTO
from edgewise.learn.tables.options import TableFormat, array_names
from edgewise.learn.tasks.content import check_content, check_same_content, checksums, listed_or_checksum
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.settings import TrainSettings, require

if TYPE_CHECKING:
    import numpy as np

    from edgewise.learn.tables.cell import Rejection

FREE = {"check-memory", "whole-graph"}
"""Settings that may change when a run is continued: they change nothing of what is learned, or follow from others."""


@dataclass(frozen=True)
class Sign:
    """What shows that settings belong to a task where they do not name it: a flag, or the first file."""

    strength: int
    """The strongest sign decides."""
    flag: str = ""
    """A setting that is given."""
    endings: tuple[str, ...] = ()
    """How the name of the file ends."""
    arrays: frozenset[str] = frozenset()
    """Arrays that an .npz file has."""
    inside: str = ""
    """A file that is in a folder of that name."""
    holds: str = ""
    """What such a file or folder holds, in words."""

    def reason(self, settings: Values, file: str) -> str:
        """Why settings and their first file belong to the task; empty where nothing shows it."""
        if self.flag:
            return f"{spelled(self.flag)} is given" if settings.get(self.flag) else ""
        fits = file.lower().endswith(self.endings) and (not self.arrays or self.arrays <= array_names(file))
        fits = (Path(file) / self.inside).is_file() if self.inside else fits
        return f"{file} {self.holds}" if fits else ""


class RunSettings(Protocol):
    """The settings of a run: a frozen dataclass. Its fields are settings, or groups of them that are dataclasses."""

    __dataclass_fields__: ClassVar[dict[str, SettingField]]

    @property
    def data(self) -> tuple[str, ...]:
        """The files."""

    @property
    def table(self) -> TableFormat:
        """How tables and texts are written."""

    @property
    def train(self) -> TrainSettings:
        """The recipe."""


class DivisibleRun(RunSettings, Protocol):
    """The settings of a run that may divide the rows of one file itself."""

    @property
    def split_sizes(self) -> tuple[float, ...]:
        """Fractions of the rows of each split."""


S = TypeVar("S", bound=RunSettings)


def derives_nothing(run: Values, groups: Mapping[str, Values]) -> Values:
    """No field follows from others."""
    return {}


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskSettings(Generic[S]):
    """What a task declares: all that lists of tasks, help, `predict` and estimators know of it without torch."""

    name: str
    """What follows `edgewise train`, and is the name of its entry point."""
    task: "str | Callable[[], Any]"
    """Where the `Task` is, `module:object`, or what makes it: both may import torch."""
    run_type: type[S]
    """The settings of a run."""
    format: str
    """How model.json calls the task."""
    summary: str
    """What the task does, in one line."""
    example: str
    """The words of a command after `edgewise train`."""
    signs: tuple[Sign, ...] = ()
    """By what settings that name no task are seen to be those of this one, beside a task type of its own."""
    predict_flags: tuple[str, ...] = ()
    """Settings that may have other values when a trained model predicts: they are flags of `predict`, too."""
    estimators: tuple[str, ...] = ()
    """Its classes in `edgewise.learn.estimators`."""
    defaults: Values = dataclasses.field(default_factory=dict)
    """Defaults of settings, where their fields have another one."""
    required: tuple[str, ...] = ()
    """Settings that must be given besides the data."""
    unused: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Fields that this task does not read, and why."""
    choices: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """Settings that have fewer choices here than their field has."""
    presets: tuple[str, ...] = ()
    """What `--model` may name, where it names a group of sizes instead of a field."""
    derive: Callable[[Values, Mapping[str, Values]], Values] = derives_nothing
    """Fields that follow from what is given for the run itself and for each group, such as the sizes of the named
    model. Raises SettingError where settings contradict each other."""

    def of(self, config: Values, source: str = "the settings") -> S:
        """The settings that a flat table describes.

        Args:
            config: Names as the flags, with hyphens or underscores; what is left out has its default.
            source: What an error calls the table, such as its file name.

        Raises:
            SettingError: A name is not known, or a value is not allowed.
        """
        values = with_numbers_of_task(self.run_type, {**self.defaults, **plain(config)})
        run, groups = split_by_owner(self, values, source)
        derived = self.derive(run, groups)
        others = {name: group_with(self.run_type, name, groups[name]) for name in groups if name not in derived}
        return self.run_type(**{**run, **others, **derived})

    @property
    def task_types(self) -> tuple[str, ...]:
        """The values of `--task-type` that this task has."""
        _, field = owners_of(self.run_type).get("task_type", ("", None))
        return () if field is None else choices_of(field)

    @property
    def task_type(self) -> str | None:
        """The one value of `--task-type` that this task has; None where it is about the targets of a table."""
        return self.task_types[0] if len(self.task_types) == 1 else None


def with_numbers_of_task(run_type: type[RunSettings], values: Values) -> Values:
    """Settings without epochs and batch size where these are None, a number that fits the data, and the task has
    one."""
    train = next((default_of(field) for field in fields(run_type) if field.name == "train"), None)
    of_task = {name for name in ("epochs", "batch_size") if getattr(train, name, None) is not None}
    return {name: value for name, value in values.items() if value is not None or name not in of_task}


def group_with(run_type: type[RunSettings], name: str, changes: Values) -> Any:
    """One group of the settings of a run: the default of the task, changed."""
    default = default_of(next(field for field in fields(run_type) if field.name == name))
    return groups_of(run_type)[name][0](**changes) if default is MISSING else replace(default, **changes)


def input_files(settings: RunSettings) -> tuple[str, ...]:
    """All files that a run reads: its data, and those that other settings name."""
    owners = (*(getattr(settings, name) for name in groups_of(type(settings))), settings)
    named = (getattr(owner, field.name) for owner in owners for field in fields(owner) if field.metadata.get("is_file"))
    return (*settings.data, *(file for file in named if file is not None))


def default_of(field: SettingField) -> Any:
    """The default of a field; MISSING where it has none."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def groups_of(run_type: type) -> dict[str, tuple[type, ...]]:
    """The fields of the settings of a run that are dataclasses themselves, and which they may be."""
    groups = {}
    for field in fields(run_type):
        types = get_args(field.type) if isinstance(field.type, UnionType) else (field.type,)
        if all(dataclasses.is_dataclass(group_type) for group_type in types):
            groups[field.name] = types
    return groups


def owners_of(run_type: type) -> dict[str, tuple[str, SettingField]]:
    """Every setting of a run: its group ("" for the run itself), and its field."""
    groups = groups_of(run_type)
    owners = {field.name: ("", field) for field in fields(run_type) if field.name not in groups}
    for group, types in groups.items():
        owners |= {field.name: (group, field) for group_type in reversed(types) for field in fields(group_type)}
    return owners


def field_defaults_of(run_type: type[RunSettings]) -> JsonObject:
    """What the fields of a task have where nothing is given, whatever the task makes of them; None where nothing."""
    values: JsonObject = {}
    groups = {field.name: default_of(field) for field in fields(run_type) if field.name in groups_of(run_type)}
    for name, (group, field) in owners_of(run_type).items():
        value = getattr(groups[group], name, MISSING) if group else MISSING
        values[name] = default_of(field) if value is MISSING else value
    return {name: None if value is MISSING else value for name, value in values.items()}


def defaults_of(declared: TaskSettings) -> JsonObject:
    """The settings of a run for which nothing is given but its data, by the names of the flat table; None where there
    is none, or where it follows from the data."""
    required = dict.fromkeys(("data", *declared.required), (".",))
    values = flat_settings(declared.of(required))
    return {name: None if name in required else values.get(name) for name in owners_of(declared.run_type)}


def job_to_config(job: RunSettings) -> JsonObject:
    """The settings as one flat table, names written as the flags are; settings that are None are left out."""
    return as_config(flat_settings(job))


def flat_settings(job: RunSettings) -> JsonObject:
    """The settings of a run and of its groups in one table, by their names in Python."""
    flat: JsonObject = {}
    for name, value in ((f.name, getattr(job, f.name)) for f in fields(job)):
        if dataclasses.is_dataclass(value):
            flat.update({f.name: getattr(value, f.name) for f in fields(value)})
        else:
            flat[name] = value
    return flat


def as_config(flat: Values) -> JsonObject:
    """Settings by their names in Python as a configuration file has them."""
    return {
        name.replace("_", "-"): list(value) if isinstance(value, tuple) else value
        for name, value in flat.items()
        if value is not None
    }


def plain(config: Values) -> JsonObject:
    """The names of a configuration file as Python writes them."""
    return {name.replace("-", "_"): value for name, value in config.items()}


def split_by_owner(declared: TaskSettings, config: Values, source: str) -> tuple[JsonObject, dict[str, JsonObject]]:
    """The values of a flat table, split into those of the run itself and those of each group; see `TaskSettings.of`."""
    owners = owners_of(declared.run_type)
    values: dict[str, JsonObject] = {"": {}, **{group: {} for group in groups_of(declared.run_type)}}
    given = plain(config)
    check_read(declared, given, source)
    for name, value in given.items():
        if name == "model" and declared.presets:
            if not isinstance(value, str | None):
                raise SettingError(f"{source} has model = {value!r:.60}; expected str.")
            values[""][name] = value
            continue
        if name in declared.unused:
            continue
        group, field = owners[name]
        values[group][name] = value = to_field_type(source, field, value)
        if name in declared.choices and value not in declared.choices[name]:
            choices = ", ".join(declared.choices[name])
            raise SettingError(f"{flag_of(field)} is {value!r}; for {declared.name} expected one of {choices}.")
        check_value(field, value)
    if other := [name for name in values[""].get("data", ()) if not isinstance(name, str)]:
        raise SettingError(f"{source} has {other[0]!r:.60} in data, expected the names of files.")
    for name in ("data", *declared.required):
        if not given.get(name):
            what = "data file was" if name == "data" else f"{spelled(name)} were"
            order = " (the file stands before flags that take several values)"
            raise SettingError(f"no {what} given: edgewise train {declared.example}{order}.")
    return values.pop(""), values


def check_read(declared: TaskSettings, given: Values, source: str) -> None:
    """Raise SettingError that names all settings of a flat table that a task does not read."""
    owners, defaults = owners_of(declared.run_type), field_defaults_of(declared.run_type)

    def is_read(name: str, value: object) -> bool:
        if name in declared.unused:  # a file that holds every setting holds these too, unset
            return value is None or value is False or value in ([], ()) or value == defaults.get(name)
        return name in owners or (name == "model" and bool(declared.presets))

    if extra := [name for name, value in given.items() if not is_read(name, value)]:
        raise SettingError(" ".join(not_read(declared, name, source, given[name]) for name in extra))


def not_read(declared: TaskSettings, name: str, source: str, value: object) -> str:
    """The message about a setting that a task does not read: why, or which setting is meant."""
    if name in declared.unused:
        flag = spelled(f"no_{name}" if value is False else name)
        why = f": {declared.unused[name]}" if declared.unused[name] else ""
        return f"{flag} does nothing for {declared.name}{why}; leave it out."
    owners = owners_of(declared.run_type)
    close = difflib.get_close_matches(name, owners, n=1)
    meant = f" Did you mean {flag_of(owners[close[0]][1])}?" if close else ""
    return f"{source} has the unknown setting {name.replace('_', '-')!r}.{meant}"


def check_split_sizes(sizes: tuple[float, ...], count: int) -> None:
    """Raise SettingError unless these are fractions for training, validation and (of three) test."""
    if count == 2:
        fits = len(sizes) == 2 and min(sizes) >= 0 and 0 < sum(sizes) <= 1 + 1e-9
        require("--split-sizes", sizes, fits and sizes[0] > 0, "two fractions, training and validation")
        return
    fits = len(sizes) == 3 and min(sizes) >= 0 and abs(sum(sizes) - 1) < 1e-6
    require("--split-sizes", sizes, fits and sizes[0] > 0, "three fractions that sum to 1")


def check_sizes_are_read(job: DivisibleRun, divides: bool) -> None:
    """Raise SettingError where sizes of splits are given although the data says which rows are in which."""
    default = default_of(next(field for field in fields(job) if field.name == "split_sizes"))
    if job.split_sizes != default and not divides:
        raise SettingError(
            "--split-sizes divides one file, but the data has its splits: in several files, a column or an array; "
            "leave it out."
        )


def begin(
    folder: RunFolder,
    job: RunSettings,
    *,
    resume: bool,
    rows: "Mapping[str, Sequence[int] | np.ndarray] | None" = None,
    rejected: "Sequence[Rejection]" = (),
) -> bool:
    """Starts the folder of a run whose data is known to be good, or checks that it continues with the same settings.

    Args:
        folder: Checked already.
        job: The settings of the run.
        resume: Whether checkpoints are to be continued, if there are any.
        rows: The rows of each split, lists or arrays, where the data has rows.
        rejected: Those that cannot be used.

    Returns:
        Whether there are checkpoints to continue.

    Raises:
        RunFolderError: The folder holds a run with other settings or other data.
    """
    checked: JsonObject = {"sha256": checksums(input_files(job))}
    if rows is not None:
        checked["rows"] = {split: listed_or_checksum(numbers) for split, numbers in rows.items()}
    config, data = job_to_config(job), checked
    if resume and folder.is_started:
        check_config(folder, type(job), config)
        check_same_content(folder, input_files(job), data)
        return True
    folder.begin()
    folder.checkpoint_folder(0)
    folder.write_json("checkpoints/data.json", data)
    if rows is not None:
        folder.write_rows("splits.json", rows)
        listed = [[cell.file, cell.line, cell.column, cell.value, cell.reason] for cell in rejected]
        folder.write_table("rejected.csv", ["file", "line", "column", "value", "reason"], listed)
    folder.write_config(config)
    return False


def as_started(job: S, folder: RunFolder) -> S:
    """The settings of a run that is continued: what is left open, and follows from the free memory, stays as it was."""
    if getattr(job, "fanouts", None) != () or not folder.is_started:
        return job
    fanouts = tuple(folder.read_config().get("fanouts", ()))
    return dataclasses.replace(job, fanouts=fanouts, whole_graph=not fanouts)


def check_config(folder: RunFolder, run_type: type[RunSettings], config: Values) -> None:
    """Raise RunFolderError that names all settings in which a run differs from the one that a folder holds."""
    # A setting that is new in this version had its default.
    defaults = as_config(field_defaults_of(run_type))
    before = {name: defaults[name] for name in config if name in defaults}
    before |= as_config(plain(folder.read_config()))
    require_same(folder, before, {name: config.get(name) for name in before.keys() | config.keys()})


def is_same(before: object, now: object) -> bool:
    """Whether a setting has the value that it had, or names the same files in another way; their content is compared
    elsewhere."""
    if isinstance(before, list) and isinstance(now, list):
        # Typed, `none` is a list without entries, which a run writes.
        before, now = ([] if values == ["none"] else values for values in (before, now))
        return len(before) == len(now) and all(map(is_same, before, now))
    if before == now or not (isinstance(before, str) and isinstance(now, str) and Path(now).exists()):
        return bool(before == now)
    # From another working directory, a relative path leads nowhere.
    return Path(before).samefile(now) if Path(before).exists() else Path(before).name == Path(now).name


def require_same(folder: RunFolder, before: Values, now: Values) -> None:
    """Raise RunFolderError where a setting has another value than the run in the folder was started with."""
    changed = [name for name in sorted(now.keys() - FREE) if not is_same(before.get(name), now[name])]
    if changed:
        said = "; ".join(f"{name} = {before.get(name)!r}, but now it is {now[name]!r}" for name in changed)
        raise RunFolderError(
            f"{folder.path} was started with {said}; leave {'it' if len(changed) == 1 else 'them'} out to continue, or "
            "start again with --overwrite."
        )


def check_finished(folder: RunFolder, declared: TaskSettings, given: Values) -> None:
    """Raise RunFolderError where a finished run that is to be resumed is not the one that is described.

    Args:
        folder: Holds a finished run.
        declared: The settings of the task.
        given: What was typed or stands in a configuration file, by its name in Python.
    """
    # What is typed as `auto` is what the run has made of it.
    given = {name: value for name, value in given.items() if value != AUTO}
    defaults, stored = as_config(field_defaults_of(declared.run_type)), plain(folder.read_config())
    before, now = {**defaults, **as_config(stored)}, as_config(dict(given))
    require_same(folder, before, {name: now[name] for name in now if name in before})
    # What is left may be the name of a model, which stands for several settings.
    job = declared.of({**stored, **given}, str(folder.path / "config.toml"))
    check_config(folder, declared.run_type, job_to_config(job))
    check_content(folder, input_files(job))
