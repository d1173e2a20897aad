"""One graph in the units of a model: degrees as features where no others vary, edges filled, loops added."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
import torch.nn.functional as F

from edgewise.errors import DataError
from edgewise.graph import Graph, SparseFeatures
from edgewise.learn.files import JsonObject
from edgewise.learn.networks.graph_settings import NodeSettings
from edgewise.learn.outputs import scatter_rows
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.readers.graphs.lost import NOWHERE, hops_to_lost
from edgewise.learn.readers.graphs.node_features import Categories, NodeFeatures, check_categories
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.readers.graphs.types import GraphTypes, TypeScaler
from edgewise.learn.readers.store.data import StoredFeatures, StoredNodeData
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tables.impute import Imputer
from edgewise.learn.tables.scale import ColumnScaler
from edgewise.learn.tasks.feature_scale import FeatureScale, scale_of, scaled
from edgewise.learn.tasks.table_notes import names_of_features
from edgewise.neighborhood import Edges

if TYPE_CHECKING:
    from edgewise.learn.readers.graphs.edge_data import EdgeData
    from edgewise.learn.readers.graphs.nodes import NodeData
    from edgewise.learn.tasks.edges.settings import EdgeRunSettings
    from edgewise.learn.tasks.nodes.settings import NodeRunSettings

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
    """Whether the numbers of edges that come and go are features as well, because no other one varies."""
    has_degrees: bool | None = None
    """Whether nothing was known of the nodes in training but their edges; None where a run does not say."""
    categories: Categories = field(default_factory=dict)
    """The words of each column of categories of nodes."""
    edge_categories: Categories = field(default_factory=dict)
    """The words of each column of categories of edges."""

    @classmethod
    def fit(
        cls,
        settings: "NodeRunSettings | EdgeRunSettings",
        data: "NodeData | StoredNodeData | EdgeData",
        nodes: NodeFeatures | StoredFeatures,
        edges: EdgeList | None,
        types: GraphTypes | None = None,
    ) -> Self:
        """The scales of all nodes, which are all seen in training, as the model is trained on the whole graph.

        Args:
            settings: of the run.
            data: the rows.
            nodes: the features of the nodes.
            edges: between the nodes; None where a store has them.
            types: of nodes and edges.
        """
        scale, scaler = scale_of(nodes, settings.feature_scale, types)
        if adds_degrees := lacks_features(scaler, nodes, edges):
            scale, scaler = scale_of(with_degrees(nodes, edges), settings.feature_scale)
        return cls(
            columns=replace(data.rows.columns, missing="impute" if fills(scaler) else "drop"),
            settings=settings.model,
            graph=settings.graph,
            feature_scale=scale,
            scaler=scaler,
            num_columns=nodes.shape[1],
            adds_degrees=adds_degrees,
            has_degrees=data.has_degrees,
            categories=data.categories,
            edge_categories=data.edge_categories if isinstance(data, StoredNodeData) else data.edges.categories,
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

    def names_of_features(self) -> list[str]:
        """The names of the features of nodes, those of words last."""
        words = [f"{column!r} {word!r}" for column, vocabulary in self.categories.items() for word in vocabulary]
        return [*names_of_features(self.columns.descriptors_columns, self.num_columns, self.categories), *words]

    def names_of_edges(self, count: int) -> list[str]:
        """The names of the features of edges, but for words; with these they are `count`."""
        return names_of_features(self.graph.edge_feature_columns, count, self.edge_categories)

    def hops_to_lost(self, edges: EdgeList, num_nodes: int) -> np.ndarray:
        """How far the nearest edge that cannot be read is from each node, as `hops_to_lost` has it."""
        settings = self.settings
        sees_all = settings.is_extended or settings.laplacian_positions > 0 or settings.random_walk_positions > 0
        return hops_to_lost(edges, num_nodes, settings.reach, sees_all=sees_all)

    def hops_from_ends(
        self, edges: EdgeList, num_nodes: int, ends: Sequence[np.ndarray], rows: np.ndarray, num_rows: int
    ) -> np.ndarray:
        """The same from the nearer of both ends, senders and receivers, of some rows; `NOWHERE` for all others."""
        hops = self.hops_to_lost(edges, num_nodes)
        return scatter_rows(np.minimum(*(hops[end] for end in ends)), rows, num_rows, NOWHERE)

    def check(self) -> None:
        """Raise DataError unless the fields fit each other."""
        check_categories("categories", self.categories, self.columns.category_columns)
        check_categories("edge_categories", self.edge_categories, self.graph.edge_category_columns)


def with_degrees(features: NodeFeatures | StoredFeatures, edges: EdgeList | None) -> NodeFeatures | StoredFeatures:
    """The features of nodes and, behind them, the numbers of edges that come and go.

    Args:
        features: of the nodes.
        edges: between them; None where a store has them.
    """
    if isinstance(features, StoredFeatures):
        return replace(features, adds_degrees=True)
    assert edges is not None
    return features.hstack(edges.degrees(features.shape[0]))


def are_degrees(features: np.ndarray | NodeFeatures | StoredFeatures, edges: EdgeList | None) -> bool:
    """Whether the features of nodes are the numbers of edges that come and go, and no others."""
    if isinstance(features, StoredFeatures):
        return features.has_degrees
    assert edges is not None
    table = features.to_dense() if isinstance(features, NodeFeatures) else features
    return np.array_equal(table, edges.degrees(len(table)))


def fills(scaler: ColumnScaler | TypeScaler | None) -> bool:
    """Whether features without a number are filled."""
    if isinstance(scaler, TypeScaler):
        return any(of_type.imputer.median for of_type in scaler.scalers)
    return scaler is not None and bool(scaler.imputer.median)


def lacks_features(
    scaler: ColumnScaler | TypeScaler | None,
    features: np.ndarray | NodeFeatures | StoredFeatures,
    edges: EdgeList | None,
) -> bool:
    """Whether no feature of a node varies, so that all nodes look alike to layers that take means of neighbors.

    Args:
        scaler: of the features.
        features: of the nodes; where they are the numbers of edges already, nothing can be added.
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


def num_edge_features(edges: EdgeList, scaler: ColumnScaler, settings: NodeSettings) -> int:
    """How many features of an edge the layers read where they are scaled; a weight is not."""
    return edges.features.shape[1] if settings.spec.reads_edge_weights else scaler.num_features


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
    if not imputer.median and np.isnan(edges.features).any():
        raise DataError("edge_features holds NaN, which the model does not fill: it was trained with missing='drop'.")
    features = imputer.complete(edges.features, are_marked=not settings.spec.reads_edge_weights)
    return replace(edges, features=features)


def num_edge_marks(imputer: Imputer, settings: NodeSettings) -> int:
    """Features of an edge that say which numbers were filled."""
    return 0 if settings.spec.reads_edge_weights else len(imputer.marked)
