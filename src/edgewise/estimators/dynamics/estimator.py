"""A model of moving bodies with its units; and DynamicsModel, its face in Python."""

import dataclasses
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from safetensors.torch import save as to_safetensors
from torch import nn

from edgewise.data.motion import Moments, Motion, parted
from edgewise.errors import SettingError
from edgewise.estimators.dynamics.job import DynamicsJob, dynamics_job
from edgewise.estimators.kept import fit_in, read_weights, training_metrics, undamaged, untrained
from edgewise.estimators.learner import Learner
from edgewise.models.dynamics import dynamics_model
from edgewise.models.dynamics_settings import DynamicsSettings
from edgewise.records import BodyBatch
from edgewise.train.device import cpu_threads
from edgewise.train.folder import RunFolder, write_bytes
from edgewise.train.keeper import Report
from edgewise.train.loader import RowLoader
from edgewise.train.loss import TargetLoss

FORMAT, FORMAT_VERSION = "edgewise dynamics model", 1
ROWS_A_BATCH = 500
"""Moments that are computed together where no gradient is wanted."""


@dataclass(frozen=True)
class Units:
    """What the model takes for 1, so that its numbers are neither large nor small; one number for all axes, since the
    model is to turn with what was put in."""

    length: float
    """The spread of positions."""
    time: float
    """From the moment that is read to the one that is told."""
    charges: tuple[float, ...]
    """The largest of each number that is known of a body."""
    coupling: float
    """The largest number that is known of a pair."""

    @classmethod
    def of(cls, moments: Moments) -> "Units":
        """Those of some moments, the training ones."""
        motion, trajectories = moments.motion, np.unique(moments.trajectory)
        places = motion.positions[moments.trajectory, moments.moment]
        spread = float(np.sqrt(((places - places.mean(axis=1, keepdims=True)) ** 2).mean())) or 1.0
        charges = np.abs(motion.charges[trajectories]).reshape(-1, motion.charges.shape[-1]).max(axis=0)
        return cls(
            length=spread,
            time=float(motion.times[moments.ahead] - motion.times[0]) or 1.0,
            charges=tuple(float(largest) or 1.0 for largest in charges),
            coupling=float(np.abs(motion.couplings[trajectories]).max()) or 1.0,
        )

    def scaled(self, batch: BodyBatch) -> BodyBatch:
        """A batch in these units."""
        return replace(
            batch,
            positions=batch.positions / self.length,
            velocities=batch.velocities * (self.time / self.length),
            charges=batch.charges / batch.charges.new_tensor(self.charges),
            couplings=batch.couplings / self.coupling,
            targets=None if batch.targets is None else batch.targets / self.length,
        )


@dataclass
class TrainedDynamics:
    """A trained model, and the units it computes in."""

    model: nn.Module
    """From bodies at one moment to where they will be."""
    settings: DynamicsSettings
    """The choices it was made by."""
    sizes: tuple[int, int]
    """Dimensions of the space, and numbers that are known of a body."""
    units: Units
    """What it takes for 1."""
    ahead: int
    """How many moments later is told."""
    threads: int = 1
    """CPU threads that it computes with."""

    def told(self, moments: Moments, device: str = "cpu") -> np.ndarray:
        """(row, body, space): where the bodies of each row will be, in the file's unit.

        Raises:
            SettingError: the bodies have other dimensions than those of the training, or more is known of them.
        """
        found = moments.motion.positions.shape[-1], moments.motion.charges.shape[-1]
        if found != self.sizes:
            raise SettingError(
                f"{moments.motion.source} has {found[0]} dimensions and {found[1]} numbers of a body, but the model "
                f"was trained on {self.sizes[0]} and {self.sizes[1]}."
            )
        rows, parts = np.arange(len(moments.moment)), []
        model = self.model.to(device).eval()
        with torch.no_grad(), cpu_threads(self.threads):
            for first in range(0, len(rows), ROWS_A_BATCH):
                batch = self.units.scaled(moments.batch(rows[first : first + ROWS_A_BATCH])).to(device)
                parts.append((model(batch).cpu() * self.units.length).numpy())
        self.model.to("cpu")
        num_bodies = moments.motion.positions.shape[2]
        return np.concatenate([np.zeros((0, found[0])), *parts]).reshape(-1, num_bodies, found[0])

    def save(self, folder: RunFolder) -> None:
        """Writes model.safetensors and model.json."""
        tensors = {name: value.detach().cpu().contiguous() for name, value in self.model.state_dict().items()}
        folder.path.mkdir(parents=True, exist_ok=True)
        write_bytes(folder.path / "model.safetensors", to_safetensors(tensors))
        content = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "settings": dataclasses.asdict(self.settings),
            "sizes": list(self.sizes),
            "units": dataclasses.asdict(self.units),
            "ahead": self.ahead,
        }
        folder.write_json("model.json", content)

    @classmethod
    def load(cls, folder: RunFolder) -> Self:
        """Reads what `save` wrote; raises RunFolderError where it is damaged or of another format."""
        content = folder.read_model(FORMAT, FORMAT_VERSION)
        with undamaged(folder):
            settings = DynamicsSettings(**content["settings"])
            space_dim, num_charges = content["sizes"]
            units = Units(**{**content["units"], "charges": tuple(content["units"]["charges"])})
            model = untrained(lambda: dynamics_model(space_dim, num_charges, 1, settings))
            read_weights(folder, model)
        return cls(model, settings, (space_dim, num_charges), units, content["ahead"])


