"""From a call to the operators over edges or over ranges."""

import torch
from torch import Tensor

from edgewise.backends.call import Call
from edgewise.backends.lower import lower, straight_through
from edgewise.backends.triton.edges.layout import over_edges
from edgewise.backends.triton.ranges.layout import over_ranges
from edgewise.neighborhood import Edges
from edgewise.normalize import Hardmax


def run(call: Call) -> Tensor:
    """o_i = Σ_j α_ij (v_j + v^e_ij)."""
    seed = torch.empty(1, dtype=torch.int64, device=call.query.device)
    if call.dropout > 0:
        seed = seed.random_(2**31 - 1)
    if isinstance(call.normalize, Hardmax) and call.normalize.straight_through:
        hard, fixed, soft = straight_through(call)
        return (_run(hard, seed) + (_run(soft, seed) - _run(fixed, seed))).to(call.query.dtype)
    return _run(call, seed).to(call.query.dtype)


def _run(call: Call, seed: Tensor) -> Tensor:
    if isinstance(call.neighborhood, Edges):  # each table is read as it is stored: what no score is made of stays so
        return over_edges(lower(call, stored=("value", "edge_value")), seed)
    return over_ranges(lower(call), seed)
