"""A Gaussian process over the numbers of a row, beside a network: strong where rows are few."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.adam import adam

from edgewise.errors import DataError
from edgewise.models.graph_settings import PropertySizes
from edgewise.records import Batch

NUM_CHOOSING, STEPS, RATE = 500, 60, 0.1
"""Rows, steps and rate with which the covariance is chosen; learned from validation rows, see docs/molecules.md."""
LEAST_NOISE = 1e-3
"""The least variance of the noise, in that of the targets: a covariance without noise cannot be solved."""
MOST = 255
"""What counts of a substructure end at: a byte each is kept of known molecules."""
TOGETHER = 64
"""Rows of a covariance that are computed at the same time: it needs a dozen times their memory on the way."""


class Rows(NamedTuple):
    """What a covariance sees of some rows."""

    descriptors: Float[Tensor, " molecule descriptor"]
    substructures: Float[Tensor, " molecule kind"]
    """How often each kind occurs."""
    molecules: Int64[Tensor, " row component"]
    conditions: Float[Tensor, " row condition"]

    @classmethod
    def of(cls, batch: Batch) -> "Rows":
        """Those of a batch that counts its substructures."""
        assert batch.substructures is not None
        counts = batch.substructures.clamp_max(MOST)
        return cls(batch.global_features, counts, batch.graph_of_row, batch.conditions)

    def exact(self) -> "Rows":
        """In float64, where the device has it; square roots of the counts, of length 1 together, in float32."""
        dtype = torch.float32 if self.conditions.device.type == "mps" else torch.float64
        return self._replace(
            descriptors=self.descriptors.to(dtype),
            substructures=F.normalize(self.substructures.float().sqrt(), dim=1),
            conditions=self.conditions.to(dtype),
        )

    def some(self, rows: slice | Tensor) -> "Rows":
        """Some of the rows, and all molecules."""
        return self._replace(molecules=self.molecules[rows], conditions=self.conditions[rows])


class GaussianProcess(nn.Module):
    """The mean of a Gaussian process, given training rows n: f(x) = Σ_n k(x, x_n) α_n, α = (K + noise)⁻¹ y.

        k = (a · cos(s, s') + (b + c · cos(s, s')) · M(‖z − z'‖² / ℓ) + d) · M(Σ_i (u_i − u'_i)² / m_i)
        M(r²) = (1 + √5 r + 5/3 r²) e^(−√5 r)

    with s the square roots of counts of substructures, z descriptors, u conditions. Of several molecules in a row the
    cosines are multiplied, and the distances added. Without conditions, d and the second factor are missing.

    Args:
        sizes: of the data, and how many rows and molecules it has learned from.

    Cost: O(row · known row), to learn O(known row³); in float64, where the device has it.
    Source: Rasmussen and Williams 2006, eqs. 2.25, 4.17 and 5.8.
    """

    descriptors: Tensor
    substructures: Tensor
    molecules: Tensor
    conditions: Tensor
    coefficients: Tensor
    logs: Tensor

    def __init__(self, sizes: PropertySizes):
        super().__init__()
        count, known, outputs = sizes.process_rows, sizes.process_molecules, sizes.num_outputs
        self.limits = None if sizes.low is None or sizes.high is None else (sizes.low, sizes.high)
        self.register_buffer("descriptors", torch.zeros(known, sizes.num_global_features))
        self.register_buffer("substructures", torch.zeros(known, sizes.num_substructures, dtype=torch.uint8))
        self.register_buffer("molecules", torch.zeros(count, sizes.num_components, dtype=torch.int64))
        self.register_buffer("conditions", torch.zeros(count, sizes.num_conditions))
        self.register_buffer("coefficients", torch.zeros(count, outputs, dtype=torch.float64))
        self.register_buffer("logs", _first_logs(sizes.num_conditions).repeat(outputs, 1))

    @classmethod
    def learned(
        cls,
        batch: Batch,
        targets: Float[np.ndarray, " row output"],
        weights: Float[np.ndarray, " row"],
        sizes: PropertySizes,
        seed: int = 0,
    ) -> "GaussianProcess":
        """The process of some rows.

        Args:
            batch: the rows, with their substructures.
            targets: in model units; NaN where missing.
            weights: how much each row counts: the variance of its noise is divided by it.
            sizes: of the data.
            seed: chooses the rows by which the covariance is chosen.
        """
        known = Rows.of(batch)
        process = cls(replace(sizes, process_rows=len(targets), process_molecules=batch.num_graphs))
        for name, x in known._asdict().items():
            getattr(process, name).copy_(x)
        known, shares = known.exact(), torch.from_numpy(weights / weights.mean() if weights.any() else weights)
        for output, column in enumerate(torch.from_numpy(targets.astype(np.float64)).T):
            rows = torch.from_numpy(np.flatnonzero((~column.isnan() & (shares > 0)).numpy()))
            if not len(rows):
                continue
            chosen = torch.from_numpy(np.random.default_rng(seed).permutation(rows.numpy())[:NUM_CHOOSING])
            process.logs[output] = logs = _chosen(known.some(chosen), column[chosen], shares[chosen])
            process.coefficients[rows, output] = _solved(known.some(rows), column[rows], shares[rows], logs)
        return process

    def padded(self, sizes: PropertySizes) -> "GaussianProcess":
        """A copy with more rows, whose α is 0: the processes of an ensemble are saved in one shape."""
        found = GaussianProcess(sizes)
        for name, x in self.named_buffers():
            getattr(found, name)[: len(x)] = x
        return found

    def check(self) -> None:
        """Raise DataError unless its numbers can be computed with."""
        if self.molecules.numel() and not ((self.molecules >= 0) & (self.molecules < len(self.descriptors))).all():
            raise DataError(f"process.molecules is beyond 0 to {len(self.descriptors) - 1}.")
        for name, values in self.named_buffers():
            if not values.isfinite().all():
                raise DataError(f"process.{name} is not finite.")

    def forward(self, batch: Batch) -> Float[Tensor, " row output"]:
        """The mean of each output for each row, in model units."""
        rows = Rows.of(batch).exact()
        known = Rows(self.descriptors, self.substructures, self.molecules, self.conditions).exact()
        logs, coefficients = (x.to(rows.conditions.dtype) for x in (self.logs, self.coefficients))
        found = rows.conditions.new_empty(batch.num_rows, len(logs))
        for own, some in _parts(rows):
            near = _nearness(some, known)
            for output, factors in enumerate(logs):
                found[own, output] = _covariance(*near, some, known, factors) @ coefficients[:, output]
        if self.limits is not None:  # fractions stay fractions
            found = torch.minimum(
                torch.maximum(found, found.new_tensor(self.limits[0])), found.new_tensor(self.limits[1])
            )
        return found


def _first_logs(num_conditions: int) -> Tensor:
    """Logarithms of a, b, ℓ, the noise, c, and with conditions of d and every m."""
    more = [0.0] * (num_conditions + 1) if num_conditions else []
    return torch.tensor([-0.5, 0.5, 1.0, -3.0, -1.0, *more], dtype=torch.float64)


def _nearness(one: Rows, other: Rows) -> tuple[Tensor, Tensor]:
    """The cosine and the mean squared distance of every pair of rows."""
    alike, apart = one.conditions.new_ones(1, 1), one.conditions.new_zeros(1, 1)
    for mine, theirs in zip(one.molecules.T, other.molecules.T, strict=True):
        alike = alike * (one.substructures[mine] @ other.substructures.T)[:, theirs]
        apart = apart + torch.cdist(one.descriptors[mine], other.descriptors).square()[:, theirs]
    return alike, apart / max(one.molecules.shape[1] * one.descriptors.shape[1], 1)


def _covariance(alike: Tensor, apart: Tensor, one: Rows, other: Rows, logs: Tensor) -> Tensor:
    factors = logs.exp()
    found = factors[0] * alike + (factors[1] + factors[4] * alike) * _matern(apart / factors[2])
    if not one.conditions.shape[1]:
        return found
    lengths = factors[6:].sqrt()
    return (found + factors[5]) * _matern(torch.cdist(one.conditions / lengths, other.conditions / lengths).square())


def _matern(squares: Tensor) -> Tensor:
    scaled = (5 * squares).clamp_min(1e-12).sqrt()  # its slope at 0 is none
    return (1 + scaled + scaled.square() / 3) * (-scaled).exp()


def _noise(logs: Tensor, shares: Tensor) -> Tensor:
    return (logs[3].exp() + LEAST_NOISE) / shares


def _chosen(rows: Rows, targets: Tensor, shares: Tensor) -> Tensor:
    """The logarithms under which the targets of some rows are likely: ½ yᵀ K⁻¹ y + ½ log |K| falls along its slope,
    Σ (K⁻¹ − K⁻¹ y yᵀ K⁻¹) ∂K / 2, a part of K after another."""
    logs = _first_logs(rows.conditions.shape[1]).requires_grad_()
    alike, apart = _nearness(rows, rows)
    moments = torch.zeros(()), torch.zeros_like(logs), torch.zeros_like(logs)
    for _ in range(STEPS):
        with torch.no_grad():
            parts = [_covariance(alike[own], apart[own], some, rows, logs) for own, some in _parts(rows)]
            factor, failed = torch.linalg.cholesky_ex(torch.cat(parts) + _noise(logs, shares).diag())
            if failed:
                break
            slopes = torch.cholesky_inverse(factor)
            solved = slopes @ targets
            slopes = (slopes - solved.outer(solved)) / 2
        with torch.enable_grad():
            (slope,) = torch.autograd.grad((slopes.diagonal() * _noise(logs, shares)).sum(), logs)
            for own, some in _parts(rows):
                covariance = _covariance(alike[own], apart[own], some, rows, logs)
                slope += torch.autograd.grad((slopes[own] * covariance).sum(), logs)[0]
        _descend(logs, slope, moments)
    return logs.detach()


@torch.no_grad()
def _descend(logs: Tensor, slope: Tensor, moments: tuple[Tensor, Tensor, Tensor]) -> None:
    """A step of Adam by torch's function: its class imports torch's compiler, which takes 140 MB."""
    step, mean, square = moments
    numbers: dict[str, Any] = {"beta1": 0.9, "beta2": 0.999, "lr": RATE, "weight_decay": 0.0, "eps": 1e-8}
    adam([logs], [slope], [mean], [square], [], [step], foreach=False, amsgrad=False, maximize=False, **numbers)


def _solved(rows: Rows, targets: Tensor, shares: Tensor, logs: Tensor) -> Tensor:
    """α; the covariance is factorized where it lies, as it may be most of the memory."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    noise = _noise(logs, shares).numpy()
    while True:
        covariance = _matrix(rows, logs).numpy()
        covariance[np.diag_indices_from(covariance)] += noise
        try:
            factor = cho_factor(covariance, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:  # rounding has made it indefinite
            noise = noise * 10
        else:
            return torch.from_numpy(cho_solve(factor, targets.numpy(), check_finite=False))


def _matrix(rows: Rows, logs: Tensor) -> Tensor:
    """The covariance of every two rows."""
    found = rows.conditions.new_empty(len(rows.molecules), len(rows.molecules))
    for own, some in _parts(rows):
        found[own] = _covariance(*_nearness(some, rows), some, rows, logs)
    return found


def _parts(rows: Rows) -> Iterator[tuple[slice, Rows]]:
    """Some rows after others, and where they are."""
    for start in range(0, len(rows.molecules), TOGETHER):
        own = slice(start, start + TOGETHER)
        yield own, rows.some(own)
