"""The incoming edges of each node, as the sampling kernels read them: made once for a graph."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from edgewise.errors import DataError, ShapeError, UnsupportedError, plural
from edgewise.graph import Graph
from edgewise.neighborhood import plan
from edgewise.neighborhood.index import plain


@dataclass(frozen=True, eq=False)
class Incoming:
    """The edges of a graph grouped by receiver; those of a receiver by type, and those of a type by time.

    Arrays are int32 where all numbers of nodes and edges are below 2³¹, else int64.
    """

    offsets: np.ndarray
    """(node + 1): the edges of node i are at `offsets[i]:offsets[i + 1]`."""
    links: np.ndarray
    """(edge, 2): the sender of each edge, and its index in the graph; in one array, as both are read together."""
    types: np.ndarray
    """(edge), int32: the type of each edge; empty if there is a single type."""
    times: np.ndarray
    """(edge), int64: the time of each edge, from `ordered`; empty without times."""
    cumulative: np.ndarray
    """(edge), float64: cumulative weights of the edges of a receiver and type; empty without weights."""
    is_trusted: bool = False
    """Whether the arrays are known to be valid, such as those of a file with a checksum, and need no check."""
    _tables: list[np.ndarray] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def of(cls, graph: Graph, weights: Any = None, edge_times: Any = None) -> "Incoming":
        """The incoming edges of a graph. Edges of weight 0 are left out, as they are never sampled.

        Raises:
            ShapeError: weights or times are not one number for each edge.
            DataError: a weight is negative, NaN or infinite, or a time is NaN.
            UnsupportedError: numba cannot be used.

        Cost: O(edge + node), and a sort of the edges if they have types or times.
        """
        sort = plan.counting_sort()
        if sort is None:
            raise UnsupportedError(
                "NeighborSampler: numba cannot be used; pip install numba, and unset NUMBA_DISABLE_JIT."
            )

        edges, num_nodes = graph.edges, graph.num_nodes
        if edges.senders.device.type != "cpu":
            raise ShapeError(
                f"NeighborSampler: the graph is on {edges.senders.device}, but is sampled on the CPU: graph.to('cpu')."
            )

        senders, receivers = edges.senders.contiguous().numpy(), edges.receivers.contiguous().numpy()
        weight = None if weights is None else checked_weights(per_edge("weights", weights, graph.num_edges))
        times = None if edge_times is None else checked_times(per_edge("edge_times", edge_times, graph.num_edges))

        types = None if graph.edge_types is None else graph.edge_types.of_row.numpy().astype(np.int32)
        order = None if weight is None or weight.all() else np.flatnonzero(weight)
        if types is not None or times is not None:
            sorts = [column if order is None else column[order] for column in (times, types) if column is not None]
            by_type = np.lexsort(sorts)
            order = by_type if order is None else order[by_type]

        if order is not None:
            senders, receivers = senders[order], receivers[order]
        dtype = np.int32 if max(num_nodes, graph.num_edges) < plan.INT32_LIMIT else np.int64
        offsets, links = np.zeros(num_nodes + 1, dtype), np.empty((len(senders), 2), dtype)
        sort(receivers.view(np.uint64), senders, offsets, links[:, 0], links[:, 1])
        if order is not None:
            links[:, 1] = order[links[:, 1]]
        edge_indices = links[:, 1]
        incoming = cls(
            offsets,
            links,
            np.empty(0, np.int32) if types is None else types[edge_indices],
            np.empty(0, np.int64) if times is None else times[edge_indices],
            np.empty(0) if weight is None else weight[edge_indices],
            is_trusted=True,
        )

        if weight is not None:
            from edgewise.sampling.kernels import accumulate

            accumulate(incoming.offsets, incoming.types, incoming.cumulative)
            if not np.isfinite(incoming.cumulative).all():
                raise DataError("NeighborSampler: the weights of a node add up to infinity; divide all by the largest.")

        return incoming

    def complete(self, graph: Graph) -> "Incoming":
        """All incoming edges of a graph, where these lack its edges of weight 0; else these."""
        return self if len(self.links) >= graph.num_edges else Incoming.of(graph)

    def check(self, num_nodes: int, num_types: int) -> None:
        """Raise a ShapeError unless kernels, which do not check bounds, can read these arrays.

        Cost: O(1) if the arrays are trusted, else O(edge + node).
        """
        count = len(self.links)
        columns = self.types, self.times, self.cumulative
        dtype_kinds = [array.dtype.kind for array in (self.offsets, self.links, *columns)]

        fits = self.offsets.shape == (num_nodes + 1,) and self.links.shape == (count, 2) and dtype_kinds == [*"iiiif"]
        if not fits or any(column.shape not in ((0,), (count,)) for column in columns):
            arrays = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
            received = ", ".join(f"{name} {array.dtype} {array.shape}" for name, array in arrays.items())
            raise ShapeError(
                f"NeighborSampler: incoming must have offsets ({num_nodes + 1},) of integers, one more than "
                f"nodes, links (edge, 2), and types, times and cumulative (edge,) or empty, not {received}."
            )
        if self.is_trusted:
            return

        first, last = int(self.offsets[0]), int(self.offsets[-1])
        if first != 0 or last != count or (self.offsets[1:] < self.offsets[:-1]).any():
            raise ShapeError(
                f"NeighborSampler: offsets of incoming must begin at 0, not fall, and end at {count}, its number of "
                f"edges; they go from {first} to {last}."
            )

        for name, numbers, size in (("links", self.links[:, 0], num_nodes), ("types", self.types, num_types)):
            if numbers.size and not 0 <= int(numbers.min()) <= int(numbers.max()) < size:
                outside = int(numbers.min()) if numbers.min() < 0 else int(numbers.max())
                raise ShapeError(f"NeighborSampler: {name} of incoming must lie in 0 … {size - 1}; found {outside}.")

    @contextmanager
    def index_table(self, is_needed: bool = True) -> Iterator[np.ndarray]:
        """A table with an index for each node, for one thread at a time; its content is arbitrary."""
        if not is_needed:
            yield np.empty(0, np.int32)
            return
        try:
            table = self._tables.pop()
        except IndexError:  # all are in use
            table = np.zeros(len(self.offsets) - 1, np.int32)
        try:
            yield table
        finally:
            self._tables.append(table)


def per_edge(name: str, values: Any, num_edges: int) -> np.ndarray:
    """One number for each edge."""
    tensor = plain(torch.as_tensor(values, device="cpu")).detach().cpu()
    if tensor.shape != (num_edges,) or tensor.is_complex() or tensor.dtype == torch.bool:
        raise ShapeError(
            f"NeighborSampler: {name} is {tuple(tensor.shape)} of {tensor.dtype}; expected one number for each of "
            f"{plural(num_edges, 'edge')}, ({num_edges},)."
        )
    return (tensor.double() if tensor.is_floating_point() else tensor.long()).numpy()


def checked_weights(weights: np.ndarray) -> np.ndarray:
    """Weights in float64, checked to be finite and non-negative."""
    weights = weights.astype(np.float64)
    invalid = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if invalid.size:
        raise DataError(
            f"NeighborSampler: the weight of edge {invalid[0]} is {weights[invalid[0]]:g}; expected zero or more, "
            f"finite."
        )
    return weights


def checked_times(times: np.ndarray) -> np.ndarray:
    """Times as integers in the same order."""
    if times.dtype.kind == "f" and np.isnan(times).any():
        raise DataError(f"NeighborSampler: time {np.flatnonzero(np.isnan(times))[0]} is NaN; expected a number.")
    return ordered(times)


def whole(times: np.ndarray) -> np.ndarray:
    """Whole numbers in float64 as int64: the largest or least of it for those beyond, and for infinity.

    >>> whole(np.array([-np.inf, -2.0, 1e30])).tolist()
    [-9223372036854775808, -2, 9223372036854775807]
    """
    limits = np.iinfo(np.int64)
    is_beyond = times >= 2.0**63
    return np.where(is_beyond, limits.max, np.where(is_beyond, 0.0, times).clip(min=-(2.0**63)).astype(np.int64))


def ordered(times: np.ndarray) -> np.ndarray:
    """Numbers as int64 in the same order, so that one kernel serves all dtypes.

    The bits of positive floats increase with the value; those of negative ones decrease, and are inverted.

    >>> ordered(np.array([-2.5, -0.0, 0.0, 1e-300, 3.0])).argsort(kind="stable").tolist()
    [0, 1, 2, 3, 4]
    """
    if times.dtype.kind != "f":
        return times
    bits = (times + 0.0).view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)
