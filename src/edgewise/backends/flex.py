"""Torch's FlexAttention over ranges, by blocks: those that a query sees whole, those it sees part of, and no others.

It runs where it is named, `backend="flex"`, and never of itself. Its kernel is made by `torch.compile`, which takes
seconds at first, and again where heads, features or dtype change; `triton` has kernels for the same calls, at hand at
once, in memory that grows with queries + keys as well. Torch calls FlexAttention a prototype. Inside a function that is
compiled anyway its kernel becomes part of the graph, and there it is worth a try.

Like `sdpa` it promises that NaN stays out for keys that no query may attend to.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise.backends import dots, kernels
from edgewise.backends.call import Call
from edgewise.neighborhood import Ranges
from edgewise.neighborhood.checks import broadcast_shape

NAME = "flex"
DEVICES = ("cuda",)
"""Where the kernel is compiled; tests run it uncompiled on a CPU."""
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
BLOCK = 128
"""Queries and keys of a block."""
MIN_FEATURES, MAX_FEATURES = 16, 256
"""Features of a head that the kernel takes."""


def refusals(call: Call) -> tuple[str, ...]:
    """Why FlexAttention cannot take the call, in words; empty where it can."""
    if call.query.device.type not in DEVICES:
        return (f"the tensors are on {call.query.device}",)  # and nothing else is checked, call after call

    reasons = kernels.tensor_refusals(call, DEVICES, DTYPES)
    if not isinstance(call.neighborhood, Ranges):
        reasons.append(f"the neighborhood is a {type(call.neighborhood).__name__}, not ranges")
    reasons += dots.refusals(call)
    if call.bias is not None:
        reasons.append("there is a bias")
    if call.dropout > 0:
        reasons.append("there is dropout")
    key_dim = call.key.shape[-1]
    value_dim = key_dim if call.value is None else call.value.shape[-1]
    if min(key_dim, value_dim) < MIN_FEATURES or max(key_dim, value_dim) > MAX_FEATURES:
        reasons.append(
            f"a head has {key_dim} features of keys and {value_dim} of values, not {MIN_FEATURES} to {MAX_FEATURES}"
        )
    if call.num_queries == 0 or call.num_keys == 0 or call.batch_size == 0:
        reasons.append("there are no queries or no keys")
    if not reasons and (missing := kernels.import_error("triton", "it comes with torch for CUDA on Linux")):
        reasons.append(missing)

    return tuple(reasons)


def run(call: Call) -> Tensor:
    """softmax(q kᵀ / √key_dim) v over the neighborhood."""
    assert isinstance(call.neighborhood, Ranges)
    query, key, value, scale = dots.operands(call)
    positions = torch.arange(call.num_queries, device=query.device)
    runs = torch.broadcast_tensors(*call.neighborhood.runs(positions, call.num_queries, call.num_keys))
    starts, stops = (x.clamp(0, call.num_keys) for x in runs)

    # Scores of blocks that are seen in part are computed for all their pairs, so that nothing there may be NaN.
    query = torch.where((stops > starts).unsqueeze(-1), query, 0.0)
    seen = _seen(starts, stops, call.num_keys).unsqueeze(-1)
    key, value = torch.where(seen, key, 0.0), torch.where(seen, value, 0.0)
    batch = broadcast_shape(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    query, key, value = (dots.four_axes(x.expand(*batch, *x.shape[-2:])) for x in (query, key, value))
    if len(batch) > 2 and starts.dim() > 1:
        starts, stops = (x.expand(*batch, x.shape[-1]) for x in (starts, stops))
    starts, stops = (dots.four_axes(x.unsqueeze(-1)).squeeze(-1).to(torch.int32) for x in (starts, stops))
    out = _kernel()(query, key, value, block_mask=block_mask(starts, stops, call.num_keys), scale=scale)

    return out.reshape(*batch, *out.shape[-2:])


def block_mask(starts: Tensor, stops: Tensor, num_keys: int) -> Any:
    """Runs `(outer or 1, inner or 1, query)` as FlexAttention's `BlockMask`.

    For each block of queries a bit says whether they may see some of a block of keys, and one whether all of them see
    all of it: O(query · key / BLOCK²) numbers, and no mask of pairs.
    """
    from torch.nn.attention.flex_attention import BlockMask

    num_queries = starts.shape[-1]
    missing = (0, -num_queries % BLOCK)
    sees = stops > starts

    def of_blocks(x: Tensor, filled: int, is_first: bool) -> Tensor:
        """The least or the greatest number of each block of queries."""
        x = F.pad(x, missing, value=filled).unflatten(-1, (-1, BLOCK))
        return (x.amin(-1) if is_first else x.amax(-1)).unsqueeze(-1)

    far = num_keys + BLOCK
    first_seen = of_blocks(torch.where(sees, starts, far), far, True)
    last_seen = of_blocks(torch.where(sees, stops, 0), 0, False)

    # Where a query sees no key, or is padding, no block is seen whole.
    first_whole = of_blocks(torch.where(sees, starts, far), far, False)
    last_whole = of_blocks(torch.where(sees, stops, 0), 0, True)
    begin = torch.arange(0, num_keys, BLOCK, device=starts.device, dtype=starts.dtype)
    is_partly_seen = (begin < last_seen) & (begin + BLOCK > first_seen)
    is_fully_seen = (begin >= first_whole) & (begin + BLOCK <= last_whole)

    return BlockMask.from_kv_blocks(
        *_listed(is_partly_seen & ~is_fully_seen), *_listed(is_fully_seen), BLOCK_SIZE=BLOCK,
        mask_mod=_rule(starts, stops), seq_lengths=(num_queries, num_keys),
    )  # fmt: skip


def _listed(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """How many bits of each row are set, and where, in order; what follows is meaningless."""
    counts = blocks.sum(-1, dtype=torch.int32)
    return counts, blocks.to(torch.int8).argsort(dim=-1, descending=True, stable=True).to(torch.int32)


def _rule(starts: Tensor, stops: Tensor) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """Whether a pair is one of the runs. An axis of size 1 serves all; a number may not be part of the rule."""
    by_outer, by_inner = starts.shape[0] > 1, starts.shape[1] > 1

    def is_pair(outer: Tensor, inner: Tensor, query: Tensor, key: Tensor) -> Tensor:
        outer = outer if by_outer else torch.zeros_like(outer)
        inner = inner if by_inner else torch.zeros_like(inner)
        return (starts[outer, inner, query] <= key) & (key < stops[outer, inner, query])

    return is_pair


def _seen(starts: Tensor, stops: Tensor, num_keys: int) -> Tensor:
    """Whether a query sees a key, `(*batch, key)`: more runs have started there than ended."""
    change = torch.zeros(*starts.shape[:-1], num_keys + 1, dtype=torch.int64, device=starts.device)
    one = torch.ones((), dtype=torch.int64, device=starts.device).expand_as(starts)
    return change.scatter_add(-1, starts, one).scatter_add(-1, stops, -one).cumsum(-1)[..., :-1] > 0


def _kernel() -> Callable[..., Tensor]:
    """The compiled kernel; under a compiler the function itself, which then becomes part of its graph."""
    if torch.compiler.is_compiling():
        from torch.nn.attention.flex_attention import flex_attention

        return flex_attention
    return _compiled()


@cache
def _compiled() -> Callable[..., Tensor]:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention)
