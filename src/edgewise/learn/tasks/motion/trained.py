"""A trained model of moving bodies, with its units, and where bodies go by what it has learned."""

import copy
import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from edgewise.errors import DataError, SettingError
from edgewise.formatting import plural
from edgewise.graph.records import BodyBatch
from edgewise.learn.networks.dynamics import dynamics_model
from edgewise.learn.networks.time_settings import DynamicsSettings, TargetQuantity
from edgewise.learn.progress import counted
from edgewise.learn.readers.motion.dynamics import Pulls, drift_of, kinetic, law_of, leapfrog
from edgewise.learn.readers.motion.motion import Moments, Motion, require_masses
from edgewise.learn.tables.magnitude import LARGEST_SINGLE, MIN_SINGLE
from edgewise.learn.tasks.fitted import Fitted
from edgewise.learn.tasks.motion.settings import DynamicsRunSettings
from edgewise.learn.training.device import cpu_threads

STEPS_A_MOMENT = 10
"""Steps from one moment to the next where the length of a step is unknown."""
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
        places = motion.positions[moments.trajectory, moments.moment].astype(np.float64)
        spread = float(np.sqrt(((places - places.mean(axis=1, keepdims=True)) ** 2).mean())) or 1.0
        charges = (
            np.abs(motion.charges[trajectories].astype(np.float64)).reshape(-1, motion.charges.shape[-1]).max(axis=0)
        )
        if moments.quantity == "positions":
            time = float(motion.times[moments.horizon] - motion.times[0])
            coupling = np.abs(motion.couplings[trajectories]).max()
        else:
            pull = float(np.sqrt((moments.targets.astype(np.float64) ** 2).mean()))
            time = (spread / pull) ** 0.5 if pull else 1.0
            # The largest pull of one body on another, by the mass of the other, is counted 1.
            masses = motion.masses[trajectories] / charges[0]
            coupling = (np.abs(motion.strengths[trajectories]) / masses[..., None]).max()
        found = cls(spread, time or 1.0, tuple(float(largest) or 1.0 for largest in charges), float(coupling) or 1.0)
        for name, unit in (("accelerations", found.length / found.time**2), ("velocities", found.length / found.time)):
            if not MIN_SINGLE <= unit <= LARGEST_SINGLE:
                raise DataError(
                    f"{motion.source}: with positions in units of {found.length:.3g} and times in units of "
                    f"{found.time:.3g}, the spread of the training rows, {name} are in units of {unit:.3g}, beyond "
                    "single precision; give positions or times in other units."
                )
        return found

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
            couplings=(batch.couplings / self.coupling).to(batch.charges.dtype),
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


@dataclass(frozen=True, eq=False)
class Rollout:
    """Where bodies went by what was learned."""

    trajectories: np.ndarray
    """(trajectory): their numbers in the file."""
    times: np.ndarray
    """(time): the moments, as in the file."""
    positions: np.ndarray
    """(trajectory, time, body, space): where the bodies were."""
    velocities: np.ndarray
    """(trajectory, time, body, space): how fast they went."""


def roll_out(
    trained: FittedDynamics,
    motion: Motion,
    num_moments: int | None = None,
    *,
    moment: int = 0,
    time_step: float | None = None,
    trajectories: np.ndarray | None = None,
) -> Rollout:
    """Lets bodies run on by learned accelerations.

    Args:
        trained: a model of accelerations.
        motion: the bodies.
        num_moments: how many are computed, the first included; None is all that the file has from there on.
        moment: where they begin.
        time_step: of the integrator, at most; None is that of the file, or a tenth of the time between two moments.
        trajectories: those of the file that are followed; all by default.

    Raises:
        SettingError: the model predicts positions, the moments lie outside the file, or the step is not above 0.
    Cost: O(steps · trajectory · body²), a model a step, in double precision.
    """
    if trained.settings.target_quantity != "accelerations":
        raise SettingError(
            "a model of positions predicts no velocities, and cannot go on from its predictions; train one "
            "with --target-quantity accelerations."
        )
    num_times = motion.positions.shape[1]
    last = num_times if num_moments is None else moment + num_moments
    if not 0 <= moment < last <= num_times:
        raise SettingError(
            f"moment {moment} and num_moments {num_moments}: {motion.source} has {plural(num_times, 'moment')}, 0 to "
            f"{num_times - 1}."
        )
    step = motion.time_step if time_step is None else time_step
    if step is not None and not step > 0:
        raise SettingError(f"time_step is {step:g}; expected a number above 0.")
    times = motion.times[moment:last].astype(np.float64)
    chosen = np.arange(len(motion.positions)) if trajectories is None else trajectories
    pull = pull_of(trained, motion, chosen)
    places, speeds = (part[chosen, moment].astype(np.float64) for part in (motion.positions, motion.velocities))
    steps = [(places, speeds)]
    # A body that flies to infinity is for the reader of the result to see.
    with torch.no_grad(), cpu_threads(trained.threads), np.errstate(over="ignore", invalid="ignore"):
        for passed in np.diff(times):
            num_steps = STEPS_A_MOMENT if step is None else max(1, round(passed / step))
            run = leapfrog(
                pull, places, speeds, time_step=passed / num_steps, num_steps=num_steps, keep_every=num_steps
            )
            _, (places, speeds, _, _) = itertools.islice(run, 2)
            steps.append((places, speeds))
    positions, velocities = (np.stack(parts, axis=1) for parts in zip(*steps, strict=True))
    return Rollout(chosen, times, positions, velocities)


