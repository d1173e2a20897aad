"""How kernels are started: the sizes of their tiles, and the one place where a launch happens."""

from typing import Any

import triton

from edgewise.backends.triton.tiles import Form
from edgewise.backends.triton.work import LOW

CHANNELS = 256
"""Channels that a program holds of each edge; heads beyond them are for other programs."""
NUMBERS = 32
"""Numbers of a tile that a thread holds, in registers."""
MOST_ROWS = 64
"""Low rows of one program."""
MOST_EDGES = 64
"""Edges that are read at once."""
LOW_WARPS = 4
"""Warps of a program that has several rows."""
THREADS = 32
"""Threads of a warp."""


def forms_of(
    kind: str, activation: str, root: bool, normalizer: str, given: bool, drops: bool, num_heads: int, key_dim: int,
    value_dim: int,
) -> tuple[Form, Form]:  # fmt: skip
    """How programs of low rows and of high rows are compiled."""
    key, value = (triton.next_power_of_2(max(dim, 1)) for dim in (key_dim, value_dim))
    heads = min(triton.next_power_of_2(num_heads), max(1, CHANNELS // max(key, value)))
    width = heads * max(key, value)
    rows = max(1, min(MOST_ROWS, NUMBERS * THREADS * LOW_WARPS // (LOW * width)))
    block = max(4, min(MOST_EDGES, NUMBERS * THREADS * high_warps(width) // width))
    common = kind, activation, root, normalizer, given, drops, num_heads, key_dim, value_dim, heads, key, value
    return Form(*common, rows, LOW), Form(*common, 1, block)


def high_warps(width: int) -> int:
    """Warps of a program that has one row of so many channels."""
    return 1 if width <= 128 else 2


def warps_of(form: Form) -> int:
    """Warps of a program."""
    return LOW_WARPS if form.rows > 1 else high_warps(form.heads * max(form.key_width, form.value_width))


def launch(kernel: Any, programs: int, form: Form, *arguments: Any, warps: int | None = None, **constants: Any) -> None:
    """Runs a kernel: so many programs for each group of heads."""
    groups = triton.cdiv(form.num_heads, form.heads)
    if programs > 0:
        kernel[(programs, groups)](*arguments, **constants, F=form, num_warps=warps or warps_of(form))
