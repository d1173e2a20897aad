"""Whole commands on sets of molecules beside chemprop and a random forest, with the defaults of each.

    python benchmarks/molecules.py --chemprop PATH              all of it: hours; finished runs are not repeated
    python benchmarks/molecules.py --chemprop PATH --only esol  the sets whose names begin so
    python benchmarks/molecules.py --chemprop PATH --busy       the seconds are left out: other programs run beside it

PATH is the program `chemprop` in an environment of its own (python -m venv chemprop; chemprop/bin/pip install
chemprop==2.3.1). Each protocol is one table with a column of splits, which both programs read; they run one after the
other with one thread. The forest is the baseline that `edgewise train` scores on the same rows. Written are
benchmarks/results/molecules.json (every run) and molecules.md (the table). Chemprop's feature extraction, training and
test predictions are in its seconds, ours and the forest are in ours.
"""

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from edgewise.learn.readers.molecules.molecule import murcko_scaffold

RESULTS = Path(__file__).parent / "results"
NAME = "split"


@dataclass(frozen=True)
class Protocol:
    """A table, its target, and how its rows are split."""

    file: str
    target: str
    task_type: str
    split: Callable[[pd.DataFrame], np.ndarray]
    """`train`, `val` or `test` of each row."""


def column(name: str) -> Callable[[pd.DataFrame], np.ndarray]:
    """A split that the table brings."""
    return lambda frame: frame[name].replace("valid", "val").to_numpy()


def by_row_number(frame: pd.DataFrame) -> np.ndarray:
    """row_id % 10: 0 is test, 1 validation."""
    digit = frame["row_id"].astype(int) % 10
    return np.select([digit == 0, digit == 1], ["test", "val"], "train")


def at_random(seed: int) -> Callable[[pd.DataFrame], np.ndarray]:
    """80, 10 and 10% of the rows by the order of a random permutation."""

    def split(frame: pd.DataFrame) -> np.ndarray:
        place = np.argsort(np.random.default_rng(seed).permutation(len(frame))) / len(frame)
        return np.select([place < 0.8, place < 0.9], ["train", "val"], "test")

    return split


def fold(number: int) -> Callable[[pd.DataFrame], np.ndarray]:
    """One of five folds of rows in the order of a random permutation as test rows; a tenth of all rows validates."""

    def split(frame: pd.DataFrame) -> np.ndarray:
        tenth = np.argsort(np.random.default_rng(0).permutation(len(frame))) * 10 // len(frame)
        return np.select([tenth // 2 == number, tenth == (2 * number + 2) % 10], ["test", "val"], "train")

    return split


def by_scaffold(seed: int) -> Callable[[pd.DataFrame], np.ndarray]:
    """The same with whole Murcko scaffolds, in random order."""

    def split(frame: pd.DataFrame) -> np.ndarray:
        scaffolds, number = np.unique([murcko_scaffold(smiles) for smiles in frame["smiles"]], return_inverse=True)
        order = np.random.default_rng(seed).permutation(len(scaffolds))
        rows = np.bincount(number)[order]
        before = np.empty(len(scaffolds))
        before[order] = (np.cumsum(rows) - rows) / len(frame)
        return np.select([before[number] < 0.8, before[number] < 0.9], ["train", "val"], "test")

    return split


LOGD, PIC50 = ("lipophilicity", "logD_pH7_4", "regression"), ("bace", "pIC50", "regression")
INHIBITOR, BARRIER = ("bace", "bace1_inhibitor", "classification"), ("bbbp", "bbb_permeable", "classification")
ESOL = ("esol", "log_solubility_log10_mol_per_L", "regression")
FREESOLV = ("freesolv", "hydration_free_energy_kcal_per_mol", "regression")
PROTOCOLS = {
    "lipophilicity, row_id % 10": Protocol(*LOGD, by_row_number),
    "lipophilicity, scaffold 0": Protocol(*LOGD, by_scaffold(0)),
    "bace pIC50, random 0": Protocol(*PIC50, at_random(0)),
    "bace pIC50, random 1": Protocol(*PIC50, at_random(1)),
    "bace class, random 0": Protocol(*INHIBITOR, at_random(0)),
    "bace class, random 1": Protocol(*INHIBITOR, at_random(1)),
    **{f"bbbp, mat_split_{fold}": Protocol(*BARRIER, column(f"mat_split_{fold}")) for fold in range(2)},
    **{f"esol, mat_split_{fold}": Protocol(*ESOL, column(f"mat_split_{fold}")) for fold in range(3)},
    "freesolv, mat_split_0": Protocol(*FREESOLV, column("mat_split_0")),
    **{f"freesolv, fold {number} of 5": Protocol(*FREESOLV, fold(number)) for number in range(5)},
    **{f"esol, fold {number} of 5": Protocol(*ESOL, fold(number)) for number in range(5)},
    **{f"lipophilicity, fold {number} of 5": Protocol(*LOGD, fold(number)) for number in range(5)},
}
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "EDGEWISE_CACHE": ""}


def run(command: list[str]) -> float:
    """The seconds of a command; its output where it fails."""
    began = time.perf_counter()
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return round(time.perf_counter() - began, 1)


def score(task_type: str, truth: np.ndarray, predicted: np.ndarray) -> float:
    """RMSE of numbers, area under the ROC curve of classes."""
    if task_type == "regression":
        return float(np.sqrt(np.mean((truth - predicted) ** 2)))
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(truth, predicted))


