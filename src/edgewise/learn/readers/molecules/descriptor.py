"""RDKit's descriptors of a whole molecule: which of them models take, and their values."""

import inspect
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial

import numpy as np
import numpy.typing as npt
from jaxtyping import Float64

from edgewise.errors import MissingExtraError

try:
    from rdkit import Chem, rdBase
    from rdkit.Chem import Descriptors, Fragments, MolSurf, rdMolDescriptors, rdPartialCharges
    from rdkit.Chem.EState import EState_VSA
except ImportError as error:
    raise MissingExtraError("rdkit", "molecules") from error

# RDKit computes the same electrotopological indices again for each of these unless it caches them.
_REMEMBERING = ("MaxAbsEStateIndex", "MaxEStateIndex", "MinAbsEStateIndex", "MinEStateIndex")
# `qed` is a mixture of other columns that takes a sixth of the time of all; the information indices take many
# seconds for a molecule of 200 atoms.
_LEFT_OUT = ("qed", "Ipc", "AvgIpc")
_FUNCTIONS: dict[str, Callable[..., float]] = {
    name: partial(function, force=False) if name in _REMEMBERING else function
    for name, function in Descriptors.descList
    if name not in _LEFT_OUT
}
# Indices of a graph's shape take half of the time. Without them forests and Gaussian processes predict as well, or
# better: docs/results/descriptors.txt.
_SLOW = re.compile(r"BCUT2D|BertzCT|SPS|BalabanJ|Chi|Kappa|Phi|HallKierAlpha|FpDensity")
DESCRIPTOR_NAMES: tuple[str, ...] = tuple(name for name in _FUNCTIONS if not _SLOW.match(name))
"""The name of each column of `MoleculeGraph.graph_features`: descriptors of the installed RDKit."""
AVAILABLE = frozenset(_FUNCTIONS)
"""All descriptors that can be computed, more than `DESCRIPTOR_NAMES`."""
_FAILURES = (ArithmeticError, LookupError, RuntimeError, ValueError)
"""Errors of RDKit's Python and C++ descriptors for molecules that they do not support."""


def descriptors(molecule: Chem.Mol, names: tuple[str, ...] = DESCRIPTOR_NAMES) -> Float64[np.ndarray, " feature"]:
    """RDKit's descriptors of the whole molecule, raw, in the order of the names.

    NaN where RDKit fails or its value is not finite.

    Cost: about a millisecond for a drug.
    """
    values = np.zeros(len(names))
    if not names:
        return values
    with rdBase.BlockLogs():
        atoms = [molecule.GetAtomWithIdx(number) for number in range(molecule.GetNumAtoms())]
        with suppress(*_FAILURES):
            # Where RDKit looks before slow loops of its own.
            molecule.__dict__["_eStateIndices"] = _electrotopological(molecule, atoms)
            molecule.__dict__["_chargeDescriptors"] = _charges(molecule, atoms)
        symbols = _symbols(molecule, atoms)
        for columns, function, needed in _plan(names):
            if needed <= symbols:
                try:
                    values[columns] = function(molecule)
                except _FAILURES:
                    values[columns] = np.nan

    values[~np.isfinite(values)] = np.nan
    return values


def _symbols(molecule: Chem.Mol, atoms: Sequence[Chem.Atom]) -> set[str]:
    """The symbols of the atoms, lower where they are aromatic, and those of each two that a bond joins."""
    symbols = [atom.GetSymbol().lower() if atom.GetIsAromatic() else atom.GetSymbol() for atom in atoms]
    bonds = (molecule.GetBondWithIdx(number) for number in range(molecule.GetNumBonds()))
    ends = ((symbols[bond.GetBeginAtomIdx()], symbols[bond.GetEndAtomIdx()]) for bond in bonds)
    return {*symbols, *map(_joined, set(ends))}


def _joined(ends: tuple[str, str]) -> str:
    return "-".join(sorted(ends))


def _electrotopological(molecule: Chem.Mol, atoms: Sequence[Chem.Atom]) -> Float64[np.ndarray, " atom"]:
    """Each atom's index S_i = I_i + Σ_j (I_i − I_j) / (d_ij + 1)² with I = (4 v / N² + 1) / δ.

    v are an atom's valence electrons without those of hydrogens, N is its principal quantum number, δ counts its
    neighbors, and d the bonds between two atoms.

    Source: Hall, Mohney and Kier, J. Chem. Inf. Comput. Sci. 31 (1991) 76.
    """
    properties = np.array(
        [(*_shells(atom.GetAtomicNum()), atom.GetTotalNumHs(), atom.GetDegree()) for atom in atoms], float
    )
    electrons, quantum, hydrogens, degrees = properties.reshape(-1, 4).T
    intrinsic = np.where(degrees > 0, (4 / quantum**2 * (electrons - hydrogens) + 1) / np.maximum(degrees, 1), 0.0)
    apart = Chem.GetDistanceMatrix(molecule) + 1
    return intrinsic + ((intrinsic[:, None] - intrinsic) / apart**2 * (apart < 1e6)).sum(1)


