"""From a graph to something of each of its nodes."""

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.errors import ShapeError
from edgewise.layers.attention import MultiHeadAttention
from edgewise.layers.block import ResidualBlock
from edgewise.layers.dropout import dropout
from edgewise.layers.feature import FeatureDropout, FeatureLinear
from edgewise.layers.graph_attention import HopAttention
from edgewise.layers.graph_position import GraphPosition
from edgewise.layers.relation import RelationalAttention, RelationalConvolution, TypedLinear
from edgewise.models.chunks import by_receivers
from edgewise.models.graph_settings import NodeSettings, NodeSizes
from edgewise.neighborhood import Relations, Types
from edgewise.normalize import normalizer_of
from edgewise.records import NodeBatch, SparseFeatures
from edgewise.trace import Trace


class NodeModel(nn.Module):
    """Layers over the edges of a graph, and their outputs at the nodes of the rows."""

    def __init__(self, sizes: NodeSizes, settings: NodeSettings):
        super().__init__()
        self.layers = layers_of(sizes, settings)

    def forward(self, batch: NodeBatch, trace: Trace | None = None) -> Float[Tensor, " row output"]:
        """The outputs for each row, in model units (or logits)."""
        return self.layers(batch, trace)[1][batch.rows]

    def fingerprint(self, batch: NodeBatch, trace: Trace | None = None) -> Float[Tensor, " row feature"]:
        """The learned vector of each row, before the last layer."""
        return self.layers(batch, trace)[0][batch.rows]


class NodeEncoder(nn.Module):
    """Layers over the edges of a graph, and a vector of size `num_outputs` for each node, such as a model of links
    reads."""

    def __init__(self, sizes: NodeSizes, settings: NodeSettings):
        super().__init__()
        self.layers = layers_of(sizes, settings)

    def forward(self, batch: NodeBatch, trace: Trace | None = None) -> Float[Tensor, " node output"]:
        """The vector of each node."""
        return self.layers(batch, trace)[1]


class PaperLayers(nn.Module):
    """Layers one behind the other as their papers have them: x ← σ(layer(dropout(x))), the last without σ.

    A layer that adds features of edges to those of their senders reads nodes of size model_dim: x ← W x comes first.
    Convolutions read one edge feature as the weight of the edge.

    Source: the papers that `LAYERS` names.
    """

    def __init__(self, sizes: NodeSizes, settings: NodeSettings):
        super().__init__()
        spec, last = settings.spec, settings.num_layers - 1
        reads_edges = spec.has_edge_features and (sizes.reads_edges or not spec.attends)
        self.reads_weights = spec.reads_edge_weights and sizes.reads_edges and sizes.num_edge_features == 1
        edge_dim, adds = sizes.num_edge_features if reads_edges else 0, spec.adds_edge_features
        self.input = FeatureLinear(sizes.num_features, settings.model_dim) if edge_dim and adds else None
        first = sizes.num_features if self.input is None else settings.model_dim
        dims = [first, *[settings.model_dim] * last, sizes.num_outputs]
        assert spec.build is not None
        self.layers = nn.ModuleList(
            spec.build(dims[place], dims[place + 1], settings, edge_dim, place == last) for place in range(last + 1)
        )
        self.attends, self.reads_edges = spec.attends, edge_dim > 0
        self.activation = F.elu if spec.attends else torch.relu
        self.dropout = FeatureDropout(settings.dropout)

    def forward(self, batch: NodeBatch, trace: Trace | None = None) -> tuple[Tensor, Tensor]:
        """The nodes before the last layer (after it, where it is the only one), and its output."""
        nodes, hidden = self.dropout(batch.features), None
        if self.input is not None:
            nodes = self.input(nodes)
        nodes = self._layer(0, nodes, batch, trace)
        for place in range(1, len(self.layers)):
            hidden = self.activation(nodes)
            nodes = self._layer(place, self.dropout(hidden), batch, trace)
        return nodes if hidden is None else hidden, nodes

    def _layer(self, place: int, nodes: Tensor | SparseFeatures, batch: NodeBatch, trace: Trace | None) -> Tensor:
        """The nodes after one layer."""
        layer = partial(self._along, self.layers[place], trace)
        return by_receivers(layer, nodes, batch, trace) if self.reads_edges else layer(nodes, batch)

    def _along(self, layer: nn.Module, trace: Trace | None, nodes: Tensor | SparseFeatures, batch: NodeBatch) -> Tensor:
        given: dict[str, Any] = {"trace": trace} if self.attends else {}
        if self.reads_edges:
            given["edge"] = batch.edge_features
        if self.reads_weights:
            given["edge_weight"] = batch.edge_features[:, 0]
        found: Tensor = layer(nodes, batch.edges, **given)
        return found


