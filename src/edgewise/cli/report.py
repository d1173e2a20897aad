"""`edgewise report`: the page about a finished run, and the pictures of one over moving bodies."""

import argparse
import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.errors import EdgewiseError
from edgewise.learn.training.folder import RunFolder, corrupt_as_run_error

if TYPE_CHECKING:
    import numpy as np

    from edgewise.view.figure import Figure
    from edgewise.view.orbits import Orbits

DESCRIPTION = (
    "Write report.html, one file that opens without a network, into a run folder: scores beside simple models, the "
    "loss over the epochs, predictions beside the truth with their errors, promised beside observed coverage or "
    "probability, the rows with the largest errors, the data, what stands in several splits, the settings. "
    "Training writes it as well. Of a run over moving bodies: the predicted and the real orbits and, where "
    "accelerations were learned, how far they come apart and the learned force over the distance, beside the law, also "
    "as pictures of their own (.svg, .png)."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the verb."""
    parser.add_argument("folder", metavar="RUN", help="the folder of a finished run")


def run(arguments: argparse.Namespace) -> int:
    """Draws and writes; only the pictures are computed again."""
    folder = RunFolder.finished(arguments.folder)
    if not has_orbits(folder):
        from edgewise.learn.tasks.report.sections import write_report

        print(write_report(folder))
        return 0

    from edgewise.view.figure import png, svg

    metrics, drawn = folder.read_object("metrics.json"), {}
    with corrupt_as_run_error(folder.path), folder.locked():
        for name, figure in figures(folder, metrics).items():
            drawn[name] = svg(figure)
            folder.write(f"{name}.svg", drawn[name].encode())
            folder.write(f"{name}.png", png(figure))
        folder.write("report.html", report_page(folder, metrics, drawn).encode())

    print(f"{', '.join(f'{name}.svg and .png' for name in drawn)}; all on {folder.path / 'report.html'}")
    return 0


def after_training(folder: RunFolder) -> str:
    """Writes the report of a run that has just finished, with pictures on the page only; returns a line about it.

    A run is as good without a report: a problem is returned as a message, not raised.
    """
    try:
        if not has_orbits(folder):
            from edgewise.learn.tasks.report.sections import write_report

            return f"The report is {write_report(folder)}."

        from edgewise.view.figure import svg

        metrics = folder.read_object("metrics.json")
        with corrupt_as_run_error(folder.path), folder.locked():
            drawn = {name: svg(figure) for name, figure in figures(folder, metrics).items()}
            folder.write("report.html", report_page(folder, metrics, drawn).encode())
        return f"The report is {folder.path / 'report.html'}."
    except EdgewiseError as error:
        return f"The report was not written: {error}"


def has_orbits(folder: RunFolder) -> bool:
    """Whether a run has orbits to draw, and was tested."""
    from edgewise.learn.tasks.registry import task_of

    return task_of(folder).has_orbits and "test" in folder.read_object("metrics.json")


def figures(folder: RunFolder, metrics: dict[str, Any]) -> "dict[str, Figure]":
    """The pictures by name."""
    from edgewise.view.figure import plain
    from edgewise.view.force import draw_force
    from edgewise.view.orbits import draw_apart, draw_orbits

    if "rollout" not in metrics:
        return {"orbits": draw_orbits(read_predictions(folder.path, metrics))}

    rollout, units = read_rollout(folder.path, metrics), metrics["units"]
    pictures = {"orbits": draw_orbits(rollout), "apart": draw_apart(rollout)}
    if "force" in metrics:
        force, columns = metrics["force"], read_columns(folder.path / "force.csv")
        pictures["force"] = draw_force(
            columns[0], columns[1], columns[2] if len(columns) > 2 else None,
            title=plain(f"{force['sender']} on {force['receiver']}"),
            fits=(fit_of(force["learned"]), fit_of(force.get("law"))),
            length_unit=units.get("position", ""), pull_unit=units.get("acceleration", ""),
        )  # fmt: skip

    return pictures


def fit_of(scores: dict[str, float] | None) -> tuple[float, float] | None:
    """The fitted exponent of a force, and its uncertainty."""
    return None if scores is None else (scores["exponent"], scores["plus_minus"])


def report_page(folder: RunFolder, metrics: dict[str, Any], drawn: dict[str, str]) -> str:
    """The HTML report."""
    from edgewise.learn.tasks.motion.task import TASK, lines_of_force, lines_of_rollout
    from edgewise.learn.tasks.report.sections import settings, training_sections
    from edgewise.learn.tasks.scores import ScoreTable
    from edgewise.view.page import PageTable, Part, Picture, page

    table, *_, trained = TASK.scores(folder)
    assert isinstance(table, ScoreTable)
    scores: list[Part] = [PageTable(table.title, table.header, table.rows)]
    scores.append(f"{trained}, on {', '.join(folder.read_config()['data'])}.")

    sections: list[tuple[str, list[Part]]] = [("Scores", scores), *training_sections(folder, metrics)]
    if "force" in drawn:
        caption = (
            "How hard one body pulls another, by the mass of the other, with no other body present; ± is how much the "
            "exponent differs between five intervals of the distance."
        )
        sections.append(("The learned force", [*sentences(lines_of_force(metrics)), Picture(drawn["force"], caption)]))

    caption = (
        "Each time step is predicted from an earlier one."
        if "apart" not in drawn
        else "Simulated from the first time on."
    )
    orbits: list[Part] = [*sentences(lines_of_rollout(metrics)), Picture(drawn["orbits"], caption)]
    if "apart" in drawn:
        orbits.append(Picture(drawn["apart"], "The distance between predicted and real positions."))
    sections.append(("Orbits", orbits))
    sections.append(("Settings", [settings(folder.read_config())]))

    return page(f"{folder.path.name}: moving bodies", sections)


def sentences(lines: list[str]) -> list[str]:
    """Printed lines as sentences."""
    stripped = [line.strip() for line in lines]
    return [f"{line[:1].upper()}{line[1:]}." for line in stripped]


def read_rollout(path: Path, metrics: dict[str, Any]) -> "Orbits":
    """The simulated trajectories of rollout.npz."""
    from edgewise.learn.tables.arrays import read_arrays
    from edgewise.view.orbits import Orbits

    arrays = read_arrays(str(path / "rollout.npz"))
    units = metrics["units"]
    return Orbits(
        arrays["times"],
        arrays["positions_real"],
        arrays["positions"],
        tuple(metrics["bodies"]),
        tuple(arrays["trajectories"].tolist()),
        units.get("position", ""),
        units.get("time", ""),
        arrays["velocities_real"],
        arrays["velocities"],
    )


def read_predictions(path: Path, metrics: dict[str, Any]) -> "Orbits":
    """Positions, each predicted from an earlier time, of test_predictions.csv."""
    import numpy as np

    from edgewise.view.orbits import Orbits

    columns = read_columns(path / "test_predictions.csv")
    trajectories, times = np.unique(columns[0]), np.unique(columns[1])
    positions = np.stack(columns[3:], axis=-1).reshape(len(trajectories), len(times), len(metrics["bodies"]), -1)
    real, predicted = np.split(positions, 2, axis=-1)
    trajectory_names = tuple(int(trajectory) for trajectory in trajectories)
    return Orbits(
        times, real, predicted, tuple(metrics["bodies"]), trajectory_names, metrics["units"].get("position", "")
    )


def read_columns(path: Path) -> "list[np.ndarray]":
    """The columns of a CSV file of numbers."""
    import numpy as np

    rows = list(csv.reader(io.StringIO(path.read_text())))[1:]
    return list(np.array(rows, dtype=float).T)
