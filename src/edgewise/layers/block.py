"""The residual block that transformers, graph transformers, encoders and decoders are stacked from."""

from collections.abc import Callable
from typing import Literal

from jaxtyping import Float, Int64
from torch import Tensor, nn

from edgewise.choices import ACTIVATIONS, Activation
from edgewise.errors import SettingError, ShapeError
from edgewise.graph import Trace
from edgewise.layers.attention import MultiHeadAttention
from edgewise.layers.cache import LayerCache
from edgewise.layers.dropout import Dropout, FeedForward
from edgewise.layers.given import refuse_pair, require_nodes, weight_of
from edgewise.layers.heads import require_choice
from edgewise.layers.linear import Linear
from edgewise.neighborhood import EdgeRows, Full, GivenNeighborhood
from edgewise.neighborhood.checks import number, require_rate, require_sizes


class ResidualBlock(nn.Module):
    """Attention, then a feed-forward network on every node, each added to what came in.

        pre-norm    x ← x + A(norm(x));  x ← x + C(norm(x), source);  x ← x + F(norm(x))
        post-norm   x ← norm(x + A(x));  x ← norm(x + C(x, source));  x ← norm(x + F(x))

    Args:
        attention: A; its output must have the size of its query nodes.
        cross_attention: C, to another set of nodes; left out where None.
        model_dim: size of the nodes.
        hidden_dim: width of F; 4 · model_dim by default.
        norm: "pre" or "post".
        norm_eps: what keeps a normalization from dividing by zero.
        activation: between the two matrices of F: "gelu", "gelu_tanh" (its approximation, as in GPT-2) or "relu".
        dropout: of what A, C and F add, in training.
        hidden_dropout: within F, in training.

    Source: Vaswani et al. 2017 (post); Xiong et al. 2020 (pre, which trains without warm-up).
    """

    def __init__(
        self,
        attention: MultiHeadAttention,
        model_dim: int,
        hidden_dim: int | None = None,
        *,
        norm: Literal["pre", "post"] = "pre",
        norm_eps: float = 1e-5,
        activation: Activation = "gelu",
        cross_attention: MultiHeadAttention | None = None,
        dropout: float = 0.0,
        hidden_dropout: float = 0.0,
    ):
        super().__init__()
        require_choice("ResidualBlock", "norm", norm, ("pre", "post"))
        if activation not in ACTIVATIONS:
            raise SettingError(
                f"ResidualBlock: activation must be one of {', '.join(ACTIVATIONS)}, not {activation!r}."
            )

        for name, part in (("attention", attention), ("cross_attention", cross_attention)):
            if part is not None and part.output_dim != model_dim:
                raise SettingError(
                    f"ResidualBlock: {name} gives nodes of size {part.output_dim}, but model_dim is {model_dim}."
                )

        hidden_dim = 4 * model_dim if hidden_dim is None else hidden_dim
        require_sizes("ResidualBlock", model_dim=model_dim, hidden_dim=hidden_dim)
        require_rate("ResidualBlock", dropout=dropout, hidden_dropout=hidden_dropout)
        if number("ResidualBlock", "norm_eps", norm_eps) < 0:
            raise SettingError(f"ResidualBlock: norm_eps must be at least 0, not {norm_eps!r}.")
        self.norm, self.model_dim = norm, model_dim
        self.attention = attention
        self.attention_norm, self.feed_forward_norm = (nn.LayerNorm(model_dim, norm_eps) for _ in range(2))
        self.cross_attention = cross_attention
        if cross_attention is not None:
            self.cross_norm = nn.LayerNorm(model_dim, norm_eps)
        self.dropout = Dropout(dropout)
        self.feed_forward = FeedForward(
            Linear(model_dim, hidden_dim),
            activation_of(activation),
            Dropout(hidden_dropout),
            Linear(hidden_dim, model_dim),
            name=activation,
        )

    def forward(
        self,
        nodes: Float[Tensor, " *batch node model_dim"],
        neighborhood: GivenNeighborhood = Full(),
        *,
        source: Float[Tensor, " *source_batch key source_dim"] | None = None,
        source_neighborhood: GivenNeighborhood = Full(),
        edge_features: Float[Tensor, " *edge_batch edge edge_dim"] | None = None,
        edge_rows: EdgeRows | None = None,
        positions: Int64[Tensor, " *position_batch node"] | None = None,
        cache: LayerCache | None = None,
        source_cache: LayerCache | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, " *out_batch node model_dim"]:
        """The nodes after the block.

        With `source` and no `cross_attention`, `attention` attends to it instead of to the nodes themselves.

        Args:
            nodes, neighborhood, edge_features, edge_rows: what attends, to whom, along what.
            source, source_neighborhood: what cross-attention attends to.
            positions, cache: those of `MultiHeadAttention`; source_cache: that of the cross-attention, a fixed one.
            trace: where the weights are recorded, those among the nodes first.

        Raises:
            ShapeError: there is a `cross_attention`, and no source.
            UnsupportedError: the nodes are a pair (source, target).
        """
        refuse_pair("ResidualBlock", nodes, "the block adds to one set of nodes; pass the targets, and source=.")
        require_nodes("ResidualBlock", nodes, self.model_dim, weight_of(self.attention_norm))
        if self.cross_attention is not None and source is None:
            raise ShapeError("ResidualBlock: cross_attention needs a source to attend to.")

        key_nodes = source if self.cross_attention is None else None

        def attend(x: Tensor) -> Tensor:
            return self.attention(
                x, key_nodes, None, neighborhood, edge_features=edge_features, edge_rows=edge_rows,
                positions=positions, cache=cache, trace=trace,
            )  # fmt: skip

        def cross_attend(x: Tensor) -> Tensor:
            assert self.cross_attention is not None
            return self.cross_attention(x, source, None, source_neighborhood, cache=source_cache, trace=trace)

        nodes = self._added(nodes, attend, self.attention_norm)
        if self.cross_attention is not None:
            nodes = self._added(nodes, cross_attend, self.cross_norm)
        return self._added(nodes, self.feed_forward, self.feed_forward_norm)

    def _added(self, nodes: Tensor, part: Callable[[Tensor], Tensor], norm: nn.Module) -> Tensor:
        """What came in and what a part makes of it."""
        if self.norm == "pre":
            return nodes + self.dropout(part(norm(nodes)))
        return norm(nodes + self.dropout(part(nodes)))


def activation_of(name: Activation) -> nn.Module:
    """The layer that a name of `choices.ACTIVATIONS` stands for."""
    match name:
        case "gelu_tanh":
            return nn.GELU(approximate="tanh")
        case "relu":
            return nn.ReLU()
    return nn.GELU()
