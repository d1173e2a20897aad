"""Forecast: the next values of the series of the nodes of a graph."""

from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np
import pandas as pd

from edgewise.errors import SettingError, plural
from edgewise.learn.files import JsonObject
from edgewise.learn.progress import note
from edgewise.learn.readers.graphs.edges import NONE
from edgewise.learn.readers.graphs.series import Series, read_series, split_series
from edgewise.learn.tasks.forecast.model import (
    WINDOWS_PER_BATCH,
    FittedForecast,
    SeriesEncoder,
    SeriesValues,
    notes_of,
    predict,
    predict_next,
)
from edgewise.learn.tasks.forecast.settings import SETTINGS, ForecastRunSettings
from edgewise.learn.tasks.rejected import list_left_out
from edgewise.learn.tasks.scores import ScoreTable, by_own_name, score_table, split_lines
from edgewise.learn.tasks.task import PredictRequest, Prepared, Task, Written, by_split, training_metrics
from edgewise.learn.training.checkpoint import FitResult
from edgewise.learn.training.device import pick_device
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.loader import Loader, RowLoader

load = partial(FittedForecast.load, format=SETTINGS.format, encoder=SeriesEncoder, output=SeriesValues)
"""Reads the model of a run folder."""
PreparedSeries: TypeAlias = Prepared[ForecastRunSettings, Series, dict[str, np.ndarray], FittedForecast]
"""Series that are read; the starts of the windows of each split."""


def prepare(settings: ForecastRunSettings) -> PreparedSeries:
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
    return prepared(replace(settings, graph=series.edges.resolved(graph)), series)


def prepared(settings: ForecastRunSettings, series: Series) -> PreparedSeries:
    """The same of series that are read; the scale is that of the training steps."""
    model = settings.model
    splits = split_series(series, model.context, model.horizon, settings.split_sizes)
    output = SeriesValues.fit(series, splits["train"][-1] + model.context + model.horizon)
    times = () if series.clock is None else (series.clock.interval, series.clock.origin)
    encoder = SeriesEncoder(model, series.names, *times)
    fitted = FittedForecast(format=SETTINGS.format, encoder=encoder, output=output)
    rows = {name: starts.tolist() for name, starts in splits.items()}
    return Prepared(settings, series, splits, fitted, rows, series.edges.rejected)


def notes(prepared: PreparedSeries) -> list[str]:
    """How the nodes are scaled, where it is not all alike."""
    if not prepared.fitted.output.node_std:
        return []
    return ["each node is scaled by its own mean and standard deviation, as these differ by orders of magnitude"]


def warnings(prepared: PreparedSeries) -> list[str]:
    """The nodes of which nothing is known in the steps of the training."""
    series, model = prepared.data, prepared.settings.model
    num_steps = int(prepared.splits["train"].max()) + model.context + model.horizon
    unknown = np.flatnonzero(np.isnan(series.measured[:num_steps]).all(axis=0)).tolist()
    if not unknown:
        return []
    nodes = f"{plural(len(unknown), 'node has', 'nodes have')} no value in the training, {series.names[unknown[0]]!r}"
    return [f"warning: {nodes}{' first' * (len(unknown) > 1)}: what is predicted there was never compared with a value"]


def loader(prepared: PreparedSeries, split: str, batch_size: int, seed: int | None) -> Loader:
    fitted, starts = prepared.fitted, prepared.splits[split]
    windows = fitted.encoder.windows(prepared.data, starts, fitted.output, are_known=True)
    size = batch_size if split == "train" else WINDOWS_PER_BATCH
    return RowLoader(np.arange(len(starts)), windows.batch, size, seed)


def evaluate(prepared: PreparedSeries, results: list[FitResult]) -> JsonObject:
    """The errors by step ahead, beside those of the last value repeated."""
    fitted: FittedForecast = prepared.fitted
    series, splits, encoder = prepared.data, prepared.splits, fitted.encoder
    counts = {name: len(starts) for name, starts in splits.items()}
    metrics: JsonObject = {"rows": counts, **training_metrics(prepared, results[0])}

    for split, name in (("val", "validation"), ("test", "test")):
        if len(starts := splits[split]):
            truth = encoder.future(series, starts)
            metrics[name] = fitted.output.metrics(predict(fitted, series, starts), truth)
            repeated = fitted.output.metrics(encoder.last_values(series, starts, fitted.output), truth)
            metrics.setdefault("baselines", {}).setdefault("stays", {})[name] = repeated
    return metrics


