"""A Gaussian process over the features of a row, beside a network: strong with few rows or molecules."""

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim.adam import adam

from edgewise.errors import DataError
from edgewise.graph import Batch
from edgewise.learn.companions.covariance import ProcessRows, RowPairs, row_blocks
from edgewise.learn.companions.noise import blocks_of, grouped, heavy_tailed
from edgewise.learn.companions.substructures import RowSizes

NUM_CHOOSING, STEPS, RATE = 500, 60, 0.1
"""Rows, steps and rate with which the covariance is chosen; learned from validation rows, see
docs/experiments/conditions.md."""
MIN_NOISE = 1e-3
"""The smallest variance of normal noise, in units of that of the targets: without noise the covariance is singular."""
NUM_OF_MOLECULE = 20
"""Rows of the same molecules among them: single rows do not show how far a condition reaches."""
MAX_COUNT = 255
"""The largest count of a substructure: known molecules store a byte each."""
MIN_SHARE = 1e-100
"""Rows that weigh less in the mean weight are left out: their noise would be infinite."""
Limits = tuple[tuple[float, ...], tuple[float, ...]]
"""The smallest and the largest value of each output, in the units of the network."""
NONE = -1000.0
"""The logarithm of a factor that is 0."""
MIN_SHARED, MIN_VALUES = 0.5, 3
"""Rows of series in a table with series, and different values of what they share: two are a mark of zeros."""


