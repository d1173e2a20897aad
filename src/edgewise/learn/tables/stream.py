"""Tables of any size, some rows at a time: CSV, TSV (also gzipped) and Parquet, one file or many."""

import csv
import glob
import io
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from jaxtyping import Float64, Int64

from edgewise.errors import DataError
from edgewise.learn.tables.cell import (
    as_texts,
    is_numeric,
    joined,
    pa,
    parse_numbers,
    stripped,
    whole_numbers,
    within,
)
from edgewise.learn.tables.decode import TextFile, check_file
from edgewise.learn.tables.delimited import TAB, DelimitedFile, check_header
from edgewise.learn.tables.magnitude import LARGEST_SINGLE, is_too_small, largest_absolute
from edgewise.learn.tables.options import TABLES, current_format
from edgewise.learn.tables.parquet import ParquetTable

ENDINGS = tuple(ending for ending in TABLES if ending != ".xlsx")
"""Endings of the files that are read some rows at a time."""
Written = TypeVar("Written")


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows of a table, each column as pyarrow has it: texts of CSV, numbers or texts of Parquet."""

    file: str
    """The file they stand in."""
    first: int
    """Rows of all files that stand before them."""
    lines: np.ndarray
    """The line of its file on which each begins; of Parquet the number of the row plus 1."""
    columns: dict[str, "pa.Array"]
    """The columns by name."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(self.lines)

    def texts(self, column: str) -> "pa.ChunkedArray":
        """The cells of a column as texts without surrounding blanks."""
        return stripped(as_texts(self.columns[column]))

    def numbers(
        self, column: str, limit: float = math.inf, *, is_lost: bool = False
    ) -> tuple[Float64[np.ndarray, " row"], dict[int, tuple[str, str]]]:
        """A column as numbers, NaN for empty cells, and the cells that are not finite numbers, with the reason.

        Args:
            column: its name.
            limit, is_lost: as in `within`.
        """
        cells = self.columns[column]
        cells = cells if is_numeric(cells.type) else as_texts(cells)
        return within(cells, *parse_numbers(cells, in_parallel=False), limit, is_lost=is_lost)

    def whole_numbers(self, column: str) -> np.ndarray | None:
        """A column of whole numbers, int64; None where a cell is something else, or written with a zero before it."""
        cells = self.columns[column]
        if pa.types.is_integer(cells.type) and not cells.null_count:
            integers = cells.cast(pa.int64(), safe=False).to_numpy()
            return None if pa.types.is_unsigned_integer(cells.type) and (integers < 0).any() else integers
        if pa.types.is_floating(cells.type):
            return None
        return whole_numbers(self.texts(column), "")


class LostColumnsError(Exception):
    """Columns all of whose numbers are too small for single precision, which were read before that was known."""

    def __init__(self, columns: Collection[str]):
        self.columns = columns


class Float32Columns:
    """Reads columns that are stored as float32: cells are bad as `parse_columns` finds them in a whole table.

    Args:
        lost: columns that are known to be too small.
    """

    def __init__(self, lost: Collection[str] = ()):
        self.lost, self.largest = lost, dict[str, float]()

    def numbers(self, chunk: Chunk, column: str) -> tuple[Float64[np.ndarray, " row"], dict[int, tuple[str, str]]]:
        """The numbers of a column in a chunk, and its bad cells."""
        values, bad = chunk.numbers(column, LARGEST_SINGLE, is_lost=column in self.lost)
        self.largest[column] = max(self.largest.get(column, 0.0), largest_absolute(values))
        return values, bad

    def check(self) -> None:
        """Raise LostColumnsError where all numbers of a column that was read to its end are too small."""
        if lost := [column for column, largest in self.largest.items() if is_too_small(largest)]:
            raise LostColumnsError(lost)


def with_float32_columns(write: Callable[[Float32Columns], Written]) -> Written:
    """What `write` returns, which reads a table to its end, and calls `check` there.

    Only then is it known that all numbers of a column are too small for float32; it is called again with these named.
    """
    try:
        return write(Float32Columns())
    except LostColumnsError as error:
        return write(Float32Columns(error.columns))


