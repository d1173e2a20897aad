"""PyTorch Geometric's layers as attention cores: what they do between their projections and their bias.

TransformerConv and GATv2Conv as `cpu_attention.pyg` calls them, with features of the edges that no matrix changes; and
the same with a bias, which neither layer takes, as one would write it with MessagePassing.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GATv2Conv, MessagePassing, TransformerConv
from torch_geometric.utils import softmax

from gpu_attention.case import Run


def run_of(score: str, senders: Tensor, receivers: Tensor, leaves: dict[str, Tensor]) -> Run:
    """The way of the library for a score and what the edges carry."""
    edge_index = torch.stack([senders, receivers])
    if "bias" in leaves:
        return _biased(score, edge_index, leaves)
    return {"dot": _transformer, "gatv2": _gatv2}[score](edge_index, leaves)


def _transformer(edge_index: Tensor, leaves: dict[str, Tensor]) -> Run:
    query, key, value, features = leaves["query"], leaves["key"], leaves["value"], leaves.get("features")
    num_nodes, num_heads, dim = query.shape
    layer = TransformerConv(1, dim, heads=num_heads, edge_dim=None if features is None else 1)
    if features is not None:
        layer.lin_edge = nn.Identity()
    size = num_nodes, num_nodes
    return lambda: layer.propagate(edge_index, query=query, key=key, value=value, edge_attr=features, size=size)


def _gatv2(edge_index: Tensor, leaves: dict[str, Tensor]) -> Run:
    query, key, vector, features = leaves["query"], leaves["key"], leaves["vector"], leaves.get("features")
    layer = GATv2Conv(1, key.shape[2], heads=key.shape[1], edge_dim=None if features is None else 1)
    layer.att = vector
    if features is not None:
        layer.lin_edge = nn.Identity()
    both = key, query

    def run() -> Tensor:
        alpha = layer.edge_updater(edge_index, x=both, edge_attr=features)
        return layer.propagate(edge_index, x=both, alpha=alpha)

    return run


def _biased(score: str, edge_index: Tensor, leaves: dict[str, Tensor]) -> Run:
    query, key, bias = leaves["query"], leaves["key"], leaves["bias"]
    value = leaves.get("value", key)
    layer = Biased(_dot if score == "dot" else _bent(leaves["vector"]))
    size = len(query), len(query)
    return lambda: layer.propagate(edge_index, query=query, key=key, value=value, bias=bias, size=size)


class Biased(MessagePassing):
    """Attention with a number added to the score of every edge and head."""

    def __init__(self, score: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__(aggr="add", node_dim=0)
        self.score = score

    def message(self, query_i, key_j, value_j, bias, index, ptr, size_i):
        """α (v_j) of each edge."""
        alpha = softmax(self.score(query_i, key_j) + bias, index, ptr, size_i)
        return value_j * alpha.unsqueeze(-1)


def _dot(query: Tensor, key: Tensor) -> Tensor:
    return (query * key).sum(-1) / math.sqrt(key.shape[-1])


def _bent(vector: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda query, key: (F.leaky_relu(query + key, 0.2) * vector).sum(-1)
