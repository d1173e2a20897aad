"""The kernels over ranges as torch operators: plain tensors in and out, with shapes for tracing, and gradients."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgewise.backends import formula
from edgewise.backends.numba.arrays import array_of, factors_of, formula_of, score_of
from edgewise.backends.numba.ranges import Bias, Extent, Panel, Runs, backward, forward
from edgewise.backends.numba.score import TANH
from edgewise.backends.numba.simd import WIDTH
from edgewise.backends.numba.tables import Dropout
from edgewise.operator import Gradient, define

SLICES, GRADIENT_SLICES = 16, 8
"""Slices that all members together are cut into at least; those of the backward pass hold gradients of their own."""
TWISTED = 30.0
"""Where |q| + |k| stays below, tanh(q + k) comes from e²ᵠ and e²ᵏ: their product is far from the largest number."""


def ranges(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    vector: Tensor | None,
    starts: Tensor,
    stops: Tensor,
    key_dim: int,
    kind: str,
    number: float,
    flag: int,
    normalizer: int,
    dropout: float,
    seed: Tensor,
) -> Tensor:
    """Attention over runs of keys.

    Args:
        query, key, value: `(*batch, node, …)`, batch axes expanded alike; dims whole numbers of vectors.
        bias: `(*batch, query, key)`; vector: `(*batch, key_width)`, for scores that have one.
        starts, stops: `(*batch, query)`: query i attends to keys starts[i]:stops[i].
        key_dim: how many features of a key are not padding.
        kind, number, flag: the score; normalizer: its code; dropout: the rate; seed: `(1)`.

    Returns:
        `(*batch, query, value_dim)`.
    """
    job = Job(query, key, value, bias, vector, starts, stops, key_dim, kind, number, flag, dropout, seed)
    out = torch.empty(*query.shape[:-1], value.shape[-1], dtype=query.dtype)
    per_member = job.per_member(SLICES)
    forward.run(
        job.num_members * per_member, job.score, normalizer, job.extent, job.runs, per_member, *job.operands,
        job.dropout, array_of(out),
    )  # fmt: skip
    return out


def ranges_shapes(query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> Tensor:
    """What tracers see of the output."""
    return query.new_empty(*query.shape[:-1], value.shape[-1])


def ranges_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    vector: Tensor | None,
    starts: Tensor,
    stops: Tensor,
    key_dim: int,
    kind: str,
    number: float,
    flag: int,
    normalizer: int,
    dropout: float,
    seed: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of query, key, value, bias and vector; the last two empty where there is no such tensor."""
    job = Job(query, key, value, bias, vector, starts, stops, key_dim, kind, number, flag, dropout, seed, grad_out)
    parts, batch = job.per_member(GRADIENT_SLICES), query.shape[:-2]
    grad_query = torch.zeros(query.shape, dtype=query.dtype)
    grad_bias = torch.zeros(0 if bias is None else bias.shape, dtype=query.dtype)
    grad_keys = torch.zeros(*batch, parts, *key.shape[-2:], dtype=query.dtype)
    grad_values = torch.zeros(*batch, parts, *value.shape[-2:], dtype=query.dtype)
    grad_vectors = torch.zeros(0 if vector is None else (*batch, parts, query.shape[-1]), dtype=query.dtype)
    arrays = [array_of(x) for x in (grad_query, grad_bias, grad_keys, grad_values, grad_vectors)]
    backward.run(
        job.num_members * parts, job.score, normalizer, job.extent, job.runs, parts, *job.operands, job.dropout,
        panel_of(grad_out), *arrays,
    )  # fmt: skip
    grad_key = _whole(grad_keys, -3)
    if job.is_twisted:  # from e²ᵠ to q
        grad_query, grad_key = 2 * job.query * grad_query, 2 * job.key * grad_key
    grad_vector = grad_vectors if vector is None else _whole(grad_vectors, -2)
    return grad_query, grad_key, _whole(grad_values, -3), grad_bias, grad_vector


def _whole(parts: Tensor, axis: int) -> Tensor:
    """The slices of each member added in order."""
    return parts.squeeze(axis) if parts.shape[axis] == 1 else parts.sum(axis)


