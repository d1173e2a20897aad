"""From a call to the operators over edges or over ranges."""

from dataclasses import replace

import torch
from torch import Tensor

from edgewise.backends.call import Call
from edgewise.backends.lower import Lowered, lower
from edgewise.backends.triton.edges.layout import over_edges
from edgewise.backends.triton.ranges.layout import over_ranges
from edgewise.neighborhood import Edges
from edgewise.normalize import Hardmax, Softmax


def run(call: Call) -> Tensor:
    """o_i = Σ_j α_ij (v_j + v^e_ij)."""
    seed = torch.empty(1, dtype=torch.int64, device=call.query.device)
    if call.dropout > 0:
        seed = seed.random_(2**31 - 1)
    if isinstance(call.normalize, Hardmax) and call.normalize.straight_through:
        free = {name: x.detach() for name, x in call.tensors.items() if name in ("query", "key", "edge_key", "bias")}
        fixed = {name: x.detach() for name, x in call.tensors.items() if name in ("value", "edge_value")}
        hard = _run(lower(replace(call, normalize=Hardmax(), **free)), seed)
        soft = _run(lower(replace(call, normalize=Softmax(), **fixed)), seed)
        return (hard + (soft - soft.detach())).to(call.query.dtype)
    return _run(lower(call), seed).to(call.query.dtype)


def _run(lowered: Lowered, seed: Tensor) -> Tensor:
    return over_edges(lowered, seed) if isinstance(lowered.call.neighborhood, Edges) else over_ranges(lowered, seed)
