"""How the rows of a graph are dealt out to programs: low rows several together, high rows alone, hubs in chunks.

One launch takes all of them: which rows a program has, and how it is compiled for them, its tile says.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from edgewise.backends.triton.launch import Common
from edgewise.backends.triton.sizes import ceiling
from edgewise.neighborhood.index import sent_together
from edgewise.neighborhood.plan import at_home

CHUNK = 256
"""Edges that one program walks: the dependent loads of a longer walk would outlast all other programs."""
WHOLE, NO_ROW = -1, -2
"""The slot of a piece that is its whole row, and of a place in a tile that is left empty."""


class RowChunks(NamedTuple):
    """Pieces of rows, and the tiles that they are dealt out in; kernels take them as they are."""

    rows: Tensor
    """The row of each piece."""
    starts: Tensor
    """Its first place in the lists of the plan."""
    stops: Tensor
    """One past its last."""
    slots: Tensor
    """Where in the workspace its result goes, `WHOLE` or `NO_ROW`."""
    firsts: Tensor
    """The first piece of each tile."""
    levels: Tensor
    """Its level, counted among those that have rows."""


@dataclass(frozen=True, eq=False)
class Work:
    """The pieces of all rows. All tensors are int32, or int64 where the plan's are.

    High rows come first, the longest at the beginning; then, level by level, rows of fewer and fewer edges in the order
    of the graph, at last those with the fewest or none. Only hubs have more than one piece: these lie one after the
    other, their results in a workspace.
    """

    chunks: RowChunks
    """The pieces, level after level, each level filled up to whole tiles."""
    levels: dict[int, range]
    """The tiles of each level that has rows, that of the high rows being 0."""
    low_rows: tuple[Tensor, ...]
    """The rows of each other level."""
    high_rows: Tensor
    """The rows of the first level, longest first."""
    num_hubs: int
    """How many of these, the first, have several chunks."""
    hub_slots: Tensor
    """The slots of hub h, one of the first of the high rows, are `hub_slots[h]:hub_slots[h + 1]`."""
    num_slots: int
    """Rows of the workspace."""

    @property
    def num_tiles(self) -> int:
        """The tiles of all levels."""
        return len(self.chunks.firsts)

    @cached_property
    def common(self) -> Common:
        """The pieces, as many launches have them."""
        return Common(self.chunks)

    def to(self, device: torch.device) -> "Work":
        """The same chunks for programs on `device`, sent there as one tensor."""
        if self.high_rows.device == device:
            return self
        tensors = [*self.chunks, *self.low_rows, self.high_rows, self.hub_slots]
        *sent, high_rows, hub_slots = sent_together(tensors, device)
        chunks, low_rows = RowChunks(*sent[:6]), tuple(sent[6:])
        return replace(self, chunks=chunks, low_rows=low_rows, high_rows=high_rows, hub_slots=hub_slots)


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
        lows: the most edges of a row of each level but the first, descending powers of two; a tile has as many rows as
            it has edges of the first of them.
        chunk: the most edges of a piece.

    >>> work = deal(torch.tensor([0, 2, 2, 4, 11, 14], dtype=torch.int32), lows=(4, 2), chunk=4)
    >>> rows, starts, stops, slots, firsts, levels = (x.tolist() for x in work.chunks)
    >>> list(zip(rows, starts, stops, slots))
    [(3, 4, 8, 0), (3, 8, 11, 1), (4, 11, 14, -1), (0, 0, 2, -1), (1, 2, 2, -1), (2, 2, 4, -1), (0, 0, 0, -2)]
    >>> work.levels, firsts, levels
    ({0: range(0, 2), 1: range(2, 3), 2: range(3, 5)}, [0, 1, 2, 3, 5], [0, 0, 1, 2, 2])
    >>> work.high_rows.tolist(), work.num_hubs, work.hub_slots.tolist()
    ([3], 1, [0, 2])
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
        num_slots = cut.shape[1]
        high = torch.cat([cut, high], 1)

    low = [((degrees <= most) & (degrees > least)).nonzero().squeeze(1) for most, least in pairwise(bounds)]
    pieces = high, *(_whole(offsets, rows) for rows in low)
    rows_of_tile = [1, *(lows[0] // most for most in lows)]
    levels, end = dict[int, range](), 0
    for level, (of_level, num_rows) in enumerate(zip(pieces, rows_of_tile, strict=True)):
        if of_level.shape[1] > 0:
            levels[level] = range(end, end + ceiling(of_level.shape[1], num_rows))
            end = levels[level].stop

    chunks = _tiled([(pieces[level], rows_of_tile[level]) for level in levels], offsets)
    low_rows = tuple(rows.to(offsets.dtype) for rows in low)
    return Work(chunks, levels, low_rows, high_rows.to(offsets.dtype), num_hubs, hub_slots, num_slots)


def _tiled(pieces: Sequence[tuple[Tensor, int]], offsets: Tensor) -> RowChunks:
    """The pieces of each level, `(4, piece)`, filled up to whole tiles of so many rows; the levels in their order."""
    filled, tiles, count = [offsets.new_zeros(4, 0)], [offsets.new_zeros(2, 0)], 0
    for level, (of_level, num_rows) in enumerate(pieces):
        padding = offsets.new_zeros(4, -of_level.shape[1] % num_rows)
        padding[3] = NO_ROW
        filled += [of_level, padding]
        size = of_level.shape[1] + padding.shape[1]
        firsts = torch.arange(count, count + size, num_rows, dtype=offsets.dtype, device=offsets.device)
        tiles.append(torch.stack([firsts, torch.full_like(firsts, level)]))
        count += size

    # Copies begin at multiples of 16 bytes: kernels are compiled again for other alignments.
    return RowChunks(*(column.clone() for column in (*torch.cat(filled, 1), *torch.cat(tiles, 1))))


def _whole(offsets: Tensor, rows: Tensor) -> Tensor:
    """Rows of one piece each: row, start, stop and slot, `(4, piece)`."""
    return torch.stack(
        [rows.to(offsets.dtype), offsets[rows], offsets[rows + 1], torch.full_like(offsets[rows], WHOLE)]
    )


def _cut(offsets: Tensor, rows: Tensor, chunk: int) -> tuple[Tensor, Tensor]:
    """Rows in chunks of at most so many edges, likewise, and where in the workspace those of each begin."""
    starts, stops = offsets[rows], offsets[rows + 1]
    chunks = (stops - starts + chunk - 1) // chunk
    owner = torch.repeat_interleave(torch.arange(len(rows), device=offsets.device), chunks)
    slots = torch.arange(len(owner), device=offsets.device, dtype=offsets.dtype)
    ends = chunks.cumsum(0, dtype=offsets.dtype)
    begins = starts[owner] + (slots - (ends - chunks)[owner]) * chunk
    stops = torch.minimum(begins + chunk, stops[owner])
    return torch.stack([rows[owner].to(offsets.dtype), begins, stops, slots]), torch.cat([ends.new_zeros(1), ends])
