"""A trained ensemble over the edges of a graph, with all it needs to read a new one: words, scales, sizes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from edgewise.data.columns import Columns
from edgewise.data.graphs.edge_table import EdgeTable, read_edge_table
from edgewise.data.graphs.source import GraphSource
from edgewise.data.scale import ConditionScaler
from edgewise.models.edge import EdgeBatch, EdgeModel
from edgewise.tasks.edges.settings import EdgeRunSettings
from edgewise.tasks.nodes.units import FittedOnGraph, RowBatches, check_features, check_weights, graph_batch, scaled


@dataclass(kw_only=True)
class FittedEdges(FittedOnGraph):
    """A trained ensemble over the edges of a graph."""

    FORMAT = EdgeRunSettings.FORMAT

    edge_scaler: ConditionScaler
    """Of the features of edges."""

    def new_member(self) -> EdgeModel:
        """A model before its first step, drawn from torch's generator."""
        num_features = self.edge_scaler.num_features
        return EdgeModel(self.sizes, num_features, self.settings, is_directed=self.graph.directed)

    def read(
        self,
        paths: Sequence[str],
        columns: Columns,
        source: GraphSource,
        nodes: str | None,
        *,
        strict: bool = False,
    ) -> EdgeTable:
        """Edges to predict, with the words that the model knows."""
        return read_edge_table(
            paths,
            columns,
            source,
            nodes,
            strict=strict,
            need_targets=False,
            categories=self.categories,
            edge_categories=self.edge_categories,
        )

    def batches(self, table: EdgeTable) -> RowBatches:
        """The graph as the models take it.

        Raises:
            DataError: its nodes or edges have another number of features than those of the training graph.
        """
        given = table.nodes.shape[1], table.edges.features.shape[1]
        check_features(table.source, (self.num_columns, len(self.edge_scaler.mean)), given)
        features = self.edge_scaler.transform(table.edges.features.astype(np.float64)).astype(np.float32)
        check_weights(table.source, table.edges, self.settings, self.sizes)
        is_weight = self.settings.spec.reads_edge_weights  # a weight is not scaled
        edges = table.edges if is_weight else replace(table.edges, features=features)
        if not self.graph.directed:
            edges = edges.both_ways(len(table.names))
        nodes = scaled(table.nodes, self.feature_scale, self.scaler)
        graph = graph_batch(nodes, edges, self.settings.has_loops)

        def batch(rows: np.ndarray) -> EdgeBatch:
            places = table.place[rows]
            senders, receivers, known = (
                torch.from_numpy(each[places]) for each in (table.edges.senders, table.edges.receivers, features)
            )
            return EdgeBatch(graph, senders, receivers, known)

        return RowBatches.of(table, self.scale, batch, graph)
