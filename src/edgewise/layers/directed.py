"""Attention in which edges, not nodes, carry the state, and no message turns back; D-MPNN without its scores."""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.attend import aggregate, attend, attention_weights
from edgewise.backends import numba
from edgewise.backends.autograd import transform_at_work
from edgewise.backends.weigh import chosen_queries
from edgewise.errors import ShapeError
from edgewise.graph import Trace, Weights
from edgewise.layers.given import refuse_pair, require_nodes, weight_of
from edgewise.layers.heads import join_heads, require_choice, require_multiple, split_heads
from edgewise.layers.linear import Linear, products
from edgewise.layers.messages import features_of_edges
from edgewise.layers.scorer import Given
from edgewise.neighborhood import Edges, GivenNeighborhood, edges_of
from edgewise.neighborhood.checks import require_rate, require_sizes
from edgewise.normalize import Normalize, Sigmoid

EdgeScore = Literal["scaled_dot", "constant"]
LANES = 16
"""Features are padded to a multiple of it, which is a whole number of vectors on every processor."""


class EdgeAttention(nn.Module):
    """Each edge attends over the edges that arrive where it leaves, but for its reverse; nodes sum what reaches them.

        h_e = W [x_j; u_e]                                      of every edge e = (j → i)
        m_e = ReLU(h_e)
        m_e ← ReLU(h_e + Σ_{e' = (k → j), k ≠ i} α_ee' V m_e')     num_steps − 1 times, with the same matrices
        α_ee' = 2 σ( (Q m_e)·(K m_e') / √d )                       in each head, which sums its own part of V m
        y_i = ReLU(U [x_i; Σ_{e = (j → i)} m_e] + c)

    A sigmoid gates every message by itself, so that the sum still counts the neighbors; softmax would average them. Q
    begins at zero, where every gate is 1: the layer begins as the D-MPNN, which the score "constant" stays. k ≠ i
    leaves out the one edge that is the reverse of e, so that parallel edges still reach each other.

    Args:
        input_dim: size of the nodes before.
        edge_dim: size of the edge features u.
        output_dim: size of the messages, and of the nodes after.
        num_steps: how many edges away a node sees.
        num_heads: heads, with "scaled_dot".
        key_dim: d, the size of the queries and keys of a head.
        score: "scaled_dot" or "constant".
        normalize: from scores to weights, with "scaled_dot"; those of a sigmoid are doubled.
        dropout: of m after each step and of y, in training.

    Empty: an edge that follows none keeps its first state, a node with no neighbor gets ReLU(U [x_i; 0] + c).
    Cost: O(num_steps · edge · output_dim²), and O(output_dim) more for each pair of edges that follow each other, of
    which `edges.line_graph` holds a list; memory O(num_steps · edge · output_dim).
    Source: Yang et al. 2019 (D-MPNN, chemprop), eqs. 3 to 7, with the attention of Vaswani et al. 2017 over edges.
    """

    def __init__(
        self,
        input_dim: int,
        edge_dim: int,
        output_dim: int,
        num_steps: int = 3,
        num_heads: int = 8,
        *,
        key_dim: int = 8,
        score: EdgeScore = "scaled_dot",
        normalize: Normalize = Sigmoid(),
        dropout: float = 0.0,
    ):
        super().__init__()
        owner = self.owner = type(self).__name__
        require_sizes(owner, 0, input_dim=input_dim, edge_dim=edge_dim, key_dim=key_dim)
        require_sizes(owner, output_dim=output_dim, num_steps=num_steps)
        require_rate(owner, dropout=dropout)
        require_choice(owner, "score", score, ("scaled_dot", "constant"))
        require_multiple(owner, "output_dim", output_dim, num_heads)
        self.sizes, self.num_steps, self.num_heads = (input_dim, edge_dim), num_steps, num_heads
        self.attends, self.normalize = score == "scaled_dot", Given(normalize)
        self.gain = 2.0 if isinstance(normalize, Sigmoid) else 1.0

        self.start = Linear(input_dim, output_dim, bias=False)
        self.edge = Linear(edge_dim, output_dim, bias=False) if edge_dim else None
        self.step = Linear(output_dim, output_dim, bias=False)
        self.itself = Linear(input_dim, output_dim)
        self.arriving = Linear(output_dim, output_dim, bias=False)
        if self.attends:
            self.query, self.key = (Linear(output_dim, num_heads * key_dim, bias=False) for _ in range(2))
            nn.init.zeros_(self.query.weight)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        nodes: Float[Tensor, " *batch node input_dim"],
        edges: GivenNeighborhood,
        edge_features: Float[Tensor, " *edge_batch edge edge_dim"] | None = None,
        *,
        trace: Trace | None = None,
    ) -> Float[Tensor, " *out_batch node output_dim"]:
        """The nodes after all steps; a trace gets the weights of each: of k → j → i that by which i attends to k.

        Raises:
            UnsupportedError: the nodes are a pair (source, target), over which no message follows another.
        """
        refuse_pair(
            self.owner, nodes, "a message goes on along the edges that leave where it arrives, and no edge leaves a "
            "target; use NeighborConvolution, which takes pairs, or join both sets in one graph.",
        )  # fmt: skip
        require_nodes(self.owner, nodes, self.sizes[0], weight_of(self.start))
        edges = edges_of(self.owner, edges, nodes.shape[-2], nodes.shape[-2], nodes.device, edge_features)
        edge_features = features_of_edges(self.owner, edge_features, edges, self.sizes[1], nodes)
        start = self.start(nodes).index_select(-2, edges.senders)  # W x of each node, not of each edge
        if self.edge is not None:
            start = start + self.edge(edge_features)

        messages = torch.relu(start)
        for _ in range(self.num_steps - 1):
            if self.attends:
                messages = self.attended(start, messages, edges, trace)
            else:
                messages = onward(start, self.step(messages), edges)
            messages = self.dropout(messages)
        arrived = sum_of_edges(messages, edges)

        return self.dropout(torch.relu(self.itself(nodes) + self.arriving(arrived)))

    def attended(self, start: Tensor, messages: Tensor, edges: Edges, trace: Trace | None) -> Tensor:
        """The messages after a step of attention."""
        projected = products(messages, (self.query, self.key, self.step))
        query, key, value = (split_heads(part, self.num_heads) for part in projected)
        if trace is not None:
            trace.record(self._weights(query, key, edges, trace))
        arriving = join_heads(attend(query, key, value, edges.line_graph, normalize=self.normalize()))
        return torch.relu(torch.add(start, arriving, alpha=self.gain))

    def _weights(self, query: Tensor, key: Tensor, edges: Edges, trace: Trace) -> Weights:
        """The weights among edges as those among nodes: what k → j is to j → i, k is to i."""
        leads_to_query = None
        if trace.queries is not None:
            device = edges.receivers.device
            is_query = torch.zeros(edges.num_receivers, dtype=torch.bool, device=device)
            is_query[chosen_queries(trace.queries, edges.num_receivers, device)] = True
            leads_to_query = is_query[edges.receivers]
        weights = attention_weights(
            query, key, edges.line_graph, normalize=self.normalize(), top=trace.top, queries=leads_to_query
        )

        senders, receivers = edges.senders[weights.senders], edges.receivers[weights.receivers]
        return Weights(senders, receivers, self.gain * weights.values, edges.num_senders, edges.num_receivers)


