"""`edgewise predict`: a trained model on a new table."""

import argparse
import sys
from typing import Any

from edgewise.cli.options import add_molecule_limits
from edgewise.cli.output import FORMATS, as_text, check_output, write
from edgewise.errors import SettingError
from edgewise.plural import plural
from edgewise.train.settings import usual_threads

LINKS = "edgewise link model"
SUMMARY = "predict the rows of a new table"
DESCRIPTION = (
    "Predict the rows of a new table of molecules or texts, or translate or tag them, or tell pairs of nodes that are "
    "linked. The output keeps the columns of the input and adds <target>_pred, <target>_std, <target>_low and "
    "<target>_high (for classes the class and its probabilities; for links link_prob and is_known), for molecules the "
    "similarity to the nearest one of the training, and a status that says why a row could not be predicted."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the verb."""
    add_input_arguments(parser)
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help=f"{', '.join(FORMATS)}, or - for CSV to the screen; .jsonl or .conll where tags are told",
    )
    parser.add_argument("--coverage", type=float, metavar="P", help="promised by the intervals (default: as trained)")
    parser.add_argument(
        "--escape-formulas",
        action="store_true",
        help="write an apostrophe before cells that begin with =, +, - or @ and are no numbers, for a spreadsheet",
    )


def add_input_arguments(parser: argparse.ArgumentParser) -> None:
    """The run and the table, as `fingerprint` needs them too."""
    parser.add_argument("folder", metavar="RUN", help="the folder of a finished run")
    parser.add_argument("data", metavar="DATA", help="the table to read")
    parser.add_argument(
        "--smiles-columns", nargs="+", metavar="COLUMN", help="where they are called otherwise than in training"
    )
    parser.add_argument("--text-columns", nargs="+", metavar="COLUMN", help="the same for texts")
    parser.add_argument(
        "--descriptors-columns",
        "--feature-columns",
        nargs="+",
        metavar="COLUMN",
        help="the same for the numbers of the row",
    )
    parser.add_argument("--edges", metavar="FILE", help="the edges between the rows, where they are nodes of a graph")
    parser.add_argument("--features", metavar="FILE", help="their features, where they stand in an .npz file")
    parser.add_argument("--nodes", metavar="FILE", help="the graph whose links are told, where it is another one")
    parser.add_argument("--node-column", metavar="COLUMN", help="the names of the nodes, where it is called otherwise")
    parser.add_argument("--graph-column", metavar="COLUMN", help="many graphs: the same for their names")
    parser.add_argument("--graphs", metavar="FILE", help="a table of them, a row each")
    parser.add_argument("--node-type-column", metavar="COLUMN", help="their kinds, where it is called otherwise")
    parser.add_argument("--edge-type-column", metavar="COLUMN", help="the same for the kinds of edges")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda", "mps"), default="auto", help="(default: auto)")
    parser.add_argument(
        "--threads",
        type=int,
        default=usual_threads(),
        metavar="N",
        help="on the CPU (default: OMP_NUM_THREADS where it is set, else 1)",
    )
    parser.add_argument("--strict", action="store_true", help="stop at the first bad cell")
    add_molecule_limits(parser, default=None, usual="as trained")
    parser.add_argument("--overwrite", action="store_true", help="replace the output file")


def run(arguments: argparse.Namespace) -> int:
    """Predicts, writes, and counts."""
    kind = format_of(arguments.folder)
    if arguments.nodes is not None and kind != LINKS:
        raise SettingError("--nodes is for pairs of nodes, to a model of links; leave it out.")
    if kind == "edgewise tagging model":
        from edgewise.cli import tagging

        return tagging.predict(arguments)
    if kind == "edgewise dynamics model":
        from edgewise.cli import dynamics

        return dynamics.predict(arguments)
    if kind == "edgewise forecast model":
        from edgewise.cli import forecast

        return forecast.predict(arguments)
    if kind == LINKS:
        from edgewise.cli import link

        return link.predict(arguments)
    suffix = check_output(arguments, FORMATS)
    if kind == "edgewise translation model":
        from edgewise.cli import translation

        return translation.predict(arguments, suffix)
    trained, table = read(arguments)

    import numpy as np

    from edgewise.errors import DataError
    from edgewise.tasks.trained import prediction_columns
    from edgewise.train.conformal import check_coverage
    from edgewise.train.device import pick_device

    if arguments.coverage is not None:
        check_coverage(arguments.coverage)
    device = pick_device(arguments.device)
    added: dict[str, Any] = prediction_columns(
        trained, trained.predict(table, coverage=arguments.coverage, device=device)
    )
    added |= trained.more_columns(table)
    added["status"] = trained.statuses(table)
    taken = [name for name in added if name in table.frame.columns]
    if taken:
        raise DataError(f"{arguments.data} already has the column {taken[0]!r}, which predictions need; rename it.")
    content = table.frame.assign(**added) if suffix == ".parquet" else as_text(table, added)
    write(content, arguments.output, suffix, escape_formulas=arguments.escape_formulas)
    known = int(np.sum(table.usable))
    summary = f"{known:,} of {plural(table.num_rows, 'row')} predicted"
    if doubtful := sum(status != told for status, told in zip(added["status"], table.status, strict=True)):
        summary += f", {doubtful:,} of them from unknown words alone"
    if known < table.num_rows:
        summary += f"; {table.num_rows - known:,} could not be, and say why in the column 'status'"
    print(summary if arguments.output == "-" else f"{summary}: {arguments.output}", file=sys.stderr)
    return 0


def format_of(folder: str) -> str | None:
    """What kind of model a run folder holds, in the words of its model.json."""
    from edgewise.train.folder import RunFolder

    return RunFolder.finished(folder).read_format()


def read(arguments: argparse.Namespace) -> tuple[Any, Any]:
    """The trained model, and the table with the columns it needs."""
    from edgewise.train.folder import RunFolder
    from edgewise.train.settings import require

    require("--threads", arguments.threads, arguments.threads >= 1, "at least 1")
    folder = RunFolder.finished(arguments.folder)
    from edgewise.cli import graph, graphs
    from edgewise.progress import stage

    kinds = {
        "edgewise text model": texts_of,
        "edgewise node model": graph.read,
        "edgewise graph model": graphs.read,
    }
    with stage(f"reading {arguments.data}"):
        trained, table = kinds.get(format_of(arguments.folder) or "", molecules_of)(folder, arguments)
    trained.threads = arguments.threads
    return trained, table


def molecules_of(folder: Any, arguments: argparse.Namespace) -> tuple[Any, Any]:
    """A model of molecules, and the table with the columns it needs."""
    from edgewise.data.table import read_table
    from edgewise.tasks.molecules.trained import TrainedProperty, renamed

    trained = TrainedProperty.load(folder)
    columns = renamed(trained.columns, arguments.smiles_columns, arguments.descriptors_columns)
    check_numbers(columns, trained.columns)
    given = {"max_atoms": arguments.max_atoms, "molecule_timeout": arguments.molecule_timeout}
    trained.limits = trained.limits.changed(**given)
    options = {"strict": arguments.strict, "need_targets": False, "with_descriptors": trained.with_descriptors}
    table = read_table(arguments.data, columns, **options, limits=trained.limits)
    if trained.settings.needs_coordinates and (note := table.store.conformer_note):
        print(f"conformers: {note}", file=sys.stderr)
    return trained, table


def texts_of(folder: Any, arguments: argparse.Namespace) -> tuple[Any, Any]:
    """A model of texts, and the table, or the lines, with the columns it needs."""
    from edgewise.data.texts import read_texts
    from edgewise.tasks.texts.trained import TrainedTexts, renamed_texts

    trained = TrainedTexts.load(folder)
    columns = renamed_texts(trained.columns, arguments.text_columns)
    check_numbers(columns, trained.columns)
    table = read_texts([arguments.data], columns, strict=arguments.strict, need_targets=False)
    if cut := trained.batches(table).cut:
        print(
            f"{plural(cut, 'text has', 'texts have')} more than {trained.settings.context} tokens, cut there",
            file=sys.stderr,
        )
    return trained, table


def check_numbers(columns: Any, known: Any) -> None:
    """Raise SettingError where a role has more or fewer columns than in training."""
    for role in ("smiles_columns", "text_columns", "descriptors_columns"):
        new, old = getattr(columns, role), getattr(known, role)
        if len(new) != len(old):
            flag = f"--{role.replace('_', '-')}"
            raise SettingError(f"{flag} names {len(new)}, but the model was trained on {len(old)}: {', '.join(old)}.")
