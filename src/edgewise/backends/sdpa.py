"""Torch's fused kernels, `F.scaled_dot_product_attention`, for softmax over dot products on dense neighborhoods.

They may read what a mask forbids and return NaN for an empty row. So keys and values that no query may attend to, and
queries that may attend to no key, are replaced by zero first, and the output of the latter is set to zero; without
asking a GPU for a value. On the CPU asking is free, and where no score can overflow nothing has to be replaced.

Torch lacks the second derivative of these kernels; it comes from the formula in plain torch.
"""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise.backends import dots, formula
from edgewise.backends.autograd import attach_formula, derivatives_at_work, fork, is_gradient_hidden
from edgewise.backends.call import Call
from edgewise.backends.lower import scaled_bias
from edgewise.errors import UnsupportedError
from edgewise.neighborhood import Causal, Edges, Full
from edgewise.neighborhood.checks import broadcast_shape, can_be_read
from edgewise.normalize import Softmax
from edgewise.score import ScaledDot

NAME = "sdpa"
MAX_ROUNDING = 2.0**-16
"""By how much, relatively, weights of the backward pass on a CPU may be off, for products of the usual size. In
float32, this is reached at a temperature of 1/128."""


def refusals(call: Call) -> tuple[str, ...]:
    """Why torch's kernels cannot take the call, in words; empty where they can."""
    reasons = ["the neighborhood is a list of edges"] if isinstance(call.neighborhood, Edges) else []
    reasons += dots.refusals(call)
    if not reasons and (transform := derivatives_at_work(lambda: call.held)):
        reasons.append(f"{transform}, which torch's kernels do not support")
    if not reasons and call.query.device.type != "cpu" and _bias_dtype(call) != call.query.dtype:
        reasons.append("the bias is more exact than the queries, and torch's kernels for this device would round it")
    if not reasons and call.query.device.type == "cpu" and call.bias is not None and is_gradient_hidden(call.bias):
        reasons.append("under torch.func.vmap, torch's kernel for a CPU computes no gradient of the bias")
    if not reasons and call.query.device.type == "cpu" and _rounds_gradients(call):
        reasons.append("scores are multiplied by so much that torch's kernel for a CPU would give wrong gradients")
    return tuple(reasons)


def needs_table(call: Call) -> bool:
    """Whether the kernels must be given a table of all pairs, besides what the caller holds: they know no window and
    no segment, and a bias only as part of such a table."""
    if call.bias is None:
        return not (_sees_all(call) or _is_kernels_causal(call))
    return type(call.neighborhood) is not Full or call.bias.requires_grad


def _rounds_gradients(call: Call) -> bool:
    """Whether gradients are wanted that the kernel for a CPU gets wrong.

    For each row it saves the logarithm of Σ exp(score) only. Its backward pass computes the weights as
    exp(score − logarithm), where both are rounded, by more the larger the scores are; the forward pass does not.
    """
    assert isinstance(call.normalize, Softmax) and not isinstance(call.normalize.temperature, Tensor)
    size = 1 / call.normalize.temperature
    if type(call.score) is ScaledDot and call.score.scale is not None:
        size *= abs(call.score.scale) * math.sqrt(call.query.shape[-1])
    dtype = torch.promote_types(call.query.dtype, torch.float32)
    if size * torch.finfo(dtype).eps <= MAX_ROUNDING:
        return False
    return torch.is_grad_enabled() and any(x.requires_grad for x in call.held)


