"""Numbers of few molecules with many rows each: the network, the Gaussian process beside it, and both, for some steps.

    EDGEWISE_DATA=… python docs/results/few_molecules.py [TABLE …] > few_molecules.txt

`random N`: CO₂ in ionic liquids, rows that are no test rows of a random split, as in known_molecules.py. `known N`:
rows of the made-up molecules of new_molecules.py, drawn at random; `noisy N` the same with noise of 0.02, `thin N` with
7 of 20 rows of each. `liquids N` and `simulated N`: new liquids, and new molecules of made-up rows, as in
new_molecules.py; whole molecules validate. These ran while the process stood beside models of new molecules, too. Lines
are the rows, the epochs, the MAE and R² of each way, the share of the process, and the seconds of both trainings, on a
core that was shared.
"""

import sys
import tempfile
import time
from collections.abc import Sequence

import numpy as np
import pandas as pd
from known_molecules import COLUMNS, random_rows
from new_molecules import CONDITIONS, DATA, TARGET, liquids, simulated

from edgewise.learn.tasks.molecules.settings import SETTINGS
from edgewise.learn.tasks.molecules.task import TASK
from edgewise.learn.tasks.run import fit
from edgewise.learn.tasks.task import Prepared

EPOCHS = (16, 48, 112)
TABLES = [f"random {seed}" for seed in range(2)] + [f"liquids {fold}" for fold in range(5)]
TABLES += [f"simulated {draw}" for draw in range(2)]


def rows_of(which: str) -> tuple[pd.DataFrame, Sequence[str], str]:
    """The rows, the columns of their molecules, and how intervals are calibrated."""
    kind, number = which.split()
    if kind == "random":
        frame, part = random_rows(pd.read_csv(DATA / "co2_ionic_liquids/co2_ionic_liquids.csv"), int(number))
        return frame.assign(part=part), COLUMNS[:2], "random"
    if kind in ("known", "noisy", "thin"):
        (frame, columns), random = simulated(int(number)), np.random.default_rng(int(number))
        if kind == "noisy":
            frame[TARGET] = np.clip(frame[TARGET] + 0.02 * random.standard_normal(len(frame)), 0, 1)
        drawn = random.random(len(frame))
        if kind == "thin":
            keeps = random.random(len(frame)) < 0.35
            frame, drawn = frame[keeps], drawn[keeps]
        return frame.assign(part=np.select([drawn > 0.85, drawn > 0.75], ["test", "val"], "train")), columns, "random"
    return *{"liquids": liquids, "simulated": simulated}[kind](int(number)), "group"


def scores(prepared: Prepared) -> str:
    """Each way on the test rows."""
    fitted, rows = prepared.fitted, prepared.splits.test
    truth = prepared.data.rows.targets[rows, 0]
    outputs = fitted.ensemble_predictions(prepared.data, rows)
    found = {"both": outputs.mean()[:, 0]}
    found |= {name.removeprefix("gaussian-"): values[:, 0] for name, values in outputs.parts.items()}
    spread = np.square(truth - truth.mean()).mean()
    shown = [
        f"{name} {np.abs(values - truth).mean():.5f} {1 - np.square(values - truth).mean() / spread:.4f}"
        for name, values in found.items()
    ]
    return f"{', '.join(shown)}, share {fitted.shares.get('gaussian-process', 0):.2f}"


def main() -> None:
    """Trains each number of epochs on each table, or on those that are named."""
    for which in sys.argv[1:] or TABLES:
        frame, columns, calibration = rows_of(which)
        for epochs in EPOCHS:
            with tempfile.NamedTemporaryFile(suffix=".csv") as file:
                frame[[*columns, *CONDITIONS, TARGET, "part"]].to_csv(file.name, index=False)
                settings = {"data": [file.name], "smiles_columns": columns, "descriptors_columns": CONDITIONS}
                settings |= {"target_columns": [TARGET], "splits_column": "part", "calibration": calibration}
                settings |= {"threads": 1, "baselines": False, "epochs": epochs}
                prepared = TASK.prepare(SETTINGS.of(settings, "few_molecules.py"))
            began = time.perf_counter()
            fit(TASK, prepared)
            seconds = time.perf_counter() - began
            print(which, epochs, f"{scores(prepared)}, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
