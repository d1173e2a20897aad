"""What the verbs print: how far a training is, numbers, tables."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any


@contextlib.contextmanager
def progress(num_members: int) -> Iterator[Callable[[int, int, int, dict[str, Any]], None] | None]:
    """A progress bar with the time left; nothing where the output is not a terminal."""
    if not sys.stdout.isatty():
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[loss]}"),
        TimeElapsedColumn(),
        TextColumn("elapsed,"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, transient=True) as bar:
        task = bar.add_task("training", total=None, loss="")

        def show(member: int, step: int, num_steps: int, record: dict[str, Any]) -> None:
            loss = record.get("val_loss") or record.get("train_loss")
            bar.update(
                task,
                completed=member * num_steps + step,
                total=num_members * num_steps,
                description="training" if num_members == 1 else f"training {member + 1} of {num_members}",
                loss="" if loss is None else f"epoch {record['epoch'] + 1}, loss {loss:.4g}",
            )

        yield show


def number(value: Any) -> str:
    """A score to four digits; a dash where there is none."""
    return "-" if value is None else f"{value:.4g}" if abs(value) >= 1 else f"{value:.4f}"


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
