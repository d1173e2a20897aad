"""A file of rows and columns as the strings that stand in it: CSV, TSV (also gzipped) and Parquet."""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Int64

from edgewise.data.decode import check_file, decoded, uncompressed
from edgewise.errors import DataError, MissingExtraError

try:
    import pandas as pd
except ImportError as error:
    raise MissingExtraError("pandas", "molecules") from error

Values: TypeAlias = Sequence | np.ndarray | pd.Series | pd.DataFrame

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_SUFFIXES = (*_DELIMITERS, *(f"{suffix}.gz" for suffix in _DELIMITERS), ".parquet")


@dataclass(frozen=True, eq=False)
class Cells:
    """The rows of one or several files, every cell a string exactly as it stands in the file."""

    files: tuple[str, ...]
    """The paths as they were given."""
    file_of_row: Int64[np.ndarray, " row"]
    """Which of the files each row stands in, counted from 0."""
    frame: pd.DataFrame
    """One column of strings for each column of the file; an empty cell is an empty string."""
    lines: Int64[np.ndarray, " row"]
    """Line of the file on which each row begins; the header is line 1. For Parquet: the row number plus 1."""

    @property
    def source(self) -> str:
        """All files, for messages about the whole."""
        return ", ".join(self.files)


def read_cells(path: str | Path) -> Cells:
    """Read one table file.

    Args:
        path: a file that ends in .csv, .tsv, .csv.gz, .tsv.gz or .parquet; text in UTF-8, with or without a mark
            at the beginning; the first line names the columns.

    Returns:
        The cells as strings. Blank lines of a file with several columns are passed over; in a file with one column
        a blank line between others is an empty cell.

    Raises:
        DataError: the file is missing, empty, of another kind, damaged, not UTF-8, has ragged rows or two columns
            of one name; the message names the file, the line and the remedy.
    """
    name = str(path)
    file = check_file(name, f"a file that ends in {_join(_SUFFIXES)}")
    suffix = next((end for end in sorted(_SUFFIXES, key=len, reverse=True) if file.name.lower().endswith(end)), None)
    if suffix is None:
        raise DataError(f"{name}: its name ends in {file.suffix!r}, expected {_join(_SUFFIXES)}.")
    if file.stat().st_size == 0:
        raise DataError(f"{name}: the file is empty, expected a first line with the names of the columns.")
    if suffix == ".parquet":
        return _read_parquet(name)
    content = uncompressed(name, file) if suffix.endswith(".gz") else file.read_bytes()
    text = decoded(name, content, "CSV")
    if not text.strip():
        raise DataError(f"{name}: the file is empty, expected a first line with the names of the columns.")
    return _read_delimited(name, text, _DELIMITERS[suffix.removesuffix(".gz")])


def check_columns_exist(cells: Cells, names: tuple[str, ...]) -> None:
    """Raise a `DataError` that names the columns a file lacks and the nearest ones it has."""
    from difflib import get_close_matches

    present = list(cells.frame.columns)
    missing = [name for name in dict.fromkeys(names) if name not in present]
    if not missing:
        return
    folded = {column.strip().casefold(): column for column in present}
    hints = []
    for name in missing:
        near = [folded[key] for key in get_close_matches(name.strip().casefold(), folded, n=3)]
        suggestion = f" (did you mean {_join([repr(column) for column in near])}?)" if near else ""
        hints.append(f"{name!r}{suggestion}")
    shown = ", ".join(repr(column) for column in present[:20]) + (", ..." if len(present) > 20 else "")
    word = "column" if len(missing) == 1 else "columns"
    other = next((mark for mark in (";", "\t", ",", "|") if len(present) == 1 and mark in present[0]), None)
    advice = f" Its first line looks separated by {other!r}, expected commas in .csv and tabs in .tsv." if other else ""
    raise DataError(f"{cells.source}: no {word} {', '.join(hints)}; the file has {shown}.{advice}")


def join_cells(parts: list[Cells]) -> Cells:
    """The rows of several files below each other, columns in the order of the first.

    Raises:
        DataError: two files have different columns; the message names both and what differs.
    """
    first = parts[0]
    for other in parts[1:]:
        only_first = [column for column in first.frame.columns if column not in other.frame.columns]
        only_other = [column for column in other.frame.columns if column not in first.frame.columns]
        if only_first or only_other:
            differences = [
                f"only {cells.source} has {', '.join(map(repr, only))}"
                for cells, only in ((first, only_first), (other, only_other))
                if only
            ]
            raise DataError(
                f"{first.source} and {other.source} have different columns: {'; '.join(differences)}. "
                "Give both files the same columns."
            )
    return Cells(
        files=tuple(cells.source for cells in parts),
        file_of_row=np.repeat(np.arange(len(parts)), [len(cells.frame) for cells in parts]),
        frame=pd.concat([cells.frame[list(first.frame.columns)] for cells in parts], ignore_index=True),
        lines=np.concatenate([cells.lines for cells in parts]),
    )


