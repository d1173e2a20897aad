"""The features of nodes of several types: each has columns of its own, and a scale for them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from edgewise.learn.readers.graphs.node_features import NodeFeatures
from edgewise.learn.tables.scale import ColumnScaler

ColumnsOfTypes = Sequence[Sequence[int]]
"""The feature columns of each type."""


@dataclass(frozen=True)
class TypeScaler:
    """Scales the features of each type by their mean and spread over the nodes of that type."""

    scalers: tuple[ColumnScaler, ...]
    """One for each type, for its own columns."""

    @classmethod
    def fit(
        cls, values: Float[np.ndarray, " node feature"], of_node: Int64[np.ndarray, " node"], columns: ColumnsOfTypes
    ) -> "TypeScaler":
        """Fit on all nodes of a graph."""
        everywhere = np.arange(len(values))
        scalers = (
            ColumnScaler.fit(values[:, list(columns_of_type)], everywhere[of_node == number], keep_one=True)
            for number, columns_of_type in enumerate(columns)
        )
        return cls(tuple(scalers))

    @property
    def num_features(self) -> tuple[int, ...]:
        """The number of scaled features of each type."""
        return tuple(scaler.num_features for scaler in self.scalers)

    @property
    def imputes(self) -> bool:
        """Whether numbers that are missing are filled."""
        return any(scaler.imputes for scaler in self.scalers)

    def without_imputing(self) -> "TypeScaler":
        """The same scales, which fill no numbers."""
        return TypeScaler(tuple(scaler.without_imputing() for scaler in self.scalers))

    def transform(
        self, values: Float[np.ndarray, " node feature"], of_node: Int64[np.ndarray, " node"], columns: ColumnsOfTypes
    ) -> Float[np.ndarray, " node type_feature"]:
        """The features of each node's type, scaled, from column 0 on; then 0."""
        scaled = np.zeros((len(values), max(self.num_features, default=0)))
        for number, (scaler, columns_of_type) in enumerate(zip(self.scalers, columns, strict=True)):
            rows = of_node == number
            scaled[rows, : scaler.num_features] = scaler.transform(values[rows][:, list(columns_of_type)])
        return scaled


def left_aligned(features: NodeFeatures, of_node: Int64[np.ndarray, " node"], columns: ColumnsOfTypes) -> NodeFeatures:
    """The features of each node's type from column 0 on; features of other types, which are 0, are dropped."""
    position = np.full((len(columns), features.shape[1]), -1)
    for number, columns_of_type in enumerate(columns):
        position[number, np.array(columns_of_type, dtype=np.int64)] = np.arange(len(columns_of_type))
    positions = position[of_node[features.rows], features.columns]
    used = positions >= 0
    width = max((len(columns_of_type) for columns_of_type in columns), default=0)
    return NodeFeatures.of_entries(
        features.rows[used], positions[used], features.values[used], (features.shape[0], width)
    )


def in_own_columns(
    features: NodeFeatures, of_node: Int64[np.ndarray, " node"], columns: ColumnsOfTypes
) -> NodeFeatures:
    """Left-aligned features shifted type by type, so that no two types share a column."""
    starts = np.cumsum([0, *(len(columns_of_type) for columns_of_type in columns)])
    shifted = features.columns + starts[of_node[features.rows]]
    return NodeFeatures.of_entries(features.rows, shifted, features.values, (features.shape[0], int(starts[-1])))
