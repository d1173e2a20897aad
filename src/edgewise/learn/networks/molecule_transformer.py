"""The Molecule Attention Transformer: every atom attends to all others, mixed with distances and bonds."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.errors import DataError
from edgewise.graph import Graph, Trace
from edgewise.layers.dropout import Dropout, FeedForward
from edgewise.layers.linear import Linear
from edgewise.layers.molecule_attention import MoleculeAttention
from edgewise.layers.readout import Readout
from edgewise.learn.networks.graph_settings import PropertySettings, PropertySizes
from edgewise.learn.networks.head import describer
from edgewise.neighborhood import Edges, Segments, derived

FAR = 1e6
"""Ångström from a molecule to its dummy atom."""


class MoleculeTransformer(nn.Module):
    """One vector per molecule: layers in which every atom attends to all others, read out by the mean.

        x ← x + A(norm(x));   x ← x + F(norm(x));   m = mean over atoms of norm(x)
        A = λ_a softmax(QKᵀ/√d) V + λ_d softmax(−D) V + λ_g A V,    λ_g = 1 − λ_a − λ_d

    Each molecule has a dummy atom with a learned vector after its own atoms, bonded to none and `FAR` from all, which
    is where a head looks that finds nothing. In a trace, atom a of molecule g has the number a + g, and the last
    number of each molecule is its dummy.

    Cost: O(Σ atoms² · model_dim) time a layer, O(atom) memory.
    Source: Maziarka et al. 2020, section 3, with the loops, the row-wise mean of bonds and the dummy atom of their
        code. There the dummy's own row of distances is uniform, here it is itself; dropout is of what the parts add,
        there of the weights, too; F has one hidden layer, of twice the size.
    """

    def __init__(self, sizes: PropertySizes, settings: PropertySettings):
        super().__init__()
        model_dim = settings.numbers.model_dim
        self.input = Linear(sizes.num_node_features, model_dim)
        self.dummy = nn.Parameter(0.1 * torch.randn(model_dim))
        self.layers = nn.ModuleList(AtomBlock(settings) for _ in range(settings.num_layers))
        self.norm = nn.LayerNorm(model_dim)
        self.mean = Readout(model_dim, "mean")
        self.dropout = Dropout(settings.numbers.molecule_dropout)
        self.describe = describer(sizes, settings)
        self.output_dim = model_dim if self.describe is None else 2 * model_dim

    def forward(self, graph: Graph, trace: Trace | None = None) -> Float[Tensor, " graph output_dim"]:
        """The vector of each molecule of a batch.

        Raises:
            DataError: the graph does not say where the atoms are.
        """
        if graph.coordinates is None:
            raise DataError("The batch lacks coordinates, which --model mat needs: use store.with_coordinates().")
        numbers, offsets = _with_dummies(graph)
        num_nodes = len(numbers) + graph.num_graphs
        nodes = self.dummy.expand(num_nodes, -1).index_copy(0, numbers, self.input(graph.node_features))
        coordinates = graph.coordinates.new_tensor([0.0, 0.0, FAR]).expand(num_nodes, -1)
        coordinates = coordinates.index_copy(0, numbers, graph.coordinates)

        # Loops of the atoms: a dummy has none.
        senders = torch.cat([numbers[graph.edges.senders], numbers])
        receivers = torch.cat([numbers[graph.edges.receivers], numbers])
        bonds, together = derived(senders, receivers, num_nodes, num_nodes), Segments(offsets)
        for layer in self.layers:
            nodes = layer(nodes, coordinates, bonds, together, trace)
        graphs = self.dropout(self.mean(self.norm(nodes), offsets))
        if self.describe is None:
            return graphs

        return torch.cat([graphs, self.describe(graph.graph_features)], -1)


class AtomBlock(nn.Module):
    """Attention between the atoms of each molecule, then each atom for itself, each with a residual connection."""

    def __init__(self, settings: PropertySettings):
        super().__init__()
        model_dim, dropout = settings.numbers.model_dim, settings.numbers.encoder_dropout
        self.attention = MoleculeAttention(
            model_dim,
            settings.num_heads,
            attention_share=settings.attention_share,
            distance_share=settings.distance_share,
            bond_share=1 - settings.attention_share - settings.distance_share,
            kernel=settings.distance_kernel,
            bond_aggregation="mean",
        )
        self.attention_norm, self.feed_forward_norm = (nn.LayerNorm(model_dim) for _ in range(2))
        self.feed_forward = FeedForward(
            Linear(model_dim, 2 * model_dim),
            nn.GELU(),
            Dropout(dropout),
            Linear(2 * model_dim, model_dim),
            name="gelu",
        )
        self.dropout = Dropout(dropout)

    def forward(
        self, nodes: Tensor, coordinates: Tensor, bonds: Edges, together: Segments, trace: Trace | None = None
    ) -> Tensor:
        """The atoms after the block."""
        nodes = nodes + self.dropout(
            self.attention(self.attention_norm(nodes), coordinates, bonds, together, trace=trace)
        )
        return nodes + self.dropout(self.feed_forward(self.feed_forward_norm(nodes)))


def _with_dummies(graph: Graph) -> tuple[Tensor, Tensor]:
    """The number of each atom after a dummy is appended to every molecule, and the offsets of the molecules."""
    offsets = graph.offsets
    assert offsets is not None
    molecules = torch.arange(graph.num_graphs, device=offsets.device)
    atoms = torch.arange(graph.num_nodes, device=offsets.device)
    behind = torch.repeat_interleave(molecules, offsets.diff(), output_size=len(atoms))
    return atoms + behind, offsets + torch.arange(graph.num_graphs + 1, device=offsets.device)
