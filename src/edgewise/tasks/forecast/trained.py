"""A trained model of series on a graph, with the scale of what it was trained on."""

from dataclasses import dataclass

import numpy as np
import torch

from edgewise.data.graphs.series import Series, Windows
from edgewise.errors import DataError
from edgewise.models.forecast import ForecastModel
from edgewise.models.time_settings import ForecastSettings
from edgewise.neighborhood import Edges
from edgewise.plural import plural
from edgewise.progress import counted
from edgewise.tasks.fitted import Fitted
from edgewise.tasks.forecast.settings import ForecastRunSettings
from edgewise.train.device import cpu_threads

ROWS_A_BATCH = 64
"""Stretches that are computed together where no gradient is wanted."""


@dataclass(kw_only=True)
class FittedForecast(Fitted):
    """A trained model, and the scale of what it was trained on."""

    FORMAT = ForecastRunSettings.FORMAT

    settings: ForecastSettings
    """The sizes of the model."""
    mean: float
    """Of all values of the training part."""
    std: float
    """Their standard deviation."""
    names: tuple[str, ...]
    """The nodes."""

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
        settings, count = self.settings, len(series.names)
        edges = Edges(torch.from_numpy(series.edges.senders), torch.from_numpy(series.edges.receivers), count, count)
        scaled = ((series.values - self.mean) / self.std).astype(np.float32)
        return Windows(scaled, starts, settings.context, settings.horizon, are_known, settings.period, edges)

    def predict(self, series: Series, starts: np.ndarray, device: str = "cpu") -> np.ndarray:
        """(row, horizon, node): what the nodes will be behind each stretch of `context` steps."""
        windows, model = self.windows(series, starts, False), self.model.to(device).eval()
        parts = [np.zeros((0, self.settings.horizon * len(self.names)), dtype=np.float32)]
        with torch.no_grad(), cpu_threads(self.threads):
            for first in counted(range(0, len(starts), ROWS_A_BATCH), "predicting"):
                batch = windows.batch(np.arange(first, min(first + ROWS_A_BATCH, len(starts))))
                parts.append(model(batch.to(device)).cpu().numpy())
        self.model.to("cpu")
        found = np.concatenate(parts).reshape(len(starts), self.settings.horizon, len(self.names))
        return found * self.std + self.mean

    def new_member(self) -> ForecastModel:
        """A model before its first step, drawn from torch's generator."""
        return ForecastModel(self.settings)

    def check(self) -> None:
        """Raise DataError unless the scale is one."""
        if self.std <= 0:
            raise DataError(f"std is {self.std}; expected a number above 0.")


def behind(trained: FittedForecast, series: Series, device: str = "cpu") -> np.ndarray:
    """(horizon, node): what comes behind the last step of a series.

    Raises:
        DataError: the series is shorter than what the model reads.
    """
    context = trained.settings.context
    if len(series.values) < context:
        raise DataError(f"{series.source} has {plural(len(series.values), 'step')}, but the model reads {context}.")
    return trained.predict(series, np.array([len(series.values) - context]), device)[0]
