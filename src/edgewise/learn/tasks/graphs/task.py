"""Graphs: a number or a class for each of many graphs."""

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from edgewise.errors import DataError, plural
from edgewise.graph import Batch, Graph, Supervision
from edgewise.learn.files import JsonObject
from edgewise.learn.fitted_table import ROWS_PER_BATCH, FittedTable
from edgewise.learn.networks.graph import GraphModel
from edgewise.learn.networks.graph_settings import GraphSettings, GraphSizes, NodeSettings, num_edge_inputs
from edgewise.learn.outputs import Targets
from edgewise.learn.progress import remark
from edgewise.learn.readers.graphs.edges import AS_FEATURES
from edgewise.learn.readers.graphs.graphs import GraphData, read_graphs
from edgewise.learn.readers.graphs.lost import NOWHERE, with_lost
from edgewise.learn.readers.graphs.node_features import Categories, check_categories, words_in_use
from edgewise.learn.readers.graphs.source import GraphColumns, GraphsSource
from edgewise.learn.readers.graphs.union import GraphUnion, take
from edgewise.learn.tables.impute import filled_notes, missing_by_row, with_filled
from edgewise.learn.tables.scale import ColumnScaler, DescriptorScaler, TargetScaler
from edgewise.learn.tables.split import Splits
from edgewise.learn.tasks.batches import RowBatches
from edgewise.learn.tasks.graph_encoding import (
    are_degrees,
    check_filled,
    check_known_weights,
    lacks_features,
    num_scaled_edge_inputs,
    optional_tensor,
    scaled_edges,
    with_loops,
)
from edgewise.learn.tasks.graph_notes import check_same_kind, check_weights, features_in_words, note_of_edges
from edgewise.learn.tasks.graphs.settings import SETTINGS, GraphRunSettings
from edgewise.learn.tasks.rejected import list_left_out
from edgewise.learn.tasks.table_notes import constant_features, names_of_features
from edgewise.learn.tasks.table_task import Features, TableTask
from edgewise.learn.tasks.targets import targets_of
from edgewise.learn.tasks.task import PredictRequest, Prepared
from edgewise.learn.training.baseline import finite_features
from edgewise.neighborhood import Edges

NODES_A_BATCH = 100_000
"""Nodes that are computed together where no gradient is wanted, or about as many."""


@dataclass(frozen=True)
class GraphScalers:
    """The scales learned on training graphs."""

    node: ColumnScaler
    """Scales the features of nodes."""
    edge: ColumnScaler
    """Scales the features of edges."""
    graph: ColumnScaler
    """Scales the numbers of graphs as a whole."""
    walk: DescriptorScaler | None = None
    """Scales positions by random walks, which are small where they differ; None without them."""


