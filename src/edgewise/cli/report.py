"""What the verbs print: numbers, tables."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from edgewise.plural import plural


def number(value: Any) -> str:
    """A score to four digits; a dash where there is none."""
    return "-" if value is None else f"{value:.4g}" if abs(value) >= 1 else f"{value:.4f}"


def training_line(metrics: Mapping[str, Any]) -> str:
    """How large the model is, and how long it was trained."""
    unit = "step" if "steps" in metrics else "epoch"
    count = plural(metrics[f"{unit}s"], unit)
    return f"{plural(metrics['parameters'], 'parameter')}, {count} in {metrics['training_seconds']:.0f} s"


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table: drawn in a terminal, plain columns elsewhere."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table(title=title, title_justify="left")
        for place, name in enumerate(header):
            table.add_column(name, justify="right" if place else "left")
        for row in rows:
            table.add_row(*row)
        Console().print(table)
        return
    widths = [max(len(row[place]) for row in [header, *rows]) for place in range(len(header))]
    print(title)
    for row in [header, *rows]:
        cells = [
            cell.rjust(width) if place else cell.ljust(width) for place, (cell, width) in enumerate(zip(row, widths))
        ]
        print("  " + "  ".join(cells).rstrip())
