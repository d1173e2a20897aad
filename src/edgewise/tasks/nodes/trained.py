"""A trained ensemble over the nodes of a graph, with all it needs to read a new one: features, scales, sizes."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F

from edgewise.data.graphs.node_features import Categories, NodeFeatures
from edgewise.data.graphs.nodes import NodeTable
from edgewise.data.graphs.source import GraphSource
from edgewise.data.graphs.types import GraphTypes, TypeNames, TypeScaler
from edgewise.data.scale import ConditionScaler, TargetScaler
from edgewise.errors import DataError
from edgewise.models.graph_settings import NodeSettings, NodeSizes
from edgewise.models.node import NodeModel
from edgewise.neighborhood import EDGE_TYPES, Edges, extend_edges
from edgewise.records import NodeBatch, SparseFeatures
from edgewise.tasks.nodes.types import with_types
from edgewise.tasks.nodes.units import FeatureScale, check_features, graph_batch, scaled
from edgewise.tasks.trained import TrainedTable


@dataclass(frozen=True)
class NodeBatches:
    """A graph in the units of a model: each batch is all of it, and the rows that are predicted."""

    graph: NodeBatch
    """The graph, without rows."""
    targets: np.ndarray
    """(row, target), scaled, float32; class numbers for classes."""
    weights: np.ndarray
    """(row), float32."""

    def batch(self, rows: np.ndarray) -> NodeBatch:
        """Rows to predict."""
        return replace(self.graph, rows=torch.from_numpy(np.asarray(rows, dtype=np.int64)))

    def training_batch(self, rows: np.ndarray) -> NodeBatch:
        """Rows to learn from."""
        targets, weights = torch.from_numpy(self.targets[rows]), torch.from_numpy(self.weights[rows])
        return replace(self.batch(rows), targets=targets, weights=weights)


@dataclass(kw_only=True)
class TrainedNodes(TrainedTable):
    """A trained ensemble over the nodes of a graph."""

    FORMAT = "edgewise node model"
    RENAMED: ClassVar[dict[str, str]] = {"kinds": "types"}

    settings: NodeSettings
    """The layers and their sizes."""
    sizes: NodeSizes
    """What the data looks like."""
    graph: GraphSource
    """Where the edges of the training graph were, and how they were read."""
    feature_scale: FeatureScale
    """rows, standard or none."""
    scaler: ConditionScaler | TypeScaler | None
    """Of the features, where they are scaled by their spread."""
    scale: TargetScaler | None
    """Of the targets; None for classes."""
    num_columns: int
    """Features of a node as they stand in the file."""
    types: TypeNames | None = None
    """The types of nodes and edges; None where the model ignores them."""
    categories: Categories = field(default_factory=dict)
    """The words of each column of categories of nodes."""
    edge_categories: Categories = field(default_factory=dict)
    """The words of each column of categories of edges."""

    @property
    def target_scale(self) -> TargetScaler | None:
        """From the unit of the targets to that of the model; None for classes."""
        return self.scale

    @property
    def num_edge_columns(self) -> int:
        """Features of an edge as they stand in the file; loops and types of edges are further ones."""
        added = self.settings.has_loops + (len(EDGE_TYPES) if self.settings.is_extended else 0)
        return max(0, self.sizes.num_edge_features - added)

    @property
    def rows_a_batch(self) -> int:
        """Rows that are computed together: all of them, since each batch is the whole graph."""
        return 1 << 40

    @property
    def model_outputs(self) -> int:
        """Numbers that a model gives for a row, as it is built."""
        return self.sizes.num_outputs

    def new_member(self) -> NodeModel:
        """A model before its first step, drawn from torch's generator."""
        return NodeModel(self.sizes, self.settings)

    def batches(self, table: NodeTable) -> NodeBatches:
        """The graph as the models take it.

        Raises:
            DataError: its nodes or edges have another number of features than those of the training graph.
        """
        found = table.features.shape[1], table.edges.features.shape[1]
        check_features(table.source, (self.num_columns, self.num_edge_columns), found)
        targets = table.targets
        if self.scale is not None and targets.shape[1]:
            targets = self.scale.transform(targets)
        graph = graph_batch(self.features(table.features, table.types), table.edges, self.settings.has_loops)
        if self.settings.is_extended:
            edges, features = _with_extras(graph.edges, graph.edge_features, self.settings)
            graph = replace(graph, edges=edges, edge_features=features)
        graph = replace(graph, positions=self.positions(table))
        if table.types is not None:
            graph = with_types(graph, table.types)
        return NodeBatches(graph, targets.astype(np.float32), table.weights.astype(np.float32))

    def positions(self, table: NodeTable) -> torch.Tensor | None:
        """Where each node stands in the graph, as far as the model looks at it."""
        counts = self.settings.laplacian_positions, self.settings.random_walk_positions
        if not any(counts):
            return None
        from edgewise.data.graphs.position import positions_of

        return positions_of(table.edges, table.num_rows, *counts)

    def features(self, features: NodeFeatures, types: GraphTypes | None = None) -> torch.Tensor | SparseFeatures:
        """What is known of each node in the units of the model."""
        return scaled(features, self.feature_scale, self.scaler, types)

    def check(self) -> None:
        """Raise DataError unless the fields fit each other."""
        super().check()
        scaler, columns, types = self.scaler, self.num_columns, self.types
        fits = (scaler is not None) == (self.feature_scale == "standard") and columns >= 0
        fits = fits and (types is None or all(0 <= c < columns for own in types.features for c in own))
        if isinstance(scaler, ConditionScaler):
            fits = fits and (len(scaler.mean), scaler.num_features) == (columns, self.sizes.num_features)
        if isinstance(scaler, TypeScaler):
            widths = [len(each.mean) for each in scaler.scalers]
            fits = fits and types is not None and widths == [len(own) for own in types.features]
        if not fits:
            raise DataError("feature_scale, scaler, num_columns, sizes and types do not fit each other.")


def _with_extras(edges: Edges, features: torch.Tensor, settings: NodeSettings) -> tuple[Edges, torch.Tensor]:
    """The edges and those that are added to the graph; further features tell of every edge of which kind it is.

    The draw is always the same, so that a graph that is predicted has the edges that it was learned with.
    """
    extended, types = extend_edges(
        edges, expander_degree=settings.expander_degree, num_virtual_nodes=settings.num_virtual_nodes
    )
    known = F.pad(features, (0, 0, 0, extended.num_edges - len(features)))
    return extended, torch.cat([known, F.one_hot(types, len(EDGE_TYPES)).to(features.dtype)], 1)
