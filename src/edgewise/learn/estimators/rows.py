"""Training on rows: molecules, texts and graphs are rows, and so are the nodes or edges of one graph."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike

from edgewise.errors import DataError, plural, refuse_single_text
from edgewise.learn.estimators.graph_input import GraphNodes
from edgewise.learn.estimators.labels import plain_array
from edgewise.learn.estimators.names import (
    RowNames,
    RowsLike,
    as_rows,
    below,
    has_columns,
    in_order,
    in_row_order,
    naming_rows,
    pair_of,
)
from edgewise.learn.estimators.numbers import as_numbers, mask_of, unwrapped, weights_of
from edgewise.learn.estimators.parameters import naming_parameters
from edgewise.learn.estimators.state import (
    Adapter,
    Estimator,
    Job,
    Names,
    Trained,
    learn_names,
    names_of,
    settings_of,
    warn,
)
from edgewise.learn.tables.rows import Data, Rows
from edgewise.learn.tables.split import Splits, calibration_of, split_rows
from edgewise.learn.tasks.run import fit
from edgewise.learn.tasks.table_task import TableTask

if TYPE_CHECKING:
    from pandas import DataFrame


Read = TypeVar("Read", bound=Data)
Taken = TypeVar("Taken")
ExtraInputs = Mapping[str, object]
"""The arguments that describe rows in addition to X, by name: the edges of a graph, the conditions of a measurement."""


@dataclass(frozen=True)
class Inputs:
    """The rows of a call, the columns of DataFrames in the order of the training."""

    owner: str
    """The class that is called, for messages."""
    X: object
    """The rows."""
    extra: ExtraInputs
    """The extra inputs that are not None."""
    names: Names
    """The names of the columns of the training, by argument."""

    @property
    def graph_rows(self) -> GraphNodes:
        """The rows, where they are nodes or edges of one graph."""
        assert isinstance(self.X, GraphNodes)
        return self.X

    def taken(self, values: Taken) -> Taken:
        """The values of the rows, out of those of a table: a graph is read whole, whichever of its nodes are rows."""
        return self.X.taken(values) if isinstance(self.X, GraphNodes) else values


@dataclass(frozen=True)
class EncodedTargets:
    """The targets of a training as its table has them."""

    cells: Float64[np.ndarray, " row *target"]
    """(row) or (row, target): numbers, or the numbers of classes; NaN where there is none."""
    task_type: str
    """regression, classification or multiclass."""
    classes: tuple[np.ndarray, ...] = ()
    """The classes of each target in order; none where numbers are learned."""


@dataclass(frozen=True)
class Supervision:
    """The arguments of `fit` beside X and y: weights, groups and the validation rows."""

    sample_weight: ArrayLike | None = None
    """(row): how much each counts."""
    groups: ArrayLike | None = None
    """(row): rows of one group are all training or all validation rows."""
    validation: object = None
    """(row) True for the validation rows; or (X, y), further rows."""


@dataclass(frozen=True)
class TrainingColumns:
    """The columns of a training's table that no input holds."""

    task_type: str
    targets: "np.ndarray | DataFrame"
    weights: ArrayLike | None
    groups: ArrayLike | None


def table_inputs(estimator: Estimator, X: object, extra_inputs: ExtraInputs) -> Inputs:
    """The rows of a call as a list, an array or a DataFrame holds them."""
    X = in_order("X", as_rows("X", X), names_of(estimator, "X"))
    ordered = {name: in_order(name, values, names_of(estimator, name)) for name, values in extra_inputs.items()}
    return Inputs(type(estimator).__name__, X, ordered, getattr(estimator, "column_names_", {}))


def listed_rows(X: "RowsLike | DataFrame") -> list[object]:
    """The rows of a list, an array or a DataFrame, one by one."""
    refuse_single_text("X", X)
    return X.to_numpy(dtype=object).tolist() if hasattr(X, "to_numpy") else list(X)


