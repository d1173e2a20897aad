"""What arrives along edges, as one vector a receiver: the ways to bring a set together."""

from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.attend import aggregate, attend, attention_weights
from edgewise.errors import SettingError
from edgewise.neighborhood import Edges
from edgewise.trace import Trace

Gather = Literal["sum", "mean", "max", "min", "attention"]
GATHERS: tuple[str, ...] = get_args(Gather)


class Aggregation(nn.Module):
    """One vector a receiver from those that its edges carry, whatever their order: o_i = ⊕_{e→i} m_e.

        attention    o_i = Σ_{e→i} α_e W^V m_e,   α = softmax over the edges into i of (W^Q x_i)·(W^K m_e) / √d

    Args:
        edge_dim: size of the m_e, and of the output.
        receiver_dim: size of the x_i, which only attention looks at; 0 leaves one learned query.
        how: ⊕, "sum", "mean", "max", "min" or "attention".
        num_heads: heads of the attention, side by side.

    Empty: zero.
    Cost: O(edge · edge_dim), with attention O(edge · edge_dim²) for its matrices.
    """

    def __init__(self, edge_dim: int, receiver_dim: int, how: Gather = "sum", num_heads: int = 1):
        super().__init__()
        if how not in GATHERS:
            raise SettingError(f"Aggregation: how must be one of {', '.join(GATHERS)}, not {how!r}.")
        self.how, self.num_heads, self.receiver_dim = how, num_heads, receiver_dim
        if how == "attention":
            if edge_dim % num_heads != 0:
                raise SettingError(
                    f"Aggregation: what edges carry ({edge_dim}) must be a multiple of num_heads ({num_heads})."
                )
            if receiver_dim > 0:
                self.query = nn.Linear(receiver_dim, edge_dim)
            else:
                self.learned_query = nn.Parameter(torch.randn(edge_dim))
            self.key, self.value = nn.Linear(edge_dim, edge_dim), nn.Linear(edge_dim, edge_dim)

    def forward(
        self,
        edge: Float[Tensor, " *edge_batch edge edge_dim"],
        edges: Edges,
        receivers: Float[Tensor, " *receiver_batch query receiver_dim"],
        *,
        trace: Trace | None = None,
    ) -> Float[Tensor, " *batch query edge_dim"]:
        """The vector of each receiver; attention records its weights into `trace`."""
        if self.how != "attention":
            return aggregate(edge.new_zeros(edges.num_senders, edge.shape[-1]), edges, self.how, edge_value=edge)
        # Senders say nothing of their own: keys and values lie on the edges alone.
        edge_key, edge_value = (self._split(part(edge)) for part in (self.key, self.value))
        if self.receiver_dim > 0:
            query = self._split(self.query(receivers))
        else:
            query = self._split(self.learned_query.to(edge_key.dtype).expand(edges.num_receivers, -1))
        nothing = edge_key.new_zeros(edges.num_senders, edge_key.shape[-1])
        if trace is not None:
            trace.record(
                attention_weights(query, nothing, edges, edge_key=edge_key, top=trace.top, queries=trace.queries)
            )
        heads = attend(query, nothing, nothing, edges, edge_key=edge_key, edge_value=edge_value)
        return heads.movedim(-3, -2).flatten(-2)

    def _split(self, features: Tensor) -> Tensor:
        return features.unflatten(-1, (self.num_heads, -1)).movedim(-2, -3)
