"""From a graph with several kinds of nodes and edges to something of each of its nodes."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise.errors import ShapeError
from edgewise.layers.feature import FeatureDropout
from edgewise.layers.relation import KindLinear, RelationalAttention, RelationalConvolution
from edgewise.models.node_settings import NodeSettings, NodeSizes
from edgewise.neighborhood import Relations, Types
from edgewise.records import NodeBatch
from edgewise.trace import Trace


class RelationalConvolutionLayers(nn.Module):
    """A linear layer by kind of node, then relational convolutions: x ← layer(dropout(x)), each with its ReLU.

    Source: Schlichtkrull et al. 2018 (R-GCN), whose last layer gives the classes; ours is followed by a linear one.
    """

    def __init__(self, sizes: NodeSizes, settings: NodeSettings):
        super().__init__()
        model_dim = settings.model_dim
        self.dropout, self.input = FeatureDropout(settings.dropout), KindLinear(sizes.kind_features, model_dim)
        self.layers = nn.ModuleList(
            RelationalConvolution(model_dim, model_dim, sizes.num_relations, num_bases=settings.num_bases)
            for _ in range(settings.num_layers)
        )
        self.output = nn.Linear(model_dim, sizes.num_outputs)

    def forward(self, batch: NodeBatch, trace: Trace | None = None) -> tuple[Tensor, Tensor]:
        """The nodes after the last layer, and what is told of them."""
        kinds, relations = kinds_of(batch)
        nodes = torch.relu(self.input(self.dropout(batch.features), kinds))
        for layer in self.layers:
            nodes = layer(self.dropout(nodes), relations)
        return nodes, self.output(self.dropout(nodes))


class RelationalAttentionLayers(nn.Module):
    """A linear layer by kind of node, then relational attention: x ← x + dropout(layer(norm(x))).

    Source: Hu et al. 2020 (HGT), whose residual is plain; the normalization before each layer, shared by all kinds, is
    that of our other transformers. Their encoding of time is left out.
    """

    def __init__(self, sizes: NodeSizes, settings: NodeSettings):
        super().__init__()
        model_dim = settings.model_dim
        self.dropout, self.input = FeatureDropout(settings.dropout), KindLinear(sizes.kind_features, model_dim)
        self.layers = nn.ModuleList(
            RelationalAttention(
                model_dim,
                settings.num_heads,
                len(sizes.kind_features),
                sizes.num_relations,
                dropout=settings.attention_dropout,
            )
            for _ in range(settings.num_layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(model_dim) for _ in range(settings.num_layers))
        self.norm, self.output = nn.LayerNorm(model_dim), nn.Linear(model_dim, sizes.num_outputs)
        self.part = settings.dropout

    def forward(self, batch: NodeBatch, trace: Trace | None = None) -> tuple[Tensor, Tensor]:
        """The nodes after the last layer, and what is told of them."""
        kinds, relations = kinds_of(batch)
        nodes = self.input(self.dropout(batch.features), kinds)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            nodes = nodes + F.dropout(layer(norm(nodes), kinds, relations, trace), self.part, self.training)
        nodes = self.norm(nodes)
        return nodes, self.output(nodes)


def kinds_of(batch: NodeBatch) -> tuple[Types, Relations]:
    """The kinds of nodes and the relations of a batch; raises a ShapeError where it has none."""
    if batch.kinds is None or batch.relations is None:
        raise ShapeError(
            "the model looks at kinds of nodes and edges, but the batch has none: give kinds and relations."
        )
    return batch.kinds, batch.relations
