"""Attention over the edges of a graph as its papers have it, and over distances in it."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.attend import attend, attention_weights
from edgewise.errors import SettingError
from edgewise.graph import Trace
from edgewise.layers.convolution import spread_evenly
from edgewise.layers.dropout import dropout
from edgewise.layers.feature import FeatureLinear, Nodes, Pair
from edgewise.layers.given import pair_of, refuse_pair, require_nodes, two, weight_of
from edgewise.layers.heads import (
    attend_and_record,
    join_heads,
    over_heads,
    products_with_heads,
    require_multiple,
    split_heads,
)
from edgewise.layers.messages import features_of_edges
from edgewise.layers.scorer import Given
from edgewise.neighborhood import Full, GivenNeighborhood, edges_of, neighborhood_of
from edgewise.neighborhood.checks import count, number, require_rate, require_sizes
from edgewise.normalize import Normalize, Sigmoid
from edgewise.score import GAT, Dot, GATv2, Score

GraphScore = Literal["gat", "gatv2"]

SHORT = 8
"""Features of a head up to which one product for all heads is faster than their sums."""


class GraphAttention(nn.Module):
    """H attentions over the neighbors; `output_dim` is all heads together, unlike PyTorch Geometric's size per head.

        gat      h = x W;  s_ij = LeakyReLU(a·h_i + b·h_j);  o_i = Σ_j softmax_j(s_ij) h_j
        gatv2    q = x W;  k = x U;  s_ij = a·LeakyReLU(q_i + k_j);  o_i = Σ_j softmax_j(s_ij) k_j

    The heads are concatenated, or averaged, and a bias is added: `GraphAttention(i, h * c, h)` is `GATConv(i, c, h)`,
    and `GraphAttention(i, c, h, combine="mean")` is `GATConv(i, c, h, concat=False)`. Every attention has a matrix and
    a vector of its own. Add the loops of the nodes to the edges, as the papers do, or leave them out; the layer does
    neither.

    Edge features e are seen by the score, not summed: gat adds c·(e U_e) within LeakyReLU, gatv2 adds e U_e to k.

    Args:
        input_dim: size of the nodes before; two sizes are those of sources and targets, with a matrix each.
        output_dim: size of the nodes after: of all heads together where they are concatenated, of each where averaged.
        num_heads: H.
        score: which of the two.
        combine: "concatenate" or "mean".
        edge_dim: size of the edge features; 0 where there are none.
        share_weights: gatv2 with U = W.
        residual: whether x R is added, R a matrix.
        bias: whether a bias is added to the output.
        projection_bias: whether one is added to q and k.
        negative_slope: that of LeakyReLU.
        dropout: the probability that a weight is set to zero in training.
        value_dropout: the same of a feature of what is summed, the score seeing it whole.

    Empty: a node with no neighbor and no loop gets the bias.
    Cost: O(edge · output_dim).
    Source: Veličković et al. 2018, eqs. 3 to 6, whose a ∈ R^{2F'} is our a and b one after the other, and whose code
    drops features of the values too; Brody et al. 2022, eq. 7, whose W ∈ R^{2F x F'} is our W and U.
    """

    def __init__(
        self,
        input_dim: int | tuple[int, int],
        output_dim: int,
        num_heads: int = 1,
        *,
        score: GraphScore = "gat",
        combine: Literal["concatenate", "mean"] = "concatenate",
        edge_dim: int = 0,
        share_weights: bool = False,
        residual: bool = False,
        bias: bool = True,
        projection_bias: bool = False,
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        value_dropout: float = 0.0,
    ):
        super().__init__()
        if combine not in ("concatenate", "mean"):
            raise SettingError(f"GraphAttention: combine must be concatenate or mean, not {combine!r}.")
        if score not in ("gat", "gatv2"):
            raise SettingError(f"GraphAttention: score must be gat or gatv2, not {score!r}.")

        owner = "GraphAttention"
        require_sizes(owner, output_dim=output_dim, num_heads=num_heads)
        require_sizes(owner, 0, edge_dim=edge_dim)
        require_rate(owner, dropout=dropout, value_dropout=value_dropout)
        negative_slope = number(owner, "negative_slope", negative_slope)
        if combine == "concatenate":
            require_multiple(owner, "output_dim", output_dim, num_heads)
        self.sizes = source_dim, target_dim = two(owner, "input_dim", input_dim)
        if share_weights and (score == "gat" or isinstance(input_dim, tuple)):
            raise SettingError("GraphAttention: share_weights is for gatv2 with one input_dim; drop it.")

        head_dim = output_dim // num_heads if combine == "concatenate" else output_dim
        width = num_heads * head_dim
        self.num_heads, self.score, self.combine, self.edge_dim = num_heads, score, combine, edge_dim
        self.dropout, self.value_dropout, self.negative_slope = dropout, value_dropout, negative_slope
        self.is_stacked = score == "gatv2" and not share_weights and not isinstance(input_dim, tuple)
        """Whether the matrices of queries and keys stand above each other in one."""
        self.linear = _glorot(source_dim, 2 * width if self.is_stacked else width, projection_bias)
        self.target = _glorot(target_dim, width, projection_bias) if isinstance(input_dim, tuple) else None
        self.edge = _glorot(edge_dim, width, False) if edge_dim else None
        self.residual = _glorot(target_dim, output_dim, False) if residual else None
        self.vector = _vector(num_heads, head_dim)
        if score == "gat":
            self.key_vector = _vector(num_heads, head_dim)
        if score == "gat" and edge_dim:
            self.edge_vector = _vector(num_heads, head_dim)
        self.bias = nn.Parameter(torch.zeros(output_dim)) if bias else None

    def forward(
        self,
        nodes: Pair,
        edges: GivenNeighborhood,
        edge_features: Float[Tensor, " *edge_batch edge edge_dim"] | None = None,
        *,
        trace: Trace | None = None,
    ) -> Float[Tensor, " *batch node output_dim"]:
        """The nodes after the layer; `(*batch, node, input_dim)` or sparse before, or (sources, targets).

        Args:
            edge_features: e, one row an edge, where the layer has an `edge_dim`.
            trace: where the weights are recorded.
        """
        source, target = pair_of("GraphAttention", nodes, self.sizes, weight_of(self.linear), takes_sparse=True)
        projected = self._projected(source, target)
        query, key = (split_heads(x, self.num_heads) for x in projected)
        value = key
        if self.training and self.value_dropout > 0:
            value = split_heads(dropout(projected[1], self.value_dropout, True), self.num_heads)
        score: Score
        neighborhood = neighborhood_of("GraphAttention", edges, query.shape[-2], key.shape[-2])
        if edge_features is not None or self.edge is not None:
            sizes = query.shape[-2], key.shape[-2]
            neighborhood = edges_of("GraphAttention", neighborhood, *sizes, query.device, edge_features)
            edge_features = features_of_edges("GraphAttention", edge_features, neighborhood, self.edge_dim, query)
        batch_shapes = [x.shape[:-2] for x in projected]
        neighborhood = over_heads("GraphAttention", neighborhood, batch_shapes, (self.num_heads,))
        edge_key = (
            None
            if edge_features is None or self.edge is None
            else split_heads(self.edge(edge_features), self.num_heads)
        )

        if self.score == "gatv2":
            score = GATv2(self.vector, self.negative_slope)
        else:  # each is one number a head
            query, key = self._numbers(projected, query, key)
            if edge_key is not None:
                edge_key = (edge_key * self.edge_vector.unsqueeze(-2)).sum(-1, keepdim=True)
            score = GAT(query.new_ones(1), query.new_ones(1), self.negative_slope)

        parts: dict[str, Any] = {"score": score, "edge_key": edge_key}
        rate = self.dropout if self.training else 0.0
        out = attend_and_record(trace, query, key, value, neighborhood, dropout=rate, **parts)
        joined = out.mean(-3) if self.combine == "mean" else join_heads(out)
        joined = joined if self.residual is None else joined + self.residual(target)

        return joined if self.bias is None else joined + self.bias

    def _numbers(self, projected: tuple[Tensor, Tensor], query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """a·h_i and b·h_j, `(*batch, head, node, 1)` each."""
        rows = projected[0]
        if rows is not projected[1] or query.shape[-1] > SHORT:
            pairs = (query, self.vector), (key, self.key_vector)
            products = [(rows * vector.unsqueeze(-2)).sum(-1, keepdim=True) for rows, vector in pairs]
            return products[0], products[1]
        at_query, at_key = products_with_heads(rows, torch.stack([self.vector, self.key_vector]))
        return at_query, at_key

    def _projected(self, source: Nodes, target: Nodes) -> tuple[Tensor, Tensor]:
        """Queries and keys, heads side by side."""
        if self.target is not None:
            return self.target(target), self.linear(source)
        at_target = self.linear(target)
        at_source = at_target if source is target else self.linear(source)
        return (at_target.chunk(2, -1)[0], at_source.chunk(2, -1)[1]) if self.is_stacked else (at_target, at_source)


class HopAttention(nn.Module):
    """Spreads nodes over the graph K times, and learns a weight per hop distance for each node.

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
        require_sizes("HopAttention", 0, num_hops=num_hops)
        self.num_hops, self.normalize = num_hops, Given(normalize)
        bound = math.sqrt(3 / count("HopAttention", "model_dim", model_dim))
        self.query = nn.Parameter(torch.empty(1, model_dim).uniform_(-bound, bound))

    def forward(
        self,
        nodes: Float[Tensor, " *batch node model_dim"],
        edges: GivenNeighborhood,
        *,
        trace: Trace | None = None,
    ) -> Float[Tensor, " *batch node model_dim"]:
        """The nodes after the layer.

        Raises:
            UnsupportedError: the nodes are a pair (source, target), over which hops cannot follow each other.
        """
        refuse_pair(
            "HopAttention", nodes, "hops follow each other over one set of nodes; use GraphAttention or a convolution, "
            "which take pairs, or join both sets in one graph.",
        )  # fmt: skip
        require_nodes("HopAttention", nodes, self.query.shape[-1], self.query)
        edges = edges_of("HopAttention", edges, nodes.shape[-2], nodes.shape[-2], nodes.device)
        versions = [nodes]
        for _ in range(self.num_hops):
            versions.append(spread_evenly(versions[-1], edges))

        return self.over_distances(versions, trace)

    def over_distances(
        self, versions: Sequence[Float[Tensor, " *batch node model_dim"]], trace: Trace | None = None
    ) -> Float[Tensor, " *batch node model_dim"]:
        """o, from z_0 … z_K: what each node attends over."""
        distances = torch.stack(tuple(versions), -2)
        parts: dict[str, Any] = {"score": Dot(), "normalize": self.normalize()}
        if trace is not None:  # a row a node, whatever the trace selects
            trace.record(attention_weights(self.query, distances, Full(), **parts))
        return attend(self.query, distances, distances, **parts).squeeze(-2)


def _glorot(input_dim: int, output_dim: int, bias: bool) -> FeatureLinear:
    linear = FeatureLinear(input_dim, output_dim, bias=bias)
    nn.init.xavier_uniform_(linear.weight)
    return linear


def _vector(num_heads: int, head_dim: int) -> nn.Parameter:
    bound = math.sqrt(6 / (head_dim + 1))
    return nn.Parameter(torch.empty(num_heads, head_dim).uniform_(-bound, bound))
