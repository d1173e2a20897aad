"""Single cells as numbers, and the record of those that cannot be read."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64

OK = "ok"
"""The status of a row that can be used."""

# What numpy and pandas write for a missing number.
_MISSING = ("", "nan")


@dataclass(frozen=True)
class Rejection:
    """One row that cannot be used, and why."""

    file: str
    """The file, as it was named."""
    row: int
    """Line of the file on which the row begins; the header is line 1."""
    column: str
    """The first column that cannot be read."""
    value: str
    """The cell as it stands in the file."""
    reason: str
    """What is wrong with it."""


@dataclass
class Problems:
    """The first unreadable cell of each row."""

    first: dict[int, tuple[str, str, str]] = field(default_factory=dict)
    """Row (from 0) → column, cell, reason."""

    def add(self, row: int, column: str, value: str, reason: str) -> None:
        """Remember a cell unless its row has a problem already."""
        self.first.setdefault(row, (column, value, reason))


def read_number(cell: str) -> tuple[float, str]:
    """A finite number and no reason, or NaN and the reason; an empty cell, or `nan`, is NaN with a reason too."""
    text = cell.strip()
    if text == "":
        return math.nan, "empty cell, expected a number"
    try:
        # Python's own `float` accepts 1_000, which no table means.
        number = math.nan if "_" in text else float(text)
    except ValueError:
        number = math.nan
    if math.isinf(number):
        return math.nan, f"{text!r} is infinite, expected a finite number"
    return number, f"{text!r} is not a number" if math.isnan(number) else ""


def read_numbers(
    cells: Sequence[str], column: str, problems: Problems, *, may_be_missing: bool = False, may_be_negative: bool = True
) -> Float64[np.ndarray, " row"]:
    """One column of numbers, NaN where missing or unreadable; what is unreadable goes to `problems`."""
    values = np.full(len(cells), np.nan)
    for row, cell in enumerate(cells):
        number, reason = read_number(cell)
        if number < 0 and not may_be_negative:
            number, reason = math.nan, f"{cell.strip()!r} is negative, expected zero or more"
        values[row] = number
        if reason and not (may_be_missing and is_missing(cell)):
            problems.add(row, column, cell, reason)
    return values


def is_missing(cell: str) -> bool:
    """Whether a cell says that there is no number."""
    return cell.strip().lower() in _MISSING
