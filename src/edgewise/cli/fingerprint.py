"""`edgewise fingerprint`: the learned vectors of the rows of a table."""

import argparse
import io
from pathlib import Path
from typing import Any

from edgewise.cli import predict
from edgewise.cli.output import check_output
from edgewise.errors import SettingError

SUMMARY = "write the learned vector of each row"
DESCRIPTION = (
    "Write the learned vector of each row to a NumPy archive: vectors (row, dim) with NaN where a row cannot be read, "
    "row (its number from 0), and status (ok, or the reason)."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the verb."""
    predict.add_input_arguments(parser)
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="a name that ends in .npz")


def run(arguments: argparse.Namespace) -> int:
    """Computes and writes the vectors."""
    check_output(arguments, (".npz",))
    if arguments.nodes is not None:
        raise SettingError("--nodes is for pairs of nodes; DATA names the nodes whose vectors are written.")
    kinds = {"edgewise masked model": masked_of, predict.LINKS: links_of}
    trained, table = kinds.get(predict.format_of(arguments.folder) or "", predict.read)(arguments)

    import numpy as np

    from edgewise.files import write_bytes
    from edgewise.train.device import pick_device

    vectors = trained.fingerprint(table, pick_device(arguments.device))
    buffer = io.BytesIO()
    np.savez(buffer, vectors=vectors, row=np.arange(table.num_rows), status=np.array(table.status))
    write_bytes(Path(arguments.output), buffer.getvalue())
    print(
        f"{int(np.isfinite(vectors).all(1).sum()):,} of {table.num_rows:,} rows have a vector of {vectors.shape[1]}: "
        f"{arguments.output}"
    )
    return 0


def links_of(arguments: argparse.Namespace) -> tuple[Any, Any]:
    """What tells links, and the graph whose nodes are asked for their vectors."""
    from edgewise.cli import link

    return link.read(arguments)


def masked_of(arguments: argparse.Namespace) -> tuple[Any, Any]:
    """What has learned hidden tokens, and the table, or the lines, with the columns it has read."""
    from edgewise.data.columns import Columns
    from edgewise.data.texts import LINES, read_texts
    from edgewise.errors import SettingError
    from edgewise.tasks.masked.trained import TrainedMasked
    from edgewise.train.folder import RunFolder
    from edgewise.train.settings import require

    require("--threads", arguments.threads, arguments.threads >= 1, "at least 1")
    folder = RunFolder.finished(arguments.folder)
    trained = TrainedMasked.load(folder)
    trained.threads = arguments.threads
    names = arguments.text_columns
    if not names and (folder.path / "config.toml").is_file():
        names = folder.read_config().get("text-columns")
    if arguments.data.lower().endswith(LINES):
        names = ["text"]
    elif not names:
        raise SettingError(f"{arguments.data} is a table; name the columns that hold texts: --text-columns text.")
    columns = Columns(text_columns=tuple(names))
    return trained, read_texts([arguments.data], columns, strict=arguments.strict, need_targets=False)
