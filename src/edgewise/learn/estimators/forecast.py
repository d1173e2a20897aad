"""Forecaster: series on a graph."""

import re
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pandas as pd
import torch

from edgewise.errors import DataError, SettingError
from edgewise.formatting import plural
from edgewise.learn.estimators.estimator import Estimator
from edgewise.learn.estimators.graph_input import GraphNodes
from edgewise.learn.estimators.labels import r2
from edgewise.learn.estimators.names import column_names, in_order
from edgewise.learn.estimators.numbers import as_numbers
from edgewise.learn.estimators.params import old_names, without_flags
from edgewise.learn.networks.time_settings import FORECAST_MODELS
from edgewise.learn.readers.graphs.clock import in_time
from edgewise.learn.readers.graphs.series import Series
from edgewise.learn.tasks.forecast.task import TASK, FittedForecast, behind
from edgewise.learn.tasks.rejected import list_left_out

Steps = Any
"""A `Series`, as `edgewise.learn.readers.graphs.series.read_series` reads it; or an array, a tensor or a DataFrame
(time, node), with NaN where nothing is known."""


class Forecaster(
    Estimator,
    task=TASK,
    fitted_type=FittedForecast,
    models=FORECAST_MODELS,
    required={"data": ("the series",)},
    keep=("split_sizes", "directed", "time_column", "gaps"),
):
    """Predicts the next steps of series on a graph.

    Forecaster(horizon=6).fit(values, edges=edges).predict(values)
    """

    @old_names
    def fit(
        self, data: Steps, y: Any = None, *, edges: Any = None, sample_weight: None = None, validation: None = None
    ) -> Self:
        """Learns a series.

        Args:
            data: (time, node); the columns of a DataFrame name the nodes. A DatetimeIndex, or its `time_column`, has
                the times: rows are sorted by them, and `gaps` says what happens to missing and repeated ones.
            y: The edges, as `edges`: a series is its own target.
            edges: As `NodeRegressor` takes them; the other way of each is added where it is missing, unless
                `directed`. None where nodes are alone, and for a `Series`, which has its own.
            sample_weight: Refused: all steps count the same.
            validation: Refused: validation and test are the last parts of the time, see `split_sizes`.

        Raises:
            DataError: Shapes do not fit, a value is infinite, or an edge names no node.
            SettingError: A parameter has a value that it cannot have, or the series is too short.
        """
        self._refuse(
            sample_weight=(sample_weight, "all steps count the same"),
            validation=(validation, "a series is split by time, see split_sizes"),
        )
        edges = y if edges is None else edges
        job = self.settings(data=(data.source if isinstance(data, Series) else "the series",))
        nodes, times = self._split_times("fit", data)
        series = self._in_time(series_of(nodes, edges, is_directed=job.graph.directed), times)
        self._warn("fit", series.notes)
        self._learn_names(nodes, None, {})
        self.edges_ = edges
        return self._train(TASK.prepared(job, series))

    @old_names
    def predict(self, data: Steps, edges: Any = None) -> Any:
        """(horizon, node): what follows the last step of a series.

        It is an array; where a DataFrame has times, a DataFrame whose index has those that follow.

        Args:
            data: As in `fit`; without its column of times, rows are taken as they come. With the edges of `fit`, the
                nodes of a DataFrame are taken by their names, and come in the order of the training.
            edges: As in `fit`, and those by default; a model that was loaded from a folder does not know them.

        Raises:
            DataError: Shapes do not fit, or the edges are not known.
        """
        trained = self.trained
        data, times = self._split_times("predict", data)
        if edges is None and not isinstance(data, Series):
            if not hasattr(self, "edges_") and trained.model.settings.model != "gru":
                raise DataError("predict: a model from a folder does not know the edges; give them too.")
            edges, data = getattr(self, "edges_", None), in_order("X", data, self._known_names("X"))
        is_directed = self.directed  # type: ignore[attr-defined]
        series = self._in_time(series_of(data, edges, is_directed=is_directed, names=trained.names), times)
        self._warn("predict", series.notes)
        found = behind(trained, series)
        if times is None or series.clock is None:
            return found
        return pd.DataFrame(found, index=index_behind(series, len(found), times), columns=list(series.names))

    @old_names
    def score(self, data: Steps, y: Any, edges: Any = None) -> float:
        """R² of the predicted steps, over all nodes and steps that are known.

        Args:
            data: As in `predict`.
            y: (horizon, node), what followed; NaN where nothing is known.
            edges: As in `predict`.
        """
        found = self.predict(data, edges)
        nodes, _ = self._split_times("score", data)
        names = self._known_names("X") if edges is None else column_names("X", nodes)
        y = in_order("y", self._split_times("score", y)[0], names)
        if isinstance(found, pd.DataFrame) and isinstance(getattr(y, "index", None), pd.DatetimeIndex):
            if len(missing := found.index.difference(y.index)):
                raise DataError(
                    f"score: y lacks {missing[0]}, which is predicted; it has {y.index[0]} to {y.index[-1]}."
                )
            y = y.loc[found.index]
        truth, found = as_numbers("y", y), np.asarray(found)
        if truth.shape != found.shape:
            raise DataError(f"score: y is {truth.shape}, but predictions are {found.shape}.")
        return r2(truth.ravel(), found.ravel(), ["no value is known"] * found.size)

    def _split_times(self, method: str, held: Any) -> tuple[Any, pd.Index | None]:
        """The nodes of a DataFrame, and its times where its index or a column has them.

        Raises:
            DataError: It lacks the column of times, or one that is not named holds times.
            SettingError: There is a column of times, but no DataFrame to train on.
        """
        column: str | None = self.time_column  # type: ignore[attr-defined]
        if not hasattr(held, "columns"):
            if column is not None and method == "fit" and not isinstance(held, Series):
                raise SettingError(f"time_column is {column!r}, but X is no DataFrame, whose columns have names.")
            return held, None
        if column is not None and column in held.columns:
            return held.drop(columns=column), pd.Index(held[column])
        if isinstance(held.index, pd.DatetimeIndex):
            return held, held.index
        if column is not None and method == "fit":
            raise DataError(
                f"X has no column {column!r} of times; its columns are {', '.join(map(str, held.columns))}."
            )
        for name, kind in held.dtypes.items():
            if kind.kind == "M":
                raise DataError(f"column {name!r} of X holds times, and is no node; say so: time_column={name!r}.")
        return held, None

    def _in_time(self, series: Series, times: pd.Index | None) -> Series:
        """A series in the order of its times, without gaps."""
        if times is None:
            return series
        cells = [each.isoformat(" ") if isinstance(each, pd.Timestamp) else str(each) for each in times]
        gaps = self.gaps  # type: ignore[attr-defined]
        try:
            timed = in_time(cells, series.values, range(len(cells)), gaps, "the times of X")
        except DataError as error:
            said = re.sub(r"\bline(s?)\b", r"row\1", str(error))
            raise DataError(without_flags(said, self.parameters)) from error
        return replace(series, values=timed.values, times=timed.times, clock=timed.clock, notes=timed.notes)


