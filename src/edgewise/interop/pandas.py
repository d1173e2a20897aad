"""Graphs to and from tables of nodes, edges and graphs, pandas `DataFrame`s."""

import re
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from edgewise.errors import DataError
from edgewise.graph import Graph
from edgewise.graph.features import Features
from edgewise.interop.attributes import (
    EDGE,
    NODE,
    PLACE,
    TYPE,
    array_of,
    column_names,
    convertible,
    label,
    names_of,
    numbered_names,
    relations_of,
    require_one_set,
    tables_of,
    types_of,
)
from edgewise.interop.table import from_table, pandas
from edgewise.neighborhood import Edges, Types


class GraphTables(NamedTuple):
    """A graph as tables: hand them to `Graph.of` to get it back."""

    nodes: "pandas.DataFrame"
    """A row a node: `graph` in a batch, `name`, `type`, `feature…`, `position…`, what there is of them."""
    edges: "pandas.DataFrame"
    """A row an edge: `sender` and `receiver`, nodes by their names or rows, `type`, `weight…`."""
    graphs: "pandas.DataFrame"
    """One row per graph: `feature…`."""


def to_pandas(graph: Graph | Edges) -> GraphTables:
    """A graph as DataFrames; dtypes stay, except that half precision becomes float32.

    If the features of types differ, those of the type `author` are named `author.feature_0`, …, and empty in rows of
    other types. Position encodings are left out, with a warning.

    Raises:
        ShapeError: senders and receivers are two sets of nodes, whose edges `to_table` writes; or there are virtual
            nodes.

    >>> from edgewise import Edges
    >>> to_pandas(Edges([0, 1], [1, 2], 3, 3)).edges.columns.tolist()
    ['sender', 'receiver']
    """
    graph = convertible("to_pandas", graph)
    require_one_set("to_pandas", graph)
    names, offsets, graphs = graph.names, graph.offsets, graph.graph_of_node
    columns: dict[str, Any] = {} if offsets is None else {"graph": graphs.cpu().numpy()}
    if names is not None:
        columns["name"] = pandas.Series(names, dtype="object")
    columns |= _columns(NODE, graph.dense_node_features, graph.node_types) | _columns(PLACE, graph.coordinates, None)
    edge_columns: dict[str, Any] = {}
    if offsets is not None and names is not None:
        edge_columns["graph"] = graphs[graph.edges.senders].cpu().numpy()

    for side, indices in (("sender", graph.edges.senders), ("receiver", graph.edges.receivers)):
        node_names = indices.tolist() if names is None else [names[index] for index in indices.tolist()]
        edge_columns[side] = pandas.Series(node_names, dtype="int64" if names is None else "object")
    edge_columns |= _columns(EDGE, graph.edge_features, graph.edge_types)
    return GraphTables(
        pandas.DataFrame(columns, index=pandas.RangeIndex(graph.num_nodes)),
        pandas.DataFrame(edge_columns, index=pandas.RangeIndex(graph.num_edges)),
        pandas.DataFrame(_columns(NODE, graph.graph_features, None), index=pandas.RangeIndex(graph.num_graphs)),
    )


def from_pandas(
    nodes: "pandas.DataFrame",
    edges: "pandas.DataFrame | None" = None,
    graphs: "pandas.DataFrame | None" = None,
    *,
    sender_column: str = "sender",
    receiver_column: str = "receiver",
    **options: Any,
) -> Graph:
    """A graph from tables of nodes and edges, and optionally graphs; or of edges alone, like `from_table`.

    Nodes are named by the column `name`, or by the index unless it is 0, 1, 2, …; edges refer to these names. `type`
    has types, `graph` the graph of each node of a batch, `position_0`, … coordinates. Integer types are counted up to
    the largest that has a row or a column, such as `2.feature`; categories keep those without rows. If types of nodes
    have names, the type of an edge is its word between the types of its ends, as far as there are such edges. All other
    columns are features, and must be numeric.

    Graphs have the names in the column `graph` of `graphs`, or those in its index if these name the graphs of all
    nodes; else they are numbered from 0, or stand in the order of their nodes.

    Args:
        nodes: one row per node; or one row per edge, if it is the only table.
        edges: one row per edge.
        graphs: one row per graph.
        sender_column, receiver_column: columns with the ends of an edge.
        options: options of `from_table`, for a table of edges alone; without `feature_columns`, all other columns are
            features there, too.

    Raises:
        DataError: a column is missing or not numeric, an edge refers to an unknown node, nodes and `graphs` name
            graphs in different orders, or a table of edges alone has a column `graph`, which does not say it all.
    """
    if edges is None:
        return _from_edges(nodes, (sender_column, receiver_column), options)

    for name, table in (("edges", edges), ("graphs", graphs)):
        if not isinstance(table, pandas.DataFrame | None):
            raise DataError(
                f"from_pandas: {name} is {type(table).__name__}, expected a table; of features and an edge_index make "
                "Graph.of((nodes.to_numpy(), edge_index))."
            )

    names, is_batch = _names(nodes), "graph" in nodes.columns
    graph_of_node = nodes["graph"].tolist() if is_batch else [0] * len(nodes)
    node_names = range(len(nodes)) if names is None else names
    is_within = is_batch and names is not None  # several graphs may have the same names
    row_of = {name: row for row, name in enumerate(zip(graph_of_node, node_names) if is_within else node_names)}
    ends = [_ends(edges, column, is_within, row_of) for column in (sender_column, receiver_column)]
    joined = Edges(ends[0], ends[1], len(nodes), len(nodes))

    node_types, edge_types = _types(nodes, NODE), _types(edges, EDGE)
    has_names = all(types is not None and types.names is not None for types in (node_types, edge_types))
    if has_names and not all(isinstance(name, tuple) for name in names_of(edge_types)):
        edge_types = relations_of(node_types, joined, edges[TYPE].tolist())
    return Graph(
        _features(nodes, NODE, node_types, feature_columns_of_nodes(nodes)),
        joined,
        _features(edges, EDGE, edge_types, feature_columns_of_edges(edges, sender_column, receiver_column)),
        None if graphs is None else _numbers(graphs, graphs.columns.drop("graph", errors="ignore")),
        node_types,
        edge_types,
        _numbers(nodes, _position_columns(nodes)),
        _offsets(nodes["graph"], graphs) if is_batch else None,
        names,
    )


