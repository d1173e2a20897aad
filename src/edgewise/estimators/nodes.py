"""NodeClassifier and NodeRegressor: the nodes of a graph from Python, in the habit of scikit-learn."""

import os
import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch

from edgewise.data.graphs.edges import EdgeList
from edgewise.data.graphs.names import RowLabels
from edgewise.data.graphs.node_features import NodeFeatures, without_blanks
from edgewise.data.graphs.nodes import NodeTable, nodes_from_arrays
from edgewise.data.split import split_rows
from edgewise.errors import DataError, MissingExtraError, SettingError
from edgewise.estimators.faces import (
    CLASSES,
    NUMBERS,
    SettingsEstimator,
    accuracy,
    class_numbers,
    has_label,
    joined,
    labels_of,
    r2,
    task_of,
)
from edgewise.estimators.graph_input import parts_of
from edgewise.explanation import Explanation
from edgewise.neighborhood import Edges
from edgewise.plural import plural
from edgewise.records import Prediction
from edgewise.tasks.nodes.explain import explain_node
from edgewise.tasks.nodes.job import WITH_TYPES, node_job
from edgewise.tasks.nodes.task import TASK
from edgewise.tasks.nodes.trained import TrainedNodes
from edgewise.tasks.run import fit
from edgewise.train.device import pick_device

try:
    from sklearn.base import ClassifierMixin, RegressorMixin
    from sklearn.utils.validation import check_is_fitted
except ModuleNotFoundError as error:
    raise MissingExtraError("scikit-learn", "train") from error

Matrix = Any
"""(node, feature): an array, a tensor, a DataFrame, or a sparse matrix of SciPy."""
Neighbors = Any
"""The edges: `Edges`, an array (2, edge) from and to, or a sparse matrix of SciPy whose row attends to its columns."""


class NodeEstimator(SettingsEstimator):
    """What both estimators share: their settings, fitting, saving and loading.

    Args:
        settings: Any setting of `edgewise train` over a graph by its name in Python: model, num_layers, model_dim,
            dropout, epochs, learning_rate, ensemble_size, seed, device ...; and validation_size, the part of the
            labelled nodes that chooses the epoch where `fit` is not told which do (default: 0.1).
    """

    def fit_targets(
        self,
        X: Matrix,
        targets: Any,
        edges: Neighbors,
        edge_features: Any,
        sample_weight: Any,
        validation: Any,
        task_type: str,
        node_kinds: Any = None,
        edge_kinds: Any = None,
    ) -> Self:
        """Trains on targets as the cells of a table."""
        given = parts_of(X, edges, edge_features, node_kinds, edge_kinds)
        settings = dict(self.settings)
        validation_size = settings.pop("validation_size", 0.1)
        if not 0 <= validation_size < 1:
            raise SettingError(f"validation_size is {validation_size}; expected at least 0 and below 1.")
        parts = None
        if validation is not None:
            chosen = np.asarray(validation, dtype=bool)
            parts = np.where(chosen, "val", "train")
        if given.node_kinds is not None or given.edge_kinds is not None:
            settings.setdefault("model", WITH_TYPES)
        graph = graph_of(*given)
        table = nodes_from_arrays(targets=targets, weights=sample_weight, parts=parts, task_type=task_type, **graph)
        job = node_job({**settings, "data": ("the nodes",), "task_type": task_type}, type(self).__name__)
        if given.edge_features is not None and job.model.model != "attention":
            raise SettingError(
                f"edge_features do nothing with model {job.model.model!r}, only with 'attention'; leave them out."
            )
        kind, sizes = "random" if parts is None else "column", (1 - validation_size, validation_size, 0)
        splits = split_rows(table, kind=kind, sizes=sizes, seed=job.train.seed)
        prepared = TASK.prepared(job, table, splits)
        fit(TASK, prepared)
        self.trained_ = prepared.fitted
        return self

    def table_of(
        self, X: Matrix, edges: Neighbors, edge_features: Any, node_kinds: Any = None, edge_kinds: Any = None
    ) -> NodeTable:
        """A graph whose nodes are to be predicted."""
        check_is_fitted(self, "trained_")
        known, given = self.trained_.types, parts_of(X, edges, edge_features, node_kinds, edge_kinds)
        if known is None and (given.node_kinds is not None or given.edge_kinds is not None):
            raise SettingError(
                "the model does not look at kinds of nodes and edges; leave out node_kinds and edge_kinds."
            )
        return nodes_from_arrays(**graph_of(*given), known=known)

    def predictions(self, table: NodeTable, coverage: float | None = None) -> list[Prediction]:
        """What the model says of each target."""
        return self.trained_.predict(table, coverage=coverage, device=pick_device(self.settings.get("device", "auto")))

    def fingerprint(
        self,
        X: Matrix,
        edges: Neighbors = None,
        edge_features: Any = None,
        *,
        node_kinds: Any = None,
        edge_kinds: Any = None,
    ) -> np.ndarray:
        """(node, dim): the learned vector of each node."""
        table = self.table_of(X, edges, edge_features, node_kinds, edge_kinds)
        device = pick_device(self.settings.get("device", "auto"))
        return self.trained_.fingerprint(table, device)

    def explain(
        self,
        X: Matrix,
        edges: Neighbors = None,
        node: int | None = None,
        *,
        edge_features: Any = None,
        hops: int | None = None,
        target: str | None = None,
        label: Any = None,
        node_kinds: Any = None,
        edge_kinds: Any = None,
    ) -> Explanation:
        """One node, explained: what it attends to, and what changes its prediction; see `explain_node`.

        Args:
            X: (node, feature), as in `fit`.
            edges: Who is connected with whom.
            node: The row of X that is explained.
            edge_features: (edge, feature).
            hops: How far away nodes are looked at; by default as far as the model looks.
            target: The target that is explained; the first by default.
            label: The class whose probability is explained; the predicted one by default.
            node_kinds: (node), as in `fit`.
            edge_kinds: (edge), as in `fit`.
        """
        if node is None:
            raise SettingError("explain: node is missing; say which row is explained: node=0.")
        table = self.table_of(X, edges, edge_features, node_kinds, edge_kinds)
        return explain_node(self.trained_, table, node, hops=hops, target=target, label=label)