@dataclass(frozen=True)
class GraphsEncoder:
    """What the training graphs fixed: their columns and words, scales, and the layers with their sizes."""

    columns: GraphColumns
    """The columns of the training, targets by name."""
    settings: NodeSettings
    """The layers over the edges."""
    whole: GraphSettings
    """How the nodes of a graph become one vector."""
    sizes: GraphSizes
    """What the data looks like."""
    graph: GraphsSource
    """Where the edges of the training graphs were, and how they were read."""
    scales: GraphScalers
    """The scales learned on the training graphs."""
    categories: Categories
    """The words of each column of categories of nodes."""
    edge_categories: Categories = field(default_factory=dict)
    """The words of each column of categories of edges."""
    has_degrees: bool | None = None
    """Whether nothing was known of the nodes in training but their edges; None where a run does not say."""
    adds_degrees: bool = False
    """Whether in- and out-degree are features of nodes as well, because no other one varies."""

    @property
    def rows_per_batch(self) -> int:
        """Graphs that are computed together: fewer where they are large."""
        return max(1, min(ROWS_PER_BATCH, int(NODES_A_BATCH / self.sizes.typical_nodes)))

    @property
    def reading(self) -> JsonObject:
        """How graphs to predict are read: without targets, with the words that the model knows."""
        words = {"categories": self.categories, "edge_categories": self.edge_categories}
        return {"need_roots": self.whole.needs_roots, "need_targets": False, "allow_no_edges": True, **words}

    def new_network(self, output: Targets) -> GraphModel:
        """Layers over the edges, and a readout over the nodes of each graph."""
        return GraphModel(self.sizes, self.settings, self.whole)

    def check_data(self, data: GraphData) -> None:
        """Raise DataError where nodes, edges or graphs have another number of features than those of the training, or
        edges lack numbers that the model does not fill."""
        check_same_kind(self.has_degrees, data.has_degrees, data.rows.source, len(self.scales.node.mean))
        for what, values, scaler, added in (
            ("nodes", data.features, self.scales.node, 2 * self.adds_degrees),
            ("edges", data.edges.features, self.scales.edge, 0),
            ("graphs", data.graph_features, self.scales.graph, 0),
        ):
            if values.shape[1] != (expected := len(scaler.mean) - added):
                raise DataError(
                    f"{data.rows.source}: its {what} have {plural(values.shape[1], 'feature')}, but the model was "
                    f"trained on {expected}."
                )
        check_weights(data.rows.source, data.edges, self.settings)
        check_filled(data.edges, self.scales.edge.imputer)

    def batches(self, data: GraphData, scale: TargetScaler | None) -> RowBatches:
        """The graphs as the models take them.

        Raises:
            DataError: as `check_data`.
        """
        self.check_data(data)
        scales, edges = self.scales, data.edges
        edge_features = scaled_edges(edges, scales.edge, self.settings)
        features, conditions = (
            scaler.transform(values.astype(np.float64)).astype(np.float32)
            for values, scaler in (
                (node_features(data, adds_degrees=self.adds_degrees), scales.node),
                (data.graph_features, scales.graph),
            )
        )

        # Nodes are counted within their graph.
        starts, trees = data.offsets[data.graph_of_edge], data.trees
        arrays = data.offsets, data.edge_offsets, edges.senders - starts, edges.receivers - starts
        offsets, edge_offsets, senders, receivers = map(torch.from_numpy, arrays)
        all_nodes, all_edges = torch.from_numpy(features), optional_tensor(edge_features)
        positions = self.positions(edges_of(data))

        def batch(rows: np.ndarray) -> Batch:
            union = GraphUnion.of(rows, offsets, edge_offsets, senders, receivers)
            union_edges, features_of_edges = union.edges, None
            if all_edges is not None:
                features_of_edges = take(all_edges, union.edge_places)
            if self.settings.has_loops:
                union_edges, features_of_edges = with_loops(union_edges, features_of_edges)

            roots = None
            if trees is not None:
                roots = torch.from_numpy((trees.roots - data.offsets[:-1])[rows]) + union.offsets[:-1]
            graph = Graph.unchecked(
                take(all_nodes, union.nodes),
                union_edges,
                features_of_edges,
                graph_features=optional_tensor(conditions[rows]),
                offsets=union.offsets,
                position_encodings=None if positions is None else take(positions, union.nodes),
            )
            return Batch(graph, Supervision(nodes=roots))

        return RowBatches.of(data.rows, scale, batch)

    def positions(self, edges: Edges) -> Float32[Tensor, " node position"] | None:
        """Where the nodes of one graph or of many stand in theirs; None where the layers do not read it."""
        settings, scaler = self.settings, self.scales.walk
        if not settings.has_positions:
            return None

        from edgewise.learn.readers.graphs.position import both_positions

        positions = both_positions(edges, settings.laplacian_positions, settings.random_walk_positions)
        if scaler is not None:
            walks = positions[:, settings.laplacian_positions :]
            walks.copy_(torch.from_numpy(scaler.transform(walks.double().numpy())))
        return positions

    def scaled_degrees(self, degrees: Int64[np.ndarray, " node two"]) -> Float32[Tensor, " node feature"]:
        """The features of nodes in the units of the model, where degrees are features: no other one varies then."""
        table = np.zeros((len(degrees), len(self.scales.node.mean)))
        table[:, -2:] = degrees
        return torch.from_numpy(self.scales.node.transform(table).astype(np.float32))

    def statuses(self, data: GraphData) -> list[str]:
        """The status of each graph; also which lack edges that cannot be read, and whose numbers were filled.

        Raises:
            DataError: as `check_data`, where nothing is predicted either.
        """
        self.check_data(data)
        status = with_lost(data.rows.status, np.where(data.has_unreadable_edges, 0, NOWHERE), "the graph")
        suffixes = {"node": " of a node", "edge": " of an edge", "graph": ""}
        scalers = self.scales.node, self.scales.edge, self.scales.graph
        tables = [
            (values, graph_of_line, scaler.names_if_read([f"{name}{suffixes[whose]}" for name in names]))
            for (values, graph_of_line, names, whose), scaler in zip(self.numbers(data), scalers, strict=True)
        ]
        return with_filled(status, missing_by_row(tables))

    def numbers(self, data: GraphData) -> list[tuple[np.ndarray, np.ndarray, list[str], str]]:
        """Numbers of nodes, edges and graphs (row, column), the graph of each row, their names, and whose they are."""
        columns, edges, rows = self.columns, data.edges.features, np.arange(len(data.rows))
        graph_of_node = np.repeat(rows, data.num_nodes)
        node_names = names_of_features(columns.descriptors_columns, data.features.shape[1], self.categories)
        edge_names = names_of_features(self.graph.edge_feature_columns, edges.shape[1], self.edge_categories)
        graph_names = names_of_features(columns.graph_feature_columns, data.graph_features.shape[1], {})
        return [
            (data.features, graph_of_node, node_names, "node"),
            (edges, data.graph_of_edge, edge_names, "edge"),
            (data.graph_features, rows, graph_names, "graph"),
        ]

    def check(self, output: Targets) -> None:
        """Raise DataError unless the fields fit each other."""
        output.check_size(self.sizes.num_outputs)
        check_categories("categories", self.categories, self.columns.category_columns)
        check_categories("edge_categories", self.edge_categories, self.graph.edge_category_columns)
        for name, size, scaler in (
            ("num_features", self.sizes.num_features, self.scales.node),
            ("num_conditions", self.sizes.num_conditions, self.scales.graph),
        ):
            if size != scaler.num_features:
                raise DataError(f"sizes.{name} is {size}, but scales have {scaler.num_features}.")
        if self.settings.spec.has_edge_features:
            size, expected = self.sizes.num_edge_features, num_edge_inputs(self.scales.edge.num_features, self.settings)
            if size != expected:
                raise DataError(f"sizes.num_edge_features is {size}, but scales have {expected}.")


