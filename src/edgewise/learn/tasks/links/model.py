"""What predicts links: the encoder of a graph, what the numbers of the network mean, and the probabilities of pairs."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Self, TypeAlias

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.special import expit
from torch import Tensor

from edgewise.errors import DataError, SettingError
from edgewise.graph import Batch, Graph, SparseFeatures, Supervision
from edgewise.learn.files import JsonObject
from edgewise.learn.fitted import Fitted
from edgewise.learn.networks.graph_settings import LinkSettings, NodeSettings, NodeSizes
from edgewise.learn.networks.link import LinkModel
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.readers.graphs.link_graph import LinkGraph
from edgewise.learn.readers.graphs.links import Links, LinkSplits
from edgewise.learn.readers.graphs.node_features import Categories, NodeFeatures
from edgewise.learn.readers.graphs.nodes import NodeData
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.readers.graphs.type_features import TypeScaler
from edgewise.learn.tables.columns import AUTO, Columns
from edgewise.learn.tables.impute import Imputer
from edgewise.learn.tables.scale import ColumnScaler
from edgewise.learn.tasks.feature_scale import FeatureScale, scale_of, scaled
from edgewise.learn.tasks.graph_encoding import (
    GraphEncoding,
    check_known_weights,
    edge_imputer,
    filled_edges,
    graph_of,
    num_filled_edge_inputs,
)
from edgewise.learn.tasks.graph_notes import check_graph
from edgewise.learn.tasks.links.settings import LinkRunSettings
from edgewise.learn.training.device import cpu_threads
from edgewise.learn.training.links import link_scores, simple_links
from edgewise.learn.training.loader import Shard
from edgewise.learn.training.loss import TargetLoss
from edgewise.learn.training.metrics import Scores

PREFIX = "model."
"""What the names of the tensors of the network begin with; those of the graph stand beside them."""
PAIRS_PER_BATCH = 1 << 17
"""Pairs that are computed together where no gradient is needed."""

PairScores: TypeAlias = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From the senders and receivers of pairs to a score of each, larger for likelier links."""


@dataclass(frozen=True)
class LinkOutput:
    """The probability that two nodes are linked: p = sigmoid(s) for the score s of their vectors."""

    link: LinkSettings
    """How the vectors of two nodes are scored (the decoder)."""

    def loss(self, settings: LinkRunSettings) -> TargetLoss:
        """The training loss over links and negative pairs, binary cross-entropy by default."""
        return TargetLoss("classification", settings.train.loss_function)

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """sigmoid(s)."""
        return expit(scores)

    def metrics(self, links: np.ndarray, negatives: np.ndarray) -> Scores:
        """How well the scores of links are separated from those of negative pairs."""
        return link_scores(links, negatives)

    def baselines(self, ends: tuple[np.ndarray, np.ndarray], graph: LinkGraph, directed: bool) -> dict[str, PairScores]:
        """Scores that need no training, such as the number of common neighbors, by name.

        Args:
            ends: senders and receivers of the known links.
            graph: the graph.
            directed: whether edges are one way.
        """
        features, matrix = graph.features, None
        if features.shape[1]:
            values = np.nan_to_num(features.values.astype(np.float64))
            matrix = csr_array((values, (features.rows, features.columns)), shape=features.shape)
        return simple_links(*ends, len(graph), directed, matrix)

    def check(self) -> None:
        """Raise DataError unless the fields fit each other; they always do."""


@dataclass(frozen=True, eq=False)
class ScaledGraph:
    """The nodes and edges of a graph as the network takes them: features scaled, missing numbers filled."""

    features: Tensor | SparseFeatures
    """The features of each node."""
    edges: EdgeList
    """All edges of the graph."""
    has_loops: bool
    """Whether the network needs a loop at every node."""

    def graph(self, edge_mask: np.ndarray | None = None) -> Graph:
        """The graph with some of its edges, `(edge)` bool; with all where it is None."""
        edges = self.edges if edge_mask is None else self.edges.taken(np.flatnonzero(edge_mask))
        return graph_of(self.features, edges, self.has_loops)


GRAPH = {"saved": False, "to_tensors": LinkGraph.to_tensors, "from_tensors": LinkGraph.from_tensors}
"""The metadata of a field whose graph is stored as tensors in model.safetensors, and not in model.json."""


