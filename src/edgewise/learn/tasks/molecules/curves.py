"""Curves of a prediction over each condition of a row of molecules."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from edgewise.explain.explanation import Curve
from edgewise.learn.tables.impute import FILLED
from edgewise.learn.tables.scale import ColumnScaler
from edgewise.learn.tasks.molecules.row import Row

STEPS = 41
"""Points of a curve."""


def curves_of(
    row: Row, scaler: ColumnScaler, names: tuple[str, ...], predict: Callable[[np.ndarray], np.ndarray]
) -> tuple[tuple[Curve, ...], tuple[str, ...]]:
    """A curve for each condition that varied in the training, and notes on those where it means little.

    A curve goes from the smallest to the largest value of the training rows, in even steps, or in even ratios where
    the model takes the logarithm; and on to the value of the row where that lies beyond.
    """
    curves, notes = [], []
    for column, name in enumerate(names):
        is_ignored = not scaler.names_if_read(names)[column]
        if np.isnan(here := row.conditions[column]) and not is_ignored:
            here = scaler.imputer.median[column]
            notes.append(f"{name} is missing, {FILLED} of the training rows, {here:g}.")
        if scaler.std[column] == 0:
            ignored = ", so that the model ignores it" if is_ignored else ""
            notes.append(f"{name} is the same in all training rows{ignored}.")
            continue
        low, high = scaler.smallest[column], scaler.largest[column]
        if not low <= here <= high:
            notes.append(f"{name} is {here:g}, beyond what training rows have: {low:g} to {high:g}.")
        floor = scaler.log_smallest[scaler.log_columns.index(column)] if column in scaler.log_columns else None
        at = _steps(min(low, here), max(high, here), floor)
        raw = np.tile(np.array(row.conditions), (STEPS, 1))
        raw[:, column] = at
        curves.append(Curve(name, at, predict(raw), here))
    return tuple(curves), tuple(notes)


def _steps(low: float, high: float, floor: float | None) -> Float[np.ndarray, " step"]:
    """Even steps, or even ratios where there is a `floor`, the smallest value that has a logarithm."""
    if floor is None or low < 0 or high <= floor:
        return np.linspace(low, high, STEPS)
    return np.geomspace(low, high, STEPS) if low > 0 else np.append(low, np.geomspace(floor, high, STEPS - 1))
