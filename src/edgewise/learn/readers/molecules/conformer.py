"""The coordinates of a molecule's atoms: one conformer, computed from its canonical SMILES alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float32, Float64

from edgewise.errors import MissingExtraError
from edgewise.learn.tables.cell import OK

try:
    from rdkit import Chem, rdBase
    from rdkit.Chem import rdDepictor, rdDistGeom, rdForceFieldHelpers
except ImportError as error:
    raise MissingExtraError("rdkit", "molecules") from error

How = Literal["relaxed", "retried", "unrelaxed", "flat", "late", "layered"]
HOWS: tuple[str, ...] = get_args(How)
"""How the coordinates were computed, best first: embedded and relaxed in a force field; embedded at the second try,
from random places, and relaxed; embedded, with an atom that the force field does not know; drawn in the plane; drawn
there because embedding took longer than the time limit; placed by counting bonds, because drawing took longer, too."""
WORDS: dict[How, str] = {
    "retried": "embedded at the second try",
    "unrelaxed": "embedded but not relaxed, with atoms that the force field lacks",
    "flat": "drawn in the plane, since {} could not be embedded",
    "late": "drawn in the plane, since embedding takes longer than --molecule-timeout",
    "layered": "placed by counting bonds, since drawing takes longer than --molecule-timeout",
}
"""Phrases about molecules that were not embedded and relaxed at once."""
BOND_LENGTH = 1.5
"""Ångström of a bond in molecules that are placed by counting bonds."""
MAX_ATOMS = 200
"""A fragment of more heavy atoms is drawn in the plane: embedding it would take minutes."""
APART = 100.0
"""Ångström between the fragments of one molecule: how they lie to each other is unknown, so they are not near."""
FLAT: tuple[How, ...] = ("flat", "late", "layered")
"""How molecules are placed whose shape in space is unknown."""
Place = Callable[[Chem.Mol], tuple[Float64[np.ndarray, " node space"], How]]
"""Computes the coordinates of a fragment's atoms, and how."""
_SEED = 0
# Attempts; RDKit's own number grows with the atoms, and a long chain that fails would take half a minute.
_ATTEMPTS = 10


@dataclass(frozen=True, eq=False)
class Conformer:
    """One molecule in space."""

    coordinates: Float32[np.ndarray, " node space"]
    """The coordinates of each atom, in ångström, in the order of the molecule."""
    how: How
    """How the coordinates were computed; the worst of several fragments."""


def drawn(molecule: Chem.Mol) -> Conformer:
    """A molecule drawn in the plane, because its conformer took too long."""
    return replace(conformer(molecule, place=_drawing), how="late")


def layered(molecule: Chem.Mol) -> Conformer:
    """A molecule with its atoms in rows by their number of bonds to the first atom, because even drawing it took too
    long.

    Cost: proportional to the atoms and bonds, but for writing and reading the molecule once.
    """
    return conformer(molecule, place=_layers)


def conformer(molecule: Chem.Mol, *, place: Place | None = None) -> Conformer:
    """One conformer of a molecule that RDKit has read: hydrogens are added, embedded, relaxed, and left out again.

    The same molecule has the same conformer however it was written, and at every call. Each fragment, such as an ion
    of a salt, is embedded alone, and they lie `APART`. `place` says where the atoms of a fragment are instead.

    Cost: milliseconds for a small molecule, seconds for 150 atoms, a minute for 200 in a chain; `bounded.conformers`
        bounds it.
    Source: embedding is Wang et al. 2020 (ETKDG, version 3), the force field Rappé et al. 1992 (UFF), with the 200
        steps that Maziarka et al. 2020 take.
    """
    written, order = _canonical(molecule)
    coordinates = np.zeros((molecule.GetNumAtoms(), 3))
    hows: list[How] = []

    end = -APART
    with rdBase.BlockLogs():
        members: list[tuple[int, ...]] = []
        fragments = Chem.GetMolFrags(written, asMols=True, fragsMolAtomMapping=members)
        for fragment, atoms in zip(fragments, members, strict=True):
            positions, how = (place or _embedding)(fragment)
            positions = positions - positions.mean(axis=0)
            positions[:, 0] += end + APART - positions[:, 0].min()
            end = float(positions[:, 0].max())
            coordinates[list(atoms)] = positions
            hows.append(how)

    # In the canonical order up to here: sums round alike however the molecule is written.
    sorted_coordinates = np.empty_like(coordinates, dtype=np.float32)
    sorted_coordinates[order] = coordinates - coordinates.mean(axis=0)
    return Conformer(sorted_coordinates, max(hows, key=HOWS.index))


