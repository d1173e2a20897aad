"""Graphs to and from a table of edges, a pandas `DataFrame`."""

from collections.abc import Hashable, Sequence

import numpy as np
import torch

from edgewise.errors import DataError, MissingExtraError, SettingError
from edgewise.graph import Graph
from edgewise.interop.attributes import EDGE, array_of, column_names, own_names, weighted
from edgewise.neighborhood import Edges

try:
    import pandas
except ModuleNotFoundError as error:
    raise MissingExtraError("pandas", "graphs") from error


def to_table(graph: Graph | Edges) -> "pandas.DataFrame":
    """A row an edge, in order: sender, receiver, and `weight`, or `weight_0`, `weight_1`, … for several features.

    Nodes stand there by their names, or by their numbers. Nodes without edges, and features of nodes, have no place in
    a table of edges. Written by `to_csv`, it is a table that `edgewise train nodes.csv --edges` reads.

    >>> from edgewise import Edges
    >>> to_table(Edges([0, 1], [1, 2], 3, 3)).columns.tolist()
    ['sender', 'receiver']
    """
    graph = weighted(graph)
    if isinstance(graph.edge_features, tuple):
        raise SettingError("to_table: edges of different types have different features; graph.to_pandas() writes them.")
    columns: dict[str, object] = {}
    for side, places in (("sender", graph.edges.senders), ("receiver", graph.edges.receivers)):
        called: Sequence[Hashable] = places.tolist()
        if graph.names is not None:
            called = [graph.names[place] for place in places.tolist()]
        columns[side] = pandas.Series(called, dtype="int64" if graph.names is None else "object")
    if graph.edge_features is not None:
        features = array_of(graph.edge_features)
        columns |= {name: features[:, place] for place, name in enumerate(column_names(EDGE, features.shape[1]))}
    return pandas.DataFrame(columns)


def from_table(
    table: "pandas.DataFrame",
    *,
    sender_column: str = "sender",
    receiver_column: str = "receiver",
    feature_columns: Sequence[str] | None = None,
    names: Sequence[Hashable] | None = None,
    num_nodes: int | tuple[int, int] | None = None,
) -> Graph:
    """A table of edges as edges with features; its rows keep their order.

    Args:
        table: a row an edge.
        sender_column, receiver_column: what names the nodes: whole numbers that count from 0, or names.
        feature_columns: numbers of the edge; by default `weight`, or `weight_0`, `weight_1`, …, if they are there.
        names: what the nodes are called, in their order, those without edges too. By default nodes that the table
            names are those it mentions, in the order in which it does, senders before receivers in each row.
        num_nodes: how many nodes there are where they are numbers, or (senders, receivers); by default as many as the
            largest number gives.

    Raises:
        DataError: a column is missing, a cell names no node, or a feature is no number.
        SettingError: names and num_nodes are both given, or num_nodes and nodes that are no numbers.
    """
    columns = (sender_column, receiver_column)
    if feature_columns is None:
        feature_columns = own_names("from_table", EDGE, table.columns, "feature_columns")
    for column in (*columns, *feature_columns):
        if column not in table.columns:
            raise DataError(
                f"from_table: there is no column {column!r}; there are {', '.join(map(str, table.columns))}."
            )
    for column in columns:
        if table[column].isna().any():
            raise DataError(f"from_table: column {column!r} is empty in row {int(table[column].isna().argmax())}.")
    if names is not None and num_nodes is not None:
        raise SettingError("from_table: names and num_nodes are both given; names give the number of nodes.")
    values = [_numbers(table, column) for column in feature_columns]
    features = torch.as_tensor(
        np.stack(values, 1) if values else np.zeros((len(table), 0), dtype=np.float32), device="cpu"
    )
    are_numbers = all(pandas.api.types.is_integer_dtype(table[column]) for column in columns)
    if names is None and (are_numbers or num_nodes is not None):
        return Graph(None, _numbered(table, columns, num_nodes), features)
    sides = [table[column].tolist() for column in columns]
    called = dict.fromkeys(name for pair in zip(*sides) for name in pair) if names is None else names
    return Graph(None, _named(columns, sides, tuple(called)), features, names=tuple(called))


def _numbered(table: "pandas.DataFrame", columns: tuple[str, str], num_nodes: int | tuple[int, int] | None) -> Edges:
    for column in columns:
        if len(table) and not pandas.api.types.is_integer_dtype(table[column]):
            raise SettingError(
                f"from_table: num_nodes is for nodes that are whole numbers, but column {column!r} holds "
                f"{table[column].dtype}; give names, those of nodes without edges too."
            )
    senders, receivers = (torch.tensor(table[column].to_numpy(dtype=np.int64), device="cpu") for column in columns)
    if num_nodes is None:
        num_nodes = 1 + int(torch.cat([senders, receivers]).max()) if len(table) else 0
    num_senders, num_receivers = num_nodes if isinstance(num_nodes, tuple) else (num_nodes, num_nodes)
    for column, places, size in zip(columns, (senders, receivers), (num_senders, num_receivers)):
        wrong = ((places < 0) | (places >= size)).nonzero().flatten().tolist()
        if wrong:
            raise DataError(
                f"from_table: column {column!r} holds {int(places[wrong[0]])} in row {wrong[0]}, but nodes are 0 to "
                f"{size - 1}."
            )
    return Edges(senders, receivers, num_senders, num_receivers)


def _named(columns: tuple[str, str], sides: list[list[Hashable]], names: tuple[Hashable, ...]) -> Edges:
    place = {name: number for number, name in enumerate(names)}
    for column, side in zip(columns, sides):
        for row, name in enumerate(side):
            if name not in place:
                raise DataError(f"from_table: column {column!r} holds {name!r} in row {row}, which names do not.")
    senders, receivers = (
        torch.tensor([place[name] for name in side], dtype=torch.int64, device="cpu") for side in sides
    )
    return Edges(senders, receivers, len(names), len(names))


def _numbers(table: "pandas.DataFrame", column: str) -> np.ndarray:
    """A column of numbers in its own dtype; whole numbers as float64."""
    held = table[column]
    if not pandas.api.types.is_numeric_dtype(held) or pandas.api.types.is_complex_dtype(held):
        raise DataError(f"from_table: column {column!r} holds {held.dtype}, expected numbers.")
    if held.isna().any():
        raise DataError(f"from_table: column {column!r} has no number in row {int(held.isna().argmax())}.")
    return held.to_numpy(dtype=held.dtype if held.dtype in (np.float32, np.float64) else np.float64)
