"""Numbers as people read them in verdicts, reports and pages: `0.0123`, `1,200`, `12.3%`, or `-` for a missing one."""

import math

import numpy as np

MISSING = "-"
"""Shown for a missing number."""


def formatted(value: float | np.floating | None, digits: int = 4) -> str:
    """An integer in full; other numbers with four decimals, or three significant digits if they are smaller.

    Args:
        value: A number; None and NaN are missing.
        digits: Significant digits of numbers from 1 on.
    """
    if value is None or value != value:
        return MISSING
    if isinstance(value, int):
        return f"{value:,}"
    size = abs(float(value))
    if size >= 1:
        return f"{value:.{digits}g}"
    return f"{value:.4f}" if size >= 0.01 else f"{value:.3g}"


def percent(share: float) -> str:
    """A share in percent, with three significant digits."""
    return MISSING if math.isnan(share) else f"{100 * share:.3g}%"
