"""Where a node stands in its graph, as part of its features."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from edgewise.errors import SettingError, ShapeError
from edgewise.layers.given import offsets_of, require_nodes, size_of, weight_of
from edgewise.layers.linear import Linear
from edgewise.neighborhood import membership
from edgewise.neighborhood.checks import check_offsets, require_sizes


class GraphPosition(nn.Module):
    """Adds what a linear layer makes of a node's place in its graph: x_i ← x_i + W [s ∘ φ_i; p_i].

    φ are Laplacian positions, p random-walk positions. Attention over a whole graph, or over edges drawn at random,
    does not know who was near whom; these say it. In training s flips each φ at random, one sign a graph and
    eigenvector, since the sign of an eigenvector means nothing; else s = 1. W starts at 0, so that positions, which may
    be much larger than other features, do not drown them before it is known what they are worth.

    Equivariance: nodes and positions permuted together give permuted outputs.

    Args:
        model_dim: size of the nodes.
        num_laplacian: how many positions, from the first on, have a sign that means nothing.
        num_random_walk: how many follow.

    Source: Dwivedi & Bresson 2021 (Laplacian positions, signs); Dwivedi et al. 2022 (random walks). That W starts at 0
    is ours.

    >>> GraphPosition(8, 3, 2)(torch.zeros(5, 8), torch.ones(5, 5)).shape
    torch.Size([5, 8])
    """

    def __init__(self, model_dim: int, num_laplacian: int = 0, num_random_walk: int = 0):
        super().__init__()
        require_sizes("GraphPosition", model_dim=model_dim)
        require_sizes("GraphPosition", 0, num_laplacian=num_laplacian, num_random_walk=num_random_walk)
        if num_laplacian + num_random_walk == 0:
            raise SettingError(
                "GraphPosition: 0 Laplacian and 0 random-walk positions; expected at least one of either."
            )
        self.num_laplacian, self.num_positions = num_laplacian, num_laplacian + num_random_walk
        self.linear = Linear(self.num_positions, model_dim, bias=False)
        nn.init.zeros_(self.linear.weight)

    def forward(
        self,
        nodes: Float[Tensor, " *batch node model_dim"],
        positions: Float[Tensor, " node position"],
        offsets: Int64[Tensor, " boundary"] | None = None,
    ) -> Float[Tensor, " *batch node model_dim"]:
        """The nodes with their positions added.

        Args:
            nodes: x.
            positions: φ, followed by p.
            offsets: nodes of graph g are `offsets[g]:offsets[g + 1]`; all are of one graph where None.

        Raises:
            ShapeError: there are not as many positions as the layer was made for.
        """
        require_nodes("GraphPosition", nodes, size_of(self.linear, "out_features"), weight_of(self.linear))
        require_nodes("GraphPosition", positions, None, None, "positions")
        if positions.shape[-2] != nodes.shape[-2]:
            raise ShapeError(
                f"GraphPosition: axis 'node' is {nodes.shape[-2]} in nodes but {positions.shape[-2]} in positions."
            )
        if positions.shape[-1] != self.num_positions:
            raise ShapeError(
                f"GraphPosition: axis 'position' is {positions.shape[-1]} in positions but {self.num_positions} in "
                "the layer."
            )

        if offsets is not None:
            offsets = offsets_of("GraphPosition", offsets, nodes)
            check_offsets("GraphPosition", offsets, nodes.shape[-2])
        if self.training and self.num_laplacian:
            num_graphs = 1 if offsets is None else offsets.shape[0] - 1
            signs = positions.new_ones(num_graphs, positions.shape[-1])
            coins = torch.randint(2, (num_graphs, self.num_laplacian), device=positions.device)
            signs[:, : self.num_laplacian] = 2.0 * coins - 1.0
            if offsets is not None:
                signs = signs[membership(offsets, nodes.shape[-2]).receivers]
            positions = positions * signs

        return nodes + self.linear(positions.to(nodes.dtype))
