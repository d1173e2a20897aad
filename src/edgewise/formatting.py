"""Numbers and names in messages and tables: `1 node`, `2,000 nodes`, `texts and graphs`, `0.0123`, `12.3%`."""

import math
from collections.abc import Sequence
from typing import Any

MISSING = "-"
"""Shown for a missing number."""


def plural(number: int, one: str, many: str | None = None) -> str:
    """A number and what it counts.

    Args:
        number: the count.
        one: the singular, for 1.
        many: the plural; by default `one` and an s.

    >>> plural(1, "node"), plural(1200, "node"), plural(0, "trajectory", "trajectories")
    ('1 node', '1,200 nodes', '0 trajectories')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> listed(["texts"]), listed(["texts", "nodes", "graphs"])
    ('texts', 'texts, nodes and graphs')
    """
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def formatted(value: Any, digits: int = 4) -> str:
    """An integer in full; other numbers with four decimals, or three significant digits if they are smaller.

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
    """A share in percent, with three significant digits."""
    return MISSING if math.isnan(share) else f"{100 * share:.3g}%"
