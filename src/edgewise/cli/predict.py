"""`edgewise predict`: a trained model on a new table."""

import argparse
import sys
from typing import Any

from edgewise.cli.output import FORMATS, check_output, write

SUMMARY = "predict the rows of a new table"
DESCRIPTION = (
    "Predict the rows of a new table. The output keeps the columns of the input and adds <target>_pred, <target>_std, "
    "<target>_low and <target>_high (for classes the class and its probabilities), the similarity to the nearest "
    "training molecule, and a status that says why a row could not be predicted."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the verb."""
    add_input_arguments(parser)
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help=f"{', '.join(FORMATS)}, or - for CSV to the screen"
    )
    parser.add_argument("--coverage", type=float, metavar="P", help="promised by the intervals (default: as trained)")


def add_input_arguments(parser: argparse.ArgumentParser) -> None:
    """The run and the table, as `fingerprint` needs them too."""
    parser.add_argument("folder", metavar="RUN", help="the folder of a finished run")
    parser.add_argument("data", metavar="DATA", help="the table to read")
    parser.add_argument(
        "--smiles-columns", nargs="+", metavar="COLUMN", help="where they are called otherwise than in training"
    )
    parser.add_argument("--text-columns", nargs=1, metavar="COLUMN", help="the same for the texts to translate")
    parser.add_argument(
        "--descriptors-columns", nargs="+", metavar="COLUMN", help="the same for the numbers of the row"
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda", "mps"), default="auto", help="(default: auto)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="on the CPU (default: 1)")
    parser.add_argument("--strict", action="store_true", help="stop at the first bad cell")
    parser.add_argument("--overwrite", action="store_true", help="replace the output file")


def run(arguments: argparse.Namespace) -> int:
    """Predicts, writes, and counts."""
    suffix = check_output(arguments, FORMATS)
    if translates(arguments.folder):
        from edgewise.cli import translation

        return translation.predict(arguments, suffix)
    trained, table = read(arguments)

    import numpy as np

    from edgewise.errors import DataError
    from edgewise.estimators.trained import prediction_columns
    from edgewise.train.conformal import check_coverage
    from edgewise.train.device import pick_device

    if arguments.coverage is not None:
        check_coverage(arguments.coverage)
    device = pick_device(arguments.device)
    added: dict[str, Any] = prediction_columns(
        trained, trained.predict(table, coverage=arguments.coverage, device=device)
    )
    added["similarity"] = trained.similarity(table)
    added["status"] = list(table.status)
    taken = [name for name in added if name in table.frame.columns]
    if taken:
        raise DataError(f"{arguments.data} already has the column {taken[0]!r}, which predictions need; rename it.")
    write(table.frame.assign(**added) if suffix == ".parquet" else as_text(table, added), arguments.output, suffix)
    known = int(np.sum(table.usable))
    summary = f"{known:,} of {table.num_rows:,} rows predicted"
    if known < table.num_rows:
        summary += f"; {table.num_rows - known:,} could not be, and say why in the column 'status'"
    print(summary if arguments.output == "-" else f"{summary}: {arguments.output}", file=sys.stderr)
    return 0


def translates(folder: str) -> bool:
    """Whether a run folder holds a model that translates."""
    from edgewise.train.folder import RunFolder

    content = RunFolder.finished(folder).read_json("model.json")
    return isinstance(content, dict) and content.get("format") == "edgewise translation model"


def read(arguments: argparse.Namespace) -> tuple[Any, Any]:
    """The trained model, and the table with the columns it needs."""
    from edgewise.data.table import read_table
    from edgewise.errors import SettingError
    from edgewise.estimators.trained import TrainedProperty, renamed
    from edgewise.train.folder import RunFolder
    from edgewise.train.settings import require

    require("--threads", arguments.threads, arguments.threads >= 1, "at least 1")
    trained = TrainedProperty.load(RunFolder.finished(arguments.folder))
    trained.threads = arguments.threads
    columns = renamed(trained.columns, arguments.smiles_columns, arguments.descriptors_columns)
    for flag, new, old in (
        ("--smiles-columns", columns.smiles_columns, trained.columns.smiles_columns),
        ("--descriptors-columns", columns.descriptors_columns, trained.columns.descriptors_columns),
    ):
        if len(new) != len(old):
            raise SettingError(f"{flag} names {len(new)}, but the model was trained on {len(old)}: {', '.join(old)}.")
    return trained, read_table(
        arguments.data,
        columns,
        strict=arguments.strict,
        need_targets=False,
        with_descriptors=trained.with_descriptors,
    )


def as_text(table: Any, added: dict[str, Any]) -> str:
    """The table with its new columns as CSV rows, separated later where the ending asks for tabs."""
    from edgewise.estimators.trained import show
    from edgewise.train.folder import csv_text

    columns = {name: table.frame[name].tolist() for name in table.frame.columns}
    columns |= {name: [show(value) for value in values] for name, values in added.items()}
    return csv_text(list(columns), zip(*columns.values(), strict=True))
