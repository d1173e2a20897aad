"""The real tables that the results are from, where they are at hand."""

import numpy as np

from edgewise.learn.readers.molecules.data import Columns, read_molecules
from edgewise.learn.tables.split import split_rows


def test_esol_reads_without_a_rejected_row_and_splits_as_published(data_folder):
    columns = Columns(("smiles",), ("log_solubility_log10_mol_per_L",), splits_column="mat_split_0")
    table = read_molecules(data_folder / "moleculenet" / "esol.csv", columns, with_descriptors=False)
    assert table.rows.rejected == []
    # Eleven canonical SMILES stand twice.
    assert (len(table.rows), len(table.store)) == (1128, 1117)
    splits = split_rows(table.rows, kind="column")
    assert [len(part) for part in (splits.train, splits.val, splits.test)] == [902, 113, 113]


def test_ionic_liquids_share_their_ions(data_folder):
    columns = Columns(
        ("cation_smiles", "anion_smiles"),
        ("x_co2_mole_fraction",),
        descriptors_columns=("temperature_K", "pressure_bar"),
        group_column="il",
    )
    path = data_folder / "co2_ionic_liquids" / "co2_ionic_liquids.csv"
    table = read_molecules(path, columns, with_descriptors=False)
    assert table.rows.rejected == []
    assert (len(table.rows), len(table.store)) == (9298, 82)
    assert len(np.unique(table.graph_of_row, axis=0)) == 112
    splits = split_rows(table.rows, kind="group", sizes=(0.8, 0.1, 0.1), seed=0)
    pairs = [set(map(tuple, table.graph_of_row[part])) for part in (splits.train, splits.val, splits.test)]
    assert not (pairs[0] & pairs[1] or pairs[0] & pairs[2] or pairs[1] & pairs[2])
