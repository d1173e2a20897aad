"""The graph whose links are learned, which a trained model keeps: as arrays, and as tensors of a file."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from edgewise.errors import DataError, plural
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.readers.graphs.node_features import NodeFeatures
from edgewise.learn.readers.graphs.nodes import NodeData

PREFIX = "graph."
"""What the names of its tensors begin with."""
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
UNREADABLE: dict[str, tuple[int, type[np.generic]]] = {"rejected_ends": (2, np.int64), "unread": (1, np.int64)}
"""The same of what could not be read: the ends of edges, and nodes; a file may lack them."""
MAX_UNNAMED = 1 << 24
"""Nodes without names that a small file may have; a large one may have 16 for each number in it."""


@dataclass(frozen=True, eq=False)
class LinkGraph:
    """Nodes and the edges between them."""

    source: str
    """What messages call it."""
    names: tuple[str, ...]
    """The names of the nodes."""
    features: NodeFeatures
    """The features of each node; of size 0 without features."""
    edges: EdgeList
    """All edges, both ways where they go both ways."""
    unread: Sequence[int] = ()
    """The nodes whose features cannot be read, and are 0."""

    @classmethod
    def of(cls, data: NodeData) -> "LinkGraph":
        """That of a table of nodes."""
        return cls(data.rows.source, data.names, data.features, data.edges, data.rows.unread)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def are_numbered(self) -> bool:
        """Whether nodes are called 0, 1, 2, …"""
        return self.names == tuple(map(str, range(len(self))))

    def to_tensors(self) -> dict[str, Tensor]:
        """All of it as tensors, for a file."""
        names = "" if self.are_numbered else json.dumps(self.names)
        arrays: dict[str, np.ndarray] = {
            "senders": self.edges.senders,
            "receivers": self.edges.receivers,
            "edge_features": self.edges.features,
            "feature_rows": self.features.rows,
            "feature_columns": self.features.columns,
            "feature_values": self.features.values,
            "feature_shape": np.array(self.features.shape),
            "names": np.frombuffer(names.encode(), dtype=np.uint8).copy(),
            "rejected_ends": self.edges.rejected_ends,
            "unread": np.array(self.unread, dtype=np.int64),
        }
        return {PREFIX + name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> "LinkGraph":
        """What `to_tensors` made, taken out of the tensors of a file.

        Raises:
            DataError: an array is missing, or they do not fit together.
        """
        in_file = [name for name in tensors if name.startswith(PREFIX)]
        arrays = {name.removeprefix(PREFIX): tensors.pop(name).numpy() for name in in_file}
        arrays = {"rejected_ends": np.zeros((0, 2), np.int64), "unread": np.zeros(0, np.int64), **arrays}
        _check_arrays(arrays)

        num_nodes, num_features = map(int, arrays["feature_shape"])
        entries = arrays["feature_rows"], arrays["feature_columns"], arrays["feature_values"]
        features = NodeFeatures.of_entries(*entries, (num_nodes, num_features))
        edges = EdgeList(
            arrays["senders"], arrays["receivers"], arrays["edge_features"], rejected_ends=arrays["rejected_ends"]
        )
        return cls("the graph of the training", _names_of(arrays), features, edges, arrays["unread"].tolist())


def _check_arrays(arrays: dict[str, np.ndarray]) -> None:
    """Raise DataError unless the arrays of a file fit together."""
    expected = ARRAYS | UNREADABLE
    if arrays.keys() != expected.keys():
        raise DataError(f"{', '.join(sorted(arrays.keys() ^ expected.keys()))}: missing or unknown.")
    for name, (num_axes, dtype) in expected.items():
        if arrays[name].ndim != num_axes or not np.issubdtype(arrays[name].dtype, dtype):
            raise DataError(f"{name} is {arrays[name].dtype} {arrays[name].shape}.")
    if arrays["feature_shape"].shape != (2,) or arrays["feature_shape"].min() < 0:
        raise DataError("feature_shape is not a pair of counts.")

    num_nodes, num_features = map(int, arrays["feature_shape"])
    for name, limit, length in (
        ("senders", num_nodes, len(arrays["edge_features"])),
        ("receivers", num_nodes, len(arrays["edge_features"])),
        ("feature_rows", num_nodes, len(arrays["feature_values"])),
        ("feature_columns", num_features, len(arrays["feature_values"])),
    ):
        indices = arrays[name]
        if len(indices) != length or (length and not 0 <= indices.min() <= indices.max() < limit):
            raise DataError(f"{name} does not fit the other arrays.")
    ends, unread = arrays["rejected_ends"], arrays["unread"]
    if ends.shape[1] != 2 or (len(ends) and not -1 <= ends.min() <= ends.max() < num_nodes):
        raise DataError("rejected_ends does not fit the other arrays.")
    if len(unread) and not 0 <= unread.min() <= unread.max() < num_nodes:
        raise DataError("unread does not fit the other arrays.")
    if any(np.isinf(arrays[name]).any() for name in ("edge_features", "feature_values")):
        raise DataError("a feature is not finite.")


def _names_of(arrays: dict[str, np.ndarray]) -> tuple[str, ...]:
    """The names of the nodes, or their numbers where they have none.

    Raises:
        DataError: they cannot be read, or there are more or fewer than nodes.
    """
    num_nodes, written = int(arrays["feature_shape"][0]), arrays["names"].tobytes()
    if not written:
        # A count alone could ask for any amount of memory.
        if num_nodes > max(MAX_UNNAMED, 16 * sum(array.size for array in arrays.values())):
            raise DataError(f"feature_shape has {plural(num_nodes, 'node')}, but the other arrays are small.")
        return tuple(map(str, range(num_nodes)))

    try:
        names: object = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise DataError(f"the names of the nodes cannot be read: {error}") from error
    if not isinstance(names, list) or len(names) != num_nodes or not all(isinstance(name, str) for name in names):
        raise DataError(f"expected the names of {plural(num_nodes, 'node')}.")
    return tuple(names)
