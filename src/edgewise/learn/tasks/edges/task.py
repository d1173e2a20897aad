"""Edges: a number or a class for each edge of one graph, such as trust, fraud, or the rating of a product."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np
import torch

from edgewise.errors import SettingError, plural
from edgewise.graph import Batch, Supervision
from edgewise.learn.files import JsonObject
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.networks.edge import EdgeModel
from edgewise.learn.networks.graph_settings import NodeSizes
from edgewise.learn.outputs import Targets
from edgewise.learn.readers.graphs.edge_data import EdgeData, read_edge_data
from edgewise.learn.readers.graphs.lost import of_ends, with_lost
from edgewise.learn.tables.columns import AUTO
from edgewise.learn.tables.impute import with_filled
from edgewise.learn.tables.scale import ColumnScaler, TargetScaler
from edgewise.learn.tables.split import Splits, evenly_spaced
from edgewise.learn.tasks.batches import RowBatches
from edgewise.learn.tasks.edges.settings import SETTINGS, EdgeRunSettings
from edgewise.learn.tasks.explainable import explaining
from edgewise.learn.tasks.graph_encoding import (
    WHOLE_GRAPH,
    GraphEncoding,
    check_filled,
    num_scaled_edge_inputs,
    scaled_edges,
)
from edgewise.learn.tasks.graph_explainable import edge_between, explainable_rows, row_item
from edgewise.learn.tasks.graph_notes import check_graph, notes_of_features, one_process
from edgewise.learn.tasks.rejected import list_left_out
from edgewise.learn.tasks.table_task import Features, TableTask
from edgewise.learn.tasks.targets import MAX_FITTED, in_one_step, targets_of
from edgewise.learn.tasks.task import PredictRequest, Prepared
from edgewise.learn.training.baseline import filled
from edgewise.learn.training.document import INLINE


@dataclass(frozen=True)
class EdgeEncoder:
    """The edges of a graph and their nodes as numbers."""

    on_graph: GraphEncoding = field(metadata=INLINE)
    """That of the nodes, which is the same for all tasks over one graph."""
    sizes: NodeSizes
    """What the data looks like."""
    edge_scaler: ColumnScaler
    """Scales the features of edges."""

    rows_per_batch: ClassVar[int] = WHOLE_GRAPH

    @property
    def reading(self) -> JsonObject:
        """How edges to predict are read, with the words that the model knows."""
        return {"fills_edges": self.edge_scaler.imputes, **self.on_graph.known_words}

    def new_network(self, output: Targets) -> EdgeModel:
        """Layers over the graph, and a network on both ends of an edge."""
        num_features, on_graph = self.edge_scaler.num_features, self.on_graph
        return EdgeModel(self.sizes, num_features, on_graph.settings, is_directed=on_graph.graph.directed)

    def check_data(self, data: EdgeData) -> None:
        """Raise DataError where nodes or edges have another number of features than those of the training graph, or
        lack numbers that the model does not fill."""
        num_edge_columns = len(self.edge_scaler.mean)
        check_graph(self.on_graph, data.rows.source, data.nodes, data.edges, num_edge_columns, data.has_degrees)
        check_filled(data.edges, self.edge_scaler.imputer)

    def batches(self, data: EdgeData, scale: TargetScaler | None) -> RowBatches:
        """The graph as the models take it.

        Raises:
            DataError: its nodes or edges have another number of features than those of the training graph.
        """
        on_graph, edges, scaler = self.on_graph, data.edges, self.edge_scaler
        self.check_data(data)
        of_layers = replace(edges, features=scaled_edges(edges, scaler, on_graph.settings))
        messages = of_layers.messages(len(data.names), on_graph.graph.directed)
        graph = on_graph.to_graph(data.nodes, edges, messages)
        features = scaler.transform(edges.features.astype(np.float64)).astype(np.float32)

        def batch(rows: np.ndarray) -> Batch:
            columns = (*data.ends(rows), features[data.edge_of_row[rows]])
            senders, receivers, row_features = map(torch.from_numpy, columns)
            return Batch(graph, Supervision(senders=senders, receivers=receivers, row_features=row_features))

        return RowBatches.of(data.rows, scale, batch, graph)

    def statuses(self, data: EdgeData) -> list[str]:
        """The status of each row; also of which edges the nodes lack others that cannot be read, or numbers.

        Raises:
            DataError: as `check_data`, where nothing is predicted either.
        """
        self.check_data(data)
        on_graph, num_nodes, rows = self.on_graph, len(data.names), np.flatnonzero(data.rows.usable)
        edges = data.edges.messages(num_nodes, on_graph.graph.directed)
        hops = of_ends(on_graph.hops_to_lost(edges, num_nodes), data.ends(rows), rows, len(data.rows))
        edge_names = on_graph.names_of_edges(len(self.edge_scaler.mean))
        missing = data.missing(self.edge_scaler.names_if_read(edge_names), on_graph.names_if_read())
        return with_filled(with_lost(data.rows.status, hops, "its nodes"), missing)

    def check(self, output: Targets) -> None:
        """Raise DataError unless the fields fit each other."""
        self.on_graph.check(self.sizes)
        output.check_size(self.sizes.num_outputs)


def read_data(settings: EdgeRunSettings) -> EdgeData:
    columns = settings.scaling.to_read(settings.columns)
    return read_edge_data(
        settings.data,
        columns,
        settings.graph,
        settings.nodes,
        strict=settings.strict,
        fills_edges=settings.columns.imputes,
    )


def resolved(settings: EdgeRunSettings, data: EdgeData, splits: Splits) -> EdgeRunSettings:
    """A step sees all training edges, unless a batch size is given; the columns of both ends are named."""
    return in_one_step(replace(settings, graph=data.edges.resolved(settings.graph)), data, splits)


def encode(settings: EdgeRunSettings, data: EdgeData, splits: Splits) -> tuple[EdgeEncoder, Targets]:
    """The sizes and scales of the whole graph, which training sees."""
    on_graph = GraphEncoding.fit(data, data.nodes, settings.model, settings.graph, settings.scaling)
    output = targets_of(data.rows, splits.train, on_graph.columns)
    scaler = ColumnScaler.fit(data.edges.features, np.arange(len(data.edges)))
    edge_scaler = scaler if settings.columns.imputes else scaler.without_imputing()
    num_edge_features = num_scaled_edge_inputs(data.edges, edge_scaler, settings.model)
    sizes = NodeSizes(on_graph.num_features, num_edge_features, output.num_outputs)
    return EdgeEncoder(on_graph, sizes, edge_scaler), output


def features(prepared: Prepared) -> Features:
    """The features of the edges and of their two nodes."""
    data, rows = prepared.data, evenly_spaced(prepared.splits.train, MAX_FITTED)
    return filled(data.features, rows, is_missing=data.num_missing > 0)


def warnings(prepared: Prepared) -> list[str]:
    """Features of nodes and edges that are missing, or do not vary."""
    encoder, data = prepared.fitted.encoder, prepared.data
    return notes_of_features(encoder.on_graph, data.nodes, data.edges, edge_scaler=encoder.edge_scaler)


def notes(prepared: Prepared) -> list[str]:
    """The graph, and the edges without a target."""
    data, directed = prepared.data, prepared.settings.graph.directed
    count, model = len(data.names), prepared.settings.model
    ways = "messages go along them" if directed else "messages go both ways"
    lines = [f"{plural(count, 'node')} with {plural(data.nodes.shape[1], 'feature')}; {ways}", *data.edges.notes(count)]
    if (num_columns := data.edges.features.shape[1]) and model.spec.ignores_edges(num_columns):
        read = "that --model " + model.model + " ignores; the network on both ends reads them"
        lines.append(f"{plural(num_columns, 'feature')} of an edge {read}")
    if unlabelled := int((data.rows.usable & np.isnan(data.rows.targets).all(axis=1)).sum()):
        lines.append(f"{plural(unlabelled, 'edge has', 'edges have')} no target, and only carry messages")
    return lines


def read_known(trained: FittedTable[EdgeEncoder], settings: EdgeRunSettings) -> EdgeData:
    """The edges of the graph that a model was trained on."""
    columns = trained.columns.to_predict(node_column=settings.columns.node_column or AUTO)
    return read_edge_data(settings.data, columns, settings.graph, settings.nodes, **trained.encoder.reading)


def read_requested(trained: FittedTable[EdgeEncoder], request: PredictRequest) -> EdgeData:
    of_training, on_graph, nodes = trained.columns, trained.encoder.on_graph, request["nodes"]
    if (of_training.descriptors_columns or of_training.category_columns) and nodes is None:
        raise SettingError(f"{request.folder} was trained on features of nodes; name their table: --nodes nodes.csv.")
    columns = request.columns(of_training, node_column=AUTO if nodes else None, descriptors_columns=None)
    source = replace(on_graph.graph, features=request["features"])
    data = read_edge_data(
        [request.data],
        columns,
        source,
        nodes,
        strict=request.strict,
        node_column_of_training=of_training.node_column,
        **trained.encoder.reading,
    )
    list_left_out(data.rows.rejected, request=request)
    return data


def notes_of_row(trained: FittedTable[EdgeEncoder], data: EdgeData, row: int) -> list[str]:
    """What removing an end means, and which of several edges between the same nodes is explained."""
    (sender,), (receiver,) = (nodes.tolist() for nodes in data.ends(np.array([row])))
    count = len(data.between(sender, receiver, trained.encoder.on_graph.graph.directed))
    which = f"{plural(count, 'edge joins', 'edges join')} these nodes; the one in row {row} is explained."
    reads = "The prediction also reads the features of both nodes and of the edge directly: they stay where the edge "
    reads += "is removed as a link, which then carries no messages."
    return [reads, which] if count > 1 else [reads]


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
edge_item = partial(row_item, notes=notes_of_row)
explain_edge = explaining(edge_item)

EXPLAINABLE = explainable_rows(
    TABLE,
    read_known,
    edge_item,
    call="explain(graph, edge=…)",
    fields=lambda data: [(column, "node") for column in data.edges.columns],
    find=edge_between,
)
