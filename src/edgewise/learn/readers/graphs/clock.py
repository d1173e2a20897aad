"""The times of a series: numbers or dates, sorted, evenly spaced, with missing steps filled or rejected."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64, Int64

from edgewise.choices import Gaps
from edgewise.errors import DataError, plural
from edgewise.learn.readers.graphs.times import (
    CODES,
    OFF_STEP,
    Unit,
    form_of,
    read_times,
    refuse_midnight,
    usual_step,
    write_date,
)

MAX_FILLED = 10
"""The largest factor by which filling missing steps may lengthen a series."""
NUM_DIGITS = 12
"""The digits of a step behind which a number is rounding alone."""
MAX_WHOLE = 1e21
"""Below it whole numbers are written in full."""


@dataclass(frozen=True)
class Clock:
    """Times at equal distances."""

    unit: Unit
    """What is counted."""
    start: float
    """The first time, where times are numbers."""
    step: float
    """The distance from one time to the next."""
    form: str | None = None
    """How dates are written, as `strftime` has it; None is ISO 8601."""
    first: pd.Timestamp | None = None
    """The first date."""
    are_month_ends: bool = False
    """Whether each date is the last of its month."""
    last: float | pd.Timestamp | None = None
    """The last time that is known, from which later ones are counted; None counts them from the first."""
    last_step: int = 0
    """The number of its step."""

    @property
    def interval(self) -> "Interval":
        """The distance from one time to the next, in the unit of a run folder."""
        if self.unit == "number" or self.unit == "month":
            return Interval(self.unit, self.step)
        return Interval("second", self.step / (1e9 if self.unit == "nanosecond" else 1e6))

    @property
    def origin(self) -> float:
        """The first time in the unit of the interval: a number, seconds since 1970, or months since the year 0."""
        if self.first is None:
            return self.start
        return float(12 * self.first.year + self.first.month) if self.unit == "month" else self.first.timestamp()

    @property
    def is_of_day(self) -> bool:
        """Whether times are of a day, without a date."""
        return self.form is not None and self.form.startswith(("%H", "%I")) and "%d" not in self.form

    def at(self, step: int) -> str:
        """The name of a step, also beyond the last one."""
        time = self.time(step)
        if not isinstance(time, pd.Timestamp):
            return _plain(time, self.step)
        return self.written(time)

    def written(self, date: pd.Timestamp) -> str:
        """A date in the form of the others."""
        return str(date) if self.form is None else write_date(date, self.form)

    def time(self, step: int) -> float | pd.Timestamp:
        """The number or the date of a step, also beyond the last one."""
        known: float | pd.Timestamp = self.start if self.first is None else self.first
        num_steps = step
        if self.last is not None and step >= self.last_step:
            # Times may be a little off their steps, and what they are off by must not grow with the length of a series.
            known, num_steps = self.last, step - self.last_step
        elapsed = num_steps * self.step
        if not isinstance(known, pd.Timestamp):
            return known + elapsed
        if self.unit == "month":
            moment = known + pd.DateOffset(months=round(elapsed))
            return moment + pd.offsets.MonthEnd(0) if self.are_month_ends else moment
        code = CODES[self.unit]
        return known.as_unit(code) + pd.Timedelta(np.timedelta64(round(elapsed), code))


@dataclass(frozen=True)
class Interval:
    """The time from one step to the next."""

    unit: Literal["number", "second", "month"]
    length: float

    def __str__(self) -> str:
        if self.unit == "number":
            return f"{self.length:g}"
        if self.unit == "month":
            return plural(round(self.length), "month")
        days, rest = divmod(self.length, 86_400)
        return str(pd.Timedelta(seconds=self.length)).removeprefix("0 days ") if rest else plural(int(days), "day")

    def is_as(self, other: "Interval") -> bool:
        """Whether both are as long, but for rounding."""
        return self.unit == other.unit and math.isclose(self.length, other.length, rel_tol=OFF_STEP)


@dataclass(frozen=True, eq=False)
class Timed:
    """A series in the order of its times, a row a step."""

    values: Float64[np.ndarray, " time node"]
    times: tuple[str, ...]
    clock: Clock | None
    """None where there are fewer than two times."""
    notes: tuple[str, ...]
    """Notes about changes, one line each."""
    interpolated: Bool[np.ndarray, " time"] | None = None
    """Which steps no row has, and lie on straight lines between those around them; None where there are none."""


def in_time(
    cells: Sequence[str], values: Float64[np.ndarray, " row node"], lines: Sequence[int], gaps: Gaps, source: str
) -> Timed:
    """Rows sorted by their times, repeats joined to their mean, and missing times filled.

    Args:
        cells: The time of each row.
        values: NaN where nothing is known.
        lines: The line of each row in the file.
        gaps: error refuses missing and repeated times; mask fills them with unknown values; interpolate with those on
            a straight line between the rows around them.
        source: What an error calls the file and the column.

    Raises:
        DataError: A time is neither a number nor a date, times are not evenly spaced, or `gaps` forbids missing ones.
    """
    refuse_midnight(cells, lines, source)
    read = read_times(cells, lines, source)
    numbers, dates, notes = read.numbers, read.dates, list(read.notes)
    order = np.argsort(numbers, kind="stable")
    if num_moved := int((order != np.arange(len(order))).sum()):
        notes.append(f"{plural(num_moved, 'row was', 'rows were')} out of order and sorted by time")

    numbers, values = numbers[order], values[order]
    names = [cells[row] for row in order]
    _, firsts, counts = np.unique(numbers, return_index=True, return_counts=True)
    if len(firsts) < len(numbers):
        index = int(firsts[counts > 1][0])
        pair = (
            f"{source}: lines {lines[order[index]]} and {lines[order[index + 1]]} both have the time {names[index]!r}"
        )
        if gaps == "error":
            raise DataError(f"{pair}; remove one, or let --gaps mask take the mean of repeated times.")
        notes.append(
            f"{plural(int((counts > 1).sum()), 'time occurs', 'times occur')} in several rows, which are averaged"
        )
        values = np.stack([_mean(values[first : first + count]) for first, count in zip(firsts, counts, strict=True)])
        numbers, names = numbers[firsts], [names[first] for first in firsts]

    if len(numbers) < 2:
        return Timed(values, tuple(names), None, tuple(notes))
    step = usual_step(numbers)
    steps = _steps(numbers, step, names, source)
    first = None if dates is None else dates[int(order[0])]
    last = float(numbers[-1]) if dates is None else dates[int(order[-1])]
    if dates is None:
        step = _exact(step, numbers)

    form = None if dates is None else read.form or form_of(cells, dates, read.is_day_first)
    clock = Clock(read.unit, float(numbers[0]), step, form, first, read.are_month_ends, last, int(steps[-1]))
    return _filled(values, names, steps, clock, gaps, notes, source)


def is_counter(values: Float64[np.ndarray, " row"]) -> bool:
    """Whether numbers grow by equal steps, as times do."""
    steps = np.diff(values)
    return len(steps) > 1 and bool(np.isfinite(steps).all() and steps[0] > 0 and np.allclose(steps, steps[0]))


def _filled(
    values: np.ndarray,
    names: list[str],
    steps: Int64[np.ndarray, " row"],
    clock: Clock,
    gaps: Gaps,
    notes: list[str],
    source: str,
) -> Timed:
    length = int(steps[-1]) + 1
    if missing := length - len(steps):
        row = int(np.argmax(np.diff(steps) > 1))
        message = f"{plural(missing, 'step is', 'steps are')} missing, the first after {names[row]!r}"
        if gaps == "error":
            raise DataError(f"{source}: {message}; add them, or fill them with --gaps mask or interpolate.")
        if length > MAX_FILLED * len(steps):
            raise DataError(f"{source}: {message}, more than can be filled.")
        notes.append(f"{message}: {'masked' if gaps == 'mask' else 'interpolated'}")

    filled = np.full((length, values.shape[1]), np.nan)
    filled[steps] = values
    interpolated = None
    if gaps == "interpolate" and missing:
        absent = np.setdiff1d(np.arange(length), steps)
        interpolated = np.isin(np.arange(length), absent)
        for node, column in enumerate(values.T):
            if (is_present := ~np.isnan(column)).any():
                filled[absent, node] = np.interp(absent, steps[is_present], column[is_present])

    called = dict(zip(steps.tolist(), names, strict=True))
    times = tuple(called.get(step) or clock.at(step) for step in range(length))
    return Timed(filled, times, clock, tuple(notes), interpolated)


def _mean(rows: np.ndarray) -> np.ndarray:
    """The mean of each column, without NaN."""
    counts = (~np.isnan(rows)).sum(0)
    return np.where(counts > 0, np.nansum(rows, 0) / np.maximum(counts, 1), np.nan)


def _steps(numbers: np.ndarray, step: float, names: Sequence[str], source: str) -> Int64[np.ndarray, " row"]:
    parts = np.diff(numbers) / step
    if (off := np.flatnonzero(np.abs(parts - np.rint(parts)) > OFF_STEP)).size:
        before, after = names[int(off[0])], names[int(off[0]) + 1]
        raise DataError(
            f"{source}: times lie at no equal distances: from {before!r} to {after!r} it is {parts[off[0]]:.3g} of the "
            "usual step; give a row for each step, or leave out --time-column to count rows."
        )
    return np.concatenate([[0], np.cumsum(np.rint(parts))]).astype(np.int64)


def _exact(step: float, numbers: np.ndarray) -> float:
    """A distance between numbers without what their rounding adds: 0.1 between seconds since 1970."""
    return round(step, _decimals(float(np.abs(numbers).max()))) or step


def _plain(time: float, step: float) -> str:
    """A number as text: whole ones in full, others to the digits that times at such distances have."""
    largest = max(abs(time), step)
    rounded = round(time, max(0, min(NUM_DIGITS - 1 - math.floor(math.log10(step)), _decimals(largest))))
    return str(int(rounded)) if rounded.is_integer() and largest < MAX_WHOLE else repr(rounded)


def _decimals(largest: float) -> int:
    """The decimals that numbers up to some size have in double precision, but for the last bits."""
    return max(0, math.floor(-math.log10(4 * float(np.spacing(largest)))))