def run(call: Call) -> Tensor:
    """softmax(q kᵀ / √key_dim + bias) v over the neighborhood."""
    if not torch.compiler.is_compiling() and 0 in (call.num_queries, call.num_keys):
        return _nothing(call)

    query, key, value, scale = dots.operands(call)
    if call.bias is None and _sees_all(call):
        return _fused(query, key, value, None, False, scale, call.dropout)
    if call.bias is None and _is_kernels_causal(call):
        return _fused(query, key, value, None, True, scale, call.dropout)

    mask = call.neighborhood.table(call.num_queries, call.num_keys, query.device)
    reached, reaching = mask.any(-2).unsqueeze(-1), mask.any(-1).unsqueeze(-1)
    if not _is_harmless(query, key, value, scale):  # replaced before a score makes its factors of them
        query = torch.where(reaching, call.query, 0.0)
        key, value = torch.where(reached, call.key, 0.0), torch.where(reached, value, 0.0)
        query, key, value, scale = dots.operands(replace(call, query=query, key=key, value=value))

    out = _fused(query, key, value, _kernel_mask(call, mask, reaching), False, scale, call.dropout)
    return torch.where(reaching, out, 0.0)


def _nothing(call: Call) -> Tensor:
    """The output of a call without pairs, on which the kernels do not agree: zeros, with zeros for a gradient."""
    assert call.value is not None
    batch = broadcast_shape(*call.batch_shapes.values())
    zeros = call.value.new_zeros(*batch, call.num_queries, call.value.shape[-1])
    return sum((x[..., :0].sum() for x in call.held if x.requires_grad), zeros)


def _is_harmless(query: Tensor, key: Tensor, value: Tensor, scale: float) -> bool:
    """Whether every number is finite, and every score, so that a weight of zero is enough to keep a pair out.

    |q·k| ≤ ‖q‖ ‖k‖, of which the lengths of whole tensors are bounds: one pass over each, where replacing parts of
    them would write them anew, forward and backward.
    """
    if not can_be_read(query):
        return False
    lengths = [float(torch.linalg.vector_norm(x.detach())) for x in (query, key, value)]
    largest = torch.finfo(query.dtype).max
    return abs(scale) * lengths[0] * lengths[1] < largest and lengths[2] < largest


def _sees_all(call: Call) -> bool:
    """Whether every query attends to every key; the last word of a causal text, the step of a decoder, does."""
    if type(call.neighborhood) is Causal and call.neighborhood.align == "end":
        return call.num_queries == 1
    return type(call.neighborhood) is Full


def _is_kernels_causal(call: Call) -> bool:
    """Whether the kernels' own causal mask is meant, which aligns at the start, and leaves no key unseen.

    They multiply with the scale what they have masked with −∞.
    """
    if type(call.neighborhood) is not Causal or not dots.keeps_a_mask(dots.scale_of(call)):
        return False
    if call.num_queries == call.num_keys:
        return True
    return call.neighborhood.align == "start" and call.num_keys < call.num_queries


def _kernel_mask(call: Call, mask: Tensor, reaching: Tensor) -> Tensor | None:
    """The mask as the kernel wants it: bool, or the bias with −∞ where it forbids; the row of a query that may attend
    to no key is open, and without its bias, which may not be finite."""
    if call.bias is None:  # a mask that does not depend on the key closes whole rows only, and these are open
        return mask | ~reaching if mask.shape[-1] > 1 else None
    assert isinstance(call.normalize, Softmax) and not isinstance(call.normalize.temperature, Tensor)
    bias = call.bias
    if call.normalize.temperature != 1:
        bias = scaled_bias(bias, 1 / call.normalize.temperature, 2)
    open_bias = torch.where(mask, bias, torch.where(reaching, -math.inf, 0.0).to(bias.dtype))
    return open_bias.expand(*open_bias.shape[:-1], call.num_keys)


def _bias_dtype(call: Call) -> torch.dtype:
    """In what precision the kernels need the bias: float32 beside half precision where it came so, or is to be divided,
    as a large one would be rounded by more than the scores differ, or overflow."""
    assert isinstance(call.normalize, Softmax)
    if call.bias is None or call.normalize.temperature == 1:
        return call.query.dtype if call.bias is None else call.bias.dtype
    return torch.promote_types(call.bias.dtype, torch.float32)


