"""`edgewise predict`: a trained model on a new table."""

import argparse
import sys
from dataclasses import fields

from edgewise.cli.flags import add_molecule_limits
from edgewise.cli.output import check_output, write
from edgewise.tasks.registry import task_of
from edgewise.tasks.task import TABLES, PredictRequest
from edgewise.train.folder import RunFolder
from edgewise.train.settings import require, usual_threads

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
        help=f"{', '.join(TABLES)}, or - for CSV to the screen; .jsonl or .conll where tags are predicted",
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
    add_molecule_limits(parser)
    parser.add_argument("--overwrite", action="store_true", help="replace the output file")


def run(arguments: argparse.Namespace) -> int:
    """Predicts, writes, and counts."""
    task, request = task_of(RunFolder.finished(arguments.folder)), request_of(arguments)
    suffix = check_output(arguments, task.output_formats)
    request.require_only(task.reads, task.noun)
    content, summary = task.predict(request, suffix)
    write(content, arguments.output, suffix, escape_formulas=arguments.escape_formulas)
    print(summary if arguments.output == "-" else f"{summary}: {arguments.output}", file=sys.stderr)
    return 0


def request_of(arguments: argparse.Namespace) -> PredictRequest:
    """The flags as what tasks take."""
    require("--threads", arguments.threads, arguments.threads >= 1, "at least 1")
    names = [each.name for each in fields(PredictRequest) if hasattr(arguments, each.name)]
    return PredictRequest(**{name: getattr(arguments, name) for name in names})