def index_behind(series: Series, num_steps: int, times: pd.Index) -> pd.Index:
    """The times of the steps behind the last of a series, in the time zone and by the name that its times have."""
    assert series.clock is not None
    found = pd.Index([series.clock.time(len(series.values) + step) for step in range(num_steps)], name=times.name)
    if not isinstance(found, pd.DatetimeIndex) or found.tz is None:
        return found
    return found.tz_convert(getattr(times, "tz", None)) if isinstance(times, pd.DatetimeIndex) else found


def series_of(held: Steps, edges: Any, *, is_directed: bool, names: tuple[str, ...] | None = None) -> Series:
    """A series, whatever holds it.

    Args:
        held: As in `Forecaster.fit`.
        edges: As in `Forecaster.fit`.
        is_directed: Whether edges are one way.
        names: The nodes that a trained model knows; an array has no names, and takes these where it has as many nodes.

    Raises:
        DataError: It has another shape than (time, node), holds infinity, or edges do not fit.
    """
    if isinstance(held, Series):
        if edges is not None:
            raise DataError("a Series has its own edges; leave out edges, or give an array (time, node).")
        list_left_out(held.edges.rejected)
        return held
    values = as_numbers("X", held.detach().cpu().numpy() if isinstance(held, torch.Tensor) else held)
    if values.ndim != 2:
        raise DataError(f"X has {plural(values.ndim, 'axis', 'axes')}; expected (time, node).")
    if np.isinf(values).any():
        time, node = np.argwhere(np.isinf(values))[0].tolist()
        raise DataError(f"X holds an infinite number at time {time}, node {node}; NaN says that nothing is known.")
    count = values.shape[1]
    if hasattr(held, "columns"):
        names = tuple(map(str, held.columns))
    elif names is None or len(names) != count:
        names = tuple(map(str, range(count)))
    listed = GraphNodes(np.zeros((count, 1)), np.zeros((2, 0), dtype=np.int64) if edges is None else edges).edges
    listed = listed if is_directed else listed.both_ways(count)
    return Series("the series", names, values, tuple(map(str, range(len(values)))), listed)
