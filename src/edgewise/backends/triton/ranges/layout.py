"""From a call over runs of keys to the plain tensors of its operators, and how its kernels are compiled."""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

import triton
from edgewise.backends.formula import RangeInputs
from edgewise.backends.lower import Lowered
from edgewise.backends.triton.launch import start
from edgewise.backends.triton.ranges.tiles import Tiling, member_of
from edgewise.backends.triton.sizes import MAX_REGISTERS, ceiling, is_padded, power_of_two
from edgewise.neighborhood import Causal, Full, Ranges, Window
from edgewise.neighborhood.checks import broadcast_shape, is_traced
from edgewise.neighborhood.operator import PLAIN

BLOCK = 64
"""Queries, and keys, of a block of pairs at most."""
MIN_SIDE = 16
"""The smallest side of a matrix product."""
FEATURES_AT_ONCE = 16
"""Features that a product of float32 reads at a time."""
WIDE, WIDE_AT_ONCE = 256, 64
"""So many features of half precision are read so many at a time, with dropout or where they are fewer than there is
room for."""
WARPS = 8
"""Warps of a program."""
LEAN = 64
"""Features of additive scores of float32 up to which a program has half of the registers."""
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
    """How programs over blocks of pairs are compiled; the scores are the same in all."""

    forward: Tiling
    by_query: Tiling
    """For the backward pass, where programs own queries."""
    by_key: Tiling
    """For the backward pass, where programs own keys."""


def inputs_of(lowered: Lowered, seed: Tensor, queries: Tensor | None = None) -> tuple[RangeInputs, tuple[int, ...]]:
    """The operator's arguments, for some of the queries where they are named, and the batch axes of all together."""
    call = lowered.call
    assert isinstance(call.neighborhood, Ranges)
    (query, key), value, bias = lowered.nodes, call.value, call.bias
    shapes = [x.shape[:-2] for x in (query, key, value) if x is not None]
    runs = None if queries is not None else kept_runs(call.neighborhood, query, call.num_queries, call.num_keys)
    if runs is None:
        positions = torch.arange(call.num_queries, device=query.device) if queries is None else queries
        all_runs = torch.broadcast_tensors(*call.neighborhood.kernel_runs(positions, call.num_queries, call.num_keys))
        shapes.append(all_runs[0].shape[:-1])
    if queries is not None:
        query = query.index_select(-2, queries)
        bias = bias if bias is None or bias.shape[-2] == 1 else bias.index_select(-2, queries)
    shapes += [] if bias is None else [bias.shape[:-2]]
    shapes += [] if lowered.vector is None else [lowered.vector.shape[:-1]]
    batch = broadcast_shape(*shapes)
    members = math.prod(batch[:-1]), batch[-1] if batch else 1
    nodes = [key.new_empty(*key.shape[:-1], 1) if x is None else x for x in (query, key, value)]
    query, key, value = (x.expand(*members, *x.shape[2:]) for x in (_of_members(x, batch, 2) for x in nodes))
    vector = None
    if lowered.vector is not None:
        vector = lowered.vector.float().expand(*lowered.vector.shape[:-1], query.shape[-1])
        vector = _of_members(vector, batch, 1).expand(*members, -1)
    bias = None if bias is None else _of_members(bias, batch, 2)
    starts, stops = runs or (_of_members(x.to(torch.int32), batch, 1).contiguous() for x in all_runs)
    tensors = query, key, value, bias, vector, starts, stops

    return RangeInputs(*tensors, query.shape[-1], *lowered.formula, call.dropout, seed), batch


def kept_runs(neighborhood: Ranges, query: Tensor, num_queries: int, num_keys: int) -> tuple[Tensor, Tensor] | None:
    """First and one past the last key of every query, `(1, 1, query)`, where the neighborhood is known by its settings.

    They are a dozen operations on a few numbers, whose launches take longer than attention over a short sequence. None
    where a neighborhood holds tensors; while a graph is traced or captured, whose memory they were; and while a mode of
    torch may make other tensors than it seems.
    """
    device, neighborhood_class = query.device, type(neighborhood)
    if neighborhood_class not in (Full, Causal, Window) or type(query) not in PLAIN or is_traced():
        return None
    if torch._C._len_torch_dispatch_stack() or is_captured(device):
        return None
    stream = torch.cuda.current_stream(device) if device.type == "cuda" else None
    return _kept_runs(neighborhood_class, tuple(vars(neighborhood).values()), num_queries, num_keys, device, stream)


@lru_cache(maxsize=64)
def _kept_runs(
    neighborhood_class: type[Ranges],
    settings: tuple,
    num_queries: int,
    num_keys: int,
    device: torch.device,
    stream: Any,
) -> tuple[Tensor, Tensor]:
    """The runs of a neighborhood of this kind, for use in the stream in which they are made."""
    with torch.inference_mode(False):
        runs = neighborhood_class(*settings).runs(torch.arange(num_queries, device=device), num_queries, num_keys)
        starts, stops = (x.to(torch.int32)[None, None] for x in runs)
    KEPT[starts] = {}
    return starts, stops


