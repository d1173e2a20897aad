"""How much a Gaussian process should weigh beside the network, on rows that are no test rows.

    EDGEWISE_DATA=… python docs/results/process_weight.py

Splits and trainings are those of gaussian_process.py, more of them. Printed are RMSE in units of the scaled target,
their mean and each split's: of the network, the process, fixed shares, and of the share at which the validation rows
are predicted best, alone or with so many rows more for which two thirds are.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from edgewise.tasks.molecules.settings import SETTINGS
from edgewise.tasks.molecules.task import TASK
from edgewise.tasks.molecules.trained import NUM_SUBSTRUCTURES, SHARES, USUAL_SHARE
from edgewise.tasks.run import fit

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from molecules import PROTOCOLS

SETS = {"freesolv, mat_split_0": 10, "esol, mat_split_0": 8, "bace pIC50, random 0": 3}
"""Protocols, and the number of splits of the rows that are not test rows there."""
ROWS = (0, 50, 100, 200)
"""Rows more, for which the usual share is best."""
Predicted = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Numbers of the network, of the process, and the true ones."""


def predicted(table: Path, target: str) -> dict[str, Predicted]:
    """What both predict of the validation and the test rows of a table."""
    given: dict[str, Any] = {"data": [str(table)], "smiles_columns": ["smiles"], "target_columns": [target]}
    settings = SETTINGS.of({**given, "splits_column": "part", "threads": 1, "baselines": False}, __file__)
    prepared = TASK.prepare(settings)
    fit(TASK, prepared)
    fitted, data = prepared.fitted, prepared.data
    (member,) = fitted.members
    process = member.process or fitted.process_of(data, prepared.splits.of_member(0)[0], settings.train.seed)
    member.process, fitted.sizes = None, fitted._counting(NUM_SUBSTRUCTURES)
    batches, found = fitted.batches(data), {}
    for part in ("val", "test"):
        rows = getattr(prepared.splits, part)
        with torch.no_grad():
            batch = batches.batch(rows)
            both = member(batch).double().mean(1).numpy()[:, 0], process(batch).numpy()[:, 0]
        found[part] = (*both, fitted.scales.target.transform(data.targets[rows])[:, 0])
    return found


def errors(found: dict[str, Predicted]) -> dict[str, float]:
    """The error of each way on the test rows."""
    shares = np.array([0.0, *(share / (1 + share) for share in SHARES)])
    squares = np.array([square(found["val"], share) for share in shares])
    network, process, truth = found["val"]
    apart = min(np.mean((process - network) ** 2), squares.min())
    ways = {"network": 0.0, "process": 1.0, "1/2": 0.5, "2/3": 2 / 3, "4/5": 0.8}
    for rows in ROWS:
        usual = rows / len(truth) * apart * (shares - USUAL_SHARE) ** 2
        ways[f"chosen, {rows} rows more"] = shares[np.argmin(squares + usual)]
    return {way: float(np.sqrt(square(found["test"], share))) for way, share in ways.items()}


def square(predicted: Predicted, share: float) -> float:
    """The mean squared error where the process has a share."""
    network, process, truth = predicted
    return float(np.mean((network + share * (process - network) - truth) ** 2))


if __name__ == "__main__":
    for name, num_splits in SETS.items():
        protocol = PROTOCOLS[name]
        frame = pd.read_csv(Path(os.environ["EDGEWISE_DATA"]) / f"moleculenet/{protocol.file}.csv")
        frame = frame.loc[protocol.split(frame) != "test", ["smiles", protocol.target]].reset_index(drop=True)
        splits = []
        for seed in range(num_splits):
            drawn = np.random.default_rng(seed).random(len(frame))
            with tempfile.TemporaryDirectory() as folder:
                table = Path(folder) / "table.csv"
                part = np.select([drawn > 0.85, drawn > 0.75], ["test", "val"], "train")
                frame.assign(part=part).to_csv(table, index=False)
                splits.append(errors(predicted(table, protocol.target)))
        for way in splits[0]:
            values = [split[way] for split in splits]
            print(f"{name:28} {way:22} {np.mean(values):.4f} {np.round(values, 3)}", flush=True)
