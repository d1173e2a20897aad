"""Attention over distances: a node looks at itself as seen after 0, 1, 2, … steps over the graph."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.attend import attend, attention_weights
from edgewise.layers.convolution import spread_evenly
from edgewise.layers.given import require_nodes
from edgewise.neighborhood import Full, GivenNeighborhood, edges_of
from edgewise.normalize import Normalize, Sigmoid
from edgewise.score import Dot
from edgewise.trace import Trace


class HopAttention(nn.Module):
    """Spreads nodes over the graph K times, and lets each node choose which distance to believe.

        z_0 = x;  z_k = D^−½ Â D^−½ z_{k−1};  o_i = Σ_k α_ik z_ik,  α_i = normalize_k(w · z_ik)

    Every node attends, with one learned query w, over its own K + 1 versions: far is seen without many layers, and near
    is not washed out.

    Args:
        model_dim: size of the nodes.
        num_hops: K.
        normalize: from scores to weights; with `Sigmoid` each distance is taken or left for itself.

    Empty: a node without neighbors sees itself alone, K + 1 times the same.
    Cost: O(K · edge · model_dim).
    Source: Liu, Gao & Ji 2020 (DAGNN), eqs. 8 to 10, whose s is our w, with `Sigmoid`.
    """

    def __init__(self, model_dim: int, num_hops: int = 10, *, normalize: Normalize = Sigmoid()):
        super().__init__()
        self.num_hops, self.normalize = num_hops, normalize
        bound = math.sqrt(3 / model_dim)
        self.query = nn.Parameter(torch.empty(1, model_dim).uniform_(-bound, bound))

    def forward(
        self, nodes: Float[Tensor, " node model_dim"], edges: GivenNeighborhood, trace: Trace | None = None
    ) -> Float[Tensor, " node model_dim"]:
        """The nodes after the layer."""
        require_nodes("HopAttention", nodes, self.query.shape[-1], self.query)
        edges = edges_of("HopAttention", edges, nodes.shape[-2], nodes.shape[-2])
        versions = [nodes]
        for _ in range(self.num_hops):
            versions.append(spread_evenly(versions[-1], edges))
        distances = torch.stack(versions, -2)
        if trace is not None:
            trace.record(attention_weights(self.query, distances, Full(), score=Dot(), normalize=self.normalize))
        return attend(self.query, distances, distances, score=Dot(), normalize=self.normalize).squeeze(-2)
