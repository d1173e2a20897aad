"""The times of a series: numbers or dates, sorted, evenly spaced, with missing steps filled or rejected."""

import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64

from edgewise.choices import Gaps
from edgewise.errors import DataError, plural

DAY_MONTH = re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}\b")
"""A date that may begin with its day or its month."""
COMPACT = {8: "%Y%m%d", 6: "%Y%m"}
"""How dates are written in so many digits alone."""
ZONE = re.compile(r":\d\d.*?(Z|[+-]\d\d(?::?\d\d)?)$")
"""The offset after a time of the day."""
OF_DAY = re.compile(r"\s*\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?\s*([ap]\.?m\.?)?\s*", re.IGNORECASE)
"""A time of the day without a date."""
OFF_STEP = 0.05
"""The tolerance of a time, in steps."""
NUM_FORM_CELLS = 24
"""The number of cells from which the format of dates is guessed."""
MAY = 5
"""The month whose name is as long as its abbreviation."""
MAX_FILLED = 10
"""The largest factor by which filling missing steps may lengthen a series."""
NUM_DIGITS = 12
"""The digits of a step behind which a number is rounding alone."""
MAX_WHOLE = 1e21
"""Below it whole numbers are written in full."""
Unit: TypeAlias = Literal["number", "nanosecond", "microsecond", "month"]
"""What times count."""
CODES: dict[Unit, Literal["ns", "us"]] = {"nanosecond": "ns", "microsecond": "us"}
"""What numpy and pandas call parts of a second."""


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

    def at(self, step: int) -> str:
        """The name of a step, also beyond the last one."""
        time = self.time(step)
        if not isinstance(time, pd.Timestamp):
            return _plain(time, self.step)
        return str(time) if self.form is None else _written(time, self.form)

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
    _refuse_midnight(cells, lines, source)
    read = _parsed(cells, lines, source)
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
    step = _step(numbers)
    steps = _steps(numbers, step, names, source)
    first = None if dates is None else dates[int(order[0])]
    last = float(numbers[-1]) if dates is None else dates[int(order[-1])]
    if dates is None:
        step = _exact(step, numbers)

    form = None if dates is None else read.form or _form(cells, dates, read.is_day_first)
    clock = Clock(read.unit, float(numbers[0]), step, form, first, read.are_month_ends, last, int(steps[-1]))
    return _filled(values, names, steps, clock, gaps, notes, source)


def _refuse_midnight(cells: Sequence[str], lines: Sequence[int], source: str) -> None:
    """Raise DataError where times of the day without dates go back: sorted, those past midnight would come first."""
    if not all(map(OF_DAY.fullmatch, cells)):
        return
    times = _dated(pd.Series(cells, dtype=object)).numbers
    for row in np.flatnonzero(np.diff(times) < 0)[:1].tolist():
        raise DataError(
            f"{source}: the time goes back from {cells[row]!r} in line {lines[row]} to {cells[row + 1]!r} in line "
            f"{lines[row + 1]}, past midnight or out of order, and times of the day lack a date; write dates, "
            "or leave out --time-column to count rows."
        )


def is_time(cell: str) -> bool:
    """Whether a cell, which is not a number, reads as a date or a time of the day."""
    return bool(np.isfinite(_dated(pd.Series([cell], dtype=object)).numbers).all())


def are_dates(cells: Sequence[str]) -> bool:
    """Whether cells read as dates, and not as numbers."""
    texts = pd.Series(cells, dtype=object)
    if not len(texts) or pd.to_numeric(texts, errors="coerce").notna().any():
        return False
    return is_time(cells[0]) and bool(np.isfinite(_dated(texts).numbers).all())


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
    if gaps == "interpolate":
        absent = np.setdiff1d(np.arange(length), steps)
        for node, column in enumerate(values.T):
            if (is_present := ~np.isnan(column)).any():
                filled[absent, node] = np.interp(absent, steps[is_present], column[is_present])

    called = dict(zip(steps.tolist(), names, strict=True))
    times = tuple(called.get(step) or clock.at(step) for step in range(length))
    return Timed(filled, times, clock, tuple(notes))


