"""`edgewise train` and `predict` over series on a graph: what they print and write."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from edgewise.cli.next_step import prediction, print_next
from edgewise.cli.output import FORMATS, check_output, write
from edgewise.cli.report import number, print_table, training_line
from edgewise.plural import plural
from edgewise.train.folder import RunFolder

if TYPE_CHECKING:
    from edgewise.tasks.forecast.run import ForecastRun


def asked(settings: dict[str, Any], source: str) -> "tuple[type[ForecastRun], Any]":
    """The kind of run, and its job."""
    from edgewise.tasks.forecast.job import forecast_job
    from edgewise.tasks.forecast.run import ForecastRun

    return ForecastRun, forecast_job(settings, source)


def print_data(run: "ForecastRun") -> None:
    """The series and the graph in a few lines."""
    series, edges, model = run.series, run.series.edges, run.job.model
    count = len(series.names)
    steps, empty = plural(len(series.values), "step"), plural(series.num_missing, "empty cell")
    print(f"{series.source}: {steps} of {plural(count, 'node')}, {empty}")
    isolated = plural(edges.num_isolated(count), "node has", "nodes have")
    print(f"  {edges.ways(run.job.graph.directed)}; {isolated} no neighbor")
    for note in edges.unused("no model of series reads them"):
        print(f"  {note}")
    if edges.rejected:
        first, place = edges.rejected[0], run.folder.path / "rejected.csv"
        passed = f"{plural(len(edges.rejected), 'edge')} rejected, the first in line {first.line}: {first.reason}"
        print(f"  {passed} (all in {place})")
    counts = {part: len(starts) for part, starts in run.parts.items()}
    print(
        f"{counts['train']:,} training, {counts['val']:,} validation and "
        f"{plural(counts['test'], 'test stretch', 'test stretches')}, by time: "
        f"{plural(model.context, 'step')} read, {model.horizon} told"
    )


def print_scores(folder: RunFolder) -> None:
    """The scores at a quarter, half and all of the steps ahead, beside everything staying as it was."""
    metrics = folder.read_json("metrics.json")
    part = next((name for name in ("test", "validation") if name in metrics), None)
    if part is not None:
        companions = {"edgewise": metrics[part], "stays as it was": metrics["baselines"]["stays"][part]}
        horizon = len(metrics[part]["mae"])
        for steps in sorted({max(1, horizon // 4), max(1, horizon // 2), horizon}):
            print_table(
                f"{part} stretches, {plural(steps, 'step')} ahead",
                ["", "mae", "rmse", "mape"],
                [
                    [name, *(number(of[score][steps - 1]) for score in ("mae", "rmse", "mape"))]
                    for name, of in companions.items()
                ],
            )
    print(training_line(metrics))
    print_next(folder, prediction(folder.read_config(), folder, "next.csv"))


def predict(arguments: argparse.Namespace) -> int:
    """Tells the steps that come behind the last of a series."""
    suffix = check_output(arguments, FORMATS)

    import pandas as pd

    from edgewise.data.series import read_series
    from edgewise.tasks.forecast.trained import TrainedForecast, behind
    from edgewise.train.device import pick_device
    from edgewise.train.settings import require

    require("--threads", arguments.threads, arguments.threads >= 1, "at least 1")
    folder = RunFolder.finished(arguments.folder)
    trained, config = TrainedForecast.load(folder), folder.read_config()
    trained.threads = arguments.threads
    series = read_series(
        arguments.data,
        arguments.edges,
        time_column=config.get("time-column"),
        edge_columns=tuple(config.get("edge-columns", ())),
        is_directed=config.get("directed", False),
    )
    told = behind(trained, series, pick_device(arguments.device))
    table = pd.DataFrame(told, columns=list(series.names))
    table.insert(0, "steps_ahead", range(1, len(told) + 1))
    content = table if suffix == ".parquet" else table.to_csv(index=False)
    write(content, arguments.output, suffix, escape_formulas=arguments.escape_formulas)
    print(f"{plural(len(told), 'step')} behind {series.times[-1]!r}: {arguments.output}", file=sys.stderr)
    return 0
