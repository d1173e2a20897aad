"""From ranges to members on a packed axis, as kernels for packed sequences want them: `boundaries`, as from cumsum.

Member m is queries q[m]:q[m + 1] and keys k[m]:k[m + 1] of two increasing lists, so that nothing may lie between two of
them. What does lies in members of its own: queries that see no key in one without keys, keys that no query sees in one
without queries.

    Segments([1, 3, 7]) of 8 nodes, gaps at both ends:     queries 0 1 1 3 7 8 8      keys 0 0 1 3 7 7 8
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise.backends.call import Call
from edgewise.neighborhood import Bounds, Causal, Full, Lengths, RangeIntersection, Ranges, Segments, Window

ALL = 2**31 - 1
"""Keys on a side of a window that is open there."""


class MemberParts(NamedTuple):
    """What a neighborhood of ranges is joined of."""

    frames: list[Lengths | Segments]
    """What cuts the nodes into members."""
    windows: list[Causal | Window]
    """What a query sees of its member."""
    others: list[Ranges]
    """Classes that these kernels do not know."""

    @property
    def reach(self) -> tuple[int, int]:
        """How many keys a query sees before its own position and after it."""
        before = [part.before for part in self.windows if isinstance(part, Window)]
        after = [part.after if isinstance(part, Window) else 0 for part in self.windows]
        return min(before, default=ALL), min(after, default=ALL)


class MemberBounds(NamedTuple):
    """Where the members begin and end; each `(outer, member)`."""

    query_start: Tensor
    query_stop: Tensor
    key_start: Tensor
    key_stop: Tensor


class Members(NamedTuple):
    """The members of all batch axes, one after the other."""

    query_boundaries: Tensor
    """`(member + 1)`, int32."""
    key_boundaries: Tensor
    max_queries: int
    max_keys: int


def parts_of(neighborhood: Ranges) -> MemberParts:
    """The ranges that a neighborhood is joined of, by what they do."""
    by_role = MemberParts([], [], [])
    joined = neighborhood.parts if isinstance(neighborhood, RangeIntersection) else (neighborhood,)
    for part in joined:
        if isinstance(part, Lengths | Segments):
            by_role.frames.append(part)
        elif isinstance(part, Causal | Window):
            by_role.windows.append(part)
        elif type(part) is not Full:
            by_role.others.append(part)
    return by_role


def refusals(call: Call) -> list[str]:
    """Why the neighborhood is none of members with one window that is aligned at their ends, in words."""
    if not isinstance(call.neighborhood, Ranges):
        return [f"the neighborhood is a {type(call.neighborhood).__name__}, not ranges"]
    frames, windows, others = parts_of(call.neighborhood)
    if others or len(frames) > 1:
        return [f"the neighborhood joins {' and '.join(type(part).__name__ for part in (*frames, *others))}"]
    frame = frames[0] if frames else None
    if isinstance(frame, Segments) and (frame.query_bounds is None or frame.key_bounds is None):
        return ["segment lengths are unknown while tracing"]
    if isinstance(frame, Lengths) and windows and frame.query_lengths is None and call.num_queries == call.num_keys:
        return ["padding queries attend to true keys; with query_lengths they would not"]
    if any(part.align == "start" for part in windows) and not _is_alike(call, frame):
        return ["queries and keys are aligned at the start"]
    return []


def _is_alike(call: Call, frame: Lengths | Segments | None) -> bool:
    """Whether every member is known to have as many queries as keys, without reading from the device."""
    if isinstance(frame, Segments):
        return frame.key_offsets is None
    if isinstance(frame, Lengths) and frame.query_lengths is not frame.key_lengths:
        return False
    return call.num_queries == call.num_keys


def members_of(call: Call, outer: tuple[int, ...]) -> Members:
    """Where the members of a call begin and end, on packed axes that hold the batch axes `outer`, then the nodes.

    No number is read from the device: the longest members are known of `Segments` since they were made.
    """
    assert isinstance(call.neighborhood, Ranges)
    parts = parts_of(call.neighborhood)
    frame = parts.frames[0] if parts.frames else None
    is_whole = not parts.windows or _is_alike(call, frame)
    num_queries, num_keys = most = call.num_queries, call.num_keys
    if frame is None and is_whole:
        query_offsets, key_offsets = (_every(count, outer, call.query.device) for count in most)
        return Members(query_offsets, key_offsets, *most)

    if isinstance(frame, Segments):
        assert frame.query_bounds is not None and frame.key_bounds is not None
        is_whole = is_whole or frame.query_offsets.shape[-1] == 1
        most = _most(frame.query_bounds, num_queries, is_whole), _most(frame.key_bounds, num_keys, is_whole)
        query_offsets = frame.query_offsets.clamp(0, num_queries)
        key_offsets = (query_offsets if frame.key_offsets is None else frame.key_offsets).clamp(0, num_keys)
        query_offsets, key_offsets = torch.broadcast_tensors(query_offsets, key_offsets)

        if is_whole:
            lists = _around(query_offsets, key_offsets, num_queries, num_keys)
        else:
            bounds = MemberBounds(
                query_offsets[..., :-1], query_offsets[..., 1:], key_offsets[..., :-1], key_offsets[..., 1:]
            )
            lists = _between(_trimmed(bounds, *parts.reach), num_queries, num_keys)
    else:
        lists = _between(_trimmed(_padded(call, frame), *parts.reach), num_queries, num_keys)

    return Members(_joined(lists[0], num_queries, outer), _joined(lists[1], num_keys, outer), *most)


def _every(count: int, outer: tuple[int, ...], device: torch.device) -> Tensor:
    """Boundaries of members that have so many nodes, all of them."""
    return count * torch.arange(math.prod(outer) + 1, dtype=torch.int32, device=device)


def _most(bounds: Bounds, count: int, is_whole: bool) -> int:
    """Nodes of the longest segment or gap, of so many nodes; what is trimmed from the first segment joins the gap
    before it."""
    longest = max(bounds.first, bounds.longest) if is_whole else bounds.first + bounds.longest
    return max(min(longest, count), count - max(bounds.last, 0))


def _padded(call: Call, lengths: Lengths | None) -> MemberBounds:
    """One member, of true nodes, then padding."""
    queries = torch.full((1,), call.num_queries, device=call.query.device)
    keys = torch.full((1,), call.num_keys, device=call.query.device)
    if lengths is not None:
        keys = lengths.key_lengths[..., None].clamp(0, call.num_keys)
        if lengths.query_lengths is not None:
            queries = lengths.query_lengths[..., None].clamp(0, call.num_queries)
    queries, keys = torch.broadcast_tensors(queries, keys)
    return MemberBounds(torch.zeros_like(queries), queries, torch.zeros_like(keys), keys)


def _trimmed(bounds: MemberBounds, before: int, after: int) -> MemberBounds:
    """Without the keys before the first window and the queries whose window ends before the first key.

    The last query stands at the last key. A kernel would mask the pairs, and multiply what they hold by zero.
    """
    query_start, query_stop, key_start, key_stop = bounds
    if before < ALL:
        key_start = torch.maximum(key_start, key_stop - (query_stop - query_start) - before)
    if after < ALL:
        query_start = torch.maximum(query_start, query_stop - (key_stop - bounds.key_start) - after)
    return MemberBounds(query_start, query_stop, key_start, key_stop)


def _around(query_offsets: Tensor, key_offsets: Tensor, num_queries: int, num_keys: int) -> tuple[Tensor, Tensor]:
    """Boundaries, but for the first: a gap of queries, one of keys, segments without gaps, and two gaps again."""
    queries = F.pad(torch.cat([query_offsets[..., :1], query_offsets], -1), (0, 2), value=num_queries)
    keys = F.pad(torch.cat([key_offsets, key_offsets[..., -1:]], -1), (1, 0))
    return queries, F.pad(keys, (0, 1), value=num_keys)


def _between(bounds: MemberBounds, num_queries: int, num_keys: int) -> tuple[Tensor, Tensor]:
    """Boundaries, but for the first: before each member a gap of queries and one of keys, and both at the end."""
    query_start, query_stop, key_start, key_stop = bounds
    stops = F.pad(key_stop, (1, 0))  # where the keys of the member before each one end, and those of the last
    queries = torch.stack([query_start, query_start, query_stop], -1).flatten(-2)
    keys = torch.stack([stops[..., :-1], key_start, key_stop], -1).flatten(-2)
    keys = F.pad(torch.cat([keys, stops[..., -1:]], -1), (0, 1), value=num_keys)
    return F.pad(queries, (0, 2), value=num_queries), keys


def _joined(boundaries: Tensor, count: int, outer: tuple[int, ...]) -> Tensor:
    """Boundaries `(*batch, boundary)` of nodes 0 … count as those of one axis that holds all of `outer`.

    Batch axes that stand behind `outer` are of size 1.
    """
    while boundaries.dim() > len(outer) + 1:
        boundaries = boundaries.squeeze(-2)
    boundaries = boundaries.to(torch.int32)
    if len(outer) > 0:
        boundaries = boundaries.expand(*outer, boundaries.shape[-1]).reshape(-1, boundaries.shape[-1])
        boundaries = boundaries + _every(count, outer, boundaries.device)[:-1, None]
    return F.pad(boundaries.flatten(), (1, 0))
