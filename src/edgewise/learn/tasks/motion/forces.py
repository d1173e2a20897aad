"""What follows from learned accelerations: where bodies go by them, and the force between two bodies, read off."""

import copy
import io
import itertools
import json
from dataclasses import dataclass, replace

import numpy as np
import torch

from edgewise.errors import SettingError, plural
from edgewise.explain.numbers import formatted, percent
from edgewise.learn.files import JsonObject
from edgewise.learn.readers.motion.dynamics import Laws, Pulls, drift_of, kinetic, law_of, leapfrog
from edgewise.learn.readers.motion.motion import Motion, MotionRows
from edgewise.learn.tasks.motion.model import FittedMotion, finite, predict
from edgewise.learn.training.device import cpu_threads
from edgewise.learn.training.folder import RunFolder

STEPS_PER_MOMENT = 10
"""Steps from one moment to the next where the length of a step is unknown."""
MAX_TRAJECTORIES = 20
"""Test trajectories that are rolled out."""
NUM_DISTANCES, NUM_STRETCHES = 60, 5
"""Distances at which a force is read off, and stretches of them whose slopes are compared."""
MAX_ROWS = 2000
"""Rows out of which distances are taken."""

TableOfCells = tuple[list[str], list[list[object]]]
"""A header and rows."""


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
    fitted: FittedMotion,
    motion: Motion,
    num_moments: int | None = None,
    *,
    moment: int = 0,
    time_step: float | None = None,
    trajectories: np.ndarray | None = None,
) -> Rollout:
    """Lets bodies run on by learned accelerations.

    Args:
        fitted: a model of accelerations.
        motion: the bodies.
        num_moments: how many are computed, the first included; None is all that the file has from there on.
        moment: where they begin.
        time_step: of the integrator, at most; None is that of the file, or a tenth of the time between two moments.
        trajectories: those of the file that are followed; all by default.

    Raises:
        SettingError: the model predicts positions, the moments lie outside the file, or the step is not above 0.
    Cost: O(steps · trajectory · body²), a model a step, in double precision.
    """
    if fitted.output.quantity != "accelerations":
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
    max_step = motion.time_step if time_step is None else time_step
    if max_step is not None and not max_step > 0:
        raise SettingError(f"time_step is {max_step:g}; expected a number above 0.")

    times = motion.times[moment:last].astype(np.float64)
    rows = np.arange(len(motion.positions)) if trajectories is None else trajectories
    pull = accelerations_of(fitted, motion, rows)
    positions, velocities = (array[rows, moment].astype(np.float64) for array in (motion.positions, motion.velocities))
    states = [(positions, velocities)]

    # A body that flies to infinity is for the reader of the result to see.
    with torch.no_grad(), cpu_threads(fitted.threads), np.errstate(over="ignore", invalid="ignore"):
        for duration in np.diff(times):
            num_steps = STEPS_PER_MOMENT if max_step is None else max(1, round(duration / max_step))
            step = duration / num_steps
            run = leapfrog(pull, positions, velocities, time_step=step, num_steps=num_steps, keep_every=num_steps)
            _, (positions, velocities, _, _) = itertools.islice(run, 2)
            states.append((positions, velocities))

    all_positions, all_velocities = (np.stack(arrays, axis=1) for arrays in zip(*states, strict=True))
    return Rollout(rows, times, all_positions, all_velocities)


def accelerations_of(fitted: FittedMotion, motion: Motion, trajectories: np.ndarray) -> Pulls:
    """The accelerations that a model predicts for these bodies, in the unit of the file and in double precision."""
    fitted.encoder.check_motion(motion)
    model, output = copy.deepcopy(fitted.model).double().eval(), fitted.output
    moments = MotionRows(motion, trajectories, np.zeros(len(trajectories), dtype=np.int64), 0, "accelerations")
    batch = output.transform(moments.batch(np.arange(len(trajectories)), with_targets=False))
    batch = replace(batch, charges=batch.charges.double(), couplings=batch.couplings.double())
    length, time = output.units.length, output.units.time

    def pull(positions: np.ndarray, velocities: np.ndarray) -> tuple[np.ndarray, None]:
        flat_positions, flat_velocities = (torch.from_numpy(array).flatten(0, 1) for array in (positions, velocities))
        moved = replace(batch, positions=flat_positions / length, velocities=flat_velocities * (time / length))
        return (model(moved) * output.unit).numpy().reshape(positions.shape), None

    return pull


