"""Weights that do not depend on the content, over runs of keys: sums of two running sums, no pair is visited.

    o_i = c_i Σ_{j∈N(i)} v_j      c_i = 1/|N(i)| under `Mean`, else one number

Values are cut into blocks so that each run is the end of one block and the beginning of the next: it is the sum of two
running sums, from the ends of a block on, and no other value touches it. Where that cannot be, as with runs that vary
over a batch, it is the difference of two running sums over all values, in float64, so that it is exact to float32 among
values of like size. Values that are not finite stay out of these: they would reach every query behind them.
"""

import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from edgewise.backends.call import Call
from edgewise.backends.kernels import NORMALIZERS
from edgewise.backends.rows import signs_of_infinities, with_infinities
from edgewise.neighborhood import Full, Ranges
from edgewise.neighborhood.checks import broadcast_shape, can_be_read
from edgewise.normalize import Entmax15, Hardmax, Identity, Mean, Sigmoid, Softmax, Sparsemax
from edgewise.score import Constant, Cosine, Dot, ScaledDot

NAME = "uniform"


def refusals(call: Call) -> tuple[str, ...]:
    """Why the weights are not known beforehand, or running sums do not serve, in words; empty where they do."""
    reasons = []
    if not isinstance(call.neighborhood, Ranges):
        reasons.append(f"the neighborhood is {type(call.neighborhood).__name__}, not ranges")
    elif type(call.neighborhood) is not Full and call.query.device.type != "cpu":
        reasons.append("running sums on a device add in no fixed order")
    if call.dropout > 0 or call.bias is not None or _weight(call) is None:
        reasons.append("the weights of a row are not all the same")
    return tuple(reasons)


def run(call: Call) -> Tensor:
    """o_i = c_i Σ_{j∈N(i)} v_j. Memory and time O(query + key)."""
    dtype, value, weight = call.query.dtype, call.value, _weight(call)
    assert value is not None and weight is not None
    batch = value.shape[:-2] if call.query.dim() == 2 else broadcast_shape(*call.batch_shapes.values())

    if type(call.neighborhood) is Full:
        if weight == MEAN and call.num_keys > 0:
            out = value.mean(-2, keepdim=True)
        else:
            out = value.sum(-2, keepdim=True, dtype=torch.promote_types(dtype, torch.float32))
            out = (out if weight in (1, MEAN) else out * weight).to(dtype)
    else:
        assert isinstance(call.neighborhood, Ranges)
        positions = torch.arange(call.num_queries, device=value.device)
        starts, stops = torch.broadcast_tensors(
            *call.neighborhood.kernel_runs(positions, call.num_queries, call.num_keys)
        )
        total = _between(value, starts, stops)
        count = (stops - starts).clamp(min=1).unsqueeze(-1)
        out = (total.div_(count) if weight == MEAN else total.mul_(weight)).to(dtype)  # the total is not shared

    out = out.expand(*batch, call.num_queries, value.shape[-1])
    # What the weights are blind to is given zeros for a gradient, as everywhere.
    blind = [x[..., :0].sum() for x in (call.query, call.key) if x.requires_grad]
    return out + sum(blind) if blind else out


MEAN = -math.inf
"""Stands for 1/|N(i)|, which differs from row to row."""
MAX_READS = 4
"""How often each value may be read, on average, before running sums are faster than sums of each run; and by how much
blocks of one width may be longer than all values."""
SHARING = Softmax | Hardmax | Sparsemax | Entmax15
"""Normalizers that give equal scores equal shares."""


def _weight(call: Call) -> float | None:
    """The weight of every pair, `MEAN`, or None where it depends on the pair."""
    score, normalize = call.score, call.normalize
    if type(score) not in (Constant, Dot, ScaledDot, Cosine) or type(normalize) not in NORMALIZERS:
        return None
    if isinstance(normalize, Mean):
        return MEAN

    if isinstance(normalize, Softmax):
        if isinstance(normalize.temperature, Tensor):
            return None
        if normalize.temperature == math.inf:
            return MEAN
    if not isinstance(score, Constant) or not math.isfinite(constant := float(score.edge_weight)):
        return None
    if isinstance(normalize, SHARING):
        return MEAN
    if isinstance(normalize, Sigmoid):
        return 1 / (1 + math.exp(-constant)) if constant > -700 else 0.0

    return constant if isinstance(normalize, Identity) else None


def _between(value: Tensor, starts: Tensor, stops: Tensor) -> Tensor:
    """Σ of the values from start to stop, float32 or float64: `(*batch, query, feature)` of runs `(*batch, query)`."""
    if starts.dim() == 1 and can_be_read(value) and can_be_read(starts) and bool(starts.any()):
        is_first = torch.cat([starts.new_ones(1).bool(), (starts.diff() != 0) | (stops.diff() != 0)])
        run_starts, lengths = starts[is_first], (stops - starts)[is_first]
        if int(lengths.sum()) <= MAX_READS * value.shape[-2]:
            return _of_runs(value, run_starts, lengths).index_select(-2, is_first.cumsum(0) - 1)
        if (blocks := Blocks.of(starts, stops, value.shape[-2])) is not None:
            return blocks.sums(value)
    if can_be_read(value) and bool(value.detach().sum().isfinite()):
        return _difference(value, starts, stops)
    finite = value.isfinite()
    broken = _difference((~finite).double(), starts, stops)
    signs = _difference(signs_of_infinities(value).double(), starts, stops)
    return with_infinities(_difference(torch.where(finite, value, 0.0), starts, stops), broken, signs)


