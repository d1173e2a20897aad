"""Rows that were left out where a model is applied: counted, the first named, all listed in `rejected.csv`."""

from collections.abc import Sequence

from edgewise.errors import plural
from edgewise.learn.files import write_bytes
from edgewise.learn.progress import remark
from edgewise.learn.tables.cell import Rejection
from edgewise.learn.tasks.task import PredictRequest
from edgewise.learn.training.folder import csv_text

HEADER = ("file", "line", "column", "value", "reason")
"""The columns of `rejected.csv`."""


def list_left_out(
    edges: Sequence[Rejection],
    others: Sequence[Rejection] = (),
    request: PredictRequest | None = None,
    count: int | None = None,
    nodes: Sequence[Rejection] = (),
) -> None:
    """Says which edges cannot be read, whose messages a prediction then lacks, and which nodes without a row of
    their own in the output; nothing where all can.

    Args:
        edges: those that cannot be read.
        others: what else cannot be used, to be listed with them; it may contain the same edges.
        request: says where they are listed; None lists them nowhere.
        count: how many edges there are, where `edges` are the first of them.
        nodes: those whose features cannot be read.
    """
    if not edges and not nodes:
        return
    listed, total = "", len(edges) if count is None else count
    if request is not None and request.rejected is not None:
        rows = list(dict.fromkeys((*nodes, *others, *edges)))
        cells = ([row.file, row.line, row.column, row.value, row.reason] for row in rows)
        write_bytes(request.rejected, csv_text(HEADER, cells).encode())
        listed = f" ({'all' if total == len(edges) else f'the first {len(edges):,}'} in {request.rejected})"
    if edges:
        remark(f"{plural(total, 'edge')} passed over, the first in {_reason(edges[0])}{listed}")
    if nodes:
        count_of_nodes = plural(len(nodes), "node has", "nodes have")
        remark(f"{count_of_nodes} features that cannot be read, and are 0, the first in {_reason(nodes[0])}{listed}")


def _reason(row: Rejection) -> str:
    return f"{row.file}, line {row.line}, column {row.column!r}: {row.reason}"
