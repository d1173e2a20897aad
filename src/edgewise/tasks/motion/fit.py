"""Learning how bodies move: the training, the scores beside those of the simplest predictions."""

from typing import Any

import numpy as np

from edgewise.data.motion.motion import Moments
from edgewise.models.dynamics import dynamics_model
from edgewise.tasks.checkpoint import fit_in, training_metrics, untrained
from edgewise.tasks.motion.job import DynamicsJob
from edgewise.tasks.motion.trained import ROWS_A_BATCH, TrainedDynamics, Units
from edgewise.train.folder import RunFolder
from edgewise.train.loader import RowLoader
from edgewise.train.loss import RelativeLoss, TargetLoss


def fit_motion(
    parts: dict[str, Moments],
    job: DynamicsJob,
    *,
    folder: RunFolder | None = None,
    resume: bool = False,
) -> tuple[TrainedDynamics, dict[str, Any]]:
    """Learns the training moments, and chooses the epoch by the validation moments; also the scores of the model beside
    those of the simplest that could be told."""
    settings, motion = job.train, parts["train"].motion
    assert settings.batch_size is not None
    units, sizes = Units.of(parts["train"]), (motion.positions.shape[-1], motion.charges.shape[-1])
    model = untrained(lambda: dynamics_model(sizes[0], sizes[1], 1, job.model), settings.seed)

    def loader(part: str, batch_size: int, seed: int | None = None) -> RowLoader:
        moments = parts[part]
        rows = np.arange(len(moments.moment))
        return RowLoader(rows, lambda rows: units.scaled(moments.batch(rows), job.model.told), batch_size, seed)

    training = loader("train", settings.batch_size, settings.seed)
    loaders = (training, loader("val", ROWS_A_BATCH) if len(parts["val"].moment) else None)
    loss = RelativeLoss(TargetLoss("regression", settings.loss_function, settings.huber_width))
    history = fit_in(folder, model, loaders, settings, loss=loss, resume=resume).history
    trained = TrainedDynamics(model, job.model, sizes, units, job.ahead, settings.threads)
    metrics: dict[str, Any] = {
        "rows": {part: len(moments.moment) for part, moments in parts.items()},
        "epochs": len(history),
        **training_metrics(model, history),
    }
    for part, name in (("val", "validation"), ("test", "test")):
        if len(parts[part].moment):
            metrics[name] = errors(trained.told(parts[part]), parts[part])
    if len(parts["test"].moment):
        metrics["baselines"] = {
            name: {"test": errors(found, parts["test"])} for name, found in simple(parts["test"]).items()
        }
    return trained, metrics


def simple(moments: Moments) -> dict[str, np.ndarray]:
    """The simplest that could be told: bodies stay, or go straight on; as accelerations, that nothing pulls them."""
    motion, rows = moments.motion, (moments.trajectory, moments.moment)
    if moments.told == "accelerations":
        return {"unpulled": np.zeros_like(moments.targets)}
    passed = motion.times[moments.moment + moments.ahead] - motion.times[moments.moment]
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
