"""A molecule as a graph of tensors: atoms, bonds, descriptors of the whole, and the characters each atom came from."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from edgewise.learn.readers.molecules.descriptor import descriptors
from edgewise.learn.readers.molecules.feature import molecule_arrays
from edgewise.learn.readers.molecules.molecule import atom_characters, read_molecule
from edgewise.neighborhood import Edges


@dataclass(frozen=True, eq=False)
class SourceSpan:
    """The origin of one node: the text `source[start:stop]`."""

    source: str
    """The column or file of the text, such as `smiles`."""
    start: int
    """First character."""
    stop: int
    """One past the last character."""


@dataclass(frozen=True, eq=False)
class MoleculeGraph:
    """One molecule as a graph, and the span of the SMILES string that each atom came from."""

    name: str
    """The SMILES string."""
    node_features: Float[Tensor, " node node_feature"]
    """One row per node."""
    edges: Edges
    """Sender → receiver; a chemical bond is two edges."""
    edge_features: Float[Tensor, " edge edge_feature"]
    """One row per edge, in the order of `edges`."""
    graph_features: Float[Tensor, " graph_feature"]
    """Features of the whole graph; of size 0 without any."""
    spans: tuple[SourceSpan, ...]
    """One span per node."""


def molecule_graph(smiles: str, *, source: str = "smiles") -> MoleculeGraph:
    """The graph of one molecule: atoms are nodes, each bond is two edges, fragments are components of one graph.

    Args:
        smiles: one SMILES string, in any writing; its own atom order stays.
        source: name of the column the string came from, for the spans.

    Returns:
        A `MoleculeGraph` whose `spans` are the characters of each atom in `smiles` exactly as it was handed in, and
        whose `graph_features` (float64) are raw RDKit descriptors, NaN where RDKit's value is not finite.

    Raises:
        DataError: the string is not a molecule; the message ends in RDKit's reason.

    Example:
        >>> graph = molecule_graph("CC(=O)[O-]")
        >>> [graph.name[span.start : span.stop] for span in graph.spans]
        ['C', 'C', 'O', '[O-]']
    """
    molecule = read_molecule(smiles)
    arrays = molecule_arrays(molecule)
    num_atoms = molecule.GetNumAtoms()
    return MoleculeGraph(
        name=smiles,
        node_features=torch.from_numpy(arrays.node_features),
        edges=Edges(torch.from_numpy(arrays.senders), torch.from_numpy(arrays.receivers), num_atoms, num_atoms),
        edge_features=torch.from_numpy(arrays.edge_features),
        graph_features=torch.from_numpy(descriptors(molecule)),
        spans=tuple(SourceSpan(source, start, stop) for start, stop in atom_characters(smiles, molecule)),
    )
