"""Motion: where moving bodies will be, or how they are accelerated."""

import io
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from edgewise.errors import DataError, plural
from edgewise.explain.numbers import num_digits
from edgewise.learn.batches.bodies import BodyBatch
from edgewise.learn.files import JsonObject
from edgewise.learn.progress import note
from edgewise.learn.readers.motion.motion import Motion, MotionRows, Quantity, read_motion, split_moments
from edgewise.learn.tasks.motion.forces import (
    TableOfCells,
    lines_of_force,
    lines_of_rollout,
    pull_table,
    read_off,
    write_rollout,
)
from edgewise.learn.tasks.motion.model import (
    ROWS_PER_BATCH,
    BodyEncoder,
    FittedMotion,
    MotionOutput,
    Units,
    notes_of,
    predict,
)
from edgewise.learn.tasks.motion.settings import SETTINGS, DynamicsRunSettings
from edgewise.learn.tasks.scores import ScoreTable, command, score_table, split_lines
from edgewise.learn.tasks.task import PredictRequest, Prepared, Task, Written, by_split, training_metrics
from edgewise.learn.training.checkpoint import FitResult
from edgewise.learn.training.device import pick_device
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.loader import Loader, RowLoader

ASSUMPTIONS: dict[Quantity, dict[str, str]] = {
    "accelerations": {
        "accelerations": "they are made of positions and velocities, but for the first and the last moment",
        "couplings": "a force is counted in the product of the charges, or else of the masses",
        "masses": "every body weighs 1",
    },
    "positions": {"couplings": "every pair has the coupling 0", "masses": "every body weighs 1"},
}
"""What is assumed where a file does not say, by the target quantity."""

load = partial(FittedMotion.load, format=SETTINGS.format, encoder=BodyEncoder, output=MotionOutput)
"""Reads the model of a run folder."""
PreparedMotion: TypeAlias = Prepared[DynamicsRunSettings, Motion, dict[str, MotionRows], FittedMotion]
"""Trajectories that are read; the moments of each split."""


def prepare(settings: DynamicsRunSettings) -> PreparedMotion:
    return prepared(settings, read_motion(settings.data[0]))


def prepared(settings: DynamicsRunSettings, motion: Motion, validation: Motion | None = None) -> PreparedMotion:
    """The same of trajectories that are read, and perhaps others for validation; the units are those of the
    training moments."""
    if validation is not None:
        settings = replace(settings, split_sizes=(1.0, 0.0, 0.0))
    how = settings.start, settings.horizon, settings.split_sizes, settings.data_seed, settings.model.target_quantity
    splits = split_moments(motion, *how, every_start=settings.every_start)
    if validation is not None:
        splits["val"] = split_moments(validation, *how)["train"]
    if not len(splits["train"].moment):
        raise DataError(f"{motion.source}: no moment is left for training.")

    encoder = BodyEncoder(settings.model, (motion.positions.shape[-1], motion.charges.shape[-1]))
    output = MotionOutput(Units.fit(splits["train"]), settings.horizon)
    for moments in splits.values():
        encoder.check_motion(moments.motion)
        encoder.check_distance(moments.motion, output.units)
    fitted = FittedMotion(format=SETTINGS.format, encoder=encoder, output=output)
    rows = {name: np.unique(moments.trajectory).tolist() for name, moments in splits.items()}
    return Prepared(settings, motion, splits, fitted, rows)


def loader(prepared: PreparedMotion, split: str, batch_size: int, seed: int | None) -> Loader:
    moments, encoder, output = prepared.splits[split], prepared.fitted.encoder, prepared.fitted.output

    def batch(rows: np.ndarray) -> BodyBatch:
        scaled: BodyBatch = output.transform(moments.batch(rows, origins=encoder.origins(moments, rows)))
        return scaled

    size = batch_size if split == "train" else ROWS_PER_BATCH
    return RowLoader(np.arange(len(moments.moment)), batch, size, seed)


def evaluate(prepared: PreparedMotion, results: list[FitResult]) -> JsonObject:
    """The errors of the model beside those of the simplest predictions."""
    fitted, splits, output = prepared.fitted, prepared.splits, prepared.fitted.output
    counts = {name: len(moments.moment) for name, moments in splits.items()}
    metrics: JsonObject = {"rows": counts, **training_metrics(prepared, results[0])}
    for split, name in (("val", "validation"), ("test", "test")):
        if counts[split]:
            metrics[name] = output.metrics(predict(fitted, splits[split]), splits[split])

    if counts["test"]:
        test = splits["test"]
        baselines = output.baselines(test)
        metrics["baselines"] = {name: {"test": output.metrics(values, test)} for name, values in baselines.items()}
    metrics["bodies"] = list(prepared.data.names)
    metrics["units"] = {name: unit for name, unit in prepared.data.units.items() if unit != "1"}
    return metrics


def write_predictions(prepared: PreparedMotion, folder: RunFolder, metrics: JsonObject) -> None:
    """Writes the predictions of the test moments; of accelerations also rollouts and the learned force."""
    fitted, test = prepared.fitted, prepared.splits["test"]
    if len(test.moment):
        folder.write_table("test_predictions.csv", *predicted_table(test, predict(fitted, test)))
    if fitted.output.quantity != "accelerations":
        return

    if len(test.moment):
        metrics["rollout"] = write_rollout(fitted, test, folder)
    pull = read_off(fitted, prepared.splits["train"])
    if pull is not None:
        metrics["force"] = pull.scores()
        folder.write_table("force.csv", *pull_table(pull, prepared.data))


