"""How kernels over blocks of pairs are started: the sizes of the blocks, and the one place where a launch happens."""

from typing import Any

import triton
from edgewise.backends.triton.range_tiles import Tiling, member_of

BLOCK = 64
"""Queries, and keys, of a block of pairs."""
OWN = 4096
"""Numbers of its own nodes that a program of the backward pass has in registers, where it adds pair by pair."""
LEAST = 16
"""The smallest side of a matrix product."""


def tiling_of(
    kind: str, activation: str, root: bool, normalizer: str, drops: bool, key_dim: int, value_dim: int
) -> Tiling:
    """How programs over blocks of pairs are compiled."""
    key, value = (max(LEAST, triton.next_power_of_2(dim)) for dim in (key_dim, value_dim))
    queries, keys = BLOCK, BLOCK
    if max(key, value) > 128:
        queries, keys = max(LEAST, queries // 2), max(LEAST, keys // 2)
    steps, is_compiled = triton.cdiv(key_dim, 4) * 4, isinstance(member_of, triton.JITFunction)
    return Tiling(
        kind, activation, root, normalizer, drops, is_compiled, key_dim, value_dim, key, value, steps, queries, keys
    )


def adding(form: Tiling) -> tuple[Tiling, Tiling]:
    """The same for programs that own queries and for those that own keys, of whose features registers hold few."""
    if form.kind in ("Product", "Blind"):
        return form, form
    own = max(LEAST, min(BLOCK, OWN // form.key_width))
    return form._replace(queries=own), form._replace(keys=own)


def launch_tiles(kernel: Any, programs: int, form: Tiling, *arguments: Any, warps: int = 4, **constants: Any) -> None:
    """Runs a kernel over blocks of pairs."""
    if programs > 0:
        kernel[(programs,)](*arguments, **constants, F=form, num_warps=warps, num_stages=2, maxnreg=255)
