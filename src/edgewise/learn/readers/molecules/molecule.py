"""Molecules as they are written: SMILES and InChI → RDKit's molecule, and the characters each atom came from."""

import re
import unicodedata

from edgewise.errors import DataError, MissingExtraError
from edgewise.learn.readers.molecules.descriptor import DESCRIPTOR_NAMES as DESCRIPTOR_NAMES
from edgewise.learn.readers.molecules.descriptor import descriptors as descriptors
from edgewise.learn.readers.molecules.feature import EDGE_FEATURE_NAMES as EDGE_FEATURE_NAMES
from edgewise.learn.readers.molecules.feature import NODE_FEATURE_NAMES as NODE_FEATURE_NAMES
from edgewise.learn.readers.molecules.limits import MAX_ATOMS

try:
    from rdkit import Chem, rdBase
    from rdkit.Chem.Scaffolds import MurckoScaffold
except ImportError as error:
    raise MissingExtraError("rdkit", "molecules") from error

_ATOM_PATTERN = re.compile(r"\[[^\]]*\]|Br|Cl|[BCNOSPFIbcnosp*]")
INCHI = "InChI="
"""How an InChI begins."""
CHARACTERS_PER_ATOM = 50
"""Longer cells are rejected unread: 50 characters an atom leave room for isotopes, maps and coordinates."""
_WHITESPACE = " \t\r\n"
_NOT_SMILES = re.compile(r"[^ -~\t\r\n]")
_LOG_STAMP = re.compile(r"^\[\d\d:\d\d:\d\d\] ")


def read_molecule(smiles: str) -> Chem.Mol:
    """The RDKit molecule that a SMILES string writes, atoms in the order of the string, without atom-map numbers.

    Args:
        smiles: one SMILES string, `"A.B"` for several fragments; an extended part (`|...|`) may follow.

    Returns:
        The sanitized molecule, explicit `[H]` atoms merged into their neighbors as RDKit does.

    Raises:
        DataError: the string is empty, holds a character beyond printable ASCII, has trailing text after the SMILES, or
            RDKit cannot read it; the message ends in RDKit's reason.
    """
    text = smiles.strip(_WHITESPACE)
    # RDKit drops some of these characters and reads the rest as another molecule, and fails in decoding its own log.
    not_ascii = _NOT_SMILES.search(text)
    if not_ascii is not None:
        name = unicodedata.name(not_ascii[0], "a control character" if ord(not_ascii[0]) < 256 else "no character")
        position = smiles.index(not_ascii[0]) + 1
        raise DataError(
            f"{smiles!r} is not a SMILES: character {position} is U+{ord(not_ascii[0]):04X} ({name}), but SMILES are "
            "written in ASCII; replace it or delete it."
        )
    if not text:
        raise DataError("The SMILES is empty, expected one molecule.")

    written, trailing = [*text.split(maxsplit=1), ""][:2]
    if trailing and not trailing.startswith("|"):
        raise DataError(
            f"{smiles!r} has trailing text after the SMILES {written!r}: move {trailing!r} to a column of its own."
        )

    molecule, reason = _parse(text)
    if molecule is None:
        raise DataError(f"{smiles!r} is not a SMILES that RDKit can read: {reason}")
    if molecule.GetNumAtoms() == 0:
        raise DataError(f"{smiles!r} is a molecule without atoms; expected at least one.")

    _clear_map_numbers(molecule)
    return molecule


def is_inchi(text: str) -> bool:
    """Whether a text is an InChI by its beginning, which no SMILES has."""
    return text.lstrip(_WHITESPACE).startswith(INCHI)


def as_smiles(text: str, max_atoms: int = MAX_ATOMS) -> str:
    """The canonical SMILES of an InChI; any other text as it is.

    Raises:
        DataError: RDKit cannot read it, it is longer than `max_atoms` atoms may be, or RDKit was built without InChI.

    >>> as_smiles("InChI=1S/C2H6O/c1-2-3/h3H,2H2,1H3")
    'CCO'
    """
    if not is_inchi(text):
        return text
    text = text.strip(_WHITESPACE)
    shown = repr(text if len(text) <= 60 else text[:60] + "…")
    if not Chem.inchi.INCHI_AVAILABLE:
        raise DataError(f"{shown} is an InChI, which this build of RDKit cannot read: write the molecule as SMILES.")
    if len(text) > CHARACTERS_PER_ATOM * max_atoms:
        raise DataError(f"{shown} has {len(text):,} characters, too many for {max_atoms:,} atoms; raise --max-atoms.")

    with rdBase.BlockLogs():
        molecule = Chem.MolFromInchi(text) if text.isascii() else None
    if molecule is None or molecule.GetNumAtoms() == 0:
        raise DataError(f"{shown} is not an InChI that RDKit can read.")
    return Chem.MolToSmiles(molecule)


