"""The atoms and bonds of a molecule as rows of numbers, the same however the molecule was written."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int64

from edgewise.errors import MissingExtraError

try:
    from rdkit import Chem
    from rdkit.Chem import rdCIPLabeler
except ImportError as error:
    raise MissingExtraError("rdkit", "molecules") from error

OTHER = "other"

ELEMENTS = (
    *("H", "Li", "B", "C", "N", "O", "F", "Na", "Mg", "Al", "Si", "P", "S", "Cl", "K", "Ca"),
    *("Fe", "Cu", "Zn", "As", "Se", "Br", "Sn", "I"),
)
HYBRIDIZATIONS = ("S", "SP", "SP2", "SP3", "SP3D", "SP3D2")
CHIRALITIES = ("R", "S", "unspecified")
BOND_ORDERS = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
BOND_STEREO = ("E", "Z", "unspecified")

# Each one-hot block of an atom row: its name and its categories. The last category of `degree`, `hydrogens` and
# `ring_size` means "that many or more"; a category of None has no column (all zeros).
ATOM_BLOCKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("element", (*ELEMENTS, OTHER)),
    ("degree", ("0", "1", "2", "3", "4", "5", "6+")),
    ("charge", ("-2 or less", "-1", "0", "+1", "+2 or more")),
    ("hydrogens", ("0", "1", "2", "3", "4+")),
    ("hybridization", (*HYBRIDIZATIONS, OTHER)),
    ("ring_size", ("none", "3", "4", "5", "6", "7", "8+")),
    ("chirality", ("none", *CHIRALITIES)),
)
BOND_BLOCKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("order", (*BOND_ORDERS, OTHER)),
    ("stereo", ("none", *BOND_STEREO)),
)


def _block_names(blocks: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[str, ...]:
    return tuple(f"{block}={category}" for block, categories in blocks for category in categories)


NODE_FEATURE_NAMES: tuple[str, ...] = (*_block_names(ATOM_BLOCKS), "aromatic", "in_ring", "mass_per_100_dalton")
"""The name of each column of `Example.node_features`."""
EDGE_FEATURE_NAMES: tuple[str, ...] = (*_block_names(BOND_BLOCKS), "conjugated", "in_ring")
"""The name of each column of `Example.edge_features`."""
_ELEMENT_INDEX = {symbol: index for index, symbol in enumerate(ELEMENTS)}
_HYBRIDIZATION_INDEX = {Chem.HybridizationType.names[name]: index for index, name in enumerate(HYBRIDIZATIONS)}
_ORDER_INDEX = {Chem.BondType.names[name]: index for index, name in enumerate(BOND_ORDERS)}
_CIP_INDEX = {"R": 1, "r": 1, "S": 2, "s": 2}
_STEREO_INDEX = {"E": 1, "Z": 2}
_UNSPECIFIED = 3
# The limit that RDKit's documentation recommends; only cages and the like reach it.
_MAX_CIP_STEPS = 1_250_000


@dataclass(frozen=True, eq=False)
class MoleculeArrays:
    """The numbers of one molecule, before they are tensors."""

    node_features: Float32[np.ndarray, " node node_feature"]
    """One row an atom; columns as in `NODE_FEATURE_NAMES`."""
    senders: Int64[np.ndarray, " edge"]
    """Atom that each edge leaves; edges 2b and 2b + 1 are the two directions of bond b."""
    receivers: Int64[np.ndarray, " edge"]
    """Atom that each edge reaches."""
    edge_features: Float32[np.ndarray, " edge edge_feature"]
    """One row an edge; columns as in `EDGE_FEATURE_NAMES`."""


def molecule_arrays(molecule: Chem.Mol) -> MoleculeArrays:
    """Atom and bond features of a molecule that RDKit has read; they do not depend on how it was written."""
    atom_stereo, bond_stereo = _stereo(molecule)
    codes, rest = [], []
    for atom, chirality in zip(molecule.GetAtoms(), atom_stereo, strict=True):
        codes.append(_atom_codes(atom, chirality))
        rest.append((atom.GetIsAromatic(), atom.IsInRing(), atom.GetMass() / 100))
    bond_codes, bond_rest, ends = [], [], []
    for bond, stereo in zip(molecule.GetBonds(), bond_stereo, strict=True):
        bond_codes.append((_ORDER_INDEX.get(bond.GetBondType(), len(BOND_ORDERS)), stereo))
        bond_rest.append((bond.GetIsConjugated(), bond.IsInRing()))
        ends.append((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))
    begin_end = np.array(ends, dtype=np.int64).reshape(-1, 2)
    bond_features = _one_hot(bond_codes, bond_rest, BOND_BLOCKS, len(EDGE_FEATURE_NAMES))
    return MoleculeArrays(
        node_features=_one_hot(codes, rest, ATOM_BLOCKS, len(NODE_FEATURE_NAMES)),
        senders=begin_end.reshape(-1),
        receivers=np.ascontiguousarray(begin_end[:, ::-1]).reshape(-1),
        edge_features=np.repeat(bond_features, 2, axis=0),
    )


def _atom_codes(atom: Chem.Atom, chirality: int) -> tuple[int, ...]:
    """The category of an atom in each block of `ATOM_BLOCKS`."""
    return (
        _ELEMENT_INDEX.get(atom.GetSymbol(), len(ELEMENTS)),
        min(atom.GetDegree(), 6),
        min(max(atom.GetFormalCharge(), -2), 2) + 2,
        min(atom.GetTotalNumHs(includeNeighbors=True), 4),
        _HYBRIDIZATION_INDEX.get(atom.GetHybridization(), len(HYBRIDIZATIONS)),
        min(atom.GetOwningMol().GetRingInfo().MinAtomRingSize(atom.GetIdx()), 8) - 2 if atom.IsInRing() else 0,
        chirality,
    )


def _stereo(molecule: Chem.Mol) -> tuple[list[int], list[int]]:
    """Category of each atom in `chirality` and of each bond in `stereo`.

    By the Cahn-Ingold-Prelog label, since RDKit's clockwise tag depends on the order of writing.
    """
    atoms, bonds = [0] * molecule.GetNumAtoms(), [0] * molecule.GetNumBonds()
    centers = Chem.FindPotentialStereo(molecule)
    if any(center.specified == Chem.StereoSpecified.Specified for center in centers):
        # Labels of a cage may take forever; what has none by then counts as unspecified.
        with suppress(RuntimeError):
            rdCIPLabeler.AssignCIPLabels(molecule, maxRecursiveIterations=_MAX_CIP_STEPS)
    for center in centers:
        if center.type == Chem.StereoType.Atom_Tetrahedral:
            atom = molecule.GetAtomWithIdx(center.centeredOn)
            atoms[center.centeredOn] = _label(atom, _CIP_INDEX)
        elif center.type == Chem.StereoType.Bond_Double:
            bonds[center.centeredOn] = _label(molecule.GetBondWithIdx(center.centeredOn), _STEREO_INDEX)
    return atoms, bonds


def _label(center: Chem.Atom | Chem.Bond, index_of: dict[str, int]) -> int:
    return index_of.get(center.GetProp("_CIPCode"), _UNSPECIFIED) if center.HasProp("_CIPCode") else _UNSPECIFIED


def _one_hot(
    codes: Sequence[tuple[int, ...]],
    rest: Sequence[tuple[float | bool, ...]],
    blocks: tuple[tuple[str, tuple[str, ...]], ...],
    num_features: int,
) -> Float32[np.ndarray, " row feature"]:
    """One column a category of each block, then the columns that are numbers already."""
    features = np.zeros((len(codes), num_features), dtype=np.float32)
    if codes:
        sizes = [len(categories) for _, categories in blocks]
        starts = np.cumsum([0, *sizes[:-1]])
        np.put_along_axis(features, np.array(codes) + starts, 1, axis=1)
        features[:, sum(sizes) :] = rest
    return features
