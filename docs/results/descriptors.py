"""Which of RDKit's descriptors forests and Gaussian processes need, on rows that are no test rows.

    EDGEWISE_DATA=… python docs/results/descriptors.py

Of the rows that are not test rows of a protocol of benchmarks/molecules.py 15% are scored, and 75% train, at random.
Each line leaves a family of descriptors out. Printed are the milliseconds that the descriptors take for a molecule of
Lipophilicity, each alone; the RMSE of a process, and the area under the ROC curve of a forest.
"""

import os
import re
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score

from edgewise.learn.companions.gaussian_process import GaussianProcess
from edgewise.learn.companions.substructures import with_substructures
from edgewise.learn.readers.molecules.descriptor import AVAILABLE, descriptors
from edgewise.learn.readers.molecules.molecule import read_molecule
from edgewise.learn.readers.molecules.store import MoleculeStore
from edgewise.learn.tables.scale import DescriptorScaler, TargetScaler
from edgewise.learn.tasks.molecules.companions import NUM_SUBSTRUCTURES

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from molecules import NAME, PROTOCOLS

SETS = {
    "freesolv, mat_split_0": 5,
    "esol, mat_split_0": 5,
    "bace pIC50, random 0": 5,
    "lipophilicity, row_id % 10": 2,
    "bace class, random 0": 5,
    "bbbp, mat_split_0": 5,
}
"""Protocols, and the number of splits of the rows that are not test rows there."""
FAMILIES = {
    "eigenvalues": "BCUT2D",
    "shape": "BertzCT|SPS|BalabanJ|Chi|Kappa|Phi|HallKierAlpha",
    "densities": "FpDensity",
    "states": ".*EState",
    "charges": "PEOE|.*PartialCharge",
    "polarizability": "SMR|SlogP|MolLogP|MolMR",
    "fragments": "fr_",
}
LEFT_OUT = {
    "none": (),
    **{name: (name,) for name in FAMILIES},
    "eigenvalues, shape, densities": ("eigenvalues", "shape", "densities"),
    "… and states": ("eigenvalues", "shape", "densities", "states"),
}
NAMES = tuple(sorted(AVAILABLE))


def kept(families: tuple[str, ...]) -> np.ndarray:
    """Which descriptors stay."""
    return np.array([not any(re.match(FAMILIES[family], name) for family in families) for name in NAMES])


def milliseconds(smiles: list[str]) -> np.ndarray:
    """Of each descriptor for a molecule, its median of five rounds; what RDKit remembers counts for the first that
    needs it."""
    found = np.zeros((5, len(NAMES)))
    for round_ in found:
        molecules = [read_molecule(text) for text in smiles]
        for place, name in enumerate(NAMES):
            start = time.perf_counter()
            for molecule in molecules:
                descriptors(molecule, (name,))
            round_[place] = (time.perf_counter() - start) / len(molecules) * 1e3
    return np.median(found, 0) - np.median(found, 0).min()


def scores(name: str) -> dict[str, list[float]]:
    """The error, or the area under the curve, of every split."""
    protocol = PROTOCOLS[name]
    frame = protocol.table()
    frame = frame.loc[frame[NAME] != "test", ["smiles", protocol.target]]
    store, graphs, _ = MoleculeStore.collect(list(frame["smiles"]), with_descriptors=NAMES)
    truth, graphs = frame[protocol.target].to_numpy(float)[graphs >= 0], graphs[graphs >= 0]
    raw, found = store.graph_features.numpy(), dict[str, list[float]]()
    for seed in range(SETS[name]):
        drawn = np.random.default_rng(seed).random(len(truth))
        train, test = np.flatnonzero(drawn <= 0.75), np.flatnonzero(drawn > 0.85)
        for left, families in LEFT_OUT.items():
            columns = kept(families)
            if set(truth) <= {0.0, 1.0}:
                error = forest_score(store, raw[:, columns], graphs, truth, train, test)
            else:
                scaled = DescriptorScaler.fit(raw, np.unique(graphs[train])).transform(raw)[:, columns]
                error = process_error(store.with_graph_features(scaled), graphs, truth, train, test)
            found.setdefault(left, []).append(error)
    return found


def process_error(
    store: MoleculeStore, graphs: np.ndarray, truth: np.ndarray, train: np.ndarray, test: np.ndarray
) -> float:
    """The RMSE of a Gaussian process."""

    def batch(rows: np.ndarray):
        return with_substructures(store.batch(graphs[rows][:, None], np.zeros((len(rows), 0))), NUM_SUBSTRUCTURES)

    known, scale = batch(train), TargetScaler.fit(truth[:, None], train)
    process = GaussianProcess.fit(known, scale.transform(truth[train][:, None]), np.ones(len(train)))
    with torch.no_grad():
        predicted = scale.inverse(process(batch(test)).numpy())[:, 0]
    return float(np.sqrt(np.mean((predicted - truth[test]) ** 2)))


def forest_score(
    store: MoleculeStore,
    known: np.ndarray,
    graphs: np.ndarray,
    truth: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
) -> float:
    """The area under the ROC curve of a random forest."""
    batch = store.batch(np.arange(len(store))[:, None], np.zeros((len(store), 0)))
    counts = with_substructures(batch, NUM_SUBSTRUCTURES).substructures.numpy()
    rows = np.concatenate([np.nan_to_num(np.clip(known, -1e6, 1e6)), counts], 1)[graphs]
    forest = RandomForestClassifier(500, random_state=0).fit(rows[train], truth[train])
    return float(roc_auc_score(truth[test], forest.predict_proba(rows[test])[:, 1]))


if __name__ == "__main__":
    torch.set_num_threads(1)
    lipophilicity = pd.read_csv(Path(os.environ["EDGEWISE_DATA"]) / "moleculenet/lipophilicity.csv")["smiles"]
    spent = milliseconds(list(lipophilicity[:300]))
    for left, families in LEFT_OUT.items():
        columns = kept(families)
        print(f"without {left:30} {columns.sum():4} descriptors, {spent[columns].sum():.2f} ms", flush=True)
    for name in SETS:
        for left, values in scores(name).items():
            print(f"{name:28} without {left:30} {np.mean(values):.4f} {np.round(values, 3)}", flush=True)