class AttentionLayers(nn.Module):
    """Residual blocks of multi-head attention, as in a transformer, over the neighbors and the node itself.

    Edge features go into keys, values and scores; see `MultiHeadAttention`. Where the graph is extended, which kind an
    edge is of is one of them, virtual nodes start as learned vectors, and positions are added to the nodes.

    Source: Shirzad et al. 2023 (Exphormer) for the extended graph. Theirs multiplies keys by a vector of the edge,
    where ours adds one to keys and values and a number to scores, layer by layer; the message-passing layer that may
    run beside each attention there is left out.
    """

    def __init__(self, sizes: NodeSizes, settings: NodeSettings):
        super().__init__()
        model_dim = settings.model_dim
        self.dropout, self.input = FeatureDropout(settings.dropout), FeatureLinear(sizes.num_features, model_dim)
        self.blocks = nn.ModuleList(
            ResidualBlock(
                MultiHeadAttention(
                    model_dim,
                    settings.num_heads,
                    edge_dim=sizes.num_edge_features or None,
                    score=settings.score,
                    normalize=normalizer_of(settings.normalize or "softmax"),
                    dropout=settings.attention_dropout,
                ),
                model_dim,
                2 * model_dim,
                dropout=settings.dropout,
            )
            for _ in range(settings.num_layers)
        )
        self.norm, self.output = nn.LayerNorm(model_dim), nn.Linear(model_dim, sizes.num_outputs)
        counts = settings.laplacian_positions, settings.random_walk_positions
        self.position = GraphPosition(model_dim, *counts) if sum(counts) else None
        num_virtual = settings.num_virtual_nodes
        self.virtual = nn.Parameter(torch.randn(num_virtual, model_dim)) if num_virtual else None

    def forward(self, batch: NodeBatch, trace: Trace | None = None) -> tuple[Tensor, Tensor]:
        """The nodes after the last block, and the outputs."""
        nodes = self.input(self.dropout(batch.features))
        if self.position is not None:
            assert batch.positions is not None
            nodes = self.position(nodes, batch.positions)
        num_nodes = nodes.shape[0]
        if self.virtual is not None:
            nodes = torch.cat([nodes, self.virtual.to(nodes.dtype)])
        for block in self.blocks:
            layer = partial(_block, block, trace)
            nodes = by_receivers(layer, nodes, batch, trace) if batch.edge_features.shape[1] else layer(nodes, batch)
        nodes = self.norm(nodes[:num_nodes])
        return nodes, self.output(nodes)


class HopLayers(nn.Module):
    """A network on each node's own features, spread over the graph; each node attends to its distances.

    Source: Liu, Gao & Ji 2020 (DAGNN).
    """

    def __init__(self, sizes: NodeSizes, settings: NodeSettings):
        super().__init__()
        self.dropout, self.input = (
            FeatureDropout(settings.dropout),
            FeatureLinear(sizes.num_features, settings.model_dim),
        )
        self.output = nn.Linear(settings.model_dim, sizes.num_outputs)
        normalize = normalizer_of(settings.normalize or "sigmoid")
        self.hops = HopAttention(sizes.num_outputs, settings.num_hops, normalize=normalize)

    def forward(self, batch: NodeBatch, trace: Trace | None = None) -> tuple[Tensor, Tensor]:
        """The nodes before the spreading, and the outputs after it."""
        hidden = torch.relu(self.input(self.dropout(batch.features)))
        return hidden, self.hops(self.output(self.dropout(hidden)), batch.edges, trace)


