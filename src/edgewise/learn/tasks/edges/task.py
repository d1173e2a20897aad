"""Edges: a number or a class for each edge of one graph, such as trust, fraud, or the rating of a product."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from edgewise.errors import SettingError
from edgewise.formatting import plural
from edgewise.learn.networks.edge import EdgeBatch, EdgeModel
from edgewise.learn.networks.graph_settings import NodeSizes, num_edge_inputs
from edgewise.learn.readers.graphs.edge_table import EdgeTable, read_edge_table
from edgewise.learn.readers.graphs.lost import NOWHERE, with_lost
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.tables.columns import AUTO, Columns
from edgewise.learn.tables.impute import filled_notes, with_filled
from edgewise.learn.tables.scale import ConditionScaler
from edgewise.learn.tables.split import Splits, evenly
from edgewise.learn.tasks.batches import RowBatches
from edgewise.learn.tasks.edges.settings import EdgeRunSettings
from edgewise.learn.tasks.nodes.units import (
    FittedOnGraph,
    check_features,
    check_same_kind,
    check_weights,
    graph_batch,
    graph_fields,
    lost_within_reach,
    names_of_node_features,
    notes_of_constants,
    notes_of_missing,
    num_edge_features,
    reading_columns,
    scaled,
)
from edgewise.learn.tasks.rejected import list_left_out
from edgewise.learn.tasks.table_notes import constant_features, names_of_features
from edgewise.learn.tasks.table_task import MAX_FITTED, Features, TableTask, num_outputs
from edgewise.learn.tasks.task import PredictRequest, Prepared
from edgewise.learn.tasks.trained import spread
from edgewise.learn.training.baseline import filled


@dataclass(kw_only=True)
class FittedEdges(FittedOnGraph):
    """A trained ensemble over the edges of a graph."""

    FORMAT = EdgeRunSettings.FORMAT

    edge_scaler: ConditionScaler
    """Of the features of edges."""

    def new_member(self) -> EdgeModel:
        num_features = self.edge_scaler.num_features
        return EdgeModel(self.sizes, num_features, self.settings, is_directed=self.graph.directed)

    def read(
        self, paths: Sequence[str], columns: Columns, source: GraphSource, nodes: str | None, *, strict: bool = False
    ) -> EdgeTable:
        """Edges to predict, with the words that the model knows."""
        return read_edge_table(paths, columns, source, nodes, strict=strict, **self.known_words)

    def batches(self, table: EdgeTable) -> RowBatches:
        """The graph as the models take it.

        Raises:
            DataError: its nodes or edges have another number of features than those of the training graph.
        """
        given = table.nodes.shape[1], table.edges.features.shape[1]
        check_features(table.source, (self.num_columns, len(self.edge_scaler.mean)), given)
        check_same_kind(self, table, self.num_columns)
        features = self.edge_scaler.transform(table.edges.features.astype(np.float64)).astype(np.float32)
        check_weights(table.source, table.edges, self.settings, self.sizes)
        is_weight = self.settings.spec.reads_edge_weights  # a weight is not scaled
        weights = self.edge_scaler.imputer.complete(table.edges.features, are_marked=False)
        edges = replace(table.edges, features=weights if is_weight else features)
        if not self.graph.directed:
            edges = edges.both_ways(len(table.names))
        nodes = scaled(self.node_features(table.nodes, table.edges), self.feature_scale, self.scaler)
        graph = graph_batch(nodes, edges, self.settings.has_loops)

        def batch(rows: np.ndarray) -> EdgeBatch:
            places = table.place[rows]
            senders, receivers, known = (
                torch.from_numpy(each[places]) for each in (table.edges.senders, table.edges.receivers, features)
            )
            return EdgeBatch(graph, senders, receivers, known)

        return RowBatches.of(table, self.scale, batch, graph)

    def statuses(self, table: EdgeTable) -> list[str]:
        """Also of which edges the nodes lack others that cannot be read."""
        count, rows = len(table.names), np.flatnonzero(table.usable)
        edges = table.edges if self.graph.directed else table.edges.both_ways(count)
        of_nodes, places = lost_within_reach(self.settings, edges, count), table.place[rows]
        hops = np.minimum(of_nodes[table.edges.senders[places]], of_nodes[table.edges.receivers[places]])
        status = with_lost(table.status, spread(hops, rows, table.num_rows, NOWHERE), "its nodes")
        missing: dict[int, list[str]] = {}
        of_edges = names_of_features(self.graph.edge_feature_columns, self.num_numbers_of_edges, {})
        for place, column in np.argwhere(np.isnan(table.edges.features[places])).tolist():
            missing.setdefault(int(rows[place]), []).append(of_edges[column])
        names_of_nodes = names_of_node_features(self, self.columns)
        for side in (table.edges.senders, table.edges.receivers):
            for place, columns in table.nodes.missing_of(side[places]).items():
                names = [f"{names_of_nodes[column]} of a node" for column in columns]
                missing[int(rows[place])] = list(dict.fromkeys([*missing.get(int(rows[place]), []), *names]))
        return with_filled(status, missing)

    @property
    def num_numbers_of_edges(self) -> int:
        """Features of an edge but for words."""
        return len(self.edge_scaler.mean) - sum(map(len, self.edge_categories.values()))


def read_table(settings: EdgeRunSettings) -> EdgeTable:
    columns = reading_columns(settings.columns, settings.feature_scale)
    return read_edge_table(settings.data, columns, settings.graph, settings.nodes, strict=settings.strict)


def resolved(settings: EdgeRunSettings, table: EdgeTable, splits: Splits) -> EdgeRunSettings:
    """A step sees all training edges, unless a batch size is given."""
    train = settings.train
    return replace(settings, train=replace(train, batch_size=train.batch_size or len(splits.train)))


def untrained(settings: EdgeRunSettings, table: EdgeTable, splits: Splits) -> FittedEdges:
    """The model before its first step; features are scaled by the whole graph, which training sees."""
    known = graph_fields(settings, table, splits.train, table.nodes, table.edges)
    scaler = known["scaler"]
    edge_scaler = ConditionScaler.fit(table.edges.features, np.arange(len(table.edges)))
    num_columns = num_edge_features(table.edges, edge_scaler, settings.model)
    sizes = NodeSizes(
        num_features=table.nodes.shape[1] if scaler is None else scaler.num_features,
        num_edge_features=num_edge_inputs(num_columns, settings.model),
        num_outputs=num_outputs(table),
    )
    return FittedEdges(**known, sizes=sizes, edge_scaler=edge_scaler)


def whole_graph(prepared: Prepared) -> str | None:
    return "train in one process, with a --batch-size if you like"


def features(prepared: Prepared) -> Features:
    """The features of the edges and of their two nodes."""
    found: Features = prepared.data.features
    has_missing = prepared.data.nodes.num_missing or np.isnan(prepared.data.edges.features).any()
    return filled(found, evenly(prepared.splits.train, MAX_FITTED)) if has_missing else found


def warnings(prepared: Prepared) -> list[str]:
    """Features of nodes and edges that do not vary, too."""
    fitted, table = prepared.fitted, prepared.data
    named, count = prepared.settings.graph.edge_feature_columns, table.edges.features.shape[1]
    names = names_of_features(named, count, fitted.edge_categories)
    of_edges = constant_features(fitted.edge_scaler, names, "edges")
    missing = notes_of_missing(fitted, table.columns, table.nodes)
    missing += filled_notes(table.edges.features[:, : len(names)], names, "edges")
    return [*missing, *notes_of_constants(fitted, table, table.nodes), *of_edges]


def notes(prepared: Prepared) -> list[str]:
    """The graph, and the edges without a target."""
    table, directed = prepared.data, prepared.settings.graph.directed
    count, model = len(table.names), prepared.settings.model
    many = plural(table.nodes.shape[1], "feature")
    ways = "messages go along them" if directed else "messages go both ways"
    found = [f"{plural(count, 'node')} with {many}; {ways}", *table.edges.notes(count)]
    if (num_columns := table.edges.features.shape[1]) and model.spec.ignores_edges(num_columns):
        read = "that --model " + model.model + " ignores; the network on both ends reads them"
        found.append(f"{plural(num_columns, 'feature')} of an edge {read}")
    if unlabelled := int((table.usable & np.isnan(table.targets).all(axis=1)).sum()):
        found.append(f"{plural(unlabelled, 'edge has', 'edges have')} no target, and only carry messages")
    return found


def open_edges(request: PredictRequest) -> tuple[Any, Any]:
    trained = FittedEdges.load(request.run_folder)
    known = trained.columns
    if (known.descriptors_columns or known.category_columns) and request["nodes"] is None:
        raise SettingError(f"{request.folder} was trained on features of nodes; name their table: --nodes nodes.csv.")
    columns = known.to_predict(
        node_column=request["node_column"] or (AUTO if request["nodes"] else known.node_column),
        descriptors_columns=tuple(request["descriptors_columns"] or known.descriptors_columns),
    )
    source = replace(trained.graph, features=request["features"])
    table = trained.read([request.data], columns, source, request["nodes"], strict=request.strict)
    list_left_out(table.rejected, request=request)
    return trained, table


TABLE = TableTask(
    settings_type=EdgeRunSettings,
    noun="edges",
    read_table=read_table,
    resolved=resolved,
    untrained=untrained,
    whole_graph=whole_graph,
    features=features,
    further_warnings=warnings,
    notes=notes,
    read=open_edges,
)

TASK = TABLE.task
