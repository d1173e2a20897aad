"""Neighborhoods in which the neighbors of each query are one contiguous run of keys."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from jaxtyping import Int64
from torch import Tensor

from edgewise.errors import ShapeError
from edgewise.neighborhood.checks import broadcast_shape, can_be_read, whole
from edgewise.neighborhood.index import copied, sent, unchecked
from edgewise.neighborhood.pairs import Frame, Ranges

Align = Literal["end", "start"]
MAX_SIDE_KEYS = 2**62
"""The largest side of a window; larger ones would overflow when added to a position."""


@dataclass(frozen=True, eq=False)
class Full(Ranges):
    """Every query attends to every key."""

    def block(self, query: Tensor, key: Tensor, num_queries: int, num_keys: int) -> Tensor:
        return torch.ones(1, 1, dtype=torch.bool, device=query.device).expand(query.shape[0], key.shape[0])


@dataclass(frozen=True, eq=False)
class Causal(Ranges):
    """A query attends to the keys up to its own position.

    If there are more keys than queries, they are aligned at the end, as decoding needs: the last query sees all keys.

        Causal().draw(3, 5)           Causal(align="start").draw(3, 5)
        ■ ■ ■ · ·                     ■ · · · ·
        ■ ■ ■ ■ ·                     ■ ■ · · ·
        ■ ■ ■ ■ ■                     ■ ■ ■ · ·
    """

    align: Align = "end"
    """Which end of queries and keys is the same position."""

    def __post_init__(self) -> None:
        _check_align("Causal", self.align)

    def run(self, query: Tensor, frame: Frame) -> tuple[Tensor, Tensor]:
        return frame.key_start, _position(query, frame, self.align) + 1

    def key_span(self, query_start: int, query_stop: int, num_queries: int, num_keys: int) -> tuple[int, int]:
        shift = num_keys - num_queries if self.align == "end" else 0
        return 0, min(max(query_stop + shift, 0), num_keys)


@dataclass(frozen=True, eq=False)
class Window(Ranges):
    """A query attends to `before` keys before its own position, its own, and `after` keys after it.

    Window(1, 1).draw(3, 5)       Window(1, 1, align="start").draw(3, 5)
    · ■ ■ ■ ·                     ■ ■ · · ·
    · · ■ ■ ■                     ■ ■ ■ · ·
    · · · ■ ■                     · ■ ■ ■ ·
    """

    before: int
    """How many keys before the query's position; not negative."""
    after: int
    """How many keys after the query's position; not negative."""
    align: Align = "end"
    """Which end of queries and keys is the same position."""

    def __post_init__(self) -> None:
        _check_align("Window", self.align)
        for name in ("before", "after"):
            object.__setattr__(self, name, whole("Window", name, getattr(self, name)))
        if self.before < 0 or self.after < 0:
            raise ShapeError(f"Window: before and after must not be negative, not {self.before} and {self.after}.")

    def run(self, query: Tensor, frame: Frame) -> tuple[Tensor, Tensor]:
        position = _position(query, frame, self.align)
        return position - min(self.before, MAX_SIDE_KEYS), position + min(self.after, MAX_SIDE_KEYS) + 1

    def key_span(self, query_start: int, query_stop: int, num_queries: int, num_keys: int) -> tuple[int, int]:
        shift = num_keys - num_queries if self.align == "end" else 0
        start = min(max(query_start + shift - self.before, 0), num_keys)
        return start, max(start, min(query_stop + shift + self.after, num_keys))


