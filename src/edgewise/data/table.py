"""A table of molecules: the cells of a file read as molecules, targets, conditions and weights, row by row."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float64, Int64

from edgewise.data.cell import OK, Classes, Problems, Rejection, find_classes, read_labels, read_numbers
from edgewise.data.read import Cells, Values, cells_from_arrays, check_columns_exist, join_cells, pd, read_cells
from edgewise.data.store import MoleculeStore
from edgewise.errors import DataError, SettingError

TASK_TYPES = ("regression", "classification", "multiclass")


@dataclass(frozen=True)
class Columns:
    """Which column of a table says what."""

    smiles_columns: tuple[str, ...]
    """One column for each component of a row: one molecule, or a cation and an anion."""
    target_columns: tuple[str, ...] = ()
    """What is to be predicted; where it is empty, every column that has no other role."""
    descriptors_columns: tuple[str, ...] = ()
    """Numbers that belong to the row: temperature, pressure."""
    ignore_columns: tuple[str, ...] = ()
    """Columns without a role."""
    weight_column: str | None = None
    """How much each row counts in training."""
    splits_column: str | None = None
    """Which part (train, val, test) each row belongs to."""
    group_column: str | None = None
    """Rows of one group stay in one part."""
    task_type: str = "regression"
    """`regression`, `classification` (two classes) or `multiclass`."""

    def __post_init__(self) -> None:
        """Raise a `SettingError` for a role without a column, a column with two roles, or an unknown task."""
        if not self.smiles_columns:
            raise SettingError("smiles_columns is empty: name at least one column with SMILES.")
        if self.task_type not in TASK_TYPES:
            raise SettingError(f"task_type is {self.task_type!r}, expected one of {', '.join(TASK_TYPES)}.")
        seen: dict[str, str] = {}
        for role, names in self.roles().items():
            for name in names:
                if name in seen:
                    raise SettingError(
                        f"Column {name!r} is named in {seen[name]} and in {role}: a column has one role."
                    )
                seen[name] = role

    def roles(self) -> dict[str, tuple[str, ...]]:
        """The columns of each role."""
        return {
            "smiles_columns": self.smiles_columns,
            "target_columns": self.target_columns,
            "descriptors_columns": self.descriptors_columns,
            "ignore_columns": self.ignore_columns,
            "weight_column": () if self.weight_column is None else (self.weight_column,),
            "splits_column": () if self.splits_column is None else (self.splits_column,),
            "group_column": () if self.group_column is None else (self.group_column,),
        }


@dataclass(frozen=True, eq=False)
class MoleculeTable:
    """The rows of one or several files in their order; rows that cannot be used keep their place."""

    source: str
    """The file, or the files joined by commas."""
    files: tuple[str, ...]
    """Each file."""
    frame: pd.DataFrame
    """All cells as the strings they are in the file."""
    columns: Columns
    """Which column says what, targets resolved."""
    store: MoleculeStore
    """Every distinct molecule once."""
    graph_of_row: Int64[np.ndarray, " row component"]
    """The molecule of each SMILES column in the store; -1 where it cannot be read."""
    targets: Float64[np.ndarray, " row target"]
    """Numbers, or places in `classes`; NaN where missing or unreadable."""
    conditions: Float64[np.ndarray, " row condition"]
    """Numbers of the row in their raw units; NaN where unreadable."""
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

    @property
    def usable(self) -> Bool[np.ndarray, " row"]:
        """True for rows that can be trained on or predicted."""
        return np.array([status == OK for status in self.status], dtype=bool)

    @property
    def num_rows(self) -> int:
        """How many rows the files have, usable or not."""
        return len(self.status)

    def with_store(self, store: MoleculeStore) -> "MoleculeTable":
        """The same table over the same molecules with other global features."""
        return replace(self, store=store)


def read_table(
    path: str | Path,
    columns: Columns,
    *,
    strict: bool = False,
    need_targets: bool = True,
    classes: Classes | None = None,
    with_descriptors: bool = True,
) -> MoleculeTable:
    """Read a file of molecules; single rows that cannot be used are marked, not dropped.

    Args:
        path: .csv, .tsv, .csv.gz, .tsv.gz or .parquet.
        columns: which column says what.
        strict: stop at the first row that cannot be used.
        need_targets: False reads rows to predict: targets, weights, splits and groups may be absent or unreadable.
        classes: names of the classes that a trained model knows; by default those that occur.
        with_descriptors: compute RDKit's whole-molecule descriptors (milliseconds for each distinct molecule).

    Returns:
        The table. An empty target cell is missing; a row whose targets are all missing cannot be trained on.

    Raises:
        DataError: the file cannot be used as a whole, or `strict` and a row cannot; the message names file, line,
            column, what stands there and what was expected.
    """
    return join_files(
        [path],
        columns,
        strict=strict,
        need_targets=need_targets,
        classes=classes,
        with_descriptors=with_descriptors,
    )


def join_files(
    paths: Sequence[str | Path],
    columns: Columns,
    *,
    strict: bool = False,
    need_targets: bool = True,
    classes: Classes | None = None,
    with_descriptors: bool = True,
) -> MoleculeTable:
    """Read several files of the same columns as one table; `file_of_row` remembers which row came from which.

    Arguments, result and errors are those of `read_table`; files with different columns are a `DataError` that
    names both.
    """
    if not paths:
        raise SettingError("paths is empty: name at least one file.")
    parts = [read_cells(path) for path in paths]
    columns = _resolved(parts[0], columns, need_targets)
    for part in parts:
        check_columns_exist(part, _needed_columns(columns, need_targets))
    return _interpret(join_cells(parts), columns, strict, need_targets, classes, with_descriptors)


def table_from_arrays(
    smiles: Values,
    targets: Values | None = None,
    conditions: Values | None = None,
    weights: Values | None = None,
    groups: Values | None = None,
    *,
    task_type: str = "regression",
    classes: Classes | None = None,
    strict: bool = False,
    with_descriptors: bool = True,
) -> MoleculeTable:
    """A table from arrays, with the checks of a file.

    Args:
        smiles: `(row,)` or `(row, component)` strings.
        targets: `(row,)` or `(row, target)`; NaN or None is missing; None altogether for rows to predict.
        conditions: `(row,)` or `(row, condition)` numbers.
        weights: `(row,)` numbers, zero or more.
        groups: `(row,)` labels.
        task_type, classes, strict, with_descriptors: as in `Columns` and `read_table`.

    Returns:
        A table whose columns are called `smiles` (`smiles_1`, `smiles_2`, ...), `target...`, `condition...`,
        `weight` and `group`.

    Raises:
        DataError: the arrays have different lengths or a wrong number of axes, or no row can be used.
    """
    arrays = {"smiles": smiles, "target": targets, "condition": conditions, "weight": weights, "group": groups}
    cells, columns_of = cells_from_arrays({name: values for name, values in arrays.items() if values is not None})
    for name in ("weight", "group"):
        if columns_of.get(name, (name,)) != (name,):
            raise DataError(f"{name} has 2 axes, expected (row,).")
    columns = Columns(
        smiles_columns=columns_of["smiles"],
        target_columns=columns_of.get("target", ()),
        descriptors_columns=columns_of.get("condition", ()),
        weight_column="weight" if "weight" in columns_of else None,
        group_column="group" if "group" in columns_of else None,
        task_type=task_type,
    )
    return _interpret(cells, columns, strict, targets is not None, classes, with_descriptors)


def _resolved(cells: Cells, columns: Columns, need_targets: bool) -> Columns:
    """The columns with targets named: those that have no other role where the caller named none."""
    if columns.target_columns or not need_targets:
        return columns
    taken = {name for names in columns.roles().values() for name in names}
    targets = tuple(name for name in cells.frame.columns if name not in taken)
    if not targets:
        raise DataError(f"{cells.source}: no column is left for a target: add one to the file or name it.")
    return replace(columns, target_columns=targets)


def _needed_columns(columns: Columns, need_targets: bool) -> tuple[str, ...]:
    if not need_targets:
        return (*columns.smiles_columns, *columns.descriptors_columns)
    return tuple(name for names in columns.roles().values() for name in names)


def _interpret(
    cells: Cells,
    columns: Columns,
    strict: bool,
    need_targets: bool,
    classes: Classes | None,
    with_descriptors: bool,
) -> MoleculeTable:
    """The cells as molecules and numbers; a row is usable when every cell it needs can be read."""
    problems = Problems()
    store, graph_of_row = _read_molecules(cells, columns.smiles_columns, problems, with_descriptors)
    conditions = [read_numbers(list(cells.frame[column]), column, problems) for column in columns.descriptors_columns]
    # Rows to predict need no target: one that cannot be read there is missing.
    target_problems = problems if need_targets else Problems()
    targets, classes = _read_targets(cells, columns, classes, target_problems)
    weights = np.ones(len(cells.frame))
    if columns.weight_column is not None and columns.weight_column in cells.frame:
        weight_cells = list(cells.frame[columns.weight_column])
        weights = read_numbers(weight_cells, columns.weight_column, target_problems, may_be_negative=False)
    if need_targets:
        for row in np.isnan(targets).all(axis=1).nonzero()[0].tolist():
            reason = "every target cell of the row is empty" if targets.shape[1] > 1 else "the target cell is empty"
            problems.add(row, columns.target_columns[0], "", reason)
    if problems.first and strict:
        _stop(cells, problems)
    if need_targets and len(problems.first) == len(cells.frame):
        column, _, reason = problems.first[0]
        first = f"line {cells.lines[0]}, {column}: {reason}"
        raise DataError(f"{cells.source}: none of its {len(cells.frame)} rows can be used; {first}.")
    status = [OK] * len(cells.frame)
    for row, (column, _, reason) in problems.first.items():
        status[row] = f"{column}: {reason}"
    return MoleculeTable(
        source=cells.source,
        files=cells.files,
        frame=cells.frame,
        columns=columns,
        store=store,
        graph_of_row=graph_of_row,
        targets=targets,
        conditions=np.stack([*conditions], axis=1) if conditions else np.zeros((len(cells.frame), 0)),
        weights=weights,
        status=status,
        rejected=[
            Rejection(cells.files[cells.file_of_row[row]], int(cells.lines[row]), *problems.first[row])
            for row in sorted(problems.first)
        ],
        classes=classes,
        file_of_row=cells.file_of_row,
        lines=cells.lines,
    )


def _read_molecules(
    cells: Cells, smiles_columns: tuple[str, ...], problems: Problems, with_descriptors: bool
) -> tuple[MoleculeStore, Int64[np.ndarray, " row component"]]:
    texts = [text for column in smiles_columns for text in cells.frame[column]]
    store, graph_of_text, reasons = MoleculeStore.collect(texts, with_descriptors=with_descriptors)
    graph_of_row = graph_of_text.reshape(len(smiles_columns), -1).T.copy()
    for row, component in np.argwhere(graph_of_row < 0).tolist():
        text = cells.frame[smiles_columns[component]].iloc[row]
        problems.add(row, smiles_columns[component], text, reasons[text].rstrip("."))
    return store, graph_of_row


def _read_targets(
    cells: Cells, columns: Columns, classes: Classes | None, problems: Problems
) -> tuple[Float64[np.ndarray, " row target"], Classes]:
    """Targets as numbers, and the classes they count; a target column that is absent is all missing."""
    targets = np.full((len(cells.frame), len(columns.target_columns)), np.nan)
    known = dict(classes or {})
    for place, column in enumerate(columns.target_columns):
        if column not in cells.frame:
            continue
        texts = list(cells.frame[column])
        if columns.task_type == "regression":
            targets[:, place] = read_numbers(texts, column, problems, may_be_missing=True)
            continue
        if column not in known:
            known[column] = find_classes(texts, column, cells.source, two=columns.task_type == "classification")
        targets[:, place] = read_labels(texts, column, known[column], problems)
    return targets, known


def _stop(cells: Cells, problems: Problems) -> None:
    row = min(problems.first)
    column, value, reason = problems.first[row]
    file = int(cells.file_of_row[row])
    place = row - int(np.searchsorted(cells.file_of_row, file)) + 1
    raise DataError(
        f"{cells.files[file]}, row {place} (line {cells.lines[row]}), column {column!r}: {reason}; "
        f"the cell is {value!r}. Mend the cell, or do without strict to pass over the row."
    )
