"""Numbers as arguments have them; an error names the row and the value that is none."""

from datetime import date, timedelta

import numpy as np
import torch
from jaxtyping import Bool, Float64

from edgewise.errors import CellTypeError, DataError, refuse_single_text
from edgewise.learn.estimators.names import row_name
from edgewise.learn.tables.read import ARRAYS

TIMES_AS_NUMBERS = "give numbers, such as the seconds of each, and NaN where there is none"
"""What to do about times."""


WRAPPED = torch.Tensor, np.ma.MaskedArray
"""What holds numbers that numpy reads otherwise than they are meant."""


def unwrapped(values: object) -> object:
    """A tensor as an array without gradients; what an array masks as NaN, or as None among cells that are not
    floating-point numbers; both also within a list; others as they are."""
    if isinstance(values, torch.Tensor):
        detached = values.detach().cpu()
        return (detached.float() if detached.dtype == torch.bfloat16 else detached).numpy()
    if isinstance(values, list | tuple) and any(isinstance(value, WRAPPED) for value in values):
        return [unwrapped(value) for value in values]
    if not isinstance(values, np.ma.MaskedArray):
        return values
    mask, cells = np.ma.getmaskarray(values), np.array(values.data)
    if not mask.any():
        return cells
    is_floating = np.issubdtype(cells.dtype, np.floating)
    cells = cells if is_floating else cells.astype(object)
    cells[mask] = np.nan if is_floating else None
    return cells


def as_numbers(argument: str, values: object, *, in_fit: bool = False) -> Float64[np.ndarray, "..."]:
    """An argument as numbers; None, what an array masks, and what pandas calls NA are NaN.

    Args:
        argument: what it is called in a message.
        values: an array, a list, a tensor, a Series or a DataFrame.
        in_fit: whether rows may follow others, so that `naming_rows` calls them as their owner does.

    Raises:
        DataError: it is one string, or a value is not a number, such as a date or a duration.
        CellTypeError: a value is neither a number nor text.
    """
    refuse_single_text(argument, values)
    dtypes = [values.dtype] if hasattr(values, "dtype") else list(getattr(values, "dtypes", ()))
    if any(getattr(dtype, "kind", "") == "c" for dtype in dtypes):
        raise DataError(f"{argument} holds complex numbers; expected real ones.")
    if isinstance(values, list | tuple) and values and isinstance(values[0], np.generic):
        dtypes = [values[0].dtype]
    if any(getattr(dtype, "kind", "") in ("m", "M") for dtype in dtypes):
        raise DataError(f"{argument} holds dates or durations; {TIMES_AS_NUMBERS}.")
    owner, values = values, unwrapped(values)
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        try:
            cells = np.asarray(values, dtype=object)
        except ValueError:  # rows of several lengths
            raise DataError(f"{argument} is not an array of numbers: {error}.") from error
        numbers = np.empty(cells.shape)
        for index, cell in np.ndenumerate(cells):
            try:
                numbers[index] = np.nan if cell is None or str(cell) == "<NA>" else float(cell)
            except (TypeError, ValueError) as reason:
                row = f"{ARRAYS[0]}, row {index[0]}" if in_fit else row_name(owner, index[0])
                column = f", column {index[1]}" if len(index) > 1 else ""
                comma = isinstance(cell, str) and cell.count(",") == 1
                remedy = "; write a point in place of the comma" if comma else "; None or NaN says that it is missing"
                if isinstance(cell, date | timedelta | np.datetime64 | np.timedelta64):
                    raise DataError(f"{row} of {argument}{column} holds {cell!r}; {TIMES_AS_NUMBERS}.") from error
                if isinstance(reason, TypeError):
                    raise CellTypeError(f"{row} of {argument}{column} holds {cell!r}: {reason}.") from error
                raise DataError(f"{row} of {argument}{column}: {cell!r} is not a number{remedy}.") from error
        return numbers


def mask_of(argument: str, values: object, num_rows: int) -> Bool[np.ndarray, " row"]:
    """A mask of rows.

    Args:
        argument: What it is called in a message.
        values: True or 1, False or 0.
        num_rows: How many there are.

    Raises:
        DataError: It has another length, or a value is neither: it is missing, masked, a word or another number.
    """
    refuse_single_text(argument, values)
    try:
        cells = np.asarray(unwrapped(values))
    except ValueError as error:  # parts of several lengths
        message = f"fit: {argument} is a {type(values).__name__} of several parts; expected a mask ({num_rows},)."
        raise DataError(message) from error
    if cells.shape != (num_rows,):
        raise DataError(f"fit: {argument} is {cells.shape}; expected a mask ({num_rows},).")
    if cells.dtype == bool:
        return cells
    for row, cell in enumerate(cells.tolist()):
        if not isinstance(cell, bool | int | float) or cell not in (0, 1):
            raise DataError(f"fit: {row_name(values, row)} of {argument} is {cell!r}; expected True or False.")
    return cells.astype(bool)


def weights_of(method: str, sample_weight: object, num_rows: int) -> Float64[np.ndarray, " row"]:
    """The weights of rows.

    Raises:
        DataError: There are more or fewer than rows, one is negative, missing or infinite, or all are zero.
    """
    weights = as_numbers("sample_weight", sample_weight)
    if weights.shape != (num_rows,):
        raise DataError(f"{method}: sample_weight is {weights.shape}; expected a weight for each row, ({num_rows},).")
    for row in np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))[:1].tolist():
        raise DataError(
            f"{method}: {row_name(sample_weight, row)} of sample_weight is {weights[row]}; expected a finite number, "
            "zero or more."
        )
    if num_rows and not weights.any():
        remedy = "; there is nothing to learn from" if method == "fit" else ""
        raise DataError(f"{method}: every weight in sample_weight is zero{remedy}.")
    return weights
