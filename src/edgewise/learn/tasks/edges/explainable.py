"""Edges of a graph, as the methods of explanation and an `Explainer` see them."""

from typing import Any

import numpy as np

from edgewise.errors import DataError, plural
from edgewise.explain.explainable import Explainable
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.readers.graphs.edge_data import EdgeData, read_edge_data
from edgewise.learn.tables.columns import AUTO
from edgewise.learn.tasks.edges.settings import SETTINGS, EdgeRunSettings
from edgewise.learn.tasks.edges.task import TABLE, EdgeEncoder
from edgewise.learn.tasks.explainable import (
    Names,
    Row,
    RowsByName,
    checked_row,
    explainable_by_name,
    explaining,
    title_of,
)
from edgewise.learn.tasks.graph_explainable import row_item

NOTE = (
    "The prediction also reads the features of both nodes and of the edge directly: they stay where the edge is "
    "removed as a link, which then carries no messages."
)


def edge_item(trained: FittedTable[EdgeEncoder], data: EdgeData, row: int, **options: Any) -> Explainable:
    """The prediction for an edge, a row of the data; `options` and errors are those of `row_item`.

    An end that is removed loses its features, any other node its edges.
    """
    checked_row("edge", data, row)
    (ends,) = data.ends(np.array([row]))
    notes, is_directed = [NOTE], trained.encoder.on_graph.graph.directed
    if (count := len(data.between(*ends, is_directed))) > 1:
        notes.append(f"{plural(count, 'edge joins', 'edges join')} these nodes; the one in row {row} is explained.")
    title = title_of(data.names, ends, is_directed)
    return row_item(trained, data, row, names=data.names, title=title, notes=notes, **options)


explain_edge = explaining(edge_item)


def read_known(trained: FittedTable[EdgeEncoder], settings: EdgeRunSettings) -> EdgeData:
    """The edges of the graph that a model was trained on."""
    columns = trained.columns.to_predict(node_column=settings.columns.node_column or AUTO)
    words = trained.encoder.on_graph.known_words
    return read_edge_data(settings.data, columns, settings.graph, settings.nodes, **words)


def find_edge(rows: RowsByName[FittedTable[EdgeEncoder], EdgeData], names: Row) -> int:
    """The first edge between two nodes, by their names."""
    data, is_directed = rows.data, rows.trained.encoder.on_graph.graph.directed
    ends = rows.names.ends(data.edges.columns, names)
    if not len(between := data.between(*ends, is_directed)):
        title = title_of(data.names, ends, is_directed)
        raise DataError(f"the edge {title} does not exist; name the two nodes of an edge of the graph.")
    return int(between[0])


EXPLAINABLE = explainable_by_name(
    declared=SETTINGS,
    load=TABLE.load,
    read=read_known,
    unit="edge",
    over="the edges of a graph",
    call="explain(graph, edge=…)",
    fields=lambda data: [(column, "node") for column in data.edges.columns],
    names=lambda data: Names("node", data.names),
    model_name=lambda trained: trained.encoder.on_graph.settings.model,
    item=edge_item,
    find=find_edge,
)
