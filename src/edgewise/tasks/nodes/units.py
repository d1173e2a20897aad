"""A graph in the units of a model: features of its nodes scaled, loops added where a model wants them."""

from typing import Literal, TypeAlias, cast

import numpy as np
import torch
import torch.nn.functional as F

from edgewise.data.graphs.edges import EdgeList
from edgewise.data.graphs.node_features import NodeFeatures
from edgewise.data.graphs.types import GraphTypes, TypeScaler
from edgewise.data.scale import ConditionScaler
from edgewise.errors import DataError
from edgewise.neighborhood import Edges
from edgewise.records import NodeBatch, SparseFeatures
from edgewise.tasks.nodes.types import by_type

FeatureScale: TypeAlias = Literal["rows", "standard", "none"]
"""Features as parts of their sum over a node, in units of their spread, or as they are."""


def scale_of(
    features: NodeFeatures, chosen: str, types: GraphTypes | None = None
) -> tuple[FeatureScale, ConditionScaler | TypeScaler | None]:
    """How features are scaled (rows, standard or none) where `chosen` may be auto, and their spread over all nodes, or
    over those of each type."""
    if chosen == "auto":
        chosen = "rows" if features.are_words else "standard"
    scale: FeatureScale = cast(FeatureScale, chosen)
    if scale != "standard":
        return scale, None
    values = features.to_dense().astype(np.float64)
    if types is not None:
        return scale, TypeScaler.fit(values, types.of_node, types.names.features)
    return scale, ConditionScaler.fit(values, np.arange(features.shape[0]))


def scaled(
    features: NodeFeatures, scale: str, scaler: ConditionScaler | TypeScaler | None, types: GraphTypes | None = None
) -> torch.Tensor | SparseFeatures:
    """What is known of each node in the units of a model."""
    if isinstance(scaler, ConditionScaler):
        found = scaler.transform(features.to_dense().astype(np.float64))
        return torch.from_numpy(found.astype(np.float32))
    are_sparse = scaler is None and features.are_sparse
    if scale == "rows":
        sums = np.bincount(features.rows, np.abs(features.values), minlength=features.shape[0])
        shares = (features.values / sums[features.rows]).astype(np.float32)
        features = NodeFeatures.of_entries(features.rows, features.columns, shares, features.shape)
    if types is not None:
        features = by_type(features, types, scaler)
    if not are_sparse:
        return torch.from_numpy(features.to_dense())
    num_nodes, num_features = features.shape
    entries = Edges(torch.from_numpy(features.columns), torch.from_numpy(features.rows), num_features, num_nodes)
    return SparseFeatures(entries, torch.from_numpy(features.values))


def check_features(source: str, known: tuple[int, int], given: tuple[int, int]) -> None:
    """Raise a DataError where nodes or edges have another number of features than those of the training graph."""
    for what, expected, count in zip(("nodes", "edges"), known, given, strict=True):
        if count != expected:
            raise DataError(f"{source}: its {what} have {count} features, but the model was trained on {expected}.")


def graph_batch(features: torch.Tensor | SparseFeatures, edges: EdgeList, has_loops: bool) -> NodeBatch:
    """A graph without rows, in the units of a model."""
    count, of_edges = features.shape[0], torch.from_numpy(edges.features)
    among = Edges(torch.from_numpy(edges.senders), torch.from_numpy(edges.receivers), count, count)
    if has_loops:
        among, of_edges = with_loops(among, of_edges)
    return NodeBatch(features, among, of_edges, torch.zeros(0, dtype=torch.int64))


def with_loops(edges: Edges, features: torch.Tensor) -> tuple[Edges, torch.Tensor]:
    """The edges and a loop of each node that had none; one more feature marks the new loops, if there are any."""
    looped = edges.with_self_loops()
    if not features.shape[1]:
        return looped, features.new_zeros(len(looped.senders), 0)
    num_added = len(looped.senders) - len(features)
    marked = F.pad(features.new_ones(num_added, 1), (features.shape[1], 0))
    return looped, torch.cat([F.pad(features, (0, 1)), marked])
