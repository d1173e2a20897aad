"""A model of series on a graph with its scale; and Forecaster, its face in Python."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from safetensors.torch import save as to_safetensors

from edgewise.data.graph_file import check_edges
from edgewise.data.series import Series, Windows, parted
from edgewise.errors import DataError
from edgewise.estimators.forecast.job import ForecastJob, forecast_job
from edgewise.estimators.kept import fit_in, read_weights, training_metrics, untrained
from edgewise.estimators.learner import Learner
from edgewise.estimators.node.estimator import edges_of
from edgewise.models.forecast import ForecastModel
from edgewise.models.forecast_settings import ForecastSettings
from edgewise.neighborhood import Edges
from edgewise.plural import plural
from edgewise.progress import counted
from edgewise.train.device import cpu_threads
from edgewise.train.folder import RunFolder
from edgewise.train.loader import RowLoader
from edgewise.train.loss import TargetLoss

FORMAT, FORMAT_VERSION = "edgewise forecast model", 1
ROWS_A_BATCH = 64
"""Stretches that are computed together where no gradient is wanted."""


@dataclass(frozen=True)
class ForecastDocument:
    """What model.json says of a model of series, beside its format."""

    settings: ForecastSettings
    mean: float
    std: float
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.std <= 0:
            raise DataError(f"std is {self.std}; expected a number above 0.")


@dataclass
class TrainedForecast:
    """A trained model, and the scale of what it was trained on."""

    model: ForecastModel
    """From what was to what comes."""
    mean: float
    """Of all values of the training part."""
    std: float
    """Their standard deviation."""
    names: tuple[str, ...]
    """The nodes."""
    threads: int = 1
    """CPU threads that it computes with."""

    def windows(self, series: Series, starts: np.ndarray, are_known: bool) -> Windows:
        """Stretches of a series in the units of the model.

        Raises:
            DataError: the series has other nodes than the training had.
        """
        if series.names != self.names:
            raise DataError(
                f"{series.source} has {plural(len(series.names), 'column')}, "
                f"{', '.join(series.names[:3])}, ...; the model was "
                f"trained on {len(self.names)}, {', '.join(self.names[:3])}, ..., in this order."
            )
        settings, count = self.model.settings, len(series.names)
        edges = Edges(torch.from_numpy(series.edges.senders), torch.from_numpy(series.edges.receivers), count, count)
        scaled = ((series.values - self.mean) / self.std).astype(np.float32)
        return Windows(scaled, starts, settings.context, settings.horizon, are_known, settings.period, edges)

    def told(self, series: Series, starts: np.ndarray, device: str = "cpu") -> np.ndarray:
        """(row, horizon, node): what the nodes will be behind each stretch of `context` steps."""
        windows, model = self.windows(series, starts, False), self.model.to(device).eval()
        parts = [np.zeros((0, model.settings.horizon * len(self.names)), dtype=np.float32)]
        with torch.no_grad(), cpu_threads(self.threads):
            for first in counted(range(0, len(starts), ROWS_A_BATCH), "predicting"):
                batch = windows.batch(np.arange(first, min(first + ROWS_A_BATCH, len(starts))))
                parts.append(model(batch.to(device)).cpu().numpy())
        self.model.to("cpu")
        told = np.concatenate(parts).reshape(len(starts), model.settings.horizon, len(self.names))
        return told * self.std + self.mean

    def save(self, folder: RunFolder) -> None:
        """Writes model.safetensors and model.json."""
        tensors = {name: value.detach().cpu().contiguous() for name, value in self.model.state_dict().items()}
        folder.write("model.safetensors", to_safetensors(tensors))
        content = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "settings": dataclasses.asdict(self.model.settings),
            "mean": self.mean,
            "std": self.std,
            "names": list(self.names),
        }
        folder.write_json("model.json", content)

    @classmethod
    def load(cls, folder: RunFolder) -> Self:
        """Reads what `save` wrote; raises RunFolderError where it is damaged or of another format."""
        read = folder.read_model(FORMAT, FORMAT_VERSION, ForecastDocument)
        model = read_weights(folder, lambda: ForecastModel(read.settings))
        return cls(model, read.mean, read.std, read.names)


def fit_series(
    series: Series,
    parts: dict[str, np.ndarray],
    job: ForecastJob,
    *,
    folder: RunFolder | None = None,
    resume: bool = False,
) -> tuple[TrainedForecast, dict[str, Any]]:
    """Learns the training stretches, and chooses the epoch by the validation stretches; also the scores of the model
    beside those of everything staying as it was."""
    settings, sizes = job.train, job.model
    assert settings.batch_size is not None
    seen = series.values[: parts["train"][-1] + sizes.context + sizes.horizon]
    model = untrained(lambda: ForecastModel(sizes), settings.seed)
    trained = TrainedForecast(
        model, float(np.nanmean(seen)), float(np.nanstd(seen)) or 1.0, series.names, settings.threads
    )

    def loader(part: str, batch_size: int, seed: int | None = None) -> RowLoader:
        windows = trained.windows(series, parts[part], True)
        return RowLoader(np.arange(len(parts[part])), windows.batch, batch_size, seed)

    training = loader("train", settings.batch_size, settings.seed)
    loaders = (training, loader("val", ROWS_A_BATCH) if len(parts["val"]) else None)
    loss = TargetLoss("regression", settings.loss_function, settings.huber_width)
    history = fit_in(folder, model, loaders, settings, loss=loss, resume=resume).history
    metrics: dict[str, Any] = {
        "rows": {part: len(starts) for part, starts in parts.items()},
        "epochs": len(history),
        **training_metrics(model, history),
    }
    for part, name in (("val", "validation"), ("test", "test")):
        if len(starts := parts[part]):
            right = later(series, starts, sizes)
            metrics[name] = by_step(trained.told(series, starts), right)
            metrics.setdefault("baselines", {}).setdefault("stays", {})[name] = by_step(
                stays(series, starts, sizes), right
            )
    return trained, metrics


def later(series: Series, starts: np.ndarray, sizes: ForecastSettings) -> np.ndarray:
    """(row, horizon, node): what the nodes really were."""
    return series.values[starts[:, None] + sizes.context + np.arange(sizes.horizon)]


def stays(series: Series, starts: np.ndarray, sizes: ForecastSettings) -> np.ndarray:
    """(row, horizon, node): the last step that was read, again and again."""
    return np.repeat(series.values[starts + sizes.context - 1][:, None], sizes.horizon, axis=1)


def by_step(told: np.ndarray, right: np.ndarray) -> dict[str, list[float]]:
    """For each step ahead the mean absolute error, the root of the mean squared error, and the mean absolute error in
    parts of what was, where that is not 0."""
    error = told - right
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(right != 0, np.abs(error) / np.abs(right), np.nan)
    return {
        "mae": [float(np.nanmean(np.abs(each))) for each in error.swapaxes(0, 1)],
        "rmse": [float(np.sqrt(np.nanmean(each**2))) for each in error.swapaxes(0, 1)],
        "mape": [float(np.nanmean(each)) for each in part.swapaxes(0, 1)],
    }


Steps = Any
"""A `Series`, as `edgewise.data.series.read_series` reads it; or an array, a tensor or a DataFrame (time, node), with
NaN where nothing is known."""


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
        parts = parted(series, job.model.context, job.model.horizon, job.split_sizes)
        self.trained_, self.metrics_ = fit_series(series, parts, job)
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


def behind(trained: TrainedForecast, series: Series, device: str = "cpu") -> np.ndarray:
    """(horizon, node): what comes behind the last step of a series.

    Raises:
        DataError: the series is shorter than what the model reads.
    """
    context = trained.model.settings.context
    if len(series.values) < context:
        raise DataError(f"{series.source} has {plural(len(series.values), 'step')}, but the model reads {context}.")
    return trained.told(series, np.array([len(series.values) - context]), device)[0]
