"""The nodes of a graph by their names: the column of these, the row of each name, and what a wrong one may mean."""

import shlex
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property

import numpy as np
import pyarrow.compute
from jaxtyping import Int64

from edgewise.learn.progress import remark
from edgewise.learn.readers.graphs.ends import OF_NODES, words_in
from edgewise.learn.tables.cell import Texts, pa, stripped, whole_numbers
from edgewise.learn.tables.read import Cells

NAMES = ("id", "node", "node_id")
"""Default names of the column of names, in any spelling: `Id`, `Node ID`, `nodeId`."""
NUMBERS = "node"
"""The column that numbers the rows from 0 where there is none."""
_COMPARED = 10_000
"""More names than that are not compared letter by letter with one that is wrong."""
_MIN_DENSE = 10
"""Numbers that are close together and all different are names by chance where there are fewer."""
_SPREAD = 8
"""Numbers are dense where their range is at most this many times their count."""


@dataclass(frozen=True, eq=False)
class RowLabels:
    """A word for each row, such as the type of a node or edge, and its place in the file."""

    names: tuple[str, ...]
    """The words."""
    before: str
    """The part of a message before the number of a row, such as `nodes.csv, line `."""
    numbers: Int64[np.ndarray, " row"]
    """The numbers of the rows: lines of a file, or places in an array."""
    after: str
    """The part of a message after the number of a row, such as `, column 'type'`."""

    @classmethod
    def of_array(cls, array: str, names: object) -> "RowLabels":
        """The labels in an array of words or integers."""
        words = tuple(str(name).strip() for name in np.asarray(names).tolist())
        return cls(words, f"{array}[", np.arange(len(words)), "]")

    def place(self, row: int) -> str:
        """The file and line of the word of a row."""
        return f"{self.before}{self.numbers[row]}{self.after}"


class NodeNames:
    """Nodes by their names, or by the names of their graph and their own.

    >>> names = NodeNames(["a", "b", "98"])
    >>> names.places(["b", " a", "00098"]).tolist(), names.hint("00098")
    ([1, 0, -1], " (did you mean '98'?)")
    """

    def __init__(self, names: Texts, graphs: Texts | None = None):
        """The nodes in their order.

        Args:
            names: of each node; names of one graph differ.
            graphs: of each node, the name of its graph; None where names of all nodes differ.
        """
        self._names = stripped(names)
        self._lookup = _Lookup(self._names if graphs is None else pa.compute.unique(self._names))
        self._graphs: _Lookup | None = None
        if graphs is not None:
            graphs = stripped(graphs)
            self._graphs = _Lookup(pa.compute.unique(graphs))
            codes = self._codes(self._names, graphs)
            self._order = codes.argsort()
            self._sorted = codes[self._order]

    def places(self, names: Texts, graphs: Texts | None = None) -> Int64[np.ndarray, " row"]:
        """The node of each name, −1 where the name is unknown.

        Args:
            names: a column of names, blanks around them or not.
            graphs: likewise of their graphs, where names belong to graphs.
        """
        if self._graphs is None:
            return self._lookup.places(stripped(names))
        codes = self._codes(stripped(names), stripped(graphs))
        positions = np.searchsorted(self._sorted, codes).clip(max=max(len(self._sorted) - 1, 0))
        is_there = (
            (self._sorted[positions] == codes) & (codes >= 0) if len(self._sorted) else np.zeros(len(codes), bool)
        )
        return np.where(is_there, self._order[positions], -1) if len(self._sorted) else np.full(len(codes), -1)

    def hint(self, name: str) -> str:
        """` (did you mean ...?)` where a node has nearly this name; nothing where none has."""
        near = self._by_meaning.get(_meaning(name))
        if near is None and len(self._names) <= _COMPARED:
            near = next(iter(get_close_matches(name, self._names.to_pylist(), n=1)), None)
        return "" if near is None else f" (did you mean {near!r}?)"

    @cached_property
    def _by_meaning(self) -> dict[str, str]:
        return {_meaning(name): name for name in reversed(self._names.to_pylist())}

    def _codes(self, names: "pa.ChunkedArray", graphs: "pa.ChunkedArray") -> Int64[np.ndarray, " row"]:
        """One number for each graph and name, −1 where one of both is unknown."""
        assert self._graphs is not None
        name, graph = self._lookup.places(names), self._graphs.places(graphs)
        return np.where((name < 0) | (graph < 0), -1, graph * len(self._lookup.names) + name)


