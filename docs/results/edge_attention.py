"""Attention among bonds, D-MPNN and attention among atoms on twelve sets: the network alone and what stands beside it.

    EDGEWISE_DATA=… python docs/results/edge_attention.py > edge_attention.txt

Each run is `edgewise train molecules` with its defaults but for `--model`. Lines are the set and split, the model, the
part that predicts (`network`, a companion, or `stack`, all of them), its error on the validation and on the test rows:
RMSE for numbers, the area under the ROC curve for classes, the mean over the targets. Of the forest, the baseline of
each run, there is a line of its own. A choice reads the validation rows alone.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from molecules import PROTOCOLS, at_random

DATA = Path(os.environ.get("EDGEWISE_DATA", ""))
OF_FREESOLV = "freesolv, random 0"
PROTOCOLS[OF_FREESOLV] = replace(PROTOCOLS["freesolv, mat_split_0"], split=at_random(0))
KNOWN = (
    "esol, mat_split_0",
    OF_FREESOLV,
    "bace pIC50, random 0",
    "bace class, random 0",
    "bbbp, mat_split_0",
    "lipophilicity, row_id % 10",
)
MORE = {
    "clintox": "classification",
    "sider": "classification",
    "tox21": "classification",
    "aqsoldb": "regression",
    "malaria": "regression",
}
MODELS = ("dmpnn", "edge_attention", "attention")


def tables() -> Iterator[tuple[str, pd.DataFrame, list[str], str]]:
    """Name, table with a column of splits, targets and task type of each set."""
    for name in KNOWN:
        protocol = PROTOCOLS[name]
        frame = pd.read_csv(DATA / f"moleculenet/{protocol.file}.csv", dtype=str)
        columns = frame[["smiles", protocol.target]]
        yield name, columns.assign(split=protocol.split(frame)), [protocol.target], protocol.task_type
    for name, task_type in MORE.items():
        frame = pd.read_csv(DATA / f"molecules_more/{name}.csv", dtype=str)
        yield f"{name}, random 0", frame.assign(split=at_random(0)(frame)), list(frame.columns[1:]), task_type


def train(table: Path, targets: list[str], task_type: str, model: str) -> dict[str, Any]:
    """What metrics.json says of a run."""
    folder = table.with_name(model)
    columns = ["--smiles-columns", "smiles", "--target-columns", *targets, "--splits-column", "split"]
    command = [sys.executable, "-m", "edgewise.cli.main", "train", "molecules", str(table), *columns]
    command += ["--task-type", task_type, "--model", model, "-o", str(folder)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    metrics: dict[str, Any] = json.loads((folder / "metrics.json").read_text())
    return metrics


def mean(scores: dict[str, dict[str, float]], task_type: str) -> str:
    """The score, the mean over the targets that have one."""
    name = "rmse" if task_type == "regression" else "roc_auc"
    return f"{np.mean([of_target[name] for of_target in scores.values() if of_target.get(name) is not None]):.4f}"


def lines(name: str, model: str, task_type: str, metrics: dict[str, Any]) -> list[str]:
    """A line for each part."""
    splits = ("validation", "test")
    of_parts = metrics.get("parts") or {split: {"network": metrics[split]} for split in splits}
    parts = {part: [of_parts[split][part] for split in splits] for part in of_parts["test"]}
    parts |= {"stack": [metrics[split] for split in splits]}
    parts |= {"forest, baseline": [metrics["baselines"]["forest"][split] for split in splits]}
    return [
        f"{name} | {model} | {part} | {' | '.join(mean(scores, task_type) for scores in of_splits)}"
        for part, of_splits in parts.items()
    ]


def main() -> None:
    """Prints the lines of each run."""
    for name, frame, targets, task_type in tables():
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "table.csv"
            frame.to_csv(table, index=False)
            for model in MODELS:
                print(*lines(name, model, task_type, train(table, targets, task_type, model)), sep="\n", flush=True)


if __name__ == "__main__":
    main()
