"""`StoredGraph`: what reads a graph that does not fit into memory."""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from edgewise.graph.record import Record


@runtime_checkable
class StoredGraph(Protocol):
    """A graph that does not fit into memory: its features and edges are stored in files."""

    num_nodes: int
    """The number of nodes."""

    def features(self, nodes: np.ndarray) -> Tensor:
        """The features of some nodes, in model units."""

    def parts(self, nodes: np.ndarray, width: int, *, with_edges: bool) -> Iterator[tuple[np.ndarray, Record, int]]:
        """Some nodes in turn, as many at a time as fit: the nodes of a part, which begins with its own, then has their
        neighbors; the part as a `Graph` without features; and how many nodes are its own.

        Args:
            nodes: by number, ascending.
            width: the numbers that a node has before or after a step.
            with_edges: whether neighbors are needed.
        """

    def scratch(self, shape: tuple[int, int]) -> np.ndarray:
        """An array of float32 in a temporary file, which is removed with the array."""
