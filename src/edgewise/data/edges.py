"""Who is connected with whom: a table of edges, each row the names of two nodes and what is known of the edge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Int64

from edgewise.data.cell import Rejection, is_missing, read_number
from edgewise.data.kind_names import Named
from edgewise.data.read import Cells, check_columns_exist, read_cells
from edgewise.errors import DataError
from edgewise.neighborhood.index import one_way


@dataclass(frozen=True, eq=False)
class EdgeList:
    """Edges between nodes that are counted from 0; information flows from sender to receiver."""

    senders: Int64[np.ndarray, " edge"]
    """Where each edge begins."""
    receivers: Int64[np.ndarray, " edge"]
    """Where it ends."""
    features: Float32[np.ndarray, " edge edge_feature"]
    """What is known of each edge; of size 0 where nothing is."""
    num_mirrored: int = 0
    """How many were added, because the other way was missing."""
    rejected: tuple[Rejection, ...] = ()
    """Rows of the table that are no edge, in file order."""
    kinds: Named | None = None
    """What each edge is called, where they have names; not of edges that were added."""

    def __len__(self) -> int:
        return len(self.senders)

    @property
    def num_loops(self) -> int:
        """Edges from a node to itself."""
        return int((self.senders == self.receivers).sum())

    def num_repeated(self, num_nodes: int) -> int:
        """Edges that another one before them already is."""
        return len(self) - len(np.unique(self.senders * num_nodes + self.receivers))

    def num_isolated(self, num_nodes: int) -> int:
        """Nodes that no edge but their own loop touches."""
        apart = self.senders != self.receivers
        return num_nodes - len(np.unique(np.concatenate([self.senders[apart], self.receivers[apart]])))

    def taken(self, order: np.ndarray) -> "EdgeList":
        """Some of the edges, in an order."""
        sides = {"senders": self.senders[order], "receivers": self.receivers[order]}
        return replace(self, **sides, features=self.features[order])

    def both_ways(self, num_nodes: int) -> "EdgeList":
        """The same edges and, behind them, the other way of each that has none, with the same features.

        Which those are is the rule of `Edges.undirected`: multi-edges are mirrored one by one.
        """
        added = one_way(torch.from_numpy(self.senders), torch.from_numpy(self.receivers), num_nodes).numpy()
        return EdgeList(
            np.concatenate([self.senders, self.receivers[added]]),
            np.concatenate([self.receivers, self.senders[added]]),
            np.concatenate([self.features, self.features[added]]),
            len(added),
            self.rejected,
        )


def read_edges(
    path: str | Path,
    place_of_node: Mapping[str, int],
    nodes: str,
    *,
    edge_columns: Sequence[str] = (),
    feature_columns: Sequence[str] = (),
    type_column: str | None = None,
    strict: bool = False,
) -> EdgeList:
    """Read a table of edges, as they stand there: none is mirrored, joined or dropped but those that name no node.

    Args:
        path: .csv, .tsv, .csv.gz, .tsv.gz or .parquet.
        place_of_node: the nodes by their names.
        nodes: what messages call the table of nodes.
        edge_columns: sender and receiver; the first two columns by default.
        feature_columns: numbers of the edge.
        type_column: what the edge is called; None where edges have no names.
        strict: stop at the first row that is no edge.

    Raises:
        DataError: the file cannot be used as a whole; `strict` and a row cannot; or no row is an edge.
    """
    return edges_of_cells(
        read_cells(path),
        place_of_node,
        nodes,
        edge_columns=edge_columns,
        feature_columns=feature_columns,
        type_column=type_column,
        strict=strict,
    )[0]


def edges_of_cells(
    cells: Cells,
    place_of_node: Mapping[Any, int],
    nodes: str,
    *,
    edge_columns: Sequence[str] = (),
    feature_columns: Sequence[str] = (),
    type_column: str | None = None,
    graph_column: str | None = None,
    strict: bool = False,
) -> tuple[EdgeList, Int64[np.ndarray, " edge"]]:
    """The edges of a table that has been read, and the line of each; see `read_edges`.

    Args:
        graph_column: the column that names the graph of an edge, where nodes are known by graph and name.
    """
    names = tuple(edge_columns) or tuple(name for name in cells.frame.columns if name != graph_column)[:2]
    if len(names) != 2:
        raise DataError(f"{cells.source}: {len(names)} columns name nodes, expected two: sender and receiver.")
    typed = () if type_column is None else (type_column,)
    check_columns_exist(cells, (*names, *feature_columns, *typed))
    sides: list[list[Any]] = [[name.strip() for name in cells.frame[column]] for column in names]
    if graph_column is not None:
        graphs = [graph.strip() for graph in cells.frame[graph_column]]
        sides = [list(zip(graphs, side, strict=True)) for side in sides]
    places = [[place_of_node.get(node, -1) for node in side] for side in sides]
    features = np.zeros((len(cells.frame), len(feature_columns)), dtype=np.float32)
    rejected = _unknown(cells, names, places, nodes, graph_column)
    for place, column in enumerate(feature_columns):
        for row, cell in enumerate(cells.frame[column]):
            features[row, place], reason = read_number(cell)
            if reason and row not in rejected:
                rejected[row] = Rejection(cells.source, int(cells.lines[row]), column, cell, reason)
    for column in typed:
        for row, cell in enumerate(cells.frame[column]):
            if is_missing(cell) and row not in rejected:
                rejected[row] = Rejection(cells.source, int(cells.lines[row]), column, cell, "the edge has no kind")
    listed = tuple(rejected[row] for row in sorted(rejected))
    if listed and (strict or len(listed) == len(cells.frame)):
        first = listed[0]
        advice = "mend the row, or do without strict to pass over it" if strict else "none of the rows is an edge"
        raise DataError(f"{first.file}, line {first.row}, column {first.column!r}: {first.reason}; {advice}.")
    good = np.array([row not in rejected for row in range(len(cells.frame))], dtype=bool)
    senders, receivers = (np.array(side, dtype=np.int64)[good] for side in places)
    kinds = None
    for column in typed:
        called = tuple(name.strip() for name in cells.frame[column][good])
        kinds = Named(called, f"{cells.source}, line ", cells.lines[good], f", column {column!r}")
    return EdgeList(senders, receivers, features[good], rejected=listed, kinds=kinds), cells.lines[good]


def _unknown(
    cells: Cells, names: Sequence[str], places: Sequence[list[int]], nodes: str, graph_column: str | None
) -> dict[int, Rejection]:
    """The rows that name a node which is not there."""
    found: dict[int, Rejection] = {}
    for column, side in zip(names, places, strict=True):
        for row, place in enumerate(side):
            if place < 0 and row not in found:
                cell = cells.frame[column].iloc[row]
                home = nodes
                if graph_column is not None:
                    home = f"the graph {cells.frame[graph_column].iloc[row].strip()!r} in {nodes}"
                reason = f"{cell.strip()!r} is not a node of {home}" if cell.strip() else "the cell names no node"
                found[row] = Rejection(cells.source, int(cells.lines[row]), column, cell, reason)
    return found
