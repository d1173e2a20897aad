"""A file of rows and columns as strings: CSV, TSV (also gzipped), Excel and Parquet."""

import csv
import io
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Int64

from edgewise.data.tables.cell import as_arrow
from edgewise.data.tables.decode import TextFile, check_file
from edgewise.data.tables.excel import read_sheet
from edgewise.data.tables.options import TABLES, TableFormat, current_format, current_limits
from edgewise.data.tables.scan import Layout, scan
from edgewise.errors import DataError, MissingExtraError
from edgewise.plural import plural
from edgewise.progress import stage

try:
    import pandas as pd
except ImportError as error:
    raise MissingExtraError("pandas", "molecules") from error
try:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet
except ImportError as error:
    raise MissingExtraError("pyarrow", "molecules") from error

Values: TypeAlias = Sequence | np.ndarray | pd.Series | pd.DataFrame

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
TAB = "\t"
# Numbers of a file with a decimal comma; numbers with a point, which may separate thousands; and all others.
_COMMA_NUMBER = r"^\s*[-+]?([0-9]+,[0-9]*|,[0-9]+)([eE][-+]?[0-9]+)?\s*$"
_POINT_NUMBER = r"^\s*[-+]?[0-9]*(\.[0-9]+)+(,[0-9]*)?([eE][-+]?[0-9]+)?\s*$"
_WHOLE = r"^\s*([-+]?[0-9]+([eE][-+]?[0-9]+)?|(?i:nan))?\s*$"
_CELLS_AT_ONCE = 2**18
"""Cells that are Python's strings at the same time."""


@dataclass(frozen=True, eq=False)
class Cells:
    """The rows of one or several files, every cell a string as it stands in the file; numbers have a decimal point."""

    files: tuple[str, ...]
    """The paths as they were given."""
    file_of_row: Int64[np.ndarray, " row"]
    """Which of the files each row stands in, counted from 0."""
    frame: pd.DataFrame
    """One column of strings for each column of the file; an empty cell is an empty string."""
    lines: Int64[np.ndarray, " row"]
    """Line of the file on which each row begins; the header is line 1. For Parquet: the row number plus 1. For Excel:
    the row of the sheet."""

    def texts(self, column: str) -> list[str]:
        """The cells of a column as a list, which is faster than to walk through the frame."""
        return as_arrow(self.frame[column]).to_pylist()

    @property
    def source(self) -> str:
        """All files, for messages about the whole."""
        return ", ".join(self.files)


