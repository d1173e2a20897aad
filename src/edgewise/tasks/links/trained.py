"""A trained model of links, with the graph it was trained on and all it needs to read another one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from edgewise.data.graphs.node_features import Categories, NodeFeatures
from edgewise.data.graphs.nodes import NodeTable
from edgewise.data.graphs.source import GraphSource
from edgewise.data.scale import ConditionScaler
from edgewise.errors import DataError
from edgewise.models.graph_settings import LinkSettings, NodeSettings, NodeSizes
from edgewise.models.link import LinkModel
from edgewise.records import NodeBatch
from edgewise.tasks.fitted import Fitted
from edgewise.tasks.links.graph import LinkGraph
from edgewise.tasks.links.messages import Messages
from edgewise.tasks.links.settings import LinkRunSettings
from edgewise.tasks.nodes.units import FeatureScale, check_features, check_weights, scaled
from edgewise.train.device import cpu_threads
from edgewise.train.document import TRANSIENT
from edgewise.train.folder import RunFolder

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
    graph: LinkGraph = field(metadata=TRANSIENT)
    """That of the training, with all its links."""

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
        return Messages(scaled(features, self.feature_scale, self.scaler), graph.edges, self.settings.has_loops)

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
        """A model before its first step, drawn from torch's generator."""
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
