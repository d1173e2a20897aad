"""Pairs of nodes of which it is asked whether they are linked: a table, each row the names of two nodes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64

from edgewise.data.graphs.names import NodeNames
from edgewise.data.tables.cell import OK
from edgewise.data.tables.read import check_columns_exist, pd, read_cells
from edgewise.errors import DataError
from edgewise.plural import plural


@dataclass(frozen=True, eq=False)
class PairTable:
    """Rows of names; those that name no two nodes keep their place."""

    source: str
    """The file."""
    frame: pd.DataFrame
    """All cells as the strings they are in the file."""
    senders: Int64[np.ndarray, " row"]
    """The first node of each row, −1 where there is none."""
    receivers: Int64[np.ndarray, " row"]
    """The second."""
    status: list[str]
    """`ok`, or the column and the reason why nothing can be told."""

    @property
    def usable(self) -> Bool[np.ndarray, " row"]:
        """True for rows of which something can be told."""
        return np.array([status == OK for status in self.status], dtype=bool)

    @property
    def num_rows(self) -> int:
        """How many rows the file has."""
        return len(self.status)


def read_pairs_of_nodes(
    path: str, nodes: NodeNames, pair_columns: Sequence[str] = (), *, strict: bool = False
) -> PairTable:
    """Read pairs of nodes.

    Args:
        path: .csv, .tsv, .csv.gz, .tsv.gz, .xlsx or .parquet.
        nodes: those of the graph by their names.
        pair_columns: sender and receiver; the first two columns by default.
        strict: stop at the first row that names no two nodes.

    Raises:
        DataError: the file cannot be used as a whole; or a row, or none of them, names two nodes.
    """
    cells = read_cells(path)
    names = tuple(pair_columns) or tuple(cells.frame.columns[:2])
    if len(names) != 2:
        raise DataError(
            f"{path}: {plural(len(names), 'column names', 'columns name')} nodes, expected two: the nodes of each pair."
        )
    check_columns_exist(cells, names)
    ends = np.stack([nodes.places(cells.frame[column]) for column in names])
    status = [OK] * len(cells.frame)
    for row in np.flatnonzero((ends < 0).any(0) | (ends[0] == ends[1])).tolist():
        column = names[0] if ends[0, row] < 0 else names[1]
        name = cells.frame[column].iloc[row].strip()
        what = f"{name!r} is not a node of the graph{nodes.hint(name)}" if name else "the cell names no node"
        if (ends[:, row] >= 0).all():
            what = f"{name!r} and itself are no link"
        status[row] = f"{column}: {what}"
        if strict:
            line = cells.lines[row]
            raise DataError(f"{path}, line {line}, {status[row]}; mend the row, or do without strict to pass over it.")
    if all(each != OK for each in status):
        raise DataError(f"{path}, line {cells.lines[0]}, {status[0]}; none of the rows names two nodes.")
    return PairTable(path, cells.frame, ends[0], ends[1], status)
