"""Fused kernels for CUDA devices, compiled at first use by triton: every score and normalizer, over edges and ranges.

    attend → lower (few scores) → layout (plain tensors) → operators (torch sees one operator, with gradients) → launch
      edges:  edge_operators → work (rows dealt out to programs) → edges, edges_backward (the kernels) → tiles (parts)
      ranges: range_operators → ranges, ranges_backward (the kernels) → range_tiles (their parts)

They hold no (edge, head, feature) and no (query, key) intermediate: memory is O(query + key) beside what the caller
holds, and over edges a number an edge and head for normalizers that must see a whole row before they weigh one edge.
"""

import importlib

import torch
from torch import Tensor

from edgewise.backends.call import Call
from edgewise.neighborhood import Edges, Ranges
from edgewise.normalize import Entmax15, Hardmax, Identity, Mean, Sigmoid, Softmax, Sparsemax
from edgewise.score import GAT, Additive, Bilinear, Constant, Cosine, Distance, Dot, GATv2, ScaledDot

NAME = "triton"
DEVICES = ("cuda",)
"""Where the kernels run; under triton's interpreter, tests run them on a CPU."""
SCORES = (Dot, ScaledDot, Cosine, Bilinear, Additive, GATv2, GAT, Distance, Constant)
NORMALIZERS = (Softmax, Hardmax, Sparsemax, Entmax15, Sigmoid, Mean, Identity)
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
MOST_FEATURES = 256
"""Features of a head."""


def refusals(call: Call) -> tuple[str, ...]:
    """Why these kernels cannot take the call, in words; empty where they can."""
    reasons = []
    if call.query.device.type not in DEVICES:
        reasons.append(f"the tensors are on {call.query.device}")
    if not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active():
        reasons.append("a transform of torch.func is at work, which asks for operations of torch")
    if call.query.dtype not in DTYPES:
        reasons.append(f"the dtype is {call.query.dtype}")
    if not isinstance(call.neighborhood, Edges | Ranges):
        kind = type(call.neighborhood).__name__
        reasons.append(f"the neighborhood is a {kind}, neither a list of edges nor ranges; to_edges() makes a list")
    if not isinstance(call.score, SCORES):
        reasons.append(f"the score {_name(call.score)} is not one of the library's")
    if not isinstance(call.normalize, NORMALIZERS):
        reasons.append(f"the normalizer {_name(call.normalize)} is not one of the library's")
    widest = max(call.query.shape[-1], 0 if call.value is None else call.value.shape[-1])
    if widest > MOST_FEATURES:
        reasons.append(f"a head has {widest} features, more than {MOST_FEATURES}")
    if not reasons and (missing := import_error()):
        reasons.append(missing)
    return tuple(reasons)


def run(call: Call) -> Tensor:
    """o_i = Σ_j α_ij (v_j + v^e_ij)."""
    from edgewise.backends.triton import layout

    return layout.run(call)


def weights(call: Call) -> Tensor:
    """α of every edge, `(*batch, edge)`, in the caller's order; without a gradient."""
    from edgewise.backends.triton import layout

    return layout.weights(call)


def import_error() -> str:
    """Why triton cannot be imported; empty where it can."""
    if "triton" not in _found:
        try:
            importlib.import_module("triton")
            _found["triton"] = ""
        except (ImportError, OSError) as error:  # not installed, or one of its libraries does not load
            _found["triton"] = f"triton cannot be imported ({error}); it comes with torch for CUDA on Linux"
    return _found["triton"]


_found: dict[str, str] = {}
# What torch.compiler.assume_constant_result does, without importing the compiler: a trace cannot follow an import.
import_error._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _name(part: object) -> str:
    return getattr(part, "__name__", type(part).__name__)
