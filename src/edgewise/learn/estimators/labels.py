"""Targets in Python: class labels and their numbers, and the scores of predictions."""

from collections.abc import Sequence
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

from edgewise.errors import DataError, plural, refuse_single_text
from edgewise.learn.estimators.names import has_columns
from edgewise.learn.estimators.numbers import as_numbers, unwrapped, weights_of
from edgewise.learn.estimators.state import warn_caller
from edgewise.learn.tables.labels import alike_note
from edgewise.learn.tables.read import ARRAYS


def class_numbers(y: object) -> tuple[np.ndarray, np.ndarray]:
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
        warn_caller(f"fit: {note}.")
    return classes, numbers


def label_columns(y: object) -> list[np.ndarray]:
    """The labels of each target, as `labels_of` gives them: one of y (row), several of y (row, target)."""
    refuse_single_text("y", y)
    if has_columns(y) and y.shape[1] > 1:
        return [labels_of(y.iloc[:, column]) for column in range(y.shape[1])]
    array = plain_array(y)
    if array.ndim == 2 and array.shape[1] > 1:
        return [labels_of(column) for column in array.T]
    return [labels_of(y)]


def plain_array(y: object) -> np.ndarray:
    """Targets as an array, none merged with another by conversion; NaN, None or NA where one is masked or missing."""
    y = unwrapped(y)
    if has_columns(y) and y.shape[1] == 1:
        return plain_array(y.iloc[:, 0])[:, None]
    if not hasattr(y, "dtype"):
        return np.asarray(y, dtype=object)
    array = np.asarray(y)
    if np.issubdtype(array.dtype, np.floating) and getattr(y.dtype, "kind", "f") != "f" and hasattr(y, "tolist"):
        # Beside a gap, pandas makes fractions of whole numbers, large ones of which become one.
        return np.array(y.tolist(), dtype=object)
    return array


def labels_of(y: object) -> np.ndarray:
    """(row): labels, none merged with another by conversion; None or NaN where there is none; of a column, its cells.

    Raises:
        DataError: They have another shape, are neither texts nor numbers, or of several types: 1 and "1" would become
            one.
    """
    refuse_single_text("y", y)
    array = plain_array(y)
    if array.ndim == 2 and array.shape[1] == 1:
        from sklearn.exceptions import DataConversionWarning

        message = "A column-vector y was passed when a 1d array was expected: y is read as y.ravel()."
        warn_caller(message, DataConversionWarning)
        array = array.ravel()
    if array.ndim != 1:
        raise DataError(f"fit: y has {plural(array.ndim, 'axis', 'axes')}; expected (row) class labels.")
    labels = array[has_label(array)]
    labels = list(labels) if array.dtype.kind in "mM" else labels.tolist()  # nanoseconds become whole numbers in a list
    if other := [label for label in labels if not _is_label(label)][:1]:
        raise DataError(
            f"fit: y holds {other[0]!r:.60} ({type(other[0]).__name__}); expected texts, numbers or truth values as "
            "class labels: a folder holds these."
        )
    if array.dtype != object:
        return array
    first: dict[str, object] = {}
    for label in labels:
        is_truth_value = isinstance(label, bool | np.bool_)
        first.setdefault("text" if isinstance(label, str) else "other" if is_truth_value else "number", label)
    if len(first) > 1:
        shown = " and ".join(f"{label!r} ({type(label).__name__})" for label in first.values())
        raise DataError(f"fit: y holds labels of several types, {shown}; make them all text, or all numbers.")
    if "text" in first or not has_label(array).all():
        return array
    typed = np.array(array.tolist())  # floating-point numbers, which may round, where 64 bits do not hold all
    return typed if typed.tolist() == array.tolist() else array


def _is_label(label: object) -> bool:
    """Whether a folder can hold it as a class; a duration of numpy is a whole number to Python."""
    return isinstance(label, str | Integral | Real | np.bool_) and not isinstance(label, np.timedelta64)


def has_label(labels: np.ndarray) -> np.ndarray:
    """(row): where there is a label: neither None, nor NaN, nor an empty text."""
    if np.issubdtype(labels.dtype, np.integer) or labels.dtype == bool:
        return np.ones(len(labels), dtype=bool)
    return np.array([not is_absent(label) for label in labels.tolist()], dtype=bool)


def is_absent(label: object) -> bool:
    """Whether a label stands for none; pandas' own NA equals nothing, not even in a truth value."""
    return label is None or (isinstance(label, float) and label != label) or str(label) in ("", "<NA>")


def is_known(labels: np.ndarray) -> np.ndarray:
    """(node): where there is a label; −1 among whole numbers is none where there are two or more others."""
    is_labeled = has_label(labels)
    # Without the gaps, which make objects or floating-point numbers of whole ones.
    values = np.array(labels[is_labeled].tolist())
    is_whole = values.dtype.kind in "iu" or (values.dtype.kind == "f" and not (values % 1).any())
    if is_whole and len(np.unique(values[values != -1])) >= 2:
        is_labeled[is_labeled] = values != -1
    return is_labeled


