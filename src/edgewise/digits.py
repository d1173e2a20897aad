"""How numbers are written for people: at least three significant digits, whatever their size."""

import math
from typing import Any

MISSING = "-"
"""What stands where there is no number."""


def formatted(value: Any, digits: int = 4) -> str:
    """A count whole; of other numbers four decimals where these hold three digits, else so many digits as it takes.

    Args:
        value: A number; None and NaN are missing.
        digits: Significant digits of numbers from 1 on.
    """
    if value is None or value != value:
        return MISSING
    if isinstance(value, int):
        return f"{value:,}"
    size = abs(value)
    if size >= 1:
        return f"{value:.{digits}g}"
    return f"{value:.4f}" if size >= 0.01 else f"{value:.3g}"


def percent(share: float) -> str:
    """A share in percent, to three digits."""
    return MISSING if math.isnan(share) else f"{100 * share:.3g}%"
