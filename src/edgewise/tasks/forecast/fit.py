"""Learning series on a graph: the loaders, the scores, what they are compared with."""

from typing import Any

import numpy as np

from edgewise.data.graphs.series import Series
from edgewise.models.forecast import ForecastModel
from edgewise.models.time_settings import ForecastSettings
from edgewise.tasks.checkpoint import fit_in, training_metrics, untrained
from edgewise.tasks.forecast.job import ForecastJob
from edgewise.tasks.forecast.trained import ROWS_A_BATCH, TrainedForecast
from edgewise.train.folder import RunFolder
from edgewise.train.loader import RowLoader
from edgewise.train.loss import TargetLoss


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
