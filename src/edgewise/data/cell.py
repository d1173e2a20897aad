"""Single cells as numbers or class labels, and the record of those that cannot be read."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64

from edgewise.errors import DataError

Classes = dict[str, list[str]]
OK = "ok"
"""The status of a row that can be used."""

_WHOLE_NUMBER = re.compile(r"[+-]?\d+(\.0*)?")
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


def find_classes(cells: Sequence[str], column: str, file: str, *, two: bool) -> list[str]:
    """The names of the classes in a column, in the order of their numbers.

    Whole numbers stand in the order of numbers, names in that of the alphabet; 1.0 is 1. Where most cells are whole
    numbers, the others are no classes but mistakes.

    Raises:
        DataError: the column is empty, has one class, more than two where two are expected, or numbers with
            fractions.
    """
    counts = Counter(label for cell in cells if (label := _label(cell)))
    if not counts:
        raise DataError(f"{file}, column {column!r}: every cell is empty, expected classes.")
    whole = {label: count for label, count in counts.items() if _WHOLE_NUMBER.fullmatch(label)}
    if 2 * sum(whole.values()) > counts.total():
        names = sorted(whole, key=int)
    else:
        names = sorted(counts)
        fraction = next((name for name in names if name not in whole and not read_number(name)[1]), None)
        if fraction is not None:
            raise DataError(
                f"{file}, column {column!r}: {fraction} is a number with a fraction, expected classes; "
                "use the task type regression."
            )
    if two and set(names) <= {"0", "1"}:
        return ["0", "1"]
    if len(names) == 1:
        raise DataError(f"{file}, column {column!r}: the only class is {names[0]!r}, expected two or more.")
    if two and len(names) > 2:
        shown = ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
        raise DataError(
            f"{file}, column {column!r}: {len(names)} classes ({shown}), expected two; use the task type multiclass."
        )
    return names


def read_labels(
    cells: Sequence[str], column: str, names: Sequence[str], problems: Problems
) -> Float64[np.ndarray, " row"]:
    """One column of classes as their places in `names`, NaN where missing or unknown."""
    place = {name: float(index) for index, name in enumerate(names)}
    values = np.full(len(cells), np.nan)
    for row, cell in enumerate(cells):
        label = _label(cell)
        values[row] = place.get(label, math.nan)
        if label and label not in place:
            expected = ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
            problems.add(row, column, cell, f"{cell.strip()!r} is not one of the classes {expected}")
    return values


def _label(cell: str) -> str:
    """The name of a class in one writing; nothing for a missing one."""
    text = cell.strip()
    if is_missing(text):
        return ""
    return str(int(float(text))) if _WHOLE_NUMBER.fullmatch(text) else text
