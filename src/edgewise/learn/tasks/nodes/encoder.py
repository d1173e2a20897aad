"""Nodes of one graph as numbers, in memory or in the files of a store."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F

from edgewise.errors import DataError
from edgewise.graph import Batch, Graph, Supervision
from edgewise.learn.files import JsonObject
from edgewise.learn.networks.graph_settings import NodeSettings, NodeSizes
from edgewise.learn.networks.node import NodeModel
from edgewise.learn.outputs import Targets
from edgewise.learn.readers.graphs.lost import with_lost
from edgewise.learn.readers.graphs.nodes import NodeData
from edgewise.learn.readers.graphs.types import TypeNames, TypeScaler
from edgewise.learn.readers.store.data import StoredNodeData, hops_to_lost
from edgewise.learn.tables.impute import Imputer, missing_by_row, with_filled
from edgewise.learn.tables.scale import ColumnScaler, TargetScaler
from edgewise.learn.tasks.batches import RowBatches
from edgewise.learn.tasks.feature_scale import scaled_rows
from edgewise.learn.tasks.graph_encoding import (
    WHOLE_GRAPH,
    GraphEncoding,
    filled_edges,
    graph_of,
    num_edge_marks,
)
from edgewise.learn.tasks.graph_notes import check_graph
from edgewise.learn.tasks.nodes.node_types import with_types
from edgewise.learn.tasks.nodes.stored import StoredNodes, check_stored_weights
from edgewise.learn.tasks.nodes.stored_run import stored_batches
from edgewise.learn.training.document import INLINE, TRANSIENT
from edgewise.neighborhood import EDGE_TYPES, extend_edges


@dataclass(frozen=True)
class NodeEncoder:
    """What the training graph fixed of nodes and edges: their scales, words, types and sizes."""

    on_graph: GraphEncoding = field(metadata=INLINE)
    """How features become numbers, which is the same for all tasks over one graph."""
    sizes: NodeSizes
    """What the data looks like."""
    types: TypeNames | None = None
    """The types of nodes and edges; None where the model ignores them."""
    edge_imputer: Imputer = field(default_factory=Imputer)
    """Fills missing numbers of edges; none where the run drops them."""
    stored: dict[str, StoredNodes] = field(metadata=TRANSIENT, default_factory=dict, compare=False)
    """The store that was read last, under `last`."""

    max_tokens: ClassVar[None] = None

    @property
    def rows_per_batch(self) -> int:
        """All rows are computed together."""
        return WHOLE_GRAPH

    @property
    def num_edge_columns(self) -> int:
        """Features of an edge as they stand in the file; loops, types and marks of edges are further ones."""
        settings = self.on_graph.settings
        added = settings.has_loops + (len(EDGE_TYPES) if settings.is_extended else 0)
        added += num_edge_marks(self.edge_imputer, settings)
        return max(0, self.sizes.num_edge_features - added)

    @property
    def reading(self) -> JsonObject:
        """How a graph to predict is read, with the types and words that the model knows."""
        return {
            "with_types": self.types is not None,
            "model_types": self.types,
            "may_lack_edges": True,
            "fills_edges": bool(self.edge_imputer.median),
            **self.on_graph.known_words,
        }

    def new_network(self, output: Targets) -> NodeModel:
        """Layers over the graph."""
        return NodeModel(self.sizes, self.on_graph.settings)

    def stored_nodes(self, data: StoredNodeData) -> StoredNodes:
        """The graph of a store in the units of the models.

        Raises:
            DataError: its nodes or edges have another number of features than those of the training graph.
        """
        last = self.stored.get("last")
        if last is not None and last.data is data:
            return last

        on_graph, settings = self.on_graph, self.on_graph.settings
        num_features, source = data.num_edge_features, data.rows.source
        check_graph(on_graph, source, data.features, num_features, self.num_edge_columns, data.has_degrees)
        reads_weights = settings.spec.reads_edge_weights and num_features == 1
        if reads_weights:
            check_stored_weights(data, settings)
        self.stored["last"] = StoredNodes(
            data,
            settings,
            partial(scaled_rows, scale=on_graph.feature_scale, scaler=on_graph.scaler),
            reads_weights=reads_weights,
            adds_degrees=on_graph.adds_degrees,
            num_marks=num_edge_marks(self.edge_imputer, settings),
        )
        return self.stored["last"]

    def batches(
        self, data: NodeData | StoredNodeData, scale: TargetScaler | None, *, whole: bool = False
    ) -> RowBatches:
        """The graph as the models take it.

        Args:
            data: its nodes.
            scale: of the targets.
            whole: whether the graph of a store is read into memory.

        Raises:
            DataError: its nodes or edges have another number of features than those of the training graph.
        """
        if isinstance(data, StoredNodeData):
            return stored_batches(data, self.stored_nodes(data), scale, whole=whole)

        on_graph, settings = self.on_graph, self.on_graph.settings
        check_graph(on_graph, data.rows.source, data.features, data.edges, self.num_edge_columns, data.has_degrees)
        features = on_graph.scaled(data.features, data.edges, data.types)
        edges = filled_edges(data.edges, self.edge_imputer, settings)
        graph = graph_of(features, edges, settings.has_loops, position_encodings=self.position_encodings(data))
        if settings.is_extended:
            graph = extended(graph, settings)
        if data.types is not None:
            graph = with_types(graph, data.types)

        def batch(rows: np.ndarray) -> Batch:
            return Batch(graph, Supervision(nodes=torch.from_numpy(np.asarray(rows, dtype=np.int64))))

        return RowBatches.of(data.rows, scale, batch, graph)

    def statuses(self, data: NodeData | StoredNodeData) -> list[str]:
        """The status of each node; also which nodes lack edges that cannot be read, and whose numbers were filled."""
        if isinstance(data, StoredNodeData):
            return with_lost(data.rows.status, hops_to_lost(data.store, self.on_graph.settings.reach), "the node")
        on_graph, edges, nodes = self.on_graph, data.edges, np.arange(len(data.rows))
        status = with_lost(data.rows.status, on_graph.hops_to_lost(edges, len(nodes)), "the node")
        of_nodes = missing_by_row((data.features.rows_if_missing(nodes), nodes, on_graph.names_of_features()))
        names = [f"{name} of an edge" for name in on_graph.names_of_edges(edges.features.shape[1])]
        of_edges = missing_by_row((edges.features, np.stack([edges.senders, edges.receivers], axis=1), names))
        return with_filled(with_filled(status, of_nodes), of_edges)

    def position_encodings(self, data: NodeData) -> torch.Tensor | None:
        """Position encodings of each node in the graph, as far as the model reads them."""
        counts = self.on_graph.settings.laplacian_positions, self.on_graph.settings.random_walk_positions
        if not any(counts):
            return None
        from edgewise.learn.readers.graphs.position import positions_of

        return positions_of(data.edges, len(data.rows), *counts)

    def check(self, output: Targets) -> None:
        """Raise DataError unless the fields fit each other."""
        self.on_graph.check()
        scaler, columns, types = self.on_graph.scaler, self.on_graph.num_columns, self.types
        fits = (scaler is not None) == (self.on_graph.feature_scale == "standard") and columns >= 0
        fits = fits and self.sizes.num_outputs == output.num_outputs
        if types is not None:
            fits = fits and all(0 <= column < columns for of_type in types.features for column in of_type)
        if isinstance(scaler, ColumnScaler):
            num_scaled = columns + 2 * self.on_graph.adds_degrees
            fits = fits and (len(scaler.mean), scaler.num_features) == (num_scaled, self.sizes.num_features)
        if isinstance(scaler, TypeScaler):
            widths = [len(of_type.mean) for of_type in scaler.scalers]
            fits = fits and types is not None and widths == [len(of_type) for of_type in types.features]
        if not fits:
            raise DataError("feature_scale, scaler, num_columns, sizes and types do not fit each other.")


def extended(graph: Graph, settings: NodeSettings) -> Graph:
    """The graph with the edges and virtual nodes that a model adds; further features say of which type each edge is.

    The draw is always the same, so that a graph that is predicted has the edges that it was trained with.
    """
    num_virtual_nodes = settings.num_virtual_nodes
    edges, types = extend_edges(
        graph.edges, expander_degree=settings.expander_degree, num_virtual_nodes=num_virtual_nodes
    )
    type_features = F.one_hot(types, len(EDGE_TYPES)).float()
    if isinstance(graph.edge_features, torch.Tensor):
        padded = F.pad(graph.edge_features, (0, 0, 0, edges.num_edges - graph.num_edges))
        type_features = torch.cat([padded, type_features], 1)
    return replace(graph, edges=edges, edge_features=type_features, num_virtual_nodes=num_virtual_nodes)
