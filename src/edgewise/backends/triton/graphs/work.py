"""How the small graphs of a batch are packed: whole graphs next to each other in tiles, so that no edge leaves its own.

A cut lies after node i where no edge joins one of 0 … i with one behind it. What lies between two cuts is a graph, or
several that belong together; as many as fit share a tile.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from edgewise.neighborhood.index import sent_together
from edgewise.neighborhood.plan import at_home

TILE_SIZES = (32, 64)
"""How many nodes fit in a tile."""
WORD = 32
"""Senders whose bits are one number."""


class Tiles(NamedTuple):
    """Tiles of one size."""

    firsts: Tensor
    """The first node of each tile."""
    counts: Tensor
    """How many nodes it has."""
    words: Tensor
    """Where its bits begin."""


@dataclass(frozen=True, eq=False)
class Packing:
    """The tiles of a batch. All tensors are int32."""

    sizes: tuple[int, ...]
    """The sizes of tiles that occur."""
    tiles: tuple[Tiles, ...]
    """The tiles of each."""
    seen: Tensor
    """Bits, for each receiver of a tile `size // 32` words: bit j of word w is sender `32 w + j` of the tile."""
    edges: Tensor
    """The caller's number of each edge; those of a receiver in the order of their senders."""

    def to(self, device: torch.device) -> "Packing":
        """The same for programs on `device`, sent there as one tensor."""
        if self.seen.device == device:
            return self
        tensors = [*(x for tiles in self.tiles for x in tiles), self.seen, self.edges]
        *parts, seen, edges = sent_together(tensors, device)
        tiles = tuple(Tiles(*parts[first : first + 3]) for first in range(0, len(parts), 3))
        return replace(self, tiles=tiles, seen=seen, edges=edges)


def packing_of(lists: Sequence[Tensor], max_nodes: int, max_pairs: int) -> Packing | None:
    """The tiles of a plan, see `pack`; made once and cached as long as the plan lives.

    A plan that was made on the CPU is packed there: on the device a few numbers would have to be read back.
    """
    packings = _made.setdefault(lists[0], {})
    if (max_nodes, max_pairs) not in packings:
        packing = pack([at_home(x) for x in lists], max_nodes, max_pairs)
        packings[max_nodes, max_pairs] = packing and packing.to(lists[0].device)
    return packings[max_nodes, max_pairs]


_made: WeakIdKeyDictionary = WeakIdKeyDictionary()


def pack(lists: Sequence[Tensor], max_nodes: int, max_pairs: int) -> Packing | None:
    """Packs the graphs of a plan; a few numbers are read back from the device.

    Args:
        lists: offsets, neighbors and edges by receiver, then by sender.
        max_nodes: the most nodes of a tile.
        max_pairs: the most pairs of nodes in tiles for each edge: beyond them the kernels over lists take less time.

    Returns:
        None where the graph is not made of such small ones, where these have too few edges, where senders and receivers
        are not equally many, or where an edge occurs twice.

    >>> from edgewise import Edges
    >>> node = torch.arange(30)
    >>> plan = Edges(node.repeat(30), node.repeat_interleave(30), 30, 30).plan
    >>> packing = pack([plan.receiver_offsets, plan.senders, plan.receiver_edges, plan.sender_offsets], 64, 20)
    >>> packing.sizes, [x.tolist() for x in packing.tiles[0]], packing.seen[:1].tolist() == [2**30 - 1]
    ((32,), [[0], [30], [0]], True)
    """
    offsets, senders, edges, sender_offsets = lists[:4]
    num_nodes, num_edges = len(offsets) - 1, len(senders)
    if num_edges == 0 or len(sender_offsets) != len(offsets) or offsets.dtype != torch.int32:
        return None

    node = torch.arange(num_nodes, dtype=torch.int32, device=offsets.device)
    receivers = node.repeat_interleave(offsets.diff(), output_size=num_edges)
    if int((senders - receivers).abs_().max()) >= max_nodes:
        return None

    code, order = (receivers.long() * num_nodes + senders).sort()
    ends = _cuts(code, offsets, node)
    if int(ends.diff(prepend=ends.new_zeros(1)).max()) > max_nodes or bool((code.diff() == 0).any()):
        return None

    tiles = _tiles([0, *ends.tolist()], [size for size in TILE_SIZES if size <= max_nodes])
    if sum(size**2 for _, _, size in tiles) > max_pairs * num_edges:
        return None

    firsts, counts, tile_sizes = torch.tensor(tiles, dtype=torch.int64, device=offsets.device).unbind(1)
    num_words = tile_sizes * tile_sizes // WORD
    words = num_words.cumsum(0) - num_words
    tile = torch.arange(len(tiles), device=offsets.device).repeat_interleave(counts, output_size=num_nodes)[receivers]
    receiver_in_tile, sender_in_tile = receivers - firsts[tile], senders - firsts[tile]
    at = words[tile] + receiver_in_tile * (tile_sizes[tile] // WORD) + sender_in_tile // WORD
    seen = at.new_zeros(sum(size * size // WORD for _, _, size in tiles))
    seen.index_add_(0, at, torch.ones_like(at) << sender_in_tile % WORD)
    sizes_of_tiles = sorted({size for _, _, size in tiles})
    groups = [
        Tiles(*(x[tile_sizes == size].to(torch.int32) for x in (firsts, counts, words))) for size in sizes_of_tiles
    ]

    return Packing(tuple(sizes_of_tiles), tuple(groups), seen.to(torch.int32), edges[order])


def _cuts(code: Tensor, offsets: Tensor, node: Tensor) -> Tensor:
    """One past the last node of each graph, from receivers · nodes + senders in their order."""
    has_some = offsets[1:] > offsets[:-1]
    last = len(code) - 1
    lowest = torch.where(has_some, code[offsets[:-1].clamp(max=last)] % len(node), node)
    highest = torch.where(has_some, code[(offsets[1:] - 1).clamp(min=0)] % len(node), node)
    up_to = highest.cummax(0).values
    behind = lowest.flip(0).cummin(0).values.flip(0)
    is_cut = (up_to <= node) & torch.cat([behind[1:] > node[:-1], node.new_ones(1, dtype=torch.bool)])
    return is_cut.nonzero().squeeze(1) + 1


def _tiles(bounds: list[int], sizes: list[int]) -> list[tuple[int, int, int]]:
    """First node, nodes and size of each tile: the smallest that the next graph fits in, and those behind it."""
    tiles, at = [], 0
    while at < len(bounds) - 1:
        first = bounds[at]
        size = next(size for size in sizes if bounds[at + 1] - first <= size)
        at = bisect_right(bounds, first + size) - 1
        tiles.append((first, bounds[at] - first, size))
    return tiles
