"""The kernels over runs of keys as torch operators: plain tensors in and out, shapes for tracing, and gradients."""

import torch
from torch import Tensor

from edgewise.backends import formula
from edgewise.backends.lower import normalizer_of, score_of
from edgewise.backends.triton.dropout import drawn
from edgewise.backends.triton.ranges.backward import backward_bias, backward_keys, backward_queries
from edgewise.backends.triton.ranges.forward import arrange, forward
from edgewise.backends.triton.ranges.launch import launch_tiles, tilings_of
from edgewise.backends.triton.ranges.tiles import NODES, Extent, Panel, Runs, Tiling
from edgewise.backends.triton.sizes import ceiling
from edgewise.operator import Gradient, define

KEEPING = ("Softmax", "Hardmax", "Sparsemax", "Entmax15")
"""Normalizers of which the forward pass keeps two numbers a row."""
CENTERED = ("Softmax", "Sparsemax", "Entmax15")
"""Normalizers whose derivative subtracts a number of the row."""
FLAT = ("Hardmax", "Mean")
"""Normalizers whose weights do not move with the scores."""
NODES_A_PROGRAM = 32
"""Nodes that a program arranges."""
MOST_PROGRAMS = 2048
"""Programs of a pass in which each has a piece of memory of its own."""


def ranges(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    vector: Tensor | None,
    starts: Tensor,
    stops: Tensor,
    kind: str,
    activation: str,
    root: bool,
    number: float,
    normalizer: str,
    dropout: float,
    seed: Tensor,
) -> tuple[Tensor, Tensor]:
    """Attention over runs of keys, and what the gradient needs.

    Args:
        query, key, value: `(outer, inner, node, …)`, members expanded alike.
        bias: `(outer or 1, inner or 1, query or 1, key or 1)`; vector: `(outer, inner, key_dim)`, for scores that have
            one.
        starts, stops: `(outer or 1, inner or 1, query)`: query i attends to keys starts[i]:stops[i].
        kind, activation, root, number: the score, as `backends.lower` names it; normalizer: its class.
        dropout: the rate; seed: `(1)`.

    Returns:
        `(outer, inner, query, value_dim)`; and two numbers a row, `(2, outer, inner, query)`, of normalizers that need
        them: the largest score, and ln Σ exp(s − max), 1 over how many are largest, or the threshold.
    """
    out, stats = ranges_shapes(
        query, key, value, bias, vector, starts, stops, kind, activation, root, number, normalizer, dropout, seed
    )
    if out.numel() == 0 or key.shape[-2] == 0:
        return out.zero_(), stats.zero_()
    form, _, _ = tilings_of(
        kind, activation, root, normalizer, dropout > 0, query.shape[-1], value.shape[-1], value.itemsize == 2,
        bias is not None,
    )  # fmt: skip
    job = Job(query, key, value, bias, vector, starts, stops, number, dropout, seed, form)
    launch_tiles(
        forward, job.blocks_of_queries(form), form, *job.operands, job.runs, job.extent, panel_of(out),
        stats if normalizer in KEEPING else None,
    )  # fmt: skip
    return out, stats


def ranges_shapes(query, key, value, bias, vector, starts, stops, kind, activation, root, number, normalizer,
                  dropout, seed):  # fmt: skip
    """What tracers see of the output."""
    rows = query.shape[:-1]
    stats = query.new_empty(2 if normalizer in KEEPING else 0, *rows, dtype=torch.float32)
    return query.new_empty(*rows, value.shape[-1]), stats


