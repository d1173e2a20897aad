"""Counts of substructures: those of the molecule, however it is written and batched."""

import numpy as np

from edgewise.learn.companions.substructures import with_substructures
from edgewise.learn.readers.molecules.store import MoleculeStore


def counted(*smiles, num_kinds=2**16, radius=2):
    """Counts of substructures of some molecules, which share no batch."""
    found = []
    for each in smiles:
        batch = MoleculeStore.from_smiles([each]).batch(np.array([[0]]), np.zeros((1, 0)))
        found.append(with_substructures(batch, num_kinds, radius).substructures[0].numpy())
    return np.stack(found)


def test_substructures_by_hand():
    """Propane: two ends and a middle; the same with their neighbors; and all of it, seen from an end or the middle."""
    for radius in range(3):
        (propane,) = counted("CCC", radius=radius)
        assert sorted(propane[propane > 0].tolist()) == [1] * (radius + 1) + [2] * (radius + 1)


def test_substructures_are_those_of_the_molecule_however_it_is_written_and_batched():
    one, other, third = counted("OC(=O)c1ccccc1N", "Nc1ccccc1C(O)=O", "OC(=O)c1ccccc1O")
    assert np.array_equal(one, other) and not np.array_equal(one, third)
    store = MoleculeStore.from_smiles(["CC", "OC(=O)c1ccccc1N", "C"])
    batch = store.batch(np.array([[2], [1], [0], [1]]), np.zeros((4, 0)))
    together = with_substructures(batch, 2**16, 2).substructures.numpy()
    expected = counted("C", "Nc1ccccc1C(O)=O", "CC", "OC(=O)c1ccccc1N")
    assert np.array_equal(together[batch.supervision.graph_of_row[:, 0].numpy()], expected)
    assert np.array_equal(counted("CCO", num_kinds=16)[0], counted("CCO")[0].reshape(-1, 16).sum(0))


def test_what_is_shared_with_a_part_of_a_molecule_is_counted_in_both():
    """All substructures of heptane within two bonds of an end are in octane, which has one more in the middle."""
    heptane, octane = counted("CCCCCCC", "CCCCCCCC")
    assert (octane >= heptane).all() and (octane - heptane).sum() == 3
