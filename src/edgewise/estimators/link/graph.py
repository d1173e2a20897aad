"""A graph as whoever tells its links takes it: what its nodes are called, what is known of them, their edges."""

import json
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from edgewise.data.edges import EdgeList
from edgewise.data.node_features import NodeFeatures
from edgewise.data.nodes import NodeTable


@dataclass(frozen=True, eq=False)
class LinkGraph:
    """Nodes and the edges between them."""

    source: str
    """What messages call it."""
    names: tuple[str, ...]
    """What the nodes are called."""
    features: NodeFeatures
    """What is known of each; of size 0 where nothing is."""
    edges: EdgeList
    """All edges, both ways where they go both ways."""

    @classmethod
    def of(cls, table: NodeTable) -> Self:
        """That of a table of nodes."""
        return cls(table.source, table.names, table.features, table.edges)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def counted_names(self) -> tuple[str, ...]:
        """What the nodes are called where nobody names them: 0, 1, 2, …"""
        return tuple(map(str, range(len(self))))

    def to_tensors(self) -> dict[str, Tensor]:
        """All of it as tensors, for a file."""
        arrays: dict[str, Any] = {
            "graph.senders": self.edges.senders,
            "graph.receivers": self.edges.receivers,
            "graph.edge_features": self.edges.features,
            "graph.feature_rows": self.features.rows,
            "graph.feature_columns": self.features.columns,
            "graph.feature_values": self.features.values,
            "graph.feature_shape": np.array(self.features.shape),
        }
        names = "" if self.names == self.counted_names else json.dumps(self.names)
        arrays["graph.names"] = np.frombuffer(names.encode(), dtype=np.uint8).copy()
        return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], source: str) -> Self:
        """What `to_tensors` made."""
        arrays = {name.removeprefix("graph."): tensor.numpy() for name, tensor in tensors.items()}
        num_nodes, num_features = map(int, arrays["feature_shape"])
        features = NodeFeatures(
            arrays["feature_rows"], arrays["feature_columns"], arrays["feature_values"], (num_nodes, num_features)
        )
        edges = EdgeList(arrays["senders"], arrays["receivers"], arrays["edge_features"])
        names = arrays["names"].tobytes().decode()
        listed = json.loads(names) if names else map(str, range(num_nodes))
        return cls(source, tuple(listed), features, edges)