def fit_motion(
    parts: dict[str, Moments],
    job: DynamicsJob,
    *,
    folder: RunFolder | None = None,
    resume: bool = False,
    report: Report | None = None,
) -> tuple[TrainedDynamics, dict[str, Any]]:
    """Learns the training moments, and chooses the epoch by the validation moments; also the scores of the model beside
    those of bodies that stay, and of bodies that go straight on."""
    settings, motion = job.train, parts["train"].motion
    assert settings.batch_size is not None
    units, sizes = Units.of(parts["train"]), (motion.positions.shape[-1], motion.charges.shape[-1])
    model = untrained(lambda: dynamics_model(sizes[0], sizes[1], 1, job.model), settings.seed)

    def loader(part: str, batch_size: int, seed: int | None = None) -> RowLoader:
        moments = parts[part]
        rows = np.arange(len(moments.moment))
        return RowLoader(rows, lambda rows: units.scaled(moments.batch(rows)), batch_size, seed)

    training = loader("train", settings.batch_size, settings.seed)
    loaders = (training, loader("val", ROWS_A_BATCH) if len(parts["val"].moment) else None)
    loss = TargetLoss("regression", settings.loss_function, settings.huber_width)
    history = fit_in(folder, model, loaders, settings, loss=loss, resume=resume, report=report).history
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


def later(moments: Moments) -> np.ndarray:
    """(row, body, space): where the bodies really are then."""
    return moments.motion.positions[moments.trajectory, moments.moment + moments.ahead]


def simple(moments: Moments) -> dict[str, np.ndarray]:
    """Where bodies would be that stay, and that go straight on."""
    motion, rows = moments.motion, (moments.trajectory, moments.moment)
    passed = motion.times[moments.moment + moments.ahead] - motion.times[moments.moment]
    stays = motion.positions[rows]
    return {"stays": stays, "straight_on": stays + motion.velocities[rows] * passed[:, None, None]}


def errors(found: np.ndarray, moments: Moments) -> dict[str, float]:
    """The mean squared error of a coordinate, and the mean distance from where a body really is."""
    apart = found - later(moments)
    return {"mse": float((apart**2).mean()), "distance": float(np.sqrt((apart**2).sum(-1)).mean())}


class DynamicsModel(Learner[TrainedDynamics]):
    """A model of moving bodies, in the habit of scikit-learn.

        DynamicsModel(epochs=100).fit(motion).predict(other)

    Args:
        settings: any field of DynamicsJob, DynamicsSettings or TrainSettings by its name.
    """

    kind = TrainedDynamics
    fitted_by = "fit(motion)"

    def fit(self, motion: Motion) -> Self:
        """Learns trajectories, as `edgewise.data.motion.read_motion` reads them.

        Raises:
            SettingError: a setting is not known, or the motion has fewer moments than it asks for.
        """
        job = dynamics_job({**self.settings, "data": (motion.source,)}, "DynamicsModel")
        parts = parted(motion, job.start, job.ahead, job.split_sizes, job.data_seed)
        self.trained_, self.metrics_ = fit_motion(parts, job)
        return self

    def predict(self, motion: Motion, moment: int = 0) -> np.ndarray:
        """(trajectory, body, space): where the bodies will be, `ahead` moments after one of the file."""
        trajectories = np.arange(len(motion.positions))
        # Nothing is told of what comes after: the last moments of a file may be read too.
        return self.trained.told(Moments(motion, trajectories, np.full(len(trajectories), moment), 0))
