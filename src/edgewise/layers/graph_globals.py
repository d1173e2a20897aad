"""Where what is known of a whole graph may come from, if it is not given: from its nodes, or from training."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from edgewise.attend import aggregate
from edgewise.neighborhood import membership


class NodeStatistics(nn.Module):
    """How many nodes a graph has, and the mean, spread, smallest and largest of each of their features.

        u_g = [n; mean x; √(mean (x − mean x)²); min x; max x]    over the n nodes of graph g

    Args:
        node_dim: size of the nodes.

    Empty: a graph without nodes gives zero. One node has no spread, and no gradient through it.
    """

    def __init__(self, node_dim: int):
        super().__init__()
        self.global_dim = 1 + 4 * node_dim
        """How many numbers that are."""

    def forward(
        self, nodes: Float[Tensor, " *batch node node_dim"], offsets: Int64[Tensor, " boundary"]
    ) -> Float[Tensor, " *batch graph global_dim"]:
        """The statistics of each graph; nodes of graph g are `offsets[g]:offsets[g + 1]`."""
        members = membership(offsets, nodes.shape[-2])
        mean = aggregate(nodes, members, "mean")
        squares = aggregate((nodes - mean.index_select(-2, members.receivers)).square(), members, "mean")
        alike = squares == 0  # where the root has no gradient
        spread = torch.where(alike, 0.0, torch.where(alike, 1.0, squares).sqrt())
        count = offsets.diff().to(nodes.dtype).unsqueeze(-1).expand(*mean.shape[:-1], 1)
        extremes = [aggregate(nodes, members, "min"), aggregate(nodes, members, "max")]
        return torch.cat([count, mean, spread, *extremes], -1)


class LearnedGlobals(nn.Module):
    """The same learned vector for every graph, from which each goes its own way.

    Args:
        global_dim: its size.
    """

    def __init__(self, global_dim: int):
        super().__init__()
        self.global_dim = global_dim
        """Its size."""
        self.vector = nn.Parameter(torch.randn(global_dim))

    def forward(
        self, nodes: Float[Tensor, " *batch node node_dim"], offsets: Int64[Tensor, " boundary"]
    ) -> Float[Tensor, " graph global_dim"]:
        """The vector, once a graph."""
        return self.vector.expand(offsets.shape[0] - 1, -1)
