"""Whether attributions can be believed: the prediction while what they call important is taken away, or put back."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from edgewise.errors import SettingError, ShapeError
from edgewise.explain.explanation import Attribution, Faithfulness, Removal
from edgewise.explain.occlusion import Predict, predict_without
from edgewise.explain.rank import spearman

OCCLUSION = "occlusion"
"""The attribution that the others are compared with: it is a removal itself."""
RANDOM = "random"
"""What an order drawn by chance is called."""


def faithfulness(
    predict: Predict,
    attributions: Sequence[Attribution],
    num_units: int,
    *,
    seed: int = 0,
    steps: int = 20,
    scale: float = 1.0,
) -> Faithfulness:
    """Deletion and insertion by each attribution and by chance, and how far the attributions agree with occlusion.

        deletion      d_k = f without the first k units, in the order of falling |a|, for k = 0 … n
        insertion     i_k = f with the first k units alone
        area          ∫₀¹ (|f − d_k| − |f − i_{n−k}|) / scale
        agreement     Spearman's rank correlation of |a| with |occlusion|

    i_{n−k} is f without the last k units. The area says how much farther the prediction moves when the most important
    units go first than when the least important go first. It is 0 on average for an order drawn by chance, whatever the
    model, and cannot be larger than the prediction moves. Order is by size: what lowers a prediction matters as what
    raises it. Equal sizes keep the order of the units.

    Args:
        predict: f, for many lists of units that are taken away at once.
        attributions: a, one number a unit each. That of the name `occlusion` is what the others are compared with.
        num_units: n.
        seed: of the order by chance.
        steps: into how many steps the way is cut; n where that is less.
        scale: what areas are measured in: 1 for probabilities, the spread of the training targets for numbers.

    Returns:
        One removal an attribution, then `random`. The agreement of each attribution but occlusion; NaN without
        occlusion, or where all sizes are equal.

    Raises:
        ShapeError: there is no unit, an attribution does not have one number a unit, or `predict` not one a list.
        SettingError: there is no step, the scale is not positive, or two attributions have one name.

    Cost: 2 · (steps − 1) predictions an attribution, in one call of `predict`.
    Source: Petsiuk et al. 2018 (RISE), section 4.3, for deletion and insertion; the area between the two orders is the
    area between perturbation curves of Samek et al. 2017 (most relevant first against least relevant first).

    >>> weights = np.array([4.0, 2.0, 1.0, 1.0])
    >>> def predict(removed):
    ...     return np.array([weights.sum() - weights[units].sum() for units in removed])
    >>> found = faithfulness(predict, [Attribution("occlusion", weights)], 4)
    >>> found.removals[0].deletion.tolist(), found.removals[0].area
    ([8.0, 4.0, 2.0, 1.0, 0.0], 2.5)
    """
    sizes = _sizes(attributions, num_units)
    if steps < 1:
        raise SettingError(f"faithfulness: steps is {steps}; expected at least 1.")
    if not 0 < scale < math.inf:
        raise SettingError(f"faithfulness: scale is {scale}; expected a positive number.")
    orders = {name: np.argsort(-size, kind="stable") for name, size in sizes.items()}
    orders[RANDOM] = np.random.default_rng(seed).permutation(num_units)
    # All that is between nothing and everything; the ends are the same in every order.
    counts = np.unique(np.rint(np.linspace(0, num_units, steps + 1)).astype(np.int64))
    between = counts[1:-1]
    removed = [part for order in orders.values() for k in between for part in (order[:k], order[k:])]
    nothing, everything = np.zeros(0, dtype=np.int64), np.arange(num_units)
    found = predict_without(predict, [nothing, everything, *removed], num_units, "faithfulness")
    full, empty, curves = found[0], found[1], found[2:].reshape(len(orders), len(between), 2)
    removals = [
        _removal(name, counts / num_units, np.r_[full, curve[:, 0], empty], np.r_[empty, curve[:, 1], full], scale)
        for name, curve in zip(orders, curves, strict=True)
    ]
    true = sizes.get(OCCLUSION, np.full(num_units, math.nan))
    agreement = {name: spearman(size, true) for name, size in sizes.items() if name != OCCLUSION}
    return Faithfulness(tuple(removals), agreement)


def _sizes(attributions: Sequence[Attribution], num_units: int) -> dict[str, np.ndarray]:
    """|a| by the name of the attribution, after all that can be wrong with them has been looked for."""
    if num_units < 1:
        raise ShapeError("faithfulness: there is no unit that could be taken away.")
    sizes: dict[str, np.ndarray] = {}
    for each in attributions:
        if each.values.shape != (num_units,):
            raise ShapeError(
                f"faithfulness: {each.name} has values of shape {each.values.shape}, expected ({num_units},): one a "
                "unit."
            )
        if each.name in sizes or each.name == RANDOM:
            raise SettingError(f"faithfulness: two orders are called {each.name!r}; give each a name of its own.")
        sizes[each.name] = np.abs(each.values.astype(np.float64))
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
    """The area under straight lines between points."""
    return float((np.diff(at) * (values[1:] + values[:-1]) / 2).sum())
