"""What the verbs print: the data, how far the training is, the scores, and what to type next."""

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from edgewise.train.folder import RunFolder
from edgewise.train.metrics import HEADLINES

PART_NAMES = {"test": "test", "validation": "validation", "training": "training"}


def print_data(prepared: Any) -> None:
    """The table in a few lines: rows, molecules, what was rejected and why, the parts."""
    table, splits, job = prepared.table, prepared.splits, prepared.job
    molecules = f"{len(table.store):,} distinct molecules"
    print(f"{table.source}: {table.num_rows:,} rows, {molecules}, {len(table.rejected):,} rows rejected")
    for column, count in Counter(rejection.column for rejection in table.rejected).items():
        first = next(rejection for rejection in table.rejected if rejection.column == column)
        print(
            f"  {count:,} for column {column!r}, the first in line {first.row}: {first.reason} "
            f"(all in {prepared.folder.path / 'rejected.csv'})"
        )
    print(
        f"{len(splits.train):,} training, {len(splits.val):,} validation and {len(splits.test):,} test rows "
        f"(split: {job.split_kind})"
    )
    if splits.leakage:
        what = "molecules" if table.graph_of_row.shape[1] == 1 else "combinations of molecules"
        print(f"  {splits.leakage:,} {what} are in training and test rows alike")
    if not len(splits.val):
        print("  no validation rows: the last epoch is kept, and there are no intervals")
    sys.stdout.flush()


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


def print_scores(folder: RunFolder) -> None:
    """The scores of a finished run beside its baselines, the coverage of its intervals, and the next command."""
    metrics = folder.read_json("metrics.json")
    config = folder.read_config()
    part = next((name for name in PART_NAMES if metrics.get(name)), "training")
    headlines = HEADLINES[config.get("task-type", "regression")]
    for target, scores in metrics[part].items():
        companions = {"edgewise": scores}
        for name, label in (("forest", "random forest"), ("mean", "training mean")):
            found = metrics.get("baselines", {}).get(name, {}).get(part, {})
            if target in found:
                companions[label] = found[target]
        print_table(
            f"{target}: {scores['num_rows']:,} {PART_NAMES[part]} rows",
            ["", *headlines],
            [[label, *(number(of.get(name)) for name in headlines)] for label, of in companions.items()],
        )
        covered = metrics.get("coverage", {}).get("test", {}).get(target) if part == "test" else None
        if covered is not None:
            promised = metrics["coverage"]["promised"]
            print(f"{covered:.1%} of these values lie within their interval ({promised:.0%} were promised)")
    path = folder.path
    print(f"The run is in {path}. Next: edgewise predict {path} new.csv -o predictions.csv")


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
