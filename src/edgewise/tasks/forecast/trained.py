"""A trained model of series on a graph, with the scale of what it was trained on."""

import dataclasses
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from safetensors.torch import save as to_safetensors

from edgewise.data.graphs.series import Series, Windows
from edgewise.errors import DataError
from edgewise.models.forecast import ForecastModel
from edgewise.models.time_settings import ForecastSettings
from edgewise.neighborhood import Edges
from edgewise.plural import plural
from edgewise.progress import counted
from edgewise.tasks.checkpoint import read_weights
from edgewise.train.device import cpu_threads
from edgewise.train.folder import RunFolder

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


def behind(trained: TrainedForecast, series: Series, device: str = "cpu") -> np.ndarray:
    """(horizon, node): what comes behind the last step of a series.

    Raises:
        DataError: the series is shorter than what the model reads.
    """
    context = trained.model.settings.context
    if len(series.values) < context:
        raise DataError(f"{series.source} has {plural(len(series.values), 'step')}, but the model reads {context}.")
    return trained.told(series, np.array([len(series.values) - context]), device)[0]
