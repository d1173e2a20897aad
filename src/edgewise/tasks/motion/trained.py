"""A trained model of moving bodies, with its units."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from edgewise.data.motion.motion import Moments, Motion, require_masses
from edgewise.errors import DataError, SettingError
from edgewise.models.dynamics import dynamics_model
from edgewise.models.time_settings import DynamicsSettings, TargetQuantity
from edgewise.plural import plural
from edgewise.progress import counted
from edgewise.records import BodyBatch
from edgewise.tasks.fitted import Fitted
from edgewise.tasks.motion.settings import DynamicsRunSettings
from edgewise.train.device import cpu_threads

ROWS_A_BATCH = 500
"""Moments that are computed together where no gradient is wanted."""


@dataclass(frozen=True)
class Units:
    """What the model takes for 1, so that its numbers are neither large nor small; one number for all axes, since the
    model is to turn with what was put in."""

    length: float
    """The spread of positions."""
    time: float
    """From the moment that is read to the predicted one; for accelerations, what makes the spread of them
    1, together with `length`."""
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
        if moments.quantity == "positions":
            time = float(motion.times[moments.horizon] - motion.times[0])
            coupling = np.abs(motion.couplings[trajectories]).max()
        else:
            pull = float(np.sqrt((moments.targets.astype(np.float64) ** 2).mean()))
            time = (spread / pull) ** 0.5 if pull else 1.0
            # The largest pull of one body on another, by the mass of the other, is counted 1.
            masses = motion.masses[trajectories] / charges[0]
            coupling = (np.abs(motion.strengths[trajectories]) / masses[..., None]).max()
        return cls(spread, time or 1.0, tuple(float(largest) or 1.0 for largest in charges), float(coupling) or 1.0)

    def of_target(self, quantity: TargetQuantity) -> float:
        """The unit of the targets."""
        return self.length if quantity == "positions" else self.length / self.time**2

    def scaled(self, batch: BodyBatch, quantity: TargetQuantity) -> BodyBatch:
        """A batch in these units, its targets of one quantity."""
        unit = self.of_target(quantity)
        return replace(
            batch,
            positions=batch.positions / self.length,
            velocities=batch.velocities * (self.time / self.length),
            charges=batch.charges / batch.charges.new_tensor(self.charges),
            couplings=batch.couplings / self.coupling,
            targets=None if batch.targets is None else batch.targets / unit,
            sizes=None if batch.sizes is None else batch.sizes / unit,
        )


@dataclass(kw_only=True)
class FittedDynamics(Fitted):
    """A trained model, and the units it computes in."""

    FORMAT = DynamicsRunSettings.FORMAT

    settings: DynamicsSettings
    """The choices it was made by."""
    sizes: tuple[int, int]
    """Dimensions of the space, and numbers that are known of a body."""
    units: Units
    """What it takes for 1."""
    ahead: int
    """How many moments ahead positions are predicted; 0 for accelerations."""

    def predict(self, moments: Moments, device: str = "cpu") -> np.ndarray:
        """(row, body, space): where the bodies of each row will be, or their accelerations, in the file's unit.

        Raises:
            SettingError: the bodies have other dimensions than those of the training, or more is known of them.
            DataError: accelerations are predicted, and a body weighs nothing.
        """
        self.require_alike(moments.motion)
        moments = replace(moments, quantity=self.settings.target_quantity)
        unit = self.units.of_target(self.settings.target_quantity)
        rows, parts = np.arange(len(moments.moment)), []
        model = self.model.to(device).eval()
        with torch.no_grad(), cpu_threads(self.threads):
            for first in counted(range(0, len(rows), ROWS_A_BATCH), "predicting"):
                batch = moments.batch(rows[first : first + ROWS_A_BATCH], with_targets=False)
                parts.append(
                    (model(self.units.scaled(batch, self.settings.target_quantity).to(device)).cpu() * unit).numpy()
                )
        self.model.to("cpu")
        _, _, num_bodies, space_dim = moments.motion.positions.shape
        return np.concatenate([np.zeros((0, space_dim)), *parts]).reshape(-1, num_bodies, space_dim)

    def require_alike(self, motion: Motion) -> None:
        """Raise an error where these bodies are not like those of the training."""
        found = motion.positions.shape[-1], motion.charges.shape[-1]
        if found != self.sizes:
            raise SettingError(
                f"{motion.source} has {plural(found[0], 'dimension')} and "
                f"{plural(found[1], 'number')} of a body, but the model "
                f"was trained on {self.sizes[0]} and {self.sizes[1]}."
            )
        if self.settings.target_quantity == "accelerations":
            require_masses(motion)

    def new_member(self) -> nn.Module:
        return dynamics_model(*self.sizes, 1, self.settings)

    def check(self) -> None:
        """Raise DataError unless the fields fit each other."""
        units, (space_dim, num_charges) = self.units, self.sizes
        if space_dim < 1 or num_charges != len(units.charges) or self.ahead < 0:
            raise DataError(
                f"sizes are {self.sizes} and ahead is {self.ahead}, with {plural(len(units.charges), 'charge')}."
            )
        if min(units.length, units.time, units.coupling, *units.charges) <= 0:
            raise DataError("units: expected numbers above 0.")
