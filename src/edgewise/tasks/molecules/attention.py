"""Where a model of molecules attends: the weights of its layers, and how much of them each atom has in the end."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from edgewise.explain.rollout import rollout
from edgewise.explanation import Attribution, Layer
from edgewise.models.molecule_transformer import MoleculeTransformer
from edgewise.tasks.molecules.perturbation import Row
from edgewise.trace import Trace, Weights


@dataclass(frozen=True, eq=False)
class Attention:
    """What a trace of one row comes to."""

    layers: tuple[Layer, ...]
    """The layers in which atoms attend to each other, then the readout of each molecule."""
    shares: tuple[Attribution, ...]
    """How much of the attention each atom has."""
    notes: tuple[str, ...]
    """What a reader must know of them."""


def attention_of(row: Row, model: torch.nn.Module, trace: Trace, columns: tuple[str, ...]) -> Attention:
    """The attention that a model recorded while it predicted a row.

    Args:
        row: what was predicted.
        model: who predicted.
        trace: what was recorded.
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
    shares, notes = [_share("attention", share, "the readout looks at each atom, the mean of its heads")], []
    if between and all(bool((weights.values >= 0).all()) for weights in between):
        about = "the readout looks at each atom through all layers, as by rollout: the weights of the layers multiplied"
        shares.append(_share("rollout", _through(share, between), about))
    elif between:
        notes.append("Some weights are negative, so that they are no shares, and there is no rollout.")
    else:
        notes.append(
            "The layers are convolutions, which weigh neighbors by their number alone: only the readout attends."
        )
    return Attention(tuple(layers), tuple(shares), tuple(notes))


def _of_transformer(row: Row, trace: Trace) -> Attention:
    """The same where atoms attend to all atoms and a dummy, and the readout is their mean."""
    offsets = row.batch.offsets
    graphs = torch.repeat_interleave(torch.arange(len(offsets) - 1), offsets.diff())
    # Each dummy stands behind the atoms of its molecule.
    of_atom = torch.arange(row.num_atoms) + graphs
    unit = torch.full((row.num_atoms + len(offsets) - 1,), -1).scatter(0, of_atom, torch.arange(row.num_atoms))
    sizes = offsets.diff() + 1
    layers, evenly = [], torch.repeat_interleave(1 / sizes.double(), sizes)
    for place, weights in enumerate(trace.weights, start=1):
        atoms = (unit[weights.senders] >= 0) & (unit[weights.receivers] >= 0)
        ends = unit[weights.senders[atoms]], unit[weights.receivers[atoms]]
        part = Weights(*ends, weights.values[:, atoms], row.num_atoms, row.num_atoms)
        layers.append(_layer(f"layer {place}", part))
    last = trace.weights[-1]
    seen = evenly[last.receivers] * last.values.double().mean(0)
    share = torch.zeros(len(unit), dtype=torch.float64).index_add(0, last.senders, seen)
    shares = (
        _share("attention", share[of_atom], "all atoms together look at each in the last layer, the mean of its heads"),
        _share(
            "rollout",
            _through(evenly, trace.weights)[of_atom],
            "all atoms together look at each through all layers, as by rollout: the weights of the layers multiplied",
        ),
    )
    notes = (
        "The weights are those of the attention, before distances and bonds are mixed in.",
        "Each molecule has a dummy atom, too, which is not shown: what looks at it is missing in the sums.",
        "The atoms are read out by their mean: the readout does not attend.",
    )
    return Attention(tuple(layers), shares, notes)


def _through(share: Float[Tensor, " node"], layers: list[Weights]) -> Float[Tensor, " node"]:
    """How much of each node at the bottom is in a mixture of the nodes at the top."""
    found = rollout(layers)
    return torch.zeros_like(share).index_add(0, found.senders, share[found.receivers] * found.values.double())


def _layer(name: str, weights: Weights) -> Layer:
    ends = weights.senders.numpy(), weights.receivers.numpy()
    return Layer(name, *ends, weights.values.detach().double().numpy())


def _share(name: str, share: Tensor, about: str) -> Attribution:
    values: np.ndarray = share.numpy()
    return Attribution(name, values, is_signed=False, about=f"How much {about}; a share of each molecule's attention.")
