"""Networks that predict the nodes of a graph."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.errors import ShapeError
from edgewise.graph import Batch, Graph, SparseFeatures, Trace
from edgewise.layers.attention import MultiHeadAttention
from edgewise.layers.block import ResidualBlock
from edgewise.layers.convolution import spread_evenly
from edgewise.layers.directed import EdgeAttention
from edgewise.layers.dropout import dropout
from edgewise.layers.feature import FeatureDropout, FeatureLinear
from edgewise.layers.graph_attention import HopAttention
from edgewise.layers.graph_position import GraphPosition
from edgewise.layers.linear import Linear
from edgewise.layers.relation import RelationalAttention, RelationalConvolution, TypedLinear
from edgewise.learn.networks.chunks import by_receivers
from edgewise.learn.networks.graph_settings import NodeSettings, NodeSizes
from edgewise.learn.networks.layerwise import GraphLayers, LayerStep, layer_by_layer
from edgewise.neighborhood import Types
from edgewise.normalize import normalizer_of


class NodeModel(nn.Module):
    """Layers over the edges of a graph, and their outputs at the nodes of the rows."""

    def __init__(self, sizes: NodeSizes, settings: NodeSettings):
        super().__init__()
        self.layers: GraphLayers = layers_of(sizes, settings)

    def forward(self, batch: Batch, trace: Trace | None = None) -> Float[Tensor, " row output"]:
        """The outputs for each row, in model units (or logits)."""
        nodes = batch.supervision.nodes
        assert nodes is not None
        if batch.graph.stored is not None:
            return layer_by_layer(self.layers, batch.graph.stored, nodes)
        outputs: Tensor = self.layers(batch.graph, trace)[1]
        return outputs[nodes]

    def fingerprint(self, batch: Batch, trace: Trace | None = None) -> Float[Tensor, " row feature"]:
        """The learned vector of each row, before the last layer."""
        nodes = batch.supervision.nodes
        assert nodes is not None
        if batch.graph.stored is not None:
            return layer_by_layer(self.layers, batch.graph.stored, nodes, returns_vectors=True)
        vectors: Tensor = self.layers(batch.graph, trace)[0]
        return vectors[nodes]


class NodeVectors(nn.Module):
    """Layers over the edges of a graph, and a vector of size `num_outputs` for each node, such as a model of links
    reads."""

    def __init__(self, sizes: NodeSizes, settings: NodeSettings):
        super().__init__()
        self.layers = layers_of(sizes, settings)

    def forward(self, graph: Graph, trace: Trace | None = None) -> Float[Tensor, " node output"]:
        """The vector of each node."""
        outputs: Tensor = self.layers(graph, trace)[1]
        return outputs


class PaperLayers(GraphLayers):
    """A sequence of layers, as in their papers: x ← σ(layer(dropout(x))), the last without σ.

    A layer that adds features of edges to those of their senders reads nodes of size model_dim: x ← W x comes first.
    Convolutions read one edge feature as the weight of the edge.

    Source: the papers that `LAYERS` names.
    """

    def __init__(self, sizes: NodeSizes, settings: NodeSettings):
        super().__init__()
        spec, last = settings.spec, settings.num_layers - 1
        self.reads_weights = spec.reads_edge_weights and sizes.num_edge_features == 1
        edge_dim, adds = sizes.num_edge_features if spec.has_edge_features else 0, spec.adds_edge_features
        self.input = FeatureLinear(sizes.num_features, settings.model_dim) if edge_dim and adds else None
        first = sizes.num_features if self.input is None else settings.model_dim
        dims = [first, *[settings.model_dim] * last, sizes.num_outputs]
        assert spec.build is not None
        self.layers = nn.ModuleList(
            spec.build(dims[number], dims[number + 1], settings, edge_dim, number == last) for number in range(last + 1)
        )
        self.attends, self.reads_edges, self.reads_degrees = spec.attends, edge_dim > 0, spec.reads_sender_degrees
        self.activation = F.elu if spec.attends else torch.relu
        self.dropout = FeatureDropout(settings.dropout)

    @property
    def num_read(self) -> int:  # type: ignore[override]
        """The last layer, and the one before it."""
        return min(2, len(self.layers))

    def steps(self) -> Sequence[LayerStep]:
        """A step for each layer, with what comes before and after it."""
        return [LayerStep(partial(self._step, number)) for number in range(len(self.layers))]

    def outputs(self, step_outputs: Sequence[Tensor], trace: Trace | None = None) -> tuple[Tensor, Tensor]:
        """The nodes before the last layer (after it, where it is the only one), and its output."""
        return step_outputs[0], step_outputs[-1]

    def _step(self, number: int, nodes: Tensor | SparseFeatures, graph: Graph, trace: Trace | None) -> Tensor:
        nodes = self.dropout(nodes)
        if number == 0 and self.input is not None:
            nodes = self.input(nodes)
        nodes = self._layer(number, nodes, graph, trace)
        return nodes if number == len(self.layers) - 1 else self.activation(nodes)

    def _layer(self, number: int, nodes: Tensor | SparseFeatures, graph: Graph, trace: Trace | None) -> Tensor:
        """The nodes after one layer."""
        layer = partial(self._along, self.layers[number], trace)
        return by_receivers(layer, nodes, graph, trace) if self.reads_edges else layer(nodes, graph)

    def _along(self, layer: nn.Module, trace: Trace | None, nodes: Tensor | SparseFeatures, graph: Graph) -> Tensor:
        options: dict[str, Trace | Tensor | None] = {"trace": trace} if self.attends else {}
        if self.reads_edges:
            assert not isinstance(graph.edge_features, tuple)
            options["edge_features"] = graph.edge_features
        if self.reads_weights:
            assert isinstance(graph.edge_features, Tensor)
            options["edge_weight"] = graph.edge_features[:, 0]
        if self.reads_degrees and graph.full_degrees is not None:
            options["degrees"] = graph.full_degrees
        outputs: Tensor = layer(nodes, graph.edges, **options)
        return outputs


class AttentionLayers(GraphLayers):
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
        self.norm, self.output = nn.LayerNorm(model_dim), Linear(model_dim, sizes.num_outputs)
        counts = settings.laplacian_positions, settings.random_walk_positions
        self.position = GraphPosition(model_dim, *counts) if sum(counts) else None
        num_virtual = settings.num_virtual_nodes
        self.virtual = nn.Parameter(torch.randn(num_virtual, model_dim)) if num_virtual else None

    def steps(self) -> Sequence[LayerStep]:
        """The input layer, then a step for each block."""
        return [
            LayerStep(self._begin, reads_edges=False),
            *(LayerStep(partial(self._step, block)) for block in self.blocks),
        ]

    def outputs(self, step_outputs: Sequence[Tensor], trace: Trace | None = None) -> tuple[Tensor, Tensor]:
        """The nodes after the last block, and the outputs."""
        nodes = step_outputs[-1] if self.virtual is None else step_outputs[-1][: -len(self.virtual)]
        nodes = self.norm(nodes)
        return nodes, self.output(nodes)

    def _begin(self, features: Tensor | SparseFeatures, graph: Graph, trace: Trace | None) -> Tensor:
        nodes: Tensor = self.input(self.dropout(features))
        if self.position is not None:
            assert graph.position_encodings is not None
            nodes = self.position(nodes, graph.position_encodings)
        return nodes if self.virtual is None else torch.cat([nodes, self.virtual.to(nodes.dtype)])

    def _step(self, block: nn.Module, nodes: Tensor, graph: Graph, trace: Trace | None) -> Tensor:
        layer = partial(_block, block, trace)
        return by_receivers(layer, nodes, graph, trace) if graph.edge_features is not None else layer(nodes, graph)


class HopLayers(GraphLayers):
    """A network on the features of each node, then propagation over the graph; each node attends to its distances.

    Source: Liu, Gao & Ji 2020 (DAGNN).
    """

    def __init__(self, sizes: NodeSizes, settings: NodeSettings):
        super().__init__()
        self.dropout, self.input = (
            FeatureDropout(settings.dropout),
            FeatureLinear(sizes.num_features, settings.model_dim),
        )
        self.output = Linear(settings.model_dim, sizes.num_outputs)
        normalize = normalizer_of(settings.normalize or "sigmoid")
        self.hops = HopAttention(sizes.num_outputs, settings.num_hops, normalize=normalize)

    num_read = 0

    def steps(self) -> Sequence[LayerStep]:
        """The hidden layer, the output layer, then a step for each distance."""
        first_steps = [LayerStep(self._hidden, reads_edges=False), LayerStep(self._begin, reads_edges=False)]
        return [*first_steps, *(LayerStep(_spread) for _ in range(self.hops.num_hops))]

    def outputs(self, step_outputs: Sequence[Tensor], trace: Trace | None = None) -> tuple[Tensor, Tensor]:
        """The nodes before propagation, and the outputs after it."""
        return step_outputs[0], self.hops.over_distances(step_outputs[1:], trace)

    def _hidden(self, features: Tensor | SparseFeatures, graph: Graph, trace: Trace | None) -> Tensor:
        return torch.relu(self.input(self.dropout(features)))

    def _begin(self, nodes: Tensor, graph: Graph, trace: Trace | None) -> Tensor:
        outputs: Tensor = self.output(self.dropout(nodes))
        return outputs


class EdgeLayers(GraphLayers):
    """A linear layer, edge attention with as many steps as there are layers, and an output layer: y = W EdgeAttention.

    Source: Yang et al. 2019 (D-MPNN), whose messages attend here; see `EdgeAttention`.
    """

    def __init__(self, sizes: NodeSizes, settings: NodeSettings):
        super().__init__()
        model_dim = settings.model_dim
        self.dropout, self.input = FeatureDropout(settings.dropout), FeatureLinear(sizes.num_features, model_dim)
        self.attention = EdgeAttention(
            model_dim,
            sizes.num_edge_features,
            model_dim,
            settings.num_layers,
            settings.num_heads,
            normalize=normalizer_of(settings.normalize or "sigmoid"),
            dropout=settings.dropout,
        )
        self.output = Linear(model_dim, sizes.num_outputs)

    def steps(self) -> Sequence[LayerStep]:
        """The linear layer, then all steps of attention, which reach several edges far."""
        return [LayerStep(self._begin, reads_edges=False), LayerStep(self._step)]

    def outputs(self, step_outputs: Sequence[Tensor], trace: Trace | None = None) -> tuple[Tensor, Tensor]:
        """The nodes after the attention, and the outputs."""
        return step_outputs[-1], self.output(step_outputs[-1])

    def _begin(self, features: Tensor | SparseFeatures, graph: Graph, trace: Trace | None) -> Tensor:
        return torch.relu(self.input(self.dropout(features)))

    def _step(self, nodes: Tensor, graph: Graph, trace: Trace | None) -> Tensor:
        return self.attention(nodes, graph.edges, graph.edge_features, trace=trace)


def layers_of(sizes: NodeSizes, settings: NodeSettings) -> GraphLayers:
    """The layers that the settings name: they map a graph to its nodes before the output layer, and the output."""
    layers_of_model: dict[str, Callable[[NodeSizes, NodeSettings], GraphLayers]] = {
        "hop_attention": HopLayers,
        "attention": AttentionLayers,
        "edge_attention": EdgeLayers,
        "rgcn": RelationalConvolutionLayers,
        "hgt": RelationalAttentionLayers,
    }
    return layers_of_model.get(settings.model, PaperLayers)(sizes, settings)


class RelationalConvolutionLayers(GraphLayers):
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
        self.output = Linear(model_dim, sizes.num_outputs)

    def steps(self) -> Sequence[LayerStep]:
        """The input layer, then a step for each layer."""
        return [
            LayerStep(self._begin, reads_edges=False),
            *(LayerStep(partial(self._step, layer)) for layer in self.layers),
        ]

    def outputs(self, step_outputs: Sequence[Tensor], trace: Trace | None = None) -> tuple[Tensor, Tensor]:
        """The nodes after the last layer, and the outputs."""
        return step_outputs[-1], self.output(self.dropout(step_outputs[-1]))

    def _begin(self, features: Tensor | SparseFeatures, graph: Graph, trace: Trace | None) -> Tensor:
        return torch.relu(self.input(self.dropout(features), types_of(graph)))

    def _step(self, layer: nn.Module, nodes: Tensor, graph: Graph, trace: Trace | None) -> Tensor:
        return by_receivers(partial(_convolved, layer), self.dropout(nodes), graph)


class RelationalAttentionLayers(GraphLayers):
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
        self.norm, self.output = nn.LayerNorm(model_dim), Linear(model_dim, sizes.num_outputs)
        self.part = settings.dropout

    def steps(self) -> Sequence[LayerStep]:
        """The input layer, then a step for each layer."""
        layers = zip(self.layers, self.norms, strict=True)
        return [
            LayerStep(self._begin, reads_edges=False),
            *(LayerStep(partial(self._step, *norm_and_layer)) for norm_and_layer in layers),
        ]

    def outputs(self, step_outputs: Sequence[Tensor], trace: Trace | None = None) -> tuple[Tensor, Tensor]:
        """The nodes after the last layer, and the outputs."""
        nodes = self.norm(step_outputs[-1])
        return nodes, self.output(nodes)

    def _begin(self, features: Tensor | SparseFeatures, graph: Graph, trace: Trace | None) -> Tensor:
        vectors: Tensor = self.input(self.dropout(features), types_of(graph))
        return vectors

    def _step(self, layer: nn.Module, norm: nn.Module, nodes: Tensor, graph: Graph, trace: Trace | None) -> Tensor:
        attended = by_receivers(partial(_attended, layer, trace), norm(nodes), graph, trace)
        return nodes + dropout(attended, self.part, self.training)


def _block(block: nn.Module, trace: Trace | None, nodes: Tensor, graph: Graph) -> Tensor:
    outputs: Tensor = block(nodes, graph.edges, edge_features=graph.edge_features, trace=trace)
    return outputs


def _spread(nodes: Tensor, graph: Graph, trace: Trace | None) -> Tensor:
    return spread_evenly(nodes, graph.edges, degrees=graph.full_degrees)


def _convolved(layer: nn.Module, nodes: Tensor, graph: Graph) -> Tensor:
    outputs: Tensor = layer(nodes, graph.relations)
    return outputs


def _attended(layer: nn.Module, trace: Trace | None, nodes: Tensor, graph: Graph) -> Tensor:
    outputs: Tensor = layer(nodes, graph.node_types, graph.relations, trace=trace)
    return outputs


def types_of(graph: Graph) -> Types:
    """The types of the nodes of a graph; raises a ShapeError where nodes or edges have none."""
    if graph.node_types is None or graph.edge_types is None:
        raise ShapeError(
            "the model needs types of nodes and edges, but the graph has none: give node_types, edge_types."
        )
    return graph.node_types
