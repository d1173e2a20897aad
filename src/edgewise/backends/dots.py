"""What torch's own fused kernels share: they compute softmax over dot products, with one scale for all."""

import math

import torch
from torch import Tensor

from edgewise.backends.call import Call
from edgewise.neighborhood.checks import can_be_read
from edgewise.normalize import MIN_TEMPERATURE, Softmax
from edgewise.score import DotProduct, ScaledDot, is_dot_product, parted


def refusals(call: Call) -> list[str]:
    """Why a kernel for softmax over dot products cannot take the score or the normalizer of a call, in words."""
    reasons = []
    if not is_dot_product(call.score):
        reasons.append(f"the score {_name(call.score)} is not a dot product")
    if type(call.normalize) is not Softmax:
        reasons.append(f"the normalizer {_name(call.normalize)} is not Softmax")
    elif isinstance(call.normalize.temperature, Tensor):
        reasons.append("the temperature is a tensor")
    elif not MIN_TEMPERATURE <= call.normalize.temperature < math.inf:
        reasons.append(f"the temperature is {call.normalize.temperature}")
    return reasons


def operands(call: Call) -> tuple[Tensor, Tensor, Tensor, float]:
    """Query, key, value and the scale, temperature included.

    The query takes the scale over, all but a rest between 1 and 2, so that no product overflows whose end does not;
    where the output can be read, only after reading it. On CUDA half precisions are left alone: it would cost a pass
    over the query, and only bfloat16 reaches so far.
    """
    assert isinstance(call.score, DotProduct) and isinstance(call.normalize, Softmax) and call.value is not None
    assert not isinstance(call.normalize.temperature, Tensor)
    scale = scale_of(call)
    if type(call.score) is ScaledDot:  # leave the factor to the kernel, as torch's own call does
        query = call.query
        if not can_be_read(query):
            query, scale = scaled_before(query, scale)
        return query, call.key, call.value, scale

    query, key = call.score.factors(call.query, call.key)
    return query, key, call.value, scale


def scale_of(call: Call) -> float:
    """What the kernel multiplies products with."""
    assert isinstance(call.normalize, Softmax) and not isinstance(call.normalize.temperature, Tensor)
    factor = call.score.factor(call.query.shape[-1]) if type(call.score) is ScaledDot else 1.0
    return factor / call.normalize.temperature


def keeps_a_mask(scale: float) -> bool:
    """Whether −∞ stays −∞ where a kernel multiplies it with this scale: a scale that is not positive would open its
    mask, and one that float32 rounds to zero gives NaN."""
    return scale >= torch.finfo(torch.float32).tiny


def scaled_before(query: Tensor, scale: float, *keys: Tensor | None) -> tuple[Tensor, float]:
    """A query that was multiplied with a power of two, and what remains of the scale; or both as they were, where no
    product with a sum of the keys can overflow: |q·k| ≤ ‖q‖ ‖k‖, of which the lengths of whole tensors are bounds."""
    before, after = parted(scale)
    is_small = query.dtype == torch.float16  # its products are far from the largest number, itself from the smallest
    if before == 1.0 or is_small or (query.dtype == torch.bfloat16 and query.device.type == "cuda"):
        return query, scale
    if can_be_read(query):
        length, *others = (float(torch.linalg.vector_norm(x.detach())) for x in (query, *keys) if x is not None)
        if length * sum(others) < torch.finfo(query.dtype).max:
            return query, scale
    return query * before, after


def four_axes(x: Tensor) -> Tensor:
    """A tensor whose batch axes are two, as the kernels want them: where there are more, the first become one."""
    if x.dim() == 4:
        return x
    return x[(None,) * (4 - x.dim())] if x.dim() < 4 else x.flatten(0, -4)


def _name(part: object) -> str:
    return getattr(part, "__name__", type(part).__name__)
