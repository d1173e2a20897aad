"""How many steps numbers of few molecules need: RMSE on validation rows after 70, 40 and 25 steps for each 64 rows.

    EDGEWISE_DATA=… python docs/results/molecule_steps.py > molecule_steps.txt

Of the rows that are not test rows of a protocol of benchmarks/molecules.py, or of 400 or 800 of them, 15% validate.
Lines are the set, the split, which is the seed too, steps for each 64 rows, epochs, RMSE and processor seconds.
"""

import math
import sys
import time
from pathlib import Path

import numpy as np

from edgewise.learn.estimators import MoleculeRegressor

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from molecules import NAME, PROTOCOLS

SETS = {
    "esol": ("esol, mat_split_0", None, range(6)),
    "freesolv": ("freesolv, mat_split_0", None, range(6)),
    "lipophilicity 400": ("lipophilicity, row_id % 10", 400, range(2)),
    "bace 400": ("bace pIC50, random 0", 400, range(2)),
    "lipophilicity 800": ("lipophilicity, row_id % 10", 800, range(2)),
}
STEPS = ((70, 1000), (40, 600), (25, 400))
"""For each 64 rows, and at least."""


def main() -> None:
    """Prints a line for each training."""
    for name, (known, count, splits) in SETS.items():
        protocol = PROTOCOLS[known]
        frame = protocol.table()
        frame = frame[frame[NAME] != "test"]
        frame = frame if count is None else frame.sample(count, random_state=1)
        smiles, targets = frame["smiles"].to_numpy(object), frame[protocol.target].to_numpy(float)
        for split in splits:
            order = np.random.default_rng(100 + split).permutation(len(targets))
            held, rows = np.split(order, [int(0.15 * len(order))])
            learned = int(0.9 * len(rows))  # a tenth calibrates the intervals
            for each, least in STEPS:
                an_epoch = math.ceil(learned / (32 if learned < 400 else 64))
                epochs = math.ceil(max(least, each * learned / 64) / an_epoch)
                began = time.process_time()
                model = MoleculeRegressor(random_state=split, epochs=epochs, model="attention")
                errors = model.fit(smiles[rows].tolist(), targets[rows]).predict(smiles[held].tolist()) - targets[held]
                seconds = time.process_time() - began
                print(name, split, each, epochs, f"{np.sqrt(np.mean(errors**2)):.4f}", f"{seconds:.1f}", flush=True)


if __name__ == "__main__":
    main()
