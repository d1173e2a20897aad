"""How the rows of a graph are dealt out to programs: low rows several together, high rows alone, hubs in chunks."""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from edgewise.backends.triton.launch import Common
from edgewise.neighborhood.index import sent_together
from edgewise.neighborhood.plan import at_home

CHUNK = 256
"""Edges that one program walks: the dependent loads of a longer walk would outlast all other programs."""


class RowChunks(NamedTuple):
    """Chunks of the rows of a level, each for one place in a program; kernels take them as they are."""

    rows: Tensor
    """The row of each piece."""
    starts: Tensor
    """Its first place in the lists of the plan."""
    stops: Tensor
    """One past its last."""
    slots: Tensor
    """Where in the workspace its result goes; −1 where it is the whole row's."""
    num_chunks: int
    """How many chunks."""


@dataclass(frozen=True, eq=False)
class Work:
    """The chunks of all rows. All tensors are int32, or int64 where the plan's are.

    High rows come first, the longest at the beginning; then, level by level, rows of fewer and fewer edges in the order
    of the graph, at last those with the fewest or none. Only hubs have more than one piece: these lie one after the
    other, their results in a workspace.
    """

    levels: tuple[RowChunks, ...]
    """The chunks of each level, the high rows' first."""
    high_rows: Tensor
    """The rows of the first level, longest first."""
    num_hubs: int
    """How many of these, the first, have several chunks."""
    hub_slots: Tensor
    """The slots of hub h, one of the first of the high rows, are `hub_slots[h]:hub_slots[h + 1]`."""
    num_slots: int
    """Rows of the workspace."""

    @cached_property
    def common(self) -> list[Common]:
        """The chunks of each level, as many launches have them."""
        return [Common(level) for level in self.levels]

    def to(self, device: torch.device) -> "Work":
        """The same chunks for programs on `device`, sent there as one tensor."""
        if self.high_rows.device == device:
            return self
        tensors = [*(x for level in self.levels for x in level[:4]), self.high_rows, self.hub_slots]
        *sent, high_rows, hub_slots = sent_together(tensors, device)
        levels = []
        for at, level in enumerate(self.levels):
            rows, starts, stops, slots = sent[4 * at : 4 * at + 4]
            levels.append(RowChunks(rows, starts, stops, slots, level.num_chunks))
        return replace(self, levels=tuple(levels), high_rows=high_rows, hub_slots=hub_slots)


def work_of(offsets: Tensor, lows: tuple[int, ...]) -> Work:
    """The chunks of the rows that `offsets` bound; made once and cached as long as the offsets live.

    Rows of a plan that was made on the CPU are dealt out there: on the device a few numbers would have to be read back.
    """
    works = _made.setdefault(offsets, {})
    if lows not in works:
        works[lows] = deal(at_home(offsets), lows, CHUNK).to(offsets.device)
    return works[lows]


_made: WeakIdKeyDictionary = WeakIdKeyDictionary()


def deal(offsets: Tensor, lows: tuple[int, ...], chunk: int) -> Work:
    """Deals the rows out; a few numbers are read back from the device of the offsets.

    Args:
        offsets: where the edges of each row begin, and where those of the last end.
        lows: the most edges of a row of each level but the first, descending.
        chunk: the most edges of a piece.

    >>> work = deal(torch.tensor([0, 2, 2, 9, 12], dtype=torch.int32), lows=(2,), chunk=4)
    >>> [[x.tolist() for x in level[:4]] for level in work.levels]
    [[[2, 2, 3], [2, 6, 9], [6, 9, 12], [0, 1, -1]], [[0, 1], [0, 2], [2, 2], [-1, -1]]]
    >>> work.high_rows.tolist(), work.num_hubs, work.hub_slots.tolist()
    ([2, 3], 1, [0, 2])
    """
    degrees = offsets[1:] - offsets[:-1]
    bounds = [*lows, -1]
    high_rows = (degrees > bounds[0]).nonzero().squeeze(1)
    high_degrees, order = degrees[high_rows].sort(descending=True, stable=True)
    high_rows = high_rows[order]
    num_hubs = int((high_degrees > chunk).sum())  # the longest rows, so that their chunks are the first
    high, hub_slots, num_slots = _whole(offsets, high_rows[num_hubs:]), offsets.new_zeros(1), 0

    if num_hubs > 0:
        cut, hub_slots = _cut(offsets, high_rows[:num_hubs], chunk)
        num_slots = len(cut.rows)
        rows, starts, stops, slots = (torch.cat(parts) for parts in zip(cut[:4], high[:4], strict=True))
        high = RowChunks(rows, starts, stops, slots, cut.num_chunks + high.num_chunks)

    low = [((degrees <= most) & (degrees > least)).nonzero().squeeze(1) for most, least in pairwise(bounds)]
    levels = high, *(_whole(offsets, rows) for rows in low)
    return Work(levels, high_rows.to(offsets.dtype), num_hubs, hub_slots, num_slots)


def _whole(offsets: Tensor, rows: Tensor) -> RowChunks:
    """Rows of one piece each."""
    slots = torch.full_like(rows, -1, dtype=offsets.dtype)
    return RowChunks(rows.to(offsets.dtype), offsets[rows], offsets[rows + 1], slots, len(rows))


def _cut(offsets: Tensor, rows: Tensor, chunk: int) -> tuple[RowChunks, Tensor]:
    """Rows in chunks of at most so many edges, and where in the workspace those of each begin."""
    starts, stops = offsets[rows], offsets[rows + 1]
    chunks = (stops - starts + chunk - 1) // chunk
    owner = torch.repeat_interleave(torch.arange(len(rows), device=offsets.device), chunks)
    slots = torch.arange(len(owner), device=offsets.device, dtype=offsets.dtype)
    ends = chunks.cumsum(0, dtype=offsets.dtype)
    begins = starts[owner] + (slots - (ends - chunks)[owner]) * chunk
    stops = torch.minimum(begins + chunk, stops[owner])
    cut = RowChunks(rows[owner].to(offsets.dtype), begins, stops, slots, len(owner))
    return cut, torch.cat([ends.new_zeros(1), ends])
