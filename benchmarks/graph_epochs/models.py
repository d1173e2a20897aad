"""One model of nodes in the words of edgewise and of PyTorch Geometric, each in training as its users would have it.

PyTorch Geometric's layers get what is fastest for them: the normalization of a GCN is computed once, loops are added
once; edges come as a tensor, as an `EdgeIndex` that knows its order, or as a sparse matrix, for which torch has kernels
of its own; features stand in a table, or in a sparse matrix whose entries are dropped out. Their GAT drops features out
before each layer, and weights; ours, as the authors' code, the features of the values too, which is a little more work.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from cpu_attention.case import OURS, Case, Peer
from torch import Tensor, nn

from edgewise.graph.batch import Supervision
from edgewise.learn.networks.graph_settings import NodeSizes
from edgewise.learn.networks.node import NodeModel
from graph_epochs.inputs import Inputs, Recipe, batch_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the import warns of what torch has given up
    from torch_geometric import EdgeIndex
    from torch_geometric.nn import GATConv, GCNConv

    torch.zeros(1, 1).to_sparse_csr()  # the first sparse matrix warns, once, that there may be changes to them

SPARSE, DENSE = "sparse features", "dense features"
LIST, TOLD, MATRIX = "edge_index", "EdgeIndex", "sparse adjacency"
PEERS = {
    "GCN": ((SPARSE, LIST), (SPARSE, TOLD), (SPARSE, MATRIX), (DENSE, MATRIX)),
    "GAT": ((SPARSE, LIST), (SPARSE, TOLD), (DENSE, LIST)),
}
"""The ways of handing a graph to PyTorch Geometric; GATConv has no kernel for a sparse matrix."""


@dataclass(frozen=True)
class Learner:
    """A model, and what it makes of the graph."""

    model: nn.Module
    """Its weights."""
    logits: Callable[[Tensor], Tensor]
    """The features of some nodes."""
    leaves: dict[str, Tensor]
    """The weights by names that all peers share, in the same order."""


def names_of(model: str) -> list[str]:
    """Who takes part, ours first."""
    return [OURS, *(f"PyG, {features}, {edges}" for features, edges in PEERS[model])]


def learner_of(name: str, model: str, inputs: Inputs, recipe: Recipe) -> Learner:
    """One of those who take part, with weights of its own; PyTorch Geometric's computes where the labels lie."""
    if name == OURS:
        return _ours(inputs, recipe)
    return _theirs(dict(zip(names_of(model)[1:], PEERS[model]))[name], model, inputs, recipe)


def same_weights(learners: dict[str, Learner]) -> None:
    """Everyone gets the weights of the first."""
    first, *others = learners.values()
    with torch.no_grad():
        for learner in others:
            for name, weight in learner.leaves.items():
                weight.copy_(first.leaves[name].view_as(weight))


def as_case(learners: dict[str, Learner], inputs: Inputs) -> Case:
    """What all must agree on, without dropout: the logits of all nodes, and the gradients of all weights."""
    nodes = torch.arange(inputs.num_nodes)
    cotangent = torch.randn(inputs.num_nodes, inputs.num_classes, generator=torch.Generator().manual_seed(0))
    peers = {}
    for name, learner in learners.items():
        learner.model.eval()
        peers[name] = Peer(lambda learner=learner: learner.logits(nodes), learner.leaves)
    return Case(peers, cotangent)


def epoch_of(learner: Learner, inputs: Inputs, recipe: Recipe) -> Callable[[], float]:
    """One epoch: a step on all training nodes, and the loss of the validation nodes after it."""
    optimizer = torch.optim.Adam(
        learner.model.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay, fused=True
    )
    train, val = inputs.labels[inputs.train], inputs.labels[inputs.val]

    def epoch() -> float:
        learner.model.train()
        optimizer.zero_grad()
        F.cross_entropy(learner.logits(inputs.train), train).backward()
        optimizer.step()
        learner.model.eval()
        with torch.no_grad():
            return float(F.cross_entropy(learner.logits(inputs.val), val))

    return epoch


