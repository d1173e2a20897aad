"""Pairs of nodes of which it is asked whether they are linked: a table, each row the names of two nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64

from edgewise.data.cell import OK
from edgewise.data.read import check_columns_exist, pd, read_cells
from edgewise.errors import DataError


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
    path: str, place_of_node: Mapping[str, int], pair_columns: Sequence[str] = (), *, strict: bool = False
) -> PairTable:
    """Read pairs of nodes.

    Args:
        path: .csv, .tsv, .csv.gz, .tsv.gz or .parquet.
        place_of_node: the nodes of the graph by their names.
        pair_columns: sender and receiver; the first two columns by default.
        strict: stop at the first row that names no two nodes.

    Raises:
        DataError: the file cannot be used as a whole; or a row, or none of them, names two nodes.
    """
    cells = read_cells(path)
    names = tuple(pair_columns) or tuple(cells.frame.columns[:2])
    if len(names) != 2:
        raise DataError(f"{path}: {len(names)} columns name nodes, expected two: the nodes of each pair.")
    check_columns_exist(cells, names)
    written = [[cell.strip() for cell in cells.frame[column]] for column in names]
    ends = np.array([[place_of_node.get(name, -1) for name in side] for side in written], dtype=np.int64)
    status = [OK] * len(cells.frame)
    for row, line in enumerate(cells.lines.tolist()):
        for column, side, place in zip(names, written, ends[:, row], strict=True):
            if place < 0 and status[row] == OK:
                what = f"{side[row]!r} is not a node of the graph" if side[row] else "the cell names no node"
                status[row] = f"{column}: {what}"
        if status[row] == OK and ends[0, row] == ends[1, row]:
            status[row] = f"{names[1]}: {written[1][row]!r} and itself are no link"
        if status[row] != OK and strict:
            raise DataError(f"{path}, line {line}, {status[row]}; mend the row, or do without strict to pass over it.")
    if all(each != OK for each in status):
        raise DataError(f"{path}, line {cells.lines[0]}, {status[0]}; none of the rows names two nodes.")
    return PairTable(path, cells.frame, ends[0], ends[1], status)
