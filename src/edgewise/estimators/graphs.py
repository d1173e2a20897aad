"""GraphClassifier and GraphRegressor: many graphs from Python, in the habit of scikit-learn."""

import os
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch

from edgewise.data.graphs.graphs import Graph, GraphTable, graphs_from_arrays
from edgewise.data.split import split_rows
from edgewise.errors import DataError, MissingExtraError, SettingError
from edgewise.estimators.faces import (
    CLASSES,
    NUMBERS,
    SettingsEstimator,
    accuracy,
    class_numbers,
    joined,
    most_probable,
    r2,
    task_of,
)
from edgewise.estimators.graph_input import is_graph, one_by_one, plain_parts_of
from edgewise.estimators.nodes import edges_of, features_of
from edgewise.explanation import Explanation
from edgewise.plural import plural
from edgewise.records import Prediction
from edgewise.tasks.graphs.explain import explain_graph
from edgewise.tasks.graphs.job import graph_job
from edgewise.tasks.graphs.task import TASK
from edgewise.tasks.graphs.trained import TrainedGraphs
from edgewise.tasks.run import fit
from edgewise.train.device import pick_device

try:
    from sklearn.base import ClassifierMixin, RegressorMixin
    from sklearn.utils.validation import check_is_fitted
except ModuleNotFoundError as error:
    raise MissingExtraError("scikit-learn", "train") from error

Graphs = Sequence[Any]
"""Graphs: each a `Graph`, PyTorch Geometric's `Data` or another object with `x`, `edge_index` and perhaps `edge_attr`,
a graph of networkx, a tuple (features, edges) or (features, edges, edge_features); or a batch, one `Graph`. Features
and edges may be held as `NodeRegressor` takes them; edges are taken as they are: give both ways where both are
meant."""


class GraphEstimator(SettingsEstimator):
    """What both estimators share: their settings, fitting, saving and loading.

    Args:
        settings: Any setting of `edgewise train` over many graphs by its name in Python: model, readout, num_layers,
            model_dim, dropout, epochs, learning_rate, ensemble_size, seed, device ...; and validation_size, the part
            of the graphs that chooses nothing but calibrates intervals and shows the loss (default: 0.1).
    """

    def fit_targets(
        self, X: Graphs, targets: Any, graph_features: Any, sample_weight: Any, groups: Any, task_type: str
    ) -> Self:
        """Trains on targets as the cells of a table."""
        settings = dict(self.settings)
        validation_size = settings.pop("validation_size", 0.1)
        if not 0 <= validation_size < 1:
            raise SettingError(f"validation_size is {validation_size}; expected at least 0 and below 1.")
        job = graph_job({**settings, "data": ("the graphs",), "task_type": task_type}, type(self).__name__)
        table = graphs_from_arrays(
            graphs_of(X),
            targets,
            sample_weight,
            groups,
            graph_features_of(X, graph_features),
            task_type=task_type,
            need_roots=job.whole.needs_roots,
        )
        kind, sizes = "random" if groups is None else "group", (1 - validation_size, validation_size, 0)
        splits = split_rows(table, kind=kind, sizes=sizes, seed=job.train.seed)
        prepared = TASK.prepared(job, table, splits)
        fit(TASK, prepared)
        self.trained_ = prepared.fitted
        return self

    def table_of(self, X: Graphs, graph_features: Any = None) -> GraphTable:
        """Graphs to predict; those that cannot be used keep their place."""
        check_is_fitted(self, "trained_")
        need_roots = self.trained_.whole.needs_roots
        return graphs_from_arrays(graphs_of(X), conditions=graph_features_of(X, graph_features), need_roots=need_roots)

    def predictions(self, table: GraphTable, coverage: float | None = None) -> list[Prediction]:
        """What the model says of each target; NaN for graphs that cannot be used."""
        device = pick_device(self.settings.get("device", "auto"))
        return self.trained_.predict(table, coverage=coverage, device=device)

    def explain(
        self, graph: Any, *, graph_features: Any = None, target: str | None = None, label: Any = None
    ) -> Explanation:
        """One graph, explained: where the model attends, and what changes the prediction; see `explain_graph`.

        Args:
            graph: As one of those in `fit`.
            graph_features: (feature,) its numbers as a whole.
            target: The target that is explained; the first by default.
            label: The class whose probability is explained; the predicted one by default.
        """
        table = self.table_of([graph], None if graph_features is None else [graph_features])
        return explain_graph(self.trained_, table, 0, target=target, label=label)

    def fingerprint(self, X: Graphs) -> np.ndarray:
        """(row, dim): the learned vector of each graph; NaN where it cannot be used."""
        table = self.table_of(X, np.zeros((len(one_by_one(X)), len(self.trained_.columns.graph_feature_columns))))
        return self.trained_.fingerprint(table, pick_device(self.settings.get("device", "auto")))


