"""Torch's flash attention for packed sequences, `torch.nn.attention.varlen`: windows, segments and lengths on CUDA.

The kernel takes all nodes on one axis, and boundaries that cut it into members: the queries of a member attend to its
keys, inside a window that is aligned at the end. Where `sdpa` would need a table of all pairs, it computes only the
blocks in which there are some.

It writes what the boundaries cover, and nothing else. So they cover everything: queries outside every segment are made
members without keys, whose output and gradient are zero, and keys that no query may attend to members without queries,
which are not read. The same is done to queries before the first key of a window and to keys before it. Like `sdpa`, and
unlike the library's own kernels, it promises that NaN stays out for such keys only: a value outside a causal mask or
a window, but in the same block, is multiplied by a weight of zero.

Members shorter than a block are left to `triton`: this kernel would compute mostly padding, and its backward pass holds
a block of float32 for each member.
"""

import inspect

import torch
from torch import Tensor

from edgewise.backends import dots, kernels, members
from edgewise.backends.call import Call
from edgewise.neighborhood import Ranges, Segments
from edgewise.neighborhood.checks import broadcast_shape

NAME = "varlen"
DEVICES = ("cuda",)
"""Where the kernel runs; tests put a formula in its place, on a CPU."""
DTYPES = (torch.bfloat16, torch.float16)
BLOCK = 128
"""Queries of a block."""
MAX_FEATURES = 256
"""Features of a head; the kernel reads eight at a time."""


def refusals(call: Call) -> tuple[str, ...]:
    """Why torch's kernel cannot take the call, in words; empty where it can."""
    if call.query.device.type not in DEVICES:
        return (f"the tensors are on {call.query.device}",)  # and nothing else is checked, call after call

    reasons = kernels.tensor_refusals(call, DEVICES, DTYPES)
    reasons += members.refusals(call)
    reasons += dots.refusals(call)
    if call.bias is not None:
        reasons.append("there is a bias")
    if call.dropout > 0:
        reasons.append("there is dropout")
    if not reasons:
        reasons += _size_refusals(call)
    if not reasons and (missing := _missing(call.query.device)):
        reasons.append(missing)

    return tuple(reasons)


def _size_refusals(call: Call) -> list[str]:
    assert call.value is not None and isinstance(call.neighborhood, Ranges)
    if kernels.is_exporting():
        return ["the graph is exported, for lengths that are not known"]
    if not dots.keeps_a_mask(scale := dots.scale_of(call)):
        return [f"the scale {scale} would open the mask of the kernel, or make it NaN"]

    key_dim, value_dim = call.key.shape[-1], call.value.shape[-1]
    if key_dim != value_dim:
        return [f"a head has {key_dim} features of keys, but {value_dim} of values"]
    if key_dim % 8 != 0 or key_dim > MAX_FEATURES:
        return [f"a head has {key_dim} features, which is not a multiple of 8 up to {MAX_FEATURES}"]
    if call.num_queries == 0 or call.num_keys == 0 or call.batch_size == 0:
        return ["there are no queries or no keys"]

    frames = members.parts_of(call.neighborhood).frames
    count = frames[0].query_offsets.shape[-1] - 1 if frames and isinstance(frames[0], Segments) else 1
    if call.num_queries < BLOCK * count:
        return [f"sequences are shorter, on average, than a block of {BLOCK} queries"]

    return []


def _missing(device: torch.device) -> str:
    """What of torch or of the device is missing; looked up once."""
    if device not in _found:
        _found[device] = _missing_now(device)
    return _found[device]


_found: dict[torch.device, str] = {}
# What torch.compiler.assume_constant_result does, without importing the compiler: a trace cannot follow an import.
_missing._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _missing_now(device: torch.device) -> str:
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return f"torch {torch.__version__} lacks torch.nn.attention.varlen; torch 2.11 has"
    if not {"scale", "window_size"} <= inspect.signature(varlen_attn).parameters.keys():
        return f"torch.nn.attention.varlen of torch {torch.__version__} knows no window; that of torch 2.11 does"
    if not torch.backends.cuda.is_flash_attention_available():
        return "torch was built without flash attention"
    capability = torch.cuda.get_device_capability(device)
    return "" if capability >= (8, 0) else f"the device has compute capability {capability}, less than (8, 0)"


def run(call: Call) -> Tensor:
    """softmax(q kᵀ / √key_dim) v over the neighborhood."""
    from torch.nn.attention.varlen import varlen_attn

    assert isinstance(call.neighborhood, Ranges)
    query, key, value, scale = dots.operands(call)
    neighborhood_batch = call.neighborhood.batch_shape
    batch = broadcast_shape(query.shape[:-2], key.shape[:-2], value.shape[:-2], neighborhood_batch)

    # Heads are an axis of their own where they have one neighborhood and the memory holds them so, or shares their
    # keys; else they are sequences, one after the other.
    has_heads = len(batch) > 0 and (len(neighborhood_batch) == 0 or neighborhood_batch[-1] == 1)
    has_heads = has_heads and (query.stride(-3) < query.stride(-2) or key.shape[-3] == 1 or value.shape[-3] == 1)
    outer = batch[:-1] if has_heads else batch
    query, key, value = (_packed(x.expand(*batch, *x.shape[-2:]), has_heads) for x in (query, key, value))
    before, after = (-1 if side == members.ALL else side for side in members.parts_of(call.neighborhood).reach)
    cut = members.members_of(call, outer)
    out = varlen_attn(
        query, key, value, cut.query_boundaries, cut.key_boundaries, cut.max_queries, cut.max_keys,
        scale=scale, window_size=(before, after),
    )  # fmt: skip
    assert isinstance(out, Tensor)
    out = out.reshape(*outer, call.num_queries, *out.shape[1:])

    return out.transpose(-3, -2) if has_heads else out.squeeze(-2)


def _packed(x: Tensor, has_heads: bool) -> Tensor:
    """`(*batch, node, feature)` as `(all nodes, head, feature)`, seen as it lies in memory where its strides allow."""
    x = (x.transpose(-3, -2) if has_heads else x.unsqueeze(-2)).flatten(0, -3)
    # The kernel reads eight features at a time, from places that are multiples of eight; where a graph is traced,
    # it is unknown where the memory of a tensor begins.
    offsets = (x.stride(0), x.stride(1), 0 if torch.compiler.is_compiling() else x.storage_offset())
    is_readable = x.stride(-1) == 1 and all(offset % 8 == 0 for offset in offsets)
    return x if is_readable else x.clone(memory_format=torch.contiguous_format)
