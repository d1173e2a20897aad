"""Motion: where moving bodies will be, or how they are accelerated."""

import io
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from edgewise.errors import DataError
from edgewise.formatting import formatted, percent, plural
from edgewise.learn.readers.motion.motion import Moments, Motion, read_motion, split_moments
from edgewise.learn.tasks.motion.force import PairPull, read_off
from edgewise.learn.tasks.motion.settings import DynamicsRunSettings
from edgewise.learn.tasks.motion.trained import ROWS_A_BATCH, FittedDynamics, Units, compared, roll_out
from edgewise.learn.tasks.scores import ScoreTable, command, score_table, split_line
from edgewise.learn.tasks.task import PredictRequest, Prepared, Task, training_metrics
from edgewise.learn.training.device import pick_device
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.loader import Loader, RowLoader
from edgewise.learn.training.loss import RelativeLoss, TargetLoss

if TYPE_CHECKING:
    from edgewise.learn.training.training import FitResult

MAX_TRAJECTORIES = 20
"""Test trajectories that are rolled out."""
LACKS = {
    "accelerations": "they are made of positions and velocities, but for the first and the last moment",
    "couplings": "a force is counted in the product of the charges, or else of the masses",
    "masses": "every body weighs 1",
}
"""What is assumed where a file does not say."""


def prepare(settings: DynamicsRunSettings) -> Prepared:
    return prepared(settings, read_motion(settings.data[0]))


def prepared(settings: DynamicsRunSettings, motion: Motion, validation: Motion | None = None) -> Prepared:
    """The same of trajectories that are read, and perhaps others for validation; the units are those of the
    training moments."""
    how = settings.start, settings.horizon, settings.split_sizes, settings.data_seed, settings.model.target_quantity
    if validation is not None:
        settings = replace(settings, split_sizes=(1.0, 0.0, 0.0))
        how = (*how[:2], settings.split_sizes, *how[3:])
    splits = split_moments(motion, *how, every_start=settings.every_start)
    if validation is not None:
        splits["val"] = split_moments(validation, *how)["train"]
    if not len(splits["train"].moment):
        raise DataError(f"{motion.source}: no moment is left for training.")
    sizes = motion.positions.shape[-1], motion.charges.shape[-1]
    units = Units.of(splits["train"])
    fitted = FittedDynamics(settings=settings.model, sizes=sizes, units=units, ahead=settings.horizon)
    rows = {name: np.unique(moments.trajectory).tolist() for name, moments in splits.items()}
    return Prepared(settings, motion, splits, fitted, rows)


def loader(prepared: Prepared, split: str, batch_size: int, seed: int | None) -> Loader:
    moments, units = prepared.splits[split], prepared.fitted.units
    quantity, count = prepared.settings.model.target_quantity, len(moments.moment)
    return RowLoader(np.arange(count), lambda rows: units.scaled(moments.batch(rows), quantity), batch_size, seed)


def loss(prepared: Prepared) -> RelativeLoss:
    recipe = prepared.settings.train
    return RelativeLoss(TargetLoss("regression", recipe.loss_function, recipe.huber_width))


def evaluate(prepared: Prepared, results: "list[FitResult]") -> dict[str, Any]:
    """The errors of the model beside those of the simplest predictions."""
    fitted, splits = prepared.fitted, prepared.splits
    counts = {name: len(moments.moment) for name, moments in splits.items()}
    metrics: dict[str, Any] = {"rows": counts, **training_metrics(prepared, results[0])}
    for split, name in (("val", "validation"), ("test", "test")):
        if counts[split]:
            metrics[name] = errors(fitted.predict(splits[split]), splits[split])
    if counts["test"]:
        test = splits["test"]
        metrics["baselines"] = {name: {"test": errors(found, test)} for name, found in simple(test).items()}
    metrics["bodies"] = list(prepared.data.names)
    metrics["units"] = {name: unit for name, unit in prepared.data.units.items() if unit != "1"}
    return metrics


def write_predictions(prepared: Prepared, folder: RunFolder, metrics: dict[str, Any]) -> None:
    """Writes the predictions of the test moments; of accelerations also rollouts and the learned force."""
    fitted, test = prepared.fitted, prepared.splits["test"]
    if len(test.moment):
        folder.write_table("test_predictions.csv", *predicted_table(test, fitted.predict(test)))
    if prepared.settings.model.target_quantity == "accelerations":
        if len(test.moment):
            metrics["rollout"] = rollouts(prepared, folder)
        pull = read_off(fitted, prepared.splits["train"])
        if pull is not None:
            metrics["force"] = pull.scores()
            folder.write_table("force.csv", *pull_table(pull, prepared.data))


