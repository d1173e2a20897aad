"""Attention between all atoms of a molecule that also knows distances and bonds."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.attend import aggregate, attend
from edgewise.backends.call import outside_autocast
from edgewise.graph import Trace
from edgewise.layers.given import pair_beside, pair_of, require_places, size_of, weight_of
from edgewise.layers.heads import (
    attend_and_record,
    join_heads,
    over_heads,
    require_choice,
    require_multiple,
    split_heads,
)
from edgewise.layers.linear import Linear
from edgewise.neighborhood import Full, GivenNeighborhood, neighborhood_of
from edgewise.neighborhood.checks import number, require_sizes
from edgewise.normalize import Rows, Softmax
from edgewise.score import Distance


class MoleculeAttention(nn.Module):
    """H attentions between all atoms, each mixed with how near the atoms are and whether they are bonded.

        head_h = ( λ_a softmax(Q_h K_hᵀ / √d) + λ_d g(D) + λ_g A ) V_h        out = W [head_1; …; head_H]
        D_ij = ‖x_i − x_j‖,    A_ij = 1 where j is bonded to i,    g(D) = softmax(−D) along each row, or exp(−D)

    The three are summed one by one, so that no table of pairs is held; with g = softmax, each by a fused kernel.

    Args:
        model_dim: size of the atoms, before and after.
        num_heads: H.
        attention_share, distance_share, bond_share: λ_a, λ_d and λ_g; they are not learned.
        kernel: g, "softmax" or "exponential".
        bond_aggregation: "sum", which is A, or "mean", which is A with rows that sum to one.

    Empty: an atom with neither neighbors nor bonds gets the output's bias.
    Cost: O(pair · model_dim) time, O(atom) memory; with "exponential" in blocks of pairs.
    Source: Maziarka et al. 2020 (MAT), eq. 3. In their code bonds have loops and rows of A are divided by their sums
    (`with_self_loops()` and "mean" here), each molecule has a dummy atom far from all others, which here is up to what
    is handed over, and the mixed weights know dropout, which they do not here.

    >>> from edgewise import Edges, Segments
    >>> bonds = Edges([0, 1, 2, 3], [1, 0, 3, 2], 5, 5)
    >>> layer = MoleculeAttention(8, num_heads=2)
    >>> layer(torch.randn(5, 8), torch.randn(5, 3), bonds, Segments(torch.tensor([0, 2, 5]))).shape
    torch.Size([5, 8])
    """

    def __init__(
        self,
        model_dim: int,
        num_heads: int = 8,
        *,
        attention_share: float = 0.33,
        distance_share: float = 0.33,
        bond_share: float = 0.33,
        kernel: Literal["softmax", "exponential"] = "softmax",
        bond_aggregation: Literal["sum", "mean"] = "sum",
    ):
        super().__init__()
        shares = {"attention_share": attention_share, "distance_share": distance_share, "bond_share": bond_share}
        for name, share in shares.items():
            number("MoleculeAttention", name, share)
        require_sizes("MoleculeAttention", model_dim=model_dim)
        require_multiple("MoleculeAttention", "model_dim", model_dim, num_heads)
        require_choice("MoleculeAttention", "kernel", kernel, ("softmax", "exponential"))
        require_choice("MoleculeAttention", "bond_aggregation", bond_aggregation, ("sum", "mean"))
        self.num_heads, self.kernel, self.bond_aggregation = num_heads, kernel, bond_aggregation
        self.shares = attention_share, distance_share, bond_share
        self.query, self.key, self.value = (Linear(model_dim, model_dim) for _ in range(3))
        self.output = Linear(model_dim, model_dim)

    def forward(
        self,
        nodes: Float[Tensor, " *batch node model_dim"] | tuple[Tensor, Tensor],
        coordinates: Float[Tensor, " *batch node space_dim"] | tuple[Tensor, Tensor],
        bonds: GivenNeighborhood,
        neighborhood: GivenNeighborhood = Full(),
        *,
        trace: Trace | None = None,
    ) -> Float[Tensor, " *batch node model_dim"]:
        """The atoms after the layer.

        Args:
            nodes: the atoms; or (sources, targets), such as a pocket and its ligand, of which targets are returned.
            coordinates: x, where each is, a pair where nodes are one; in units in which bonded atoms are about 1 apart,
                such as ångström.
            bonds: who is bonded to whom; a bond is two edges.
            neighborhood: who is in the same molecule: `Segments(offsets)` for packed molecules, `Lengths` for padded
                ones, `Full` for one alone.
            trace: where the weights of the attention are recorded, before they are mixed.
        """
        owner, size = "MoleculeAttention", size_of(self.query)
        source, target = pair_of(owner, nodes, (size, size), weight_of(self.query))
        from_places, to_places = pair_beside(owner, "coordinates", coordinates, nodes)
        require_places(owner, from_places, source)
        require_places(owner, to_places, target, space_dim=from_places.shape[-1])
        num_targets = target.shape[-2]
        bonds, neighborhood = (
            neighborhood_of(owner, pairs, num_targets, source.shape[-2]) for pairs in (bonds, neighborhood)
        )
        query = split_heads(self.query(target), self.num_heads)
        key, value = (split_heads(linear(source), self.num_heads) for linear in (self.key, self.value))
        batch_shapes, head_shape = [source.shape[:-2], target.shape[:-2]], (self.num_heads,)
        neighborhood, bonds = (over_heads(owner, pairs, batch_shapes, head_shape) for pairs in (neighborhood, bonds))

        # Distances are differences of places: half precision, which is enough for values, would round them away.
        precise = torch.promote_types(to_places.dtype, value.dtype)
        to_coordinates, from_coordinates = (
            coordinates_of_side.to(precise).unsqueeze(-3) for coordinates_of_side in (to_places, from_places)
        )
        nearness = Softmax() if self.kernel == "softmax" else _exponential
        attention_share, distance_share, bond_share = self.shares
        with outside_autocast(to_coordinates.device):
            near = attend(
                to_coordinates,
                from_coordinates,
                value.to(precise),
                neighborhood,
                score=Distance("laplacian"),
                normalize=nearness,
            )
        heads = (
            attention_share * attend_and_record(trace, query, key, value, neighborhood)
            + distance_share * near.to(value.dtype)
            + bond_share * aggregate(value, bonds, self.bond_aggregation, num_queries=num_targets)
        )

        return self.output(join_heads(heads))


def _exponential(scores: Tensor, rows: Rows) -> Tensor:
    """α_ij = exp(s_ij), each pair on its own. Pairs outside the neighborhood get no gradient."""
    return rows.keep(torch.exp(rows.keep(scores)))