def conformer_note(hows: Sequence[How], names: Sequence[str]) -> str:
    """A note about molecules whose conformers needed another way; empty without any."""
    parts = []
    for how, what in WORDS.items():
        affected = [name for how_of_molecule, name in zip(hows, names, strict=True) if how_of_molecule == how]
        if affected:
            parts.append(f"{len(affected):,} {what.format('they')} (first {affected[0]})")
    return "; ".join(parts)


def conformer_status(hows: Sequence[How], names: Sequence[str]) -> str:
    """The status of a row that is predicted from some molecules: `ok`, and which of them lack coordinates in space."""
    flat = [f"{name} was {WORDS[how].format('it')}" for how, name in zip(hows, names, strict=True) if how in FLAT]
    return "; ".join([OK, *flat])


def _canonical(molecule: Chem.Mol) -> tuple[Chem.Mol, np.ndarray]:
    """The molecule as its canonical SMILES writes it, and the atom of `molecule` that each of its atoms is."""
    copy = Chem.Mol(molecule)
    text = Chem.MolToSmiles(copy)
    order = np.array(list(copy.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"]), dtype=np.int64)
    with rdBase.BlockLogs():
        written = Chem.MolFromSmiles(text)
    if written is None or written.GetNumAtoms() != len(order):
        # What RDKit writes and cannot read again keeps the order it has.
        return copy, np.arange(copy.GetNumAtoms())
    return written, order


def _embedding(fragment: Chem.Mol) -> tuple[Float64[np.ndarray, " node space"], How]:
    """The coordinates of one fragment in space, by the first way that works."""
    if fragment.GetNumHeavyAtoms() <= MAX_ATOMS:
        try:
            with_hydrogens = Chem.AddHs(fragment)
            for random in (False, True):
                if _embed(with_hydrogens, random):
                    how = _relax(with_hydrogens, random)
                    return with_hydrogens.GetConformer().GetPositions()[: fragment.GetNumAtoms()], how
        except (RuntimeError, ValueError):
            # What RDKit raises for molecules that its rules do not cover: they are drawn, and counted.
            pass
    return _drawing(fragment)


def _drawing(fragment: Chem.Mol) -> tuple[Float64[np.ndarray, " node space"], How]:
    """The coordinates of one fragment, drawn in the plane."""
    flat = Chem.Mol(fragment)
    rdDepictor.Compute2DCoords(flat)
    return flat.GetConformer().GetPositions(), "flat"


def _layers(fragment: Chem.Mol) -> tuple[Float64[np.ndarray, " node space"], How]:
    """Coordinates by the number of bonds to the first atom, and by the number among the atoms at this distance."""
    positions = np.full((fragment.GetNumAtoms(), 3), -1.0)
    layer, depth = [0], 0
    while layer:
        positions[layer] = [(depth, number, 0) for number in range(len(layer))]
        neighbors = [neighbor.GetIdx() for atom in layer for neighbor in fragment.GetAtomWithIdx(atom).GetNeighbors()]
        layer, depth = [atom for atom in dict.fromkeys(neighbors) if positions[atom, 0] < 0], depth + 1
    return BOND_LENGTH * positions, "layered"


def _embed(molecule: Chem.Mol, random: bool) -> bool:
    parameters: Any = rdDistGeom.ETKDGv3()
    parameters.randomSeed = _SEED
    parameters.maxIterations = _ATTEMPTS
    parameters.useRandomCoords = random
    return rdDistGeom.EmbedMolecule(molecule, parameters) == 0


def _relax(molecule: Chem.Mol, random: bool) -> How:
    if not rdForceFieldHelpers.UFFHasAllMoleculeParams(molecule):
        return "unrelaxed"
    rdForceFieldHelpers.UFFOptimizeMolecule(molecule)
    return "retried" if random else "relaxed"