class DirectedMessages(EdgeAttention):
    """D-MPNN: `EdgeAttention` with the constant score, which sums the messages unweighted.

    Args:
        input_dim, edge_dim, output_dim, num_steps, dropout: as in `EdgeAttention`.
    """

    def __init__(self, input_dim: int, edge_dim: int, output_dim: int, num_steps: int = 3, dropout: float = 0.0):
        super().__init__(input_dim, edge_dim, output_dim, num_steps, 1, score="constant", dropout=dropout)


def onward(
    start: Float[Tensor, " *batch edge feature"], sent: Float[Tensor, " *batch edge feature"], edges: Edges
) -> Float[Tensor, " *batch edge feature"]:
    """ReLU(start_e + Σ sent_e' over the edges e' that arrive where e leaves, but for the reverse of e).

    Raises:
        ShapeError: one is not a row for each edge, as wide as the other.
    """
    if start.shape[-2:] != sent.shape[-2:] or start.shape[-2] != edges.num_edges:
        raise ShapeError(
            f"onward: start and sent must be (*batch, {edges.num_edges}, feature), a row for each edge, not "
            f"{tuple(start.shape)} and {tuple(sent.shape)}."
        )

    is_plain = start.dim() == 2 and start.dtype == sent.dtype and start.dtype in (torch.float32, torch.float64)
    if is_plain and start.device.type == "cpu" and not transform_at_work() and not numba.import_error():
        from edgewise.backends.numba.onward import onward as fused

        width = start.shape[-1]
        if missing := -width % LANES:
            start, sent = F.pad(start, (0, missing)), F.pad(sent, (0, missing))
        next_messages: Tensor = fused(start.contiguous(), sent.contiguous(), edges.reverse, edges.plan.lists)
        return next_messages[:, :width] if missing else next_messages

    total = sum_of_edges(sent, edges).index_select(-2, edges.senders)
    back = sent.index_select(-2, edges.reverse.clamp(min=0))
    return torch.relu(start + total - torch.where((edges.reverse >= 0).unsqueeze(-1), back, 0.0))


def sum_of_edges(
    features: Float[Tensor, " *batch edge feature"], edges: Edges
) -> Float[Tensor, " *batch node feature"]:
    """The sum over the edges that each node receives."""
    zeros = features.new_zeros(*features.shape[:-2], edges.num_senders, features.shape[-1])
    return aggregate(zeros, edges, "sum", edge_value=features)
