"""`edgewise fingerprint`: the learned vectors of the rows of a table."""

import argparse
import io
from pathlib import Path

from edgewise.cli import predict
from edgewise.cli.output import check_output
from edgewise.learn.tasks.registry import names, task_of
from edgewise.learn.training.folder import RunFolder

DESCRIPTION = (
    "Write the learned vector of each molecule, text, graph, edge or node (of links, too) to a NumPy archive; "
    "other models have none. The archive holds vectors (row, dim) with NaN where a row cannot be read, "
    "row (its number from 0), and status (ok, or the reason)."
)

WITHOUT_VECTORS = ("forecast", "language", "motion", "tagging", "translation")
"""Tasks whose models do not give a vector for a row: their flags do nothing here."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the verb."""
    predict.add_input_arguments(parser, [name for name in names() if name not in WITHOUT_VECTORS])
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="a name that ends in .npz")


def run(arguments: argparse.Namespace) -> int:
    """Computes and writes the vectors."""
    check_output(arguments, (".npz",))
    task, request = task_of(RunFolder.finished(arguments.folder)), predict.request_of(arguments)
    request.require_only(task)
    trained, table = task.read(request)

    import numpy as np

    from edgewise.learn.files import write_bytes
    from edgewise.learn.tables.cell import has_remark
    from edgewise.learn.training.device import pick_device

    vectors = task.vectors(trained, table, pick_device(request.device))
    statuses = trained.encoder.statuses(table)
    buffer = io.BytesIO()
    np.savez(buffer, vectors=vectors, row=np.arange(len(table.rows)), status=np.array(statuses))
    write_bytes(Path(arguments.output), buffer.getvalue())
    num_doubtful = sum(map(has_remark, statuses))
    doubtful = f", {num_doubtful:,} of them with a remark in status" if num_doubtful else ""
    print(
        f"{int(np.isfinite(vectors).all(1).sum()):,} of {len(table.rows):,} rows have a vector of "
        f"{vectors.shape[1]}{doubtful}: {arguments.output}"
    )

    return 0
