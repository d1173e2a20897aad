"""EdgeClassifier and EdgeRegressor: the edges of one graph."""

from typing import Any

import numpy as np

from edgewise.explain.explanation import Explanation
from edgewise.explain.methods import Choice
from edgewise.learn.estimators.graph_input import GRAPH_OPTIONS, GraphEdges, missing_of, plain
from edgewise.learn.estimators.one_graph import OneGraph, OneGraphClassifier, OneGraphRegressor
from edgewise.learn.estimators.params import old_names
from edgewise.learn.networks.graph_layers import layers_for
from edgewise.learn.readers.graphs.edge_table import edges_from_arrays
from edgewise.learn.readers.graphs.node_features import NodeFeatures
from edgewise.learn.tasks.edges.explainable import explain_edge
from edgewise.learn.tasks.edges.task import TASK, FittedEdges


class EdgeEstimator(
    OneGraph,
    task=TASK,
    fitted_type=FittedEdges,
    required={"data": ("the edges",)},
    keep=("directed",),
    rows_type=GraphEdges,
):
    """An ensemble over the edges of one graph.

    `data` is a graph: `Graph`, PyTorch Geometric's `Data`, a graph of networkx, `GraphEdges`; or the features of its
    nodes, None where nothing is known of them, with `edges` and `edge_features` as in `GraphNodes`. All edges carry
    messages, both ways unless `directed`. Targets stand in the order of the edges.
    """

    def table_of(self, data: Any, job: Any = None, **options: Any) -> Any:
        """All edges of the graph as a table; see `TableEstimator.table_of`."""
        rows = self.rows_of(data, {name: options.pop(name) for name in GRAPH_OPTIONS if name in options})
        plain(type(self).__name__, rows)
        missing = self.trained.columns.missing if job is None else missing_of(job.feature_scale)
        task = {"missing": missing} | ({} if job is None else {"task_type": job.columns.task_type})
        is_bare = rows.features is None
        features = NodeFeatures.of(np.zeros((rows.graph.num_nodes, 0))) if is_bare else rows.arrays(missing)["features"]
        return edges_from_arrays(features, rows.edges, **options, **task, names=rows.names)

    @old_names
    def explain(
        self,
        item: Any,
        target: str | None = None,
        label: Any = None,
        *,
        edge: int | None = None,
        hops: int | None = None,
        methods: Choice = None,
        **options: Any,
    ) -> Explanation:
        """One edge, explained: what its two nodes attend to, and what changes its prediction.

        Args:
            item: One row of `GraphEdges`; or a graph, with `edge`.
            target: The target that is explained; the first by default.
            label: The class whose probability is explained; the predicted one by default.
            edge: The number of the edge.
            hops: How far away nodes are shown; by default as far as the model looks.
            methods: Names of methods; see `edgewise.explain.methods`.
            options: The parts of a graph, as in `predict`.
        """
        rows, edge = self.row_of(item, edge, "edge", self._named("predict", (), options))
        return explain_edge(
            self.trained, self.table_of(rows), edge, hops=hops, target=target, label=label, methods=methods
        )


class EdgeClassifier(OneGraphClassifier, EdgeEstimator, models=layers_for("links"), own={"validation_size": 0.1}):
    """Predicts classes of the edges of one graph, two or more, and their probabilities.

        EdgeClassifier(model="gin").fit(graph, y).predict(graph)

    y is (edge): None, NaN or an empty text is no label, −1 as in `NodeClassifier`; such edges only carry messages.
    """


class EdgeRegressor(OneGraphRegressor, EdgeEstimator, models=layers_for("links"), own={"validation_size": 0.1}):
    """Predicts numbers of the edges of one graph, and intervals around them; y is NaN where there is no target."""
