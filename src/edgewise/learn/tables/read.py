"""A file of rows and columns as strings: CSV, TSV (also gzipped), Excel and Parquet."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Int64

from edgewise.errors import DataError, half_character, plural
from edgewise.learn.progress import stage
from edgewise.learn.tables.cell import NUMBER_KINDS, as_text, to_text_arrow
from edgewise.learn.tables.commas import check_points, with_points
from edgewise.learn.tables.decode import check_file
from edgewise.learn.tables.delimited import DelimitedFile, Part, check_header, either, joined_parts, other_separator
from edgewise.learn.tables.excel import read_sheet
from edgewise.learn.tables.options import TABLES, TableFormat, current_format
from edgewise.learn.tables.parquet import ParquetTable, pa, pd

Values: TypeAlias = Sequence | np.ndarray | pd.Series | pd.DataFrame

Column: TypeAlias = np.ndarray | pd.Series
"""Numbers, or texts."""
ARRAYS = ("arrays",)
"""The files of rows from arrays."""
TABLE_FILE = f"a file that ends in {either(TABLES)}"
"""What a table must be, for messages."""
CHUNK_ROWS = 2**13
"""Rows of a chunk by default."""
WHOLE_BYTES = 2**23
"""The size up to which a file is read at once and cut into chunks, which is faster."""


@dataclass(frozen=True, eq=False)
class Cells:
    """The rows of one or several files, every cell a string as written in the file; numbers have a decimal point."""

    files: tuple[str, ...]
    """The paths as they were given."""
    file_of_row: Int64[np.ndarray, " row"]
    """Which of the files each row stands in, counted from 0."""
    frame: pd.DataFrame
    """One column of strings for each column of the file; an empty cell is an empty string. Of arrays, numbers stay
    numbers."""
    lines: Int64[np.ndarray, " row"]
    """Line of the file on which each row begins; the header is line 1. For Parquet: the row number plus 1. For Excel:
    the row of the sheet."""
    first_row: int = 0
    """The number of rows of the file before these, where they are a chunk of it."""
    mapped: tuple[np.ndarray, ...] = ()
    """The mapped files that hold the cells; none where they are in memory."""
    label_columns: frozenset[str] = frozenset()
    """Columns of labels by their type, such as the whole numbers `y` of a graph file; of others the cells decide."""
    name: str | None = None
    """What the rows are called as a whole; None names the files."""
    written: pd.DataFrame | None = None
    """The cells as written in the file, where they differ from `frame`: numbers with a decimal comma."""
    unreadable: Mapping[int, tuple[str, str, str]] = field(default_factory=dict)
    """Column, cell and reason of rows with a text that no table can hold; it is empty in `frame`."""

    @property
    def as_written(self) -> pd.DataFrame:
        """The cells as written in the file, for output."""
        if self.written is None:
            return self.frame
        same = [name for name in self.frame.columns if name in self.written.columns]
        return self.frame.assign(**{name: self.written[name] for name in same})

    def texts(self, column: str) -> list[str]:
        """The cells of a column as a list, which is faster than to walk through the frame."""
        return to_text_arrow(self.frame[column]).to_pylist()

    def part(self, start: int, stop: int) -> "Cells":
        """Some of the rows."""
        rows = slice(start, stop)
        frame = self.frame.iloc[rows].reset_index(drop=True)
        written = None if self.written is None else self.written.iloc[rows].reset_index(drop=True)
        first = self.first_row + start
        return Cells(self.files, self.file_of_row[rows], frame, self.lines[rows], first, written=written)

    @property
    def source(self) -> str:
        """All files, for messages about the whole."""
        return ", ".join(self.files) if self.name is None else self.name

    def row_name(self, row: int) -> str:
        """What messages call a row: the line of its file; its number, counted from 0, where it stands in an array."""
        if self.files == ARRAYS:
            return f"{ARRAYS[0]}, row {row}"
        return f"{self.files[self.file_of_row[row]]}, line {self.lines[row]}"


def read_cells(path: str | Path, form: TableFormat | None = None, *, may_be_empty: bool = False) -> Cells:
    """Read one table file.

    Args:
        path: a file that ends in .csv, .tsv, .csv.gz, .tsv.gz, .xlsx or .parquet; the first line names the columns.
            `read_limits` bounds its size.
        form: delimiter, decimal separator, encoding and sheet; by default those of `table_format`.
        may_be_empty: whether a header without rows is a table.

    Returns:
        The cells as strings. Blank lines of a file with several columns are skipped; in a file with one column
        a blank line between others is an empty cell. With a decimal comma, numbers get a decimal point.

    Raises:
        DataError: the file is missing, empty, of another kind, damaged, in another encoding, has ragged rows or two
            columns of one name, mixes decimal separators, or is larger than the limits; the message names the file,
            the line and the remedy.
        MissingExtraError: the file is an Excel workbook, and openpyxl is not installed.

    Cost: two passes over a text, the second by pyarrow, column by column. Only where quotes stand within cells, or a
    row has another number of cells than the header, Python's `csv` reads the rows one by one.
    """
    return TableChunks(path, form=form).whole(may_be_empty=may_be_empty)


class TableChunks:
    """The rows of one table file in chunks of a few thousand, of which one is in memory at a time.

    `for cells in TableChunks("big.csv")` reads the file from its beginning, each time anew. The chunks below each
    other are what `read_cells` gives, and errors are the same; those of a row come when its chunk is read.

    Args:
        path, form: as for `read_cells`.
        rows: rows of each chunk, 8,192 by default; the last may have fewer.

    Raises:
        DataError: as `read_cells`.

    Cost: of a text file, one pass over its bytes to begin with. Memory for a chunk, and for a row group of Parquet;
    files of up to 8 MiB, Excel workbooks, and texts in other encodings than UTF-8 are held whole.
    """

    def __init__(self, path: str | Path, rows: int | None = None, form: TableFormat | None = None):
        self.rows = CHUNK_ROWS if rows is None else rows
        self._table = _TableFile(path, form)
        self.name = self._table.name
        """The path as it was given."""
        self.num_rows = self._table.num_rows
        """The number of rows; None before they are counted."""
        self.is_whole = self._table.is_whole
        """Whether the file is read whole before it is cut into chunks."""

    def whole(self, *, may_be_empty: bool = False) -> Cells:
        """All rows at once."""
        with stage(f"reading {self._table.path.name}"):
            table, lines = self._table.whole(may_be_empty=may_be_empty)
            return _one_file(self.name, table, lines, has_commas=self._table.has_commas)

    def __iter__(self) -> Iterator[Cells]:
        return cut(self.name, self._table.parts(), self.rows, has_commas=self._table.has_commas)


def cut(name: str, parts: Iterator[Part], rows: int, *, has_commas: bool = False) -> Iterator[Cells]:
    """Rows that come in parts of any size as chunks of one size."""
    pending, count, first = list[Part](), 0, 0
    for table, lines in parts:
        start = 0
        while start < len(lines):
            num_taken = min(rows - count, len(lines) - start)
            pending.append((table.slice(start, num_taken), lines[start : start + num_taken]))
            count, start = count + num_taken, start + num_taken
            if count == rows:
                yield _one_file(name, *joined_parts(pending), first, has_commas=has_commas)
                pending, count, first = [], 0, first + rows
    if pending:
        yield _one_file(name, *joined_parts(pending), first, has_commas=has_commas)


class _TableFile:
    """A table file of any kind that was opened: its rows whole, or some at a time."""

    def __init__(self, path: str | Path, form: TableFormat | None):
        self.name, self.form = str(path), current_format() if form is None else form
        self.path = check_file(self.name, TABLE_FILE)
        ending = self.path.name.lower()
        self.suffix = next((end for end in sorted(TABLES, key=len, reverse=True) if ending.endswith(end)), None)
        if self.suffix is None:
            raise DataError(f"{self.name}: its name ends in {self.path.suffix!r}, expected {either(TABLES)}.")
        if self.path.stat().st_size == 0:
            raise DataError(f"{self.name}: the file is empty, expected a first line with the names of the columns.")
        self.content: DelimitedFile | ParquetTable | None = None
        if self.suffix == ".parquet":
            self.content = ParquetTable(self.name)
        elif self.suffix != ".xlsx":
            with stage(f"reading {self.path.name}"):
                self.content = DelimitedFile(self.name, self.suffix, self.form)

    @property
    def num_rows(self) -> int | None:
        """The number of rows; None where it is unknown."""
        return None if self.content is None else self.content.num_rows

    @property
    def is_whole(self) -> bool:
        """Whether `parts` gives all rows at once."""
        return self.content is None or self.path.stat().st_size <= WHOLE_BYTES

    def whole(self, *, may_be_empty: bool = False) -> Part:
        """All rows."""
        if self.content is None:
            table, texts, lines = _read_excel(self.name, self.form.sheet)
        else:
            table, lines = self.content.whole()
            texts = table
        if not len(lines) and not may_be_empty:
            raise self._no_rows()
        if self.has_commas:
            check_points(self.name, [(texts, lines)])
        return table, lines

    def parts(self) -> Iterator[Part]:
        """All rows, some at a time."""
        if self.content is None or self.is_whole:
            yield self.whole()
            return
        if self.has_commas:
            check_points(self.name, self.content.parts())
        is_empty = True
        for table, lines in self.content.parts():
            is_empty &= not len(lines)
            yield table, lines
        if is_empty:
            raise self._no_rows()

    @property
    def has_commas(self) -> bool:
        """Whether its numbers have a decimal comma."""
        return self.form.decimal != "." and self.suffix != ".parquet"

    def _no_rows(self) -> DataError:
        return DataError(f"{self.name}: the {'file' if self.content else 'sheet'} has a header but no rows.")


def check_columns_exist(cells: Cells, names: tuple[str, ...]) -> None:
    """Raise a `DataError` that names the columns a file lacks and the nearest ones it has."""
    check_columns(cells.source, list(cells.frame.columns), names)


def check_columns(source: str, present: Sequence[str], names: Sequence[str]) -> None:
    """The same of columns by name."""
    from difflib import get_close_matches

    missing = [name for name in dict.fromkeys(names) if name not in present]
    if not missing:
        return
    folded = {column.strip().casefold(): column for column in present}

    hints = []
    for name in missing:
        near = [folded[key] for key in get_close_matches(name.strip().casefold(), folded, n=3)]
        suggestion = f" (did you mean {either([repr(column) for column in near])}?)" if near else ""
        hints.append(f"{name!r}{suggestion}")

    shown = ", ".join(repr(column) for column in present[:20]) + (", ..." if len(present) > 20 else "")
    word = "column" if len(missing) == 1 else "columns"
    advice = f" {other_separator(present)}" if other_separator(present) else ""
    raise DataError(f"{source}: no {word} {', '.join(hints)}; the file has {shown}.{advice}")


def read_tables(paths: Sequence[str | Path], names: tuple[str, ...]) -> Cells:
    """The rows of several files below each other, each of which must have some columns."""
    tables = [read_cells(path) for path in paths]
    for table in tables:
        check_columns_exist(table, names)
    return join_cells(tables)


def join_cells(parts: list[Cells]) -> Cells:
    """The rows of several files below each other, columns in the order of the first.

    Raises:
        DataError: two files have different columns; the message names both and what differs.
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    for other in parts[1:]:
        check_same_columns(first, other)

    return Cells(
        files=tuple(cells.source for cells in parts),
        file_of_row=np.repeat(np.arange(len(parts)), [len(cells.frame) for cells in parts]),
        frame=pd.concat([cells.frame[list(first.frame.columns)] for cells in parts], ignore_index=True),
        lines=np.concatenate([cells.lines for cells in parts]),
        written=None if first.written is None else pd.concat([cells.as_written for cells in parts], ignore_index=True),
    )


