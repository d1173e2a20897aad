"""The force that was learned, read off: two bodies alone, at one distance after the other."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from edgewise.learn.readers.motion.dynamics import law_of
from edgewise.learn.readers.motion.motion import Moments, Motion
from edgewise.learn.tasks.motion.trained import FittedDynamics

NUM_DISTANCES, NUM_STRETCHES = 60, 5
"""Distances at which a force is read off, and stretches of them whose slopes are compared."""
MOST_ROWS = 2000
"""Moments out of which distances are taken."""


@dataclass(frozen=True, eq=False)
class PairPull:
    """How hard one body pulls another, with nobody else there."""

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

    def scores(self) -> dict[str, Any]:
        """Exponents of a power law through each, with how much they differ from stretch to stretch, and how far the
        learned pull is from the law, as a part of it."""
        found: dict[str, Any] = {
            "receiver": self.receiver,
            "sender": self.sender,
            "nearest": float(self.distances[0]),
            "farthest": float(self.distances[-1]),
            "learned": exponent(self.distances, self.learned),
        }
        if self.law is not None and np.all(self.law != 0):
            wrong = np.abs(self.learned / self.law - 1)
            found |= {
                "law": exponent(self.distances, self.law),
                "median_error": float(np.median(wrong)),
                "largest_error": float(wrong.max()),
            }
        return found


def exponent(distances: np.ndarray, pulls: np.ndarray) -> dict[str, float] | None:
    """The slope of ln |pull| over ln distance, by least squares, and ± the standard deviation of the slopes of five
    stretches of equal length in logarithm; None where the pull changes its sign or vanishes, and no power fits."""
    if not (np.all(pulls > 0) or np.all(pulls < 0)):
        return None
    x, y = np.log(distances), np.log(np.abs(pulls))
    slopes = [
        np.polyfit(*part, 1)[0]
        for part in zip(np.array_split(x, NUM_STRETCHES), np.array_split(y, NUM_STRETCHES), strict=True)
    ]
    return {"exponent": float(np.polyfit(x, y, 1)[0]), "plus_minus": float(np.std(slopes, ddof=1))}


def read_off(trained: FittedDynamics, moments: Moments) -> PairPull | None:
    """The pull between the two bodies that the law couples most, over the distances of the moments that were learned.

    Returns:
        None where nothing couples any two bodies.
    """
    motion = moments.motion
    receiver, sender, trajectory = strongest_pair(motion)
    distances = reached(moments)
    if distances is None:
        return None
    count, pair = len(distances), np.array([receiver, sender])
    positions = np.zeros((count, 1, 2, motion.positions.shape[-1]), dtype=np.float32)
    positions[:, 0, 1, 0] = distances
    couplings = np.repeat(motion.strengths[trajectory][np.ix_(pair, pair)][None], count, axis=0)
    charges = np.repeat(motion.charges[trajectory][pair][None], count, axis=0)
    two = Motion("two bodies", positions, np.zeros_like(positions), np.zeros(1), charges, couplings, motion.units)
    alone = Moments(two, np.arange(count), np.zeros(count, dtype=np.int64), 0)
    law = law_of(motion.law, two.masses, couplings.astype(np.float64))
    return PairPull(
        motion.names[receiver],
        motion.names[sender],
        distances,
        trained.predict(alone)[:, 0, 0].astype(np.float64),
        None if law is None else law(positions[:, 0].astype(np.float64))[0][:, 0, 0],
    )


def strongest_pair(motion: Motion) -> tuple[int, int, int]:
    """The receiver, the sender, which is at least as heavy, and the trajectory of the largest coupling."""
    size = np.abs(motion.strengths) * ~np.eye(len(motion.names), dtype=bool)
    trajectory, one, other = np.unravel_index(size.argmax(), size.shape)
    masses = motion.masses[trajectory]
    receiver, sender = (other, one) if masses[one] >= masses[other] else (one, other)
    return int(receiver), int(sender), int(trajectory)


def reached(moments: Moments) -> np.ndarray | None:
    """Distances that were learned from: of each body from those whose coupling is at least half of its largest one, but
    for the nearest and the farthest of a hundred."""
    rows = np.unique(np.linspace(0, len(moments.moment) - 1, MOST_ROWS).astype(int))
    trajectory, motion = moments.trajectory[rows], moments.motion
    places = motion.positions[trajectory, moments.moment[rows]].astype(np.float64)
    apart = np.sqrt(((places[:, None] - places[:, :, None]) ** 2).sum(-1))
    size = np.abs(motion.strengths[trajectory]) * ~np.eye(places.shape[1], dtype=bool)
    counts = (size > 0) & (size >= 0.5 * size.max(-1, keepdims=True)) & (apart > 0)
    if not counts.any():
        return None
    nearest, farthest = np.quantile(apart[counts], [0.01, 0.99])
    return np.geomspace(nearest, max(farthest, 1.0001 * nearest), NUM_DISTANCES)