def rollout_metrics(rollout: Rollout, motion: Motion, moment: int) -> JsonObject:
    """How far a rollout ends from the true positions, beside bodies that go straight on; how far bodies are from their
    middle, over all times; and how well it conserves the energy, by the law of the file, None where the file has
    none. None where a number is not finite."""
    rows = np.ix_(rollout.trajectories, np.arange(moment, moment + len(rollout.times)))
    true_positions, true_velocities = motion.positions[rows].astype(np.float64), motion.velocities[rows]
    elapsed = rollout.times - rollout.times[0]
    straight = true_positions[:, :1] + true_velocities[:, :1] * elapsed[:, None, None]
    centers = true_positions.mean(2, keepdims=True)
    metrics = {
        "trajectories": len(rollout.trajectories),
        "moments": len(rollout.times),
        "time": float(elapsed[-1]),
        "distance": finite(np.median(distances_between(rollout.positions, true_positions)[:, -1])),
        "distance_straight_on": finite(np.median(distances_between(straight, true_positions)[:, -1])),
        "spread": finite(np.median(distances_between(true_positions, centers))),
    }

    for name, (positions, velocities) in {
        "energy_drift": (rollout.positions, rollout.velocities),
        "energy_drift_of_the_file": (true_positions, true_velocities.astype(np.float64)),
    }.items():
        drift = energy_drift(motion, rollout.trajectories, positions, velocities)
        metrics[name] = None if drift is None else finite(np.median(drift))
    return metrics


def distances_between(positions: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(trajectory, time, body): how far bodies are from where others are; infinite where they flew there."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.nan_to_num(np.sqrt(((positions - others) ** 2).sum(-1)), nan=np.inf, posinf=np.inf)


def energy_drift(
    motion: Motion, trajectories: np.ndarray, positions: np.ndarray, velocities: np.ndarray
) -> np.ndarray | None:
    """(trajectory): how far the energy ever was from its beginning, by the law of the file; None where it has none."""
    masses = motion.masses[trajectories]
    law = law_between(motion, masses, motion.strengths[trajectories])
    if law is None:
        return None
    with np.errstate(all="ignore"):
        potential = np.stack([law(positions[:, time])[1] for time in range(positions.shape[1])], axis=1)
        energies = potential + kinetic(velocities, masses[:, None]).sum(-1)
        return drift_of(energies, velocities, masses)


def law_between(motion: Motion, masses: np.ndarray, strengths: np.ndarray) -> Laws | None:
    """The law of the file between bodies of these masses and strengths; None where it has none, or is that of springs
    whose stiffnesses the file lacks: no product of charges or masses stands for them."""
    if motion.law.get("name") == "elastic" and "couplings" in motion.lacks:
        return None
    return law_of(motion.law, masses, strengths.astype(np.float64))


def write_rollout(fitted: FittedMotion, test: MotionRows, folder: RunFolder) -> JsonObject:
    """Rolls out test trajectories by the learned accelerations, from their first moment on; how far they end from where
    the bodies went. rollout.npz has what a file of trajectories has, and the true positions and velocities."""
    motion, moment = test.motion, int(test.moment.min())
    rollout = roll_out(fitted, motion, moment=moment, trajectories=np.unique(test.trajectory)[:MAX_TRAJECTORIES])
    trajectories, last = rollout.trajectories, moment + len(rollout.times)
    content = {
        "trajectories": trajectories,
        "times": rollout.times,
        "positions": rollout.positions,
        "velocities": rollout.velocities,
        "positions_real": motion.positions[trajectories, moment:last],
        "velocities_real": motion.velocities[trajectories, moment:last],
        "masses": motion.masses[trajectories],
        "charges": motion.charges[trajectories][..., -1],
        "couplings": motion.couplings[trajectories],
        "names": np.array(motion.names),
        "units": np.array(json.dumps(dict(motion.units))),
        "law": np.array(json.dumps(dict(motion.law))),
    }
    content = {name: array for name, array in content.items() if name not in motion.lacks}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **content)
    folder.write("rollout.npz", buffer.getvalue())
    return rollout_metrics(rollout, motion, moment)


