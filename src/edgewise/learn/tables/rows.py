"""A table of examples: targets, weights, and the reasons why rows cannot be used."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float64, Int64

from edgewise.errors import DataError, SettingError, refuse_single_text
from edgewise.formatting import plural
from edgewise.learn.files import release
from edgewise.learn.tables.cell import OK, Problems, Rejection, encoded, read_numbers
from edgewise.learn.tables.columns import AUTO, Columns
from edgewise.learn.tables.labels import (
    Classes,
    choose_task,
    class_hint,
    find_classes,
    label_notes,
    read_labels,
    target_notes,
)
from edgewise.learn.tables.magnitude import LARGEST_SINGLE, Where
from edgewise.learn.tables.mapped import is_large, mapped_cells, mapped_note
from edgewise.learn.tables.read import (
    ARRAYS,
    Cells,
    TableChunks,
    Values,
    cells_from_arrays,
    check_columns_exist,
    join_cells,
    pd,
)


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of one or several files in their order; rows that cannot be used keep their place."""

    source: str
    """The file, or the files joined by commas."""
    files: tuple[str, ...]
    """Each file."""
    frame: pd.DataFrame
    """All cells as the strings they are in the file."""
    columns: Columns
    """The role of each column, targets named."""
    targets: Float64[np.ndarray, " row target"]
    """Numbers, or indices into `classes`; NaN where missing or unreadable."""
    weights: Float64[np.ndarray, " row"]
    """1 where the table does not say; NaN where unreadable."""
    status: list[str]
    """`ok`, or the column and the reason why the row cannot be used."""
    rejected: list[Rejection]
    """Rows that cannot be used, in file order, each once."""
    classes: Classes
    """Names of the classes of each target in the order of their numbers; empty for regression."""
    file_of_row: Int64[np.ndarray, " row"]
    """Which of `files` each row came from, counted from 0."""
    lines: Int64[np.ndarray, " row"]
    """Line of its file on which each row begins."""
    notes: tuple[str, ...] = field(default=(), kw_only=True)
    """Notes about the targets, one line each: the task type and why, similar labels."""
    mapped: tuple[np.ndarray, ...] = field(default=(), kw_only=True)
    """The mapped files of the rows; empty where they are in memory."""
    as_written: pd.DataFrame | None = field(default=None, kw_only=True)
    """The cells as written in the file, where they differ from `frame`."""

    has_distinct_rows: ClassVar[bool] = False
    """Whether no two rows can be the same to a model."""

    def where(self, row: int, column: str) -> str:
        """The name of a cell in messages."""
        return f"{place_of(self, row)}, column {column!r}"

    def places(self, rows: Int64[np.ndarray, " _"] | Sequence[int], columns: Sequence[str]) -> Where:
        """The names of the cells of some rows and columns in messages, by their indices among these."""
        return lambda row, column: self.where(int(rows[row]), columns[column])

    @property
    def usable(self) -> Bool[np.ndarray, " row"]:
        """True for rows that can be trained on or predicted."""
        return np.array([status == OK for status in self.status], dtype=bool)

    @property
    def trainable(self) -> Bool[np.ndarray, " row"]:
        """True for rows that can be learned from, or judged by."""
        return self.usable

    @property
    def lost_edges(self) -> Sequence[Rejection]:
        """Rows of a table of edges that cannot be read as an edge, in file order; empty for rows without edges."""
        return ()

    @property
    def num_rows(self) -> int:
        """The number of rows in the files, usable or not."""
        return len(self.status)

    @property
    def unit(self) -> str:
        """The unit of rows, in the plural."""
        raise NotImplementedError

    @property
    def row_unit(self) -> str:
        """The contents of one row, in the plural."""
        return self.unit

    @property
    def counted_unit(self) -> str:
        """The unit that is counted for rows, in the singular, such as a graph, which may have many rows."""
        return "row"

    @property
    def num_distinct(self) -> int:
        """The number of distinct rows."""
        (keys,) = self.keys(np.flatnonzero(self.usable))
        return len(np.unique(keys))

    def scaffolds(self, rows: np.ndarray) -> list[str]:
        """The scaffold of each of some rows, for splits that keep scaffolds together."""
        raise SettingError("split is 'scaffold', but only molecules have scaffolds; use random or group.")

    def contents(self, rows: np.ndarray) -> Sequence[tuple[Hashable, ...]]:
        """The inputs of some rows: equal for rows that are the same to a model."""
        raise NotImplementedError

    def keys(self, *rows: np.ndarray) -> list[Int64[np.ndarray, " _"]]:
        """A number for each row of some sets of rows, equal for rows with equal contents."""
        numbers: dict[tuple[Hashable, ...], int] = {}
        return [
            np.array([numbers.setdefault(content, len(numbers)) for content in self.contents(row_numbers)], np.int64)
            for row_numbers in rows
        ]


