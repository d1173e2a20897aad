"""LinkPredictor: the links of a graph from Python, in the habit of scikit-learn."""

from typing import Any, Self

import numpy as np
import torch

from edgewise.data.graphs.file import check_edges
from edgewise.data.graphs.links import Links, LinkSplits, named_splits, random_splits
from edgewise.data.graphs.names import RowLabels
from edgewise.data.graphs.node_features import NodeFeatures
from edgewise.errors import DataError
from edgewise.estimators.graph_input import is_graph, plain_parts_of
from edgewise.estimators.learner import Learner
from edgewise.estimators.nodes import Matrix, Neighbors, edges_of, features_of
from edgewise.explanation import Explanation
from edgewise.neighborhood import Edges
from edgewise.plural import plural
from edgewise.tasks.links.explain import explain_link
from edgewise.tasks.links.graph import LinkGraph
from edgewise.tasks.links.job import link_job
from edgewise.tasks.links.task import TASK, LinkData
from edgewise.tasks.links.trained import TrainedLinks
from edgewise.tasks.run import fit
from edgewise.train.device import pick_device


class LinkPredictor(Learner[TrainedLinks]):
    """Tells which nodes of a graph are linked.

        predictor = LinkPredictor(model="gcn").fit(features, edges)
        predictor.predict_proba([[0, 5], [2, 7]])

    Args:
        settings: any setting of `edgewise train --task-type link` by its name in Python: model, decoder, negatives,
            directed, split_sizes, epochs, seed ...
    """

    kind = TrainedLinks
    fitted_by = "fit(features, edges)"
    own_settings = ("split_sizes", "data_seed", "directed")

    def fit(self, X: Matrix | None, edges: Neighbors = None, *, edge_features: Any = None, parts: Any = None) -> Self:
        """Learns the links of a graph; `metrics_` holds the scores of validation and test links.

        Args:
            X: (node, feature); None where nothing is known of the nodes: each then learns a vector of its own. Or a
                graph with all that follows but parts: a `Graph`, PyTorch Geometric's `Data`, a graph of networkx.
            edges: who is connected with whom; the other way of each is added where it is missing, unless `directed`.
            edge_features: (edge, feature).
            parts: (edge) "train", "val", "test", or nothing for edges that carry messages and are not told; drawn
                at random by default.

        Raises:
            DataError: shapes do not fit, an edge names no node, or there are too few links, or pairs that are none.
        """
        job = link_job({**self.settings, "data": ("the nodes",)}, type(self).__name__)
        graph = graph_of(X, edges, edge_features, job.graph.directed)
        links = Links.of(graph.edges, len(graph), job.graph.directed)
        if parts is None:
            part_of_link = random_splits(links, job.split_sizes, job.data_seed)
        else:
            words = ["" if word is None else str(word) for word in np.asarray(parts, dtype=object).tolist()]
            if len(words) != (count := len(graph.edges) - graph.edges.num_mirrored):
                raise DataError(f"parts has {plural(len(words), 'row')}, but there are {count} edges.")
            named = RowLabels(tuple(words), "parts, edge ", np.arange(len(words)), "")
            part_of_link = named_splits(links, named, job.data_seed)
        chosen = LinkSplits.of(links, part_of_link, job.negatives, job.data_seed)
        prepared = TASK.prepared(job, LinkData(graph, links), chosen)
        self.metrics_ = TASK.evaluate(prepared, fit(TASK, prepared))
        self.trained_ = prepared.fitted
        return self

    def predict_proba(
        self, pairs: Any, X: Matrix | None = None, edges: Neighbors | None = None, edge_features: Any = None
    ) -> np.ndarray:
        """(pair, 2): the probabilities that each pair is no link and that it is one.

        They are those of a test with as many pairs that are none as the training had; of all pairs of a graph far
        fewer are links.

        Args:
            pairs: (pair, 2) nodes, counted from 0.
            X, edges, edge_features: of another graph along whose edges messages go; those of the training by default,
                all of them.

        Raises:
            DataError: pairs have another shape, or name no node or one node twice.
        """
        trained, graph = self.trained, self._graph_of("predict_proba", X, edges, edge_features)
        senders, receivers = pairs_of(pairs, len(graph or trained.graph))
        found = trained.predict(senders, receivers, graph, pick_device(self.settings.get("device", "auto")))
        return np.stack([1 - found, found], axis=1)

    def predict(self, pairs: Any, **graph: Any) -> np.ndarray:
        """(pair): whether each pair is more likely a link than not; as `predict_proba`."""
        return self.predict_proba(pairs, **graph)[:, 1] > 0.5

    def score(self, pairs: Any, y: Any, sample_weight: Any = None, **graph: Any) -> float:
        """The share of the pairs of which is predicted right whether they are a link; as `predict_proba`.

        Args:
            pairs: (pair, 2) nodes.
            y: (pair) whether each is a link.
            sample_weight: (pair).
        """
        found, known = self.predict(pairs, **graph), np.asarray(y)
        if known.shape != found.shape:
            raise DataError(f"score: y is {known.shape}, but there are {len(found)} pairs.")
        return float(np.average(found == known.astype(bool), weights=sample_weight))

    def explain(
        self,
        sender: int,
        receiver: int,
        X: Matrix | None = None,
        edges: Neighbors | None = None,
        *,
        edge_features: Any = None,
        hops: int | None = None,
    ) -> Explanation:
        """One pair of nodes, explained: what its ends attend to, and what changes the probability of the link.

        Where the graph has the link, no message goes along it, as in training; `predict_proba` leaves it in. See
        `explain_link`.

        Args:
            sender, receiver: two nodes, counted from 0.
            X, edges, edge_features: of another graph along whose edges messages go, as in `predict_proba`.
            hops: how far away nodes are looked at; by default as far as the model looks.

        Raises:
            DataError: there is no such node, or it is one twice.
            SettingError: `hops` is below 1.
        """
        graph = self._graph_of("explain", X, edges, edge_features)
        return explain_link(self.trained, int(sender), int(receiver), graph=graph, hops=hops)

    def _graph_of(self, asked: str, X: Matrix | None, edges: Neighbors | None, edge_features: Any) -> LinkGraph | None:
        """Another graph, where one is given; None for that of the training."""
        if edges is not None or is_graph(X):
            return graph_of(X, edges, edge_features, self.trained.place.directed)
        if X is not None or edge_features is not None:
            raise DataError(f"{asked}: there are nodes or features of edges, but no edges; give them too.")
        return None


