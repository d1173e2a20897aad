"""`edgewise train` and `predict` over moving bodies: what they print and write."""

import argparse
import io
import sys
from typing import TYPE_CHECKING, Any

from edgewise.cli.next_step import command, prediction, print_next
from edgewise.cli.output import check_output, write
from edgewise.cli.report import number, print_table, training_line
from edgewise.plural import plural
from edgewise.train.folder import RunFolder

SCORES = {"mse": "mean squared error", "distance": "mean distance", "relative": "relative error"}
SIMPLE = {"straight_on": "goes straight on", "stays": "stays", "unpulled": "nothing pulls"}
LACKS = {
    "accelerations": "they are made of positions and velocities, but for the first and the last moment",
    "couplings": "a force is counted in the product of the charges, or else of the masses",
    "masses": "every body weighs 1",
}
"""What is assumed where a file does not say."""

if TYPE_CHECKING:
    from edgewise.tasks.motion.run import DynamicsRun


def asked(settings: dict[str, Any], source: str) -> "tuple[type[DynamicsRun], Any]":
    """The kind of run, and its job."""
    from edgewise.tasks.motion.job import dynamics_job
    from edgewise.tasks.motion.run import DynamicsRun

    return DynamicsRun, dynamics_job(settings, source)


def print_data(run: "DynamicsRun") -> None:
    """The trajectories in two lines."""
    num_trajectories, num_times, num_bodies, space_dim = run.motion.positions.shape
    counts = {part: len(moments.moment) for part, moments in run.parts.items()}
    print(
        f"{run.motion.source}: {plural(num_trajectories, 'trajectory', 'trajectories')} of "
        f"{plural(num_bodies, 'body', 'bodies')} in {plural(space_dim, 'dimension')}, "
        f"{plural(num_times, 'moment')}"
    )
    told = f"told {run.job.ahead} moments ahead" if run.job.model.told == "positions" else "told its accelerations"
    print(
        f"{counts['train']:,} training, {counts['val']:,} validation and "
        f"{plural(counts['test'], 'test moment')}, each {told}"
    )
    if run.job.model.told == "accelerations":
        for name in run.motion.lacks:
            print(f"  no {name} in the file: {LACKS[name]}")
    if not counts["val"]:
        print("  no validation moments: the last epoch is kept")


def print_scores(folder: RunFolder) -> None:
    """The scores of a finished run beside the simplest that could be told, and the next commands."""
    metrics = folder.read_json("metrics.json")
    if "test" in metrics:
        title, header, rows = table_of_scores(metrics)
        print_table(title, header, rows)
    for line in (*lines_of_force(metrics), *lines_of_rollout(metrics)):
        print(line)
    print(training_line(metrics))
    drawn = [command("report", folder.path)] if "test" in metrics else []
    print_next(folder, *drawn, prediction(folder.read_config(), folder, "later.npz"))


def table_of_scores(metrics: dict[str, Any]) -> tuple[str, list[str], list[list[str]]]:
    """Title, header and rows of the scores on test moments."""
    rows = {"edgewise": metrics["test"]}
    rows |= {SIMPLE[name]: of["test"] for name, of in metrics["baselines"].items()}
    scores = {name: SCORES[name] for name in metrics["test"]}
    return (
        plural(metrics["rows"]["test"], "test moment"),
        ["", *scores.values()],
        [[name, *(small(of[score]) for score in scores)] for name, of in rows.items()],
    )


def lines_of_force(metrics: dict[str, Any]) -> list[str]:
    """What was learned of the force between two bodies; nothing where none was read off."""
    if "force" not in metrics:
        return []
    force, unit = metrics["force"], words(metrics["units"].get("position", ""))
    fits = {name: power(force[name]) for name in ("learned", "law") if name in force}
    beside = f"; by the law {fits['law']}" if "law" in fits else ""
    lines = [
        f"force of {force['sender']} on {force['receiver']}, from {force['nearest']:.3g} to {force['farthest']:.3g}"
        f"{unit}: {fits['learned']}{beside}"
    ]
    if "median_error" in force:
        lines.append(f"  off the law by {force['median_error']:.2%} (median), {force['largest_error']:.2%} (largest)")
    return lines


def lines_of_rollout(metrics: dict[str, Any]) -> list[str]:
    """Where the learned force led the test bodies; nothing where none was let run."""
    if "rollout" not in metrics:
        return []
    run, units = metrics["rollout"], metrics["units"]
    length, time = (words(units.get(name, "")) for name in ("position", "time"))
    many = "trajectory" if run["trajectories"] == 1 else "trajectories"
    lines = [
        f"{run['trajectories']} test {many} let run by it for {run['moments'] - 1} moments, a time of {run['time']:g}"
        f"{time}: {number(run['distance'])}{length} from where the bodies really are (median); "
        f"{number(run['distance_straight_on'])} if they went straight on; {number(run['spread'])} from their middle"
    ]
    if run["energy_drift"] is not None and run["energy_drift_of_the_file"] is not None:
        lines.append(
            f"  energy drift by the law: {run['energy_drift']:.1e} of the kinetic energy, "
            f"{run['energy_drift_of_the_file']:.1e} in the file (medians)"
        )
    return lines


def power(fit: dict[str, float] | None) -> str:
    """A fitted power of the distance."""
    return "no power of r" if fit is None else f"r^{fit['exponent']:.3f} ± {fit['plus_minus']:.3f}"


def words(unit: str) -> str:
    """A unit behind a number, as it is written in names of columns; nothing where there is none."""
    return f" {unit}" if unit else ""


def small(value: float) -> str:
    """A score to four digits, however small."""
    return number(value) if value == 0 or abs(value) >= 1e-3 else f"{value:.3e}"


def predict(arguments: argparse.Namespace) -> int:
    """Tells where the bodies of a file will be from each of its moments on, or their accelerations at it."""
    check_output(arguments, (".npz",))

    import numpy as np

    from edgewise.data.motion import Moments, read_motion
    from edgewise.tasks.motion.trained import TrainedDynamics
    from edgewise.train.device import pick_device
    from edgewise.train.settings import require

    require("--threads", arguments.threads, arguments.threads >= 1, "at least 1")
    trained = TrainedDynamics.load(RunFolder.finished(arguments.folder))
    trained.threads = arguments.threads
    motion = read_motion(arguments.data)
    num_trajectories, num_times = motion.positions.shape[:2]
    rows = np.repeat(np.arange(num_trajectories), num_times), np.tile(np.arange(num_times), num_trajectories)
    found = trained.told(Moments(motion, *rows, 0), pick_device(arguments.device))
    buffer, told = io.BytesIO(), trained.settings.told
    later = {"ahead": np.array(trained.ahead)} if told == "positions" else {}
    content: dict[str, Any] = {f"{told}_pred": found.reshape(motion.positions.shape).astype(np.float32), **later}
    np.savez_compressed(buffer, **content)
    write(buffer.getvalue(), arguments.output, ".npz")
    when = f"{trained.ahead} moments after" if told == "positions" else "at"
    print(
        f"{told} {when} each of {plural(num_times, 'moment')} of "
        f"{plural(num_trajectories, 'trajectory', 'trajectories')}: {arguments.output}",
        file=sys.stderr,
    )
    return 0
