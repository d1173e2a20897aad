"""Edges: a number or a class for each edge of one graph, such as trust, fraud, or the rating of a product."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch

from edgewise.errors import DataError, SettingError, plural
from edgewise.explain.explainable import Explainable
from edgewise.graph import Batch, Supervision
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.networks.edge import EdgeModel
from edgewise.learn.networks.graph_settings import NodeSizes, num_edge_inputs
from edgewise.learn.outputs import Targets
from edgewise.learn.readers.graphs.edge_data import EdgeData, read_edge_data
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.readers.graphs.lost import with_lost
from edgewise.learn.tables.columns import AUTO
from edgewise.learn.tables.impute import filled_notes, with_filled
from edgewise.learn.tables.scale import ColumnScaler, TargetScaler
from edgewise.learn.tables.split import Splits, evenly_spaced
from edgewise.learn.tasks.batches import RowBatches
from edgewise.learn.tasks.edges.settings import SETTINGS, EdgeRunSettings
from edgewise.learn.tasks.explainable import (
    Names,
    Row,
    RowsByName,
    checked_row,
    explainable_by_name,
    explaining,
    title_of,
)
from edgewise.learn.tasks.graph_encoding import WHOLE_GRAPH, GraphEncoding, graph_of, num_edge_features, scaled_edges
from edgewise.learn.tasks.graph_explainable import row_item
from edgewise.learn.tasks.graph_notes import check_graph, notes_of_constants, notes_of_missing, one_process
from edgewise.learn.tasks.rejected import list_left_out
from edgewise.learn.tasks.table_notes import constant_features
from edgewise.learn.tasks.table_settings import reading_columns
from edgewise.learn.tasks.table_task import MAX_FITTED, Features, TableTask
from edgewise.learn.tasks.targets import targets_of
from edgewise.learn.tasks.task import PredictRequest, Prepared
from edgewise.learn.training.baseline import filled
from edgewise.learn.training.document import INLINE

NOTE = (
    "The prediction also reads the features of both nodes and of the edge directly: they stay where the edge is "
    "removed as a link, which then carries no messages."
)


@dataclass(frozen=True)
class EdgeEncoder:
    """The edges of a graph and their nodes as numbers."""

    on_graph: GraphEncoding = field(metadata=INLINE)
    """That of the nodes, which is the same for all tasks over one graph."""
    sizes: NodeSizes
    """What the data looks like."""
    edge_scaler: ColumnScaler
    """Scales the features of edges."""

    max_tokens: ClassVar[None] = None
    rows_per_batch: ClassVar[int] = WHOLE_GRAPH

    def new_network(self, output: Targets) -> EdgeModel:
        """Layers over the graph, and a network on both ends of an edge."""
        num_features, on_graph = self.edge_scaler.num_features, self.on_graph
        return EdgeModel(self.sizes, num_features, on_graph.settings, is_directed=on_graph.graph.directed)

    def batches(self, data: EdgeData, scale: TargetScaler | None) -> RowBatches:
        """The graph as the models take it.

        Raises:
            DataError: its nodes or edges have another number of features than those of the training graph.
        """
        on_graph, edges, scaler = self.on_graph, data.edges, self.edge_scaler
        check_graph(on_graph, data.rows.source, data.nodes, edges, len(scaler.mean), data.has_degrees)
        messages = replace(edges, features=scaled_edges(edges, scaler, on_graph.settings))
        nodes = on_graph.scaled(data.nodes, edges)
        graph = graph_of(nodes, self.both_ways(messages, data), on_graph.settings.has_loops)
        features = scaler.transform(edges.features.astype(np.float64)).astype(np.float32)

        def batch(rows: np.ndarray) -> Batch:
            edge_of_row = data.edge_of_row[rows]
            columns = {"senders": edges.senders, "receivers": edges.receivers, "row_features": features}
            rows_of_edges = {name: torch.from_numpy(column[edge_of_row]) for name, column in columns.items()}
            return Batch(graph, Supervision(**rows_of_edges))

        return RowBatches.of(data.rows, scale, batch, graph)

    def both_ways(self, edges: EdgeList, data: EdgeData) -> EdgeList:
        """The edges along which messages go: in both directions, unless edges are directed."""
        return edges if self.on_graph.graph.directed else edges.both_ways(len(data.names))

    def statuses(self, data: EdgeData) -> list[str]:
        """The status of each row; also of which edges the nodes lack others that cannot be read, or numbers."""
        on_graph, rows = self.on_graph, np.flatnonzero(data.rows.usable)
        ends = [side[data.edge_of_row[rows]] for side in (data.edges.senders, data.edges.receivers)]
        edges = self.both_ways(data.edges, data)
        hops = on_graph.hops_from_ends(edges, len(data.names), ends, rows, len(data.rows))
        missing = data.missing(self.names_of_features, on_graph.names_of_features())
        return with_filled(with_lost(data.rows.status, hops, "its nodes"), missing)

    @property
    def names_of_features(self) -> list[str]:
        """The names of the features of edges, but for words."""
        return self.on_graph.names_of_edges(len(self.edge_scaler.mean))

    def check(self, output: Targets) -> None:
        """Raise DataError unless the fields fit each other."""
        self.on_graph.check()
        output.check_size(self.sizes.num_outputs)


def read_data(settings: EdgeRunSettings) -> EdgeData:
    columns = reading_columns(settings.columns, settings.feature_scale)
    return read_edge_data(settings.data, columns, settings.graph, settings.nodes, strict=settings.strict)


def resolved(settings: EdgeRunSettings, data: EdgeData, splits: Splits) -> EdgeRunSettings:
    """A step sees all training edges, unless a batch size is given."""
    train = settings.train
    return replace(settings, train=replace(train, batch_size=train.batch_size or len(splits.train)))


def encode(settings: EdgeRunSettings, data: EdgeData, splits: Splits) -> tuple[EdgeEncoder, Targets]:
    """The sizes and scales of the whole graph, which training sees."""
    on_graph = GraphEncoding.fit(settings, data, data.nodes, data.edges)
    output = targets_of(data.rows, splits.train, on_graph.columns)
    edge_scaler = ColumnScaler.fit(data.edges.features, np.arange(len(data.edges)))
    num_columns = num_edge_features(data.edges, edge_scaler, settings.model)
    sizes = NodeSizes(
        num_features=on_graph.num_features,
        num_edge_features=num_edge_inputs(num_columns, settings.model),
        num_outputs=output.num_outputs,
    )
    return EdgeEncoder(on_graph, sizes, edge_scaler), output


def features(prepared: Prepared) -> Features:
    """The features of the edges and of their two nodes."""
    data: EdgeData = prepared.data
    has_missing = data.nodes.num_missing or np.isnan(data.edges.features).any()
    return filled(data.features, evenly_spaced(prepared.splits.train, MAX_FITTED)) if has_missing else data.features


def warnings(prepared: Prepared) -> list[str]:
    """Features of nodes and edges that are missing, or do not vary."""
    encoder, data = prepared.fitted.encoder, prepared.data
    names = encoder.names_of_features
    missing = notes_of_missing(encoder.on_graph, data.nodes)
    missing += filled_notes(data.edges.features[:, : len(names)], names, "edges")
    of_edges = constant_features(encoder.edge_scaler, names, "edges")
    return [*missing, *notes_of_constants(encoder.on_graph, data.nodes, data.edges), *of_edges]


def notes(prepared: Prepared) -> list[str]:
    """The graph, and the edges without a target."""
    data, directed = prepared.data, prepared.settings.graph.directed
    count, model = len(data.names), prepared.settings.model
    features_of_nodes = plural(data.nodes.shape[1], "feature")
    ways = "messages go along them" if directed else "messages go both ways"
    lines = [f"{plural(count, 'node')} with {features_of_nodes}; {ways}", *data.edges.notes(count)]
    if (num_columns := data.edges.features.shape[1]) and model.spec.ignores_edges(num_columns):
        read = "that --model " + model.model + " ignores; the network on both ends reads them"
        lines.append(f"{plural(num_columns, 'feature')} of an edge {read}")
    if unlabelled := int((data.rows.usable & np.isnan(data.rows.targets).all(axis=1)).sum()):
        lines.append(f"{plural(unlabelled, 'edge has', 'edges have')} no target, and only carry messages")
    return lines


def read_known(trained: FittedTable[EdgeEncoder], settings: EdgeRunSettings) -> EdgeData:
    """The edges of the graph that a model was trained on."""
    columns = trained.columns.to_predict(node_column=settings.columns.node_column or AUTO)
    words = trained.encoder.on_graph.known_words
    return read_edge_data(settings.data, columns, settings.graph, settings.nodes, **words)


def read_requested(trained: FittedTable[EdgeEncoder], request: PredictRequest) -> EdgeData:
    of_training, on_graph = trained.columns, trained.encoder.on_graph
    if (of_training.descriptors_columns or of_training.category_columns) and request["nodes"] is None:
        raise SettingError(f"{request.folder} was trained on features of nodes; name their table: --nodes nodes.csv.")
    columns = of_training.to_predict(
        node_column=request["node_column"] or (AUTO if request["nodes"] else of_training.node_column),
        descriptors_columns=tuple(request["descriptors_columns"] or of_training.descriptors_columns),
    )
    source = replace(on_graph.graph, features=request["features"])
    data = read_edge_data(
        [request.data], columns, source, request["nodes"], strict=request.strict, **on_graph.known_words
    )
    list_left_out(data.rows.rejected, request=request)
    return data


def edge_item(trained: FittedTable[EdgeEncoder], data: EdgeData, row: int, **options: Any) -> Explainable:
    """The prediction for an edge, a row of the data; `options` and errors are those of `row_item`.

    An end that is removed loses its features, any other node its edges.
    """
    checked_row("edge", data, row)
    (ends,) = data.ends(np.array([row]))
    notes, is_directed = [NOTE], trained.encoder.on_graph.graph.directed
    if (count := len(data.between(*ends, is_directed))) > 1:
        notes.append(f"{plural(count, 'edge joins', 'edges join')} these nodes; the one in row {row} is explained.")
    title = title_of(data.names, ends, is_directed)
    return row_item(trained, data, row, names=data.names, title=title, notes=notes, **options)


explain_edge = explaining(edge_item)


def find_edge(rows: RowsByName[FittedTable[EdgeEncoder], EdgeData], names: Row) -> int:
    """The first edge between two nodes, by their names."""
    data, is_directed = rows.data, rows.trained.encoder.on_graph.graph.directed
    ends = rows.names.ends(data.edges.columns, names)
    if not len(between := data.between(*ends, is_directed)):
        title = title_of(data.names, ends, is_directed)
        raise DataError(f"the edge {title} does not exist; name the two nodes of an edge of the graph.")
    return int(between[0])


TABLE = TableTask(
    settings=SETTINGS,
    noun="edges",
    explainable="edgewise.learn.tasks.edges.task:EXPLAINABLE",
    read_data=read_data,
    resolved=resolved,
    encoder=EdgeEncoder,
    encode=encode,
    whole_graph=one_process,
    features=features,
    further_warnings=warnings,
    notes=notes,
    read=read_requested,
)

TASK = TABLE.task

EXPLAINABLE = explainable_by_name(
    declared=SETTINGS,
    load=TABLE.load,
    read=read_known,
    row_noun="edge",
    rows_in_words="the edges of a graph",
    call="explain(graph, edge=…)",
    fields=lambda data: [(column, "node") for column in data.edges.columns],
    names=lambda data: Names("node", data.names),
    model_name=lambda trained: trained.encoder.on_graph.settings.model,
    item=edge_item,
    find=find_edge,
)
