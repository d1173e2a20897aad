"""Tables of any size, some rows at a time: CSV, TSV (also gzipped) and Parquet, one file or many."""

import csv
import glob
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from edgewise.errors import DataError
from edgewise.learn.tables.cell import as_texts, is_numeric, joined, pa, parse_numbers, stripped, whole_numbers
from edgewise.learn.tables.decode import TextFile, check_file
from edgewise.learn.tables.delimited import TAB, DelimitedFile, check_header
from edgewise.learn.tables.options import TABLES, current_format
from edgewise.learn.tables.parquet import ParquetTable

ENDINGS = tuple(ending for ending in TABLES if ending != ".xlsx")
"""Endings of the files that are read some rows at a time."""


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

    def numbers(self, column: str) -> tuple[Float64[np.ndarray, " row"], dict[int, tuple[str, str]]]:
        """A column as numbers, NaN for empty cells, and the cells that are not finite numbers, with the reason."""
        cells = self.columns[column]
        return parse_numbers(cells if is_numeric(cells.type) else as_texts(cells), in_parallel=False)

    def whole_numbers(self, column: str) -> np.ndarray | None:
        """A column of whole numbers, int64; None where a cell is something else, or written with a zero before it."""
        cells = self.columns[column]
        if pa.types.is_integer(cells.type) and not cells.null_count:
            integers = cells.cast(pa.int64(), safe=False).to_numpy()
            return None if pa.types.is_unsigned_integer(cells.type) and (integers < 0).any() else integers
        if pa.types.is_floating(cells.type):
            return None
        return whole_numbers(self.texts(column), "")


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
                    "differ; give all files the same columns in the same order."
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
