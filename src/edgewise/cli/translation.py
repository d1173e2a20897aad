"""`edgewise train` and `predict` for translations: what they print and write."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from edgewise.cli.next_step import prediction, print_next
from edgewise.cli.output import write
from edgewise.cli.report import number, print_table, training_line
from edgewise.plural import plural
from edgewise.train.folder import RunFolder

if TYPE_CHECKING:
    from edgewise.tasks.translation.run import TranslationRun


def asked(settings: dict[str, Any], source: str) -> "tuple[type[TranslationRun], Any]":
    """The kind of run, and its job."""
    from edgewise.tasks.translation.job import translation_job
    from edgewise.tasks.translation.run import TranslationRun

    return TranslationRun, translation_job(settings, source)


def print_data(run: "TranslationRun") -> None:
    """The pairs in a few lines: what was rejected and why, the parts."""
    texts, parts = run.texts, run.parts
    print(
        f"{', '.join(texts.files)}: {plural(len(texts.sources), 'pair')}, {len(texts.rejected):,} "
        "rejected; a vocabulary of "
        f"{len(run.tokenizer):,} byte pairs"
    )
    if texts.rejected:
        first = texts.rejected[0]
        place = run.folder.path / "rejected.csv"
        print(f"  the first in line {first.line}: {first.column}: {first.reason} (all in {place})")
    counts = {part: len(rows) for part, rows in parts.items()}
    print(f"{counts['train']:,} training, {counts['val']:,} validation and {plural(counts['test'], 'test pair')}")


def print_scores(folder: RunFolder) -> None:
    """The scores of a finished run beside the untranslated texts, and the next command."""
    metrics = folder.read_json("metrics.json")
    if "test" in metrics:
        rows = {"edgewise": metrics["test"], "not translated": metrics["baselines"]["copy"]["test"]}
        print_table(
            plural(metrics["rows"]["test"], "test pair"),
            ["", "BLEU", "loss"],
            [[name, number(scores["bleu"]), number(scores.get("loss"))] for name, scores in rows.items()],
        )
    print(training_line(metrics))
    config = folder.read_config()
    # Aligned files come in pairs, of which the first is read.
    data = None if config.get("text-columns") else config["data"][-2]
    print_next(folder, prediction(config, folder, "translations.csv", data=data))


def predict(arguments: argparse.Namespace, suffix: str) -> int:
    """Translates a column of a table, or the lines of a text."""
    from edgewise.data.pairs import is_table
    from edgewise.data.read import check_columns_exist, read_cells
    from edgewise.data.text import read_text
    from edgewise.errors import DataError
    from edgewise.tasks.texts.tokens import status_of
    from edgewise.tasks.translation.trained import TrainedTranslation
    from edgewise.train.device import pick_device
    from edgewise.train.folder import csv_text

    trained = TrainedTranslation.load(RunFolder.finished(arguments.folder))
    trained.threads = arguments.threads
    if is_table(arguments.data):
        cells = read_cells(arguments.data)
        column = (arguments.text_columns or [trained.names[0]])[0]
        check_columns_exist(cells, (column,))
        columns = {name: cells.frame[name].tolist() for name in cells.frame.columns}
    else:
        column = trained.names[0]
        columns = {column: read_text(arguments.data).splitlines()}
    name = f"{trained.names[1]}_pred"
    if taken := [own for own in (name, "status") if own in columns]:
        raise DataError(f"{arguments.data} already has the column {taken[0]!r}, which predictions need; rename it.")
    found = trained.translate(columns[column], device=pick_device(arguments.device))
    columns[name] = [text or "" for text in found]
    columns["status"] = [
        "the text is empty or too long" if translated is None else status_of(trained.tokenizer, [text])
        for text, translated in zip(columns[column], found, strict=True)
    ]
    if suffix == ".parquet":
        import pandas as pd

        write(pd.DataFrame(columns), arguments.output, suffix)
    else:
        content = csv_text(list(columns), zip(*columns.values(), strict=True))
        write(content, arguments.output, suffix, escape_formulas=arguments.escape_formulas)
    known = sum(text is not None for text in found)
    summary = f"{known:,} of {plural(len(found), 'row')} translated"
    if known < len(found):
        summary += f"; {len(found) - known:,} could not be, and say why in the column 'status'"
    print(summary if arguments.output == "-" else f"{summary}: {arguments.output}", file=sys.stderr)
    return 0
