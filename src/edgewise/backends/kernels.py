"""What fused kernels share, whatever compiles them: what of a call they know, and whether there is a compiler."""

import importlib

import torch

from edgewise.backends.autograd import transform_at_work
from edgewise.backends.call import Call
from edgewise.neighborhood import Edges, Ranges
from edgewise.normalize import MIN_TEMPERATURE, Entmax15, Hardmax, Identity, Mean, Sigmoid, Softmax, Sparsemax
from edgewise.score import GAT, Additive, Bilinear, Constant, Cosine, Distance, Dot, GATv2, ScaledDot

SCORES = (Dot, ScaledDot, Cosine, Bilinear, Additive, GATv2, GAT, Distance, Constant)
NORMALIZERS = (Softmax, Hardmax, Sparsemax, Entmax15, Sigmoid, Mean, Identity)


def tensor_refusals(call: Call, devices: tuple[str, ...], dtypes: tuple[torch.dtype, ...]) -> list[str]:
    """Why no kernel that runs on these devices and stores these numbers can take the tensors of a call, in words."""
    reasons = []
    if call.query.device.type not in devices:
        reasons.append(f"the tensors are on {call.query.device}")
    if transform := transform_at_work():
        reasons.append(f"{transform}, which needs operations of torch")
    if call.query.dtype not in dtypes:
        reasons.append(f"the dtype is {call.query.dtype}")
    return reasons


def refusals(call: Call, devices: tuple[str, ...], dtypes: tuple[torch.dtype, ...]) -> list[str]:
    """Why no kernel of this library that runs on these devices and stores these numbers can take the call, in words."""
    reasons = tensor_refusals(call, devices, dtypes)
    if not isinstance(call.neighborhood, Edges | Ranges):
        neighborhood_name = type(call.neighborhood).__name__
        reasons.append(
            f"the neighborhood is a {neighborhood_name}, neither a list of edges nor ranges; to_edges() makes a list"
        )
    if type(call.score) not in SCORES:  # a subclass may compute something else
        reasons.append(f"the score {_name(call.score)} is not one of the library's")
    if type(call.normalize) not in NORMALIZERS:
        reasons.append(f"the normalizer {_name(call.normalize)} is not one of the library's")
    temperature = getattr(call.normalize, "temperature", 1.0)
    if not isinstance(temperature, torch.Tensor) and 0 < temperature < MIN_TEMPERATURE:
        reasons.append(f"scores divided by the temperature {temperature} may overflow")

    return reasons


def is_exporting() -> bool:
    """Whether a graph is exported, for sizes that are not known; torch 2.11 says so of each that is compiled, too."""
    return torch.compiler.is_exporting()


def import_error(compiler: str, remedy: str) -> str:
    """Why a compiler of kernels cannot be imported; empty where it can."""
    if compiler not in _found:
        try:
            importlib.import_module(compiler)
            _found[compiler] = ""
        except (ImportError, OSError) as error:  # not installed, or one of its libraries does not load
            _found[compiler] = f"{compiler} cannot be imported ({error}); {remedy}"
    return _found[compiler]


_found: dict[str, str] = {}
# What torch.compiler.assume_constant_result does, without importing the compiler: a trace cannot follow an import, and
# the other it would answer itself.
import_error._dynamo_marked_constant = True  # type: ignore[attr-defined]
is_exporting._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _name(part: object) -> str:
    return getattr(part, "__name__", type(part).__name__)