def check_same_columns(first: Cells, other: Cells) -> None:
    """Raise a `DataError` that names two files and the columns that only one of them has."""
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


def cells_from_arrays(
    arrays: dict[str, Values], numbers: Sequence[str] = (), reserved: Sequence[str] = ()
) -> tuple[Cells, dict[str, tuple[str, ...]]]:
    """Arrays as the cells of a table: numbers stay numbers, all else is text. Messages count their rows from 0.

    Args:
        arrays: name → `(row,)`, or `(row, column)`, whose columns become `name_1`, `name_2`, ...;
            those of a DataFrame keep their names, unless something else is called so.
        numbers: the arrays of which True is 1 and False 0; of others both are text, as of a label.
        reserved: names of columns that are not among the arrays, and that no array may have.

    Returns:
        The cells, and the columns that each array became.

    Raises:
        DataError: an array has another number of axes, no row, or not as many rows as the first.
    """
    frame: dict[str, Column] = {}
    columns_of: dict[str, tuple[str, ...]] = {}
    unreadable: dict[int, tuple[str, str, str]] = {}
    for name, values in arrays.items():
        array = np.asarray(values) if hasattr(values, "dtype") or hasattr(values, "dtypes") else np.zeros(0, object)
        if array.dtype.kind not in NUMBER_KINDS:
            array = np.asarray(values, dtype=object)
        if array.ndim not in (1, 2):
            raise DataError(f"{name} has {array.ndim} axes, expected (row,) or (row, column).")
        num_rows = len(next(iter(frame.values()), array))
        if len(array) != num_rows:
            raise DataError(f"{name} has {plural(len(array), 'row')}, but {next(iter(arrays))} has {num_rows}.")
        columns_of[name] = _names_of_columns(name, values, array, {*frame, *arrays, "node"} - {name} | {*reserved})
        cells_of = [array] if array.ndim == 1 else array.T
        columns = zip(columns_of[name], cells_of, strict=True)
        for column, cells in columns:
            frame[column] = _cells_of(cells, column, unreadable, is_number=name in numbers)

    num_rows = len(next(iter(frame.values()), ()))
    if num_rows == 0:
        raise DataError(f"{next(iter(arrays))} is empty, expected at least one row.")
    file_of_row = np.zeros(num_rows, dtype=np.int64)
    lines = np.arange(1, num_rows + 1)
    return Cells(ARRAYS, file_of_row, pd.DataFrame(frame), lines, unreadable=unreadable), columns_of


