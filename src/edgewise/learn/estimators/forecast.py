"""How arrays become series on a graph: what Forecaster is made of."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from edgewise.errors import DataError, SettingError, plural
from edgewise.learn.estimators.graph_input import GraphNodes
from edgewise.learn.estimators.labels import r2
from edgewise.learn.estimators.names import has_columns, in_order
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
from edgewise.learn.readers.graphs.clock import Clock, in_time
from edgewise.learn.readers.graphs.series import Series
from edgewise.learn.readers.graphs.times import OFF_STEP, are_dates, read_times
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
    nodes, times = _split_times(estimator.time_column, "fit", X)
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
    steps, series, times = _predicted(estimator, X, edges)
    if times is None or series.clock is None:
        return steps
    return pd.DataFrame(steps, index=future_index(series, len(steps), times), columns=list(series.names))


@naming_parameters
def score(estimator: Any, X: object, y: object, edges: object) -> float:
    """R² of the predicted steps, over all nodes and steps that are known."""
    values, series, times = _predicted(estimator, X, edges)
    observed, observed_times = _split_times(estimator.time_column, "score", y, "y")
    observed = in_order("y", observed, _names_in(observed, series.names))
    if times is not None and observed_times is not None and series.clock is not None and has_columns(observed):
        expected = future_index(series, len(values), times)
        if not expected.has_duplicates:  # as times of the day that go on for more than one
            observed = observed.iloc[_rows_at(expected, _as_expected(observed_times, times, series.clock, expected))]

    truth = as_numbers("y", observed)
    if truth.shape != values.shape:
        raise DataError(f"score: y is {truth.shape}, but predictions are {values.shape}.")
    return r2(truth.ravel(), values.ravel(), ["no value is known"] * values.size)


def _predicted(estimator: Any, X: object, edges: object) -> tuple[np.ndarray, Series, pd.Index | None]:
    """What follows a series, `(horizon, node)` in the order of the training; the series, and its times."""
    trained = estimator.trained
    X, times = _split_times(estimator.time_column, "predict", X)
    if edges is None and not isinstance(X, Series):
        if not hasattr(estimator, "edges_") and trained.encoder.settings.model != "gru":
            raise DataError("predict: a model from a folder does not know the edges; give them too.")
        edges, X = getattr(estimator, "edges_", None), in_order("X", X, names_of(estimator, "X"))

    series = series_of(X, edges, is_directed=estimator.directed, names=trained.encoder.names)
    series = _in_time(estimator, series, times)
    warn(estimator, "predict", notes_of(trained, series))
    return predict_next(trained, series), series, times


def _names_in(table: object, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the nodes by which the columns of a table are found; none where nodes are only counted, and the
    table calls them otherwise."""
    is_counted = names == tuple(map(str, range(len(names))))
    return () if is_counted and not set(names) <= set(map(str, getattr(table, "columns", ()))) else names


def _as_expected(observed: pd.Index, times: pd.Index, clock: Clock, expected: pd.Index) -> pd.Index:
    """The times of y as those that are expected, behind the times of X: in the same time zone, read in the same way.

    Raises:
        DataError: Those of X are numbers, and those of y are dates, or the other way round.
    """
    if not isinstance(observed, pd.DatetimeIndex):
        # A date may begin with its day or its month: those of X decide, too.
        before = [] if isinstance(times, pd.DatetimeIndex) else _cells(times)
        cells = [*before, *_cells(observed)]
        with _calling_lines_rows():
            read = read_times(cells, range(-len(before), len(observed)), "the times of y")
        observed = (pd.Index(read.numbers) if read.dates is None else read.dates)[len(before) :]
        if before and isinstance(observed, pd.DatetimeIndex) and isinstance(expected, pd.DatetimeIndex):
            is_daily = read.dates is not None and len(set(read.dates.time)) == 1
            # Clocks may be put forward behind X: the offset of its last time is then not that of y.
            observed = observed.tz_localize(None).tz_localize(expected.tz) if is_daily and observed.tz else observed
    if isinstance(observed, pd.DatetimeIndex) == (clock.first is None):
        words = ("numbers", "dates")
        raise DataError(
            f"score: the times of y are {words[isinstance(observed, pd.DatetimeIndex)]}, but those of X are "
            f"{words[clock.first is not None]}."
        )

    if isinstance(observed, pd.DatetimeIndex):
        if clock.is_of_day:
            return pd.Index([clock.written(moment) for moment in observed])
        zone = expected.tz if isinstance(expected, pd.DatetimeIndex) else None
        return observed.tz_convert(zone) if zone is not None and observed.tz is not None else observed
    steps = (observed.to_numpy() - expected[0]) / clock.step
    near = np.rint(steps).clip(0, len(expected) - 1).astype(np.int64)
    return pd.Index(np.where(np.abs(steps - near) <= OFF_STEP, expected.to_numpy()[near], observed.to_numpy()))


