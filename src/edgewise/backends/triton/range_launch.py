"""How kernels over blocks of pairs are started: the sizes of the blocks, and the one place where a launch happens."""

from typing import Any, NamedTuple

import triton
from edgewise.backends.triton.range_tiles import Tiling, member_of

BLOCK = 64
"""Queries, and keys, of a block of pairs at most."""
OWN = 8192
"""Numbers of its own nodes that a program of the backward pass has in registers, where it adds pair by pair."""
LEAST = 16
"""The smallest side of a matrix product."""
WIDE = 128
"""Features above which blocks are smaller."""
OPTIONS = {"num_warps": 8, "num_stages": 2, "maxnreg": 255}
"""How the compiler is to make a program; of a thread's registers, as many as it can have."""
LANES = OPTIONS["num_warps"] * 2
"""Queries that the threads have side by side."""


class Tilings(NamedTuple):
    """How programs over blocks of pairs are compiled; of the scores, the same is said in all."""

    forward: Tiling
    """Of the forward pass."""
    by_query: Tiling
    """Of the backward pass, where programs own queries."""
    by_key: Tiling
    """Of the backward pass, where programs own keys."""


def tilings_of(
    kind: str, activation: str, root: bool, normalizer: str, drops: bool, key_dim: int, value_dim: int, is_half: bool
) -> Tilings:
    """Blocks as large as registers hold them: float32 takes twice the room, and products take it beside their sums."""
    key, value = (max(LEAST, triton.next_power_of_2(dim)) for dim in (key_dim, value_dim))
    adds = kind in ("Smooth", "Bent", "Square")  # pair by pair, where others multiply blocks
    widest = max(key, value)
    room, few = (OWN, 32) if is_half else (OWN // 2, 32 if widest <= WIDE else LEAST)
    queries, keys = (room // widest, few) if not adds else (max(32, room // value), 32)
    if is_half and widest <= WIDE:
        keys = 64
    queries, keys = max(LEAST, min(BLOCK, queries)), min(BLOCK, keys)
    forward = Tiling(
        kind, activation, root, normalizer, drops, isinstance(member_of, triton.JITFunction), key_dim, value_dim, key,
        value, triton.cdiv(key_dim, 4) * 4, queries, keys, min(queries, LANES),
    )  # fmt: skip
    if normalizer == "Hardmax" and not adds:
        # What is the largest score must be so bit for bit, which another shape of product does not promise.
        return Tilings(forward, forward, forward)
    own = max(LEAST, min(BLOCK, room // widest))
    by_query = forward._replace(queries=own, keys=min(BLOCK, (64 if widest <= WIDE else 32) if adds else few))
    by_key = forward._replace(queries=keys if adds else min(BLOCK, few), keys=own)
    return Tilings(forward, *(form._replace(lanes=min(form.queries, LANES)) for form in (by_query, by_key)))


def launch_tiles(kernel: Any, programs: int, form: Tiling, *arguments: Any, **constants: Any) -> None:
    """Runs a kernel over blocks of pairs."""
    if programs > 0:
        kernel[(programs,)](*arguments, **constants, F=form, **OPTIONS)
