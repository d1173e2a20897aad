"""Networks that predict the edges of a graph."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.graph import Batch, Trace
from edgewise.layers.dropout import Dropout
from edgewise.layers.feature import FeatureLinear
from edgewise.layers.linear import Linear
from edgewise.learn.networks.graph_settings import NodeSettings, NodeSizes
from edgewise.learn.networks.node import NodeVectors


class EdgeModel(nn.Module):
    """Layers over a graph, and a network on the vectors of the two ends of an edge and its features.

        y_ij = f(z_i ‖ z_j ‖ e_ij)                              where edges are one way
        y_ij = ½ f(z_i ‖ z_j ‖ e_ij) + ½ f(z_j ‖ z_i ‖ e_ij)      else: the order of the ends changes nothing

    z = relu(layers(x) + W x) are the vectors of the nodes, where W x keeps their own features from being averaged away;
    e_ij are the features of the edge, f is a network with one hidden layer.

    Args:
        sizes: what the data looks like; `num_outputs` is the number of outputs for an edge.
        num_features: features of a predicted edge.
        settings: the layers; a vector has `model_dim` numbers.
        is_directed: whether edges are one way.

    Source: Kumar et al. 2016 for the problem (weights of signed edges); the ends side by side as in Battaglia et al.
    2018, whose edge update has the same inputs.
    """

    def __init__(self, sizes: NodeSizes, num_features: int, settings: NodeSettings, *, is_directed: bool = False):
        super().__init__()
        model_dim = settings.model_dim
        self.encoder = NodeVectors(replace(sizes, num_outputs=model_dim), settings)
        self.own = FeatureLinear(sizes.num_features, model_dim)
        self.hidden = Linear(2 * model_dim + num_features, model_dim)
        self.output = Linear(model_dim, sizes.num_outputs)
        self.dropout, self.is_directed = Dropout(settings.dropout), is_directed

    def forward(self, batch: Batch, trace: Trace | None = None) -> Float[Tensor, " row output"]:
        """The outputs for each predicted edge, in model units (or logits)."""
        return self.output(self.dropout(self.fingerprint(batch, trace)))

    def fingerprint(self, batch: Batch, trace: Trace | None = None) -> Float[Tensor, " row feature"]:
        """The learned vector of each predicted edge, before the last layer."""
        graph, rows = batch.graph, batch.supervision
        nodes = torch.relu(self.encoder(graph, trace) + self.own(graph.node_features))

        first, second = nodes[rows.senders], nodes[rows.receivers]
        features = () if rows.row_features is None else (rows.row_features,)
        vectors = torch.relu(self.hidden(torch.cat([first, second, *features], 1)))
        if self.is_directed:
            return vectors
        return (vectors + torch.relu(self.hidden(torch.cat([second, first, *features], 1)))) / 2
