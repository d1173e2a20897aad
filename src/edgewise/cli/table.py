"""`edgewise train` over a table, of molecules or of texts: what it prints of the data and of the scores."""

import sys
from collections import Counter
from typing import Any

from edgewise.cli.report import number, print_table, progress
from edgewise.train.folder import RunFolder
from edgewise.train.metrics import HEADLINES

BASELINES = {
    "forest": "random forest",
    "naive_bayes": "naive Bayes, pairs of words",
    "logistic": "logistic regression, pairs of words",
    "ridge": "ridge regression, pairs of words",
    "mean": "training mean",
}
"""What a model is compared with, by their names in `metrics.json`."""
PART_NAMES = {"test": "test", "validation": "validation", "training": "training"}


def learn(settings: dict[str, Any], folder: RunFolder, *, overwrite: bool, resume: bool, source: str) -> None:
    """Learns a table: of texts where it has text columns, else of molecules."""
    prepared: Any
    if settings.get("text_columns"):
        from edgewise.estimators.text_job import text_job
        from edgewise.estimators.text_run import TextRun
        from edgewise.train.device import keep_memory

        keep_memory()
        prepared = TextRun.prepare(text_job(settings, source), folder, overwrite=overwrite, resume=resume)
    else:
        from edgewise.estimators.property import PropertyRun
        from edgewise.estimators.settings import job_from_config

        prepared = PropertyRun.prepare(job_from_config(settings, source), folder, overwrite=overwrite, resume=resume)
    print_data(prepared)
    with progress(prepared.job.ensemble_size) as show_progress:
        prepared.finish(show_progress)


def print_data(prepared: Any) -> None:
    """The table in a few lines: rows, molecules, what was rejected and why, the parts."""
    table, splits, job = prepared.table, prepared.splits, prepared.job
    print(
        f"{table.source}: {table.num_rows:,} rows, {table.num_distinct:,} distinct {table.unit}, "
        f"{len(table.rejected):,} rows rejected"
    )
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
        print(f"  {splits.leakage:,} {table.row_unit} are in training and test rows alike")
    if not len(splits.val):
        print("  no validation rows: the last epoch is kept, and there are no intervals")
    for note in prepared.notes():
        print(f"  {note}")
    sys.stdout.flush()


def print_scores(folder: RunFolder) -> None:
    """The scores of a finished run beside its baselines, the coverage of its intervals, and the next command."""
    metrics = folder.read_json("metrics.json")
    config = folder.read_config()
    part = next((name for name in PART_NAMES if metrics.get(name)), "training")
    headlines = HEADLINES[config.get("task-type", "regression")]
    for target, scores in metrics[part].items():
        companions = {"edgewise": scores}
        for name, label in BASELINES.items():
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