class NodeClassifier(ClassifierMixin, NodeEstimator):
    """Tells classes of the nodes of a graph, two or more, and their probabilities.

    Example:
        classifier = NodeClassifier(model="gat").fit(features, labels, edges)
        classifier.predict(features, edges)
    """

    def fit(
        self,
        X: Matrix,
        y: Any,
        edges: Neighbors = None,
        *,
        edge_features: Any = None,
        sample_weight: Any = None,
        validation: Any = None,
        node_kinds: Any = None,
        edge_kinds: Any = None,
    ) -> Self:
        """Trains the model on the nodes that have a label; the others are part of the graph.

        Args:
            X: (node, feature); or a graph with all that follows but y: a `Graph`, PyTorch Geometric's `Data` or
                `HeteroData`, a graph of networkx.
            y: (node) class labels; None, NaN or an empty text where there is none. −1 among whole numbers with two or
                more other values means none too, with a warning; with fewer it is a class, as in −1 and 1.
            edges: who is connected with whom, as it is: give both ways where both are meant.
            edge_features: (edge, feature).
            sample_weight: (node).
            validation: (node) True for those that choose the epoch; a part of the labelled ones by default.
            node_kinds: (node) words or whole numbers, where there are several kinds; a column of X that is NaN in all
                nodes of a kind is none of its features.
            edge_kinds: (edge) likewise what each edge means; edges the other way should mean something else.

        Raises:
            DataError: Shapes do not fit, an edge names no node, or there are fewer than two classes.
        """
        labels = labels_of(y)
        known = is_known(labels)
        if num_left_out := int((has_label(labels) & ~known).sum()):
            warnings.warn(
                f"fit: {plural(num_left_out, 'node has', 'nodes have')} the label -1, read as no label; where -1 is a "
                "class, give the labels as text; where it is none, None or NaN says so without this warning.",
                stacklevel=2,
            )
        self.classes_, numbers = class_numbers(labels[known])
        cells = np.full(len(labels), "", dtype=object)
        cells[known] = [str(number) for number in numbers]
        task_type = task_of(self.classes_)
        self.fit_targets(X, cells, edges, edge_features, sample_weight, validation, task_type, node_kinds, edge_kinds)
        self.trained_.classes = {"target": self.classes_.tolist()}
        return self

    def predict_proba(
        self,
        X: Matrix,
        edges: Neighbors = None,
        edge_features: Any = None,
        *,
        node_kinds: Any = None,
        edge_kinds: Any = None,
    ) -> np.ndarray:
        """(node, class): probabilities in the order of `classes_`; NaN for kinds of which no node had a label."""
        table = self.table_of(X, edges, edge_features, node_kinds, edge_kinds)
        probabilities = self.predictions(table)[0].probabilities
        assert probabilities is not None
        return probabilities

    def predict(
        self,
        X: Matrix,
        edges: Neighbors = None,
        edge_features: Any = None,
        *,
        node_kinds: Any = None,
        edge_kinds: Any = None,
    ) -> np.ndarray:
        """(node): the most probable class; −1 or None, as in `fit`, for kinds of which no node had a label."""
        probabilities = self.predict_proba(X, edges, edge_features, node_kinds=node_kinds, edge_kinds=edge_kinds)
        return predicted_classes(self.classes_, probabilities)

    def score(
        self,
        X: Matrix,
        y: Any,
        edges: Neighbors = None,
        edge_features: Any = None,
        *,
        nodes: Any = None,
        sample_weight: Any = None,
        node_kinds: Any = None,
        edge_kinds: Any = None,
    ) -> float:
        """The share of the nodes with a label that are predicted right; of `nodes` (node, bool) where given.

        Labels are missing as in `fit`; −1 is one where it is in `classes_`.
        """
        labels = labels_of(y)
        judged = has_label(labels)
        if np.issubdtype(labels.dtype, np.integer) and -1 not in self.classes_.tolist():
            judged &= labels != -1
        judged &= True if nodes is None else np.asarray(nodes, dtype=bool)
        if not judged.any():
            raise DataError("score: no node has a label; expected labels to compare with.")
        found = self.predict(X, edges, edge_features, node_kinds=node_kinds, edge_kinds=edge_kinds)
        return accuracy(labels[judged], found[judged], weights_of(sample_weight, judged))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """The classifier of a run folder with one target, written by `save` or by `edgewise train`."""
        return cls.load_as(TrainedNodes, folder, CLASSES)


