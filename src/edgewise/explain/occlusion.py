"""Occlusion: how a prediction changes when a part of the input is removed."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from edgewise.errors import ShapeError, plural

Predict = Callable[[Sequence[np.ndarray]], np.ndarray]
"""Maps groups of removed units to the prediction without each group: `(group,)`."""


def occlude(
    predict: Predict, num_units: int, groups: Sequence[Sequence[int] | np.ndarray] | None = None
) -> Float[np.ndarray, " group"]:
    """The effect of each unit, or of each group of units, on the prediction.

        a_g = f(all units) − f(all units without those of g)

    All groups, and before them an empty one, go to `predict` in one call.

    Args:
        predict: f, for many groups of units at once; it may split them into batches.
        num_units: number of units.
        groups: units that are removed together, counted from 0; None for each unit alone.

    Returns:
        a, one number per group; positive if the group raises the prediction.

    Raises:
        ShapeError: a group contains an unknown unit, or `predict` does not return one prediction per group.

    Empty: an empty group changes nothing; its effect is zero.
    Cost: one prediction per group, and one more.
    Source: Zeiler & Fergus 2014, "Visualizing and understanding convolutional networks", section 3.

    >>> weights = np.array([1.0, 2.0, 4.0])
    >>> def predict(removed):
    ...     return np.array([weights.sum() - weights[units].sum() for units in removed])
    >>> occlude(predict, 3).tolist(), occlude(predict, 3, [[0, 2], []]).tolist()
    ([1.0, 2.0, 4.0], [5.0, 0.0])
    """
    groups = [[unit] for unit in range(num_units)] if groups is None else groups
    removed = [np.zeros(0, dtype=np.int64), *(np.asarray(group, dtype=np.int64) for group in groups)]
    predictions = predict_without(predict, removed, num_units, "occlude")
    return predictions[0] - predictions[1:]


def share_links(
    effects: Float[np.ndarray, " unit"], links: Sequence[tuple[int, int]], link_effects: Float[np.ndarray, " link"]
) -> Float[np.ndarray, " unit"]:
    """The effect of each unit, with the joint effect of linked units shared between them.

        φ_i = a_i − ½ Σ_{links l of i} e_l

    Occlusion counts the joint effect of two units for both, as removing either removes it. Here each gets half.

    Args:
        effects: a, the effect of removing each unit with its links.
        links: the two ends of each link.
        link_effects: e, the effect of removing each link alone, without its ends.

    Returns:
        φ: the Shapley values, if the prediction is a sum of effects of single units and of linked pairs.

    Raises:
        ShapeError: there are not as many effects as links, or a link contains an unknown unit.

    Cost: negligible beside the effects.
    Source: Shapley 1953, "A value for n-person games".

    >>> share_links(np.array([5.0, 7.0, 1.0]), [(0, 1)], np.array([4.0])).tolist()
    [3.0, 5.0, 1.0]
    """
    if len(links) != len(link_effects):
        raise ShapeError(
            f"share_links: {plural(len(link_effects), 'effect')} for {plural(len(links), 'link')}, expected one each."
        )
    if wrong := [end for link in links for end in link if not 0 <= end < len(effects)]:
        raise ShapeError(f"share_links: a link has unit {wrong[0]}; expected 0 … {len(effects) - 1}.")

    shared, ends = np.array(effects, dtype=np.float64), np.array(links, dtype=np.int64).reshape(-1, 2)
    np.subtract.at(shared, ends, np.asarray(link_effects)[:, None] / 2)
    return shared


def predict_without(
    predict: Predict, removed: Sequence[np.ndarray], num_units: int, caller: str
) -> Float[np.ndarray, " group"]:
    """The predictions without each group of units, in float64.

    Args:
        predict: as in `occlude`.
        removed: the groups, of which errors call the first −1: it is the empty one.
        num_units: number of units.
        caller: the function that errors name.

    Raises:
        ShapeError: a group contains an unknown unit, or `predict` does not return one prediction per group.
    """
    for number, units in enumerate(removed, -1):
        if len(units) and not (units.min() >= 0 and units.max() < num_units):
            outside = int(units.min() if units.min() < 0 else units.max())
            raise ShapeError(f"{caller}: group {number} has unit {outside}; expected 0 … {num_units - 1}.")

    predictions = np.asarray(predict(removed), dtype=np.float64)
    if predictions.shape != (len(removed),):
        raise ShapeError(
            f"{caller}: predict returns shape {predictions.shape} for {plural(len(removed), 'group')} of units, "
            f"expected ({len(removed)},): one number per group."
        )

    return predictions
