"""Attribution by gradients: how a prediction depends on the features of each unit."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from edgewise.errors import SettingError, ShapeError

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
) -> Float[np.ndarray, " *batch node"]:
    """The gradients along the straight line from a baseline to the input, times the difference.

        a_i = Σ_f (x_if − b_if) ∫₀¹ ∂f/∂x_if (b + t (x − b)) dt,        Σ_i a_i = f(x) − f(b)

    Args:
        function: f, in torch; a member of the batch must not depend on another.
        features: x.
        baseline: b, an input without information; None for zeros.
        steps: number of points of Gauss–Legendre quadrature, which is exact for gradients that are polynomials of
            degree 2 · steps − 1 along the line.
        batch_size: how many points the function takes at once, as a first axis of the batch; None for one at a time,
            without that axis.

    Returns:
        a, one number per unit, in float64.

    Raises:
        SettingError: the output of the function cannot be differentiated, or `steps` or `batch_size` is below 1.
        ShapeError: the baseline has another shape than the features.

    Cost: `steps` forward and backward passes, fewer and larger ones with `batch_size`.
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
    total = torch.zeros_like(difference, dtype=torch.float64)
    # The quadrature rule is for −1 … 1, the line for 0 … 1.
    points, lengths = np.polynomial.legendre.leggauss(steps)
    shape = (-1, *[1] * difference.dim())
    shares, weights = (
        torch.from_numpy(values / 2).to(difference.device).reshape(shape) for values in (points + 1, lengths)
    )

    for start in range(0, steps, batch_size or 1):
        batch = slice(start, start + (batch_size or 1))
        inputs = baseline + shares[batch].to(difference.dtype) * difference
        total += (
            weights[batch] * _gradient("integrated_gradients", function, inputs if batch_size else inputs[0])
        ).sum(0)

    return _per_unit(difference, total)


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
