"""Nodes of a graph, as the methods of explanation and an `Explainer` see them."""

from typing import Any

from edgewise.explain.explainable import Explainable
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.readers.graphs.nodes import NodeData, read_nodes
from edgewise.learn.tasks.explainable import (
    Names,
    RowsByName,
    checked_row,
    data_of_run,
    explainable_by_name,
    explaining,
    own_names,
)
from edgewise.learn.tasks.graph_explainable import row_item
from edgewise.learn.tasks.nodes.encoder import NodeEncoder
from edgewise.learn.tasks.nodes.settings import SETTINGS, NodeRunSettings
from edgewise.learn.tasks.nodes.task import TABLE
from edgewise.learn.training.folder import RunFolder


def node_item(trained: FittedTable[NodeEncoder], data: NodeData, node: int, **options: Any) -> Explainable:
    """The prediction for a node, a row of the data; `options` and errors are those of `row_item`."""
    title = checked_row("node", data, node, data.names)
    return row_item(trained, data, node, names=data.names, title=title, **options)


explain_node = explaining(node_item)


def read_rows(folder: RunFolder) -> RowsByName:
    """The nodes of the graph that a model was trained on."""
    trained = TABLE.load(folder)

    def read_data(settings: NodeRunSettings) -> NodeData:
        columns = trained.columns.to_predict(**own_names(settings.columns))
        return read_nodes(settings.data, columns, settings.graph, **trained.encoder.reading)

    data = data_of_run(folder, SETTINGS, "graph", "explain(features, edges, node)", read_data)
    return RowsByName(trained, data, "node", Names("node", data.names).row)


EXPLAINABLE = explainable_by_name(
    load=read_rows,
    over="the nodes of a graph",
    fields=lambda rows: [(rows.data.rows.columns.node_column or "node", "node")],
    model_name=lambda rows: rows.trained.encoder.on_graph.settings.model,
    item=node_item,
)