class GaussianProcess(nn.Module):
    """The mean of a Gaussian process, given training rows n: f(x) = Σ_n k(x, x_n) α_n, α = (K + noise)⁻¹ y.

        k = p · M(u, m₁) + d · M(u, m₂) + 1[same molecules] · (e · M(u, m₃) + g · M(u, m₄))
        p = a · cos(s, s') + (b + c · cos(s, s')) · M(‖z − z'‖² / ℓ)
        M(u, m) = M(Σ_i (u_i − u'_i)² / m_i)        M(r²) = (1 + √5 r + 5/3 r²) e^(−√5 r)

    with s the square roots of counts of substructures, z descriptors, u conditions: what similar molecules have in
    common, what all have, what is a molecule's own, and what is a series' own: rows that were measured together
    have a condition in common, and are off together. Of several molecules in a row the cosines are multiplied, and the
    distances added. Without conditions k = p. Where few rows share a condition with others of their molecules g = 0.

    Noise is normal without conditions. With them it has Student's t distribution: rows of one molecule say which of
    them is far off. Its variance for row n is f (ν + q_n) / (ν + 1) of the normal one, with q_n the squared residual
    of n where it is left out of some 1,000 rows, in units of its variance. The degrees of freedom ν and the factor f
    are those that make these residuals most likely.

    A process can learn from some rows, be judged by others, and then learn from these, too (`later`).

    Args:
        sizes: of a row.
        num_rows: rows that it has learned from.
        num_molecules: molecules of these rows.
        num_outputs: numbers to predict.
        limits: between which predictions lie; None where they may lie anywhere.

    Cost: O(row · known row), to learn O(known row³); in float64, where the device has it.
    Source: Rasmussen and Williams 2006, eqs. 2.25, 4.17, 5.8 and 5.12; noise: Lange, Little and Taylor 1989.
    """

    descriptors: Tensor
    substructures: Tensor
    molecules: Tensor
    conditions: Tensor
    coefficients: Tensor
    logs: Tensor

    def __init__(
        self, sizes: RowSizes, num_rows: int, num_molecules: int, num_outputs: int, limits: Limits | None = None
    ):
        super().__init__()
        self.limits = limits
        counts = torch.zeros(num_molecules, sizes.num_substructures, dtype=torch.uint8)
        self.register_buffer("descriptors", torch.zeros(num_molecules, sizes.num_descriptors))
        self.register_buffer("substructures", counts)
        self.register_buffer("molecules", torch.zeros(num_rows, sizes.num_components, dtype=torch.int64))
        self.register_buffer("conditions", torch.zeros(num_rows, sizes.num_conditions))
        self.register_buffer("coefficients", torch.zeros(num_rows, num_outputs, dtype=torch.float64))
        self.register_buffer("logs", _first_logs(sizes.num_conditions).repeat(num_outputs, 1))
        self.later: Tensor | None = None
        """The coefficients that include the validation rows."""
        self._rows: tuple[list[Tensor], list[int], ProcessRows] | None = None
        """The training rows, with the buffers that they were made of and how often these had changed."""

    @classmethod
    def fit(
        cls,
        batch: Batch,
        targets: Float[np.ndarray, " row output"],
        weights: Float[np.ndarray, " row"],
        seed: int = 0,
        num_validation: int = 0,
        limits: Limits | None = None,
    ) -> "GaussianProcess":
        """The process of some rows.

        Args:
            batch: the rows, with their substructures.
            targets: in model units; NaN where missing.
            weights: how much each row counts: the variance of its noise is divided by it.
            seed: chooses the rows by which the covariance is chosen.
            num_validation: the number of last rows that are held out: they count from `learn_later` on.
            limits: as for the module.
        """
        numbers = _numbers(batch)
        sizes = RowSizes(
            *(numbers[name].shape[1] for name in ("molecules", "descriptors", "substructures", "conditions"))
        )
        process = cls(sizes, len(targets), batch.graph.num_graphs, targets.shape[1], limits)
        num_first, process.later = len(targets) - num_validation, torch.zeros_like(process.coefficients)
        for name, x in numbers.items():
            getattr(process, name).copy_(x)
        rows_of_process, mean = process.training_rows, weights[:num_first].mean() if weights[:num_first].any() else 1.0

        shares = torch.from_numpy(weights / mean)
        for output, column in enumerate(torch.from_numpy(targets.astype(np.float64)).T):
            rows = torch.from_numpy(np.flatnonzero((~column.isnan() & (shares > MIN_SHARE)).numpy()))
            first = rows[rows < num_first]
            if not len(first):
                continue
            logs = _first_logs(rows_of_process.conditions.shape[1], _series(rows_of_process.select(first)))
            order = np.random.default_rng(seed).permutation(first.numpy())
            if rows_of_process.conditions.shape[1]:
                order = grouped(order, rows_of_process.combination_of_row.numpy()[order], NUM_OF_MOLECULE)
            chosen = torch.from_numpy(order[:NUM_CHOOSING])
            process.logs[output] = logs = _chosen(rows_of_process.select(chosen), column[chosen], shares[chosen], logs)
            solutions = _solved(rows_of_process.select(rows), column[rows], shares[rows], logs, len(first))
            process.coefficients[rows, output], process.later[rows, output] = solutions.T

        return process

    def learn_later(self) -> None:
        """Includes the validation rows."""
        assert self.later is not None
        self.coefficients.copy_(self.later)
        self.later = None

    @classmethod
    def from_tensors(
        cls, tensors: Mapping[str, Tensor], sizes: RowSizes, num_outputs: int, limits: Limits | None
    ) -> "GaussianProcess":
        """A process of as many rows as its saved tensors have, still empty."""
        return cls(sizes, len(tensors["molecules"]), len(tensors["descriptors"]), num_outputs, limits)

    def check(self) -> None:
        """Raise DataError unless its numbers are valid."""
        if self.molecules.numel() and not ((self.molecules >= 0) & (self.molecules < len(self.descriptors))).all():
            raise DataError(f"process.molecules is beyond 0 to {len(self.descriptors) - 1}.")
        for name, values in self.named_buffers():
            if not values.isfinite().all():
                raise DataError(f"process.{name} is not finite.")

    @property
    def training_rows(self) -> ProcessRows:
        """The training rows of the process, made again only where they have changed."""
        buffers = [self.descriptors, self.substructures, self.molecules, self.conditions]
        if any(buffer.is_inference() for buffer in buffers):  # torch does not count their changes
            return ProcessRows.of(*buffers)
        versions = [buffer._version for buffer in buffers]
        if self._rows is None or self._rows[1] != versions or any(map(operator.is_not, self._rows[0], buffers)):
            self._rows = buffers, versions, ProcessRows.of(*buffers)
        return self._rows[2]

    def __getstate__(self) -> dict[str, Any]:
        """Without what is made again."""
        return {**self.__dict__, "_rows": None}

    def forward(self, batch: Batch) -> Float[Tensor, " row output"]:
        """The mean of each output for each row, in model units."""
        rows = ProcessRows.of(**_numbers(batch))
        logs, coefficients = (x.to(rows.conditions.dtype) for x in (self.logs, self.coefficients))
        outputs = rows.conditions.new_empty(len(rows.conditions), len(logs))
        rows_of_process = self.training_rows
        for block in row_blocks(len(outputs), len(rows_of_process.combination_of_row)):
            pairs = RowPairs.of(rows.select(block), rows_of_process)
            for output, factors in enumerate(logs):
                outputs[block, output] = pairs.covariance(factors) @ coefficients[:, output]
        if self.limits is not None:  # fractions stay fractions
            outputs = torch.minimum(
                torch.maximum(outputs, outputs.new_tensor(self.limits[0])), outputs.new_tensor(self.limits[1])
            )
        return outputs


