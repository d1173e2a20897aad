"""Prints the tables of docs/results.md from runs.json, so that no figure is typed by hand.

    python docs/results/table.py

`runs.py` adds a run to runs.json.
"""

import json
import statistics
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RUNS = json.loads((HERE / "runs.json").read_text())


def load(name: str) -> dict[str, Any]:
    """The metrics of a run, and under `whole` the seconds of the whole command."""
    return {**RUNS[name]["metrics"], "whole": RUNS[name].get("command_seconds")}


def score(metrics: dict[str, Any], name: str) -> float:
    """A score of the only target on the test rows."""
    return next(iter(metrics["test"].values()))[name]


def forest(metrics: dict[str, Any], name: str) -> float:
    """The same score of the random forest."""
    return next(iter(metrics["baselines"]["forest"]["test"].values()))[name]


def covered(metrics: dict[str, Any]) -> float:
    """The fraction of test rows within their interval."""
    return next(iter(metrics["coverage"]["test"].values()))


def accuracies(names: list[str]) -> list[Any]:
    """In percent: mean, minimum and maximum test accuracy of some runs, and the mean of the two baselines."""
    runs = [load(name) for name in names]
    own = [score(run, "accuracy") for run in runs]
    baselines = [
        statistics.mean(next(iter(run["baselines"][name]["test"].values()))["accuracy"] for run in runs)
        for name in ("naive_bayes", "logistic")
    ]
    return [100 * value for value in (statistics.mean(own), min(own), max(own), *baselines)]


def over_seeds(graph: str, model: str) -> list[float]:
    """The test accuracy of ten seeds in percent (mean, standard deviation, minimum, maximum), and the median seconds of
    a training."""
    runs = [load(f"{graph}_{model}_{seed}") for seed in range(10)]
    found = [100 * score(run, "accuracy") for run in runs]
    seconds = statistics.median(run["seconds"]["model"] for run in runs)
    return [statistics.mean(found), statistics.stdev(found), min(found), max(found), seconds]


def bodies(label: str, start: str) -> list[Any]:
    """The runs whose names begin so, one a seed: their number, errors and seconds."""
    runs = [load(name) for name in sorted(RUNS) if name.startswith(start)]
    errors = [run["test"]["mse"] for run in runs]
    distance, seconds = (
        statistics.mean(values) for values in zip(*((r["test"]["distance"], r["seconds"]) for r in runs))
    )
    each = ", ".join(f"{error:.4f}" for error in errors)
    return [label, str(len(runs)), statistics.mean(errors), each, distance, runs[0]["parameters"], round(seconds)]


def hours(name: str, part: str) -> list[float]:
    """MAE, RMSE and MAPE in percent after 15, 30 and 60 minutes, of a forecasting run or one of its baselines."""
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
    """The rows, and a row with their mean."""
    return [*rows, ["**mean**", *(statistics.mean(column) for column in list(zip(*rows))[1:])]]


def table(head: list[str], rows: list[list[Any]], digits: int) -> str:
    """A Markdown table; seconds, epochs and parameters without decimals."""
    lines = [head, ["---"] * len(head)]
    for name, *values in rows:
        places = [0 if title in ("seconds", "epochs", "parameters") else digits for title in head[1:]]
        shown = [value if isinstance(value, str) else f"{value:.{count}f}" for value, count in zip(values, places)]
        lines.append([str(name), *shown])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def tables() -> dict[str, str]:
    """Every table by its name."""
    esol = [(f"mat_split_{k}", load(f"esol_{k}")) for k in range(3)]
    random = [(f"seed {k}", load(f"co2_random_{k}")) for k in range(3)]
    folds = [(f"fold {k}", load(f"co2_fold_{k}"), load(f"co2_fold_{k}_ensemble")) for k in range(5)]
    texts = [("default: rotary positions", load("shakespeare")), ("GPT-2's settings", load("shakespeare_gpt2"))]
    sentences = ["model", "accuracy, mean", "minimum", "maximum", "naive Bayes", "logistic regression"]
    architectures = {"transformer": "transformer", "lstm": "LSTM with attention"}
    counted = {"counts": "counts of words inside the transformer (before)"}
    starts = {**counted, **architectures, "from_masked": "transformer, pretrained on masked tokens"}
    translated = [("transformer", load("multi30k")), ("LSTM with Luong's attention", load("multi30k_lstm"))]
    layers = {"gcn": "GCN", "gat": "GAT", "hops": "hop attention"}
    citations = ["model", "accuracy, mean", "standard deviation", "minimum", "maximum", "seconds"]
    pages = {"gcn": "GCN", "gatv2": "GATv2", "hops": "hop attention"}
    moving = {"equivariant, every start": "every", "equivariant": "equivariant", "graph network": "network"}
    columns = [f"{score}, {minutes} min" for minutes in (15, 30, 60) for score in ("MAE", "RMSE", "MAPE")]
    return {
        "charges": table(
            ["model", "seeds", "mean squared error", "of each seed", "mean distance", "parameters", "seconds"],
            [bodies(label, f"charges_{what}") for label, what in moving.items()],
            4,
        ),
        "rotations": (HERE / "rotations.md").read_text().strip(),
        "roads": table(
            ["", *columns],
            [
                ["GaAN's recurrent unit", *hours("metr_gaan", "test")],
                ["GRU for each sensor alone", *hours("metr_gru", "test")],
                ["last value repeated", *hours("metr_gru", "stays")],
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
            [[label, *accuracies([f"sst2_{name}_{seed}" for seed in range(3)])] for name, label in starts.items()],
            1,
        ),
        "polarity": table(
            sentences,
            [
                [label, *accuracies([f"polarity_{name}_{fold}" for fold in range(10)])]
                for name, label in {**counted, **architectures}.items()
            ],
            1,
        ),
        "multi30k": table(
            ["model", "BLEU", "BLEU of the source text", "million parameters", "epochs", "seconds"],
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
            ["model", "validation loss", "bigram baseline", "seconds"],
            [
                [name, m["validation"]["loss"], m["baselines"]["pairs"]["validation"]["loss"], m["whole"]]
                for name, m in texts
            ],
            3,
        ),
        "esol": table(
            ["split", "test RMSE", "random forest", "within interval", "seconds"],
            with_mean([[n, score(m, "rmse"), forest(m, "rmse"), covered(m), m["whole"]] for n, m in esol]),
            3,
        ),
        "random": table(
            ["split", "test MAE", "R²", "random forest, MAE", "within interval"],
            with_mean([[n, score(m, "mae"), score(m, "r2"), forest(m, "mae"), covered(m)] for n, m in random]),
            4,
        ),
        "folds": table(
            ["held out", "one model, MAE", "five models, MAE", "random forest, MAE", "within interval, one", "five"],
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
    for title, text in tables().items():
        print(f"{title}\n\n{text}\n")
