"""One molecule: its graph, its features, the characters of its atoms and its neighbors."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem

from edgewise.errors import DataError
from edgewise.learn.readers.molecules.feature import EDGE_FEATURE_NAMES, NODE_FEATURE_NAMES, molecule_arrays
from edgewise.learn.readers.molecules.molecule import (
    canonical_smiles,
    murcko_scaffold,
    read_molecule,
)
from edgewise.learn.readers.molecules.molecule_graph import molecule_graph
from edgewise.learn.readers.molecules.variants import environments

MOLECULES = [
    "C[C@H](N)C(=O)O",
    "OC[C@H]1O[C@@H](O)[C@H](O)[C@@H](O)[C@@H]1O",
    "F/C=C/Cl",
    "F/C=C\\Cl",
    "FC=CCl",
    "C[C@H]1CC[C@@H](C)CC1",
    "CCCC[n+]1ccn(C)c1.F[B-](F)(F)F",
    "c1ccc2[nH]ccc2c1",
    "[13CH3]C#N",
    "C1CC2(C1)CCCC2",
    "OC(=O)/C=C/[C@@H](Br)C(F)Cl",
    "C[S@](=O)c1ccccc1",
]


def atom_texts(smiles: str) -> list[str]:
    return [smiles[span.start : span.stop] for span in molecule_graph(smiles).spans]


def on(features: torch.Tensor, names: tuple[str, ...]) -> list[set[str]]:
    """Names of the nonzero columns of each row."""
    return [{name for name, value in zip(names, row, strict=True) if value} for row in features.tolist()]


@pytest.mark.parametrize(
    ("smiles", "expected"),
    [
        ("CC(=O)[O-]", ["C", "C", "O", "[O-]"]),
        ("ClCCBr", ["Cl", "C", "C", "Br"]),
        ("c1cc[nH]c1", ["c", "c", "c", "[nH]", "c"]),
        ("C[n+]1cc[nH]c1", ["C", "[n+]", "c", "c", "[nH]", "c"]),
        ("C%12CC%12", ["C", "C", "C"]),
        ("C%(123)CC%(123)", ["C", "C", "C"]),
        ("[Na+].[Cl-]", ["[Na+]", "[Cl-]"]),
        ("N[C@@H](C)C(=O)O", ["N", "[C@@H]", "C", "C", "O", "O"]),
        ("F/C=C\\F", ["F", "C", "C", "F"]),
        ("Sc1ccc([Si](C)(C)C)cc1", ["S", *"cccc", "[Si]", *"CCC", *"cc"]),
        ("[Se]1C=CC=C1", ["[Se]", *"CCCC"]),
        ("*C[13CH3:7]", ["*", "C", "[13CH3:7]"]),
        ("C", ["C"]),
    ],
)
def test_each_atom_knows_its_characters(smiles, expected):
    assert atom_texts(smiles) == expected


@pytest.mark.parametrize(
    ("smiles", "expected"),
    [
        ("[H]O[H]", ["O"]),
        ("[H]C([H])([H])N", ["C", "N"]),
        ("C([H])Cl.[H][O-]", ["C", "Cl", "[O-]"]),
        ("[2H]OC", ["[2H]", "O", "C"]),
        ("[H][H]", ["[H]", "[H]"]),
        ("[H+].[Cl-]", ["[H+]", "[Cl-]"]),
        ("[H]OCC(O[H])[2H]", ["O", "C", "C", "O", "[2H]"]),
    ],
)
def test_hydrogens_that_rdkit_merges_have_no_node_and_those_it_keeps_have(smiles, expected):
    assert atom_texts(smiles) == expected


def test_spans_count_in_the_string_as_it_was_handed_in():
    smiles = "  CCl |$_AV:a;b$|"
    example = molecule_graph(smiles, source="solvent")
    assert [(span.source, span.start, span.stop) for span in example.spans] == [("solvent", 2, 3), ("solvent", 3, 5)]
    assert example.name == smiles


def test_acetate_by_hand():
    example = molecule_graph("CC(=O)[O-]")
    assert on(example.node_features, NODE_FEATURE_NAMES) == [
        {"element=C", "degree=1", "charge=0", "hydrogens=3", "hybridization=SP3", "ring_size=none", "chirality=none"}
        | {"mass_per_100_dalton"},
        {"element=C", "degree=3", "charge=0", "hydrogens=0", "hybridization=SP2", "ring_size=none", "chirality=none"}
        | {"mass_per_100_dalton"},
        {"element=O", "degree=1", "charge=0", "hydrogens=0", "hybridization=SP2", "ring_size=none", "chirality=none"}
        | {"mass_per_100_dalton"},
        {"element=O", "degree=1", "charge=-1", "hydrogens=0", "hybridization=SP2", "ring_size=none", "chirality=none"}
        | {"mass_per_100_dalton"},
    ]
    torch.testing.assert_close(example.node_features[0, -1].item(), 0.12011, atol=1e-4, rtol=0)
    assert example.edges.senders.tolist() == [0, 1, 1, 2, 1, 3]
    assert example.edges.receivers.tolist() == [1, 0, 2, 1, 3, 1]
    conjugated = {"stereo=none", "conjugated"}
    assert on(example.edge_features, EDGE_FEATURE_NAMES) == [
        {"order=SINGLE", "stereo=none"},
        {"order=SINGLE", "stereo=none"},
        {"order=DOUBLE", *conjugated},
        {"order=DOUBLE", *conjugated},
        {"order=SINGLE", *conjugated},
        {"order=SINGLE", *conjugated},
    ]
    assert example.node_features.dtype == example.edge_features.dtype == torch.float32
    assert example.edges.senders.dtype == torch.int64


@pytest.mark.parametrize(
    ("smiles", "atom", "feature"),
    [
        ("C[C@H](F)Cl", 1, "chirality=R"),
        ("C[C@@H](F)Cl", 1, "chirality=S"),
        ("CC(F)Cl", 1, "chirality=unspecified"),
        ("CCCl", 1, "chirality=none"),
        ("C1CC1C", 0, "ring_size=3"),
        ("C1CCCCCCCCC1", 0, "ring_size=8+"),
        ("c1ccccc1", 0, "aromatic"),
        ("C1CC1", 0, "in_ring"),
        ("[U]", 0, "element=other"),
        ("*", 0, "element=other"),
        ("[Fe+3]", 0, "charge=+2 or more"),
        ("[O-2]", 0, "charge=-2 or less"),
        ("CS(F)(F)(F)(F)F", 1, "hybridization=SP3D2"),
        ("CS(F)(F)(F)(F)F", 1, "degree=6+"),
        ("C", 0, "hydrogens=4+"),
        ("[2H]C", 1, "hydrogens=4+"),
    ],
)
def test_atom_features(smiles, atom, feature):
    assert feature in on(molecule_graph(smiles).node_features, NODE_FEATURE_NAMES)[atom]


@pytest.mark.parametrize(
    ("smiles", "edge", "feature"),
    [
        ("F/C=C/F", 2, "stereo=E"),
        ("F/C=C\\F", 3, "stereo=Z"),
        ("FC=CF", 2, "stereo=unspecified"),
        ("C=C", 0, "stereo=none"),
        ("C#N", 1, "order=TRIPLE"),
        ("c1ccccc1", 5, "order=AROMATIC"),
        ("C->[Fe]", 0, "order=other"),
        ("C1CC1", 0, "in_ring"),
        ("C=CC=C", 2, "conjugated"),
    ],
)
def test_bond_features(smiles, edge, feature):
    assert feature in on(molecule_graph(smiles).edge_features, EDGE_FEATURE_NAMES)[edge]


def test_one_category_of_each_block_is_set():
    for smiles in MOLECULES:
        example = molecule_graph(smiles)
        for features, names in (
            (example.node_features, NODE_FEATURE_NAMES),
            (example.edge_features, EDGE_FEATURE_NAMES),
        ):
            for block in {name.split("=")[0] for name in names if "=" in name}:
                columns = [place for place, name in enumerate(names) if name.startswith(f"{block}=")]
                assert features[:, columns].sum(dim=1).tolist() == [1.0] * len(features)


@settings(max_examples=60, deadline=None)
@given(smiles=st.sampled_from(MOLECULES), seed=st.integers(0, 10_000))
def test_features_do_not_depend_on_how_the_molecule_is_written(smiles, seed):
    molecule = read_molecule(smiles)
    order = np.random.default_rng(seed).permutation(molecule.GetNumAtoms()).tolist()
    other = Chem.MolToSmiles(Chem.RenumberAtoms(molecule, order), canonical=False)
    assert canonical_smiles(other) == canonical_smiles(smiles)
    rewritten = read_molecule(other)
    # Atom k of the rewritten string is atom place[k] of the first one.
    place = np.array(molecule.GetSubstructMatch(rewritten, useChirality=True))
    first, second = molecule_arrays(molecule), molecule_arrays(rewritten)
    np.testing.assert_array_equal(second.node_features, first.node_features[place])

    def bonds(arrays, rename):
        ends = zip(rename[arrays.senders].tolist(), rename[arrays.receivers].tolist(), strict=True)
        return {pair: tuple(row) for pair, row in zip(ends, arrays.edge_features.tolist(), strict=True)}

    assert bonds(second, place) == bonds(first, np.arange(len(place)))


@pytest.mark.parametrize(
    ("mapped", "plain"),
    [
        ("[CH3:1][OH:2]", "CO"),
        ("[cH:3]1ccccc1", "c1ccccc1"),
        ("[H:1][O:2]C", "OC"),
        ("[*:1]CC[*:2]", "*CC*"),
        ("[CH3:1][C@H](O)[CH3:2]", "CC(O)C"),  # a center by its numbers alone
        ("[CH3:1]/C([CH3:2])=C/O", "CC(C)=CO"),
        ("[CH3:9][C@H:8]([F:7])[Cl:1]", "C[C@H](F)Cl"),
        ("OC |atomProp:0.molAtomMapNumber.3|", "OC"),
    ],
)
def test_atom_map_numbers_are_no_part_of_a_molecule(mapped, plain):
    assert canonical_smiles(mapped) == canonical_smiles(plain)
    read, expected = read_molecule(mapped), read_molecule(plain)
    assert environments(read) == environments(expected)
    for array, of_plain in zip(vars(molecule_arrays(read)).values(), vars(molecule_arrays(expected)).values()):
        np.testing.assert_array_equal(array, of_plain)
    assert len(atom_texts(mapped)) == expected.GetNumAtoms()


@settings(max_examples=60, deadline=None)
@given(smiles=st.sampled_from(MOLECULES), seed=st.integers(0, 10_000))
def test_any_map_numbers_leave_the_molecule_as_it_is(smiles, seed):
    numbered = Chem.MolFromSmiles(smiles)
    for atom, number in zip(
        numbered.GetAtoms(), np.random.default_rng(seed).integers(0, 9, numbered.GetNumAtoms()).tolist(), strict=True
    ):
        atom.SetAtomMapNum(number)
    assert canonical_smiles(Chem.MolToSmiles(numbered)) == canonical_smiles(smiles)


@settings(max_examples=60, deadline=None)
@given(smiles=st.sampled_from(MOLECULES), hydrogens=st.booleans(), seed=st.integers(0, 10_000))
def test_spans_of_any_writing_hold_the_symbol_of_their_atom(smiles, hydrogens, seed):
    molecule = Chem.MolFromSmiles(smiles)
    if hydrogens:
        molecule = Chem.AddHs(molecule)
    order = np.random.default_rng(seed).permutation(molecule.GetNumAtoms()).tolist()
    written = Chem.MolToSmiles(Chem.RenumberAtoms(molecule, order), canonical=False)
    symbols = [atom.GetSymbol() for atom in read_molecule(written).GetAtoms()]
    texts = atom_texts(written)
    assert len(texts) == Chem.MolFromSmiles(smiles).GetNumAtoms()
    for symbol, text in zip(symbols, texts, strict=True):
        assert symbol.lower() in text.lower()
        assert text[0] == "[" or text.capitalize() == symbol


def test_an_atom_alone_has_no_edges_and_fragments_are_components_of_one_graph():
    alone = molecule_graph("[Cl-]")
    assert alone.node_features.shape == (1, len(NODE_FEATURE_NAMES))
    assert alone.edge_features.shape == (0, len(EDGE_FEATURE_NAMES))
    assert len(alone.edges.senders) == len(alone.edges.receivers) == 0
    salt = molecule_graph("CO.[Cl-]")
    assert salt.node_features.shape[0] == 3
    assert salt.edges.senders.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("smiles", "message"),
    [
        ("", "The SMILES is empty, expected one molecule."),
        (" \t", "The SMILES is empty, expected one molecule."),
        ("C1CC", "'C1CC' is not a SMILES that RDKit can read: unclosed ring."),
        ("CC(=O", "'CC(=O' is not a SMILES that RDKit can read: extra open parentheses while parsing: CC(=O."),
        ("hello", "'hello' is not a SMILES that RDKit can read: syntax error while parsing: hello."),
        (
            "CN(C)(C)C",
            "'CN(C)(C)C' is not a SMILES that RDKit can read: "
            "Explicit valence for atom # 1 N, 4, is greater than permitted.",
        ),
        (
            "c1cccc1",
            "'c1cccc1' is not a SMILES that RDKit can read: Can't kekulize mol.  Unkekulized atoms: 0 1 2 3 4.",
        ),
        (
            "CCO ethanol",
            "'CCO ethanol' has trailing text after the SMILES 'CCO': move 'ethanol' to a column of its own.",
        ),
        ("CCO\tCCN x", "'CCO\\tCCN x' has trailing text after the SMILES 'CCO': move 'CCN x' to a column of its own."),
        ("CCO |foo|", "'CCO |foo|' is not a SMILES that RDKit can read: the syntax is wrong."),
    ],
)
def test_what_cannot_be_read_says_why(smiles, message, capfd):
    with pytest.raises(DataError) as caught:
        molecule_graph(smiles)
    assert str(caught.value) == message
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("smiles", "place", "name"),
    [
        ("CC\u041e", 3, "U+041E (CYRILLIC CAPITAL LETTER O)"),  # RDKit drops it, and reads ethane
        ("CC\U0001f600", 3, "U+1F600 (GRINNING FACE)"),
        ("\ufeffCCO", 1, "U+FEFF (ZERO WIDTH NO-BREAK SPACE)"),
        ("C\u200bCO", 2, "U+200B (ZERO WIDTH SPACE)"),
        ("CCO\u200f", 4, "U+200F (RIGHT-TO-LEFT MARK)"),
        ("CCO\xa0", 4, "U+00A0 (NO-BREAK SPACE)"),
        (" C(" + "\xe9" * 300, 4, "U+00E9 (LATIN SMALL LETTER E WITH ACUTE)"),  # its log could not be decoded
        ("CC\0O", 3, "U+0000 (a control character)"),
        ("CCO |$\xe9;;$|", 7, "U+00E9 (LATIN SMALL LETTER E WITH ACUTE)"),
        ("C\ud800", 2, "U+D800 (no character)"),
    ],
)
def test_a_character_beyond_ascii_is_named(smiles, place, name, capfd):
    with pytest.raises(DataError) as caught:
        molecule_graph(smiles)
    assert str(caught.value) == (
        f"{smiles!r} is not a SMILES: character {place} is {name}, but SMILES are written in ASCII; "
        "replace it or delete it."
    )
    assert capfd.readouterr() == ("", "")


def test_an_older_rdkit_that_hands_over_no_log_still_says_which_chemistry_is_wrong(monkeypatch, capfd):
    monkeypatch.delattr("edgewise.learn.readers.molecules.molecule.rdBase.CaptureErrorLog", raising=False)
    with pytest.raises(DataError, match="Explicit valence for atom # 1 N, 4, is greater than permitted"):
        read_molecule("CN(C)(C)C")
    with pytest.raises(DataError, match="the syntax is wrong"):
        read_molecule("C1CC")
    assert capfd.readouterr() == ("", "")


def test_scaffold():
    assert murcko_scaffold("Cc1ccc(CCN2CCOCC2)cc1F") == "c1ccc(CCN2CCOCC2)cc1"
    assert murcko_scaffold("CC[C@H](F)Cl") == ""
    assert murcko_scaffold("C[C@H]1C[C@@H](C)C1") == "C1CCC1"
    assert murcko_scaffold("[CH3:1][c:2]1cc[cH:5]cc1") == "c1ccccc1"
