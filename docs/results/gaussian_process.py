"""Numbers of molecules on rows that are no test rows: the network, the Gaussian process, and both, as they are weighed.

    EDGEWISE_DATA=… python docs/results/gaussian_process.py

Of the rows that are not test rows of a protocol of benchmarks/molecules.py 15% are scored and 10% validate, at random.
Each split trains the defaults once; the network and the process are then also scored alone, and both before the process
learned from the validation rows. Printed are RMSE.
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.learn.companions.stack import network_of
from edgewise.learn.tasks.companions import add_companion
from edgewise.learn.tasks.molecules.companions import PROCESS_OF_NUMBERS
from edgewise.learn.tasks.molecules.settings import SETTINGS
from edgewise.learn.tasks.molecules.task import TASK
from edgewise.learn.tasks.run import fit
from edgewise.learn.tasks.task import Prepared

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from molecules import NAME, PROTOCOLS

SETS = {
    "freesolv, mat_split_0": 4,
    "esol, mat_split_0": 4,
    "bace pIC50, random 0": 3,
    "lipophilicity, row_id % 10": 2,
}
"""Protocols, and the number of splits of the rows that are not test rows there."""


def trained(table: Path, target: str) -> Prepared:
    """The defaults, trained once on a table."""
    given: dict[str, Any] = {"data": [str(table)], "smiles_columns": ["smiles"], "target_columns": [target]}
    settings = SETTINGS.of({**given, "splits_column": "part", "threads": 1, "baselines": False}, __file__)
    prepared = TASK.prepare(settings)
    fit(TASK, prepared)
    return prepared


def scores(table: Path, target: str) -> dict[str, float]:
    """The RMSE of each way on the test rows of a table, and the share of the process."""
    prepared = trained(table, target)
    fitted, rows = prepared.fitted, prepared.splits.test
    truth = prepared.data.rows.targets[rows, 0]

    def error(values: np.ndarray) -> float:
        return float(np.sqrt(np.mean((values - truth) ** 2)))

    outputs = fitted.ensemble_predictions(prepared.data, rows)
    found = {"both": error(outputs.mean()[:, 0]), "share": fitted.shares.get("gaussian-process", 0.0)}
    found |= {name.removeprefix("gaussian-"): error(values[:, 0]) for name, values in outputs.parts.items()}

    fitted.members, fitted.companions = list(map(network_of, fitted.members)), {}
    members, seed = [prepared.splits.of_member(0)], prepared.settings.train.seed
    add_companion(fitted, prepared.data, PROCESS_OF_NUMBERS, members, seed, TASK.loss(prepared), uses_validation=False)
    found["before"] = error(fitted.ensemble_predictions(prepared.data, rows).mean()[:, 0])
    return found


def tables(name: str, num_splits: int) -> Iterator[Path]:
    """A table for each split of the rows of a protocol that are no test rows there."""
    protocol = PROTOCOLS[name]
    frame = protocol.table()
    frame = frame.loc[frame[NAME] != "test", ["smiles", protocol.target]].reset_index(drop=True)
    for seed in range(num_splits):
        drawn = np.random.default_rng(seed).random(len(frame))
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "table.csv"
            part = np.select([drawn > 0.85, drawn > 0.75], ["test", "val"], "train")
            frame.assign(part=part).to_csv(table, index=False)
            yield table


if __name__ == "__main__":
    for name, num_splits in SETS.items():
        rows = []
        for seed, table in enumerate(tables(name, num_splits)):
            rows.append(scores(table, PROTOCOLS[name].target))
            print(name, seed, {way: round(value, 4) for way, value in rows[-1].items()}, flush=True)
        mean = {way: round(float(np.mean([row[way] for row in rows if way in row])), 4) for way in rows[0]}
        print(name, "mean", mean, flush=True)
