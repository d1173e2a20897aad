"""A directed message passing network in plain torch, as chemprop has it: the peer of our model of molecules.

Messages live on directed bonds (Yang et al. 2019, eqs. 2 to 8); sizes and layers are chemprop's defaults, the first
layer without activation in the residual sum as in its code:

    h⁰ = W_i [x_v, e_vw];  h = relu(h⁰)
    twice:  h_vw = relu(h⁰_vw + W_h Σ_{k ∈ N(v), k ≠ w} h_kv)
    h_v = relu(W_o [x_v, Σ_{k ∈ N(v)} h_kv] + b)

then the mean over the atoms, batch norm, the descriptors beside it, and one hidden layer. Depth 3, width 300, and no
dropout.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from edgewise.graph import Batch

WIDTH, DEPTH = 300, 3


class Molecules(NamedTuple):
    """A batch of molecules as one graph, as chemprop's BatchMolGraph holds it."""

    atoms: Tensor
    """(atom, feature)."""
    bonds: Tensor
    """(bond, feature), both directions of a bond for themselves."""
    senders: Tensor
    """int64 (bond), v of v → w."""
    receivers: Tensor
    """int64 (bond), w of v → w."""
    reverse: Tensor
    """int64 (bond), the place of w → v."""
    molecule: Tensor
    """int64 (atom), which molecule it is of."""
    counts: Tensor
    """(molecule, 1), how many atoms it has."""
    descriptors: Tensor
    """(molecule, feature)."""

    @classmethod
    def of(cls, batch: Batch) -> "Molecules":
        """The same molecules as a batch of ours, whose rows have one molecule each."""
        graph = batch.graph
        senders, receivers, num_atoms = graph.edges.senders, graph.edges.receivers, graph.num_nodes
        counts = graph.offsets.diff()
        return cls(
            atoms=graph.node_features,
            bonds=graph.edge_features,
            senders=senders,
            receivers=receivers,
            reverse=reverse_of(senders, receivers, num_atoms),
            molecule=torch.arange(len(counts)).repeat_interleave(counts),
            counts=counts[:, None].float(),
            descriptors=graph.graph_features,
        )

    def to(self, device: str) -> "Molecules":
        """The same on a device."""
        return Molecules(*(each.to(device) for each in self))


def reverse_of(senders: Tensor, receivers: Tensor, num_atoms: int) -> Tensor:
    """The place of the other direction of each bond; every bond stands there once in both."""
    order = (senders * num_atoms + receivers).argsort()
    return torch.empty_like(order).index_copy(0, (receivers * num_atoms + senders).argsort(), order)


class DirectedMessagePassing(nn.Module):
    """Molecules to one number each."""

    def __init__(self, atom_dim: int, bond_dim: int, descriptor_dim: int):
        super().__init__()
        self.first = nn.Linear(atom_dim + bond_dim, WIDTH, bias=False)
        self.update = nn.Linear(WIDTH, WIDTH, bias=False)
        self.atom = nn.Linear(atom_dim + WIDTH, WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.head = nn.Sequential(nn.Linear(WIDTH + descriptor_dim, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))

    def forward(self, batch: Molecules) -> Tensor:
        """(molecule, 1)."""
        start = self.first(torch.cat([batch.atoms[batch.senders], batch.bonds], 1))
        hidden = start.relu()
        for _ in range(DEPTH - 1):
            hidden = (start + self.update(messages(hidden, batch))).relu()
        atoms = self.atom(torch.cat([batch.atoms, received(hidden, batch)], 1)).relu()
        means = atoms.new_zeros(len(batch.counts), WIDTH).index_add(0, batch.molecule, atoms) / batch.counts
        return self.head(torch.cat([self.norm(means), batch.descriptors], 1))


def received(hidden: Tensor, batch: Molecules) -> Tensor:
    """Σ_{k ∈ N(v)} h_kv of each atom v."""
    return hidden.new_zeros(len(batch.atoms), hidden.shape[1]).index_add(0, batch.receivers, hidden)


def messages(hidden: Tensor, batch: Molecules) -> Tensor:
    """Σ_{k ∈ N(v), k ≠ w} h_kv of each bond v → w: all that v receives but for what comes back from w."""
    return received(hidden, batch)[batch.senders] - hidden[batch.reverse]
