"""Whether explanations find what decides, where we know what decides: every method beside a random order.

    python benchmarks/motifs.py                      trains seven models, or takes those of --runs
    python benchmarks/motifs.py --only texts         some sets, by words of the task or the rule

Needs EDGEWISE_DATA, the folder with `moleculenet` and `rt_polarity`. Each set of motif_sets.py has a rule. A model
learns it; only one that is right for 97 in 100 test rows is judged. Test rows with the motif are explained by every
method: the area under the ROC curve says how well the values of the units tell those of the motif from the rest, 1
where all of the motif stand first, 0.5 by chance; mean over rows.

Methods and their constants were chosen on seed 0; what is written is of seed 1. Written are
benchmarks/results/motifs.json and motifs.md, and the table of docs/look.md.
"""

import argparse
import json
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from motif_sets import MotifSet, Question, all_sets
from sklearn.metrics import roc_auc_score
from written import write_between

from edgewise.errors import SettingError
from edgewise.explain.methods import METHODS

RESULTS = Path(__file__).parent / "results"
RANDOM = "random order"
SHAPLEY, NUM_SHAPLEY = "shapley", 4
"""Shapley values take many predictions: of so many rows, with so many orders."""
MIN_ACCURACY = 0.97
MIN_AREA = 0.95
"""What is asked of the default method."""


def slug(rule: str) -> str:
    """A rule as the name of a folder."""
    return "".join(sign if sign.isalnum() else "_" for sign in rule)[:40]


def applying(question: Question) -> list[str]:
    """The methods that apply to the model."""
    names = []
    for name in METHODS:
        try:
            question.explain(methods=[f"{name}:samples=1" if name == SHAPLEY else name])
        except SettingError:
            continue
        names.append(name)
    return names


def area(values: np.ndarray, is_motif: np.ndarray) -> float:
    """The area under the ROC curve over the units that have a value."""
    are_judged = ~np.isnan(values) & ~np.isnan(is_motif)
    return float(roc_auc_score(is_motif[are_judged], values[are_judged]))


def areas_of(questions: list[Question]) -> tuple[dict[str, float], float]:
    """The area by each method, mean over rows, and the seconds of an explanation by the default methods."""
    methods = applying(questions[0])
    areas, random = defaultdict(list), np.random.default_rng(0)
    for number, question in enumerate(questions):
        chosen = [name for name in methods if name != SHAPLEY]
        if SHAPLEY in methods and number < NUM_SHAPLEY:
            chosen.append(f"{SHAPLEY}:samples={NUM_SHAPLEY}")
        explanation = question.explain(methods=chosen)
        is_motif = question.is_motif(explanation)
        for attribution in explanation.attributions:
            areas[attribution.name].append(area(attribution.values, is_motif))
        areas[RANDOM].append(area(random.normal(size=len(is_motif)), is_motif))

    began = time.perf_counter()
    for question in questions[:10]:
        question.explain()
    seconds = (time.perf_counter() - began) / len(questions[:10])
    return {name: float(np.mean(found)) for name, found in areas.items()}, seconds


def measured(motif_set: MotifSet, runs: Path, seed: int) -> dict[str, Any]:
    """The numbers of a set."""
    folder = runs / f"{slug(motif_set.rule)}_{seed}"
    model = motif_set.estimator()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # words that are out of the vocabulary, …
        if (folder / "model.json").is_file():
            model = type(model).load(folder)
        else:
            motif_set.fit(model, seed)
            model.save(folder, overwrite=True)
        judged = motif_set.judge(model, seed)
        questions = list(judged.questions)
        areas, seconds = areas_of(questions)
        default = questions[0].explain().attributions[0].name
    return {
        "task": motif_set.task,
        "accuracy": judged.accuracy,
        "rows": len(questions),
        "default": default,
        "areas": areas,
        "seconds": seconds,
    }


def line(*cells: object) -> str:
    """A line of a table."""
    return f"| {' | '.join(map(str, cells))} |\n"


def table(found: dict[str, dict[str, Any]]) -> str:
    """A line for each set; the default method is bold."""
    methods = [*METHODS, RANDOM]
    text = line("task", "what decides", "accuracy", *methods) + line(*["---"] * (3 + len(methods)))
    for rule, numbers in found.items():
        shown = [f"{numbers['areas'][name]:.3f}" if name in numbers["areas"] else "–" for name in methods]
        is_default = [name == numbers["default"] for name in methods]
        cells = [f"**{cell}**" if bold else cell for cell, bold in zip(shown, is_default, strict=True)]
        text += line(numbers["task"], rule, f"{numbers['accuracy']:.3f}", *cells)
    return text


def page(found: dict[str, dict[str, Any]], seed: int) -> str:
    """The numbers as a page."""
    missed = [
        rule
        for rule, numbers in found.items()
        if numbers["areas"][numbers["default"]] < MIN_AREA or numbers["accuracy"] < MIN_ACCURACY
    ]
    text = "# Whether explanations find what decides\n\n"
    text += f"`python benchmarks/motifs.py`, test rows of seed {seed}: area under the ROC curve of the motif's units, "
    text += f"mean over up to {max(numbers['rows'] for numbers in found.values())} rows (Shapley values: {NUM_SHAPLEY} "
    text += "rows). Bold is the default method.\n\n" + table(found)
    text += f"\nAsked: {MIN_AREA} of the default, of a model that is right for {MIN_ACCURACY:.0%} of the test rows. "
    return text + (f"Missed: {'; '.join(missed)}.\n" if missed else "None is missed.\n")


def main() -> None:
    """Trains where needed, measures, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/motifs"), help="where the runs lie")
    parser.add_argument(
        "--seed", type=int, default=1, help="of the sets; of 0, that of the choices, nothing is written"
    )
    parser.add_argument("--only", nargs="+", help="words of the task or the rule; the others stay as they were written")
    asked = parser.parse_args()
    path = RESULTS / "motifs.json"
    found = json.loads(path.read_text()) if path.is_file() and asked.only else {}
    for motif_set in all_sets():
        if asked.only and not any(word in f"{motif_set.task} {motif_set.rule}" for word in asked.only):
            continue
        found[motif_set.rule] = numbers = measured(motif_set, asked.runs, asked.seed)
        print(table({motif_set.rule: numbers}), f"{numbers['seconds']:.2f} s", flush=True)
        if asked.seed:
            path.write_text(json.dumps(found, indent=1) + "\n")
            RESULTS.joinpath("motifs.md").write_text(page(found, asked.seed))
            write_between("<!-- motifs -->\n", "<!-- end of motifs -->", table(found), "look.md")


if __name__ == "__main__":
    main()
