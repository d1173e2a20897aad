"""Fused kernels for CUDA devices, compiled at first use by triton: every score and normalizer, over edges and ranges.

    attend → lower (few scores) → layout (plain tensors, sizes of tiles) → operators (what torch sees, with gradients)

    edges/    lists of edges: work (rows dealt out to programs) → forward, backward (the kernels) → tiles (their parts)
    graphs/   lists that are small graphs side by side: work (whole graphs packed into tiles) → kernels
    ranges/   runs of keys: forward, backward, weights (the strongest) → scores → tiles

They hold no (edge, head, feature) and no (query, key) intermediate: memory is O(query + key) beside what the caller
holds, and over edges a number an edge and head for normalizers that must see a whole row before they weigh one edge.
"""

import torch
from torch import Tensor

from edgewise.backends import kernels
from edgewise.backends.call import Call
from edgewise.backends.lower import lower, straight_through
from edgewise.backends.triton.sizes import CHANNELS, MAX_GROUPS, ceiling, power_of_two
from edgewise.neighborhood import Edges
from edgewise.normalize import Hardmax

NAME = "triton"
DEVICES = ("cuda",)
"""Where the kernels run; under triton's interpreter, tests run them on a CPU."""
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
MAX_FEATURES = 256
"""Features of a head."""
MAX_TOP = 64
"""Weights of a query over ranges that are held as its strongest."""


def refusals(call: Call) -> tuple[str, ...]:
    """Why these kernels cannot take the call; empty where they can."""
    reasons = kernels.refusals(call, DEVICES, DTYPES)
    widest = max(x.shape[-1] for x in (call.query, call.key, call.value) if x is not None)
    if widest > MAX_FEATURES:
        reasons.append(f"a head has {widest} features, more than {MAX_FEATURES}")
    elif not reasons and isinstance(call.neighborhood, Edges) and (heads := _heads_beyond(call, widest)):
        reasons.append(f"{heads:,} heads of {widest} features over edges, of all members, are more than a launch takes")
    if not reasons and (missing := kernels.import_error("triton", "it comes with torch for CUDA on Linux")):
        reasons.append(missing)
    return tuple(reasons)


def _heads_beyond(call: Call, widest: int) -> int:
    """How many heads all members have, where they are too many for one launch; else 0."""
    tensors = (call.query, call.key, call.value, call.edge_key, call.edge_value)
    most = 1 if call.bias is None else call.bias.shape[:-1].numel()
    for x in tensors:  # torch 2.11 cannot trace `prod` of a generator
        most *= 1 if x is None else x.shape[:-2].numel()
    at_once = max(1, CHANNELS // power_of_two(widest))
    if ceiling(most, at_once) <= MAX_GROUPS:  # the product of all is at least what they make together, and known soon
        return 0
    return call.batch_size if ceiling(call.batch_size, at_once) > MAX_GROUPS else 0


def run(call: Call) -> Tensor:
    """o_i = Σ_j α_ij (v_j + v^e_ij)."""
    device = call.query.device  # of numbers that are drawn in place no graph is made
    drops = call.dropout > 0
    seed = torch.randint(2**31 - 1, (1,), device=device) if drops else torch.empty(1, dtype=torch.int64, device=device)
    if isinstance(call.normalize, Hardmax) and call.normalize.straight_through:
        hard, fixed, soft = straight_through(call)
        return (_run(hard, seed) + (_run(soft, seed) - _run(fixed, seed))).to(call.query.dtype)
    return _run(call, seed).to(call.query.dtype)


def _run(call: Call, seed: Tensor) -> Tensor:
    if isinstance(call.neighborhood, Edges):  # each table is read as it is stored: what no score is made of stays so
        from edgewise.backends.triton.edges.operators import over_edges

        return over_edges(lower(call, stored=("value", "edge_value")), seed)
    from edgewise.backends.triton.ranges.operators import over_ranges

    return over_ranges(lower(call), seed)


def weights(call: Call) -> Tensor:
    """α of every edge, `(*batch, edge)`, in the caller's order; without a gradient."""
    from edgewise.backends.triton.edges import operators

    return operators.weights(lower(call))


def strongest(call: Call, top: int, queries: Tensor | None) -> tuple[Tensor, Tensor]:
    """The strongest weights of all queries or of some over ranges, and their keys, `(*batch, query, top)`.

    The strongest stand first, of equals that with the smallest key; −∞ where a query has fewer neighbors. There is no
    gradient.
    """
    from edgewise.backends.triton.ranges.weights import strongest_of

    return strongest_of(lower(call), top, queries)
