"""Coverage and width of 90% intervals, and errors, on rows unlike the training rows: new liquids, new scaffolds.

    python benchmarks/intervals.py [--set model-dim=32 ...] [--only co2 ...]

EDGEWISE_DATA names the folder of the data sets (their READMEs describe them):

co2    solubility of CO₂ in ionic liquids, GroupKFold(5) by liquid: each fold is the test rows of one training
lipo   log D of Lipophilicity, scaffold splits with --data-seed 0, 1, 2
bace   pIC50 of BACE, scaffold splits with --data-seed 0, 1, 2

Three kinds of intervals stand beside each other on the same test rows:

plain  one model; as wide for all rows, from the sizes of the errors on its validation rows (split conformal, as
       chemprop calibrates): a random tenth of the training rows for co2, whole scaffolds for lipo and bace
one    one model with its default intervals
five   `--ensemble-size 5` with its default intervals

`one` is the first of the five models, and so is `plain` for lipo and bace. The results are written after each fold to
docs/results/intervals.json, and what stands there is not computed again; an interrupted training goes on from its
checkpoints in runs/intervals. Without --set all settings have their defaults.
"""

import argparse
import copy
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from edgewise.learn.companions.stack import network_of
from edgewise.learn.intervals import Intervals
from edgewise.learn.tasks.molecules.settings import SETTINGS
from edgewise.learn.tasks.molecules.task import TASK
from edgewise.learn.tasks.run import fit
from edgewise.learn.tasks.task import Prepared
from edgewise.learn.training.conformal import coverage_of
from edgewise.learn.training.folder import RunFolder

HERE = Path(__file__).parent.parent
RESULTS = HERE / "docs/results/intervals.json"
WORK = HERE / "runs/intervals"
COVERAGE = 0.9
NUM_FOLDS = {"co2": 5, "lipo": 3, "bace": 3}
TITLES = {"co2": "CO₂, new liquids", "lipo": "Lipophilicity, scaffolds", "bace": "BACE pIC50, scaffolds"}
COLUMNS: dict[str, dict[str, Any]] = {
    "co2": {
        "smiles_columns": ["cation_smiles", "anion_smiles"],
        "descriptors_columns": ["temperature_K", "pressure_bar"],
        "target_columns": ["x_co2_mole_fraction"],
        "bounds": [0.0, 1.0],
        "splits_column": "part",
    },
    "lipo": {"smiles_columns": ["smiles"], "target_columns": ["logD_pH7_4"], "split": "scaffold"},
    "bace": {"smiles_columns": ["smiles"], "target_columns": ["pIC50"], "split": "scaffold"},
}
FILES = {"lipo": "moleculenet/lipophilicity.csv", "bace": "moleculenet/bace.csv"}


def job_of(name: str, fold: int, changes: dict[str, Any], **more: Any) -> Any:
    """The settings of a run."""
    data = Path(os.environ["EDGEWISE_DATA"])
    settings = {**COLUMNS[name], **changes, **more, "threads": 1, "baselines": False, "coverage": COVERAGE}
    if name in FILES:
        return SETTINGS.of({**settings, "data": [str(data / FILES[name])], "data_seed": fold}, "intervals.py")
    path = WORK / f"co2_{fold}.csv"
    if not path.is_file():
        from sklearn.model_selection import GroupKFold

        frame = pd.read_csv(data / "co2_ionic_liquids/co2_ionic_liquids.csv", dtype=str, keep_default_na=False)
        test = list(GroupKFold(5).split(frame, groups=frame["il"]))[fold][1]
        frame["part"] = "train"
        frame.loc[frame.index[test], "part"] = "test"
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.to_csv(path, index=False)
    return SETTINGS.of({**settings, "data": [str(path)]}, "intervals.py")


