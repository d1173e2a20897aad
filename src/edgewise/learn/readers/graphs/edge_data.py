"""The edges of one graph as a table: a row each, with its features and targets."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float32, Int64

from edgewise.errors import DataError, SettingError
from edgewise.learn.readers.graphs.edges import EdgeList, read_edges, share_of_nodes
from edgewise.learn.readers.graphs.ends import ends_by_name, ends_of
from edgewise.learn.readers.graphs.file import check_edges
from edgewise.learn.readers.graphs.names import NUMBERS, NodeNames
from edgewise.learn.readers.graphs.node_features import Categories, NodeFeatures, features_of_nodes
from edgewise.learn.readers.graphs.nodes import with_feature_columns, with_node_names
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.settings import spelled
from edgewise.learn.tables.cell import Problems, stripped
from edgewise.learn.tables.columns import AUTO, ROW_ROLES, Columns, check_one_role
from edgewise.learn.tables.impute import missing_by_row
from edgewise.learn.tables.read import Cells, TableChunks, Values, read_cells
from edgewise.learn.tables.rows import Contents, Rows, cells_and_columns, checked_rows, read_files


@dataclass(frozen=True, eq=False)
class EdgeData:
    """The edges of one graph; an edge without a target carries messages, and is not learned from."""

    rows: Rows
    """A row for each edge. Rows that cannot be read are `rejected_edges`; for training, also those without a target."""
    names: tuple[str, ...]
    """The names of the nodes."""
    nodes: NodeFeatures
    """The features of each node."""
    edges: EdgeList
    """The edges that can be read, in the order of their rows."""
    edge_of_row: Int64[np.ndarray, " row"]
    """The edge of each row in `edges`; −1 where the row cannot be read."""
    categories: Categories = field(default_factory=dict)
    """The words of each column of categories of nodes."""
    has_degrees: bool = False
    """Whether nodes lack features, so that their features are in- and out-degrees."""

    @property
    def edge_categories(self) -> Categories:
        """The words of each column of categories of edges."""
        return self.edges.categories

    def ends(self, rows: np.ndarray) -> list[Int64[np.ndarray, " row"]]:
        """The senders and the receivers of some edges, by number."""
        return [side[self.edge_of_row[rows]] for side in (self.edges.senders, self.edges.receivers)]

    def features(self, rows: np.ndarray) -> Float32[np.ndarray, " row feature"]:
        """The features of some edges and of their two nodes, side by side."""
        of_nodes = map(self.nodes.of_rows, self.ends(rows))
        return np.concatenate([self.edges.features[self.edge_of_row[rows]], *of_nodes], axis=1)

    @property
    def num_missing(self) -> int:
        """Numbers of nodes and edges that are NaN."""
        return self.nodes.num_missing + int(np.isnan(self.edges.features).sum())

    def between(self, sender: int, receiver: int, is_directed: bool) -> Int64[np.ndarray, " row"]:
        """The rows of the edges from one node to another, or between both where edges go both ways."""
        return np.flatnonzero(
            (self.edge_of_row >= 0) & self.edges.joins(sender, receiver, is_directed)[self.edge_of_row]
        )

    def missing(self, edge_names: Sequence[str], node_names: Sequence[str]) -> dict[int, list[str]]:
        """What rows that can be used lack, in words.

        Args:
            edge_names, node_names: of the features of edges and of nodes; empty for those that are not read.
        """
        rows, names = np.flatnonzero(self.rows.usable), [f"{name} of a node" if name else "" for name in node_names]
        of_ends = ((self.nodes.rows_if_missing(nodes), rows, names) for nodes in self.ends(rows))
        return missing_by_row([(self.edges.features[self.edge_of_row[rows]], rows, edge_names), *of_ends])


def read_edge_data(
    paths: Sequence[str],
    columns: Columns,
    source: GraphSource,
    nodes: str | None,
    *,
    strict: bool = False,
    need_targets: bool = True,
    categories: Categories | None = None,
    edge_categories: Categories | None = None,
    fills_edges: bool | None = None,
    node_column_of_training: str | None = None,
) -> EdgeData:
    """Reads the edges of a graph with their targets, and its nodes.

    Args:
        paths: tables of edges.
        columns: the role of each column; targets, weights, splits and groups are those of edges, `node_column`,
            `descriptors_columns` and `category_columns` those of nodes.
        source: the columns of the ends and of the features of edges; edges to predict may lack the ends of the
            training, and others are guessed.
        nodes: the table of nodes; None takes their names from the edges, and their degrees as features.
        strict: stop at the first row that cannot be used.
        need_targets: False reads edges to predict.
        categories, edge_categories: the words that a trained model knows; by default those that occur.
        fills_edges, node_column_of_training: as in `ReadOptions`.

    Raises:
        DataError: a file cannot be used as a whole, or `strict` and a row cannot be used.
    """
    of_nodes = None
    if nodes is not None:
        of_nodes = _node_data(
            nodes,
            columns,
            source,
            categories,
            may_be_empty=not need_targets,
            node_column_of_training=node_column_of_training,
        )
    ends = source.edge_columns
    if not ends or not need_targets:
        ends = _guessed_ends(next(iter(TableChunks(paths[0]))), columns, source, of_nodes)
    roles = columns.roles()
    of_edges = {role: roles[role] for role in ("target_columns", "ignore_columns", *ROW_ROLES)}
    features_of_edges = {name: getattr(source, name) for name in ("edge_feature_columns", "edge_category_columns")}
    check_one_role({**of_edges, "edge_columns": ends, **features_of_edges})
    others = (*columns.ignore_columns, *ends[1:], *source.edge_feature_columns, *source.edge_category_columns)
    node_columns = replace(
        columns, node_column=ends[0], descriptors_columns=(), category_columns=(), ignore_columns=others
    )
    cells, node_columns = read_files(paths, node_columns, need_targets)
    names, features, columns, categories = of_nodes or _nodes_of_edges(cells, ends, columns)
    numbered = replace(cells, lines=np.arange(len(cells.frame)))  # lines of several files are not unique
    edges = read_edges(
        numbered,
        NodeNames(names),
        nodes or cells.source,
        edge_columns=ends,
        feature_columns=source.edge_feature_columns,
        category_columns=source.edge_category_columns,
        categories=edge_categories,
        imputes=columns.imputes if fills_edges is None else fills_edges,
        may_reject_all=True,
    )
    problems = Problems()
    for rejection in edges.rejected:
        problems.add(rejection.line, rejection.column, rejection.value, rejection.reason)

    is_edge = ~np.isin(numbered.lines, [rejection.line for rejection in edges.rejected])
    edge_of_row = np.where(is_edge, np.cumsum(is_edge) - 1, -1)
    rows = checked_rows(
        cells,
        node_columns,
        problems,
        _contents(names, edges, edge_of_row, is_directed=source.directed),
        strict=strict,
        need_targets=need_targets,
        may_lack_targets=True,
    )
    columns = replace(columns, target_columns=node_columns.target_columns, task_type=rows.columns.task_type)
    rows = replace(rows, columns=columns, rejected_edges=rows.rejected)

    return _table(rows, names, features, edges, edge_of_row, categories)


def edges_from_arrays(
    features: NodeFeatures,
    edges: EdgeList,
    targets: Values | None = None,
    weights: Values | None = None,
    groups: Values | None = None,
    *,
    task_type: str = "regression",
    missing: str = "impute",
    is_directed: bool = False,
    names: Sequence[str] | None = None,
    feature_columns: Sequence[str] = (),
) -> EdgeData:
    """The edges of a graph from arrays, with the checks of a file.

    Args:
        features: of each node; of size 0 takes their degrees.
        edges: between the nodes, counted from 0.
        targets: `(edge,)` or `(edge, target)`; NaN or None is missing; None altogether for edges to predict.
        weights: `(edge,)` numbers, zero or more.
        groups: `(edge,)` labels.
        task_type, missing: as in `Columns`.
        is_directed: whether an edge and its reverse are two different ones.
        names: what the nodes are called; their numbers where None.
        feature_columns: what the features of nodes are called; empty where they are without names.

    Raises:
        DataError: the arrays have different lengths or a wrong number of axes, or an edge names no node.
    """
    check_edges("edges", np.stack([edges.senders, edges.receivers]), features.shape[0])
    arrays = {NUMBERS: list(range(len(edges))), "target": targets, "weight": weights, "group": groups}
    cells, columns_of, others = cells_and_columns(arrays, reserved=feature_columns)
    columns = Columns(
        node_column=AUTO,
        descriptors_columns=tuple(feature_columns),
        target_columns=columns_of.get("target", ()),
        task_type=task_type,
        missing=missing,
        **others,
    )
    called, edge_of_row = tuple(map(str, range(features.shape[0]) if names is None else names)), np.arange(len(edges))
    rows = checked_rows(
        cells,
        columns,
        Problems(),
        _contents(called, edges, edge_of_row, is_directed=is_directed),
        strict=True,
        need_targets=targets is not None,
        may_lack_targets=True,
    )

    return _table(rows, called, features, edges, edge_of_row, {})


def _contents(names: Sequence[str], edges: EdgeList, edge_of_row: np.ndarray, *, is_directed: bool) -> Contents:
    """Edges are the same where they join the same nodes: in the same direction, where edges are one way."""

    def ends(rows: np.ndarray) -> list[Int64[np.ndarray, " row"]]:
        senders, receivers = (side[edge_of_row[rows]] for side in (edges.senders, edges.receivers))
        # A model of edges without a direction gives both the same value.
        return [senders, receivers] if is_directed else [*np.sort([senders, receivers], axis=0)]

    def keys(rows: np.ndarray) -> np.ndarray:
        first, second = ends(rows)
        return first * len(names) + second

    def names_of_ends(rows: np.ndarray) -> list[str]:
        numbers = zip(*(side.tolist() for side in ends(rows)), strict=True)
        return [str((names[first], names[second])) for first, second in numbers]

    return Contents(noun="edges", names=names_of_ends, keys=keys)


def _table(
    rows: Rows,
    names: tuple[str, ...],
    features: NodeFeatures,
    edges: EdgeList,
    edge_of_row: np.ndarray,
    categories: Categories,
) -> EdgeData:
    """The table; nodes without features have their degrees."""
    if has_degrees := not features.shape[1]:
        features = NodeFeatures.of(edges.degrees(len(names)))
    return EdgeData(rows, names, features, edges, edge_of_row, categories, has_degrees)


Nodes = tuple[tuple[str, ...], NodeFeatures, Columns, Categories]
"""The names and features of the nodes, the columns with those of nodes named, and the words of nodes."""


def _guessed_ends(cells: Cells, columns: Columns, source: GraphSource, nodes: Nodes | None) -> tuple[str, ...]:
    """The columns of both ends: those of the training where the table has them, else columns without another role."""
    names = list(cells.frame.columns)
    if source.edge_columns and set(source.edge_columns) <= set(names):
        return source.edge_columns
    of_nodes = ("node_column", "descriptors_columns", "category_columns")
    used = [name for role, names in columns.roles().items() if role not in of_nodes for name in names]
    used += [*source.edge_feature_columns, *source.edge_category_columns]
    of_rows = {name: role for role in ROW_ROLES for name in columns.roles()[role]}
    of_names = ends_by_name([name for name in names if name in of_rows or name not in used])
    if twice := [name for name in of_names if name in of_rows]:
        raise SettingError(
            f"Column {twice[0]!r} is named in {spelled(of_rows[twice[0]])}, but holds an end of each edge: a column "
            "has one role. Copy it under another name, or name the ends: --edge-columns."
        )
    share = None if nodes is None else share_of_nodes(cells, NodeNames(nodes[0]))
    return ends_of(cells.source, names, used, share, source.edge_columns)


def _nodes_of_edges(cells: Cells, ends: Sequence[str], columns: Columns) -> Nodes:
    """The nodes that edges name, without features."""
    both = [name for end in ends for name in stripped(cells.frame[end]).to_pylist()]
    names = tuple(dict.fromkeys(name for name in both if name))
    return names, NodeFeatures.of(np.zeros((len(names), 0))), columns, {}


def _node_data(
    path: str,
    columns: Columns,
    source: GraphSource,
    categories: Categories | None,
    *,
    may_be_empty: bool,
    node_column_of_training: str | None,
) -> Nodes:
    """The nodes of a table."""
    node_columns = Columns(
        node_column=columns.node_column or AUTO,
        descriptors_columns=columns.descriptors_columns,
        category_columns=columns.category_columns,
        missing=columns.missing,
    )
    cells, node_columns, names = with_node_names(
        read_cells(path), node_columns, column_of_training=node_column_of_training
    )
    if source.features is None or not may_be_empty:
        node_columns = with_feature_columns(cells, node_columns, source.features)
    if not columns.descriptors_columns:
        _check_names_differ(path, node_columns.descriptors_columns, columns)
    features, bad, categories = features_of_nodes(
        cells, node_columns, source.features, categories, may_be_empty=may_be_empty
    )
    if bad.first:
        row = min(bad.first)
        column, _, reason = bad.first[row]
        raise DataError(f"{path}, line {cells.lines[row]}, column {column!r}: {reason}; fix the cell.")

    columns = replace(
        columns, node_column=node_columns.node_column, descriptors_columns=node_columns.descriptors_columns
    )
    return names, features, columns, categories


def _check_names_differ(path: str, features: Sequence[str], columns: Columns) -> None:
    """Raise a SettingError where a column is a feature of nodes, for want of another role, and a role of edges names a
    column that is called like it."""
    for role in ("target_columns", "ignore_columns", *ROW_ROLES):
        if both := [name for name in columns.roles()[role] if name in features]:
            raise SettingError(
                f"{path}, column {both[0]!r}: it is a feature of the nodes, and {spelled(role)} names a column of the "
                "edges that is called the same; name the features with --feature-columns, without this one."
            )
