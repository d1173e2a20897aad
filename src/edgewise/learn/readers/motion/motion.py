"""Trajectories to learn from: bodies at one moment, and where they will be at a later one, or how they are pulled."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Float32, Float64, Int64

from edgewise.errors import DataError, SettingError, plural
from edgewise.learn.batches.bodies import BodyBatch
from edgewise.learn.files import JsonObject, parse_json
from edgewise.learn.readers.motion.dynamics import Trajectories, differences
from edgewise.learn.tables.arrays import read_arrays, require_kind
from edgewise.learn.tables.magnitude import LARGEST_SINGLE, MIN_SINGLE, too_large
from edgewise.neighborhood import Edges

NEEDED = ("positions", "velocities")
NUMBERS = ("positions", "velocities", "accelerations", "times", "masses", "charges", "couplings", "time_step")
KINDS_OF = {**dict.fromkeys(NUMBERS, "biuf"), "names": "iuUS", "units": "U", "law": "U"}
"""What each array holds, in the letters of numpy."""
Quantity = Literal["positions", "accelerations"]
"""What can be predicted for bodies."""


@dataclass(frozen=True, eq=False)
class Motion:
    """Bodies over time."""

    source: str
    """The file."""
    positions: Float[np.ndarray, " trajectory time body space"]
    """Where they are; in double precision where the file has them so, as single precision rounds those far from the
    origin by more than they move."""
    velocities: Float32[np.ndarray, " trajectory time body space"]
    """How fast they go."""
    times: Float[np.ndarray, " time"]
    """The moments."""
    charges: Float32[np.ndarray, " trajectory body charge"]
    """What is known of each body: its mass, and its charge where that is something else."""
    couplings: Float[np.ndarray, " trajectory body body"]
    """What is known of each pair; zeros where nothing is."""
    units: Mapping[str, str]
    """The units of time, position, and so on."""
    accelerations: Float32[np.ndarray, " trajectory time body space"] | None = None
    """Their accelerations: from the file, or by `differences`; NaN where not known."""
    names: tuple[str, ...] = ()
    """What the bodies are called."""
    law: Mapping[str, object] = field(default_factory=dict)
    """The law that they follow, as `law_of` reads it; nothing where the file does not say."""
    time_step: float | None = None
    """The time step of the integrator that made the file."""
    lacks: tuple[str, ...] = ()
    """Those of accelerations, masses, charges and couplings that the file has not."""

    @property
    def masses(self) -> Float64[np.ndarray, " trajectory body"]:
        """How heavy they are; 1 where the file does not say."""
        return self.charges[..., 0].astype(np.float64)

    @cached_property
    def strengths(self) -> Float[np.ndarray, " trajectory body body"]:
        """What a force between two bodies is counted in: their coupling, or, where the file has none, the product of
        their charges, or else of their masses; in double precision where that is beyond single precision, as the
        masses of two planets in kilograms are."""
        if "couplings" not in self.lacks:
            return self.couplings
        charges = self.charges[..., -1].astype(np.float64)
        products = charges[:, None] * charges[:, :, None]
        sizes = np.abs(products[products != 0])
        is_single = not sizes.size or MIN_SINGLE <= sizes.min() <= sizes.max() <= LARGEST_SINGLE
        return products.astype(np.float32) if is_single else products

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Sender and receiver of every pair of two bodies."""
        receivers, senders = np.nonzero(~np.eye(self.positions.shape[2], dtype=bool))
        return senders, receivers


