"""Classes of molecules on rows that are no test rows: the network, the forest, and both, half each (the default).

    EDGEWISE_DATA=… python docs/results/class_forest.py

Of the rows that are not test rows of a protocol of benchmarks/molecules.py 15% are scored and 10% validate, at random,
for BBBP in whole scaffolds. Each split is trained with `--no-forest` and without; the forest is the baseline of both.
Printed is the area under the ROC curve of the rows that are scored.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from edgewise.data.molecules.molecule import murcko_scaffold
from edgewise.errors import DataError

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from molecules import NAME, PROTOCOLS, our_command

NUM_SPLITS = 6


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


def scores(name: str, seed: int) -> dict[str, float]:
    """The area under the ROC curve of each way."""
    protocol = PROTOCOLS[name]
    frame = pd.read_csv(Path(os.environ["EDGEWISE_DATA"]) / f"moleculenet/{protocol.file}.csv")
    frame = frame.loc[protocol.split(frame) != "test", ["smiles", protocol.target]].reset_index(drop=True)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        table, run = Path(folder) / "table.csv", Path(folder) / "run"
        frame.assign(**{NAME: parts(frame, seed, of_scaffolds=name.startswith("bbbp"))}).to_csv(table, index=False)
        for way, flags in (("network", ["--no-forest", "--no-baselines"]), ("both", [])):
            command = [*our_command(protocol, table), *flags, "-o", str(run), "--overwrite"]
            subprocess.run(command, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
            metrics = json.loads((run / "metrics.json").read_text())
            found[way] = metrics["test"][protocol.target]["roc_auc"]
        found["forest"] = metrics["baselines"]["forest"]["test"][protocol.target]["roc_auc"]
    return found


if __name__ == "__main__":
    for name in ("bace class, random 0", "bbbp, mat_split_0"):
        rows = []
        for seed in range(NUM_SPLITS):
            rows.append(scores(name, seed))
            print(name, seed, {way: round(value, 4) for way, value in rows[-1].items()}, flush=True)
        print(name, "mean", {way: round(float(np.mean([row[way] for row in rows])), 4) for way in rows[0]}, flush=True)