def _fused(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, scale: float, dropout: float
) -> Tensor:
    """The kernels want one and the same batch, and are fast only with exactly two axes of it."""
    shapes = [x.shape[:-2] for x in (query, key, value)] + ([] if mask is None else [mask.shape[:-2]])
    batch = shapes[0]
    if any(shape != batch for shape in shapes):
        batch = broadcast_shape(*shapes)
        query, key, value = (x.expand(*batch, *x.shape[-2:]) for x in (query, key, value))
    query, key, value = dots.four_axes(query), dots.four_axes(key), dots.four_axes(value)
    if mask is not None:
        mask = _with_batch_of(batch, mask)

    def attended() -> Tensor:
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=causal, scale=scale, dropout_p=dropout
        )

    out = attended()
    if can_be_read(out) and not math.isfinite(out.detach().sum()):  # a product may have overflowed whose end does not
        query, scale = dots.scaled_before(query, scale, key)
        out = attended()
    out = _differentiable_again(out, query, key, value, mask, causal, scale)

    return out if len(batch) == 2 else out.reshape(*batch, *out.shape[-2:])


def _with_batch_of(batch: torch.Size, mask: Tensor) -> Tensor:
    """A mask with the two batch axes that the tensors have by now; it is repeated only where the first of several axes
    became one, and it varies over some of them."""
    mask = mask[(None,) * (max(len(batch), 2) + 2 - mask.dim())]
    outer = len(batch) - 1
    if outer > 1 and math.prod(mask.shape[:outer]) > 1:
        mask = mask.expand(*batch[:-1], *mask.shape[outer:])
    return mask.flatten(0, -4)


def _differentiable_again(
    out: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, scale: float
) -> Tensor:
    """The output, with a formula for the derivatives of its gradients where torch has none.

    Mostly by a hook of the kernel's own node, which keeps no tensors alive and takes next to no time unless it is
    differentiated again. What a node saves for a checkpoint can be read only once, by the node.
    """
    if not out.requires_grad or torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return out

    node: Any = out.grad_fn
    if not hasattr(type(node), "_saved_query"):  # no fused kernel, but operations that torch can differentiate again
        return out
    if torch._C._autograd._top_saved_tensors_default_hooks(False) is not None:
        return fork(out, partial(_formula, causal, scale, node._saved_dropout_p), (query, key, value, mask))

    node.register_hook(_attach_formula)
    return out


def _attach_formula(gradients: tuple, grad_outs: tuple) -> tuple | None:
    """Attach the formula to the gradients of a kernel that are made with create_graph=True."""
    if not torch.is_grad_enabled() or grad_outs[0] is None:
        return None

    node: Any = torch._C._current_autograd_node()
    mask = getattr(node, "_saved_attn_mask", None)
    inputs = [node._saved_query, node._saved_key, node._saved_value]
    inputs.append(getattr(node, "_saved_attn_bias", None) if mask is None else mask)
    wanted = [index for index, x in enumerate(inputs) if x is not None and x.requires_grad]

    def of_tensors(*tensors: Tensor) -> Tensor:
        changed = list(inputs)
        for index, x in zip(wanted, tensors, strict=True):
            changed[index] = x
        return _formula(node._saved_is_causal, node._saved_scale, node._saved_dropout_p, *changed)

    values = [gradients[index] if index < len(gradients) else None for index in wanted]
    attached_values = attach_formula(values, of_tensors, grad_outs[0], [inputs[index] for index in wanted])
    attached = dict(zip(wanted, attached_values, strict=True))
    return tuple(attached.get(index) for index in range(len(gradients)))


def _formula(
    causal: bool, scale: float | None, dropout: float, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> Tensor:
    """What the kernels compute, in plain torch."""
    if dropout > 0:
        raise UnsupportedError(
            "backend 'sdpa': the gradient of a gradient needs to know which weights torch's kernel has dropped, and "
            "torch keeps that to itself; set dropout to 0 or use backend='gather'."
        )
    return formula.over_table(query, key, value, mask, causal, scale)