@dataclass(frozen=True, eq=False)
class MotionRows:
    """What is predicted from: each row is a trajectory and a moment. The target is the moment `horizon` later, or the
    accelerations of the moment itself."""

    motion: Motion
    """The bodies."""
    trajectory: Int64[np.ndarray, " row"]
    """The trajectory of each row."""
    moment: Int64[np.ndarray, " row"]
    """The moment of each row, by its number among those in the file."""
    horizon: int
    """How many moments later the target is."""
    quantity: Quantity = "positions"
    """The target: the later positions, or the present accelerations."""

    @property
    def targets(self) -> Float[np.ndarray, " row body space"]:
        """The values to be predicted."""
        values = self.motion.positions if self.quantity == "positions" else self.motion.accelerations
        assert values is not None
        return values[self.trajectory, self.moment + self.horizon]

    @cached_property
    def error_scale(self) -> Float32[np.ndarray, " row body"] | None:
        """What the error of each body is measured in; None where all count the same.

        Pulls differ by many powers of ten from body to body. Errors are measured in the root of the mean square of the
        body's own pulls, by coordinate, over the moments here, so that Neptune counts what Mercury does; those of a
        body with hardly any, a millionth of the largest, in the smallest of the others.
        """
        if self.quantity == "positions":
            return None
        scales = np.zeros(self.motion.positions.shape[::2])
        for number in np.unique(self.trajectory):
            targets = self.targets[self.trajectory == number].astype(np.float64)
            scales[number] = np.sqrt((targets**2).mean((0, 2)))

        counts = scales > 1e-6 * scales.max()
        scales[~counts] = scales[counts].min() if counts.any() else 1.0
        return scales[self.trajectory].astype(np.float32)

    def centers(self, rows: np.ndarray) -> Float64[np.ndarray, " row 1 space"]:
        """The middle of the bodies of some rows."""
        positions = self.motion.positions[self.trajectory[rows], self.moment[rows]]
        return positions.astype(np.float64).mean(1, keepdims=True)

    def batch(
        self,
        rows: np.ndarray,
        *,
        origins: Float64[np.ndarray, " row 1 space"] | None = None,
        with_targets: bool = True,
    ) -> BodyBatch:
        """Some rows, bodies one after the other, in single precision.

        Args:
            rows: their numbers.
            origins: where the positions of each row are counted from; the origin of the file where it is None.
            with_targets: whether the batch has targets.
        """
        motion, trajectory, moment = self.motion, self.trajectory[rows], self.moment[rows]
        num_bodies = motion.positions.shape[2]
        senders, receivers = motion.pairs
        couplings = motion.couplings if self.quantity == "positions" else motion.strengths
        positions, targets = motion.positions[trajectory, moment], self.targets[rows] if with_targets else None
        if origins is not None:
            positions = positions - origins
            targets = targets - origins if targets is not None and self.quantity == "positions" else targets
        error_scale = None
        if with_targets and self.error_scale is not None:
            error_scale = torch.from_numpy(self.error_scale[rows]).flatten()
        steps = num_bodies * np.arange(len(rows))[:, None]
        edges = Edges(
            torch.from_numpy((steps + senders).ravel()),
            torch.from_numpy((steps + receivers).ravel()),
            num_bodies * len(rows),
            num_bodies * len(rows),
        )

        return BodyBatch(
            positions=_single(positions).flatten(0, 1),
            velocities=torch.from_numpy(motion.velocities[trajectory, moment]).flatten(0, 1),
            charges=torch.from_numpy(motion.charges[trajectory]).flatten(0, 1),
            edges=edges,
            couplings=torch.from_numpy(couplings[trajectory][:, receivers, senders]).reshape(-1, 1),
            targets=None if targets is None else _single(targets).flatten(0, 1),
            error_scale=error_scale,
        )


def _single(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.float32, copy=False))


def read_motion(path: str) -> Motion:
    """Read trajectories as `edgewise simulate` writes them.

    Arrays: `positions` and `velocities` (trajectory, time, body, space); where they are there, `accelerations` like
    them, `times` (time), `masses` and `charges` (trajectory, body), `couplings` (trajectory, body, body), `names`
    (body), `time_step`, and `units` and `law`, JSON objects.

    Raises:
        DataError: it is not such a file, an array is missing, or shapes do not fit; the message names the array.
    """
    return _motion(path, read_arrays(path))


def motion_of(trajectories: Trajectories) -> Motion:
    """What `read_motion` reads of simulated trajectories, without a file."""
    return _motion("simulated", arrays_of(trajectories))


def arrays_of(trajectories: Trajectories) -> dict[str, np.ndarray]:
    """The arrays of the file that `edgewise simulate` writes."""
    system = trajectories.system
    return {
        "times": trajectories.times,
        "positions": trajectories.positions,
        "velocities": trajectories.velocities,
        "accelerations": trajectories.accelerations,
        "masses": system.masses,
        "charges": system.charges,
        "couplings": system.couplings,
        "energies": trajectories.energies,
        "time_step": np.array(trajectories.time_step),
        "names": np.array(system.names),
        "units": np.array(json.dumps(system.units)),
        "law": np.array(json.dumps(dict(system.described))),
    }


