"""The graphs that models of nodes are trained on, read with our own reader or, to try things out, made up."""

from dataclasses import dataclass

import numpy as np
import torch
from cpu_attention.graphs import MissingDataError
from cpu_attention.options import data_folder
from torch import Tensor

from edgewise.data.columns import AUTO, Columns
from edgewise.data.graphs.edges import EdgeList
from edgewise.data.graphs.node_features import NodeFeatures
from edgewise.data.graphs.nodes import NodeTable, nodes_from_arrays, read_nodes
from edgewise.data.graphs.source import GraphSource
from edgewise.data.split import split_rows
from edgewise.models.graph_settings import NodeSettings


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
class Inputs:
    """A graph as it is handed to everyone: plain arrays, of which each makes what it likes best."""

    features: NodeFeatures
    """A bag of words a node, as parts of their sum."""
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
    workload = WORKLOADS[name]
    if quick:
        return _inputs(_made_up(), "random")
    folder = data_folder()
    path = None if folder is None else folder / workload.file
    if path is None or not path.is_file():
        raise MissingDataError(f"EDGEWISE_DATA does not lead to {workload.file}")
    table = read_nodes([str(path)], Columns(node_column=AUTO, task_type=AUTO), GraphSource())
    return _inputs(table, workload.split)


def _made_up() -> NodeTable:
    """Two hundred nodes with nine words of eighty each, five edges to anywhere, three classes."""
    random = np.random.default_rng(0)
    num_nodes, num_words = 200, 80
    words = np.zeros((num_nodes, num_words), np.float32)
    words[np.arange(num_nodes)[:, None], random.integers(0, num_words, (num_nodes, 9))] = 1
    ends = np.repeat(np.arange(num_nodes), 5), random.integers(0, num_nodes, 5 * num_nodes)
    ends = tuple(end[ends[0] != ends[1]] for end in ends)
    edges = EdgeList(*ends, np.zeros((len(ends[0]), 0), np.float32))
    labels = np.array(["a", "b", "c"])[random.integers(0, 3, num_nodes)]
    return nodes_from_arrays(NodeFeatures.of(words), edges, labels, task_type="multiclass")


def _inputs(table: NodeTable, split: str) -> Inputs:
    splits = split_rows(table, kind=split, sizes=(0.6, 0.2, 0.2))
    found = table.features
    sums = np.bincount(found.rows, found.values, minlength=found.shape[0])
    shares = (found.values / sums[found.rows]).astype(np.float32)
    features = NodeFeatures.of_entries(found.rows, found.columns, shares, found.shape)
    ends = [torch.from_numpy(np.ascontiguousarray(end)) for end in (table.edges.senders, table.edges.receivers)]
    labels = torch.from_numpy(table.targets[:, 0]).long()
    return Inputs(features, *ends, labels, torch.from_numpy(splits.train), torch.from_numpy(splits.val))
