"""Classes of molecules on rows that are no test rows: the network, forests, and both together.

    EDGEWISE_DATA=… python docs/results/class_forest.py

Of the rows that are not test rows of a protocol of benchmarks/molecules.py 15% are scored and 10% validate, at random,
for BBBP in whole scaffolds. Each split trains a network with `--companions none`. Forests learn from descriptors alone,
or with counts of substructures of a radius in so many kinds, and are mixed with the network, with a half or two thirds
of the weight. Printed is the area under the ROC curve of the rows that are scored.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score

from edgewise.errors import DataError
from edgewise.learn.companions.substructures import with_substructures
from edgewise.learn.readers.molecules.molecule import murcko_scaffold
from edgewise.learn.readers.molecules.store import MoleculeStore

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from molecules import NAME, PROTOCOLS, our_command

NUM_SPLITS = 6
EDGEWISE = [sys.executable, "-m", "edgewise.cli.main"]
COUNTS = {
    "descriptors": None,
    "radius 1": (1, 2048),
    "radius 2": (2, 2048),
    "radius 3": (3, 2048),
    "512 kinds": (2, 512),
}


def scaffold(smiles: str) -> str:
    """The scaffold of a molecule; molecules that cannot be read share one."""
    try:
        return murcko_scaffold(smiles)
    except DataError:
        return "unread"


def parts(frame: pd.DataFrame, seed: int, *, of_scaffolds: bool) -> np.ndarray:
    """train, val or test of each row."""
    rng = np.random.default_rng(seed)
    if not of_scaffolds:
        place = rng.random(len(frame))
    else:
        group = np.unique([scaffold(smiles) for smiles in frame["smiles"]], return_inverse=True)[1]
        order = rng.permutation(group.max() + 1)
        rows, before = np.bincount(group)[order], np.empty(len(order))
        before[order] = (np.cumsum(rows) - rows) / len(frame)
        place = before[group]
    return np.select([place > 0.85, place > 0.75], ["test", "val"], "train")


def features(smiles: list[str]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """What forests decide by, `(row, feature)` each; and which rows can be read."""
    store, graphs, _ = MoleculeStore.collect(smiles)
    batch = store.batch(np.arange(len(store))[:, None], np.zeros((len(store), 0)))
    known = np.nan_to_num(np.clip(store.graph_features.numpy(), -1e6, 1e6))
    found = {}
    for name, how in COUNTS.items():
        more = [] if how is None else [with_substructures(batch, how[1], how[0]).substructures.numpy()]
        found[name] = np.concatenate([known, *more], 1)[graphs]
    return found, graphs >= 0


def scores(name: str, seed: int, known: dict[str, np.ndarray], can_be_read: np.ndarray) -> dict[str, float]:
    """The area under the ROC curve of each way."""
    protocol = PROTOCOLS[name]
    frame = table_of(name)
    part, truth = parts(frame, seed, of_scaffolds=name.startswith("bbbp")), frame[protocol.target].to_numpy()
    with tempfile.TemporaryDirectory() as folder:
        table, run, predictions = (Path(folder) / each for each in ("table.csv", "run", "predictions.csv"))
        frame.assign(**{NAME: part}).to_csv(table, index=False)
        command = [*our_command(protocol, table), "--companions", "none", "--no-baselines", "-o", str(run)]
        for each in (command, [*EDGEWISE, "predict", str(run), str(table), "-o", str(predictions)]):
            subprocess.run(each, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        network = pd.read_csv(predictions)[f"{protocol.target}_prob_1"].to_numpy()
    train, test = (part != "test") & can_be_read, (part == "test") & can_be_read
    found = {"network": network[test]}
    for way, numbers in known.items():
        forest = RandomForestClassifier(500, max_features="sqrt", random_state=0).fit(numbers[train], truth[train])
        found[way] = by_trees = forest.predict_proba(numbers[test])[:, 1]
        found[f"{way}, 1/2"] = (network[test] + by_trees) / 2
        found[f"{way}, 2/3"] = (network[test] + 2 * by_trees) / 3
    return {way: float(roc_auc_score(truth[test], each)) for way, each in found.items()}


def table_of(name: str) -> pd.DataFrame:
    """The rows of a protocol that are no test rows."""
    protocol = PROTOCOLS[name]
    frame = protocol.table()
    return frame.loc[frame[NAME] != "test", ["smiles", protocol.target]].reset_index(drop=True)


if __name__ == "__main__":
    for name in ("bace class, random 0", "bbbp, mat_split_0"):
        known = features(table_of(name)["smiles"].tolist())
        rows = [scores(name, seed, *known) for seed in range(NUM_SPLITS)]
        for way in rows[0]:
            each = [row[way] for row in rows]
            shown = " ".join(f"{value:.4f}" for value in each)
            print(f"{name}: {way:20s} mean {np.mean(each):.4f}   {shown}", flush=True)
