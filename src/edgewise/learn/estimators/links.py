"""LinkPredictor: the links of one graph."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch

from edgewise.errors import DataError, SettingError
from edgewise.explain.explanation import Explanation
from edgewise.explain.methods import Choice
from edgewise.formatting import plural
from edgewise.learn.estimators.estimator import Estimator
from edgewise.learn.estimators.graph_input import is_graph, missing_of, node_number, plain_nodes
from edgewise.learn.estimators.graph_warnings import warn_of_graph_features, warn_of_ignored_edges
from edgewise.learn.estimators.params import old_names
from edgewise.learn.networks.graph_layers import layers_for
from edgewise.learn.readers.graphs.links import Links, LinkSplits, named_splits, random_splits
from edgewise.learn.readers.graphs.names import RowLabels
from edgewise.learn.readers.graphs.node_features import NodeFeatures
from edgewise.learn.tables.cell import refuse_single_text
from edgewise.learn.tasks.links.explainable import explain_link
from edgewise.learn.tasks.links.task import TASK, LinkData
from edgewise.learn.tasks.links.trained import FittedLinks, LinkGraph
from edgewise.learn.tasks.nodes.units import fills

GRAPH = ("X", "edges", "edge_features")
"""Another graph than that of the training: what `predict` takes behind the pairs."""


class LinkPredictor(
    Estimator,
    task=TASK,
    fitted_type=FittedLinks,
    models=layers_for("links"),
    required={"data": ("the nodes",)},
    keep=("split_sizes", "data_seed", "directed", "baselines"),
    options=("edges", "edge_features"),
    named=("edge_features",),
    fit_options=("splits",),
    positional={"predict": GRAPH, "score": ("sample_weight",), "explain": GRAPH},
):
    """Predicts which nodes of a graph are linked.

    LinkPredictor(model="gcn").fit(graph).predict_proba([[0, 5], [2, 7]])
    """

    @old_names
    def fit(
        self,
        data: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        validation: Any = None,
        **options: Any,
    ) -> Self:
        """Learns the links of a graph; `metrics_` has the scores of validation and test links.

        Args:
            data: A graph: `Graph`, PyTorch Geometric's `Data`, a graph of networkx; or the features of its nodes (node,
                feature), None where nothing is known of them: each node then has a vector of its own, which is learned.
            y: Beside features, the edges; the other way of each is added where it is missing, unless `directed`.
            sample_weight: Refused: all links count the same.
            validation: (edge) True for the links that choose the epoch; the others train.
            options: `edges`, as y; `edge_features` (edge, feature); and `splits` (edge): train, val, test, or nothing
                for edges that carry messages and are not predicted; drawn at random by default.

        Raises:
            DataError: Shapes do not fit, an edge names no node, or there are too few links, or pairs that are none.
        """
        self._refuse(sample_weight=(sample_weight, "all links count the same"))
        options = self._named("fit", (), {"edges": y, **options})
        splits = options.pop("splits", None)
        if validation is not None:
            splits = np.where(np.asarray(validation, dtype=bool), "val", "train")
        job = self.settings()
        self._learn_names(data, None, options)
        graph = graph_of(
            data,
            options.get("edges"),
            options.get("edge_features"),
            job.graph.directed,
            self.column_names_,
            missing_of(job.feature_scale),
        )
        warn_of_ignored_edges(job.model, graph.edges.features.shape[1])
        links = Links.of(graph.edges, len(graph), job.graph.directed)
        if splits is None:
            split_of_link = random_splits(links, job.split_sizes, job.data_seed)
        else:
            words = ["" if word is None else str(word) for word in np.asarray(splits, dtype=object).tolist()]
            if len(words) != (count := len(graph.edges) - graph.edges.num_mirrored):
                raise DataError(f"splits has {plural(len(words), 'row')}, but there are {count} edges.")
            named = RowLabels(tuple(words), "splits, edge ", np.arange(len(words)), "")
            split_of_link = named_splits(links, named, job.data_seed)
        chosen = LinkSplits.of(links, split_of_link, job.negatives, job.data_seed)
        return self._train(TASK.prepared(job, LinkData(graph, links), chosen))

    @old_names
    def predict_proba(self, data: Any, *old: Any, **options: Any) -> np.ndarray:
        """(pair, 2): the probabilities that each pair is no link and that it is one.

        They hold for a test with as many pairs that are no link as in training; of all pairs of a graph far fewer are
        links.

        Args:
            data: (pair, 2) nodes, by their names in a graph with names, else counted from 0.
            old: Another graph along whose edges messages go: a graph, or features, edges and features of edges. By
                default that of the training, with all its links.
            options: The same by name: `X`, `edges` and `edge_features`.

        Raises:
            DataError: Pairs have another shape, or name no node or one node twice.
        """
        trained, graph = self.trained, self._graph("predict", old, options)
        senders, receivers = pairs_of(data, graph or trained.graph)
        found = trained.predict(senders, receivers, graph, self._device)
        return np.stack([1 - found, found], axis=1)

    @old_names
    def predict(self, data: Any, *old: Any, **options: Any) -> np.ndarray:
        """(pair): whether each pair is more likely a link than not; as `predict_proba`."""
        return self.predict_proba(data, *old, **options)[:, 1] > 0.5

    @old_names
    def score(self, data: Any, y: Any, sample_weight: Any = None, **options: Any) -> float:
        """The share of the pairs of which is predicted right whether they are a link; as `predict_proba`.

        Args:
            data: (pair, 2) nodes.
            y: (pair) whether each is a link.
            sample_weight: (pair).
            options: As in `predict_proba`.
        """
        refuse_single_text("y", y)
        found, known = self.predict(data, **options), np.asarray(y)
        if known.shape != found.shape:
            raise DataError(f"score: y is {known.shape}, but there are {len(found)} pairs.")
        return float(np.average(found == known.astype(bool), weights=sample_weight))

    @old_names
    def explain(
        self,
        item: Any = None,
        *old: Any,
        target: str | None = None,
        label: Any = None,
        hops: int | None = None,
        sender: Any = None,
        receiver: Any = None,
        methods: Choice = None,
        **options: Any,
    ) -> Explanation:
        """One pair of nodes, explained: what its ends attend to, and what changes the probability of the link.

        Where the graph has the link, no message goes along it, as in training; `predict_proba` leaves it in.

        Args:
            item: The pair, (sender, receiver), as in `predict_proba`; or the sender, with the receiver behind it.
            old: Another graph, as in `predict_proba`.
            target: What is explained; there is one target.
            label: The class whose probability is explained; the predicted one by default.
            hops: How far away nodes are shown; by default as far as the model looks.
            sender, receiver: The pair, each by itself.
            options: As in `predict_proba`.
            methods: Names of methods; see `edgewise.explain.methods`.

        Raises:
            DataError: There is no such node, or it is one twice.
            SettingError: `hops` is below 1, or a node of the pair is missing.
        """
        if np.ndim(item) == 0 and item is not None:
            sender = item
        elif item is not None:
            if len(item) != 2:
                raise SettingError(f"explain: item has {plural(len(item), 'node')}; expected (sender, receiver).")
            sender, receiver = item
        if receiver is None and old:
            receiver, *old = old  # type: ignore[assignment]
        if sender is None or receiver is None:
            missing = "sender" if sender is None else "receiver"
            raise SettingError(f"explain: {missing} is missing; give the pair, (sender, receiver).")
        graph = self._graph("explain", old, options)
        named = graph or self.trained.graph
        sender, receiver = (node_number(node, names_of(named), len(named)) for node in (sender, receiver))
        return explain_link(
            self.trained,
            sender,
            receiver,
            graph=graph,
            hops=hops,
            target=target,
            label=label,
            methods=methods,
        )

    @old_names
    def fingerprint(self, data: Any = None, *old: Any, **options: Any) -> np.ndarray:
        """(node, dim): the learned vector of each node of a graph, that of the training by default."""
        trained, graph = self.trained, self._graph("predict", (data, *old), options)
        found: np.ndarray = trained.vectors(trained.messages(graph or trained.graph).along(), self._device).numpy()
        return found

    def _graph(self, method: str, old: Any, options: dict[str, Any]) -> LinkGraph | None:
        """Another graph, where one is given; None for that of the training."""
        X = options.pop("X", None)
        given = {"X": X, **self._named(method, old, options)}
        if given.get("edges") is not None or is_graph(given["X"]):
            names, directed = getattr(self, "column_names_", {}), self.trained.place.directed
            missing = "impute" if fills(self.trained.scaler) else "drop"
            return graph_of(given["X"], given.get("edges"), given.get("edge_features"), directed, names, missing)
        if given["X"] is not None or given.get("edge_features") is not None:
            raise DataError(f"{method}: there are nodes or features of edges, but no edges; give them too.")
        return None


def names_of(graph: LinkGraph) -> tuple[str, ...] | None:
    """What the nodes of a graph are called; None where they are numbered."""
    return None if graph.names == graph.counted_names else graph.names


def graph_of(
    held: Any,
    edges: Any,
    edge_features: Any,
    is_directed: bool,
    known: Mapping[str, Sequence[str]] = {},
    missing: str = "impute",
) -> LinkGraph:
    """A graph from arrays; as many nodes as there are features, else as the edges know or name.

    Args:
        held, edges, edge_features: As `GraphNodes` takes them.
        is_directed: Whether edges are one way.
        known: The names of features in the order of the training, as `GraphNodes.in_order` takes them.
        missing: As in `GraphNodes.arrays`.

    Raises:
        DataError: Shapes do not fit, an edge names no node, or a feature of the training is missing.
    """
    nodes = plain_nodes("LinkPredictor", held, edges, edge_features).in_order(known)
    warn_of_graph_features(nodes.graph)
    count, listed = nodes.graph.num_nodes, nodes.edges
    features = NodeFeatures.of(np.zeros((count, 0))) if nodes.features is None else nodes.arrays(missing)["features"]
    names = nodes.names or tuple(map(str, range(count)))
    return LinkGraph("the graph", names, features, listed if is_directed else listed.both_ways(count))


def pairs_of(pairs: Any, graph: LinkGraph) -> tuple[np.ndarray, np.ndarray]:
    """Senders and receivers of pairs of nodes, by their names in a graph with names, else by their numbers.

    Raises:
        DataError: They have another shape than (pair, 2), or name no node or one node twice.
    """
    refuse_single_text("pairs", pairs)
    num_nodes, names = len(graph), names_of(graph)
    table = pairs.cpu().numpy() if isinstance(pairs, torch.Tensor) else np.asarray(pairs)
    if names is not None:
        if table.ndim != 2 or table.shape[1] != 2:
            raise DataError(f"pairs is {table.shape}; expected (pair, 2) names of nodes.")
        place = {name: number for number, name in enumerate(names)}
        unknown = [(row, node) for row, pair in enumerate(table.tolist()) for node in pair if str(node) not in place]
        for row, node in unknown[:1]:
            node_number(node, names, num_nodes)  # which says what nodes are called
            raise DataError(f"pair {row} is {table[row].tolist()}, but no node is called {node!r}.")
        table = np.array([[place[str(node)] for node in pair] for pair in table.tolist()], dtype=np.int64)
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
        raise DataError(f"pair {row} is {table[row].tolist()}: a node and itself are no link.")
    return senders, receivers
