"""Arrays as nodes of one graph: the functions behind NodeClassifier and NodeRegressor."""

from edgewise.errors import DataError, SettingError
from edgewise.explain.explanation import Explanation
from edgewise.explain.methods import Choice
from edgewise.learn.estimators.graph_input import GraphNodes
from edgewise.learn.estimators.graph_rows import (
    graph_inputs,
    names_of_graph,
    names_of_nodes,
    names_of_run,
    row_to_explain,
    scatter_targets,
)
from edgewise.learn.estimators.graph_warnings import warn_of_degrees
from edgewise.learn.estimators.names import columns_called
from edgewise.learn.estimators.parameters import AUTO, naming_parameters
from edgewise.learn.estimators.rows import ExtraInputs, Inputs, RowAdapter, TrainingColumns
from edgewise.learn.estimators.state import Estimator, Names
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.readers.graphs.nodes import NodeData, nodes_from_arrays
from edgewise.learn.tasks.nodes.settings import DEFAULT_TYPED_MODEL, NodeRunSettings
from edgewise.learn.tasks.nodes.task import TABLE, TASK, NodeEncoder, explain_node


def training_data(job: NodeRunSettings, inputs: Inputs, columns: TrainingColumns) -> NodeData:
    """All nodes of the graph, to train on."""
    missing, arrays = job.scaling.missing, inputs.graph_rows.arrays(job.scaling.missing)
    arrays["edges"] = arrays["edges"].with_direction(inputs.graph_rows.graph.num_nodes)
    return nodes_from_arrays(
        **arrays,
        feature_columns=columns_called(inputs.names, "X"),
        targets=columns.targets,
        weights=columns.weights,
        task_type=columns.task_type,
        missing=missing,
    )


def prediction_data(trained: FittedTable[NodeEncoder], inputs: Inputs) -> NodeData:
    """All nodes of the graph, to predict."""
    missing = trained.columns.missing
    rows = inputs.graph_rows.with_edge_features(trained.encoder.num_edge_columns)
    arrays, num_columns = rows.arrays(missing), num_features(trained)
    if (count := arrays["features"].shape[1]) != num_columns:
        raise DataError(f"X has {count} features, but {inputs.owner} is expecting {num_columns} features as input.")
    if trained.encoder.types is None and (arrays["types"] is not None or arrays["edges"].types is not None):
        raise SettingError("the model does not use types; leave out node_types and edge_types.")
    return nodes_from_arrays(**arrays, model_types=trained.encoder.types, missing=missing)


def num_features(trained: FittedTable[NodeEncoder]) -> int:
    """Features of a node as X has them: without the degrees that some types have."""
    if trained.encoder.on_graph.has_degrees:
        return 0
    return trained.encoder.on_graph.num_columns - (
        0 if trained.encoder.types is None else trained.encoder.types.num_added
    )


def _names_of_run(trained: FittedTable[NodeEncoder]) -> Names:
    encoder = trained.encoder
    return names_of_run(encoder.on_graph, num_features(trained), encoder.num_edge_columns)


def _model_for_types(estimator: Estimator, inputs: Inputs) -> dict[str, object]:
    """Without a name the model is the default, or that for types where the graph has them."""
    rows = inputs.graph_rows
    has_types = rows.graph.node_types is not None or rows.edges.types is not None
    return {"model": DEFAULT_TYPED_MODEL} if has_types and estimator.model == AUTO else {}


def _check(job: NodeRunSettings, data: NodeData) -> None:
    """Warn where nothing is known of the nodes; raise SettingError where the model cannot use features of edges."""
    warn_of_degrees(data)
    if count := data.edges.features.shape[1]:
        remedy = "leave them out; matrix != 0 has edges without weights"
        job.model.spec.check_edge_features("edge_features", count, remedy)


NODES = RowAdapter(
    task=TASK,
    table_task=TABLE,
    placeholders={"data": ("the nodes",)},
    names_of_run=_names_of_run,
    training_data=training_data,
    prediction_data=prediction_data,
    inputs=graph_inputs(GraphNodes),
    row_names=names_of_nodes,
    names_of_rows=names_of_graph,
    fixed_settings=_model_for_types,
    to_all_rows=scatter_targets,
    adds_rows=False,
    check=_check,
    num_features=num_features,
)
"""The adapter of NodeClassifier and NodeRegressor."""


@naming_parameters
def explain(
    estimator: Estimator,
    item: object,
    extra_inputs: ExtraInputs,
    *,
    node: object,
    target: str | None,
    label: object,
    hops: int | None,
    methods: Choice,
) -> Explanation:
    """One node, explained: what it attends to, and what changes its prediction."""
    trained = estimator.trained
    inputs, number = row_to_explain(estimator, NODES, item, node, "node", extra_inputs)
    return explain_node(
        trained, prediction_data(trained, inputs), number, hops=hops, target=target, label=label, methods=methods
    )
