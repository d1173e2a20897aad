"""How much a random forest should weigh beside the network of classes, on rows that are no test rows.

    EDGEWISE_DATA=… python docs/results/forest_weight.py

Splits are those of class_forest.py. Each trains the defaults once; `predict --show-parts` gives the probabilities of
the network, of the forest, and of both as the validation rows weigh them. Printed are areas under the ROC curve, their
mean and each split's, and the share of the forest.
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from class_forest import EDGEWISE, NAME, NUM_SPLITS, PROTOCOLS, our_command, parts, table_of
from sklearn.metrics import roc_auc_score


def scores(name: str, seed: int) -> dict[str, float]:
    """The area under the ROC curve of each way on the test rows, and the share of the forest."""
    protocol, frame = PROTOCOLS[name], table_of(name)
    part = parts(frame, seed, of_scaffolds=name.startswith("bbbp"))
    with tempfile.TemporaryDirectory() as folder:
        table, run, predictions = (Path(folder) / each for each in ("table.csv", "run", "predictions.csv"))
        frame.assign(**{NAME: part}).to_csv(table, index=False)
        train = [*our_command(protocol, table), "--no-baselines", "-o", str(run)]
        predict = [*EDGEWISE, "predict", str(run), str(table), "--show-parts", "-o", str(predictions)]
        for command in (train, predict):
            subprocess.run(command, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        predicted, share = pd.read_csv(predictions), json.loads((run / "metrics.json").read_text())["shares"]
    column = f"{protocol.target}_prob_1"
    test = (part == "test") & predicted[column].notna().to_numpy()
    network, forest = predicted[f"{column}_network"], predicted[f"{column}_forest"]
    ways = {"network": network, "forest": forest, "2/3": (network + 2 * forest) / 3, "chosen": predicted[column]}
    truth = frame[protocol.target].to_numpy()[test]
    found = {way: float(roc_auc_score(truth, values[test])) for way, values in ways.items()}
    return {**found, "share": share.get("forest", 0.0)}


if __name__ == "__main__":
    for name in ("bace class, random 0", "bbbp, mat_split_0"):
        splits = [scores(name, seed) for seed in range(NUM_SPLITS)]
        for way in splits[0]:
            values = [split[way] for split in splits]
            print(f"{name:24} {way:10} {np.mean(values):.4f} {np.round(values, 4)}", flush=True)