@dataclass(frozen=True, eq=False)
class LinkEncoder:
    """The training graph and the preprocessing fitted on it, with the settings of the layers; not a network itself.

    Nodes without features have learned vectors, one for each node: each is its own one-hot feature. Such a model knows
    only the nodes of its training, by their names.
    """

    settings: NodeSettings
    """The layers."""
    sizes: NodeSizes
    """What the data looks like."""
    place: GraphSource
    """Where the edges of the training graph were, and how they were read."""
    feature_columns: tuple[str, ...]
    """The columns of the features, where they stand in the table of nodes."""
    feature_scale: FeatureScale
    """rows, standard or none."""
    scaler: ColumnScaler | None
    """Scales the features by their spread; None where they are not scaled so."""
    graph: LinkGraph = field(metadata=GRAPH)
    """That of the training, with all its links."""
    category_columns: tuple[str, ...] = ()
    """The columns of categories of nodes."""
    categories: Categories = field(default_factory=dict)
    """The categories of each of these columns."""
    edge_categories: Categories = field(default_factory=dict)
    """The categories of each column of categories of edges."""
    edge_imputer: Imputer = field(default_factory=Imputer)
    """Fills missing numbers of edges; none where the run drops them."""
    node_column: str = AUTO
    """The column of the names of the nodes."""

    def statuses(self, data: NodeData) -> list[str]:
        """The status of each node of a table."""
        return data.rows.status

    @classmethod
    def fit(
        cls,
        settings: LinkRunSettings,
        graph: LinkGraph,
        data: NodeData | None = None,
        training_edges: np.ndarray | None = None,
    ) -> Self:
        """Features of nodes are scaled by all nodes, which are all seen in training.

        Missing numbers of edges are filled by the edges that carry messages in training: validation and test links are
        as if they were not known yet.

        Args:
            settings: of the run.
            graph: the graph.
            data: the nodes that it was read from; None where it comes from arrays.
            training_edges: `(edge)` bool, which edges carry messages in training; None where all do.

        Raises:
            SettingError: a scale is given without features.
        """
        num_columns, chosen = graph.features.shape[1], settings.scaling.feature_scale
        if num_columns:
            scale, scaler = scale_of(graph.features, chosen)
            assert not isinstance(scaler, TypeScaler)
            if scaler is not None and settings.missing == "drop":
                scaler = scaler.without_imputing()
            num_features = num_columns if scaler is None else scaler.num_features
        elif chosen != "auto":
            raise SettingError(f"--feature-scale {chosen} does nothing: the nodes have no features.")
        else:
            scale, scaler, num_features = "none", None, len(graph)

        known_edges = graph.edges if training_edges is None else graph.edges.taken(np.flatnonzero(training_edges))
        check_known_weights(known_edges, settings.model)
        imputer = edge_imputer(known_edges, imputes=settings.missing == "impute")
        sizes = NodeSizes(
            num_features=num_features,
            num_edge_features=num_filled_edge_inputs(graph.edges.features.shape[1], imputer, settings.model),
            num_outputs=settings.model.model_dim,
        )
        return cls(
            settings=settings.model,
            sizes=sizes,
            place=settings.graph,
            feature_columns=settings.descriptors_columns,
            feature_scale=scale,
            scaler=scaler,
            graph=graph,
            category_columns=() if data is None else settings.category_columns,
            categories={} if data is None else data.categories,
            edge_categories=graph.edges.categories,
            edge_imputer=imputer,
            node_column=settings.node_column,
        )

    @property
    def num_columns(self) -> int:
        """Features of a node as they stand in the file."""
        return self.graph.features.shape[1]

    @property
    def num_edge_columns(self) -> int:
        """Features of an edge as they stand in the file."""
        return self.graph.edges.features.shape[1]

    @property
    def on_graph(self) -> GraphEncoding:
        """How features become numbers, as all tasks over one graph have it."""
        columns = Columns(
            node_column=self.node_column,
            descriptors_columns=self.feature_columns,
            category_columns=self.category_columns,
            missing="impute" if self.scaler is not None and self.scaler.imputes else "drop",
        )
        return GraphEncoding(
            columns=columns,
            settings=self.settings,
            graph=self.place,
            feature_scale=self.feature_scale,
            scaler=self.scaler,
            num_columns=self.num_columns,
            categories=self.categories,
            edge_categories=self.edge_categories,
        )

    @property
    def reading(self) -> JsonObject:
        """How another graph is read, with the categories that the model knows."""
        fills_edges = bool(self.edge_imputer.median)
        of_training = {"node_column_of_training": self.node_column, "ends_are_of_training": True}
        edges = {"allow_no_edges": True, "fills_edges": fills_edges, "num_edge_features": self.num_edge_columns}
        return {**self.on_graph.known_words, **of_training, **edges}

    def new_network(self, output: LinkOutput) -> LinkModel:
        """Layers that give nodes their vectors, and a score of two vectors."""
        return LinkModel(self.sizes, self.settings, output.link, is_directed=self.place.directed)

    def scaled(self, graph: LinkGraph) -> ScaledGraph:
        """A graph in the units of the network.

        Raises:
            DataError: its nodes or edges have another number of features than those of the training graph; or nodes
                lack features, and one was not in the training data.
        """
        check_graph(self.on_graph, graph.source, graph.features, graph.edges, self.num_edge_columns)
        features = graph.features if self.num_columns else self._one_hot_names(graph)
        edges = filled_edges(graph.edges, self.edge_imputer, self.settings)
        return ScaledGraph(scaled(features, self.feature_scale, self.scaler), edges, self.settings.has_loops)

    def _one_hot_names(self, graph: LinkGraph) -> NodeFeatures:
        """The feature of each node without features: which node of the training it is."""
        column_of_name = {name: column for column, name in enumerate(self.graph.names)}
        if unknown := [name for name in graph.names if name not in column_of_name]:
            raise DataError(
                f"{graph.source}: the node {unknown[0]!r} was not in the training, and nothing is known of it; a model "
                "that was trained without features knows the nodes of its training alone."
            )
        columns = np.array([column_of_name[name] for name in graph.names], dtype=np.int64)
        ones = np.ones(len(graph), dtype=np.float32)
        return NodeFeatures.of_entries(np.arange(len(graph)), columns, ones, (len(graph), len(column_of_name)))

    def check(self, output: LinkOutput) -> None:
        """Raise DataError unless the fields fit each other."""
        self.on_graph.check(self.sizes)


