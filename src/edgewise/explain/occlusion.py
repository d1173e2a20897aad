"""Occlusion: what a prediction loses when a part of the input is taken away."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from edgewise.errors import ShapeError
from edgewise.formatting import plural

Predict = Callable[[Sequence[np.ndarray]], np.ndarray]
"""From lists of units that are removed to the prediction without each list: `(list,)`."""


def occlude(
    predict: Predict, num_units: int, groups: Sequence[Sequence[int] | np.ndarray] | None = None
) -> Float[np.ndarray, " group"]:
    """How much of the prediction goes with each unit, or with each group of units.

        a_g = f(all units) − f(all units without those of g)

    All lists, the first of them empty, go to `predict` in one call.

    Args:
        predict: f, for many lists of units at once; it cuts them into batches as it likes.
        num_units: how many units there are.
        groups: units that are taken away together, counted from 0; each unit alone where None.

    Returns:
        a, one number a group; positive where the group raises the prediction.

    Raises:
        ShapeError: a group names a unit that there is not, or `predict` gives another number of predictions than lists.

    Empty: an empty group changes nothing; its number is zero.
    Cost: one prediction a group, and one more.
    Source: Zeiler & Fergus 2014, "Visualizing and understanding convolutional networks", section 3.

    >>> weights = np.array([1.0, 2.0, 4.0])
    >>> def predict(removed):
    ...     return np.array([weights.sum() - weights[units].sum() for units in removed])
    >>> occlude(predict, 3).tolist(), occlude(predict, 3, [[0, 2], []]).tolist()
    ([1.0, 2.0, 4.0], [5.0, 0.0])
    """
    parts = [[unit] for unit in range(num_units)] if groups is None else groups
    removed = [np.zeros(0, dtype=np.int64), *(np.asarray(part, dtype=np.int64) for part in parts)]
    found = predict_without(predict, removed, num_units, "occlude")
    return found[0] - found[1:]


def share_links(
    effects: Float[np.ndarray, " unit"], links: Sequence[tuple[int, int]], link_effects: Float[np.ndarray, " link"]
) -> Float[np.ndarray, " unit"]:
    """What each unit adds where what two linked units do together is shared between them.

        φ_i = a_i − ½ Σ_{links l of i} e_l

    Occlusion counts with both what two units do together, as each takes it along. Here each has half.

    Args:
        effects: a, of taking each unit away with its links.
        links: the two ends of each.
        link_effects: e, of taking each link away while its ends stay.

    Returns:
        φ: the Shapley values, if the prediction is a sum of what units do alone and of what linked pairs do together.

    Raises:
        ShapeError: there are not as many effects as links, or a link names a unit that there is not.

    Cost: none beside the effects.
    Source: Shapley 1953, "A value for n-person games".

    >>> share_links(np.array([5.0, 7.0, 1.0]), [(0, 1)], np.array([4.0])).tolist()
    [3.0, 5.0, 1.0]
    """
    if len(links) != len(link_effects):
        raise ShapeError(
            f"share_links: {plural(len(link_effects), 'effect')} for {plural(len(links), 'link')}, expected one each."
        )
    if wrong := [end for link in links for end in link if not 0 <= end < len(effects)]:
        raise ShapeError(f"share_links: a link names unit {wrong[0]}, but they are 0 … {len(effects) - 1}.")
    shared = np.array(effects, dtype=np.float64)
    for side in (0, 1):
        np.subtract.at(shared, np.array([link[side] for link in links], dtype=np.int64), np.asarray(link_effects) / 2)
    return shared


def predict_without(
    predict: Predict, removed: Sequence[np.ndarray], num_units: int, name: str
) -> Float[np.ndarray, " list"]:
    """The predictions without each of these lists of units, in float64.

    Raises:
        ShapeError: a list names a unit that there is not, or there are not as many predictions as lists.
    """
    for place, units in enumerate(removed):
        if len(units) and not (units.min() >= 0 and units.max() < num_units):
            wrong = int(units.min() if units.min() < 0 else units.max())
            raise ShapeError(f"{name}: group {place - 1} names unit {wrong}, but they are 0 … {num_units - 1}.")
    found = np.asarray(predict(removed), dtype=np.float64)
    if found.shape != (len(removed),):
        raise ShapeError(
            f"{name}: predict gives {found.shape} for {plural(len(removed), 'list')} of units, "
            f"expected ({len(removed)},): one "
            "number a list."
        )
    return found