def describe(prepared: PreparedSeries, folder: RunFolder) -> list[str]:
    series, settings = prepared.data, prepared.settings
    edges, model, num_nodes = series.edges, settings.model, len(series.names)
    steps, empty = plural(len(series.values), "step"), plural(series.num_missing, "empty cell")
    isolated = plural(edges.num_isolated(num_nodes), "node has", "nodes have")
    details = [*series.notes, *warnings(prepared), *notes(prepared), *edges.unused("no model of series reads them")]
    lines = [
        f"{series.source}: {steps} of {plural(num_nodes, 'node')}, {empty}",
        f"  {edges.ways(settings.graph.directed)}; {isolated} no neighbor",
        *(f"  {line}" for line in details),
    ]

    if edges.rejected:
        first = edges.rejected[0]
        where = f"{first.file}, line {first.line}, column {first.column!r}"
        rejected = f"{plural(len(edges.rejected), 'edge')} rejected, the first in {where}: {first.reason}"
        lines.append(f"  {rejected} (all in {folder.path / 'rejected.csv'})")

    counts = {split: len(starts) for split, starts in prepared.splits.items()}
    read_and_predicted = f", by time: {plural(model.context, 'step')} read, {model.horizon} predicted"
    return [*lines, *split_lines(counts, "stretch", "stretches", read_and_predicted)]


def score_tables(metrics: JsonObject, split: str) -> list[ScoreTable | str]:
    """The scores at a quarter, half and all of the steps ahead."""
    models, horizon = TASK.scores_of_models(metrics, split), len(metrics[split]["mae"])
    tables: list[ScoreTable | str] = []
    for steps in sorted({max(1, horizon // 4), max(1, horizon // 2), horizon}):
        at_step = {
            label: {name: scores[name][steps - 1] for name in TASK.headlines} for label, scores in models.items()
        }
        tables.append(score_table(f"{split} stretches, {plural(steps, 'step')} ahead", at_step, TASK.headlines))
    return tables


def predict_file(request: PredictRequest, suffix: str) -> tuple[Written, str]:
    """The steps that come after the last of a series."""
    folder = request.run_folder
    fitted, config = load(folder), folder.read_config()
    fitted.threads = request.threads
    edges = request["edges"]
    if edges is None and config.get("edges") is not None and fitted.encoder.settings.model != "gru":
        raise SettingError(
            f"{folder.path}: the model reads the edges between the series; name their table: --edges edges.csv, or "
            f"--edges {NONE} where they have none."
        )
    series = read_series(
        request.data,
        None if edges == NONE else edges,
        time_column=config.get("time-column"),
        edge_columns=tuple(config.get("edge-columns", ())),
        is_directed=config.get("directed", False),
        gaps=request["gaps"] or config.get("gaps", "error"),
        strict=request.strict,
        order=fitted.encoder.names,
        ends_are_of_training=True,
    )
    list_left_out(series.edges.rejected, request=request)
    for line in notes_of(fitted, series):
        note(f"{series.source}: {line}")

    values = predict_next(fitted, series, pick_device(request.device))
    table = pd.DataFrame(values, columns=list(series.names))
    if series.clock is not None:
        times = [series.clock.at(len(series.values) + step) for step in range(len(values))]
        table.insert(0, config["time-column"], times)
    if "steps_ahead" not in table:
        table.insert(0, "steps_ahead", range(1, len(values) + 1))
    content = table if suffix == ".parquet" else table.to_csv(index=False)
    return content, f"{plural(len(values), 'step')} after {series.times[-1]!r}"


TASK = Task(
    settings=SETTINGS,
    noun="series",
    output="next.csv",
    headlines=by_own_name("mae", "rmse", "mape"),
    labels={"stays": "stays as it was"},
    prepare=prepare,
    load=load,
    notes=notes,
    warnings=warnings,
    loaders=by_split(loader),
    evaluate=evaluate,
    description=describe,
    score_tables=score_tables,
    predict=predict_file,
)
