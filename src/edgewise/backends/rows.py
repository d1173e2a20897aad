"""The two shapes that the scores of a call come in: a table with a mask, or a list of edges."""

import math

import torch
from torch import Tensor

from edgewise.normalize import Rows, softmax_of


class TableScoreRows(Rows):
    """Scores `(*batch, query, key)`; a row is the last axis.

    Args:
        mask: which pairs are in the neighborhood.
        is_whole: whether all are known to be, with finite scores, so that nothing need be masked.
    """

    def __init__(self, mask: Tensor, is_whole: bool = False):
        self.mask, self.is_whole = mask, is_whole

    def keep(self, x: Tensor) -> Tensor:
        return x if self.is_whole else torch.where(self.mask, x, 0.0)

    def total(self, x: Tensor) -> Tensor:
        return self.keep(x).sum(-1, keepdim=True)

    def largest(self, x: Tensor) -> Tensor:
        if x.shape[-1] == 0:
            return x
        largest = (x.detach() if self.is_whole else torch.where(self.mask, x.detach(), -math.inf)).amax(
            -1, keepdim=True
        )
        return torch.where(largest == -math.inf, 0.0, largest)

    def softmax(self, x: Tensor) -> Tensor:
        return x.softmax(-1) if self.is_whole else softmax_of(x, self)

    def descending(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ordered, order = torch.where(self.mask, x.double(), -math.inf).sort(-1, descending=True)
        ordered = torch.where(ordered == -math.inf, 0.0, ordered)
        back = order.argsort(-1)
        rank = (back + 1).double()
        sums, squares = ordered.cumsum(-1), ordered.square().cumsum(-1)
        return rank, sums.gather(-1, back), squares.gather(-1, back)

    def spread(self, x: Tensor) -> Tensor:
        return x[..., None, None]


class EdgeScoreRows(Rows):
    """Scores `(edge, *batch)`; a row is the edges of one receiver."""

    def __init__(self, receivers: Tensor, num_receivers: int):
        self.receivers = receivers
        self.num_receivers = num_receivers

    def keep(self, x: Tensor) -> Tensor:
        return x

    def total(self, x: Tensor) -> Tensor:
        return self.collect(x).index_select(0, self.receivers)

    def collect(self, x: Tensor) -> Tensor:
        """The sum of x over each row, `(receiver, *batch)`."""
        return x.new_zeros(self.num_receivers, *x.shape[1:]).index_add(0, self.receivers, x)

    def largest(self, x: Tensor) -> Tensor:
        index = self.receivers.view(-1, *[1] * (x.dim() - 1)).expand_as(x)
        floor = x.new_full((self.num_receivers, *x.shape[1:]), -math.inf)
        largest = floor.scatter_reduce(0, index, x.detach(), "amax").index_select(0, self.receivers)
        return torch.where(largest == -math.inf, 0.0, largest)

    def softmax(self, x: Tensor) -> Tensor:
        return softmax_of(x, self)

    def descending(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = torch.where(x.isfinite(), x, 0.0)  # the running sums pass from row to row: what is broken must not
        by_value = x.double().argsort(dim=0, descending=True, stable=True)
        by_row = self.receivers[by_value].argsort(dim=0, stable=True)
        order = by_value.gather(0, by_row)
        ordered = x.double().gather(0, order)
        counts = torch.zeros(self.num_receivers + 1, dtype=torch.int64, device=x.device)
        first = counts.index_add(0, self.receivers + 1, torch.ones_like(self.receivers)).cumsum(0)
        first = first.index_select(0, self.receivers).view(-1, *[1] * (x.dim() - 1)).expand_as(x)
        back = order.argsort(dim=0)
        rank = (back - first + 1).double()
        return rank, _running(ordered, first, back), _running(ordered.square(), first, back)

    def spread(self, x: Tensor) -> Tensor:
        return x


def _running(ordered: Tensor, first: Tensor, back: Tensor) -> Tensor:
    """Sums from the first edge of the row to each edge, at the edge's own place."""
    before = torch.cat([ordered.new_zeros(1, *ordered.shape[1:]), ordered.cumsum(0)])
    return before.gather(0, back + 1) - before.gather(0, first)


def signs_of_infinities(x: Tensor) -> Tensor:
    """1 for ∞, −1 for −∞, 0 for all else."""
    return torch.where(x.isinf(), x.sign(), 0.0)


def with_infinities(finite: Tensor, broken: Tensor, signs: Tensor) -> Tensor:
    """Σ w·v in arithmetic, where v may be infinite or NaN; what it cannot have a gradient of has none.

    Args:
        finite: the sum over what is finite.
        broken: how many v of it are not.
        signs: the sum of the signs of its w·v that are infinite, of which 0 · ∞ is none.
    """
    # All of one sign, or NaN: 0 · ∞, ∞ − ∞, or made of NaN.
    infinite = torch.where(signs.abs() == broken, finite.detach() + signs * math.inf, torch.nan)
    return torch.where(broken > 0, infinite, finite)
