"""Where the atoms of a molecule are: one conformer, computed from its canonical SMILES and from nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float32, Float64

from edgewise.errors import MissingExtraError

try:
    from rdkit import Chem, rdBase
    from rdkit.Chem import rdDepictor, rdDistGeom, rdForceFieldHelpers
except ImportError as error:
    raise MissingExtraError("rdkit", "molecules") from error

How = Literal["relaxed", "retried", "unrelaxed", "flat", "late"]
HOWS: tuple[str, ...] = get_args(How)
"""How well the places are known, best first: embedded and relaxed in a force field; embedded at the second try, from
random places, and relaxed; embedded, with an atom that the force field does not know; drawn in the plane; drawn there
because embedding took longer than the time limit."""
MAX_ATOMS = 200
"""A fragment of more heavy atoms is drawn in the plane: embedding it would take minutes."""
APART = 100.0
"""Ångström between the fragments of one molecule: how they lie to each other is unknown, so they are not near."""
_SEED = 0
# Attempts; RDKit's own number grows with the atoms, and a long chain that fails would take half a minute.
_ATTEMPTS = 10


@dataclass(frozen=True, eq=False)
class Conformer:
    """One molecule in space."""

    coordinates: Float32[np.ndarray, " node space"]
    """Where each atom is, in ångström, in the order of the molecule."""
    how: How
    """How that was found; of several fragments, the worst."""


def drawn(molecule: Chem.Mol) -> Conformer:
    """A molecule drawn in the plane, because its conformer took too long."""
    return replace(conformer(molecule, is_embedded=False), how="late")


def conformer(molecule: Chem.Mol, *, is_embedded: bool = True) -> Conformer:
    """One conformer of a molecule that RDKit has read: hydrogens are added, embedded, relaxed, and left out again.

    The same molecule has the same conformer however it was written, and at every call. Each fragment, such as an ion
    of a salt, is embedded alone, and they lie `APART`. Where `is_embedded` is False, all are drawn in the plane.

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
            places, how = _places(fragment, is_embedded)
            places = places - places.mean(axis=0)
            places[:, 0] += end + APART - places[:, 0].min()
            end = float(places[:, 0].max())
            coordinates[list(atoms)] = places
            hows.append(how)
    # In the canonical order up to here: sums round alike however the molecule is written.
    found = np.empty_like(coordinates, dtype=np.float32)
    found[order] = coordinates - coordinates.mean(axis=0)
    return Conformer(found, max(hows, key=HOWS.index))


def conformer_note(hows: Sequence[How], names: Sequence[str]) -> str:
    """A note about molecules whose conformers were not found at once; empty where all were."""
    words: dict[How, str] = {
        "retried": "embedded at the second try",
        "unrelaxed": "embedded but not relaxed, with atoms that the force field lacks",
        "flat": "drawn in the plane, since they could not be embedded",
        "late": "drawn in the plane, since embedding takes longer than --molecule-timeout",
    }
    parts = []
    for how, what in words.items():
        found = [name for each, name in zip(hows, names, strict=True) if each == how]
        if found:
            parts.append(f"{len(found):,} {what} (first {found[0]})")
    return "; ".join(parts)


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


def _places(fragment: Chem.Mol, is_embedded: bool) -> tuple[Float64[np.ndarray, " node space"], How]:
    """Where the atoms of one fragment are, each by the first way that works."""
    num_atoms = fragment.GetNumAtoms()
    if is_embedded and fragment.GetNumHeavyAtoms() <= MAX_ATOMS:
        try:
            whole = Chem.AddHs(fragment)
            for random in (False, True):
                if _embed(whole, random):
                    how = _relax(whole, random)
                    return whole.GetConformer().GetPositions()[:num_atoms], how
        except (RuntimeError, ValueError):
            # What RDKit raises for molecules that its rules do not cover: they are drawn, and counted.
            pass
    flat = Chem.Mol(fragment)
    rdDepictor.Compute2DCoords(flat)
    return flat.GetConformer().GetPositions(), "flat"


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
