"""Features of nodes: numbers in columns or arrays, sparse or dense, and one-hot categories."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float32, Int64

from edgewise.errors import DataError, plural
from edgewise.learn.readers.graphs.names import NodeNames
from edgewise.learn.tables.arrays import read_arrays, require_kind
from edgewise.learn.tables.cell import Problems, is_missing, missing, parse_columns, stripped
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tables.labels import words_of
from edgewise.learn.tables.magnitude import LARGEST_SINGLE, require_scalable, too_large
from edgewise.learn.tables.read import Cells, check_columns_exist

CSR = ("x_indices", "x_indptr", "x_shape")
"""The parts of a sparse table, as SciPy names them; values other than 1 are in x_data."""
Categories: TypeAlias = dict[str, list[str]]
"""The words of each column of categories, in the order of their features."""
Entries: TypeAlias = tuple[Int64[np.ndarray, " entry"], Int64[np.ndarray, " entry"], Float32[np.ndarray, " entry"]]


@dataclass(frozen=True, eq=False)
class NodeFeatures:
    """The features of each node, dense or sparse."""

    shape: tuple[int, int]
    """(node, feature)."""
    table: Float32[np.ndarray, " node feature"] | None = None
    """The dense table; None for sparse features."""
    entries: Entries | None = None
    """The node (ascending) and the feature of each number that is not zero, and the number; None beside a table."""

    @classmethod
    def of(cls, values: np.ndarray) -> "NodeFeatures":
        """Features from a dense table (node, feature)."""
        table = np.array(values, dtype=np.float32, order="C")
        is_sparse = 2 * np.count_nonzero(table) < table.size
        return cls.of_entries(*_entries(table), table.shape) if is_sparse else cls(table.shape, table)

    @classmethod
    def of_entries(
        cls,
        rows: Int64[np.ndarray, " entry"],
        columns: Int64[np.ndarray, " entry"],
        values: Float32[np.ndarray, " entry"],
        shape: tuple[int, int],
    ) -> "NodeFeatures":
        """Features from a sparse table as SciPy reads it: several entries at one place add up, and zeros may be stored.

        Args:
            rows: the node of each entry, ascending.
            columns: its feature.
            values: the numbers.
            shape: (node, feature).

        Raises:
            DataError: entries at one place add up to a number that is too large to be scaled in single precision.
        """
        codes = rows * shape[1] + columns
        if (np.diff(codes) <= 0).any():
            distinct, position = np.unique(codes, return_inverse=True)
            sums = np.bincount(position, values, len(distinct))
            rows, columns = np.divmod(distinct, shape[1])
            for entry in too_large(sums, LARGEST_SINGLE)[:1].tolist():
                raise DataError(
                    f"node {rows[entry]}, feature {columns[entry]}: its entries add up to {sums[entry]:g}, beyond "
                    f"±{LARGEST_SINGLE:g} and too large to be scaled; give the feature in another unit."
                )
            values = sums.astype(np.float32)
        is_stored = values != 0
        return cls(shape, entries=(rows[is_stored], columns[is_stored], values[is_stored]))

    @property
    def rows(self) -> Int64[np.ndarray, " entry"]:
        """The node of each number that is not zero, ascending."""
        return self._found[0]

    @property
    def columns(self) -> Int64[np.ndarray, " entry"]:
        """Its feature."""
        return self._found[1]

    @property
    def values(self) -> Float32[np.ndarray, " entry"]:
        """The number; never zero."""
        return self._found[2]

    @cached_property
    def _found(self) -> Entries:
        if self.entries is not None:
            return self.entries
        assert self.table is not None
        return _entries(self.table)

    def to_dense(self) -> Float32[np.ndarray, " node feature"]:
        """As a table, a new one at each call."""
        if self.table is not None:
            return self.table.copy()
        table = np.zeros(self.shape, dtype=np.float32)
        table[self.rows, self.columns] = self.values
        return table

    def hstack(self, more: np.ndarray) -> "NodeFeatures":
        """The same with further columns appended.

        Args:
            more: (node, feature).
        """
        num_nodes, num_columns = self.shape
        if self.table is not None:
            return NodeFeatures.of(np.concatenate([self.table, more], axis=1))
        added = NodeFeatures.of(more)
        rows = np.concatenate([self.rows, added.rows])
        order = rows.argsort(kind="stable")
        columns = np.concatenate([self.columns, added.columns + num_columns])[order]
        values = np.concatenate([self.values, added.values])[order]
        return NodeFeatures.of_entries(rows[order], columns, values, (num_nodes, num_columns + more.shape[1]))

    def parts(self) -> "list[Float32[np.ndarray, ' node feature']]":
        """As a table, in one part."""
        return [self.to_dense()]

    def of_rows(self, rows: np.ndarray) -> Float32[np.ndarray, " row feature"]:
        """The features of some nodes as a dense table."""
        if self.table is not None:
            return self.table[rows]
        position_of_row = np.full(self.shape[0], -1)
        position_of_row[rows] = np.arange(len(rows))
        used = position_of_row[self.rows] >= 0
        table = np.zeros((len(rows), self.shape[1]), dtype=np.float32)
        table[position_of_row[self.rows[used]], self.columns[used]] = self.values[used]
        return table

    @cached_property
    def missing_counts(self) -> Int64[np.ndarray, " feature"]:
        """How many nodes lack a number in each column."""
        if self.table is not None:
            return np.isnan(self.table).sum(axis=0)
        return np.bincount(self.columns[np.isnan(self.values)], minlength=self.shape[1])

    @property
    def num_missing(self) -> int:
        """Numbers that are NaN."""
        return int(self.missing_counts.sum())

    def rows_if_missing(self, rows: np.ndarray) -> Float32[np.ndarray, " row column"]:
        """The features of some nodes as a dense table; no columns where no number is missing."""
        return self.of_rows(rows) if self.num_missing else np.zeros((len(rows), 0), dtype=np.float32)

    def varying(self, group_of_node: np.ndarray, num_groups: int) -> Bool[np.ndarray, " group feature"]:
        """Which features vary within each group of nodes."""
        if self.table is not None:
            members = [self.table[group_of_node == group] for group in range(num_groups)]
            return np.stack([(rows != rows[:1]).any(axis=0) for rows in members])
        width = self.shape[1]
        codes = group_of_node[self.rows] * width + self.columns
        counts = np.bincount(codes, minlength=num_groups * width).reshape(num_groups, width)
        is_filled = counts == np.bincount(group_of_node, minlength=num_groups)[:, None]
        varies = (counts > 0) & ~is_filled
        for group, column in np.argwhere(is_filled & (counts > 0)).tolist():
            values = self.values[codes == group * width + column]
            varies[group, column] = (values != values[0]).any()
        return varies

    @property
    def are_sparse(self) -> bool:
        """Whether there are many, and nearly all of them zero."""
        is_wide = self.table is None and self.shape[1] >= 64
        return is_wide and len(self.values) < 0.2 * self.shape[0] * self.shape[1]

    @property
    def are_words(self) -> bool:
        """Whether they are sparse counts of many features, as a bag of words."""
        return self.are_sparse and len(self.values) > 0 and bool(self.values.min() > 0)


def _entries(table: Float32[np.ndarray, " node feature"]) -> Entries:
    rows, columns = table.nonzero()
    return rows, columns, table[rows, columns]


def features_of_columns(
    cells: Cells,
    columns: tuple[str, ...],
    foreign: Bool[np.ndarray, " node feature"] | None = None,
    *,
    imputes: bool = False,
    may_be_empty: bool = False,
) -> tuple[NodeFeatures, Problems]:
    """Those in columns of a table: 0 where a cell cannot be read, and which cells those are.

    Args:
        cells: the table.
        columns: those with features.
        foreign: where a column is not a feature of the node's type: the cell must be empty, and is 0.
        imputes: leave NaN where a cell is missing, for the scale to fill it.
        may_be_empty: whether a whole column may be missing then; one that is learned from may not.

    Raises:
        DataError: a column is missing, or no node has features that can be read.
    """
    check_columns_exist(cells, columns)
    problems = Problems()
    values, bad_cells = parse_columns([cells.frame[column] for column in columns], np.float32)
    for index, (column, bad) in enumerate(zip(columns, bad_cells, strict=True)):
        if foreign is not None:
            is_foreign, is_blank = foreign[:, index], missing(cells.frame[column])
            bad = {row: problem for row, problem in bad.items() if not is_foreign[row]}
            for row in np.flatnonzero(is_foreign & ~is_blank).tolist():
                bad[row] = (cells.frame[column].iloc[row], "no node of this type had a value here in training")
            values[is_foreign, index] = 0.0
        problems.add_bad(column, bad, imputes=imputes and (may_be_empty or len(bad) < len(cells.frame)))
        unread = [row for row, (cell, _) in bad.items() if not imputes or not is_missing(cell)]
        values[unread, index] = 0.0

    if problems.first and len(problems.first) == len(cells.frame):
        column, _, reason = problems.first[0]
        raise DataError(
            f"{cells.source}: no node has features that can be read; line {cells.lines[0]}, column {column!r}: "
            f"{reason}.{problems.unreadable(len(cells.frame))} Name the columns with numbers: --feature-columns."
        )

    return NodeFeatures.of(values.reshape(len(cells.frame), -1)), problems


def features_of_arrays(name: str, arrays: Mapping[str, np.ndarray], *, imputes: bool = False) -> NodeFeatures:
    """Those in the arrays of an .npz file: `x` (node, feature), or the parts of a sparse table.

    Args:
        name: the file, for messages.
        arrays: in it.
        imputes: whether NaN in `x` is a missing number, for the scale to fill it.

    Raises:
        DataError: there are none, they do not fit together, or a number is not finite.
    """
    if "x" in arrays:
        x = arrays["x"]
        if x.ndim != 2 or x.dtype.kind not in "biuf":
            raise DataError(f"{name}: x is {x.dtype} {x.shape}, expected numbers (node, feature).")
        require_finite(name, "x", x, may_be_missing=imputes)
        return NodeFeatures.of(x)
    if missing := [part for part in CSR if part not in arrays]:
        raise DataError(
            f"{name}: features are missing: expected x, or {', '.join(CSR)}; {', '.join(missing)} is missing."
        )

    for part in (*CSR, "x_data"):
        if part in arrays:
            require_kind(name, part, arrays[part], "iuf" if part == "x_data" else "iu")
            if arrays[part].ndim != 1:
                raise DataError(f"{name}: {part} has {arrays[part].ndim} axes, expected one.")

    column_numbers, starts, size = (arrays[part].astype(np.int64) for part in CSR)
    values = arrays.get("x_data", np.ones(len(column_numbers))).astype(np.float32)
    fits = size.shape == (2,) and size.min() >= 0 and starts.size and starts[0] == 0
    fits = fits and starts.shape == (size[0] + 1,) and len(values) == len(column_numbers) == starts[-1]
    if (
        not fits
        or (len(column_numbers) and not 0 <= column_numbers.min() <= column_numbers.max() < size[1])
        or (np.diff(starts) < 0).any()
    ):
        raise DataError(f"{name}: x_indices, x_indptr, x_data and x_shape do not fit together; see SciPy's CSR.")

    require_finite(name, "x_data", values)
    rows = np.repeat(np.arange(size[0]), np.diff(starts))
    return NodeFeatures.of_entries(rows, column_numbers, values, (int(size[0]), int(size[1])))


def require_rows(path: str, features: NodeFeatures, cells: Cells) -> None:
    """Raise a DataError unless a file has a row of features for each row of a table."""
    if features.shape[0] != len(cells.frame):
        raise DataError(
            f"{path} has {plural(features.shape[0], 'row')}, but {cells.source} has {plural(len(cells.frame), 'node')}."
        )


def without_blanks(x: np.ndarray) -> tuple[np.ndarray, Bool[np.ndarray, " node feature"] | None]:
    """A table with 0 for NaN, and the mask of NaN; None without any, or for a table of something other than numbers."""
    if x.ndim != 2 or not np.issubdtype(x.dtype, np.floating) or not (blank := np.isnan(x)).any():
        return x, None
    return np.where(blank, 0, x), blank


def require_finite(name: str, key: str, array: np.ndarray, *, may_be_missing: bool = False) -> None:
    """Raise a DataError that names the first number that is not finite, or cannot be scaled in single precision.

    Args:
        name: the file, for messages.
        key: the array.
        array: the numbers.
        may_be_missing: whether NaN is a missing number, for the scale to fill it.
    """
    array = np.nan_to_num(array, posinf=np.inf, neginf=-np.inf) if may_be_missing else array
    if not np.isfinite(array).all():
        first = tuple(int(index) for index in np.argwhere(~np.isfinite(array))[0])
        raise DataError(f"{name}: {key}{list(first)} is not a finite number.")
    require_scalable(name, key, array)


def features_of_nodes(
    cells: Cells,
    columns: Columns,
    path: str | None,
    categories: Categories | None,
    foreign: Bool[np.ndarray, " node feature"] | None = None,
    *,
    foreign_words: Bool[np.ndarray, " node column"] | None = None,
    may_be_empty: bool = False,
) -> tuple[NodeFeatures, Problems, Categories]:
    """The features of nodes, 0 where a cell cannot be read; which cells those are; and the words that were found.

    Args:
        cells: the table of nodes.
        columns: which of its columns are numbers, and which are words.
        path: an .npz file that holds numbers instead, a row a node.
        categories: the words of each column, where they are known; another one cannot be read then.
        foreign, may_be_empty: as in `features_of_columns`.
        foreign_words: the same of columns of words.

    Raises:
        DataError: a column is missing, no node can be read, or the file has other nodes.
    """
    if path is None:
        options = {"imputes": columns.imputes, "may_be_empty": may_be_empty}
        numbers, problems = features_of_columns(cells, columns.descriptors_columns, foreign, **options)
    else:
        numbers, problems = features_of_arrays(path, read_arrays(path), imputes=columns.imputes), Problems()
        require_rows(path, numbers, cells)

    words, words_of_column = one_hot(cells, columns.category_columns, categories, problems, foreign_words)
    if not columns.category_columns:
        return numbers, problems, words_of_column
    return NodeFeatures.of(np.concatenate([numbers.to_dense(), words], axis=1)), problems, words_of_column


def check_categories(name: str, categories: Categories, columns: Sequence[str]) -> None:
    """Raise DataError where a column of categories is missing."""
    if missing := [column for column in columns if column not in categories]:
        raise DataError(f"{name}: categories of the column {missing[0]!r:.60} are missing.")
    for column, words in categories.items():
        if len(set(words)) < len(words):
            raise DataError(f"{name} has a word of the column {column!r:.60} twice.")


def words_in_use(categories: Categories, features: np.ndarray) -> Categories:
    """The words that some rows have, in the same order; all words of a column of which they have none.

    Args:
        categories: the words of each column.
        features: (row, feature) of these rows, the one-hot words last.
    """
    counts = [len(words) for words in categories.values()]
    is_used = features[:, features.shape[1] - sum(counts) :].any(axis=0)
    parts = zip(categories.items(), np.split(is_used, np.cumsum(counts)[:-1]))
    return {
        column: [word for word, is_kept in zip(words, used) if is_kept or not used.any()]
        for (column, words), used in parts
    }


def one_hot(
    cells: Cells,
    columns: Sequence[str],
    categories: Categories | None,
    problems: Problems,
    foreign: Bool[np.ndarray, " row column"] | None = None,
) -> tuple[Float32[np.ndarray, " row word"], Categories]:
    """Columns of words as one-hot features, and the words of each column.

    Args:
        cells: a table of nodes or edges.
        columns: the columns of words.
        categories: the words of each column, where they are known.
        problems: where cells that are empty, or hold another word, are added.
        foreign: where a column is not a feature of the node's type: the cell must be empty.
    """
    check_columns_exist(cells, tuple(columns))
    words_of_column, parts = {}, [np.zeros((len(cells.frame), 0), dtype=np.float32)]
    for number, column in enumerate(columns):
        texts = stripped(cells.frame[column])
        known = None if categories is None else list(categories.values())[number]
        words = words_of(texts, known)
        vocabulary = sorted(set(words.unique().to_pylist()) - {""}) if known is None else known
        codes = NodeNames(vocabulary).places(words)
        rows = np.flatnonzero(codes >= 0)
        parts.append(np.zeros((len(words), len(vocabulary)), dtype=np.float32))
        parts[-1][rows, codes[rows]] = 1
        is_foreign = np.zeros(len(words), dtype=bool) if foreign is None else foreign[:, number]
        parts[-1][is_foreign] = 0

        for row in np.flatnonzero((codes < 0) | is_foreign).tolist():
            word = words[row].as_py()
            reason = f"{word!r} is not one of the {plural(len(vocabulary), 'known word')}"
            if is_foreign[row]:
                reason = "no node of this type had a word here in training"
            if word or not is_foreign[row]:
                problems.add(row, column, texts[row].as_py(), reason if word else "the cell is empty")

        words_of_column[column] = vocabulary

    return np.concatenate(parts, axis=1), words_of_column
