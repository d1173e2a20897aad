"""Targets in Python: class labels and their numbers, and the scores of predictions."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from edgewise.data.tables.cell import refuse_single_text
from edgewise.data.tables.labels import alike_note
from edgewise.data.tables.read import ARRAYS
from edgewise.errors import DataError
from edgewise.plural import plural


def class_numbers(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """The classes of some labels, in order, and the place of each label among them.

    Raises:
        DataError: The labels have another shape than (row), are of several types, missing, or numbers with fractions;
            or there is one class.
    """
    labels = labels_of(y)
    for row in np.flatnonzero(~has_label(labels))[:1]:
        raise DataError(f"fit: {ARRAYS[0]}, row {row} of y has no label; leave the row out.")
    if np.issubdtype(labels.dtype, np.floating) and (labels % 1 != 0).any():
        raise DataError(
            f"fit: Unknown label type: y is continuous, it holds {labels[labels % 1 != 0][0]}, a number with a "
            "fraction; expected class labels; a regressor learns numbers."
        )
    classes, numbers = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise DataError(f"fit: y holds {len(classes)} class; expected two or more.")
    if note := alike_note(map(str, classes.tolist())):
        warnings.warn(f"fit: {note}.", stacklevel=3)
    return classes, numbers


def labels_of(y: Any) -> np.ndarray:
    """(row): labels, none merged with another by conversion; None or NaN where there is none; of a column, its cells.

    Raises:
        DataError: They have another shape, or are of several types: 1 and "1" would become one.
    """
    refuse_single_text("y", y)
    array = np.asarray(y) if hasattr(y, "dtype") else np.asarray(y, dtype=object)
    if array.ndim == 2 and array.shape[1] == 1:
        from sklearn.exceptions import DataConversionWarning

        message = "A column-vector y was passed when a 1d array was expected: y is read as y.ravel()."
        warnings.warn(message, DataConversionWarning, stacklevel=5)
        array = array.ravel()
    if array.ndim != 1:
        raise DataError(f"fit: y has {plural(array.ndim, 'axis', 'axes')}; expected (row) class labels.")
    if array.dtype != object:
        return array
    first: dict[str, Any] = {}
    for label in array[has_label(array)].tolist():
        first.setdefault("text" if isinstance(label, str) else "other" if isinstance(label, bool) else "number", label)
    if len(first) > 1:
        shown = " and ".join(f"{label!r} ({type(label).__name__})" for label in first.values())
        raise DataError(f"fit: y holds labels of several types, {shown}; make them all text, or all numbers.")
    return array if "text" in first or not has_label(array).all() else np.array(array.tolist())


def has_label(labels: np.ndarray) -> np.ndarray:
    """(row): where there is a label: neither None, nor NaN, nor an empty text."""
    if np.issubdtype(labels.dtype, np.integer) or labels.dtype == bool:
        return np.ones(len(labels), dtype=bool)
    return np.array([not is_absent(label) for label in labels.tolist()], dtype=bool)


def is_absent(label: Any) -> bool:
    """Whether a label stands for none; pandas' own NA equals nothing, not even in a truth value."""
    return label is None or (isinstance(label, float) and label != label) or str(label) in ("", "<NA>")


def is_known(labels: np.ndarray) -> np.ndarray:
    """(node): where there is a label; −1 among whole numbers is none where there are two or more others."""
    known = has_label(labels)
    if np.issubdtype(labels.dtype, np.integer) and len(np.unique(labels[labels != -1])) >= 2:
        known &= labels != -1
    return known


def has_target(y: Any) -> np.ndarray:
    """(node): where there is a label, or at least one number."""
    array = np.asarray(y)
    if array.ndim == 2:
        return np.array(~np.isnan(array.astype(np.float64)).all(axis=1))
    return is_known(labels_of(y))


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