@dataclass(frozen=True, kw_only=True)
class RowAdapter(Adapter[Job, Trained], Generic[Job, Trained, Read]):
    """How estimators over rows use a task: what differs between molecules, texts, graphs, nodes and edges."""

    table_task: TableTask
    """What is special about the task, from which it is made."""
    training_data: Callable[[Job, Inputs, TrainingColumns], Read]
    """From the job of a training, its rows and their targets to the data set."""
    prediction_data: Callable[[Trained, Inputs], Read]
    """From a trained model and rows to predict to the data set; a row that cannot be read keeps its place."""
    inputs: Callable[[Estimator, object, ExtraInputs], Inputs] = table_inputs
    """From X and the extra inputs to the rows of a call."""
    targets: Callable[..., object] = lambda X, y: y
    """From X and y to the targets, where X may hold them."""
    rows: Callable[..., list[object]] = listed_rows
    """The rows of X, one by one."""
    row_names: Callable[..., RowNames | None] = lambda X: None
    """What the rows of X are called, by which those of a Series are put into order; None where they are not named."""
    names_of_rows: Callable[..., Names] = lambda X: {}
    """The names of columns of arguments that X holds: the features of graphs, the conditions beside molecules."""
    fixed_settings: Callable[[Estimator, Inputs], dict[str, object]] = lambda estimator, inputs: {}
    """Settings that follow from the training rows."""
    to_all_rows: Callable[[Inputs, EncodedTargets, Supervision], tuple[EncodedTargets, Supervision]] = (
        lambda inputs, *columns: columns
    )
    """Expands targets and weights from the rows of the call to all rows of the table, such as all nodes of a graph."""
    adds_rows: bool = True
    """Whether further rows (X, y) may be the validation; for the nodes or edges of one graph it is a mask alone."""
    num_features: Callable[[Trained], int] | None = None
    """The features that X needs, out of a trained model; None where X is not an array of numbers."""
    check: Callable[[Job, Read], None] = lambda job, data: None
    """Raises SettingError, or warns, where a data set holds what the model of a job cannot use."""


def without_none(extra_inputs: ExtraInputs) -> dict[str, object]:
    """The extra inputs that are not None, as `unwrapped` has them; a DataError where one is a single string."""
    for name, values in extra_inputs.items():
        if isinstance(values, str | bytes):
            refuse_single_text(name, values)
    return {name: unwrapped(values) for name, values in extra_inputs.items() if values is not None}


@naming_parameters
def fit_rows(
    estimator: Estimator,
    adapter: RowAdapter,
    X: object,
    y: object,
    extra_inputs: ExtraInputs,
    supervision: Supervision,
    encode: Callable[[object], EncodedTargets],
) -> EncodedTargets:
    """Train the model of an estimator.

    Args:
        estimator: The estimator, which has the trained model afterwards.
        adapter: How it uses its task.
        X: The rows.
        y: Their targets.
        extra_inputs: See `ExtraInputs`.
        supervision: Weights, groups and validation of the rows.
        encode: From y to the targets of a table.

    Returns:
        The targets, whose classes the estimator remembers.

    Raises:
        DataError: A row cannot be used; the message says which and why.
        SettingError: A parameter has a value that it cannot have.
    """
    X, extra_inputs = as_rows("X", X), without_none(extra_inputs)
    beside: dict[str, Any] = without_none(vars(supervision))
    supervision = replace(supervision, **{**beside, "validation": supervision.validation})
    learn_names(estimator, {"X": X, "y": y, **extra_inputs}, adapter.names_of_rows(X))

    has_added_rows = adapter.adds_rows and isinstance(supervision.validation, tuple)
    with naming_rows(X, y, supervision.validation if has_added_rows else None):
        y = adapter.targets(X, y)
        if y is None:
            raise DataError(f"{type(estimator).__name__}.fit requires y to be passed, but the target y is None.")
        if has_added_rows:
            X, y, supervision = _with_validation(estimator, adapter, X, y, extra_inputs, supervision)
        names = adapter.row_names(X)
        y = in_row_order(y, names)
        supervision = replace(
            supervision,
            sample_weight=in_row_order(supervision.sample_weight, names),
            validation=in_row_order(supervision.validation, names),
        )
        targets = encode(y)
        if supervision.sample_weight is not None:
            weights = weights_of("fit", supervision.sample_weight, len(targets.cells))
            supervision = replace(supervision, sample_weight=weights)

        inputs = adapter.inputs(estimator, X, extra_inputs)
        targets, supervision = adapter.to_all_rows(inputs, targets, supervision)
        _train(estimator, adapter, inputs, targets, supervision)
    return targets


def _train(
    estimator: Estimator, adapter: RowAdapter, inputs: Inputs, targets: EncodedTargets, supervision: Supervision
) -> None:
    """Split the rows, train on them, and score the model on those of validation."""
    job = settings_of(estimator, adapter, task_type=targets.task_type, **adapter.fixed_settings(estimator, inputs))
    cells = _named_targets(targets.cells, names_of(estimator, "y"))
    columns = TrainingColumns(targets.task_type, cells, supervision.sample_weight, supervision.groups)
    data = adapter.training_data(job, inputs, columns)
    if targets.classes:  # cells are the numbers of classes, which messages and the model call by their names
        classes = zip(data.rows.columns.target_columns, targets.classes, strict=True)
        named = {name: of_target.tolist() for name, of_target in classes}
        data = replace(data, rows=replace(data.rows, classes=named))
    if len(data.rows) < 2:
        raise DataError("fit: n_samples = 1; expected two rows or more, to train on and to validate.")

    if supervision.validation is None:
        size = estimator.validation_size
        split_kind = "random" if supervision.groups is None else "group"
        sizes = (1 - size, size, 0)
        splits = split_rows(data.rows, kind=split_kind, sizes=sizes, seed=job.train.seed, calibration=job.calibration)
    else:
        splits = _masked(data.rows, supervision.validation)
        calibration = job.calibration or calibration_of(data.rows, splits.train, splits.test)
        splits = replace(splits, calibration=calibration)

    adapter.check(job, data)
    prepared = adapter.table_task.prepared(job, data, splits)
    warn(estimator, "fit", adapter.task.warnings(prepared))
    fit(adapter.task, prepared)
    estimator.trained_, estimator.metrics_ = prepared.fitted, adapter.table_task.validation_metrics(prepared) or {}
    set_num_features(estimator, adapter)


