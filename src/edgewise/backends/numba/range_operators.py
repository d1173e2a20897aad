"""The kernels over ranges as torch operators: plain tensors in and out, with shapes for tracing, and gradients."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from edgewise.backends import formula
from edgewise.backends.autograd import define_with_gradient
from edgewise.backends.formula import RangeInputs
from edgewise.backends.numba.arrays import CODES, array_of, factors_of, score_of
from edgewise.backends.numba.ranges import Bias, Extent, Panel, RangeGradients, RangeOperands, Runs, backward, forward
from edgewise.backends.numba.simd import WIDTH
from edgewise.backends.numba.tables import CallSettings, DropoutRule

SLICES, GRADIENT_SLICES = 16, 8
"""Slices that all members together are cut into at least; those of the backward pass hold gradients of their own."""
MAX_FACTORED = 30.0
"""Where |q| + |k| stays below, tanh(q + k) comes from e²ᵠ and e²ᵏ: their product is far from the largest number."""


def forward_ranges(inputs: RangeInputs) -> Tensor:
    """Attention over runs of keys, `(*batch, query, value_dim)`; dims are whole numbers of vectors."""
    job, out = RangeArguments(inputs), ranges_shapes(inputs)
    per_member = job.per_member(SLICES)
    forward.run(job.num_members * per_member, job.call, job.operands, per_member, array_of(out))
    return out


def ranges_shapes(inputs: RangeInputs) -> Tensor:
    """What tracers see of the output."""
    return inputs.query.new_empty(*inputs.query.shape[:-1], inputs.value.shape[-1])


def backward_ranges(
    grad_out: Tensor, outputs: list[Tensor], inputs: RangeInputs, needs: Sequence[bool]
) -> list[Tensor]:
    """The gradients of query, key, value, bias and vector; the last two empty where the call lacks such a tensor."""
    job, (query, key, value, bias, vector) = RangeArguments(inputs, grad_out), inputs[:5]
    parts, batch = job.per_member(GRADIENT_SLICES), query.shape[:-2]
    grad_query = query.new_zeros(query.shape)
    grad_bias = query.new_zeros(0 if bias is None else bias.shape)
    grad_keys = query.new_zeros(*batch, parts, *key.shape[-2:])
    grad_values = query.new_zeros(*batch, parts, *value.shape[-2:])
    grad_vectors = query.new_zeros(0 if vector is None else (*batch, parts, query.shape[-1]))
    gradients = RangeGradients(*(array_of(x) for x in (grad_query, grad_bias, grad_keys, grad_values, grad_vectors)))
    backward.run(job.num_members * parts, job.call, job.operands, parts, panel_of(grad_out), gradients)
    grad_key = _whole(grad_keys, -3)
    if job.is_factored:  # from e²ᵠ to q
        grad_query, grad_key = 2 * job.query * grad_query, 2 * job.key * grad_key
    grad_vector = grad_vectors if vector is None else _whole(grad_vectors, -2)

    return [grad_query, grad_key, _whole(grad_values, -3), grad_bias, grad_vector]


def _whole(parts: Tensor, axis: int) -> Tensor:
    """The slices of each member added in order."""
    return parts.squeeze(axis) if parts.shape[axis] == 1 else parts.sum(axis)


def ranges_formula(inputs: RangeInputs) -> Tensor:
    """The output in plain torch."""
    query, num_keys = inputs.query, inputs.key.shape[-2]
    members = torch.arange(math.prod(query.shape[:-2]), device="cpu").view(*query.shape[:-2], 1, 1)

    def drop(weights: Tensor, start: int, stop: int, first: int, last: int) -> Tensor:
        queries = members * query.shape[-2] + torch.arange(start, stop, device="cpu").unsqueeze(1)
        pairs, head = queries * num_keys + torch.arange(first, last, device="cpu"), inputs.seed.new_zeros(1)
        return weights * factors_of(inputs.dropout, inputs.seed, pairs, head).to(weights.dtype)

    return formula.over_ranges(inputs, drop if inputs.dropout > 0 else None)


attend_ranges = define_with_gradient(
    "attend_ranges", RangeInputs, forward_ranges, ranges_shapes, backward_ranges, ranges_formula, num_differentiable=5
)


class RangeArguments:
    """The arguments of an operator as the kernels take them."""

    def __init__(self, inputs: RangeInputs, grad_out: Tensor | None = None):
        query, key, value, bias, vector, starts, stops = inputs[:7]
        is_finite = all(bool(x.sum().isfinite()) for x in (query, key, value, grad_out) if x is not None)
        self.num_members = math.prod(query.shape[:-2])
        self.extent = Extent(
            query.shape[-2], key.shape[-2], inputs.key_dim, query.shape[-1], value.shape[-1], WIDTH if is_finite else 1
        )
        score_name, is_tanh = inputs.kind, inputs.kind == "Additive" and inputs.activation == "tanh"
        self.is_factored = is_tanh and is_finite and _max_abs(query) + _max_abs(key) < MAX_FACTORED
        if self.is_factored:
            score_name, query, key = "FactoredTanh", (2 * query).exp_(), (2 * key).exp_()
        self.query, self.key = query, key
        weights = None if vector is None else array_of(vector)
        score = score_of(score_name, inputs.activation, inputs.root, inputs.number, weights)
        dropout = DropoutRule(float(inputs.dropout), int(inputs.seed))
        self.call = CallSettings(score, CODES[inputs.normalizer], self.extent, dropout)
        run_starts, run_stops = panel_of(starts.unsqueeze(-1)), panel_of(stops.unsqueeze(-1))
        runs = Runs(run_starts.data, run_stops.data, run_starts.members)
        self.operands = RangeOperands(panel_of(query), panel_of(key), panel_of(value), bias_of(query, bias), runs)

    def per_member(self, least: int) -> int:
        """How many slices each member is cut into, so that all members together have at least so many."""
        blocks = -(-self.extent.queries // WIDTH)
        return max(1, min(blocks, -(-least // max(1, self.num_members))))


def _max_abs(x: Tensor) -> float:
    """The largest |x|."""
    return max(float(x.max()), -float(x.min())) if x.numel() > 0 else 0.0


def panel_of(x: Tensor) -> Panel:
    """A tensor `(*batch, node, feature)`, axes expanded or not, as a panel over its own memory."""
    if x.numel() == 0:
        return Panel(array_of(x.reshape(-1)), np.zeros(math.prod(x.shape[:-2]), np.int64), 0)
    if x.shape[-1] > 1 and x.stride(-1) != 1:
        x = x.contiguous()
    members = members_of(x)
    end = int(members.max()) + (x.shape[-2] - 1) * x.stride(-2) + x.shape[-1]
    return Panel(array_of(x.as_strided((end,), (1,))), members, x.stride(-2))


def members_of(x: Tensor) -> np.ndarray:
    """Where in memory each member of the batch begins, counted from the first."""
    offsets = np.zeros(1, np.int64)
    for size, stride in zip(x.shape[:-2], x.stride()[:-2]):
        offsets = (offsets[:, None] + np.arange(size) * stride).reshape(-1)
    return offsets


def bias_of(query: Tensor, bias: Tensor | None) -> Bias:
    """A bias `(*batch, query, key)` over its own memory."""
    if bias is None or bias.numel() == 0:
        return Bias(array_of(query.new_empty(0)), np.zeros(0, np.int64), 0, 0)
    members = members_of(bias)
    end = int(members.max()) + sum((size - 1) * step for size, step in zip(bias.shape[-2:], bias.stride()[-2:])) + 1
    return Bias(array_of(bias.as_strided((end,), (1,))), members, *bias.stride()[-2:])
