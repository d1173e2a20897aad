"""Networks that predict the links of a graph."""

import math
from dataclasses import replace

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from edgewise.graph import Batch, Graph, Trace
from edgewise.layers.dropout import Dropout
from edgewise.layers.linear import Linear
from edgewise.learn.networks.graph_settings import LinkSettings, NodeSettings, NodeSizes
from edgewise.learn.networks.node import NodeVectors


class LinkModel(nn.Module):
    """Vectors of the nodes, and the probability of a link between two of them: p = sigmoid(s(z_i, z_j)).

        z_i = (h_i − h̄) / √(mean of all (h − h̄)²),  h̄ the mean of h over the nodes

    h being what the layers give. Without the scale a product of two small vectors is next to nothing, and so is its
    gradient; it is one number for all, so that a node may still have a longer vector than others.

    On a graph whose edges are one way every node has two vectors, one as a sender and one as a receiver, so that
    i → j may be likely and j → i not; on others s(z_i, z_j) = s(z_j, z_i).

    Args:
        sizes: what the data looks like; `num_outputs` is not looked at.
        settings: the layers; a vector has `model_dim` numbers.
        link: what is made of two vectors.
        is_directed: whether edges are one way.

    Empty: where all nodes have the same h, every z is zero, and gradients are finite.
    Source: Kipf & Welling 2016 (graph auto-encoder, whose s is the dot product of h); Zhao & Akoglu 2020 (PairNorm)
    for z, there after each layer; Salha et al. 2019 for the two vectors.
    """

    def __init__(self, sizes: NodeSizes, settings: NodeSettings, link: LinkSettings, *, is_directed: bool = False):
        super().__init__()
        model_dim = settings.model_dim
        outputs = replace(sizes, num_outputs=model_dim * (1 + is_directed))
        self.encoder = NodeVectors(outputs, settings)
        self.is_directed = is_directed
        kinds = {"dot": DotDecoder, "bilinear": BilinearDecoder, "hadamard_mlp": ProductDecoder}
        self.decoder = kinds[link.decoder](model_dim, settings.dropout, is_directed)

    def vectors(self, graph: Graph, trace: Trace | None = None) -> Float[Tensor, " node vector"]:
        """The vector of each node; for a directed graph, the one as sender and the one as receiver."""
        nodes = self.encoder(graph, trace)
        return self.measured(nodes, *self.moments(nodes))

    def moments(
        self, nodes: Float[Tensor, " *batch node vector"]
    ) -> tuple[Float[Tensor, " *batch 1 vector"], Float[Tensor, " *batch 1 1"]]:
        """h̄ and the mean of all (h − h̄)² of what the layers give."""
        mean = nodes.mean(dim=-2, keepdim=True)
        return mean, (nodes - mean).square().mean(dim=(-2, -1), keepdim=True)

    def measured(
        self,
        nodes: Float[Tensor, " *batch node vector"],
        mean: Float[Tensor, " *#batch 1 vector"],
        square: Float[Tensor, " *#batch 1 1"],
    ) -> Float[Tensor, " *batch node vector"]:
        """z of some nodes out of what the layers give of them, and the moments of all."""
        return (nodes - mean) * torch.where(square > 0, square, 1.0).rsqrt()

    def score_pairs(
        self, vectors: Float[Tensor, " node vector"], senders: Int64[Tensor, " row"], receivers: Int64[Tensor, " row"]
    ) -> Float[Tensor, " row 1"]:
        """s of each pair."""
        first, second = vectors.chunk(2, dim=1) if self.is_directed else (vectors, vectors)
        return self.decoder(first[senders], second[receivers]).unsqueeze(1)

    def forward(self, batch: Batch, trace: Trace | None = None) -> Float[Tensor, " row 1"]:
        """s of each pair of the batch."""
        senders, receivers = batch.supervision.senders, batch.supervision.receivers
        assert senders is not None and receivers is not None
        return self.score_pairs(self.vectors(batch.graph, trace), senders, receivers)


class DotDecoder(nn.Module):
    """s(x, y) = x·y / √model_dim + c."""

    def __init__(self, model_dim: int, dropout: float, is_directed: bool):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(
        self, first: Float[Tensor, " row model_dim"], second: Float[Tensor, " row model_dim"]
    ) -> Float[Tensor, " row"]:
        """s of each row."""
        return (first * second).sum(1) / math.sqrt(first.shape[1]) + self.bias


class BilinearDecoder(nn.Module):
    """s(x, y) = xᵀ W y + c; where edges go both ways W is symmetric, V + Vᵀ."""

    def __init__(self, model_dim: int, dropout: float, is_directed: bool):
        super().__init__()
        # It starts as the scaled dot product, and a little besides.
        start = (torch.eye(model_dim) + torch.randn(model_dim, model_dim) / model_dim) / math.sqrt(model_dim)
        self.weight = nn.Parameter(start if is_directed else start / 2)
        self.bias, self.is_directed = nn.Parameter(torch.zeros(())), is_directed

    def forward(
        self, first: Float[Tensor, " row model_dim"], second: Float[Tensor, " row model_dim"]
    ) -> Float[Tensor, " row"]:
        """s of each row."""
        weight = self.weight if self.is_directed else self.weight + self.weight.T
        return (first @ weight * second).sum(1) + self.bias


class ProductDecoder(nn.Module):
    """s(x, y) = w·ReLU(W (x ⊙ y) + b) + c, with dropout before w."""

    def __init__(self, model_dim: int, dropout: float, is_directed: bool):
        super().__init__()
        self.network = nn.Sequential(Linear(model_dim, model_dim), nn.ReLU(), Dropout(dropout), Linear(model_dim, 1))

    def forward(
        self, first: Float[Tensor, " row model_dim"], second: Float[Tensor, " row model_dim"]
    ) -> Float[Tensor, " row"]:
        """s of each row."""
        return self.network(first * second).squeeze(1)