@dataclass(frozen=True, eq=False)
class _Read:
    """One way to read the cells of a time column."""

    numbers: Float64[np.ndarray, " row"]
    """NaN where a cell cannot be read so: of dates the months, or the parts of a second after the earliest."""
    unit: Unit = "number"
    dates: pd.DatetimeIndex | None = None
    form: str | None = None
    """How dates are written, where that is known."""
    is_day_first: bool = False
    are_month_ends: bool = False
    notes: tuple[str, ...] = ()

    @property
    def num_irregular(self) -> int:
        """The number of times that are not evenly spaced: repeated, missing, or in between."""
        numbers = np.unique(self.numbers)
        if len(numbers) < 2:
            return 0
        parts = np.diff(numbers) / _step(numbers)
        num_between = int((np.abs(parts - np.rint(parts)) > OFF_STEP).sum())
        return len(self.numbers) * (1 + num_between) - len(numbers) + int(np.rint(parts).sum()) - len(parts)


def _parsed(cells: Sequence[str], lines: Sequence[int], source: str) -> _Read:
    """The cells as numbers or dates; of several ways to read all of them, that under which the times are most regular:
    `20240131` may be a number or a date, `01.02.2024` the second of January or the first of February."""
    texts = pd.Series(cells, dtype=object)
    numbers = pd.to_numeric(texts, errors="coerce").to_numpy(np.float64)
    is_number = np.isfinite(numbers)
    ways = [_Read(numbers)] if is_number.all() else []

    lengths = {len(cell) if cell.isdecimal() else 0 for cell in cells}
    if ways and len(lengths) == 1 and (form := COMPACT.get(length := lengths.pop())):
        # Eight digits that are all dates are hardly anything else; six may count.
        ways.insert(0 if length == 8 else 1, _dated(texts, form=form))

    if not ways:
        is_utc = _has_several_zones(cells, lines, source)
        ways.append(_dated(texts, is_utc=is_utc))
        if all(map(DAY_MONTH.match, cells)):
            ways.append(_dated(texts, is_utc=is_utc, is_day_first=True))
            # Dates that begin with the day usually have dots.
            ways.sort(key=lambda way: way.is_day_first == ("." not in cells[0]))

    complete = [way for way in ways if np.isfinite(way.numbers).all()]
    if not complete:
        bad = is_number if is_number.any() else ~np.isnan(ways[0].numbers)
        row = int(np.flatnonzero(~bad)[0])
        raise DataError(
            f"{source}, line {lines[row]}: {cells[row]!r} is not a time; expected numbers or dates, all alike."
        )

    chosen = min(complete, key=lambda way: way.num_irregular)
    if chosen.dates is not None and (len(ways) > 1 or chosen.form):
        return replace(chosen, notes=(f"the time {cells[0]!r} is read as {chosen.dates[0].date()}",))
    return chosen


def _has_several_zones(cells: Sequence[str], lines: Sequence[int], source: str) -> bool:
    """Whether times have several offsets to UTC, as where clocks are put forward and back.

    Raises:
        DataError: Some have an offset, and others have none.
    """
    zones = [match[1] if (match := ZONE.search(cell)) else None for cell in cells]
    if None in zones and any(zones):
        row = next(row for row, zone in enumerate(zones) if (zone is None) != (zones[0] is None))
        words = ("has a time zone", "has none")
        first, second = words if zones[0] else words[::-1]
        raise DataError(
            f"{source}: {cells[0]!r} in line {lines[0]} {first}, but {cells[row]!r} in line {lines[row]} {second}; "
            "write all alike."
        )

    return len(set(zones)) > 1


