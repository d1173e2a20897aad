"""Real molecules like a given one: without some of its atoms, with bonds cut, with a carbon in the place of an atom, or
with the other arrangement around one.

Where a bond is cut, hydrogen takes its place.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice

from edgewise.errors import MissingExtraError

try:
    from rdkit import Chem, rdBase
except ImportError as error:
    raise MissingExtraError("rdkit", "molecules") from error

MAX_TRIES, MAX_FORMS = 64, 16
"""Sets of cut bonds that may be double, and ways to draw all double bonds of aromatic rings, at most: those of a few
atoms that are removed are all tried."""


def without(molecule: Chem.Mol, atoms: Collection[int]) -> Chem.Mol | None:
    """The molecule without some atoms; hydrogen is bonded in their place.

    An aromatic ring that loses an atom keeps its double bonds, but not its aromaticity. Where its double bonds can be
    drawn in several ways, that one counts which leaves the most aromatic atoms, then the one whose SMILES comes first:
    atoms that are alike leave the same molecule, however it is written. An atom whose charge balanced
    that of a removed neighbor, as in a nitro group, becomes neutral, and an atom of high valence gets a lower one: a
    sulfone without one of its oxygens is a sulfoxide. What is left may be several molecules.

    Args:
        molecule: as RDKit has read it.
        atoms: the numbers of the atoms to remove.

    Returns:
        None if nothing is left, or RDKit cannot make the rest a molecule.

    >>> Chem.MolToSmiles(without(Chem.MolFromSmiles("CCOC"), [2]))
    'C.CC'
    >>> Chem.MolToSmiles(without(Chem.MolFromSmiles("CC[N+](=O)[O-]"), [4]))
    'CCN=O'
    """
    removed = set(atoms)
    cut = [bond for bond in molecule.GetBonds() if (_first(bond) in removed) != (_second(bond) in removed)]
    return _capped(molecule, cut, removed)


def with_bonds_cut(molecule: Chem.Mol, bonds: Collection[int]) -> Chem.Mol | None:
    """The molecule with some bonds replaced by a hydrogen at each of their ends.

    >>> Chem.MolToSmiles(with_bonds_cut(Chem.MolFromSmiles("CC=O"), [1]))
    'CC.O'
    """
    return _capped(molecule, [molecule.GetBondWithIdx(bond) for bond in bonds], set())


def contracted(molecule: Chem.Mol, atom: int) -> Chem.Mol | None:
    """The molecule without an atom between two others, which are bonded instead: a chain or a ring that is shorter.

    Returns:
        None unless the atom has two neighbors, single bonds to them, and is neither aromatic nor in a ring of three.

    >>> Chem.MolToSmiles(contracted(Chem.MolFromSmiles("CCOC"), 2))
    'CCC'
    """
    center = molecule.GetAtomWithIdx(atom)
    bonds = center.GetBonds()
    if len(bonds) != 2 or any(bond.GetBondType() != Chem.BondType.SINGLE for bond in bonds):
        return None
    first, second = (neighbor.GetIdx() for neighbor in center.GetNeighbors())
    if molecule.GetBondBetweenAtoms(first, second) is not None:
        return None

    edited = Chem.RWMol(molecule)
    for end in (first, second):
        _move_bond_to_end(edited.GetAtomWithIdx(end), atom)
    edited.AddBond(first, second, Chem.BondType.SINGLE)
    edited.RemoveAtom(atom)
    return _sanitized(edited)


def with_carbon(molecule: Chem.Mol, atom: int) -> Chem.Mol | None:
    """The molecule with a carbon in the place of another atom, with the same bonds.

    Returns:
        None if the atom is a carbon, or has bonds that a carbon cannot have.

    >>> Chem.MolToSmiles(with_carbon(Chem.MolFromSmiles("c1ccncc1"), 3))
    'c1ccccc1'
    """
    if molecule.GetAtomWithIdx(atom).GetAtomicNum() == 6:
        return None
    edited = _kekulized(molecule)
    center = edited.GetAtomWithIdx(atom)
    center.SetAtomicNum(6)
    center.SetFormalCharge(0)
    center.SetNumExplicitHs(0)
    center.SetNoImplicit(False)
    return _sanitized(edited)


def inverted(molecule: Chem.Mol, atom: int) -> Chem.Mol | None:
    """The molecule with the other arrangement around a stereo center.

    Returns:
        None if the arrangement of the atom is not known.

    >>> Chem.MolToSmiles(inverted(Chem.MolFromSmiles("C[C@H](F)Cl"), 1))
    'C[C@@H](F)Cl'
    """
    if not molecule.GetAtomWithIdx(atom).HasProp("_CIPCode"):
        return None
    edited = Chem.RWMol(molecule)
    edited.GetAtomWithIdx(atom).InvertChirality()
    return _sanitized(edited)


def variants(molecule: Chem.Mol) -> list[str]:
    """The canonical SMILES of molecules that lack a part of a molecule, each once, in alphabetical order.

    The two sides of each bond outside rings, each component, the molecule without each chain or ring atom that
    `contracted` can take out, with a carbon for each other atom, and with each stereo center `inverted`.

    >>> variants(Chem.MolFromSmiles("CCO"))
    ['C', 'CC', 'CCC', 'CO', 'O']
    """
    texts = {Chem.MolToSmiles(variant) for variant in _variants(molecule) if variant is not None}
    return sorted(texts - {Chem.MolToSmiles(molecule)})


def environments(molecule: Chem.Mol, column: int = 0) -> list[tuple[Hashable, ...]]:
    """What each atom is, from coarse to fine, as keys that are equal where atoms are alike.

        element, and whether it is aromatic
        the same with charge, hydrogens and hybridization
        element and hydrogens, and its neighbors by element and bond
        of a stereo center, element and whether it is R or S

    Args:
        molecule: as RDKit has read it.
        column: the place of the molecule in its row; molecules in other places have other keys.
    """
    atoms = [molecule.GetAtomWithIdx(number) for number in range(molecule.GetNumAtoms())]
    ends = [
        [(int(bond.GetBondType()), bond.GetOtherAtomIdx(atom.GetIdx())) for bond in atom.GetBonds()] for atom in atoms
    ]
    elements = [(column, atom.GetAtomicNum(), atom.GetIsAromatic()) for atom in atoms]
    hydrogens = [atom.GetTotalNumHs(includeNeighbors=True) for atom in atoms]
    kinds = [(atom.GetFormalCharge(), int(atom.GetHybridization())) for atom in atoms]
    neighbors = [tuple(sorted((order, elements[other]) for order, other in here)) for here in ends]
    marks = [
        ((element, atom.GetProp("_CIPCode")),) if atom.HasProp("_CIPCode") else ()
        for element, atom in zip(elements, atoms, strict=True)
    ]
    return [
        (element, (element, count, *kind), (element, count, around), *mark)
        for element, count, kind, around, mark in zip(elements, hydrogens, kinds, neighbors, marks, strict=True)
    ]


def _variants(molecule: Chem.Mol) -> Iterator[Chem.Mol | None]:
    components = Chem.GetMolFrags(molecule)
    if len(components) > 1:
        every_atom = set(range(molecule.GetNumAtoms()))
        for component in components:
            yield without(molecule, every_atom - set(component))
            yield without(molecule, component)

    rings = molecule.GetRingInfo()
    for bond in molecule.GetBonds():
        if not rings.NumBondRings(bond.GetIdx()):
            for side in _sides(molecule, _first(bond), _second(bond)):
                yield without(molecule, side)

    for atom in range(molecule.GetNumAtoms()):
        yield contracted(molecule, atom)
        yield with_carbon(molecule, atom)
        yield inverted(molecule, atom)


def _sides(molecule: Chem.Mol, first: int, second: int) -> tuple[set[int], set[int]]:
    """The atoms on each side of a bond that is in no ring."""
    return _reached(molecule, first, second), _reached(molecule, second, first)


def _reached(molecule: Chem.Mol, start: int, closed: int) -> set[int]:
    """The atoms that bonds lead to from one atom, without passing another."""
    reached, ends = {start}, [start]
    while ends:
        for neighbor in molecule.GetAtomWithIdx(ends.pop()).GetNeighbors():
            number = neighbor.GetIdx()
            if number != closed and number not in reached:
                reached.add(number)
                ends.append(number)
    return reached


def _capped(molecule: Chem.Mol, bonds: Sequence[Chem.Bond], removed: set[int]) -> Chem.Mol | None:
    """The molecule with some bonds replaced by hydrogens, without some atoms that only these join to the rest."""
    forms = [_capped_form(molecule, form, bonds, removed) for form in _kekule_forms(molecule, bonds)]
    left = [form for form in forms if form is not None]
    return min(left, key=_order_of_forms) if len(left) > 1 else next(iter(left), None)


def _order_of_forms(molecule: Chem.Mol) -> tuple[int, str]:
    """The most aromatic atoms first, then by the SMILES."""
    return -sum(atom.GetIsAromatic() for atom in molecule.GetAtoms()), Chem.MolToSmiles(molecule)


def _capped_form(
    molecule: Chem.Mol, edited: Chem.RWMol, bonds: Sequence[Chem.Bond], removed: set[int]
) -> Chem.Mol | None:
    """The same for one way to draw the double bonds of aromatic rings, which is `edited`."""
    count = molecule.GetNumAtoms()
    if bonds:
        labels, orders = [(0, 0)] * len(bonds), [Chem.BondType.SINGLE] * len(bonds)
        # As dummies that keep the place of the bond: the chirality of an atom depends on the order of its bonds.
        numbers = [bond.GetIdx() for bond in bonds]
        edited = Chem.RWMol(Chem.FragmentOnBonds(edited, numbers, dummyLabels=labels, bondTypes=orders))

    dropped = set(removed)
    charges = _charges_left(bonds, removed)
    bare = charges.keys() | {atom for bond in bonds for atom in _of_high_valence(bond)}
    for number in range(count, edited.GetNumAtoms()):
        cap = edited.GetAtomWithIdx(number)
        (neighbor,) = cap.GetNeighbors()
        cap.SetAtomicNum(1)
        neighbor.SetNoImplicit(False)
        if neighbor.GetIdx() in removed | bare:
            dropped.add(number)
    for number, charge in charges.items():
        edited.GetAtomWithIdx(number).SetFormalCharge(charge)
    for number in sorted(dropped, reverse=True):
        edited.RemoveAtom(number)
    return _sanitized(edited)


def _charges_left(bonds: Sequence[Chem.Bond], removed: set[int]) -> dict[int, int]:
    """The charge of each atom that stays and whose charge the other ends of cut bonds balance, without these.

    The chlorine of a perchlorate, [O-][Cl+3]([O-])([O-])[O-], has +2 without one of its oxygens.
    """
    charges: dict[int, int] = {}
    for bond in bonds:
        first, second = bond.GetBeginAtom(), bond.GetEndAtom()
        for end, other in ((first, second), (second, first)):
            charge, balance = end.GetFormalCharge(), other.GetFormalCharge()
            if charge * balance < 0 and end.GetIdx() not in removed:
                left = charges.get(end.GetIdx(), charge) + balance
                charges[end.GetIdx()] = left if left * charge > 0 else 0
    return charges


def _of_high_valence(bond: Chem.Bond) -> list[int]:
    """The ends of a double bond that use more than their lowest valence, such as the sulfur of a sulfone."""
    if bond.GetBondType() != Chem.BondType.DOUBLE:
        return []
    table = Chem.GetPeriodicTable()
    ends = bond.GetBeginAtom(), bond.GetEndAtom()
    return [end.GetIdx() for end in ends if end.GetTotalValence() > table.GetDefaultValence(end.GetAtomicNum()) > 0]


def _kekulized(molecule: Chem.Mol) -> Chem.RWMol:
    edited = Chem.RWMol(molecule)
    Chem.Kekulize(edited, clearAromaticFlags=True)
    return edited


def _kekule_forms(molecule: Chem.Mol, cut: Sequence[Chem.Bond]) -> list[Chem.RWMol]:
    """The molecule with double bonds in aromatic rings, once for each way in which bonds that are cut can be double.

    RDKit gives one of these forms, which depends on the order of the atoms; the others have the same atoms in double
    bonds, paired otherwise.
    """
    form = _kekulized(molecule)
    aromatic = [bond for bond in molecule.GetBonds() if bond.GetIsAromatic()]
    doubles = [bond for bond in aromatic if form.GetBondWithIdx(bond.GetIdx()).GetBondType() == Chem.BondType.DOUBLE]
    paired = {end for bond in doubles for end in (_first(bond), _second(bond))}
    ends = {bond.GetIdx(): (_first(bond), _second(bond)) for bond in aromatic}
    ends = {bond: pair for bond, pair in ends.items() if paired.issuperset(pair)}
    cut_bonds = [bond.GetIdx() for bond in cut if bond.GetIdx() in ends]
    if not cut_bonds:
        return [form]

    partners: dict[int, list[tuple[int, int]]] = {atom: [] for atom in paired}
    for bond, (first, second) in ends.items():
        if bond not in cut_bonds:
            partners[first].append((second, bond))
            partners[second].append((first, bond))
    forms = []
    for chosen in islice(_disjoint(cut_bonds, ends), MAX_TRIES):
        rest = _pairs(frozenset(paired.difference(*(ends[bond] for bond in chosen))), partners)
        if rest is None:
            continue
        other = Chem.RWMol(form)
        for bond in ends:
            order = Chem.BondType.DOUBLE if bond in chosen or bond in rest else Chem.BondType.SINGLE
            other.GetBondWithIdx(bond).SetBondType(order)
        forms.append(other)
    return forms[:MAX_FORMS] or [form]


def _disjoint(bonds: Sequence[int], ends: Mapping[int, tuple[int, int]]) -> Iterator[frozenset[int]]:
    """All sets of bonds, no two of which share an atom."""
    if not bonds:
        yield frozenset()
        return
    for others in _disjoint(bonds[1:], ends):
        yield others
        if not any(set(ends[bonds[0]]) & set(ends[other]) for other in others):
            yield others | {bonds[0]}


def _pairs(atoms: frozenset[int], partners: Mapping[int, Sequence[tuple[int, int]]]) -> frozenset[int] | None:
    """Bonds that join the atoms in pairs, each atom in one; None if that is impossible.

    Args:
        atoms: those to pair.
        partners: of each atom, others that it is bonded to, and the bonds.
    """
    if not atoms:
        return frozenset()
    free = {atom: [pair for pair in partners[atom] if pair[0] in atoms] for atom in atoms}
    atom = min(free, key=lambda one: len(free[one]))  # where there is least to choose, errors show at once
    for other, bond in free[atom]:
        rest = _pairs(atoms - {atom, other}, partners)
        if rest is not None:
            return rest | {bond}
    return None


def _move_bond_to_end(atom: Chem.Atom, neighbor: int) -> None:
    """Keeps the chirality of an atom whose bond to a neighbor is about to become its last one."""
    neighbors = [other.GetIdx() for other in atom.GetNeighbors()]
    if (len(neighbors) - 1 - neighbors.index(neighbor)) % 2:
        atom.InvertChirality()


def _sanitized(edited: Chem.RWMol) -> Chem.Mol | None:
    """The molecule without explicit hydrogens; None where it is empty, or RDKit refuses it."""
    if not edited.GetNumAtoms():
        return None
    molecule = edited.GetMol()
    with rdBase.BlockLogs():
        try:
            Chem.SanitizeMol(molecule)
            molecule = Chem.RemoveHs(molecule, _hydrogens())
        except (Chem.MolSanitizeException, ValueError, RuntimeError):
            return None
        Chem.AssignStereochemistry(molecule, cleanIt=True, force=True)
    return molecule


@cache
def _hydrogens() -> Chem.RemoveHsParameters:
    """Hydrogens that only a mark of stereo keeps are removed, too."""
    parameters = Chem.RemoveHsParameters()
    parameters.removeDefiningBondStereo = True  # type: ignore[assignment]
    parameters.showWarnings = False  # type: ignore[assignment]
    return parameters


def _first(bond: Chem.Bond) -> int:
    return bond.GetBeginAtomIdx()


def _second(bond: Chem.Bond) -> int:
    return bond.GetEndAtomIdx()
