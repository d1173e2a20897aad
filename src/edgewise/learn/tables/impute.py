"""Missing numbers: filled with the median of their column over the training rows, and marked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from edgewise.errors import DataError, plural
from edgewise.learn.tables.cell import OK, is_predicted

FILLED = "filled with the median"
"""The phrase in the status of a row."""
MAX_ROWS, MAX_NUMBERS = 2**16, 2**22
"""The rows above which a median is computed from about this many, evenly chosen; fewer where rows are wide."""
MAX_NAMED = 5
"""Columns that are named in a line."""


@dataclass(frozen=True)
class Imputer:
    """Fills missing numbers with medians, and marks them: one more feature for each column that lacked some in
    training, 1 where a number is missing. A column that lacked none in training is filled all the same."""

    median: tuple[float, ...] = ()
    """The median of each column over the training rows; 0 for a column without numbers. Empty where nothing is
    filled."""
    marked: tuple[int, ...] = ()
    """The columns, counted from 0, that lacked numbers in some training rows, and had them in others."""

    def __post_init__(self) -> None:
        if not all(0 <= column < len(self.median) for column in self.marked) or np.isnan(self.median).any():
            raise DataError("Imputer: marked must be columns of median, which are finite numbers.")

    @classmethod
    def fit(cls, parts: Iterable[Float[np.ndarray, " row feature"]]) -> "Imputer":
        """Fits to training rows that come in parts; NaN is missing."""
        samples, counts, num_rows, stride = [], 0, 0, 1
        for part in parts:
            counts = counts + np.isnan(part).sum(axis=0)
            max_rows = max(1, min(MAX_ROWS, MAX_NUMBERS // max(1, part.shape[1])))
            stride = max(stride, len(part) // max_rows)
            samples.append(part[-num_rows % stride :: stride].copy())
            num_rows += len(part)
            if sum(map(len, samples)) > 2 * max_rows:
                samples, stride = [np.concatenate(samples)[::2].copy()], 2 * stride

        values = np.concatenate(samples)
        lacks = np.isnan(values).any(axis=0)
        median = np.zeros(values.shape[1])
        median[~lacks] = np.median(values[:, ~lacks], axis=0) if len(values) else 0.0

        for column in np.flatnonzero(lacks).tolist():
            present = values[~np.isnan(values[:, column]), column]
            median[column] = np.median(present) if len(present) else 0.0

        marked = np.flatnonzero((counts > 0) & (counts < num_rows))
        return cls(tuple(float(value) for value in median), tuple(int(column) for column in marked))

    def fill(self, values: Float[np.ndarray, " row feature"]) -> Float[np.ndarray, " row feature"]:
        """The values with missing ones filled."""
        is_missing = np.isnan(values)
        if not self.median or not is_missing.any():
            return values
        return np.where(is_missing, np.array(self.median), values)

    def marks(self, values: Float[np.ndarray, " row feature"]) -> Float[np.ndarray, " row marked"]:
        """1 where a number is missing in one of the columns that are marked, else 0."""
        return np.isnan(values[:, list(self.marked)]).astype(np.float64)

    def complete(
        self, values: Float[np.ndarray, " row feature"], *, are_marked: bool = True
    ) -> Float[np.ndarray, " row completed"]:
        """The values with missing ones filled, followed by the marks if `are_marked`."""
        if not self.median:
            return values
        filled = self.fill(values)
        return (np.concatenate([filled, self.marks(values)], axis=1) if are_marked else filled).astype(values.dtype)


def missing_by_row(
    tables: Iterable[tuple[Float[np.ndarray, " _ _"], Int64[np.ndarray, "..."], Sequence[str]]],
) -> dict[int, list[str]]:
    """What rows lack, in words.

    Args:
        tables: numbers, `(line, column)`, NaN where missing; the row that each line belongs to, or the rows,
            `(line, row)`; and the names of the first columns, empty where none are read: all others have no
            number missing.
    """
    names_of_row: dict[int, dict[str, None]] = {}
    for values, rows, names in tables:
        for line, column in np.argwhere(np.isnan(values[:, : len(names)])).tolist():
            for row in rows[line].flatten().tolist() if names[column] else ():
                names_of_row.setdefault(row, {})[names[column]] = None
    return {row: list(row_names) for row, row_names in names_of_row.items()}


def with_filled(status: Sequence[str], missing: Mapping[int, Sequence[str]]) -> list[str]:
    """The status of each row, with the filled numbers of predicted rows.

    Args:
        status: of each row.
        missing: what each row lacks, in words; rows that lack nothing are left out.
    """
    statuses = list(status)
    for row, names in missing.items():
        if is_predicted(statuses[row]):
            verb = "is" if len(names) == 1 else "are"
            joint = "; " if statuses[row] != OK else ", but "
            statuses[row] += f"{joint}{listed(names)} {verb} missing, {FILLED}"
    return statuses


def listed(names: Sequence[str]) -> str:
    """The first of some names, in words."""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more


def filled_notes(
    counts: Int64[np.ndarray, " feature"],
    names: Sequence[str],
    what: str,
    num_rows: int,
    *,
    source: str = "the training rows",
    are_marked: bool = True,
) -> list[str]:
    """Warnings with the counts of filled numbers, and of columns without any number; empty without either.

    Args:
        counts: how many numbers each column lacks.
        names: of the columns.
        what: whose they are, such as "nodes".
        num_rows: how many of these there are.
        source: what the median is of.
        are_marked: whether a further feature says where one was filled.
    """
    is_empty = (counts > 0) & (counts == num_rows)
    empty = [names[column] for column in np.flatnonzero(is_empty).tolist()]
    verb = "has" if len(empty) == 1 else "have"
    lines = [f"warning: {listed(empty)} of {what} {verb} no number in any row: each is read as 0"] if empty else []
    counts = np.where(is_empty, 0, counts)
    if not (total := int(counts.sum())):
        return lines
    filled_columns = [f"{names[column]} {counts[column]:,}" for column in np.flatnonzero(counts).tolist()]
    unit = "missing number", "missing numbers"
    verb = "was" if total == 1 else "were"
    marked = ", and marked" if are_marked else ""

    return [
        *lines,
        f"warning: {plural(total, *unit)} of {what} {verb} filled with the median of {source}{marked}: "
        f"{listed(filled_columns)}",
    ]
