"""PyTorch Geometric's layers as attention cores: what they do between their projections and their bias.

The calls are those of each layer's own `forward` (torch_geometric 2.8): `propagate`, and `edge_updater` before it where
the layer has one. Features lie as `(node, head, feature)`; an `edge_index` is a tensor, or an `EdgeIndex` that knows
that its edges are sorted by receiver.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch_geometric import EdgeIndex
from torch_geometric.nn import GATConv, GATv2Conv, GCNConv, SimpleConv, TransformerConv

from cpu_attention.graphs import Graph

TOLD = ", EdgeIndex"
"""Ends the name of a peer that is told that the edges are sorted."""


def edge_indices(graph: Graph) -> dict[str, Tensor]:
    """The edges as a plain tensor and, where they are sorted by receiver, also told so."""
    edge_index = torch.stack([graph.senders, graph.receivers])
    found: dict[str, Tensor] = {"": edge_index}
    if bool((graph.receivers.diff() >= 0).all()):
        size = graph.num_nodes, graph.num_nodes
        found[TOLD] = EdgeIndex(edge_index, sparse_size=size, sort_order="col").validate().fill_cache_()
    return found


def transformer(edge_index: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Callable[[], Tensor]:
    """TransformerConv: scaled dot products."""
    num_nodes, num_heads, head_dim = query.shape
    layer = TransformerConv(1, head_dim, heads=num_heads)
    size = num_nodes, num_nodes
    return lambda: layer.propagate(edge_index, query=query, key=key, value=value, edge_attr=None, size=size)


def gatv2(edge_index: Tensor, query: Tensor, key: Tensor, vector: nn.Parameter) -> Callable[[], Tensor]:
    """GATv2Conv; its keys are its values."""
    layer = GATv2Conv(1, key.shape[2], heads=key.shape[1])
    layer.att = vector
    both = key, query

    def run() -> Tensor:
        alpha = layer.edge_updater(edge_index, x=both, edge_attr=None)
        return layer.propagate(edge_index, x=both, alpha=alpha)

    return run


def gat(
    edge_index: Tensor, nodes: Tensor, query_vector: nn.Parameter, key_vector: nn.Parameter
) -> Callable[[], Tensor]:
    """GATConv, the two parts of its score included."""
    layer = GATConv(1, nodes.shape[2], heads=nodes.shape[1])
    layer.att_dst, layer.att_src = query_vector, key_vector
    size = len(nodes), len(nodes)

    def run() -> Tensor:
        parts = (nodes * layer.att_src).sum(-1), (nodes * layer.att_dst).sum(-1)
        alpha = layer.edge_updater(edge_index, alpha=parts, edge_attr=None, size=size)
        return layer.propagate(edge_index, x=(nodes, nodes), alpha=alpha, size=size)

    return run


def gcn(edge_index: Tensor, nodes: Tensor, weight: Tensor) -> Callable[[], Tensor]:
    """GCNConv with its normalization computed before, features `(node, feature)`."""
    layer = GCNConv(1, 1, normalize=False)
    size = len(nodes), len(nodes)
    return lambda: layer.propagate(edge_index, x=nodes, edge_weight=weight, size=size)


def mean(edge_index: Tensor, nodes: Tensor) -> Callable[[], Tensor]:
    """The mean of the neighbors, features `(node, feature)`."""
    layer = SimpleConv(aggr="mean")
    size = len(nodes), len(nodes)
    return lambda: layer.propagate(edge_index, x=(nodes, nodes), edge_weight=None, size=size)


class TransformerLayer(nn.Module):
    """TransformerConv with its projections, and an output matrix in the place of the one for the node itself."""

    def __init__(self, ours: nn.Module, num_heads: int):
        super().__init__()
        model_dim = ours.query.in_features
        self.layer = TransformerConv(model_dim, model_dim // num_heads, heads=num_heads, root_weight=False)
        pairs = (self.layer.lin_query, ours.query), (self.layer.lin_key, ours.key), (self.layer.lin_value, ours.value)
        for theirs, own in pairs:
            theirs.weight, theirs.bias = own.weight, own.bias
        self.output = ours.output

    def forward(self, nodes: Tensor, edge_index: Tensor) -> Tensor:
        """The nodes after the layer."""
        return self.output(self.layer(nodes, edge_index))
