"""Convolutions on graphs: the same sum, with weights that do not look at the content."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.attend import aggregate, attend
from edgewise.layers.feature import FeatureLinear, Nodes
from edgewise.neighborhood import Edges
from edgewise.normalize import Identity
from edgewise.score import Constant

Activation = Callable[[Tensor], Tensor]


class MeanConvolution(nn.Module):
    """The mean of the neighbors and, with a matrix of its own, the node itself: σ(D⁻¹ A H Wᵀ + H Bᵀ).

    Args:
        input_dim, output_dim: sizes of the nodes before and after.
        activation: σ.

    Empty: a node with no neighbor keeps its self term.
    Cost: O(edge · output_dim).
    Source: Hamilton, Ying & Leskovec 2017, the mean aggregator; D is the number of edges a node receives.
    """

    def __init__(self, input_dim: int, output_dim: int, activation: Activation = torch.relu):
        super().__init__()
        self.neighbors = FeatureLinear(input_dim, output_dim, bias=False)
        self.itself = FeatureLinear(input_dim, output_dim, bias=False)
        self.activation = activation

    def forward(self, nodes: Nodes, edges: Edges) -> Float[Tensor, " *batch node output_dim"]:
        """The nodes after the layer, `(*batch, node, input_dim)` or sparse before."""
        return self.activation(aggregate(self.neighbors(nodes), edges, "mean") + self.itself(nodes))


class SymmetricConvolution(nn.Module):
    """Neighbors and the node itself, each divided by the roots of both degrees: σ(D^−½ Â D^−½ H Wᵀ), Â = A + I.

    The self loops are part of the layer: hand it the edges without them.

    Args:
        input_dim, output_dim: sizes of the nodes before and after.
        activation: σ.

    Empty: a node with no neighbor keeps its self loop.
    Cost: O(edge · output_dim).
    Source: Kipf & Welling 2017, eq. 2; D is the row sum of Â, the number of edges a node receives plus one.
    """

    def __init__(self, input_dim: int, output_dim: int, activation: Activation = torch.relu):
        super().__init__()
        self.linear = FeatureLinear(input_dim, output_dim, bias=False)
        self.activation = activation

    def forward(self, nodes: Nodes, edges: Edges) -> Float[Tensor, " *batch node output_dim"]:
        """The nodes after the layer, `(*batch, node, input_dim)` or sparse before."""
        return self.activation(spread_evenly(self.linear(nodes), edges))


def spread_evenly(nodes: Float[Tensor, " *batch node feature"], edges: Edges) -> Float[Tensor, " *batch node feature"]:
    """D^−½ Â D^−½ x, Â = A + I: the nodes one step further over the graph, hand it the edges without loops."""
    root = (edges.degrees() + 1).to(nodes.dtype).rsqrt()
    weight = root[edges.receivers] * root[edges.senders]
    blind = nodes[..., :1]
    neighbors = attend(blind, blind, nodes, edges, score=Constant(weight), normalize=Identity())
    return neighbors + root.square().unsqueeze(-1) * nodes