def describe(prepared: Prepared, folder: RunFolder) -> list[str]:
    motion, settings = prepared.data, prepared.settings
    num_trajectories, num_times, num_bodies, space_dim = motion.positions.shape
    counts = {part: len(moments.moment) for part, moments in prepared.splits.items()}
    is_later = settings.model.target_quantity == "positions"
    target = f"predicted {settings.horizon} moments ahead" if is_later else "with its accelerations"
    lines = [
        f"{motion.source}: {plural(num_trajectories, 'trajectory', 'trajectories')} of "
        f"{plural(num_bodies, 'body', 'bodies')} in {plural(space_dim, 'dimension')}, "
        f"{plural(num_times, 'moment')}",
        f"{split_line(counts, 'moment')}, each {target}",
    ]
    if settings.model.target_quantity == "accelerations":
        lines += [f"  no {name} in the file: {LACKS[name]}" for name in motion.lacks]
    if not counts["val"]:
        lines.append("  no validation moments: the last epoch is used")
    return lines


def score_tables(metrics: dict[str, Any], split: str) -> list[ScoreTable | str]:
    """The scores on test moments, the learned force and the rollouts."""
    if split != "test":
        return []
    shown = {name: TASK.headlines[name] for name in metrics["test"]}
    title = plural(metrics["rows"]["test"], "test moment")
    table = score_table(title, TASK.scores_of_models(metrics, split), shown)
    return [table, *lines_of_force(metrics), *lines_of_rollout(metrics)]


def next_commands(folder: RunFolder) -> list[str]:
    drawn = [command("report", folder.path)] if "test" in folder.read_json("metrics.json") else []
    return [*drawn, TASK.prediction(folder, "later.npz")]


def predict(request: PredictRequest, suffix: str) -> tuple[Any, str]:
    """Where the bodies of a file will be from each of its moments on, or their accelerations at it."""
    trained = FittedDynamics.load(request.run_folder)
    trained.threads = request.threads
    motion = read_motion(request.data)
    num_trajectories, num_times = motion.positions.shape[:2]
    rows = np.repeat(np.arange(num_trajectories), num_times), np.tile(np.arange(num_times), num_trajectories)
    found = trained.predict(Moments(motion, *rows, 0), pick_device(request.device))
    buffer, quantity = io.BytesIO(), trained.settings.target_quantity
    later = {"ahead": np.array(trained.ahead)} if quantity == "positions" else {}
    content: dict[str, Any] = {
        f"{quantity}_pred": found.reshape(motion.positions.shape).astype(np.float32),
        **later,
    }
    np.savez_compressed(buffer, **content)
    when = f"{trained.ahead} moments after" if quantity == "positions" else "at"
    many = plural(num_trajectories, "trajectory", "trajectories")
    return buffer.getvalue(), f"{quantity} {when} each of {plural(num_times, 'moment')} of {many}"


def simple(moments: Moments) -> dict[str, np.ndarray]:
    """The simplest predictions: bodies stay, or go straight on; as accelerations, that nothing pulls them."""
    motion, rows = moments.motion, (moments.trajectory, moments.moment)
    if moments.quantity == "accelerations":
        return {"unpulled": np.zeros_like(moments.targets)}
    passed = motion.times[moments.moment + moments.horizon] - motion.times[moments.moment]
    stays = motion.positions[rows]
    return {"stays": stays, "straight_on": stays + motion.velocities[rows] * passed[:, None, None]}


def errors(found: np.ndarray, moments: Moments) -> dict[str, float]:
    """The mean squared error of a coordinate; the mean distance from where a body really is; of accelerations, the root
    of the mean squared error in the body's own mean pull, so that the pulls themselves are 1."""
    apart = found.astype(np.float64) - moments.targets
    squared = float((apart**2).mean())
    if moments.sizes is not None:
        return {"mse": squared, "relative": float(np.sqrt(((apart / moments.sizes[..., None]) ** 2).mean()))}
    return {"mse": squared, "distance": float(np.sqrt((apart**2).sum(-1)).mean())}


