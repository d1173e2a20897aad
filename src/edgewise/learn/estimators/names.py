"""Columns and rows by their names: those of DataFrames, Series and dicts, and what messages call a row."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeGuard, TypeVar

import numpy as np

from edgewise.errors import DataError, plural

if TYPE_CHECKING:
    from pandas import DataFrame

Held = TypeVar("Held")

IN_ARRAYS = re.compile(r"\barrays, row ([0-9]+)")
"""What tables call a row of arrays."""


class RowsLike(Protocol):
    """Rows one after the other: a list, an array, a tensor or a Series."""

    def __len__(self) -> int:
        """How many there are."""

    def __iter__(self) -> Iterator[object]:
        """Each of them."""


def has_columns(data: object) -> "TypeGuard[DataFrame]":
    """Whether it is a DataFrame, whose columns have names."""
    return hasattr(data, "columns")


def column_names(argument: str, table: object) -> tuple[str, ...]:
    """The names of the columns of a DataFrame as text; none for an array, or where they only count 0, 1, 2, ….

    Args:
        argument: What the DataFrame is called in a message.
        table: The DataFrame, or anything else.

    Raises:
        DataError: Two columns have one name.
    """
    labels = list(getattr(table, "columns", ()))
    if labels == list(range(len(labels))):
        return ()
    names = tuple(map(str, labels))
    (name, count), *_ = Counter(names).most_common(1)
    if count > 1:
        raise DataError(f"{argument} has {count} columns called {name!r}; give each column a name of its own.")
    return names


def columns_called(names: Mapping[str, tuple[str, ...]], argument: str) -> tuple[str, ...]:
    """The names of the columns of an argument, as a table has them; none where it has none, or one of them is blank."""
    columns = names.get(argument, ())
    return columns if all(name.strip() for name in columns) else ()


def complete_names(**columns: tuple[tuple[str, ...], int]) -> dict[str, tuple[str, ...]]:
    """The names of the columns of each argument, where each column has one: those of words have none.

    Args:
        columns: The names, and how many columns there are.
    """
    return {argument: names for argument, (names, count) in columns.items() if names and len(names) == count}


def names_of_tables(nodes: "DataFrame", edges: "DataFrame") -> dict[str, tuple[str, ...]]:
    """The names of the features of nodes (`X`) and of edges (`edge_features`) in the tables of a graph.

    Raises:
        DataError: Two columns have one name.
    """
    from edgewise.interop.pandas import feature_columns_of_edges, feature_columns_of_nodes

    return {
        "X": column_names("X", nodes[feature_columns_of_nodes(nodes)]),
        "edge_features": column_names("edge_features", edges[feature_columns_of_edges(edges)]),
    }


def series_name(series: object) -> tuple[str, ...]:
    """The name of a Series; none for anything else, or where it is not a string."""
    name = getattr(series, "name", None) if hasattr(series, "iloc") else None
    return (name,) if isinstance(name, str) and name.strip() else ()


def in_order(argument: str, table: Held, trained_names: Sequence[str]) -> Held:
    """The columns of a DataFrame that the model was trained on, in the order of the training; others are not read.

    Args:
        argument: What the DataFrame is called in a message.
        table: The DataFrame; anything without column names is returned as it is.
        trained_names: The names in the order of the training; none where the training had no names: columns that count
            0, 1, 2, … in another order are put into this one.

    Raises:
        DataError: A column is missing.
    """
    if not has_columns(table):
        return table
    names: list[object] = list(table.columns)
    if not len(trained_names):
        if names == (counted := list(range(len(names)))) or sorted(names, key=str) != sorted(counted, key=str):
            return table
        return table[counted]
    column_names(argument, table)
    in_this_order: Held = table.iloc[:, positions_of_names(argument, list(map(str, names)), trained_names)]
    return in_this_order


@dataclass(frozen=True)
class RowNames:
    """What rows are called, which are all of a table or some."""

    of_rows: Sequence[str]
    """The names of the rows."""
    of_table: Sequence[str]
    """The names of all rows of the table, such as of all nodes of a graph."""


def in_row_order(values: Held, names: RowNames | None) -> Held:
    """A Series or DataFrame in the order of named rows, where its index names all of them; others as they are.

    Args:
        values: One value for each row.
        names: What the rows are called; None where they are not named.

    Raises:
        DataError: Its index names some of the rows, but not each of them once; or others of their table.
    """
    if names is None or not hasattr(values, "iloc") or not hasattr(values, "index"):
        return values
    if hasattr(values.index, "step"):  # a range only counts rows
        return values
    position_of_name = {str(label): number for number, label in enumerate(values.index)}
    if len(position_of_name) != len(values.index) or position_of_name.keys() != set(names.of_rows):
        if len(values.index) != len(names.of_rows) or position_of_name.keys().isdisjoint(names.of_table):
            return values
        missing = next(name for name in names.of_rows if name not in position_of_name)
        raise DataError(
            f"the index of a {type(values).__name__} names rows, but lacks {missing!r}; name each row once, or give an "
            "array in the order of the rows."
        )
    in_this_order: Held = values.iloc[[position_of_name[name] for name in names.of_rows]]
    return in_this_order


def positions_of_names(argument: str, names: Sequence[object], trained_names: Sequence[str]) -> list[int]:
    """The position of each name that the model was trained on among the names of an argument.

    Raises:
        DataError: One is missing.
    """
    position_of_name = {name: number for number, name in enumerate(names)}
    if missing := [name for name in trained_names if name not in position_of_name]:
        raise DataError(
            f"{argument} lacks {', '.join(missing)}, which the model was trained on; its columns are "
            f"{', '.join(map(str, names))}. The feature names should match those that were passed during fit."
        )
    return [position_of_name[name] for name in trained_names]


def row_positions(rows: object, num_rows: int, names: Sequence[str] | None) -> np.ndarray:
    """Rows, given by numbers, a mask or names as text, as positions or a mask of rows.

    Args:
        rows: Which are meant.
        num_rows: How many there are.
        names: What they are called; None where they are numbered.

    Raises:
        DataError: They are given otherwise, or no row is called so.
    """
    chosen = np.asarray(rows)
    if names is not None and chosen.size and all(isinstance(row, str) for row in chosen.flat):
        position_of_name = {name: position for position, name in enumerate(names)}
        for name in chosen.ravel().tolist():
            if name not in position_of_name:
                raise DataError(f"no row is called {name!r}; rows are called {', '.join(names[:3])}, ….")
        chosen = np.array([position_of_name[name] for name in chosen.ravel().tolist()])
    chosen = chosen if chosen.size else chosen.astype(np.int64)
    if chosen.dtype.kind not in "iub" or chosen.ndim > 1 or (chosen.dtype == bool and len(chosen) != num_rows):
        raise DataError(
            f"rows are {chosen.dtype} {chosen.shape}; expected numbers, names, a slice or a mask ({num_rows},)."
        )
    return chosen


def as_rows(argument: str, rows: object) -> object:
    """A list of dicts as the DataFrame that it describes, a row each; other rows as they are.

    Raises:
        DataError: It is one dict, whose keys Python would take for rows; or an unordered set.
    """
    if isinstance(rows, Mapping) and not hasattr(rows, "toarray"):  # SciPy's dictionary of keys is a dict, too
        raise DataError(
            f"{argument} is a dict, where rows are expected; give a list of dicts, a row each, or a DataFrame."
        )
    if isinstance(rows, set | frozenset):
        raise DataError(f"{argument} is a set, which is unordered; give a list.")
    if isinstance(rows, list | tuple) and rows and all(isinstance(row, Mapping) for row in rows):
        import pandas

        return pandas.DataFrame([dict(row) for row in rows])
    return rows


def pair_of(validation: object) -> tuple:
    """The rows of validation and their targets.

    Raises:
        DataError: It is a tuple of fewer or more.
    """
    assert isinstance(validation, tuple)
    if len(validation) != 2:
        raise DataError(f"fit: validation holds {plural(len(validation), 'part')}; expected (X, y), or a mask (row).")
    rows, targets = validation
    return rows, targets


def below(argument: str, frame: "DataFrame", more: "DataFrame | RowsLike") -> "DataFrame":
    """The rows of a DataFrame with further ones below them.

    Args:
        argument: What the further rows are called in a message.
        frame: The DataFrame.
        more: A DataFrame whose columns stand in the same order, or rows of as many values.

    Raises:
        DataError: There are more or fewer columns.
    """
    import pandas

    if not has_columns(more):
        rows = list(more.to_numpy(dtype=object) if hasattr(more, "to_numpy") else more)
        more = pandas.DataFrame([[row] if isinstance(row, str) else row for row in rows])
    if more.shape[1] != frame.shape[1]:
        raise DataError(f"{argument} has {plural(more.shape[1], 'column')}, but X has {frame.shape[1]}.")
    return pandas.concat([frame, more.set_axis(frame.columns, axis=1)], ignore_index=True)


def one_row(argument: str, item: object, trained_names: Sequence[str], columns: Sequence[str]) -> object:
    """One row that names its values, as a DataFrame with the columns of the training; another row as it is.

    A dict, a Series whose labels are names, and a DataFrame of one row name their values. A Series of one value is that
    of the only column.

    Args:
        argument: What the row is called in a message.
        item: The row.
        trained_names: The names in the order of the training; empty where the training data was unnamed: then a dict
            has those of `columns`, and the values of a Series or a DataFrame are in their order.
        columns: What the trained model calls its columns.

    Raises:
        DataError: A value is missing, or it is a DataFrame of several rows.
    """
    import pandas

    if has_columns(item):
        if len(item) != 1:
            raise DataError(f"{argument} has {plural(len(item), 'row')}; an explanation is of one.")
        return in_order(argument, item, trained_names)
    if isinstance(item, Mapping):
        return in_order(argument, pandas.DataFrame([dict(item)]), trained_names or columns)
    if not isinstance(item, pandas.Series):
        return item
    is_named = all(isinstance(name, str) for name in item.index)
    if not is_named or len(item) == len(columns) == 1:
        return item.tolist()
    return in_order(argument, pandas.DataFrame([item.to_dict()]), trained_names)


@contextmanager
def naming_rows(data: object, y: object, validation: object = None) -> Iterator[None]:
    """Calls rows in messages as their owner does: by their labels, and those of validation by their own places.

    Args:
        data: The rows.
        y: Their targets, whose labels count where the rows have none.
        validation: (rows, targets) that follow them.
    """
    parts = [(data, y, ""), *([(*validation[:2], " of validation")] if isinstance(validation, tuple) else [])]

    def name(row: int) -> str:
        for rows, targets, where in parts:
            size = len(rows) if hasattr(rows, "__len__") else row + 1
            if row < size or where:
                return row_name(rows if hasattr(rows, "iloc") else targets, row) + where
            row -= size
        return f"row {row}"

    try:
        yield
    except DataError as error:
        error.args = (IN_ARRAYS.sub(lambda found: name(int(found[1])), str(error)),)
        raise


def row_name(rows: object, row: int) -> str:
    """What a message calls a row: its place, counted from 0, and the label that a DataFrame or Series gives it."""
    index = getattr(rows, "index", None) if hasattr(rows, "iloc") else None
    label = row if index is None or row >= len(index) else index[row]
    shown = repr(label) if isinstance(label, str) else str(label)
    return f"row {row}" if shown == str(row) else f"row {row} (index {shown})"


def written_names(names: Sequence[object]) -> tuple[str, ...]:
    """The names of nodes as text.

    Raises:
        DataError: Two are written alike.
    """
    written = tuple(map(str, names))
    if len(set(written)) < len(written):
        (name, _), *_ = Counter(written).most_common(1)
        raise DataError(f"two nodes are both called {name} as text; give names that differ.")
    return written


def node_number(node: object, names: Sequence[str] | None, num_nodes: int) -> int:
    """The place of a node among all of a graph.

    Args:
        node: Its name, or its number where nodes are unnamed.
        names: What the nodes are called as text; None where they are numbered.
        num_nodes: How many there are.

    Raises:
        DataError: Unknown node.
    """
    if names is not None:
        if (name := str(node)) in names:
            return names.index(name)
        listed = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        raise DataError(f"no node is called {node!r}; the nodes of this graph are called {listed}.")
    if isinstance(node, bool | np.bool_) or not isinstance(node, int | np.integer) or not 0 <= node < num_nodes:
        raise DataError(f"node {node!r} does not exist; they are 0 to {num_nodes - 1}.")
    return int(node)
