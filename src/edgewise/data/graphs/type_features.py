"""Features of nodes of several kinds: scaled kind by kind, and those of each kind side by side."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from edgewise.data.graphs.node_features import NodeFeatures
from edgewise.data.scale import ConditionScaler

OfKinds = Sequence[Sequence[int]]
"""The columns of each kind."""


@dataclass(frozen=True)
class KindScaler:
    """The features of each kind in units of their spread over the nodes of that kind."""

    scalers: tuple[ConditionScaler, ...]
    """One a kind, for its own columns."""

    @classmethod
    def fit(
        cls, values: Float[np.ndarray, " node feature"], of_node: Int64[np.ndarray, " node"], columns: OfKinds
    ) -> "KindScaler":
        """Learn from all nodes of a graph, which is learned whole."""
        everywhere = np.arange(len(values))
        return cls(
            tuple(
                ConditionScaler.fit(values[:, list(own)], everywhere[of_node == kind])
                for kind, own in enumerate(columns)
            )
        )

    @property
    def num_features(self) -> tuple[int, ...]:
        """How many numbers come out for each kind."""
        return tuple(scaler.num_features for scaler in self.scalers)

    def transform(
        self, values: Float[np.ndarray, " node feature"], of_node: Int64[np.ndarray, " node"], columns: OfKinds
    ) -> Float[np.ndarray, " node kind_feature"]:
        """The features of each node's kind, scaled; 0 behind them where other kinds have more."""
        found = np.zeros((len(values), max(self.num_features, default=0)))
        for kind, (scaler, own) in enumerate(zip(self.scalers, columns, strict=True)):
            rows = of_node == kind
            found[rows, : scaler.num_features] = scaler.transform(values[rows][:, list(own)])
        return found

    def to_json(self) -> str:
        """One line that `from_json` turns back into exactly the same numbers."""
        return json.dumps([scaler.to_json() for scaler in self.scalers])

    @classmethod
    def from_json(cls, text: str) -> "KindScaler":
        """The scaler that `to_json` wrote."""
        return cls(tuple(ConditionScaler.from_json(line) for line in json.loads(text)))


def side_by_side(features: NodeFeatures, of_node: Int64[np.ndarray, " node"], columns: OfKinds) -> NodeFeatures:
    """The features of each kind from column 0 on; those of other kinds are left out, being 0."""
    place = np.full((len(columns), features.shape[1]), -1)
    for kind, own in enumerate(columns):
        place[kind, np.array(own, dtype=np.int64)] = np.arange(len(own))
    found = place[of_node[features.rows], features.columns]
    kept = found >= 0
    width = max((len(own) for own in columns), default=0)
    return NodeFeatures.of_entries(features.rows[kept], found[kept], features.values[kept], (features.shape[0], width))


def one_behind_another(features: NodeFeatures, of_node: Int64[np.ndarray, " node"], columns: OfKinds) -> NodeFeatures:
    """Features that stand side by side counted kind after kind, so that no two kinds share one."""
    starts = np.cumsum([0, *(len(own) for own in columns)])
    shifted = features.columns + starts[of_node[features.rows]]
    return NodeFeatures.of_entries(features.rows, shifted, features.values, (features.shape[0], int(starts[-1])))
