"""The graphs that models of nodes are trained on, read with our own reader, read plainly, or made up."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from cpu_attention.graphs import MissingDataError
from cpu_attention.options import data_folder
from torch import Tensor

from edgewise import Edges
from edgewise.graph import Batch, Graph, SparseFeatures, Supervision
from edgewise.learn.networks.graph_settings import NodeSettings


@dataclass(frozen=True)
class Recipe:
    """A model, and how it is trained."""

    settings: NodeSettings
    """The layers and their sizes."""
    learning_rate: float
    """Of Adam."""
    weight_decay: float
    """Of Adam."""


@dataclass(frozen=True)
class Workload:
    """A graph, and the models that are trained on it."""

    file: str
    """Where it lies in the folder of data sets."""
    split: str
    """How its nodes are parted: by the file (column), or 60, 20 and 20 % at random."""
    recipes: dict[str, Recipe]
    """By the name of the model."""


def _gat(dropout: float, weight_decay: float) -> Recipe:
    """Eight heads of eight, then one head for the classes."""
    return Recipe(NodeSettings(model="gat", dropout=dropout, attention_dropout=dropout), 5e-3, weight_decay)


WORKLOADS = {
    "cora": Workload(
        "planetoid/cora.npz",
        "column",
        {"GCN": Recipe(NodeSettings(model="gcn", model_dim=16), 1e-2, 5e-4), "GAT": _gat(0.6, 5e-4)},
    ),
    "facebook_pages": Workload(
        "facebook_pages/facebook_pages.npz",
        "random",
        {"GCN": Recipe(NodeSettings(model="gcn", model_dim=64), 1e-2, 1e-5), "GAT": _gat(0.3, 1e-5)},
    ),
}
"""The papers' for Cora (Kipf & Welling 2017, Veličković et al. 2018), those of `docs/results.md` for the pages."""


@dataclass(frozen=True)
class Size:
    """Of a graph that is made up."""

    nodes: int
    """How many there are."""
    words: int
    """Of the vocabulary."""
    words_each: int
    """Of a node; one that is drawn twice counts once."""
    pairs: int
    """Of nodes that are connected, in both directions."""
    classes: int
    """How many there are."""
    skew: float
    """A node of rank r is drawn with probability ∝ r^-skew."""


TINY = Size(200, 80, 9, 500, 3, 0.0)
"""To try things out."""
PAGES = Size(22_470, 4_714, 14, 170_823, 4, 0.45)
"""As the Facebook pages, whose largest in-degree is 709."""


@dataclass(frozen=True)
class Words:
    """Bags of words, as parts of their sum."""

    shape: tuple[int, int]
    """(node, word)."""
    rows: np.ndarray
    """int64 (entry), the node of each word, ascending."""
    columns: np.ndarray
    """int64 (entry), the word."""
    values: np.ndarray
    """float32 (entry), how large a part of the node's it is."""

    @classmethod
    def of(cls, shape: tuple[int, int], rows: np.ndarray, columns: np.ndarray, counts: np.ndarray) -> "Words":
        """Those of counts."""
        sums = np.bincount(rows, counts, minlength=shape[0])
        return cls(shape, rows, columns, (counts / sums[rows]).astype(np.float32))

    def to_dense(self) -> np.ndarray:
        """As a table (node, word)."""
        found = np.zeros(self.shape, np.float32)
        found[self.rows, self.columns] = self.values
        return found


@dataclass(frozen=True)
class Inputs:
    """A graph as it is handed to everyone: plain arrays, of which each makes what it likes best."""

    features: Words
    """A bag of words a node."""
    senders: Tensor
    """int64 (edge), without loops."""
    receivers: Tensor
    """int64 (edge)."""
    labels: Tensor
    """int64 (node)."""
    train: Tensor
    """int64, the nodes that are learned from."""
    val: Tensor
    """int64, the nodes that each epoch is judged by."""

    @property
    def num_nodes(self) -> int:
        """How many nodes there are."""
        return self.features.shape[0]

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return int(self.labels.max()) + 1

    def to(self, device: str) -> "Inputs":
        """The same with its edges, labels and parts on a device; the features stay arrays."""
        names = ("senders", "receivers", "labels", "train", "val")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})

    def facts(self) -> dict[str, int]:
        """Its size, for the record."""
        return {
            "nodes": self.num_nodes,
            "edges": len(self.senders),
            "features": self.features.shape[1],
            "entries": len(self.features.values),
            "classes": self.num_classes,
            "training_nodes": len(self.train),
            "validation_nodes": len(self.val),
        }


