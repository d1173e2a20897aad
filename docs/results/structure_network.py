"""Numbers of new molecules, where few have many rows each: the network, the one without descriptors beside it, both.

    EDGEWISE_DATA=… python docs/results/structure_network.py [TABLE …] > structure_network.txt

Tables as in new_molecules.py, whose rows are no test rows. Whole molecules validate, as by default for such rows: they
weigh the companion, which then learns from them, too. Lines are the rows, the share of the companion, the MAE of each
part and of both, and the seconds of the training.
"""

import sys
import tempfile
import time

import numpy as np
from new_molecules import CONDITIONS, TABLES, TARGET, liquids, simulated

from edgewise.learn.companions import NETWORK, STRUCTURE_NETWORK
from edgewise.learn.tasks.molecules.settings import SETTINGS
from edgewise.learn.tasks.molecules.task import TASK
from edgewise.learn.tasks.run import fit


def main() -> None:
    """Trains on each table, or on those that are named."""
    for which in sys.argv[1:] or TABLES:
        kind, number = which.split()
        frame, columns = {"liquids": liquids, "simulated": simulated}[kind](int(number))
        with tempfile.NamedTemporaryFile(suffix=".csv") as file:
            frame[[*columns, *CONDITIONS, TARGET, "part"]].to_csv(file.name, index=False)
            settings = {"data": [file.name], "smiles_columns": columns, "descriptors_columns": CONDITIONS}
            settings |= {"target_columns": [TARGET], "bounds": [0.0, 1.0], "splits_column": "part"}
            settings |= {"calibration": "group", "threads": 1, "baselines": False}
            prepared = TASK.prepare(SETTINGS.of(settings, "structure_network.py"))
        began = time.perf_counter()
        fit(TASK, prepared)
        seconds = time.perf_counter() - began
        fitted, rows = prepared.fitted, prepared.splits.test
        outputs, truth = fitted.ensemble_predictions(prepared.data, rows), prepared.data.rows.targets[rows, 0]
        errors = {part: np.abs(values[:, 0] - truth).mean() for part, values in outputs.parts.items()}
        both = np.abs(outputs.mean()[:, 0] - truth).mean()
        shown = [f"share {fitted.shares.get(STRUCTURE_NETWORK, 0):.2f}", f"network {errors.get(NETWORK, both):.5f}"]
        if STRUCTURE_NETWORK in errors:
            shown.append(f"without descriptors {errors[STRUCTURE_NETWORK]:.5f}")
        print(which, ", ".join([*shown, f"both {both:.5f}, {seconds:.0f} s"]), flush=True)


if __name__ == "__main__":
    main()
