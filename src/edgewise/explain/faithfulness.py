"""Faithfulness of attributions: the prediction while the most important units are removed, or inserted."""

import math
from collections.abc import Container, Sequence

import numpy as np
from jaxtyping import Float

from edgewise.errors import SettingError, ShapeError
from edgewise.explain.explanation import Attribution, Faithfulness, Removal
from edgewise.explain.occlusion import Predict, predict_without
from edgewise.explain.rank import spearman

REFERENCES = ("occlusion", "removal")
"""The attributions that remove units themselves: the others are compared with the first of them that is there."""
RANDOM = "random"
"""The name of a random order."""


def faithfulness(
    predict: Predict,
    attributions: Sequence[Attribution],
    num_units: int,
    *,
    seed: int = 0,
    steps: int = 20,
    scale: float = 1.0,
) -> Faithfulness:
    """Deletion and insertion curves of each attribution and of a random order, and the agreement with occlusion.

        deletion      d_k = f without the first k units, in the order of falling |a|, for k = 0 … n
        insertion     i_k = f with the first k units alone
        area          ∫₀¹ (|f − d_k| − |f − i_{n−k}|) / scale
        agreement     Spearman's rank correlation of |a| with |occlusion|, or where it is missing with |removal|

    i_{n−k} is f without the last k units. The area says how much farther the prediction moves when the most important
    units go first than when the least important go first. It is 0 on average for a random order, whatever the
    model, and cannot be larger than the prediction moves. Order is by size: a unit that lowers the prediction counts
    like one that raises it. Equal sizes keep the order of the units.

    Args:
        predict: f, for many lists of removed units at once.
        attributions: a, one number per unit each. The others are compared with the first of `REFERENCES`.
        num_units: n.
        seed: of the random order.
        steps: number of steps of a curve; at most n.
        scale: the unit of areas: 1 for probabilities, the standard deviation of the training targets for numbers.

    Returns:
        One removal per attribution, then `random`. The agreement of each attribution except the one that they are
        compared with; NaN without such a one, or if all sizes are equal.

    Raises:
        ShapeError: there are 0 units, or an attribution or `predict` returns the wrong number of values.
        SettingError: `steps` is below 1, the scale is not positive, or two attributions have the same name.

    Cost: 2 · (steps − 1) predictions an attribution, in one call of `predict`.
    Source: Petsiuk et al. 2018 (RISE), section 4.3, for deletion and insertion; the area between the two orders is the
    area between perturbation curves of Samek et al. 2017 (most relevant first against least relevant first).

    >>> weights = np.array([4.0, 2.0, 1.0, 1.0])
    >>> def predict(removed):
    ...     return np.array([weights.sum() - weights[units].sum() for units in removed])
    >>> result = faithfulness(predict, [Attribution("occlusion", weights)], 4)
    >>> result.removals[0].deletion.tolist(), result.removals[0].area
    ([8.0, 4.0, 2.0, 1.0, 0.0], 2.5)
    """
    sizes = _sizes(attributions, num_units)
    if steps < 1:
        raise SettingError(f"faithfulness: steps is {steps}; expected at least 1.")
    if not 0 < scale < math.inf:
        raise SettingError(f"faithfulness: scale is {scale}; expected a positive number.")

    orders = {name: np.argsort(-size, kind="stable") for name, size in sizes.items()}
    orders[RANDOM] = np.random.default_rng(seed).permutation(num_units)
    # The steps between nothing and everything; the two ends are the same in every order.
    counts = np.unique(np.rint(np.linspace(0, num_units, steps + 1)).astype(np.int64))
    inner_counts = counts[1:-1]
    removed = [part for order in orders.values() for k in inner_counts for part in (order[:k], order[k:])]
    nothing, everything = np.zeros(0, dtype=np.int64), np.arange(num_units)
    predictions = predict_without(predict, [nothing, everything, *removed], num_units, "faithfulness")
    full, empty, curves = predictions[0], predictions[1], predictions[2:].reshape(len(orders), len(inner_counts), 2)
    removals = [
        _removal(name, counts / num_units, np.r_[full, curve[:, 0], empty], np.r_[empty, curve[:, 1], full], scale)
        for name, curve in zip(orders, curves, strict=True)
    ]
    reference = reference_among(sizes)
    reference_sizes = sizes.get(reference, np.full(num_units, math.nan))
    agreement = {name: spearman(size, reference_sizes) for name, size in sizes.items() if name != reference}

    return Faithfulness(tuple(removals), agreement)


def reference_among(names: Container[str]) -> str:
    """The attribution that others are compared with."""
    return next((name for name in REFERENCES if name in names), REFERENCES[0])


def _sizes(attributions: Sequence[Attribution], num_units: int) -> dict[str, np.ndarray]:
    """|a| by the name of the attribution, validated."""
    if num_units < 1:
        raise ShapeError("faithfulness: units is empty; expected at least one unit to remove.")

    sizes: dict[str, np.ndarray] = {}
    for attribution in attributions:
        if attribution.values.shape != (num_units,):
            raise ShapeError(
                f"faithfulness: {attribution.name} has values of shape {attribution.values.shape}, "
                f"expected ({num_units},): one per unit."
            )
        if attribution.name in sizes or attribution.name == RANDOM:
            raise SettingError(
                f"faithfulness: two attributions are named {attribution.name!r}; give each a different name."
            )
        sizes[attribution.name] = np.abs(attribution.values.astype(np.float64))

    return sizes


def _removal(
    name: str,
    shares: np.ndarray,
    deletion: Float[np.ndarray, " step"],
    insertion: Float[np.ndarray, " step"],
    scale: float,
) -> Removal:
    full = deletion[0]
    most_important_first, least_important_first = np.abs(full - deletion), np.abs(full - insertion)[::-1]
    # Steps need not be equally long, so the second curve has its own shares.
    area = _area(shares, most_important_first) - _area(1 - shares[::-1], least_important_first)
    return Removal(name, shares, deletion, insertion, area / scale)


def _area(at: np.ndarray, values: np.ndarray) -> float:
    """The area under a curve, by the trapezoidal rule."""
    return float((np.diff(at) * (values[1:] + values[:-1]) / 2).sum())
