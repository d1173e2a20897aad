"""What a run was asked to do."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """How often each peer is timed."""

    seconds: float = 0.2
    """Spent on each peer and mode, about."""
    least: int = 7
    """Repetitions, at least."""
    most: int = 60
    """Repetitions, at most."""
    slow: float = 400.0
    """A peer that takes longer than this for one call, in ms, is timed `least_slow` times only."""
    least_slow: int = 3
    """Repetitions of a slow peer."""


@dataclass(frozen=True)
class Options:
    """What a run was asked to do."""

    ours: str = "triton"
    """The backend of edgewise that is measured."""
    quick: bool = False
    """Tiny sizes and few repetitions, to see that everything runs; the numbers mean nothing."""
    minutes: float = 9.0
    """For everything together; what does not fit is cut, and the report says so."""

    @property
    def pace(self) -> Pace:
        """How often each peer is timed."""
        return Pace(seconds=0.01, least=3, most=4) if self.quick else Pace()