def pull_of(trained: FittedDynamics, motion: Motion, trajectories: np.ndarray) -> Pulls:
    """The accelerations that a model predicts for these bodies, in the file's unit and in double precision."""
    trained.require_alike(motion)
    model, units = copy.deepcopy(trained.model).double().eval(), trained.units
    moments = Moments(motion, trajectories, np.zeros(len(trajectories), dtype=np.int64), 0, "accelerations")
    batch = units.scaled(moments.batch(np.arange(len(trajectories)), with_targets=False), "accelerations")
    batch = replace(batch, charges=batch.charges.double(), couplings=batch.couplings.double())
    unit = units.of_target("accelerations")

    def pull(positions: np.ndarray, velocities: np.ndarray) -> tuple[np.ndarray, None]:
        places, speeds = (torch.from_numpy(part).flatten(0, 1) for part in (positions, velocities))
        there = replace(batch, positions=places / units.length, velocities=speeds * (units.time / units.length))
        return (model(there) * unit).numpy().reshape(positions.shape), None

    return pull


def compared(rollout: Rollout, motion: Motion, moment: int) -> dict[str, Any]:
    """How far a rollout ends from the true positions, beside bodies that go straight on, and how well it conserves the
    energy, by the law of the file; None where the file has no law, or a number is not finite."""
    rows = np.ix_(rollout.trajectories, np.arange(moment, moment + len(rollout.times)))
    real, passed = motion.positions[rows].astype(np.float64), rollout.times - rollout.times[0]
    straight = real[:, :1] + motion.velocities[rows][:, :1] * passed[:, None, None]
    found = {
        "trajectories": len(rollout.trajectories),
        "moments": len(rollout.times),
        "time": float(passed[-1]),
        "distance": number(np.median(far(rollout.positions, real)[:, -1])),
        "distance_straight_on": number(np.median(far(straight, real)[:, -1])),
        "spread": number(np.median(far(real, real.mean(2, keepdims=True)))),
    }
    for name, (positions, velocities) in {
        "energy_drift": (rollout.positions, rollout.velocities),
        "energy_drift_of_the_file": (real, motion.velocities[rows].astype(np.float64)),
    }.items():
        drift = energy_drift(motion, rollout.trajectories, positions, velocities)
        found[name] = None if drift is None else number(np.median(drift))
    return found


def far(positions: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(trajectory, time, body): how far bodies are from where others are; infinite where they flew there."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.nan_to_num(np.sqrt(((positions - other) ** 2).sum(-1)), nan=np.inf, posinf=np.inf)


def energy_drift(
    motion: Motion, trajectories: np.ndarray, positions: np.ndarray, velocities: np.ndarray
) -> np.ndarray | None:
    """(trajectory): how far the energy ever was from its beginning, by the law of the file; None where it has none."""
    masses, couplings = motion.masses[trajectories], motion.couplings[trajectories].astype(np.float64)
    law = law_of(motion.law, masses, couplings)
    if law is None:
        return None
    with np.errstate(all="ignore"):
        potential = np.stack([law(positions[:, time])[1] for time in range(positions.shape[1])], axis=1)
        energies = potential + kinetic(velocities, masses[:, None]).sum(-1)
        return drift_of(energies, velocities, masses)


def number(value: Any) -> float | None:
    """A number for JSON, which has no infinite ones."""
    return float(value) if np.isfinite(value) else None
