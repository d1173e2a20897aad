"""Edges of a graph, as the methods of explanation and an `Explainer` see them."""

from typing import Any

import numpy as np

from edgewise.errors import DataError, plural
from edgewise.explain.explainable import Explainable
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.readers.graphs.edge_data import EdgeData, read_edge_data
from edgewise.learn.tasks.edges.settings import SETTINGS, EdgeRunSettings
from edgewise.learn.tasks.edges.task import TABLE, EdgeEncoder
from edgewise.learn.tasks.explainable import (
    Names,
    RowsByName,
    checked_row,
    data_of_run,
    explainable_by_name,
    explaining,
    own_names,
    title_of,
)
from edgewise.learn.tasks.graph_explainable import row_item
from edgewise.learn.training.folder import RunFolder

NOTE = (
    "The prediction also reads the features of both nodes and of the edge directly: they stay where the edge is "
    "removed as a link, which then carries no messages."
)


def edge_item(trained: FittedTable[EdgeEncoder], data: EdgeData, row: int, **options: Any) -> Explainable:
    """The prediction for an edge, a row of the data; `options` and errors are those of `row_item`.

    An end that is removed loses its features, any other node its edges.
    """
    checked_row("edge", data, row)
    ((sender, receiver),) = data.ends(np.array([row]))
    notes, is_directed = [NOTE], trained.encoder.on_graph.graph.directed
    if (count := len(rows_between(data, sender, receiver, is_directed))) > 1:
        notes.append(f"{plural(count, 'edge joins', 'edges join')} these nodes; the one in row {row} is explained.")
    title = title_of(data.names[sender], data.names[receiver], is_directed)
    return row_item(trained, data, row, names=data.names, title=title, notes=notes, **options)


explain_edge = explaining(edge_item)


def rows_between(data: EdgeData, sender: int, receiver: int, is_directed: bool) -> np.ndarray:
    """The rows of the edges from one node to another, or between both where edges go both ways."""
    edges = data.edges
    joins = (edges.senders == sender) & (edges.receivers == receiver)
    if not is_directed:
        joins |= (edges.senders == receiver) & (edges.receivers == sender)
    return np.flatnonzero((data.edge_of_row >= 0) & joins[data.edge_of_row])


def read_rows(folder: RunFolder) -> RowsByName:
    """The edges of the graph that a model was trained on."""
    trained = TABLE.load(folder)

    def read_data(settings: EdgeRunSettings) -> EdgeData:
        columns, words = trained.columns.to_predict(**own_names(settings.columns)), trained.encoder.on_graph.known_words
        return read_edge_data(settings.data, columns, settings.graph, settings.nodes, **words)

    data = data_of_run(folder, SETTINGS, "graph", "explain(graph, edge=…)", read_data)
    names, is_directed = Names("node", data.names), trained.encoder.on_graph.graph.directed

    def find(*ends: str) -> int:
        """The first edge between two nodes, by their names."""
        columns = data.edges.columns
        sender, receiver = (names.row(name, f"{column}: ") for column, name in zip(columns, ends, strict=True))
        rows = rows_between(data, sender, receiver, is_directed)
        if not len(rows):
            title = title_of(data.names[sender], data.names[receiver], is_directed)
            raise DataError(f"the edge {title} does not exist; name the two nodes of an edge of the graph.")
        return int(rows[0])

    return RowsByName(trained, data, "edge", find)


EXPLAINABLE = explainable_by_name(
    load=read_rows,
    over="the edges of a graph",
    fields=lambda rows: [(column, "node") for column in rows.data.edges.columns],
    model_name=lambda rows: rows.trained.encoder.on_graph.settings.model,
    item=edge_item,
)