def count_atoms(smiles: str) -> int:
    """The number of atoms in a SMILES string, from its characters; without `[H]`, as it joins its neighbor.

    >>> count_atoms("[Na+].[Cl-]"), count_atoms("[H]OC%10CCCC%10"), count_atoms("C |c:0|")
    (2, 6, 1)
    """
    written = smiles.split(maxsplit=1)[0] if smiles.strip() else ""
    return sum(match.group() != "[H]" for match in _ATOM_PATTERN.finditer(written))


def canonical_smiles(smiles: str) -> str:
    """The one way RDKit writes this molecule, whichever way it was written.

    Raises:
        DataError: the string is not a molecule.
    """
    return Chem.MolToSmiles(read_molecule(smiles))


def murcko_scaffold(smiles: str) -> str:
    """Canonical SMILES of the ring systems and the linkers between them, without stereo; empty without rings.

    Raises:
        DataError: the string is not a molecule.

    Source: Bemis and Murcko, J. Med. Chem. 39 (1996) 2887.
    """
    with rdBase.BlockLogs():
        return MurckoScaffold.MurckoScaffoldSmiles(mol=read_molecule(smiles), includeChirality=False)


def _parse(text: str) -> tuple[Chem.Mol | None, str]:
    """The molecule, or None and RDKit's reason in one line; RDKit's own printing is silenced."""
    # Older RDKit releases cannot hand over what they log; they still say which chemistry is wrong.
    capture = getattr(rdBase, "CaptureErrorLog", None)
    with rdBase.BlockLogs():
        if capture is not None:
            with capture() as log:
                molecule = Chem.MolFromSmiles(text)
            lines = [_LOG_STAMP.sub("", line).strip() for line in log.messages.splitlines()]
        else:
            molecule, lines = Chem.MolFromSmiles(text), []
        if molecule is None and not lines:
            unchecked = Chem.MolFromSmiles(text, sanitize=False)
            lines = [] if unchecked is None else [p.Message() for p in Chem.DetectChemistryProblems(unchecked)]

    reasons = [line.removeprefix("SMILES Parse Error: ") for line in lines]
    return molecule, reasons[0].split(" for input:")[0] + "." if reasons else "the syntax is wrong."


def _clear_map_numbers(molecule: Chem.Mol) -> None:
    """Remove the numbers by which a reaction or a fragmentation names atoms, as in `[CH3:1]`: they are not a property
    of the molecule, but RDKit writes them."""
    mapped_atoms = [atom for atom in molecule.GetAtoms() if atom.GetAtomMapNum()]
    for atom in mapped_atoms:
        atom.SetAtomMapNum(0)
    if mapped_atoms:  # some atoms are stereo centers only by the numbers of their neighbors
        Chem.AssignStereochemistry(molecule, cleanIt=True, force=True)


def atom_characters(smiles: str, molecule: Chem.Mol) -> list[tuple[int, int]]:
    """First and one past the last character of each atom of `molecule` in the string it was read from."""
    start = len(smiles) - len(smiles.lstrip())
    stop = start + len(smiles[start:].split(maxsplit=1)[0])
    written = [match.span() for match in _ATOM_PATTERN.finditer(smiles, start, stop)]
    if len(written) == molecule.GetNumAtoms():
        return written

    # RDKit merged explicit hydrogens away: read again with them, number the atoms, and merge by the same rule.
    parameters = Chem.SmilesParserParams()
    parameters.removeHs = False  # type: ignore[assignment]
    with rdBase.BlockLogs():
        every_atom = Chem.MolFromSmiles(smiles.strip(), parameters)
        for atom in every_atom.GetAtoms():
            atom.SetIntProp("_edgewise_order", atom.GetIdx())
        kept_atoms = [atom.GetIntProp("_edgewise_order") for atom in Chem.RemoveHs(every_atom).GetAtoms()]

    if every_atom.GetNumAtoms() != len(written) or len(kept_atoms) != molecule.GetNumAtoms():
        raise DataError(f"The atoms of {smiles!r} cannot be matched with its characters: write it without extensions.")
    return [written[index] for index in kept_atoms]
