"""How the cells of a column are read as times: as numbers, dates, or times of the day without a date."""

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta, timezone
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd
from jaxtyping import Float64

from edgewise.errors import DataError

DAY_MONTH = re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}\b")
"""A date that may begin with its day or its month."""
COMPACT = {8: "%Y%m%d", 6: "%Y%m"}
"""How dates are written in so many digits alone."""
ZONE = re.compile(r":\d\d.*?(Z|[+-]\d\d(?::?\d\d)?)$")
"""The offset after a time of the day."""
OF_DAY = re.compile(
    r"\s*\d{1,2}:\d{2}(?P<second>:\d{2}(?P<fraction>[.,]\d+)?)?(?P<space>\s*)(?P<half>[ap]\.?m\.?)?"
    r"\s*(?P<zone>Z|[+-]\d\d(:?\d\d)?)?\s*",
    re.IGNORECASE,
)
"""A time of the day without a date."""
DAY = "1970-01-01"
"""The day of such times: pandas puts them onto the day on which they are read."""
OFF_STEP = 0.05
"""The tolerance of a time, in steps."""
NUM_FORM_CELLS = 24
"""The number of cells from which the format of dates is guessed."""
MAY = 5
"""The month whose name is as long as its abbreviation."""
Unit: TypeAlias = Literal["number", "nanosecond", "microsecond", "month"]
"""What times count."""
CODES: dict[Unit, Literal["ns", "us"]] = {"nanosecond": "ns", "microsecond": "us"}
"""What numpy and pandas call parts of a second."""


@dataclass(frozen=True, eq=False)
class ReadTimes:
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
        parts = np.diff(numbers) / usual_step(numbers)
        num_between = int((np.abs(parts - np.rint(parts)) > OFF_STEP).sum())
        return len(self.numbers) * (1 + num_between) - len(numbers) + int(np.rint(parts).sum()) - len(parts)


def is_time(cell: str) -> bool:
    """Whether a cell, which is not a number, reads as a date or a time of the day."""
    return bool(np.isfinite(_dated(pd.Series([cell], dtype=object), is_utc=True).numbers).all())


def are_dates(cells: Sequence[str]) -> bool:
    """Whether cells read as dates, and not as numbers."""
    texts = pd.Series(cells, dtype=object)
    if not len(texts) or pd.to_numeric(texts, errors="coerce").notna().any():
        return False
    return is_time(cells[0]) and bool(np.isfinite(_dated(texts, is_utc=True).numbers).all())


def refuse_midnight(cells: Sequence[str], lines: Sequence[int], source: str) -> None:
    """Raise DataError where times of the day without dates go back: sorted, those past midnight would come first."""
    if not all(map(OF_DAY.fullmatch, cells)):
        return
    times = _dated(pd.Series(cells, dtype=object), is_utc=True).numbers
    for row in np.flatnonzero(np.diff(times) < 0)[:1].tolist():
        raise DataError(
            f"{source}: the time goes back from {cells[row]!r} in line {lines[row]} to {cells[row + 1]!r} in line "
            f"{lines[row + 1]}, past midnight or out of order, and times of the day lack a date; write dates, "
            "or leave out --time-column to count rows."
        )


def read_times(cells: Sequence[str], lines: Sequence[int], source: str) -> ReadTimes:
    """The cells as numbers or dates; of several ways to read all of them, that under which the times are most regular:
    `20240131` may be a number or a date, `01.02.2024` the second of January or the first of February."""
    texts = pd.Series(cells, dtype=object)
    numbers = pd.to_numeric(texts, errors="coerce").to_numpy(np.float64)
    is_number = np.isfinite(numbers)
    ways = [ReadTimes(numbers)] if is_number.all() else []

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