def _from_edges(table: "pandas.DataFrame", ends: tuple[str, str], options: dict[str, Any]) -> Graph:
    """A graph of a table of edges alone."""
    edge_types, numbers = _types(table, EDGE), feature_columns_of_edges(table, *ends)
    if "graph" in table.columns and "graph" not in (*ends, *(options.get("feature_columns") or ())):
        raise DataError(
            "from_pandas: the edges have a column 'graph', but a batch needs its nodes, too: Graph.of((nodes, edges)), "
            "each with a column 'graph'; or drop the column."
        )
    are_read = "feature_columns" not in options and len(numbered_names(EDGE, numbers)) < len(numbers)
    options = {**options, "feature_columns": []} if are_read else options
    graph = replace(from_table(table, sender_column=ends[0], receiver_column=ends[1], **options), edge_types=edge_types)
    return replace(graph, edge_features=_features(table, EDGE, edge_types, numbers)) if are_read else graph


def feature_columns_of_nodes(nodes: "pandas.DataFrame") -> list[Hashable]:
    """The columns of a table of nodes that are features, in their order."""
    others = "graph", "name", TYPE, *_position_columns(nodes)
    return [column for column in nodes.columns if column not in others]


def feature_columns_of_edges(
    edges: "pandas.DataFrame", sender_column: str = "sender", receiver_column: str = "receiver"
) -> list[Hashable]:
    """The columns of a table of edges that are features, in their order."""
    return [column for column in edges.columns if column not in ("graph", TYPE, sender_column, receiver_column)]


def _position_columns(nodes: "pandas.DataFrame") -> list[str]:
    """The columns with coordinates, in the order of their numbers."""
    return sorted(numbered_names(PLACE, nodes.columns), key=lambda column: int(column.partition("_")[2] or 0))


def _columns(prefix: str, features: Features | None, types: Types | None) -> dict[str, Any]:
    """The types and features of rows, by column name."""
    columns: dict[str, Any] = {}
    if types is not None and types.names is None:
        columns[TYPE] = types.of_row.cpu().numpy()
    elif types is not None:
        categories = pandas.Index(list(types.names or ()), dtype="object", tupleize_cols=False)
        columns[TYPE] = pandas.Categorical.from_codes(types.of_row.cpu().numpy(), categories)

    for column_prefix, rows, table in tables_of(prefix, features, types):
        values = array_of(table)
        for index, column in enumerate(column_names(column_prefix, table.shape[1])):
            if rows is None:
                columns[column] = values[:, index]
            else:  # a nullable dtype
                dtype_name = (
                    "boolean" if values.dtype == np.bool_ else str(values.dtype).capitalize().replace("Uint", "UInt")
                )
                series = pandas.Series(values[:, index], index=rows.cpu().numpy()).astype(dtype_name)
                columns[column] = series.reindex(pandas.RangeIndex(0 if types is None else len(types)))

    return columns


def _names(nodes: "pandas.DataFrame") -> tuple[Hashable, ...] | None:
    if "name" in nodes.columns:
        return tuple(nodes["name"].tolist())
    index = nodes.index
    return None if index.equals(pandas.RangeIndex(len(nodes))) else tuple(index.tolist())