def _of_runs(value: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
    """Σ of each run by itself: a large number of another one takes no digits from it, as it does from running sums."""
    runs = torch.arange(len(starts), device=starts.device).repeat_interleave(lengths)
    before = lengths.cumsum(0) - lengths
    positions = torch.arange(len(runs), device=starts.device) + (starts - before)[runs]
    sums = value.new_zeros(*value.shape[:-2], len(starts), value.shape[-1], dtype=torch.float64)
    return sums.index_add(-2, runs, value.index_select(-2, positions).double())


@dataclass(frozen=True)
class Blocks:
    """Blocks of values, such that each run ends one and begins the next."""

    bounds: Tensor
    """`(boundary)`: where blocks begin and end."""
    width: int
    """The size of the largest."""
    block: Tensor
    """`(query)`: the block that the run begins, that after the one that it ends."""
    tail: Tensor
    """`(query)`: how many values of the block before are in the run."""
    head: Tensor
    """`(query)`: how many values of the block are."""

    @classmethod
    def of(cls, starts: Tensor, stops: Tensor, num_values: int) -> Self | None:
        """Blocks as wide as the longest run, and ends where several runs end, such as that of a segment; None where
        they do not serve."""
        starts, stops = (torch.where(starts < stops, x, 0) for x in (starts, stops))
        width = int((stops - starts).max())
        grid = torch.arange(0, num_values, max(width, 1), device=starts.device)
        shared = [x[1:][x.diff() == 0] for x in (starts, stops)]
        bounds = torch.cat([grid, *shared, grid.new_full((1,), num_values)]).unique()
        if (len(bounds) - 1) * width > MAX_READS * num_values:
            return None

        following = torch.searchsorted(bounds, starts, right=True)
        block = torch.where(bounds[following] <= stops, following, following - 1)
        sizes, tail, head = (
            torch.cat([bounds.diff(), bounds.new_zeros(1)]),
            bounds[block] - starts,
            stops - bounds[block],
        )
        fits = bool(((tail >= 0) & (head <= sizes[block])).all())
        return cls(bounds, width, block, tail, head) if fits else None

    def sums(self, value: Tensor) -> Tensor:
        """Σ of each run, float32 or float64: `(*batch, query, feature)`."""
        sizes, last = self.bounds.diff(), len(self.bounds) - 2
        value = value.to(torch.promote_types(value.dtype, torch.float32))
        if bool((sizes[:-1] == self.width).all()):
            padding = (last + 1) * self.width - value.shape[-2]
            values = torch.nn.functional.pad(value, (0, 0, 0, padding)) if padding else value
        else:
            within = torch.arange(self.width, device=value.device)
            positions = (self.bounds[:-1, None] + within).clamp(max=value.shape[-2] - 1).flatten()
            is_outside = (within >= sizes[:, None]).view(-1, 1)
            values = value.index_select(-2, positions).masked_fill(is_outside, 0.0)

        values = values.unflatten(-2, (-1, self.width))
        before = (self.block - 1).clamp(min=0)
        tail = torch.where(self.tail > 0, self.tail + self.width - sizes[before], 0)  # behind its padding
        heads, tails = _within(values), _within(values.flip(-2))
        stride = self.width + 1
        head_sums = heads.index_select(-2, self.block.clamp(max=last) * stride + self.head)
        return head_sums + tails.index_select(-2, before * stride + tail)


def _within(blocks: Tensor) -> Tensor:
    """The sums of the first 0, 1, … values of each block, block after block."""
    return torch.nn.functional.pad(blocks.cumsum(-2), (0, 0, 1, 0)).flatten(-3, -2)


def _difference(x: Tensor, starts: Tensor, stops: Tensor) -> Tensor:
    if can_be_read(starts) and not bool(starts.any()):  # torch adds up in float64 and rounds: nothing is subtracted
        return _before(x.to(torch.promote_types(x.dtype, torch.float32)).cumsum(-2), stops)
    sums = x.double().cumsum(-2)
    return _before(sums, stops) - _before(sums, starts)


def _before(sums: Tensor, position: Tensor) -> Tensor:
    """S[position], the sum of all that stands before a position: `(*batch, query, feature)`."""
    if sums.shape[-2] == 0:
        position, sums = position.clamp(max=0), torch.nn.functional.pad(sums, (0, 0, 0, 1))
    row = (position - 1).clamp(min=0)
    if row.dim() == 1:
        is_every = can_be_read(row) and torch.equal(row, torch.arange(sums.shape[-2], device=row.device))
        sums_before = sums if is_every else sums.index_select(-2, row)
    else:
        batch = broadcast_shape(sums.shape[:-2], row.shape[:-1])
        sums = sums.expand(*batch, *sums.shape[-2:])
        sums_before = sums.gather(-2, row.unsqueeze(-1).expand(*batch, row.shape[-1], sums.shape[-1]))
    return sums_before if can_be_read(position) and bool(position.all()) else sums_before * (position > 0).unsqueeze(-1)
