"""What takes nodes by their features, whether those stand in a table or only where they are not zero."""

from jaxtyping import Float
from torch import Tensor, nn

from edgewise.attend import attend
from edgewise.graph import SparseFeatures
from edgewise.layers.dropout import dropout
from edgewise.layers.linear import Linear
from edgewise.neighborhood import Edges
from edgewise.normalize import Identity
from edgewise.score import Constant

Nodes = Tensor | SparseFeatures
Pair = Nodes | tuple[Nodes, Nodes]
"""Nodes, or those that send and those that receive, as PyTorch Geometric has `(x_source, x_target)`."""


class FeatureLinear(Linear):
    """y_i = Σ_f x_if W_f + c, the sum over the features that node i has.

    Of sparse features it is a convolution: a node attends to its features, with their values for weights.

    Cost: O(entry · output_dim) for sparse features, instead of O(node · feature · output_dim).
    """

    def forward(self, input: Nodes) -> Float[Tensor, " *batch node output_dim"]:
        """The nodes after the layer."""
        if isinstance(input, Tensor):
            return super().forward(input)
        product = summed(input, self.weight.T)
        return product if self.bias is None else product + self.bias


def summed(features: SparseFeatures, rows: Float[Tensor, " feature output_dim"]) -> Float[Tensor, " node output_dim"]:
    """The rows of the features that each node has, times how much it has of them: the product of two matrices."""
    return weighted_sum(rows, features.edges, features.values.to(rows.dtype))


def weighted_sum(
    rows: Float[Tensor, " *batch key feature"], edges: Edges, weight: Float[Tensor, " *weight_batch edge"]
) -> Float[Tensor, " *out_batch query feature"]:
    """Σ_e w_e x_senders[e] at each receiver."""
    query, key = rows.new_empty(edges.num_receivers, 0), rows.new_empty(edges.num_senders, 0)  # scores need neither
    return attend(query, key, rows, edges, score=Constant(weight), normalize=Identity())


class FeatureDropout(nn.Module):
    """Dropout of features; of sparse ones, the zeros cost nothing.

    Args:
        part: the probability that a feature is set to zero in training.
    """

    def __init__(self, part: float):
        super().__init__()
        self.part = part

    def forward(self, nodes: Nodes) -> Nodes:
        """The features, some of them set to zero in training, the others scaled up for it."""
        if isinstance(nodes, Tensor):
            return dropout(nodes, self.part, self.training)
        return SparseFeatures(nodes.edges, dropout(nodes.values, self.part, self.training))
