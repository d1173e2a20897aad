"""The atoms and bonds of a molecule as rows of numbers, the same however the molecule was written."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

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
# `ring_size` means "that many or more"; a category of None is all zeros.
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
"""The name of each column of `MoleculeGraph.node_features`."""
EDGE_FEATURE_NAMES: tuple[str, ...] = (*_block_names(BOND_BLOCKS), "conjugated", "in_ring")
"""The name of each column of `MoleculeGraph.edge_features`."""
_ELEMENT_INDEX = {Chem.GetPeriodicTable().GetAtomicNumber(symbol): index for index, symbol in enumerate(ELEMENTS)}
_HYBRIDIZATION_INDEX = {Chem.HybridizationType.names[name]: index for index, name in enumerate(HYBRIDIZATIONS)}
_ORDER_INDEX = {Chem.BondType.names[name]: index for index, name in enumerate(BOND_ORDERS)}
_CIP_INDEX = {"R": 1, "r": 1, "S": 2, "s": 2}
_STEREO_INDEX = {"E": 1, "Z": 2}
_UNSPECIFIED = 3
KINDS = 4096
"""The number of distinct atoms whose features are cached."""
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
    rings, atoms, bonds, ends = molecule.GetRingInfo(), list[bytes](), list[bytes](), list[tuple[int, int]]()
    for number, chirality in enumerate(atom_stereo):
        atom = molecule.GetAtomWithIdx(number)
        ring_size = rings.MinAtomRingSize(number)
        atoms.append(
            _atom_row(
                atom.GetAtomicNum(),
                atom.GetDegree(),
                atom.GetFormalCharge(),
                atom.GetTotalNumHs(includeNeighbors=True),
                atom.GetHybridization(),
                ring_size,
                chirality,
                atom.GetIsAromatic(),
                atom.GetMass(),
            )
        )

    for number, stereo in enumerate(bond_stereo):
        bond = molecule.GetBondWithIdx(number)
        bonds.append(_bond_row(bond.GetBondType(), stereo, bond.GetIsConjugated(), rings.NumBondRings(number) > 0))
        ends.append((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))

    begin_end = np.array(ends, dtype=np.int64).reshape(-1, 2)
    return MoleculeArrays(
        node_features=_rows(atoms, len(NODE_FEATURE_NAMES)),
        senders=begin_end.reshape(-1),
        receivers=np.ascontiguousarray(begin_end[:, ::-1]).reshape(-1),
        edge_features=np.repeat(_rows(bonds, len(EDGE_FEATURE_NAMES)), 2, axis=0),
    )


def _rows(rows: Sequence[bytes], num_features: int) -> Float32[np.ndarray, " row feature"]:
    return np.frombuffer(b"".join(rows), np.float32).reshape(-1, num_features).copy()


@lru_cache(KINDS)
def _atom_row(
    number: int,
    degree: int,
    charge: int,
    hydrogens: int,
    hybridization: Chem.HybridizationType,
    ring_size: int,
    chirality: int,
    is_aromatic: bool,
    mass: float,
) -> bytes:
    """The features of an atom; few atoms differ."""
    codes = (
        _ELEMENT_INDEX.get(number, len(ELEMENTS)),
        min(degree, 6),
        min(max(charge, -2), 2) + 2,
        min(hydrogens, 4),
        _HYBRIDIZATION_INDEX.get(hybridization, len(HYBRIDIZATIONS)),
        min(ring_size, 8) - 2 if ring_size else 0,
        chirality,
    )

    return _one_hot(codes, (is_aromatic, ring_size > 0, mass / 100), ATOM_BLOCKS)


@lru_cache(KINDS)
def _bond_row(order: Chem.BondType, stereo: int, is_conjugated: bool, is_in_ring: bool) -> bytes:
    """The features of a bond."""
    codes = (_ORDER_INDEX.get(order, len(BOND_ORDERS)), stereo)
    return _one_hot(codes, (is_conjugated, is_in_ring), BOND_BLOCKS)


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
    codes: Sequence[int], numbers: Sequence[float | bool], blocks: tuple[tuple[str, tuple[str, ...]], ...]
) -> bytes:
    """One column a category of each block, then the columns that are numbers already."""
    columns = [
        code == category for code, (_, names) in zip(codes, blocks, strict=True) for category in range(len(names))
    ]
    return np.array([*columns, *numbers], dtype=np.float32).tobytes()