def _first_logs(num_conditions: int, series: int | None = None) -> Tensor:
    """Logarithms of a, b, ℓ, the noise, c, and with conditions of d, e, g and every m₁, m₂, m₃ and m₄.

    Args:
        num_conditions: numbers of a row.
        series: the number that rows of a series share; None without series.
    """
    logs = [-0.5, 0.5, 1.0, -3.0, -1.0]
    if num_conditions:
        logs = [-2.0, -1.0, 0.5, -5.0, -2.0, 0.0, -3.0, NONE]
        logs += [3.0] * (2 * num_conditions) + [2.0] * num_conditions + [0.0] * num_conditions
    if series is not None:
        logs[7], logs[series - num_conditions] = -4.5, -7.0
    return torch.tensor(logs, dtype=torch.float64)


def _series(rows: ProcessRows) -> int | None:
    """The condition that rows most often share with some, but not all, of the other rows of their molecules; None where
    fewer than half do."""
    shares, rows_of_molecule = [0.0], rows.combination_of_row.bincount()[rows.combination_of_row]
    for column in rows.conditions.T:
        _, group, count = torch.stack([rows.combination_of_row, column], 1).unique(
            dim=0, return_inverse=True, return_counts=True
        )
        is_shared = (count[group] > 1) & (count[group] < rows_of_molecule) & (len(column.unique()) >= MIN_VALUES)
        shares.append(is_shared.double().mean().item())
    best_condition = int(np.argmax(shares))
    return best_condition - 1 if shares[best_condition] >= MIN_SHARED else None


def _numbers(batch: Batch) -> dict[str, Tensor]:
    """The buffers of a process from a batch that counts its substructures."""
    graph, rows, counts = batch.graph, batch.supervision, batch.substructures
    assert counts is not None and rows.graph_of_row is not None
    nothing = counts.new_zeros(len(counts), 0), counts.new_zeros(len(rows.graph_of_row), 0)
    return {
        "descriptors": nothing[0] if graph.graph_features is None else graph.graph_features,
        "substructures": counts.clamp_max(MAX_COUNT),
        "molecules": rows.graph_of_row,
        "conditions": nothing[1] if rows.row_features is None else rows.row_features,
    }


def _noise(logs: Tensor, shares: Tensor) -> Tensor:
    return (logs[3].exp() + MIN_NOISE) / shares


