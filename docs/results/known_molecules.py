"""Numbers of molecules with many rows each: the size of the head and its dropout, on rows that are no test rows.

    EDGEWISE_DATA=… python docs/results/known_molecules.py > known_molecules.txt

CO₂ in ionic liquids. `random N`: of the rows that are no test rows of a random split (80% of all) 10% are scored and 9%
validate. `liquids N`: of the training rows of fold N of whole liquids a fifth of the liquids is scored, 8% validate.
Lines are the split, the settings, MAE, RMSE, R² and the seconds of the whole command, on a core that was shared.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupKFold

COLUMNS = ["cation_smiles", "anion_smiles", "temperature_K", "pressure_bar", "x_co2_mole_fraction"]
LESS = ["--head-dropout", "0", "--molecule-dropout", "0.05", "--descriptor-dropout", "0.05"]
BEFORE = ["--head-dropout", "0.05", "--molecule-dropout", "0.1", "--descriptor-dropout", "0.1", "--head-dim", "128"]
VARIANTS = {
    "as before": BEFORE,
    "less dropout": [*LESS, "--head-dim", "128"],
    "head of 256": [*BEFORE[:-1], "256"],
    "head of 256, less dropout": [*LESS, "--head-dim", "256"],
    "head of 256, less dropout, huber 0.1": [*LESS, "--head-dim", "256", "--huber-width", "0.1"],
}


def random_rows(frame: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """The rows, and the part of each."""
    place = np.argsort(np.random.default_rng(seed).permutation(len(frame))) / len(frame)
    frame, place = frame[place < 0.8], place[place < 0.8]
    return frame, np.select([place >= 0.72, place >= 0.65], ["test", "val"], "train")


def new_liquids(frame: pd.DataFrame, fold: int) -> tuple[pd.DataFrame, np.ndarray]:
    """The same with whole liquids."""
    held = list(GroupKFold(5).split(frame, groups=frame["il"]))[fold][1]
    frame = frame[~np.isin(np.arange(len(frame)), held)]
    names = sorted(frame["il"].unique())
    order = np.random.default_rng(fold).permutation(len(names))
    share = {names[number]: place / len(names) for place, number in enumerate(order)}
    place = frame["il"].map(share).to_numpy()
    return frame, np.select([place < 0.2, place < 0.28], ["test", "val"], "train")


def main() -> None:
    """Trains each variant on each split."""
    whole = pd.read_csv(Path(os.environ["EDGEWISE_DATA"]) / "co2_ionic_liquids/co2_ionic_liquids.csv")
    for kind, number in (("random", 0), ("random", 1), ("liquids", 0)):
        frame, part = (random_rows if kind == "random" else new_liquids)(whole, number)
        for name, flags in VARIANTS.items():
            with tempfile.TemporaryDirectory() as folder:
                table, run = f"{folder}/table.csv", Path(folder) / "run"
                frame[COLUMNS].assign(split=part).to_csv(table, index=False)
                command = [sys.executable, "-m", "edgewise.cli.main", "train", "molecules", table, "--smiles-columns"]
                command += [*COLUMNS[:2], "--descriptors-columns", *COLUMNS[2:4], "--target-columns", COLUMNS[4]]
                command += ["--splits-column", "split", "--no-baselines", "-o", str(run), *flags]
                began = time.perf_counter()
                environment = {**os.environ, "OMP_NUM_THREADS": "1"}
                subprocess.run(command, check=True, capture_output=True, env=environment)
                found = json.loads((run / "metrics.json").read_text())["test"][COLUMNS[4]]
            scores = {key: round(found[key], 5) for key in ("mae", "rmse", "r2")}
            print(kind, number, name, scores, round(time.perf_counter() - began), flush=True)


if __name__ == "__main__":
    main()
