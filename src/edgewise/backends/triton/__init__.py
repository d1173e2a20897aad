"""Fused kernels for CUDA devices, compiled at first use by triton: every score and normalizer, over edges and ranges.

    attend → lower (few scores) → layout (plain tensors) → operators (torch sees one operator, with gradients) → launch

    edges/    lists of edges: work (rows dealt out to programs) → forward, backward (the kernels) → tiles (their parts)
    graphs/   lists that are small graphs side by side: work (whole graphs packed into tiles) → kernels
    ranges/   runs of keys: forward, backward, weights (the strongest) → scores → tiles

They hold no (edge, head, feature) and no (query, key) intermediate: memory is O(query + key) beside what the caller
holds, and over edges a number an edge and head for normalizers that must see a whole row before they weigh one edge.
"""

from math import prod

import torch
from torch import Tensor

from edgewise.backends import kernels
from edgewise.backends.call import Call
from edgewise.backends.triton.sizes import ceiling, power_of_two
from edgewise.neighborhood import Edges

NAME = "triton"
DEVICES = ("cuda",)
"""Where the kernels run; under triton's interpreter, tests run them on a CPU."""
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
MOST_FEATURES = 256
"""Features of a head."""
MOST_GROUPS = 65_535
"""Groups of heads, of all members of a batch, over edges: a device takes no more on the second axis of a grid."""
MOST_KEPT = 64
"""Weights of a query over ranges that are kept as its strongest."""


def refusals(call: Call) -> tuple[str, ...]:
    """Why these kernels cannot take the call, in words; empty where they can."""
    reasons = kernels.refusals(call, DEVICES, DTYPES)
    widest = max(x.shape[-1] for x in (call.query, call.key, call.value) if x is not None)
    if widest > MOST_FEATURES:
        reasons.append(f"a head has {widest} features, more than {MOST_FEATURES}")
    elif not reasons and isinstance(call.neighborhood, Edges) and (heads := _heads_beyond(call, widest)):
        reasons.append(f"{heads:,} heads of {widest} features over edges, of all members, are more than a launch takes")
    if not reasons and (missing := kernels.import_error("triton", "it comes with torch for CUDA on Linux")):
        reasons.append(missing)
    return tuple(reasons)


def _heads_beyond(call: Call, widest: int) -> int:
    """How many heads all members have, where they are too many for one launch; else 0."""
    tensors = (call.query, call.key, call.value, call.edge_key, call.edge_value)
    most = prod(x.shape[:-2].numel() for x in tensors if x is not None)
    most *= 1 if call.bias is None else call.bias.shape[:-1].numel()
    at_once = MOST_FEATURES // power_of_two(widest)
    if ceiling(most, at_once) <= MOST_GROUPS:  # the product of all is at least what they make together, and known soon
        return 0
    return call.batch_size if ceiling(call.batch_size, at_once) > MOST_GROUPS else 0


def run(call: Call) -> Tensor:
    """o_i = Σ_j α_ij (v_j + v^e_ij)."""
    from edgewise.backends.triton import layout

    return layout.run(call)


def weights(call: Call) -> Tensor:
    """α of every edge, `(*batch, edge)`, in the caller's order; without a gradient."""
    from edgewise.backends.triton.edges import layout

    return layout.weights(call)


def strongest(call: Call, top: int, queries: Tensor | None) -> tuple[Tensor, Tensor]:
    """The strongest weights of all queries or of some over ranges, and their keys, `(*batch, query, top)`.

    The strongest stand first, of equals that with the smallest key; −∞ where a query has fewer neighbors. There is no
    gradient.
    """
    from edgewise.backends.triton.ranges import layout

    return layout.strongest(call, top, queries)