def ranges_backward(
    grad_out: Tensor,
    out: Tensor,
    stats: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    vector: Tensor | None,
    starts: Tensor,
    stops: Tensor,
    kind: str,
    activation: str,
    root: bool,
    number: float,
    normalizer: str,
    dropout: float,
    seed: Tensor,
    needs: list[bool],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of query, key, value, bias and vector; empty where `needs` says no."""
    grads = ranges_backward_shapes(grad_out, out, stats, query, key, value, bias, vector, starts, stops, kind,
                                   activation, root, number, normalizer, dropout, seed, needs)  # fmt: skip
    if out.numel() == 0 or key.shape[-2] == 0:
        for grad in grads:
            grad.zero_()
        return grads
    if normalizer in FLAT:
        for grad in (grads[0], grads[1], grads[3], grads[4]):
            grad.zero_()
        needs = [False, False, needs[2], False, False]
    whole, by_query, by_key = tilings_of(
        kind, activation, root, normalizer, dropout > 0, query.shape[-1], value.shape[-1], value.itemsize == 2,
        bias is not None,
    )  # fmt: skip
    job = Job(query, key, value, bias, vector, starts, stops, number, dropout, seed, whole, is_backward=True)
    kept = stats if normalizer in KEEPING else None
    grad_query, grad_key, grad_value, grad_bias, grad_vector = grads
    outward = panel_of(grad_out.contiguous())
    is_centered = normalizer in CENTERED and any(needs[place] for place in (0, 1, 3, 4))
    centers = query.new_empty(query.shape[:-1], dtype=torch.float32) if is_centered else None
    place = BiasPlace(grad_bias if needs[3] else None, query, key)
    if is_centered or needs[0] or needs[4] or place.in_pairs or place.in_rows:
        programs = job.blocks_of_queries(by_query)
        parts = query.new_empty(programs, by_query.key_width, dtype=torch.float32) if needs[4] else None
        if place.in_pairs:
            grad_bias.zero_()  # pairs that are not there
        by_row = query.new_empty(query.shape[:-1], dtype=torch.float32) if place.in_rows else None
        scratch, most = job.scratch(by_query, needs[0] or needs[4])
        launch_tiles(
            backward_queries, min(programs, most), by_query, *job.operands, job.runs, job.extent, panel_of(out),
            outward, kept, centers, *job.along, scratch, panel_or_none(grad_query if needs[0] else None), parts,
            panel_of(grad_bias) if place.in_pairs else None, by_row,
        )  # fmt: skip
        if parts is not None and vector is not None:
            grad_vector.copy_(parts.view(*vector.shape[:-1], -1, by_query.key_width).sum(-2)[..., : vector.shape[-1]])
        if by_row is not None:
            grad_bias.copy_(by_row.unsqueeze(-1).sum_to_size(grad_bias.shape))
    if needs[1] or needs[2] or place.in_columns:
        by_column = query.new_empty(*query.shape[:2], key.shape[-2], dtype=torch.float32) if place.in_columns else None
        programs = query.shape[0] * query.shape[1] * ceiling(key.shape[-2], by_key.keys)
        scratch, most = job.scratch(by_key, needs[1])
        launch_tiles(
            backward_keys, min(programs, most), by_key, *job.operands, job.runs, job.extent,
            reached(starts, stops, by_key, key.shape[-2]), outward, kept, centers, *job.along, scratch,
            panel_or_none(grad_key if needs[1] else None), panel_or_none(grad_value if needs[2] else None), by_column,
        )  # fmt: skip
        if by_column is not None:
            grad_bias.copy_(by_column.unsqueeze(-2).sum_to_size(grad_bias.shape))
    if place.is_shared:
        tiles = ceiling(query.shape[-2], whole.queries) * ceiling(key.shape[-2], whole.keys)
        outers, inners = (query.shape[axis] // grad_bias.shape[axis] for axis in (0, 1))
        launch_tiles(
            backward_bias, tiles * grad_bias.shape[0] * grad_bias.shape[1], whole, *job.operands, job.runs, job.extent,
            outward, kept, centers, panel_of(grad_bias), outers, inners, grad_bias.shape[1],
        )  # fmt: skip
    return grads


def ranges_backward_shapes(grad_out, out, stats, query, key, value, bias, vector, starts, stops, kind, activation, root,
                           number, normalizer, dropout, seed, needs):  # fmt: skip
    """What tracers see of the gradients."""
    return tuple(
        x.new_empty(x.shape) if x is not None and need else query.new_empty(0)
        for x, need in zip((query, key, value, bias, vector), needs)
    )


def _differentiate(grad_out: Tensor, kept: list, arguments: list, needs: list[bool]) -> list[Tensor | None]:
    # A score that is blind to the content has queries and keys of no features.
    needs = [need and x.shape[-1] > 0 for need, x in zip(needs[:5], arguments)]
    found = attend_ranges_backward(grad_out, *kept, *arguments, needs)
    return [grad if need else None for need, grad in zip(needs, found)]


def ranges_formula(query, key, value, bias, vector, starts, stops, kind, activation, root, number, normalizer,
                   dropout, seed):  # fmt: skip
    """The output in plain torch."""
    outers, inners = query.shape[:2]

    def drop(weights: Tensor, start: int, stop: int, first: int, last: int) -> Tensor:
        factors = drawn(seed, dropout, outers * inners, (start, stop), (first, last))
        return weights * factors.unflatten(0, (outers, inners)).to(weights.dtype)

    score = score_of(kind, number, activation, root, vector)
    return formula.over_ranges(
        query, key, value, bias, starts, stops, score, normalizer_of(normalizer), drop if dropout > 0 else None
    )


attend_ranges_backward = define("triton_ranges_backward", ranges_backward, ranges_backward_shapes)
GRADIENT = Gradient(_differentiate, ranges_formula, keeps=(0, 1))
attend_ranges = define("triton_ranges", ranges, ranges_shapes, GRADIENT)


class Job:
    """The arguments of an operator as the kernels take them."""

    def __init__(self, query, key, value, bias, vector, starts, stops, number, dropout, seed, form, is_backward=False):
        self.query, (outers, inners, num_queries, _) = query, query.shape
        self.extent = Extent(num_queries, key.shape[-2], inners, outers * inners)
        self.runs = runs_of(starts, stops)
        self.along: list[Panel | None] = [None, None]
        reach, sides = None, [panel_of(query), panel_of(key)]
        if form.kind not in ("Product", "Blind"):
            if form.activation in ("tanh", "sigmoid"):
                reach = torch.stack([torch.linalg.vector_norm(x, torch.inf) for x in (query, key)]).float()
            copies = [arranged(x, reach, form, is_backward) for x in (query, key)]
            sides, self.along = ([copy[place] for copy in copies] for place in (0, 1))
        if vector is not None:
            vector = torch.nn.functional.pad(vector, (0, form.steps - vector.shape[-1])).contiguous()
        shown = None if bias is None else bias.expand(*bias.shape[:2], num_queries, key.shape[-2])
        self.operands = (
            *sides,
            panel_or_none(value),
            panel_or_none(shown),
            vector,
            reach,
            float(number),
            float(dropout),
            seed,
        )

    def blocks_of_queries(self, form: Tiling) -> int:
        """How many there are, in all members."""
        return self.extent.members * ceiling(self.extent.queries, form.queries)

    def scratch(self, form: Tiling, is_needed: bool) -> tuple[Tensor | None, int]:
        """A piece of memory for each program, and how many programs it serves."""
        if not is_needed or form.kind in ("Product", "Blind"):
            return None, 2**31 - 1
        tiles = self.blocks_of_queries(form) + self.extent.members * ceiling(self.extent.keys, form.keys)
        programs = min(MOST_PROGRAMS, tiles)
        return self.query.new_empty(programs * form.queries * form.keys, dtype=torch.float32), programs


class BiasPlace:
    """Where the gradient of a bias comes from: `None` has none."""

    def __init__(self, grad_bias: Tensor | None, query: Tensor, key: Tensor):
        pairs = query.shape[-2], key.shape[-2]
        full = grad_bias is not None and grad_bias.shape[-2:] == pairs
        own = grad_bias is not None and grad_bias.shape[:2] == query.shape[:2]
        narrow = grad_bias is not None and grad_bias.shape[-1] == 1
        self.in_pairs = full and own
        """Each pair of each member has its own."""
        self.is_shared = full and not own
        """Each pair has its own, which members share."""
        self.in_rows = not full and narrow
        """All keys of a query have the same."""
        self.in_columns = grad_bias is not None and not full and not narrow
        """All queries that see a key have the same."""


def panel_of(x: Tensor) -> Panel:
    """A tensor `(outer, inner, node, feature)` as kernels take it; an axis that is shared has stride 0."""
    outer, inner, row = (0 if size == 1 else step for size, step in zip(x.shape[:3], x.stride()[:3]))
    return Panel(x, outer, inner, row, x.stride(3))


def panel_or_none(x: Tensor | None) -> Panel | None:
    """The same, where there is one."""
    return None if x is None else panel_of(x)


def runs_of(starts: Tensor, stops: Tensor) -> Runs:
    """Runs `(outer or 1, inner or 1, …)` as kernels take them."""
    return Runs(starts, stops, *(0 if size == 1 else step for size, step in zip(starts.shape[:2], starts.stride()[:2])))


def arranged(x: Tensor, reach: Tensor | None, form: Tiling, is_backward: bool) -> tuple[Panel, Panel | None]:
    """Copies of queries or keys, of members that share them once: nodes next to each other; and features, if asked."""
    own = x[: 1 if x.stride(0) == 0 else None, : 1 if x.stride(1) == 0 else None]
    outers, inners, count, _ = own.shape
    nodes = ceiling(count, NODES.value) * NODES.value
    across = x.new_empty(outers, inners, nodes, form.steps, dtype=torch.float32)
    along = x.new_empty(outers, inners, nodes, form.key_width, dtype=torch.float32) if is_backward else None
    panels = panel_of(across), panel_or_none(along)
    launch_tiles(
        arrange, outers * inners * (nodes // NODES_A_PROGRAM), form, panel_of(own), reach,
        Extent(count, count, inners, outers * inners), count, *panels, BLOCK=NODES_A_PROGRAM,
    )  # fmt: skip
    return panels


def reached(starts: Tensor, stops: Tensor, form: Tiling, num_keys: int) -> Runs:
    """For each block of keys, blocks of queries first … last − 1 outside which nobody sees one of them."""
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
