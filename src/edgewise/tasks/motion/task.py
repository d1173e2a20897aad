"""Motion: where moving bodies will be, or how they are accelerated."""

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edgewise.plural import plural
from edgewise.tasks.commands import command, prediction
from edgewise.tasks.scores import ScoreTable, number, training_line
from edgewise.tasks.task import PredictRequest, Task
from edgewise.train.folder import RunFolder

if TYPE_CHECKING:
    from edgewise.tasks.run import Run

SCORES = {"mse": "mean squared error", "distance": "mean distance", "relative": "relative error"}
SIMPLE = {"straight_on": "goes straight on", "stays": "stays", "unpulled": "nothing pulls"}
LACKS = {
    "accelerations": "they are made of positions and velocities, but for the first and the last moment",
    "couplings": "a force is counted in the product of the charges, or else of the masses",
    "masses": "every body weighs 1",
}
"""What is assumed where a file does not say."""


class MotionTask(Task):
    """Moving bodies."""

    name = "motion"
    format = "edgewise dynamics model"
    noun = "moving bodies"
    output_formats = (".npz",)

    def job(self, settings: dict[str, Any], source: str) -> "tuple[type[Run], Any]":
        from edgewise.tasks.motion.job import dynamics_job
        from edgewise.tasks.motion.run import DynamicsRun

        return DynamicsRun, dynamics_job(settings, source)

    def describe(self, run: Any) -> list[str]:
        num_trajectories, num_times, num_bodies, space_dim = run.motion.positions.shape
        counts = {part: len(moments.moment) for part, moments in run.parts.items()}
        is_later = run.job.model.told == "positions"
        target = f"predicted {run.job.ahead} moments ahead" if is_later else "with its accelerations"
        lines = [
            f"{run.motion.source}: {plural(num_trajectories, 'trajectory', 'trajectories')} of "
            f"{plural(num_bodies, 'body', 'bodies')} in {plural(space_dim, 'dimension')}, "
            f"{plural(num_times, 'moment')}",
            f"{counts['train']:,} training, {counts['val']:,} validation and "
            f"{plural(counts['test'], 'test moment')}, each {target}",
        ]
        if run.job.model.told == "accelerations":
            lines += [f"  no {name} in the file: {LACKS[name]}" for name in run.motion.lacks]
        if not counts["val"]:
            lines.append("  no validation moments: the last epoch is kept")
        return lines

    def scores(self, folder: RunFolder) -> list[ScoreTable | str]:
        metrics = folder.read_json("metrics.json")
        tables = [table_of_scores(metrics)] if "test" in metrics else []
        return [*tables, *lines_of_force(metrics), *lines_of_rollout(metrics), training_line(metrics)]

    def next_commands(self, folder: RunFolder) -> list[str]:
        drawn = [command("report", folder.path)] if "test" in folder.read_json("metrics.json") else []
        return [*drawn, prediction(folder.read_config(), folder, "later.npz")]

    def predict(self, request: PredictRequest, suffix: str) -> tuple[Any, str]:
        """Where the bodies of a file will be from each of its moments on, or their accelerations at it."""
        import numpy as np

        from edgewise.data.motion.motion import Moments, read_motion
        from edgewise.tasks.motion.trained import TrainedDynamics
        from edgewise.train.device import pick_device

        trained = TrainedDynamics.load(request.run_folder)
        trained.threads = request.threads
        motion = read_motion(request.data)
        num_trajectories, num_times = motion.positions.shape[:2]
        rows = np.repeat(np.arange(num_trajectories), num_times), np.tile(np.arange(num_times), num_trajectories)
        found = trained.told(Moments(motion, *rows, 0), pick_device(request.device))
        buffer, quantity = io.BytesIO(), trained.settings.told
        later = {"ahead": np.array(trained.ahead)} if quantity == "positions" else {}
        content: dict[str, Any] = {
            f"{quantity}_pred": found.reshape(motion.positions.shape).astype(np.float32),
            **later,
        }
        np.savez_compressed(buffer, **content)
        when = f"{trained.ahead} moments after" if quantity == "positions" else "at"
        many = plural(num_trajectories, "trajectory", "trajectories")
        return buffer.getvalue(), f"{quantity} {when} each of {plural(num_times, 'moment')} of {many}"


def table_of_scores(metrics: Mapping[str, Any]) -> ScoreTable:
    """The scores on test moments."""
    rows = {"edgewise": metrics["test"]}
    rows |= {SIMPLE[name]: of["test"] for name, of in metrics["baselines"].items()}
    scores = {name: SCORES[name] for name in metrics["test"]}
    return ScoreTable(
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


TASK = MotionTask()
