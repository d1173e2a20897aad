"""Networks of two matrices, on nodes and on edges with their ends: parts of message-passing layers."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.backends.call import require_tensors
from edgewise.errors import ShapeError
from edgewise.layers.given import require_nodes
from edgewise.layers.linear import Linear, linear, may_be_joined
from edgewise.neighborhood import Edges
from edgewise.neighborhood.checks import broadcast_shape

Activation = Callable[[Tensor], Tensor]


class Perceptron(nn.Module):
    """φ(x) = W₂ σ(W₁ x + c₁) + c₂.

    Args:
        input_dim, hidden_dim, output_dim: sizes before, between and after the matrices.
        activation: σ.
    """

    def __init__(self, input_dim: int, hidden_dim: int, output_dim: int, activation: Activation):
        super().__init__()
        self.first, self.second = Linear(input_dim, hidden_dim), Linear(hidden_dim, output_dim)
        self.activation = activation

    def forward(self, features: Float[Tensor, " *batch input_dim"]) -> Float[Tensor, " *batch output_dim"]:
        """φ of every row."""
        return self.second(self.activation(self.first(features)))


class EdgePerceptron(nn.Module):
    """A network on an edge and the nodes at its ends: φ([x_i; x_j; e_ij]).

    The parts of the first matrix that meet nodes are applied to nodes, of which there are mostly fewer than edges.

    Args:
        receiver_dim, sender_dim, edge_dim: sizes of x_i, x_j and e_ij; 0 where there are none.
        hidden_dim, output_dim: sizes between and after the matrices.
        activation: σ, between them.

    Cost: O(node · node_dim · hidden_dim + edge · hidden_dim · (edge_dim + output_dim)).
    """

    def __init__(
        self,
        receiver_dim: int,
        sender_dim: int,
        edge_dim: int,
        hidden_dim: int,
        output_dim: int,
        activation: Activation,
    ):
        super().__init__()
        self.sizes = (receiver_dim, sender_dim, edge_dim)
        self.first, self.second = Linear(sum(self.sizes), hidden_dim), Linear(hidden_dim, output_dim)
        self.activation = activation

    def forward(
        self,
        receivers: Float[Tensor, " *receiver_batch query receiver_dim"],
        senders: Float[Tensor, " *sender_batch key sender_dim"],
        edge_features: Float[Tensor, " *edge_batch edge edge_dim"],
        edges: Edges,
    ) -> Float[Tensor, " *batch edge output_dim"]:
        """φ of every edge, in the order of `edges`."""
        if not may_be_joined([self.first]):
            ends = concat_features(receivers.index_select(-2, edges.receivers), senders.index_select(-2, edges.senders))
            return self.second(self.activation(self.first(concat_features(ends, edge_features))))
        to_receiver, to_sender, to_edge = self.first.weight.split(self.sizes, -1)
        at_receivers = linear(receivers, to_receiver, self.first.bias).index_select(-2, edges.receivers)
        at_senders = linear(senders, to_sender).index_select(-2, edges.senders)
        return self.second(self.activation(at_receivers + at_senders + linear(edge_features, to_edge)))


def features_of_edges(owner: str, edge_features: Tensor | None, edges: Edges, edge_dim: int, like: Tensor) -> Tensor:
    """The features of the edges as they came; of size 0 where there are none.

    Raises:
        ShapeError: they came, or did not, against what the layer was made for, or are not one row an edge.
    """
    if edge_features is None and edge_dim == 0:
        return like.new_zeros(edges.num_edges, 0)
    if edge_features is not None:
        require_tensors(owner, {"edge_features": edge_features})
    if edge_features is None or edge_features.shape[-2:] != torch.Size([edges.num_edges, edge_dim]):
        came = "none" if edge_features is None else str(tuple(edge_features.shape))
        raise ShapeError(
            f"{owner}: expected edge features (*batch, {edges.num_edges}, {edge_dim}), not {came}; see edge_dim."
        )
    require_nodes(owner, edge_features, edge_dim, like, "edge_features")
    return edge_features


def concat_features(first: Tensor, second: Tensor) -> Tensor:
    """The features of both tensors for the same rows, concatenated; batch axes broadcast."""
    batch = broadcast_shape(first.shape[:-2], second.shape[:-2])
    return torch.cat([x.expand(*batch, *x.shape[-2:]) for x in (first, second)], -1)
