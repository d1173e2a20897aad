"""The cells of graphs: in a table of their own, or in the table of their nodes."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edgewise.errors import DataError
from edgewise.learn.readers.graphs.source import GraphColumns
from edgewise.learn.tables.cell import Problems, is_missing, read_number, stripped
from edgewise.learn.tables.read import Cells, check_columns_exist, pd, read_cells


def graph_of_rows(cells: Cells, column: str) -> list[str]:
    """The name of the graph in each row.

    Raises:
        DataError: the column is missing, or a cell of it is empty.
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
        DataError: the file cannot be used, or lists a graph twice.
    """
    cells = read_cells(path)
    names = graph_of_rows(cells, columns.graph_column)
    check_columns_exist(cells, columns.of_graphs if need_targets else columns.graph_feature_columns)

    first: dict[str, int] = {}
    for row, name in enumerate(names):
        if first.setdefault(name, row) != row:
            raise DataError(
                f"{cells.source}, line {cells.lines[row]}, column {columns.graph_column!r}: the graph {name!r} is "
                f"also in line {cells.lines[first[name]]}; give each one row."
            )

    named = cells.frame.assign(**{columns.graph_column: names})
    return replace(cells, frame=named, written=cells.as_written)


def cells_of_graphs(
    cells: Cells, names: Sequence[str], columns: GraphColumns, need_targets: bool
) -> tuple[Cells, Problems]:
    """The cells of graphs in a table of nodes: each is written at one node of a graph, at several, or at all of them.

    Args:
        cells: the table of nodes.
        names: the graph of each node.
        columns: the role of each column.
        need_targets: False for graphs to predict: targets may be missing there, or disagree.

    Returns:
        A row for each graph in the order in which they occur, its line that of its first node; and the graphs of
        which two nodes disagree, or no node has a target.
    """
    check_columns_exist(cells, columns.of_graphs if need_targets else columns.graph_feature_columns)
    number_of_graph: dict[str, int] = {}
    graph_of_row = [number_of_graph.setdefault(name, len(number_of_graph)) for name in names]
    firsts = np.unique(np.array(graph_of_row), return_index=True)[1]

    problems, frame = Problems(), {columns.graph_column: list(number_of_graph)}
    for column in (name for name in columns.of_graphs if name in cells.frame):
        value = [""] * len(number_of_graph)
        row_of = [-1] * len(number_of_graph)
        for row, (graph, cell) in enumerate(zip(graph_of_row, cells.frame[column], strict=True)):
            if is_missing(cell):
                continue
            if row_of[graph] < 0:
                value[graph], row_of[graph] = cell.strip(), row
            elif not _same(cell.strip(), value[graph]) and (need_targets or column in columns.graph_feature_columns):
                lines = cells.lines[[row_of[graph], row]]
                reason = f"the graph has {value[graph]!r} in line {lines[0]} and {cell.strip()!r} in line {lines[1]}"
                problems.add(graph, column, cell, reason)
        frame[column] = value

    if need_targets:
        for graph in range(len(number_of_graph)):
            if all(frame[name][graph] == "" for name in columns.target_columns):
                problems.add(graph, columns.target_columns[0], "", "no node of the graph has a target")

    graph_cells = Cells(cells.files, cells.file_of_row[firsts], pd.DataFrame(frame, dtype=str), cells.lines[firsts])
    return graph_cells, problems


def _same(one: str, other: str) -> bool:
    """Whether two cells are equal: as words, or as numbers."""
    return one == other or read_number(one)[0] == read_number(other)[0]
