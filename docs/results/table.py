"""Prints the tables of docs/results.md from the committed runs, so that no figure is typed by hand.

python docs/results/table.py [RUNS_FOLDER]       print
python docs/results/table.py RUNS_FOLDER --keep  copy config, metrics and log of finished runs here first
"""

import json
import re
import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
KEPT = ("config.toml", "metrics.json", "logs/metrics.csv")


def keep(folder: Path) -> None:
    """Copy what proves each run: its settings, its scores, the numbers of each epoch and what it printed."""
    for metrics in sorted(folder.glob("runs/*/metrics.json")):
        run = metrics.parent
        target = HERE / run.name
        target.mkdir(exist_ok=True)
        for name in KEPT:
            shutil.copy(run / name, target / Path(name).name if name != "logs/metrics.csv" else target / "epochs.csv")
        shutil.copy(folder / "logs" / f"{run.name}.log", target / "log.txt")


def load(name: str) -> dict[str, Any]:
    """The metrics of a run, with the seconds of the whole command."""
    metrics = json.loads((HERE / name / "metrics.json").read_text())
    seconds = re.search(r"whole command: (\d+) s", (HERE / name / "log.txt").read_text())
    return {**metrics, "whole": int(seconds[1]) if seconds else None}


def score(metrics: dict[str, Any], name: str) -> float:
    """A score of the only target on the test rows."""
    return next(iter(metrics["test"].values()))[name]


def forest(metrics: dict[str, Any], name: str) -> float:
    """The same of the random forest beside it."""
    return next(iter(metrics["baselines"]["forest"]["test"].values()))[name]


def covered(metrics: dict[str, Any]) -> float:
    """The part of test rows within their interval."""
    return next(iter(metrics["coverage"]["test"].values()))


def with_mean(rows: list[list[Any]]) -> list[list[Any]]:
    """The rows and their mean."""
    return [*rows, ["**mean**", *(statistics.mean(column) for column in list(zip(*rows))[1:])]]


def table(head: list[str], rows: list[list[Any]], digits: int) -> str:
    """A Markdown table; seconds without digits."""
    lines = [head, ["---"] * len(head)]
    for name, *values in rows:
        shown = [
            f"{value:.0f}" if title == "seconds" else f"{value:.{digits}f}" for title, value in zip(head[1:], values)
        ]
        lines.append([str(name), *shown])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def tables() -> dict[str, str]:
    """Every table by its name."""
    esol = [(f"mat_split_{k}", load(f"esol_{k}")) for k in range(3)]
    random = [(f"seed {k}", load(f"co2_random_{k}")) for k in range(3)]
    folds = [(f"fold {k}", load(f"co2_fold_{k}"), load(f"co2_fold_{k}_ensemble")) for k in range(5)]
    texts = [("defaults: rotary positions", load("shakespeare")), ("GPT-2's choices", load("shakespeare_gpt2"))]
    return {
        "shakespeare": table(
            ["model", "validation loss", "counting pairs", "seconds"],
            [
                [name, m["validation"]["loss"], m["baselines"]["pairs"]["validation"]["loss"], m["whole"]]
                for name, m in texts
            ],
            3,
        ),
        "esol": table(
            ["split", "test RMSE", "forest beside it", "within interval", "seconds"],
            with_mean([[n, score(m, "rmse"), forest(m, "rmse"), covered(m), m["whole"]] for n, m in esol]),
            3,
        ),
        "random": table(
            ["split", "test MAE", "R²", "forest's MAE", "within interval", "seconds"],
            with_mean(
                [[n, score(m, "mae"), score(m, "r2"), forest(m, "mae"), covered(m), m["whole"]] for n, m in random]
            ),
            4,
        ),
        "folds": table(
            ["held out", "one model, MAE", "five models, MAE", "forest's MAE", "within interval, one", "five"],
            with_mean(
                [
                    [n, score(one, "mae"), score(five, "mae"), forest(one, "mae"), covered(one), covered(five)]
                    for n, one, five in folds
                ]
            ),
            4,
        ),
    }


if __name__ == "__main__":
    if "--keep" in sys.argv:
        keep(Path(sys.argv[1]))
    for title, text in tables().items():
        print(f"{title}\n\n{text}\n")