def _rows_at(expected: pd.Index, observed: pd.Index) -> list[int]:
    """The row of y at each predicted time.

    Raises:
        DataError: There is none, or several.
    """
    relevant = np.flatnonzero(observed.isin(expected))
    if (repeated := observed[relevant].duplicated()).any():
        raise DataError(f"score: y has {observed[relevant][repeated][0]} in several rows; give one for each time.")
    rows = observed[relevant].get_indexer(expected)
    if (rows < 0).any():
        extent = f"it has {observed[0]} to {observed[-1]}" if len(observed) else "it has no rows"
        raise DataError(f"score: y lacks {expected[rows < 0][0]}, which is predicted; {extent}.")
    matching: list[int] = relevant[rows].tolist()
    return matching


def _split_times(column: str | None, method: str, X: object, argument: str = "X") -> tuple[object, pd.Index | None]:
    """The nodes of a DataFrame, and its times where its index or a column has them.

    Args:
        column: The column of times.
        method: What is called.
        X: The DataFrame, or anything else.
        argument: What it is called in a message.

    Raises:
        DataError: It lacks the column of times, or one that is not named holds times.
        SettingError: There is a column of times, but no DataFrame to train on.
    """
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
            raise DataError(f"column {name!r} of {argument} holds times, not a node; pass time_column={name!r}.")
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
    cells = _cells(times)
    with _calling_lines_rows():
        try:
            timed = in_time(cells, series.values, range(len(cells)), estimator.gaps, "the times of X")
        except DataError as error:
            raise DataError(without_flags(str(error), parameters_of(type(estimator)))) from error
    return series.in_time(timed)


def _cells(times: pd.Index) -> list[str]:
    """Times as a file has them."""
    return [time.isoformat(" ") if isinstance(time, pd.Timestamp) else str(time) for time in times]


@contextmanager
def _calling_lines_rows() -> Iterator[None]:
    """Call the lines of a file rows in messages."""
    try:
        yield
    except DataError as error:
        error.args = (re.sub(r"\bline(s?)\b", r"row\1", str(error)),)
        raise


def future_index(series: Series, num_steps: int, times: pd.Index) -> pd.Index:
    """The times of the steps after the last of a series, in the time zone and by the name that its times have; text
    where they are times of the day, without a date."""
    clock, steps = series.clock, [len(series.values) + step for step in range(num_steps)]
    assert clock is not None
    if clock.is_of_day:
        return pd.Index([clock.at(step) for step in steps], name=times.name)
    index = pd.Index([clock.time(step) for step in steps], name=times.name)
    if not isinstance(index, pd.DatetimeIndex) or index.tz is None or not isinstance(times, pd.DatetimeIndex):
        return index
    if len(set(times.time)) > 1:
        return index.tz_convert(times.tz)
    # Days and months are counted by the clock on the wall, which may be put forward or back behind the last time.
    is_first = np.ones(num_steps, dtype=bool)
    return index.tz_localize(None).tz_localize(times.tz, ambiguous=is_first, nonexistent="shift_forward")


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
