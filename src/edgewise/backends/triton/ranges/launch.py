"""How kernels over blocks of pairs are started: the sizes of the blocks, and the one place where a launch happens."""

from typing import Any, NamedTuple

import triton
from edgewise.backends.triton.ranges.tiles import Tiling, member_of
from edgewise.backends.triton.sizes import MOST_REGISTERS, ceiling, is_padded, power_of_two

BLOCK = 64
"""Queries, and keys, of a block of pairs at most."""
LEAST = 16
"""The smallest side of a matrix product."""
PIECE = 16
"""Features that a product of float32 reads at a time."""
WIDE, WIDE_PIECE = 256, 64
"""So many features of half precision are read so many at a time, with dropout or where they are fewer than there is
room for."""
WARPS = 8
"""Of a program."""
Size = tuple[int, int]
SIZES: dict[tuple[str, bool], dict[int, tuple[Size, Size, Size]]] = {
    ("multiplied", False): {32: ((64, 32), (32, 32), (16, 64)), 64: ((64, 32), (32, 64), (16, 64)),
                            128: ((32, 32), (32, 32), (16, 32)), 256: ((16, 16), (16, 16), (16, 16))},
    ("multiplied", True): {64: ((64, 64), (32, 64), (32, 64)), 128: ((64, 64), (32, 32), (32, 32)),
                           256: ((32, 32), (16, 32), (16, 32))},
    ("added", False): {64: ((64, 32), (64, 32), (16, 64)), 128: ((32, 32), (32, 64), (16, 32)),
                       256: ((16, 32), (16, 32), (16, 16))},
    ("added", True): {64: ((64, 64), (64, 64), (32, 64)), 128: ((64, 64), (32, 64), (16, 32)),
                      256: ((32, 32), (16, 64), (32, 16))},
}  # fmt: skip
"""Queries and keys of a block: forward, by query and by key; where scores are products or added pair by pair, of
float32 or half precision, by the most features. The largest for which the compiler puts no number into memory."""
OWN = 0, 0, 1
"""Which side of a block a program owns in each of these, its queries or its keys; it walks over the other."""


class Tilings(NamedTuple):
    """How programs over blocks of pairs are compiled; of the scores, the same is said in all."""

    forward: Tiling
    """Of the forward pass."""
    by_query: Tiling
    """Of the backward pass, where programs own queries."""
    by_key: Tiling
    """Of the backward pass, where programs own keys."""


def tilings_of(
    kind: str, activation: str, root: bool, normalizer: str, drops: bool, key_dim: int, value_dim: int, is_half: bool,
    is_biased: bool,
) -> Tilings:  # fmt: skip
    """How the passes over blocks of pairs are compiled.

    Blocks are smaller where a number is drawn for every pair, where features are not as many as a power of two and are
    read one by one, and in the backward pass where a threshold stands beside sums over features.
    """
    key, value = (max(LEAST, power_of_two(dim)) for dim in (key_dim, value_dim))
    adds = kind in ("Smooth", "Bent", "Square")
    sizes = SIZES["added" if adds else "multiplied", is_half]
    _, by_query, by_key = _of_width(sizes, max(key, value))
    # What is added pair by pair is read anew for each pair of features: only values have a place in registers.
    ahead, _, _ = _of_width(sizes, value if adds else max(key, value))
    if kind == "Smooth" and not (is_half or is_biased) and max(key, value) <= min(sizes):
        by_key = 32, by_key[1]
    is_uneven = is_padded(key_dim, key) or is_padded(value_dim, value)
    piece = PIECE
    if is_half:
        piece = WIDE_PIECE if (drops or is_uneven) and max(key, value) == WIDE else max(key, value)
    common = Tiling(
        kind, activation, root, normalizer, drops, isinstance(member_of, triton.JITFunction), key_dim, value_dim, key,
        value, ceiling(key_dim, 4) * 4, 0, 0, 0, piece,
    )  # fmt: skip
    blocks = [ahead, by_query, by_key]
    for _ in range(drops + is_uneven):
        blocks = [_halved(_halved(block, own), 1 - own) for block, own in zip(blocks, OWN, strict=True)]
    if adds and normalizer in ("Sparsemax", "Entmax15"):
        blocks[1:] = [_halved(block, 1 - own) for block, own in zip(blocks[1:], OWN[1:], strict=True)]
    if normalizer == "Hardmax" and not adds:
        # What is the largest score must be so bit for bit, which another shape of product does not promise.
        blocks = [blocks[1]] * len(blocks)
    return Tilings(*(_sized(common, *block) for block in blocks))


def _halved(size: Size, side: int) -> Size:
    """A block of half as many queries (side 0) or keys (1), or of fewer of the others where these are the fewest."""
    queries, keys = size
    if (side == 0 and queries > LEAST) or keys == LEAST:
        return max(LEAST, queries // 2), keys
    return queries, keys // 2


def _of_width(sizes: dict[int, tuple[Size, Size, Size]], width: int) -> tuple[Size, Size, Size]:
    return sizes[min(each for each in sizes if each >= width)]


def _sized(form: Tiling, queries: int, keys: int) -> Tiling:
    queries, keys = min(queries, BLOCK), min(keys, BLOCK)
    return form._replace(queries=queries, keys=keys, lanes=min(queries, WARPS * 2))


def options_of(form: Tiling) -> dict[str, int]:
    """How the compiler is to make a program: what reads few features at a time has no registers left to read ahead."""
    is_uneven = is_padded(form.key_dim, form.key_width) or is_padded(form.value_dim, form.value_width)
    stages = 1 if form.piece == PIECE or is_uneven else 2
    return {"num_warps": WARPS, "num_stages": stages, "maxnreg": MOST_REGISTERS}


def launch_tiles(kernel: Any, programs: int, form: Tiling, *arguments: Any, **constants: Any) -> None:
    """Runs a kernel over blocks of pairs."""
    if programs > 0:
        kernel[(programs,)](*arguments, **constants, F=form, **options_of(form))
