"""How kernels are started: the sizes of their tiles, and the one place where a launch happens."""

from functools import cache
from typing import Any

from edgewise.backends.triton.edges.tiles import Form
from edgewise.backends.triton.sizes import MOST_REGISTERS, ceiling, is_padded, power_of_two

CHANNELS = 256
"""Channels that a program holds of each edge; heads beyond them are for other programs."""
WARP = 128
"""Channels for each warp of a program. Programs are small: many of them wait for memory at the same time."""
NUMBERS = 1024
"""Numbers of a tile that a warp holds, 32 a thread, in registers."""
NARROW = 64
"""Channels of a narrow tile."""
SHORT = 8
"""Features of a head that is short: a tile of such heads has many numbers of a head and an edge beside it."""
BLOCKS = (32, 16, 4)
"""Edges of a row that are read at once: the fewest that hold a low row, or as many as a program's registers do."""


@cache
def forms_of(
    kind: str, activation: str, root: bool, normalizer: str, given: bool, drops: bool, carries: bool, shares: bool,
    num_heads: int, key_dim: int, value_dim: int, unit: int = 1,
) -> tuple[Form, ...]:  # fmt: skip
    """How programs are compiled: those of high rows, then those that hold several rows, of fewer and fewer edges.

    Tiles are smaller where edges carry keys and values of their own (`carries`), of which there are tiles too; where
    weights are dropped, for which numbers are drawn; where features are not as many as a power of two, and are read one
    by one; and where tiles are narrow or heads short, as there are more numbers of edges then.
    """
    key, value = (power_of_two(dim) for dim in (key_dim, value_dim))
    heads = min(power_of_two(num_heads), max(1, CHANNELS // max(key, value)))
    width = heads * max(key, value)
    is_narrow = width <= NARROW or max(key, value) <= SHORT
    halvings = carries + drops + (is_padded(key_dim, key) or is_padded(value_dim, value)) + is_narrow
    edges = max(1, min(BLOCKS[0], (NUMBERS >> halvings) * max(1, width // WARP) // width))
    common = kind, activation, root, normalizer, given, drops, shares, num_heads, key_dim, value_dim, heads, key, value
    high = Form(*common, 1, edges, unit)
    return high, *(Form(*common, edges // block, block, unit) for block in BLOCKS if block < edges)


def warps_of(form: Form) -> int:
    """Warps of a program."""
    return max(1, form.heads * max(form.key_width, form.value_width) // WARP)


def options_of(form: Form, warps: int | None = None) -> dict[str, int]:
    """How the compiler is to make a program.

    Left alone it gives programs fewer registers than they need, for the sake of more programs at once, and puts some
    numbers aside into memory.
    """
    return {"num_warps": warps or warps_of(form), "maxnreg": MOST_REGISTERS}


def launch(kernel: Any, programs: int, form: Form, *arguments: Any, warps: int | None = None, **constants: Any) -> None:
    """Runs a kernel: so many programs for each group of heads."""
    groups = ceiling(form.num_heads, form.heads)
    if programs > 0:
        kernel[(programs, groups)](*arguments, **constants, F=form, **options_of(form, warps))
