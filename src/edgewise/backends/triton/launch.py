"""How kernels are started: the sizes of their tiles, and the one place where a launch happens."""

from typing import Any

import triton
from edgewise.backends.triton.tiles import Form
from edgewise.backends.triton.work import LOW

CHANNELS = 256
"""Channels that a program holds of each edge; heads beyond them are for other programs."""
WARP = 128
"""Channels for each warp of a program. Programs are small: many of them wait for memory at the same time."""
NUMBERS = 1024
"""Numbers of a tile that a warp holds, 32 a thread, in registers."""
MOST_ROWS = 64
"""Low rows of one program."""
MOST_EDGES = 64
"""Edges that are read at once."""


def forms_of(
    kind: str, activation: str, root: bool, normalizer: str, given: bool, drops: bool, shares: bool, num_heads: int,
    key_dim: int, value_dim: int,
) -> tuple[Form, Form]:  # fmt: skip
    """How programs of high rows and of low rows are compiled; alike where a tile holds one low row."""
    key, value = (triton.next_power_of_2(max(dim, 1)) for dim in (key_dim, value_dim))
    heads = min(triton.next_power_of_2(num_heads), max(1, CHANNELS // max(key, value)))
    width = heads * max(key, value)
    edges = NUMBERS * max(1, width // WARP) // width
    common = kind, activation, root, normalizer, given, drops, shares, num_heads, key_dim, value_dim, heads, key, value
    high = Form(*common, 1, max(LOW, min(MOST_EDGES, edges)))
    return high, Form(*common, max(1, min(MOST_ROWS, edges // LOW)), LOW)


def warps_of(form: Form) -> int:
    """Warps of a program."""
    return max(1, form.heads * max(form.key_width, form.value_width) // WARP)


def launch(kernel: Any, programs: int, form: Form, *arguments: Any, warps: int | None = None, **constants: Any) -> None:
    """Runs a kernel: so many programs for each group of heads."""
    groups = triton.cdiv(form.num_heads, form.heads)
    if programs > 0:
        kernel[(programs, groups)](*arguments, **constants, F=form, num_warps=warps or warps_of(form))
