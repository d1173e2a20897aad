"""Forecast: the next values of the series of the nodes of a graph."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from edgewise.errors import DataError
from edgewise.formatting import plural
from edgewise.learn.networks.forecast import ForecastModel
from edgewise.learn.networks.time_settings import ForecastSettings
from edgewise.learn.progress import counted, note
from edgewise.learn.readers.graphs.series import Series, Windows, read_series, split_series
from edgewise.learn.tables.magnitude import MIN_SPREAD, require_comparable, require_range, require_spread
from edgewise.learn.tasks.fitted import Fitted
from edgewise.learn.tasks.forecast.settings import ForecastRunSettings
from edgewise.learn.tasks.rejected import list_left_out
from edgewise.learn.tasks.scores import ScoreTable, same, score_table, split_line
from edgewise.learn.tasks.task import PredictRequest, Prepared, Task, training_metrics
from edgewise.learn.training.device import cpu_threads, pick_device
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.loader import Loader, RowLoader
from edgewise.learn.training.loss import TargetLoss
from edgewise.neighborhood import Edges

if TYPE_CHECKING:
    from edgewise.learn.training.training import FitResult


ROWS_A_BATCH = 64
"""Stretches that are computed together where no gradient is wanted."""
MAX_RATIO = 100
"""Nodes whose standard deviations differ by no more than this are scaled together."""


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
    node_mean: tuple[float, ...] = ()
    """The mean of each node, where nodes differ so much that each is scaled on its own; else none."""
    node_std: tuple[float, ...] = ()
    """The standard deviation of each, likewise."""

    @property
    def scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation that the values of each node are scaled by, (node) or ()."""
        return np.array(self.node_mean or self.mean), np.array(self.node_std or self.std)

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
        mean, std = self.scale
        scaled = (series.values - mean) / std
        require_comparable(series.values, scaled, series.where)
        return Windows(
            scaled.astype(np.float32), starts, settings.context, settings.horizon, are_known, settings.period, edges
        )

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
        mean, std = self.scale
        return found * std + mean

    def new_member(self) -> ForecastModel:
        return ForecastModel(self.settings)

    def check(self) -> None:
        """Raise DataError unless the scale is one."""
        if self.std <= 0:
            raise DataError(f"std is {self.std}; expected a number above 0.")
        if len(self.node_mean) != len(self.node_std) or len(self.node_std) not in (0, len(self.names)):
            raise DataError(
                f"node_mean has {len(self.node_mean)} numbers and node_std {len(self.node_std)}, but there are "
                f"{plural(len(self.names), 'node')}."
            )
        if min(self.node_std, default=1.0) <= 0:
            raise DataError(f"node_std holds {min(self.node_std)}; expected numbers above 0.")


def behind(trained: FittedForecast, series: Series, device: str = "cpu") -> np.ndarray:
    """(horizon, node): what comes behind the last step of a series.

    Raises:
        DataError: the series is shorter than what the model reads.
    """
    context = trained.settings.context
    if len(series.values) < context:
        raise DataError(f"{series.source} has {plural(len(series.values), 'step')}, but the model reads {context}.")
    return trained.predict(series, np.array([len(series.values) - context]), device)[0]


