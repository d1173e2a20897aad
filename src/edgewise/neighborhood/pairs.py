"""Neighborhoods: sets of (query, key) pairs; as a list of edges, and their combinations by `&` and `|`."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from edgewise.errors import SettingError, ShapeError
from edgewise.neighborhood.checks import check_edges, joint_batch, joint_sizes, known_sizes, resolved_sizes, whole
from edgewise.neighborhood.drawing import MAX_SIDE, Drawing
from edgewise.neighborhood.index import (
    copied,
    entries,
    integers,
    line_pairs,
    moved,
    outside_modes,
    pairs_among,
    reverse_edges,
    unchecked,
)
from edgewise.neighborhood.plan import Plan

NeighborhoodType = TypeVar("NeighborhoodType", bound="Neighborhood")
JoinedType = TypeVar("JoinedType", bound="Joined")


class Neighborhood:
    """Which keys each query may attend to."""

    def __and__(self, other: "Neighborhood") -> "Neighborhood":
        """The pairs in both; `Causal` and `Window` align within the `Lengths` or `Segments` they are combined with."""
        parts = _parts(self, RangeIntersection, Intersection) + _parts(other, RangeIntersection, Intersection)
        ranges = tuple(part for part in parts if isinstance(part, Ranges))
        others = tuple(part for part in parts if not isinstance(part, Ranges))
        joined = (RangeIntersection(ranges),) if len(ranges) > 1 else ranges
        return Intersection(joined + others) if others else joined[0]

    def __or__(self, other: "Neighborhood") -> "Neighborhood":
        """The pairs in either, each once."""
        return Union(_parts(self, Union) + _parts(other, Union))

    def __rand__(self, other: Any) -> "Neighborhood":
        """Raises: the left operand of `&` or `|` is not a neighborhood."""
        _parts(other)
        return NotImplemented

    __ror__ = __rand__

    @property
    def batch_shape(self) -> torch.Size:
        """The batch axes over which the neighborhood varies; empty if it is the same for all members."""
        return torch.Size()

    @property
    def sizes(self) -> tuple[int | None, int | None]:
        """The number of queries and keys, if the neighborhood determines them."""
        return None, None

    @property
    def fixed_sizes(self) -> tuple[int | None, int | None]:
        """The sizes that a call must have; those of a `Mask` without its axes of size 1, which broadcast."""
        return self.sizes

    def block(self, query: Tensor, key: Tensor, num_queries: int, num_keys: int) -> Tensor:
        """The part of the mask at these query and key positions: `(*batch, len(query), len(key))`, bool."""
        raise NotImplementedError(f"{type(self).__name__} has no block().")

    def key_span(self, query_start: int, query_stop: int, num_queries: int, num_keys: int) -> tuple[int, int]:
        """A range of keys that contains all neighbors of queries `query_start:query_stop`."""
        return 0, num_keys

    def with_head_axis(self: NeighborhoodType) -> NeighborhoodType:
        """The same neighborhood for tensors with one more batch axis, heads, just before the nodes."""
        return self

    def to(self: NeighborhoodType, device: torch.device | str) -> NeighborhoodType:
        """The same neighborhood with its tensors on `device`."""
        return self

    def to_mask(
        self, num_queries: int | None = None, num_keys: int | None = None, device: Any = None
    ) -> Bool[Tensor, " *batch query key"]:
        """The neighborhood as a table, True where the query may attend to the key.

        Args:
            num_queries, num_keys: required if the neighborhood does not determine them; keys default to queries.
            device: where to build it, for neighborhoods without tensors.

        Raises:
            ShapeError: a size is missing, or differs from that of the neighborhood.
        """
        num_queries, num_keys = self._resolve("to_mask", num_queries, num_keys)
        return self.table(num_queries, num_keys, device).expand(*self.batch_shape, num_queries, num_keys)

    def table(self, num_queries: int, num_keys: int, device: Any = None) -> Tensor:
        """Like `to_mask`, but axes of size 1 of a `Mask` are not expanded."""
        rows, columns = (torch.arange(size, device=self._device(device)) for size in (num_queries, num_keys))
        return self.block(rows, columns, num_queries, num_keys)

    def to_edges(self, num_queries: int | None = None, num_keys: int | None = None, device: Any = None) -> "Edges":
        """The neighborhood as a list of edges, sorted by receiver, then sender (`Edges` keep their own order).

        Args:
            num_queries, num_keys, device: as in `to_mask`.

        Raises:
            ShapeError: a size is missing, or the neighborhood varies over batch axes.
        """
        if any(size != 1 for size in self.batch_shape):
            raise ShapeError(
                f"to_edges: the neighborhood varies over batch axes {tuple(self.batch_shape)}, which a list of "
                "edges cannot; use to_mask(), or Segments for packed members."
            )
        mask = self.to_mask(num_queries, num_keys, device)
        mask = mask.reshape(mask.shape[-2:])  # batch axes of size 1
        receivers, senders = mask.nonzero(as_tuple=True)
        return Edges(senders, receivers, mask.shape[1], mask.shape[0])

    def draw(self, num_queries: int | None = None, num_keys: int | None = None) -> Drawing:
        """The table as text, ■ where a query (line) may attend to a key (column); notebooks show it as squares."""
        return Drawing.of(self.to_mask(num_queries, num_keys))

    def _repr_svg_(self) -> str | None:
        """The drawing for notebooks, if the sizes are determined and small."""
        return self.draw()._repr_svg_() if max(size or MAX_SIDE + 1 for size in self.sizes) <= MAX_SIDE else None

    def _device(self, device: Any) -> Any:
        return device

    def _resolve(self, verb: str, num_queries: int | None, num_keys: int | None) -> tuple[int, int]:
        return resolved_sizes(verb, type(self).__name__, num_queries, num_keys, self.sizes, self.fixed_sizes)


class Frame(NamedTuple):
    """The range of queries and of keys of the batch member of every query; each `(*batch, query)`."""

    query_start: Tensor
    query_stop: Tensor
    key_start: Tensor
    key_stop: Tensor

    def intersect(self, other: "Frame") -> "Frame":
        """The intersection of the ranges."""
        starts = (torch.maximum(self.query_start, other.query_start), torch.maximum(self.key_start, other.key_start))
        stops = torch.minimum(self.query_stop, other.query_stop), torch.minimum(self.key_stop, other.key_stop)
        return Frame(starts[0], stops[0], starts[1], stops[1])


class Ranges(Neighborhood):
    """A neighborhood in which the neighbors of each query are one contiguous run of keys."""

    def frame(self, query: Tensor, num_queries: int, num_keys: int) -> Frame:
        """The ranges of the member (sequence or segment) of each query; by default a single member."""
        zero = torch.zeros_like(query)
        return Frame(zero, zero + num_queries, zero, zero + num_keys)

    def run(self, query: Tensor, frame: Frame) -> tuple[Tensor, Tensor]:
        """First and one past the last neighbor of each query, before clipping to its member."""
        return frame.key_start, frame.key_stop

    def runs(self, query: Tensor, num_queries: int, num_keys: int) -> tuple[Tensor, Tensor]:
        """First and one past the last neighbor of the queries at these positions, `(*batch, query)`.

        An empty run has start == stop. Runs are clipped to the existing keys, as kernels read all keys of a run.
        """
        frame = self.frame(query, num_queries, num_keys)
        start, stop = self.run(query, frame)
        stop = torch.minimum(stop, frame.key_stop).clamp(0, num_keys)
        start = torch.maximum(start, frame.key_start).clamp(0, num_keys)
        return start, torch.maximum(start, stop)

    def kernel_runs(self, query: Tensor, num_queries: int, num_keys: int) -> tuple[Tensor, Tensor]:
        """`runs` for kernels, which do not check bounds: also runs of a user-defined class are validated and clipped.

        Raises:
            ShapeError: they are not one for each query.
        """
        start, stop = self.runs(query, num_queries, num_keys)
        if torch.compiler.is_compiling():
            return start, stop
        if start.shape[-1:] != query.shape or stop.shape[-1:] != query.shape or start.is_floating_point():
            raise ShapeError(
                f"{type(self).__name__}: runs must be whole numbers (*batch, {len(query)}), one for each query, not "
                f"{tuple(start.shape)} and {tuple(stop.shape)} of {start.dtype}."
            )
        if type(self).runs is Ranges.runs:  # which clips them
            return start, stop
        start = start.clamp(0, num_keys)
        return start, torch.maximum(start, stop.clamp(0, num_keys))

    def block(self, query: Tensor, key: Tensor, num_queries: int, num_keys: int) -> Tensor:
        start, stop = self.runs(query, num_queries, num_keys)
        return (key >= start[..., None]) & (key < stop[..., None])


@dataclass(frozen=True, eq=False)
class Edges(Neighborhood):
    """A list of edges, senders[e] → receivers[e]: the receiver is the query and attends to the sender, the key.

    Order and multiplicity are kept: multi-edges stay, self-loops are not added. Equality is by identity.

    Senders and receivers are copied: later changes to the arguments have no effect. Do not change the copies.
    """

    senders: Int64[Tensor, " edge"]
    """The sender of each edge, the index of the key."""
    receivers: Int64[Tensor, " edge"]
    """The receiver of each edge, the index of the query."""
    num_senders: int
    """The number of keys."""
    num_receivers: int
    """The number of queries."""
    _plan: Plan | None = field(default=None, init=False, repr=False)
    _reverse: Tensor | None = field(default=None, init=False, repr=False)
    _line_graph: "Edges | None" = field(default=None, init=False, repr=False)

    if TYPE_CHECKING:  # arguments may be lists; the fields are tensors

        def __init__(
            self,
            senders: Tensor | Sequence[int],
            receivers: Tensor | Sequence[int],
            num_senders: int,
            num_receivers: int,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name in ("senders", "receivers"):
            object.__setattr__(self, name, copied("Edges", name, getattr(self, name)))
        for name in ("num_senders", "num_receivers"):
            object.__setattr__(self, name, whole("Edges", name, getattr(self, name)))
        check_edges(self.senders, self.receivers, self.num_senders, self.num_receivers)

    @classmethod
    def from_edge_index(cls, edge_index: Tensor, num_nodes: int | tuple[int, int]) -> "Edges":
        """From PyTorch Geometric's `(2, edge)` table, source → target; its `EdgeIndex` becomes plain tensors.

        Args:
            edge_index: first row senders, second row receivers.
            num_nodes: one number, or (senders, receivers) of a bipartite graph.
        """
        edge_index = integers("from_edge_index", "edge_index", edge_index)
        if edge_index.dim() != 2 or edge_index.shape[0] != 2:
            raise ShapeError(f"from_edge_index: edge_index must be (2, edge), not {tuple(edge_index.shape)}.")
        sizes = num_nodes if isinstance(num_nodes, tuple) else (num_nodes, num_nodes)
        return cls(edge_index[0], edge_index[1], *sizes)

    @classmethod
    def from_adjacency(cls, adjacency: Any) -> "Edges":
        """From a matrix: i attends to j where `adjacency[i, j]` is not zero, as in D⁻¹AH.

        Edges are sorted by row, then column, in the order of `adjacency[adjacency != 0]`. Values and stored zeros are
        dropped. Duplicate entries are summed first.

        Args:
            adjacency: dense, or sparse: torch's COO, CSR or CSC, or any format of SciPy.
        """
        receivers, senders, _, shape = entries(adjacency)
        return cls(senders, receivers, shape[1], shape[0])

    @property
    def num_edges(self) -> int:
        """The number of edges, including multi-edges."""
        return self.senders.shape[0]

    @property
    def sizes(self) -> tuple[int | None, int | None]:
        return self.num_receivers, self.num_senders

    @property
    def plan(self) -> Plan:
        """The edges grouped by receiver and by sender, as kernels read them; created at first use, then cached."""
        plan = self._plan or Plan.of(self.senders, self.receivers, self.num_senders, self.num_receivers)
        if plan is not self._plan and type(plan.senders) is type(self.senders):  # not while tracing
            object.__setattr__(self, "_plan", plan)
        return plan

    @property
    def reverse(self) -> Int64[Tensor, " edge"]:
        """The reverse of each edge, −1 for none, paired as in `undirected`; created at first use, then cached."""
        if (reverse := self._reverse) is None:
            self._require_square("reverse")
            with outside_modes():
                reverse = reverse_edges(self.senders, self.receivers, self.num_senders)
            if type(reverse) is type(self.senders):  # as for the plan
                object.__setattr__(self, "_reverse", reverse)
        return reverse

    @property
    def line_graph(self) -> "Edges":
        """Each edge as the query over the edges that arrive where it leaves, but for its reverse; cached as that.

        Cost: O(Σ_i arriving(i) · leaving(i))."""
        if (line_graph := self._line_graph) is None:
            with outside_modes():
                senders, receivers = line_pairs(
                    self.senders, self.plan.receiver_offsets, self.plan.receiver_edges, self.reverse
                )
                line_graph = Edges(senders, receivers, self.num_edges, self.num_edges)
            if type(line_graph.senders) is type(self.senders):
                object.__setattr__(self, "_line_graph", line_graph)
        return line_graph

    def degrees(self) -> Int64[Tensor, " query"]:
        """The number of edges of each receiver."""
        return self.receivers.new_zeros(self.num_receivers).index_add(
            0, self.receivers, torch.ones_like(self.receivers)
        )

    def undirected(self) -> "Edges":
        """Every edge in both directions: the edges, then the missing reverse edges, in order.

        Multi-edges are paired one by one: the first i → j is the reverse of the first j → i, and so on."""
        self._require_square("undirected")
        added = self.reverse < 0
        senders = torch.cat([self.senders, self.receivers[added]])
        return Edges(senders, torch.cat([self.receivers, self.senders[added]]), self.num_senders, self.num_senders)

    def with_self_loops(self) -> "Edges":
        """The edges, then a loop for each node without one."""
        self._require_square("with_self_loops")
        nodes = torch.arange(self.num_senders, device=self.senders.device)
        added = nodes[~torch.isin(nodes, self.senders[self.senders == self.receivers])]
        senders, receivers = torch.cat([self.senders, added]), torch.cat([self.receivers, added])
        return Edges(senders, receivers, self.num_senders, self.num_receivers)

    def block(self, query: Tensor, key: Tensor, num_queries: int, num_keys: int) -> Tensor:
        return pairs_among(self.receivers, self.senders, query, key, num_queries, num_keys)

    def to_edges(self, num_queries: int | None = None, num_keys: int | None = None, device: Any = None) -> "Edges":
        self._resolve("to_edges", num_queries, num_keys)
        return self

    def to(self, device: torch.device | str) -> "Edges":
        if (senders := moved(self.senders, device)) is self.senders:
            return self  # keeps the plan for all steps
        others = ("receivers", "_plan", "_reverse", "_line_graph")
        return unchecked(self, senders=senders, **{name: moved(getattr(self, name), device) for name in others})

    def _device(self, device: Any) -> Any:
        return self.senders.device

    def _require_square(self, verb: str) -> None:
        if self.num_senders != self.num_receivers:
            ends = f"({self.num_senders} and {self.num_receivers}); expected a single set of nodes."
            raise ShapeError(f"{verb}: senders and receivers are different nodes {ends}")


@dataclass(frozen=True, eq=False)
class Joined(Neighborhood):
    """Several neighborhoods as one."""

    parts: tuple[Neighborhood, ...]
    """The combined neighborhoods."""

    @property
    def batch_shape(self) -> torch.Size:
        return joint_batch(type(self).__name__, [part.batch_shape for part in self.parts])

    def with_head_axis(self: JoinedType) -> JoinedType:
        return replace(self, parts=tuple(part.with_head_axis() for part in self.parts))

    def to(self: JoinedType, device: torch.device | str) -> JoinedType:
        return replace(self, parts=tuple(part.to(device) for part in self.parts))

    def _device(self, device: Any) -> Any:
        for part in self.parts:  # that of the first which is elsewhere, so that no other hides it
            if (of_part := part._device(device)) != device:
                return of_part
        return device


@dataclass(frozen=True, eq=False)
class RangeIntersection(Joined, Ranges):
    """The intersection of several ranges, which is a range again; created by `&`."""

    parts: tuple[Ranges, ...]
    """The combined neighborhoods."""

    def frame(self, query: Tensor, num_queries: int, num_keys: int) -> Frame:
        frame = self.parts[0].frame(query, num_queries, num_keys)
        for part in self.parts[1:]:
            frame = frame.intersect(part.frame(query, num_queries, num_keys))
        return frame

    def run(self, query: Tensor, frame: Frame) -> tuple[Tensor, Tensor]:
        start, stop = self.parts[0].run(query, frame)
        for part in self.parts[1:]:
            part_start, part_stop = part.run(query, frame)
            start, stop = torch.maximum(start, part_start), torch.minimum(stop, part_stop)
        return start, stop


class Combination(Joined):
    """A combination of several neighborhoods as sets of pairs; multi-edges count once."""

    @property
    def sizes(self) -> tuple[int | None, int | None]:
        return known_sizes(self.fixed_sizes, *(part.sizes for part in self.parts))

    @property
    def fixed_sizes(self) -> tuple[int | None, int | None]:
        return joint_sizes(type(self).__name__, [part.fixed_sizes for part in self.parts])

    @staticmethod
    def join(one: Tensor, other: Tensor) -> Tensor:
        """Combines two tables."""
        raise NotImplementedError

    def block(self, query: Tensor, key: Tensor, num_queries: int, num_keys: int) -> Tensor:
        return reduce(self.join, [part.block(query, key, num_queries, num_keys) for part in self.parts])

    def table(self, num_queries: int, num_keys: int, device: Any = None) -> Tensor:
        device = self._device(device)
        return reduce(self.join, [part.table(num_queries, num_keys, device) for part in self.parts])


@dataclass(frozen=True, eq=False)
class Intersection(Combination):
    """The pairs in every part; created by `&`, which puts ranges first."""

    @staticmethod
    def join(one: Tensor, other: Tensor) -> Tensor:
        return one & other


@dataclass(frozen=True, eq=False)
class Union(Combination):
    """The pairs in any part, each once; created by `|`."""

    @staticmethod
    def join(one: Tensor, other: Tensor) -> Tensor:
        return one | other


def _parts(
    neighborhood: Neighborhood, *flattened_types: "type[RangeIntersection | Combination]"
) -> tuple[Neighborhood, ...]:
    if not isinstance(neighborhood, Neighborhood):
        raise SettingError(f"& and | combine neighborhoods, not a neighborhood and {neighborhood!r}.")
    if not isinstance(neighborhood, flattened_types):
        return (neighborhood,)
    return tuple(nested for part in neighborhood.parts for nested in _parts(part, *flattened_types))