def place_of(rows: Table | Cells, row: int) -> str:
    """What messages call a row: the line of its file; its number, counted from 0, where it stands in an array."""
    if rows.files == ARRAYS:
        return f"{ARRAYS[0]}, row {row}"
    return f"{rows.files[rows.file_of_row[row]]}, line {rows.lines[row]}"


def resolved(cells: Cells, columns: Columns, need_targets: bool) -> Columns:
    """The columns with targets named: by default those without another role."""
    if columns.target_columns or not need_targets:
        return columns
    used = {name for names in columns.roles().values() for name in names}
    targets = tuple(name for name in cells.frame.columns if name not in used)
    if not targets:
        raise DataError(f"{cells.source}: no column is left for a target: add one to the file or name it.")
    return replace(columns, target_columns=targets)


def read_files(
    paths: Sequence[str | Path], columns: Columns, need_targets: bool, *, may_map: bool = False
) -> tuple[Cells, Columns]:
    """The cells of several files below each other, and the columns with targets named.

    Args:
        paths: The files.
        columns: What each column is.
        need_targets: Whether there must be targets.
        may_map: Whether the cells of large tables are in mapped files.

    Raises:
        DataError: A file cannot be read, lacks a column, or has other columns than the first.
    """
    if not paths:
        raise SettingError("paths is empty: name at least one file.")
    tables = [TableChunks(path) for path in paths]
    is_mapped = may_map and is_large(tables)

    # The columns are checked before a large table is copied.
    parts = [next(iter(table)) if is_mapped else table.whole() for table in tables]
    columns = resolved(parts[0], columns, need_targets)
    needed = columns.inputs
    if need_targets:
        needed = tuple(name for names in columns.roles().values() for name in names)
    for part in parts:
        check_columns_exist(part, needed)

    return mapped_cells(tables) if is_mapped else join_cells(parts), columns


def cells_of_roles(arrays: dict[str, Values | None]) -> tuple[Cells, dict[str, tuple[str, ...]], dict[str, Any]]:
    """Arrays as cells, the columns that each became, and the columns of weights and groups for `Columns`.

    Raises:
        DataError: the arrays have different lengths or a wrong number of axes.
    """
    for name, values in arrays.items():
        refuse_single_text(name, values)
    cells, columns_of = cells_from_arrays({name: values for name, values in arrays.items() if values is not None})
    for name in ("weight", "group"):
        if hasattr(arrays.get(name), "columns") or columns_of.get(name, ())[:1] == (f"{name}_1",):
            raise DataError(f"{name} has 2 axes, expected (row,).")
    roles = {f"{name}_column": columns_of[name][0] if name in columns_of else None for name in ("weight", "group")}
    return cells, columns_of, roles


