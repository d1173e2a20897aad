"""A graph as a table: one row a node, its features, its targets, and the edges between the nodes."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Bool

from edgewise.errors import DataError, SettingError, listed
from edgewise.learn.readers.graphs.edges import NONE, EdgeList, no_edges, read_edges
from edgewise.learn.readers.graphs.file import check_edges, is_graph_file, read_graph_file
from edgewise.learn.readers.graphs.names import NUMBERS, NodeNames, RowLabels, column_of_names, remark_on_row_numbers
from edgewise.learn.readers.graphs.node_features import (
    Categories,
    NodeFeatures,
    features_of_arrays,
    features_of_nodes,
    require_rows,
    without_blanks,
)
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.readers.graphs.types import GraphTypes, NodeTypes, TypeNames, labels_of_column
from edgewise.learn.tables.arrays import read_arrays
from edgewise.learn.tables.cell import Problems, stripped
from edgewise.learn.tables.columns import AUTO, AnyColumns, Columns
from edgewise.learn.tables.decode import check_file
from edgewise.learn.tables.impute import missing_by_row
from edgewise.learn.tables.read import ARRAYS, TABLE_FILE, Cells, Values, check_columns_exist, read_cells
from edgewise.learn.tables.rows import Contents, Rows, cells_and_columns, checked_rows


@dataclass(frozen=True, eq=False)
class NodeData:
    """The nodes of one graph; a node without a target is part of the graph, and is not learned from."""

    rows: Rows
    """A row for each node."""
    features: NodeFeatures
    """The features of each node; 0 where a cell cannot be read, and NaN where one is empty that is to be filled."""
    edges: EdgeList
    """The edges between nodes."""
    names: tuple[str, ...]
    """The names of the nodes."""
    types: GraphTypes | None = None
    """The types of nodes and edges; None where there are none, or they were not read."""
    categories: Categories = field(default_factory=dict)
    """The words of each column of categories, in the order of their features."""
    has_degrees: bool = False
    """Whether nodes lack features, so that their features are in- and out-degrees."""

    @property
    def num_edges(self) -> int:
        """All edges, both ways counted."""
        return len(self.edges)

    @property
    def num_edge_features(self) -> int:
        """Numbers that are known of an edge, words counted one by one."""
        return self.edges.features.shape[1]

    @property
    def edge_categories(self) -> Categories:
        """The words of each column of categories of edges."""
        return self.edges.categories

    def missing(self, node_names: Sequence[str], edge_names: Sequence[str]) -> dict[int, list[str]]:
        """What nodes and their edges lack, in words.

        Args:
            node_names, edge_names: of the features of nodes, empty for those that are not read, and of edges.
        """
        nodes, names_of_edges = np.arange(len(self.rows)), [f"{name} of an edge" for name in edge_names]
        ends = np.stack([self.edges.senders, self.edges.receivers], axis=1)
        of_edges = self.edges.features, ends, names_of_edges
        return missing_by_row([(self.features.rows_if_missing(nodes), nodes, node_names), of_edges])


@dataclass(frozen=True, eq=False)
class _Graph:
    """The content of the files of a graph, before its targets are read."""

    cells: Cells
    columns: Columns
    names: tuple[str, ...]
    features: NodeFeatures
    edges: EdgeList
    problems: Problems
    types: NodeTypes | None = None
    categories: Categories = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How a graph is read."""

    strict: bool = False
    """Stop at the first row that cannot be used."""
    need_targets: bool = True
    """False reads nodes to predict, or a graph without targets."""
    find_features: bool | None = None
    """Whether columns without another role are features, where none is named; by default where targets are read."""
    with_degrees: bool = True
    """Whether nodes without features get in- and out-degrees as features."""
    with_types: bool = True
    """Whether the types of nodes and edges are read from a file that has them."""
    model_types: TypeNames | None = None
    """The types that a trained model knows; None takes those that occur."""
    categories: Categories | None = None
    """The words of columns of nodes that a trained model knows; None takes those that occur."""
    edge_categories: Categories | None = None
    """The same of edges."""
    fills_edges: bool | None = None
    """Whether numbers of edges may be missing, as NaN; by default as numbers of nodes may."""
    num_edge_features: int = 0
    """Features of an edge that a trained model knows, for a file without edges."""
    allow_no_edges: bool = False
    """Whether a table of edges may be empty, or `none`."""
    node_column_of_training: str | None = None
    """What `auto` looks for first as the column of names; None before a training."""
    ends_are_of_training: bool = False
    """Whether the columns of the ends are those of the training: a table that lacks them has others."""
    edge_splits_column: str | None = None
    """The column of the table of edges that `EdgeList.splits` is read from."""

    @property
    def finds_features(self) -> bool:
        """Whether features are chosen here, for a model that learns from them."""
        return self.need_targets if self.find_features is None else self.find_features