def read_cells(path: str | Path, form: TableFormat | None = None) -> Cells:
    """Read one table file.

    Args:
        path: a file that ends in .csv, .tsv, .csv.gz, .tsv.gz, .xlsx or .parquet; the first line names the columns.
            `read_limits` bounds its size.
        form: delimiter, decimal separator, encoding and sheet; by default those of `table_format`.

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
    name, form = str(path), current_format() if form is None else form
    file = check_file(name, f"a file that ends in {_join(TABLES)}")
    suffix = next((end for end in sorted(TABLES, key=len, reverse=True) if file.name.lower().endswith(end)), None)
    if suffix is None:
        raise DataError(f"{name}: its name ends in {file.suffix!r}, expected {_join(TABLES)}.")
    if file.stat().st_size == 0:
        raise DataError(f"{name}: the file is empty, expected a first line with the names of the columns.")
    if suffix == ".parquet":
        return _read_parquet(name)
    with stage(f"reading {file.name}"):
        if suffix == ".xlsx":
            return _read_excel(name, form.sheet)
        delimiter = form.delimiter or _DELIMITERS[suffix.removesuffix(".gz")]
        cells = _read_delimited(TextFile(name, "CSV", "a table", form), delimiter)
    return cells if form.decimal == "." else _with_points(cells)


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
    advice = f" {_other_separator(present)}" if _other_separator(present) else ""
    raise DataError(f"{cells.source}: no {word} {', '.join(hints)}; the file has {shown}.{advice}")


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
            raise DataError(f"{name} has {plural(len(array), 'row')}, but {next(iter(arrays))} has {num_rows}.")
        if array.ndim == 1:
            columns = {name: array}
        else:
            columns = {f"{name}_{place}": column for place, column in enumerate(array.T, start=1)}
        frame |= {column: [_as_text(value) for value in cells] for column, cells in columns.items()}
        columns_of[name] = tuple(columns)
    num_rows = len(next(iter(frame.values()), ()))
    if num_rows == 0:
        raise DataError(f"{next(iter(arrays))} is empty, expected at least one row.")
    return _one_file("arrays", pd.DataFrame(frame, dtype=str), np.arange(1, num_rows + 1)), columns_of


def _one_file(name: str, frame: pd.DataFrame, lines: np.ndarray) -> Cells:
    return Cells((name,), np.zeros(len(lines), dtype=np.int64), frame, lines)


def _read_delimited(file: TextFile, delimiter: str) -> Cells:
    found = scan(file, delimiter, current_limits())
    if not found.has_text:
        raise DataError(f"{file.name}: the file is empty, expected a first line with the names of the columns.")
    read = None
    if found.is_regular:
        _check_header(file.name, found.header, found.header_line)
        read = _read_columns(file, found, delimiter)
    header, table, lines = _read_rows(file, delimiter) if read is None else read
    if len(header) == 1:
        # Blank lines behind the last row are no rows; a blank line before it is an empty cell.
        is_full = pa.compute.not_equal(table.column(0), "").to_numpy()
        num_rows = len(is_full) - int(is_full[::-1].argmax()) if is_full.any() else 0
        table, lines = table.slice(0, num_rows), lines[:num_rows]
    if not len(lines):
        raise DataError(f"{file.name}: the file has a header but no rows.")
    return _one_file(file.name, table.rename_columns(header).to_pandas(split_blocks=True, self_destruct=True), lines)


def _read_columns(file: TextFile, found: Layout, delimiter: str) -> tuple[list[str], pa.Table, np.ndarray] | None:
    """The columns by pyarrow; None where it finds a row of another length, which Python's `csv` explains."""
    names, lines = [str(place) for place in range(len(found.header))], found.line_of_row
    if not len(lines):
        return found.header, pa.table({name: pa.array([], pa.large_string()) for name in names}), lines
    # A block holds whole rows.
    block = min(max(2**20, 8 * found.longest_row), max(2**26, 2 * found.longest_row))
    # pyarrow reads a plain file without Python between.
    with pa.OSFile(str(file.path)) if file.is_plain else file.binary() as content:
        content.read(found.start)
        try:
            table = arrow_csv.read_csv(
                content,
                arrow_csv.ReadOptions(column_names=names, block_size=block),
                arrow_csv.ParseOptions(
                    delimiter=delimiter, newlines_in_values=found.has_breaks, ignore_empty_lines=len(names) > 1
                ),
                # The pass before has found out that all is UTF-8.
                arrow_csv.ConvertOptions(
                    check_utf8=False, column_types=dict.fromkeys(names, pa.large_string()), strings_can_be_null=False
                ),
            )
        except pa.ArrowInvalid:
            return None
    return (found.header, table, lines) if table.num_rows == len(lines) else None


