"""Forecast: what the series of the nodes of a graph will be."""

from typing import TYPE_CHECKING, Any

from edgewise.plural import plural
from edgewise.tasks.commands import prediction
from edgewise.tasks.scores import ScoreTable, number, training_line
from edgewise.tasks.task import PredictRequest, Task
from edgewise.train.folder import RunFolder

if TYPE_CHECKING:
    from edgewise.tasks.run import Run

SCORES = ("mae", "rmse", "mape")


class ForecastTask(Task):
    """Series on a graph."""

    name = "forecast"
    format = "edgewise forecast model"
    noun = "series"
    reads = ("edges",)

    def job(self, settings: dict[str, Any], source: str) -> "tuple[type[Run], Any]":
        from edgewise.tasks.forecast.job import forecast_job
        from edgewise.tasks.forecast.run import ForecastRun

        return ForecastRun, forecast_job(settings, source)

    def describe(self, run: Any) -> list[str]:
        series, edges, model = run.series, run.series.edges, run.job.model
        count = len(series.names)
        steps, empty = plural(len(series.values), "step"), plural(series.num_missing, "empty cell")
        isolated = plural(edges.num_isolated(count), "node has", "nodes have")
        lines = [
            f"{series.source}: {steps} of {plural(count, 'node')}, {empty}",
            f"  {edges.ways(run.job.graph.directed)}; {isolated} no neighbor",
            *(f"  {note}" for note in edges.unused("no model of series reads them")),
        ]
        if edges.rejected:
            first, place = edges.rejected[0], run.folder.path / "rejected.csv"
            rejected = f"{plural(len(edges.rejected), 'edge')} rejected, the first in line {first.line}: {first.reason}"
            lines.append(f"  {rejected} (all in {place})")
        counts = {part: len(starts) for part, starts in run.parts.items()}
        lines.append(
            f"{counts['train']:,} training, {counts['val']:,} validation and "
            f"{plural(counts['test'], 'test stretch', 'test stretches')}, by time: "
            f"{plural(model.context, 'step')} read, {model.horizon} predicted"
        )
        return lines

    def scores(self, folder: RunFolder) -> list[ScoreTable | str]:
        """The scores at a quarter, half and all of the steps ahead, beside everything staying as it was."""
        metrics = folder.read_json("metrics.json")
        found: list[ScoreTable | str] = []
        part = next((name for name in ("test", "validation") if name in metrics), None)
        if part is not None:
            companions = {"edgewise": metrics[part], "stays as it was": metrics["baselines"]["stays"][part]}
            horizon = len(metrics[part]["mae"])
            for steps in sorted({max(1, horizon // 4), max(1, horizon // 2), horizon}):
                rows = [[name, *(number(of[score][steps - 1]) for score in SCORES)] for name, of in companions.items()]
                found.append(ScoreTable(f"{part} stretches, {plural(steps, 'step')} ahead", ["", *SCORES], rows))
        return [*found, training_line(metrics)]

    def next_commands(self, folder: RunFolder) -> list[str]:
        return [prediction(folder.read_config(), folder, "next.csv")]

    def predict(self, request: PredictRequest, suffix: str) -> tuple[Any, str]:
        """The steps that come behind the last of a series."""
        import pandas as pd

        from edgewise.data.graphs.series import read_series
        from edgewise.tasks.forecast.trained import TrainedForecast, behind
        from edgewise.train.device import pick_device

        folder = request.run_folder
        trained, config = TrainedForecast.load(folder), folder.read_config()
        trained.threads = request.threads
        series = read_series(
            request.data,
            request.edges,
            time_column=config.get("time-column"),
            edge_columns=tuple(config.get("edge-columns", ())),
            is_directed=config.get("directed", False),
        )
        found = behind(trained, series, pick_device(request.device))
        table = pd.DataFrame(found, columns=list(series.names))
        table.insert(0, "steps_ahead", range(1, len(found) + 1))
        content = table if suffix == ".parquet" else table.to_csv(index=False)
        return content, f"{plural(len(found), 'step')} behind {series.times[-1]!r}"


TASK = ForecastTask()
