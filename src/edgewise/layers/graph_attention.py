"""Attention over the edges of a graph as its papers have it: one matrix, one vector a head."""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.attend import attend, attention_weights
from edgewise.errors import SettingError
from edgewise.layers.feature import FeatureLinear, Nodes
from edgewise.layers.given import require_nodes
from edgewise.neighborhood import GivenNeighborhood
from edgewise.score import GAT, GATv2
from edgewise.trace import Trace

GraphScore = Literal["gat", "gatv2"]


class GraphAttention(nn.Module):
    """H attentions over the neighbors and the node itself, each with a matrix and a vector of its own.

        gat      h = x W;  s_ij = LeakyReLU(a·h_i + b·h_j);  o_i = Σ_j softmax_j(s_ij) h_j
        gatv2    q = x W;  k = x U;  s_ij = a·LeakyReLU(q_i + k_j);  o_i = Σ_j softmax_j(s_ij) k_j

    The heads are concatenated, or averaged, and a bias is added. Add the loops of the nodes to the edges, as the papers
    do, or leave them out; the layer does neither.

    Args:
        input_dim: size of the nodes before.
        output_dim: size of the nodes after: of all heads together where they are concatenated, of each where averaged.
        num_heads: H.
        score: which of the two.
        combine: "concatenate" or "mean".
        dropout: the probability that a weight is set to zero in training.
        value_dropout: the same of a feature of what is summed, the score seeing it whole.

    Empty: a node with no neighbor and no loop gets the bias.
    Cost: O(edge · output_dim).
    Source: Veličković et al. 2018, eqs. 3 to 6, whose a ∈ R^{2F'} is our a and b one after the other, and whose code
    drops features of the values too; Brody et al. 2022, eq. 7, whose W ∈ R^{2F x F'} is our W and U.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        num_heads: int = 1,
        *,
        score: GraphScore = "gat",
        combine: Literal["concatenate", "mean"] = "concatenate",
        dropout: float = 0.0,
        value_dropout: float = 0.0,
    ):
        super().__init__()
        if combine not in ("concatenate", "mean"):
            raise SettingError(f"GraphAttention: combine must be concatenate or mean, not {combine!r}.")
        if score not in ("gat", "gatv2"):
            raise SettingError(f"GraphAttention: score must be gat or gatv2, not {score!r}.")
        if combine == "concatenate" and output_dim % num_heads != 0:
            raise SettingError(
                f"GraphAttention: output_dim ({output_dim}) must be a multiple of num_heads ({num_heads})."
            )
        head_dim = output_dim // num_heads if combine == "concatenate" else output_dim
        self.num_heads, self.score, self.combine = num_heads, score, combine
        self.dropout, self.value_dropout = dropout, value_dropout
        sides = 1 if score == "gat" else 2
        self.linear = FeatureLinear(input_dim, sides * num_heads * head_dim, bias=False)
        nn.init.xavier_uniform_(self.linear.weight)
        bound = math.sqrt(6 / (head_dim + 1))
        self.vector = nn.Parameter(torch.empty(num_heads, head_dim).uniform_(-bound, bound))
        if score == "gat":
            self.key_vector = nn.Parameter(torch.empty(num_heads, head_dim).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(output_dim))

    def forward(
        self, nodes: Nodes, edges: GivenNeighborhood, trace: Trace | None = None
    ) -> Float[Tensor, " *batch node output_dim"]:
        """The nodes after the layer, `(*batch, node, input_dim)` or sparse before."""
        require_nodes("GraphAttention", nodes, self.linear.in_features, self.linear.weight)
        heads = [side.unflatten(-1, (self.num_heads, -1)).movedim(-2, -3) for side in self._sides(nodes)]
        query, key = heads[0], heads[-1]
        score = GAT(self.vector, self.key_vector) if self.score == "gat" else GATv2(self.vector)
        if trace is not None:
            trace.record(attention_weights(query, key, edges, score=score, top=trace.top, queries=trace.queries))
        dropout = self.dropout if self.training else 0.0
        value = F.dropout(key, self.value_dropout, self.training)
        out = attend(query, key, value, edges, score=score, dropout=dropout)
        joined = out.mean(-3) if self.combine == "mean" else out.movedim(-3, -2).flatten(-2)
        return joined + self.bias

    def _sides(self, nodes: Nodes) -> tuple[Tensor, ...]:
        projected = self.linear(nodes)
        return (projected,) if self.score == "gat" else projected.chunk(2, -1)
