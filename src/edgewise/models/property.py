"""From molecules and conditions to properties: encode each distinct molecule, let conditions act on it, predict."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.errors import SettingError
from edgewise.layers.attention import MultiHeadAttention
from edgewise.layers.block import ResidualBlock
from edgewise.layers.convolution import MeanConvolution, SymmetricConvolution
from edgewise.layers.readout import Readout
from edgewise.models.describe import describer
from edgewise.models.molecule_transformer import MoleculeTransformer
from edgewise.models.normalizer import normalizer_of
from edgewise.models.settings import PropertySettings, PropertySizes
from edgewise.neighborhood import Edges
from edgewise.records import Batch
from edgewise.trace import Trace

__all__ = ["PropertyModel", "PropertySettings", "PropertySizes"]

CONVOLUTIONS = {"gcn": SymmetricConvolution, "mean": MeanConvolution}


class PropertyModel(nn.Module):
    """Attention gives each molecule a vector; conditions modulate it; a small network predicts.

        m_g = encode(graph g)        h = W [m_cation, m_anion, …]        y = predict(h | conditions)

    Args:
        sizes: what the data looks like.
        settings: the choices.
    """

    def __init__(self, sizes: PropertySizes, settings: PropertySettings):
        super().__init__()
        kind = MoleculeTransformer if settings.model == "mat" else GraphEncoder
        self.encoder = kind(sizes, settings)
        self.head = ConditionedHead(self.encoder.output_dim * sizes.num_components, sizes, settings)

    def forward(self, batch: Batch, trace: Trace | None = None) -> Float[Tensor, " row variant output"]:
        """What every variant of the head says of each row, in model units (or logits); average them to predict."""
        return self.head(self.fingerprint(batch, trace), batch.conditions)

    def fingerprint(self, batch: Batch, trace: Trace | None = None) -> Float[Tensor, " row feature"]:
        """The learned vector of each row: those of its molecules side by side, before any condition."""
        return self.encoder(batch, trace)[batch.graph_of_row].flatten(1)


class GraphEncoder(nn.Module):
    """One vector a graph: layers over its edges, read out by attention and by sum, joined with its global features.

    The sum keeps how much there is of everything (extensive), attention what matters most (intensive).
    """

    def __init__(self, sizes: PropertySizes, settings: PropertySettings):
        super().__init__()
        model_dim = settings.model_dim
        self.typical_nodes = sizes.typical_nodes
        self.input = nn.Linear(sizes.num_node_features, model_dim)
        # One feature more says "this edge is the atom's own loop".
        self.layers = nn.ModuleList(_layer(settings, sizes.num_edge_features + 1) for _ in range(settings.num_layers))
        self.norm = nn.LayerNorm(model_dim)
        self.attention = Readout(model_dim, "attention", settings.num_heads)
        self.sum = Readout(model_dim, "sum")
        self.join = nn.Linear(2 * model_dim, model_dim)
        self.dropout = nn.Dropout(settings.molecule_dropout)
        self.describe = describer(sizes, settings)
        self.output_dim = model_dim if self.describe is None else 2 * model_dim

    def forward(self, batch: Batch, trace: Trace | None = None) -> Float[Tensor, " graph output_dim"]:
        """The vector of each graph of the batch."""
        nodes = self.input(batch.node_features)
        edges, edge_features = _with_loops(batch)
        for layer in self.layers:
            if isinstance(layer, ResidualBlock):
                nodes = layer(nodes, edges, edge=edge_features, trace=trace)
            else:
                nodes = layer(nodes, batch.edges)
        nodes = self.norm(nodes)
        amounts = self.sum(nodes, batch.offsets) / self.typical_nodes
        graphs = self.dropout(self.join(torch.cat([self.attention(nodes, batch.offsets, trace=trace), amounts], -1)))
        if self.describe is None:
            return graphs
        return torch.cat([graphs, self.describe(batch.global_features)], -1)


class ConvolutionBlock(nn.Module):
    """A residual convolution: x ← x + dropout(convolve(norm(x)))."""

    def __init__(self, convolution: nn.Module, model_dim: int, dropout: float):
        super().__init__()
        self.norm, self.convolution, self.dropout = nn.LayerNorm(model_dim), convolution, nn.Dropout(dropout)

    def forward(self, nodes: Tensor, edges: Edges) -> Tensor:
        """The nodes after the block."""
        return nodes + self.dropout(self.convolution(self.norm(nodes), edges))


class ConditionedHead(nn.Module):
    """A network on the row's molecules that the conditions modulate in every block, not only at its start.

    Several variants of it run side by side. They share all matrices but the last and differ by the signs that multiply
    their input. Each learns for itself, and a prediction averages them: much of what an ensemble gives, at little cost.

    Source: Wen, Tran & Ba 2020 (BatchEnsemble); Gorishniy, Kotelnikov & Babenko 2025 (TabM).
    """

    def __init__(self, input_dim: int, sizes: PropertySizes, settings: PropertySettings):
        super().__init__()
        head_dim = settings.head_dim
        self.input = nn.Linear(input_dim, head_dim)
        condition_dim = 32 if sizes.num_conditions else 0
        self.add: nn.Module | None = None
        if sizes.num_conditions:
            self.add = nn.Linear(sizes.num_conditions, head_dim)
            self.condition = nn.Sequential(
                nn.Linear(sizes.num_conditions, condition_dim),
                nn.SiLU(),
                nn.Linear(condition_dim, condition_dim),
                nn.SiLU(),
            )
        self.blocks = nn.ModuleList(
            ModulatedBlock(head_dim, condition_dim, settings.head_dropout) for _ in range(settings.num_head_layers)
        )
        if settings.num_variants is None:
            raise SettingError("num_variants is None; hand over settings.resolved(batch_size).")
        self.num_variants = settings.num_variants
        self.bounds = None if sizes.low is None or sizes.high is None else (sizes.low, sizes.high)
        # One long vector: what decays in training are matrices, and these signs must not.
        self.signs = nn.Parameter(torch.randn(self.num_variants * head_dim).sign())
        scale = 0.5 / math.sqrt(head_dim)
        self.output = nn.Parameter(scale * torch.randn(self.num_variants, head_dim, sizes.num_outputs))
        self.offset = nn.Parameter(torch.zeros(self.num_variants * sizes.num_outputs))

    def forward(
        self, molecules: Float[Tensor, " row feature"], conditions: Float[Tensor, " row condition"]
    ) -> Float[Tensor, " row variant output"]:
        """What every variant says of each row."""
        rows, condition = self.input(molecules), None
        if self.add is not None:
            rows, condition = rows + self.add(conditions), self.condition(conditions).unsqueeze(1)
        variants = rows.unsqueeze(1) * self.signs.view(self.num_variants, -1)
        for block in self.blocks:
            variants = block(variants, condition)
        outputs = torch.einsum("rvh,vho->rvo", variants, self.output) + self.offset.view(self.num_variants, -1)
        if self.bounds is None:
            return outputs
        # Fractions stay fractions: 0 at the low end, 1 at the high one.
        low, high = (outputs.new_tensor(bound) for bound in self.bounds)
        return low + (high - low) * torch.sigmoid(2 * outputs)


class ModulatedBlock(nn.Module):
    """h ← h + F(γ(c) ⊙ norm(h) + β(c)): conditions c scale and shift every feature.

    Source: Perez et al. 2018 (FiLM), with γ = 1 + W c.
    """

    def __init__(self, head_dim: int, condition_dim: int, dropout: float):
        super().__init__()
        self.norm = nn.LayerNorm(head_dim)
        self.modulate: nn.Linear | None = None
        if condition_dim:
            self.modulate = nn.Linear(condition_dim, 2 * head_dim)
            nn.init.normal_(self.modulate.weight, std=0.5 / math.sqrt(condition_dim))
            nn.init.zeros_(self.modulate.bias)
        self.first, self.second = nn.Linear(head_dim, head_dim), nn.Linear(head_dim, head_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, rows: Float[Tensor, " row variant head_dim"], condition: Float[Tensor, " row 1 condition_dim"] | None
    ) -> Float[Tensor, " row variant head_dim"]:
        """The rows after the block."""
        normed = self.norm(rows)
        if self.modulate is not None:
            scale, shift = self.modulate(condition).chunk(2, -1)
            normed = torch.addcmul(normed + shift, normed, scale)
        return rows + self.second(self.dropout(F.silu(self.first(normed))))


def _layer(settings: PropertySettings, edge_dim: int) -> nn.Module:
    model_dim = settings.model_dim
    if settings.model in CONVOLUTIONS:
        convolution = CONVOLUTIONS[settings.model](model_dim, model_dim)
        return ConvolutionBlock(convolution, model_dim, settings.encoder_dropout)
    attention = MultiHeadAttention(
        model_dim,
        settings.num_heads,
        edge_dim=edge_dim,
        score=settings.score_name,
        normalize=normalizer_of(settings.normalize, settings.temperature),
        combine=settings.combine,
    )
    return ResidualBlock(attention, model_dim, 2 * model_dim, hidden_dropout=settings.encoder_dropout)


def _with_loops(batch: Batch) -> tuple[Edges, Tensor]:
    """The edges of a batch and a loop on every node, with one feature more that tells the loops apart."""
    edges, features = batch.edges, batch.edge_features
    nodes = torch.arange(edges.num_receivers, device=features.device)
    senders, receivers = torch.cat([edges.senders, nodes]), torch.cat([edges.receivers, nodes])
    loops = F.pad(features.new_ones(len(nodes), 1), (features.shape[1], 0))
    return Edges(senders, receivers, len(nodes), len(nodes)), torch.cat([F.pad(features, (0, 1)), loops])
