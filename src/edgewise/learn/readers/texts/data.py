"""A table of texts: one or several columns of text a row, targets and weights."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from edgewise.errors import DataError, plural
from edgewise.learn.files import release_memory
from edgewise.learn.readers.texts.packed import PackedTokens
from edgewise.learn.readers.texts.tokenizer import Tokenizer, read_text
from edgewise.learn.tables.cell import Problems, as_text, pa, stripped, to_text_arrow
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tables.decode import lines_of
from edgewise.learn.tables.labels import Classes
from edgewise.learn.tables.mapped import ROWS, keys_of
from edgewise.learn.tables.read import Cells, Values, cells_from_arrays, check_columns_exist, join_cells
from edgewise.learn.tables.rows import Contents, Rows, cells_and_columns, checked_rows, read_files

LINE_SUFFIXES = (".txt", ".txt.gz")
"""Files of which each line is a text."""
LARGEST_WHOLE = 2**53
"""Beyond it, floating-point numbers do not hold every whole one."""


@dataclass(frozen=True, eq=False)
class TextData:
    """The rows of one or several files of texts."""

    rows: Rows
    """A row for each text, or for texts that belong together."""

    @property
    def texts(self) -> list[tuple[str, ...]]:
        """The texts of each row as written in the file, read anew at each call."""
        return list(self.iter_texts())

    def iter_texts(self, rows: np.ndarray | None = None) -> Iterator[tuple[str, ...]]:
        """The texts of some rows, or of all, of which few are in memory at the same time."""
        return _iter_texts(self.rows.cells, self.rows.columns.text_columns, rows)

    def of_rows(self, rows: np.ndarray) -> list[tuple[str, ...]]:
        """The texts of some rows."""
        return _of_rows(self.rows.cells, self.rows.columns.text_columns, rows)

    def tokens(self, tokenizer: Tokenizer, context: int) -> PackedTokens:
        """The tokens of each row, at most `context`; a row that cannot be used is read as empty.

        Those of the last vocabulary stay with the table.
        """
        cached: PackedTokens | None = self.__dict__.get("_tokens")
        if cached is None or cached.tokenizer is not tokenizer or cached.context != context:
            cached = PackedTokens(self._usable_texts(), tokenizer, context, is_mapped=bool(self.rows.cells.mapped))
            self.__dict__["_tokens"] = cached
        return cached

    def _usable_texts(self) -> Iterator[Sequence[str]]:
        for texts, is_usable in zip(self.iter_texts(), self.rows.usable, strict=True):
            yield texts if is_usable else [""] * len(texts)


def read_texts(
    paths: Sequence[str | Path],
    columns: Columns,
    *,
    strict: bool = False,
    need_targets: bool = True,
) -> TextData:
    """Read files of texts as one table; single rows that cannot be used are marked, not dropped.

    Args:
        paths: .csv, .tsv, .csv.gz, .tsv.gz, .xlsx or .parquet; for rows to predict also .txt and .txt.gz, one text
            per line.
        columns: the role of each column.
        strict: stop at the first row that cannot be used.
        need_targets: False reads rows to predict.

    Raises:
        DataError: a file cannot be used as a whole, or `strict` and a row cannot.
    """
    lines = [str(path) for path in paths if str(path).lower().endswith(LINE_SUFFIXES)]
    if lines and need_targets:
        raise DataError(f"{lines[0]}: lines of text lack targets; give a table (.csv, .tsv, .parquet).")
    if lines:
        return _interpret(from_lines(lines, columns), columns, strict, need_targets)
    cells, columns = read_files(paths, columns, need_targets, may_map=True)

    return _interpret(cells, columns, strict, need_targets)


def texts_from_cells(cells: Cells, columns: Columns, *, strict: bool = False, need_targets: bool = True) -> TextData:
    """The same for cells in memory, such as a chunk of a file; the columns with targets named."""
    check_columns_exist(cells, columns.inputs)
    return _interpret(cells, columns, strict, need_targets)


def texts_from_arrays(
    texts: Values,
    targets: Values | None = None,
    weights: Values | None = None,
    groups: Values | None = None,
    *,
    task_type: str = "regression",
    strict: bool = False,
) -> TextData:
    """A table from arrays, with the checks of a file.

    Args:
        texts: `(row,)` or `(row, column)` strings; numbers as `written` has them.
        targets: `(row,)` or `(row, target)`; NaN or None is missing; None altogether for rows to predict.
        weights: `(row,)` numbers, zero or more.
        groups: `(row,)` labels.
        task_type, strict: as in `Columns` and `read_texts`.

    Raises:
        DataError: the arrays have different lengths or a wrong number of axes, or no row can be used.
    """
    arrays = {"text": texts, "target": targets, "weight": weights, "group": groups}
    cells, columns_of, others = cells_and_columns(arrays)
    numbers = {name: cells.frame[name] for name in columns_of["text"] if cells.frame[name].dtype.kind == "f"}
    if numbers:
        as_texts = {name: column.map(written).astype(str) for name, column in numbers.items()}
        cells = replace(cells, frame=cells.frame.assign(**as_texts))
    columns = Columns(
        text_columns=columns_of["text"],
        target_columns=columns_of.get("target", ()),
        task_type=task_type,
        **others,
    )

    return _interpret(cells, columns, strict, targets is not None)


def written(value: object) -> str:
    """A value as text; a whole number without a point, as pandas makes 2001.0 of 2001 where another row lacks one."""
    number = float(value) if isinstance(value, float | np.floating) else math.nan
    return str(int(number)) if number.is_integer() and abs(number) < LARGEST_WHOLE else as_text(value)


def from_lines(paths: Sequence[str], columns: Columns) -> Cells:
    """Each line of some files as a row with one column of text."""
    if len(columns.text_columns) != 1:
        raise DataError(
            f"{paths[0]}: a line is one text, but the model reads {plural(len(columns.text_columns), 'column')}: "
            f"{', '.join(columns.text_columns)}; give a table."
        )
    (name,) = columns.text_columns
    parts = []
    for path in paths:
        cells, _ = cells_from_arrays({name: lines_of(read_text(path))})
        parts.append(replace(cells, files=(path,)))
    return join_cells(parts)


def _interpret(
    cells: Cells, columns: Columns, strict: bool, need_targets: bool, classes: Classes | None = None
) -> TextData:
    """A row is usable when it has a text and every cell it needs can be read."""
    problems = Problems()
    columns_of_text = [cells.as_written[name] for name in columns.text_columns]
    is_full = np.any([pa.compute.not_equal(stripped(texts), "") for texts in columns_of_text], axis=0)
    for row in np.flatnonzero(~is_full).tolist():
        problems.add(row, columns.text_columns[0], as_text(columns_of_text[0].iloc[row]), "the text is empty")
    contents = _contents(cells, columns.text_columns)
    return TextData(checked_rows(cells, columns, problems, contents, classes, strict=strict, need_targets=need_targets))


def _contents(cells: Cells, names: Sequence[str]) -> Contents:
    """Rows are the same where their texts are: of each, the keys are 64 bits of a hash."""
    return Contents(
        noun="texts",
        names=lambda rows: list(map(str, _of_rows(cells, names, rows))),
        keys=lambda rows: keys_of(map("\0".join, _iter_texts(cells, names, rows))),
    )


def _iter_texts(cells: Cells, names: Sequence[str], rows: np.ndarray | None = None) -> Iterator[tuple[str, ...]]:
    rows = np.arange(len(cells.lines)) if rows is None else rows
    for start in range(0, len(rows), ROWS):
        yield from _of_rows(cells, names, rows[start : start + ROWS])
        release_memory(cells.mapped)


def _of_rows(cells: Cells, names: Sequence[str], rows: np.ndarray) -> list[tuple[str, ...]]:
    columns = [to_text_arrow(cells.frame[name]).take(pa.array(rows)) for name in names]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))
