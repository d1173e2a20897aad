"""The rows of a data set: targets, weights, and the reasons why rows cannot be used."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
from jaxtyping import Bool, Float64, Int64

from edgewise.errors import DataError, SettingError, plural, refuse_single_text
from edgewise.learn.files import release_memory
from edgewise.learn.tables.cell import OK, Problems, Rejection, encoded, read_numbers
from edgewise.learn.tables.columns import AUTO, Columns
from edgewise.learn.tables.labels import (
    Classes,
    Label,
    choose_task,
    class_hint,
    find_classes,
    label_notes,
    read_labels,
    target_notes,
)
from edgewise.learn.tables.magnitude import LARGEST_SINGLE, CellName, summable
from edgewise.learn.tables.mapped import is_large, mapped_cells, mapped_note
from edgewise.learn.tables.read import (
    ARRAYS,
    Cells,
    TableChunks,
    Values,
    cells_from_arrays,
    check_columns_exist,
    join_cells,
)

RowNumbers: TypeAlias = Int64[np.ndarray, " _"]
"""Any number of rows of a table, counted from 0."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Contents:
    """What the rows of a table hold, and which of them are the same to a model."""

    noun: str
    """What the rows hold, in the plural: molecules, texts, nodes."""
    names: Callable[[RowNumbers], list[str]]
    """What the contents of some rows are called; those of equal rows have equal names."""
    keys: Callable[[RowNumbers], Int64[np.ndarray, " _"]] | None = None
    """A number for each of some rows, equal for rows with equal contents; None where no two rows are equal."""
    num_distinct: int | None = None
    """The number of distinct contents, where it is not that of the keys of usable rows."""
    row_noun: str | None = None
    """What a row is where it holds several of these, in the plural: combinations of molecules."""
    counted_noun: str = "row"
    """What is counted, in the singular, such as a graph, which has many rows of a file."""
    scaffolds: Callable[[RowNumbers], list[str]] | None = None
    """The scaffold of each of some rows; None where they have none."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The table part of a data set: what is predicted, a row each; rows that cannot be used keep their place."""

    cells: Cells
    """The files, as they were read."""
    columns: Columns
    """The role of each column, targets named."""
    targets: Float64[np.ndarray, " row target"]
    """Numbers, or indices into `classes`; NaN where missing or unreadable."""
    weights: Float64[np.ndarray, " row"]
    """1 where the table does not say; NaN where unreadable. Those of the table up to one factor; see `summable`."""
    classes: Mapping[str, Sequence[Label]]
    """Names of the classes of each target in the order of their numbers; empty for regression."""
    status: list[str]
    """`ok`, or the column and the reason why the row cannot be used."""
    rejected: list[Rejection]
    """Rows that cannot be used, in file order, each once; then those of a table of edges."""
    contents: Contents
    """What the rows hold."""
    rejected_edges: Sequence[Rejection] = ()
    """Those of `rejected` that cannot be read as an edge; none for rows without edges."""
    unread: Sequence[int] = ()
    """Rows of which something else than a target or weight cannot be read: other rows may depend on it."""
    notes: tuple[str, ...] = ()
    """Notes about the targets, one line each: the task type and why, similar labels."""

    def __len__(self) -> int:
        return len(self.status)

    @property
    def source(self) -> str:
        """All files, for messages about the whole."""
        return self.cells.source

    def cell_name(self, row: int, column: str) -> str:
        """The name of a cell in messages."""
        return f"{self.cells.row_name(row)}, column {column!r}"

    def cell_names(self, rows: RowNumbers | Sequence[int], columns: Sequence[str]) -> CellName:
        """The names of the cells of some rows and columns in messages, by their indices among these."""
        return lambda row, column: self.cell_name(int(rows[row]), columns[column])

    @cached_property
    def usable(self) -> Bool[np.ndarray, " row"]:
        """True for rows that can be predicted."""
        return np.fromiter((status == OK for status in self.status), bool, len(self))

    @property
    def trainable(self) -> Bool[np.ndarray, " row"]:
        """True for rows that can be learned from, or judged by: they have a target."""
        return self.usable & ~np.isnan(self.targets).all(axis=1)

    @property
    def row_noun(self) -> str:
        """What a row is, in the plural."""
        return self.contents.row_noun or self.contents.noun

    def keys(self, rows: RowNumbers) -> Int64[np.ndarray, " _"]:
        """A number for each of some rows, equal for rows with equal contents."""
        return rows if self.contents.keys is None else self.contents.keys(rows)

    @property
    def num_distinct(self) -> int:
        """The number of distinct contents."""
        if self.contents.num_distinct is not None:
            return self.contents.num_distinct
        return len(np.unique(self.keys(np.flatnonzero(self.usable))))


