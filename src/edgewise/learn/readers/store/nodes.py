"""The table of nodes, some rows at a time, into the arrays of a store."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from edgewise.errors import DataError
from edgewise.learn.files import FileWriter
from edgewise.learn.progress import stage
from edgewise.learn.readers.graphs.names import NUMBERS, columns_named_so, remark_on_row_numbers
from edgewise.learn.readers.store.layout import (
    COMPLETE,
    INCOMPLETE,
    UNREADABLE,
    FileRecord,
    GraphStore,
    Manifest,
    RejectedRecord,
)
from edgewise.learn.tables.cell import is_missing, is_numeric, joined, pa, text_arrays, texts_of
from edgewise.learn.tables.columns import AUTO, Columns
from edgewise.learn.tables.magnitude import LARGEST
from edgewise.learn.tables.read import check_columns
from edgewise.learn.tables.stream import Chunk, Float32Columns, LineRuns, TableStream, with_float32_columns

MAX_CATEGORIES = 2**12
"""Different cells of a column without a role; one with more is not kept."""
MAX_CATEGORIES_WITH_ROLE = 2**20
"""Different cells of a column that a flag names, such as a target; one with more is refused."""
MAX_LISTED = 10_000
"""Cells that cannot be read that are listed; their rows are all counted."""
Cell: TypeAlias = tuple[str, str, str]
"""A cell that cannot be read: its column, its content, and what is wrong with it."""


class Rejections:
    """Rows with unreadable cells: their number, and the first of the cells."""

    def __init__(self) -> None:
        self.count, self.first = 0, list[tuple[int, str, int, str, str, str]]()

    def add(self, row: int, file: str, line: int, *cells: Cell) -> None:
        """Counts a row, and lists its cells if they are among the first."""
        self.count += 1
        if len(self.first) < MAX_LISTED:
            self.first += [(row, file, line, *cell) for cell in cells]

    def to_json(self) -> RejectedRecord:
        """As the manifest has them."""
        return {"count": self.count, "first": sorted(self.first)}


class CategoryEncoder:
    """Encodes a column of categories: `categories` has the code of each, in the order in which they come."""

    def __init__(self, name: str, *, has_role: bool):
        self.name, self.has_role = name, has_role
        self.limit = MAX_CATEGORIES_WITH_ROLE if has_role else MAX_CATEGORIES
        self.categories: dict[str, int] = {}
        self.is_dropped = False

    def encode(self, texts: "pa.ChunkedArray", source: str) -> np.ndarray | None:
        """The codes of cells, int32; None where the column has too many different ones."""
        encoded = joined(texts).dictionary_encode()
        cells = encoded.dictionary.to_pylist()
        if len(self.categories) + len(cells) > self.limit and len({*self.categories, *cells}) > self.limit:
            if self.has_role:
                raise DataError(
                    f"{source}, column {self.name!r}: more than {self.limit:,} different cells; name it in "
                    "--ignore-columns, or bring the values together."
                )
            return None
        codes = np.array([self.categories.setdefault(cell, len(self.categories)) for cell in cells], dtype=np.int32)
        return codes[encoded.indices.to_numpy()] if len(cells) else np.zeros(0, np.int32)


@dataclass
class Roles:
    """The role of each column of the table of nodes."""

    name_column: str | None
    """The column with the names of nodes; None where these are the numbers of rows."""
    feature_names: list[str] = field(default_factory=list)
    """Numbers of the matrix of features."""
    encoders: list[CategoryEncoder] = field(default_factory=list)
    """Columns that are kept by their different cells."""
    numbers: list[str] = field(default_factory=list)
    """Named columns that are kept as numbers."""

    @classmethod
    def of(cls, table: TableStream, columns: Columns) -> "Roles":
        """The roles of the columns, guessed from the first rows with a cell where they are not given."""
        name_column: str | None = columns.node_column
        if name_column == AUTO:
            name_column = next(iter(columns_named_so(table.columns)), None)
            if name_column is None:
                for chunk in islice(table.chunks(table.columns), 1):
                    remark_on_row_numbers(table.name, chunk.columns, columns.roles())
        elif name_column == NUMBERS and name_column not in table.columns:
            name_column = None

        roles = {
            role: columns_of_role
            for role, columns_of_role in columns.roles().items()
            if role not in ("node_column", "ignore_columns")
        }
        kept = [
            name for role, columns_of_role in roles.items() if role != "descriptors_columns" for name in columns_of_role
        ]
        wanted = (*([name_column] if name_column else []), *kept, *columns.descriptors_columns)
        check_columns(table.name, table.columns, (*wanted, *columns.ignore_columns))
        assigned = cls(name_column, list(columns.descriptors_columns))
        left = [name for name in table.columns if name not in (*wanted, *columns.ignore_columns)]

        contents = contents_of(table, [*kept, *left])
        for name in (*kept, *left):
            content = contents.get(name, "text")
            if name in kept:
                if content == "fractions" and name not in columns.category_columns:
                    assigned.numbers.append(name)
                else:
                    assigned.encoders.append(CategoryEncoder(name, has_role=True))
                continue
            if content != "text" and not columns.descriptors_columns:
                assigned.feature_names.append(name)
            if content != "fractions":
                assigned.encoders.append(CategoryEncoder(name, has_role=False))

        return assigned

    @property
    def all(self) -> list[str]:
        """The columns that are read."""
        names = [self.name_column] if self.name_column else []
        categories = [encoder.name for encoder in self.encoders]
        return list(dict.fromkeys([*names, *self.feature_names, *categories, *self.numbers]))


def contents_of(table: TableStream, columns: list[str]) -> dict[str, str]:
    """The content of each column, by the first chunk in which it has a cell; none where all its cells are empty."""
    contents: dict[str, str] = {}
    for is_first in (True, False):  # further chunks are read for the columns that are empty in the first one
        left = [name for name in columns if name not in contents]
        for chunk in table.chunks(left) if left else ():
            kinds = {name: kind_of(chunk, name) for name in left if name not in contents}
            contents |= {name: kind for name, kind in kinds.items() if kind is not None}
            if is_first or len(contents) == len(columns):
                break
    return contents


def kind_of(chunk: Chunk, column: str) -> str | None:
    """The content of most cells of a column: whole numbers, fractions or text; None where all are empty."""
    values, bad = chunk.numbers(column)
    present = values[~np.isnan(values)]
    num_texts = 0 if is_numeric(chunk.columns[column].type) else sum(not is_missing(cell) for cell, _ in bad.values())
    if not len(present):
        return "text" if num_texts else None
    if num_texts > len(present):
        return "text"
    return "whole" if bool((present == np.floor(present)).all()) else "fractions"


@dataclass(eq=False)
class NodeArrays:
    """The arrays of the nodes, while they are written."""

    folder: Path
    """The folder of the files."""
    dtype: str
    """The type that features are stored in."""
    exits: ExitStack
    """Closes the files."""
    writers: dict[str, FileWriter] = field(default_factory=dict)
    """A file for each array."""

    def write(self, name: str, values: np.ndarray) -> None:
        """Appends to an array, whose file is opened when it is first written."""
        if name not in self.writers:
            self.writers[name] = self.exits.enter_context(FileWriter(self.folder / f"{name}.bin"))
        self.writers[name].write(np.ascontiguousarray(values))

    def file(self, name: str, dtype: npt.DTypeLike, shape: Sequence[int]) -> FileRecord:
        """The manifest entry of an array that has been written."""
        self.write(name, np.zeros(0, dtype))
        sha256 = self.writers[name].sha256
        return {"name": f"{name}.bin", "dtype": np.dtype(dtype).name, "shape": tuple(shape), "sha256": sha256}


class _FeatureStatistics:
    """What is counted of the numbers of each feature."""

    def __init__(self, num_features: int) -> None:
        self.num_nonzero, self.min_nonzero = np.zeros(num_features, np.int64), np.full(num_features, np.inf)
        self.is_empty = np.ones(num_features, bool)

    def add(self, values: np.ndarray) -> None:
        """Adds some nodes, `(node, feature)`, NaN where a cell is empty or cannot be read."""
        is_nonzero = (values != 0) & ~np.isnan(values)
        self.num_nonzero += np.count_nonzero(is_nonzero, axis=0)
        smallest = np.where(is_nonzero, values, np.inf).min(axis=0, initial=np.inf)
        self.min_nonzero = np.minimum(self.min_nonzero, smallest)
        self.is_empty &= np.isnan(values).all(axis=0)


class NotNumbersError(Exception):
    """A name of a node is not a whole number, though those before it are."""


def write_nodes(table: TableStream, columns: Columns, folder: Path, dtype: str) -> Manifest:
    """Writes the arrays of the nodes, and returns their part of the manifest.

    Raises:
        DataError: the table cannot be used: a column is missing, it is empty, or the name of a node is.
    """

    def write(float32_columns: Float32Columns, *, are_numbers: bool) -> Manifest:
        roles = Roles.of(table, columns)
        return _write(table, roles, folder, dtype, float32_columns, are_numbers=are_numbers, imputes=columns.imputes)

    try:
        return with_float32_columns(partial(write, are_numbers=True))
    except NotNumbersError:
        return with_float32_columns(partial(write, are_numbers=False))


def _write(
    table: TableStream,
    roles: Roles,
    folder: Path,
    dtype: str,
    float32_columns: Float32Columns,
    *,
    are_numbers: bool,
    imputes: bool,
) -> Manifest:
    """As `write_nodes`, with names as numbers where `are_numbers`; raises NotNumbersError where one is not."""
    rejected, incomplete, line_runs = Rejections(), Rejections(), LineRuns()
    count = counted_bytes = num_unreadable = 0
    statistics = _FeatureStatistics(len(roles.feature_names))

    bounds = [2**62, -(2**62)]
    with ExitStack() as exits:
        arrays = NodeArrays(folder, dtype, exits)
        with stage("nodes") as current:
            for chunk in table.chunks(roles.all):
                line_runs.add(chunk)
                if roles.name_column is not None:
                    numbers = chunk.whole_numbers(roles.name_column) if are_numbers else None
                    if are_numbers and numbers is None:
                        raise NotNumbersError
                    if numbers is not None:
                        arrays.write("names", numbers)
                        bounds = [min(bounds[0], int(numbers.min())), max(bounds[1], int(numbers.max()))]
                    else:
                        counted_bytes += _write_texts(
                            arrays, chunk, roles.name_column, counted_bytes, is_first=count == 0
                        )

                values, unreadable_cells = _features(chunk, roles.feature_names, float32_columns)
                statistics.add(values)
                arrays.write("features", narrowed(values, dtype, chunk, roles.feature_names))
                # By the features alone: a bad cell of another column, added next, bars a node only where it is used.
                arrays.write("usable", _statuses(chunk.num_rows, unreadable_cells, imputes=imputes))
                _write_columns(arrays, chunk, roles, unreadable_cells)
                num_unreadable += _write_unreadable(arrays, unreadable_cells, roles, count)
                for row, cells in sorted(unreadable_cells.items()):
                    rejections = incomplete if imputes and _are_empty(cells) else rejected
                    rejections.add(count + row, chunk.file, int(chunk.lines[row]), *cells)

                count += chunk.num_rows
                current.done = count

        if not count:
            raise DataError(f"{table.name}: the table is empty, expected at least one row.")
        float32_columns.check()
        if statistics.is_empty.any():
            empty = {name for name, is_empty in zip(roles.feature_names, statistics.is_empty, strict=True) if is_empty}
            listed = sorted(rejected.first + incomplete.first)
            _, _, line, column, _, reason = next(cell for cell in listed if cell[3] in empty)
            raise DataError(
                f"{table.name}: no node has features that can be read; line {line}, column {column!r}: {reason}. Name "
                "the columns with numbers: --feature-columns."
            )

        _check_precision(float32_columns, dtype, table.name)
        arrays.write("line_runs", line_runs.runs)
        files = _files(arrays, roles, count, num_unreadable, counted_bytes, dtype, are_numbers)
        files["line_runs"] = arrays.file("line_runs", np.int64, line_runs.runs.shape)

    return {
        "num_nodes": count,
        "node_files": line_runs.files,
        "features": roles.feature_names,
        "feature_dtype": dtype,
        "nonzero": statistics.num_nonzero.tolist(),
        "least": [None if np.isinf(number) else float(number) for number in statistics.min_nonzero],
        "columns": {encoder.name: list(encoder.categories) for encoder in roles.encoders},
        "numbers": roles.numbers,
        "names": "rows" if roles.name_column is None else "numbers" if are_numbers else "texts",
        "name_bounds": bounds,
        "name_column": roles.name_column,
        "rejected_nodes": rejected.to_json(),
        "incomplete_nodes": incomplete.to_json(),
        "places": {name: index for index, name in enumerate(table.columns)},
        "files": files,
    }


def _files(
    arrays: NodeArrays, roles: Roles, count: int, num_unreadable: int, counted_bytes: int, dtype: str, are_numbers: bool
) -> dict[str, FileRecord]:
    """The manifest entries of the files."""
    of_features = "uint16" if dtype == "bfloat16" else dtype
    files = {"features": arrays.file("features", of_features, (count, len(roles.feature_names)))}
    files["usable"] = arrays.file("usable", np.uint8, (count,))
    files["bad_rows"] = arrays.file("bad_rows", np.int64, (num_unreadable,))
    files["bad_columns"] = arrays.file("bad_columns", np.int32, (num_unreadable,))
    if roles.name_column is not None and are_numbers:
        files["names"] = arrays.file("names", np.int64, (count,))
    elif roles.name_column is not None:
        files["name_offsets"] = arrays.file("name_offsets", np.int64, (count + 1,))
        files["name_letters"] = arrays.file("name_letters", np.uint8, (counted_bytes,))

    for index, encoder in enumerate(roles.encoders):
        files[f"words_{encoder.name}"] = arrays.file(f"words_{index}", np.int32, (count,))
    for index, name in enumerate(roles.numbers):
        files[f"numbers_{name}"] = arrays.file(f"numbers_{index}", np.float64, (count,))
    return files


def _write_texts(arrays: NodeArrays, chunk: Chunk, column: str, before: int, *, is_first: bool) -> int:
    """Writes the names of some nodes, and returns their number of bytes."""
    lengths, letters = text_arrays(chunk.texts(column))
    if not lengths.all():
        row = int(np.flatnonzero(lengths == 0)[0])
        raise DataError(
            f"{chunk.file}, line {int(chunk.lines[row])}, column {column!r}: the name of the node is empty; names must "
            "differ."
        )
    arrays.write("name_offsets", np.append(np.zeros(int(is_first), np.int64), before + np.cumsum(lengths)))
    arrays.write("name_letters", letters)
    return len(letters)


def _features(
    chunk: Chunk, names: Sequence[str], float32_columns: Float32Columns
) -> tuple[np.ndarray, dict[int, list[Cell]]]:
    """The features of some nodes, NaN where a cell cannot be read, and such cells of each row."""
    values = np.zeros((chunk.num_rows, len(names)), np.float32)
    unreadable_cells: dict[int, list[Cell]] = {}
    for index, name in enumerate(names):
        values[:, index], bad = float32_columns.numbers(chunk, name)
        for row, (cell, reason) in bad.items():
            unreadable_cells.setdefault(row, []).append((name, cell, reason))
    return values, unreadable_cells


def _statuses(num_rows: int, unreadable_cells: Mapping[int, Sequence[Cell]], *, imputes: bool) -> np.ndarray:
    """The status of each node, uint8: COMPLETE, INCOMPLETE or UNREADABLE, by those of its features without a number."""
    statuses = np.full(num_rows, COMPLETE, np.uint8)
    for row, cells in unreadable_cells.items():
        statuses[row] = INCOMPLETE if imputes and _are_empty(cells) else UNREADABLE
    return statuses


def _write_unreadable(
    arrays: NodeArrays, unreadable_cells: Mapping[int, Sequence[Cell]], roles: Roles, first: int
) -> int:
    """Writes which numbers of some nodes, the first of them `first`, cannot be read; returns how many. An empty cell is
    a number that is missing, not one that cannot be read."""
    # A column that is a feature and has another role, too, has the same bad cells in both.
    column_index = {name: index for index, name in enumerate(dict.fromkeys([*roles.feature_names, *roles.numbers]))}
    unreadable = [
        (first + row, column_index[name])
        for row, cells in sorted(unreadable_cells.items())
        for name, cell, _ in cells
        if not is_missing(cell)
    ]
    arrays.write("bad_rows", np.array([row for row, _ in unreadable], np.int64))
    arrays.write("bad_columns", np.array([column for _, column in unreadable], np.int32))
    return len(unreadable)


def _are_empty(cells: Sequence[Cell]) -> bool:
    """Whether cells without a number are all empty."""
    return all(is_missing(cell) for _, cell, _ in cells)


def _write_columns(arrays: NodeArrays, chunk: Chunk, roles: Roles, unreadable_cells: dict[int, list[Cell]]) -> None:
    """Writes the columns that are kept; one with too many different cells is dropped. Adds cells that are not
    numbers."""
    for index, encoder in enumerate(roles.encoders):
        codes = None if encoder.is_dropped else encoder.encode(chunk.texts(encoder.name), chunk.file)
        if codes is None:
            encoder.is_dropped = True
            encoder.categories.clear()
            codes = np.zeros(chunk.num_rows, np.int32)
        arrays.write(f"words_{index}", codes)

    for index, name in enumerate(roles.numbers):
        values, bad = chunk.numbers(name, LARGEST)
        for row, (cell, reason) in bad.items():
            if cell and not is_missing(cell):  # an empty cell is allowed
                unreadable_cells.setdefault(row, []).append((name, cell, reason))
        arrays.write(f"numbers_{index}", values)


def narrowed(values: np.ndarray, dtype: str, chunk: Chunk, names: Sequence[str]) -> np.ndarray:
    """Features in the type in which they are stored, NaN as it is; raises DataError where one is too large for it."""
    if dtype == "bfloat16":
        return torch.from_numpy(np.ascontiguousarray(values)).bfloat16().view(torch.int16).numpy().view(np.uint16)
    with np.errstate(over="ignore"):
        stored = values.astype(dtype, copy=False)
    if (is_too_large := np.isinf(stored)).any():
        row, column = np.argwhere(is_too_large)[0].tolist()
        raise DataError(
            f"{chunk.file}, line {chunk.lines[row]}, column {names[column]!r}: {values[row, column]:g} is too large "
            f"for {dtype}; take --dtype bfloat16 or float32."
        )
    return stored


def _check_precision(float32_columns: Float32Columns, dtype: str, source: str) -> None:
    """Raise DataError where a column is lost in the type in which it is stored, though not in single precision."""
    smallest = float(np.finfo(np.float16).tiny) if dtype == "float16" else 0.0
    if lost := [name for name, largest in float32_columns.largest.items() if 0 < largest < smallest]:
        raise DataError(
            f"{source}, column {lost[0]!r}: all numbers are below {smallest:g}, too small for {dtype}; take --dtype "
            "bfloat16 or float32."
        )


def node_names(store: GraphStore, start: int, stop: int) -> list[int] | list[str]:
    """The names of the nodes `start:stop` of a store."""
    naming = store.manifest["names"]
    if naming == "rows":
        return list(range(start, stop))
    if naming == "numbers":
        return list(store.array("names")[start:stop].tolist())
    return list(texts_of(store.array("name_offsets"), store.array("name_letters"), start, stop).to_pylist())
