"""What was learned of forces, let run: the same integrator, with the model where the law was."""

import copy
import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from edgewise.data.motion.dynamics import Pulls, drift_of, kinetic, law_of, leapfrog
from edgewise.data.motion.motion import Moments, Motion
from edgewise.errors import SettingError
from edgewise.plural import plural
from edgewise.tasks.motion.trained import FittedDynamics
from edgewise.train.device import cpu_threads

STEPS_A_MOMENT = 10
"""Steps from one moment to the next where the length of a step is unknown."""


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
