"""Convolutions on graphs: the same sum, with weights that do not look at the content."""

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.attend import aggregate
from edgewise.errors import SettingError
from edgewise.layers.feature import FeatureLinear, Nodes
from edgewise.layers.given import require_nodes
from edgewise.neighborhood import Edges, Full, GivenNeighborhood, edges_of

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

    def forward(self, nodes: Nodes, edges: GivenNeighborhood) -> Float[Tensor, " *batch node output_dim"]:
        """The nodes after the layer, `(*batch, node, input_dim)` or sparse before."""
        require_nodes("MeanConvolution", nodes, self.itself.in_features, self.itself.weight)
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

    def forward(self, nodes: Nodes, edges: GivenNeighborhood) -> Float[Tensor, " *batch node output_dim"]:
        """The nodes after the layer, `(*batch, node, input_dim)` or sparse before."""
        require_nodes("SymmetricConvolution", nodes, self.linear.in_features, self.linear.weight)
        edges = edges_of("SymmetricConvolution", edges, nodes.shape[-2], nodes.shape[-2])
        return self.activation(spread_evenly(self.linear(nodes), edges))


class NeighborConvolution(nn.Module):
    """The neighbors, brought together as one chooses, and the node itself: σ(W ⊕_{j∈N(i)} x_j + B x_i).

        mean    ⊕ = Σ_j x_j / |N(i)|, which is `MeanConvolution`
        sum     ⊕ = Σ_j x_j
        max     ⊕ = max_j ReLU(P x_j + c), feature by feature

    Args:
        input_dim, output_dim: sizes of the nodes before and after.
        how: "mean", "sum" or "max".
        pool_dim: rows of P, with "max"; output_dim by default.
        activation: σ.

    Empty: a node with no neighbor keeps its self term.
    Cost: O(edge · output_dim), with "max" O(edge · pool_dim).
    Source: Hamilton, Ying & Leskovec 2017 (GraphSAGE), algorithm 1 and, for max, eq. 3; their one matrix for the node
    and its neighbors, one above the other, is our B and W. The division by the length that ends their algorithm, and
    the aggregator that depends on an order of the neighbors (an LSTM), are left out.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        how: Literal["mean", "sum", "max"] = "mean",
        *,
        pool_dim: int | None = None,
        activation: Activation = torch.relu,
    ):
        super().__init__()
        if how not in ("mean", "sum", "max"):
            raise SettingError(f"NeighborConvolution: how must be 'mean', 'sum' or 'max', not {how!r}.")
        if pool_dim is not None and how != "max":
            raise SettingError(f"NeighborConvolution: pool_dim is for how='max' only, not for {how!r}; drop it.")
        self.how, self.activation = how, activation
        self.neighbors: nn.Linear
        if how == "max":
            pool_dim = output_dim if pool_dim is None else pool_dim
            self.pool = FeatureLinear(input_dim, pool_dim)
            self.neighbors = nn.Linear(pool_dim, output_dim, bias=False)
        else:
            self.neighbors = FeatureLinear(input_dim, output_dim, bias=False)
        self.itself = FeatureLinear(input_dim, output_dim, bias=False)

    def forward(
        self, nodes: Nodes, neighborhood: GivenNeighborhood = Full()
    ) -> Float[Tensor, " *batch node output_dim"]:
        """The nodes after the layer, `(*batch, node, input_dim)` or sparse before."""
        require_nodes("NeighborConvolution", nodes, self.itself.in_features, self.itself.weight)
        if self.how == "max":
            together = self.neighbors(aggregate(torch.relu(self.pool(nodes)), neighborhood, "max"))
        else:  # a matrix may go before a sum, where it works on nodes that need not be dense
            together = aggregate(self.neighbors(nodes), neighborhood, self.how)
        return self.activation(together + self.itself(nodes))


class IsomorphismConvolution(nn.Module):
    """A network on the node and the sum of its neighbors: W₂ σ(W₁ ((1 + ε) x_i + Σ_{j∈N(i)} x_j) + c₁) + c₂.

    A sum tells apart neighborhoods that a mean or a maximum confuses: {a, b} and {a, a, b, b}, {a, b} and {a, b, b}.

    Args:
        input_dim, output_dim: sizes of the nodes before and after.
        hidden_dim: rows of W₁; output_dim by default.
        epsilon: ε, or where it starts.
        is_epsilon_learned: whether ε is a parameter.
        activation: σ.

    Empty: a node with no neighbor is sent through the network alone.
    Cost: O(edge · hidden_dim).
    Source: Xu et al. 2019 (GIN), eq. 4.1, with a network of two matrices; W₁ is applied before the sum, which changes
    nothing. The batch normalization of their experiments is left out.

    >>> from edgewise import Edges
    >>> layer = IsomorphismConvolution(2, 3)
    >>> layer(torch.ones(4, 2), Edges([0, 1], [1, 2], 4, 4)).shape
    torch.Size([4, 3])
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        hidden_dim: int | None = None,
        *,
        epsilon: float = 0.0,
        is_epsilon_learned: bool = True,
        activation: Activation = torch.relu,
    ):
        super().__init__()
        hidden_dim = output_dim if hidden_dim is None else hidden_dim
        self.first = FeatureLinear(input_dim, hidden_dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(hidden_dim))
        self.second = nn.Linear(hidden_dim, output_dim)
        self.epsilon: Tensor
        if is_epsilon_learned:
            self.epsilon = nn.Parameter(torch.tensor(epsilon))
        else:
            self.register_buffer("epsilon", torch.tensor(epsilon))
        self.activation = activation

    def forward(
        self, nodes: Nodes, neighborhood: GivenNeighborhood = Full()
    ) -> Float[Tensor, " *batch node output_dim"]:
        """The nodes after the layer, `(*batch, node, input_dim)` or sparse before."""
        require_nodes("IsomorphismConvolution", nodes, self.first.in_features, self.first.weight)
        projected = self.first(nodes)
        together = (1 + self.epsilon) * projected + aggregate(projected, neighborhood, "sum")
        return self.second(self.activation(together + self.bias))


def spread_evenly(nodes: Float[Tensor, " *batch node feature"], edges: Edges) -> Float[Tensor, " *batch node feature"]:
    """D^−½ Â D^−½ x, Â = A + I: the nodes one step further over the graph, hand it the edges without loops."""
    # The weight of an edge is a product of something of its ends, so that a plain sum does with no number an edge.
    precise = torch.promote_types(nodes.dtype, torch.float32)  # float16 ends at degree 65,504
    root = (edges.degrees() + 1).to(precise).rsqrt().to(nodes.dtype).unsqueeze(-1)
    scaled = root * nodes
    return root * (aggregate(scaled, edges) + scaled)