def _read_rows(file: TextFile, delimiter: str) -> tuple[list[str], pa.Table, np.ndarray]:
    """The columns by Python's `csv`, row by row; raises where the file is no table."""
    name, lines = file.name, list[int]()
    with _csv_rows(file, delimiter) as rows:
        header_line, header = next((line, cells) for line, cells in rows if cells)
        current_limits().check_columns(name, header_line, len(header))
        _check_header(name, header, header_line)
        schema = pa.schema([(str(place), pa.large_string()) for place in range(len(header))])
        batches = []
        good = _checked_rows(name, rows, header, delimiter)
        while chunk := list(itertools.islice(good, max(1, _CELLS_AT_ONCE // len(header)))):
            lines += [line for line, _ in chunk]
            columns = zip(*(cells for _, cells in chunk), strict=True)
            batches.append(pa.record_batch([pa.array(column, pa.large_string()) for column in columns], schema=schema))
    return header, pa.Table.from_batches(batches, schema), np.array(lines, dtype=np.int64)


@contextmanager
def _csv_rows(file: TextFile, delimiter: str) -> Iterator[Iterator[tuple[int, list[str]]]]:
    """Each row with the line on which it begins."""
    limits = current_limits()
    with io.TextIOWrapper(file.binary(), encoding="utf-8-sig", newline="") as text:  # type: ignore[type-var]
        before = csv.field_size_limit(limits.max_row_bytes)
        try:
            yield _numbered(file.name, csv.reader(text, delimiter=delimiter, strict=True))
        finally:
            csv.field_size_limit(before)


def _numbered(name: str, reader: Any) -> Iterator[tuple[int, list[str]]]:
    line = 1
    try:
        for cells in reader:
            yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        if "field limit" in str(error):
            raise current_limits().row_error(name, line) from error
        raise DataError(f"{name}, line {line}: not a CSV file ({error}).") from error


def _checked_rows(
    name: str, rows: Iterator[tuple[int, list[str]]], header: list[str], delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank; raises where one has more or fewer cells than the header."""
    for line, cells in rows:
        if len(header) > 1 and len(cells) < 2 and "".join(cells).strip() == "":
            continue
        if len(cells or [""]) != len(header):
            advice = f"; a cell that holds {delimiter!r} must stand in double quotes."
            if other := _other_separator(header):
                advice = f". {other} For numbers with a decimal comma, add --decimal ','."
            raise DataError(
                f"{name}, line {line}: {plural(len(cells), 'cell')}, but the header has "
                f"{plural(len(header), 'column')}{advice}"
            )
        yield line, cells or [""]


def _other_separator(header: Sequence[str]) -> str:
    """What to do about a first line that looks separated by another sign; nothing where it does not."""
    other = next((mark for mark in (";", "\t", ",", "|") if len(header) == 1 and mark in header[0]), None)
    if other is None:
        return ""
    return f"Its first line looks separated by {other!r}: add --delimiter {'tab' if other == TAB else repr(other)}."


def _with_points(cells: Cells) -> Cells:
    """The numbers of a file with a decimal comma, written with a decimal point.

    Raises:
        DataError: a column of numbers has a point in a cell: a point may separate thousands or the fraction.
    """
    frame, compute = {}, pa.compute
    for name in cells.frame:
        texts = as_arrow(cells.frame[name])
        is_comma = compute.match_substring_regex(texts, _COMMA_NUMBER)
        is_point = compute.match_substring_regex(texts, _POINT_NUMBER)
        if compute.any(is_point).as_py():
            is_number = compute.or_(is_comma, compute.or_(is_point, compute.match_substring_regex(texts, _WHOLE)))
            if compute.any(is_comma).as_py() or compute.all(is_number).as_py():
                row = compute.index(is_point, True).as_py()
                raise DataError(
                    f"{cells.source}, line {cells.lines[row]}, column {name!r}: {texts[row].as_py()!r} has a point, "
                    "but --decimal is ','; write all numbers with a comma and without thousands separators."
                )
        frame[name] = compute.if_else(is_comma, compute.replace_substring(texts, ",", "."), texts)
    table = pa.table(list(frame.values()), list(frame)) if frame else pa.table({})
    return replace(cells, frame=table.to_pandas(split_blocks=True, self_destruct=True))


def _read_excel(name: str, sheet: str | None) -> Cells:
    header, rows, lines = read_sheet(name, sheet)
    _check_header(name, header, lines[0])
    if not rows:
        raise DataError(f"{name}: the sheet has a header but no rows.")
    texts = [pa.array([_as_text(cell) for cell in column], pa.large_string()) for column in zip(*rows, strict=True)]
    frame = pa.table(texts, [str(place) for place in range(len(header))]).rename_columns(header)
    return _one_file(name, frame.to_pandas(split_blocks=True, self_destruct=True), np.array(lines[1:], dtype=np.int64))


def _read_parquet(name: str) -> Cells:
    limits = current_limits()
    try:
        with open(name, "rb") as file:
            content = parquet.ParquetFile(file)
            names, num_rows = content.schema_arrow.names, content.metadata.num_rows
            limits.check_columns(name, 1, len(names))
            # Each cell is an offset of eight bytes, and a text.
            limits.check_unpacked(name, file.seek(0, io.SEEK_END), 8 * num_rows * len(names))
            _check_header(name, names, 1)
            batches = [
                pa.record_batch([_as_texts(column) for column in batch], names) for batch in content.iter_batches()
            ]
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{name}: it is named .parquet, but cannot be read ({reason}).") from error
    if num_rows == 0:
        raise DataError(f"{name}: the file has a header but no rows.")
    frame = pa.Table.from_batches(batches).to_pandas(split_blocks=True, self_destruct=True)
    return _one_file(name, frame, np.arange(2, num_rows + 2))


def _as_texts(column: pa.Array) -> pa.Array:
    """The cells of a column of Parquet as texts."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_integer(column.type) or pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return column.cast(pa.large_string()).fill_null("")
    return pa.array([_as_text(value) for value in column.to_pylist()], pa.large_string())


def _as_text(value: object) -> str:
    """A value as it would stand in a CSV file, with every digit; empty for None and NaN."""
    if value is None or value is pd.NA or (isinstance(value, float | np.floating) and value != value):
        return ""
    return value if isinstance(value, str) else str(value)


def _check_header(name: str, header: list[str], line: int) -> None:
    twice = [column for column, count in Counter(header).items() if count > 1]
    if twice:
        places = {column: [place for place, other in enumerate(header, start=1) if other == column] for column in twice}
        listed = "; ".join(f"{column!r} is column {_join([str(p) for p in places[column]], 'and')}" for column in twice)
        raise DataError(f"{name}, line {line}: two columns have one name: {listed}. Rename one.")


def _join(words: tuple[str, ...] | list[str], last: str = "or") -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"