def is_captured(device: torch.device) -> bool:
    """Whether launches on a device may become part of a CUDA graph, and memory that of the graph; True for a device
    that is not the current one, whose stream torch does not show."""
    is_current = device.type != "cuda" or device.index == torch.cuda.current_device()
    return not is_current or (device.type == "cuda" and torch.cuda.is_current_stream_capturing())


KEPT: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""The starts of runs that are kept, with what is made of them for blocks of several sizes."""


def _of_members(x: Tensor, batch: tuple, axes: int) -> Tensor:
    """The batch axes as two, `(outer or 1, inner or 1, …)`: where there are more, the first ones become one."""
    x = x[(None,) * (max(len(batch), 2) + axes - x.dim())]
    if len(batch) > 2:
        outer = x.shape[: len(batch) - 1]
        is_shared = math.prod(outer) == 1
        x = (x if is_shared else x.expand(*batch[:-1], *x.shape[len(batch) - 1 :])).flatten(0, len(batch) - 2)
    return x if axes == 1 or x.stride(-1) == 1 or x.shape[-1] <= 1 else x.contiguous()


def tilings_of(inputs: RangeInputs) -> Tilings:
    """How the passes over blocks of pairs are compiled.

    Blocks are smaller where a number is drawn for every pair, where features are not as many as a power of two and are
    read one by one, and in the backward pass where a threshold stands beside sums over features.
    """
    score_name, normalizer, drops = inputs.kind, inputs.normalizer, inputs.dropout > 0
    key_dim, value_dim = inputs.query.shape[-1], inputs.value.shape[-1]
    is_half, is_biased = inputs.value.itemsize == 2, inputs.bias is not None
    key, value = (max(MIN_SIDE, power_of_two(dim)) for dim in (key_dim, value_dim))
    adds = score_name in ("Additive", "GATv2", "Distance")
    sizes = SIZES["added" if adds else "multiplied", is_half]
    _, by_query, by_key = _of_width(sizes, max(key, value))

    # What is added pair by pair is read anew for each pair of features: only values have a place in registers.
    ahead, _, _ = _of_width(sizes, value if adds else max(key, value))
    if score_name == "Additive" and not (is_half or is_biased) and max(key, value) <= min(sizes):
        by_key = 32, by_key[1]
    is_uneven = is_padded(key_dim, key) or is_padded(value_dim, value)
    features_at_once = FEATURES_AT_ONCE
    if is_half:
        features_at_once = WIDE_AT_ONCE if (drops or is_uneven) and max(key, value) == WIDE else max(key, value)
    common = Tiling(
        score_name, inputs.activation, inputs.root, normalizer, drops, isinstance(member_of, triton.JITFunction),
        key_dim, value_dim, key, value, ceiling(key_dim, 4) * 4, 0, 0, 0, features_at_once,
    )  # fmt: skip
    blocks = [ahead, by_query, by_key]
    for _ in range(drops + is_uneven):
        blocks = [_halved(_halved(block, side), 1 - side) for block, side in zip(blocks, OWN, strict=True)]
    if adds and normalizer in ("Sparsemax", "Entmax15"):
        blocks[1:] = [_halved(block, 1 - side) for block, side in zip(blocks[1:], OWN[1:], strict=True)]
    if normalizer == "Hardmax" and not adds:
        # What is the largest score must be so bit for bit, which another shape of product does not promise.
        blocks = [blocks[1]] * len(blocks)

    return Tilings(*(_sized(common, *block) for block in blocks))


def _halved(size: Size, side: int) -> Size:
    """A block of half as many queries (side 0) or keys (1), or of fewer of the others where these are the fewest."""
    queries, keys = size
    if (side == 0 and queries > MIN_SIDE) or keys == MIN_SIDE:
        return max(MIN_SIDE, queries // 2), keys
    return queries, keys // 2


def _of_width(sizes: dict[int, tuple[Size, Size, Size]], width: int) -> tuple[Size, Size, Size]:
    return sizes[min(known_width for known_width in sizes if known_width >= width)]


def _sized(form: Tiling, queries: int, keys: int) -> Tiling:
    queries, keys = min(queries, BLOCK), min(keys, BLOCK)
    return form._replace(queries=queries, keys=keys, lanes=min(queries, WARPS * 2))


def options_of(form: Tiling) -> dict[str, int]:
    """How the compiler is to make a program: what reads few features at a time needs all registers and
    cannot read ahead.

    What adds one feature after the other waits for them, and gives up registers for a second program beside it: an H200
    takes three quarters of the time forward, although some numbers go into memory.
    """
    is_uneven = is_padded(form.key_dim, form.key_width) or is_padded(form.value_dim, form.value_width)
    stages = 1 if form.features_at_once == FEATURES_AT_ONCE or is_uneven else 2
    is_lean = form.kind == "Additive" and form.features_at_once == FEATURES_AT_ONCE and form.key_width <= LEAN
    return {"num_warps": WARPS, "num_stages": stages, "maxnreg": MAX_REGISTERS // 2 + 1 if is_lean else MAX_REGISTERS}


def launch_tiles(kernel: Any, programs: int, form: Tiling, *arguments: Any, **constants: Any) -> None:
    """Runs a kernel over blocks of pairs."""
    if programs > 0:
        start(kernel, (programs,), arguments, {**constants, "F": form}, options_of(form))
