"""What each unit adds to a prediction, where a sum over units fits the predictions for inputs that are alike."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

Keys = tuple[Hashable, ...]
"""What a unit is, from coarse to fine: units with the same key at a level have something in common."""


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
    """What is left for an input without units."""
    about: str = ABOUT
    """A sentence that says what the values are."""


@dataclass(frozen=True, eq=False)
class KnownInputs:
    """Inputs whose predictions say what a unit usually adds."""

    columns: dict[tuple[int, Hashable], int]
    """The column of each level and key."""
    counts: Float[np.ndarray, " known key"]
    """How often each key occurs in each input, times the standard deviation of its level."""
    precision: Float[np.ndarray, " known known"]
    """The inverse of their covariance."""
    variances: tuple[float, ...]
    """Of each level."""

    @classmethod
    def of(cls, inputs: Sequence[Sequence[Keys]], noise: float, variances: Sequence[float]) -> "KnownInputs":
        """The inputs, by the keys of each unit.

        Args:
            inputs: the keys of each unit of each input.
            noise: how far each prediction may be from a sum, a variance in units of `variances`.
            variances: of each level.

        Cost: O(input³), once.
        """
        columns: dict[tuple[int, Hashable], int] = {}
        counts = _counts(inputs, columns, variances)
        covariance = counts @ counts.T + noise * np.eye(len(counts))
        return cls(columns, counts, np.linalg.inv(covariance), tuple(variances))


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
    together is shared evenly between them. A function that is a sum over units is explained by its own terms, up to
    what sums leave open.

    Args:
        inputs: the keys of each unit; the first input is explained, the others lack a part of it.
        predictions: of the inputs.
        noise: how far each prediction may be from the sum, a variance in units of the levels' variances; 0 for the
            first makes its sum exact.
        known: other inputs.
        known_predictions: of these.

    Returns:
        Values that sum with the baseline to the first prediction.

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
    counts = _counts([*inputs, *units], columns, known.variances)
    counts, of_units = counts[: len(inputs)], counts[len(inputs) :]
    shared = counts[:, : len(known.columns)] @ known.counts.T

    # Block elimination: first the known inputs, whose precision is there, then what they leave open of the others.
    weights = shared @ known.precision
    covariance = counts @ counts.T + np.diag(noise) - weights @ shared.T
    right, known_right = (np.stack([np.ones(len(y)), y], axis=1) for y in (predictions, known_predictions))
    solved = np.linalg.lstsq(covariance, right - weights @ known_right, rcond=None)[0]
    known_solved = known.precision @ (known_right - shared.T @ solved)

    of_ones, of_predictions = solved.sum(0) + known_solved.sum(0)
    baseline = float(of_predictions / of_ones)
    solved, known_solved = (side[:, 1] - baseline * side[:, 0] for side in (solved, known_solved))
    summed = counts.T @ solved
    summed[: len(known.columns)] += known.counts.T @ known_solved
    values = of_units @ summed
    # What rounding leaves, so that the sum is exact.
    return Contributions(values + (predictions[0] - baseline - values.sum()) / max(len(values), 1), baseline)


def _counts(
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
    counts = np.zeros((len(inputs), len(columns)))
    np.add.at(counts, (row, column), np.sqrt(np.asarray(variances, dtype=np.float64))[level])
    return counts