def read_data(
    settings: GraphRunSettings, words: Categories | None = None, edge_words: Categories | None = None
) -> GraphData:
    """The graphs of a run; where words are given, graphs that have others are rejected."""
    source = settings.data, settings.columns, settings.graph
    need_roots, strict = settings.whole.needs_roots, settings.strict
    return read_graphs(*source, need_roots=need_roots, strict=strict, categories=words, edge_categories=edge_words)


def with_training_words(settings: GraphRunSettings, data: GraphData, splits: Splits) -> tuple[GraphData, Splits]:
    """Where other graphs have words that no training graph has, they are read again as graphs to predict are: nothing
    is known of these words. Graphs that cannot be read then are in no split, and --strict stops at the first."""
    is_trained = np.isin(np.arange(len(data.rows)), splits.train)
    words = words_in_use(data.categories, data.features[np.repeat(is_trained, data.num_nodes)])
    edge_words = words_in_use(data.edges.categories, data.edges.features[is_trained[data.graph_of_edge]])
    if words == data.categories and edge_words == data.edges.categories:
        return data, splits
    again = read_data(settings, words, edge_words)
    val, test = (rows[again.rows.trainable[rows]] for rows in (splits.val, splits.test))
    return replace(again, rows=replace(again.rows, columns=data.rows.columns)), replace(splits, val=val, test=test)


def resolved(settings: GraphRunSettings, data: GraphData, splits: Splits) -> GraphRunSettings:
    train = settings.train.resolved(len(splits.train), len(splits.train))
    assert train.batch_size is not None
    graph = data.edges.resolved(settings.graph)
    return replace(settings, graph=graph, train=train, whole=settings.whole.resolved(train.batch_size))


