"""How the kernels over small graphs are started: which calls they take, the sizes of tiles, and the launch."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import triton
from edgewise.backends.triton.edges.forward import Operands
from edgewise.backends.triton.edges.tiles import Form
from edgewise.backends.triton.graphs.kernels import RUN, TileForm, TileInputs, forward
from edgewise.backends.triton.graphs.work import TILE_SIZES, Packing, packing_of
from edgewise.backends.triton.launch import Common, start
from edgewise.backends.triton.sizes import MAX_REGISTERS, ceiling, is_padded

MIN_SIDE = 16
"""The smallest side of a matrix product."""
NUMBERS = 4096
"""Nodes times features of a tile at most, half as many in float32, of which products hold three parts."""
ROWS = 32
"""Receivers that are computed together; half as many in float32."""
WARP = 512
"""Nodes times features, at least 32, for each warp of a program. Fewer hold more than they have registers for."""
HEADS, PROGRAMS = 8, 4096
"""Heads that a program has one after the other at most, where it looks up the numbers of edges for all of them, and how
many programs there should be if possible. Where it needs no numbers a program has one head, and few registers."""
MAX_PAIRS = {2: 20, 4: 6}
"""Pairs of a tile for each edge at most, by the bytes of a number. Products of float32 take an H200 seven times as long
as those of half precision: tiles of 25 atoms with 55 bonds are left to the kernels over lists, which take a third of
that for GATv2, and were not timed for dot products."""
REGISTERS = 96, 168
"""Registers of a thread, forward and backward, of small tiles that have numbers of edges for several heads."""
MAX_WARPS = 8
"""Warps of a program, each thread of which can have all of its registers; so many take care of what is not finite."""


def packing_for(form: Form, itemsize: int, lists: Sequence[Tensor]) -> Packing | None:
    """The graphs of a plan in tiles, if kernels of this form may have them so, and if it is made of small graphs.

    Products of all pairs are cheap beside what is read. Other scores, and what edges carry beside a bias, would cost a
    pair that is not an edge as much as one that is. Features that are read one by one leave no registers for what
    dropout draws, nor for what products make of float32; which finds none either where no sum of a row comes between
    the products, and for narrow rows only in the smaller tile.
    """
    if form.kind not in ("Dot", "Constant"):
        return None

    width = max(MIN_SIDE, form.key_width, form.value_width)
    max_nodes = min(2 * NUMBERS // (itemsize * width), TILE_SIZES[-1])
    if is_uneven(form) and (itemsize == 4 or form.drops):
        return None

    if itemsize == 4:
        if form.normalizer == "Identity":
            return None
        max_nodes = TILE_SIZES[0] if width == MIN_SIDE else max_nodes

    return packing_of(lists, max_nodes, MAX_PAIRS[itemsize]) if max_nodes >= TILE_SIZES[0] else None


def launch_graphs(
    kernel: Any, packing: Packing, offsets: Tensor, form: Form, operands: Operands, *arguments: Any
) -> None:
    """Runs a kernel over all tiles and heads, the sizes of tiles one after the other, and again over those it flags.

    The offsets are those of the plan by receiver: a packing is cached as long as they live, and so cannot hold them.
    """
    key, value = max(MIN_SIDE, form.key_width), max(MIN_SIDE, form.value_width)
    rows = 2 * ROWS // operands.value.data.itemsize
    for nodes, (firsts, counts, words) in zip(packing.sizes, packing.tiles, strict=True):
        is_numbered = form.drops or operands.bias is not None
        tile_form = TileForm(
            form.kind, form.normalizer, form.drops, isinstance(forward, triton.JITFunction), form.num_heads,
            form.key_dim, form.value_dim, key, value, nodes, rows, form.sums, is_numbered,
        )  # fmt: skip
        tiles = TileInputs(firsts, counts, words, packing.seen, offsets, packing.edges)
        count = len(firsts) * form.num_heads
        flags = torch.empty(count, dtype=torch.int8, device=firsts.device)
        heads = min(HEADS, max(1, count // PROGRAMS)) if is_numbered else 1
        inputs = Common(operands), Common(tiles), flags, count, heads, *arguments
        programs = len(firsts) * ceiling(form.num_heads, heads)
        launch(kernel, programs, tile_form, warps_of(tile_form), *inputs, AGAIN=False)
        launch(kernel, ceiling(count, RUN.value), tile_form, MAX_WARPS, *inputs, AGAIN=True)


def warps_of(tile_form: TileForm) -> int:
    """Warps of a program: more where features are read one by one, where numbers are drawn for dropout, in float32."""
    warps = tile_form.nodes * max(tile_form.key_width, tile_form.value_width, ROWS) // WARP
    warps = 2 * warps if is_uneven(tile_form) or tile_form.drops else warps
    return min(MAX_WARPS, max(warps, 4) if tile_form.drops or tile_form.rows < ROWS else warps)


def is_uneven(form: Form | TileForm) -> bool:
    """Whether features do not fill a tile, and are read one by one."""
    key, value = max(MIN_SIDE, form.key_width), max(MIN_SIDE, form.value_width)
    return is_padded(form.key_dim, key) or is_padded(form.value_dim, value)


def options_of(kernel: Any, tile_form: TileForm, warps: int) -> dict[str, int | None]:
    """How the compiler is to make a program. Loops are short: nothing is read ahead for the next step.

    Left alone it gives what draws numbers, and larger tiles in the backward pass, fewer registers than they need. Small
    tiles get fewer than they would take, for the sake of more programs at once.
    """
    is_small = tile_form.rows == tile_form.nodes and max(tile_form.key_width, tile_form.value_width) <= ROWS
    if tile_form.drops or (kernel is not forward and not is_small):
        registers: int | None = MAX_REGISTERS
    elif is_small and tile_form.numbered:
        registers = REGISTERS[0 if kernel is forward else 1]
    else:
        registers = None
    return {"num_warps": warps, "num_stages": 1, "maxnreg": registers}


def launch(kernel: Any, programs: int, tile_form: TileForm, warps: int, *arguments: Any, **constants: Any) -> None:
    """Runs a kernel: the one place where a launch happens."""
    start(kernel, (programs,), arguments, {**constants, "F": tile_form}, options_of(kernel, tile_form, warps))