def _dated(texts: pd.Series, form: str | None = None, *, is_utc: bool = False, is_day_first: bool = False) -> _Read:
    """The cells as dates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about cells whose form cannot be guessed, which are refused by the caller
        read = pd.to_datetime(texts, errors="coerce", utc=is_utc, dayfirst=is_day_first, format=form)
        if form is None and (failed := np.flatnonzero(read.isna())).size and failed[0]:
            # The form is guessed from the first cell: where that is in May, names of months are taken for whole ones.
            day_first_form = _guessed(texts[int(failed[0])], is_day_first)
            if day_first_form is not None and "%:" not in day_first_form:
                reparsed = pd.to_datetime(texts, errors="coerce", utc=is_utc, format=day_first_form)
                read = reparsed if reparsed.notna().all() else read
        if form is None and (read.isna().any() or not hasattr(read, "dt")):
            read = pd.to_datetime(texts, errors="coerce", utc=True, format="ISO8601")

    dates = pd.DatetimeIndex(read)
    if dates.hasnans:
        return _Read(np.where(dates.isna(), np.nan, 0.0))
    months = (dates.year * 12 + dates.month).to_numpy(np.float64)
    are_month_ends = bool(dates.is_month_end.all())
    is_monthly = (len(set(dates.day)) == 1 or are_month_ends) and len(set(dates.time)) == 1 and len(set(months)) > 1
    if is_monthly:
        return _Read(months, "month", dates, form, is_day_first, are_month_ends)

    # Nanoseconds reach from 1678 to 2262 alone.
    is_fine = dates.unit == "ns" and bool((dates.asi8 % 1000).any())
    unit: Unit = "nanosecond" if is_fine else "microsecond"
    counts = dates.as_unit(CODES[unit]).asi8
    return _Read((counts - counts.min()).astype(np.float64), unit, dates, form, is_day_first)


def _mean(rows: np.ndarray) -> np.ndarray:
    """The mean of each column, without NaN."""
    counts = (~np.isnan(rows)).sum(0)
    return np.where(counts > 0, np.nansum(rows, 0) / np.maximum(counts, 1), np.nan)


def _step(numbers: np.ndarray) -> float:
    """The most frequent distance, one that occurs; the smallest of several.

    Times may be a little off their steps: the smallest distance and its multiples may then be none of the usual ones.
    """
    distances = np.diff(numbers)
    rounded, counts = np.unique(np.round(distances / distances.min(), 2), return_counts=True)
    usual = distances.min() * rounded[np.argmax(counts)]
    near = np.sort(distances[np.abs(distances - usual) <= OFF_STEP * usual])
    return float(near[(len(near) - 1) // 2])


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


def _written(moment: pd.Timestamp, form: str) -> str:
    """A date in a form; `%:z`, an offset with a colon, is new in Python 3.12."""
    written = moment.strftime(form.replace("%:z", "%z"))
    return f"{written[:-2]}:{written[-2:]}" if form.endswith("%:z") else written


def _form(cells: Sequence[str], dates: pd.DatetimeIndex, is_day_first: bool) -> str | None:
    """The form in which most of some cells are written: May alone may be a whole name or a short one, and 02/03 a day
    or a month first."""
    telling = [np.flatnonzero(is_telling)[:1] for is_telling in (dates.month != MAY, dates.day != dates.month)]
    evenly = np.linspace(0, len(cells) - 1, NUM_FORM_CELLS).round().astype(int)
    rows = np.unique(np.concatenate([evenly, *telling])).tolist()
    forms = [_guessed(cells[row], first) for first in (is_day_first, not is_day_first) for row in rows]
    known_forms = [form for form in dict.fromkeys(forms) if form is not None]
    return max(
        known_forms, key=lambda form: sum(_written(dates[row], form) == cells[row] for row in rows), default=None
    )


def _guessed(cell: str, is_day_first: bool) -> str | None:
    from pandas.tseries.api import guess_datetime_format

    if re.fullmatch(r"\d{1,2}:\d{2}", cell):  # a time of the day, which pandas puts onto today
        return "%H:%M"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        form = guess_datetime_format(cell, dayfirst=is_day_first)
    if form is not None and form.endswith("%z"):
        zone = "Z" if cell.endswith("Z") else "%:z" if cell[-3] == ":" else "%z"
        return form.removesuffix("%z") + zone
    return form