def rollouts(prepared: Prepared, folder: RunFolder) -> dict[str, Any]:
    """Rolls out test trajectories by the learned accelerations, from their first moment on; how far they end from where
    the bodies went. rollout.npz has what a file of trajectories has, and the true positions and velocities."""
    test, motion = prepared.splits["test"], prepared.data
    chosen, moment = np.unique(test.trajectory)[:MAX_TRAJECTORIES], int(test.moment.min())
    found = roll_out(prepared.fitted, motion, moment=moment, trajectories=chosen)
    until = moment + len(found.times)
    content = {
        "trajectories": chosen,
        "times": found.times,
        "positions": found.positions,
        "velocities": found.velocities,
        "positions_real": motion.positions[chosen, moment:until],
        "velocities_real": motion.velocities[chosen, moment:until],
        "masses": motion.masses[chosen],
        "names": np.array(motion.names),
        "units": np.array(json.dumps(dict(motion.units))),
    }
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **content)
    folder.write("rollout.npz", buffer.getvalue())
    return compared(found, motion, moment)


Table = tuple[list[str], list[list[Any]]]


def predicted_table(moments: Moments, predicted: np.ndarray) -> Table:
    """A row for each body of each moment: the targets and the predictions."""
    start = "" if moments.quantity == "positions" else "a"
    header = [f"{start}{axis}{end}" for end in ("", "_pred") for axis in axes(moments)]
    pairs = np.concatenate([moments.targets, predicted], axis=-1)
    cells = [
        [int(trajectory), int(moment), body, *(f"{number:.7g}" for number in numbers)]
        for trajectory, moment, bodies in zip(moments.trajectory, moments.moment, pairs, strict=True)
        for body, numbers in enumerate(bodies)
    ]
    return ["trajectory", "moment", "body", *header], cells


def pull_table(pull: PairPull, motion: Motion) -> Table:
    """A row for each distance: the learned pull, and that of the law where the file has one."""

    def named(name: str, kind: str) -> str:
        unit = motion.units.get(kind, "1")
        return name if unit == "1" else f"{name}_{unit}"

    header = [named("distance", "position"), named("learned", "acceleration")]
    columns = [pull.distances, pull.learned]
    if pull.law is not None:
        header, columns = [*header, named("law", "acceleration")], [*columns, pull.law]
    return header, [[f"{number:.7g}" for number in row] for row in np.stack(columns, axis=1)]


def axes(moments: Moments) -> list[str]:
    """x, y, z, or numbers where there are more."""
    count = moments.motion.positions.shape[-1]
    return list("xyz"[:count]) if count <= 3 else [f"x{number}" for number in range(count)]


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
        median, largest = percent(force["median_error"]), percent(force["largest_error"])
        lines.append(f"  off the law by {median} (median), {largest} (largest)")
    return lines


def lines_of_rollout(metrics: dict[str, Any]) -> list[str]:
    """Where the learned force led the test bodies; nothing where none was let run."""
    if "rollout" not in metrics:
        return []
    run, units = metrics["rollout"], metrics["units"]
    far, straight, spread = (formatted(run[name]) for name in ("distance", "distance_straight_on", "spread"))
    length, time = (words(units.get(name, "")) for name in ("position", "time"))
    many = "trajectory" if run["trajectories"] == 1 else "trajectories"
    lines = [
        f"{run['trajectories']} test {many} let run by it for {run['moments'] - 1} moments, a time of {run['time']:g}"
        f"{time}: {far}{length} from where the bodies really are (median); {straight} if they went straight on; "
        f"{spread} from their middle"
    ]
    if run["energy_drift"] is not None and run["energy_drift_of_the_file"] is not None:
        lines.append(
            f"  energy drift by the law: {run['energy_drift']:.2e} of the kinetic energy, "
            f"{run['energy_drift_of_the_file']:.2e} in the file (medians)"
        )
    return lines


def power(fit: dict[str, float] | None) -> str:
    """A fitted power of the distance."""
    return "no power of r" if fit is None else f"r^{fit['exponent']:.3f} ± {fit['plus_minus']:.3g}"


def words(unit: str) -> str:
    """A unit behind a number, as it is written in names of columns; nothing where there is none."""
    return f" {unit}" if unit else ""


TASK = Task(
    settings_type=DynamicsRunSettings,
    noun="moving bodies",
    has_orbits=True,
    scored_together=ROWS_A_BATCH,
    headlines={"mse": "mean squared error", "distance": "mean distance", "relative": "relative error"},
    labels={"straight_on": "goes straight on", "stays": "stays", "unpulled": "nothing pulls"},
    output_formats=(".npz",),
    prepare=prepare,
    load=FittedDynamics.load,
    prepared=prepared,
    loader=loader,
    loss=loss,
    evaluate=evaluate,
    write_predictions=write_predictions,
    description=describe,
    score_tables=score_tables,
    further_commands=next_commands,
    predict=predict,
)
