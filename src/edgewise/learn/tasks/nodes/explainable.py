"""Nodes of a graph, as the methods of explanation and an `Explainer` see them."""

from typing import Any

from edgewise.explain.explainable import Explainable
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.readers.graphs.nodes import NodeData, read_nodes
from edgewise.learn.tables.columns import AUTO
from edgewise.learn.tasks.explainable import Names, checked_row, explainable_by_name, explaining
from edgewise.learn.tasks.graph_explainable import row_item
from edgewise.learn.tasks.nodes.encoder import NodeEncoder
from edgewise.learn.tasks.nodes.settings import SETTINGS, NodeRunSettings
from edgewise.learn.tasks.nodes.task import TABLE


def node_item(trained: FittedTable[NodeEncoder], data: NodeData, node: int, **options: Any) -> Explainable:
    """The prediction for a node, a row of the data; `options` and errors are those of `row_item`."""
    title = checked_row("node", data, node, data.names)
    return row_item(trained, data, node, names=data.names, title=title, **options)


explain_node = explaining(node_item)


def read_known(trained: FittedTable[NodeEncoder], settings: NodeRunSettings) -> NodeData:
    """The graph that a model was trained on."""
    columns = trained.columns.to_predict(node_column=settings.columns.node_column or AUTO)
    return read_nodes(settings.data, columns, settings.graph, **trained.encoder.reading)


EXPLAINABLE = explainable_by_name(
    declared=SETTINGS,
    load=TABLE.load,
    read=read_known,
    row_noun="node",
    rows_in_words="the nodes of a graph",
    call="explain(features, edges, node)",
    fields=lambda data: [(data.rows.columns.node_column or "node", "node")],
    names=lambda data: Names("node", data.names),
    model_name=lambda trained: trained.encoder.on_graph.settings.model,
    item=node_item,
)
