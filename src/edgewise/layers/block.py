"""The residual block that transformers, graph transformers and encoders are stacked from."""

from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from edgewise.errors import SettingError
from edgewise.layers.attention import MultiHeadAttention
from edgewise.neighborhood import Full, Neighborhood
from edgewise.trace import Trace


class ResidualBlock(nn.Module):
    """Attention, then a feed-forward network on every node, each added to what came in.

        pre-norm    x ← x + A(norm(x));  x ← x + F(norm(x))
        post-norm   x ← norm(x + A(x));  x ← norm(x + F(x))

    Args:
        attention: A; its output must have the size of its query nodes.
        model_dim: size of the nodes.
        hidden_dim: width of F; 4 · model_dim by default.
        norm: "pre" or "post".
        dropout: of what A and F add, in training.
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
        dropout: float = 0.0,
        hidden_dropout: float = 0.0,
    ):
        super().__init__()
        if norm not in ("pre", "post"):
            raise SettingError(f"ResidualBlock: norm must be 'pre' or 'post', not {norm!r}.")
        if attention.output_dim != model_dim:
            raise SettingError(
                f"ResidualBlock: attention gives nodes of size {attention.output_dim}, but model_dim is {model_dim}."
            )
        hidden_dim = 4 * model_dim if hidden_dim is None else hidden_dim
        self.norm = norm
        self.attention = attention
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(model_dim), nn.LayerNorm(model_dim)
        self.dropout = nn.Dropout(dropout)
        self.feed_forward = nn.Sequential(
            nn.Linear(model_dim, hidden_dim), nn.GELU(), nn.Dropout(hidden_dropout), nn.Linear(hidden_dim, model_dim)
        )

    def forward(
        self,
        nodes: Float[Tensor, " *batch node model_dim"],
        neighborhood: Neighborhood = Full(),
        *,
        source: Float[Tensor, " *source_batch key source_dim"] | None = None,
        edge: Float[Tensor, " *edge_batch edge edge_dim"] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, " *out_batch node model_dim"]:
        """The nodes after the block; with `source` they attend to that (cross-attention) instead of to each other."""
        if self.norm == "pre":
            attended = self.attention(self.attention_norm(nodes), source, None, neighborhood, edge=edge, trace=trace)
            nodes = nodes + self.dropout(attended)
            return nodes + self.dropout(self.feed_forward(self.feed_forward_norm(nodes)))
        attended = self.attention(nodes, source, None, neighborhood, edge=edge, trace=trace)
        nodes = self.attention_norm(nodes + self.dropout(attended))
        return self.feed_forward_norm(nodes + self.dropout(self.feed_forward(nodes)))
