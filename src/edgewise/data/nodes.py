"""A graph as a table: one row a node, its features, its targets, and the edges between the nodes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool

from edgewise.data.cell import Classes, Problems
from edgewise.data.columns import AUTO, Columns
from edgewise.data.edges import EdgeList, read_edges
from edgewise.data.graph_file import check_edges, is_graph_file, read_arrays, read_graph_file
from edgewise.data.graph_source import GraphSource
from edgewise.data.node_features import NodeFeatures, features_of_arrays, features_of_columns
from edgewise.data.read import Cells, Values, cells_from_arrays, check_columns_exist, read_cells
from edgewise.data.rows import Table, judged, with_task
from edgewise.errors import DataError, SettingError

NAMES = ("id", "node", "node_id")
"""What the column of names may be called where nobody says so."""
NUMBERS = "node"
"""The column that numbers the rows from 0 where there is none."""


@dataclass(frozen=True, eq=False)
class NodeTable(Table):
    """The nodes of one graph; a node without a target is part of the graph, and is not learned from."""

    features: NodeFeatures
    """What is known of each node; 0 where a cell cannot be read."""
    edges: EdgeList
    """Who is connected with whom."""
    names: tuple[str, ...]
    """What the nodes are called."""

    @property
    def unit(self) -> str:
        """What rows are made of."""
        return "nodes"

    @property
    def num_distinct(self) -> int:
        """How many different ones there are: every node is one of a kind by its place in the graph."""
        return self.num_rows

    def contents(self, rows: np.ndarray) -> list[tuple[Any, ...]]:
        """The names of some nodes."""
        return [(self.names[row],) for row in rows.tolist()]

    @property
    def trainable(self) -> Bool[np.ndarray, " row"]:
        """True for nodes that can be learned from, or judged by."""
        return self.usable & ~np.isnan(self.targets).all(axis=1)


@dataclass(frozen=True, eq=False)
class _Graph:
    """What files say of a graph, before its targets are read."""

    cells: Cells
    columns: Columns
    names: tuple[str, ...]
    features: NodeFeatures
    edges: EdgeList
    problems: Problems


def read_nodes(
    paths: Sequence[str],
    columns: Columns,
    source: GraphSource,
    *,
    strict: bool = False,
    need_targets: bool = True,
    classes: Classes | None = None,
) -> NodeTable:
    """Read a graph: a table of nodes and a table of edges; or both from one .npz file.

    Where nothing is known of the nodes, their features are the numbers of edges that come and go.
    A node whose features cannot be read stays in the graph with zeros there, and is neither learned from nor
    predicted; an edge that names no node is passed over. Both are listed in `rejected`.

    Args:
        paths: one table of nodes, or one .npz file.
        columns: which column says what.
        source: where the edges are, and how they are read.
        strict: stop at the first row that cannot be used.
        need_targets: False reads nodes to predict.
        classes: names of the classes that a trained model knows; by default those that occur.

    Raises:
        DataError: a file cannot be used as a whole, two nodes have one name, or `strict` and a row cannot be used.
        SettingError: there is not one file, or no table of edges beside a table of nodes.
    """
    graph = _graph(paths, columns, source, strict, need_targets, need_targets)
    return _with_degrees(_interpret(graph, source.directed, strict, need_targets, classes))


def read_graph(
    paths: Sequence[str], columns: Columns, source: GraphSource, *, strict: bool = False, find_features: bool = True
) -> NodeTable:
    """Read a graph of whose nodes nothing is to be told, as `read_nodes` does; where nothing is known of them, they
    have no features.

    Args:
        paths, columns, source, strict: as in `read_nodes`; columns of targets are not looked at.
        find_features: whether columns that have no other role are features, where none is named.
    """
    graph = _graph(paths, columns, source, strict, False, find_features)
    return _interpret(graph, source.directed, strict, False, None)


def _graph(
    paths: Sequence[str], columns: Columns, source: GraphSource, strict: bool, need_targets: bool, find_features: bool
) -> _Graph:
    """What the files say."""
    if len(paths) != 1:
        raise SettingError(f"{len(paths)} tables of nodes were given, expected one: a graph is not parted by files.")
    if is_graph_file(paths[0]):
        return _from_file(paths[0], columns, source, need_targets)
    return _from_tables(paths[0], columns, source, strict, need_targets, find_features)


def nodes_from_arrays(
    features: NodeFeatures,
    edges: EdgeList,
    targets: Values | None = None,
    weights: Values | None = None,
    parts: Values | None = None,
    *,
    task_type: str = "regression",
    classes: Classes | None = None,
) -> NodeTable:
    """A graph from arrays, with the checks of a file; its edges are taken as they are.

    Args:
        features: of each node.
        edges: between the nodes, counted from 0.
        targets: `(node,)` or `(node, target)`; NaN or None is missing; None altogether for nodes to predict.
        weights: `(node,)` numbers, zero or more.
        parts: `(node,)`: train, val, test or nothing.
        task_type, classes: as in `Columns` and `read_nodes`.

    Raises:
        DataError: the arrays have different lengths or a wrong number of axes, or an edge names no node.
    """
    check_edges("edges", np.stack([edges.senders, edges.receivers]), features.shape[0])
    numbers = list(range(features.shape[0]))
    arrays = {NUMBERS: numbers, "target": targets, "weight": weights, "split": parts}
    cells, columns_of = cells_from_arrays({name: values for name, values in arrays.items() if values is not None})
    columns = Columns(
        node_column=NUMBERS,
        target_columns=columns_of.get("target", ()),
        weight_column="weight" if "weight" in columns_of else None,
        splits_column="split" if "split" in columns_of else None,
        task_type=task_type,
    )
    graph = _Graph(cells, columns, tuple(map(str, numbers)), features, edges, Problems())
    return _with_degrees(_interpret(graph, True, True, targets is not None, classes))


def _interpret(
    graph: _Graph, is_directed: bool, strict: bool, need_targets: bool, classes: Classes | None
) -> NodeTable:
    """A node is usable when its features can be read; where it has no target it is not trained on."""
    columns, features, edges = with_task(graph.cells, graph.columns), graph.features, graph.edges
    found = judged(
        graph.cells, columns, graph.problems, classes, strict=strict, need_targets=need_targets, may_lack_targets=True
    )
    found["rejected"] = [*found["rejected"], *edges.rejected]
    edges = edges if is_directed else edges.both_ways(len(graph.names))
    return NodeTable(**found, features=features, edges=edges, names=graph.names)


def _with_degrees(table: NodeTable) -> NodeTable:
    """The table, and where nothing is known of its nodes, how many edges come and go."""
    if table.features.shape[1]:
        return table
    sides = (table.edges.receivers, table.edges.senders)
    degrees = np.stack([np.bincount(side, minlength=table.num_rows) for side in sides], 1)
    return replace(table, features=NodeFeatures.of(degrees))


def _check_roles(cells: Cells, columns: Columns) -> None:
    """Raise an error unless there are targets, and every column that has a role is there."""
    if not columns.target_columns:
        raise SettingError("no --target-columns were given; name what is to be told of the nodes.")
    others = (columns.weight_column, columns.splits_column, columns.group_column)
    check_columns_exist(cells, (*columns.target_columns, *(name for name in others if name)))


def _from_file(path: str, columns: Columns, source: GraphSource, need_targets: bool) -> _Graph:
    """A graph in one file."""
    if source.edges is not None or source.features is not None:
        raise SettingError(f"{path} has its edges and features inside; leave out --edges and --features.")
    graph = read_graph_file(path)
    cells, columns, names = _named(graph.cells, columns)
    if need_targets:
        columns = replace(columns, splits_column=columns.splits_column or graph.splits_column)
        if not columns.target_columns and graph.target_column is not None:
            columns = replace(columns, target_columns=(graph.target_column,))
        _check_roles(cells, columns)
    return _Graph(cells, columns, names, graph.features, graph.edges, Problems())


def _from_tables(
    path: str, columns: Columns, source: GraphSource, strict: bool, need_targets: bool, find_features: bool
) -> _Graph:
    """A graph in a table of nodes, one of edges, and perhaps a file of features."""
    if source.edges is None:
        raise SettingError(f"{path} holds nodes; name the table of their edges: --edges edges.csv.")
    cells, columns, names = _named(read_cells(path), columns)
    if need_targets:
        _check_roles(cells, columns)
    if source.features is not None:
        features, problems = features_of_arrays(source.features, read_arrays(source.features)), Problems()
        if features.shape[0] != len(names):
            raise DataError(f"{source.features} has {features.shape[0]} rows, but {path} has {len(names)} nodes.")
    else:
        columns = _with_features(cells, columns) if find_features else columns
        features, problems = features_of_columns(cells, columns.descriptors_columns)
    edges = read_edges(
        source.edges,
        {name: row for row, name in enumerate(names)},
        path,
        edge_columns=source.edge_columns,
        feature_columns=source.edge_feature_columns,
        strict=strict,
    )
    return _Graph(cells, columns, names, features, edges, problems)


def _named(cells: Cells, columns: Columns) -> tuple[Cells, Columns, tuple[str, ...]]:
    """The cells with a column of names, the columns with it named, and the names."""
    column = columns.node_column
    if column == AUTO:
        column = next((name for name in NAMES if name in cells.frame.columns), None)
    if column is None:
        column = NUMBERS
        cells = replace(cells, frame=cells.frame.assign(**{column: [str(row) for row in range(len(cells.frame))]}))
    check_columns_exist(cells, (column,))
    names = tuple(name.strip() for name in cells.frame[column])
    first: dict[str, int] = {}
    for row, name in enumerate(names):
        if not name or name in first:
            what = (
                f"the node {name!r} stands in line {cells.lines[first[name]]} too" if name else "the node has no name"
            )
            raise DataError(f"{cells.source}, line {cells.lines[row]}, column {column!r}: {what}; names must differ.")
        first[name] = row
    return cells, replace(columns, node_column=column), names


def _with_features(cells: Cells, columns: Columns) -> Columns:
    """The columns with features named: those that have no other role where the caller named none."""
    if columns.descriptors_columns:
        return columns
    taken = {name for names in columns.roles().values() for name in names}
    features = tuple(name for name in cells.frame.columns if name not in taken)
    return replace(columns, descriptors_columns=features)
