"""Forecaster: series on a graph from Python."""

from typing import Any, Self

import numpy as np
import torch

from edgewise.data.graphs.file import check_edges
from edgewise.data.graphs.series import Series
from edgewise.errors import DataError
from edgewise.estimators.learner import Learner
from edgewise.estimators.nodes import edges_of
from edgewise.plural import plural
from edgewise.tasks.forecast.job import forecast_job
from edgewise.tasks.forecast.task import TASK
from edgewise.tasks.forecast.trained import TrainedForecast, behind
from edgewise.tasks.run import fit

Steps = Any
"""A `Series`, as `edgewise.data.graphs.series.read_series` reads it; or an array, a tensor or a DataFrame
(time, node), with NaN where nothing is known."""


class Forecaster(Learner[TrainedForecast]):
    """A scikit-learn compatible model of series on a graph.

        Forecaster(horizon=6).fit(values, edges).predict(values, edges)

    Args:
        settings: any field of ForecastJob, ForecastSettings or TrainSettings by its name.
    """

    kind = TrainedForecast
    fitted_by = "fit(series)"
    own_settings = ("split_sizes", "directed")

    def fit(self, X: Steps, edges: Any = None) -> Self:
        """Learns a series: what its nodes will be, from what they were.

        Args:
            X: (time, node); the columns of a DataFrame name the nodes.
            edges: who is connected with whom, as `NodeRegressor` takes them; the other way of each is added where it is
                missing, unless `directed`. None where nodes are alone, and for a `Series`, which has its own.

        Raises:
            DataError: shapes do not fit, a value is infinite, or an edge names no node.
            SettingError: a setting is not known, or the series is too short.
        """
        source = X.source if isinstance(X, Series) else "the series"
        job = forecast_job({**self.settings, "data": (source,)}, "Forecaster")
        series = series_of(X, edges, is_directed=job.graph.directed)
        prepared = TASK.prepared(job, series)
        self.metrics_ = TASK.evaluate(prepared, fit(TASK, prepared))
        self.trained_ = prepared.fitted
        self.edges_ = edges
        return self

    def predict(self, X: Steps, edges: Any = None) -> np.ndarray:
        """(horizon, node): what comes behind the last step of a series.

        Args:
            X: as in `fit`.
            edges: as in `fit`, and those by default; a model that was loaded from a folder does not know them.

        Raises:
            DataError: shapes do not fit, or the edges are not known.
        """
        trained = self.trained
        if edges is None and not isinstance(X, Series):
            if not hasattr(self, "edges_") and trained.model.settings.model != "gru":
                raise DataError("predict: a model from a folder does not know the edges; give them too.")
            edges = getattr(self, "edges_", None)
        is_directed = self.settings.get("directed", False)
        return behind(trained, series_of(X, edges, is_directed=is_directed, names=trained.names))


def series_of(X: Steps, edges: Any, *, is_directed: bool, names: tuple[str, ...] | None = None) -> Series:
    """A series, whatever held it.

    Args:
        X: as in `Forecaster.fit`.
        edges: as in `Forecaster.fit`.
        is_directed: whether edges are one way.
        names: the nodes that a trained model knows; an array has no names, and takes these where it has as many nodes.

    Raises:
        DataError: it has another shape than (time, node), holds infinity, or edges do not fit.
    """
    if isinstance(X, Series):
        if edges is not None:
            raise DataError("a Series has its own edges; leave out edges, or give an array (time, node).")
        return X
    values = np.asarray(X.detach().cpu().numpy() if isinstance(X, torch.Tensor) else X, dtype=np.float64)
    if values.ndim != 2:
        raise DataError(f"X has {plural(values.ndim, 'axis', 'axes')}; expected (time, node).")
    if np.isinf(values).any():
        time, node = np.argwhere(np.isinf(values))[0].tolist()
        raise DataError(f"X holds an infinite number at time {time}, node {node}; NaN says that nothing is known.")
    count = values.shape[1]
    if hasattr(X, "columns"):
        names = tuple(map(str, X.columns))
    elif names is None or len(names) != count:
        names = tuple(map(str, range(count)))
    listed = edges_of(np.zeros((2, 0), dtype=np.int64) if edges is None else edges, None)
    check_edges("edges", np.stack([listed.senders, listed.receivers]), count)
    listed = listed if is_directed else listed.both_ways(count)
    return Series("the series", names, values, tuple(map(str, range(len(values)))), listed)
