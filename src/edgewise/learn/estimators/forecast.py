"""How arrays become series on a graph: what Forecaster is made of."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from edgewise.errors import DataError, SettingError, plural
from edgewise.learn.estimators.graph_input import GraphNodes
from edgewise.learn.estimators.labels import r2
from edgewise.learn.estimators.names import column_names, has_columns, in_order
from edgewise.learn.estimators.numbers import as_numbers
from edgewise.learn.estimators.parameters import naming_parameters, parameters_of, without_flags
from edgewise.learn.estimators.state import (
    Adapter,
    learn_names,
    names_of,
    refuse,
    settings_of,
    train,
    warn,
    warn_caller,
)
from edgewise.learn.readers.graphs.clock import are_dates, in_time
from edgewise.learn.readers.graphs.series import Series
from edgewise.learn.tasks.forecast.model import notes_of, predict_next
from edgewise.learn.tasks.forecast.task import TASK, prepared
from edgewise.learn.tasks.rejected import list_left_out

SERIES = Adapter(task=TASK, placeholders={"data": ("the series",)})
"""How Forecaster uses its task."""


@naming_parameters
def fit(estimator: Any, X: object, edges: object, *, sample_weight: object, validation: object) -> None:
    """Learn a series.

    Raises:
        DataError: Shapes do not fit, a value is infinite, or an edge names no node.
        SettingError: A parameter has a value that it cannot have, or the series is too short.
    """
    refuse(
        estimator,
        sample_weight=(sample_weight, "all steps count the same"),
        validation=(validation, "a series is split by time, see split_sizes"),
    )
    source = X.source if isinstance(X, Series) else "the series"
    job = settings_of(estimator, SERIES, data=(source,))
    nodes, times = _split_times(estimator, "fit", X)
    series = _in_time(estimator, series_of(nodes, edges, is_directed=job.graph.directed), times)
    warn(estimator, "fit", series.notes)
    learn_names(estimator, {"X": nodes}, {})
    estimator.edges_ = edges
    train(estimator, SERIES, prepared(job, series))


@naming_parameters
def predict(estimator: Any, X: object, edges: object) -> np.ndarray | pd.DataFrame:
    """(horizon, node): what follows the last step of a series, as an array, or a DataFrame where X has times.

    Raises:
        DataError: Shapes do not fit, or the edges are not known.
    """
    trained = estimator.trained
    X, times = _split_times(estimator, "predict", X)
    if edges is None and not isinstance(X, Series):
        if not hasattr(estimator, "edges_") and trained.encoder.settings.model != "gru":
            raise DataError("predict: a model from a folder does not know the edges; give them too.")
        edges, X = getattr(estimator, "edges_", None), in_order("X", X, names_of(estimator, "X"))

    series = series_of(X, edges, is_directed=estimator.directed, names=trained.encoder.names)
    series = _in_time(estimator, series, times)
    warn(estimator, "predict", notes_of(trained, series))
    steps = predict_next(trained, series)
    if times is None or series.clock is None:
        return steps
    return pd.DataFrame(steps, index=future_index(series, len(steps), times), columns=list(series.names))


@naming_parameters
def score(estimator: Any, X: object, y: object, edges: object) -> float:
    """R² of the predicted steps, over all nodes and steps that are known."""
    predicted = predict(estimator, X, edges)
    nodes, _ = _split_times(estimator, "score", X)
    names = names_of(estimator, "X") if edges is None else column_names("X", nodes)
    observed: pd.DataFrame = in_order("y", _split_times(estimator, "score", y)[0], names)
    times = _times_of(observed.index) if has_columns(observed) else None
    if isinstance(predicted, pd.DataFrame) and times is not None:
        times = times if isinstance(times, pd.DatetimeIndex) else pd.DatetimeIndex(pd.to_datetime(times))
        observed = observed.set_axis(times)
        if len(missing := predicted.index.difference(times)):
            raise DataError(f"score: y lacks {missing[0]}, which is predicted; it has {times[0]} to {times[-1]}.")
        observed = observed.loc[predicted.index]

    truth, values = as_numbers("y", observed), np.asarray(predicted)
    if truth.shape != values.shape:
        raise DataError(f"score: y is {truth.shape}, but predictions are {values.shape}.")
    return r2(truth.ravel(), values.ravel(), ["no value is known"] * values.size)


def _split_times(estimator: Any, method: str, X: object) -> tuple[object, pd.Index | None]:
    """The nodes of a DataFrame, and its times where its index or a column has them.

    Raises:
        DataError: It lacks the column of times, or one that is not named holds times.
        SettingError: There is a column of times, but no DataFrame to train on.
    """
    column: str | None = estimator.time_column
    if not has_columns(X):
        if column is not None and method == "fit" and not isinstance(X, Series):
            raise SettingError(f"time_column is {column!r}, but X is not a DataFrame with named columns.")
        return X, None
    if column is not None and column in X.columns:
        times = pd.Index(X[column])
        return X.drop(columns=column), times.to_timestamp() if isinstance(times, pd.PeriodIndex) else times
    if (indexed := _times_of(X.index)) is not None:
        return X, indexed
    if column is not None and method == "fit":
        raise DataError(f"X has no column {column!r} of times; its columns are {', '.join(map(str, X.columns))}.")
    for name, dtype in X.dtypes.items():
        if dtype.kind == "M":
            raise DataError(f"column {name!r} of X holds times, not a node; pass time_column={name!r}.")
    return X, None


def _times_of(index: pd.Index) -> pd.Index | None:
    """The times in the index of a DataFrame: dates, periods by their beginning, or text that reads as dates; None where
    it counts or names rows."""
    if isinstance(index, pd.DatetimeIndex):
        return index
    if isinstance(index, pd.PeriodIndex):
        return index.to_timestamp()
    kind = pd.api.types.infer_dtype(index, skipna=False)
    if kind in ("date", "datetime"):
        return pd.DatetimeIndex(index)
    return index if kind == "string" and are_dates(index.tolist()) else None


def _in_time(estimator: Any, series: Series, times: pd.Index | None) -> Series:
    """A series in the order of its times, without gaps."""
    if times is None:
        return series
    cells = [time.isoformat(" ") if isinstance(time, pd.Timestamp) else str(time) for time in times]
    try:
        timed = in_time(cells, series.values, range(len(cells)), estimator.gaps, "the times of X")
    except DataError as error:
        message = re.sub(r"\bline(s?)\b", r"row\1", str(error))
        raise DataError(without_flags(message, parameters_of(type(estimator)))) from error
    return replace(series, values=timed.values, times=timed.times, clock=timed.clock, notes=timed.notes)


def future_index(series: Series, num_steps: int, times: pd.Index) -> pd.Index:
    """The times of the steps after the last of a series, in the time zone and by the name that its times have."""
    assert series.clock is not None
    index = pd.Index([series.clock.time(len(series.values) + step) for step in range(num_steps)], name=times.name)
    if not isinstance(index, pd.DatetimeIndex) or index.tz is None:
        return index
    return index.tz_convert(getattr(times, "tz", None)) if isinstance(times, pd.DatetimeIndex) else index


def series_of(X: object, edges: object, *, is_directed: bool, names: tuple[str, ...] | None = None) -> Series:
    """A series, whatever holds it.

    Args:
        X: As `Forecaster.fit` takes it.
        edges: As `Forecaster.fit` takes it.
        is_directed: Whether edges are one way.
        names: The nodes that a trained model knows. An array is unnamed, and takes these where it has as many nodes;
            a DataFrame with the same columns in another order is put into this one.

    Raises:
        DataError: It has another shape than (time, node), holds infinity, or edges do not fit.
    """
    if isinstance(X, Series):
        if edges is not None:
            raise DataError("a Series has its own edges; leave out edges, or give an array (time, node).")
        list_left_out(X.edges.rejected)
        return X
    trained_names = names
    values = as_numbers("X", X)
    if values.ndim != 2:
        raise DataError(f"X has {plural(values.ndim, 'axis', 'axes')}; expected (time, node).")
    if np.isinf(values).any():
        time, node = np.argwhere(np.isinf(values))[0].tolist()
        raise DataError(f"X holds an infinite number at time {time}, node {node}; NaN says that nothing is known.")
    count = values.shape[1]
    if has_columns(X):
        names = tuple(map(str, X.columns))
    elif names is None or len(names) != count:
        names = tuple(map(str, range(count)))
    listed = GraphNodes(np.zeros((count, 1)), np.zeros((2, 0), dtype=np.int64) if edges is None else edges).edges
    if listed.features.shape[1]:
        warn_caller("Forecaster does not read the weights of edges; edges=matrix != 0 leaves them out.")
    listed = listed if is_directed else listed.both_ways(count)
    if trained_names is not None and names != trained_names and sorted(names) == sorted(trained_names):
        order = np.array([names.index(name) for name in trained_names])
        position = np.argsort(order)
        listed = replace(listed, senders=position[listed.senders], receivers=position[listed.receivers])
        names, values = trained_names, values[:, order]
    return Series("the series", names, values, tuple(map(str, range(len(values)))), listed)