def _offsets(graph_of_node: "pandas.Series", graphs: "pandas.DataFrame | None") -> Tensor:
    """Where the nodes of each graph begin, from the number or the name of the graph of each node."""
    cells = graph_of_node.tolist()
    if graphs is not None and "graph" in graphs.columns:
        names = graphs["graph"].tolist()
    elif graphs is not None and set(cells) <= set(graphs.index):
        names = graphs.index.tolist()
    elif pandas.api.types.is_integer_dtype(graph_of_node):
        names = list(range(len(cells) if graphs is None else len(graphs)))
    elif graphs is not None and not graphs.index.equals(pandas.RangeIndex(len(graphs))):
        names = graphs.index.tolist()
    else:
        names = graph_of_node.dropna().unique().tolist()

    number_of = {name: number for number, name in enumerate(names)}
    if len(number_of) < len(names):
        raise DataError("from_pandas: two rows of graphs have the same name; give each another.")
    for row, cell in enumerate(cells):
        if cell not in number_of:
            raise DataError(
                f"from_pandas: 'graph' is {cell!r} in row {row} of the nodes, which is not a graph; number graphs from "
                "0, or give the table graphs, with the names of all in its column 'graph'."
            )
    numbers = torch.tensor([number_of[cell] for cell in cells], dtype=torch.int64, device="cpu")
    if bool((numbers.diff() < 0).any()):
        raise DataError(
            "from_pandas: column 'graph' of the nodes goes back; sort the nodes by it."
            if graphs is None
            else "from_pandas: the nodes name graphs in another order than the rows of graphs; sort one like the other."
        )
    counts = torch.bincount(numbers, minlength=1 if graphs is None else len(graphs))
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def _ends(edges: "pandas.DataFrame", column: str, is_within: bool, row_of: dict[Any, int]) -> Tensor:
    """The row of the node in each cell of a column."""
    for needed in (column, *(["graph"] if is_within else [])):
        if needed not in edges.columns:
            existing = ", ".join(map(str, edges.columns))
            raise DataError(f"from_pandas: the edges have no column {needed!r}, only {existing}.")
    cells = edges[column].tolist()
    keys = list(zip(edges["graph"].tolist(), cells)) if is_within else cells
    for row, key in enumerate(keys):
        if key not in row_of:
            raise DataError(
                f"from_pandas: {column!r} is {cells[row]!r} in row {row} of the edges, which is not a node."
            )
    return torch.tensor([row_of[key] for key in keys], dtype=torch.int64, device="cpu")


def _types(table: "pandas.DataFrame", prefix: str) -> Types | None:
    if TYPE not in table.columns:
        return None
    column = table[TYPE]
    if column.isna().any():
        raise DataError(f"from_pandas: column {TYPE!r} is empty in row {int(column.isna().to_numpy().argmax())}.")
    if isinstance(column.dtype, pandas.CategoricalDtype):
        names = tuple(column.cat.categories.tolist())
        return Types(torch.tensor(column.cat.codes.to_numpy(dtype=np.int64), device="cpu"), len(names), names)
    types = types_of(column.tolist())
    if types.names is not None:
        return types
    # A type without rows may have features nevertheless, which are not those of all types.
    own_columns = [re.fullmatch(rf"(\d+)\.{prefix}(_\d+)?", str(column)) for column in table.columns]
    numbers = [int(match[1]) for match in own_columns if match]
    return Types(types.of_row, max([types.num_types, *(1 + number for number in numbers)]))


def _features(
    table: "pandas.DataFrame", prefix: str, types: Types | None, columns: Sequence[Hashable]
) -> Features | None:
    """Columns as numbers; those that start with the name of a type belong to it."""
    column_prefixes = [f"{label(name)}.{prefix}" for name in names_of(types)]
    owned = [_own_columns(columns, column_prefix) for column_prefix in column_prefixes]
    if types is None or not any(owned):
        return _numbers(table, columns)
    rows = types.split(torch.arange(len(types), device=types.of_row.device))
    shared = [column for column in columns if not any(column in type_columns for type_columns in owned)]
    return tuple(
        _numbers(table.iloc[rows_of_type.numpy()], [*shared, *type_columns])
        for rows_of_type, type_columns in zip(rows, owned)
    )


def _own_columns(columns: Sequence[Hashable], prefix: str) -> Sequence[Hashable]:
    """The columns of one type: those that start with its prefix, in the order of their numbers where these say one."""
    own = [column for column in columns if str(column) == prefix or str(column).startswith(f"{prefix}_")]
    numbered = column_names(prefix, len(own))
    return numbered if set(numbered) == set(own) else own


def _numbers(table: "pandas.DataFrame", columns: Sequence[Any]) -> Tensor | None:
    """`(row, column)`, in the dtype of the columns."""
    arrays = []
    for column in columns:
        series = table[column]
        dtype = getattr(series.dtype, "numpy_dtype", series.dtype)  # of a nullable dtype
        if not pandas.api.types.is_numeric_dtype(series) or dtype.kind == "c":
            raise DataError(
                f"from_pandas: column {column!r} holds {series.dtype}, expected numbers; drop or encode it."
            )
        if dtype.kind != "f" and series.isna().any():
            raise DataError(f"from_pandas: column {column!r} is empty in row {series.index[series.isna()][0]}.")
        arrays.append(series.to_numpy(dtype=dtype, **({"na_value": np.nan} if dtype.kind == "f" else {})))
    return torch.as_tensor(np.stack(arrays, 1), device="cpu") if arrays else None
