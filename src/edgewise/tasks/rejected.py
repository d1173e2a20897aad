"""Rows that were left out where a model is applied: counted, the first named, all listed in `rejected.csv`."""

from collections.abc import Sequence

from edgewise.data.tables.cell import Rejection
from edgewise.files import write_bytes
from edgewise.plural import plural
from edgewise.progress import remark
from edgewise.tasks.task import PredictRequest
from edgewise.train.folder import csv_text

HEADER = ("file", "line", "column", "value", "reason")
"""The columns of `rejected.csv`."""


def list_left_out(
    edges: Sequence[Rejection], others: Sequence[Rejection] = (), request: PredictRequest | None = None
) -> None:
    """Says which edges cannot be read, whose messages a prediction then lacks; nothing where all can.

    Args:
        edges: those that cannot be read.
        others: what else cannot be used, to be listed with them; it may contain the same edges.
        request: says where they are listed; None lists them nowhere.
    """
    if not edges:
        return
    first, listed = edges[0], ""
    if request is not None and request.rejected is not None:
        rows = list(dict.fromkeys((*others, *edges)))
        cells = ([each.file, each.line, each.column, each.value, each.reason] for each in rows)
        write_bytes(request.rejected, csv_text(HEADER, cells).encode())
        listed = f" (all in {request.rejected})"
    where = f"{first.file}, line {first.line}, column {first.column!r}"
    remark(f"{plural(len(edges), 'edge')} passed over, the first in {where}: {first.reason}{listed}")
