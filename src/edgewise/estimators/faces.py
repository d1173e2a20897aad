"""What estimators over tables share, whatever their rows hold: classes, shapes, saving and loading."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from edgewise.data.tables.labels import alike_note
from edgewise.errors import DataError, MissingExtraError, RunFolderError
from edgewise.estimators.learner import save_model
from edgewise.estimators.params import Settings, load_params
from edgewise.plural import plural
from edgewise.tasks.trained import TrainedTable
from edgewise.train.folder import RunFolder, corrupt_as_run_error

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

    trained_: Any
    """What has been trained; there after `fit` or `load`."""
    classes_: np.ndarray
    """(class): of a classifier, in order."""
    one_target_: bool
    """Whether the targets of a regressor have the shape (row), and predictions have it too."""

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the trained model to a folder that `load` and `edgewise predict` read.

        Raises:
            RunFolderError: The folder holds a run, and `overwrite` is False; or it is no place for one.
        """
        check_is_fitted(self, "trained_")
        save_model(self.trained_, self.get_params(deep=False), folder, overwrite=overwrite)

    @classmethod
    def params_of(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """The parameters of the constructor that the settings of a run become."""
        return settings

    @classmethod
    def load_as(cls, kind: type[TrainedTable], folder: str | os.PathLike[str], task_types: tuple[str, ...]) -> Self:
        """The estimator of a run folder, with the settings it was trained with.

        Raises:
            RunFolderError: It holds a model for another task, or several targets that are classes.
        """
        trained = load_for(kind, folder, task_types)
        with corrupt_as_run_error(Path(folder)):
            loaded = cls(**cls.params_of(load_params(RunFolder(Path(folder)))))
        loaded.trained_ = trained
        if task_types == CLASSES:
            (classes,) = trained.classes.values()
            loaded.classes_ = np.array(classes)
        else:
            loaded.one_target_ = len(trained.columns.target_columns) == 1
        return loaded


class SettingsEstimator(Settings, TableEstimator):
    """An estimator whose settings are those of the command line, by their names in Python.

    Args:
        settings: Any of them.
    """


def class_numbers(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """The classes of some labels, in order, and the place of each label among them.

    Raises:
        DataError: The labels have another shape than (row), are of several types, missing, or numbers with fractions;
            or there is one class.
    """
    labels = labels_of(y)
    for row in np.flatnonzero(~has_label(labels))[:1]:
        raise DataError(f"fit: row {row} of y has no label; leave the row out.")
    if np.issubdtype(labels.dtype, np.floating) and (labels % 1 != 0).any():
        raise DataError(
            f"fit: y holds {labels[labels % 1 != 0][0]}, a number with a fraction; expected class labels; a regressor "
            "learns numbers."
        )
    classes, numbers = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise DataError(f"fit: y holds {len(classes)} class; expected two or more.")
    if note := alike_note(map(str, classes.tolist())):
        warnings.warn(f"fit: {note}.", stacklevel=3)
    return classes, numbers


def labels_of(y: Any) -> np.ndarray:
    """(row): labels, none merged with another by conversion; with None or NaN where there is none.

    Raises:
        DataError: They have another shape, or are of several types: 1 and "1" would become one.
    """
    held = np.asarray(y) if hasattr(y, "dtype") else np.asarray(y, dtype=object)
    if held.ndim != 1:
        raise DataError(f"fit: y has {plural(held.ndim, 'axis', 'axes')}; expected (row) class labels.")
    if held.dtype != object:
        return held
    first: dict[str, Any] = {}
    for label in held[has_label(held)].tolist():
        first.setdefault("text" if isinstance(label, str) else "other" if isinstance(label, bool) else "number", label)
    if len(first) > 1:
        shown = " and ".join(f"{label!r} ({type(label).__name__})" for label in first.values())
        raise DataError(f"fit: y holds labels of several types, {shown}; make them all text, or all numbers.")
    return held if "text" in first or not has_label(held).all() else np.array(held.tolist())


def has_label(labels: np.ndarray) -> np.ndarray:
    """(row): where there is a label: neither None, nor NaN, nor an empty text."""
    if np.issubdtype(labels.dtype, np.integer) or labels.dtype == bool:
        return np.ones(len(labels), dtype=bool)
    return np.array([not is_absent(label) for label in labels.tolist()], dtype=bool)


def is_absent(label: Any) -> bool:
    """Whether a label stands for none; pandas' own NA equals nothing, not even in a truth value."""
    return label is None or (isinstance(label, float) and label != label) or str(label) in ("", "<NA>")


def accuracy(y: Any, predicted: np.ndarray, sample_weight: Any = None) -> float:
    """The share of the labels that are predicted right, each counted by its weight."""
    return float(np.average(labels_of(y) == predicted, weights=sample_weight))


def r2(y: Any, predicted: np.ndarray, status: Sequence[str], sample_weight: Any = None) -> float:
    """R², as scikit-learn computes it, over the targets that are known; of several targets the mean.

    Args:
        y: (row) or (row, target) numbers; NaN is left out.
        predicted: The same shape.
        status: Of each row, for a message.
        sample_weight: (row).

    Raises:
        DataError: The shapes differ, no target is known, or a row with a target cannot be predicted.
    """
    from sklearn.metrics import r2_score

    truth = np.asarray(y, dtype=np.float64)
    if truth.shape != predicted.shape:
        raise DataError(f"score: y is {truth.shape}, but predictions are {predicted.shape}.")
    truth, predicted = truth.reshape(len(truth), -1), predicted.reshape(len(truth), -1)
    known = ~np.isnan(truth)
    for row in np.flatnonzero((known & np.isnan(predicted)).any(axis=1))[:1]:
        raise DataError(f"score: row {row} has a target, but cannot be predicted: {status[row]}.")
    if not known.any(axis=0).all():
        raise DataError("score: y holds no number; expected targets to compare with.")
    weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    scores = [
        r2_score(truth[rows, column], predicted[rows, column], sample_weight=None if weights is None else weights[rows])
        for column, rows in enumerate(known.T)
    ]
    return float(np.mean(scores))


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
