"""Counts of words beside the network of texts, on rows that are no test rows.

    EDGEWISE_DATA=… python docs/results/word_counts.py [FLAG ...]

Held out are SST-2's dev sentences, two fifths of its training sentences, and two fifths of the training sentences of
polarity fold 0 (`StratifiedKFold(5, shuffle=True, random_state=1)`). Of the other rows a tenth is the validation split
of the run: it chooses the weight of the companion. Each set trains once, with the flags if there are any. Printed are
accuracies in percent on the held-out rows, and the share of the companion:

    network, counts   each alone
    stack             as the run predicts
    2/3               the counts with two thirds
    logits            the mean of log-odds, with the share that has the smallest loss
    calibrated        the same after both are calibrated (Platt 1999)
    regression        logistic regression over both log-odds

The last three are learned from four fifths of the held-out rows, for the fifth: the counts have seen all others.

A version without companions (before they were) prints the one number of its network.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

EDGEWISE = [sys.executable, "-m", "edgewise"]
DATA = Path(os.environ.get("EDGEWISE_DATA", "."))
SHARES = np.linspace(0, 1, 21)


def fifths(frame: pd.DataFrame, count: int) -> list[pd.Series]:
    """For each of some fifths a column of splits, whose test rows are the fifth."""
    columns = []
    for _, held_out in list(StratifiedKFold(5, shuffle=True, random_state=1).split(frame, frame["label"]))[:count]:
        columns.append(with_validation(frame, np.isin(np.arange(len(frame)), held_out)))
    return columns


def with_validation(frame: pd.DataFrame, is_held_out: np.ndarray) -> pd.Series:
    """A column of splits: held-out rows, and a tenth of the others for validation."""
    part = np.where(is_held_out, "test", "train").astype(object)
    others = np.flatnonzero(~is_held_out)
    part[np.random.default_rng(0).permutation(others)[: len(others) // 10]] = "val"
    return pd.Series(part)


def sets() -> dict[str, pd.DataFrame]:
    """The tables, with their splits."""

    def read(path: str) -> pd.DataFrame:
        return pd.read_csv(DATA / path, dtype=str, keep_default_na=False)

    train, dev, polarity = read("sst2/train.csv"), read("sst2/dev.csv"), read("rt_polarity/rt_polarity.csv")
    folds = StratifiedKFold(10, shuffle=True, random_state=0).split(polarity, polarity["label"])
    polarity = polarity.iloc[next(folds)[0]].reset_index(drop=True)
    both = pd.concat([train, dev], ignore_index=True)
    tables = {"dev": both.assign(split=with_validation(both, np.arange(len(both)) >= len(train)))}
    tables |= {f"sst {number}": train.assign(split=part) for number, part in enumerate(fifths(train, 2))}
    tables |= {f"mr {number}": polarity.assign(split=part) for number, part in enumerate(fifths(polarity, 2))}
    return tables


def predictions(frame: pd.DataFrame, flags: list[str]) -> tuple[pd.DataFrame, dict[str, float]]:
    """The predictions of a run for all rows, and the shares of its parts."""
    with tempfile.TemporaryDirectory() as folder:
        table, run, predicted = (Path(folder) / each for each in ("table.csv", "run", "predictions.csv"))
        frame.to_csv(table, index=False)
        roles = ["--text-columns", "text", "--target-columns", "label", "--splits-column", "split"]
        train = [*EDGEWISE, "train", str(table), *roles, *flags, "--threads", "1", "--no-baselines", "-o", str(run)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run(train, check=True, capture_output=True, env=environment)
        shares = json.loads((run / "metrics.json").read_text()).get("shares", {})
        show = ["--show-parts"] if shares else []
        predict = [*EDGEWISE, "predict", str(run), str(table), *show, "-o", str(predicted)]
        subprocess.run(predict, check=True, capture_output=True, env=environment)
        return pd.read_csv(predicted), shares


def weighted(network: np.ndarray, counts: np.ndarray, truth: np.ndarray) -> float:
    """The share of the counts in the mean of log-odds that has the smallest loss."""
    means = [(1 - share) * network + share * counts for share in SHARES]
    return float(SHARES[np.argmin([np.logaddexp(0, np.where(truth, -mean, mean)).mean() for mean in means])])


def calibrated(values: np.ndarray, truth: np.ndarray, learn: np.ndarray) -> np.ndarray:
    """Log-odds that are scaled and moved so that they fit some rows."""
    return LogisticRegression(C=1e6).fit(values[learn, None], truth[learn]).decision_function(values[:, None])


def joined(network: np.ndarray, counts: np.ndarray, truth: np.ndarray) -> dict[str, np.ndarray]:
    """What each way of joining both probabilities predicts for held-out rows: above 0 is the second class."""
    log_odds = [np.log(values / (1 - values)) for values in np.clip([network, counts], 1e-6, 1 - 1e-6)]
    both = np.stack(log_odds, axis=1)
    ways = {way: np.zeros(len(truth)) for way in ("logits", "calibrated", "regression")}
    for learn, predict in StratifiedKFold(5, shuffle=True, random_state=0).split(both, truth):
        scaled = [calibrated(values, truth, learn) for values in log_odds]
        for way, (of_network, of_counts) in {"logits": log_odds, "calibrated": scaled}.items():
            share = weighted(of_network[learn], of_counts[learn], truth[learn])
            ways[way][predict] = ((1 - share) * of_network + share * of_counts)[predict]
        model = LogisticRegression().fit(both[learn], truth[learn])
        ways["regression"][predict] = model.decision_function(both[predict])
    return {"2/3": (network + 2 * counts) / 3 - 0.5, **ways}


def accuracies(frame: pd.DataFrame, flags: list[str]) -> dict[str, float]:
    """Of each way, in percent on the held-out rows."""
    predicted, shares = predictions(frame, flags)
    is_held_out = (frame["split"] == "test").to_numpy()
    predicted, truth = predicted[is_held_out], (frame["label"] == "1").to_numpy()[is_held_out]
    values = {"stack" if shares else "network": predicted["label_prob_1"].to_numpy() - 0.5}
    if len(shares) > 1:
        network, counts = (predicted[f"label_prob_1_{name}"].to_numpy() for name in ("network", "word_counts"))
        values = {"network": network - 0.5, "counts": counts - 0.5, **values, **joined(network, counts, truth)}
    found = {way: 100 * float(np.mean((of_way > 0) == truth)) for way, of_way in values.items()}
    return {**found, "share": 100 * shares.get("word-counts", 0.0)}


if __name__ == "__main__":
    print(" ".join(sys.argv[1:]) or "defaults", flush=True)
    by_set = {name: accuracies(frame, sys.argv[1:]) for name, frame in sets().items()}
    print(f"{'':12}" + "".join(f"{name:>8}" for name in by_set) + f"{'mean':>8}")
    for way in next(iter(by_set.values())):
        numbers = [found.get(way, np.nan) for found in by_set.values()]
        print(f"{way:12}" + "".join(f"{number:8.2f}" for number in [*numbers, np.mean(numbers)]))
