"""Molecules without a part: real ones, whose open bonds hydrogen takes."""

import pytest
from rdkit import Chem

from edgewise.learn.readers.molecules.simulate import demo_table
from edgewise.learn.readers.molecules.variants import (
    contracted,
    environments,
    inverted,
    variants,
    with_bonds_cut,
    without,
)


def written(molecule):
    return None if molecule is None else Chem.MolToSmiles(molecule)


@pytest.mark.parametrize(
    ("smiles", "atoms", "left"),
    [
        ("CCO", [2], "CC"),
        ("CCO", [1], "C.O"),
        ("CCO", [0, 1, 2], None),
        ("CC(=O)O", [2], "CCO"),
        ("c1ccncc1", [3], "C=CC=CC"),
        ("C[n+]1ccccc1", [0], "c1cc[nH+]cc1"),
        ("CC[N+](=O)[O-]", [4], "CCN=O"),  # charges that balanced each other go together
        ("CC[N+](=O)[O-]", [3, 4], "CCN"),
        ("C[n+]1ccccc1[O-]", [7], "C[n+]1ccccc1"),
        ("CS(C)(=O)=O", [3], "CS(C)=O"),
        ("C[S+](C)[O-]", [3], "CSC"),
        ("[O-]Cl(=O)(=O)=O", [2], "[O-][Cl+2]([O-])[O-]"),  # of the charges of several, that of one
        ("[O-]Br(=O)=O", [0], "[O-][Br+][O-]"),
        ("OCl(=O)(=O)=O", [2, 3], "[O-][Cl+]O"),
        ("F[B-](F)(F)F", [0], "F[BH-](F)F"),
        ("[Na+].[Cl-]", [0], "[Cl-]"),
        ("F/C=C/Cl", [0], "C=CCl"),
        ("C[C@H](O)Cl", [0], "OCCl"),
    ],
)
def test_hydrogen_takes_the_place_of_what_is_removed(smiles, atoms, left):
    assert written(without(Chem.MolFromSmiles(smiles), atoms)) == left


@pytest.mark.parametrize(
    ("smiles", "atom", "left"), [("C[C@](F)(Cl)Br", 0, "F[C@@H](Cl)Br"), ("CC[C@](F)(Cl)Br", 0, "C[C@](F)(Cl)Br")]
)
def test_what_stays_chiral_keeps_its_hand(smiles, atom, left):
    assert written(without(Chem.MolFromSmiles(smiles), [atom])) == left


def test_a_shorter_chain_keeps_its_hand():
    for text, shorter in (("CC[C@](F)(Cl)Br", "C[C@](F)(Cl)Br"), ("F[C@@](Cl)(CC)Br", "F[C@@](Cl)(C)Br")):
        molecule = Chem.MolFromSmiles(text)
        middle = next(atom.GetIdx() for atom in molecule.GetAtoms() if atom.GetDegree() == 2)
        assert written(contracted(molecule, middle)) == Chem.CanonSmiles(shorter)
    assert contracted(Chem.MolFromSmiles("C1CC1"), 0) is None
    assert contracted(Chem.MolFromSmiles("c1ccccc1"), 0) is None
    assert contracted(Chem.MolFromSmiles("CC=O"), 1) is None


RINGS = ["Cc1ccccc1", "Cc1ccc(C)cc1", "c1ccncc1", "c1ccc2ccccc2c1", "c1ccc(cc1)-c1ccccc1", "c1ccc2cc3ccccc3cc2c1"]


@pytest.mark.parametrize("smiles", RINGS)
def test_atoms_and_bonds_of_aromatic_rings_that_are_alike_leave_the_same(smiles):
    """RDKit draws their double bonds in one of several ways, by the order of the atoms."""
    molecule, left = Chem.MolFromSmiles(smiles), {}
    for order in (range(molecule.GetNumAtoms()), range(molecule.GetNumAtoms() - 1, -1, -1)):
        other = Chem.RenumberAtoms(molecule, list(order))
        classes = list(Chem.CanonicalRankAtoms(other, breakTies=False))
        for atom, of_atom in enumerate(classes):
            left.setdefault(of_atom, set()).add(written(without(other, [atom])))
        for bond in other.GetBonds():
            of_bond = frozenset((classes[bond.GetBeginAtomIdx()], classes[bond.GetEndAtomIdx()]))
            left.setdefault(of_bond, set()).add(written(with_bonds_cut(other, [bond.GetIdx()])))
    assert all(len(texts) == 1 for texts in left.values())


def test_what_is_left_of_aromatic_rings_is_as_aromatic_as_it_can_be():
    naphthalene = Chem.MolFromSmiles("c1ccc2ccccc2c1")
    assert written(without(naphthalene, [1])) == "C=Cc1ccccc1C"
    assert written(without(naphthalene, [2])) == "CC=Cc1ccccc1"
    assert written(without(naphthalene, [0, 1, 2, 9])) == "c1ccccc1"
    fullerene = Chem.MolFromSmiles(
        "c12c3c4c5c1c1c6c7c2c2c8c3c3c9c4c4c%10c5c5c1c1c6c6c%11c7c2c2c7c8c3c3c8c9c4c4c9c%10c5c5c1c1c6c6c%11c2c2c7c3c3c8"
        "c4c4c9c5c1c1c6c2c3c41"
    )
    assert without(fullerene, range(0, 60, 2)) is not None  # not all of 2³⁰ ways are tried


def test_cut_bonds():
    assert written(with_bonds_cut(Chem.MolFromSmiles("C1CCCCC1"), [0])) == "CCCCCC"
    assert written(with_bonds_cut(Chem.MolFromSmiles("C[N+](=O)[O-]"), [2])) == "CN=O.O"
    assert written(with_bonds_cut(Chem.MolFromSmiles("[O-]Cl(=O)(=O)=O"), [1])) == "O.[O-][Cl+2]([O-])[O-]"


def test_variants_do_not_depend_on_the_writing_and_can_all_be_read():
    for smiles in demo_table(40, seed=3).smiles:
        molecule = Chem.MolFromSmiles(smiles)
        texts = variants(molecule)
        order = list(range(molecule.GetNumAtoms()))[::-1]
        assert variants(Chem.RenumberAtoms(molecule, order)) == texts
        assert all(Chem.MolFromSmiles(text) is not None for text in texts)
        for atom in order:
            assert without(molecule, [atom]) is not None


def test_atoms_are_alike_where_their_neighborhoods_are():
    first, second, third, oxygen = environments(Chem.MolFromSmiles("CCCO"))
    assert first[:1] == second[:1] == third[:1] != oxygen[:1]
    assert second[:2] == third[:2] and second[2] != third[2]
    assert environments(Chem.MolFromSmiles("OCCC")) == [oxygen, third, second, first]
    assert environments(Chem.MolFromSmiles("C"), 1) != environments(Chem.MolFromSmiles("C"))


def test_mirror_images_differ_in_the_center_alone_and_are_variants_of_each_other():
    one, other = (Chem.MolFromSmiles(text) for text in ("C[C@H](F)CCl", "C[C@@H](F)CCl"))
    alike = [a == b for a, b in zip(environments(one), environments(other), strict=True)]
    assert alike == [True, False, True, True, True]
    assert [len(keys) for keys in environments(one)] == [3, 4, 3, 3, 3]
    assert Chem.MolToSmiles(other) in variants(one) and Chem.MolToSmiles(one) in variants(other)
    assert written(inverted(one, 1)) == Chem.MolToSmiles(other)
    assert inverted(one, 0) is None and inverted(Chem.MolFromSmiles("CC(F)CCl"), 1) is None