def encode(settings: GraphRunSettings, data: GraphData, splits: Splits) -> tuple[GraphsEncoder, Targets]:
    """The sizes and scales of the training graphs."""
    rows, columns = splits.train, data.columns
    assert isinstance(columns, GraphColumns)
    is_trained = np.isin(np.arange(len(data.rows)), rows)
    nodes = np.flatnonzero(np.repeat(is_trained, data.num_nodes))
    edges = np.flatnonzero(is_trained[data.graph_of_edge])
    check_known_weights(data.edges, settings.model)
    node = ColumnScaler.fit(data.features, nodes, keep_one=True)
    if adds_degrees := lacks_features(node, data.features, data.edges):
        node = ColumnScaler.fit(node_features(data, adds_degrees=True), nodes, keep_one=True)
    scales = GraphScalers(
        node,
        scale_of_edges(data.edges.features, edges),
        ColumnScaler.fit(data.graph_features, rows, data.rows.cell_names(rows, columns.graph_feature_columns)),
        scale_of_walks(data, settings.model.random_walk_positions, nodes),
    )
    output = targets_of(data.rows, rows, columns)
    sizes = GraphSizes(
        num_features=scales.node.num_features,
        num_edge_features=num_scaled_edge_inputs(data.edges, scales.edge, settings.model),
        num_conditions=scales.graph.num_features,
        num_outputs=output.num_outputs,
        typical_nodes=float(data.num_nodes[rows].mean()),
    )
    encoder = GraphsEncoder(
        columns=columns,
        settings=settings.model,
        whole=settings.whole,
        sizes=sizes,
        graph=settings.graph,
        scales=scales,
        categories=data.categories,
        edge_categories=data.edges.categories,
        adds_degrees=adds_degrees,
        has_degrees=data.has_degrees,
    )
    return encoder, output


def edges_of(data: GraphData) -> Edges:
    """The edges of all graphs, nodes counted through."""
    senders, receivers, num_nodes = data.edges.senders, data.edges.receivers, len(data.features)
    return Edges(torch.from_numpy(senders), torch.from_numpy(receivers), num_nodes, num_nodes)


def scale_of_walks(data: GraphData, num_steps: int, nodes: np.ndarray) -> DescriptorScaler | None:
    """The scale of positions by random walks over the nodes of training graphs; None where there are none."""
    if not num_steps:
        return None

    from edgewise.learn.readers.graphs.position import random_walk_positions

    return DescriptorScaler.fit(random_walk_positions(edges_of(data), num_steps).double().numpy(), nodes)


def features(prepared: Prepared) -> Features:
    summary_of_graph = summaries(prepared.data, prepared.splits.train)
    return lambda rows: summary_of_graph[rows]


def warnings(prepared: Prepared) -> list[str]:
    """Features of nodes, edges and graphs that do not vary, too."""
    encoder, data, columns = prepared.fitted.encoder, prepared.data, prepared.data.columns
    scales, adds_degrees, edges = encoder.scales, encoder.adds_degrees, data.edges
    names = names_of_features(columns.descriptors_columns, data.features.shape[1], encoder.categories)
    lines: list[str] = []
    for values, graph_of_value, value_names, whose in encoder.numbers(data):
        what = "edges, both ways counted," if whose == "edge" and edges.num_mirrored else f"{whose}s"
        are_marked = whose != "edge" or not encoder.settings.spec.reads_edge_weights
        is_missing = np.isnan(values[data.rows.usable[graph_of_value]])
        lines += filled_notes(is_missing.sum(axis=0), value_names, what, len(is_missing), are_marked=are_marked)

    if not scales.node.constant_columns or not are_degrees(data.features, edges):
        lines += constant_features(scales.node, names, "nodes of training graphs", adds_degrees=adds_degrees)
    if not encoder.settings.spec.reads_edge_weights:
        edge_columns, count = prepared.settings.graph.edge_feature_columns, edges.features.shape[1]
        names = names_of_features(edge_columns, count, encoder.edge_categories)
        lines += constant_features(scales.edge, names, "edges of training graphs")
    return [*lines, *constant_features(scales.graph, columns.graph_feature_columns, "training graphs")]