def _ours(inputs: Inputs, recipe: Recipe) -> Learner:
    whole = batch_of(inputs, recipe.settings)
    model = NodeModel(NodeSizes(inputs.features.shape[1], 0, inputs.num_classes), recipe.settings)
    parts = {".linear.weight": ".weight", ".vector": ".query vector", ".key_vector": ".key vector", ".bias": ".bias"}
    leaves = {}
    for name, weight in model.named_parameters():
        place, _, part = name.removeprefix("layers.layers.").partition(".")
        leaves[place + parts["." + part]] = weight

    def logits(rows: Tensor) -> Tensor:
        return model(replace(whole, supervision=Supervision(nodes=rows)))

    return Learner(model, logits, dict(sorted(leaves.items())))


def _theirs(ways: tuple[str, str], kind: str, inputs: Inputs, recipe: Recipe) -> Learner:
    features, edges = ways
    model = _PygModel(kind, inputs, recipe, features, edges).to(inputs.labels.device)
    parts = {"lin.weight": "weight", "att_dst": "query vector", "att_src": "key vector", "bias": "bias"}
    leaves = {}
    for name, weight in model.layers.named_parameters():
        place, _, part = name.partition(".")
        leaves[f"{place}.{parts[part]}"] = weight
    return Learner(model, lambda rows: model()[rows], dict(sorted(leaves.items())))


class _PygModel(nn.Module):
    """Two layers, dropout before each."""

    def __init__(self, kind: str, inputs: Inputs, recipe: Recipe, features: str, edges: str):
        super().__init__()
        settings, self.features = recipe.settings, _features(inputs, features)
        self.graph = tuple(_graph(kind, inputs, edges))
        self.dropout, self.activation = settings.dropout, torch.relu if kind == "GCN" else F.elu
        num_features, num_classes, width = inputs.features.shape[1], inputs.num_classes, settings.model_dim
        if kind == "GCN":
            how: Any = {"bias": False, "normalize": False}
            layers = GCNConv(num_features, width, **how), GCNConv(width, num_classes, **how)
        else:
            how, heads = {"dropout": settings.attention_dropout, "add_self_loops": False}, settings.num_heads
            layers = (
                GATConv(num_features, width // heads, heads=heads, **how),
                GATConv(width, num_classes, heads=1, **how),
            )
        self.layers = nn.ModuleList(layers)

    def forward(self) -> Tensor:
        """The logits of all nodes."""
        first, last = self.layers
        hidden = self.activation(first(self.features(self.dropout, self.training), *self.graph))
        return last(F.dropout(hidden, self.dropout, self.training), *self.graph)


def _features(inputs: Inputs, how: str) -> Callable[[float, bool], Tensor]:
    """The features of all nodes, some of them dropped out."""
    found, device = inputs.features, inputs.labels.device
    if how == DENSE:
        dense = torch.from_numpy(found.to_dense()).to(device)
        return lambda part, training: F.dropout(dense, part, training)
    rows, columns, values = (torch.from_numpy(each).to(device) for each in (found.rows, found.columns, found.values))
    offsets, columns = _offsets(rows, found.shape[0]), columns.int()
    return lambda part, training: _matrix(offsets, columns, F.dropout(values, part, training), found.shape)


def _graph(kind: str, inputs: Inputs, how: str) -> Iterator[Tensor]:
    """What the layers take for the graph, its loops added and its edges sorted by receiver, and the weights of its
    edges where they do not stand in it."""
    nodes, num_nodes = torch.arange(inputs.num_nodes, device=inputs.labels.device), inputs.num_nodes
    senders, receivers = torch.cat([inputs.senders, nodes]), torch.cat([inputs.receivers, nodes])
    order = torch.argsort(receivers, stable=True)
    senders, receivers = senders[order], receivers[order]
    root = torch.bincount(receivers, minlength=num_nodes).float().rsqrt()
    weights, size = root[senders] * root[receivers], (num_nodes, num_nodes)
    if how == MATRIX:
        yield _matrix(_offsets(receivers, num_nodes), senders.int(), weights, size)
        return
    edge_index = torch.stack([senders, receivers])
    if how == TOLD:
        edge_index = EdgeIndex(edge_index, sparse_size=size, sort_order="col").validate().fill_cache_()
    yield edge_index
    if kind == "GCN":
        yield weights


def _offsets(rows: Tensor, num_rows: int) -> Tensor:
    """Where each row begins, of rows in order."""
    return F.pad(torch.bincount(rows, minlength=num_rows).cumsum(0), (1, 0)).int()


def _matrix(offsets: Tensor, columns: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """A sparse matrix; its indices are int32, which torch's kernels need not convert."""
    return torch.sparse_csr_tensor(offsets, columns, values, size, check_invariants=False)
