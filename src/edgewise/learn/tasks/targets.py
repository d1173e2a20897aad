"""The targets of a table as a task prepares them: their classes, scales and weights."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from edgewise.errors import DataError, SettingError
from edgewise.learn.outputs import Prediction, Targets
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tables.labels import Label
from edgewise.learn.tables.rows import Data, Rows
from edgewise.learn.tables.scale import TargetScaler
from edgewise.learn.tables.split import Splits, evenly_spaced
from edgewise.learn.tasks.table_settings import TableRunSettings
from edgewise.learn.training.settings import NUMBER_OUTPUTS

Job = TypeVar("Job", bound=TableRunSettings)
MAX_FITTED = 2**16
"""Training rows that a forest or models of words are fitted to; evenly chosen where there are more."""


def outputs_of(predictions: Sequence[Prediction]) -> list[np.ndarray]:
    """The values of each target, or the probabilities of its classes."""
    return [
        prediction.value if prediction.probabilities is None else prediction.probabilities for prediction in predictions
    ]


def balanced(targets: np.ndarray, weights: np.ndarray, num_classes: int) -> tuple[float, ...]:
    """The weight of each class, (known targets) / (classes · targets of the class), as scikit-learn's `balanced`: rows
    are counted by their weight."""
    is_known = ~np.isnan(targets)
    counts = np.bincount(targets[is_known].astype(np.int64), weights[is_known], minlength=num_classes)
    return tuple(float(counts.sum() / (num_classes * count)) if count else 0.0 for count in counts)


def rows_of(splits: Splits) -> dict[str, np.ndarray]:
    """The rows of each split by the names in splits.json."""
    return {"train": splits.train, "val": splits.val, "test": splits.test}


def named(splits: Splits) -> dict[str, np.ndarray]:
    """The rows of each split by the names in metrics.json."""
    return {"test": splits.test, "validation": splits.val, "training": splits.train}


def num_classes(table: Rows) -> tuple[int, ...]:
    """The number of classes of each target; 0 for regression."""
    columns = table.columns
    if columns.task_type == "regression":
        return (0,) * len(columns.target_columns)
    return tuple(len(table.classes[name]) for name in columns.target_columns)


def targets_of(table: Rows, rows: np.ndarray, columns: Columns) -> Targets:
    """What the outputs of a network mean that learns some rows.

    Args:
        table: the data.
        rows: those of the training.
        columns: their roles, as predictions need them.
    """
    is_regression = columns.task_type == "regression"
    classes: dict[str, tuple[Label, ...]] = {}
    if not is_regression:
        classes = {name: tuple(labels) for name, labels in table.classes.items()}
    return Targets(columns, classes, target_scale(table, rows))


def with_companions_of_values(settings: Job) -> Job:
    """The settings, without companions and bounds where a network does not give values of the targets itself.

    Raises:
        SettingError: they were asked for.
    """
    loss_function = settings.train.loss_function
    if settings.columns.task_type != "regression" or NUMBER_OUTPUTS[loss_function].value is None:
        return settings
    given = {name: getattr(settings, name) for name in ("companions", "bounds") if hasattr(settings, name)}
    for name, value in given.items():
        if value not in (None, (), ("none",)):
            raise SettingError(
                f"--{name} goes with networks that give values of the target itself, not with --loss-function "
                f"{loss_function}; leave it out."
            )
    return replace(settings, companions=("none",)) if "companions" in given else settings  # type: ignore[call-arg]


def target_scale(table: Rows, rows: np.ndarray) -> TargetScaler | None:
    """The scale of the targets of some rows; None for classes."""
    if table.columns.task_type != "regression":
        return None
    names = table.columns.target_columns
    rows = rows[table.weights[rows].astype(np.float32) > 0]  # the others are not learned
    return TargetScaler.fit(table.targets, rows, table.cell_names(rows, names), names, weights=table.weights)


def check_weights(table: Rows, rows: np.ndarray, name: str, purpose: str) -> None:
    """Raise DataError where the weights of some rows are all zero: their mean loss would be no number."""
    if len(rows) and not table.weights[rows].astype(np.float32).any():
        column = table.columns.weight_column or "the weights"
        raise DataError(
            f"{table.source}: column {column!r}: the weight of every {name} row is zero; there is nothing to {purpose}."
        )


def check_targets(table: Rows, rows: np.ndarray) -> None:
    """Raise DataError where a target lacks a value in all rows to learn from that weigh something."""
    has_weight = table.weights[rows].astype(np.float32) > 0
    for name, values in zip(table.columns.target_columns, table.targets[rows].T, strict=True):
        is_known = ~np.isnan(values)
        if not (is_known & has_weight).any():
            which = "weighs something and " if is_known.any() else ""
            raise DataError(
                f"{table.source}: column {name!r}: no training row {which}has a value: there is nothing to learn; "
                "leave the target out."
            )


def rows_to_fit(table: Rows, rows: np.ndarray) -> np.ndarray:
    """Those of the training rows that a forest or models of words are fitted to; rows of a rare target, too."""
    chosen = evenly_spaced(rows, MAX_FITTED)
    for values in table.targets.T:
        is_learned = ~np.isnan(values) & (table.weights > 0)
        if not is_learned[chosen].any():
            chosen = np.union1d(chosen, evenly_spaced(rows[is_learned[rows]], MAX_FITTED))
    return chosen


def in_one_step(settings: Job, data: Data, splits: Splits) -> Job:
    """The settings with a batch size: a step sees all training rows, unless another size is given."""
    train = settings.train
    return replace(settings, train=replace(train, batch_size=train.batch_size or len(splits.train)))


def check_same_numbers(columns: object, trained_columns: object) -> None:
    """Raise SettingError where a role has more or fewer columns than in training."""
    for role in ("smiles_columns", "text_columns", "descriptors_columns"):
        new, old = getattr(columns, role), getattr(trained_columns, role)
        if len(new) != len(old):
            flag = f"--{role.replace('_', '-')}"
            raise SettingError(f"{flag} names {len(new)}, but the model was trained on {len(old)}: {', '.join(old)}.")
