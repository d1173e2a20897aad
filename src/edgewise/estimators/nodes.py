"""NodeClassifier and NodeRegressor: the nodes of one graph."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from edgewise.data.graphs.nodes import nodes_from_arrays
from edgewise.errors import DataError, SettingError
from edgewise.estimators.graph_input import GRAPH_OPTIONS, GraphNodes
from edgewise.estimators.labels import accuracy, class_numbers, has_label, is_known, labels_of, r2
from edgewise.estimators.params import AUTO, old_names
from edgewise.estimators.table import TableClassifier, TableEstimator, TableRegressor
from edgewise.explain.methods import Choice
from edgewise.explanation import Explanation
from edgewise.models.graph_layers import layers_for
from edgewise.plural import plural
from edgewise.records import Prediction
from edgewise.tasks.config import check_edge_features
from edgewise.tasks.nodes.explainable import explain_node
from edgewise.tasks.nodes.job import WITH_TYPES
from edgewise.tasks.nodes.task import TASK
from edgewise.tasks.nodes.trained import TrainedNodes

OWN = {"model": AUTO, "validation_size": 0.1}
"""Without a name the model is the default, or that for types where the graph has them."""
BESIDE = ("edges", "edge_features")
"""What may follow the features of nodes by position."""


class NodeEstimator(
    TableEstimator,
    task=TASK,
    fitted_type=TrainedNodes,
    required={"data": ("the nodes",)},
    options=GRAPH_OPTIONS,
    fit_options=(),
    positional={"fit": BESIDE[:1], "predict": BESIDE, "predict_interval": BESIDE, "score": BESIDE},
):
    """An ensemble over the nodes of one graph.

    `data` is a graph: `Graph`, PyTorch Geometric's `Data` or `HeteroData`, a graph of networkx, `GraphNodes`; or the
    features of its nodes, with `edges`, `edge_features`, `node_types` and `edge_types` as in `GraphNodes`.
    """

    def table_of(self, data: Any, job: Any = None, **options: Any) -> Any:
        """All nodes of the graph as a table; see `TableEstimator.table_of`."""
        graph = {name: options.pop(name) for name in GRAPH_OPTIONS if name in options}
        options.pop("groups", None)
        nodes = GraphNodes(data, **graph)
        if job is not None:
            return nodes_from_arrays(**nodes.arrays(), **options, task_type=job.columns.task_type)
        known = self.trained.types
        found = nodes.arrays()
        if known is None and (found["types"] is not None or found["edges"].types is not None):
            raise SettingError("the model does not use types; leave out node_types and edge_types.")
        return nodes_from_arrays(**found, known=known)

    def predictions(self, data: Any, coverage: float | None = None, **options: Any) -> list[Prediction]:
        """The prediction of each target for the rows."""
        nodes = GraphNodes(data, **options)
        return [
            Prediction(**{name: _taken(value, nodes.rows) for name, value in vars(each).items()})
            for each in super().predictions(nodes, coverage)
        ]

    def status_of(self, data: Any, **options: Any) -> list[str]:
        """Of each row, `ok` or why it cannot be predicted."""
        nodes = GraphNodes(data, **options)
        return list(
            np.asarray(super().status_of(nodes), dtype=object)[slice(None) if nodes.rows is None else nodes.rows]
        )

    def _fit(self, data: Any, cells: Any, task_type: str, **options: Any) -> Any:
        graph = {name: options.pop(name) for name in GRAPH_OPTIONS if name in options}
        nodes = GraphNodes(data, **graph)
        for name, missing in (("sample_weight", 0.0), ("validation", False)):
            if options.get(name) is not None:
                options[name] = nodes.spread(np.asarray(options[name]), missing)
        cells = nodes.spread(cells, np.nan if task_type == "regression" else "")
        return super()._fit(nodes, cells, task_type, **options)

    def _job(self, data: GraphNodes, task_type: str, options: Mapping[str, Any]) -> Any:
        has_types = data.graph.node_types is not None or data.edges.types is not None
        usual = {"model": WITH_TYPES} if has_types and self.model == AUTO else {}  # type: ignore[attr-defined]
        return self.settings(task_type=task_type, **usual)

    def _check_job(self, job: Any, table: Any) -> None:
        if table.edges.features.shape[1]:
            check_edge_features("edge_features", job.model.model)

    @old_names
    def explain(
        self,
        item: Any,
        *old: Any,
        target: str | None = None,
        label: Any = None,
        node: int | None = None,
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
            node: The number of the node.
            hops: How far away nodes are shown; by default as far as the model looks.
            options: The parts of a graph, as in `predict`.
            methods: Names of methods; see `edgewise.explain.methods`.
        """
        if old and (old[0] is None or isinstance(old[0], str)):
            target, label, *_ = (*old, label)
        elif old:  # edges and node
            options["edges"], node, *_ = (*old, node)
        nodes = GraphNodes(item, **self._named("predict", (), options))
        if node is None:
            if nodes.rows is None or len(nodes) != 1:
                raise SettingError("explain: node is missing; say which row is explained: node=0.")
            node = int(nodes.rows[0])
        return explain_node(
            self.trained, self.table_of(nodes), node, hops=hops, target=target, label=label, methods=methods
        )


