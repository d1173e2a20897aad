"""Graphs to and from a table of edges, a pandas `DataFrame`."""

from collections.abc import Hashable, Sequence

import numpy as np
import torch

from edgewise.errors import DataError, MissingExtraError, SettingError
from edgewise.graph import Graph
from edgewise.interop.attributes import EDGE, array_of, column_names, convertible, matching_names
from edgewise.neighborhood import Edges

try:
    import pandas
except ModuleNotFoundError as error:
    raise MissingExtraError("pandas", "graphs") from error


def to_table(graph: Graph | Edges) -> "pandas.DataFrame":
    """One row per edge, in order: sender, receiver, and `weight`, or `weight_0`, `weight_1`, … for several features.

    Nodes appear by name, or by index. Nodes without edges, and features of nodes, are not part of it. Written with
    `to_csv`, `edgewise train nodes.csv --edges` can read it.

    >>> from edgewise import Edges
    >>> to_table(Edges([0, 1], [1, 2], 3, 3)).columns.tolist()
    ['sender', 'receiver']
    """
    graph = convertible("to_table", graph, has_nodes=False)
    if isinstance(graph.edge_features, tuple):
        raise SettingError("to_table: edges of different types have different features; graph.to_pandas() writes them.")

    columns: dict[str, object] = {}
    for end, indices in (("sender", graph.edges.senders), ("receiver", graph.edges.receivers)):
        node_names: Sequence[Hashable] = indices.tolist()
        if graph.names is not None:
            node_names = [graph.names[index] for index in indices.tolist()]
        columns[end] = pandas.Series(node_names, dtype="int64" if graph.names is None else "object")

    if graph.edge_features is not None:
        features = array_of(graph.edge_features)
        columns |= {name: features[:, index] for index, name in enumerate(column_names(EDGE, features.shape[1]))}
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
        table: one row per edge.
        sender_column, receiver_column: columns with the nodes: indices from 0, or names.
        feature_columns: numeric columns with edge features; by default `weight`, or `weight_0`, `weight_1`, …, if they
            are there.
        names: the names of all nodes, in order, including those without edges. By default the names in the table, in
            order of occurrence, senders before receivers in each row.
        num_nodes: the number of nodes if they are indices, or (senders, receivers); by default one more than the
            largest index.

    Raises:
        DataError: a column is missing, a cell is not a known node, or a feature is not numeric.
        SettingError: names and num_nodes are both given, or num_nodes is given but nodes are not integers.
    """
    columns = (sender_column, receiver_column)
    if feature_columns is None:
        feature_columns = matching_names("from_table", EDGE, table.columns, "feature_columns")
    for column in (*columns, *feature_columns):
        if column not in table.columns:
            raise DataError(
                f"from_table: the table has no column {column!r}, only {', '.join(map(str, table.columns))}."
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

    ends = [table[column].tolist() for column in columns]
    node_names = dict.fromkeys(name for pair in zip(*ends) for name in pair) if names is None else names
    return Graph(None, _named(columns, ends, tuple(node_names)), features, names=tuple(node_names))


def _numbered(table: "pandas.DataFrame", columns: tuple[str, str], num_nodes: int | tuple[int, int] | None) -> Edges:
    for column in columns:
        if len(table) and not pandas.api.types.is_integer_dtype(table[column]):
            raise SettingError(
                f"from_table: num_nodes is for nodes that are integers, but column {column!r} holds "
                f"{table[column].dtype}; give names, those of nodes without edges too."
            )

    senders, receivers = (torch.tensor(table[column].to_numpy(dtype=np.int64), device="cpu") for column in columns)
    if num_nodes is None:
        num_nodes = 1 + int(torch.cat([senders, receivers]).max()) if len(table) else 0

    num_senders, num_receivers = num_nodes if isinstance(num_nodes, tuple) else (num_nodes, num_nodes)
    for column, indices, size in zip(columns, (senders, receivers), (num_senders, num_receivers)):
        invalid = ((indices < 0) | (indices >= size)).nonzero().flatten().tolist()
        if invalid:
            raise DataError(
                f"from_table: column {column!r} holds {int(indices[invalid[0]])} in row {invalid[0]}, but nodes are "
                f"0 to "
                f"{size - 1}."
            )

    return Edges(senders, receivers, num_senders, num_receivers)


def _named(columns: tuple[str, str], ends: list[list[Hashable]], names: tuple[Hashable, ...]) -> Edges:
    index_of = {name: number for number, name in enumerate(names)}
    for column, end in zip(columns, ends):
        for row, name in enumerate(end):
            if name not in index_of:
                raise DataError(f"from_table: column {column!r} holds {name!r} in row {row}, which names do not.")
    senders, receivers = (
        torch.tensor([index_of[name] for name in end], dtype=torch.int64, device="cpu") for end in ends
    )
    return Edges(senders, receivers, len(names), len(names))


def _numbers(table: "pandas.DataFrame", column: str) -> np.ndarray:
    """A numeric column in its dtype; integers as float64."""
    series = table[column]
    if not pandas.api.types.is_numeric_dtype(series) or pandas.api.types.is_complex_dtype(series):
        raise DataError(f"from_table: column {column!r} holds {series.dtype}, expected numbers.")
    if series.isna().any():
        raise DataError(f"from_table: column {column!r} is empty in row {int(series.isna().argmax())}.")
    return series.to_numpy(dtype=series.dtype if series.dtype in (np.float32, np.float64) else np.float64)
