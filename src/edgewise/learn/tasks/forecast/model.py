"""What predicts series: the encoder of their windows, what the numbers of the network mean, and the next steps."""

import math
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
import torch

from edgewise.errors import DataError, plural
from edgewise.learn.fitted import Fitted, network_outputs
from edgewise.learn.networks.forecast import ForecastModel
from edgewise.learn.networks.time_settings import ForecastSettings
from edgewise.learn.readers.graphs.clock import Interval
from edgewise.learn.readers.graphs.series import Series, Windows, contexts, forward_filled
from edgewise.learn.readers.graphs.times import OFF_STEP
from edgewise.learn.tables.magnitude import MIN_SPREAD, require_comparable, require_range, require_spread
from edgewise.learn.tasks.forecast.settings import ForecastRunSettings
from edgewise.learn.training.loss import TargetLoss
from edgewise.neighborhood import Edges

WINDOWS_PER_BATCH = 64
"""Windows that are computed together where no gradient is needed."""
MAX_RATIO = 100
"""Nodes whose standard deviations differ by no more than this are scaled together."""


@dataclass(frozen=True)
class SeriesValues:
    """Future values of nodes: value = mean + std · output, the scale being that of all nodes or of each."""

    mean: float
    """The mean of all values of the training steps."""
    std: float
    """Their standard deviation."""
    node_mean: tuple[float, ...] = ()
    """The mean of each node, where nodes differ so much that each has its own scale; else empty."""
    node_std: tuple[float, ...] = ()
    """The standard deviation of each, likewise."""

    @classmethod
    def fit(cls, series: Series, num_steps: int) -> Self:
        """The scale of the training steps.

        Args:
            series: all steps.
            num_steps: how many of them are training steps.

        Raises:
            DataError: the training steps hold no number, or a value is too large to be scaled.
        """
        values = series.measured[:num_steps]
        if np.isnan(values).all():
            raise DataError(f"{series.source}: the training steps hold no number; there is nothing to learn from.")
        require_range(series.values, series.cell_name)

        mean, std = float(np.nanmean(values)), float(np.nanstd(values))
        num_nodes = values.shape[1]
        require_spread(values.reshape(-1, 1), np.array([std]), lambda row, _: series.cell_name(*divmod(row, num_nodes)))
        node_mean, node_std = node_scales(values)
        return cls(mean, std or 1.0, node_mean, node_std)

    @property
    def scale(self) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the standard deviation that values are scaled by, `(node)` or `()`."""
        return np.array(self.node_mean or self.mean), np.array(self.node_std or self.std)

    def transform(self, values: np.ndarray) -> np.ndarray:
        """From the unit of the series to that of the network."""
        mean, std = self.scale
        scaled: np.ndarray = (values - mean) / std
        return scaled

    def inverse(self, outputs: np.ndarray) -> np.ndarray:
        """From the unit of the network to that of the series."""
        mean, std = self.scale
        values: np.ndarray = outputs * std + mean
        return values

    def loss(self, settings: ForecastRunSettings) -> TargetLoss:
        """What is minimized."""
        return TargetLoss("regression", settings.train.loss_function, settings.train.huber_width)

    def metrics(self, predicted: np.ndarray, truth: np.ndarray) -> dict[str, list[float | None]]:
        """For each step ahead the mean absolute error, the root of the mean squared error, and the mean absolute error
        as a fraction of the true value, where that is not 0; None for a step without such a value.

        Args:
            predicted, truth: `(row, horizon, node)`; NaN where the truth is missing.
        """
        errors = predicted - truth
        with np.errstate(divide="ignore", invalid="ignore"):
            fractions = np.where(truth != 0, np.abs(errors) / np.abs(truth), np.nan)
        mean_squares = known_means(errors**2)
        return {
            "mae": known_means(np.abs(errors)),
            "rmse": [None if square is None else math.sqrt(square) for square in mean_squares],
            "mape": known_means(fractions),
        }

    def check(self) -> None:
        """Raise DataError unless the scale is one."""
        if self.std <= 0:
            raise DataError(f"std is {self.std}; expected a number above 0.")
        if min(self.node_std, default=1.0) <= 0:
            raise DataError(f"node_std holds {min(self.node_std)}; expected numbers above 0.")


@dataclass(frozen=True)
class SeriesEncoder:
    """What the training series fixed: its nodes, and the sizes of the network."""

    settings: ForecastSettings
    """The sizes of the network."""
    names: tuple[str, ...]
    """The nodes."""
    interval: Interval | None = None
    """The time from one step to the next; None where the series lacks times, and in folders of earlier versions."""
    origin: float | None = None
    """The time of its first step, from which the period counts, in the unit of the interval; None likewise."""

    def new_network(self, output: SeriesValues) -> ForecastModel:
        """A network that reads `context` steps and predicts `horizon`."""
        return ForecastModel(self.settings)

    def windows(self, series: Series, starts: np.ndarray, output: SeriesValues, *, are_known: bool) -> Windows:
        """Windows of a series in the unit of the network.

        Args:
            series: the series.
            starts: the first step of each window.
            output: the scale of the values.
            are_known: whether the series contains the predicted steps, too.

        Raises:
            DataError: the series has other nodes than that of the training.
        """
        if series.names != self.names:
            raise DataError(
                f"{series.source} has {plural(len(series.names), 'column')}, {', '.join(series.names[:3])}, ...; the "
                f"model was trained on {len(self.names)}, {', '.join(self.names[:3])}, ...; give the same columns."
            )
        settings, count = self.settings, len(series.names)
        scaled = output.transform(series.values)
        require_comparable(series.values, scaled, series.cell_name)
        edges = Edges(torch.from_numpy(series.edges.senders), torch.from_numpy(series.edges.receivers), count, count)
        return Windows(
            scaled.astype(np.float32), starts, settings.context, settings.horizon, are_known, settings.period, edges,
            first_step=round(self.steps_from_origin(series)),
            measured=None if series.interpolated is None else output.transform(series.measured).astype(np.float32),
            known_from=series.known_from,
        )  # fmt: skip

    def steps_from_origin(self, series: Series) -> float:
        """How many steps after that of the training a series begins; 0 without times, or where steps differ."""
        clock, interval = series.clock, self.interval
        if self.origin is None or interval is None or clock is None or not clock.interval.is_as(interval):
            return 0.0
        return (clock.origin - self.origin) / interval.length

    def future(self, series: Series, starts: np.ndarray) -> np.ndarray:
        """`(row, horizon, node)`: the true values after the context of each window, NaN where they are interpolated."""
        settings = self.settings
        return series.measured[starts[:, None] + settings.context + np.arange(settings.horizon)]

    def last_values(self, series: Series, starts: np.ndarray, output: SeriesValues) -> np.ndarray:
        """`(row, horizon, node)`: the last step of the context, repeated; the baseline. Empty cells are filled as the
        network reads them, so that both are scored on the same values."""
        settings = self.settings
        context = contexts(series.values, starts, settings.context, series.known_from)
        context[:, 0] = np.where(np.isnan(context[:, 0]), output.scale[0], context[:, 0])
        return np.repeat(forward_filled(context)[:, -1:], settings.horizon, axis=1)

    def check(self, output: SeriesValues) -> None:
        """Raise DataError unless the fields fit each other."""
        num_means, num_stds = len(output.node_mean), len(output.node_std)
        if num_means != num_stds or num_stds not in (0, len(self.names)):
            raise DataError(
                f"node_mean has {num_means} numbers and node_std {num_stds}, but there are "
                f"{plural(len(self.names), 'node')}."
            )


FittedForecast: TypeAlias = Fitted[SeriesEncoder, SeriesValues]


def predict(fitted: FittedForecast, series: Series, starts: np.ndarray, device: str = "cpu") -> np.ndarray:
    """`(row, horizon, node)`: the values after the context of each window.

    Args:
        fitted: the model.
        series: the series.
        starts: the first step of each window.
        device: where to compute.
    """
    windows = fitted.encoder.windows(series, starts, fitted.output, are_known=False)
    horizon, num_nodes = fitted.encoder.settings.horizon, len(fitted.encoder.names)
    outputs = network_outputs(fitted, windows.batch, len(starts), WINDOWS_PER_BATCH, device)
    flat = np.concatenate([np.zeros((0, horizon * num_nodes), dtype=np.float32), *outputs])
    return fitted.output.inverse(flat.reshape(len(starts), horizon, num_nodes))


def predict_next(fitted: FittedForecast, series: Series, device: str = "cpu") -> np.ndarray:
    """`(horizon, node)`: the values after the last step of a series.

    Raises:
        DataError: the series is shorter than the context that the model reads.
    """
    context = fitted.encoder.settings.context
    if len(series.values) < context:
        raise DataError(f"{series.source} has {plural(len(series.values), 'step')}, but the model reads {context}.")
    return predict(fitted, series, np.array([len(series.values) - context]), device)[0]


def notes_of(fitted: FittedForecast, series: Series) -> list[str]:
    """What should be known of a series that is predicted: its times, and nodes without a value; a line each."""
    encoder, clock, lines = fitted.encoder, series.clock, [*series.notes]
    context, period, steps = encoder.settings.context, encoder.settings.period, encoder.steps_from_origin(series)
    if encoder.interval is not None and clock is not None and not clock.interval.is_as(encoder.interval):
        lines.append(f"a step is {clock.interval}, but was {encoder.interval} in the training")
    elif period is not None and abs(steps - round(steps)) > OFF_STEP:
        lines.append(f"{series.times[0]!r} lies between two steps of the training; the period counts from the nearer")

    unread = np.flatnonzero(np.isnan(series.values[-context:]).all(axis=0))
    if len(unread):
        nodes = plural(len(unread), "node has", "nodes have")
        lines.append(
            f"warning: {nodes} no value in the last {plural(context, 'step')}, {series.names[unread[0]]!r}"
            f"{' and others' if len(unread) > 1 else ''}: the mean of the training is read there"
        )
    return lines


def known_means(values: np.ndarray) -> list[float | None]:
    """For each step of `(row, step, node)` the mean of the numbers; None where all are NaN."""
    return [None if np.isnan(of_step).all() else float(np.nanmean(of_step)) for of_step in values.swapaxes(0, 1)]


def node_scales(values: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The mean and the standard deviation of each node of `(time, node)`, where the latter differ by more than a
    hundred times: in a common unit, the small ones would hardly count. Empty otherwise."""
    has_values = ~np.isnan(values).all(axis=0)
    mean, std = np.zeros(len(has_values)), np.zeros(len(has_values))
    mean[has_values] = np.nanmean(values[:, has_values], axis=0)
    std[has_values] = np.nanstd(values[:, has_values], axis=0)

    varies = has_values & (np.fmax.reduce(values, axis=0) > np.fmin.reduce(values, axis=0)) & (std >= MIN_SPREAD)
    if not varies.any() or std[varies].max() <= MAX_RATIO * std[varies].min():
        return (), ()
    std = np.where(varies, std, np.where(mean != 0, np.abs(mean), 1.0))
    return tuple(mean.tolist()), tuple(std.tolist())