class GraphClassifier(ClassifierMixin, GraphEstimator):
    """Tells classes of graphs, two or more, and their probabilities.

    Example:
        classifier = GraphClassifier(model="gatv2").fit([(features, edges), ...], labels)
        classifier.predict([(features, edges)])
    """

    def fit(
        self, X: Graphs, y: Any = None, *, graph_features: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> Self:
        """Trains the model.

        Args:
            X: the graphs.
            y: (row) class labels; by default the `y` of each graph.
            graph_features: (row, feature) numbers of each graph as a whole.
            sample_weight: (row).
            groups: (row); graphs of one group are all training or all validation graphs.

        Raises:
            DataError: A graph cannot be used; the message says which and why.
        """
        self.classes_, numbers = class_numbers(targets_of(X, y))
        cells, task_type = [str(number) for number in numbers], task_of(self.classes_)
        self.fit_targets(X, cells, graph_features, sample_weight, groups, task_type)
        self.trained_.classes = {"target": self.classes_.tolist()}
        return self

    def predict_proba(self, X: Graphs, graph_features: Any = None) -> np.ndarray:
        """(row, class): probabilities in the order of `classes_`; NaN for a graph that cannot be used."""
        probabilities = self.predictions(self.table_of(X, graph_features))[0].probabilities
        assert probabilities is not None
        return probabilities

    def predict(self, X: Graphs, graph_features: Any = None) -> np.ndarray:
        """(row): the most probable class.

        Raises:
            DataError: A graph cannot be used: there is no class that would say so.
        """
        probabilities = self.predict_proba(X, graph_features)
        return most_probable(probabilities, self.classes_, self.table_of(X, graph_features).status)

    def score(self, X: Graphs, y: Any = None, sample_weight: Any = None, *, graph_features: Any = None) -> float:
        """The share of the graphs that are predicted right; y and graph_features as in `fit`."""
        return accuracy(targets_of(X, y), self.predict(X, graph_features), sample_weight)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """The classifier of a run folder with one target, written by `save` or by `edgewise train`."""
        return cls.load_as(TrainedGraphs, folder, CLASSES)


class GraphRegressor(RegressorMixin, GraphEstimator):
    """Tells numbers of graphs, and intervals around them."""

    def fit(
        self, X: Graphs, y: Any = None, *, graph_features: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> Self:
        """Trains the model; as `GraphClassifier.fit`, with y: (row) or (row, target) numbers, NaN where missing."""
        targets = np.asarray(targets_of(X, y), dtype=np.float64)
        self.one_target_ = targets.ndim == 1
        return self.fit_targets(X, targets, graph_features, sample_weight, groups, "regression")

    def predict(self, X: Graphs, graph_features: Any = None) -> np.ndarray:
        """(row), or (row, target) where y had that shape; NaN for a graph that cannot be used."""
        found = self.predictions(self.table_of(X, graph_features))
        return joined([prediction.value for prediction in found], self.one_target_)

    def predict_interval(
        self, X: Graphs, graph_features: Any = None, *, coverage: float | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The lower and upper ends of the intervals, each as `predict`; NaN with too few validation graphs."""
        found = self.predictions(self.table_of(X, graph_features), coverage)
        return joined([each.low for each in found], self.one_target_), joined(
            [each.high for each in found], self.one_target_
        )

    def score(self, X: Graphs, y: Any = None, sample_weight: Any = None, *, graph_features: Any = None) -> float:
        """R² over the targets that are known, of several the mean; y and graph_features as in `fit`."""
        status = self.table_of(X, graph_features).status
        return r2(targets_of(X, y), self.predict(X, graph_features), status, sample_weight)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """The regressor of a run folder, written by `save` or by `edgewise train`."""
        return cls.load_as(TrainedGraphs, folder, NUMBERS)


def graphs_of(X: Graphs) -> list[Graph]:
    """Graphs, whatever held them.

    Raises:
        DataError: There is none, or one is held in no known way; the message counts it from 0.
    """
    X = one_by_one(X)
    if not len(X):
        raise DataError("there is no graph; expected at least one.")
    found = []
    for number, held in enumerate(X):
        if isinstance(held, Graph):
            found.append(held)
            continue
        is_whole = is_graph(held) and not isinstance(held, tuple)
        if not is_whole and not hasattr(held, "edge_index") and not (isinstance(held, tuple) and len(held) in (2, 3)):
            raise DataError(
                f"graph {number} is a {type(held).__name__}; expected a Graph, (features, edges), (features, edges, "
                "edge_features), or an object with x and edge_index."
            )
        try:
            if is_whole:
                held = plain_parts_of("the model", held, None)
            elif not isinstance(held, tuple):
                held = (held.x, held.edge_index, getattr(held, "edge_attr", None))
            if held[0] is None:
                raise DataError("it has no node features.")
            features, edges = features_of(held[0]), edges_of(held[1], *(held[2:3] or (None,)))
        except DataError as error:
            raise DataError(f"graph {number}: {error}") from error
        found.append(Graph(features.to_dense(), edges))
    return found


def graph_features_of(X: Graphs, given: Any) -> Any:
    """(row, feature): the numbers of each graph as a whole that were given, or those that all graphs hold."""
    held = [getattr(graph, "graph_features", None) for graph in one_by_one(X)]
    there = [part for part in held if part is not None]
    return torch.cat(there).numpy() if given is None and there and len(there) == len(held) else given


def targets_of(X: Graphs, y: Any) -> Any:
    """What is to be told of each graph: y, or what the graphs have by that name.

    Raises:
        DataError: Neither is there, or not as many as graphs.
    """
    X = one_by_one(X)
    if y is None:
        if not all(getattr(graph, "y", None) is not None for graph in X):
            raise DataError("fit: y is missing; hand over the targets, or graphs that all have y.")
        values = [np.asarray(graph.y) for graph in X]
        if any(value.size != 1 for value in values):
            raise DataError("fit: y of a graph holds several values; hand over y (row, target).")
        return np.array([value.reshape(-1)[0] for value in values])
    if len(y) != len(X):
        raise DataError(f"fit: y has {plural(len(y), 'row')}, but X has {plural(len(X), 'graph')}.")
    return y