def graph_of(X: Matrix | None, edges: Neighbors | None, edge_features: Any, is_directed: bool) -> LinkGraph:
    """A graph from arrays; as many nodes as X has rows, else as the edges know or name.

    Raises:
        DataError: shapes do not fit, or an edge names no node.
    """
    X, edges, edge_features, *_ = plain_parts_of("LinkPredictor", X, edges, edge_features)
    listed = edges_of(edges, edge_features)
    if X is not None:
        features = features_of(X)
    else:
        known = edges.num_receivers if isinstance(edges, Edges) else edges.shape[0] if hasattr(edges, "tocoo") else 0
        named = np.concatenate([listed.senders, listed.receivers])
        features = NodeFeatures.of(np.zeros((max(known, int(named.max(initial=-1)) + 1), 0)))
    count = features.shape[0]
    check_edges("edges", np.stack([listed.senders, listed.receivers]), count)
    return LinkGraph(
        "the graph", tuple(map(str, range(count))), features, listed if is_directed else listed.both_ways(count)
    )


def pairs_of(pairs: Any, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Senders and receivers of pairs of nodes.

    Raises:
        DataError: they have another shape than (pair, 2), or name no node or one node twice.
    """
    table = pairs.cpu().numpy() if isinstance(pairs, torch.Tensor) else np.asarray(pairs)
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
