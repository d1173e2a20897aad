"""A force between every two bodies, along the line between them, by a learned function of their distance."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.attend import aggregate
from edgewise.layers.given import pair_beside, require_edges, require_nodes, require_places, weight_of
from edgewise.layers.linear import Linear
from edgewise.neighborhood import GivenNeighborhood, edges_of
from edgewise.neighborhood.checks import joint_batch, require_sizes


class PairForce(nn.Module):
    """The forces on bodies that pull and push each other.

        F_i = Σ_{j∈N(i)} c_ij φ(‖x_j − x_i‖) (x_j − x_i) / ‖x_j − x_i‖
        φ(r) = g(h) exp(p(h)),  h = network(ln r)

    The exponential gives φ its size over many powers of ten, and makes a power law a straight line; g gives its sign:
    above 0 pulls, below 0 pushes. With c_ij = c_ji the force of j on i is the opposite of that of i on j (Newton's
    third law), so that the total momentum stays, and the forces have a potential. Turn, mirror or shift all x: F is
    turned and mirrored alike.

    Args:
        hidden_dim: width of the network, which has two layers.
        backend: what sums over the edges, as in `attend`.

    Empty: a body without neighbors feels a force of zero, and so do two at the same place from each other.
    Cost: O(edge · hidden_dim²).
    Source: after the graph networks of Cranmer et al. 2020 and Lemos et al. 2022, whose messages are forces; theirs
    have any direction, and see more than the distance.

    >>> from edgewise import Edges
    >>> force = PairForce(8)(torch.randn(5, 3), Edges([0, 1], [1, 0], 5, 5), torch.ones(2))
    >>> force.shape, bool(torch.allclose(force[0], -force[1]))
    (torch.Size([5, 3]), True)
    """

    def __init__(self, hidden_dim: int, *, backend: str = "auto"):
        super().__init__()
        require_sizes("PairForce", hidden_dim=hidden_dim)
        self.backend = backend
        last = Linear(hidden_dim, 2)
        nn.init.xavier_uniform_(last.weight, gain=0.001)
        nn.init.zeros_(last.bias)
        self.network = nn.Sequential(Linear(1, hidden_dim), nn.SiLU(), Linear(hidden_dim, hidden_dim), nn.SiLU(), last)

    def strength(self, squares: Float[Tensor, " *batch"]) -> Float[Tensor, " *batch"]:
        """φ of squared distances, which must be above 0."""
        logarithms = 0.5 * squares.log().unsqueeze(-1)
        require_nodes("PairForce", logarithms, None, weight_of(self.network), "coordinates")
        gain, power = self.network(logarithms).unbind(-1)
        return gain * power.exp()

    def forward(
        self,
        coordinates: Float[Tensor, " *batch node space_dim"] | tuple[Tensor, Tensor],
        edges: GivenNeighborhood,
        coupling: Float[Tensor, " *batch edge"],
    ) -> Float[Tensor, " *batch node space_dim"]:
        """The force on each body.

        Args:
            coordinates: x; or those of (sources, targets), of which the forces on the targets are returned.
            edges: who pulls (senders) whom (receivers).
            coupling: c of each edge, such as the product of two masses or charges.
        """
        source, target = pair_beside("PairForce", "coordinates", coordinates, coordinates)
        for places in (source, target):
            require_nodes("PairForce", places, name="coordinates")
        require_places("PairForce", target, target, space_dim=source.shape[-1])
        edges = edges_of("PairForce", edges, target.shape[-2], source.shape[-2], target.device, coupling)
        require_edges("PairForce", "coupling", coupling, edges.num_edges)
        joint_batch("PairForce", [source.shape[:-2], target.shape[:-2], coupling.shape[:-1]])
        displacement = source.index_select(-2, edges.senders) - target.index_select(-2, edges.receivers)
        squares = displacement.square().sum(-1)

        # Two at one place lack a direction; a 1 keeps the logarithm and its gradient finite.
        squares = torch.where(squares == 0, 1.0, squares)
        pull = (coupling * self.strength(squares) * squares.rsqrt()).unsqueeze(-1) * displacement
        return aggregate(displacement.new_zeros(source.shape[-2:]), edges, "sum", edge_value=pull, backend=self.backend)
