"""The parts of a molecule, and copies of a batch without some of its nodes and edges."""

import numpy as np
import pytest
import torch
from rdkit import Chem

from edgewise.learn.readers.graphs.union import copies
from edgewise.learn.readers.molecules.fragments import GROUPS, fragments
from edgewise.learn.readers.molecules.molecule import read_molecule
from edgewise.learn.readers.molecules.simulate import atom_contributions, demo_table
from edgewise.learn.readers.molecules.store import MoleculeStore


def of_kind(smiles, kind):
    return [(part.name, part.atoms) for part in fragments(read_molecule(smiles)) if part.kind == kind]


def names(smiles):
    return sorted(name for name, _ in of_kind(smiles, "functional group"))


def test_a_molecule_by_hand():
    paracetamol = "CC(=O)Nc1ccc(O)cc1"
    assert of_kind(paracetamol, "component") == [("CC(=O)Nc1ccc(O)cc1", tuple(range(11)))]
    assert of_kind(paracetamol, "ring") == [("c1ccccc1", (4, 5, 6, 7, 9, 10))]
    assert of_kind(paracetamol, "functional group") == [("amide", (1, 2, 3)), ("phenol", (8,))]
    pieces = of_kind(paracetamol, "BRICS")
    assert [atoms for _, atoms in pieces] == [(0, 1, 2), (3,), (4, 5, 6, 7, 8, 9, 10)]


def test_rings_that_share_an_atom_are_one():
    assert [len(atoms) for _, atoms in of_kind("c1ccc2ccccc2c1", "ring")] == [10]
    assert [len(atoms) for _, atoms in of_kind("C1CCC2(CC1)CCC2", "ring")] == [9]
    assert [len(atoms) for _, atoms in of_kind("c1ccccc1-c1ccccc1", "ring")] == [6, 6]
    # The third ring joins two that had nothing in common.
    assert [len(atoms) for _, atoms in of_kind("c1ccc2c(c1)Cc1ccccc1-2", "ring")] == [13]
    assert of_kind("CCO", "ring") == []


def test_ions_are_components_and_none_of_them_is_a_piece_as_well():
    salt = "CCCC[n+]1ccn(C)c1.F[B-](F)(F)F"
    assert [len(atoms) for _, atoms in of_kind(salt, "component")] == [10, 5]
    pieces = [set(atoms) for _, atoms in of_kind(salt, "BRICS")]
    assert {10, 11, 12, 13, 14} not in pieces
    assert of_kind("CCO", "BRICS") == []


@pytest.mark.parametrize(
    ("smiles", "expected"),
    [
        ("CCOC(C)=O", ["ester"]),
        ("CC(C)=O", ["ketone"]),
        ("CC=O", ["aldehyde"]),
        ("CC(=O)O", ["carboxylic acid"]),
        ("CC(=O)[O-]", ["carboxylate"]),
        ("NC(N)=O", ["urea"]),
        ("COC(N)=O", ["carbamate"]),
        ("CC(=O)OC(C)=O", ["anhydride"]),
        ("O=C(NC=O)C", ["imide"]),
        ("NC(N)=N", ["guanidine"]),
        ("C[N+](=O)[O-]", ["nitro"]),
        ("O=[N+]([O-])[O-]", ["nitrate"]),
        ("CC#N", ["nitrile"]),
        ("CS(=O)(=O)NC", ["sulfonamide"]),
        ("O=S(=O)([N-]S(=O)(=O)F)F", ["sulfonylimide"]),
        ("CS(C)(=O)=O", ["sulfone"]),
        ("CS(=O)(=O)[O-]", ["sulfonate"]),
        ("COS(=O)(=O)[O-]", ["sulfate"]),
        ("CN", ["primary amine"]),
        ("CNC", ["secondary amine"]),
        ("CN(C)C", ["tertiary amine"]),
        ("C[N+](C)(C)C", ["quaternary ammonium"]),
        ("C[NH3+]", ["ammonium"]),
        ("CCO", ["alcohol"]),
        ("COC", ["ether"]),
        ("CSC", ["thioether"]),
        ("CSSC", ["disulfide"]),
        ("FC(F)(F)CCl", ["chloro", "trifluoromethyl"]),
        ("C=CC#C", ["alkene", "alkyne"]),
        ("CCCC", []),
        ("c1ccncc1", []),
    ],
)
def test_functional_groups(smiles, expected):
    assert names(smiles) == expected