def is_known_to(classes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(node): where there is a label for a model of these classes; −1 is none unless it is one of them."""
    is_labeled = has_label(labels)
    if -1 not in classes.tolist():
        is_labeled[is_labeled] = labels[is_labeled] != -1
    return is_labeled


def accuracy(
    y: object, predicted: np.ndarray, classes: Sequence[np.ndarray], sample_weight: ArrayLike | None = None
) -> float:
    """The share of the rows whose known labels are all predicted right, each row counted by its weight.

    Args:
        y: (row) or (row, target) labels; rows without any are left out.
        predicted: The same shape.
        classes: The classes of each target that a model knows.
        sample_weight: (row).

    Raises:
        DataError: The shapes differ, no row has a label, or no label is a class of the model.
    """
    columns = label_columns(y)
    if predicted.shape != ((len(columns[0]), len(columns)) if len(columns) > 1 else columns[0].shape):
        raise DataError(f"score: y is {plain_array(y).shape}, but predictions are {predicted.shape}.")
    return share_right(columns, [has_label(labels) for labels in columns], predicted, classes, sample_weight)


def share_right(
    columns: Sequence[np.ndarray],
    is_labeled: Sequence[np.ndarray],
    predicted: np.ndarray,
    classes: Sequence[np.ndarray],
    sample_weight: ArrayLike | None,
) -> float:
    """`accuracy`, where it is known which labels count: `is_labeled` of each target."""
    weights = None if sample_weight is None else weights_of("score", sample_weight, len(predicted))
    judged = np.any(is_labeled, axis=0)
    if not judged.any():
        raise DataError("score: no row has a label; expected labels to compare with.")
    for labels, is_there, of_target in zip(columns, is_labeled, classes, strict=True):
        present = list(dict.fromkeys(labels[is_there].tolist()))
        if present and not set(present) & set(of_target.tolist()):
            raise DataError(
                f"score: no label of y is among classes_: y holds {_some(present)}; classes_ are "
                f"{_some(of_target.tolist())}. Give labels of the same type as in fit."
            )
    right = all_right(columns, is_labeled, predicted)[judged]
    return float(np.average(right, weights=_weights_of_known(weights, judged)))


def _weights_of_known(weights: np.ndarray | None, is_known: np.ndarray) -> np.ndarray | None:
    """The weights of the rows that are judged.

    Raises:
        DataError: All are zero.
    """
    if weights is None:
        return None
    if not weights[is_known].any():
        raise DataError("score: the weights in sample_weight of the rows with a label add up to zero.")
    return weights[is_known]


def _some(labels: Sequence[object]) -> str:
    return ", ".join(map(repr, labels[:3])) + (", …" if len(labels) > 3 else "")


def all_right(columns: Sequence[np.ndarray], is_labeled: Sequence[np.ndarray], predicted: np.ndarray) -> np.ndarray:
    """(row): whether the known labels of all targets are predicted right.

    Args:
        columns: The labels of each target.
        is_labeled: Which of them are known.
        predicted: (row, target), or (row) of one target.
    """
    by_target = predicted.T if predicted.ndim == 2 else [predicted]
    is_right = np.ones(len(predicted), dtype=bool)
    for labels, is_there, predictions in zip(columns, is_labeled, by_target, strict=True):
        is_right[is_there] &= labels[is_there] == predictions[is_there]  # NA of pandas does not compare
    return is_right


def r2(y: object, predicted: np.ndarray, status: Sequence[str], sample_weight: ArrayLike | None = None) -> float:
    """R², as scikit-learn computes it, over the targets that are known; of several targets the mean.

    Args:
        y: (row) or (row, target) numbers; NaN is left out.
        predicted: The same shape; of one target (row) or (row, 1), whichever y is.
        status: Of each row, for a message.
        sample_weight: (row).

    Raises:
        DataError: The shapes differ, no target is known, or a row with a target cannot be predicted.
    """
    from sklearn.metrics import r2_score

    numbers, shape = as_numbers("y", y), predicted.shape
    truth, predicted = (values[:, None] if values.ndim == 1 else values for values in (numbers, predicted))
    if truth.shape != predicted.shape:
        raise DataError(f"score: y is {numbers.shape}, but predictions are {shape}.")
    has_target = ~np.isnan(truth)
    for row in np.flatnonzero((has_target & np.isnan(predicted)).any(axis=1))[:1]:
        raise DataError(f"score: row {row} has a target, but cannot be predicted: {status[row]}.")
    if not has_target.any(axis=0).all():
        raise DataError("score: y is empty; expected targets to compare with.")
    weights = None if sample_weight is None else weights_of("score", sample_weight, len(truth))
    scores = [
        r2_score(truth[rows, column], predicted[rows, column], sample_weight=_weights_of_known(weights, rows))
        for column, rows in enumerate(has_target.T)
    ]
    return float(np.mean(scores))
