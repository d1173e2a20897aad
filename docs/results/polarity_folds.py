"""Adds the columns `fold_0` … `fold_9` to the table of movie-review sentences.

    python docs/results/polarity_folds.py rt_polarity.csv polarity_folds.csv

The folds are scikit-learn's `StratifiedKFold(10, shuffle=True, random_state=0)` by the column `label`.
"""

import sys

import pandas as pd
from sklearn.model_selection import StratifiedKFold


def main(source: str, target: str) -> None:
    """Read, add the columns, write."""
    frame = pd.read_csv(source, dtype=str, keep_default_na=False)
    folds = StratifiedKFold(10, shuffle=True, random_state=0).split(frame, frame["label"])
    for number, (_, test) in enumerate(folds):
        frame[f"fold_{number}"] = "train"
        frame.loc[frame.index[test], f"fold_{number}"] = "test"
    frame.to_csv(target, index=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
