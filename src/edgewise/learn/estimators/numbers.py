"""Numbers as arguments have them; an error names the row and the value that is none."""

import numpy as np
from jaxtyping import Float64

from edgewise.errors import CellTypeError, DataError, refuse_single_text
from edgewise.learn.estimators.names import row_name
from edgewise.learn.tables.read import ARRAYS


def as_numbers(argument: str, values: object, *, in_fit: bool = False) -> Float64[np.ndarray, "..."]:
    """An argument as numbers; None and what pandas calls NA are NaN.

    Args:
        argument: what it is called in a message.
        values: an array, a list, a tensor, a Series or a DataFrame.
        in_fit: whether rows may stand behind others, so that `naming_rows` calls them as their owner does.

    Raises:
        DataError: it is one string, or a value is not a number.
        CellTypeError: a value is neither a number nor text.
    """
    refuse_single_text(argument, values)
    dtypes = [values.dtype] if hasattr(values, "dtype") else list(getattr(values, "dtypes", ()))
    if any(getattr(dtype, "kind", "") == "c" for dtype in dtypes):
        raise DataError(f"{argument} holds complex numbers; expected real ones.")
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
                numbers[index] = np.nan if str(cell) == "<NA>" else float(cell)
            except (TypeError, ValueError) as reason:
                row = f"{ARRAYS[0]}, row {index[0]}" if in_fit else row_name(values, index[0])
                column = f", column {index[1]}" if len(index) > 1 else ""
                comma = isinstance(cell, str) and cell.count(",") == 1
                remedy = "; write a point in place of the comma" if comma else "; None or NaN says that it is missing"
                if isinstance(reason, TypeError):
                    raise CellTypeError(f"{row} of {argument}{column} holds {cell!r}: {reason}.") from error
                raise DataError(f"{row} of {argument}{column}: {cell!r} is not a number{remedy}.") from error
        return numbers
