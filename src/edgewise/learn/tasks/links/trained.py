"""A trained model of links, with the graph it was trained on and all it needs to read another one."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from edgewise.errors import DataError
from edgewise.formatting import plural
from edgewise.graph.records import LinkBatch, NodeBatch, SparseFeatures
from edgewise.learn.networks.graph_settings import LinkSettings, NodeSettings, NodeSizes
from edgewise.learn.networks.link import LinkModel
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.readers.graphs.links import Links, LinkSplits
from edgewise.learn.readers.graphs.node_features import Categories, NodeFeatures, check_categories
from edgewise.learn.readers.graphs.nodes import NodeTable
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.tables.impute import Imputer
from edgewise.learn.tables.scale import ConditionScaler
from edgewise.learn.tasks.fitted import Fitted
from edgewise.learn.tasks.links.settings import LinkRunSettings
from edgewise.learn.tasks.nodes.filled import completed
from edgewise.learn.tasks.nodes.units import FeatureScale, check_features, check_weights, graph_batch, scaled
from edgewise.learn.training.device import cpu_threads
from edgewise.learn.training.document import TRANSIENT
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.loader import Shard

ARRAYS: dict[str, tuple[int, type[np.generic]]] = {
    "senders": (1, np.int64),
    "receivers": (1, np.int64),
    "edge_features": (2, np.floating),
    "feature_rows": (1, np.int64),
    "feature_columns": (1, np.int64),
    "feature_values": (1, np.floating),
    "feature_shape": (1, np.int64),
    "names": (1, np.uint8),
}
"""The arrays of a graph in a file: axes and type of each."""
MAX_UNNAMED = 1 << 24
"""Nodes without names that a small file may have; a large one may have 16 for each number in it."""


@dataclass(frozen=True, eq=False)
class LinkGraph:
    """Nodes and the edges between them."""

    source: str
    """What messages call it."""
    names: tuple[str, ...]
    """The names of the nodes."""
    features: NodeFeatures
    """What is known of each; of size 0 where nothing is."""
    edges: EdgeList
    """All edges, both ways where they go both ways."""

    @classmethod
    def of(cls, table: NodeTable) -> Self:
        """That of a table of nodes."""
        return cls(table.source, table.names, table.features, table.edges)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def counted_names(self) -> tuple[str, ...]:
        """What nodes without names are called: 0, 1, 2, …"""
        return tuple(map(str, range(len(self))))

    def to_tensors(self) -> dict[str, Tensor]:
        """All of it as tensors, for a file."""
        arrays: dict[str, Any] = {
            "graph.senders": self.edges.senders,
            "graph.receivers": self.edges.receivers,
            "graph.edge_features": self.edges.features,
            "graph.feature_rows": self.features.rows,
            "graph.feature_columns": self.features.columns,
            "graph.feature_values": self.features.values,
            "graph.feature_shape": np.array(self.features.shape),
        }
        names = "" if self.names == self.counted_names else json.dumps(self.names)
        arrays["graph.names"] = np.frombuffer(names.encode(), dtype=np.uint8).copy()
        return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], source: str) -> Self:
        """What `to_tensors` made.

        Raises:
            DataError: an array is missing, or they do not fit together.
        """
        arrays = {name.removeprefix("graph."): tensor.numpy() for name, tensor in tensors.items()}
        if arrays.keys() != ARRAYS.keys():
            raise DataError(f"{', '.join(sorted(arrays.keys() ^ ARRAYS.keys()))}: missing or not known.")
        for name, (rank, kind) in ARRAYS.items():
            if arrays[name].ndim != rank or not np.issubdtype(arrays[name].dtype, kind):
                raise DataError(f"{name} is {arrays[name].dtype} {arrays[name].shape}.")
        if arrays["feature_shape"].shape != (2,) or arrays["feature_shape"].min() < 0:
            raise DataError("feature_shape is no pair of counts.")
        num_nodes, num_features = map(int, arrays["feature_shape"])
        for name, limit, length in (
            ("senders", num_nodes, len(arrays["edge_features"])),
            ("receivers", num_nodes, len(arrays["edge_features"])),
            ("feature_rows", num_nodes, len(arrays["feature_values"])),
            ("feature_columns", num_features, len(arrays["feature_values"])),
        ):
            found = arrays[name]
            if len(found) != length or (length and not 0 <= found.min() <= found.max() < limit):
                raise DataError(f"{name} does not fit the other arrays.")
        if any(np.isinf(arrays[name]).any() for name in ("edge_features", "feature_values")):
            raise DataError("a feature is not finite.")
        features = NodeFeatures.of_entries(
            arrays["feature_rows"], arrays["feature_columns"], arrays["feature_values"], (num_nodes, num_features)
        )
        edges = EdgeList(arrays["senders"], arrays["receivers"], arrays["edge_features"])
        written = arrays["names"].tobytes()
        try:
            names = json.loads(written) if written else None
        except (ValueError, RecursionError) as error:
            raise DataError(f"the names of the nodes cannot be read: {error}") from error
        if names is None:
            # A count alone could ask for any amount of memory.
            if num_nodes > max(MAX_UNNAMED, 16 * sum(array.size for array in arrays.values())):
                raise DataError(f"feature_shape has {plural(num_nodes, 'node')}, but the other arrays are small.")
            names = list(map(str, range(num_nodes)))
        if not isinstance(names, list) or len(names) != num_nodes or not all(isinstance(each, str) for each in names):
            raise DataError(f"expected the names of {plural(num_nodes, 'node')}.")
        return cls(source, tuple(names), features, edges)


@dataclass(frozen=True, eq=False)
class Messages:
    """The nodes and edges of a graph in the units of a model."""

    features: torch.Tensor | SparseFeatures
    """The features of each node."""
    edges: EdgeList
    """All edges of the graph."""
    has_loops: bool
    """Whether the model wants every node among its own neighbors."""

    def along(self, are_seen: np.ndarray | None = None) -> NodeBatch:
        """The graph with some of its edges (edge, bool); with all where it is None."""
        edges = self.edges if are_seen is None else self.edges.taken(np.flatnonzero(are_seen))
        return graph_batch(self.features, edges, self.has_loops)


def link_batch(graph: NodeBatch, links: Links, predicted: np.ndarray, others: np.ndarray) -> LinkBatch:
    """Some links, by their places in `links`, and pairs that are none, by their numbers, as one batch."""
    ends = links.pairs.ends(np.concatenate([links.numbers[predicted], others]))
    senders, receivers = (torch.from_numpy(side) for side in ends)
    targets = (torch.arange(len(senders)) < len(predicted)).float()[:, None]
    return LinkBatch(graph, senders, receivers, targets)


class LinkLoader:
    """All training links once an epoch, each step some of them, and pairs that are none.

    No message goes along a link that the step predicts: the model must not see the edge it predicts. The pairs that
    are none are drawn anew in every step from all that are no training link, which is all that training may know:
    validation and test links are drawn now and then, too, as if they were not known yet.

    Args:
        messages: the graph.
        links: its links.
        splits: which of them are learned.
        batch_size: links a step, at most.
        others_a_link: pairs that are none for each link.
        seed: of order and draw.
    """

    def __init__(
        self, messages: Messages, links: Links, splits: LinkSplits, batch_size: int, others_a_link: int, seed: int
    ):
        self.messages, self.links, self.splits = messages, links, splits
        self.num_batches = math.ceil(len(splits.train) / batch_size)
        self.others_a_link, self.seed, self.epoch, self.shard = others_a_link, seed, 0, Shard()
        self.known = links.numbers[splits.seen]

    def __len__(self) -> int:
        return self.num_batches

    def __iter__(self) -> Iterator[LinkBatch]:
        # Generators start at the first `next`: by then the epoch's number has been set.
        random, pairs = np.random.default_rng([self.seed, self.epoch]), self.links.pairs
        for predicted in np.array_split(random.permutation(self.splits.train), len(self)):
            seen = self.splits.seen.copy()
            seen[predicted] = False
            places = random.integers(0, pairs.total - len(self.known), self.others_a_link * len(predicted))
            others = pairs.outside(self.known, places)
            own = self.shard.of(predicted), self.shard.of(others)
            yield link_batch(self.messages.along(self.links.edges_of(seen)), self.links, *own)


PAIRS_AT_ONCE = 1 << 17
"""Pairs that are computed together where no gradient is wanted."""


@dataclass(kw_only=True)
class FittedLinks(Fitted):
    """A trained model of links.

    Where nothing is known of the nodes, each has a vector of its own, which is learned: it is its own one feature. Such
    a model knows the nodes of its training alone, by their names.
    """

    FORMAT = LinkRunSettings.FORMAT
    PREFIX = "model."

    settings: NodeSettings
    """The layers and their sizes."""
    link: LinkSettings
    """What is made of two vectors."""
    sizes: NodeSizes
    """What the data looks like."""
    place: GraphSource
    """Where the edges of the training graph were, and how they were read."""
    feature_columns: tuple[str, ...]
    """The columns of the features, where they stand in the table of nodes."""
    category_columns: tuple[str, ...] = ()
    """Those of words."""
    categories: Categories = field(default_factory=dict)
    """The words of each column of categories of nodes."""
    edge_categories: Categories = field(default_factory=dict)
    """The words of each column of categories of edges."""
    feature_scale: FeatureScale
    """rows, standard or none."""
    scaler: ConditionScaler | None
    """Of the features, where they are scaled by their spread."""
    edge_imputer: Imputer = field(default_factory=Imputer)
    """Fills missing numbers of edges; none where the run drops them."""
    graph: LinkGraph = field(metadata=TRANSIENT)
    """That of the training, with all its links."""

    def check(self) -> None:
        """Raise DataError unless the fields fit each other."""
        check_categories("categories", self.categories, self.category_columns)
        check_categories("edge_categories", self.edge_categories, self.place.edge_category_columns)

    @property
    def num_columns(self) -> int:
        """Features of a node as they stand in the file."""
        return self.graph.features.shape[1]

    def messages(self, graph: LinkGraph) -> Messages:
        """A graph as the model takes it.

        Raises:
            DataError: its nodes or edges have another number of features than those of the training graph; or nothing
                is known of the nodes, and one was not in the training.
        """
        known, given = ((each.features.shape[1], each.edges.features.shape[1]) for each in (self.graph, graph))
        check_features(graph.source, known, given)
        check_weights(graph.source, graph.edges, self.settings, self.sizes)
        features = graph.features if self.num_columns else self._own_features(graph)
        edges = completed(graph.edges, self.edge_imputer, self.settings)
        return Messages(scaled(features, self.feature_scale, self.scaler), edges, self.settings.has_loops)

    def _own_features(self, graph: LinkGraph) -> NodeFeatures:
        """Each node as its own one feature."""
        place = {name: number for number, name in enumerate(self.graph.names)}
        if unknown := [name for name in graph.names if name not in place]:
            raise DataError(
                f"{graph.source}: the node {unknown[0]!r} was not in the training, and nothing is known of it; a model "
                "that was trained without features knows the nodes of its training alone."
            )
        columns = np.array([place[name] for name in graph.names], dtype=np.int64)
        ones = np.ones(len(graph), dtype=np.float32)
        return NodeFeatures.of_entries(np.arange(len(graph)), columns, ones, (len(graph), len(place)))

    def vectors(self, graph: NodeBatch, device: str = "cpu") -> torch.Tensor:
        """(node, vector): what the model makes of each node."""
        with torch.no_grad(), cpu_threads(self.threads):
            found = self.model.to(device).eval().vectors(graph.to(device)).cpu()
        self.model.to("cpu")
        return found

    def scores(self, vectors: torch.Tensor, senders: np.ndarray, receivers: np.ndarray) -> np.ndarray:
        """(pair): the score of pairs of nodes, larger for likelier links; its sigmoid is the probability."""
        found = [np.zeros(0)]
        with torch.no_grad(), cpu_threads(self.threads):
            for first in range(0, len(senders), PAIRS_AT_ONCE):
                pairs = (torch.from_numpy(side[first : first + PAIRS_AT_ONCE]) for side in (senders, receivers))
                found.append(self.model.score_pairs(vectors, *pairs).squeeze(1).double().numpy())
        return np.concatenate(found)

    def predict(
        self, senders: np.ndarray, receivers: np.ndarray, graph: LinkGraph | None = None, device: str = "cpu"
    ) -> np.ndarray:
        """(pair): the probability that each pair of nodes is a link.

        Args:
            senders, receivers: nodes of the graph, counted from 0.
            graph: whose edges carry messages, all of them; that of the training by default.
            device: where to compute.
        """
        vectors = self.vectors(self.messages(graph or self.graph).along(), device)
        return probabilities(self.scores(vectors, senders, receivers))

    def fingerprint(self, table: NodeTable, device: str = "cpu") -> np.ndarray:
        """(node, vector): the learned vector of each node."""
        return self.vectors(self.messages(LinkGraph.of(table)).along(), device).numpy()

    def new_member(self) -> LinkModel:
        return LinkModel(self.sizes, self.settings, self.link, is_directed=self.place.directed)

    def save_parts(self, folder: RunFolder) -> dict[str, torch.Tensor]:
        """The graph of the training."""
        return self.graph.to_tensors()

    @classmethod
    def load_parts(
        cls, folder: RunFolder, values: Mapping[str, Any], tensors: dict[str, torch.Tensor]
    ) -> dict[str, Any]:
        """The graph of the training."""
        own = {name: tensors.pop(name) for name in list(tensors) if not name.startswith(cls.PREFIX)}
        return {"graph": LinkGraph.from_tensors(own, "the graph of the training")}


def probabilities(scores: np.ndarray) -> np.ndarray:
    """sigmoid(s)."""
    return 1 / (1 + np.exp(-scores.clip(-500, 500)))