class Data(Protocol):
    """A data set with a row for each thing that is predicted: molecules, texts, the nodes or edges of a graph."""

    __dataclass_fields__: "ClassVar[dict[str, Field[object]]]"

    @property
    def rows(self) -> Rows:
        """Its table part."""


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


def cells_and_columns(
    arrays: dict[str, Values | None], numbers: Sequence[str] = (), reserved: Sequence[str] = ()
) -> tuple[Cells, dict[str, tuple[str, ...]], dict[str, Any]]:
    """Arrays as cells, the columns that each became, and the columns of weights and groups for `Columns`; `numbers` and
    `reserved` as in `cells_from_arrays`.

    Raises:
        DataError: the arrays have different lengths or a wrong number of axes.
    """
    for name, values in arrays.items():
        refuse_single_text(name, values)
    held = {name: values for name, values in arrays.items() if values is not None}
    cells, columns_of = cells_from_arrays(held, numbers, reserved)
    for name in ("weight", "group"):
        if hasattr(arrays.get(name), "columns") or columns_of.get(name, ())[:1] == (f"{name}_1",):
            raise DataError(f"{name} has 2 axes, expected (row,).")
    roles = {f"{name}_column": columns_of[name][0] if name in columns_of else None for name in ("weight", "group")}
    return cells, columns_of, roles


def checked_rows(
    cells: Cells,
    columns: Columns,
    problems: Problems,
    contents: Contents,
    classes: Classes | None = None,
    *,
    strict: bool,
    need_targets: bool,
    may_lack_targets: bool = False,
) -> Rows:
    """The rows of a data set: targets and weights are read here, and added to what is wrong with the rows.

    Args:
        cells: The file.
        columns: What each column is, targets named.
        problems: What was found wrong so far.
        contents: What the rows hold.
        classes: The classes that a trained model knows; by default those that occur.
        strict: Stop at the first row that cannot be used.
        need_targets: False for rows to predict: a target that cannot be read there is missing.
        may_lack_targets: Whether a row without any target is good all the same.

    Raises:
        DataError: No row can be used; or one cannot, and `strict`.
    """
    supervision = (*columns.target_columns, columns.weight_column)
    problems.first.update(cells.unreadable)  # before the empty cell that stands there instead
    unread = [row for row, (column, _, _) in problems.first.items() if column not in supervision]
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
        weights = summable(
            read_numbers(
                weight_cells, columns.weight_column, target_problems, may_be_negative=False, limit=LARGEST_SINGLE
            )
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

    release_memory(cells.mapped)
    status = [OK] * len(cells.frame)
    for row, (column, _, reason) in problems.first.items():
        status[row] = f"{column}: {reason}"
    rejected = [
        Rejection(cells.files[cells.file_of_row[row]], int(cells.lines[row]), *problems.first[row])
        for row in sorted(problems.first)
    ]
    if cells.mapped:
        notes.insert(0, mapped_note(len(cells.lines)))

    return Rows(
        cells, columns, targets, weights, classes, status, rejected, contents, unread=unread, notes=tuple(notes)
    )


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
        raise DataError(f"{cells.row_name(row)}, column {column!r}: {reason}; {advice}")
    file = int(cells.file_of_row[row])
    row_in_file = cells.first_row + row - int(np.searchsorted(cells.file_of_row, file)) + 1
    raise DataError(
        f"{cells.files[file]}, row {row_in_file} (line {cells.lines[row]}), column {column!r}: {reason}; "
        + ". ".join([f"the cell is {value!r}", *notes, "Fix the cell, or drop --strict to skip the row."])
    )