def _motion(path: str, arrays: dict[str, np.ndarray]) -> Motion:
    """Bodies over time out of the arrays of a file; what `read_motion` raises."""
    if missing := [name for name in NEEDED if name not in arrays]:
        raise DataError(f"{path}: the array {missing[0]!r} is missing; the file has {', '.join(arrays) or 'none'}.")
    for name, array in arrays.items():
        if name in KINDS_OF:
            require_kind(path, name, array, KINDS_OF[name])

    positions = arrays["positions"]
    if positions.ndim != 4 or 0 in positions.shape or positions.shape[2] < 2:
        raise DataError(
            f"{path}: positions is {positions.shape}, expected (trajectory, time, body, space) with two bodies or more."
        )

    num_trajectories, num_times, num_bodies, _ = positions.shape
    expected = {
        "velocities": positions.shape,
        "accelerations": positions.shape,
        "times": (num_times,),
        "masses": (num_trajectories, num_bodies),
        "charges": (num_trajectories, num_bodies),
        "couplings": (num_trajectories, num_bodies, num_bodies),
        "names": (num_bodies,),
        "time_step": (),
    }
    for name, shape in expected.items():
        if name in arrays and arrays[name].shape != shape:
            raise DataError(f"{path}: {name} is {arrays[name].shape}, but positions needs {shape}.")
        if name in arrays and name != "names" and not np.isfinite(arrays[name]).all():
            raise DataError(f"{path}: {name} holds NaN or an infinite number.")
        if name in arrays and name in NUMBERS:
            _require_scalable(path, name, arrays[name])

    if not np.isfinite(positions).all():
        raise DataError(f"{path}: positions holds NaN or an infinite number.")
    _require_scalable(path, "positions", positions)
    if arrays.get("time_step", 1) <= 0:
        raise DataError(f"{path}: time_step is {arrays['time_step']}, expected a number above 0.")
    masses = arrays.get("masses", np.ones(expected["masses"]))
    charges = arrays.get("charges", masses)
    body_features = [masses] if np.array_equal(charges, masses) else [masses, charges]
    times = arrays.get("times", np.arange(num_times))
    times = times if times.dtype.kind == "f" else times.astype(np.float64)
    velocities, lacks = arrays["velocities"], {"accelerations", "masses", "charges", "couplings"} - set(arrays)
    pulls = differences(positions, velocities, times) if "accelerations" in lacks else arrays["accelerations"]

    return Motion(
        source=path,
        positions=positions.astype(np.float32 if positions.dtype in (np.float16, np.float32) else np.float64),
        velocities=velocities.astype(np.float32),
        times=times.astype(np.float64),
        charges=np.stack(body_features, -1).astype(np.float32),
        couplings=arrays.get("couplings", np.zeros(expected["couplings"])).astype(np.float32),
        units={name: str(unit) for name, unit in _object(path, arrays, "units").items()},
        accelerations=pulls.astype(np.float32),
        names=tuple(str(name) for name in arrays.get("names", [f"body {number}" for number in range(num_bodies)])),
        law=_object(path, arrays, "law"),
        time_step=float(arrays["time_step"]) if "time_step" in arrays else None,
        lacks=tuple(sorted(lacks)),
    )


def _require_scalable(path: str, name: str, array: np.ndarray) -> None:
    """Raise a DataError where numbers are so large or small that single precision loses them."""
    for index in too_large(array, LARGEST_SINGLE)[:1].tolist():
        first = tuple(int(number) for number in np.unravel_index(index, array.shape))
        raise DataError(
            f"{path}: {name}{list(first)} is {array[first]:g}, beyond ±{LARGEST_SINGLE:g} and too large to be scaled; "
            f"give {name} in another unit."
        )
    if 0 < (largest := float(np.abs(array).max(initial=0))) < MIN_SINGLE:
        raise DataError(
            f"{path}: no number in {name} is larger than {largest:g}, too small to be scaled; give {name} in another "
            "unit."
        )


def _object(path: str, arrays: Mapping[str, np.ndarray], name: str) -> JsonObject:
    """A JSON object among the arrays; an empty one where it is not there."""
    if name not in arrays:
        return {}
    try:
        content: object = parse_json(str(arrays[name]))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: {name} is not JSON: {error}") from error
    return {str(key): value for key, value in content.items()} if isinstance(content, dict) else {}


