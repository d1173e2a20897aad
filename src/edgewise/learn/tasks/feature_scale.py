"""How features of nodes are scaled, `feature_scale` of runs over one graph: what auto chooses, and the arithmetic.

    rows        x' = x / Σ|x| over the features of the node
    standard    `tables.scale.ColumnScaler` over all nodes, or `TypeScaler` over those of each type
    none        x' = x

Features that are sparse stay so, but for standard.
"""

from typing import Literal, TypeAlias, cast

import numpy as np
import torch

from edgewise.graph import SparseFeatures
from edgewise.learn.readers.graphs.node_features import NodeFeatures
from edgewise.learn.readers.graphs.type_features import TypeScaler, in_own_columns, left_aligned
from edgewise.learn.readers.graphs.types import GraphTypes
from edgewise.learn.readers.store.data import StoredFeatures
from edgewise.learn.tables.impute import Imputer
from edgewise.learn.tables.scale import ColumnScaler
from edgewise.neighborhood import Edges

NUMBERS_PER_STEP = 2**18
"""Numbers that are scaled together, in double precision."""

FeatureScale: TypeAlias = Literal["rows", "standard", "none"]
"""Features divided by their sum over a node, as z-scores, or as they are."""


def scale_of(
    features: NodeFeatures | StoredFeatures, chosen: str, types: GraphTypes | None = None
) -> tuple[FeatureScale, ColumnScaler | TypeScaler | None]:
    """How features are scaled (rows, standard or none) where `chosen` may be auto, and their spread over all nodes, or
    over those of each type."""
    if chosen == "auto":
        chosen = "rows" if features.are_words else "standard"
    scale: FeatureScale = cast(FeatureScale, chosen)
    if scale != "standard":
        return scale, None
    if types is not None:
        assert isinstance(features, NodeFeatures)
        values = features.to_dense().astype(np.float64)
        return scale, TypeScaler.fit(values, types.of_node, types.names.features)
    imputer = Imputer.fit(features.parts())
    return scale, ColumnScaler.fit_parts(features.parts, keep_one=True, imputer=imputer)


def scaled_rows(values: np.ndarray, scale: str, scaler: ColumnScaler | TypeScaler | None) -> torch.Tensor:
    """The features of some nodes, `(node, feature)`, in the units of a model."""
    if isinstance(scaler, ColumnScaler):
        scaled_values = np.empty((len(values), scaler.num_features), np.float32)
        num_rows = max(1, NUMBERS_PER_STEP // max(1, values.shape[1]))
        for start in range(0, len(values), num_rows):
            rows = slice(start, start + num_rows)
            scaled_values[rows] = scaler.transform(values[rows].astype(np.float64))
        return torch.from_numpy(scaled_values)

    if scale == "rows":
        sums = np.abs(values).sum(axis=1, keepdims=True)
        values = values / np.where(sums > 0, sums, 1)
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))


def scaled(
    features: NodeFeatures, scale: str, scaler: ColumnScaler | TypeScaler | None, types: GraphTypes | None = None
) -> torch.Tensor | SparseFeatures:
    """The features of each node in the units of a model."""
    if isinstance(scaler, ColumnScaler):
        return scaled_rows(features.to_dense(), scale, scaler)

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


def by_type(features: NodeFeatures, types: GraphTypes, scaler: TypeScaler | None) -> NodeFeatures:
    """The features of each type side by side, in units of their spread where there is a scaler.

    What stays sparse is counted type after type, as `TypedLinear` takes it.
    """
    columns = types.names.features
    if scaler is not None:
        return NodeFeatures.of(scaler.transform(features.to_dense().astype(np.float64), types.of_node, columns))
    aligned = left_aligned(features, types.of_node, columns)
    return in_own_columns(aligned, types.of_node, columns) if features.are_sparse else aligned
