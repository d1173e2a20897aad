"""A delimited file as columns of strings, whole or some rows at a time, after one pass over its bytes."""

import codecs
import csv
import io
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np

from edgewise.errors import DataError, MissingExtraError, plural
from edgewise.learn.tables.decode import TextFile
from edgewise.learn.tables.options import TableFormat, current_limits
from edgewise.learn.tables.quotes import SuspectQuotes
from edgewise.learn.tables.scan import LineCursor, scan

try:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv
except ImportError as error:
    raise MissingExtraError("pyarrow", "train") from error

Part: TypeAlias = tuple["pa.Table", np.ndarray]
"""Some rows, and the line of the file on which each begins."""

TAB = "\t"
_DELIMITERS = {".csv": ",", ".tsv": TAB}
_CELLS_AT_ONCE = 2**18
"""Cells that are Python's strings at the same time."""


class DelimitedFile:
    """A CSV or TSV file that was looked through once.

    Args:
        name: the path as it was given.
        suffix: how it ends.
        form: delimiter and encoding.

    Raises:
        DataError: it is empty or not text, holds a row that is too long, or two columns of one name.
    """

    def __init__(self, name: str, suffix: str, form: TableFormat):
        self.form = form
        self.file = TextFile(name, "CSV", "a table", form)
        self.delimiter = form.delimiter or _DELIMITERS[suffix.removesuffix(".gz")]
        self.layout = scan(self.file, self.delimiter, current_limits())
        if not self.layout.has_text:
            raise DataError(f"{name}: the file is empty, expected a first line with the names of the columns.")
        # pyarrow would take the mark in a first cell for that of a file, and drop it.
        self.layout.is_regular = self.layout.is_regular and not self._begins_with_mark()
        if self.layout.is_regular:
            check_header(name, self.layout.header, self.layout.header_line)

    def _begins_with_mark(self) -> bool:
        """Whether a byte order mark follows the header."""
        with self.file.binary() as content:
            content.read(self.layout.start)
            return content.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8

    @property
    def num_rows(self) -> int | None:
        """The number of rows that the pass has counted, blank lines of a single column included; None if it could
        not."""
        return sum(map(len, self.layout.lines)) if self.layout.is_regular else None

    def whole(self) -> Part:
        """All rows at once, which is faster than `parts`."""
        table, lines = self._columns() or joined_parts(list(self._rows()))
        num_rows = _num_filled(table)
        quotes = SuspectQuotes(self.file.name, self.delimiter)
        self._check_quotes(quotes, (table, lines))
        quotes.report()
        return table.slice(0, num_rows), lines[:num_rows]

    def parts(self) -> Iterator[Part]:
        """The same rows some at a time."""
        waiting: list[Part] = []
        quotes = SuspectQuotes(self.file.name, self.delimiter)
        for table, lines in self._parts():
            self._check_quotes(quotes, (table, lines))
            # In a single column, blank lines after the last row are skipped; a blank line before it is an empty cell.
            if not (num_rows := _num_filled(table)):
                waiting.append((table, lines))
                continue
            yield from waiting
            yield table.slice(0, num_rows), lines[:num_rows]
            waiting = [(table.slice(num_rows), lines[num_rows:])]
        quotes.report()

    def _check_quotes(self, quotes: SuspectQuotes, part: Part) -> None:
        """Cells without line breaks, which most files have alone, are not looked at."""
        if self.form.has_quotes and (self.layout.has_breaks or not self.layout.is_regular):
            quotes.add(*part)

    def _columns(self) -> Part | None:
        """All rows by pyarrow; None where it finds a row of another length, which Python's `csv` explains."""
        if not self.layout.is_regular or not self.num_rows:
            return None
        lines = self.layout.line_of_row
        with self._opened() as (content, *options):
            try:
                table = arrow_csv.read_csv(content, *options)
            except pa.ArrowInvalid:
                return None
        return (table.rename_columns(self.layout.header), lines) if table.num_rows == len(lines) else None

    def _parts(self) -> Iterator[Part]:
        """The rows by pyarrow, block after block; after a row of another length, by Python's `csv`."""
        num_done = 0
        if self.layout.is_regular and self.num_rows:
            cursor = LineCursor(self.layout.lines)
            with self._opened() as (content, *options):
                try:
                    for batch in arrow_csv.open_csv(content, *options):
                        lines = cursor.take(batch.num_rows)
                        if len(lines) < batch.num_rows:
                            break
                        yield pa.Table.from_batches([batch]).rename_columns(self.layout.header), lines
                        num_done += len(lines)
                except pa.ArrowInvalid:
                    pass
            if num_done == self.num_rows:
                return

        for table, lines in self._rows():
            first = min(num_done, len(lines))
            yield table.slice(first), lines[first:]
            num_done -= first

    @contextmanager
    def _opened(
        self,
    ) -> Iterator[tuple[object, arrow_csv.ReadOptions, arrow_csv.ParseOptions, arrow_csv.ConvertOptions]]:
        """The bytes after the header, and the options of pyarrow for them."""
        layout, names = self.layout, [str(number) for number in range(len(self.layout.header))]
        # A block holds whole rows.
        block = min(max(2**20, 8 * layout.longest_row), max(2**26, 2 * layout.longest_row))
        # pyarrow reads a plain file without Python between.
        with pa.OSFile(str(self.file.path)) if self.file.is_plain else self.file.binary() as content:
            content.read(layout.start)
            yield (
                WholeBreaks(content) if layout.has_breaks else content,
                arrow_csv.ReadOptions(column_names=names, block_size=block),
                arrow_csv.ParseOptions(
                    delimiter=self.delimiter,
                    quote_char='"' if self.form.has_quotes else False,
                    newlines_in_values=layout.has_breaks,
                    ignore_empty_lines=len(names) > 1,
                ),
                # The pass before has found out that all is UTF-8.
                arrow_csv.ConvertOptions(
                    check_utf8=False, column_types=dict.fromkeys(names, pa.large_string()), strings_can_be_null=False
                ),
            )

    def _rows(self) -> Iterator[Part]:
        """The rows by Python's `csv`, one by one; raises where the file is not a table."""
        name = self.file.name
        with self._csv_rows() as rows:
            line, header = next((line, cells) for line, cells in rows if cells)
            current_limits().check_columns(name, line, len(header))
            check_header(name, header, line)
            schema = pa.schema([(str(number), pa.large_string()) for number in range(len(header))])
            checked_rows = _checked_rows(name, rows, header, self.delimiter)
            while chunk := list(itertools.islice(checked_rows, max(1, _CELLS_AT_ONCE // len(header)))):
                columns = zip(*(cells for _, cells in chunk), strict=True)
                table = pa.table([pa.array(column, pa.large_string()) for column in columns], schema=schema)
                yield table.rename_columns(header), np.array([line for line, _ in chunk], dtype=np.int64)
            yield schema.empty_table().rename_columns(header), np.zeros(0, dtype=np.int64)

    @contextmanager
    def _csv_rows(self) -> Iterator[Iterator[tuple[int, list[str]]]]:
        """Each row with the line on which it begins."""
        with io.TextIOWrapper(self.file.binary(), encoding="utf-8-sig", newline="") as text:  # type: ignore[type-var]
            yield _numbered(self.file.name, text, self.delimiter, self.form)


class WholeBreaks(io.RawIOBase):
    """A file that is never read to between the signs of "\\r\\n": pyarrow drops such a "\\n", be it within a cell."""

    def __init__(self, content: io.BufferedIOBase):
        self.content, self.waiting = content, b""

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """So many bytes, or one or some less; none at the end."""
        block: bytes = self.waiting + self.content.read(size - len(self.waiting) if size > 0 else size)
        is_cut = size > 1 and len(block) > 1 and block.endswith(b"\r")
        self.waiting = b"\r" if is_cut else b""
        return block[:-1] if is_cut else block


def joined_parts(parts: Sequence[Part]) -> Part:
    """Some parts below each other."""
    return pa.concat_tables([table for table, _ in parts]), np.concatenate([lines for _, lines in parts])


def check_header(name: str, header: list[str], line: int) -> None:
    """Raise a DataError where two columns have the same name."""
    twice = [column for column, count in Counter(header).items() if count > 1]
    if twice:
        positions = {
            column: [position for position, other in enumerate(header, start=1) if other == column] for column in twice
        }
        listed = "; ".join(
            f"{column!r} is column {either([str(p) for p in positions[column]], 'and')}" for column in twice
        )
        raise DataError(f"{name}, line {line}: two columns have one name: {listed}. Rename one.")


def other_separator(header: Sequence[str]) -> str:
    """The remedy for a first line that looks separated by another sign; empty where it does not."""
    delimiter_of_header = next((mark for mark in (";", TAB, ",", "|") if len(header) == 1 and mark in header[0]), None)
    if delimiter_of_header is None:
        return ""
    flag = "tab" if delimiter_of_header == TAB else repr(delimiter_of_header)
    return f"Its first line looks separated by {delimiter_of_header!r}: add --delimiter {flag}."


def either(words: Sequence[str], last: str = "or") -> str:
    """Words as a list in a sentence: a, b or c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def _num_filled(table: "pa.Table") -> int:
    """The number of rows up to the last that is not blank; blank rows of several columns are skipped anyway."""
    if table.num_columns > 1:
        return table.num_rows
    is_full = pa.compute.not_equal(table.column(0), "").to_numpy()
    return len(is_full) - int(is_full[::-1].argmax()) if is_full.any() else 0


def _numbered(name: str, text: Iterable[str], delimiter: str, form: TableFormat) -> Iterator[tuple[int, list[str]]]:
    limits, line = current_limits(), 1
    reader = csv.reader(text, delimiter=delimiter, quoting=form.csv_quoting, strict=True)
    while True:
        # The limit is one of the whole process: it is raised for no longer than a row.
        before = csv.field_size_limit(limits.max_row_bytes)
        try:
            cells = next(reader, None)
        except csv.Error as error:
            if "field limit" in str(error):
                raise limits.row_error(name, line) from error
            advice = " Where quotes belong to the text, add --quoting none." if form.has_quotes else ""
            raise DataError(f"{name}, line {line}: not a CSV file ({error}).{advice}") from error
        finally:
            csv.field_size_limit(before)

        if cells is None:
            return
        yield line, cells
        line = reader.line_num + 1


def _checked_rows(
    name: str, rows: Iterator[tuple[int, list[str]]], header: list[str], delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank; raises where one has more or fewer cells than the header."""
    for line, cells in rows:
        if len(header) > 1 and len(cells) < 2 and "".join(cells).strip() == "":
            continue
        if len(cells or [""]) != len(header):
            advice = f"; a cell that holds {delimiter!r} must stand in double quotes."
            if other := other_separator(header):
                advice = f". {other} For numbers with a decimal comma, add --decimal ','."
            raise DataError(
                f"{name}, line {line}: {plural(len(cells), 'cell')}, but the header has "
                f"{plural(len(header), 'column')}{advice}"
            )
        yield line, cells or [""]
