"""A trained ensemble over the edges of a graph, with all it needs to read a new one: words, scales, sizes."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float32

from edgewise.data.columns import Columns
from edgewise.data.graphs.edge_table import EdgeTable, read_edge_table
from edgewise.data.graphs.node_features import Categories
from edgewise.data.graphs.source import GraphSource
from edgewise.data.scale import ConditionScaler, TargetScaler
from edgewise.models.edge import EdgeBatch, EdgeModel
from edgewise.models.graph_settings import NodeSettings, NodeSizes
from edgewise.records import NodeBatch
from edgewise.tasks.nodes.units import FeatureScale, check_features, graph_batch, scaled
from edgewise.tasks.trained import TrainedTable


@dataclass(frozen=True, eq=False)
class EdgeBatches:
    """A graph in the units of a model: each batch is all of it, and the edges that are predicted."""

    table: EdgeTable
    """The edges."""
    graph: NodeBatch
    """The graph, without rows."""
    features: Float32[np.ndarray, " edge feature"]
    """Of the edges that can be read, scaled."""
    targets: Float32[np.ndarray, " row target"]
    """In model units."""

    def batch(self, rows: np.ndarray) -> EdgeBatch:
        """Rows to predict."""
        places, edges = self.table.place[rows], self.table.edges
        senders, receivers, features = (
            torch.from_numpy(each[places]) for each in (edges.senders, edges.receivers, self.features)
        )
        return EdgeBatch(self.graph, senders, receivers, features)

    def training_batch(self, rows: np.ndarray) -> EdgeBatch:
        """Rows to learn from."""
        weights = torch.from_numpy(self.table.weights[rows].astype(np.float32))
        return replace(self.batch(rows), targets=torch.from_numpy(self.targets[rows]), weights=weights)


@dataclass(kw_only=True)
class TrainedEdges(TrainedTable):
    """A trained ensemble over the edges of a graph."""

    FORMAT = "edgewise edge model"

    settings: NodeSettings
    """The layers and their sizes."""
    sizes: NodeSizes
    """What the data looks like."""
    graph: GraphSource
    """How the edges of the training graph were read."""
    feature_scale: FeatureScale
    """How the features of nodes are scaled."""
    scaler: ConditionScaler | None
    """Of the features of nodes, where they are scaled by their spread."""
    edge_scaler: ConditionScaler
    """Of the features of edges."""
    scale: TargetScaler | None
    """Of the targets; None for classes."""
    num_columns: int
    """Features of a node as they stand in the file."""
    categories: Categories = field(default_factory=dict)
    """The words of each column of categories of nodes."""
    edge_categories: Categories = field(default_factory=dict)
    """The words of each column of categories of edges."""

    @property
    def target_scale(self) -> TargetScaler | None:
        """From the unit of the targets to that of the model; None for classes."""
        return self.scale

    @property
    def rows_a_batch(self) -> int:
        """Rows that are computed together: all of them, since each batch is the whole graph."""
        return 1 << 40

    @property
    def model_outputs(self) -> int:
        """Numbers that a model gives for a row, as it is built."""
        return self.sizes.num_outputs

    def new_member(self) -> EdgeModel:
        """A model before its first step, drawn from torch's generator."""
        num_features = self.edge_scaler.num_features
        return EdgeModel(self.sizes, num_features, self.settings, is_directed=self.graph.directed)

    def batches(self, table: EdgeTable) -> EdgeBatches:
        """The graph as the models take it.

        Raises:
            DataError: its nodes or edges have another number of features than those of the training graph.
        """
        given = table.nodes.shape[1], table.edges.features.shape[1]
        check_features(table.source, (self.num_columns, len(self.edge_scaler.mean)), given)
        features = self.edge_scaler.transform(table.edges.features.astype(np.float64)).astype(np.float32)
        edges = replace(table.edges, features=features)
        if not self.graph.directed:
            edges = edges.both_ways(len(table.names))
        nodes = scaled(table.nodes, self.feature_scale, self.scaler)
        targets = table.targets
        if self.scale is not None and targets.shape[1]:
            targets = self.scale.transform(targets)
        graph = graph_batch(nodes, edges, self.settings.has_loops)
        return EdgeBatches(table, graph, features, targets.astype(np.float32))


def read_known(
    trained: TrainedEdges,
    paths: Sequence[str],
    columns: Columns,
    source: GraphSource,
    nodes: str | None,
    *,
    strict: bool = False,
) -> EdgeTable:
    """Edges to predict, with the words that a trained model knows."""
    return read_edge_table(
        paths,
        columns,
        source,
        nodes,
        strict=strict,
        need_targets=False,
        categories=trained.categories,
        edge_categories=trained.edge_categories,
    )
