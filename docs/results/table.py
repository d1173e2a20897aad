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
KEPT = ("config.toml", "metrics.json")
MANY_EPOCHS = 20_000
"""Bytes: the numbers of hundreds of short epochs, in each of ten seeds, are left out."""


def keep(folder: Path) -> None:
    """Copy what proves each run: its settings, its scores, the numbers of each epoch and what it printed."""
    for metrics in sorted(folder.glob("runs/*/metrics.json")):
        run = metrics.parent
        target = HERE / run.name
        target.mkdir(exist_ok=True)
        for name in KEPT:
            shutil.copy(run / name, target / name)
        epochs = run / "logs/metrics.csv"
        if epochs.stat().st_size < MANY_EPOCHS:
            shutil.copy(epochs, target / "epochs.csv")
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


def accuracies(names: list[str]) -> list[Any]:
    """The mean accuracy of some runs on their test rows, its spread, and that of what counts words beside them."""
    runs = [load(name) for name in names]
    own = [score(run, "accuracy") for run in runs]
    beside = [
        statistics.mean(next(iter(run["baselines"][name]["test"].values()))["accuracy"] for run in runs)
        for name in ("naive_bayes", "logistic")
    ]
    return [100 * value for value in (statistics.mean(own), min(own), max(own), *beside)]


def over_seeds(graph: str, model: str) -> list[float]:
    """The accuracy of ten seeds on the test nodes of a graph in percent: mean, standard deviation, least, most; and
    the seconds of a training, in the median."""
    runs = [load(f"{graph}_{model}_{seed}") for seed in range(10)]
    found = [100 * score(run, "accuracy") for run in runs]
    seconds = statistics.median(run["seconds"]["model"] for run in runs)
    return [statistics.mean(found), statistics.stdev(found), min(found), max(found), seconds]


def hours(name: str, part: str) -> list[float]:
    """Of series on a graph, MAE, RMSE and MAPE in percent after 15, 30 and 60 minutes, of a run or a baseline in it."""
    found = load(name)
    scores = found["test"] if part == "test" else found["baselines"][part]["test"]
    steps = (2, 5, 11)
    of = {"mae": 1, "rmse": 1, "mape": 100}
    return [scale * scores[score][step] for step in steps for score, scale in of.items()]


def conformers(data: str) -> list[list[Any]]:
    """The test RMSE on each of six splits: the Molecule Attention Transformer, the default model, the forest."""
    runs = [[load(f"{model}_{data}_{split}") for model in ("mat", "attention")] for split in range(6)]
    return with_mean(
        [
            [f"mat_split_{split}", score(mat, "rmse"), score(own, "rmse"), forest(own, "rmse")]
            for split, (mat, own) in enumerate(runs)
        ]
    )


def with_mean(rows: list[list[Any]]) -> list[list[Any]]:
    """The rows and their mean."""
    return [*rows, ["**mean**", *(statistics.mean(column) for column in list(zip(*rows))[1:])]]


def table(head: list[str], rows: list[list[Any]], digits: int) -> str:
    """A Markdown table; seconds and epochs without digits."""
    lines = [head, ["---"] * len(head)]
    for name, *values in rows:
        places = [0 if title in ("seconds", "epochs", "parameters") else digits for title in head[1:]]
        shown = [f"{value:.{count}f}" for value, count in zip(values, places)]
        lines.append([str(name), *shown])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def tables() -> dict[str, str]:
    """Every table by its name."""
    esol = [(f"mat_split_{k}", load(f"esol_{k}")) for k in range(3)]
    random = [(f"seed {k}", load(f"co2_random_{k}")) for k in range(3)]
    folds = [(f"fold {k}", load(f"co2_fold_{k}"), load(f"co2_fold_{k}_ensemble")) for k in range(5)]
    texts = [("defaults: rotary positions", load("shakespeare")), ("GPT-2's choices", load("shakespeare_gpt2"))]
    sentences = ["model", "accuracy, mean", "least", "most", "naive Bayes", "logistic regression"]
    readers = {"transformer": "transformer", "lstm": "LSTM read out by attention"}
    started = {**readers, "from_masked": "transformer that begins with hidden tokens"}
    translated = [("transformer", load("multi30k")), ("LSTM with Luong's attention", load("multi30k_lstm"))]
    layers = {"gcn": "GCN", "gat": "GAT", "hops": "attention over distances"}
    citations = ["model", "accuracy, mean", "standard deviation", "least", "most", "seconds"]
    pages = {"gcn": "GCN", "gatv2": "GATv2", "hops": "attention over distances"}
    moving = {"charges_equivariant": "equivariant", "charges_network": "graph network"}
    ahead = [f"{score}, {minutes} min" for minutes in (15, 30, 60) for score in ("MAE", "RMSE", "MAPE")]
    return {
        "charges": table(
            ["model", "mean squared error", "mean distance", "parameters", "seconds"],
            [
                [label, m["test"]["mse"], m["test"]["distance"], m["parameters"], m["whole"]]
                for label, m in ((label, load(name)) for name, label in moving.items())
            ],
            4,
        ),
        "rotations": (HERE / "rotations.md").read_text().strip(),
        "roads": table(
            ["", *ahead],
            [
                ["GaAN's recurrent unit", *hours("metr_gaan", "test")],
                ["GRU of every sensor alone", *hours("metr_gru", "test")],
                ["stays as it is", *hours("metr_gru", "stays")],
            ],
            2,
        ),
        **{
            f"mat_{data}": table(
                ["split", "Molecule Attention Transformer", "default model", "random forest"], conformers(data), 3
            )
            for data in ("esol", "freesolv")
        },
        "pages": table(
            ["model", "accuracy", "balanced accuracy", "million parameters", "seconds"],
            [
                [
                    label,
                    100 * score(m, "accuracy"),
                    100 * score(m, "balanced_accuracy"),
                    m["parameters"] / 1e6,
                    m["whole"],
                ]
                for label, m in ((label, load(f"pages_{name}")) for name, label in pages.items())
            ],
            1,
        ),
        **{
            graph: table(citations, [[label, *over_seeds(graph, name)] for name, label in layers.items()], 1)
            for graph in ("cora", "citeseer")
        },
        "sst2": table(
            sentences,
            [[label, *accuracies([f"sst2_{name}_{seed}" for seed in range(3)])] for name, label in started.items()],
            1,
        ),
        "polarity": table(
            sentences,
            [
                [label, *accuracies([f"polarity_{name}_{fold}" for fold in range(10)])]
                for name, label in readers.items()
            ],
            1,
        ),
        "multi30k": table(
            ["model", "BLEU", "BLEU of the untranslated", "million parameters", "epochs", "seconds"],
            [
                [
                    name,
                    m["test"]["bleu"],
                    m["baselines"]["copy"]["test"]["bleu"],
                    m["parameters"] / 1e6,
                    m["epochs"],
                    m["whole"],
                ]
                for name, m in translated
            ],
            1,
        ),
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
