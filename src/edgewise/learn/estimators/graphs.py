"""Arrays as graphs, each a row: the functions behind GraphClassifier and GraphRegressor."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from edgewise.errors import DataError, plural, refuse_single_text
from edgewise.explain.explanation import Explanation
from edgewise.explain.methods import Choice
from edgewise.learn.estimators.graph_input import GraphNodes, is_graph, one_by_one, plain_nodes
from edgewise.learn.estimators.graph_warnings import warn_of_degrees, warn_of_ignored_edges
from edgewise.learn.estimators.names import RowsLike, column_names, columns_called, complete_names, in_order, one_row
from edgewise.learn.estimators.numbers import unwrapped
from edgewise.learn.estimators.parameters import naming_parameters
from edgewise.learn.estimators.row_methods import fingerprint as row_fingerprint
from edgewise.learn.estimators.rows import ExtraInputs, Inputs, RowAdapter, TrainingColumns, table_inputs, without_none
from edgewise.learn.estimators.state import Estimator, Names, names_of, warn_caller
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.readers.graphs.graphs import GraphData, GraphRow, graphs_from_arrays
from edgewise.learn.tables.read import Values
from edgewise.learn.tasks.graphs.explainable import explain_graph
from edgewise.learn.tasks.graphs.settings import GraphRunSettings
from edgewise.learn.tasks.graphs.task import TABLE, TASK, GraphsEncoder

PARTS = {0: "features", 2: "edge_features"}
"""The places of features of nodes and of edges in a graph that is a tuple."""


def training_data(job: GraphRunSettings, inputs: Inputs, columns: TrainingColumns) -> GraphData:
    """The graphs, to train on."""
    graphs = graphs_of(inputs.X, inputs.names)
    return graphs_from_arrays(
        graphs,
        columns.targets,
        columns.weights,
        columns.groups,
        graph_features_of(graphs, inputs.extra.get("graph_features")),
        task_type=columns.task_type,
        need_roots=job.whole.needs_roots,
        missing="impute",
        feature_columns=columns_called(inputs.names, PARTS[0]),
        edge_feature_columns=columns_called(inputs.names, PARTS[2]),
    )


def prediction_data(trained: FittedTable[GraphsEncoder], inputs: Inputs) -> GraphData:
    """The graphs, to predict; one that cannot be used keeps its place."""
    missing = trained.columns.missing
    graphs = graphs_of(inputs.X, inputs.names, missing, len(trained.encoder.scales.edge.mean))
    return graphs_from_arrays(
        graphs,
        graph_features=graph_features_of(graphs, inputs.extra.get("graph_features")),
        need_roots=trained.encoder.whole.needs_roots,
        missing=missing,
    )


def _names_of_graphs(X: object) -> Names:
    """The names of the features of nodes and of edges, where the first graph is a tuple with DataFrames of them."""
    first = next(iter(one_by_one(X)), None)
    if not isinstance(first, tuple):
        return {}
    names = {part: column_names("graph 0", first[place]) for place, part in PARTS.items() if place < len(first)}
    return {part: columns for part, columns in names.items() if columns}


def _names_of_run(trained: FittedTable[GraphsEncoder]) -> Names:
    """The names of the features of nodes, of edges and of graphs as a whole that a run of the command line was trained
    on."""
    encoder, scales = trained.encoder, trained.encoder.scales
    whole = encoder.columns.graph_feature_columns
    return complete_names(
        features=(encoder.columns.descriptors_columns, len(scales.node.mean) - 2 * encoder.adds_degrees),
        edge_features=(encoder.graph.edge_feature_columns, len(scales.edge.mean)),
        graph_features=(whole, len(whole)),
    )


def _check(job: GraphRunSettings, data: GraphData) -> None:
    """Warn where nothing is known of the nodes, and where the model ignores the features of edges."""
    warn_of_degrees(data)
    warn_of_ignored_edges(job.model, data.edges.features.shape[1])


def targets_of(graphs: object, y: RowsLike | None) -> RowsLike:
    """The targets of graphs: y, or the attribute `y` of each.

    Raises:
        DataError: Neither is there, or not as many as graphs.
    """
    refuse_single_text("y", y)
    graphs = one_by_one(graphs)
    if y is None:
        targets = [getattr(graph, "y", None) for graph in graphs]
        if any(target is None for target in targets):
            raise DataError("fit: y is missing; hand over the targets, or graphs that all have y.")
        values = [np.asarray(unwrapped(target)) for target in targets]
        if any(value.size != 1 for value in values):
            raise DataError("fit: y of a graph holds several values; hand over y (row, target).")
        return np.array([value.reshape(-1)[0] for value in values])
    if len(y) != len(graphs):
        raise DataError(f"fit: y has {plural(len(y), 'row')}, but X has {plural(len(graphs), 'graph')}.")
    return y


GRAPHS = RowAdapter(
    task=TASK,
    table_task=TABLE,
    placeholders={"data": ("the graphs",)},
    names_of_run=_names_of_run,
    training_data=training_data,
    prediction_data=prediction_data,
    targets=targets_of,
    rows=lambda X: list(one_by_one(X)),
    names_of_rows=_names_of_graphs,
    check=_check,
)
"""The adapter of GraphClassifier and GraphRegressor."""


def fingerprint(estimator: Estimator, X: object) -> np.ndarray:
    """(row, dim): the learned vector of each graph, without its numbers as a whole; NaN where it cannot be used."""
    trained = estimator.trained
    names, num_edge_features = table_inputs(estimator, X, {}).names, len(trained.encoder.scales.edge.mean)
    graphs = graphs_of(X, names, trained.columns.missing, num_edge_features)
    ignored = np.zeros((len(graphs), len(trained.columns.graph_feature_columns)))
    rows = [replace(graph, graph_features=None) for graph in graphs]
    return row_fingerprint(estimator, GRAPHS, rows, {"graph_features": ignored})


@naming_parameters
def explain(
    estimator: Estimator, item: object, extra_inputs: ExtraInputs, *, target: str | None, label: object, methods: Choice
) -> Explanation:
    """One graph, explained: where the model attends, and what changes the prediction."""
    trained = estimator.trained
    names = trained.columns.graph_feature_columns
    row = one_row("graph_features", extra_inputs["graph_features"], names_of(estimator, "graph_features"), names)
    if not hasattr(row, "columns"):
        row = None if row is None else [unwrapped(row)]
    if (count := len(one_by_one([item]))) != 1:
        raise DataError(f"item holds {plural(count, 'graph')}; an explanation is of one.")
    inputs = table_inputs(estimator, [item], without_none({"graph_features": row}))
    return explain_graph(trained, prediction_data(trained, inputs), 0, target=target, label=label, methods=methods)


def graphs_of(
    graphs: object, names: Names | None = None, missing: str = "impute", num_edge_features: int | None = None
) -> list[GraphRow]:
    """Graphs, whatever holds them.

    Args:
        graphs: The graphs.
        names: Of the features of nodes and of edges in the order of the training, where DataFrames hold them, by
            `PARTS`; by default those of the first graph.
        missing: As in `GraphNodes.arrays`.
        num_edge_features: As in `GraphNodes.with_edge_features`; by default the largest number of a graph.

    Raises:
        DataError: There is none, or one is held in no known way; the message counts it from 0.
    """
    graphs = one_by_one(graphs)
    if not len(graphs):
        raise DataError("X is empty; expected at least one graph.")
    names = names or _names_of_graphs(graphs)
    with warnings.catch_warnings(record=True) as caught:  # graphs of one list often give the same warning
        warnings.simplefilter("always")
        of_nodes = [_nodes_of(number, _with_features(number, graph, names)) for number, graph in enumerate(graphs)]
        if num_edge_features is None:
            num_edge_features = max(nodes.edges.features.shape[1] for nodes in of_nodes)
        rows = [_row_of(number, nodes, missing, num_edge_features) for number, nodes in enumerate(of_nodes)]
    for text, category in dict.fromkeys((str(warning.message), warning.category) for warning in caught):
        warn_caller(text, category)
    return rows


def _with_features(number: int, graph: object, names: Names) -> object:
    """A graph with its features in the order of the training, where DataFrames name them."""
    if not isinstance(graph, tuple):
        return graph
    parts = list(graph)
    for place, part in PARTS.items():
        if place < len(parts) and names.get(part):
            parts[place] = in_order(f"graph {number}", parts[place], names[part])
    return tuple(parts)


def _nodes_of(number: int, graph: object) -> GraphNodes | GraphRow:
    """The nodes of one graph, whatever holds it."""
    if isinstance(graph, GraphRow):
        return graph
    parts = graph
    if not isinstance(graph, tuple) and not is_graph(graph) and hasattr(graph, "edge_index"):
        parts = (getattr(graph, "x", None), graph.edge_index, getattr(graph, "edge_attr", None))
    if not is_graph(parts) or (isinstance(parts, tuple) and len(parts) not in (2, 3)):
        raise DataError(
            f"graph {number} is a {type(graph).__name__}; expected a Graph, (features, edges), (features, edges, "
            "edge_features), or an object with x and edge_index."
        )
    with _naming_graph(number):
        return plain_nodes("the model", *(parts if isinstance(parts, tuple) else (parts,)))


def _row_of(number: int, nodes: GraphNodes | GraphRow, missing: str, num_edge_features: int) -> GraphRow:
    if isinstance(nodes, GraphRow):
        return nodes
    with _naming_graph(number):
        arrays, whole = nodes.with_edge_features(num_edge_features).arrays(missing), nodes.graph.graph_features
        features = None if whole is None else np.asarray(unwrapped(whole))
        return GraphRow(arrays["features"].to_dense(), arrays["edges"], features)


@contextmanager
def _naming_graph(number: int) -> Iterator[None]:
    """A DataError says which graph it is about."""
    try:
        yield
    except DataError as error:
        raise DataError(f"graph {number}: {str(error).removeprefix('edges: ')}") from error


def graph_features_of(graphs: Sequence[GraphRow], graph_features: Values | None) -> Values | None:
    """(row, feature): the numbers of each graph as a whole that were given, or those that the graphs have.

    Raises:
        DataError: Both are there, or graphs have different numbers of them.
    """
    parts = [np.zeros((1, 0)) if graph.graph_features is None else graph.graph_features for graph in graphs]
    counts = [part.shape[1] for part in parts]
    if not any(counts):
        return graph_features
    if graph_features is not None:
        raise DataError("graph_features came twice: with the graphs and as an argument; give them once.")
    for number, count in enumerate(counts):
        if count != counts[0]:
            raise DataError(f"graph {number} has {count} graph_features, but graph 0 has {counts[0]}.")
    return np.concatenate(parts)
