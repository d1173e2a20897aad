"""What a table of nodes, or a table of graphs, says of whole graphs: one row of cells a graph."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edgewise.data.graphs.columns import GraphColumns
from edgewise.data.tables.cell import Problems, is_missing, read_number, stripped
from edgewise.data.tables.read import Cells, check_columns_exist, pd, read_cells
from edgewise.errors import DataError


def graph_of_rows(cells: Cells, column: str) -> list[str]:
    """The name of the graph in each row.

    Raises:
        DataError: there is no such column, or a cell of it is empty.
    """
    check_columns_exist(cells, (column,))
    names = stripped(cells.frame[column]).to_pylist()
    if "" in names:
        row = names.index("")
        raise DataError(f"{cells.source}, line {cells.lines[row]}, column {column!r}: the cell names no graph.")
    return names


def read_graph_cells(path: str, columns: GraphColumns, need_targets: bool) -> Cells:
    """A table of graphs, each of which it names once.

    Raises:
        DataError: the file cannot be used, or a graph stands in it twice.
    """
    cells = read_cells(path)
    names = graph_of_rows(cells, columns.graph_column)
    check_columns_exist(cells, columns.of_graphs if need_targets else columns.graph_feature_columns)
    first: dict[str, int] = {}
    for row, name in enumerate(names):
        if first.setdefault(name, row) != row:
            raise DataError(
                f"{cells.source}, line {cells.lines[row]}, column {columns.graph_column!r}: the graph {name!r} stands "
                f"in line {cells.lines[first[name]]} too; give each one row."
            )
    return replace(cells, frame=cells.frame.assign(**{columns.graph_column: names}))


def cells_of_graphs(
    cells: Cells, names: Sequence[str], columns: GraphColumns, need_targets: bool
) -> tuple[Cells, Problems]:
    """What a table of nodes says of graphs: each cell stands at one node of a graph, at several, or at all of them.

    Args:
        cells: the table of nodes.
        names: the graph of each node.
        columns: which column says what.
        need_targets: False for graphs to predict: targets may be missing there, and contradict each other.

    Returns:
        A row for each graph in the order in which they occur, its line that of its first node; and the graphs of
        which two nodes say different things, or none says a target.
    """
    check_columns_exist(cells, columns.of_graphs if need_targets else columns.graph_feature_columns)
    place: dict[str, int] = {}
    graph_of_row = [place.setdefault(name, len(place)) for name in names]
    firsts = np.unique(np.array(graph_of_row), return_index=True)[1]
    problems, frame = Problems(), {columns.graph_column: list(place)}
    for column in (name for name in columns.of_graphs if name in cells.frame):
        said = [""] * len(place)
        row_of = [-1] * len(place)
        for row, (graph, cell) in enumerate(zip(graph_of_row, cells.frame[column], strict=True)):
            if is_missing(cell):
                continue
            if row_of[graph] < 0:
                said[graph], row_of[graph] = cell.strip(), row
            elif not _same(cell.strip(), said[graph]) and (need_targets or column in columns.graph_feature_columns):
                lines = cells.lines[[row_of[graph], row]]
                reason = f"the graph says {said[graph]!r} in line {lines[0]} and {cell.strip()!r} in line {lines[1]}"
                problems.add(graph, column, cell, reason)
        frame[column] = said
    if need_targets:
        for graph in range(len(place)):
            if all(frame[name][graph] == "" for name in columns.target_columns):
                problems.add(graph, columns.target_columns[0], "", "no node of the graph has a target")
    found = Cells(cells.files, cells.file_of_row[firsts], pd.DataFrame(frame, dtype=str), cells.lines[firsts])
    return found, problems


def _same(one: str, other: str) -> bool:
    """Whether two cells say the same: as words, or as numbers."""
    return one == other or read_number(one)[0] == read_number(other)[0]