def judged(
    cells: Cells,
    columns: Columns,
    problems: Problems,
    classes: Classes | None,
    *,
    strict: bool,
    need_targets: bool,
    may_lack_targets: bool = False,
) -> dict[str, Any]:
    """All fields of a `Table`: targets and weights are read here, and added to what is wrong with the rows.

    Args:
        cells: The file.
        columns: What each column is, targets named.
        problems: What was found wrong so far.
        classes: The classes that are known; None finds them.
        strict: Stop at the first row that cannot be used.
        need_targets: False for rows to predict: a target that cannot be read there is missing.
        may_lack_targets: Whether a row without any target is good all the same.

    Raises:
        DataError: No row can be used; or one cannot, and `strict`.
    """
    target_problems = problems if need_targets else Problems()
    notes: list[str] = []
    if columns.task_type == AUTO:
        cells_of = {name: cells.frame[name] for name in columns.target_columns if name in cells.frame}
        columns = replace(columns, task_type=choose_task(cells_of, cells.source, cells.label_columns))

    targets, classes, notes_of_targets = _read_targets(cells, columns, classes, target_problems)
    notes += notes_of_targets if need_targets else []
    weights = np.ones(len(cells.frame))
    if columns.weight_column is not None and columns.weight_column in cells.frame:
        weight_cells = cells.frame[columns.weight_column]
        weights = read_numbers(
            weight_cells, columns.weight_column, target_problems, may_be_negative=False, limit=LARGEST_SINGLE
        )

    if need_targets and not may_lack_targets:
        for row in np.isnan(targets).all(axis=1).nonzero()[0].tolist():
            reason = "every target cell of the row is empty" if targets.shape[1] > 1 else "the target cell is empty"
            problems.add(row, columns.target_columns[0], "", reason)

    if problems.first and strict:
        _stop(cells, problems, notes)
    if need_targets and len(problems.first) == len(cells.frame):
        column, _, reason = problems.first[0]
        others = [name for name in problems.unreadable_columns(len(cells.frame)) if name != column]
        also = [f"No cell of {name!r} can be read either: {problems.reasons[name]}" for name in others]
        first = ". ".join([f"line {cells.lines[0]}, {column}: {reason}", *also, *notes])
        raise DataError(f"{cells.source}: none of its {plural(len(cells.frame), 'row')} can be used; {first}.")

    if need_targets:
        notes = [
            *target_notes(targets, columns.target_columns, {} if columns.task_type == "regression" else classes),
            *notes,
        ]

    release(cells.mapped)
    status = [OK] * len(cells.frame)
    for row, (column, _, reason) in problems.first.items():
        status[row] = f"{column}: {reason}"
    return {
        "source": cells.source,
        "files": cells.files,
        "frame": cells.frame,
        "columns": columns,
        "targets": targets,
        "weights": weights,
        "status": status,
        "rejected": [
            Rejection(cells.files[cells.file_of_row[row]], int(cells.lines[row]), *problems.first[row])
            for row in sorted(problems.first)
        ],
        "classes": classes,
        "file_of_row": cells.file_of_row,
        "lines": cells.lines,
        "notes": (*([mapped_note(len(cells.lines))] if cells.mapped else []), *notes),
        "mapped": cells.mapped,
        "as_written": None if cells.written is None else cells.as_written,
    }


def _read_targets(
    cells: Cells, columns: Columns, classes: Classes | None, problems: Problems
) -> tuple[Float64[np.ndarray, " row target"], Classes, list[str]]:
    """Targets as numbers, the classes they count, and what should be known of both; a target column that is absent is
    all missing."""
    notes: list[str] = []
    targets = np.full((len(cells.frame), len(columns.target_columns)), np.nan)
    classes_of_column = dict(classes or {})
    for index, column in enumerate(columns.target_columns):
        if column not in cells.frame:
            continue
        if columns.task_type == "regression":
            targets[:, index] = read_numbers(cells.frame[column], column, problems, may_be_missing=True)
            if np.isnan(targets[:, index]).all() and (hint := class_hint(cells.frame[column], column)):
                notes.append(hint)
            continue

        texts = encoded(cells.frame[column])
        if column not in classes_of_column:
            classes_of_column[column] = find_classes(
                texts, column, cells.source, two=columns.task_type == "classification"
            )

        targets[:, index] = read_labels(texts, column, classes_of_column[column], problems)
        notes += label_notes(texts, column, classes_of_column[column])

    return targets, classes_of_column, notes


def _stop(cells: Cells, problems: Problems, notes: Sequence[str]) -> None:
    row = min(problems.first)
    column, value, reason = problems.first[row]
    if cells.files == ARRAYS:
        advice = ". ".join([f"the cell is {value!r}", *notes, "Fix the cell, or leave the row out."])
        raise DataError(f"{place_of(cells, row)}, column {column!r}: {reason}; {advice}")
    file = int(cells.file_of_row[row])
    row_in_file = cells.first_row + row - int(np.searchsorted(cells.file_of_row, file)) + 1
    raise DataError(
        f"{cells.files[file]}, row {row_in_file} (line {cells.lines[row]}), column {column!r}: {reason}; "
        + ". ".join([f"the cell is {value!r}", *notes, "Fix the cell, or drop --strict to skip the row."])
    )
