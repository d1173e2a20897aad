"""Graphs to and from tables of nodes, edges and graphs, pandas `DataFrame`s."""

from collections.abc import Hashable, Sequence
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
    label,
    names_of,
    relations_of,
    require_one_set,
    tables_of,
    types_of,
    weighted,
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
    """A row a graph: `feature…`."""


def to_pandas(graph: Graph | Edges) -> GraphTables:
    """A graph as tables; dtypes stay, but half precision becomes float32.

    Where the features of types differ, those of the type `author` are called `author.feature_0`, …, and empty in rows
    of other types.

    Raises:
        ShapeError: senders and receivers are two sets of nodes; `to_table` writes their edges.

    >>> from edgewise import Edges
    >>> to_pandas(Edges([0, 1], [1, 2], 3, 3)).edges.columns.tolist()
    ['sender', 'receiver']
    """
    graph = weighted(graph)
    require_one_set("to_pandas", graph)
    names, offsets, graphs = graph.names, graph.offsets, graph.graph_of_node
    columns: dict[str, Any] = {} if offsets is None else {"graph": graphs.numpy()}
    if names is not None:
        columns["name"] = pandas.Series(names, dtype="object")
    columns |= _columns(NODE, graph.node_features, graph.node_types) | _columns(PLACE, graph.positions, None)
    own: dict[str, Any] = {}
    if offsets is not None and names is not None:
        own["graph"] = graphs[graph.edges.senders].numpy()
    for side, places in (("sender", graph.edges.senders), ("receiver", graph.edges.receivers)):
        called = places.tolist() if names is None else [names[place] for place in places.tolist()]
        own[side] = pandas.Series(called, dtype="int64" if names is None else "object")
    own |= _columns(EDGE, graph.edge_features, graph.edge_types)
    return GraphTables(
        pandas.DataFrame(columns, index=pandas.RangeIndex(graph.num_nodes)),
        pandas.DataFrame(own, index=pandas.RangeIndex(graph.num_edges)),
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
    """Tables as a graph: of nodes and edges, perhaps of graphs; or of edges alone, as `from_table` reads it.

    Nodes are named by `name`, or by the index where it is not 0, 1, 2, …; edges name them so. `type` holds types,
    `graph` the graph of each node of a batch, `position_0`, … coordinates. Types that are whole numbers are counted up
    to the largest; categories keep those without rows. All other columns are features, and must hold numbers.

    Args:
        nodes: a row a node; or a row an edge, where it is the only table.
        edges: a row an edge.
        graphs: a row a graph.
        sender_column, receiver_column: which columns name the ends of an edge.
        options: of `from_table`, for a table of edges alone.

    Raises:
        DataError: a column is missing or holds no numbers, or an edge names no node.
    """
    if edges is None:
        return from_table(nodes, sender_column=sender_column, receiver_column=receiver_column, **options)
    for name, table in (("edges", edges), ("graphs", graphs)):
        if not isinstance(table, pandas.DataFrame | None):
            raise DataError(
                f"from_pandas: {name} is {type(table).__name__}, expected a table; of features and an edge_index make "
                "Graph.of((nodes.to_numpy(), edge_index))."
            )
    names, is_batch = _names(nodes), "graph" in nodes.columns
    graph_of_node = nodes["graph"].tolist() if is_batch else [0] * len(nodes)
    called = range(len(nodes)) if names is None else names
    is_within = is_batch and names is not None  # the same name may stand in several graphs
    row_of = {name: row for row, name in enumerate(zip(graph_of_node, called) if is_within else called)}
    ends = [_ends(edges, column, is_within, row_of) for column in (sender_column, receiver_column)]
    joined = Edges(ends[0], ends[1], len(nodes), len(nodes))
    offsets = None
    if is_batch:
        numbers = torch.tensor(graph_of_node, dtype=torch.int64, device="cpu")
        counts = torch.bincount(numbers, minlength=1 if graphs is None else len(graphs))
        offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        if bool((numbers.diff() < 0).any()):
            raise DataError("from_pandas: column 'graph' of the nodes goes back; sort the nodes by it.")
    node_types, edge_types = _types(nodes), _types(edges)
    if edge_types is not None and edge_types.names is not None and not isinstance(edge_types.names[0], tuple):
        edge_types = relations_of(node_types, joined, edges[TYPE].tolist())
    places = [column for column in nodes.columns if column == PLACE or str(column).startswith(f"{PLACE}_")]
    return Graph(
        _features(nodes, NODE, node_types, ["graph", "name", TYPE, *places]),
        joined,
        _features(edges, EDGE, edge_types, ["graph", TYPE, sender_column, receiver_column]),
        None if graphs is None else _numbers(graphs, graphs.columns),
        node_types,
        edge_types,
        _numbers(nodes, places),
        offsets,
        names,
    )


def _columns(prefix: str, features: Features | None, types: Types | None) -> dict[str, Any]:
    """The types and features of rows by the names of their columns."""
    found: dict[str, Any] = {}
    if types is not None and types.names is None:
        found[TYPE] = types.of_row.cpu().numpy()
    elif types is not None:
        categories = pandas.Index(list(types.names or ()), dtype="object", tupleize_cols=False)
        found[TYPE] = pandas.Categorical.from_codes(types.of_row.cpu().numpy(), categories)
    for called, rows, table in tables_of(prefix, features, types):
        values = array_of(table)
        for place, column in enumerate(column_names(called, table.shape[1])):
            if rows is None:
                found[column] = values[:, place]
            else:  # a dtype that knows empty cells
                kind = "boolean" if values.dtype == np.bool_ else str(values.dtype).capitalize().replace("Uint", "UInt")
                held = pandas.Series(values[:, place], index=rows.cpu().numpy()).astype(kind)
                found[column] = held.reindex(pandas.RangeIndex(0 if types is None else len(types)))
    return found


def _names(nodes: "pandas.DataFrame") -> tuple[Hashable, ...] | None:
    if "name" in nodes.columns:
        return tuple(nodes["name"].tolist())
    index = nodes.index
    return None if index.equals(pandas.RangeIndex(len(nodes))) else tuple(index.tolist())


def _ends(edges: "pandas.DataFrame", column: str, is_within: bool, row_of: dict[Any, int]) -> Tensor:
    """The row of the node that each cell of a column names."""
    for needed in (column, *(["graph"] if is_within else [])):
        if needed not in edges.columns:
            there = ", ".join(map(str, edges.columns))
            raise DataError(f"from_pandas: there is no column {needed!r} in the edges; there are {there}.")
    cells = edges[column].tolist()
    keys = list(zip(edges["graph"].tolist(), cells)) if is_within else cells
    for row, key in enumerate(keys):
        if key not in row_of:
            raise DataError(f"from_pandas: {column!r} is {cells[row]!r} in row {row} of the edges, which is no node.")
    return torch.tensor([row_of[key] for key in keys], dtype=torch.int64, device="cpu")


def _types(table: "pandas.DataFrame") -> Types | None:
    if TYPE not in table.columns:
        return None
    held = table[TYPE]
    if held.isna().any():
        raise DataError(f"from_pandas: column {TYPE!r} is empty in row {int(held.isna().to_numpy().argmax())}.")
    if isinstance(held.dtype, pandas.CategoricalDtype):
        names = tuple(held.cat.categories.tolist())
        return Types(torch.tensor(held.cat.codes.to_numpy(dtype=np.int64), device="cpu"), len(names), names)
    return types_of(held.tolist())


def _features(table: "pandas.DataFrame", prefix: str, types: Types | None, others: Sequence[str]) -> Features | None:
    """All columns but others, as numbers: those that begin with the name of a type are its own."""
    columns = [column for column in table.columns if column not in others]
    called = [f"{label(name)}.{prefix}" for name in names_of(types)]
    owned = [[c for c in columns if str(c) == name or str(c).startswith(f"{name}_")] for name in called]
    if types is None or not any(owned):
        return _numbers(table, columns)
    rows = types.split(torch.arange(len(types), device=types.of_row.device))
    shared = [column for column in columns if not any(column in own for own in owned)]
    return tuple(_numbers(table.iloc[own.numpy()], [*shared, *mine]) for own, mine in zip(rows, owned))


def _numbers(table: "pandas.DataFrame", columns: Sequence[Any]) -> Tensor | None:
    """`(row, column)`, in the dtype of the columns."""
    found = []
    for column in columns:
        held = table[column]
        kind = getattr(held.dtype, "numpy_dtype", held.dtype)  # of a dtype that knows empty cells
        if not pandas.api.types.is_numeric_dtype(held) or kind.kind == "c":
            raise DataError(f"from_pandas: column {column!r} holds {held.dtype}, expected numbers; drop or encode it.")
        if kind.kind != "f" and held.isna().any():
            raise DataError(f"from_pandas: column {column!r} has no number in row {held.index[held.isna()][0]}.")
        found.append(held.to_numpy(dtype=kind, **({"na_value": np.nan} if kind.kind == "f" else {})))
    return torch.as_tensor(np.stack(found, 1), device="cpu") if found else None
