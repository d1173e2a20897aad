"""A trained ensemble over the nodes of a graph, with all it needs to read a new one: features, scales, sizes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F

from edgewise.data.columns import Columns
from edgewise.data.graphs.node_features import NodeFeatures
from edgewise.data.graphs.nodes import NodeTable, read_nodes
from edgewise.data.graphs.source import GraphSource
from edgewise.data.graphs.types import GraphTypes, TypeNames, TypeScaler
from edgewise.data.scale import ConditionScaler
from edgewise.errors import DataError
from edgewise.models.graph_settings import NodeSettings
from edgewise.models.node import NodeModel
from edgewise.neighborhood import EDGE_TYPES, Edges, extend_edges
from edgewise.records import NodeBatch, SparseFeatures
from edgewise.tasks.nodes.settings import NodeRunSettings
from edgewise.tasks.nodes.types import with_types
from edgewise.tasks.nodes.units import FittedOnGraph, RowBatches, check_features, check_weights, graph_batch, scaled


@dataclass(kw_only=True)
class FittedNodes(FittedOnGraph):
    """A trained ensemble over the nodes of a graph."""

    FORMAT = NodeRunSettings.FORMAT
    RENAMED: ClassVar[dict[str, str]] = {"kinds": "types"}

    types: TypeNames | None = None
    """The types of nodes and edges; None where the model ignores them."""

    @property
    def num_edge_columns(self) -> int:
        """Features of an edge as they stand in the file; loops and types of edges are further ones."""
        added = self.settings.has_loops + (len(EDGE_TYPES) if self.settings.is_extended else 0)
        return max(0, self.sizes.num_edge_features - added)

    def new_member(self) -> NodeModel:
        """A model before its first step, drawn from torch's generator."""
        return NodeModel(self.sizes, self.settings)

    def read(self, paths: Sequence[str], columns: Columns, source: GraphSource, *, strict: bool = False) -> NodeTable:
        """A graph to predict, with the types and words that the model knows."""
        return read_nodes(
            paths,
            columns,
            source,
            strict=strict,
            need_targets=False,
            with_types=self.types is not None,
            known=self.types,
            categories=self.categories,
            edge_categories=self.edge_categories,
        )

    def batches(self, table: NodeTable) -> RowBatches:
        """The graph as the models take it.

        Raises:
            DataError: its nodes or edges have another number of features than those of the training graph.
        """
        found = table.features.shape[1], table.edges.features.shape[1]
        check_features(table.source, (self.num_columns, self.num_edge_columns), found)
        check_weights(table.source, table.edges, self.settings, self.sizes)
        graph = graph_batch(self.features(table.features, table.types), table.edges, self.settings.has_loops)
        if self.settings.is_extended:
            edges, features = _with_extras(graph.edges, graph.edge_features, self.settings)
            graph = replace(graph, edges=edges, edge_features=features)
        graph = replace(graph, positions=self.positions(table))
        if table.types is not None:
            graph = with_types(graph, table.types)

        def batch(rows: np.ndarray) -> NodeBatch:
            return replace(graph, rows=torch.from_numpy(np.asarray(rows, dtype=np.int64)))

        return RowBatches.of(table, self.scale, batch, graph)

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
    """The edges and those that are added to the graph; further features say of which type each edge is.

    The draw is always the same, so that a graph that is predicted has the edges that it was trained with.
    """
    extended, types = extend_edges(
        edges, expander_degree=settings.expander_degree, num_virtual_nodes=settings.num_virtual_nodes
    )
    known = F.pad(features, (0, 0, 0, extended.num_edges - len(features)))
    return extended, torch.cat([known, F.one_hot(types, len(EDGE_TYPES)).to(features.dtype)], 1)