def _charges(molecule: Chem.Mol, atoms: Sequence[Chem.Atom]) -> tuple[float, float]:
    """The least and the largest partial charge by Gasteiger and Marsili, as RDKit writes them."""
    rdPartialCharges.ComputeGasteigerCharges(molecule)
    least, largest = 500.0, -500.0
    for charge in (atom.GetDoubleProp("_GasteigerCharge") for atom in atoms):
        # In this order, as some charges of metals are NaN.
        least, largest = min(charge, least), max(charge, largest)
    return least, largest


def _crippen(molecule: Chem.Mol) -> Float64[np.ndarray, " feature"]:
    """MolLogP, MolMR, SMR_VSA and SlogP_VSA: sums of what each atom adds, over all atoms, and of the surface of those
    that add alike.

    What an atom other than hydrogen adds does not depend on whether its hydrogens are atoms of the graph, too.
    RDKit looks for the types of atoms once with and once without them.
    """
    every = np.array(rdMolDescriptors._CalcCrippenContribs(Chem.AddHs(molecule))).reshape(-1, 2)
    areas = np.array(rdMolDescriptors._CalcLabuteASAContribs(molecule)[0])
    logp, refraction = every[: len(areas)].T
    # In turn, as RDKit sums: `sum` has another order, and other last digits.
    sums = every.cumsum(0)[-1] if len(every) else np.zeros(2)
    return np.concatenate([sums, _binned(refraction, areas, MolSurf.mrBins), _binned(logp, areas, MolSurf.logpBins)])


def _electrotopological_areas(molecule: Chem.Mol) -> Float64[np.ndarray, " feature"]:
    """EState_VSA and VSA_EState: the surface of atoms of alike index, and the indices of atoms of alike surface."""
    indices = molecule.__dict__["_eStateIndices"]
    areas = np.array(rdMolDescriptors._CalcLabuteASAContribs(molecule)[0])
    return np.concatenate([_binned(indices, areas, EState_VSA.estateBins), _binned(areas, indices, EState_VSA.vsaBins)])


def _binned(values: np.ndarray, added: np.ndarray, bounds: Sequence[float]) -> Float64[np.ndarray, " bin"]:
    return np.bincount(np.searchsorted(bounds, values, "right"), added, len(bounds) + 1)


def _valence_electrons(molecule: Chem.Mol) -> int:
    atoms = (molecule.GetAtomWithIdx(number) for number in range(molecule.GetNumAtoms()))
    return sum(_shells(atom.GetAtomicNum())[0] - atom.GetFormalCharge() + atom.GetTotalNumHs() for atom in atoms)


# What RDKit computes together, or we do with less work, it computes again for each of these names alone.
_GROUPED: tuple[tuple[tuple[str, ...], Callable[[Chem.Mol], npt.ArrayLike]], ...] = (
    (tuple(f"PEOE_VSA{number}" for number in range(1, 15)), rdMolDescriptors.PEOE_VSA_),
    (
        (
            "MolLogP",
            "MolMR",
            *(f"SMR_VSA{number}" for number in range(1, 11)),
            *(f"SlogP_VSA{number}" for number in range(1, 13)),
        ),
        _crippen,
    ),
    (
        (
            *(f"EState_VSA{number}" for number in range(1, 12)),
            *(f"VSA_EState{number}" for number in range(1, 11)),
        ),
        _electrotopological_areas,
    ),
    (("NumValenceElectrons",), _valence_electrons),
)


@cache
def _shells(number: int) -> tuple[int, int]:
    """The number of outer electrons of an element, and their shell."""
    return Chem.GetPeriodicTable().GetNOuterElecs(number), 1 + bisect_left((2, 10, 18, 36, 54, 86), number)


@cache
def _plan(names: tuple[str, ...]) -> list[tuple[list[int] | int, Callable[[Chem.Mol], npt.ArrayLike], frozenset[str]]]:
    """Each function, the columns of its values, and the `_symbols` without which it is 0."""
    column_of_name = {name: column for column, name in enumerate(names)}
    plan = list[tuple[list[int] | int, Callable[[Chem.Mol], npt.ArrayLike], frozenset[str]]]()
    for group, function in _GROUPED:
        if column_of_name.keys() >= set(group):
            plan.append(([column_of_name.pop(name) for name in group], function, frozenset()))
    patterns = {name: inspect.signature(function).parameters["pattern"].default for name, function in Fragments.fns}
    for name, column in column_of_name.items():
        plan.append((column, _FUNCTIONS[name], _needed(patterns[name]) if name in patterns else frozenset()))
    return plan


def _needed(pattern: Chem.Mol) -> frozenset[str]:
    """The `_symbols` of every molecule in which a pattern occurs."""
    symbols = [_symbol(atom) for atom in pattern.GetAtoms()]
    ends = ((symbols[bond.GetBeginAtomIdx()], symbols[bond.GetEndAtomIdx()]) for bond in pattern.GetBonds())
    return frozenset({*filter(None, symbols), *(_joined((one, other)) for one, other in ends if one and other)})


_SYMBOL = re.compile(r"\[?(Cl|Br|[BCNOSPFI]|[cnosp])(?![a-z])")


def _symbol(atom: Chem.Atom) -> str | None:
    """The symbol of every atom that an atom of a pattern matches, lower where it is aromatic; None where several do."""
    text = atom.GetSmarts()
    either, start = "," in text, _SYMBOL.match(text)
    if start is None or (either and ("$" in text or "," in text.partition(";")[0])):
        return None
    return start[1]