def read_nodes(paths: Sequence[str], columns: Columns, source: GraphSource, **how: Any) -> NodeData:
    """Read a graph: a table of nodes and a table of edges; or both from one .npz file.

    A node whose features cannot be read stays in the graph with zeros there, and is neither learned from nor
    predicted; an empty cell is NaN where numbers are filled. An edge that names no node is passed over. Both are
    listed in `rejected`.

    Args:
        paths: one table of nodes, or one .npz file.
        columns: the role of each column.
        source: where the edges are, and how they are read.
        how: the fields of `ReadOptions`.

    Raises:
        DataError: a file cannot be used as a whole, two nodes have one name, or `strict` and a row cannot be used.
        SettingError: there is not one file, or no table of edges beside a table of nodes.
    """
    if len(paths) != 1:
        raise SettingError(f"{len(paths)} tables of nodes were given, expected one: a graph is not divided by files.")
    options = ReadOptions(**how)
    is_file = is_graph_file(paths[0])
    if is_file and columns.category_columns:
        raise SettingError(f"{paths[0]} holds numbers, no words; leave out --category-columns.")

    graph = (_from_file if is_file else _from_tables)(paths[0], columns, source, options)
    return _interpret(graph, source.directed, options)


def nodes_from_arrays(
    features: NodeFeatures,
    edges: EdgeList,
    targets: Values | None = None,
    weights: Values | None = None,
    splits: Values | None = None,
    *,
    task_type: str = "regression",
    missing: str = "impute",
    types: RowLabels | None = None,
    blank: Bool[np.ndarray, " node feature"] | None = None,
    model_types: TypeNames | None = None,
    names: Sequence[str] | None = None,
    feature_columns: Sequence[str] = (),
) -> NodeData:
    """A graph from arrays, with the checks of a file; no reverse edges are added.

    Args:
        features: of each node.
        edges: between the nodes, counted from 0.
        targets: `(node,)` or `(node, target)`; NaN or None is missing; None altogether for nodes to predict.
        weights: `(node,)` numbers, zero or more.
        splits: `(node,)`: train, val, test or nothing.
        task_type, missing, model_types: as in `Columns` and `ReadOptions`.
        types: of the nodes; those of edges are in `edges`.
        blank: where a feature is NaN: a number is missing, or all nodes of the type lack it.
        names: what the nodes are called; their numbers where None.
        feature_columns: what the features are called; empty where they are without names.

    Raises:
        DataError: the arrays have different lengths or a wrong number of axes, or an edge names no node.
    """
    check_edges("edges", np.stack([edges.senders, edges.receivers]), features.shape[0])
    numbers = list(range(features.shape[0]))
    cells, columns_of, others = cells_and_columns(
        {NUMBERS: numbers, "target": targets, "weight": weights, "split": splits}, reserved=feature_columns
    )
    columns = Columns(
        node_column=AUTO,
        descriptors_columns=tuple(feature_columns),
        target_columns=columns_of.get("target", ()),
        splits_column=columns_of["split"][0] if "split" in columns_of else None,
        task_type=task_type,
        missing=missing,
        **others,
    )

    node_types = None
    if types is not None or edges.types is not None or model_types is not None:
        node_types = NodeTypes.of(types, len(numbers), "the graph", model_types)
        node_types = node_types.with_array("X", blank, features.shape[1], imputes=columns.imputes)
        features = node_types.with_missing(features, blank)

    node_names = tuple(map(str, numbers if names is None else names))
    graph = _Graph(cells, columns, node_names, features, edges, Problems(), node_types)
    return _interpret(graph, is_directed=True, options=ReadOptions(strict=True, need_targets=targets is not None))


def _interpret(graph: _Graph, is_directed: bool, options: ReadOptions) -> NodeData:
    """A node is usable when its features can be read; without a target it is not trained on."""
    features, edges, names = graph.features, graph.edges, graph.names
    rows = checked_rows(
        graph.cells,
        graph.columns,
        graph.problems,
        contents_of_nodes(len(names), lambda row: names[row]),
        strict=options.strict,
        need_targets=options.need_targets,
        may_lack_targets=True,
    )
    rows = replace(rows, rejected=[*rows.rejected, *edges.rejected], rejected_edges=edges.rejected)
    if graph.types is not None:
        features, edges, types = graph.types.resolve(features, edges, names, is_directed, rows.source)
        rows = replace(rows, status=graph.types.checked_status(rows.status))
        return NodeData(rows, features, edges, names, types, graph.categories)

    edges = edges.messages(len(names), is_directed)
    if has_degrees := options.with_degrees and not features.shape[1]:
        features = NodeFeatures.of(edges.degrees(len(names)))
    return NodeData(rows, features, edges, names, None, graph.categories, has_degrees)


