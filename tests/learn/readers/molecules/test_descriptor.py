"""RDKit's descriptors of whole molecules."""

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import Descriptors

from edgewise.learn.readers.molecules.descriptor import AVAILABLE, DESCRIPTOR_NAMES, descriptors
from edgewise.learn.readers.molecules.molecule import read_molecule

MOLECULES = ["CC(=O)Oc1ccccc1C(=O)O", "CCCC[n+]1ccn(C)c1.F[B-](F)(F)F", "C", "[Na+]", "[2H]C#N", "C->[Fe]", "I[I-]I"]
MOLECULES += [
    "Clc1nc2ccsc2o1",
    "NS(=O)(=O)c1ccc(N=[N+]=[N-])cc1",
    "CSC#N",
    "OP(=O)(O)OC",
    "N#CC1CCNCC1",
    "Brc1ccc[nH]1",
]
MOLECULES += ["[Fe+2].CC(=O)[O-].[Cl-]", "CC(=O)[O-].[Fe+2]", "[U]", "*C", "C[Si](C)(C)C", "[H][H]", "C[Se]c1ccccc1"]
MOLECULES += ["O=[N+]([O-])c1ccc(O)cc1", "CCOC(=O)C1=C(C)NC(C)=CC1", "[OH3+].[OH-].O.[H]OC=C", "[CH2]C[N+](C)(C)C"]


@pytest.mark.parametrize("smiles", MOLECULES)
def test_descriptors_are_rdkits_own(smiles):
    expected = Descriptors.CalcMolDescriptors(read_molecule(smiles))
    names = tuple(sorted(AVAILABLE))
    wanted = np.array([expected[name] for name in names], dtype=float)
    wanted[~np.isfinite(wanted)] = np.nan
    np.testing.assert_allclose(descriptors(read_molecule(smiles), names), wanted, rtol=1e-12, atol=1e-12)


def test_descriptors_stand_in_the_order_of_their_names():
    molecule = read_molecule("CC(=O)Oc1ccccc1C(=O)O")
    names = ("SlogP_VSA2", "MolWt", "SlogP_VSA1", "MaxEStateIndex", "MolMR")
    alone = [descriptors(read_molecule("CC(=O)Oc1ccccc1C(=O)O"), (name,))[0] for name in names]
    np.testing.assert_array_equal(descriptors(molecule, names), alone)
    assert descriptors(molecule, ()).shape == (0,)


def test_indices_of_shape_are_left_out():
    assert {"MolWt", "MolLogP", "TPSA", "MaxAbsEStateIndex", "fr_benzene", "PEOE_VSA3"} <= set(DESCRIPTOR_NAMES)
    assert not {"Chi4v", "BertzCT", "BCUT2D_MWHI", "Kappa1", "FpDensityMorgan1", "qed"} & set(DESCRIPTOR_NAMES)
    assert {"Chi4v", "BertzCT", "BCUT2D_MWHI"} <= AVAILABLE


@pytest.mark.parametrize("smiles", ["[Na+]", "[H][H]", "*", "[U]", "C" * 400, "[Fe+2].[Cl-].[Cl-]"])
def test_descriptors_of_odd_molecules_are_finite_or_nan(smiles, capfd):
    values = descriptors(read_molecule(smiles))
    assert values.shape == (len(DESCRIPTOR_NAMES),)
    assert not np.isinf(values).any()
    assert np.isfinite(values[DESCRIPTOR_NAMES.index("MolWt")])
    assert capfd.readouterr() == ("", "")


def test_a_descriptor_that_fails_is_nan(monkeypatch):
    def divide(molecule):
        return 1 / 0

    functions = {"broken": divide, "size": Chem.Mol.GetNumAtoms}
    monkeypatch.setattr("edgewise.learn.readers.molecules.descriptor._FUNCTIONS", functions)
    np.testing.assert_array_equal(descriptors(read_molecule("CC"), ("broken", "size")), [np.nan, 2.0])
