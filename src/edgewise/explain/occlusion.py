"""Occlusion: how a prediction changes when a part of the input is removed."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from edgewise.errors import ShapeError, plural

Predict = Callable[[Sequence[np.ndarray]], np.ndarray]
"""Maps lists of removed units to the prediction without each list: `(list,)`."""


def occlude(
    predict: Predict, num_units: int, groups: Sequence[Sequence[int] | np.ndarray] | None = None
) -> Float[np.ndarray, " group"]:
    """The effect of each unit, or of each group of units, on the prediction.

        a_g = f(all units) − f(all units without those of g)

    All lists, the first of them empty, go to `predict` in one call.

    Args:
        predict: f, for many lists of units at once; it may split them into batches.
        num_units: number of units.
        groups: units that are removed together, counted from 0; None for each unit alone.

    Returns:
        a, one number per group; positive if the group raises the prediction.

    Raises:
        ShapeError: a group contains an unknown unit, or `predict` does not return one prediction per list.

    Empty: an empty group changes nothing; its effect is zero.
    Cost: one prediction per group, and one more.
    Source: Zeiler & Fergus 2014, "Visualizing and understanding convolutional networks", section 3.

    >>> weights = np.array([1.0, 2.0, 4.0])
    >>> def predict(removed):
    ...     return np.array([weights.sum() - weights[units].sum() for units in removed])
    >>> occlude(predict, 3).tolist(), occlude(predict, 3, [[0, 2], []]).tolist()
    ([1.0, 2.0, 4.0], [5.0, 0.0])
    """
    unit_lists = [[unit] for unit in range(num_units)] if groups is None else groups
    removed = [np.zeros(0, dtype=np.int64), *(np.asarray(part, dtype=np.int64) for part in unit_lists)]
    predictions = predict_without(predict, removed, num_units, "occlude")
    return predictions[0] - predictions[1:]


def share_links(
    effects: Float[np.ndarray, " unit"], links: Sequence[tuple[int, int]], link_effects: Float[np.ndarray, " link"]
) -> Float[np.ndarray, " unit"]:
    """The effect of each unit, with the joint effect of linked units shared between them.

        φ_i = a_i − ½ Σ_{links l of i} e_l

    Occlusion counts the joint effect of two units for both, as removing either removes it. Here each gets half.

    Args:
        effects: a, of removing each unit with its links.
        links: the two ends of each link.
        link_effects: e, of removing each link but not its ends.

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

    shared = np.array(effects, dtype=np.float64)
    for side in (0, 1):
        np.subtract.at(shared, np.array([link[side] for link in links], dtype=np.int64), np.asarray(link_effects) / 2)
    return shared


def predict_without(
    predict: Predict, removed: Sequence[np.ndarray], num_units: int, name: str
) -> Float[np.ndarray, " list"]:
    """The predictions without each list of units, in float64.

    Raises:
        ShapeError: a list contains an unknown unit, or `predict` does not return one prediction per list.
    """
    for list_number, units in enumerate(removed):
        if len(units) and not (units.min() >= 0 and units.max() < num_units):
            outside = int(units.min() if units.min() < 0 else units.max())
            raise ShapeError(f"{name}: group {list_number - 1} has unit {outside}; expected 0 … {num_units - 1}.")

    predictions = np.asarray(predict(removed), dtype=np.float64)
    if predictions.shape != (len(removed),):
        raise ShapeError(
            f"{name}: predict returns shape {predictions.shape} for {plural(len(removed), 'list')} of units, "
            f"expected ({len(removed)},): one "
            "number per list."
        )

    return predictions