def notes(prepared: Prepared) -> list[str]:
    """The nodes and edges, what was assumed of them, and what graphs lack."""
    data, settings = prepared.data, prepared.settings
    # Graphs that are rejected are not counted.
    edges, sizes = data.usable_edges, data.num_nodes[data.rows.usable]
    num_nodes = int(sizes.sum())
    lines = [
        f"{plural(num_nodes, 'node')}, {sizes.min():,} to {sizes.max():,} a graph; "
        f"{edges.ways(settings.graph.directed)}; "
        f"{features_in_words(data.features.shape[1], has_degrees=data.has_degrees)}",
        *edges.unused(AS_FEATURES),
    ]

    num_single, num_empty = int((sizes == 1).sum()), int((np.diff(data.edge_offsets)[data.rows.usable] == 0).sum())
    counts = [
        (num_single, "graph has one node", "graphs have one node"),
        (num_empty, "graph has no edge", "graphs have no edge"),
    ]
    lines += note_of_edges(edges.features.shape[1], settings.model)
    lines += edges.notes(num_nodes, edges.num_repeated(len(data.features)))
    lines += [plural(count, one, many) for count, one, many in counts if count] + strays(data, settings.graph.graphs)
    if data.trees is not None:
        lines.append(note_of_depth(settings.model, int(data.trees.depths.max())))
    return lines


def strays(data: GraphData, graphs: str | None) -> list[str]:
    """The nodes whose graph lacks a row in the table of graphs, in a line; empty without any."""
    where = f"to graphs that {graphs} does not name, and"
    count = data.num_unassigned_nodes
    noun = plural(count, f"node belongs {where} is", f"nodes belong {where} are")
    return [f"{noun} passed over"] if count else []


def read_requested(trained: FittedTable[GraphsEncoder], request: PredictRequest) -> GraphData:
    of_training = trained.encoder.columns
    columns = request.columns(of_training, graph_column=None, node_column=None, descriptors_columns=None)
    columns = replace(columns, target_columns=of_training.target_columns)
    source = replace(
        trained.encoder.graph, edges=request["edges"], features=request["features"], graphs=request["graphs"]
    )
    data = read_graphs([request.data], columns, source, strict=request.strict, **trained.encoder.reading)
    list_left_out(data.edges.rejected, data.rows.rejected, request)
    for line in strays(data, request["graphs"]):
        remark(line)
    return data


def node_features(data: GraphData, *, adds_degrees: bool) -> np.ndarray:
    """(node, feature): the features of each node and, where they are added, in- and out-degree."""
    if not adds_degrees:
        return data.features
    return np.concatenate([data.features, data.edges.degrees(len(data.features))], axis=1, dtype=np.float32)


def summaries(data: GraphData, training: np.ndarray) -> np.ndarray:
    """For each graph the numbers of nodes and edges, the means and sums of their features, and its own features."""
    sizes = np.maximum(data.num_nodes, 1)[:, None]
    parts = [data.num_nodes[:, None], np.diff(data.edge_offsets)[:, None]]
    for features, of_graph in (
        (data.features, np.repeat(np.arange(len(data.rows)), data.num_nodes)),
        (data.edges.features, data.graph_of_edge),
    ):
        sums = np.zeros((len(data.rows), features.shape[1]))
        np.add.at(sums, of_graph, features)
        parts += [sums, sums / sizes]
    return finite_features(np.concatenate([*parts, data.graph_features], axis=1), training)


def note_of_depth(model: NodeSettings, depth: int) -> str:
    """How far the roots lie from what leads to them, and how far the layers carry."""
    flag, reach = "--num-hops" if model.spec.over_distances else "--num-layers", model.reach
    if depth <= reach:
        return f"the longest way to a root is {depth:,} edges long, which {flag} {reach} carry"
    return (
        f"the longest way to a root is {depth:,} edges long, and {flag} {reach} carry {reach}: from nodes further "
        "away a root depends by attention alone, which does not see the edges between them"
    )


def scale_of_edges(features: np.ndarray, edges: np.ndarray) -> ColumnScaler:
    """The scale of the features of edges; training graphs without an edge say nothing of it, and it gives 0 always."""
    if len(edges):
        return ColumnScaler.fit(features, edges)
    nothing = (0.0,) * features.shape[1]
    return ColumnScaler(nothing, nothing, (), (), (), ())


TABLE = TableTask(
    settings=SETTINGS,
    noun="graphs",
    explainable="edgewise.learn.tasks.graphs.explainable:EXPLAINABLE",
    read_data=read_data,
    with_training_words=with_training_words,
    resolved=resolved,
    encoder=GraphsEncoder,
    encode=encode,
    features=features,
    further_warnings=warnings,
    notes=notes,
    read=read_requested,
)

TASK = TABLE.task
