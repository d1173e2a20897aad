"""Fused kernels for the CPU, compiled at first use by numba: every score and normalizer, over edges and ranges.

    attend → lower (few scores) → layout (plain tensors) → operators (torch sees one operator, with gradients)
                                → launch (over edges, where the form of the tensors is known)
           → compiled (runs a kernel on the threads of `threads`, its arguments as tuples or as `words`)
           → edges, ranges (the kernels) → pairs, score, normalize (their parts) → heads, simd (vectors in numba)

They hold no (edge, head, feature) intermediate: memory is O(query + key) beside what the caller holds.
"""

import torch
from torch import Tensor

from edgewise.backends import kernels
from edgewise.backends.call import Call
from edgewise.backends.form import RunAgain
from edgewise.neighborhood import Edges, RangeIntersection, Ranges, Segments, Window
from edgewise.normalize import Normalize
from edgewise.score import Constant, Cosine, Score

NAME = "numba"
SPARSE = 1 / 8
"""The share of pairs below which computing only these is faster than computing all of them by matrix products."""
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def refusals(call: Call) -> tuple[str, ...]:
    """Why these kernels cannot take the call, in words; empty where they can."""
    reasons = kernels.refusals(call, ("cpu",), DTYPES)
    if not reasons and (missing := import_error()):
        reasons.append(missing)
    return tuple(reasons)


def run(call: Call) -> Tensor:
    """o_i = Σ_j α_ij (v_j + v^e_ij)."""
    from edgewise.backends.numba import layout

    return layout.run(call)


def run_again(call: Call) -> RunAgain | None:
    """What runs further calls of the same form from their tensors alone; None where these are made ready by torch."""
    from edgewise.backends.numba import layout

    launch = layout.launch_of_call(call)
    if launch is None:
        return None

    def run(neighborhood: Edges, score: Score, normalize: Normalize, tensors: tuple, dropout: float) -> Tensor:
        query, key, value, bias, edge_key, edge_value = tensors
        seed = int(layout.new_seed()) if dropout > 0 else 0
        vector = getattr(score, "vector", None)
        return launch(neighborhood.plan, seed, query, key, value, edge_key, edge_value, bias, vector)

    return run


def shares_rows(call: Call) -> bool:
    """Whether the kernels read what edges carry by their rows: not where operands are made of it edge by edge, nor of
    constant scores, which are summed by kernels that know one number an edge."""
    is_plain = not isinstance(call.score, Cosine) and not isinstance(getattr(call.normalize, "temperature", 1), Tensor)
    return is_plain and type(call.score) is not Constant and not torch.compiler.is_compiling()


def takes_few_pairs(call: Call) -> bool:
    """Whether these kernels take the call, and the runs of keys are so short that a dense kernel, many times as fast
    for each pair, is slower."""
    if not isinstance(call.neighborhood, Ranges) or torch.compiler.is_compiling():
        return False
    parts = call.neighborhood.parts if isinstance(call.neighborhood, RangeIntersection) else (call.neighborhood,)
    if not any(isinstance(part, Window | Segments) for part in parts) or refusals(call):
        return False
    starts, stops = call.neighborhood.runs(
        torch.arange(call.num_queries, device="cpu"), call.num_queries, call.num_keys
    )
    num_pairs = (stops - starts).sum(-1)
    most_pairs = num_pairs.max() if num_pairs.numel() > 0 else 0
    return float(most_pairs) < SPARSE * call.num_queries * call.num_keys


def largest(call: Call) -> Tensor:
    """The largest of each feature over the edges of each receiver, 0 where there is none."""
    from edgewise.backends.numba import layout

    return layout.largest(call)


def import_error() -> str:
    """Why numba cannot be imported, or does not compile; empty where it does."""
    return kernels.import_error("numba", "pip install numba") or _compile_error()


def _compile_error() -> str:
    from numba import config

    is_disabled = bool(vars(config)["DISABLE_JIT"])
    return "NUMBA_DISABLE_JIT is set, so that numba compiles nothing; unset it" if is_disabled else ""


# A trace cannot follow an import; see `kernels.import_error`.
_compile_error._dynamo_marked_constant = True  # type: ignore[attr-defined]