class NodeRegressor(RegressorMixin, NodeEstimator):
    """Predicts numbers of the nodes of a graph, and intervals around them."""

    def fit(
        self,
        X: Matrix,
        y: Any,
        edges: Neighbors = None,
        *,
        edge_features: Any = None,
        sample_weight: Any = None,
        validation: Any = None,
        node_kinds: Any = None,
        edge_kinds: Any = None,
    ) -> Self:
        """Trains the model; as `NodeClassifier.fit`, with y: (node) or (node, target) numbers, NaN where missing."""
        targets = np.asarray(y, dtype=np.float64)
        self.one_target_ = targets.ndim == 1
        return self.fit_targets(
            X, targets, edges, edge_features, sample_weight, validation, "regression", node_kinds, edge_kinds
        )

    def predict(
        self,
        X: Matrix,
        edges: Neighbors = None,
        edge_features: Any = None,
        *,
        node_kinds: Any = None,
        edge_kinds: Any = None,
    ) -> np.ndarray:
        """(node), or (node, target) where y had that shape; NaN for kinds of which no node had a target."""
        found = self.predictions(self.table_of(X, edges, edge_features, node_kinds, edge_kinds))
        return joined([prediction.value for prediction in found], self.one_target_)

    def predict_interval(
        self,
        X: Matrix,
        edges: Neighbors = None,
        edge_features: Any = None,
        *,
        coverage: float | None = None,
        node_kinds: Any = None,
        edge_kinds: Any = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The lower and upper ends of the intervals, each as `predict`; NaN with too few validation nodes."""
        found = self.predictions(self.table_of(X, edges, edge_features, node_kinds, edge_kinds), coverage)
        ends = ([each.low for each in found], [each.high for each in found])
        return joined(ends[0], self.one_target_), joined(ends[1], self.one_target_)

    def score(
        self,
        X: Matrix,
        y: Any,
        edges: Neighbors = None,
        edge_features: Any = None,
        *,
        nodes: Any = None,
        sample_weight: Any = None,
        node_kinds: Any = None,
        edge_kinds: Any = None,
    ) -> float:
        """R² over the nodes with a target, of several targets the mean; of `nodes` (node, bool) where given.

        Args:
            y: As in `fit`; NaN where there is none.
        """
        table = self.table_of(X, edges, edge_features, node_kinds, edge_kinds)
        predicted = joined([each.value for each in self.predictions(table)], self.one_target_)
        judged = np.ones(len(predicted), dtype=bool) if nodes is None else np.asarray(nodes, dtype=bool)
        targets = np.asarray(y, dtype=np.float64)
        if len(targets) != len(predicted):
            raise DataError(f"score: y has {plural(len(targets), 'row')}, but there are {len(predicted)} nodes.")
        status = [table.status[row] for row in np.flatnonzero(judged).tolist()]
        return r2(targets[judged], predicted[judged], status, weights_of(sample_weight, judged))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """The regressor of a run folder, written by `save` or by `edgewise train`."""
        return cls.load_as(TrainedNodes, folder, NUMBERS)


def is_known(labels: np.ndarray) -> np.ndarray:
    """(node): where there is a label; −1 among whole numbers is none where there are two or more others."""
    known = has_label(labels)
    if np.issubdtype(labels.dtype, np.integer) and len(np.unique(labels[labels != -1])) >= 2:
        known &= labels != -1
    return known


def weights_of(sample_weight: Any, rows: np.ndarray) -> np.ndarray | None:
    """The weights of some nodes."""
    return None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)[rows]


def predicted_classes(classes: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """(node): the most probable classes, and what stands for none: −1 among whole numbers where no class is −1, else
    None."""
    found, has_none = classes[probabilities.argmax(axis=1)], np.isnan(probabilities).any(axis=1)
    if not has_none.any():
        return found
    if np.issubdtype(classes.dtype, np.integer) and -1 not in classes.tolist():
        found[has_none] = -1
    else:
        found = found.astype(object)
        found[has_none] = None
    return found


def graph_of(
    X: Matrix | None, edges: Neighbors, edge_features: Any, node_kinds: Any, edge_kinds: Any
) -> dict[str, Any]:
    """What `nodes_from_arrays` takes of a graph.

    Raises:
        DataError: Shapes do not fit, or a number is not finite.
    """
    if X is None:
        raise DataError("the graph has no node_features; there is nothing that nodes could be told apart by.")
    listed, blank, named = edges_of(edges, edge_features), None, None
    if edge_kinds is not None:
        if hasattr(edges, "tocoo") and not isinstance(edges, Edges):
            raise DataError("edge_kinds go with edges that have an order: give Edges, or an array (2, edge).")
        called = RowLabels.of_array("edge_kinds", edge_kinds)
        if len(called.names) != len(listed):
            raise DataError(f"edge_kinds has {plural(len(called.names), 'row')}, but there are {len(listed)} edges.")
        listed = replace(listed, types=called)
    if node_kinds is not None:
        named = RowLabels.of_array("node_kinds", node_kinds)
        if not hasattr(X, "tocoo") and not isinstance(X, torch.Tensor):
            X, blank = without_blanks(np.asarray(X, dtype=np.float64))
    return {"features": features_of(X), "edges": listed, "types": named, "blank": blank}


def features_of(X: Matrix) -> NodeFeatures:
    """Features of nodes, whatever held them.

    Raises:
        DataError: They have another shape than (node, feature), or a number is not finite.
    """
    if hasattr(X, "tocoo"):
        table = X.tocsr().tocoo()
        kept = table.data != 0
        rows, columns = (places[kept].astype(np.int64) for places in (table.row, table.col))
        found = NodeFeatures.of_entries(rows, columns, table.data[kept].astype(np.float32), table.shape)
        values = found.values
    else:
        values = X.detach().cpu().numpy() if isinstance(X, torch.Tensor) else np.asarray(X, dtype=np.float64)
        if values.ndim != 2:
            raise DataError(f"X has {plural(values.ndim, 'axis', 'axes')}; expected (node, feature).")
        found = NodeFeatures.of(values)
    if not np.isfinite(values).all():
        raise DataError("X holds NaN or an infinite number; fill it in, or leave the node out of the graph.")
    return found


def edges_of(edges: Neighbors, features: Any) -> EdgeList:
    """Edges, whatever held them.

    Raises:
        DataError: They have another shape, or not as many features.
    """
    if hasattr(edges, "tocoo") and not isinstance(edges, Edges):
        edges = Edges.from_adjacency(edges)
    if isinstance(edges, Edges):
        senders, receivers = edges.senders.cpu().numpy(), edges.receivers.cpu().numpy()
    else:
        index = edges.cpu().numpy() if isinstance(edges, torch.Tensor) else np.asarray(edges)
        if index.ndim != 2 or index.shape[0] != 2 or not np.issubdtype(index.dtype, np.integer):
            raise DataError(f"edges is {index.dtype} {index.shape}; expected Edges, or whole numbers (2, edge).")
        senders, receivers = index.astype(np.int64)
    found = np.zeros((len(senders), 0)) if features is None else np.asarray(features, dtype=np.float32)
    if found.ndim != 2 or len(found) != len(senders):
        raise DataError(f"edge_features is {found.shape}; expected ({len(senders)}, feature).")
    return EdgeList(senders, receivers, found.astype(np.float32))
