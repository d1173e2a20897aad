"""Many graphs in a table of nodes and one of edges: one row per graph, with its targets."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from edgewise.errors import DataError, SettingError, plural
from edgewise.learn.readers.graphs.edges import NONE, EdgeList, no_edges, read_edges
from edgewise.learn.readers.graphs.file import check_edges, is_graph_file
from edgewise.learn.readers.graphs.graph_cells import cells_of_graphs, graph_of_rows, read_graph_cells
from edgewise.learn.readers.graphs.names import NodeNames
from edgewise.learn.readers.graphs.node_features import Categories, features_of_nodes
from edgewise.learn.readers.graphs.nodes import with_feature_columns, with_node_names
from edgewise.learn.readers.graphs.source import GraphColumns, GraphsSource
from edgewise.learn.readers.graphs.trees import Trees
from edgewise.learn.readers.graphs.union import offsets_of
from edgewise.learn.tables.cell import Problems, read_numbers, stripped
from edgewise.learn.tables.columns import AUTO
from edgewise.learn.tables.read import Cells, Values, check_columns, read_cells
from edgewise.learn.tables.rows import Contents, Rows, cells_and_columns, checked_rows


@dataclass(frozen=True, eq=False)
class GraphRow:
    """One graph."""

    features: Float32[np.ndarray, " node feature"]
    """The features of each node."""
    edges: EdgeList
    """The edges between nodes, counted from 0, with any features."""
    graph_features: np.ndarray | None = None
    """(1, graph_feature): features of the graph as a whole, where whatever held the graph has them."""


@dataclass(frozen=True, eq=False)
class GraphData:
    """Many graphs, concatenated, one per row, unusable ones included."""

    rows: Rows
    """A row for each graph."""
    columns: GraphColumns
    """The role of each column."""
    features: Float32[np.ndarray, " node feature"]
    """The features of each node, graph after graph; 0 where a cell cannot be read."""
    node_names: Sequence[str]
    """The name of each node, graph after graph; its number in its graph where it is unnamed."""
    offsets: Int64[np.ndarray, " boundary"]
    """Nodes of graph g are `offsets[g]:offsets[g + 1]`."""
    edges: EdgeList
    """Edges within the graphs, graph after graph, nodes counted over all of them."""
    graph_features: Float64[np.ndarray, " row graph_feature"]
    """Features of each graph as a whole; NaN where unreadable."""
    categories: Categories
    """The categories of each column of them, in the order of their features."""
    trees: Trees | None
    """The root of each graph; None where roots are not needed."""
    num_unassigned_nodes: int
    """Nodes that are skipped: the table of graphs does not name their graph."""
    graph_of_mirrored_edge: Int64[np.ndarray, " mirrored"]
    """The graph of each edge that was added, because the other way was missing."""
    has_unreadable_edges: Bool[np.ndarray, " row"]
    """Whether some rows of each graph in the table of edges could not be read."""
    has_degrees: bool = False
    """Whether nodes lack features, so that their features are in- and out-degrees."""

    @property
    def num_nodes(self) -> Int64[np.ndarray, " row"]:
        """Nodes of each graph."""
        return np.diff(self.offsets)

    @property
    def graph_of_edge(self) -> Int64[np.ndarray, " edge"]:
        """The graph of each edge, ascending."""
        return np.repeat(np.arange(len(self.rows)), self.num_nodes)[self.edges.senders]

    @property
    def usable_edges(self) -> EdgeList:
        """The edges of graphs that can be used, nodes counted as in `edges`."""
        is_usable = self.rows.usable[self.graph_of_edge]
        num_mirrored = int(self.rows.usable[self.graph_of_mirrored_edge].sum())
        return replace(self.edges.taken(np.flatnonzero(is_usable)), num_mirrored=num_mirrored)

    @property
    def edge_offsets(self) -> Int64[np.ndarray, " boundary"]:
        """Edges of graph g are `edge_offsets[g]:edge_offsets[g + 1]`."""
        return offsets_of(np.bincount(self.graph_of_edge, minlength=len(self.rows)))

    def node_names_of(self, row: int) -> tuple[str, ...]:
        """The names of the nodes of one graph."""
        return tuple(self.node_names[self.offsets[row] : self.offsets[row + 1]])


@dataclass(frozen=True, eq=False)
class _Graphs:
    """The content of files or arrays, before the targets are read."""

    cells: Cells
    columns: GraphColumns
    problems: Problems
    features: np.ndarray
    names: Sequence[str]
    offsets: np.ndarray
    edges: EdgeList
    categories: Categories
    num_unassigned_nodes: int = 0
    has_unreadable_edges: np.ndarray | None = None


def read_graphs(
    paths: Sequence[str],
    columns: GraphColumns,
    source: GraphsSource,
    *,
    need_roots: bool = False,
    strict: bool = False,
    need_targets: bool = True,
    allow_no_edges: bool = False,
    categories: Categories | None = None,
    edge_categories: Categories | None = None,
) -> GraphData:
    """Read graphs: a table of their nodes, one of their edges, and perhaps one of the graphs themselves.

    Names of nodes are unique within their graph where the table of edges has the column of graphs too, else within
    the table. Nodes without features get their in- and out-degrees as features. A graph is rejected where a feature
    of a node cannot be read, where its nodes disagree about its target or another column of the graph, or where its
    target is missing; an edge that names no node is skipped and listed.

    Args:
        paths: one table of nodes.
        columns: the role of each column.
        source: where the edges are, and how they are read; edges of graphs to predict may have other ends than those
            of the training, and are then guessed.
        need_roots: reject graphs that are not trees, see `Trees`.
        strict: stop at the first row that cannot be used.
        need_targets: False reads graphs to predict.
        allow_no_edges: whether the table of edges may be empty, or `none`.
        categories, edge_categories: the categories of nodes and edges that a trained model knows; by default those
            that occur.

    Raises:
        DataError: a file cannot be used as a whole, names of nodes are not unique, an edge joins two graphs, or
            `strict` and a row cannot be used.
        SettingError: there is not one table of nodes, or none of edges.
    """
    if len(paths) != 1:
        raise SettingError(f"{len(paths)} tables of nodes were given, expected one; name the splits: --splits-column.")
    if is_graph_file(paths[0]) or source.edges is None:
        raise SettingError(f"{paths[0]}: many graphs are a table of nodes and one of edges: --edges edges.csv.")
    if need_targets and not columns.target_columns:
        raise SettingError("no --target-columns were given; name what is to be predicted for the graphs.")

    node_cells = read_cells(paths[0])
    if allow_no_edges and source.edges == NONE:
        edge_cells = no_edges(source, columns.graph_column)
    else:
        edge_cells = read_cells(source.edges, may_be_empty=allow_no_edges)

    graph_names = graph_of_rows(node_cells, columns.graph_column)
    names_are_per_graph = columns.graph_column in edge_cells.frame
    remedy = f"names must differ, or the table of edges must have the column {columns.graph_column!r} too"

    node_cells, columns, names = with_node_names(
        node_cells, columns, graph_names if names_are_per_graph else None, remedy
    )
    if source.graphs is None:
        graph_cells, problems = cells_of_graphs(node_cells, graph_names, columns, need_targets)
    else:
        graph_cells, problems = read_graph_cells(source.graphs, columns, need_targets), Problems()

    if need_targets:
        sources = ", ".join(dict.fromkeys((node_cells.source, graph_cells.source)))
        check_columns(sources, list(dict.fromkeys([*node_cells.frame, *graph_cells.frame])), columns.ignore_columns)
        columns = with_feature_columns(node_cells, columns, source.features)
    features, unreadable, categories = features_of_nodes(
        node_cells, columns, source.features, categories, may_be_empty=not need_targets
    )

    # Graph after graph; nodes of graphs that no row names come last, and are cut off.
    number_of_graph = {name: row for row, name in enumerate(graph_cells.frame[columns.graph_column])}
    graph_of_node = NodeNames(list(number_of_graph)).places(graph_names)
    graph_of_node[graph_of_node < 0] = len(number_of_graph)
    order = np.argsort(graph_of_node, kind="stable")
    counts = np.bincount(graph_of_node, minlength=len(number_of_graph) + 1)
    sorted_names, sorted_graph_names = (np.array(texts, dtype=object)[order] for texts in (names, graph_names))
    edges = read_edges(
        edge_cells,
        NodeNames(sorted_names, sorted_graph_names if names_are_per_graph else None),
        paths[0],
        edge_columns=source.edge_columns,
        feature_columns=source.edge_feature_columns,
        category_columns=source.edge_category_columns,
        categories=edge_categories,
        graph_column=columns.graph_column if names_are_per_graph else None,
        imputes=columns.imputes,
        strict=strict,
        ends_are_of_training=not need_targets,
    )
    _check_ends_share_graph(edge_cells, edges, sorted_graph_names)
    edges = edges.taken(np.flatnonzero(edges.senders < len(node_cells.frame) - counts[-1]))

    for row, (column, cell, reason) in sorted(unreadable.first.items()):
        if graph_of_node[row] < len(number_of_graph):
            reason = f"the node {names[row]!r} in line {node_cells.lines[row]}: {reason}"
            problems.add(int(graph_of_node[row]), column, cell, reason)

    for row in np.flatnonzero(counts[:-1] == 0).tolist():
        problems.add(row, columns.graph_column, list(number_of_graph)[row], f"no node of {paths[0]} belongs to it")
    nodes = order[: len(order) - counts[-1]]
    graph_parts = _Graphs(
        cells=graph_cells,
        columns=columns,
        problems=problems,
        features=features.to_dense()[nodes],
        names=[names[row] for row in nodes.tolist()],
        offsets=offsets_of(counts[:-1]),
        edges=edges,
        categories=categories,
        num_unassigned_nodes=int(counts[-1]),
        has_unreadable_edges=_graphs_with_unreadable_edges(
            edge_cells,
            edges,
            columns.graph_column if names_are_per_graph else None,
            number_of_graph,
            offsets_of(counts),
        ),
    )

    return _build_graph_data(
        graph_parts, is_directed=source.directed, need_roots=need_roots, strict=strict, need_targets=need_targets
    )


def graphs_from_arrays(
    graphs: Sequence[GraphRow],
    targets: Values | None = None,
    weights: Values | None = None,
    groups: Values | None = None,
    graph_features: Values | None = None,
    *,
    task_type: str = "regression",
    need_roots: bool = False,
    missing: str = "impute",
    feature_columns: Sequence[str] = (),
    edge_feature_columns: Sequence[str] = (),
) -> GraphData:
    """Graphs from arrays, with the checks of a file; their edges are taken as they are.

    Args:
        graphs: the graphs.
        targets: `(row,)` or `(row, target)`; NaN or None is missing; None altogether for graphs to predict.
        weights: `(row,)` numbers, zero or more.
        groups: `(row,)` labels.
        graph_features: `(row, graph_feature)` numbers of each graph as a whole.
        task_type, missing: as in `Columns`.
        need_roots: as in `read_graphs`.
        feature_columns, edge_feature_columns: what the features of nodes and of edges are called; none where they have
            no names.

    Raises:
        DataError: lengths differ, an edge names no node, or a graph cannot be used.
    """
    arrays = {
        "graph": list(range(len(graphs))),
        "target": targets,
        "weight": weights,
        "group": groups,
        "number": graph_features,
    }
    cells, columns_of, others = cells_and_columns(arrays, numbers=("number",), reserved=feature_columns)
    columns = GraphColumns(
        node_column=AUTO,
        graph_column=columns_of["graph"][0],
        descriptors_columns=tuple(feature_columns),
        target_columns=columns_of.get("target", ()),
        **others,
        graph_feature_columns=columns_of.get("number", ()),
        task_type=task_type,
        missing=missing,
    )

    sizes = [(graph.features.shape[1], graph.edges.features.shape[1]) for graph in graphs]
    for number, graph in enumerate(graphs):
        ends = np.stack([graph.edges.senders, graph.edges.receivers])
        check_edges(f"graph {number}", ends, len(graph.features))
        for what, width, expected in zip(("a node", "an edge"), sizes[number], sizes[0], strict=True):
            if width != expected:
                raise DataError(f"graph {number} has {plural(width, 'feature')} of {what}, but graph 0 has {expected}.")

    problems = Problems()
    for number, graph in enumerate(graphs):
        if not len(graph.features):
            problems.add(number, "graph", str(number), "it is empty: expected at least one node")

    offsets = offsets_of([len(graph.features) for graph in graphs])
    senders, receivers = (
        np.concatenate([getattr(graph.edges, side) + start for graph, start in zip(graphs, offsets, strict=False)])
        for side in ("senders", "receivers")
    )
    features = np.concatenate([graph.features for graph in graphs])
    edge_features = np.concatenate([graph.edges.features for graph in graphs])
    edges = EdgeList(senders, receivers, edge_features, feature_columns=tuple(edge_feature_columns))
    if targets is not None:
        edges = edges.with_direction(len(features))
    names = [str(node) for graph in graphs for node in range(len(graph.features))]
    graph_parts = _Graphs(
        cells=cells,
        columns=columns,
        problems=problems,
        features=features,
        names=names,
        offsets=offsets,
        edges=edges,
        categories={},
    )

    # To train on graphs in memory, all must be usable; of those to predict, others stay without a prediction.
    has_targets = targets is not None
    return _build_graph_data(
        graph_parts, is_directed=True, need_roots=need_roots, strict=has_targets, need_targets=has_targets
    )


def _build_graph_data(
    graphs: _Graphs, *, is_directed: bool, need_roots: bool, strict: bool, need_targets: bool
) -> GraphData:
    """Checks the graphs, adds reverse edges and degree features, and builds the GraphData.

    A graph is usable if its cells can be read and, where roots are needed, it is a tree.
    """
    cells, columns, problems, edges = graphs.cells, graphs.columns, graphs.problems, graphs.edges
    columns = columns if need_targets else replace(columns, target_columns=())
    graph_of_node = np.repeat(np.arange(len(cells.frame)), np.diff(graphs.offsets))
    edges = edges.taken(np.argsort(graph_of_node[edges.senders], kind="stable"))

    trees = Trees.of(edges, graphs.offsets, graphs.names) if need_roots else None
    if trees is not None:
        for row, reason in trees.reasons.items():
            problems.add(row, columns.graph_column, str(cells.frame[columns.graph_column].iloc[row]), reason)

    graph_of_mirrored_edge = np.zeros(0, dtype=np.int64)
    if not is_directed:
        edges = edges.both_ways(len(graph_of_node))
        graph_of_mirrored_edge = graph_of_node[edges.senders[len(edges) - edges.num_mirrored :]]
        edges = edges.taken(np.argsort(graph_of_node[edges.senders], kind="stable"))

    graph_features = np.zeros((len(cells.frame), len(columns.graph_feature_columns)))
    for index, column in enumerate(columns.graph_feature_columns):
        graph_features[:, index] = read_numbers(cells.frame[column], column, problems, may_be_missing=columns.imputes)
    features = graphs.features
    if has_degrees := not features.shape[1]:
        features = edges.degrees(len(graph_of_node)).astype(np.float32)

    contents = _contents(features, graphs.offsets, edges, graph_of_node, graph_features)
    rows = checked_rows(cells, columns, problems, contents, strict=strict, need_targets=need_targets)
    rows = replace(rows, rejected=[*rows.rejected, *edges.rejected], rejected_edges=edges.rejected)
    return GraphData(
        rows=rows,
        columns=replace(columns, task_type=rows.columns.task_type),
        features=features,
        node_names=graphs.names,
        offsets=graphs.offsets,
        edges=edges,
        graph_features=graph_features,
        categories=graphs.categories,
        trees=trees,
        num_unassigned_nodes=graphs.num_unassigned_nodes,
        graph_of_mirrored_edge=graph_of_mirrored_edge,
        has_degrees=has_degrees,
        has_unreadable_edges=np.zeros(len(cells.frame), bool)
        if graphs.has_unreadable_edges is None
        else graphs.has_unreadable_edges,
    )


def _contents(
    features: np.ndarray, offsets: np.ndarray, edges: EdgeList, graph_of_node: np.ndarray, graph_features: np.ndarray
) -> Contents:
    """Hashes to find duplicate graphs: equal where all numbers are, with nodes in the same order, and edges in any.

    A file may list the edges of two equal graphs in different orders, and name the ends of an edge without a direction
    either way round: it is read as two, one each way.
    """
    edge_offsets = offsets_of(np.bincount(graph_of_node[edges.senders], minlength=len(offsets) - 1))

    def digests(rows: np.ndarray) -> list[bytes]:
        hashes = []
        for row in rows.tolist():
            nodes, links = slice(*offsets[row : row + 2]), slice(*edge_offsets[row : row + 2])
            ends = edges.senders[links] - offsets[row], edges.receivers[links] - offsets[row]
            order = np.lexsort((*edges.features[links].T, *ends))
            of_edges = (part[order] for part in (*ends, edges.features[links]))
            parts = (features[nodes], *of_edges, graph_features[row])
            hashes.append(hashlib.blake2b(b"".join(part.tobytes() for part in parts)).digest())
        return hashes

    def keys(rows: np.ndarray) -> np.ndarray:
        return np.array([int.from_bytes(digest[:8], "big", signed=True) for digest in digests(rows)], np.int64)

    return Contents(
        noun="graphs",
        # The text of a tuple, as all tables name the contents of a row.
        names=lambda rows: [str((digest,)) for digest in digests(rows)],
        keys=keys,
        counted_noun="graph",
    )


def _graphs_with_unreadable_edges(
    cells: Cells, edges: EdgeList, graph_column: str | None, number_of_graph: dict[str, int], offsets: np.ndarray
) -> Bool[np.ndarray, " graph"]:
    """Which graphs have rows in the table of edges that could not be read.

    Args:
        cells: the table of edges.
        edges: those of it that can be read, and the endpoints of the rows that could not be read.
        graph_column: names the graph of an edge; None where its nodes do.
        number_of_graph: the row of each graph by its name.
        offsets: the nodes of graph g are `offsets[g]:offsets[g + 1]`; after them come those of no graph.
    """
    if graph_column is None:
        numbers = np.searchsorted(offsets, edges.rejected_ends.ravel(), side="right") - 1
    else:
        rows = np.searchsorted(cells.lines, [rejection.line for rejection in edges.rejected])
        named = stripped(cells.frame[graph_column].iloc[rows]).to_pylist()
        numbers = np.array([number_of_graph.get(name, -1) for name in named], dtype=np.int64)

    return np.isin(np.arange(len(number_of_graph)), numbers)


def _check_ends_share_graph(cells: Cells, edges: EdgeList, graph_names: np.ndarray) -> None:
    """Raise a DataError unless both ends of every edge lie in one graph."""
    graph_of_sender, graph_of_receiver = graph_names[edges.senders], graph_names[edges.receivers]
    crossing = np.flatnonzero(graph_of_sender != graph_of_receiver)
    if len(crossing):
        assert edges.lines is not None
        listed = ", ".join(str(edges.lines[edge]) for edge in crossing[:5]) + (", ..." if len(crossing) > 5 else "")
        first = crossing[0]
        raise DataError(
            f"{cells.source}: {plural(len(crossing), 'edge joins', 'edges join')} two graphs, in "
            f"{'line' if len(crossing) == 1 else 'lines'} {listed}; the first joins "
            f"{str(graph_of_sender[first])!r} and {str(graph_of_receiver[first])!r}. An edge lies within one graph."
        )