def set_num_features(estimator: Estimator, adapter: RowAdapter) -> None:
    """Set `n_features_in_` where X is an array of numbers."""
    if adapter.num_features is not None:
        estimator.n_features_in_ = adapter.num_features(estimator.trained)


def _named_targets(cells: np.ndarray, names: Sequence[str]) -> "np.ndarray | DataFrame":
    """The cells of the targets with the names that y has."""
    import pandas

    return pandas.DataFrame(np.reshape(cells, (len(cells), -1)), columns=list(names)) if names else cells


def _with_validation(
    estimator: Estimator, adapter: RowAdapter, X: object, y: object, extra_inputs: ExtraInputs, supervision: Supervision
) -> tuple[object, np.ndarray, Supervision]:
    """Rows and targets, followed by those of the validation, whose columns are taken by their names."""
    if more := sorted(extra_inputs.keys() | ({"groups"} if supervision.groups is not None else set())):
        raise DataError(f"fit: validation is (X, y), which has no {more[0]}; give a mask (row) instead.")
    added_X, added_y = pair_of(supervision.validation)
    added_X = in_order("validation", as_rows("validation", added_X), names_of(estimator, "X"))
    added_y = adapter.targets(added_X, targets_in_order(estimator, "y of validation", added_y))
    if added_y is None:
        raise DataError("fit: validation lacks y; expected (X, y), or a mask (row).")
    targets, added_targets = plain_array(y), plain_array(added_y)
    size, num_added = len(adapter.rows(X)), len(adapter.rows(added_X))
    for owner, count, of_owner in (("X", size, targets), ("validation", num_added, added_targets)):
        if len(of_owner) != count:  # each by itself: one too many there and one too few here would shift all
            raise DataError(f"fit: {owner} has {plural(count, 'row')}, but its y has {len(of_owner)}.")
    y = _joined_targets(targets, added_targets)

    weights = supervision.sample_weight
    if weights is not None:
        weights = as_numbers("sample_weight", weights)
        mean = weights.mean() if len(weights) else 1.0  # a model may learn from them, too, when they have judged
        weights = np.concatenate([weights, np.full(num_added, mean)])

    joined = Supervision(weights, None, np.arange(len(y)) >= size)
    if has_columns(X):
        return below("validation", X, added_X), y, joined
    return [*adapter.rows(X), *adapter.rows(added_X)], y, joined


def _joined_targets(targets: np.ndarray, added: np.ndarray) -> np.ndarray:
    """Targets followed by those of the validation, in the shape of the former; none is converted to another type.

    Raises:
        DataError: There are more or fewer targets in a row.
    """
    if targets.shape[1:] != added.shape[1:] and {targets.shape[1:], added.shape[1:]} != {(), (1,)}:
        raise DataError(f"fit: y is {targets.shape}, but y of validation is {added.shape}; give the same targets.")
    parts = [targets, added.reshape(len(added), *targets.shape[1:])]
    if targets.dtype.kind != added.dtype.kind:  # as one array, 1 would become "1", and True 1
        parts = [part.astype(object) for part in parts]
    return np.concatenate(parts)


def targets_in_order(estimator: Estimator, argument: str, y: object) -> object:
    """Several targets of a DataFrame in the order of the training; one needs no name."""
    names = names_of(estimator, "y")
    return in_order(argument, y, names) if len(names) > 1 else y


def _masked(rows: Rows, validation: object) -> Splits:
    """Training and validation rows by a mask.

    Raises:
        DataError: It has another length, or leaves no row for training or none for validation.
    """
    mask = mask_of("validation", validation, len(rows))
    train, val = np.flatnonzero(rows.trainable & ~mask), np.flatnonzero(rows.trainable & mask)
    if not len(train) or not len(val):
        raise DataError(
            f"fit: validation leaves {plural(len(train), 'row')} with a target to train on and {len(val)} to validate."
        )
    return Splits(train, val, np.zeros(0, dtype=np.int64))
