"""The table that is made on the spot."""

import pytest
from rdkit import Chem
from rdkit.Chem import Crippen
from rdkit.Chem.rdMolDescriptors import CalcNumRings

from edgewise.errors import DataError, SettingError
from edgewise.learn.readers.molecules import simulate as grammar
from edgewise.learn.readers.molecules.molecule import canonical_smiles, murcko_scaffold
from edgewise.learn.readers.molecules.simulate import atom_contributions, demo_table


@pytest.fixture(scope="module")
def table():
    return demo_table()


def share(table, test) -> float:
    return sum(map(test, table["smiles"])) / len(table)


def test_rows_are_distinct_molecules_with_many_scaffolds(table):
    assert list(table.columns) == ["smiles", "crippen_logp"]
    assert len(table) == 3000
    assert table["smiles"].nunique() == 3000
    assert len({murcko_scaffold(smiles) for smiles in table["smiles"]}) >= 1000
    assert all(canonical_smiles(smiles) == smiles for smiles in table["smiles"][:300])


def test_a_tenth_or_more_has_each_trait(table):
    assert share(table, lambda smiles: "@" in smiles) >= 0.1
    assert share(table, lambda smiles: "+]" in smiles or "-]" in smiles) >= 0.1
    assert share(table, lambda smiles: any(halogen in smiles for halogen in ("F", "Cl", "Br", "I"))) >= 0.1
    assert share(table, lambda smiles: "." in smiles) >= 0.1
    assert share(table, lambda smiles: "/" in smiles) >= 0.03
    assert share(table, lambda smiles: any(letter.isdigit() for letter in smiles)) >= 0.7


def test_ion_pairs_are_neutral(table):
    pairs = [smiles for smiles in table["smiles"] if "." in smiles and Chem.GetFormalCharge(Chem.MolFromSmiles(smiles))]
    # A carboxylate or an ammonium group within the cation is the exception.
    assert len(pairs) == 0


def test_the_label_is_crippens_logp_with_hydrogens(table):
    for smiles, label in zip(table["smiles"][:200], table["crippen_logp"][:200], strict=True):
        with_hydrogens = Crippen.MolLogP(Chem.AddHs(Chem.MolFromSmiles(smiles)), includeHs=False)
        assert label == pytest.approx(with_hydrogens, abs=1e-9)


def test_some_rows_have_no_ring_at_all(table):
    alone = [smiles for smiles in table["smiles"] if "." not in smiles]
    bare = [smiles for smiles in alone if CalcNumRings(Chem.MolFromSmiles(smiles)) == 0]
    assert 0.08 <= len(bare) / len(alone) <= 0.16


RINGS = (*grammar.AROMATIC_RINGS, *grammar.SATURATED_RINGS)
# Each piece where the grammar puts it: a ring behind a linker, bare and with all its places taken; a linker between two
# aromatic rings; a substituent on a chain; ions by themselves.
PIECES = [
    *(f"C{ring.format(*[branch] * ring.count('{}'))}" for ring in RINGS for branch in ("", "(O)")),
    *(f"c1ccccc1{linker}c1ccccc1" for linker in grammar.LINKERS),
    *(f"CC{group}" for group in {*grammar.SUBSTITUENTS, *grammar.CHAIN_ENDS}),
    *(cation.format(*["CC"] * cation.count("{}")) for cation in grammar.CATIONS),
    *grammar.ANIONS,
]


def test_every_piece_is_a_molecule_and_its_label_the_sum_of_what_its_atoms_add():
    for smiles in PIECES:
        molecule = Chem.MolFromSmiles(smiles)
        assert molecule is not None, smiles
        assert atom_contributions(smiles).sum() == pytest.approx(Crippen.MolLogP(molecule, True)), smiles


def test_rings_are_what_their_table_says():
    def is_aromatic(ring):
        return any(atom.GetIsAromatic() for atom in Chem.MolFromSmiles(f"C{ring.replace('{}', '')}").GetAtoms())

    assert all(map(is_aromatic, grammar.AROMATIC_RINGS))
    assert not any(map(is_aromatic, grammar.SATURATED_RINGS))


# Silicon marks where a piece is entered.
@pytest.mark.parametrize(
    ("pieces", "written"),
    [
        (RINGS, lambda ring: "[SiH3]" + ring.replace("{}", "(C)")),
        (grammar.SUBSTITUENTS, lambda substituent: "[SiH3]" + substituent),
        (grammar.CATIONS, lambda cation: cation.replace("{}", "CC")),
        (grammar.ANIONS, str),
    ],
)
def test_no_piece_is_there_twice(pieces, written):
    assert len({Chem.CanonSmiles(written(piece)) for piece in pieces}) == len(pieces)


def test_the_seed_makes_the_table(table):
    assert demo_table(50, seed=0).equals(table[:50])
    assert not demo_table(50, seed=1).equals(table[:50])


def test_what_cannot_be_made(monkeypatch):
    with pytest.raises(SettingError, match="num_rows is 0, expected 1 or more"):
        demo_table(0)
    monkeypatch.setattr("edgewise.learn.readers.molecules.simulate._drug_like", lambda rng: "C")
    monkeypatch.setattr("edgewise.learn.readers.molecules.simulate._ion_pair", lambda rng: "[Na+].[Cl-]")
    with pytest.raises(DataError, match="the grammar gives about 2 molecules, but 5 were requested"):
        demo_table(5)
