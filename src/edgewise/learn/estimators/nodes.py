"""NodeClassifier and NodeRegressor: the nodes of one graph."""

from collections.abc import Mapping
from typing import Any

from edgewise.errors import DataError, SettingError
from edgewise.explain.explanation import Explanation
from edgewise.explain.methods import Choice
from edgewise.learn.estimators.graph_input import GRAPH_OPTIONS, GraphNodes, missing_of
from edgewise.learn.estimators.graph_warnings import warn_of_degrees
from edgewise.learn.estimators.one_graph import OneGraph, OneGraphClassifier, OneGraphRegressor
from edgewise.learn.estimators.params import AUTO, old_names
from edgewise.learn.networks.graph_layers import layers_for
from edgewise.learn.readers.graphs.nodes import nodes_from_arrays
from edgewise.learn.tasks.nodes.explainable import explain_node
from edgewise.learn.tasks.nodes.settings import WITH_TYPES
from edgewise.learn.tasks.nodes.task import TASK, FittedNodes

OWN = {"model": AUTO, "validation_size": 0.1}
"""Without a name the model is the default, or that for types where the graph has them."""


class NodeEstimator(OneGraph, task=TASK, fitted_type=FittedNodes, required={"data": ("the nodes",)}):
    """An ensemble over the nodes of one graph.

    `data` is a graph: `Graph`, PyTorch Geometric's `Data` or `HeteroData`, a graph of networkx, `GraphNodes`; or the
    features of its nodes, with `edges`, `edge_features`, `node_types` and `edge_types` as in `GraphNodes`.
    """

    def table_of(self, data: Any, job: Any = None, **options: Any) -> Any:
        """All nodes of the graph as a table; see `TableEstimator.table_of`."""
        graph = {name: options.pop(name) for name in GRAPH_OPTIONS if name in options}
        options.pop("groups", None)
        nodes = self.rows_of(data, graph)
        if job is not None:
            missing = missing_of(job.feature_scale)
            return nodes_from_arrays(
                **nodes.arrays(missing), **options, task_type=job.columns.task_type, missing=missing
            )
        known = self.trained.types
        found, num_columns = nodes.arrays(self.trained.columns.missing), num_given(self.trained)
        if (count := found["features"].shape[1]) != num_columns:
            name = type(self).__name__
            raise DataError(f"X has {count} features, but {name} is expecting {num_columns} features as input.")
        if known is None and (found["types"] is not None or found["edges"].types is not None):
            raise SettingError("the model does not use types; leave out node_types and edge_types.")
        return nodes_from_arrays(**found, known=known, missing=self.trained.columns.missing)

    def _fit(self, data: Any, cells: Any, task_type: str, **options: Any) -> Any:
        super()._fit(data, cells, task_type, **options)
        self.n_features_in_ = num_given(self.trained_)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags

    def _job(self, data: GraphNodes, task_type: str, options: Mapping[str, Any]) -> Any:
        has_types = data.graph.node_types is not None or data.edges.types is not None
        usual = {"model": WITH_TYPES} if has_types and self.model == AUTO else {}  # type: ignore[attr-defined]
        return self.settings(task_type=task_type, **usual)

    def _check_job(self, job: Any, table: Any) -> None:
        warn_of_degrees(table)
        if num_features := table.edges.features.shape[1]:
            job.model.spec.check_edge_features("edge_features", num_features)

    @old_names
    def explain(
        self,
        item: Any,
        *old: Any,
        target: str | None = None,
        label: Any = None,
        node: Any = None,
        hops: int | None = None,
        methods: Choice = None,
        **options: Any,
    ) -> Explanation:
        """One node, explained: what it attends to, and what changes its prediction.

        Args:
            item: One row of `GraphNodes`; or a graph, with `node`.
            old: The target and the label.
            target: The target that is explained; the first by default.
            label: The class whose probability is explained; the predicted one by default.
            node: The number of the node, or its name in a graph with names.
            hops: How far away nodes are shown; by default as far as the model looks.
            options: The parts of a graph, as in `predict`.
            methods: Names of methods; see `edgewise.explain.methods`.
        """
        if old and (old[0] is None or isinstance(old[0], str)):
            target, label, *_ = (*old, label)
        elif old:  # edges and node
            options["edges"], node, *_ = (*old, node)
        nodes, node = self.row_of(item, node, "node", self._named("predict", (), options))
        return explain_node(
            self.trained, self.table_of(nodes), node, hops=hops, target=target, label=label, methods=methods
        )


class NodeClassifier(OneGraphClassifier, NodeEstimator, models=layers_for("nodes"), own=OWN):
    """Predicts classes of the nodes of one graph, two or more, and their probabilities.

        NodeClassifier(model="gat").fit(graph, y).predict(graph)

    y is (node): None, NaN or an empty text is no label. −1 among whole numbers with two or more other values is none
    either, with a warning; with fewer it is a class, as in −1 and 1. Nodes without a label are part of the graph.
    """


class NodeRegressor(OneGraphRegressor, NodeEstimator, models=layers_for("nodes"), own=OWN):
    """Predicts numbers of the nodes of one graph, and intervals around them; y is NaN where there is no target."""


def num_given(trained: FittedNodes) -> int:
    """Features of a node as they are handed over: without the numbers of edges that stand for those of some types."""
    if trained.has_degrees:
        return 0
    return trained.num_columns - (0 if trained.types is None else trained.types.num_added)
