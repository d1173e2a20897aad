"""Classes of molecules on validation rows: one model, the mean of five, and both beside and mixed with a forest.

    EDGEWISE_DATA=… python docs/results/class_ensembles.py

Of the rows that are not test rows of a protocol of benchmarks/molecules.py a part validates: 15% at random, for BBBP
whole scaffolds with a fifth of the rows. AUC; `one` is the mean over five models, a mixture has half of each.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from edgewise.learn.estimators import MoleculeClassifier
from edgewise.learn.readers.molecules.data import molecules_from_arrays
from edgewise.learn.training.baseline import finite_features, fit_forest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from molecules import NAME, PROTOCOLS, by_scaffold

NUM_MODELS = 5


def validation(name: str, frame: pd.DataFrame, seed: int) -> np.ndarray:
    """Which rows validate."""
    if name.startswith("bbbp"):
        return by_scaffold(seed + 10)(frame) != "train"
    return np.argsort(np.random.default_rng(100 + seed).permutation(len(frame))) / len(frame) >= 0.85


def scores(name: str, seed: int) -> dict[str, float]:
    """The area under the ROC curve of each way."""
    protocol = PROTOCOLS[name]
    frame = protocol.table()
    frame = frame[frame[NAME] != "test"].reset_index(drop=True)
    smiles, target = frame["smiles"].to_numpy(object), frame[protocol.target].to_numpy()
    is_held = validation(name, frame, seed)
    rows, held = np.flatnonzero(~is_held), np.flatnonzero(is_held)
    table = molecules_from_arrays(smiles.tolist(), target, task_type="classification")
    known = table.store.graph_features.numpy()[table.graph_of_row].reshape(len(target), -1)
    known = finite_features(known, rows)
    forest = fit_forest(known[rows], table.rows.targets[rows], np.ones(len(rows)), (2,)).predict(known[held])[0][:, 1]
    found = np.stack(
        [
            MoleculeClassifier(random_state=number, forest=False)
            .fit(smiles[rows].tolist(), target[rows])
            .predict_proba(smiles[held].tolist())[:, 1]
            for number in range(NUM_MODELS)
        ]
    )

    def judged(predicted: np.ndarray) -> float:
        return float(roc_auc_score(target[held], predicted))

    return {
        "one": float(np.mean([judged(each) for each in found])),
        "five": judged(found.mean(0)),
        "forest": judged(forest),
        "one and forest": float(np.mean([judged(each + forest) for each in found])),
        "five and forest": judged(found.mean(0) + forest),
    }


if __name__ == "__main__":
    for name in ("bbbp, mat_split_0", "bace class, random 0"):
        for seed in range(4):
            print(name, seed, {way: round(value, 4) for way, value in scores(name, seed).items()}, flush=True)