def cells_from_arrays(arrays: dict[str, Values]) -> tuple[Cells, dict[str, tuple[str, ...]]]:
    """Arrays as if they stood in a file called `arrays`, row after row from line 1.

    Args:
        arrays: name → `(row,)`, or `(row, column)`, whose columns become `name_1`, `name_2`, ...

    Returns:
        The cells, and the columns that each array became.

    Raises:
        DataError: an array has another number of axes, no row, or not as many rows as the first.
    """
    frame: dict[str, list[str]] = {}
    columns_of: dict[str, tuple[str, ...]] = {}
    for name, values in arrays.items():
        array = np.asarray(values, dtype=object)
        if array.ndim not in (1, 2):
            raise DataError(f"{name} has {array.ndim} axes, expected (row,) or (row, column).")
        num_rows = len(next(iter(frame.values()), array))
        if len(array) != num_rows:
            raise DataError(f"{name} has {len(array)} rows, but {next(iter(arrays))} has {num_rows}.")
        if array.ndim == 1:
            columns = {name: array}
        else:
            columns = {f"{name}_{place}": column for place, column in enumerate(array.T, start=1)}
        frame |= {column: [_as_text(value) for value in cells] for column, cells in columns.items()}
        columns_of[name] = tuple(columns)
    num_rows = len(next(iter(frame.values()), ()))
    if num_rows == 0:
        raise DataError(f"{next(iter(arrays))} is empty, expected at least one row.")
    return _one_file("arrays", frame, np.arange(1, num_rows + 1)), columns_of


def _one_file(name: str, columns: dict[str, list[str]], lines: np.ndarray) -> Cells:
    return Cells((name,), np.zeros(len(lines), dtype=np.int64), pd.DataFrame(columns, dtype=str), lines)


def _read_delimited(name: str, text: str, delimiter: str) -> Cells:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header: list[str] | None = None
    rows: list[list[str]] = []
    lines: list[int] = []
    before = 0
    try:
        for cells in reader:
            line, before = before + 1, reader.line_num
            if header is None:
                if cells:
                    header = cells
                    _check_header(name, header, line)
                continue
            if len(header) > 1 and "".join(cells).strip() == "" and len(cells) < 2:
                continue
            if len(cells or [""]) != len(header):
                raise DataError(
                    f"{name}, line {line}: {_count(len(cells), 'cell')}, but the header has "
                    f"{_count(len(header), 'column')}; a cell that holds {delimiter!r} must stand in double quotes."
                )
            rows.append(cells or [""])
            lines.append(line)
    except csv.Error as error:
        raise DataError(f"{name}, line {before + 1}: not a CSV file ({error}).") from error
    while rows and len(header or ()) == 1 and rows[-1] == [""]:
        rows.pop()
        lines.pop()
    if not rows:
        raise DataError(f"{name}: the file has a header but no rows.")
    columns = zip(header or (), zip(*rows, strict=True), strict=True)
    return _one_file(name, {column: list(cells) for column, cells in columns}, np.array(lines, dtype=np.int64))


def _read_parquet(name: str) -> Cells:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("pyarrow", "molecules") from error
    try:
        with open(name, "rb") as file:
            table = pq.ParquetFile(file).read()
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{name}: its name says Parquet, but it cannot be read ({reason}).") from error
    _check_header(name, table.column_names, 1)
    if table.num_rows == 0:
        raise DataError(f"{name}: the file has a header but no rows.")
    cells = {column: [_as_text(value) for value in table[column].to_pylist()] for column in table.column_names}
    return _one_file(name, cells, np.arange(2, table.num_rows + 2))


def _as_text(value: object) -> str:
    """A value as it would stand in a CSV file, no digit lost; nothing for None and NaN."""
    if value is None or value is pd.NA or (isinstance(value, float | np.floating) and value != value):
        return ""
    return value if isinstance(value, str) else str(value)


def _check_header(name: str, header: list[str], line: int) -> None:
    twice = [column for column, count in Counter(header).items() if count > 1]
    if twice:
        places = {column: [place for place, other in enumerate(header, start=1) if other == column] for column in twice}
        listed = "; ".join(f"{column!r} is column {_join([str(p) for p in places[column]], 'and')}" for column in twice)
        raise DataError(f"{name}, line {line}: two columns have one name: {listed}. Rename one.")


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _join(words: tuple[str, ...] | list[str], last: str = "or") -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"
