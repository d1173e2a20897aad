"""`edgewise predict`: a trained model on a new table."""

import argparse
import contextlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.cli.flags import add_engine_flags, add_molecule_limits, add_settings, require_engine
from edgewise.cli.output import check_output, opened
from edgewise.learn.tables.options import WRITTEN_TABLES
from edgewise.learn.tasks.config import groups_of
from edgewise.learn.tasks.registry import names, settings_of, task_of
from edgewise.learn.tasks.scores import free_name
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.settings import TrainSettings, default_threads

if TYPE_CHECKING:
    from edgewise.learn.engine.workers import Workers
    from edgewise.learn.tasks.task import PredictRequest

DESCRIPTION = (
    "Predict the rows of a new table of molecules or texts, the nodes, edges or graphs of a new table, or which nodes "
    "are linked; translate or tag texts; predict the next steps of series, or the motion of bodies. The output keeps "
    "the columns of the input (of a store, the names of its nodes) and adds <target>_pred, <target>_std, of ensembles "
    "<target>_ensemble_std, <target>_low and <target>_high (for classes the class and its probabilities; for links "
    "link_prob and is_known), for molecules the similarity to the nearest row of the training and which parts are "
    "new, and a status that says why a row could not be predicted."
)
SEPARATE_FLAGS = ("coverage", "max_atoms", "molecule_timeout", "show_parts")
"""Settings of the training that have separate flags here."""
COMPUTING, MAX_THREADS = ("device", "threads"), 8
"""Settings of the training that predictions have, too, and their threads: batches are long enough to share."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the verb."""
    add_input_arguments(parser, names())
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help=f"{', '.join(WRITTEN_TABLES)}, or - for CSV to the screen; .jsonl or .conll where tags are predicted, "
        ".npz for moving bodies",
    )
    add_engine_flags(parser.add_argument_group("several workers (of molecules, and of classes of texts)"))
    parser.add_argument("--coverage", type=float, metavar="P", help="promised by the intervals (default: as trained)")
    parser.add_argument(
        "--show-parts",
        action="store_true",
        default=None,
        help="also write what the network alone predicts, and each of its companions",
    )
    parser.add_argument(
        "--escape-formulas",
        action="store_true",
        help="write an apostrophe before cells that begin with =, +, - or @ and are not numbers, for a spreadsheet",
    )


def add_input_arguments(parser: argparse.ArgumentParser, tasks: Iterable[str]) -> None:
    """The run and the table, with the flags of some tasks; also for `fingerprint`."""
    parser.add_argument("folder", metavar="RUN", help="the folder of a finished run")
    parser.add_argument("data", metavar="DATA", help="the table to read")
    group = parser.add_argument_group("columns and files (default: the names of the training)")
    for name in tasks:
        declared = settings_of(name)
        groups = groups_of(declared.run_type).values()
        for group_type in (declared.run_type, *(member for types in groups for member in types)):
            add_settings(group, group_type, defaults={}, only=declared.predict_flags, leave_out=SEPARATE_FLAGS)
    add_settings(parser, TrainSettings, only=COMPUTING)
    parser.add_argument("--strict", action="store_true", help="stop at the first bad cell")
    add_molecule_limits(parser)
    parser.add_argument("--overwrite", action="store_true", help="replace the output file")


def run(arguments: argparse.Namespace) -> int:
    """Predicts, writes, and prints how many rows were predicted."""
    task, request = task_of(RunFolder.finished(arguments.folder)), request_of(arguments)
    suffix = check_output(arguments, task.output_formats)
    request.require_only(task)
    workers = workers_of(vars(arguments), request.device)

    summary, typed = "", None
    if suffix == ".parquet" and arguments.data.lower().endswith(suffix):
        from edgewise.learn.tables.parquet import TypeRestorer

        typed = TypeRestorer(arguments.data)

    with (
        opened(arguments.output, suffix, escape_formulas=arguments.escape_formulas) as add,
        contextlib.closing(task.predictions(request, suffix, workers)) as parts,
    ):
        for content, line in parts:
            add(content if typed is None else typed.with_types(content))
            summary = line

    print(summary if arguments.output == "-" else f"{summary}: {arguments.output}", file=sys.stderr)
    return 0


def workers_of(flags: Mapping[str, Any], device: str) -> "Workers | None":
    """The workers that predict; None for this process.

    Raises:
        SettingError: Flags of --engine ray are given without it.
    """
    if flags.get("engine") != "ray":
        require_engine(flags)
        return None
    from edgewise.learn.engine.workers import Workers
    from edgewise.learn.training.device import pick_device

    return Workers(flags.get("num_workers", 1), pick_device(device) == "cuda", flags.get("ray_address"))


def rejected_file(output: str) -> Path | None:
    """The file beside the output that lists rejected rows; a name that is not taken."""
    return None if output == "-" else Path(free_name(str(Path(output).with_name("rejected.csv"))))


def request_of(arguments: argparse.Namespace) -> "PredictRequest":
    """The flags as a request to a task."""
    from edgewise.learn.tasks.task import PredictRequest

    flags = vars(arguments)
    # Workers share the cores among them.
    threads = 1 if flags.get("engine") == "ray" else default_threads(MAX_THREADS)
    train_settings = TrainSettings(**{"threads": threads, **{name: flags[name] for name in COMPUTING if name in flags}})
    reading_options = {option for name in names() for option in settings_of(name).predict_flags}
    return PredictRequest(
        folder=arguments.folder,
        data=arguments.data,
        device=train_settings.device,
        threads=train_settings.threads,
        strict=arguments.strict,
        rejected=rejected_file(arguments.output),
        options={name: value for name, value in flags.items() if name in reading_options and value is not None},
    )
