"""Tables of scores in a terminal, and what comes behind them."""

import sys
from collections.abc import Sequence

from edgewise.learn.tasks.task import Task
from edgewise.learn.training.folder import RunFolder


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


def print_run(task: Task, folder: RunFolder) -> None:
    """The scores of a finished run, where it is, and what can be done with it, one command on a line of its own."""
    for part in task.scores(folder):
        if isinstance(part, str):
            print(part)
        else:
            print_table(part.title, part.header, part.rows)
    print(f"The run is in {folder.path}. Next:")
    for each in task.next_commands(folder):
        print(f"  {each}")
