"""Numbers as people read them in verdicts, reports and pages: `0.0123`, `1,200`, `12.3%`, or `-` for a missing one."""

import math

import numpy as np

MISSING = "-"
"""Shown for a missing number."""
NUM_DIGITS = 7
"""The significant digits of a number in a file."""
FINEST = 1e-4
"""The finest difference between predictions that a file shows, in standard deviations of the target."""
MAX_DIGITS = 17
"""The digits that tell any two numbers in double precision apart."""


def num_digits(mean: float, std: float, least: int = NUM_DIGITS, finest: float = FINEST) -> int:
    """The significant digits that show differences of `finest` standard deviations around a mean, at least so many:
    seconds since 1970 differ in their tenth digit."""
    if not mean or not std or not math.isfinite(mean) or not math.isfinite(std):
        return least
    digits = math.floor(math.log10(abs(mean))) + 1 - round(math.log10(finest * std))
    return min(max(digits, least), MAX_DIGITS)


def formatted(value: float | np.floating | None, digits: int = 4) -> str:
    """An integer in full; other numbers with four decimals, or three significant digits if they are smaller.

    Args:
        value: A number; None and NaN are missing.
        digits: Significant digits of numbers from 1 on; more than four are those of all numbers.
    """
    if value is None or value != value:
        return MISSING
    if isinstance(value, int):
        return f"{value:,}"
    size = abs(float(value))
    if size >= 1 or digits > 4:
        return f"{value:.{digits}g}"
    return f"{value:.4f}" if size >= 0.01 else f"{value:.3g}"


def percent(share: float) -> str:
    """A share in percent, with three significant digits."""
    return MISSING if math.isnan(share) else f"{100 * share:.3g}%"
