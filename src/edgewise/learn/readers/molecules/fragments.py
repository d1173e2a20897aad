"""The parts that chemists see in a molecule: components, ring systems, functional groups, pieces of BRICS."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from edgewise.errors import MissingExtraError

try:
    from rdkit import Chem, rdBase
    from rdkit.Chem import BRICS
except ImportError as error:
    raise MissingExtraError("rdkit", "molecules") from error

COMPONENT, RING, GROUP, PIECE = "component", "ring", "functional group", "BRICS"
"""The ways in which a molecule is cut."""
GROUPS: tuple[tuple[str, str], ...] = (
    ("anhydride", "[CX3](=O)[OX2][CX3]=O"),
    ("carbonate", "[OX2][CX3](=O)[OX2]"),
    ("carbamate", "[NX3][CX3](=O)[OX2]"),
    ("urea", "[NX3][CX3](=O)[NX3]"),
    ("imide", "[CX3](=O)[NX3][CX3]=O"),
    ("carboxylate", "[CX3](=O)[O-]"),
    ("carboxylic acid", "[CX3](=O)[OX2H1]"),
    ("ester", "[CX3](=O)[OX2H0]"),
    ("acyl halide", "[CX3](=O)[F,Cl,Br,I]"),
    ("amide", "[CX3](=O)[NX3]"),
    ("aldehyde", "[$([CX3H1][#6]),$([CX3H2])]=[OX1]"),
    ("ketone", "[$([CX3]([#6])[#6])]=[OX1]"),
    ("thiocarbonyl", "[#6X3]=[SX1]"),
    ("guanidine", "[NX3][CX3](=[NX2,NX3+])[NX3]"),
    ("amidine", "[NX3][CX3]=[NX2,NX3+]"),
    ("imine", "[CX3]=[NX2]"),
    ("isocyanate", "[NX2]=[CX2]=[OX1]"),
    ("isothiocyanate", "[NX2]=[CX2]=[SX1]"),
    ("thiocyanate", "[S][CX2]#[NX1]"),
    ("nitrile", "[CX2]#[NX1]"),
    ("nitrate", "[O-,OX2][N+](=O)[O-]"),
    ("nitro", "[N+](=O)[O-]"),
    ("azide", "[NX2]=[N+]=[N-]"),
    ("azo", "[NX2]=[NX2]"),
    ("sulfonylimide", "[SX4](=O)(=O)[N-,NX3H1][SX4](=O)=O"),
    ("sulfonamide", "[SX4](=O)(=O)[NX3,N-]"),
    ("sulfate", "[OX2][SX4](=O)(=O)[OX2,O-]"),
    ("sulfonate", "[SX4](=O)(=O)[OX2,O-]"),
    ("sulfone", "[SX4](=O)=O"),
    ("sulfoxide", "[SX3]=[OX1]"),
    ("phosphate", "[PX4](=O)([OX2,O-])([OX2,O-])[OX2,O-]"),
    ("phosphoryl", "[PX4]=[OX1]"),
    ("quaternary ammonium", "[NX4+;H0]"),
    ("ammonium", "[NX4+;!H0]"),
    ("phosphonium", "[PX4+]"),
    ("sulfonium", "[SX3+]"),
    ("primary amine", "[NX3;H2;+0;$(N[#6]);!$(N~*=[O,S,N])]"),
    ("secondary amine", "[NX3;H1;+0;$(N([#6])[#6]);!$(N~*=[O,S,N])]"),
    ("tertiary amine", "[NX3;H0;+0;$(N([#6])([#6])[#6]);!$(N~*=[O,S,N])]"),
    ("alcohol", "[OX2H1;$(O[CX4])]"),
    ("phenol", "[OX2H1;$(Oc)]"),
    ("ether", "[OX2H0;$(O([#6])[#6]);!$(OC=[O,S])]"),
    ("disulfide", "[SX2][SX2]"),
    ("thiol", "[SX2H1]"),
    ("thioether", "[SX2H0;$(S([#6])[#6])]"),
    ("trifluoromethyl", "[CX4](F)(F)F"),
    ("fluoro", "[F;$(F[#6])]"),
    ("chloro", "[Cl;$(Cl[#6])]"),
    ("bromo", "[Br;$(Br[#6])]"),
    ("iodo", "[I;$(I[#6])]"),
    ("alkene", "[CX3]=[CX3]"),
    ("alkyne", "[CX2]#[CX2]"),
)
"""Functional groups as SMARTS. A group comes before those that it contains: atoms of an ester are not a ketone."""


@dataclass(frozen=True)
class Fragment:
    """Some atoms of a molecule that belong together."""

    name: str
    """Its name: that of a functional group, else its SMILES."""
    kind: str
    """The way of cutting: `component`, `ring`, `functional group` or `BRICS`."""
    atoms: tuple[int, ...]
    """Its atoms in ascending order, numbered as in the molecule."""


def fragments(molecule: Chem.Mol) -> list[Fragment]:
    """All parts of a molecule by every way of cutting; parts of different ways, and functional groups, may overlap.

        component           what is connected by bonds, such as the ions of a salt; the molecule where it is one piece
        ring                rings that share an atom are one system
        functional group    `GROUPS`; what lies within a group found before is not counted again
        BRICS               what is left when the bonds are cut that synthesis would make; none where there are none

    Args:
        molecule: as RDKit has read it.

    Source: BRICS is Degen et al. 2008, "On the art of compiling and using 'drug-like' chemical fragment spaces".

    >>> molecule = Chem.MolFromSmiles("CC(=O)Nc1ccccc1")
    >>> [(part.kind, part.name) for part in fragments(molecule)][1:3]
    [('ring', 'c1ccccc1'), ('functional group', 'amide')]
    """
    with rdBase.BlockLogs():
        components = _distinct(Chem.GetMolFrags(molecule))
        parts_by_kind = [(COMPONENT, atoms) for atoms in components]
        parts_by_kind += [(RING, atoms) for atoms in _ring_systems(molecule)]
        parts = [Fragment(_smiles(molecule, atoms), way, atoms) for way, atoms in parts_by_kind]
        parts += [Fragment(name, GROUP, atoms) for name, atoms in _groups(molecule)]
        pieces = [atoms for atoms in _pieces(molecule) if atoms not in components]
        return parts + [Fragment(_smiles(molecule, atoms), PIECE, atoms) for atoms in pieces]


def _smiles(molecule: Chem.Mol, atoms: tuple[int, ...]) -> str:
    return Chem.MolFragmentToSmiles(molecule, atomsToUse=list(atoms))


def _distinct(groups: Iterable[Iterable[int]]) -> list[tuple[int, ...]]:
    """Each group once, its atoms in ascending order, by the first atom."""
    return sorted({tuple(sorted(atoms)) for atoms in groups})


def _ring_systems(molecule: Chem.Mol) -> list[tuple[int, ...]]:
    systems: list[set[int]] = []
    for ring in molecule.GetRingInfo().AtomRings():
        joined = set(ring).union(*(system for system in systems if not system.isdisjoint(ring)))
        systems = [system for system in systems if system.isdisjoint(ring)] + [joined]
    return _distinct(systems)


def _groups(molecule: Chem.Mol) -> list[tuple[str, tuple[int, ...]]]:
    groups: list[tuple[str, tuple[int, ...]]] = []
    for name, pattern in _patterns():
        for atoms in _distinct(molecule.GetSubstructMatches(pattern)):
            if not any(set(atoms) <= set(before) for _, before in groups):
                groups.append((name, atoms))
    return groups


@cache
def _patterns() -> tuple[tuple[str, Chem.Mol], ...]:
    return tuple((name, Chem.MolFromSmarts(smarts)) for name, smarts in GROUPS)


def _pieces(molecule: Chem.Mol) -> list[tuple[int, ...]]:
    """The parts after the bonds of BRICS are cut."""
    ends = [atoms for atoms, _ in BRICS.FindBRICSBonds(molecule)]
    if not ends:
        return []
    bonds = [molecule.GetBondBetweenAtoms(*atoms).GetIdx() for atoms in ends]
    return _distinct(Chem.GetMolFrags(Chem.FragmentOnBonds(molecule, bonds, addDummies=False)))
