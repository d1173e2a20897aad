"""How the rows of a graph are dealt out to programs: low rows several together, high rows alone, hubs in chunks."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

CHUNK = 256
"""Edges that one program walks: the dependent loads of a longer walk would outlast all other programs."""


@dataclass(frozen=True, eq=False)
class Work:
    """Pieces of rows, each for one place in a program. All tensors are int32, or int64 where the plan's are.

    High rows come first, the longest at the beginning; then, level by level, rows of fewer and fewer edges in the order
    of the graph, at last those with the fewest or none. Only hubs have more than one piece: these lie one after the
    other, their results in a workspace.
    """

    rows: Tensor
    """The row of each piece."""
    starts: Tensor
    """Its first place in the lists of the plan."""
    stops: Tensor
    """One past its last."""
    slots: Tensor
    """Where in the workspace its result goes; −1 where it is the whole row's."""
    levels: tuple[slice, ...]
    """The pieces of each level, the high rows' first."""
    high_rows: Tensor
    """The rows of the first level, longest first."""
    num_hubs: int
    """How many of these, the first, have several pieces."""
    hub_slots: Tensor
    """The slots of hub h, one of the first of the high rows, are `hub_slots[h]:hub_slots[h + 1]`."""
    num_slots: int
    """Rows of the workspace."""


def work_of(offsets: Tensor, lows: tuple[int, ...]) -> Work:
    """The pieces of the rows that `offsets` bound; made once and kept as long as the offsets are."""
    made = _made.setdefault(offsets, {})
    if lows not in made:
        made[lows] = deal(offsets, lows, CHUNK)
    return made[lows]


_made: WeakIdKeyDictionary = WeakIdKeyDictionary()


def deal(offsets: Tensor, lows: tuple[int, ...], chunk: int) -> Work:
    """Deals the rows out; a few numbers are read back from the device.

    Args:
        offsets: where the edges of each row begin, and where those of the last end.
        lows: the most edges of a row of each level but the first, descending.
        chunk: the most edges of a piece.

    >>> work = deal(torch.tensor([0, 2, 2, 9, 12], dtype=torch.int32), lows=(2,), chunk=4)
    >>> work.rows.tolist(), work.starts.tolist(), work.stops.tolist(), work.slots.tolist()
    ([2, 2, 3, 0, 1], [2, 6, 9, 0, 2], [6, 9, 12, 2, 2], [0, 1, -1, -1, -1])
    >>> work.levels, work.high_rows.tolist(), work.num_hubs, work.hub_slots.tolist()
    ((slice(0, 3, None), slice(3, 5, None)), [2, 3], 1, [0, 2])
    """
    degrees = offsets[1:] - offsets[:-1]
    bounds = [*lows, -1]
    high_rows = (degrees > bounds[0]).nonzero().squeeze(1)
    high_rows = high_rows[degrees[high_rows].argsort(descending=True, stable=True)]
    high_degrees = degrees[high_rows]
    pieces = (high_degrees + chunk - 1) // chunk
    owner = torch.repeat_interleave(torch.arange(len(high_rows), device=offsets.device), pieces)
    first = pieces.cumsum(0) - pieces
    number = torch.arange(len(owner), device=offsets.device) - first[owner]
    starts = offsets[high_rows][owner] + number * chunk
    stops = torch.minimum(starts + chunk, offsets[high_rows + 1][owner])
    num_hubs = int((pieces > 1).sum())  # the longest rows, so that their pieces are the first
    hub_slots = torch.cat([pieces.new_zeros(1), pieces[:num_hubs].cumsum(0)])
    num_slots = int(hub_slots[-1])
    slots = torch.arange(len(owner), device=offsets.device)
    slots = torch.where(slots < num_slots, slots, -1)
    low = [((degrees <= most) & (degrees > least)).nonzero().squeeze(1) for most, least in pairwise(bounds)]
    low_rows = torch.cat([high_rows[:0], *low])
    whole = [
        torch.cat([high_rows[owner], low_rows]),
        torch.cat([starts, offsets[low_rows]]),
        torch.cat([stops, offsets[low_rows + 1]]),
        torch.cat([slots, torch.full_like(low_rows, -1)]),
    ]
    rows, starts, stops, slots = (x.to(offsets.dtype) for x in whole)
    levels, begin = [], 0
    for each in (owner, *low):
        levels.append(slice(begin, begin + len(each)))
        begin += len(each)
    return Work(
        rows, starts, stops, slots, tuple(levels), high_rows.to(offsets.dtype), num_hubs,
        hub_slots.to(offsets.dtype), num_slots,
    )  # fmt: skip
