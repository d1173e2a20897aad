"""Fused kernels for the CPU, compiled at first use by numba: every score and normalizer, over edges and ranges.

    attend → lower (few scores) → layout (plain tensors) → operators (torch sees one operator, with gradients)
           → compiled (runs a kernel on the threads of `team` or `pool`)
           → edges, ranges (the kernels) → pairs, score, normalize (their parts) → heads, simd (vectors in numba)

They hold no (edge, head, feature) intermediate: memory is O(query + key) beside what the caller holds.
"""

import importlib

import torch
from torch import Tensor

from edgewise.backends.call import Call
from edgewise.neighborhood import Edges, RangeIntersection, Ranges, Segments, Window
from edgewise.normalize import Entmax15, Hardmax, Identity, Mean, Sigmoid, Softmax, Sparsemax
from edgewise.score import GAT, Additive, Bilinear, Constant, Cosine, Distance, Dot, GATv2, ScaledDot

NAME = "numba"
SPARSE = 1 / 8
"""The share of pairs below which computing only these is faster than computing all of them by matrix products."""
SCORES = (Dot, ScaledDot, Cosine, Bilinear, Additive, GATv2, GAT, Distance, Constant)
NORMALIZERS = (Softmax, Hardmax, Sparsemax, Entmax15, Sigmoid, Mean, Identity)
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def refusals(call: Call) -> tuple[str, ...]:
    """Why these kernels cannot take the call, in words; empty where they can."""
    reasons = []
    if call.query.device.type != "cpu":
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
    if not reasons and (missing := import_error()):
        reasons.append(missing)
    return tuple(reasons)


def run(call: Call) -> Tensor:
    """o_i = Σ_j α_ij (v_j + v^e_ij)."""
    from edgewise.backends.numba import layout

    return layout.run(call)


def takes_few_pairs(call: Call) -> bool:
    """Whether these kernels take the call, and the runs of keys are so short that a dense kernel, many times as fast
    for each pair, is slower."""
    if not isinstance(call.neighborhood, Ranges) or torch.compiler.is_compiling():
        return False
    parts = call.neighborhood.parts if isinstance(call.neighborhood, RangeIntersection) else (call.neighborhood,)
    if not any(isinstance(part, Window | Segments) for part in parts) or refusals(call):
        return False
    starts, stops = call.neighborhood.runs(torch.arange(call.num_queries), call.num_queries, call.num_keys)
    most_pairs = (stops - starts).sum(-1).max() if starts.numel() > 0 else torch.zeros(())
    return float(most_pairs) < SPARSE * call.num_queries * call.num_keys


def largest(call: Call) -> Tensor:
    """The largest of each feature over the edges of each receiver, 0 where there is none."""
    from edgewise.backends.numba import layout

    return layout.largest(call)


def import_error() -> str:
    """Why numba cannot be imported; empty where it can."""
    if "numba" not in _found:
        try:
            importlib.import_module("numba")
            _found["numba"] = ""
        except (ImportError, OSError) as error:  # not installed, or one of its libraries does not load
            _found["numba"] = f"numba cannot be imported ({error}); pip install numba"
    return _found["numba"]


_found: dict[str, str] = {}
# What torch.compiler.assume_constant_result does, without importing the compiler: a trace cannot follow an import.
import_error._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _name(part: object) -> str:
    return getattr(part, "__name__", type(part).__name__)
