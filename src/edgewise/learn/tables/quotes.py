"""Quoted cells that hold whole rows of the table: a quote of the text was taken for one that encloses a cell.

1,"Good film        the quote opens here,
0,dull
1,fine
0,a 5" screen"      and closes here: one row of four lines, whose cell reads as the end of a row, rows, and a beginning
"""

import re
from collections.abc import Sequence

import numpy as np

from edgewise.errors import plural
from edgewise.learn.progress import remark
from edgewise.learn.tables.cell import pa, read_number, to_text_arrow

_BREAK = re.compile(r"\r\n|\r|\n")
MIN_CELLS = 12
"""Cells of a table with a single column to each of those that have several lines, from which on these are suspect."""
_SAMPLE = 1000
"""Rows that are sampled for the typical cells of a column."""


class SuspectQuotes:
    """Counts the cells of a table that read as rows of it, and remembers the first.

    Args:
        name: The file.
        delimiter: What separates its cells.
    """

    def __init__(self, name: str, delimiter: str):
        self.name, self.delimiter = name, delimiter
        self.count, self.num_rows, self.first = 0, 0, ""
        self.is_one_column, self.num_read = False, 0

    def add(self, table: "pa.Table", lines: np.ndarray) -> None:
        """Look at some rows, each of which begins on one of `lines`."""
        if not len(lines):
            return
        self.is_one_column, self.num_read = table.num_columns == 1, self.num_read + len(lines)
        is_long = np.append(np.diff(lines) > 1, True)  # how far the last one reaches is not known

        columns: list[_Column] | None = None
        for row in np.flatnonzero(is_long).tolist():
            cells = [table.column(index)[row].as_py() for index in range(table.num_columns)]
            columns_with_breaks = [index for index, cell in enumerate(cells) if "\n" in cell or "\r" in cell]
            if not columns_with_breaks:
                continue
            if columns is None:
                sample = table.filter(pa.array(~is_long)).slice(0, _SAMPLE)
                columns = [_Column(column) for column in sample.columns]
            for index in columns_with_breaks:
                if num_rows := self._num_rows(cells[index], index, columns):
                    self._add(int(lines[row]), cells, table.column_names[index], num_rows)

    def report(self) -> None:
        """Reports the suspicious cells, if any."""
        # In a single column every line of a cell reads as a row: where more than one cell, and not only one in many,
        # has several, they are meant.
        if not self.count or (self.is_one_column and self.count > 1 and self.num_read < MIN_CELLS * self.count):
            return
        others = f" (and {plural(self.count - 1, 'more such cell')}, {self.num_rows:,} rows in all)"
        remark(
            f"warning: {self.first}{others if self.count > 1 else ''}; if its quotes belong to the text, "
            "add --quoting none"
        )

    def _add(self, line: int, cells: Sequence[str], column: str, num_rows: int) -> None:
        self.count, self.num_rows = self.count + 1, self.num_rows + num_rows
        if self.count == 1:
            last = line + sum(len(_BREAK.findall(cell)) for cell in cells)
            self.first = (
                f"{self.name}, lines {line} to {last}: one quoted cell of {column!r} reaches over them and reads as "
                f"{plural(num_rows, 'further row')} of the table"
            )

    def _num_rows(self, cell: str, index: int, columns: Sequence["_Column"]) -> int:
        """The number of rows that a quoted cell contains; 0 where it reads as something else."""
        last = len(columns) - 1
        pieces = [piece.split(self.delimiter) for piece in _BREAK.split(cell)]
        middle = [piece for piece in pieces[1:-1] if piece != [""]]
        if not last and any(not piece[0] or piece[0][0].isspace() for piece in pieces):
            return 0
        if len(pieces[0]) != last - index + 1 or len(pieces[-1]) != index + 1:
            return 0
        if any(len(piece) != last + 1 for piece in middle):
            return 0

        looks_right = (
            all(map(_Column.has_like, columns[index + 1 :], pieces[0][1:]))
            and all(map(_Column.has_like, columns[:index], pieces[-1][:-1]))
            and all(columns[at].has_like(value) for piece in middle for at, value in enumerate(piece) if at != index)
        )

        return len(middle) + 1 if looks_right else 0


class _Column:
    """The typical cells of a column, from a sample."""

    def __init__(self, cells: "pa.ChunkedArray"):
        texts = [text.strip() for text in to_text_arrow(cells).to_pylist()]
        self.distinct_texts = set(texts)
        self.is_numeric = all(not read_number(text)[1] for text in self.distinct_texts if text)
        self.is_free = not self.is_numeric and len(self.distinct_texts) > len(texts) / 2

    def has_like(self, value: str) -> bool:
        """Whether a value may stand in the column: a number among numbers, one of few words, or a text."""
        text = value.strip()
        if text in self.distinct_texts:
            return True
        if self.is_numeric:
            return not read_number(text)[1]
        # Behind a comma of prose stands a blank.
        return self.is_free and bool(text) and not value[0].isspace()