def split_moments(
    motion: Motion,
    start: int | None,
    horizon: int,
    sizes: tuple[float, ...],
    seed: int,
    quantity: Quantity = "positions",
    *,
    every_start: bool = False,
) -> dict[str, MotionRows]:
    """Training, validation and test moments: whole trajectories drawn at random, or, of one, stretches of its time.

    Args:
        motion: the bodies.
        start: the moment that is read; every one where it is None.
        horizon: how many moments later the target is; 0 for accelerations.
        sizes: parts of training, validation and test.
        seed: of the draw.
        quantity: the target.
        every_start: read every moment of the training trajectories, whatever `start` is.

    Raises:
        SettingError: a moment lies outside the file, or `every_start` does nothing.
        DataError: accelerations are the target and are not known, or a body weighs nothing.
    """
    num_trajectories, num_times = motion.positions.shape[:2]
    if every_start and (start is None or num_trajectories == 1):
        reason = "there is no --start: all moments are read" if start is None else "there is one trajectory"
        raise SettingError(f"--every-start does nothing where {reason}; leave it out.")

    if quantity == "accelerations":
        moments = _pulled(motion, start)
    elif not 1 <= horizon < num_times or (start is not None and not 0 <= start < num_times - horizon):
        raise SettingError(
            f"--horizon {horizon}{'' if start is None else f' and --start {start}'}: {motion.source} has {num_times} "
            f"moments, 0 to {num_times - 1}."
        )
    else:
        moments = np.arange(num_times - horizon) if start is None else np.array([start])

    shares = np.cumsum(sizes)[:2]
    if num_trajectories == 1:
        bounds = np.rint(np.concatenate([[0], shares, [1]]) * len(moments)).astype(int)
        # The targets of one stretch are not inputs of the next.
        ends = [max(bounds[0], bounds[1] - horizon), max(bounds[1], bounds[2] - horizon), bounds[3]]
        stretches = [moments[first:end] for first, end in zip(bounds[:-1], ends, strict=True)]
        rows_of_splits = [(np.zeros(len(stretch), dtype=np.int64), stretch) for stretch in stretches]
    else:
        order = np.random.default_rng(seed).permutation(num_trajectories)
        groups = np.split(order, np.rint(shares * num_trajectories).astype(int))
        every = moments
        if every_start:
            every = _pulled(motion, None) if quantity == "accelerations" else np.arange(num_times - horizon)
        rows_of_splits = [
            (np.repeat(np.sort(group), len(read)), np.tile(read, len(group)))
            for group, read in zip(groups, (every, moments, moments), strict=True)
        ]

    return {
        part: MotionRows(motion, trajectory.astype(np.int64), moment.astype(np.int64), horizon, quantity)
        for part, (trajectory, moment) in zip(("train", "val", "test"), rows_of_splits, strict=True)
    }


def require_masses(motion: Motion) -> None:
    """Raise DataError where a body weighs nothing."""
    if not (motion.masses > 0).all():
        raise DataError(f"{motion.source}: masses holds a number that is not above 0; forces are divided by masses.")


def pulled_moments(motion: Motion) -> np.ndarray:
    """The moments at which accelerations are known.

    Raises:
        DataError: there are none, or a body weighs nothing.
    """
    require_masses(motion)
    accelerations = motion.accelerations
    moments = np.flatnonzero([] if accelerations is None else np.isfinite(accelerations).all((0, 2, 3)))
    if not len(moments):
        raise DataError(
            f"{motion.source}: the array 'accelerations' is missing, and they can be computed from positions and "
            "velocities only at three or more moments that are evenly spaced."
        )
    return moments


def require_pulled(motion: Motion, moments: np.ndarray, moment: int, named: str) -> None:
    """Raise a SettingError where a moment is not among those at which accelerations are known."""
    if moment not in moments:
        raise SettingError(
            f"{named} {moment}: {motion.source} has {plural(motion.positions.shape[1], 'moment')}, and accelerations "
            f"at {moments[0]} to {moments[-1]}."
        )


def _pulled(motion: Motion, start: int | None) -> np.ndarray:
    """The moments at which accelerations are known, or the one of them that is read."""
    moments = pulled_moments(motion)
    if start is None:
        return moments
    require_pulled(motion, moments, start, "--start")
    return np.array([start])
