"""What a run was asked to do."""

import os
from dataclasses import dataclass
from pathlib import Path

NUM_THREADS = 2
"""Threads of torch, and with it of our kernels, in everything but the comparison of threads."""
NUM_HEADS, HEAD_DIM = 8, 16
"""Of the workloads on graphs: rows of 128 numbers, 512 bytes in float32."""


@dataclass(frozen=True)
class Pace:
    """How often each peer is timed."""

    seconds: float = 1.0
    """Spent on each peer and mode, about."""
    least: int = 7
    """Repetitions, at least."""
    most: int = 400
    """Repetitions, at most."""
    slow: float = 2.0
    """A peer that takes longer than this for one call, in seconds, is timed `least_slow` times only."""
    least_slow: int = 3
    """Repetitions of a slow peer."""
    attempts: int = 3
    """How often a case is measured again when its times are spread too widely or something else used the machine."""
    spread: float = 0.15
    """The interquartile range of a peer's times, as a part of their median, that is accepted."""


QUICK = Pace(seconds=0.02, least=3, most=5, attempts=1, spread=float("inf"))


@dataclass(frozen=True)
class Options:
    """What a run was asked to do."""

    ours: str = "numba"
    """The backend of edgewise that is measured."""
    quick: bool = False
    """Tiny sizes and few repetitions, to see that everything runs; the numbers mean nothing."""
    force: bool = False
    """Measure on a busy machine too, and mark the report."""

    @property
    def pace(self) -> Pace:
        """How often each peer is timed."""
        if self.quick:
            return QUICK
        return Pace(attempts=1) if self.force else Pace()  # what is busy now will be so again


def data_folder() -> Path | None:
    """The folder of real data sets that EDGEWISE_DATA names, if it is there."""
    folder = os.environ.get("EDGEWISE_DATA")
    return Path(folder) if folder and Path(folder).is_dir() else None