def describe(prepared: PreparedMotion, folder: RunFolder) -> list[str]:
    motion, settings = prepared.data, prepared.settings
    num_trajectories, num_times, num_bodies, space_dim = motion.positions.shape
    counts = {split: len(moments.moment) for split, moments in prepared.splits.items()}
    is_later = settings.model.target_quantity == "positions"
    target = f"predicted {settings.horizon} moments ahead" if is_later else "with its accelerations"
    lines = [
        f"{motion.source}: {plural(num_trajectories, 'trajectory', 'trajectories')} of "
        f"{plural(num_bodies, 'body', 'bodies')} in {plural(space_dim, 'dimension')}, "
        f"{plural(num_times, 'moment')}",
        *split_lines(counts, "moment", details=f", each {target}"),
    ]

    lines += [f"  {line}" for line in assumptions(motion, settings.model.target_quantity)]
    return lines


def assumptions(motion: Motion, quantity: Quantity, ignored: Collection[str] = ()) -> list[str]:
    """What is assumed of bodies because their file does not say it, a line each."""
    assumed = ASSUMPTIONS[quantity]
    names = [name for name in motion.lacks if name in assumed and name not in ignored]
    return [f"no {name} in the file: {assumed[name]}" for name in names]


def score_tables(metrics: JsonObject, split: str) -> list[ScoreTable | str]:
    """The scores on test moments, the learned force and the rollouts."""
    if split != "test":
        return []
    shown = {name: TASK.headlines[name] for name in metrics["test"]}
    title = plural(metrics["rows"]["test"], "test moment")
    table = score_table(title, TASK.scores_of_models(metrics, split), shown)
    has_scores = metrics[split]["mse"] is not None
    # Bodies far beyond those of the training: an equivariant network squares distances layer by layer.
    lines = [] if has_scores else ["warning: some predictions are not finite, so the model gets no score"]
    return [table, *lines, *lines_of_force(metrics), *lines_of_rollout(metrics)]


def next_commands(folder: RunFolder) -> list[str]:
    report = [command("report", folder.path)] if "test" in folder.read_object("metrics.json") else []
    return [*report, TASK.prediction(folder, "later.npz")]


def predict_file(request: PredictRequest, suffix: str) -> tuple[Written, str]:
    """Where the bodies of a file will be from each of its moments on, or their accelerations at it."""
    fitted = load(request.run_folder)
    fitted.threads = request.threads
    motion = read_motion(request.data)
    num_trajectories, num_times = motion.positions.shape[:2]
    folder = request.run_folder
    metrics = folder.read_object("metrics.json") if (folder.path / "metrics.json").is_file() else {}
    trained_units = metrics.get("units", {})
    different = [name for name, unit in trained_units.items() if motion.units.get(name, unit) != unit]
    units = [
        f"warning: {name} is in {motion.units[name]}, but was in {trained_units[name]} in the training"
        for name in different
    ]
    assumed = assumptions(motion, fitted.output.quantity, ignored=["accelerations"])  # predicted, so not read
    for line in [*notes_of(fitted, motion), *units, *assumed]:
        note(f"{motion.source}: {line}")

    rows = np.repeat(np.arange(num_trajectories), num_times), np.tile(np.arange(num_times), num_trajectories)
    values = predict(fitted, MotionRows(motion, *rows, 0), pick_device(request.device))

    quantity, ahead = fitted.output.quantity, fitted.output.ahead
    dtype = motion.positions.dtype if ahead else np.float32
    content: dict[str, Any] = {f"{quantity}_pred": values.reshape(motion.positions.shape).astype(dtype)}
    if ahead:
        content["ahead"] = np.array(ahead)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **content)

    when = f"{ahead} moments after" if ahead else "at"
    trajectories = plural(num_trajectories, "trajectory", "trajectories")
    return buffer.getvalue(), f"{quantity} {when} each of {plural(num_times, 'moment')} of {trajectories}"


def predicted_table(moments: MotionRows, predicted: np.ndarray) -> TableOfCells:
    """A row for each body of each moment: the targets and the predictions."""
    start = "" if moments.quantity == "positions" else "a"
    header = [f"{start}{axis}{end}" for end in ("", "_pred") for axis in axes(moments)]
    targets = moments.targets.astype(np.float64)
    pairs = np.concatenate([targets, predicted], axis=-1)
    digits = max(num_digits(targets[..., axis].mean(), targets[..., axis].std()) for axis in range(targets.shape[-1]))
    cells = [
        [int(trajectory), int(moment), body, *(f"{number:.{digits}g}" for number in numbers)]
        for trajectory, moment, bodies in zip(moments.trajectory, moments.moment, pairs, strict=True)
        for body, numbers in enumerate(bodies)
    ]
    return ["trajectory", "moment", "body", *header], cells


def axes(moments: MotionRows) -> list[str]:
    """x, y, z, or numbers where there are more."""
    count = moments.motion.positions.shape[-1]
    return list("xyz"[:count]) if count <= 3 else [f"x{number}" for number in range(count)]


TASK = Task(
    settings=SETTINGS,
    noun="moving bodies",
    has_orbits=True,
    headlines={"mse": "mean squared error", "distance": "mean distance", "relative": "relative error"},
    labels={"straight_on": "goes straight on", "stays": "stays", "unpulled": "nothing pulls"},
    output_formats=(".npz",),
    prepare=prepare,
    load=load,
    loaders=by_split(loader),
    evaluate=evaluate,
    write_predictions=write_predictions,
    description=describe,
    score_tables=score_tables,
    further_commands=next_commands,
    predict=predict_file,
)
