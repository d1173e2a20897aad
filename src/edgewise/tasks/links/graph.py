"""A graph as models of links take it: the names of its nodes, their features, their edges."""

import json
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from edgewise.data.graphs.edges import EdgeList
from edgewise.data.graphs.node_features import NodeFeatures
from edgewise.data.graphs.nodes import NodeTable
from edgewise.errors import DataError
from edgewise.plural import plural

ARRAYS: dict[str, tuple[int, type[np.generic]]] = {
    "senders": (1, np.int64),
    "receivers": (1, np.int64),
    "edge_features": (2, np.floating),
    "feature_rows": (1, np.int64),
    "feature_columns": (1, np.int64),
    "feature_values": (1, np.floating),
    "feature_shape": (1, np.int64),
    "names": (1, np.uint8),
}
"""The arrays of a graph in a file: axes and type of each."""
MAX_UNNAMED = 1 << 24
"""Nodes without names that a small file may have; a large one may have 16 for each number in it."""


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
        """What nodes without names are called: 0, 1, 2, …"""
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
        """What `to_tensors` made.

        Raises:
            DataError: an array is missing, or they do not fit together.
        """
        arrays = {name.removeprefix("graph."): tensor.numpy() for name, tensor in tensors.items()}
        if arrays.keys() != ARRAYS.keys():
            raise DataError(f"{', '.join(sorted(arrays.keys() ^ ARRAYS.keys()))}: missing or not known.")
        for name, (rank, kind) in ARRAYS.items():
            if arrays[name].ndim != rank or not np.issubdtype(arrays[name].dtype, kind):
                raise DataError(f"{name} is {arrays[name].dtype} {arrays[name].shape}.")
        if arrays["feature_shape"].shape != (2,) or arrays["feature_shape"].min() < 0:
            raise DataError("feature_shape is no pair of counts.")
        num_nodes, num_features = map(int, arrays["feature_shape"])
        for name, limit, length in (
            ("senders", num_nodes, len(arrays["edge_features"])),
            ("receivers", num_nodes, len(arrays["edge_features"])),
            ("feature_rows", num_nodes, len(arrays["feature_values"])),
            ("feature_columns", num_features, len(arrays["feature_values"])),
        ):
            found = arrays[name]
            if len(found) != length or (length and not 0 <= found.min() <= found.max() < limit):
                raise DataError(f"{name} does not fit the other arrays.")
        if not (np.isfinite(arrays["edge_features"]).all() and np.isfinite(arrays["feature_values"]).all()):
            raise DataError("a feature is not finite.")
        features = NodeFeatures.of_entries(
            arrays["feature_rows"], arrays["feature_columns"], arrays["feature_values"], (num_nodes, num_features)
        )
        edges = EdgeList(arrays["senders"], arrays["receivers"], arrays["edge_features"])
        written = arrays["names"].tobytes()
        try:
            names = json.loads(written) if written else None
        except (ValueError, RecursionError) as error:
            raise DataError(f"the names of the nodes cannot be read: {error}") from error
        if names is None:
            # A count alone could ask for any amount of memory.
            if num_nodes > max(MAX_UNNAMED, 16 * sum(array.size for array in arrays.values())):
                raise DataError(f"feature_shape has {plural(num_nodes, 'node')}, but the other arrays are small.")
            names = list(map(str, range(num_nodes)))
        if not isinstance(names, list) or len(names) != num_nodes or not all(isinstance(each, str) for each in names):
            raise DataError(f"expected the names of {plural(num_nodes, 'node')}.")
        return cls(source, tuple(names), features, edges)
