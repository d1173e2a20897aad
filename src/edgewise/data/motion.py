"""Trajectories to learn from: where bodies are at one moment, and where they will be at a later one."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Int64

from edgewise.data.graph_file import read_arrays
from edgewise.errors import DataError, SettingError
from edgewise.neighborhood import Edges
from edgewise.records import BodyBatch

NEEDED = ("positions", "velocities")


@dataclass(frozen=True, eq=False)
class Motion:
    """Bodies over time."""

    source: str
    """The file."""
    positions: Float32[np.ndarray, " trajectory time body space"]
    """Where they are."""
    velocities: Float32[np.ndarray, " trajectory time body space"]
    """How fast they go."""
    times: Float32[np.ndarray, " time"]
    """The moments."""
    charges: Float32[np.ndarray, " trajectory body charge"]
    """What is known of each body: its mass, and its charge where that is something else."""
    couplings: Float32[np.ndarray, " trajectory body body"]
    """What is known of each pair; zeros where nothing is."""
    units: Mapping[str, str]
    """The units of time and position."""

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Sender and receiver of every pair of two bodies."""
        receivers, senders = np.nonzero(~np.eye(self.positions.shape[2], dtype=bool))
        return senders, receivers


@dataclass(frozen=True, eq=False)
class Moments:
    """Which moments are read and told: each row is a trajectory, a moment, and the moment `ahead` of it."""

    motion: Motion
    """The bodies."""
    trajectory: Int64[np.ndarray, " row"]
    """Of each row."""
    moment: Int64[np.ndarray, " row"]
    """Of each row, by its number among those kept in the file."""
    ahead: int
    """How many moments later is told."""

    def batch(self, rows: np.ndarray) -> BodyBatch:
        """Some rows, bodies behind each other."""
        motion, trajectory, moment = self.motion, self.trajectory[rows], self.moment[rows]
        num_bodies = motion.positions.shape[2]
        senders, receivers = motion.pairs
        steps = num_bodies * np.arange(len(rows))[:, None]
        edges = Edges(
            torch.from_numpy((steps + senders).ravel()),
            torch.from_numpy((steps + receivers).ravel()),
            num_bodies * len(rows),
            num_bodies * len(rows),
        )
        return BodyBatch(
            positions=torch.from_numpy(motion.positions[trajectory, moment]).flatten(0, 1),
            velocities=torch.from_numpy(motion.velocities[trajectory, moment]).flatten(0, 1),
            charges=torch.from_numpy(motion.charges[trajectory]).flatten(0, 1),
            edges=edges,
            couplings=torch.from_numpy(motion.couplings[trajectory][:, receivers, senders]).reshape(-1, 1),
            targets=torch.from_numpy(motion.positions[trajectory, moment + self.ahead]).flatten(0, 1),
        )


def read_motion(path: str) -> Motion:
    """Read trajectories as `edgewise simulate` writes them.

    Arrays: `positions` and `velocities` (trajectory, time, body, space); where they are there, `times` (time),
    `masses` and `charges` (trajectory, body), `couplings` (trajectory, body, body) and `units`, a JSON object.

    Raises:
        DataError: it is no such file, an array is missing, or shapes do not fit; the message names the array.
    """
    arrays = read_arrays(path)
    if missing := [name for name in NEEDED if name not in arrays]:
        raise DataError(f"{path}: there is no array {missing[0]!r}; the file has {', '.join(arrays) or 'none'}.")
    positions = arrays["positions"]
    if positions.ndim != 4 or 0 in positions.shape or positions.shape[2] < 2:
        raise DataError(
            f"{path}: positions is {positions.shape}, expected (trajectory, time, body, space) with two bodies or more."
        )
    num_trajectories, num_times, num_bodies, _ = positions.shape
    expected = {
        "velocities": positions.shape,
        "times": (num_times,),
        "masses": (num_trajectories, num_bodies),
        "charges": (num_trajectories, num_bodies),
        "couplings": (num_trajectories, num_bodies, num_bodies),
    }
    for name, shape in expected.items():
        if name in arrays and arrays[name].shape != shape:
            raise DataError(f"{path}: {name} is {arrays[name].shape}, but positions asks for {shape}.")
        if name in arrays and not np.isfinite(arrays[name]).all():
            raise DataError(f"{path}: {name} holds NaN or an infinite number.")
    if not np.isfinite(positions).all():
        raise DataError(f"{path}: positions holds NaN or an infinite number.")
    masses = arrays.get("masses", np.ones(expected["masses"]))
    known = [masses]
    if "charges" in arrays and not np.array_equal(arrays["charges"], masses):
        known.append(arrays["charges"])
    return Motion(
        source=path,
        positions=positions.astype(np.float32),
        velocities=arrays["velocities"].astype(np.float32),
        times=arrays.get("times", np.arange(num_times)).astype(np.float32),
        charges=np.stack(known, -1).astype(np.float32),
        couplings=arrays.get("couplings", np.zeros(expected["couplings"])).astype(np.float32),
        units=_units(path, arrays),
    )


def _units(path: str, arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    if "units" not in arrays:
        return {}
    try:
        found: Any = json.loads(str(arrays["units"]))
    except json.JSONDecodeError as error:
        raise DataError(f"{path}: units is not JSON: {error}") from error
    return {str(name): str(unit) for name, unit in found.items()} if isinstance(found, dict) else {}


def parted(motion: Motion, start: int | None, ahead: int, sizes: tuple[float, ...], seed: int) -> dict[str, Moments]:
    """Training, validation and test moments: whole trajectories drawn at random, or, of one, stretches of its time.

    Args:
        motion: the bodies.
        start: the moment that is read; every one where it is None.
        ahead: how many moments later is told.
        sizes: parts of training, validation and test.
        seed: of the draw.

    Raises:
        SettingError: a moment lies outside the file.
    """
    num_trajectories, num_times = motion.positions.shape[:2]
    if not 1 <= ahead < num_times or (start is not None and not 0 <= start < num_times - ahead):
        raise SettingError(
            f"--ahead {ahead}{'' if start is None else f' and --start {start}'}: {motion.source} has {num_times} "
            f"moments, 0 to {num_times - 1}."
        )
    shares = np.cumsum(sizes)[:2]
    if num_trajectories == 1:
        last = num_times - ahead
        bounds = np.rint(np.concatenate([[0], shares, [1]]) * last).astype(int)
        # What is told of one stretch is not read in the next.
        ends = [max(bounds[0], bounds[1] - ahead), max(bounds[1], bounds[2] - ahead), bounds[3]]
        stretches = [np.arange(first, end) for first, end in zip(bounds[:-1], ends, strict=True)]
        found = [(np.zeros(len(stretch), dtype=np.int64), stretch) for stretch in stretches]
    else:
        order = np.random.default_rng(seed).permutation(num_trajectories)
        moments = np.arange(num_times - ahead) if start is None else np.array([start])
        groups = np.split(order, np.rint(shares * num_trajectories).astype(int))
        found = [
            (np.repeat(np.sort(group), len(moments)), np.tile(moments, len(group)).astype(np.int64)) for group in groups
        ]
    return {
        part: Moments(motion, trajectory.astype(np.int64), moment, ahead)
        for part, (trajectory, moment) in zip(("train", "val", "test"), found, strict=True)
    }
