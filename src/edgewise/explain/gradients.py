"""Attribution by gradients: how a prediction depends on the features of each unit."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from edgewise.errors import SettingError, ShapeError

MAX_POINTS = 9
"""Points of a part of the line, at most."""
TOLERANCE = 2e-3
"""How far the integral over a part may be off, as a share of the largest value, over the root of how many parts there
are."""
MAX_REFINEMENT = 32
"""Points in all, at most, for each of the steps."""
Function = Callable[[Tensor], Tensor]
"""Maps features `(*batch, node, feature)` to the explained output, `()`; or to one per member, `(*batch)`."""


def gradient_times_input(
    function: Function, features: Float[Tensor, " *batch node feature"]
) -> Float[np.ndarray, " *batch node"]:
    """The contribution of each unit's features to the output, if the output were linear in them.

        a_i = Σ_f x_if ∂f/∂x_if

    Args:
        function: f, in torch; a member of the batch must not depend on another.
        features: x, such as the rows of an embedding, or the features of atoms.

    Returns:
        a, one number per unit, in float64.

    Raises:
        SettingError: the output of the function cannot be differentiated.

    Cost: one forward and one backward pass.
    Source: Shrikumar et al. 2016, "Not just a black box".

    >>> x = torch.tensor([[1.0, 2.0], [3.0, 0.0]])
    >>> gradient_times_input(lambda x: (x * torch.tensor([10.0, 1.0])).sum(), x).tolist()
    [12.0, 30.0]
    """
    return _per_unit(features, _gradient("gradient_times_input", function, features))


def integrated_gradients(
    function: Function,
    features: Float[Tensor, " *batch node feature"],
    baseline: Float[Tensor, " *batch node feature"] | None = None,
    steps: int = 32,
    batch_size: int | None = None,
    max_steps: int | None = None,
) -> Float[np.ndarray, " *batch node"]:
    """The gradients along the straight line from a baseline to the input, times the difference.

        a_i = Σ_f (x_if − b_if) ∫₀¹ ∂f/∂x_if (b + t (x − b)) dt,        Σ_i a_i = f(x) − f(b)

    Where the gradients jump along the line, as those of ReLU do, or change at once, as a norm does near an input of
    zeros, the line is halved there until the values settle: they depend little on `steps`.

    Args:
        function: f, in torch; a member of the batch must not depend on another.
        features: x.
        baseline: b, an input without information; None for zeros.
        steps: number of points of Gauss–Legendre quadrature at first, up to nine for each part of the line; n are
            exact for gradients that are polynomials of degree 2n − 1 along a part.
        batch_size: how many points the function takes at once, as a first axis of the batch; None for one at a time,
            without that axis.
        max_steps: points in all, about; the parts whose values are the least certain are halved first. None for
            32 · steps; `steps` where no part is to be halved.

    Returns:
        a, one number per unit, in float64.

    Raises:
        SettingError: the output of the function cannot be differentiated, or `steps` or `batch_size` is below 1.
        ShapeError: the baseline has another shape than the features.

    Cost: `steps` to `max_steps` forward and backward passes, fewer and larger ones with `batch_size`.
    Source: Sundararajan, Taly & Yan 2017, "Axiomatic attribution for deep networks", eq. 1 and proposition 1
        (completeness, the second equation); there the integral is a Riemann sum.

    >>> x = torch.tensor([[3.0], [2.0]])
    >>> integrated_gradients(lambda x: (x**2).sum(), x).round(4).tolist()  # gradient × input gives 18 and 8
    [9.0, 4.0]
    """
    for name, number in (("steps", steps), ("batch_size", batch_size)):
        if number is not None and number < 1:
            raise SettingError(f"integrated_gradients: {name} is {number}; expected at least 1.")

    baseline = torch.zeros_like(features) if baseline is None else baseline
    if baseline.shape != features.shape:
        raise ShapeError(
            f"integrated_gradients: baseline is {tuple(baseline.shape)}, but features is {tuple(features.shape)}; give "
            "both the same shape."
        )

    difference = (features - baseline).detach()
    num_parts = -(-steps // MAX_POINTS)
    rule = _Rule.of(-(-steps // num_parts))

    def on_line(shares: np.ndarray) -> Float[np.ndarray, " point *batch node"]:
        """The gradients at some shares of the line, times the difference."""
        at_points, size = [], batch_size or 1
        for start in range(0, len(shares), size):
            here = torch.from_numpy(shares[start : start + size]).to(difference.device, difference.dtype)
            inputs = baseline + here.reshape(-1, *[1] * difference.dim()) * difference
            gradient = _gradient("integrated_gradients", function, inputs if batch_size else inputs[0])
            at_points.append(_per_unit(difference, gradient if batch_size else gradient[None]))
        return np.concatenate(at_points)

    parts = _Parts.of(on_line, rule, np.linspace(0, 1, num_parts + 1))
    max_steps = MAX_REFINEMENT * steps if max_steps is None else max_steps
    num_points = num_parts * rule.size
    while num_points + 2 * rule.size <= max_steps:
        uncertain = np.flatnonzero(parts.errors > parts.tolerance)
        # The least certain first; half of the points that are left at a time, as errors of halves are not known yet.
        most = max(1, (max_steps - num_points) // (4 * rule.size))
        uncertain = uncertain[np.argsort(-parts.errors[uncertain])][:most]
        if not len(uncertain):
            break
        parts = parts.halved(on_line, rule, uncertain)
        num_points += 2 * rule.size * len(uncertain)

    total: np.ndarray = parts.values.sum(0)
    return total


@dataclass(frozen=True, eq=False)
class _Rule:
    """Gauss–Legendre quadrature on 0 … 1, and a coarser rule on some of the same points."""

    shares: Float[np.ndarray, " point"]
    """Where the points lie."""
    weights: Float[np.ndarray, " point"]
    """How much each counts; the sum is 1."""
    coarse: Float[np.ndarray, " point"]
    """The same of the coarser rule, which leaves out every other point; no rule for one point."""

    @classmethod
    def of(cls, size: int) -> "_Rule":
        """The rule with so many points."""
        points, lengths = np.polynomial.legendre.leggauss(size)
        chosen, coarse = points[::2], np.zeros(size)
        # Exact for as many polynomials as there are points: the integrals of all but the first are 0.
        integrals = np.eye(1, len(chosen))[0]
        coarse[::2] = np.linalg.solve(np.polynomial.legendre.legvander(chosen, len(chosen) - 1).T, integrals)
        return cls((points + 1) / 2, lengths / 2, coarse)

    @property
    def size(self) -> int:
        """The number of points."""
        return len(self.shares)


@dataclass(frozen=True, eq=False)
class _Parts:
    """Parts of the line."""

    starts: Float[np.ndarray, " part"]
    """Where each begins."""
    lengths: Float[np.ndarray, " part"]
    """How long it is."""
    values: Float[np.ndarray, " part *batch node"]
    """The integral over each part."""
    errors: Float[np.ndarray, " part"]
    """How far the coarser rule is off, for the unit where it is off most."""

    @classmethod
    def of(cls, on_line: Callable[[np.ndarray], np.ndarray], rule: _Rule, bounds: np.ndarray) -> "_Parts":
        """The parts between some bounds."""
        return cls._between(on_line, rule, bounds[:-1], np.diff(bounds))

    @classmethod
    def _between(
        cls, on_line: Callable[[np.ndarray], np.ndarray], rule: _Rule, starts: np.ndarray, lengths: np.ndarray
    ) -> "_Parts":
        at_points = on_line((starts[:, None] + lengths[:, None] * rule.shares).flatten())
        at_points = at_points.reshape(len(starts), rule.size, *at_points.shape[1:])
        values, coarse = (
            np.einsum("p,ap...,a->a...", weights, at_points, lengths) for weights in (rule.weights, rule.coarse)
        )
        errors = np.abs(values - coarse).reshape(len(starts), -1).max(axis=1, initial=0)
        return cls(starts, lengths, values, errors)

    @property
    def tolerance(self) -> float:
        """The error that each part may have: a small share of the largest value."""
        return TOLERANCE * float(np.abs(self.values.sum(0)).max(initial=0)) / len(self.starts) ** 0.5

    def halved(self, on_line: Callable[[np.ndarray], np.ndarray], rule: _Rule, chosen: np.ndarray) -> "_Parts":
        """The same, two halves in the place of each of some parts."""
        lengths = np.tile(self.lengths[chosen] / 2, 2)
        starts = np.tile(self.starts[chosen], 2)
        starts[len(chosen) :] += lengths[len(chosen) :]
        halves, stays = self._between(on_line, rule, starts, lengths), np.ones(len(self.starts), dtype=bool)
        stays[chosen] = False
        return _Parts(
            *(
                np.concatenate([getattr(self, name)[stays], getattr(halves, name)])
                for name in ("starts", "lengths", "values", "errors")
            )
        )


def _gradient(name: str, function: Function, features: Tensor) -> Tensor:
    """∂f/∂x, summed over the members of a batch, none of which depends on another's features."""
    with torch.enable_grad():
        inputs = features.detach().requires_grad_()
        output = function(inputs)
        if not output.requires_grad:
            raise SettingError(
                f"{name}: the output of function has no gradient; compute it in torch from the features that it "
                "gets, without detach() and outside torch.no_grad()."
            )
        (gradient,) = torch.autograd.grad(output.sum(), inputs, allow_unused=True)
    return torch.zeros_like(inputs) if gradient is None else gradient


def _per_unit(factors: Tensor, gradient: Tensor) -> np.ndarray:
    return (factors.detach().double() * gradient.double()).sum(-1).cpu().numpy()
