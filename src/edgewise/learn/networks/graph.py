"""Networks that predict whole graphs."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.graph import Batch, Trace
from edgewise.layers.attention import MultiHeadAttention
from edgewise.layers.block import ResidualBlock
from edgewise.layers.linear import Linear
from edgewise.layers.readout import AggregationName, Readout
from edgewise.learn.networks.graph_settings import GraphReadoutName, GraphSettings, GraphSizes, NodeSettings, NodeSizes
from edgewise.learn.networks.head import ConditionedHead
from edgewise.learn.networks.node import layers_of


class GraphModel(nn.Module):
    """Layers over the edges, one vector of all nodes of a graph, and the outputs for its targets.

        x_i = layers(graph)_i        h_g = ⊕_{i in g} norm(x_i)        y_g = head(h_g | conditions of g)

    Args:
        sizes: what the data looks like.
        layers: the layers over the edges, those of models of nodes.
        settings: ⊕ and the head.
    """

    def __init__(self, sizes: GraphSizes, layers: NodeSettings, settings: GraphSettings):
        super().__init__()
        model_dim = layers.model_dim
        self.layers = layers_of(
            NodeSizes(sizes.num_features, sizes.num_edge_features, model_dim),
            layers,
        )
        self.norm = nn.LayerNorm(model_dim)
        self.readout = readout_of(settings.readout, model_dim, layers.num_heads, sizes.typical_nodes)
        self.head = ConditionedHead(
            model_dim,
            sizes.num_conditions,
            sizes.num_outputs,
            head_dim=settings.head_dim,
            num_layers=settings.num_head_layers,
            num_variants=settings.num_variants,
            dropout=settings.head_dropout,
        )

    def forward(self, batch: Batch, trace: Trace | None = None) -> Float[Tensor, " graph variant output"]:
        """The outputs of every variant of the head of each graph, in model units (or logits); their mean predicts."""
        return self.head(self.fingerprint(batch, trace), batch.graph.graph_features)

    def fingerprint(self, batch: Batch, trace: Trace | None = None) -> Float[Tensor, " graph model_dim"]:
        """The learned vector of each graph, before its own numbers."""
        nodes = self.norm(self.layers(batch.graph, trace)[1])
        return self.readout(nodes, batch, trace)


class PlainReadout(nn.Module):
    """⊕ by attention, mean, sum or max."""

    def __init__(self, aggregation: AggregationName, model_dim: int, num_heads: int, typical_nodes: float):
        super().__init__()
        self.scale = 1 / typical_nodes if aggregation == "sum" else 1.0
        self.all = Readout(model_dim, aggregation, num_heads)

    def forward(
        self, nodes: Float[Tensor, " node model_dim"], batch: Batch, trace: Trace | None = None
    ) -> Float[Tensor, " graph model_dim"]:
        """The vector of each graph."""
        return self.scale * self.all(nodes, batch.graph.members, trace=trace)


class WholeReadout(nn.Module):
    """⊕ by attention and by sum, side by side: what matters most, and how much there is of everything."""

    def __init__(self, model_dim: int, num_heads: int, typical_nodes: float):
        super().__init__()
        self.scale = 1 / typical_nodes
        self.attention, self.sum = Readout(model_dim, "attention", num_heads), Readout(model_dim, "sum")
        self.join = Linear(2 * model_dim, model_dim)

    def forward(
        self, nodes: Float[Tensor, " node model_dim"], batch: Batch, trace: Trace | None = None
    ) -> Float[Tensor, " graph model_dim"]:
        """The vector of each graph."""
        members = batch.graph.members
        amounts = self.scale * self.sum(nodes, members)
        return self.join(torch.cat([self.attention(nodes, members, trace=trace), amounts], -1))


class RootReadout(nn.Module):
    """The root of each tree, which attends to all nodes of it: layers carry k edges far, and a tree may be deeper.

    h_g = x_r + Σ_{i in g} softmax_i(q_r·k_i/√d) v_i, and a feed-forward network after it
    """

    def __init__(self, model_dim: int, num_heads: int):
        super().__init__()
        self.block = ResidualBlock(MultiHeadAttention(model_dim, num_heads), model_dim, 2 * model_dim)

    def forward(
        self, nodes: Float[Tensor, " node model_dim"], batch: Batch, trace: Trace | None = None
    ) -> Float[Tensor, " graph model_dim"]:
        """The vector of each graph."""
        return self.block(nodes[batch.supervision.nodes], batch.graph.members, source=nodes, trace=trace)


def readout_of(name: GraphReadoutName, model_dim: int, num_heads: int, typical_nodes: float) -> nn.Module:
    """The readout of that name."""
    match name:
        case "root":
            return RootReadout(model_dim, num_heads)
        case "attention_sum":
            return WholeReadout(model_dim, num_heads, typical_nodes)
        case how:
            return PlainReadout(how, model_dim, num_heads, typical_nodes)
