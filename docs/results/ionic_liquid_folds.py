"""Adds the columns `fold_0` … `fold_4` to the table of CO₂ solubilities: whole ionic liquids held out.

    python docs/results/ionic_liquid_folds.py co2_ionic_liquids.csv co2_folds.csv

The folds are scikit-learn's `GroupKFold(5)` by the column `il`, in the order of the file.
"""

import sys

import pandas as pd
from sklearn.model_selection import GroupKFold


def main(source: str, target: str) -> None:
    """Read, add the columns, write."""
    frame = pd.read_csv(source, dtype=str, keep_default_na=False)
    for number, (_, test) in enumerate(GroupKFold(5).split(frame, groups=frame["il"])):
        frame[f"fold_{number}"] = "train"
        frame.loc[frame.index[test], f"fold_{number}"] = "test"
    frame.to_csv(target, index=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
