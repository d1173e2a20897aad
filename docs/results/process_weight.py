"""How much a Gaussian process should weigh beside the network, on rows that are no test rows.

    EDGEWISE_DATA=… python docs/results/process_weight.py

Splits and trainings are those of gaussian_process.py, more of them. Printed are RMSE in units of the scaled target,
their mean and each split's: of the network, the process, fixed shares, and of the share at which the validation rows
are predicted best, alone or with so many rows more for which two thirds are.
"""

from pathlib import Path

import numpy as np
import torch
from gaussian_process import PROCESS_OF_NUMBERS, PROTOCOLS, tables, trained

from edgewise.learn.companions.stack import network_of
from edgewise.learn.tasks.companions import PRIOR_WEIGHT, SHARES

SETS = {"freesolv, mat_split_0": 10, "esol, mat_split_0": 8, "bace pIC50, random 0": 3}
"""Protocols, and the number of splits of the rows that are not test rows there."""
ROWS = (0, 50, 100, 200)
"""Rows more, for which the prior share is best."""
Predicted = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Numbers of the network, of the process, and the true ones."""


def predicted(table: Path, target: str) -> dict[str, Predicted]:
    """What both predict of the validation and the test rows of a table."""
    prepared = trained(table, target)
    fitted, data = prepared.fitted, prepared.data
    train, _ = prepared.splits.of_member(0)
    fitted.encoder = PROCESS_OF_NUMBERS.encoder(fitted.encoder)
    process = PROCESS_OF_NUMBERS.fit(fitted, data, train, train[:0], prepared.settings.train.seed).module
    batches, network, found = fitted.batches(data), network_of(fitted.model), {}
    for part in ("val", "test"):
        rows = getattr(prepared.splits, part)
        with torch.no_grad():
            batch = batches.batch(rows)
            both = network(batch).double().mean(1).numpy()[:, 0], process(batch).numpy()[:, 0]
        found[part] = (*both, fitted.output.scale.transform(data.rows.targets[rows])[:, 0])
    return found


def errors(found: dict[str, Predicted]) -> dict[str, float]:
    """The error of each way on the test rows."""
    shares = np.array([0.0, *(share / (1 + share) for share in SHARES)])
    squares = np.array([square(found["val"], share) for share in shares])
    network, process, truth = found["val"]
    apart = min(np.mean((process - network) ** 2), squares.min())
    ways = {"network": 0.0, "process": 1.0, "1/2": 0.5, "2/3": 2 / 3, "4/5": 0.8}
    for rows in ROWS:
        prior = rows / len(truth) * apart * (shares - PRIOR_WEIGHT / (1 + PRIOR_WEIGHT)) ** 2
        ways[f"chosen, {rows} rows more"] = shares[np.argmin(squares + prior)]
    return {way: float(np.sqrt(square(found["test"], share))) for way, share in ways.items()}


def square(predicted: Predicted, share: float) -> float:
    """The mean squared error where the process has a share."""
    network, process, truth = predicted
    return float(np.mean((network + share * (process - network) - truth) ** 2))


if __name__ == "__main__":
    for name, num_splits in SETS.items():
        splits = [errors(predicted(table, PROTOCOLS[name].target)) for table in tables(name, num_splits)]
        for way in splits[0]:
            values = [split[way] for split in splits]
            print(f"{name:28} {way:22} {np.mean(values):.4f} {np.round(values, 3)}", flush=True)
