"""Graphs that lie one behind the other, and a few of them as one graph: their disjoint union, by index arithmetic."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from edgewise.neighborhood import Edges


@dataclass(frozen=True, eq=False)
class Union:
    """Some graphs of many as one, in the order they were asked for."""

    nodes: Int64[np.ndarray, " node"]
    """Where each of its nodes stands among the nodes of all graphs."""
    edge_places: Int64[np.ndarray, " edge"]
    """Where each of its edges stands among the edges of all graphs."""
    edges: Edges
    """Its edges, nodes counted within the union."""
    offsets: Int64[Tensor, " boundary"]
    """Nodes of graph g are `offsets[g]:offsets[g + 1]`."""

    @classmethod
    def of(
        cls,
        graphs: np.ndarray,
        node_offsets: Int64[Tensor, " boundary"],
        edge_offsets: Int64[Tensor, " boundary"],
        senders: Int64[Tensor, " every_edge"],
        receivers: Int64[Tensor, " every_edge"],
    ) -> "Union":
        """The union of some graphs.

        Args:
            graphs: their places.
            node_offsets, edge_offsets: nodes and edges of graph g are `offsets[g]:offsets[g + 1]`.
            senders, receivers: of all edges, nodes counted within their graph.

        Cost: proportional to the nodes and edges of the union, without a loop over graphs.
        """
        nodes, offsets = _runs(node_offsets.numpy(), graphs)
        places, edge_offsets_here = _runs(edge_offsets.numpy(), graphs)
        shift = torch.from_numpy(np.repeat(offsets[:-1], np.diff(edge_offsets_here)))
        edges = Edges(take(senders, places) + shift, take(receivers, places) + shift, len(nodes), len(nodes))
        return cls(nodes, places, edges, torch.from_numpy(offsets))


def offsets_of(counts: Sequence[int] | np.ndarray) -> np.ndarray:
    """Where each of some runs begins, and where the last one ends."""
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def take(values: Tensor, index: np.ndarray) -> Tensor:
    """`values[index]` through numpy: torch would wake its threads for a copy that takes microseconds."""
    return torch.from_numpy(values.numpy().take(index, axis=0))


def _runs(boundaries: np.ndarray, graphs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every index in the runs `boundaries[g]:boundaries[g + 1]` of the graphs, and the offsets of the runs."""
    starts = boundaries[graphs]
    counts = boundaries[graphs + 1] - starts
    offsets = offsets_of(counts)
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], counts), offsets
