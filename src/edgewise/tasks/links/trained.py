"""A trained model of links, with the graph it was trained on and all it needs to read another one."""

import dataclasses
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import torch
from safetensors.torch import save as to_safetensors

from edgewise.data.graphs.node_features import NodeFeatures
from edgewise.data.graphs.nodes import NodeTable
from edgewise.data.graphs.source import GraphSource
from edgewise.data.graphs.types import TypeScaler
from edgewise.data.scale import ConditionScaler
from edgewise.errors import DataError, RunFolderError, SettingError
from edgewise.models.graph_settings import LinkSettings, NodeSettings, NodeSizes
from edgewise.models.link import LinkModel
from edgewise.records import NodeBatch
from edgewise.tasks.checkpoint import untrained
from edgewise.tasks.links.graph import LinkGraph
from edgewise.tasks.links.job import LinkJob
from edgewise.tasks.links.messages import Messages
from edgewise.tasks.nodes.units import scale_of, scaled
from edgewise.train.device import cpu_threads
from edgewise.train.folder import RunFolder
from edgewise.train.weights import filled, read_tensors

FORMAT, FORMAT_VERSION = "edgewise link model", 1
PAIRS_AT_ONCE = 1 << 17
"""Pairs that are told together where no gradient is wanted."""


@dataclass(frozen=True)
class LinkDocument:
    """What model.json says of a model of links, beside its format."""

    settings: NodeSettings
    link: LinkSettings
    sizes: NodeSizes
    place: GraphSource
    feature_columns: tuple[str, ...]
    feature_scale: Literal["rows", "standard", "none"]
    scaler: ConditionScaler | None


@dataclass
class TrainedLinks:
    """A trained model; `save` and `load` keep it in a run folder without pickle.

    Where nothing is known of the nodes, each has a vector of its own, which is learned: it is its own one feature. Such
    a model knows the nodes of its training alone, by their names.
    """

    model: LinkModel
    """From a graph to what is said of its pairs."""
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
    feature_scale: str
    """rows, standard or none."""
    scaler: ConditionScaler | None
    """Of the features, where they are scaled by their spread."""
    graph: LinkGraph
    """That of the training, with all its links: whoever asks later knows them all."""
    threads: int = 1
    """CPU threads that it computes with."""

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
        for what, known, given in (
            ("nodes", self.num_columns, graph.features.shape[1]),
            ("edges", self.graph.edges.features.shape[1], graph.edges.features.shape[1]),
        ):
            if given != known:
                raise DataError(
                    f"{graph.source}: its {what} have {given} features, but the model was trained on {known}."
                )
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
        """(pair): what is said of pairs of nodes, the larger the likelier a link; sigmoid makes it a probability."""
        found = [np.zeros(0)]
        with torch.no_grad(), cpu_threads(self.threads):
            for first in range(0, len(senders), PAIRS_AT_ONCE):
                pairs = (torch.from_numpy(side[first : first + PAIRS_AT_ONCE]) for side in (senders, receivers))
                found.append(self.model.told(vectors, *pairs).squeeze(1).double().numpy())
        return np.concatenate(found)

    def told(
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

    def save(self, folder: RunFolder) -> None:
        """Writes model.safetensors and model.json."""
        tensors = {f"model.{name}": value.detach().cpu() for name, value in self.model.state_dict().items()}
        tensors |= self.graph.to_tensors()
        content = to_safetensors({name: value.contiguous() for name, value in tensors.items()})
        folder.write("model.safetensors", content)
        folder.write_json(
            "model.json",
            {
                "format": FORMAT,
                "format_version": FORMAT_VERSION,
                "settings": dataclasses.asdict(self.settings),
                "link": dataclasses.asdict(self.link),
                "sizes": dataclasses.asdict(self.sizes),
                "place": dataclasses.asdict(self.place),
                "feature_columns": list(self.feature_columns),
                "feature_scale": self.feature_scale,
                "scaler": None if self.scaler is None else self.scaler.to_json(),
            },
        )

    @classmethod
    def load(cls, folder: RunFolder) -> Self:
        """Reads what `save` wrote; raises RunFolderError where it is damaged or of another format."""
        read, path = folder.read_model(FORMAT, FORMAT_VERSION, LinkDocument), folder.path / "model.safetensors"
        tensors = read_tensors(path)
        own = {name.removeprefix("model."): tensors[name] for name in tensors if name.startswith("model.")}
        known = {name: value for name, value in tensors.items() if not name.startswith("model.")}
        directed = read.place.directed
        model = filled(lambda: LinkModel(read.sizes, read.settings, read.link, is_directed=directed), own, path)
        try:
            graph = LinkGraph.from_tensors(known, "the graph of the training")
        except DataError as error:
            raise RunFolderError(f"{path} is damaged: {error}") from error
        parts = {field.name: getattr(read, field.name) for field in dataclasses.fields(read)}
        return cls(model=model, graph=graph, **parts)


def probabilities(scores: np.ndarray) -> np.ndarray:
    """sigmoid(s)."""
    return 1 / (1 + np.exp(-scores.clip(-500, 500)))


def untrained_links(graph: LinkGraph, job: LinkJob) -> TrainedLinks:
    """All that is known before the first step.

    The scale of the features is that of all nodes, which are all seen in training.

    Raises:
        SettingError: a scale is asked for, and there are no features.
    """
    num_columns, num_edge_features = graph.features.shape[1], graph.edges.features.shape[1]
    if num_columns:
        scale, scaler = scale_of(graph.features, job.feature_scale)
        assert not isinstance(scaler, TypeScaler)
        num_features = num_columns if scaler is None else scaler.num_features
    elif job.feature_scale != "auto":
        raise SettingError(f"--feature-scale {job.feature_scale} does nothing: nothing is known of the nodes.")
    else:
        scale, scaler, num_features = "none", None, len(graph)
    sizes = NodeSizes(
        num_features=num_features,
        num_edge_features=num_edge_features + job.model.has_loops if num_edge_features else 0,
        num_outputs=job.model.model_dim,
    )
    is_directed = job.graph.directed
    model = untrained(lambda: LinkModel(sizes, job.model, job.link, is_directed=is_directed), job.train.seed)
    return TrainedLinks(
        model=model,
        settings=job.model,
        link=job.link,
        sizes=sizes,
        place=job.graph,
        feature_columns=job.descriptors_columns,
        feature_scale=scale,
        scaler=scaler,
        graph=graph,
        threads=job.train.threads,
    )
