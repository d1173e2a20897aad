"""The table of nodes, some rows at a time, into the arrays of a store."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from edgewise.errors import DataError
from edgewise.learn.files import FileWriter
from edgewise.learn.progress import stage
from edgewise.learn.readers.graphs.nodes import NAMES, NUMBERS
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
from edgewise.learn.tables.stream import Chunk, LineRuns, SingleColumns, TableStream, in_single

MAX_WORDS, MAX_NAMED_WORDS = 2**12, 2**20
"""Different cells of a column that is kept as words: of one without a role, and of one that is named."""
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


class Words:
    """A column of categories: the code of each word."""

    def __init__(self, name: str, limit: int, is_named: bool):
        self.name, self.limit, self.is_named = name, limit, is_named
        self.codes: dict[str, int] = {}

    def of(self, texts: "pa.ChunkedArray", source: str) -> np.ndarray | None:
        """The codes of cells, int32; None where the column has too many different ones."""
        encoded = joined(texts).dictionary_encode()
        words = encoded.dictionary.to_pylist()
        if len(self.codes) + len(words) > self.limit and len({*self.codes, *words}) > self.limit:
            if self.is_named:
                raise DataError(
                    f"{source}, column {self.name!r}: more than {self.limit:,} different cells; name it in "
                    "--ignore-columns, or bring the values together."
                )
            return None
        codes = np.array([self.codes.setdefault(word, len(self.codes)) for word in words], dtype=np.int32)
        return codes[encoded.indices.to_numpy()] if len(words) else np.zeros(0, np.int32)


@dataclass
class Roles:
    """The role of each column of the table of nodes."""

    names: str | None
    """The names of nodes; None for the numbers of rows."""
    features: list[str] = field(default_factory=list)
    """Numbers of the matrix of features."""
    words: list[Words] = field(default_factory=list)
    """Columns that are kept by their different cells."""
    numbers: list[str] = field(default_factory=list)
    """Named columns that are kept as numbers."""

    @classmethod
    def of(cls, table: TableStream, columns: Columns) -> "Roles":
        """The roles of the columns, guessed from the first rows where they are not given."""
        names: str | None = columns.node_column
        if names == AUTO:
            names = next((name for name in NAMES if name in table.columns), None)
        elif names == NUMBERS and names not in table.columns:
            names = None

        roles = {
            role: columns_of_role
            for role, columns_of_role in columns.roles().items()
            if role not in ("node_column", "ignore_columns")
        }
        kept = [
            name for role, columns_of_role in roles.items() if role != "descriptors_columns" for name in columns_of_role
        ]
        wanted = (*([names] if names else []), *kept, *columns.descriptors_columns)
        check_columns(table.name, table.columns, (*wanted, *columns.ignore_columns))
        assigned = cls(names, list(columns.descriptors_columns))
        left = [name for name in table.columns if name not in (*wanted, *columns.ignore_columns)]

        head = next(table.chunks([*kept, *left]), None) if kept or left else None
        for name in (*kept, *left) if head is not None else ():
            assert head is not None
            content = kind_of(head, name)
            if name in kept:
                if content == "fractions" and name not in columns.category_columns:
                    assigned.numbers.append(name)
                else:
                    assigned.words.append(Words(name, MAX_NAMED_WORDS, True))
                continue
            if content != "words" and not columns.descriptors_columns:
                assigned.features.append(name)
            if content != "fractions":
                assigned.words.append(Words(name, MAX_WORDS, False))

        return assigned

    @property
    def all(self) -> list[str]:
        """The columns that are read."""
        words = [word_column.name for word_column in self.words]
        return list(dict.fromkeys([*([self.names] if self.names else []), *self.features, *words, *self.numbers]))


def kind_of(chunk: Chunk, column: str) -> str:
    """The content of most cells of a column: whole numbers, fractions or words."""
    values, bad = chunk.numbers(column)
    present = values[~np.isnan(values)]
    num_words = 0 if is_numeric(chunk.columns[column].type) else sum(not is_missing(cell) for cell, _ in bad.values())
    if num_words > len(present) or not len(present):
        return "words"
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


class NotNumbersError(Exception):
    """A name of a node is not a whole number, though those before it are."""


def write_nodes(table: TableStream, columns: Columns, folder: Path, dtype: str) -> Manifest:
    """Writes the arrays of the nodes, and returns their part of the manifest.

    Raises:
        DataError: the table cannot be used: a column is missing, it is empty, or the name of a node is.
    """

    def write(single: SingleColumns, *, are_numbers: bool) -> Manifest:
        roles = Roles.of(table, columns)
        return _write(table, roles, folder, dtype, single, are_numbers=are_numbers, imputes=columns.imputes)

    try:
        return in_single(partial(write, are_numbers=True))
    except NotNumbersError:
        return in_single(partial(write, are_numbers=False))


def _write(
    table: TableStream,
    roles: Roles,
    folder: Path,
    dtype: str,
    single: SingleColumns,
    *,
    are_numbers: bool,
    imputes: bool,
) -> Manifest:
    rejected, incomplete, places = Rejections(), Rejections(), LineRuns()
    count = counted_bytes = num_bad = 0
    num_features = len(roles.features)
    nonzero, least = np.zeros(num_features, np.int64), np.full(num_features, np.inf)
    is_empty = np.ones(num_features, bool)

    bounds = [2**62, -(2**62)]
    with ExitStack() as exits:
        arrays = NodeArrays(folder, dtype, exits)
        with stage("nodes") as current:
            for chunk in table.chunks(roles.all):
                places.add(chunk)
                if roles.names is not None:
                    numbers = chunk.whole_numbers(roles.names) if are_numbers else None
                    if are_numbers and numbers is None:
                        raise NotNumbersError
                    if numbers is not None:
                        arrays.write("names", numbers)
                        bounds = [min(bounds[0], int(numbers.min())), max(bounds[1], int(numbers.max()))]
                    else:
                        counted_bytes += _write_texts(arrays, chunk, roles.names, counted_bytes, is_first=count == 0)

                values, problems = _features(chunk, roles.features, single)
                is_known = (values != 0) & ~np.isnan(values)
                nonzero += np.count_nonzero(is_known, axis=0)
                least = np.minimum(least, np.where(is_known, values, np.inf).min(axis=0, initial=np.inf))
                arrays.write("features", narrowed(values, dtype, chunk, roles.features))
                is_empty &= np.isnan(values).all(axis=0)
                arrays.write("usable", _usable(chunk.num_rows, problems, imputes=imputes))
                num_bad += _write_bad(arrays, problems, roles.features, count, imputes=imputes)
                _write_columns(arrays, chunk, roles, problems)
                for row, cells in sorted(problems.items()):
                    flawed = incomplete if imputes and _are_empty(cells) else rejected
                    flawed.add(count + row, chunk.file, int(chunk.lines[row]), *cells)

                count += chunk.num_rows
                current.done = count

        if not count:
            raise DataError(f"{table.name}: the table is empty, expected at least one row.")
        single.check()
        if is_empty.any():
            empty = {name for name, is_one in zip(roles.features, is_empty, strict=True) if is_one}
            flaws = sorted(rejected.first + incomplete.first)
            _, _, line, column, _, reason = next(flaw for flaw in flaws if flaw[3] in empty)
            raise DataError(
                f"{table.name}: no node has features that can be read; line {line}, column {column!r}: {reason}. Name "
                "the columns with numbers: --feature-columns."
            )

        _check_precision(single, dtype, table.name)
        arrays.write("line_runs", places.runs)
        files = _files(arrays, roles, count, num_bad, counted_bytes, dtype, are_numbers)
        files["line_runs"] = arrays.file("line_runs", np.int64, places.runs.shape)

    return {
        "num_nodes": count,
        "node_files": places.files,
        "features": roles.features,
        "feature_dtype": dtype,
        "nonzero": nonzero.tolist(),
        "least": [None if np.isinf(number) else float(number) for number in least],
        "columns": {words.name: list(words.codes) for words in roles.words},
        "numbers": roles.numbers,
        "names": "rows" if roles.names is None else "numbers" if are_numbers else "texts",
        "name_bounds": bounds,
        "name_column": roles.names,
        "rejected_nodes": rejected.to_json(),
        "incomplete_nodes": incomplete.to_json(),
        "places": {name: index for index, name in enumerate(table.columns)},
        "files": files,
    }


def _files(
    arrays: NodeArrays, roles: Roles, count: int, num_bad: int, counted_bytes: int, dtype: str, are_numbers: bool
) -> dict[str, FileRecord]:
    """The manifest entries of the files."""
    of_features = "uint16" if dtype == "bfloat16" else dtype
    files = {"features": arrays.file("features", of_features, (count, len(roles.features)))}
    files["usable"] = arrays.file("usable", np.uint8, (count,))
    files["bad_rows"] = arrays.file("bad_rows", np.int64, (num_bad,))
    files["bad_columns"] = arrays.file("bad_columns", np.int32, (num_bad,))
    if roles.names is not None and are_numbers:
        files["names"] = arrays.file("names", np.int64, (count,))
    elif roles.names is not None:
        files["name_offsets"] = arrays.file("name_offsets", np.int64, (count + 1,))
        files["name_letters"] = arrays.file("name_letters", np.uint8, (counted_bytes,))

    for index, words in enumerate(roles.words):
        files[f"words_{words.name}"] = arrays.file(f"words_{index}", np.int32, (count,))
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


def _features(chunk: Chunk, names: Sequence[str], single: SingleColumns) -> tuple[np.ndarray, dict[int, list[Cell]]]:
    """The features of some nodes, NaN where a cell cannot be read, and such cells of each row."""
    values = np.zeros((chunk.num_rows, len(names)), np.float32)
    problems: dict[int, list[Cell]] = {}
    for index, name in enumerate(names):
        values[:, index], bad = single.numbers(chunk, name)
        for row, (cell, reason) in bad.items():
            problems.setdefault(row, []).append((name, cell, reason))
    return values, problems


def _usable(num_rows: int, problems: Mapping[int, Sequence[Cell]], *, imputes: bool) -> np.ndarray:
    """What the features of some nodes are, uint8, by those of their cells that lack a number."""
    usable = np.full(num_rows, COMPLETE, np.uint8)
    for row, cells in problems.items():
        usable[row] = INCOMPLETE if imputes and _are_empty(cells) else UNREADABLE
    return usable


def _write_bad(
    arrays: NodeArrays, problems: Mapping[int, Sequence[Cell]], features: Sequence[str], first: int, *, imputes: bool
) -> int:
    """Writes which features of some nodes, the first of them `first`, cannot be read or filled; returns how many."""
    place = {name: index for index, name in enumerate(features)}
    bad = [
        (first + row, place[name])
        for row, cells in sorted(problems.items())
        for name, cell, _ in cells
        if not (imputes and is_missing(cell))
    ]
    arrays.write("bad_rows", np.array([row for row, _ in bad], np.int64))
    arrays.write("bad_columns", np.array([column for _, column in bad], np.int32))
    return len(bad)


def _are_empty(cells: Sequence[Cell]) -> bool:
    """Whether cells without a number are all empty."""
    return all(is_missing(cell) for _, cell, _ in cells)


def _write_columns(arrays: NodeArrays, chunk: Chunk, roles: Roles, problems: dict[int, list[Cell]]) -> None:
    """Writes the columns that are kept; one with too many different cells is dropped. Adds cells that are not
    numbers."""
    for index, words in enumerate(roles.words):
        if words.limit:
            codes = words.of(chunk.texts(words.name), chunk.file)
            if codes is None:
                words.limit = 0
                words.codes.clear()
        if not words.limit:
            codes = np.zeros(chunk.num_rows, np.int32)
        assert codes is not None
        arrays.write(f"words_{index}", codes)

    for index, name in enumerate(roles.numbers):
        values, bad = chunk.numbers(name, LARGEST)
        for row, (cell, reason) in bad.items():
            if cell and not is_missing(cell):  # an empty cell is allowed
                problems.setdefault(row, []).append((name, cell, reason))
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


def _check_precision(single: SingleColumns, dtype: str, source: str) -> None:
    """Raise DataError where a column is lost in the type in which it is stored, though not in single precision."""
    smallest = float(np.finfo(np.float16).tiny) if dtype == "float16" else 0.0
    if lost := [name for name, largest in single.largest.items() if 0 < largest < smallest]:
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
