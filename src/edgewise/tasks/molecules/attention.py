"""Where a model of molecules attends: the weights of its layers and of its readout."""

from dataclasses import replace

import torch

from edgewise.explain.explainable import Attended, Attention
from edgewise.explanation import Layer
from edgewise.models.molecule_transformer import MoleculeTransformer
from edgewise.tasks.molecules.row import Row
from edgewise.trace import Trace, Weights

ABOUT = "How much {} attends to each atom{}; a share of each molecule's attention."


def attention_of(
    row: Row, model: torch.nn.Module, trace: Trace, columns: tuple[str, ...]
) -> tuple[Attention, list[str]]:
    """The attention that a model recorded while it predicted a row, and notes on it.

    Args:
        row: the row.
        model: one member of the ensemble.
        trace: what it recorded.
        columns: what the molecules of a row are called.
    """
    if isinstance(model.encoder, MoleculeTransformer):
        return _of_transformer(row, trace)
    *between, readout = trace.weights
    layers = [_layer(f"layer {place}", weights) for place, weights in enumerate(between, start=1)]
    firsts = row.first_atoms
    for number, column in enumerate(columns):
        own = (readout.senders >= firsts[number]) & (readout.senders < firsts[number + 1])
        part = Weights(readout.senders[own], readout.receivers[own] * 0, readout.values[:, own], row.num_atoms, 1)
        name = "readout" if len(columns) == 1 else f"readout of {column}"
        layers.append(replace(_layer(name, part), is_readout=True))
    share = readout.values.double().mean(0)
    share = share.new_zeros(row.num_atoms).index_add(0, readout.senders, share)
    notes, through = [], between
    if not between:
        notes.append(
            "The layers are convolutions, which weigh neighbors by their number alone: only the readout attends."
        )
    elif any(not bool((weights.values >= 0).all()) for weights in between):
        notes.append("Some weights are negative, so that they are no shares, and there is no rollout.")
        through = []
    about = ABOUT.format("the readout", ", mean of its heads"), ABOUT.format("the readout", " through all layers")
    return Attention(layers, [Attended(share, share, through)], *about), notes


def _of_transformer(row: Row, trace: Trace) -> tuple[Attention, list[str]]:
    """The same where atoms attend to all atoms and a dummy, and the readout is their mean."""
    offsets = row.batch.offsets
    graphs = torch.repeat_interleave(torch.arange(len(offsets) - 1), offsets.diff())
    # Each dummy stands behind the atoms of its molecule.
    of_atom = torch.arange(row.num_atoms) + graphs
    unit = torch.full((row.num_atoms + len(offsets) - 1,), -1).scatter(0, of_atom, torch.arange(row.num_atoms))
    sizes, layers = offsets.diff() + 1, []
    evenly = torch.repeat_interleave(1 / sizes.double(), sizes)
    for place, weights in enumerate(trace.weights, start=1):
        atoms = (unit[weights.senders] >= 0) & (unit[weights.receivers] >= 0)
        ends = unit[weights.senders[atoms]], unit[weights.receivers[atoms]]
        part = Weights(*ends, weights.values[:, atoms], row.num_atoms, row.num_atoms)
        layers.append(_layer(f"layer {place}", part))
    last = trace.weights[-1]
    seen = evenly[last.receivers] * last.values.double().mean(0)
    direct = torch.zeros(len(unit), dtype=torch.float64).index_add(0, last.senders, seen)
    notes = [
        "The weights are those of the attention, before distances and bonds are mixed in.",
        "Each molecule has a dummy atom, too, which is not shown: the attention to it is missing in the sums.",
        "The atoms are read out by their mean: the readout does not attend.",
    ]
    attended = Attended(direct, evenly, trace.weights, positions=of_atom)
    about = (
        ABOUT.format("the mean of all atoms", " in the last layer, mean of its heads"),
        ABOUT.format("the mean of all atoms", " through all layers"),
    )
    return Attention(layers, [attended], *about), notes


def _layer(name: str, weights: Weights) -> Layer:
    ends = weights.senders.numpy(), weights.receivers.numpy()
    return Layer(name, *ends, weights.values.detach().double().numpy())
