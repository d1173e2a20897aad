"""The covariance of a Gaussian process: what two rows of molecules have in common."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.autograd.function import BackwardCFunction

BLOCK_ROWS, NUM_PAIRS = 64, 2**18
"""Rows of a covariance, and its numbers, that are computed at the same time: it needs a dozen times their memory
on the way, and is slower where that is not in a cache."""
SAME = {torch.float64: 1e-11, torch.float32: 1e-5}
"""Molecules with equal counts whose mean squared distance is below count as the same, up to rounding."""
CODED_ROWS = 1024
"""Molecules whose counts are coded at the same time."""


class ProcessRows(NamedTuple):
    """The inputs of a covariance for some rows."""

    descriptors: Float[Tensor, " molecule descriptor"]
    substructures: Float[Tensor, " molecule kind"]
    """The count of each substructure, scaled."""
    codes: Int64[Tensor, " molecule"]
    """A number for each molecule, equal where all counts are: cosines of long chains are 1 but for rounding."""
    molecules: Int64[Tensor, " combination component"]
    """The different combinations of molecules."""
    combination_of_row: Int64[Tensor, " row"]
    """The combination of each row."""
    conditions: Float[Tensor, " row condition"]

    @classmethod
    def of(cls, descriptors: Tensor, substructures: Tensor, molecules: Tensor, conditions: Tensor) -> "ProcessRows":
        """Rows with these molecules: in float64, where the device has it; square roots of the counts of
        substructures, of length 1 together, in float32."""
        dtype = torch.float32 if conditions.device.type == "mps" else torch.float64
        codes = _codes(substructures)  # before they may be scaled in place
        # Kind after kind, as `_products` reads them.
        counts = substructures.T.to(torch.float32, memory_format=torch.contiguous_format).sqrt_()
        counts = (counts / counts.norm(dim=0).clamp_min(1e-12)).T
        combination_of_row = torch.zeros(len(molecules), dtype=torch.int64)
        for column in molecules.cpu().T:  # not every device has `unique`; that of rows is slow
            combination_of_row = (combination_of_row * len(counts) + column).unique(return_inverse=True)[1]
        combination_of_row = combination_of_row.to(molecules.device)
        combinations = molecules.new_empty(
            int(combination_of_row.max()) + 1 if len(combination_of_row) else 0, molecules.shape[1]
        )
        combinations[combination_of_row] = molecules
        return cls(descriptors.to(dtype), counts, codes, combinations, combination_of_row, conditions.to(dtype))

    def select(self, rows: slice | Tensor) -> "ProcessRows":
        """Some of the rows, and all molecules."""
        numbers, combination_of_row = self.combination_of_row[rows].unique(return_inverse=True)
        return self._replace(
            molecules=self.molecules[numbers], combination_of_row=combination_of_row, conditions=self.conditions[rows]
        )


class RowPairs(NamedTuple):
    """Rows, each with every one of other rows."""

    one: ProcessRows
    other: ProcessRows
    similarity: Float[Tensor, " combination other"]
    """The cosine of each two combinations of molecules."""
    squared_distance: Float[Tensor, " combination other"]
    """Their mean squared distance."""
    same: tuple[Int64[Tensor, " pair"], Int64[Tensor, " pair"]]
    """Two rows each that have the same molecules; none without conditions."""

    @classmethod
    def of(cls, one: ProcessRows, other: ProcessRows) -> "RowPairs":
        """The pairs of two tables."""
        similarity, squared_distance = one.conditions.new_ones(1, 1), one.conditions.new_zeros(1, 1)
        for mine, theirs in zip(one.molecules.T, other.molecules.T, strict=True):
            similarity = similarity * _products(one.substructures[mine], other.substructures)[:, theirs]
            squared_distance = (
                squared_distance + torch.cdist(one.descriptors[mine], other.descriptors).square()[:, theirs]
            )
        squared_distance = squared_distance / max(one.molecules.shape[1] * one.descriptors.shape[1], 1)
        if not one.conditions.shape[1]:
            return cls(one, other, similarity, squared_distance, (one.molecules.new_empty(0),) * 2)
        is_same = squared_distance < SAME[squared_distance.dtype]
        for mine, theirs in zip(one.molecules.T, other.molecules.T, strict=True):
            is_same &= one.codes[mine][:, None] == other.codes[theirs]
        mine, theirs = is_same[one.combination_of_row][:, other.combination_of_row].nonzero().T
        return cls(one, other, similarity, squared_distance, (mine, theirs))

    def covariance(self, logs: Tensor) -> Float[Tensor, " row other"]:
        """k of each pair."""
        factors, (rows, other_rows) = logs.exp(), self.same
        result = factors[0] * self.similarity + (factors[1] + factors[4] * self.similarity) * _matern(
            self.squared_distance / factors[2]
        )
        result = result[self.one.combination_of_row][:, self.other.combination_of_row]
        if not self.one.conditions.shape[1]:
            return result
        conditions, other_conditions, lengths = self.one.conditions, self.other.conditions, factors[8:].view(4, -1)
        near, near_all = _matern(_squares(conditions[:, None], other_conditions, lengths[:2]))
        same_molecule = factors[6:8] @ _matern(_squares(conditions[rows], other_conditions[other_rows], lengths[2:]))
        return torch.addcmul(factors[5] * near_all, result, near).index_put(self.same, same_molecule, accumulate=True)


def _codes(counts: Tensor) -> Int64[Tensor, " molecule"]:
    """A number for each row of whole numbers, equal where all of them are."""
    factors = torch.randint(2**62, (counts.shape[1],), generator=torch.Generator().manual_seed(0)).to(counts.device)
    return torch.cat([(part.long() * factors).sum(1) for part in counts.split(CODED_ROWS)])


def row_blocks(num_rows: int, num_others: int) -> Iterator[slice]:
    """Rows that are paired with others at the same time."""
    count = max(1, min(BLOCK_ROWS, NUM_PAIRS // max(num_others, 1)))
    return (slice(start, start + count) for start in range(0, num_rows, count))


def _products(one: Float[Tensor, " row kind"], other: Float[Tensor, " other kind"]) -> Float[Tensor, " row other"]:
    """The product of each two rows, most of whose numbers are 0."""
    if one.device.type != "cpu":
        return one @ other.T
    rows, kinds = one.nonzero().T.contiguous()
    starts = torch.searchsorted(rows, torch.arange(len(one)))
    return torch.nn.functional.embedding_bag(kinds, other.T, starts, mode="sum", per_sample_weights=one[rows, kinds])


def _squares(one: Tensor, other: Tensor, lengths: Float[Tensor, " part condition"]) -> Tensor:
    """Σ_i (u_i − u'_i)² / m_i of each part, and of each pair that (..., condition) and (..., condition) make.

    Not by a product of matrices: of short lengths it would round distances too far in float32.
    """
    total = one.new_zeros(len(lengths), *torch.broadcast_shapes(one.shape, other.shape)[:-1])
    for mine, theirs, column in zip(one.unbind(-1), other.unbind(-1), lengths.T, strict=True):
        gaps = (mine - theirs).square()
        total = torch.addcmul(total, gaps, column.reciprocal().view(-1, *[1] * gaps.ndim))
    return total


class _Matern(torch.autograd.Function):
    """M of r²; for its slope it keeps r alone, and at 0 it has one, which torch's square root has not."""

    @staticmethod
    def forward(ctx: BackwardCFunction, squares: Tensor) -> Tensor:
        scaled = (5 * squares).sqrt_()
        ctx.save_for_backward(scaled)
        return torch.addcmul(1 + scaled, scaled, scaled, value=1 / 3).mul_((-scaled).exp_())

    @staticmethod
    def backward(ctx: BackwardCFunction, slopes: Tensor) -> Tensor:
        (scaled,) = ctx.saved_tensors
        return (-scaled).exp_().mul_(1 + scaled).mul_(slopes).mul_(-5 / 6)


def _matern(squares: Tensor) -> Tensor:
    covariance: Tensor = _Matern.apply(squares)  # type: ignore[no-untyped-call]
    return covariance
