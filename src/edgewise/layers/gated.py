"""Attention over the edges of a graph in which every node gates each head; and a recurrent unit made of it."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.attend import aggregate
from edgewise.errors import SettingError, ShapeError
from edgewise.graph import Trace
from edgewise.layers.given import pair_beside, pair_of, require_function, require_nodes, size_of, weight_of
from edgewise.layers.heads import attend_and_record, over_heads, split_heads
from edgewise.layers.linear import Linear
from edgewise.layers.messages import concat_features
from edgewise.neighborhood import GivenNeighborhood, Neighborhood, neighborhood_of
from edgewise.neighborhood.checks import require_sizes
from edgewise.score import Dot


class GatedGraphAttention(nn.Module):
    """H attentions over the neighbors, each multiplied by a gate that depends on the neighborhood.

        y_i = W [x_i; g_i1 o_i1; …; g_iH o_iH]
        o_ih = Σ_{j∈N(i)} α_ijh LeakyReLU(V_h z_j),   α_i·h = softmax_{j∈N(i)}( Q_h x_i · K_h z_j )
        g_i = sigmoid( G [x_i; max_{j∈N(i)} M z_j; mean_{j∈N(i)} z_j] ),   one number a head

    Every matrix is followed by a bias, which is not written here.

    Args:
        input_dim: size of the x_i, which attend.
        output_dim: size of the y_i; input_dim by default.
        num_heads: H.
        source_dim: size of the z_j, which are attended to; input_dim by default.
        key_dim, value_dim: rows of each Q_h and K_h, and of each V_h; input_dim / H by default, but at least 1.
        pool_dim: rows of M; value_dim by default.

    Empty: a node with no neighbor sees zeros for o, the maximum and the mean.
    Cost: O(edge · (H (key_dim + value_dim) + pool_dim + source_dim)).
    Source: Zhang et al. 2018 (GaAN), eqs. 3 to 6. Their θ_xa, θ_za, θ_v, θ_m, θ_g and θ_o are our Q, K, V, M, G and W;
    the dot product is not scaled, and LeakyReLU has the slope 0.1, as there.

    >>> from edgewise import Edges
    >>> layer = GatedGraphAttention(8, num_heads=2)
    >>> layer(torch.randn(5, 8), Edges([0, 1], [1, 2], 5, 5)).shape
    torch.Size([5, 8])
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int | None = None,
        num_heads: int = 8,
        *,
        source_dim: int | None = None,
        key_dim: int | None = None,
        value_dim: int | None = None,
        pool_dim: int | None = None,
    ):
        super().__init__()
        owner = "GatedGraphAttention"
        require_sizes(owner, num_heads=num_heads)
        require_sizes(owner, 0, input_dim=input_dim)
        output_dim = input_dim if output_dim is None else output_dim
        source_dim = input_dim if source_dim is None else source_dim
        key_dim = max(input_dim // num_heads, 1) if key_dim is None else key_dim
        value_dim = max(input_dim // num_heads, 1) if value_dim is None else value_dim
        pool_dim = value_dim if pool_dim is None else pool_dim
        require_sizes(owner, output_dim=output_dim, value_dim=value_dim, pool_dim=pool_dim)
        require_sizes(owner, 0, source_dim=source_dim, key_dim=key_dim)
        self.num_heads = num_heads
        self.query, self.key = Linear(input_dim, num_heads * key_dim), Linear(source_dim, num_heads * key_dim)
        self.value = Linear(source_dim, num_heads * value_dim)
        self.pool = Linear(source_dim, pool_dim)
        self.gate = Linear(input_dim + pool_dim + source_dim, num_heads)
        self.output = Linear(input_dim + num_heads * value_dim, output_dim)

    def forward(
        self,
        nodes: Float[Tensor, " *batch query input_dim"] | tuple[Tensor, Tensor],
        edges: GivenNeighborhood,
        *,
        source: Float[Tensor, " *batch key source_dim"] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, " *batch query output_dim"]:
        """The nodes after the layer.

        Args:
            nodes: x, which attend; or (z, x), sources and targets.
            edges: who attends to whom, `Edges` or another neighborhood; one for all batch axes, or one for each,
                `(*batch, query, key)` as a mask, or one for each head, `(*batch, head, query, key)`, which the gate of
                that head reads, too.
            source: z, what they attend to; the nodes themselves by default.
            trace: where the weights are recorded, before the gates.
        """
        if isinstance(nodes, tuple) and source is not None:
            raise SettingError(
                "GatedGraphAttention: got a pair (source, target) and source, which both say what is attended to; pass "
                "one of them."
            )
        sizes = size_of(self.key), size_of(self.query)
        if not isinstance(nodes, tuple):
            require_nodes("GatedGraphAttention", nodes, sizes[1], weight_of(self.query))
            nodes = (nodes if source is None else source, nodes)
        source, target = pair_of("GatedGraphAttention", nodes, sizes, weight_of(self.query))
        neighborhood = neighborhood_of("GatedGraphAttention", edges, target.shape[-2], source.shape[-2])
        features = self.query(target), self.key(source), F.leaky_relu(self.value(source), 0.1)
        query, key, value = (split_heads(x, self.num_heads) for x in features)
        batch_shapes = [target.shape[:-2], source.shape[:-2]]
        neighborhood_of_heads = over_heads("GatedGraphAttention", neighborhood, batch_shapes, (self.num_heads,))
        heads = attend_and_record(trace, query, key, value, neighborhood_of_heads, score=Dot()).movedim(-3, -2)
        gated = self._gates(target, source, neighborhood_of_heads).unsqueeze(-1) * heads

        return self.output(concat_features(target, gated.flatten(-2)))

    def _gates(self, nodes: Tensor, source: Tensor, each_head: Neighborhood) -> Tensor:
        """g, `(*batch, query, head)`; where heads have neighborhoods of their own, a gate sees that of its head."""
        if varies := len(each_head.batch_shape) > 0:
            nodes, source = nodes.unsqueeze(-3), source.unsqueeze(-3)
        largest = aggregate(self.pool(source), each_head, "max", num_queries=nodes.shape[-2])
        mean = aggregate(source, each_head, "mean", num_queries=nodes.shape[-2])
        gates = self.gate(concat_features(nodes, torch.cat([largest, mean], -1))).sigmoid()
        if not varies:
            return gates
        return gates.squeeze(-3) if gates.shape[-3] == 1 else gates.diagonal(dim1=-3, dim2=-1)


class GraphGRU(nn.Module):
    """One step of a gated recurrent unit whose nodes attend to their neighbors, now and at the step before.

        u = sigmoid(Γ_xu(X, X) + Γ_hu([X; H], H))
        r = sigmoid(Γ_xr(X, X) + Γ_hr([X; H], H))
        Ĥ = σ(Γ_xh(X, X) + r ∘ Γ_hh([X; H], H))
        H ← (1 − u) ∘ Ĥ + u ∘ H

    Γ(X, Z) is a `GatedGraphAttention` in which X attends to Z; the six have matrices of their own. Call it once a step,
    with the state that it gave at the step before.

    Args:
        input_dim: size of the nodes X that a step reads.
        output_dim: size of the state H.
        num_heads, key_dim, value_dim, pool_dim: of every Γ; sizes follow from output_dim by default.
        activation: σ.

    Empty: a node with no neighbor is a recurrent unit of its own.
    Cost: six times that of the attention.
    Source: Zhang et al. 2018, eq. 8 (GGRU), whose H' is our Ĥ and whose h is σ.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        num_heads: int = 8,
        *,
        key_dim: int | None = None,
        value_dim: int | None = None,
        pool_dim: int | None = None,
        activation: Callable[[Tensor], Tensor] = torch.tanh,
    ):
        super().__init__()
        require_sizes("GraphGRU", output_dim=output_dim, num_heads=num_heads)
        require_sizes("GraphGRU", 0, input_dim=input_dim)
        require_function("GraphGRU", "activation", activation)
        key_dim = max(output_dim // num_heads, 1) if key_dim is None else key_dim
        value_dim = max(output_dim // num_heads, 1) if value_dim is None else value_dim
        self.input_dim, self.output_dim, self.activation = input_dim, output_dim, activation

        def three(own_dim: int, source_dim: int) -> nn.ModuleList:
            """For u, r and h."""
            return nn.ModuleList(
                GatedGraphAttention(
                    own_dim, output_dim, num_heads, source_dim=source_dim, key_dim=key_dim, value_dim=value_dim,
                    pool_dim=pool_dim,
                )
                for _ in range(3)
            )  # fmt: skip

        self.from_input, self.from_state = three(input_dim, input_dim), three(input_dim + output_dim, output_dim)

    def forward(
        self,
        nodes: Float[Tensor, " *batch node input_dim"] | tuple[Tensor, Tensor],
        edges: GivenNeighborhood,
        state: Float[Tensor, " *batch node output_dim"] | tuple[Tensor, Tensor] | None = None,
        *,
        trace: Trace | None = None,
    ) -> Float[Tensor, " *batch node output_dim"]:
        """The state after one more step.

        Args:
            nodes: X, what is read at this step; or that of (sources, targets).
            edges: who attends to whom, `Edges` or another neighborhood.
            state: H before it; zero where None, as before the first step. Of a pair, that of (sources, targets): the
                state of the targets is returned, and that of the sources comes from what updates them.
            trace: where the weights of all six attentions are recorded, those of u, r and h on X first.
        """
        weight = weight_of(self.from_input[0])
        source, target = pair_of("GraphGRU", nodes, (self.input_dim, self.input_dim), weight)
        neighborhood = neighborhood_of("GraphGRU", edges, target.shape[-2], source.shape[-2])
        if state is None:
            source_state, target_state = (x.new_zeros(*x.shape[:-1], self.output_dim) for x in (source, target))
        else:
            source_state, target_state = pair_beside("GraphGRU", "state", state, nodes)
            for one, of_nodes in ((source_state, source), (target_state, target)):
                require_nodes("GraphGRU", one, self.output_dim, weight, "state")
                if one.shape[:-1] != of_nodes.shape[:-1]:
                    raise ShapeError(
                        f"GraphGRU: the state is that of nodes {tuple(one.shape[:-1])}, but these are "
                        f"{tuple(of_nodes.shape[:-1])}; it has a row for each of them."
                    )

        both = torch.cat([target, target_state], -1)
        now = [attention(target, neighborhood, source=source, trace=trace) for attention in self.from_input]
        before = [attention(both, neighborhood, source=source_state, trace=trace) for attention in self.from_state]
        update, reset = ((one + other).sigmoid() for one, other in zip(now[:2], before[:2]))
        new = self.activation(now[2] + reset * before[2])

        return (1 - update) * new + update * target_state
