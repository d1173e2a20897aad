"""The settings of a run over a table, whatever its rows hold."""

from dataclasses import dataclass, field, replace
from typing import Self

from edgewise.choices import Calibration
from edgewise.errors import SettingError
from edgewise.learn.settings import MAX_LAYERS, Values, check, setting, spelled
from edgewise.learn.tables.columns import AUTO, Columns
from edgewise.learn.tables.options import TableFormat
from edgewise.learn.tasks.config import TaskSettings, check_sizes_are_read, defaults_of, flat_settings
from edgewise.learn.training.settings import TrainSettings

SPLITS = ("random", "scaffold", "group", "column", "file")
OF_NUMBERS = {"bounds": "", "coverage": ", which have no intervals", "calibration": ", which have no intervals"}
OF_NUMBERS |= dict.fromkeys(("loss_function", "huber_width"), ", which are learned by cross-entropy")
"""Settings that do nothing for classes, and why."""
ROW_DEFAULTS: Values = {"task_type": AUTO, "missing": "impute"}
"""Defaults of columns: the type of the targets follows from them."""
NODE_DEFAULTS: Values = {"node_column": AUTO, **ROW_DEFAULTS}
"""The same for tables of nodes, whose names follow from the table, too."""


@dataclass(frozen=True)
class TableRunSettings:
    """Settings of a run over a table; those of each task add what the rows hold and the model."""

    table: TableFormat = field(default_factory=TableFormat, kw_only=True)
    """How the table is written."""
    data: tuple[str, ...]
    """The table; two tables (training, test) or three (training, validation, test)."""
    columns: Columns
    """The role of each column."""
    train: TrainSettings = field(default_factory=TrainSettings)
    """The recipe."""
    split: str | None = setting(None, choices=SPLITS, aliases=("split-type",))
    """How to split the rows; None follows from the rest: a splits column, several files, a group column, else
    random."""
    split_sizes: tuple[float, ...] = setting((0.8, 0.1, 0.1), metavar="FRACTION")
    """Fractions of training, validation and test rows; one may be zero. Two fractions are training and test. With
    --num-folds a fold is tested, and only the ratio of training to validation rows counts."""
    data_seed: int = setting(0, at_least=0)
    """Seed of the split."""
    num_folds: int | None = setting(None, at_least=2)
    """Cross-validation: split the rows into so many folds, and train as many models, each tested on one fold. Every
    row is tested once; scaffolds and groups stay whole."""
    num_repeats: int = setting(1, at_least=1)
    """Repeats of the cross-validation, each with other folds."""
    fold: int | None = setting(None, at_least=0, hidden=True)
    """The fold of this run, from 0."""
    class_weight: str | None = setting(None, choices=("balanced",))
    """balanced weights each class in the loss by 1 / its frequency in the training rows."""
    metrics: tuple[str, ...] = setting((), metavar="METRIC", aliases=("metric",))
    """The scores that tables show; metrics.json has all. Where the best epoch is kept (--checkpoint), it is chosen by
    the validation loss, whatever they are."""
    ensemble_size: int = setting(1, at_least=1, at_most=MAX_LAYERS)
    """Models that are trained from different seeds and averaged."""
    coverage: float = setting(0.9, above=0, below=1)
    """The promised probability that a value lies within its interval."""
    calibration: Calibration | None = setting(None)
    """How new rows will differ from the training rows, and so which rows calibrate the intervals: random rows, whole
    groups (those of the group column, else the molecules or texts of a row), or whole scaffolds. In an ensemble each
    model then leaves out other groups. None is as the test rows differ."""
    baselines: bool = setting(True)
    """Whether simple models are scored on the same rows."""
    strict: bool = setting(False)
    """Stop at the first bad cell instead of listing it in `rejected.csv`."""

    def __post_init__(self) -> None:
        check(self)
        if self.num_repeats > 1 and self.num_folds is None:
            raise SettingError("--num-repeats goes with --num-folds.")
        if self.num_folds is not None and self.split_kind in ("column", "file"):
            raise SettingError("--num-folds splits the rows itself: give one file, and leave out --splits-column.")
        if self.fold is not None and self.fold >= (self.num_folds or 0):
            raise SettingError(f"--fold is {self.fold}, of {self.num_folds} folds; expected one from 0.")
        if self.split is not None:
            if self.columns.splits_column and self.split != "column":
                raise SettingError(f"--split {self.split} and --splits-column contradict each other; give one of them.")
            if len(self.data) > 1 and self.split != "file":
                raise SettingError(f"--split {self.split} splits one file, but {len(self.data)} were given.")
        check_sizes_are_read(self, self.split_kind not in ("column", "file"))

    def with_columns(self, columns: Columns) -> Self:
        """The same with the columns of a data set. What is done with missing numbers stays: where features of nodes
        are not scaled, none of these are filled, but numbers of edges are."""
        return replace(self, columns=replace(columns, missing=self.columns.missing))

    @property
    def split_kind(self) -> str:
        """How rows are split, with nothing left open."""
        if self.split is not None:
            return self.split
        if self.columns.splits_column:
            return "column"
        if len(self.data) > 1:
            return "file"
        return "group" if self.columns.group_column else "random"


def check_task_type(declared: TaskSettings, settings: TableRunSettings, task_type: str) -> None:
    """Raise SettingError where a setting does nothing for targets of a type, or has a score of another one."""
    from edgewise.learn.training.metrics import METRICS  # with torch

    if settings.class_weight is not None and task_type == "regression":
        raise SettingError("--class-weight goes with classes, but the targets are numbers; leave it out.")
    values, defaults = flat_settings(settings), defaults_of(declared)
    changed = [name for name in OF_NUMBERS if values.get(name) != defaults.get(name)]
    if changed and task_type != "regression":
        why = f"goes with numbers, but the targets are classes{OF_NUMBERS[changed[0]]}; leave it out."
        raise SettingError(f"{spelled(changed[0])} {why}")
    for name in settings.metrics:
        if name not in METRICS[task_type]:
            raise SettingError(
                f"--metrics has {name!r}; for {task_type} expected some of {', '.join(METRICS[task_type])}."
            )


def check_companions(companions: tuple[str, ...] | None) -> None:
    """Raise SettingError where none stands among others."""
    if companions and "none" in companions and len(companions) > 1:
        raise SettingError(f"--companions is {' '.join(companions)}; expected none alone, or others.")
