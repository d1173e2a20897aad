"""What came out of the inputs that a reader was given: read, an error of ours, or a find."""

import time
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path

from attack._damage import Target
from edgewise.errors import EdgewiseError

SLOW = 5.0
"""Seconds after which an input of some kilobytes counts as one that hangs."""


@dataclass
class Outcomes:
    """The counts of one reader, and the first input of each find."""

    inputs: int = 0
    read: int = 0
    ours: int = 0
    foreign: int = 0
    slowest: float = 0.0
    """Seconds of the slowest input."""
    finds: dict[str, bytes] = field(default_factory=dict)
    """Where and what, and the first input that led there."""

    def add(self, target: Target, content: bytes) -> None:
        """Reads an input; anything but an error of ours, a wrong result among it, is a find."""
        began, found = time.perf_counter(), None
        self.inputs += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                target.read(content)
            self.read += 1
        except (EdgewiseError, *target.refuses):
            self.ours += 1
        except Exception as error:  # whatever it is, it is what is looked for
            found = f"{type(error).__name__} at {_place(error)}: {str(error)[:160]}"
        seconds = time.perf_counter() - began
        self.slowest = max(self.slowest, seconds)
        if found is None and seconds > SLOW:
            found = f"it took {seconds:.1f} s"
        if found is not None:
            self.foreign += 1
            # Messages of one place differ in numbers; a few inputs say enough.
            place = found.split(":")[0]
            if sum(each.startswith(place) for each in self.finds) < 3 and len(self.finds) < 20:
                self.finds.setdefault(found, content)


def _place(error: Exception) -> str:
    """The innermost line of the package, or of the check of what it read."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if "edgewise" in each.filename or "attack" in each.filename] or frames
    return f"{Path(own[-1].filename).name} {own[-1].lineno}"