def _chosen(rows: ProcessRows, targets: Tensor, shares: Tensor, logs: Tensor) -> Tensor:
    """The logarithms under which the targets of some rows are likely: ½ yᵀ K⁻¹ y + ½ log |K| falls along its slope,
    Σ (K⁻¹ − K⁻¹ y yᵀ K⁻¹) ∂K / 2, a part of K after another: it takes little memory."""
    logs = logs.clone().requires_grad_()
    parts = [(block, RowPairs.of(rows.select(block), rows)) for block in row_blocks(len(targets), len(targets))]
    moments = torch.zeros(()), torch.zeros_like(logs), torch.zeros_like(logs)
    for _ in range(STEPS):
        with torch.no_grad():
            covariance = torch.cat([pairs.covariance(logs) for _, pairs in parts])
            factor, failed = torch.linalg.cholesky_ex(covariance + _noise(logs, shares).diag())
            if failed:
                break
            slopes = torch.cholesky_inverse(factor)
            solved = slopes @ targets
            slopes = (slopes - solved.outer(solved)) / 2

        with torch.enable_grad():  # of numbers alone: for the gradient of a table torch imports sympy, 20 MB
            (slope,) = torch.autograd.grad(_noise(logs, shares).dot(slopes.diagonal()), logs)
            for block, pairs in parts:
                product = pairs.covariance(logs).flatten().dot(slopes[block].flatten())
                slope += torch.autograd.grad(product, logs)[0]

        if not slope.isfinite().all():
            break
        _descend(logs, slope, moments)

    return logs.detach()


@torch.no_grad()
def _descend(logs: Tensor, slope: Tensor, moments: tuple[Tensor, Tensor, Tensor]) -> None:
    """A step of Adam by torch's function: its class imports torch's compiler, which takes 140 MB."""
    step, mean, square = moments
    adam(
        *([logs], [slope], [mean], [square], [], [step]),
        foreach=False,
        amsgrad=False,
        maximize=False,
        beta1=0.9,
        beta2=0.999,
        lr=RATE,
        weight_decay=0.0,
        eps=1e-8,
    )


def _solved(
    rows: ProcessRows, targets: Tensor, shares: Tensor, logs: Tensor, num_first: int
) -> Float[Tensor, " row 2"]:
    """α of the first rows, 0 for the others, and α of all.

    The covariance is factorized where it lies, as it may be most of the memory. Its factor begins with that of the
    first rows.
    """
    from scipy.linalg import LinAlgError, cho_factor, solve_triangular

    normal, combination_of_row, is_first = (
        _noise(logs, shares).numpy(),
        rows.combination_of_row.numpy(),
        np.arange(len(targets)) < num_first,
    )
    while True:
        covariance = _matrix(rows, logs).numpy()
        try:
            noise = normal.copy()
            if rows.conditions.shape[1]:  # that of the first rows is found without the others
                for end in sorted({len(combination_of_row), num_first}, reverse=True):
                    inside, blocks = slice(end), blocks_of(combination_of_row[:end])
                    noise[inside] = heavy_tailed(
                        covariance[inside, inside], targets.numpy()[inside], normal[inside], blocks
                    )
            covariance[np.diag_indices_from(covariance)] += noise
            # Columns of its transpose lie in a row: only so is it not copied.
            factor, _ = cho_factor(covariance.T, overwrite_a=True, check_finite=False)
        except LinAlgError:  # rounding has made it indefinite
            normal = normal * 10
        else:
            halfway = solve_triangular(factor, targets.numpy(), trans="T", check_finite=False)
            both = np.stack([np.where(is_first, halfway, 0), halfway], axis=1)
            return torch.from_numpy(solve_triangular(factor, both, check_finite=False))


def _matrix(rows: ProcessRows, logs: Tensor) -> Tensor:
    """The covariance of each row with itself and those before it; entries above the diagonal are undefined."""
    covariance = rows.conditions.new_empty(len(rows.combination_of_row), len(rows.combination_of_row))
    for block in row_blocks(len(covariance), len(covariance)):
        before = slice(block.stop)
        covariance[block, before] = RowPairs.of(rows.select(block), rows.select(before)).covariance(logs)
    return covariance
