"""Edges: a number or a class for each edge of one graph, such as trust, fraud, or the rating of a product."""

from dataclasses import replace
from typing import Any

import numpy as np

from edgewise.data.columns import AUTO
from edgewise.data.graphs.edge_table import EdgeTable, read_edge_table
from edgewise.data.scale import ConditionScaler
from edgewise.data.split import Splits
from edgewise.errors import SettingError
from edgewise.models.graph_settings import NodeSizes, edge_sizes
from edgewise.plural import plural
from edgewise.tasks.edges.settings import EdgeRunSettings
from edgewise.tasks.edges.trained import FittedEdges
from edgewise.tasks.nodes.units import graph_fields, num_edge_features
from edgewise.tasks.table_task import Features, TableTask, num_outputs
from edgewise.tasks.task import PredictRequest, Prepared


class EdgesTask(TableTask):
    """Numbers or classes of the edges of a graph."""

    settings_type = EdgeRunSettings
    noun = "edges"

    def read_table(self, settings: EdgeRunSettings) -> EdgeTable:
        return read_edge_table(settings.data, settings.columns, settings.graph, settings.nodes, strict=settings.strict)

    def resolved(self, settings: EdgeRunSettings, table: EdgeTable, splits: Splits) -> EdgeRunSettings:
        """A step sees all training edges, unless a batch size is given."""
        train = settings.train
        return replace(settings, train=replace(train, batch_size=train.batch_size or len(splits.train)))

    def untrained(self, settings: EdgeRunSettings, table: EdgeTable, splits: Splits) -> FittedEdges:
        """The model before its first step; features are scaled by the whole graph, which training sees."""
        known = graph_fields(settings, table, splits.train, table.nodes)
        scaler = known["scaler"]
        edge_scaler = ConditionScaler.fit(table.edges.features, np.arange(len(table.edges)))
        sizes = NodeSizes(
            num_features=table.nodes.shape[1] if scaler is None else scaler.num_features,
            **edge_sizes(num_edge_features(table.edges, edge_scaler, settings.model), settings.model),
            num_outputs=num_outputs(table),
        )
        return FittedEdges(**known, sizes=sizes, edge_scaler=edge_scaler)

    def features(self, prepared: Prepared) -> Features:
        """The features of the edges and of their two nodes."""
        found: Features = prepared.data.features
        return found

    def notes(self, prepared: Prepared) -> list[str]:
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

    def read(self, request: PredictRequest) -> tuple[Any, Any]:
        trained = FittedEdges.load(request.run_folder)
        known = trained.columns
        if (known.descriptors_columns or known.category_columns) and request["nodes"] is None:
            raise SettingError(
                f"{request.folder} was trained on features of nodes; name their table: --nodes nodes.csv."
            )
        columns = known.to_predict(
            node_column=request["node_column"] or (AUTO if request["nodes"] else known.node_column),
            descriptors_columns=tuple(request["descriptors_columns"] or known.descriptors_columns),
        )
        source = replace(trained.graph, features=request["features"])
        return trained, trained.read([request.data], columns, source, request["nodes"], strict=request.strict)


TASK = EdgesTask()
