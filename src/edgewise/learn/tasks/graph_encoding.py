"""One graph in the units of a model: degrees as features where no others vary, edges filled, loops added."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Int64

from edgewise.errors import DataError
from edgewise.graph import Graph, SparseFeatures
from edgewise.learn.files import JsonObject
from edgewise.learn.networks.graph_settings import NodeSettings, NodeSizes, num_edge_inputs
from edgewise.learn.readers.graphs.edge_data import EdgeData
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.readers.graphs.lost import hops_from, hops_to_lost
from edgewise.learn.readers.graphs.node_features import Categories, NodeFeatures, check_categories
from edgewise.learn.readers.graphs.nodes import NodeData
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.readers.graphs.type_features import TypeScaler
from edgewise.learn.readers.graphs.types import GraphTypes, TypeNames
from edgewise.learn.readers.store.data import StoredFeatures, StoredNodeData
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tables.impute import Imputer
from edgewise.learn.tables.scale import ColumnScaler
from edgewise.learn.tasks.feature_scale import FeatureScale, scale_of, scaled
from edgewise.learn.tasks.graph_settings import FeatureScaling
from edgewise.learn.tasks.graph_types import with_types
from edgewise.learn.tasks.table_notes import names_of_features
from edgewise.neighborhood import EDGE_TYPES, Edges, extend_edges

WHOLE_GRAPH = 1 << 40
"""Rows that are computed together where each batch is the whole graph."""


@dataclass(frozen=True)
class GraphEncoding:
    """How nodes and edges of one graph become numbers: what its reading and the scales of its features fixed."""

    columns: Columns
    """The columns of the training, targets by name."""
    settings: NodeSettings
    """The layers and their sizes."""
    graph: GraphSource
    """How the edges of the training graph were read."""
    feature_scale: FeatureScale
    """How the features of nodes are scaled."""
    scaler: ColumnScaler | TypeScaler | None
    """Scales the features of nodes by their spread; None where they are not scaled so."""
    num_columns: int
    """Features of a node as they stand in the file."""
    adds_degrees: bool = False
    """Whether in- and out-degree are features as well, because no other one varies."""
    has_degrees: bool | None = None
    """Whether nothing was known of the nodes in training but their edges; None where a run does not say."""
    categories: Categories = field(default_factory=dict)
    """The words of each column of categories of nodes."""
    edge_categories: Categories = field(default_factory=dict)
    """The words of each column of categories of edges."""

    @classmethod
    def fit(
        cls,
        data: NodeData | StoredNodeData | EdgeData,
        nodes: NodeFeatures | StoredFeatures,
        settings: NodeSettings,
        graph: GraphSource,
        scaling: FeatureScaling,
        types: GraphTypes | None = None,
    ) -> Self:
        """The scales of all nodes, which are all seen in training, as the model is trained on the whole graph.

        Args:
            data: the rows, and the edges.
            nodes: the features of the nodes.
            settings: of the layers.
            graph: how the edges were read.
            scaling: how features are scaled.
            types: of nodes and edges.
        """
        check_known_weights(data if isinstance(data, StoredNodeData) else data.edges, settings)
        scale, scaler = scale_of(nodes, scaling.feature_scale, types)
        if adds_degrees := lacks_features(scaler, nodes, data.edges):
            scale, scaler = scale_of(with_degrees(nodes, data.edges), scaling.feature_scale)
        if scaler is not None and not data.rows.columns.imputes:
            scaler = scaler.without_imputing()  # what is to predict is not filled either
        return cls(
            columns=replace(data.rows.columns, missing="impute" if scaler is not None and scaler.imputes else "drop"),
            settings=settings,
            graph=graph,
            feature_scale=scale,
            scaler=scaler,
            num_columns=nodes.shape[1],
            adds_degrees=adds_degrees,
            has_degrees=data.has_degrees,
            categories=data.categories,
            edge_categories=data.edge_categories,
        )

    @property
    def num_features(self) -> int:
        """Features of a node as the layers read them."""
        return self.scaler.num_features if isinstance(self.scaler, ColumnScaler) else self.num_columns

    @property
    def known_words(self) -> JsonObject:
        """How tables of graphs to predict are read: without targets, with the words that the model knows."""
        return {"categories": self.categories, "edge_categories": self.edge_categories, "need_targets": False}

    def scaled(
        self, features: NodeFeatures, edges: EdgeList, types: GraphTypes | None = None
    ) -> torch.Tensor | SparseFeatures:
        """The features of each node in the units of a model.

        Args:
            features: as they stand in the file.
            edges: between the nodes.
            types: of nodes and edges.
        """
        all_features = with_degrees(features, edges) if self.adds_degrees else features
        assert isinstance(all_features, NodeFeatures)
        return scaled(all_features, self.feature_scale, self.scaler, types)

    def to_graph(
        self, nodes: NodeFeatures, edges: EdgeList, messages: EdgeList, types: GraphTypes | None = None
    ) -> Graph:
        """A graph in the units of the layers, with the loops, positions and further edges that they read.

        Args:
            nodes: the features of its nodes, as they stand in the file.
            edges: between them, as they stand there.
            messages: those along which messages go, with features as the layers read them.
            types: of nodes and edges.
        """
        settings, positions = self.settings, None
        if settings.has_positions:
            from edgewise.learn.readers.graphs.position import cached_positions

            counts = settings.laplacian_positions, settings.random_walk_positions
            positions = cached_positions(messages, nodes.shape[0], *counts)
        graph = graph_of(self.scaled(nodes, edges, types), messages, settings.has_loops, positions)
        if settings.is_extended:
            graph = extended(graph, settings)
        return graph if types is None else with_types(graph, types)

    def names_of_features(self, types: TypeNames | None = None) -> list[str]:
        """The names of the features of nodes, those of words last; not of degrees, which follow them.

        Args:
            types: that the model knows.
        """
        num_columns = self.num_columns - (0 if types is None else types.num_added)
        words = [f"{column!r} {word!r}" for column, vocabulary in self.categories.items() for word in vocabulary]
        return [*names_of_features(self.columns.descriptors_columns, num_columns, self.categories), *words]

    def names_if_read(self, types: TypeNames | None = None) -> list[str]:
        """The same names; empty for features that the scale ignores."""
        names = self.names_of_features(types)
        return self.scaler.names_if_read(names) if isinstance(self.scaler, ColumnScaler) else names

    def names_of_edges(self, count: int) -> list[str]:
        """The names of the features of edges, but for words; with these they are `count`."""
        return names_of_features(self.graph.edge_feature_columns, count, self.edge_categories)

    def hops_to_lost(self, edges: EdgeList, num_nodes: int) -> np.ndarray:
        """How far the nearest edge that cannot be read is from each node, as `hops_to_lost` has it."""
        settings = self.settings
        sees_all = settings.is_extended or settings.has_positions
        return hops_to_lost(edges, num_nodes, settings.reach, sees_all=sees_all)

    def hops_to_unread(self, edges: EdgeList, num_nodes: int, unread: Sequence[int]) -> np.ndarray:
        """How far the nearest node whose features cannot be read is from each node."""
        sees_all = self.settings.is_extended and len(unread) > 0
        return hops_from(unread, edges, num_nodes, self.settings.reach, sees_all=sees_all)

    def check(self, sizes: NodeSizes, types: TypeNames | None = None) -> None:
        """Raise DataError unless the fields fit each other, the sizes of the model and the types that it knows."""
        check_categories("categories", self.categories, self.columns.category_columns)
        check_categories("edge_categories", self.edge_categories, self.graph.edge_category_columns)
        scaler, count = self.scaler, self.num_columns
        fits = (scaler is not None) == (self.feature_scale == "standard") and count >= 0
        if types is not None:
            fits = fits and all(0 <= column < count for of_type in types.features for column in of_type)
        if isinstance(scaler, ColumnScaler):
            num_scaled = count + 2 * self.adds_degrees
            fits = fits and (len(scaler.mean), scaler.num_features) == (num_scaled, sizes.num_features)
        if isinstance(scaler, TypeScaler):
            widths = [len(of_type.mean) for of_type in scaler.scalers]
            fits = fits and types is not None and widths == [len(of_type) for of_type in types.features]
        if not fits:
            raise DataError("feature_scale, scaler, num_columns, sizes and types do not fit each other.")


def with_degrees(features: NodeFeatures | StoredFeatures, edges: EdgeList | None) -> NodeFeatures | StoredFeatures:
    """The features of nodes, followed by in- and out-degree.

    Args:
        features: of the nodes.
        edges: between them; None where a store has them.
    """
    if isinstance(features, StoredFeatures):
        return replace(features, adds_degrees=True)
    assert edges is not None
    return features.hstack(edges.degrees(features.shape[0]))


def are_degrees(features: np.ndarray | NodeFeatures | StoredFeatures, edges: EdgeList | None) -> bool:
    """Whether the features of nodes are in- and out-degree, and no others."""
    if isinstance(features, StoredFeatures):
        return features.has_degrees
    assert edges is not None
    table = features.to_dense() if isinstance(features, NodeFeatures) else features
    return np.array_equal(table, edges.degrees(len(table)))


def lacks_features(
    scaler: ColumnScaler | TypeScaler | None,
    features: np.ndarray | NodeFeatures | StoredFeatures,
    edges: EdgeList | None,
) -> bool:
    """Whether no feature of a node varies, so that all nodes look alike to layers that take means of neighbors.

    Args:
        scaler: of the features.
        features: of the nodes; where they are degrees already, nothing can be added.
        edges: between the nodes; None where a store has them.
    """
    if not isinstance(scaler, ColumnScaler) or scaler.imputer.marked:  # which numbers are missing varies
        return False

    is_constant = 0 < len(scaler.constant_columns) == len(scaler.mean)
    return is_constant and not are_degrees(features, edges)


def scaled_edges(edges: EdgeList, scaler: ColumnScaler, settings: NodeSettings) -> np.ndarray:
    """The features of edges as the layers read them: a weight is filled, and not scaled."""
    if settings.spec.reads_edge_weights:
        return scaler.imputer.complete(edges.features, are_marked=False)
    return scaler.transform(edges.features.astype(np.float64)).astype(np.float32)


def check_known_weights(edges: EdgeList | StoredNodeData, settings: NodeSettings) -> None:
    """Raise a DataError where the one feature of an edge is read as its weight, and no edge of the training has one."""
    counts, num_edges = missing_of_edges(edges)
    if settings.spec.reads_edge_weights and len(counts) == 1 and counts[0] == num_edges > 0:
        raise DataError(
            f"no edge has a weight: its one feature, which --model {settings.model} reads as one, is missing in all "
            f"{num_edges:,}; fill it in, or leave it out, and all edges count alike."
        )


def missing_of_edges(edges: EdgeList | StoredNodeData) -> tuple[Int64[np.ndarray, " feature"], int]:
    """How many edges lack each feature, and how many edges there are."""
    if isinstance(edges, StoredNodeData):
        return edges.missing_edge_counts, edges.num_edges
    return np.isnan(edges.features).sum(axis=0), len(edges)


def num_scaled_edge_inputs(edges: EdgeList, scaler: ColumnScaler, settings: NodeSettings) -> int:
    """Features of an edge that the layers read where they are scaled; a weight is not."""
    return num_edge_inputs(
        edges.features.shape[1] if settings.spec.reads_edge_weights else scaler.num_features, settings
    )


def graph_of(
    features: torch.Tensor | SparseFeatures,
    edges: EdgeList,
    has_loops: bool,
    position_encodings: torch.Tensor | None = None,
) -> Graph:
    """A graph in the units of a model.

    Args:
        features: of its nodes.
        edges: between them.
        has_loops: whether each node without a loop gets one.
        position_encodings: of its nodes.
    """
    num_nodes = features.shape[0]
    ends = torch.from_numpy(edges.senders), torch.from_numpy(edges.receivers)
    edges_of_graph, edge_features = Edges(*ends, num_nodes, num_nodes), optional_tensor(edges.features)
    if has_loops:
        edges_of_graph, edge_features = with_loops(edges_of_graph, edge_features)
    return Graph(features, edges_of_graph, edge_features, position_encodings=position_encodings)


def optional_tensor(features: np.ndarray) -> torch.Tensor | None:
    """Features as a tensor; None where there are none."""
    return torch.from_numpy(features) if features.shape[1] else None


def with_loops(edges: Edges, features: torch.Tensor | None) -> tuple[Edges, torch.Tensor | None]:
    """The edges and a loop of each node that had none; one more feature marks the new loops, if there are any."""
    looped = edges.with_self_loops()
    if features is None:
        return looped, None

    num_added = len(looped.senders) - len(features)
    marked = F.pad(features.new_ones(num_added, 1), (features.shape[1], 0))
    return looped, torch.cat([F.pad(features, (0, 1)), marked])


def filled_edges(edges: EdgeList, imputer: Imputer, settings: NodeSettings) -> EdgeList:
    """The edges with their missing numbers filled; which those were is a further feature, but beside a weight.

    Raises:
        DataError: a number is missing, and the model fills none.
    """
    check_filled(edges, imputer)
    features = imputer.complete(edges.features, are_marked=not settings.spec.reads_edge_weights)
    return replace(edges, features=features)


def check_filled(edges: EdgeList, imputer: Imputer) -> None:
    """Raise a DataError where a number of an edge is missing, and the model fills none."""
    if not imputer.median and np.isnan(edges.features).any():
        raise DataError("edge_features holds NaN, which the model does not fill: it was trained with missing='drop'.")


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


def edge_imputer(edges: EdgeList | StoredNodeData, *, imputes: bool) -> Imputer:
    """What fills missing numbers of edges; nothing where the run drops them."""
    if not imputes:
        return Imputer()
    if isinstance(edges, EdgeList):
        return Imputer.fit([edges.features])
    # No word is missing, and there may be many: they are not read.
    parts = [numbers for _, _, numbers in edges.edge_numbers()]
    of_numbers = Imputer.fit(parts) if parts else Imputer()
    num_words = edges.num_edge_features - len(of_numbers.median)
    return replace(of_numbers, median=(*of_numbers.median, *[0.0] * num_words))


def num_filled_edge_inputs(num_columns: int, imputer: Imputer, settings: NodeSettings) -> int:
    """The same where they are filled: also what says which numbers were, and which edges are added by the model."""
    num_added = len(EDGE_TYPES) if settings.is_extended else 0
    return num_edge_inputs(num_columns + num_edge_marks(imputer, settings), settings, num_added)


def num_edge_marks(imputer: Imputer, settings: NodeSettings) -> int:
    """Features of an edge that say which numbers were filled."""
    return 0 if settings.spec.reads_edge_weights else len(imputer.marked)
