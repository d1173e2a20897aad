"""Molecules that are too large or take too long are rejected with their reason; all others are read as ever."""

import subprocess
import sys
import time
from collections import OrderedDict

import numpy as np
import pytest

from edgewise.errors import DataError, SettingError
from edgewise.learn.readers.molecules import bounded
from edgewise.learn.readers.molecules.bounded import featurize
from edgewise.learn.readers.molecules.conformer import APART, BOND_LENGTH, conformer, conformer_note
from edgewise.learn.readers.molecules.descriptor import AVAILABLE, DESCRIPTOR_NAMES, descriptors
from edgewise.learn.readers.molecules.feature import molecule_arrays
from edgewise.learn.readers.molecules.limits import MoleculeLimits, QuickLimits, SlowMoleculeError
from edgewise.learn.readers.molecules.molecule import Chem, count_atoms, read_molecule
from edgewise.learn.readers.molecules.store import MoleculeStore

CHAIN = "C" * 150
"""Too large to be read at once."""
EVERY = tuple(sorted(AVAILABLE))
"""Descriptors over paths among them."""
LATE = "embedding takes longer than --molecule-timeout"


def complete_graph(count):
    """Dummy atoms, each bonded to all others: descriptors over paths do not end for 13 of them."""
    labels, marks = 10, [""] * count
    for one in range(count):
        for other in range(one):
            marks[one] += f"%{labels}"
            marks[other] += f"%{labels}"
            labels += 1
    return ".".join(f"*{mark}" for mark in marks)


def test_one_hostile_molecule_is_rejected_and_the_others_are_read():
    smiles = ["CCO", "C" * 5000, complete_graph(13), CHAIN, "no", "C" * 1_000_000]
    began = time.monotonic()
    limits = MoleculeLimits(molecule_timeout=1)
    store, graphs, reasons = MoleculeStore.collect(smiles, limits=limits, with_descriptors=EVERY)
    assert time.monotonic() - began < 60
    assert graphs.tolist() == [0, -1, -1, 1, -1, -1]
    assert "5,000 atoms, more than 500; --max-atoms raises the bound" in reasons["C" * 5000]
    assert "longer than 1 seconds for its 13 atoms; --molecule-timeout raises" in reasons[complete_graph(13)]
    assert "1,000,000 characters, more than 25,000" in reasons["C" * 1_000_000]
    assert max(map(len, reasons.values())) < 300
    # Once rejected, it is not tried again.
    began = time.monotonic()
    list(featurize([complete_graph(13)], limits, EVERY))
    assert time.monotonic() - began < 0.5
    molecule = Chem.MolFromSmiles(CHAIN)
    np.testing.assert_array_equal(store.graph_features[1].numpy(), descriptors(molecule, EVERY))
    np.testing.assert_array_equal(store.node_features[3:].numpy(), molecule_arrays(molecule).node_features)


def test_progress_is_seen_while_molecules_are_read(monkeypatch):
    """The bar of a long table stood at 0 until all of it was read."""
    read = []
    monkeypatch.setattr(bounded, "_at_once", lambda text, *others: read.append(text) or DataError(text))
    outcomes = bounded.featurize([str(number) for number in range(2000)], MoleculeLimits(), ())
    assert str(next(outcomes)) == "0" and len(read) == 512
    assert [str(each) for each in outcomes] == [str(number) for number in range(1, 2000)] and len(read) == 2000


def test_slow_molecules_are_skipped_where_waiting_is_not_allowed():
    assert len(MoleculeStore.from_smiles(["CCO"], limits=QuickLimits())) == 1
    for smiles in (CHAIN, complete_graph(13)):
        with pytest.raises(SlowMoleculeError, match="may take long"):
            MoleculeStore.from_smiles(["CCO", smiles], limits=QuickLimits())
    assert len(MoleculeStore.from_smiles([CHAIN], with_descriptors=False)) == 1


def test_a_limit_can_be_raised():
    limits = MoleculeLimits(max_atoms=10)
    assert MoleculeStore.collect([CHAIN, "C" * 10], limits=limits)[1].tolist() == [-1, 0]
    assert len(MoleculeStore.from_smiles([CHAIN], limits=limits.changed(max_atoms=150))) == 1
    assert limits.changed() == limits


def test_one_molecule_that_is_slow_to_embed_is_drawn_and_the_others_are_embedded(monkeypatch):
    chain, many = "C" * 200, "C" * 35
    limits = MoleculeLimits(molecule_timeout=1)
    store = MoleculeStore.from_smiles(["CCO", chain, many], with_descriptors=False, limits=limits)
    began = time.monotonic()
    assert [each.how for each in store.conformers] == ["relaxed", "late", "retried"]
    assert time.monotonic() - began < 40
    assert store.conformer_note.endswith(f"1 drawn in the plane, since {LATE} (first {chain})")
    np.testing.assert_array_equal(store.conformers[2].coordinates, conformer(read_molecule(many)).coordinates)
    flat = store.conformers[1].coordinates
    assert flat.shape == (200, 3) and np.ptp(flat[:, 2]) == 0 and np.isfinite(flat).all()
    limits = QuickLimits()
    assert MoleculeStore.from_smiles(["CCO"], limits=limits).with_coordinates().coordinates.shape == (3, 3)
    with pytest.raises(SlowMoleculeError, match="may take long"):
        MoleculeStore.from_smiles([many], with_descriptors=False, limits=limits).with_coordinates()