def inputs_of(name: str, quick: bool = False) -> Inputs:
    """The graph of a workload; where it is to be quick, a small one instead.

    Raises:
        MissingDataError: EDGEWISE_DATA does not lead to it.
    """
    if quick:
        return made_up(TINY)
    from edgewise.learn.readers.graphs.nodes import read_nodes
    from edgewise.learn.readers.graphs.source import GraphSource
    from edgewise.learn.tables.columns import AUTO, Columns
    from edgewise.learn.tables.split import split_rows

    table = read_nodes([str(path_of(name))], Columns(node_column=AUTO, task_type=AUTO), GraphSource())
    splits, found = split_rows(table.rows, kind=WORKLOADS[name].split, sizes=(0.6, 0.2, 0.2)), table.features
    words = Words.of(found.shape, found.rows, found.columns, found.values)
    ends = [torch.from_numpy(np.ascontiguousarray(end)) for end in (table.edges.senders, table.edges.receivers)]
    labels = torch.from_numpy(table.rows.targets[:, 0]).long()
    return Inputs(words, *ends, labels, torch.from_numpy(splits.train), torch.from_numpy(splits.val))


def read_plainly(name: str) -> Inputs:
    """The same graph read with numpy alone and parted anew, where the packages of our reader are not installed.

    Raises:
        MissingDataError: EDGEWISE_DATA does not lead to it.
    """
    with np.load(path_of(name)) as file:
        num_nodes, num_words = file["x_shape"].tolist()
        rows, columns = np.repeat(np.arange(num_nodes), np.diff(file["x_indptr"])), file["x_indices"].astype(np.int64)
        words = Words.of((num_nodes, num_words), rows, columns, np.ones(len(rows)))
        return _parted(words, *file["edge_index"].astype(np.int64), file["y"].astype(np.int64))


def path_of(name: str) -> Path:
    """Where the graph of a workload lies.

    Raises:
        MissingDataError: EDGEWISE_DATA does not lead to it.
    """
    folder, file = data_folder(), WORKLOADS[name].file
    if folder is None or not (folder / file).is_file():
        raise MissingDataError(f"EDGEWISE_DATA does not lead to {file}")
    return folder / file


def made_up(size: Size) -> Inputs:
    """A graph of some size, drawn from a seed: words and classes are uniform, ends of edges as skewed as it says."""
    random = np.random.default_rng(0)
    first = np.repeat(np.arange(size.nodes), size.words_each) * size.words
    rows, columns = np.divmod(np.unique(first + random.integers(0, size.words, len(first))), size.words)
    words = Words.of((size.nodes, size.words), rows, columns, np.ones(len(rows)))
    share = np.arange(1, size.nodes + 1) ** -size.skew
    one, other = random.choice(size.nodes, (2, 2 * size.pairs), p=share / share.sum())  # some twice, some loops
    pairs = np.unique((np.minimum(one, other) * size.nodes + np.maximum(one, other))[one != other])
    one, other = np.divmod(random.permutation(pairs)[: size.pairs], size.nodes)
    labels = random.integers(0, size.classes, size.nodes)
    return _parted(words, np.concatenate([one, other]), np.concatenate([other, one]), labels)


def _parted(words: Words, senders: np.ndarray, receivers: np.ndarray, labels: np.ndarray) -> Inputs:
    """The graph, 60 % of its nodes for training and 20 % for validation."""
    order = np.random.default_rng(0).permutation(len(labels))
    stops = round(0.6 * len(labels)), round(0.8 * len(labels))
    train, val = np.sort(order[: stops[0]]), np.sort(order[stops[0] : stops[1]])
    return Inputs(words, *(torch.from_numpy(each) for each in (senders, receivers, labels, train, val)))


def batch_of(inputs: Inputs, settings: NodeSettings) -> Batch:
    """The graph as edgewise trains on it, its training nodes for rows, with the plans that are made once a graph."""
    found = inputs.features
    num_nodes, num_features = found.shape
    entries = Edges(torch.from_numpy(found.columns), torch.from_numpy(found.rows), num_features, num_nodes)
    edges = Edges(inputs.senders, inputs.receivers, num_nodes, num_nodes)
    edges = edges.with_self_loops() if settings.has_loops else edges
    entries.plan, edges.plan  # noqa: B018 (made once a graph, and kept)
    features = SparseFeatures(entries, torch.from_numpy(found.values))
    return Batch(Graph(features, edges), Supervision(nodes=inputs.train))
