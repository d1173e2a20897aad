"""Everything that decides a run, and its flat form in `config.toml`."""

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from edgewise.data.table import Columns
from edgewise.errors import SettingError
from edgewise.models.settings import PropertySettings
from edgewise.train.conformal import check_coverage
from edgewise.train.settings import TrainSettings, require, require_one_of

SPLITS = ("random", "scaffold", "group", "column", "file")
PARTS = {"columns": Columns, "model": PropertySettings, "train": TrainSettings}
MISSING = {
    "data": "no data file was given: edgewise train data.csv --smiles-columns smiles --target-columns y "
    "(the file stands before flags that take several values).",
    "smiles_columns": "no --smiles-columns were given; name the column or columns that hold SMILES.",
}
"""What is said where a setting without a default is not given."""


@dataclass(frozen=True)
class PropertyJob:
    """One training on a table of molecules: which data, which model, which recipe."""

    data: tuple[str, ...]
    """The table, or three tables: training, validation and test rows."""
    columns: Columns
    """What each column is."""
    model: PropertySettings = field(default_factory=PropertySettings)
    """The model."""
    train: TrainSettings = field(default_factory=TrainSettings)
    """The recipe."""
    split: str | None = None
    """random, scaffold, group, column or file. None is what the rest says: a splits column, several files, a group
    column; and random where nothing says anything."""
    split_sizes: tuple[float, ...] = (0.8, 0.1, 0.1)
    """The parts of training, validation and test rows; a part may be zero. Two parts are training and test."""
    data_seed: int = 0
    """Seed of the split."""
    ensemble_size: int = 1
    """How many models are trained from different seeds and averaged."""
    coverage: float = 0.9
    """The promised probability that a value lies within its interval."""
    molecule_descriptors: bool = True
    """Whether RDKit's descriptors of the whole molecule join the learned vectors, and feed the forest."""
    baselines: bool = True
    """Whether the training mean and a random forest are scored on the same rows."""
    strict: bool = False
    """Whether a bad cell stops the run instead of being listed in `rejected.csv`."""

    def __post_init__(self):
        if self.split is not None:
            require_one_of("--split", self.split, SPLITS)
            if self.columns.splits_column and self.split != "column":
                raise SettingError(f"--split {self.split} and --splits-column contradict each other; give one of them.")
            if len(self.data) > 1 and self.split != "file":
                raise SettingError(f"--split {self.split} parts one file, but {len(self.data)} were given.")
        require("--ensemble-size", self.ensemble_size, self.ensemble_size >= 1, "at least 1")
        require("--data-seed", self.data_seed, self.data_seed >= 0, "at least 0")
        check_coverage(self.coverage)

    @property
    def split_kind(self) -> str:
        """How rows are parted, with nothing left open."""
        if self.split is not None:
            return self.split
        if self.columns.splits_column:
            return "column"
        if len(self.data) > 1:
            return "file"
        return "group" if self.columns.group_column else "random"


def job_to_config(job: PropertyJob) -> dict[str, Any]:
    """The job as one flat table, names written as the flags are; settings that are None are left out."""
    flat: dict[str, Any] = {}
    for name, value in ((f.name, getattr(job, f.name)) for f in fields(job)):
        if name in PARTS:
            flat.update({f.name: getattr(value, f.name) for f in fields(value)})
        else:
            flat[name] = value
    return {
        name.replace("_", "-"): list(value) if isinstance(value, tuple) else value
        for name, value in flat.items()
        if value is not None
    }


def job_from_config(config: Mapping[str, Any], source: str = "the settings") -> PropertyJob:
    """The job that a flat table describes.

    Args:
        config: Names as the flags, with hyphens or underscores; what is left out has its default.
        source: What an error calls the table, such as its file name.

    Raises:
        SettingError: A name is not known, or a value is of the wrong kind.
    """
    given = {name.replace("-", "_"): value for name, value in config.items()}
    owners = {f.name: ("", f) for f in fields(PropertyJob) if f.name not in PARTS}
    owners |= {f.name: (part, f) for part, kind in PARTS.items() for f in fields(kind)}
    values: dict[str, dict[str, Any]] = {"": {}, **{part: {} for part in PARTS}}
    for name, value in given.items():
        if name not in owners:
            close = difflib.get_close_matches(name, owners, n=1)
            hint = f"; did you mean {close[0].replace('_', '-')!r}?" if close else "."
            raise SettingError(f"{source} has the unknown setting {name.replace('_', '-')!r}{hint}")
        part, owner = owners[name]
        values[part][name] = checked(source, name, value, owner)
    for name in MISSING:
        if not given.get(name):
            raise SettingError(MISSING[name])
    parts = {part: kind(**values[part]) for part, kind in PARTS.items()}
    return PropertyJob(**values[""], **parts)


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
    if type(value) in kinds:
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
