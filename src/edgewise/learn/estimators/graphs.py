"""GraphClassifier and GraphRegressor: many graphs, each a row."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from edgewise.errors import DataError, warned_once
from edgewise.explain.explanation import Explanation
from edgewise.explain.methods import Choice
from edgewise.formatting import plural
from edgewise.graph import Graph
from edgewise.learn.estimators.graph_input import is_graph, one_by_one, plain_nodes
from edgewise.learn.estimators.graph_warnings import warn_of_degrees, warn_of_ignored_edges
from edgewise.learn.estimators.names import column_names, in_order, one_row
from edgewise.learn.estimators.params import old_names
from edgewise.learn.estimators.table import TableClassifier, TableEstimator, TableRegressor
from edgewise.learn.networks.graph_layers import layers_for
from edgewise.learn.readers.graphs.graphs import GraphRow, graphs_from_arrays
from edgewise.learn.tasks.graphs.explainable import explain_graph
from edgewise.learn.tasks.graphs.task import TASK, FittedGraphs


class GraphEstimator(
    TableEstimator,
    task=TASK,
    fitted_type=FittedGraphs,
    required={"data": ("the graphs",)},
    options=("graph_features",),
    named=("graph_features",),
    positional={
        "predict": ("graph_features",),
        "predict_interval": ("graph_features",),
        "score": ("sample_weight",),
    },
):
    """An ensemble over many graphs.

    `data` is a list of graphs, each a `Graph`, PyTorch Geometric's `Data` or another object with `x`, `edge_index` and
    perhaps `edge_attr`, a graph of networkx, a tuple (features, edges) or (features, edges, edge_features); or a batch
    of graphs. Edges are taken as they are: give both ways where both are meant. `graph_features` (row, feature) are
    numbers of each graph as a whole.
    """

    def table_of(self, data: Any, job: Any = None, **options: Any) -> Any:
        """The graphs as a table; one to predict that cannot be used keeps its place."""
        known = graph_features_of(data, options.pop("graph_features", None))
        whole = self.trained.whole if job is None else job.whole
        if job is not None:
            options["task_type"] = job.columns.task_type
        options["missing"] = missing = "impute" if job is not None else self.trained.columns.missing
        rows = graphs_of(data, self._known_names("features"), missing)
        return graphs_from_arrays(rows, conditions=known, need_roots=whole.needs_roots, **options)

    def _learn_names(self, data: Any, y: Any, options: Mapping[str, Any]) -> None:
        super()._learn_names(data, y, options)
        if names := _feature_names(one_by_one(data)):
            self._set_names({**self.column_names_, "features": names})

    def _names_of_run(self) -> dict[str, tuple[str, ...]]:
        names = self.trained.columns.graph_feature_columns
        return {"graph_features": names} if names else {}

    def _check_job(self, job: Any, table: Any) -> None:
        warn_of_degrees(table)
        warn_of_ignored_edges(job.model, table.edges.features.shape[1])

    def _targets(self, data: Any, y: Any) -> Any:
        return targets_of(data, y)

    def _rows(self, data: Any) -> list[Any]:
        return list(one_by_one(data))

    @old_names
    def fingerprint(self, data: Any, *old: Any, **options: Any) -> np.ndarray:
        """(row, dim): the learned vector of each graph, without its numbers as a whole; NaN where it cannot be used."""
        size = len(self.trained.columns.graph_feature_columns)
        return super().fingerprint(data, graph_features=np.zeros((len(one_by_one(data)), size)))

    @old_names
    def explain(
        self,
        item: Any,
        target: str | None = None,
        label: Any = None,
        *,
        graph_features: Any = None,
        methods: Choice = None,
    ) -> Explanation:
        """One graph, explained: where the model attends, and what changes the prediction.

        Args:
            item: A graph, as in `fit`.
            target: The target that is explained; the first by default.
            label: The class whose probability is explained; the predicted one by default.
            graph_features: (feature) its numbers as a whole.
            methods: Names of methods; see `edgewise.explain.methods`.
        """
        names = self.trained.columns.graph_feature_columns
        row = one_row("graph_features", graph_features, self._known_names("graph_features"), names)
        if not hasattr(row, "columns"):
            row = None if row is None else [row]
        table = self.table_of([item], graph_features=row)
        return explain_graph(self.trained, table, 0, target=target, label=label, methods=methods)


class GraphClassifier(TableClassifier, GraphEstimator, models=layers_for("graphs"), own={"validation_size": 0.1}):
    """Predicts classes of graphs, two or more, and their probabilities.

        GraphClassifier(model="gatv2").fit(graphs, y).predict(graphs)

    y is (row); by default the `y` of each graph.
    """


class GraphRegressor(TableRegressor, GraphEstimator, models=layers_for("graphs"), own={"validation_size": 0.1}):
    """Predicts numbers of graphs, and intervals around them; y is by default the `y` of each graph."""


def graphs_of(held: Any, names: Sequence[str] = (), missing: str = "impute") -> list[GraphRow]:
    """Graphs, whatever holds them.

    Args:
        held: The graphs.
        names: Of the features of nodes in the order of the training, where DataFrames hold them; by default those of
            the first graph.
        missing: As in `GraphNodes.arrays`.

    Raises:
        DataError: There is none, or one is held in no known way; the message counts it from 0.
    """
    held = one_by_one(held)
    if not len(held):
        raise DataError("there is no graph; expected at least one.")
    names = names or _feature_names(held)
    with warned_once():
        return [_graph_of(number, _with_features(number, each, names), missing) for number, each in enumerate(held)]


def _feature_names(graphs: Any) -> tuple[str, ...]:
    """The names of the features of nodes, where the first graph is a tuple with a DataFrame of them."""
    first = next(iter(graphs), None)
    return column_names("graph 0", first[0]) if isinstance(first, tuple) and first else ()


def _with_features(number: int, held: Any, names: Sequence[str]) -> Any:
    """A graph with its features in the order of the training, where a DataFrame names them."""
    if not names or not isinstance(held, tuple) or not held:
        return held
    return (in_order(f"graph {number}", held[0], names), *held[1:])


def _graph_of(number: int, held: Any, missing: str) -> GraphRow:
    if isinstance(held, GraphRow):
        return held
    parts = held
    if not isinstance(held, tuple) and not is_graph(held) and hasattr(held, "edge_index"):
        parts = (held.x, held.edge_index, getattr(held, "edge_attr", None))
    if not is_graph(parts) or (isinstance(parts, tuple) and len(parts) not in (2, 3)):
        raise DataError(
            f"graph {number} is a {type(held).__name__}; expected a Graph, (features, edges), (features, edges, "
            "edge_features), or an object with x and edge_index."
        )
    try:
        nodes = plain_nodes("the model", *(parts if isinstance(parts, tuple) else (parts,)))
        arrays = nodes.arrays(missing)
        return GraphRow(arrays["features"].to_dense(), arrays["edges"])
    except DataError as error:
        raise DataError(f"graph {number}: {str(error).removeprefix('edges: ')}") from error


def graph_features_of(held: Any, given: Any) -> Any:
    """(row, feature): the numbers of each graph as a whole that were given, or those that all graphs have."""
    known = [each.graph_features if isinstance(each, Graph) else None for each in one_by_one(held)]
    there = [part for part in known if part is not None]
    return torch.cat(there).numpy() if given is None and there and len(there) == len(known) else given


def targets_of(held: Any, y: Any) -> Any:
    """The targets of graphs: y, or the attribute `y` of each.

    Raises:
        DataError: Neither is there, or not as many as graphs.
    """
    held = one_by_one(held)
    if y is None:
        if not all(getattr(graph, "y", None) is not None for graph in held):
            raise DataError("fit: y is missing; hand over the targets, or graphs that all have y.")
        values = [np.asarray(graph.y) for graph in held]
        if any(value.size != 1 for value in values):
            raise DataError("fit: y of a graph holds several values; hand over y (row, target).")
        return np.array([value.reshape(-1)[0] for value in values])
    if len(y) != len(held):
        raise DataError(f"fit: y has {plural(len(y), 'row')}, but X has {plural(len(held), 'graph')}.")
    return y
