"""What estimators over tables share, whatever their rows hold: classes, shapes, saving and loading."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from edgewise.errors import DataError, MissingExtraError, RunFolderError
from edgewise.estimators.trained import TrainedTable
from edgewise.train.folder import RunFolder

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import check_is_fitted
except ModuleNotFoundError as error:
    raise MissingExtraError("scikit-learn", "train") from error

Kind = TypeVar("Kind", bound=TrainedTable)
NUMBERS, CLASSES = ("regression",), ("classification", "multiclass")
"""The tasks of a regressor, and those of a classifier."""


class TableEstimator(BaseEstimator):
    """An estimator that is kept in a run folder."""

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the trained model to a folder that `load` and `edgewise predict` read."""
        check_is_fitted(self, "trained_")
        run = RunFolder(Path(folder))
        with run.claimed(overwrite=overwrite):
            run.begin()
            self.trained_.save(run)


class SettingsEstimator(TableEstimator):
    """An estimator whose settings are those of the command line, by their names in Python.

    Args:
        settings: Any of them.
    """

    def __init__(self, **settings: Any):
        self.settings = settings

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings that were given."""
        return dict(self.settings)

    def set_params(self, **settings: Any) -> Self:
        """Gives other settings."""
        self.settings = {**self.settings, **settings}
        return self


def class_numbers(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """The classes of some labels, in order, and the place of each label among them.

    Raises:
        DataError: The labels have another shape than (row), or there is one class.
    """
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise DataError(f"fit: y has {labels.ndim} axes; expected (row) class labels.")
    classes, numbers = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise DataError(f"fit: y holds {len(classes)} class; expected two or more.")
    return classes, numbers


def task_of(classes: Sequence[Any] | np.ndarray) -> str:
    """What a task with these classes is called."""
    return "classification" if len(classes) == 2 else "multiclass"


def most_probable(probabilities: np.ndarray, classes: np.ndarray, status: Sequence[str]) -> np.ndarray:
    """(row): the most probable class.

    Raises:
        DataError: A row cannot be read: there is no class that would say so.
    """
    unknown = np.flatnonzero(np.isnan(probabilities).any(axis=1))
    if len(unknown):
        raise DataError(f"predict: row {unknown[0]} cannot be read: {status[unknown[0]]}")
    return classes[probabilities.argmax(axis=1)]


def joined(columns: Sequence[np.ndarray], has_one_target: bool) -> np.ndarray:
    """The values of all targets in the shape that y had: (row), or (row, target)."""
    return columns[0] if has_one_target else np.stack(columns, axis=1)


def load_for(kind: type[Kind], folder: str | os.PathLike[str], task_types: tuple[str, ...]) -> Kind:
    """The model of a run folder; raises RunFolderError for another task, or for several targets that are classes."""
    trained = kind.load(RunFolder.finished(folder))
    if trained.task_type not in task_types:
        raise RunFolderError(f"{folder} holds a model for {trained.task_type}; expected {' or '.join(task_types)}.")
    if task_types == CLASSES and len(trained.columns.target_columns) != 1:
        raise RunFolderError(f"{folder} has several targets; a classifier has one.")
    return trained
