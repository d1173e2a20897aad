"""Arrays as edges of one graph: the functions behind EdgeClassifier and EdgeRegressor."""

import numpy as np

from edgewise.explain.explanation import Explanation
from edgewise.explain.methods import Choice
from edgewise.learn.estimators.graph_input import GraphEdges, plain
from edgewise.learn.estimators.graph_rows import (
    graph_inputs,
    names_of_graph,
    names_of_run,
    row_to_explain,
    scatter_targets,
)
from edgewise.learn.estimators.names import columns_called
from edgewise.learn.estimators.parameters import naming_parameters
from edgewise.learn.estimators.rows import ExtraInputs, Inputs, RowAdapter, TrainingColumns
from edgewise.learn.estimators.state import Estimator, Names
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.readers.graphs.edge_data import EdgeData, edges_from_arrays
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.readers.graphs.node_features import NodeFeatures
from edgewise.learn.tasks.edges.settings import EdgeRunSettings
from edgewise.learn.tasks.edges.task import TABLE, TASK, EdgeEncoder, explain_edge


def training_data(job: EdgeRunSettings, inputs: Inputs, columns: TrainingColumns) -> EdgeData:
    """All edges of the graph, to train on."""
    missing = job.scaling.missing
    return edges_from_arrays(
        *_features_and_edges(inputs, missing),
        columns.targets,
        columns.weights,
        task_type=columns.task_type,
        missing=missing,
        is_directed=job.graph.directed,
        names=inputs.graph_rows.names,
        feature_columns=columns_called(inputs.names, "X"),
    )


def prediction_data(trained: FittedTable[EdgeEncoder], inputs: Inputs) -> EdgeData:
    """All edges of the graph, to predict."""
    missing, num_edge_features = trained.columns.missing, len(trained.encoder.edge_scaler.mean)
    features_and_edges = _features_and_edges(inputs, missing, num_edge_features)
    is_directed = trained.encoder.on_graph.graph.directed
    return edges_from_arrays(
        *features_and_edges, missing=missing, is_directed=is_directed, names=inputs.graph_rows.names
    )


def _features_and_edges(inputs: Inputs, missing: str, num_edge_features: int = 0) -> tuple[NodeFeatures, EdgeList]:
    """The features of the nodes (width 0 without features), and the edges; see `GraphNodes.with_edge_features`."""
    rows = inputs.graph_rows.with_edge_features(num_edge_features)
    plain(inputs.owner, rows)
    if rows.features is None:
        return NodeFeatures.of(np.zeros((rows.graph.num_nodes, 0))), rows.edges
    return rows.arrays(missing)["features"], rows.edges


def _names_of_run(trained: FittedTable[EdgeEncoder]) -> Names:
    encoder = trained.encoder
    return names_of_run(encoder.on_graph, encoder.on_graph.num_columns, len(encoder.edge_scaler.mean))


EDGES = RowAdapter(
    task=TASK,
    table_task=TABLE,
    placeholders={"data": ("the edges",), "nodes": "the nodes"},
    names_of_run=_names_of_run,
    training_data=training_data,
    prediction_data=prediction_data,
    inputs=graph_inputs(GraphEdges),
    names_of_rows=names_of_graph,
    to_all_rows=scatter_targets,
    adds_rows=False,
)
"""The adapter of EdgeClassifier and EdgeRegressor."""


@naming_parameters
def explain(
    estimator: Estimator,
    item: object,
    extra_inputs: ExtraInputs,
    *,
    edge: int | None,
    target: str | None,
    label: object,
    hops: int | None,
    methods: Choice,
) -> Explanation:
    """One edge, explained: what its two nodes attend to, and what changes its prediction."""
    trained = estimator.trained
    inputs, number = row_to_explain(estimator, EDGES, item, edge, "edge", extra_inputs)
    return explain_edge(
        trained, prediction_data(trained, inputs), number, hops=hops, target=target, label=label, methods=methods
    )