FittedLinks: TypeAlias = Fitted[LinkEncoder, LinkOutput]


def node_vectors(fitted: FittedLinks, graph: Graph, device: str = "cpu") -> Tensor:
    """`(node, vector)`: the vector of each node of a scaled graph."""
    with torch.no_grad(), cpu_threads(fitted.threads):
        vectors: Tensor = fitted.model.to(device).eval().vectors(graph.to(device)).cpu()
    fitted.model.to("cpu")
    return vectors


def pair_scores(fitted: FittedLinks, vectors: Tensor, senders: np.ndarray, receivers: np.ndarray) -> np.ndarray:
    """`(pair)`: the score of pairs of nodes, larger for likelier links; its sigmoid is the probability."""
    scores = [np.zeros(0)]
    with torch.no_grad(), cpu_threads(fitted.threads):
        for first in range(0, len(senders), PAIRS_PER_BATCH):
            ends = (torch.from_numpy(nodes[first : first + PAIRS_PER_BATCH]) for nodes in (senders, receivers))
            scores.append(fitted.model.score_pairs(vectors, *ends).squeeze(1).double().numpy())
    return np.concatenate(scores)


def predict(
    fitted: FittedLinks,
    senders: np.ndarray,
    receivers: np.ndarray,
    graph: LinkGraph | None = None,
    device: str = "cpu",
) -> np.ndarray:
    """`(pair)`: the probability that each pair of nodes is a link.

    Args:
        fitted: the model.
        senders, receivers: nodes of the graph, counted from 0.
        graph: whose edges carry messages, all of them; that of the training by default.
        device: of the vectors of nodes; pairs are scored on the CPU.
    """
    scaled_graph = fitted.encoder.scaled(fitted.encoder.graph if graph is None else graph)
    vectors = node_vectors(fitted, scaled_graph.graph(), device)
    return fitted.output.probabilities(pair_scores(fitted, vectors, senders, receivers))


def link_batch(graph: Graph, links: Links, predicted: np.ndarray, negatives: np.ndarray) -> Batch:
    """Some links and negative pairs as one batch.

    Args:
        graph: the edges along which messages go.
        links: all links.
        predicted: rows of `links`.
        negatives: numbers of pairs that are not links.
    """
    ends = links.pairs.ends(np.concatenate([links.numbers[predicted], negatives]))
    senders, receivers = (torch.from_numpy(nodes) for nodes in ends)
    targets = (torch.arange(len(senders)) < len(predicted)).float()[:, None]
    return Batch(graph, Supervision(senders=senders, receivers=receivers, targets=targets))


class TrainingLinkLoader:
    """All training links once an epoch, each step some of them, and pairs without a link.

    No message goes along a link that the step predicts: the model must not see the edge it predicts. Negative pairs are
    drawn anew in every step from all pairs that are not training links, which is all that training may know:
    validation and test links are drawn now and then, too, as if they were not known yet.

    Args:
        graph: the graph.
        links: its links.
        splits: which of them are learned.
        batch_size: links a step, at most.
        num_negatives: negative pairs for each link.
        seed: of order and draw.
    """

    def __init__(
        self, graph: ScaledGraph, links: Links, splits: LinkSplits, batch_size: int, num_negatives: int, seed: int
    ):
        self.scaled, self.links, self.splits = graph, links, splits
        self.num_batches = math.ceil(len(splits.train) / batch_size)
        self.num_negatives, self.seed, self.epoch, self.shard = num_negatives, seed, 0, Shard()
        self.training_numbers = links.numbers[splits.message_passing]

    def __len__(self) -> int:
        return self.num_batches

    def __iter__(self) -> Iterator[Batch]:
        # The body runs at the first `next`, so `epoch` and `shard` may be set after `iter`.
        random, pairs = np.random.default_rng([self.seed, self.epoch]), self.links.pairs
        num_others = pairs.total - len(self.training_numbers)
        for predicted in np.array_split(random.permutation(self.splits.train), len(self)):
            link_mask = self.splits.message_passing.copy()
            link_mask[predicted] = False
            ranks = random.integers(0, num_others, self.num_negatives * len(predicted))
            negatives = pairs.outside(self.training_numbers, ranks)
            graph = self.scaled.graph(self.links.edge_mask(link_mask))
            yield link_batch(graph, self.links, self.shard.of(predicted), self.shard.of(negatives))