def our_command(protocol: Protocol, table: Path) -> list[str]:
    """`edgewise train` with its defaults."""
    command = [
        sys.executable,
        "-m",
        "edgewise.cli.main",
        "train",
        "molecules",
        str(table),
        "--smiles-columns",
        "smiles",
    ]
    return [*command, "--target-columns", protocol.target, "--splits-column", NAME, "--task-type", protocol.task_type]


def chemprop_command(protocol: Protocol, table: Path, program: str) -> list[str]:
    """`chemprop train` with its defaults."""
    command = [program, "train", "--data-path", str(table), "--smiles-columns", "smiles", "--target-columns"]
    command += [protocol.target, "--splits-column", NAME, "--task-type", protocol.task_type, "--accelerator", "cpu"]
    return command


def ours(protocol: Protocol, table: Path, folder: Path) -> dict[str, Any]:
    """`edgewise train` with its defaults, and the forest that it scores on the way."""
    command = our_command(protocol, table)
    seconds = run([*command, "-o", str(folder / "ours")])
    metrics = json.loads((folder / "ours" / "metrics.json").read_text())
    metric = "rmse" if protocol.task_type == "regression" else "roc_auc"
    found = {"ours": metrics["test"][protocol.target][metric], "ours_seconds": seconds}
    return {**found, "forest": metrics["baselines"]["forest"]["test"][protocol.target][metric]}


def chemprops(protocol: Protocol, table: Path, folder: Path, program: str) -> dict[str, Any]:
    """`chemprop train` with its defaults, and its predictions of the test rows."""
    command = chemprop_command(protocol, table, program)
    seconds = run([*command, "--output-dir", str(folder / "chemprop")])
    predicted = pd.read_csv(next((folder / "chemprop").rglob("test_predictions.csv")))
    frame = pd.read_csv(table)
    truth = frame.loc[frame[NAME] == "test"].drop_duplicates("smiles").set_index("smiles")[protocol.target]
    kept = predicted.drop_duplicates("smiles").set_index("smiles")
    values = kept[next(name for name in kept.columns if name.startswith(protocol.target))]
    found = score(protocol.task_type, truth.to_numpy(float), values.reindex(truth.index).to_numpy(float))
    return {"chemprop": found, "chemprop_seconds": seconds}


def report(results: dict[str, dict[str, Any]], versions: str) -> str:
    """The table."""
    lines = [
        "| set, split | metric | ours | chemprop | random forest | ours, s | chemprop, s |",
        "|---|---|---|---|---|---|---|",
    ]
    folds: dict[str, list[str]] = {}
    for name in results:
        if " fold " in name:
            folds.setdefault(f"{name.split(' fold ')[0]} mean of 5 folds", []).append(name)
    means = {
        whole: {key: float(np.mean([results[name][key] for name in names])) for key in results[names[0]]}
        for whole, names in folds.items()
        if len(names) == 5 and len({frozenset(results[name]) for name in names}) == 1
    }
    for name, found in {**results, **means}.items():
        metric = "RMSE" if name in means or PROTOCOLS[name].task_type == "regression" else "AUC"
        models = {key: found[key] for key in ("ours", "chemprop", "forest") if key in found}
        best = (min if metric == "RMSE" else max)(models.values())
        shown = {key: f"**{value:.3f}**" if value == best else f"{value:.3f}" for key, value in models.items()}
        cells = [shown.get(key, "–") for key in ("ours", "chemprop", "forest")]
        cells += [f"{found[key]:.0f}" if key in found else "–" for key in ("ours_seconds", "chemprop_seconds")]
        lines.append(f"| {name} | {metric} | {' | '.join(cells)} |")
    return f"{__doc__.splitlines()[0]}\n\n{versions}\n\n" + "\n".join(lines) + "\n"


def main() -> None:
    """Run what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chemprop", help="the program chemprop; without it only ours and the forest are run")
    parser.add_argument("--only", nargs="+", default=[""], help="protocols whose names begin so")
    parser.add_argument("--busy", action="store_true", help="other programs run: record scores, but no seconds")
    parser.add_argument("--again", action="store_true", help="repeat runs that are there")
    options = parser.parse_args()
    data = Path(os.environ["EDGEWISE_DATA"]) / "moleculenet"
    path = RESULTS / "molecules.json"
    results = json.loads(path.read_text()) if path.is_file() else {}
    for name, protocol in PROTOCOLS.items():
        if not name.startswith(tuple(options.only)):
            continue
        known = {} if options.again else results.get(name, {})
        frame = pd.read_csv(data / f"{protocol.file}.csv")
        frame = frame[["smiles", protocol.target]].assign(**{NAME: protocol.split(frame)})
        with tempfile.TemporaryDirectory() as temporary:
            table = Path(temporary) / "table.csv"
            frame.to_csv(table, index=False)
            if "ours" not in known:
                known |= ours(protocol, table, Path(temporary))
            if options.chemprop and "chemprop" not in known:
                known |= chemprops(protocol, table, Path(temporary), options.chemprop)
        results[name] = {key: value for key, value in known.items() if not (options.busy and key.endswith("_seconds"))}
        results = {each: results[each] for each in PROTOCOLS if each in results}
        versions = f"edgewise {importlib.metadata.version('edgewise')}, chemprop 2.3.1, one thread each."
        path.write_text(json.dumps(results, indent=1) + "\n")
        (RESULTS / "molecules.md").write_text(report(results, versions))
        print(name, known, flush=True)


if __name__ == "__main__":
    main()