def node_scales(values: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """The mean and the standard deviation of each node of (time, node), where the latter differ by more than a hundred
    times: in a common unit, the small ones would hardly count. None otherwise."""
    known = ~np.isnan(values).all(axis=0)
    mean, std = np.zeros(len(known)), np.zeros(len(known))
    mean[known], std[known] = np.nanmean(values[:, known], axis=0), np.nanstd(values[:, known], axis=0)
    varies = known & (np.fmax.reduce(values, axis=0) > np.fmin.reduce(values, axis=0)) & (std >= MIN_SPREAD)
    if not varies.any() or std[varies].max() <= MAX_RATIO * std[varies].min():
        return None
    std = np.where(varies, std, np.where(mean != 0, np.abs(mean), 1.0))
    return tuple(mean.tolist()), tuple(std.tolist())


def prepare(settings: ForecastRunSettings) -> Prepared:
    graph = settings.graph
    series = read_series(
        settings.data[0],
        graph.edges,
        time_column=settings.time_column,
        edge_columns=graph.edge_columns,
        is_directed=graph.directed,
        gaps=settings.gaps,
        strict=settings.strict,
    )
    return prepared(settings, series)


def prepared(settings: ForecastRunSettings, series: Series) -> Prepared:
    """The same of series that are read; the scale is that of the training steps."""
    model = settings.model
    splits = split_series(series, model.context, model.horizon, settings.split_sizes)
    seen = series.values[: splits["train"][-1] + model.context + model.horizon]
    if np.isnan(seen).all():
        raise DataError(f"{series.source}: the training steps hold no number; there is nothing to learn from.")
    require_range(series.values, series.where)
    mean, std = float(np.nanmean(seen)), float(np.nanstd(seen))
    require_spread(seen.reshape(-1, 1), np.array([std]), lambda place, _: series.where(*divmod(place, seen.shape[1])))
    fitted = FittedForecast(settings=model, mean=mean, std=std or 1.0, names=series.names)
    if (scales := node_scales(seen)) is not None:
        fitted.node_mean, fitted.node_std = scales
    rows = {name: starts.tolist() for name, starts in splits.items()}
    return Prepared(settings, series, splits, fitted, rows, series.edges.rejected)


def notes(prepared: Prepared) -> list[str]:
    """How the nodes are scaled, where it is not all alike."""
    if not prepared.fitted.node_std:
        return []
    return ["each node is scaled by its own mean and standard deviation, as these differ by orders of magnitude"]


def loader(prepared: Prepared, split: str, batch_size: int, seed: int | None) -> Loader:
    starts = prepared.splits[split]
    windows = prepared.fitted.windows(prepared.data, starts, True)
    return RowLoader(np.arange(len(starts)), windows.batch, batch_size, seed)


def loss(prepared: Prepared) -> TargetLoss:
    recipe = prepared.settings.train
    return TargetLoss("regression", recipe.loss_function, recipe.huber_width)


def evaluate(prepared: Prepared, results: "list[FitResult]") -> dict[str, Any]:
    """The errors by step ahead, beside those of the last value repeated."""
    series, model, splits = prepared.data, prepared.settings.model, prepared.splits
    counts = {name: len(starts) for name, starts in splits.items()}
    metrics: dict[str, Any] = {"rows": counts, **training_metrics(prepared, results[0])}
    for split, name in (("val", "validation"), ("test", "test")):
        if len(starts := splits[split]):
            right = later(series, starts, model)
            metrics[name] = by_step(prepared.fitted.predict(series, starts), right)
            repeated = by_step(stays(series, starts, model), right)
            metrics.setdefault("baselines", {}).setdefault("stays", {})[name] = repeated
    return metrics


def describe(prepared: Prepared, folder: RunFolder) -> list[str]:
    series, settings = prepared.data, prepared.settings
    edges, model = series.edges, settings.model
    count = len(series.names)
    steps, empty = plural(len(series.values), "step"), plural(series.num_missing, "empty cell")
    isolated = plural(edges.num_isolated(count), "node has", "nodes have")
    lines = [
        f"{series.source}: {steps} of {plural(count, 'node')}, {empty}",
        f"  {edges.ways(settings.graph.directed)}; {isolated} no neighbor",
        *(
            f"  {line}"
            for line in (
                *series.notes,
                *notes(prepared),
                *edges.unused("no model of series reads them"),
            )
        ),
    ]
    if edges.rejected:
        first, place = edges.rejected[0], folder.path / "rejected.csv"
        where = f"{first.file}, line {first.line}, column {first.column!r}"
        rejected = f"{plural(len(edges.rejected), 'edge')} rejected, the first in {where}: {first.reason}"
        lines.append(f"  {rejected} (all in {place})")
    counts = split_line({split: len(starts) for split, starts in prepared.splits.items()}, "stretch", "stretches")
    lines.append(f"{counts}, by time: {plural(model.context, 'step')} read, {model.horizon} predicted")
    return lines


def score_tables(metrics: dict[str, Any], split: str) -> list[ScoreTable | str]:
    """The scores at a quarter, half and all of the steps ahead."""
    models, horizon = TASK.scores_of_models(metrics, split), len(metrics[split]["mae"])
    found: list[ScoreTable | str] = []
    for steps in sorted({max(1, horizon // 4), max(1, horizon // 2), horizon}):
        at_step = {
            label: {name: scores[name][steps - 1] for name in TASK.headlines} for label, scores in models.items()
        }
        found.append(score_table(f"{split} stretches, {plural(steps, 'step')} ahead", at_step, TASK.headlines))
    return found


def predict(request: PredictRequest, suffix: str) -> tuple[Any, str]:
    """The steps that come behind the last of a series."""
    folder = request.run_folder
    trained, config = FittedForecast.load(folder), folder.read_config()
    trained.threads = request.threads
    series = read_series(
        request.data,
        request["edges"],
        time_column=config.get("time-column"),
        edge_columns=tuple(config.get("edge-columns", ())),
        is_directed=config.get("directed", False),
        gaps=request["gaps"] or config.get("gaps", "error"),
        strict=request.strict,
    )
    list_left_out(series.edges.rejected, request=request)
    for line in series.notes:
        note(f"{series.source}: {line}")
    found = behind(trained, series, pick_device(request.device))
    table = pd.DataFrame(found, columns=list(series.names))
    if series.clock is not None:
        times = [series.clock.at(len(series.values) + step) for step in range(len(found))]
        table.insert(0, config["time-column"], times)
    if "steps_ahead" not in table:
        table.insert(0, "steps_ahead", range(1, len(found) + 1))
    content = table if suffix == ".parquet" else table.to_csv(index=False)
    return content, f"{plural(len(found), 'step')} behind {series.times[-1]!r}"


def later(series: Series, starts: np.ndarray, sizes: ForecastSettings) -> np.ndarray:
    """(row, horizon, node): what the nodes really were."""
    return series.values[starts[:, None] + sizes.context + np.arange(sizes.horizon)]


def stays(series: Series, starts: np.ndarray, sizes: ForecastSettings) -> np.ndarray:
    """(row, horizon, node): the last step that was read, again and again."""
    return np.repeat(series.values[starts + sizes.context - 1][:, None], sizes.horizon, axis=1)


def by_step(predicted: np.ndarray, right: np.ndarray) -> dict[str, list[float]]:
    """For each step ahead the mean absolute error, the root of the mean squared error, and the mean absolute error in
    parts of what was, where that is not 0."""
    error = predicted - right
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(right != 0, np.abs(error) / np.abs(right), np.nan)
    return {
        "mae": [float(np.nanmean(np.abs(each))) for each in error.swapaxes(0, 1)],
        "rmse": [float(np.sqrt(np.nanmean(each**2))) for each in error.swapaxes(0, 1)],
        "mape": [float(np.nanmean(each)) for each in part.swapaxes(0, 1)],
    }


TASK = Task(
    settings_type=ForecastRunSettings,
    noun="series",
    scored_together=ROWS_A_BATCH,
    output="next.csv",
    headlines=same("mae", "rmse", "mape"),
    labels={"stays": "stays as it was"},
    prepare=prepare,
    load=FittedForecast.load,
    prepared=prepared,
    notes=notes,
    loader=loader,
    loss=loss,
    evaluate=evaluate,
    description=describe,
    score_tables=score_tables,
    predict=predict,
)
