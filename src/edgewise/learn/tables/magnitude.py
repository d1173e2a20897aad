"""Which numbers can be standardized: not so large that their squares overflow, nor so close that these vanish."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from edgewise.errors import DataError

LARGEST = 1e100
"""The largest absolute value of a target or a descriptor."""
LARGEST_SINGLE = 1e37
"""The same for numbers in single precision: features of nodes and edges, weights, motion."""
MIN_SINGLE = 1e-37
"""Single precision rounds smaller numbers, or takes them for 0."""
MIN_SPREAD = 1e-100
"""The smallest standard deviation of a column that varies."""
LARGEST_SCALED = 1e15
"""The largest number in units of the spread of the training rows: squares of larger ones overflow in single
precision."""
MAX_WEIGHT_EXPONENT = 20
"""The power of two that weights of rows stay below, so that single precision holds the sum of weighted losses."""

CellName: TypeAlias = Callable[[int, int], str]
"""The name of a cell in messages, from its row and its column."""


def largest_of(dtype: np.typing.DTypeLike) -> float:
    """The largest absolute value in numbers of a type."""
    return LARGEST if np.dtype(dtype) == np.float64 else LARGEST_SINGLE


def too_large(values: np.ndarray, limit: float = LARGEST) -> np.ndarray:
    """The indices in the flattened array of numbers beyond ±limit, infinite ones included."""
    # Without a mask where all is well, as it nearly always is. Half precision cannot hold the limit.
    if not values.size or (
        float(np.fmax.reduce(values, axis=None)) <= limit and float(np.fmin.reduce(values, axis=None)) >= -limit
    ):
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(np.abs(values.astype(np.float64, copy=False)) > limit)


def reason_too_large(cell: str, limit: float = LARGEST) -> str:
    """Why a cell cannot be used, in the words of a table's list of rejected rows."""
    return f"{cell.strip()!r} is beyond ±{limit:g}, too large to be scaled; give the column in another unit"


def largest_absolute(values: np.ndarray) -> float:
    """The largest absolute value of a column; 0 without numbers."""
    return max(abs(float(np.fmax.reduce(values, initial=0.0))), abs(float(np.fmin.reduce(values, initial=0.0))))


def is_too_small(largest: float) -> bool:
    """Whether a column with this largest absolute value has numbers other than 0, and all are lost in single
    precision."""
    return 0 < largest < MIN_SINGLE


def reason_too_small(cell: str) -> str:
    """Why a cell of such a column cannot be used."""
    text = cell.strip()
    return f"{text!r} and all cells of the column are below {MIN_SINGLE:g}; give the column in another unit"


def summable(weights: np.ndarray) -> np.ndarray:
    """Weights of rows, NaN where unreadable, such that single precision holds their sums: where the largest is huge all
    are divided by one power of two. Only their ratios matter, which it leaves as they are."""
    excess = int(np.frexp(largest_absolute(weights))[1]) - MAX_WEIGHT_EXPONENT
    return np.ldexp(weights, -excess) if excess > 0 else weights


def require_range(values: np.ndarray, cell_name: CellName | None = None) -> None:
    """Raise a DataError that names the first number, of (row, column), that is too large to be scaled."""
    for index in too_large(values, LARGEST)[:1].tolist():
        row, column = divmod(index, values.shape[1])
        raise DataError(
            f"{_name(cell_name, row, column)}: {values[row, column]:g} is beyond ±{LARGEST:g}, too large to be scaled; "
            "give the column in another unit, or leave the row out."
        )


def require_scalable(name: str, key: str, array: np.ndarray) -> None:
    """Raise a DataError that names the first number of an array which is too large for single precision, or a column
    that is lost in it.

    Args:
        name: what messages call the file.
        key: what they call the array.
        array: finite numbers (row) or (row, column).
    """
    if array.dtype.kind != "f":
        return
    extremes = [np.fmax.reduce(array, initial=0.0), np.fmin.reduce(array, initial=0.0)]
    largest = np.abs(np.array(extremes, dtype=np.float64)).max(axis=0)
    if (largest > LARGEST_SINGLE).any():
        index = int(too_large(array, LARGEST_SINGLE)[0])
        first = tuple(int(number) for number in np.unravel_index(index, array.shape))
        raise DataError(
            f"{name}: {key}{list(first)} is {array[first]:g}, beyond ±{LARGEST_SINGLE:g} and too large to be scaled; "
            "give it in another unit."
        )

    for column in np.flatnonzero((largest > 0) & (largest < MIN_SINGLE))[:1].tolist():
        shown = f", column {column}," if array.ndim > 1 else ""
        raise DataError(
            f"{name}: all numbers of {key}{shown} are below {MIN_SINGLE:g}, too small to be scaled; give it in "
            "another unit."
        )


def require_spread(values: np.ndarray, std: np.ndarray, cell_name: CellName | None = None) -> None:
    """Raise a DataError that names a column, of (row, column), which varies too little to be scaled."""
    varies = np.fmax.reduce(values, axis=0) > np.fmin.reduce(values, axis=0)
    for column in np.flatnonzero(varies & (std < MIN_SPREAD))[:1].tolist():
        row = int(np.nanargmax(np.abs(values[:, column])))
        raise DataError(
            f"{_name(cell_name, row, column)}: {values[row, column]:g} is the largest value of a column whose standard "
            f"deviation is below {MIN_SPREAD:g}, too small to be scaled; give the column in another unit."
        )


def require_comparable(values: np.ndarray, scaled: np.ndarray, cell_name: CellName | None = None) -> None:
    """Raise a DataError that names the first number, of (row, column), that is too far from the training rows."""
    for index in too_large(scaled, LARGEST_SCALED)[:1].tolist():
        row, column = divmod(index, scaled.shape[1])
        raise DataError(
            f"{_name(cell_name, row, column)}: {values[row, column]:g} lies {abs(scaled[row, column]):.0e} standard "
            "deviations of the training rows from their mean, too far to compute an error; check the cell, or leave "
            "the row out."
        )


def _name(cell_name: CellName | None, row: int, column: int) -> str:
    return f"row {row + 1}, column {column + 1}" if cell_name is None else cell_name(row, column)