def test_every_pattern_is_one_and_finds_something():
    assert all(Chem.MolFromSmarts(smarts) is not None for _, smarts in GROUPS)
    assert len({name for name, _ in GROUPS}) == len(GROUPS)


def test_parts_of_many_molecules_are_consistent():
    for smiles in demo_table(60)["smiles"]:
        molecule = read_molecule(smiles)
        found = fragments(molecule)
        for kind in ("component", "ring", "BRICS"):
            atoms = [atom for part in found if part.kind == kind for atom in part.atoms]
            assert len(atoms) == len(set(atoms))
            assert kind != "component" or len(atoms) == molecule.GetNumAtoms()
        assert all(part.atoms == tuple(sorted(part.atoms)) for part in found)


def test_contributions_of_atoms_add_up_to_the_label():
    table = demo_table(40)
    for smiles, label in zip(table["smiles"], table["crippen_logp"], strict=True):
        found = atom_contributions(smiles)
        assert len(found) == read_molecule(smiles).GetNumAtoms()
        assert found.sum() == pytest.approx(label, abs=1e-9)
    # Methane is one carbon of type C1 and four hydrogens of type H1.
    assert atom_contributions("C").tolist() == pytest.approx([0.1441 + 4 * 0.1230])


def batch_of(*rows):
    distinct = sorted({smiles for row in rows for smiles in row})
    store = MoleculeStore.from_smiles(distinct, with_descriptors=False)
    graphs = [[distinct.index(smiles) for smiles in row] for row in rows]
    return store.batch(np.array(graphs), np.arange(len(rows), dtype=np.float32)[:, None])


def test_copies_by_hand():
    # CCO and NC; the copies lose nothing, the O, the bond of NC, all of NC.
    batch = batch_of(("CCO", "NC"))
    nodes, edges = np.ones((4, 5), dtype=bool), np.ones((4, 6), dtype=bool)
    nodes[1, 2], edges[2, 4:], nodes[3, 3:] = False, False, False
    found = copies(batch, nodes, edges)
    assert found.graph.offsets.tolist() == [0, 3, 5, 7, 9, 12, 14, 17, 17]
    assert found.supervision.graph_of_row.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert found.supervision.row_features.tolist() == [[0.0]] * 4
    senders, receivers = batch.graph.edges.senders, batch.graph.edges.receivers
    assert senders.tolist() == [0, 1, 1, 2, 3, 4]
    expected = torch.cat([senders, torch.tensor([5, 6, 7, 8]), senders[:4] + 9, senders[:4] + 14])
    assert found.graph.edges.senders.tolist() == expected.tolist()
    expected = torch.cat([receivers, torch.tensor([6, 5, 8, 7]), receivers[:4] + 9, receivers[:4] + 14])
    assert found.graph.edges.receivers.tolist() == expected.tolist()
    assert torch.equal(found.graph.node_features[5:9], batch.graph.node_features[[0, 1, 3, 4]])
    assert torch.equal(found.graph.edge_features[6:10], batch.graph.edge_features[[0, 1, 4, 5]])


def test_copies_of_several_rows_with_everything_are_the_rows_again():
    batch = batch_of(("CCO", "NC"), ("NC", "c1ccccc1"))
    found = copies(batch, np.ones((2, 11), dtype=bool))
    graph_of_row = batch.supervision.graph_of_row
    assert found.supervision.graph_of_row.tolist() == (
        graph_of_row.tolist() + (graph_of_row + batch.graph.num_graphs).tolist()
    )
    assert torch.equal(found.graph.node_features, batch.graph.node_features.repeat(2, 1))
    assert found.supervision.row_features.tolist() == [[0.0], [1.0]] * 2
    assert found.graph.coordinates is None and found.targets is None
