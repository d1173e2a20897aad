"""A graph as a table: one row a node, its features, its targets, and the edges between the nodes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Int64

from edgewise.data.cell import Classes, Problems, read_number
from edgewise.data.columns import AUTO, Columns
from edgewise.data.edges import EdgeList, read_edges
from edgewise.data.graph_file import is_graph_file, read_graph_file
from edgewise.data.graph_source import GraphSource
from edgewise.data.read import Cells, check_columns_exist, read_cells
from edgewise.data.rows import Table, judged, with_task
from edgewise.errors import DataError, SettingError

NAMES = ("id", "node", "node_id")
"""What the column of names may be called where nobody says so."""
NUMBERS = "node"
"""The column that numbers the rows from 0 where there is none."""


@dataclass(frozen=True, eq=False)
class NodeFeatures:
    """What is known of each node, without the zeros: of a bag of words they are nearly all."""

    rows: Int64[np.ndarray, " entry"]
    """The node of each number, ascending."""
    columns: Int64[np.ndarray, " entry"]
    """Its feature."""
    values: Float32[np.ndarray, " entry"]
    """The number; never zero."""
    shape: tuple[int, int]
    """(node, feature)."""

    @classmethod
    def of(cls, values: np.ndarray) -> "NodeFeatures":
        """Those of a table (node, feature)."""
        rows, columns = np.nonzero(values)
        return cls(rows, columns, values[rows, columns].astype(np.float32), values.shape)

    def to_dense(self) -> Float32[np.ndarray, " node feature"]:
        """As a table."""
        found = np.zeros(self.shape, dtype=np.float32)
        found[self.rows, self.columns] = self.values
        return found

    def of_rows(self, rows: np.ndarray) -> Float32[np.ndarray, " row feature"]:
        """Those of some nodes as a table."""
        place = np.full(self.shape[0], -1)
        place[rows] = np.arange(len(rows))
        kept = place[self.rows] >= 0
        found = np.zeros((len(rows), self.shape[1]), dtype=np.float32)
        found[place[self.rows[kept]], self.columns[kept]] = self.values[kept]
        return found

    @property
    def are_sparse(self) -> bool:
        """Whether there are many, and nearly all of them zero."""
        return self.shape[1] >= 64 and len(self.values) < 0.2 * self.shape[0] * self.shape[1]

    @property
    def are_words(self) -> bool:
        """Whether they say how much a node has of a few out of many features, as a bag of words does."""
        return self.are_sparse and len(self.values) > 0 and self.values.min() > 0


@dataclass(frozen=True, eq=False)
class NodeTable(Table):
    """The nodes of one graph; a node without a target is part of the graph, and is not learned from."""

    features: NodeFeatures
    """What is known of each node; 0 where a cell cannot be read."""
    feature_names: tuple[str, ...]
    """What they are called."""
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
        SettingError: there is not one file.
    """
    if len(paths) != 1:
        raise SettingError(f"{len(paths)} tables of nodes were given, expected one: a graph is not parted by files.")
    if is_graph_file(paths[0]):
        graph = read_graph_file(paths[0])
        columns = replace(columns, splits_column=columns.splits_column or graph.splits_column)
        if not columns.target_columns and graph.target_column is not None:
            columns = replace(columns, target_columns=(graph.target_column,))
        cells, columns, names = _named(graph.cells, columns)
        edges = graph.edges
        features, feature_names = NodeFeatures(*graph.entries, graph.shape), tuple(map(str, range(graph.shape[1])))
        problems = Problems()
    else:
        if source.edges is None:
            raise SettingError(f"{paths[0]} holds nodes; name the table of their edges: --edges edges.csv.")
        cells, columns, names = _named(read_cells(paths[0]), columns)
        columns = _with_features(cells, columns, need_targets)
        features, problems = _read_features(cells, columns)
        feature_names = columns.descriptors_columns
        place_of_node = {name: row for row, name in enumerate(names)}
        edges = read_edges(
            source.edges,
            place_of_node,
            paths[0],
            edge_columns=source.edge_columns,
            feature_columns=source.edge_feature_columns,
            strict=strict,
        )
    if need_targets and not columns.target_columns:
        raise SettingError("no --target-columns were given; name what is to be told of the nodes.")
    if need_targets:
        others = (columns.weight_column, columns.splits_column, columns.group_column)
        check_columns_exist(cells, (*columns.target_columns, *(name for name in others if name)))
    columns = with_task(cells, columns)
    found = judged(cells, columns, problems, classes, strict=strict, need_targets=need_targets, may_lack_targets=True)
    found["rejected"] = [*found["rejected"], *edges.rejected]
    edges = edges if source.directed else edges.both_ways(len(names))
    return NodeTable(**found, features=features, feature_names=feature_names, edges=edges, names=names)


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


def _with_features(cells: Cells, columns: Columns, need_targets: bool) -> Columns:
    """The columns with features named: those that have no other role where the caller named none."""
    if columns.descriptors_columns or not need_targets:
        return columns
    taken = {name for names in columns.roles().values() for name in names}
    features = tuple(name for name in cells.frame.columns if name not in taken)
    return replace(columns, descriptors_columns=features)


def _read_features(cells: Cells, columns: Columns) -> tuple[NodeFeatures, Problems]:
    """The features of all nodes, 0 where a cell cannot be read, and which those are."""
    check_columns_exist(cells, columns.descriptors_columns)
    problems, values = Problems(), np.zeros((len(cells.frame), len(columns.descriptors_columns)))
    for place, column in enumerate(columns.descriptors_columns):
        for row, cell in enumerate(cells.frame[column]):
            number, reason = read_number(cell)
            values[row, place] = 0.0 if reason else number
            if reason:
                problems.add(row, column, cell, reason)
    if len(problems.first) == len(cells.frame):
        column, cell, reason = problems.first[0]
        raise DataError(
            f"{cells.source}: no node has features that can be read; line {cells.lines[0]}, column {column!r}: "
            f"{reason}. Name the columns with numbers: --feature-columns."
        )
    return NodeFeatures.of(values), problems
