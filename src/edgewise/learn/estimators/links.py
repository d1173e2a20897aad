"""How arrays become links of one graph: what LinkPredictor is made of."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import ArrayLike

from edgewise.errors import DataError, SettingError, plural, refuse_single_text
from edgewise.explain.explanation import Explanation
from edgewise.explain.methods import Choice
from edgewise.learn.estimators.graph_input import is_graph, plain_nodes
from edgewise.learn.estimators.graph_rows import names_of_graph, names_of_run
from edgewise.learn.estimators.graph_warnings import warn_of_graph_features, warn_of_ignored_edges
from edgewise.learn.estimators.labels import is_absent, plain_array
from edgewise.learn.estimators.names import columns_called, node_number, row_name
from edgewise.learn.estimators.numbers import mask_of, unwrapped, weights_of
from edgewise.learn.estimators.parameters import naming_parameters
from edgewise.learn.estimators.rows import ExtraInputs, without_none
from edgewise.learn.estimators.state import (
    Adapter,
    Estimator,
    Names,
    device_of,
    learn_names,
    refuse,
    settings_of,
    train,
)
from edgewise.learn.readers.graphs.link_graph import LinkGraph
from edgewise.learn.readers.graphs.links import Links, LinkSplits, named_splits, random_splits
from edgewise.learn.readers.graphs.names import RowLabels
from edgewise.learn.readers.graphs.node_features import NodeFeatures
from edgewise.learn.tasks.links import model
from edgewise.learn.tasks.links.explainable import explain_link
from edgewise.learn.tasks.links.model import FittedLinks
from edgewise.learn.tasks.links.task import TASK, LinkData, prepared


def _names_of_run(trained: FittedLinks) -> Names:
    encoder = trained.encoder
    return names_of_run(encoder.on_graph, encoder.num_columns, encoder.num_edge_columns)


LINKS = Adapter(task=TASK, placeholders={"data": ("the nodes",)}, names_of_run=_names_of_run)
"""How LinkPredictor uses its task."""


@naming_parameters
def fit(
    estimator: Estimator,
    X: object,
    extra_inputs: ExtraInputs,
    *,
    splits: ArrayLike | None,
    sample_weight: ArrayLike | None,
    validation: ArrayLike | None,
) -> None:
    """Learn the links of a graph.

    Raises:
        DataError: Shapes do not fit, an edge names no node, or there are too few links, or pairs that are none.
        SettingError: A parameter has a value that it cannot have, or there are weights.
    """
    refuse(estimator, sample_weight=(sample_weight, "all links count the same"))
    extra_inputs = without_none(extra_inputs)
    without_none({"splits": splits, "validation": validation})
    if splits is not None and validation is not None:
        raise SettingError("fit: splits and validation are both given; leave one out, splits has the validation links.")
    job = settings_of(estimator, LINKS)
    learn_names(estimator, {"X": X, **extra_inputs}, names_of_graph(X))

    is_directed = job.graph.directed
    graph = graph_of(X, extra_inputs, is_directed, estimator.column_names_, job.scaling.missing)
    warn_of_ignored_edges(job.model, graph.edges.features.shape[1])
    columns = columns_called(estimator.column_names_, "X")
    job = replace(job, descriptors_columns=columns, graph=graph.edges.resolved(job.graph))
    links = Links.of(graph.edges, len(graph), is_directed)
    count = len(graph.edges) - graph.edges.num_mirrored
    if validation is not None:
        splits = np.where(mask_of("validation", validation, count), "val", "train")
    if splits is None:
        split_of_link = random_splits(links, job.split_sizes, job.data_seed)
    else:
        words = ["" if is_absent(word) else str(word) for word in np.asarray(unwrapped(splits), dtype=object).tolist()]
        if len(words) != count:
            raise DataError(f"splits has {plural(len(words), 'row')}, but there are {count} edges.")
        labels = RowLabels(tuple(words), "splits, edge ", np.arange(len(words)), "")
        split_of_link = named_splits(links, labels, job.data_seed)

    chosen = LinkSplits.of(links, split_of_link, job.negatives, job.data_seed)
    train(estimator, LINKS, prepared(job, LinkData(graph, links), chosen))


@naming_parameters
def predict_proba(estimator: Estimator, pairs: object, graph: object, extra_inputs: ExtraInputs) -> np.ndarray:
    """(pair, 2): the probabilities that each pair is not a link and that it is one.

    Raises:
        DataError: Pairs have another shape, or name no node or one node twice.
    """
    trained, other = estimator.trained, _other_graph(estimator, "predict", graph, extra_inputs)
    senders, receivers = pairs_of(pairs, other or trained.encoder.graph)
    probabilities = model.predict(trained, senders, receivers, other, device_of(estimator))
    return np.stack([1 - probabilities, probabilities], axis=1)


def predict(estimator: Estimator, pairs: object, graph: object, extra_inputs: ExtraInputs) -> np.ndarray:
    """(pair): whether each pair is more likely a link than not."""
    is_link: np.ndarray = predict_proba(estimator, pairs, graph, extra_inputs)[:, 1] > 0.5
    return is_link


@naming_parameters
def score(
    estimator: Estimator,
    pairs: object,
    y: object,
    sample_weight: ArrayLike | None,
    graph: object,
    extra_inputs: ExtraInputs,
) -> float:
    """The share of the pairs for which it is predicted right whether they are a link.

    Raises:
        DataError: A value of y says neither, or there are more or fewer than pairs.
    """
    refuse_single_text("y", y)
    predicted, truth = predict(estimator, pairs, graph, extra_inputs), plain_array(y)
    if truth.shape != predicted.shape:
        raise DataError(f"score: y is {truth.shape}, but there are {len(predicted)} pairs.")
    for row, value in enumerate(truth.tolist()):
        if not isinstance(value, bool | np.bool_ | int | float | np.number) or value not in (0, 1):
            raise DataError(
                f"score: {row_name(y, row)} of y is {value!r}; expected True or 1 for a link, False or 0 for none."
            )
    weights = None if sample_weight is None else weights_of("score", sample_weight, len(truth))
    return float(np.average(predicted == truth.astype(bool), weights=weights))


@naming_parameters
def explain(
    estimator: Estimator,
    pair: object,
    graph: object,
    extra_inputs: ExtraInputs,
    *,
    target: str | None,
    label: object,
    hops: int | None,
    methods: Choice,
) -> Explanation:
    """One pair of nodes, explained.

    Raises:
        DataError: Unknown node, or the two are the same.
        SettingError: `hops` is below 1, or it is not a pair.
    """
    if isinstance(pair, str) or not isinstance(pair, Collection) or len(pair) != 2:
        raise SettingError(f"explain: item is {pair!r}; expected a pair of nodes, (sender, receiver).")
    trained, other = estimator.trained, _other_graph(estimator, "explain", graph, extra_inputs)
    nodes = other or trained.encoder.graph
    sender, receiver = (node_number(node, node_names_of(nodes), len(nodes)) for node in pair)
    return explain_link(trained, sender, receiver, graph=other, hops=hops, target=target, label=label, methods=methods)


@naming_parameters
def fingerprint(estimator: Estimator, graph: object, extra_inputs: ExtraInputs) -> np.ndarray:
    """(node, dim): the learned vector of each node of a graph, that of the training by default."""
    trained, other = estimator.trained, _other_graph(estimator, "predict", graph, extra_inputs)
    batch = trained.encoder.scaled(other or trained.encoder.graph).graph()
    return model.node_vectors(trained, batch, device_of(estimator)).numpy()


def _other_graph(estimator: Estimator, method: str, graph: object, extra_inputs: ExtraInputs) -> LinkGraph | None:
    """Another graph than that of the training, where there is one."""
    extra_inputs = without_none(extra_inputs)
    if "edges" in extra_inputs or is_graph(graph):
        names, encoder = getattr(estimator, "column_names_", {}), estimator.trained.encoder
        num_edge_features = encoder.graph.edges.features.shape[1]
        missing = encoder.on_graph.columns.missing
        return graph_of(graph, extra_inputs, encoder.place.directed, names, missing, num_edge_features)
    if graph is not None or "edge_features" in extra_inputs:
        raise DataError(f"{method}: there are nodes or features of edges, but no edges; give them too.")
    return None


def node_names_of(graph: LinkGraph) -> tuple[str, ...] | None:
    """What the nodes of a graph are called; None where they are numbered."""
    return None if graph.are_numbered else graph.names


def graph_of(
    X: object,
    extra_inputs: ExtraInputs,
    is_directed: bool,
    trained_names: Mapping[str, Sequence[str]] = {},
    missing: str = "impute",
    num_edge_features: int = 0,
) -> LinkGraph:
    """A graph from arrays; as many nodes as there are features, else as the edges know or name.

    Args:
        X, extra_inputs: As `GraphNodes` takes them.
        is_directed: Whether edges are one way.
        trained_names: The names of features in the order of the training, as `GraphNodes.in_order` takes them.
        missing: As in `GraphNodes.arrays`.
        num_edge_features: As in `GraphNodes.with_edge_features`.

    Raises:
        DataError: Shapes do not fit, an edge names no node, or a feature of the training is missing.
    """
    nodes = (
        plain_nodes("LinkPredictor", X, **extra_inputs).in_order(trained_names).with_edge_features(num_edge_features)
    )
    warn_of_graph_features(nodes.graph)
    count, listed = nodes.graph.num_nodes, nodes.edges
    features = NodeFeatures.of(np.zeros((count, 0))) if nodes.features is None else nodes.arrays(missing)["features"]
    names = nodes.names or tuple(map(str, range(count)))
    return LinkGraph("the graph", names, features, listed if is_directed else listed.both_ways(count))


def pairs_of(pairs: object, graph: LinkGraph) -> tuple[np.ndarray, np.ndarray]:
    """Senders and receivers of pairs of nodes, by their names in a graph with names, else by their numbers.

    Raises:
        DataError: They have another shape than (pair, 2), or name no node or one node twice.
    """
    refuse_single_text("pairs", pairs)
    num_nodes, names = len(graph), node_names_of(graph)
    table = pairs.cpu().numpy() if isinstance(pairs, torch.Tensor) else np.asarray(pairs)
    if names is not None:
        if table.ndim != 2 or table.shape[1] != 2:
            raise DataError(f"pairs is {table.shape}; expected (pair, 2) names of nodes.")
        number_of = {name: number for number, name in enumerate(names)}
        unknown = [
            (row, node) for row, pair in enumerate(table.tolist()) for node in pair if str(node) not in number_of
        ]
        for row, node in unknown[:1]:
            node_number(node, names, num_nodes)  # which says what nodes are called
            raise DataError(f"pair {row} is {table[row].tolist()}, but no node is called {node!r}.")
        table = np.array([[number_of[str(node)] for node in pair] for pair in table.tolist()], dtype=np.int64)
        table = table.reshape(-1, 2)
    if table.ndim != 2 or table.shape[1] != 2 or not np.issubdtype(table.dtype, np.integer):
        raise DataError(f"pairs is {table.dtype} {table.shape}; expected whole numbers (pair, 2).")
    senders, receivers = table.T.astype(np.int64)
    wrong = (table < 0).any(1) | (table >= num_nodes).any(1)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(f"pair {row} is {table[row].tolist()}, but nodes are 0 to {num_nodes - 1}.")
    if (loops := senders == receivers).any():
        row = int(np.flatnonzero(loops)[0])
        pair = [node if names is None else names[node] for node in table[row].tolist()]
        raise DataError(f"pair {row} is {pair}: a link joins two different nodes.")
    return senders, receivers