def test_what_cannot_even_be_drawn_in_time_is_placed_by_its_bonds(monkeypatch):
    """It ended the training, or the prediction of all other rows."""
    limited = []

    def late(process, function, smiles, limits, *others):
        limited.append((function.__name__, smiles))
        return DataError("too slow")

    monkeypatch.setattr(bounded._SLOW, "_results", OrderedDict())
    monkeypatch.setattr(bounded, "_in_process", late)
    monkeypatch.setattr(bounded, "_walks", lambda molecule: 10**9)  # small ones are bounded, too
    chain, ring = bounded.conformers(["CC(O)C.[Na+]", "C1CCC1"], MoleculeLimits())
    assert limited == [(name, text) for name in ("conformer", "drawn") for text in ("CC(O)C.[Na+]", "C1CCC1")]
    assert (chain.how, ring.how) == ("layered", "layered")
    assert chain.coordinates[:4, 0] - chain.coordinates[0, 0] == pytest.approx(BOND_LENGTH * np.array([0, 1, 2, 2]))
    assert len(np.unique(chain.coordinates.round(3), axis=0)) == 5
    assert abs(chain.coordinates[:4, 0] - chain.coordinates[4, 0]).min() >= APART - 1e-3
    assert conformer_note(["layered"], ["C1CCC1"]) == (
        "1 placed by counting bonds, since drawing takes longer than --molecule-timeout (first C1CCC1)"
    )


@pytest.mark.parametrize(
    "smiles", ["[H]OC", "[2H]C", "C%10CCC%10Br", "[NH4+].[Cl-]", "  CC |c:0|", "[13CH3:1]C", "N[C@@H](C)Cl"]
)
def test_atoms_are_counted_before_they_are_read(smiles):
    assert count_atoms(smiles) == read_molecule(smiles).GetNumAtoms()


def test_a_limit_must_be_positive():
    with pytest.raises(SettingError, match="--max-atoms is 0; expected at least 1"):
        MoleculeLimits(max_atoms=0)
    with pytest.raises(SettingError, match="--molecule-timeout is inf; expected above 0 and finite"):
        MoleculeLimits(molecule_timeout=float("inf"))


def test_plain_molecules_are_the_same_from_several_processes(monkeypatch):
    plain = ["C" * size for size in range(1, 70)] + ["CCO", "C(", "", "c1ccccc1"]
    hostile = ["C" * 200, "[H][H]"]
    smiles = plain + hostile
    alone = list(featurize(smiles, MoleculeLimits(), DESCRIPTOR_NAMES))
    monkeypatch.setattr(bounded, "POOLED_FROM", 4)
    monkeypatch.setattr(bounded, "_num_cores", lambda: 2)
    calls = []
    call = bounded.Process.call
    monkeypatch.setattr(bounded.Process, "call", lambda *args, **more: calls.append(args[2]) or call(*args, **more))
    together = list(featurize(smiles, MoleculeLimits(), DESCRIPTOR_NAMES))
    assert [len(block) for block in calls if isinstance(block, list)] == [64, len(smiles) - 64]
    for one, other in zip(alone, together, strict=True):
        assert type(one) is type(other)
        if isinstance(one, DataError):
            assert str(one) == str(other)
            continue
        assert one.canonical == other.canonical
        np.testing.assert_array_equal(one.descriptors, other.descriptors)
        for name, array in vars(one.arrays).items():
            np.testing.assert_array_equal(array, getattr(other.arrays, name))


def test_processes_that_run_read_shorter_tables_too(monkeypatch):
    monkeypatch.setattr(bounded, "_POOL", bounded._Pool())
    monkeypatch.setattr(bounded, "_num_cores", lambda: 2)
    blocks, original = [], bounded.in_blocks
    monkeypatch.setattr(bounded, "in_blocks", lambda *given: blocks.append(len(given[1])) or original(*given))
    smiles = ["C" * size for size in range(1, 71)]
    list(featurize(smiles, MoleculeLimits(), EVERY))
    assert not blocks
    list(featurize([CHAIN], MoleculeLimits(), EVERY))
    list(featurize(smiles, MoleculeLimits(), EVERY))
    list(featurize(smiles[:10], MoleculeLimits(), EVERY))
    assert blocks == [70]


def test_the_processes_do_without_torch():
    """They import what their functions are written in; torch would take a second and 200 MB in each."""
    imports = "import sys, edgewise.learn.readers.molecules.similarity as s"
    code = f"{imports}; s.fingerprints(['C']); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_block_whose_process_dies_is_computed_molecule_by_molecule(monkeypatch):
    monkeypatch.setattr(bounded, "POOLED_FROM", 4)
    monkeypatch.setattr(bounded, "_num_cores", lambda: 2)
    call = bounded.Process.call

    def dies_in_blocks(self, function, first, *arguments, **more):
        if isinstance(first, list):
            raise bounded.ProcessDiedError("a worker process ended")
        return call(self, function, first, *arguments, **more)

    monkeypatch.setattr(bounded.Process, "call", dies_in_blocks)
    smiles = ["C" * size for size in range(1, 66)] + ["C("]
    found = list(featurize(smiles, MoleculeLimits(), DESCRIPTOR_NAMES))
    assert [each.canonical for each in found[:-1]] == smiles[:-1]
    assert "is not a SMILES" in str(found[-1])
