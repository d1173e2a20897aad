"""`edgewise train` over a table, of molecules or of texts: what it prints of the data and of the scores."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from edgewise.cli.next_step import prediction, print_next
from edgewise.cli.report import number, print_table
from edgewise.plural import plural
from edgewise.train.baseline import LABELS
from edgewise.train.folder import RunFolder
from edgewise.train.metrics import HEADLINES

if TYPE_CHECKING:
    from edgewise.tasks.table_run import TableRun

PART_NAMES = {"test": "test", "validation": "validation", "training": "training"}


def asked(settings: dict[str, Any], source: str) -> "tuple[type[TableRun], Any]":
    """The kind of run, and its job: over texts where there are text columns, else over molecules."""
    if settings.get("text_columns"):
        from edgewise.tasks.texts.job import text_job
        from edgewise.tasks.texts.run import TextRun

        return TextRun, text_job(settings, source)
    from edgewise.tasks.molecules.job import job_from_config
    from edgewise.tasks.molecules.run import PropertyRun

    return PropertyRun, job_from_config(settings, source)


def print_data(run: "TableRun") -> None:
    """The table in a few lines: rows, molecules, what was rejected and why, the parts."""
    table, splits, job = run.table, run.splits, run.job
    print(
        f"{table.source}: {plural(table.num_rows, 'row')}, "
        f"{plural(table.num_distinct, 'distinct ' + table.unit.removesuffix('s'))}, "
        f"{plural(len(table.rejected), 'row')} rejected"
    )
    for column, count in Counter(rejection.column for rejection in table.rejected).items():
        first = next(rejection for rejection in table.rejected if rejection.column == column)
        print(
            f"  {count:,} for column {column!r}, the first in line {first.line}: {first.reason} "
            f"(all in {run.folder.path / 'rejected.csv'})"
        )
    print(
        f"{len(splits.train):,} training, {len(splits.val):,} validation and {plural(len(splits.test), 'test row')} "
        f"(split: {job.split_kind})"
    )
    if splits.leakage:
        print(f"  {splits.leakage:,} {table.row_unit} are in training and test rows alike")
    if not len(splits.val):
        print("  no validation rows: the last epoch is kept, and there are no intervals")
    for note in (*table.notes, *run.notes()):
        print(f"  {note}")


def print_scores(folder: RunFolder) -> None:
    """The scores of a finished run beside its baselines, the coverage of its intervals, and the next command."""
    metrics = folder.read_json("metrics.json")
    config = folder.read_config()
    part = next((name for name in PART_NAMES if metrics.get(name)), "training")
    headlines = HEADLINES[config.get("task-type", "regression")]
    for target, scores in metrics[part].items():
        companions = {"edgewise": scores}
        for name, label in LABELS.items():
            found = metrics.get("baselines", {}).get(name, {}).get(part, {})
            if target in found:
                companions[label] = found[target]
        print_table(
            f"{target}: {plural(scores['num_rows'], PART_NAMES[part] + ' row')}",
            ["", *headlines],
            [[label, *(number(of.get(name)) for name in headlines)] for label, of in companions.items()],
        )
        covered = metrics.get("coverage", {}).get("test", {}).get(target) if part == "test" else None
        if covered is not None:
            promised = metrics["coverage"]["promised"]
            print(f"{covered:.1%} of these values lie within their interval ({promised:.0%} were promised)")
    print_next(folder, prediction(config, folder, "predictions.csv"))