def contents_of_nodes(num_nodes: int, name_of: Callable[[int], Hashable]) -> Contents:
    """What a message calls the nodes of a graph, no two of which are the same."""
    return Contents(
        noun="nodes", names=lambda rows: [str((name_of(row),)) for row in rows.tolist()], num_distinct=num_nodes
    )


def _check_roles(cells: Cells, columns: Columns) -> None:
    """Raise an error unless there are targets, and every column that has a role is there."""
    if not columns.target_columns:
        raise SettingError("no --target-columns were given; name what is to be predicted for the nodes.")
    others = (columns.weight_column, columns.splits_column, columns.group_column)
    check_columns_exist(cells, (*columns.target_columns, *(name for name in others if name)))


def _from_file(path: str, columns: Columns, source: GraphSource, options: ReadOptions) -> _Graph:
    """A graph in one file."""
    model_types = options.model_types
    if columns.node_type_column is not None or source.edge_type_column is not None:
        raise SettingError(
            f"{path} has the types of nodes and edges in node_type and edge_type; leave out --node-type-column "
            "and --edge-type-column."
        )
    if source.edges is not None or source.features is not None:
        raise SettingError(f"{path} has its edges and features inside; leave out --edges and --features.")
    if options.finds_features:
        named = {
            "--feature-columns": columns.descriptors_columns,
            "--ignore-columns": columns.ignore_columns,
            "--edge-columns": source.edge_columns,
            "--edge-feature-columns": source.edge_feature_columns,
            "--edge-category-columns": source.edge_category_columns,
        }
        if unread := [flag for flag, names in named.items() if names]:
            raise SettingError(f"{path} has features and edges in arrays, not in columns; leave out {listed(unread)}.")

    graph = read_graph_file(
        path,
        with_types=options.with_types,
        imputes=columns.imputes,
        fills_edges=columns.imputes if options.fills_edges is None else options.fills_edges,
        num_edge_features=options.num_edge_features,
    )
    cells, columns, names = with_node_names(graph.cells, columns)
    types = None
    if model_types is not None or graph.node_types is not None or graph.edges.types is not None:
        types = NodeTypes.of(graph.node_types, len(names), path, model_types)
        types = types.with_array(f"{path}: x", graph.blank, graph.features.shape[1], imputes=columns.imputes)
        graph = replace(graph, features=types.with_missing(graph.features, graph.blank))

    if options.need_targets:
        columns = replace(columns, splits_column=columns.splits_column or graph.splits_column)
        if not columns.target_columns and graph.target_column is not None:
            columns = replace(columns, target_columns=(graph.target_column,))
        _check_roles(cells, columns)

    return _Graph(cells, columns, names, graph.features, graph.edges, Problems(), types)


def _from_tables(path: str, columns: Columns, source: GraphSource, options: ReadOptions) -> _Graph:
    """A graph in a table of nodes, one of edges, and perhaps a file of features."""
    check_file(path, TABLE_FILE)
    if source.edges is None:
        or_none = f", or --edges {NONE} where they have none" if options.allow_no_edges else ""
        raise SettingError(f"{path} holds nodes; name the table of their edges: --edges edges.csv{or_none}.")

    cells, columns, names = with_node_names(
        read_cells(path), columns, column_of_training=options.node_column_of_training
    )
    if options.need_targets:
        _check_roles(cells, columns)
    types, foreign, model_types, categories = None, None, options.model_types, options.categories
    if model_types is not None or columns.node_type_column is not None or source.edge_type_column is not None:
        types = NodeTypes.of(
            labels_of_column(cells, columns.node_type_column, model_types), len(names), path, model_types
        )

    if options.finds_features:
        check_columns_exist(cells, columns.ignore_columns)
        columns = with_feature_columns(cells, columns, source.features)
    if types is not None and source.features is not None:
        if columns.category_columns:
            raise SettingError("--category-columns does nothing beside --features of several types; leave it out.")
        features, types = _typed_features(source.features, cells, types, imputes=columns.imputes)
        problems = Problems()
    else:
        foreign_words = None
        if types is not None:
            numbers, words = columns.descriptors_columns, columns.category_columns
            check_columns_exist(cells, numbers)
            types = types.with_columns_of(cells, numbers)
            has_column = types.category_columns_of_types(cells, words, categories, len(numbers))
            foreign, foreign_words = types.foreign, ~has_column[types.of_node]
        features, problems, categories = features_of_nodes(
            cells,
            columns,
            source.features,
            categories,
            foreign,
            may_be_empty=not options.finds_features,
            foreign_words=foreign_words,
        )
        types = None if types is None else types.with_categories(has_column, categories)

    edges = read_edges(
        no_edges(source) if options.allow_no_edges and source.edges == NONE else source.edges,
        NodeNames(cells.frame[columns.node_column]),
        path,
        edge_columns=source.edge_columns,
        feature_columns=source.edge_feature_columns,
        category_columns=source.edge_category_columns,
        categories=options.edge_categories,
        type_column=source.edge_type_column,
        known_types=None if model_types is None else [name for _, name, _ in model_types.relations],
        splits_column=options.edge_splits_column,
        imputes=columns.imputes if options.fills_edges is None else options.fills_edges,
        strict=options.strict,
        may_be_empty=options.allow_no_edges,
        ends_are_of_training=options.ends_are_of_training,
    )

    return _Graph(cells, columns, names, features, edges, problems, types, categories or {})


