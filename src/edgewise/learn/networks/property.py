"""The network for properties of molecules: encode each distinct molecule, modulate it by conditions, predict."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.attend import aggregate
from edgewise.graph import Batch, Graph, Trace, Weights
from edgewise.layers.attention import MultiHeadAttention
from edgewise.layers.block import ResidualBlock
from edgewise.layers.directed import EdgeAttention
from edgewise.layers.dropout import Dropout
from edgewise.layers.linear import Linear
from edgewise.layers.readout import Readout
from edgewise.learn.networks.graph_settings import PropertySettings, PropertySizes
from edgewise.learn.networks.head import ConditionedHead, describer
from edgewise.learn.networks.molecule_transformer import MoleculeTransformer
from edgewise.neighborhood import EdgeRows, Edges
from edgewise.normalize import normalizer_of

__all__ = ["PropertyModel", "PropertySettings", "PropertySizes"]


class PropertyModel(nn.Module):
    """Attention gives each molecule a vector; conditions modulate it; a small network predicts.

    m_g = encode(graph g)        h = W [m_cation, m_anion, …]        y = predict(h | conditions)
    """

    def __init__(self, sizes: PropertySizes, settings: PropertySettings):
        super().__init__()
        encoder_class = MoleculeTransformer if settings.needs_coordinates else GraphEncoder
        self.encoder = encoder_class(sizes, settings)
        self.head = ConditionedHead(
            self.encoder.output_dim * sizes.num_components,
            sizes.num_conditions,
            sizes.num_outputs,
            head_dim=settings.numbers.head_dim,
            num_layers=settings.num_head_layers,
            num_variants=settings.num_variants,
            dropout=settings.numbers.head_dropout,
            bounds=None if sizes.low is None or sizes.high is None else (sizes.low, sizes.high),
        )

    def forward(self, batch: Batch, trace: Trace | None = None) -> Float[Tensor, " row variant output"]:
        """The outputs of every variant of the head of each row, in model units (or logits); their mean predicts."""
        return self.head(self.fingerprint(batch, trace), batch.supervision.row_features)

    def fingerprint(self, batch: Batch, trace: Trace | None = None) -> Float[Tensor, " row feature"]:
        """The learned vector of each row: those of its molecules, concatenated, before any condition."""
        # As rows of a table: the gradient of an index would be sorted, in a dozen steps on a device.
        graph_of_row = batch.supervision.graph_of_row
        assert graph_of_row is not None
        return F.embedding(graph_of_row, self.encoder(batch.graph, trace)).flatten(1)


class GraphEncoder(nn.Module):
    """One vector per graph: layers over its edges, read out by attention and by sum, joined with its global features.

    The sum keeps how much there is of everything (extensive), attention what matters most (intensive). Messages that
    edges carry have counted already, and are read out by their mean, as in chemprop.
    """

    def __init__(self, sizes: PropertySizes, settings: PropertySettings):
        super().__init__()
        model_dim = settings.numbers.model_dim
        self.typical_nodes = sizes.typical_nodes
        self.input: nn.Module

        if settings.spec.over_edges:
            width, edge_dim = sizes.num_node_features, sizes.num_edge_features
            through = EdgeAttention(
                width,
                edge_dim,
                model_dim,
                settings.num_layers,
                settings.num_heads,
                score="scaled_dot" if settings.spec.attends else "constant",
                dropout=settings.numbers.encoder_dropout,
            )
            self.input, self.layers = nn.Identity(), nn.ModuleList([through])
        else:
            self.input = Linear(sizes.num_node_features, model_dim)
            self.layers = nn.ModuleList(_layer(settings, sizes.num_edge_features) for _ in range(settings.num_layers))

        self.norm = nn.LayerNorm(model_dim)
        self.settings = settings
        if not settings.spec.over_edges:
            self.attention = Readout(model_dim, "attention", settings.num_heads)
            self.sum = Readout(model_dim, "sum")
            self.join = Linear(2 * model_dim, model_dim)

        self.dropout = Dropout(settings.numbers.molecule_dropout)
        self.describe = describer(sizes, settings)
        self.output_dim = model_dim if self.describe is None else 2 * model_dim

    def forward(self, graph: Graph, trace: Trace | None = None) -> Float[Tensor, " graph output_dim"]:
        """The vector of each graph of a batch."""
        nodes = self.input(graph.node_features)
        if self.settings.spec.score is None:
            for layer in self.layers:
                options = {"trace": trace} if self.settings.spec.attends else {}
                nodes = layer(nodes, graph.edges, graph.edge_features, **options)
        else:
            edges, (edge_features, edge_rows) = graph.looped, _looped_features(graph)
            for layer in self.layers:
                nodes = layer(nodes, edges, edge_features=edge_features, edge_rows=edge_rows, trace=trace)
        graphs = self.dropout(self.readout(self.norm(nodes), graph.members, trace))
        if self.describe is None:
            return graphs
        return torch.cat([graphs, self.describe(graph.graph_features)], -1)

    def readout(self, nodes: Tensor, members: Edges, trace: Trace | None) -> Float[Tensor, " graph model_dim"]:
        """The vector of each graph from those of its nodes."""
        if not self.settings.spec.over_edges:
            amounts = self.sum(nodes, members) / self.typical_nodes
            return self.join(torch.cat([self.attention(nodes, members, trace=trace), amounts], -1))
        if trace is not None:
            shares = 1 / members.degrees()[members.receivers].to(nodes.dtype)
            trace.record(Weights(members.senders, members.receivers, shares[None], len(nodes), members.num_receivers))
        return aggregate(nodes, members, "mean")


class ConvolutionBlock(nn.Module):
    """A residual convolution: x ← x + dropout(ReLU(convolve(norm(x))))."""

    def __init__(self, convolution: nn.Module, model_dim: int, dropout: float, *, reads_edges: bool):
        super().__init__()
        self.reads_edges = reads_edges
        self.norm, self.convolution, self.dropout = nn.LayerNorm(model_dim), convolution, Dropout(dropout)

    def forward(self, nodes: Tensor, edges: Edges, edge: Tensor) -> Tensor:
        """The nodes after the block."""
        features = (edge,) if self.reads_edges else ()
        return nodes + self.dropout(torch.relu(self.convolution(self.norm(nodes), edges, *features)))


def _layer(settings: PropertySettings, edge_dim: int) -> nn.Module:
    model_dim, spec = settings.numbers.model_dim, settings.spec
    if spec.score is None:
        assert spec.build is not None
        reads_edges = spec.has_edge_features and edge_dim > 0
        convolution = spec.build(model_dim, model_dim, settings, edge_dim if reads_edges else 0, False)
        return ConvolutionBlock(convolution, model_dim, settings.numbers.encoder_dropout, reads_edges=reads_edges)

    attention = MultiHeadAttention(
        model_dim,
        settings.num_heads,
        edge_dim=edge_dim + 1,  # one feature more marks the loops of the atoms
        score=settings.score_name,
        normalize=normalizer_of(settings.normalize, settings.temperature),
        combine=settings.combine,
    )

    return ResidualBlock(attention, model_dim, 2 * model_dim, hidden_dropout=settings.numbers.encoder_dropout)


def planned(batch: Batch, settings: PropertySettings) -> Batch:
    """The batch with its edges in the order that a model of these settings needs.

    They are put in order where the batch is put together, on the CPU, and move with it: a device would do it in many
    small steps, and be waited for.
    """
    if not settings.needs_coordinates:
        graph = batch.graph
        walked = (graph.edges if settings.spec.score is None else graph.looped, graph.members)
        for edges in walked:
            _ = edges.plan  # made at first use, then reused
        if settings.spec.over_edges:
            _ = graph.edges.line_graph.plan if settings.spec.attends else graph.edges.reverse
    return batch


def _looped_features(graph: Graph) -> tuple[Tensor, EdgeRows | None]:
    """The features of the edges and loops of a graph; on a CPU each distinct row once, where these are known."""
    distinct, features = graph.distinct_edge_features, graph.edge_features
    assert isinstance(features, Tensor)
    if distinct is None or distinct.features.device.type != "cpu" or torch.compiler.is_compiling():
        return _with_loops(features, graph.num_nodes), None
    return _with_loops(distinct.features.to(features.dtype), 1), distinct.rows


def _with_loops(features: Tensor, num_nodes: int) -> Tensor:
    """The features of the edges, followed by those of the loops, with one more that marks the loops."""
    padded = F.pad(features, (0, 1, 0, num_nodes))
    padded[features.shape[0] :, -1].fill_(1)
    return padded
