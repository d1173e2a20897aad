"""What classifiers and regressors of rows do: fit, predict, score, and open a run folder."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from edgewise.errors import DataError, RunFolderError, plural
from edgewise.learn.estimators.labels import accuracy, class_numbers, has_label, label_columns, r2
from edgewise.learn.estimators.names import in_row_order, row_name
from edgewise.learn.estimators.numbers import as_numbers
from edgewise.learn.estimators.parameters import naming_parameters
from edgewise.learn.estimators.rows import (
    EncodedTargets,
    ExtraInputs,
    Inputs,
    RowAdapter,
    Supervision,
    fit_rows,
    set_num_features,
    targets_in_order,
    without_none,
)
from edgewise.learn.estimators.state import Estimator, Names, device_of, load, warn, y_had_columns
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.outputs import Prediction
from edgewise.learn.readers.graphs.types import UNTRAINED_END
from edgewise.learn.tables.cell import OK, has_remark
from edgewise.learn.tables.read import ARRAYS
from edgewise.learn.tables.rows import Data

NUMBERS, CLASSES = ("regression",), ("classification", "multiclass")
"""The task types of a regressor, and those of a classifier."""


@dataclass(frozen=True)
class RowPredictions:
    """What is predicted for the rows of a call."""

    targets: list[Prediction]
    """The prediction of each target."""
    statuses: list[str]
    """The status of each row."""


@naming_parameters
def predictions(
    estimator: Estimator, adapter: RowAdapter, X: object, extra_inputs: ExtraInputs, coverage: float | None = None
) -> RowPredictions:
    """The predictions for some rows."""
    trained = estimator.trained
    inputs = adapter.inputs(estimator, X, without_none(extra_inputs))
    data = adapter.prediction_data(trained, inputs)
    statuses = _statuses(estimator, inputs, data)
    _warn_of_doubts(estimator, adapter, "predict", X, data, statuses)
    computed: list[Prediction] = trained.predict(data, coverage=coverage, device=device_of(estimator))
    targets = [
        Prediction(**{name: inputs.taken(values) for name, values in vars(target).items()}) for target in computed
    ]
    return RowPredictions(targets, statuses)


@naming_parameters
def status_of(estimator: Estimator, adapter: RowAdapter, X: object, extra_inputs: ExtraInputs) -> list[str]:
    """For each row `ok`, a remark on its prediction, or why it is missing."""
    inputs = adapter.inputs(estimator, X, without_none(extra_inputs))
    return _statuses(estimator, inputs, adapter.prediction_data(estimator.trained, inputs))


@naming_parameters
def fingerprint(estimator: Estimator, adapter: RowAdapter, X: object, extra_inputs: ExtraInputs) -> np.ndarray:
    """(row, dim): the learned vector of each row; NaN where it cannot be read."""
    trained = estimator.trained
    inputs = adapter.inputs(estimator, X, without_none(extra_inputs))
    data = adapter.prediction_data(trained, inputs)
    statuses = _statuses(estimator, inputs, data)
    _warn_of_doubts(estimator, adapter, "fingerprint", X, data, statuses)
    vectors: np.ndarray = trained.fingerprint(data, device_of(estimator))
    warn_of_unread(estimator, "fingerprint", X, statuses, np.isnan(vectors).all(axis=1))
    return vectors


def data_of(estimator: Estimator, adapter: RowAdapter, X: object, extra_inputs: ExtraInputs) -> Data:
    """Rows to predict as the data set of the task."""
    return adapter.prediction_data(estimator.trained, adapter.inputs(estimator, X, without_none(extra_inputs)))


def _statuses(estimator: Estimator, inputs: Inputs, data: Data) -> list[str]:
    """The status of each row of a call, out of those of its data set."""
    return list(inputs.taken(np.asarray(estimator.trained.statuses(data), dtype=object)))


def _warn_of_doubts(
    estimator: Estimator, adapter: RowAdapter, method: str, X: object, data: Data, statuses: Sequence[str]
) -> None:
    """Warn of what speaks against predictions: texts that are cut, unknown words, numbers that are filled."""
    trained, rows = estimator.trained, adapter.task.rows
    notes = [] if rows is None else rows.tally(trained, data).notes

    doubtful = [row for row, status in enumerate(statuses) if has_remark(status)]
    if doubtful and not notes:
        first = statuses[doubtful[0]].removeprefix(OK).lstrip(",; ").removeprefix("but ")
        notes.append(
            f"{plural(len(doubtful), 'row lacks', 'rows lack')} something, the first of them "
            f"{row_name(X, doubtful[0])}: {first}; status_of says it of each"
        )
    warn(estimator, method, notes)


def warn_of_unread(
    estimator: Estimator, method: str, X: object, statuses: Sequence[str], is_unread: np.ndarray
) -> None:
    """Warn of rows that cannot be read, in whose place NaN, or no label, stands."""
    if not is_unread.any():
        return
    # Types of nodes that the model does not predict stand among the others in every graph.
    is_unread = is_unread & np.array([not status.endswith(UNTRAINED_END) for status in statuses])
    if is_unread.any():
        row = int(is_unread.argmax())
        reason = f"{row_name(X, row)}: {statuses[row]}; status_of says why of each"
        count = f"{int(is_unread.sum()):,} of {plural(len(is_unread), 'row')} cannot be read"
        warn(estimator, method, [f"{count} and nothing is predicted there, the first of them {reason}"])


def truth_of(estimator: Estimator, adapter: RowAdapter, X: object, y: object) -> object:
    """The targets that predictions are compared with, columns taken by their names."""
    return in_row_order(adapter.targets(X, targets_in_order(estimator, "y", y)), adapter.row_names(X))


def class_targets(y: object) -> EncodedTargets:
    """Class labels as the targets of a table.

    Raises:
        DataError: A row without any label.
    """
    columns = label_columns(y)
    is_labeled = [has_label(labels) for labels in columns]
    for row in np.flatnonzero(~np.any(is_labeled, axis=0))[:1]:
        raise DataError(f"fit: {ARRAYS[0]}, row {row} of y has no label; leave the row out.")
    return numbered(columns, is_labeled)


def numbered(columns: Sequence[np.ndarray], is_labeled: Sequence[np.ndarray]) -> EncodedTargets:
    """Labels as the numbers of their classes.

    Args:
        columns: The labels of each target.
        is_labeled: Where they are known.
    """
    cells, all_classes = np.full((len(columns[0]), len(columns)), np.nan), []
    for target, (labels, is_known) in enumerate(zip(columns, is_labeled)):
        classes, numbers = class_numbers(labels[is_known])
        cells[is_known, target] = numbers
        all_classes.append(classes)

    task_type = CLASSES[max(map(len, all_classes)) > 2]
    return EncodedTargets(cells if len(columns) > 1 else cells[:, 0], task_type, tuple(all_classes))


def fit_classes(
    estimator: Estimator,
    adapter: RowAdapter,
    X: object,
    y: object,
    extra_inputs: ExtraInputs,
    supervision: Supervision,
    encode: Callable[[object], EncodedTargets] = class_targets,
) -> None:
    """Train a classifier; see `fit_rows`. Sets `classes_`."""
    targets = fit_rows(estimator, adapter, X, y, extra_inputs, supervision, encode)
    _set_classes(estimator, list(targets.classes))


def _set_classes(estimator: Estimator, classes: list[np.ndarray]) -> None:
    """Set `classes_`: of one target an array, of several a list of them."""
    estimator.classes_ = classes if len(classes) > 1 else classes[0]


def classes_of(estimator: Estimator) -> list[np.ndarray]:
    """The classes of each target."""
    return estimator.classes_ if isinstance(estimator.classes_, list) else [estimator.classes_]


def predict_proba(
    estimator: Estimator, adapter: RowAdapter, X: object, extra_inputs: ExtraInputs
) -> np.ndarray | list[np.ndarray]:
    """(row, class): probabilities; of several targets a list of those of each; NaN for a row that cannot be read."""
    probabilities, statuses = probabilities_of(estimator, adapter, X, extra_inputs)
    warn_of_unread(estimator, "predict_proba", X, statuses, np.isnan(probabilities[0]).any(axis=1))
    return probabilities if len(probabilities) > 1 else probabilities[0]


def probabilities_of(
    estimator: Estimator, adapter: RowAdapter, X: object, extra_inputs: ExtraInputs
) -> tuple[list[np.ndarray], list[str]]:
    """(row, class) probabilities of each target, and the status of each row."""
    predicted = predictions(estimator, adapter, X, extra_inputs)
    return [np.asarray(target.probabilities) for target in predicted.targets], predicted.statuses


def predict_classes(estimator: Estimator, adapter: RowAdapter, X: object, extra_inputs: ExtraInputs) -> np.ndarray:
    """(row), or (row, target) where y has that shape: the most probable class.

    Raises:
        DataError: A row cannot be read: no class could say so.
    """
    probabilities, statuses = probabilities_of(estimator, adapter, X, extra_inputs)
    for row in np.flatnonzero(np.isnan(probabilities[0]).any(axis=1))[:1]:
        raise DataError(f"predict: {row_name(X, row)} cannot be read: {statuses[row]}")
    return stacked(
        [classes[values.argmax(axis=1)] for values, classes in zip(probabilities, classes_of(estimator), strict=True)]
    )


def stacked(columns: Sequence[np.ndarray]) -> np.ndarray:
    """The labels of one target as they are, those of several as (row, target)."""
    if len(columns) == 1:
        return columns[0]
    is_one_kind = len({column.dtype.kind for column in columns}) == 1
    return np.stack(columns if is_one_kind else [column.astype(object) for column in columns], axis=1)


@naming_parameters
def score_classes(
    estimator: Estimator,
    adapter: RowAdapter,
    X: object,
    y: object,
    extra_inputs: ExtraInputs,
    sample_weight: ArrayLike | None,
) -> float:
    """The share of the rows with a label whose class is predicted right; of several targets, all that are known."""
    truth = truth_of(estimator, adapter, X, y)
    predicted = predict_classes(estimator, adapter, X, extra_inputs)
    return accuracy(truth, predicted, classes_of(estimator), sample_weight)


def number_targets(y: object) -> EncodedTargets:
    """Numbers as the targets of a table."""
    return EncodedTargets(as_numbers("y", y, in_fit=True), "regression")


def fit_numbers(
    estimator: Estimator, adapter: RowAdapter, X: object, y: object, extra_inputs: ExtraInputs, supervision: Supervision
) -> None:
    """Train a regressor; see `fit_rows`. Sets `one_target_`."""
    targets = fit_rows(estimator, adapter, X, y, extra_inputs, supervision, number_targets)
    _set_one_target(estimator, targets.cells.ndim == 1)


def _set_one_target(estimator: Estimator, is_one: bool) -> None:
    """Set `one_target_`: whether y has the shape (row), and predictions have it, too."""
    estimator.one_target_ = is_one


def _shaped(estimator: Estimator, columns: Sequence[np.ndarray]) -> np.ndarray:
    """The values of all targets in the shape of y."""
    return columns[0] if estimator.one_target_ else np.stack(columns, axis=1)


def predict_numbers(
    estimator: Estimator, adapter: RowAdapter, X: object, extra_inputs: ExtraInputs, return_std: bool = False
) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
    """(row), or (row, target) where y has that shape: the predicted numbers, and their standard deviations on request;
    NaN for a row that cannot be read."""
    predicted, values = numbers_of(estimator, adapter, X, extra_inputs)
    return (values, _shaped(estimator, [target.std for target in predicted.targets])) if return_std else values


def numbers_of(
    estimator: Estimator, adapter: RowAdapter, X: object, extra_inputs: ExtraInputs
) -> tuple[RowPredictions, np.ndarray]:
    """The predictions for some rows, and the predicted numbers in the shape of y."""
    predicted = predictions(estimator, adapter, X, extra_inputs)
    warn_of_unread(estimator, "predict", X, predicted.statuses, np.isnan(predicted.targets[0].value))
    return predicted, _shaped(estimator, [target.value for target in predicted.targets])


def predict_interval(
    estimator: Estimator, adapter: RowAdapter, X: object, extra_inputs: ExtraInputs, coverage: float | None
) -> tuple[np.ndarray, np.ndarray]:
    """The lower and upper ends of the intervals, each as predictions; NaN with too few validation rows."""
    predicted = predictions(estimator, adapter, X, extra_inputs, coverage)
    warn_of_unread(estimator, "predict_interval", X, predicted.statuses, np.isnan(predicted.targets[0].value))
    if note := estimator.trained.interval_note(coverage):
        warn(estimator, "predict_interval", [note])
    lower, upper = ([getattr(target, end) for target in predicted.targets] for end in ("low", "high"))
    return _shaped(estimator, lower), _shaped(estimator, upper)


@naming_parameters
def score_numbers(
    estimator: Estimator,
    adapter: RowAdapter,
    X: object,
    y: object,
    extra_inputs: ExtraInputs,
    sample_weight: ArrayLike | None,
) -> float:
    """R² over the targets that are known, of several the mean."""
    truth = truth_of(estimator, adapter, X, y)
    predicted, values = numbers_of(estimator, adapter, X, extra_inputs)
    return r2(truth, values, predicted.statuses, sample_weight)


EstimatorType = TypeVar("EstimatorType", bound=Estimator)


def load_classifier(kind: type[EstimatorType], adapter: RowAdapter, folder: str | os.PathLike[str]) -> EstimatorType:
    """The classifier of a run folder; see `load`."""
    estimator = load(kind, adapter, folder, lambda trained: _check_task(trained, CLASSES, folder))
    trained = estimator.trained_
    _set_classes(estimator, [np.array(trained.classes[name]) for name in trained.columns.target_columns])
    set_num_features(estimator, adapter)
    return estimator


def load_regressor(kind: type[EstimatorType], adapter: RowAdapter, folder: str | os.PathLike[str]) -> EstimatorType:
    """The regressor of a run folder; see `load`."""
    estimator = load(kind, adapter, folder, lambda trained: _check_task(trained, NUMBERS, folder))
    _set_one_target(estimator, len(estimator.trained_.columns.target_columns) == 1 and not y_had_columns(folder))
    set_num_features(estimator, adapter)
    return estimator


def _check_task(trained: FittedTable, task_types: Sequence[str], folder: str | os.PathLike[str]) -> None:
    """Raise RunFolderError where a model predicts numbers and not classes, or the other way round."""
    if trained.task_type not in task_types:
        raise RunFolderError(f"{folder} holds a model for {trained.task_type}; expected {' or '.join(task_types)}.")


def inputs_of_run(trained: FittedTable) -> Names:
    """The names of the columns of X that a run of the command line was trained on."""
    names = trained.columns.inputs
    return {"X": names} if names else {}