def _dated(texts: pd.Series, form: str | None = None, *, is_utc: bool = False, is_day_first: bool = False) -> ReadTimes:
    """The cells as dates; in UTC with `is_utc`, unless days or months are counted by clocks on the wall."""
    if form is None and all(map(OF_DAY.fullmatch, texts)):
        texts = f"{DAY} " + texts
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
        return ReadTimes(np.where(dates.isna(), np.nan, 0.0))
    dates = _on_the_wall(dates, texts) if is_utc else dates
    months = (dates.year * 12 + dates.month).to_numpy(np.float64)
    are_month_ends = bool(dates.is_month_end.all())
    is_monthly = (len(set(dates.day)) == 1 or are_month_ends) and len(set(dates.time)) == 1 and len(set(months)) > 1
    if is_monthly:
        return ReadTimes(months, "month", dates, form, is_day_first, are_month_ends)

    # Nanoseconds reach from 1678 to 2262 alone.
    is_fine = dates.unit == "ns" and bool((dates.asi8 % 1000).any())
    unit: Unit = "nanosecond" if is_fine else "microsecond"
    counts = dates.as_unit(CODES[unit]).asi8
    return ReadTimes((counts - counts.min()).astype(np.float64), unit, dates, form, is_day_first)


def _on_the_wall(dates: pd.DatetimeIndex, cells: Iterable[str]) -> pd.DatetimeIndex:
    """Dates in UTC as the clocks of their offsets show them, where that is one time of the day for all: days and months
    that begin at midnight lie an hour off where clocks are put forward. All have the offset of the latest."""
    zones = [match[1] if (match := ZONE.search(cell)) else "Z" for cell in cells]
    if len(set(zones)) < 2:
        return dates
    offset_of = {zone: pd.Timestamp(f"{DAY}T00:00{zone}").utcoffset() or timedelta(0) for zone in set(zones)}
    offsets = [offset_of[zone] for zone in zones]
    shown = dates.tz_localize(None) + pd.TimedeltaIndex(offsets)
    if len(set(shown.time)) > 1 or shown.nunique() < dates.nunique():
        return dates
    return shown.tz_localize(timezone(offsets[int(np.argmax(dates.asi8))]))


def usual_step(numbers: np.ndarray) -> float:
    """The most frequent distance, one that occurs; the smallest of several.

    Times may be a little off their steps: the smallest distance and its multiples may then be none of the usual ones.
    """
    distances = np.diff(numbers)
    rounded, counts = np.unique(np.round(distances / distances.min(), 2), return_counts=True)
    usual = distances.min() * rounded[np.argmax(counts)]
    near = np.sort(distances[np.abs(distances - usual) <= OFF_STEP * usual])
    return float(near[(len(near) - 1) // 2])


def form_of(cells: Sequence[str], dates: pd.DatetimeIndex, is_day_first: bool) -> str | None:
    """The form in which most of some cells are written: May alone may be a whole name or a short one, and 02/03 a day
    or a month first."""
    telling = [np.flatnonzero(is_telling)[:1] for is_telling in (dates.month != MAY, dates.day != dates.month)]
    evenly = np.linspace(0, len(cells) - 1, NUM_FORM_CELLS).round().astype(int)
    rows = np.unique(np.concatenate([evenly, *telling])).tolist()
    forms = [_guessed(cells[row], first) for first in (is_day_first, not is_day_first) for row in rows]
    known_forms = [form for form in dict.fromkeys(forms) if form is not None]
    return max(
        known_forms, key=lambda form: sum(write_date(dates[row], form) == cells[row] for row in rows), default=None
    )


def _guessed(cell: str, is_day_first: bool) -> str | None:
    from pandas.tseries.api import guess_datetime_format

    if (of_day := OF_DAY.fullmatch(cell)) is not None:
        seconds = (":%S" if of_day["second"] else "") + (".%f" if of_day["fraction"] else "")
        half = of_day["space"] + "%p" if of_day["half"] else ""
        form = f"{'%I' if half else '%H'}:%M{seconds}{half}"
        return form + (_zone_form(of_day["zone"]) if of_day["zone"] else "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        form = guess_datetime_format(cell, dayfirst=is_day_first)
    if form is not None and form.endswith("%z"):
        return form.removesuffix("%z") + _zone_form(cell)
    return form


def _zone_form(cell: str) -> str:
    """How the offset at the end of a cell is written."""
    return "Z" if cell.endswith("Z") else "%:z" if cell[-3] == ":" else "%z"


def write_date(moment: pd.Timestamp, form: str) -> str:
    """A date in a form; `%:z`, an offset with a colon, is new in Python 3.12."""
    written = moment.strftime(form.replace("%:z", "%z"))
    return f"{written[:-2]}:{written[-2:]}" if form.endswith("%:z") else written