@dataclass(frozen=True, eq=False)
class PairPull:
    """How hard one body pulls another, without any others."""

    receiver: str
    """Who is pulled."""
    sender: str
    """Who pulls."""
    distances: np.ndarray
    """(distance): how far apart they are, evenly spaced in logarithm."""
    learned: np.ndarray
    """(distance): the acceleration of the receiver towards the sender; below 0 away from it."""
    law: np.ndarray | None
    """(distance): the same by the law of the file; None where it has none."""

    def scores(self) -> JsonObject:
        """Exponents of a power law through each, with how much they differ from stretch to stretch, and how far the
        learned pull is from the law, as a fraction of it."""
        scores: JsonObject = {
            "receiver": self.receiver,
            "sender": self.sender,
            "nearest": float(self.distances[0]),
            "farthest": float(self.distances[-1]),
            "learned": exponent(self.distances, self.learned),
        }
        if self.law is not None and np.all(self.law != 0):
            errors = np.abs(self.learned / self.law - 1)
            scores |= {
                "law": exponent(self.distances, self.law),
                "median_error": float(np.median(errors)),
                "largest_error": float(errors.max()),
            }
        return scores


def exponent(distances: np.ndarray, pulls: np.ndarray) -> dict[str, float] | None:
    """The slope of ln |pull| over ln distance, by least squares, and ± the standard deviation of the slopes of five
    stretches of equal length in logarithm; None where the pull changes its sign or vanishes, and no power fits."""
    if not (np.all(pulls > 0) or np.all(pulls < 0)):
        return None

    x, y = np.log(distances), np.log(np.abs(pulls))
    stretches = zip(np.array_split(x, NUM_STRETCHES), np.array_split(y, NUM_STRETCHES), strict=True)
    slopes = [np.polyfit(*stretch, 1)[0] for stretch in stretches]
    return {"exponent": float(np.polyfit(x, y, 1)[0]), "plus_minus": float(np.std(slopes, ddof=1))}


def read_off(fitted: FittedMotion, moments: MotionRows) -> PairPull | None:
    """The pull between the two bodies that the law couples most, over the distances of the training moments.

    Returns:
        None where nothing couples any two bodies.
    """
    motion = moments.motion
    receiver, sender, trajectory = strongest_pair(motion)
    distances = learned_distances(moments)
    if distances is None:
        return None

    count, pair = len(distances), np.array([receiver, sender])
    positions = np.zeros((count, 1, 2, motion.positions.shape[-1]), dtype=np.float32)
    positions[:, 0, 1, 0] = distances
    couplings = np.repeat(motion.strengths[trajectory][np.ix_(pair, pair)][None], count, axis=0)
    charges = np.repeat(motion.charges[trajectory][pair][None], count, axis=0)
    bodies = Motion("two bodies", positions, np.zeros_like(positions), np.zeros(1), charges, couplings, motion.units)

    law = law_between(motion, bodies.masses, couplings)
    return PairPull(
        motion.names[receiver],
        motion.names[sender],
        distances,
        predict(fitted, MotionRows(bodies, np.arange(count), np.zeros(count, dtype=np.int64), 0))[:, 0, 0],
        None if law is None else law(positions[:, 0].astype(np.float64))[0][:, 0, 0],
    )