def layers_of(sizes: NodeSizes, settings: NodeSettings) -> nn.Module:
    """The layers that the settings name: from a batch to its nodes before the output layer, and the output."""
    own = {
        "hop_attention": HopLayers,
        "attention": AttentionLayers,
        "rgcn": RelationalConvolutionLayers,
        "hgt": RelationalAttentionLayers,
    }
    return own.get(settings.model, PaperLayers)(sizes, settings)


class RelationalConvolutionLayers(nn.Module):
    """A linear layer by kind of node, then relational convolutions: x ← layer(dropout(x)), each with its ReLU.

    Source: Schlichtkrull et al. 2018 (R-GCN), whose last layer gives the classes; ours is followed by a linear one.
    """

    def __init__(self, sizes: NodeSizes, settings: NodeSettings):
        super().__init__()
        model_dim = settings.model_dim
        self.dropout, self.input = FeatureDropout(settings.dropout), TypedLinear(sizes.type_features, model_dim)
        self.layers = nn.ModuleList(
            RelationalConvolution(model_dim, model_dim, sizes.num_relations, num_bases=settings.num_bases)
            for _ in range(settings.num_layers)
        )
        self.output = nn.Linear(model_dim, sizes.num_outputs)

    def forward(self, batch: NodeBatch, trace: Trace | None = None) -> tuple[Tensor, Tensor]:
        """The nodes after the last layer, and the outputs."""
        types, _ = types_of(batch)
        nodes = torch.relu(self.input(self.dropout(batch.features), types))
        for layer in self.layers:
            nodes = by_receivers(partial(_convolved, layer), self.dropout(nodes), batch)
        return nodes, self.output(self.dropout(nodes))


class RelationalAttentionLayers(nn.Module):
    """A linear layer by kind of node, then relational attention: x ← x + dropout(layer(norm(x))).

    Source: Hu et al. 2020 (HGT), whose residual is plain; the normalization before each layer, shared by all kinds, is
    that of our other transformers. Their encoding of time is left out.
    """

    def __init__(self, sizes: NodeSizes, settings: NodeSettings):
        super().__init__()
        model_dim = settings.model_dim
        self.dropout, self.input = FeatureDropout(settings.dropout), TypedLinear(sizes.type_features, model_dim)
        self.layers = nn.ModuleList(
            RelationalAttention(
                model_dim,
                settings.num_heads,
                len(sizes.type_features),
                sizes.num_relations,
                dropout=settings.attention_dropout,
            )
            for _ in range(settings.num_layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(model_dim) for _ in range(settings.num_layers))
        self.norm, self.output = nn.LayerNorm(model_dim), nn.Linear(model_dim, sizes.num_outputs)
        self.part = settings.dropout

    def forward(self, batch: NodeBatch, trace: Trace | None = None) -> tuple[Tensor, Tensor]:
        """The nodes after the last layer, and the outputs."""
        types, _ = types_of(batch)
        nodes = self.input(self.dropout(batch.features), types)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            attended = by_receivers(partial(_attended, layer, trace), norm(nodes), batch, trace)
            nodes = nodes + dropout(attended, self.part, self.training)
        nodes = self.norm(nodes)
        return nodes, self.output(nodes)


def _block(block: nn.Module, trace: Trace | None, nodes: Any, batch: NodeBatch) -> Tensor:
    edge = batch.edge_features if batch.edge_features.shape[1] else None
    found: Tensor = block(nodes, batch.edges, edge=edge, trace=trace)
    return found


def _convolved(layer: nn.Module, nodes: Any, batch: NodeBatch) -> Tensor:
    found: Tensor = layer(nodes, batch.relations)
    return found


def _attended(layer: nn.Module, trace: Trace | None, nodes: Any, batch: NodeBatch) -> Tensor:
    found: Tensor = layer(nodes, batch.types, batch.relations, trace)
    return found


def types_of(batch: NodeBatch) -> tuple[Types, Relations]:
    """The types of nodes and the relations of a batch; raises a ShapeError where it has none."""
    if batch.types is None or batch.relations is None:
        raise ShapeError("the model needs types of nodes and edges, but the batch has none: give types and relations.")
    return batch.types, batch.relations
