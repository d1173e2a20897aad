"""A molecule as a graph of tensors: atoms, bonds, descriptors of the whole, and the characters each atom came from."""

import torch

from edgewise.graph.records import Example, Span
from edgewise.learn.readers.molecules.descriptor import descriptors
from edgewise.learn.readers.molecules.feature import molecule_arrays
from edgewise.learn.readers.molecules.molecule import atom_characters, read_molecule
from edgewise.neighborhood import Edges


def example_from_smiles(smiles: str, *, source: str = "smiles") -> Example:
    """The graph of one molecule: atoms are nodes, each bond is two edges, fragments are components of one graph.

    Args:
        smiles: one SMILES string, in any writing; its own atom order stays.
        source: name of the column the string came from, for the spans.

    Returns:
        An `Example` whose `spans` are the characters of each atom in `smiles` exactly as it was handed in, and
        whose `global_features` (float64) are raw RDKit descriptors, NaN where RDKit's value is not finite.

    Raises:
        DataError: the string is not a molecule; the message ends in RDKit's reason.

    Example:
        >>> example = example_from_smiles("CC(=O)[O-]")
        >>> [example.name[span.start : span.stop] for span in example.spans]
        ['C', 'C', 'O', '[O-]']
    """
    molecule = read_molecule(smiles)
    arrays = molecule_arrays(molecule)
    num_atoms = molecule.GetNumAtoms()
    return Example(
        name=smiles,
        node_features=torch.from_numpy(arrays.node_features),
        edges=Edges(torch.from_numpy(arrays.senders), torch.from_numpy(arrays.receivers), num_atoms, num_atoms),
        edge_features=torch.from_numpy(arrays.edge_features),
        global_features=torch.from_numpy(descriptors(molecule)),
        spans=tuple(Span(source, start, stop) for start, stop in atom_characters(smiles, molecule)),
    )