@dataclass(frozen=True, eq=False)
class Lengths(Ranges):
    """Padded batches: member b has `key_lengths[b]` true keys and `query_lengths[b]` true queries, then padding.

    Without `query_lengths` every query attends to the true keys. Combined with `Causal` or `Window`, equally many
    queries and keys are then the same positions (self-attention, padded alike), and fewer queries are all true, the
    last one at the last true key (decoding). With `query_lengths` a padding query has an empty neighborhood.

        (Causal() & Lengths([2])).draw(3)      (Causal() & Lengths([4])).draw(2, 5)
        ■ · ·                                  ■ ■ ■ · ·
        ■ ■ ·                                  ■ ■ ■ ■ ·
        ■ ■ ·
    """

    key_lengths: Int64[Tensor, " *batch"]
    """True keys of each member, not negative; its shape broadcasts against the batch axes."""
    query_lengths: Int64[Tensor, " *query_batch"] | None = None
    """True queries of each member; None for all."""

    if TYPE_CHECKING:  # lists are accepted, too

        def __init__(
            self, key_lengths: Tensor | Sequence[int], query_lengths: Tensor | Sequence[int] | None = None
        ) -> None: ...

    def __post_init__(self) -> None:
        for name in ("key_lengths", "query_lengths"):
            value = getattr(self, name)
            if value is not None:
                lengths = copied("Lengths", name, value)
                if can_be_read(lengths) and lengths.numel() > 0 and (minimum := int(lengths.min())) < 0:
                    raise ShapeError(f"Lengths: {name} must not be negative; found {minimum}.")
                object.__setattr__(self, name, lengths)

    @property
    def batch_shape(self) -> torch.Size:
        if self.query_lengths is None:
            return self.key_lengths.shape
        return broadcast_shape(self.key_lengths.shape, self.query_lengths.shape)

    def frame(self, query: Tensor, num_queries: int, num_keys: int) -> Frame:
        zero = torch.zeros_like(query)
        keys = zero + self.key_lengths[..., None].clamp(0, num_keys)
        if self.query_lengths is not None:
            queries = zero + self.query_lengths[..., None].clamp(0, num_queries)
            return Frame(zero, queries, zero, torch.where(query < queries, keys, 0))
        return Frame(zero, keys if num_queries == num_keys else zero + num_queries, zero, keys)

    def with_head_axis(self) -> "Lengths":
        return self._each(lambda lengths: lengths[..., None])

    def to(self, device: torch.device | str) -> "Lengths":
        return self._each(lambda lengths: sent(lengths, device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Lengths":
        queries = self.query_lengths
        queries = None if queries is None else change(queries)
        return unchecked(self, key_lengths=change(self.key_lengths), query_lengths=queries)

    def _device(self, device: Any) -> Any:
        return self.key_lengths.device


class Bounds(NamedTuple):
    """Bounds of segments, read from the device once when they are checked."""

    first: int
    """The start of the first segment; the latest one if members differ."""
    last: int
    """The end of the last segment; the earliest one if members differ."""
    longest: int
    """The number of nodes of the longest segment."""


@dataclass(frozen=True, eq=False)
class Segments(Ranges):
    """Packed members: segment g has queries `query_offsets[g]:query_offsets[g + 1]`, keys likewise.

    Queries outside all segments have an empty neighborhood. Offsets are checked once, when the segments are created,
    and copied, so that later changes to the arguments have no effect.
    """

    query_offsets: Int64[Tensor, " *batch boundary"]
    """The start of each segment's queries, and the end of the last; not negative, not decreasing."""
    key_offsets: Int64[Tensor, " *key_batch boundary"] | None = None
    """The same for keys; None if they are those of the queries."""
    query_bounds: Bounds | None = field(default=None, init=False, repr=False)
    """Bounds of the queries; None if the segments were created while tracing."""
    key_bounds: Bounds | None = field(default=None, init=False, repr=False)
    """Bounds of the keys."""

    if TYPE_CHECKING:  # lists are accepted, too

        def __init__(
            self, query_offsets: Tensor | Sequence[int], key_offsets: Tensor | Sequence[int] | None = None
        ) -> None: ...

    def __post_init__(self) -> None:
        if self.key_offsets is self.query_offsets:
            object.__setattr__(self, "key_offsets", None)
        self._check("query", self.query_offsets)
        if self.key_offsets is None:
            object.__setattr__(self, "key_bounds", self.query_bounds)
        else:
            self._check("key", self.key_offsets)
            if self.key_offsets.shape[-1] != self.query_offsets.shape[-1]:
                raise ShapeError(
                    f"Segments: axis 'boundary' is {self.query_offsets.shape[-1]} in query_offsets but "
                    f"{self.key_offsets.shape[-1]} in key_offsets."
                )

    def _check(self, side: str, value: Any) -> None:
        offsets = _offsets(f"{side}_offsets", value)
        object.__setattr__(self, f"{side}_offsets", offsets)
        if not torch.compiler.is_compiling():  # a check that reads values cannot be traced
            object.__setattr__(self, f"{side}_bounds", _bounds(f"{side}_offsets", offsets))

    @property
    def batch_shape(self) -> torch.Size:
        keys = self.query_offsets if self.key_offsets is None else self.key_offsets
        return broadcast_shape(self.query_offsets.shape[:-1], keys.shape[:-1])

    def frame(self, query: Tensor, num_queries: int, num_keys: int) -> Frame:
        queries = self.query_offsets
        keys = queries if self.key_offsets is None else self.key_offsets
        batch = self.batch_shape
        queries, keys = queries.expand(*batch, -1).contiguous(), keys.expand(*batch, -1).contiguous()
        query = query.expand(*batch, -1).contiguous()
        segment = torch.searchsorted(queries, query, right=True) - 1
        is_inside = (segment >= 0) & (segment < queries.shape[-1] - 1)
        index = segment.clamp(0, max(queries.shape[-1] - 2, 0))
        next_index = (index + 1).clamp(max=queries.shape[-1] - 1)
        key_start = keys.gather(-1, index)
        key_stop = torch.where(is_inside, keys.gather(-1, next_index), key_start)
        return Frame(queries.gather(-1, index), queries.gather(-1, next_index), key_start, key_stop)

    def with_head_axis(self) -> "Segments":
        return self._each(lambda offsets: offsets.unsqueeze(-2)) if self.batch_shape else self

    def to(self, device: torch.device | str) -> "Segments":
        return self._each(lambda offsets: sent(offsets, device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Segments":
        keys = None if self.key_offsets is None else change(self.key_offsets)
        return unchecked(self, query_offsets=change(self.query_offsets), key_offsets=keys)

    def _device(self, device: Any) -> Any:
        return self.query_offsets.device


def _position(query: Tensor, frame: Frame, align: Align) -> Tensor:
    """The key position that corresponds to the position of the query."""
    if align == "end":
        return query + frame.key_stop - frame.query_stop
    return query + frame.key_start - frame.query_start


def _check_align(name: str, align: str) -> None:
    if align not in ("end", "start"):
        raise ShapeError(f"{name}: align must be 'end' or 'start', not {align!r}.")


def _offsets(name: str, value: Any) -> Tensor:
    offsets = copied("Segments", name, value)
    if offsets.dim() == 0 or offsets.shape[-1] == 0:
        raise ShapeError(f"Segments: {name} must have an axis 'boundary' of at least 1, not {tuple(offsets.shape)}.")
    return offsets


def _bounds(name: str, offsets: Tensor) -> Bounds:
    if offsets.numel() == 0:
        return Bounds(0, 0, 0)
    steps = offsets.diff(dim=-1)
    extremes = steps.aminmax() if steps.numel() > 0 else ()
    ends = offsets[..., 0].aminmax(), offsets[..., -1].min()
    minimum, first, last, *step_range = torch.stack([*ends[0], ends[1], *extremes]).tolist()
    shortest, longest = step_range or (0, 0)
    if shortest < 0:
        raise ShapeError(f"Segments: {name} must not decrease; they are boundaries, as from cumsum of the sizes.")
    if minimum < 0:
        raise ShapeError(f"Segments: {name} must not be negative; found {minimum}.")
    return Bounds(first, last, longest)