def trained(job: Any, folder: Path) -> Prepared:
    """The trained ensemble of a run, with its checkpoints in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    prepared = TASK.prepare(job)
    fit(TASK, prepared, folder=RunFolder(folder), resume=True)
    return prepared


def first_of(prepared: Prepared) -> Prepared:
    """The first model of an ensemble, calibrated on the validation rows as if it were alone."""
    members = copy.deepcopy([network_of(prepared.fitted.members[0])])  # calibration puts companions beside it
    fitted = replace(prepared.fitted, members=members, companions={}, intervals=as_wide_everywhere(prepared))
    alone = replace(prepared, fitted=fitted, splits=replace(prepared.splits, left_out=()))
    TASK.calibrate(alone)
    return alone


def plainly(prepared: Prepared) -> Prepared:
    """The same model with intervals that are as wide for all rows."""
    return replace(prepared, fitted=replace(prepared.fitted, intervals=as_wide_everywhere(prepared)))


def as_wide_everywhere(prepared: Prepared) -> Intervals:
    """The intervals of a model without the difficulty of rows."""
    return replace(prepared.fitted.intervals, difficulty=(), sigma=None)


def judged(prepared: Prepared) -> dict[str, Any]:
    """How the intervals of a trained ensemble do on the test rows."""
    table, rows, calibrating = prepared.data, prepared.splits.test, prepared.splits.calibrating
    (found,) = prepared.fitted.predict(table, rows=rows)
    target, low, high = table.rows.targets[rows, 0], found.low[rows], found.high[rows]
    missed = np.maximum(low - target, 0) + np.maximum(target - high, 0)
    return {
        "coverage": coverage_of(target, low, high),
        "width": float((high - low).mean()),
        "score": float((high - low + 2 / (1 - COVERAGE) * missed).mean()),
        "mae": float(np.abs(found.value[rows] - target).mean()),
        "test_rows": len(rows),
        "calibration": prepared.splits.calibration,
        "calibration_rows": len(calibrating),
    }


def run(name: str, fold: int, changes: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The three kinds of intervals on one fold."""
    five = trained(job_of(name, fold, changes, ensemble_size=5), folder / f"{name}_{fold}")
    one = plain = first_of(five)
    if name == "co2":
        plain = trained(job_of(name, fold, changes, calibration="random"), folder / f"{name}_{fold}_random")
    return {"plain": judged(plainly(plain)), "one": judged(one), "five": judged(five)}


def show(results: dict[str, dict[str, Any]]) -> str:
    """The results as a table: coverage, mean width and mean absolute error of each fold, and their means."""
    kinds, numbers = {"plain": "plain", "one": "one model", "five": "five models"}, ("coverage", "width", "mae")
    titles = [f"{title}: coverage, width, MAE" for title in kinds.values()]
    lines = [f"| test rows | {' | '.join(titles)} |", "| --- | --- | --- | --- |"]
    for name in (each for each in NUM_FOLDS if each in results):
        folds = results[name]
        for fold, found in sorted(folds.items()):
            cells = [", ".join(f"{found[kind][each]:.3f}" for each in numbers[:2]) for kind in kinds]
            cells = [f"{cell}, {found[kind]['mae']:.4f}" for cell, kind in zip(cells, kinds, strict=True)]
            lines.append(f"| {TITLES[name]}, {fold} | {' | '.join(cells)} |")
        means = [
            [float(np.mean([found[kind][each] for found in folds.values()])) for each in numbers] for kind in kinds
        ]
        cells = [f"**{coverage:.3f}**, {width:.3f}, {mae:.4f}" for coverage, width, mae in means]
        lines.append(f"| **{TITLES[name]}, mean of {len(folds)}** | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Compute what is missing, and print all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings other than the defaults")
    parser.add_argument("--only", nargs="*", default=list(NUM_FOLDS), choices=list(NUM_FOLDS), help="sets")
    parser.add_argument("--folds", nargs="*", type=int, default=list(range(5)), help="folds of each set")
    words = parser.parse_args()
    key = " ".join(sorted(words.set)) or "defaults"
    changes = {name.replace("-", "_"): json.loads(value) for name, value in (each.split("=") for each in words.set)}
    for name in words.only:
        for fold in range(NUM_FOLDS[name]):
            known = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
            folds = known.setdefault(key, {}).setdefault(name, {})
            if str(fold) in folds or fold not in words.folds:
                continue
            folds[str(fold)] = run(name, fold, changes, WORK / key.replace(" ", "_"))
            RESULTS.parent.mkdir(parents=True, exist_ok=True)
            RESULTS.write_text(json.dumps(known, indent=1) + "\n")
    print(show(json.loads(RESULTS.read_text())[key]))


if __name__ == "__main__":
    main()
