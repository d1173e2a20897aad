"""Where atoms are: shapes that chemistry knows, the same however written, and a way for what cannot be embedded."""

import numpy as np
import pytest
import torch

from edgewise.learn.readers.molecules import bounded
from edgewise.learn.readers.molecules import conformer as module
from edgewise.learn.readers.molecules.conformer import APART, MAX_ATOMS, conformer, conformer_note
from edgewise.learn.readers.molecules.feature import Chem
from edgewise.learn.readers.molecules.molecule import read_molecule
from edgewise.learn.readers.molecules.store import MoleculeStore


def distances(smiles):
    """The table of distances of a molecule, and how it was found."""
    found = conformer(read_molecule(smiles))
    places = found.coordinates.astype(np.float64)
    return np.linalg.norm(places[:, None] - places[None], axis=-1), found.how


def test_carbon_dioxide_is_straight_and_benzene_a_hexagon():
    table, how = distances("O=C=O")
    assert how == "relaxed"
    assert table[0, 2] == pytest.approx(table[0, 1] + table[1, 2], abs=0.01)
    table, _ = distances("c1ccccc1")
    side = table[0, 1]
    assert 1.3 < side < 1.5
    expected = side * np.array([0, 1, np.sqrt(3), 2, np.sqrt(3), 1])
    assert table[0] == pytest.approx(expected, abs=0.02)


def test_hydrogens_are_left_out_unless_they_are_atoms_of_the_graph():
    assert distances("CO")[0].shape == (2, 2)
    assert distances("[H]OC")[0].shape == (2, 2)
    table, _ = distances("[H][H]")
    assert 0.6 < table[0, 1] < 0.9


@pytest.mark.parametrize("smiles", ["NCC(=O)OCF", "C[C@H](O)CCl", "[Na+].[O-]C(=O)CF"])
def test_the_same_molecule_has_the_same_places_however_it_is_written(smiles):
    molecule = read_molecule(smiles)
    expected = conformer(molecule).coordinates
    assert np.array_equal(conformer(molecule).coordinates, expected)
    random = np.random.default_rng(0)
    for _ in range(5):
        order = random.permutation(molecule.GetNumAtoms()).tolist()
        # No two of their atoms are alike: each has its own place.
        assert np.array_equal(conformer(Chem.RenumberAtoms(molecule, order)).coordinates, expected[order])


def test_fragments_are_shaped_as_if_alone_and_far_apart():
    both, how = distances("CCO.[Cl-].CCO")
    alone, _ = distances("CCO")
    assert how == "relaxed"
    for atoms in ([0, 1, 2], [4, 5, 6]):
        assert both[np.ix_(atoms, atoms)] == pytest.approx(alone, abs=1e-4)
    apart = both[np.ix_([0, 1, 2], [3, 4, 5, 6])]
    assert apart.min() >= APART - 1e-3
    assert both[3, 4:].min() >= APART - 1e-3


def test_an_atom_that_the_force_field_lacks_stays_where_it_was_embedded():
    table, how = distances("F[Fe](F)(F)(F)(F)F")
    assert how == "unrelaxed"
    assert (table[1][[0, 2, 3, 4, 5, 6]] > 1).all()


def test_a_long_chain_is_embedded_at_the_second_try():
    table, how = distances("C" * 30)
    assert how == "retried"
    assert 1.4 < np.diagonal(table, 1).min() < np.diagonal(table, 1).max() < 1.7


def test_too_many_atoms_are_drawn():
    found = conformer(read_molecule("C" * (MAX_ATOMS + 1)))
    assert found.how == "flat"
    assert np.ptp(found.coordinates[:, 2]) == 0
    steps = np.linalg.norm(np.diff(found.coordinates, axis=0), axis=1)
    assert 1.3 < steps.min() < steps.max() < 1.7


@pytest.mark.parametrize("error", [None, RuntimeError, ValueError])
def test_what_cannot_be_embedded_is_drawn(error, monkeypatch):
    def fails(molecule, random):
        if error is not None:
            raise error("no")
        return False

    monkeypatch.setattr(module, "_embed", fails)
    table, how = distances("CCO")
    assert how == "flat"
    assert (table[[0, 1], [1, 2]] > 1).all()
    # The worst of several fragments counts.
    monkeypatch.setattr(module, "_embed", lambda molecule, random: False)
    assert distances("CCO.[Cl-]")[1] == "flat"


def test_what_is_said():
    assert conformer_note(["relaxed", "relaxed"], ["C", "CC"]) == ""
    assert conformer_note(["flat", "retried", "relaxed", "flat"], ["A", "B", "C", "D"]) == (
        "1 embedded at the second try (first B); 2 drawn in the plane, since they could not be embedded (first A)"
    )
    assert (
        conformer_note(["unrelaxed"], ["A"])
        == "1 embedded but not relaxed, with atoms that the force field lacks (first A)"
    )


def test_a_store_reads_positions_once_and_on_demand(monkeypatch):
    calls = []
    monkeypatch.setattr("edgewise.learn.readers.molecules.bounded.conformer", lambda m: calls.append(m) or conformer(m))
    bounded._small_conformer.cache_clear()
    store = MoleculeStore.from_smiles(["CCO", "OCC", "C", "C#N"], with_descriptors=False)
    assert store.batch([[0]], [[]]).graph.coordinates is None
    assert calls == []
    for _ in range(2):
        placed = store.with_coordinates().with_graph_features(np.zeros((3, 1)))
    assert len(calls) == 3
    assert store.conformer_note == ""
    batch = placed.batch([[2], [0], [2]], [[], [], []])
    expected = [conformer(read_molecule(smiles)).coordinates for smiles in ("CCO", "C#N")]
    torch.testing.assert_close(batch.graph.coordinates, torch.from_numpy(np.concatenate(expected)), rtol=0, atol=0)
    assert batch.to("cpu").graph.coordinates.dtype == torch.float32


def test_a_store_of_nothing_has_no_places():
    assert MoleculeStore.from_smiles([]).with_coordinates().coordinates.shape == (0, 3)
