"""Prints tables of scores, and the commands to run next."""

import sys
from collections.abc import Sequence

from edgewise.learn.tasks.task import Task
from edgewise.learn.training.folder import RunFolder


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table: with borders on a terminal, in plain columns elsewhere."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table(title=title, title_justify="left")
        for column, name in enumerate(header):
            table.add_column(name, justify="right" if column else "left")
        for row in rows:
            table.add_row(*row)
        Console().print(table)
        return

    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    print(title)
    for row in [header, *rows]:
        cells = [
            cell.rjust(width) if column else cell.ljust(width) for column, (cell, width) in enumerate(zip(row, widths))
        ]
        print("  " + "  ".join(cells).rstrip())


def print_run(task: Task, folder: RunFolder) -> None:
    """Prints the scores of a finished run, its folder, and the commands to run next, one a line."""
    for part in task.scores(folder):
        if isinstance(part, str):
            print(part)
        else:
            print_table(part.title, part.header, part.rows)
    print(f"The run is in {folder.path}. Next:")
    for line in task.next_commands(folder):
        print(f"  {line}")
