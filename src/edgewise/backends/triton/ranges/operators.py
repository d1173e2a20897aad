"""The kernels over runs of keys as torch operators: plain tensors in and out, shapes for tracing, and gradients."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from edgewise.backends import formula
from edgewise.backends.autograd import define_with_gradient
from edgewise.backends.formula import RangeInputs
from edgewise.backends.lower import Lowered
from edgewise.backends.triton.formulas import dropout_factors
from edgewise.backends.triton.launch import Common
from edgewise.backends.triton.ranges.backward import backward_bias, backward_keys, backward_queries
from edgewise.backends.triton.ranges.forward import copy_nodes, forward
from edgewise.backends.triton.ranges.layout import KEPT, inputs_of, is_captured, launch_tiles, tilings_of
from edgewise.backends.triton.ranges.tiles import (
    NODES,
    Along,
    Counts,
    KeyGradients,
    KeyRuns,
    MemberPanel,
    PanelOperands,
    QueryGradients,
    Stored,
    Tiling,
)
from edgewise.backends.triton.sizes import ceiling

WITH_STATS = ("Softmax", "Hardmax", "Sparsemax", "Entmax15")
"""Normalizers of which the forward pass stores two numbers a row."""
CENTERED = ("Softmax", "Sparsemax", "Entmax15")
"""Normalizers whose derivative subtracts a number of the row."""
FLAT = ("Hardmax", "Mean")
"""Normalizers whose weights do not move with the scores."""
NODES_A_PROGRAM = 32
"""Nodes that a program copies."""
MAX_PROGRAMS = 2048
"""Programs of a pass in which each has scratch memory of its own."""


def over_ranges(lowered: Lowered, seed: Tensor) -> Tensor:
    """The operator over runs of keys: `(*batch, query, value_dim)`."""
    inputs, batch = inputs_of(lowered, seed)
    out, _ = attend_ranges(*inputs)
    return out.reshape(*batch, *out.shape[2:])


def forward_ranges(inputs: RangeInputs) -> tuple[Tensor, Tensor]:
    """Attention over runs of keys, and what the gradient needs.

    Returns:
        `(outer, inner, query, value_dim)`; and two numbers a row, `(2, outer, inner, query)`, of normalizers that need
        them: the largest score, and ln Σ exp(s − max), 1 over how many are largest, or the threshold.
    """
    out, stats = ranges_shapes(inputs)
    if out.numel() == 0 or inputs.key.shape[-2] == 0:
        return out.zero_(), stats.zero_()
    form, _, _ = tilings_of(inputs)
    job = RangeKernelArguments(inputs, form)
    outputs = panel_of(out), stats if inputs.normalizer in WITH_STATS else None
    launch_tiles(forward, job.blocks_of_queries(form), form, job.operands, job.runs, job.extent, *outputs)
    return out, stats


def ranges_shapes(inputs: RangeInputs) -> tuple[Tensor, Tensor]:
    """What tracers see of the output."""
    query, rows = inputs.query, inputs.query.shape[:-1]
    stats = query.new_empty(2 if inputs.normalizer in WITH_STATS else 0, *rows, dtype=torch.float32)
    return query.new_empty(*rows, inputs.value.shape[-1]), stats


def backward_ranges(
    grad_out: Tensor, outputs: list[Tensor], inputs: RangeInputs, needs: Sequence[bool]
) -> list[Tensor]:
    """The gradients of query, key, value, bias and vector; empty where `needs` says no."""
    out, saved_stats = outputs
    query, key, _, _, vector, starts, stops = inputs[:7]
    tensors: Any = inputs[:5]
    grads = [query.new_empty(0) if x is None else x.new_empty(x.shape) for x in tensors]

    # Where the score does not read queries and keys, they are left without features.
    needs = [need and x.shape[-1] > 0 for need, x in zip(needs, tensors)]
    if out.numel() == 0 or key.shape[-2] == 0:
        return [grad.zero_() for grad in grads]

    if inputs.normalizer in FLAT:
        for grad in (grads[0], grads[1], grads[3], grads[4]):
            grad.zero_()
        needs = [False, False, needs[2], False, False]

    by_both, by_query, by_key = tilings_of(inputs)
    job = RangeKernelArguments(inputs, by_both, is_backward=True)
    stats = saved_stats if inputs.normalizer in WITH_STATS else None
    grad_query, grad_key, grad_value, grad_bias, grad_vector = grads
    is_centered = inputs.normalizer in CENTERED and any(needs[index] for index in (0, 1, 3, 4))
    deltas = query.new_empty(query.shape[:-1], dtype=torch.float32) if is_centered else None
    stored = Stored(panel_of(out), panel_of(grad_out.contiguous()), stats, deltas)
    common = [Common(x) for x in (job.operands, job.runs, job.extent, stored)]

    bias_place = BiasPlace(grad_bias if needs[3] else None, query, key)
    if is_centered or needs[0] or needs[4] or bias_place.in_pairs or bias_place.in_rows:
        programs = job.blocks_of_queries(by_query)
        parts = query.new_empty(programs, by_query.key_width, dtype=torch.float32) if needs[4] else None
        if bias_place.in_pairs:
            grad_bias.zero_()  # pairs that are not there
        by_row = query.new_empty(query.shape[:-1], dtype=torch.float32) if bias_place.in_rows else None
        scratch, max_programs = job.scratch(by_query, needs[0] or needs[4])
        gradients = QueryGradients(
            panel_or_none(grad_query if needs[0] else None), parts,
            panel_of(grad_bias) if bias_place.in_pairs else None, by_row,
        )  # fmt: skip
        arguments = *common, Along(job.along[0], job.along[1], scratch), gradients
        launch_tiles(backward_queries, min(programs, max_programs), by_query, *arguments)
        if parts is not None and vector is not None:
            grad_vector.copy_(parts.view(*vector.shape[:-1], -1, by_query.key_width).sum(-2)[..., : vector.shape[-1]])
        if by_row is not None:
            grad_bias.copy_(by_row.unsqueeze(-1).sum_to_size(grad_bias.shape))
    if needs[1] or needs[2] or bias_place.in_columns:
        by_column = (
            query.new_empty(*query.shape[:2], key.shape[-2], dtype=torch.float32) if bias_place.in_columns else None
        )
        programs = query.shape[0] * query.shape[1] * ceiling(key.shape[-2], by_key.keys)
        scratch, max_programs = job.scratch(by_key, needs[1])
        wanted = grad_key if needs[1] else None, grad_value if needs[2] else None
        to_keys = KeyGradients(panel_or_none(wanted[0]), panel_or_none(wanted[1]), by_column)
        key_arguments = (
            Along(job.along[0], job.along[1], scratch),
            to_keys,
            seen_from(starts, stops, by_key, key.shape[-2]),
        )
        launch_tiles(backward_keys, min(programs, max_programs), by_key, *common, *key_arguments)
        if by_column is not None:
            grad_bias.copy_(by_column.unsqueeze(-2).sum_to_size(grad_bias.shape))
    if bias_place.is_shared:
        tiles = ceiling(query.shape[-2], by_query.queries) * ceiling(key.shape[-2], by_query.keys)
        outers, inners = (query.shape[axis] // grad_bias.shape[axis] for axis in (0, 1))
        programs = tiles * grad_bias.shape[0] * grad_bias.shape[1]
        members = outers, inners, grad_bias.shape[1]
        launch_tiles(backward_bias, programs, by_query, *common, panel_of(grad_bias), *members)

    return grads


def ranges_formula(inputs: RangeInputs) -> Tensor:
    """The output in plain torch."""
    outers, inners = inputs.query.shape[:2]

    def drop(weights: Tensor, start: int, stop: int, first: int, last: int) -> Tensor:
        factors = dropout_factors(inputs.seed, inputs.dropout, outers * inners, (start, stop), (first, last))
        return weights * factors.unflatten(0, (outers, inners)).to(weights.dtype)

    return formula.over_ranges(inputs, drop if inputs.dropout > 0 else None)


attend_ranges = define_with_gradient(
    "triton_ranges", RangeInputs, forward_ranges, ranges_shapes, backward_ranges, ranges_formula, num_differentiable=5,
    saved_outputs=(0, 1),
)  # fmt: skip


class RangeKernelArguments:
    """The arguments of an operator as the kernels take them."""

    def __init__(self, inputs: RangeInputs, form: Tiling, is_backward: bool = False):
        self.query, key, value, bias, vector, starts, stops = inputs[:7]
        outers, inners, num_queries, _ = self.query.shape
        self.extent = Counts(num_queries, key.shape[-2], inners, outers * inners)
        self.runs = runs_of(starts, stops)
        self.along: list[MemberPanel | None] = [None, None]
        max_abs: Tensor | None = None
        nodes: list[MemberPanel | None] = [panel_of(self.query), panel_of(key)]

        if form.kind not in ("Dot", "Constant"):
            if form.activation in ("tanh", "sigmoid"):
                norms = [torch.linalg.vector_norm(x, torch.inf) for x in (self.query, key)]
                max_abs = torch.stack(norms).float()
            copies = [copies_of(x, max_abs, form, is_backward) for x in (self.query, key)]
            nodes, self.along = ([copy[side] for copy in copies] for side in (0, 1))
        if vector is not None:
            missing = form.steps - vector.shape[-1]
            vector = (torch.nn.functional.pad(vector, (0, missing)) if missing else vector).contiguous()
        shown = None if bias is None else bias.expand(*bias.shape[:2], num_queries, key.shape[-2])
        numbers = float(inputs.number), float(inputs.dropout), inputs.seed
        self.operands = PanelOperands(
            nodes[0], nodes[1], panel_of(value), panel_or_none(shown), vector, max_abs, *numbers
        )

    def blocks_of_queries(self, form: Tiling) -> int:
        """How many there are, in all members."""
        return self.extent.members * ceiling(self.extent.queries, form.queries)

    def scratch(self, form: Tiling, is_needed: bool) -> tuple[Tensor | None, int]:
        """Scratch memory for each program, and how many programs it serves."""
        if not is_needed or form.kind in ("Dot", "Constant"):
            return None, 2**31 - 1
        tiles = self.blocks_of_queries(form) + self.extent.members * ceiling(self.extent.keys, form.keys)
        programs = min(MAX_PROGRAMS, tiles)
        return self.query.new_empty(programs * form.queries * form.keys, dtype=torch.float32), programs


class BiasPlace:
    """Where the gradient of a bias comes from: `None` has none."""

    def __init__(self, grad_bias: Tensor | None, query: Tensor, key: Tensor):
        pairs = query.shape[-2], key.shape[-2]
        full = grad_bias is not None and grad_bias.shape[-2:] == pairs
        is_per_member = grad_bias is not None and grad_bias.shape[:2] == query.shape[:2]
        narrow = grad_bias is not None and grad_bias.shape[-1] == 1
        self.in_pairs = full and is_per_member
        """Each pair of each member has its own."""
        self.is_shared = full and not is_per_member
        """Each pair has its own, which members share."""
        self.in_rows = not full and narrow
        """All keys of a query have the same."""
        self.in_columns = grad_bias is not None and not full and not narrow
        """All queries that see a key have the same."""


def panel_of(x: Tensor) -> MemberPanel:
    """A tensor `(outer, inner, node, feature)` as kernels take it; an axis that is shared has stride 0."""
    outer, inner, row = (0 if size == 1 else step for size, step in zip(x.shape[:3], x.stride()[:3]))
    return MemberPanel(x, outer, inner, row, x.stride(3))


def panel_or_none(x: Tensor | None) -> MemberPanel | None:
    """The same, where there is one."""
    return None if x is None else panel_of(x)


def runs_of(starts: Tensor, stops: Tensor) -> KeyRuns:
    """Runs `(outer or 1, inner or 1, …)` as kernels take them."""
    return KeyRuns(
        starts, stops, *(0 if size == 1 else step for size, step in zip(starts.shape[:2], starts.stride()[:2]))
    )


def copies_of(
    x: Tensor, max_abs: Tensor | None, form: Tiling, is_backward: bool
) -> tuple[MemberPanel, MemberPanel | None]:
    """Copies of queries or keys, of members that share them once: nodes side by side; and features, for `backward`."""
    members = x[: 1 if x.stride(0) == 0 else None, : 1 if x.stride(1) == 0 else None]
    outers, inners, count, _ = members.shape
    nodes = ceiling(count, NODES.value) * NODES.value
    across = x.new_empty(outers, inners, nodes, form.steps, dtype=torch.float32)
    along = x.new_empty(outers, inners, nodes, form.key_width, dtype=torch.float32) if is_backward else None
    panels = panel_of(across), panel_or_none(along)
    launch_tiles(
        copy_nodes, outers * inners * (nodes // NODES_A_PROGRAM), form, panel_of(members), max_abs,
        Counts(count, count, inners, outers * inners), count, *panels, BLOCK=NODES_A_PROGRAM,
    )  # fmt: skip
    return panels


def seen_from(starts: Tensor, stops: Tensor, form: Tiling, num_keys: int) -> KeyRuns:
    """For each block of keys, blocks of queries first … last − 1 outside which no query sees one of them."""
    kept = None if is_captured(starts.device) else KEPT.get(starts)
    if kept is None:
        return _seen_from(starts, stops, form, num_keys)
    size = form.queries, form.keys
    if size not in kept:
        kept[size] = _seen_from(starts, stops, form, num_keys)
    return kept[size]


def _seen_from(starts: Tensor, stops: Tensor, form: Tiling, num_keys: int) -> KeyRuns:
    blocks = ceiling(num_keys, form.keys)
    sees, missing = stops > starts, (0, -starts.shape[-1] % form.queries)
    low = torch.nn.functional.pad(torch.where(sees, starts // form.keys, blocks), missing, value=blocks)
    high = torch.nn.functional.pad(torch.where(sees, (stops - 1) // form.keys, -1), missing, value=-1)
    lowest = low.unflatten(-1, (-1, form.queries)).amin(-1)
    highest = high.unflatten(-1, (-1, form.queries)).amax(-1)
    block = torch.arange(blocks, device=starts.device, dtype=starts.dtype).expand(*starts.shape[:-1], -1).contiguous()
    # The first that sees a block, or one after it; and the last that sees it, or one before it.
    first = torch.searchsorted(highest.cummax(-1).values, block, out_int32=True)
    last = torch.searchsorted(lowest.flip(-1).cummin(-1).values.flip(-1), block, right=True, out_int32=True)
    return runs_of(first, last)