def ranges_backward_shapes(
    grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, vector: Tensor | None, *rest: Any
) -> tuple[Tensor, ...]:
    """What tracers see of the gradients."""
    found = [query.new_empty(0) if x is None else query.new_empty(x.shape) for x in (bias, vector)]
    return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape), *found


def _differentiate(grad_out: Tensor, kept: list, arguments: list, needs: list[bool]) -> list[Tensor | None]:
    found = attend_ranges_backward(grad_out, *arguments)
    return [None if x is None else grad for x, grad in zip(arguments[:5], found)]


def ranges_formula(
    query, key, value, bias, vector, starts, stops, key_dim, kind, number, flag, normalizer, dropout, seed
):
    """The output in plain torch."""
    num_queries, num_keys = query.shape[-2], key.shape[-2]
    members = torch.arange(math.prod(query.shape[:-2])).view(*query.shape[:-2], 1, 1)

    def drop(weights: Tensor, start: int, stop: int, first: int, last: int) -> Tensor:
        pairs = (members * num_queries + torch.arange(start, stop).unsqueeze(1)) * num_keys + torch.arange(first, last)
        return weights * factors_of(dropout, seed, pairs, torch.zeros(1, dtype=torch.int64)).to(weights.dtype)

    score, normalize = formula_of(kind, number, flag, normalizer, vector)
    return formula.over_ranges(query, key, value, bias, starts, stops, score, normalize, drop if dropout > 0 else None)


attend_ranges_backward = define("attend_ranges_backward", ranges_backward, ranges_backward_shapes)
attend_ranges = define("attend_ranges", ranges, ranges_shapes, Gradient(_differentiate, ranges_formula))


class Job:
    """The arguments of an operator as the kernels take them."""

    def __init__(
        self, query, key, value, bias, vector, starts, stops, key_dim, kind, number, flag, dropout, seed, grad_out=None
    ):
        finite = [x for x in (query, key, value, grad_out) if x is not None]
        is_finite = all(bool(x.sum().isfinite()) for x in finite)
        self.num_members = math.prod(query.shape[:-2])
        self.extent = Extent(
            query.shape[-2], key.shape[-2], key_dim, query.shape[-1], value.shape[-1], WIDTH if is_finite else 1
        )
        self.is_twisted = kind == "Smooth" and flag == TANH and is_finite and _reach(query) + _reach(key) < TWISTED
        if self.is_twisted:
            kind, query, key = "Twist", (2 * query).exp_(), (2 * key).exp_()
        self.query, self.key = query, key
        self.score = score_of(kind, number, flag, None if vector is None else array_of(vector))
        run_starts, run_stops = panel_of(starts.unsqueeze(-1)), panel_of(stops.unsqueeze(-1))
        self.runs = Runs(run_starts.data, run_stops.data, run_starts.members)
        self.operands = panel_of(query), panel_of(key), panel_of(value), bias_of(query, bias)
        self.dropout = Dropout(float(dropout), int(seed))

    def per_member(self, least: int) -> int:
        """How many slices each member is cut into, so that all members together have at least so many."""
        blocks = -(-self.extent.queries // WIDTH)
        return max(1, min(blocks, -(-least // max(1, self.num_members))))


def _reach(x: Tensor) -> float:
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
    found = np.zeros(1, np.int64)
    for size, stride in zip(x.shape[:-2], x.stride()[:-2]):
        found = (found[:, None] + np.arange(size) * stride).reshape(-1)
    return found


def bias_of(query: Tensor, bias: Tensor | None) -> Bias:
    """A bias `(*batch, query, key)` over its own memory."""
    if bias is None or bias.numel() == 0:
        return Bias(array_of(query.new_empty(0)), np.zeros(0, np.int64), 0, 0)
    members = members_of(bias)
    end = int(members.max()) + sum((size - 1) * step for size, step in zip(bias.shape[-2:], bias.stride()[-2:])) + 1
    return Bias(array_of(bias.as_strided((end,), (1,))), members, *bias.stride()[-2:])