def _typed_features(path: str, cells: Cells, types: NodeTypes, *, imputes: bool) -> tuple[NodeFeatures, NodeTypes]:
    """The features of nodes in a file, 0 where a column does not belong to the node's type."""
    arrays, blank = read_arrays(path), None
    if "x" in arrays:
        arrays["x"], blank = without_blanks(arrays["x"])
    features = features_of_arrays(path, arrays)
    require_rows(path, features, cells)
    types = types.with_array(f"{path}: x", blank, features.shape[1], imputes=imputes)
    return types.with_missing(features, blank), types


def with_node_names(
    cells: Cells,
    columns: AnyColumns,
    graph_of_row: Sequence[str] | None = None,
    remedy: str = "names must differ",
    column_of_training: str | None = None,
) -> tuple[Cells, AnyColumns, tuple[str, ...]]:
    """The cells with a column of names, the columns with it named, and the names.

    Args:
        cells, columns: of the nodes.
        graph_of_row: the graph of each node, where names are unique only within a graph.
        remedy: what messages advise.
        column_of_training: what `auto` looks for first; a line says where it is not there. Row numbers that were names
            in the training are the names, whatever other columns there are.

    Raises:
        DataError: the name of a node is empty, or that of another one.
    """
    column = columns.node_column
    graphs = [""] * len(cells.frame) if graph_of_row is None else graph_of_row
    if column == AUTO:
        of_training = None if column_of_training == AUTO else column_of_training
        column = column_of_names(cells, of_training)
        if column is None and of_training is None and cells.files != ARRAYS and not is_graph_file(cells.source):
            remark_on_row_numbers(cells.source, dict(cells.frame.items()), columns.roles(), graph_of_row)
    # A run that is continued, and a model that predicts, ask for the numbers by name.
    if column is None or (column == NUMBERS and column not in cells.frame):
        column = NUMBERS
        counts = Counter[str]()
        numbers = []
        for graph in graphs:
            numbers.append(str(counts[graph]))
            counts[graph] += 1
        cells = replace(cells, frame=cells.frame.assign(**{column: numbers}))

    check_columns_exist(cells, (column,))
    names = tuple(stripped(cells.frame[column]).to_pylist())
    num_distinct = len(set(names)) if graph_of_row is None else len(set(zip(graphs, names, strict=True)))
    if num_distinct < len(names) or "" in names:
        first: dict[tuple[str, str], int] = {}
        nodes = enumerate(zip(graphs, names, strict=True))
        row, node = next((row, node) for row, node in nodes if not node[1] or first.setdefault(node, row) != row)
        reason = (
            f"the node {node[1]!r} is also in line {cells.lines[first[node]]}"
            if node[1]
            else "the name of the node is empty"
        )
        raise DataError(f"{cells.source}, line {cells.lines[row]}, column {column!r}: {reason}; {remedy}.")

    return cells, replace(columns, node_column=column), names


def with_feature_columns(cells: Cells, columns: AnyColumns, file: str | None) -> AnyColumns:
    """The columns with features named: by default those without another role; none beside a file of features."""
    if file is not None and columns.descriptors_columns:
        raise SettingError(
            f"--feature-columns names columns of {cells.source}, but --features takes all numbers from {file}; leave "
            "one of them out."
        )
    if columns.descriptors_columns or file is not None:
        return columns
    used = {name for names in columns.roles().values() for name in names}
    features = tuple(name for name in cells.frame.columns if name not in used)
    return replace(columns, descriptors_columns=features)
