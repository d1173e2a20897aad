"""A prediction as a sum over the units of its input (the atoms of a molecule): Bayesian linear regression on keys.

Each unit has keys, from coarse to fine (an element, then the element with its neighbors). A weight of each key is
fitted to predictions for the input, for the input without some of its parts, and for known inputs.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

Keys = tuple[Hashable, ...]
"""The keys of a unit, one for each level, from coarse to fine: units with the same key share its weight."""


ABOUT = (
    "What each unit adds: the sum over units that fits the predictions for this input, for it without some of its "
    "parts, and for training inputs."
)


@dataclass(frozen=True)
class Contributions:
    """A prediction as a sum: baseline + Σ of values."""

    values: Float[np.ndarray, " unit"]
    """What each unit adds."""
    baseline: float
    """b: the value for an input without units."""
    about: str = ABOUT
    """A sentence that says what the values are."""


@dataclass(frozen=True, eq=False)
class KnownInputs:
    """Inputs whose predictions say what a unit usually adds."""

    columns: dict[tuple[int, Hashable], int]
    """The column of each level and key."""
    design: Float[np.ndarray, " known key"]
    """The design matrix: how often each key occurs in each input, times the prior standard deviation of its level."""
    precision: Float[np.ndarray, " known known"]
    """The inverse of the covariance of their predictions, noise included."""
    variances: tuple[float, ...]
    """The prior variance of the weights of each level."""

    @classmethod
    def of(cls, inputs: Sequence[Sequence[Keys]], noise: float, variances: Sequence[float]) -> "KnownInputs":
        """The inputs, by the keys of each unit.

        Args:
            inputs: the keys of each unit of each input.
            noise: the variance of what a sum leaves of each prediction, in units of `variances`.
            variances: the prior variance of the weights of each level.

        Cost: O(input³), once.
        """
        columns: dict[tuple[int, Hashable], int] = {}
        design = _design_matrix(inputs, columns, variances)
        covariance = design @ design.T + noise * np.eye(len(design))
        return cls(columns, design, np.linalg.inv(covariance), tuple(variances))


def contributions(
    inputs: Sequence[Sequence[Keys]],
    predictions: Float[np.ndarray, " input"],
    noise: Float[np.ndarray, " input"],
    known: KnownInputs,
    known_predictions: Float[np.ndarray, " known"],
) -> Contributions:
    """What each unit of the first input adds to its prediction.

        f(input) = b + Σ_{unit u of input} Σ_level w_{level, key of u} + ε,  w ~ N(0, variance), ε ~ N(0, noise)

    The values are the means of the sums over levels, given all predictions: a Gaussian process over sums. Of all ways
    to write the predictions as sums over units, it takes the one with the smallest weights, so that what units cause
    together is shared evenly between them. A function that is a sum over units is explained by its own terms, where
    the predictions determine them.

    Args:
        inputs: the keys of each unit; the first input is explained, the others lack a part of it.
        predictions: of the inputs.
        noise: the variance of ε of each prediction, in units of the levels' variances.
        known: other inputs.
        known_predictions: the predictions for them.

    Returns:
        Values that sum with the baseline to the first prediction: ε of the first is spread evenly over its units.

    Cost: O(input · known²).
    Source: Rasmussen and Williams 2006, eqs. 2.25 and 2.41 (b has a flat prior); sums: Duvenaud et al. 2011.

    >>> known = KnownInputs.of([[("C",)], [("O",)], [("O",), ("C",)]], 1e-4, [1.0])
    >>> explained = [("C",), ("C",), ("O",)]
    >>> result = contributions([explained], np.array([7.0]), np.zeros(1), known, np.array([3.0, 5.0, 6.0]))
    >>> result.values.round(2).tolist(), round(result.baseline, 2)
    ([1.0, 1.0, 3.0], 2.0)
    """
    columns = dict(known.columns)
    units = [[unit] for unit in inputs[0]]
    design = _design_matrix([*inputs, *units], columns, known.variances)
    design, unit_design = design[: len(inputs)], design[len(inputs) :]
    cross_covariance = design[:, : len(known.columns)] @ known.design.T

    # K⁻¹1 and K⁻¹y by block elimination: first the known inputs, whose precision is there, then the Schur complement of
    # the others, which is singular where the noise is 0.
    projection = cross_covariance @ known.precision
    schur_complement = design @ design.T + np.diag(noise) - projection @ cross_covariance.T
    right, known_right = (np.stack([np.ones(len(y)), y], axis=1) for y in (predictions, known_predictions))
    solved = np.linalg.lstsq(schur_complement, right - projection @ known_right, rcond=None)[0]
    known_solved = known.precision @ (known_right - cross_covariance.T @ solved)

    # Generalized least squares: b = 1ᵀK⁻¹y / 1ᵀK⁻¹1.
    sum_of_ones, sum_of_predictions = solved.sum(0) + known_solved.sum(0)
    baseline = float(sum_of_predictions / sum_of_ones)
    solved, known_solved = (columns[:, 1] - baseline * columns[:, 0] for columns in (solved, known_solved))
    weights = design.T @ solved
    weights[: len(known.columns)] += known.design.T @ known_solved
    values = unit_design @ weights
    return Contributions(values + (predictions[0] - baseline - values.sum()) / max(len(values), 1), baseline)


def _design_matrix(
    inputs: Sequence[Sequence[Keys]], columns: dict[tuple[int, Hashable], int], variances: Sequence[float]
) -> Float[np.ndarray, " input key"]:
    """How often each key occurs in each input, times the standard deviation of its level; adds keys to `columns`."""
    places = [
        (row, columns.setdefault((level, key), len(columns)), level)
        for row, units in enumerate(inputs)
        for keys in units
        for level, key in enumerate(keys)
    ]
    row, column, level = np.array(places, dtype=np.int64).reshape(-1, 3).T
    design = np.zeros((len(inputs), len(columns)))
    np.add.at(design, (row, column), np.sqrt(np.asarray(variances, dtype=np.float64))[level])
    return design