def strongest_pair(motion: Motion) -> tuple[int, int, int]:
    """The receiver, the sender, which is at least as heavy, and the trajectory of the largest coupling."""
    sizes = np.abs(motion.strengths) * ~np.eye(len(motion.names), dtype=bool)
    trajectory, first, second = np.unravel_index(sizes.argmax(), sizes.shape)
    masses = motion.masses[trajectory]
    receiver, sender = (second, first) if masses[first] >= masses[second] else (first, second)
    return int(receiver), int(sender), int(trajectory)


def learned_distances(moments: MotionRows) -> np.ndarray | None:
    """Distances that were learned from: of each body from those whose coupling is at least half of its largest one,
    without the nearest and the farthest percent; None where nothing is coupled."""
    rows = np.unique(np.linspace(0, len(moments.moment) - 1, MAX_ROWS).astype(int))
    trajectory, motion = moments.trajectory[rows], moments.motion
    positions = motion.positions[trajectory, moments.moment[rows]].astype(np.float64)
    distances = np.sqrt(((positions[:, None] - positions[:, :, None]) ** 2).sum(-1))
    sizes = np.abs(motion.strengths[trajectory]) * ~np.eye(positions.shape[1], dtype=bool)
    counts = (sizes > 0) & (sizes >= 0.5 * sizes.max(-1, keepdims=True)) & (distances > 0)
    if not counts.any():
        return None

    nearest, farthest = np.quantile(distances[counts], [0.01, 0.99])
    return np.geomspace(nearest, max(farthest, 1.0001 * nearest), NUM_DISTANCES)


def pull_table(pull: PairPull, motion: Motion) -> TableOfCells:
    """A row for each distance: the learned pull, and that of the law where the file has one."""

    def with_unit(name: str, quantity: str) -> str:
        unit = motion.units.get(quantity, "1")
        return name if unit == "1" else f"{name}_{unit}"

    header = [with_unit("distance", "position"), with_unit("learned", "acceleration")]
    columns = [pull.distances, pull.learned]
    if pull.law is not None:
        header, columns = [*header, with_unit("law", "acceleration")], [*columns, pull.law]
    return header, [[f"{number:.7g}" for number in row] for row in np.stack(columns, axis=1)]


def lines_of_force(metrics: JsonObject) -> list[str]:
    """What was learned of the force between two bodies; nothing where none was read off."""
    if "force" not in metrics:
        return []
    force, unit = metrics["force"], after_number(metrics["units"].get("position", ""))
    fits = {name: power(force[name]) for name in ("learned", "law") if name in force}
    by_law = f"; by the law {fits['law']}" if "law" in fits else ""
    lines = [
        f"force of {force['sender']} on {force['receiver']}, from {force['nearest']:.3g} to {force['farthest']:.3g}"
        f"{unit}: {fits['learned']}{by_law}"
    ]

    if "median_error" in force:
        median, largest = percent(force["median_error"]), percent(force["largest_error"])
        lines.append(f"  off the law by {median} (median), {largest} (largest)")
    return lines


def lines_of_rollout(metrics: JsonObject) -> list[str]:
    """Where the learned force led the test bodies; nothing without a rollout."""
    if "rollout" not in metrics:
        return []
    run, units = metrics["rollout"], metrics["units"]
    distance, straight, spread = (formatted(run[name]) for name in ("distance", "distance_straight_on", "spread"))
    length, time = (after_number(units.get(name, "")) for name in ("position", "time"))
    trajectories = "trajectory" if run["trajectories"] == 1 else "trajectories"
    lines = [
        f"{run['trajectories']} test {trajectories} let run by it for {run['moments'] - 1} moments, a time of "
        f"{run['time']:g}{time}: at its end {distance}{length} from where the bodies really are (median), {straight} "
        f"if they went straight on; all the time they are {spread} from their middle"
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


def after_number(unit: str) -> str:
    """A unit as it stands after a number; nothing where there is none."""
    return f" {unit}" if unit else ""