class NodeClassifier(TableClassifier, NodeEstimator, models=layers_for("nodes"), own=OWN):
    """Predicts classes of the nodes of one graph, two or more, and their probabilities.

        NodeClassifier(model="gat").fit(graph, y).predict(graph)

    y is (node): None, NaN or an empty text is no label. −1 among whole numbers with two or more other values is none
    either, with a warning; with fewer it is a class, as in −1 and 1. Nodes without a label are part of the graph.
    """

    def _cells(self, y: Any) -> tuple[Any, str]:
        labels = labels_of(y)
        known = is_known(labels)
        if num_left_out := int((has_label(labels) & ~known).sum()):
            warnings.warn(
                f"fit: {plural(num_left_out, 'node has', 'nodes have')} the label -1, read as no label; where -1 is a "
                "class, give the labels as text; where it is none, None or NaN says so without this warning.",
                stacklevel=4,
            )
        self.classes_, numbers = class_numbers(labels[known])
        cells = np.full(len(labels), "", dtype=object)
        cells[known] = [str(number) for number in numbers]
        return cells, "classification" if len(self.classes_) == 2 else "multiclass"

    @old_names
    def predict(self, data: Any, *old: Any, **options: Any) -> np.ndarray:
        """(node): the most probable class; −1 or None, as in `fit`, for types of which no node had a label."""
        probabilities = self.predict_proba(data, **self._named("predict", old, options))
        found, has_none = self.classes_[probabilities.argmax(axis=1)], np.isnan(probabilities).any(axis=1)
        if not has_none.any():
            return found
        if np.issubdtype(self.classes_.dtype, np.integer) and -1 not in self.classes_.tolist():
            found[has_none] = -1
            return found
        found = found.astype(object)
        found[has_none] = None
        return found

    @old_names
    def score(
        self, data: Any, y: Any = None, *old: Any, nodes: Any = None, sample_weight: Any = None, **options: Any
    ) -> float:
        """The share of the nodes with a label whose class is predicted right; of `nodes` (node, bool) where given.

        Labels are missing as in `fit`; −1 is one where it is in `classes_`.
        """
        labels = labels_of(y)
        judged = has_label(labels)
        if np.issubdtype(labels.dtype, np.integer) and -1 not in self.classes_.tolist():
            judged &= labels != -1
        judged &= True if nodes is None else np.asarray(nodes, dtype=bool)
        if not judged.any():
            raise DataError("score: no node has a label; expected labels to compare with.")
        found = self.predict(data, **self._named("score", old, options))
        return accuracy(labels[judged], found[judged], _weights(sample_weight, judged))


class NodeRegressor(TableRegressor, NodeEstimator, models=layers_for("nodes"), own=OWN):
    """Predicts numbers of the nodes of one graph, and intervals around them; y is NaN where there is no target."""

    @old_names
    def score(
        self, data: Any, y: Any = None, *old: Any, nodes: Any = None, sample_weight: Any = None, **options: Any
    ) -> float:
        """R² over the nodes with a target, of several targets the mean; of `nodes` (node, bool) where given."""
        options = self._named("score", old, options)
        rows, targets = GraphNodes(data, **options), np.asarray(y, dtype=np.float64)
        predicted = self.predict(rows)
        if len(targets) != len(predicted):
            raise DataError(f"score: y has {plural(len(targets), 'row')}, but there are {len(predicted)} nodes.")
        judged = np.ones(len(predicted), dtype=bool) if nodes is None else np.asarray(nodes, dtype=bool)
        status = [each for each, is_judged in zip(self.status_of(rows), judged) if is_judged]
        return r2(targets[judged], predicted[judged], status, _weights(sample_weight, judged))


def _weights(sample_weight: Any, rows: np.ndarray) -> np.ndarray | None:
    """The weights of some rows."""
    return None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)[rows]


def _taken(value: Any, rows: np.ndarray | None) -> Any:
    """The values of some rows; all where `rows` is None."""
    return value[rows] if rows is not None and isinstance(value, np.ndarray) else value