def _cells_of(
    values: np.ndarray, column: str, unreadable: dict[int, tuple[str, str, str]], *, is_number: bool
) -> Column:
    """A column as numbers where all of it is, None being missing, else as texts; of numbers True is 1 and False 0.
    Rows with a text that no table can hold are added to `unreadable`."""
    if is_number and values.dtype == object:
        cells = [float(cell) if isinstance(cell, bool | np.bool_) else cell for cell in values]
        values = np.array(cells, dtype=object)
    if values.dtype == object and {*map(type, values)} <= {int, float, np.float64, type(None)}:
        has_fraction = {*map(type, values)} - {int}
        values = values.astype(np.float64) if has_fraction else np.array(values.tolist())  # whole ones may be labels
    if values.dtype.kind in NUMBER_KINDS:
        return np.ascontiguousarray(values)
    texts = list(map(as_text, values))
    try:
        return pd.Series(texts, dtype=str)
    except UnicodeEncodeError:
        for row, text in enumerate(texts):
            if reason := half_character(text):
                unreadable.setdefault(row, (column, ascii(text)[1:-1], reason))
                texts[row] = ""
        return pd.Series(texts, dtype=str)


def _names_of_columns(name: str, values: Values, array: np.ndarray, reserved: set[str]) -> tuple[str, ...]:
    """The names of an array's columns: those of its DataFrame where they can be used, else made from the array's name.

    Args:
        name: Of the array.
        values: What it was made of.
        array: (row,) or (row, column).
        reserved: The names of other columns.
    """
    labels = tuple(getattr(values, "columns", ()))
    usable = all(isinstance(label, str) and label.strip() for label in labels) and len(set(labels)) == len(labels)
    if labels and usable and not set(labels) & reserved:
        return labels
    names: tuple[str, ...] = (name,)
    if array.ndim == 2 and len(labels) != 1:
        names = tuple(f"{name}_{number}" for number in range(1, array.shape[1] + 1))

    while set(names) & reserved:
        names = tuple(f"{column}_" for column in names)
    return names


def _one_file(
    name: str, table: "pa.Table", lines: np.ndarray, first_row: int = 0, *, has_commas: bool = False
) -> Cells:
    written = table.to_pandas() if has_commas else None
    frame = (with_points(table) if has_commas else table).to_pandas(split_blocks=True, self_destruct=True)
    return Cells((name,), np.zeros(len(lines), dtype=np.int64), frame, lines, first_row, written=written)


def _read_excel(name: str, sheet: str | None) -> tuple["pa.Table", "pa.Table", np.ndarray]:
    """The cells of a sheet as texts, those that are texts there (numbers come without a separator), and the lines."""
    header, rows, lines = read_sheet(name, sheet)
    check_header(name, header, lines[0])
    columns = zip(*rows, strict=True) if rows else [()] * len(header)
    names, written, texts = [str(index) for index in range(len(header))], [], []
    for column in columns:
        written.append(pa.array(map(as_text, column), pa.large_string()))
        texts.append(pa.array([cell if isinstance(cell, str) else "" for cell in column], pa.large_string()))
    table, only_texts = (pa.table(cells, names).rename_columns(header) for cells in (written, texts))
    return table, only_texts, np.array(lines[1:], dtype=np.int64)