class LineRuns:
    """The file and line of each row of a table, as runs of rows on consecutive lines.

    Args:
        files: those of the table.
        runs: of each run its first row, the number of its file, and the line of the row.
    """

    def __init__(self, files: Sequence[str] = (), runs: Int64[np.ndarray, " run 3"] | None = None):
        self.files, self._parts = list(files), [np.zeros((0, 3), np.int64) if runs is None else runs]

    def add(self, chunk: Chunk) -> None:
        """Adds the rows of a chunk, which follow those before."""
        if chunk.file not in self.files[-1:]:
            self.files.append(chunk.file)
        starts = np.flatnonzero(np.diff(chunk.lines, prepend=-1) != 1)
        file_number = np.full(len(starts), len(self.files) - 1)
        self._parts.append(np.stack([chunk.first + starts, file_number, chunk.lines[starts]], axis=1))

    @property
    def runs(self) -> Int64[np.ndarray, " run 3"]:
        """All runs, as in the constructor."""
        if len(self._parts) > 1:
            self._parts = [np.concatenate(self._parts)]
        return self._parts[0]

    def place(self, row: int) -> tuple[str, int]:
        """The file and the line of a row."""
        first, file, line = self.runs[np.searchsorted(self.runs[:, 0], row, side="right") - 1].tolist()
        return self.files[file], line + row - first

    def of_rows(self, num_rows: int) -> tuple[Int64[np.ndarray, " row"], Int64[np.ndarray, " row"]]:
        """The number of the file of each row, and its line."""
        first, file, line = self.runs.T
        counts = np.diff(first, append=num_rows)
        return np.repeat(file, counts), np.repeat(line - first, counts) + np.arange(num_rows)


class TableStream:
    """A table that is read some rows at a time, as often as one likes.

    Args:
        name: a file, a folder of files, or a pattern such as `parts/*.parquet`; files stand below each other in the
            order of their names.

    Raises:
        DataError: there is none, it is empty or damaged, or files have different columns.
    """

    def __init__(self, name: str):
        self.name, self.paths = name, files_of(name)
        self.columns = header_of(self.paths[0])
        for path in self.paths[1:]:
            if (other := header_of(path)) != self.columns:
                missing = [column for column in self.columns if column not in other] or other
                raise DataError(
                    f"{self.paths[0]} and {path} have different columns: {', '.join(map(repr, missing[:5]))} "
                    f"{'differs' if len(missing) == 1 else 'differ'}; give all files the same columns in the same "
                    "order."
                )

    def chunks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        """The rows in chunks; raises DataError where one cannot be read."""
        first = 0
        for path in self.paths:
            for table, lines in _parts(path, list(columns)):
                if len(lines):
                    arrays = {name: joined(table.column(name)) for name in columns}
                    yield Chunk(path, first, lines, arrays)
                    first += len(lines)


def files_of(name: str) -> list[str]:
    """The files that a name, a folder or a pattern stands for."""
    if Path(name).is_dir():
        paths = sorted(str(path) for path in Path(name).iterdir() if path.name.lower().endswith(ENDINGS))
        if not paths:
            raise DataError(f"{name}: no tables in the folder, expected files that end in {', '.join(ENDINGS)}.")
        return paths
    if not Path(name).exists() and glob.has_magic(name):
        paths = sorted(glob.glob(name))
        if not paths:
            raise DataError(f"{name}: no file matches this pattern.")
        return paths

    check_file(name, f"a file that ends in {', '.join(ENDINGS)}, a folder of them, or a pattern in quotes")
    if not name.lower().endswith(ENDINGS):
        raise DataError(f"{name}: its name ends in {Path(name).suffix!r}, expected {', '.join(ENDINGS)}.")
    return [name]


def header_of(path: str) -> list[str]:
    """The names of the columns of a file."""
    if Path(path).stat().st_size == 0:
        raise DataError(f"{path}: the file is empty, expected a first line with the names of the columns.")
    if is_parquet(path):
        return list(ParquetTable(path).header)
    with io.TextIOWrapper(TextFile(path, "CSV", "a table").binary(), encoding="utf-8-sig", newline="") as lines:  # type: ignore[type-var]
        form = current_format()
        delimiter = form.delimiter or (TAB if ".tsv" in path.lower() else ",")
        try:
            header = next(csv.reader(lines, delimiter=delimiter, quoting=form.csv_quoting), [])
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError(f"{path}, line 1: not a CSV file ({error}).") from error

    check_header(path, header, 1)
    if not header:
        raise DataError(f"{path}: the file is empty, expected a first line with the names of the columns.")
    return header


def is_parquet(path: str) -> bool:
    """Whether a name is that of a Parquet file."""
    return path.lower().endswith(".parquet")


def _parts(path: str, columns: list[str]) -> Iterator[tuple["pa.Table | pa.RecordBatch", np.ndarray]]:
    """The rows of one file."""
    if is_parquet(path):
        yield from ParquetTable(path).typed_batches(columns)
        return
    form = current_format()
    if form.decimal != ".":
        raise DataError(f"{path}: tables of this size are read with a point in numbers; leave out --decimal.")
    suffix = next(ending for ending in sorted(ENDINGS, key=len, reverse=True) if path.lower().endswith(ending))
    for table, lines in DelimitedFile(path, suffix, form).parts():
        yield table.select(columns), lines