class _Lookup:
    """The positions of texts among others.

    Where the others are whole numbers that lie close together, or such numbers after a beginning that all share
    (`node17`), they are looked up in a table, which is faster than by their letters.
    """

    def __init__(self, names: "pa.Array | pa.ChunkedArray"):
        self.names = names
        self._beginning = names[0].as_py().rstrip(string.digits) if len(names) else ""
        self._table: Int64[np.ndarray, " number"] | None = None
        numbers = whole_numbers(names, self._beginning)
        if numbers is not None and len(numbers) and numbers.max() - numbers.min() < _SPREAD * len(numbers):
            self._first = int(numbers.min())
            # Its last place is that of no text.
            self._table = np.full(int(numbers.max()) - self._first + 2, -1)
            self._table[numbers[::-1] - self._first] = np.arange(len(numbers))[::-1]

    def places(self, texts: "pa.ChunkedArray") -> Int64[np.ndarray, " row"]:
        """The position of each text, −1 where it is not among them."""
        numbers = None if self._table is None else whole_numbers(texts, self._beginning)
        if self._table is None or numbers is None:
            return pyarrow.compute.index_in(texts, self.names).fill_null(-1).to_numpy().astype(np.int64)
        # As numbers without a sign, those before the first are the largest of all.
        position = np.minimum((numbers - self._first).view(np.uint64), np.uint64(len(self._table) - 1))
        return self._table[position.view(np.int64)]


def _meaning(name: str) -> str:
    """A name in the writing that names which mean the same share: letters small, numbers without zeros around them."""
    text = name.casefold()
    if text.replace(".", "", 1).isdecimal():
        digits, _, decimals = text.partition(".")
        return ".".join(part for part in (digits.lstrip("0") or "0", decimals.rstrip("0")) if part)
    return text


def columns_named_so(columns: Sequence[str]) -> list[str]:
    """The columns that hold names by default: those that are called as in `NAMES`, then other spellings of them."""
    spelled = [column for name in NAMES for column in columns if words_in(column) == words_in(name)]
    return list(dict.fromkeys([*(name for name in NAMES if name in columns), *spelled]))


def remark_on_row_numbers(
    source: str,
    columns: Mapping[str, Texts],
    roles: Mapping[str, Sequence[str]],
    graphs: Sequence[str] | None = None,
) -> None:
    """A line where row numbers name the nodes and a column looks as if it did: edges would join other nodes.

    Args:
        source: the table, for the line.
        columns: its columns.
        roles: the columns of each role; features may be names.
        graphs: the graph of each row, where names are unique only within a graph.
    """
    used = {name for role, names in roles.items() if role != "descriptors_columns" for name in names}
    rows = next((len(cells) for cells in columns.values()), 0)
    graph_of_row = np.zeros(rows, np.int64) if graphs is None else np.unique(list(graphs), return_inverse=True)[1]
    row_numbers, largest = _numbered_within(graph_of_row)
    for column, cells in columns.items():
        numbers = None if column in used or rows < 2 else whole_numbers(stripped(cells), "")
        if numbers is None or np.array_equal(numbers, row_numbers):
            continue
        is_dense = rows >= _MIN_DENSE and numbers.max() - numbers.min() < 2 * largest
        is_name = is_dense or not OF_NODES.isdisjoint(words_in(column))
        if is_name and len(np.unique(np.stack([graph_of_row, numbers]), axis=1).T) == rows:
            of_graph = "" if graphs is None else " in each graph"
            remark(
                f"{source}: no column is called {', '.join(NAMES[:-1])} or {NAMES[-1]}, so row numbers, counted from "
                f"0{of_graph}, name the nodes. If column {column!r} does: --node-column {shlex.quote(column)}"
            )
            return


def _numbered_within(groups: Int64[np.ndarray, " row"]) -> tuple[Int64[np.ndarray, " row"], int]:
    """The number of each row among those of its group, and the size of the largest group."""
    counts = np.bincount(groups)
    order = np.argsort(groups, kind="stable")
    numbers = np.empty(len(groups), np.int64)
    numbers[order] = np.arange(len(groups)) - np.repeat(np.cumsum(counts) - counts, counts)
    return numbers, int(counts.max(initial=0))


def column_of_names(cells: Cells, of_training: str | None) -> str | None:
    """The column of names, by that of the training; None where the rows are numbered."""
    columns = columns_named_so(list(cells.frame.columns))
    if of_training is None or of_training in cells.frame.columns:
        return next(iter(columns), None) if of_training is None else of_training
    if of_training == NUMBERS:
        if not columns:
            return None
        # Edges that name nodes by words cannot mean rows; numbers may be either, and mean what they did.
        are_rows = whole_numbers(stripped(cells.frame[columns[0]]), "") is not None
        named, other = (NUMBERS, columns[0]) if are_rows else (columns[0], NUMBERS)
        called = {NUMBERS: "row numbers", columns[0]: f"column {columns[0]!r}"}
        remark(
            f"{cells.source} lacks the column {NUMBERS!r}, which may have named the nodes in the training, if not row "
            f"numbers did: they are named by {called[named]}, not by {called[other]}. If these are meant: "
            f"--node-column {other}."
        )
        return None if are_rows else columns[0]
    names_of = f"column {columns[0]!r}" if columns else "row numbers"
    remark(
        f"{cells.source} lacks the column {of_training!r}, which named the nodes in the training; their names here are "
        f"those of {names_of}. If they are in another one: --node-column."
    )
    return next(iter(columns), None)
