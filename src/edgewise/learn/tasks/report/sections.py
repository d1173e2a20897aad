"""The sections of the page about a finished run: scores, losses, predictions beside the truth, promises, data.

MissingExtraError where matplotlib is not installed.
"""

import csv
import io
import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from edgewise.errors import plural
from edgewise.explain.numbers import formatted, num_digits, percent
from edgewise.learn.companions import LABELS as COMPANIONS
from edgewise.learn.files import JsonObject, csv_rows
from edgewise.learn.tasks.registry import task_of
from edgewise.learn.tasks.report.evaluation import (
    EvaluatedRows,
    Labels,
    Numbers,
    confusion,
    coverage,
    reliability,
    tagged,
    worst,
)
from edgewise.learn.tasks.scores import what_predicts
from edgewise.learn.training.baseline import labels_of
from edgewise.learn.training.folder import FILE_SETTINGS, RunFolder, corrupt_as_run_error
from edgewise.view.figure import svg
from edgewise.view.page import Caution, PageTable, Picture, page
from edgewise.view.training import draw_confusion, draw_coverage, draw_losses, draw_numbers, draw_reliability

MAX_WORST, MAX_COLUMNS, MAX_CHARACTERS = 10, 6, 160
"""Rows that are shown as the worst, columns of the data beside them, and characters of a cell."""
MAX_SCORES, MAX_REASONS = 40, 10
"""Scores in a table, and reasons for rejected rows."""
SPLITS = ("test", "validation", "training")
"""Splits by their names in `metrics.json`, the most important first."""

Content: TypeAlias = str | PageTable | Picture | Caution
Section = tuple[str, list[Content]]
"""A heading, and the sentences, tables and pictures below it."""


def sections(folder: RunFolder) -> list[Section]:
    """The sections of a finished run, from its folder alone; what a run of its kind does not have is left out.

    Raises:
        RunFolderError: a file of the folder is damaged.
    """
    metrics, config = folder.read_object("metrics.json"), folder.read_config()
    report: list[Section] = [("Scores", scores(metrics, config))]
    cautions = leakage_warnings(metrics)
    if cautions:
        report.insert(0, ("Warnings", cautions))
    report += training_sections(folder, metrics)
    for target in task_of(folder).test_targets(folder):
        report += number_sections(target, metrics) if isinstance(target, Numbers) else label_sections(target)
    report += tag_sections(*tagged(folder))
    return [*report, ("Data", data(folder, metrics, config)), ("Settings", [settings(config)])]


def write_report(folder: RunFolder) -> Path:
    """Writes report.html into a finished run; where it is.

    Raises:
        RunFolderError: a file of the folder is missing or damaged.
    """
    with corrupt_as_run_error(folder.path):
        report = sections(folder)
    task_name = (folder.read_format() or "").removeprefix("edgewise ")
    with folder.locked():
        folder.write("report.html", page(f"{folder.path.resolve().name}: {task_name}", report).encode())
    return folder.path / "report.html"


def training_sections(folder: RunFolder, metrics: JsonObject) -> list[Section]:
    """The losses over the epochs or steps of the training; nothing where they were not logged."""
    histories = read_histories(folder)
    if not histories:
        return []
    unit = "step" if "steps" in metrics else "epoch"
    has_validation = any(np.isfinite(history["val_loss"]).any() for history in histories.values())
    seconds = sum(float(np.nansum(history["seconds"])) for history in histories.values())
    counts = dict.fromkeys(plural(int(history[unit][-1]), unit) for history in histories.values())
    length = ", ".join(counts) + (f", {len(histories):,} members" if len(histories) > 1 else "")
    marked = "A ring marks the lowest validation loss."
    unmarked = f"Without validation rows, no {unit} is marked."
    caption = f"The loss over the {unit}s. {marked if has_validation else unmarked}"
    return [
        ("Training", [f"{length}, {seconds:.1f} s of training.", Picture(svg(draw_losses(histories, unit)), caption)])
    ]


def read_histories(folder: RunFolder) -> dict[int, dict[str, np.ndarray]]:
    """The numbers of each record (its epoch counted from 1) by ensemble member, out of logs/metrics.csv."""
    path = folder.path / "logs" / "metrics.csv"
    if not path.is_file():
        return {}
    rows: dict[int, list[dict[str, str]]] = {}
    for row in csv.DictReader(io.StringIO(path.read_text("utf-8"))):
        rows.setdefault(int(row["member"]), []).append(row)
    names = ("epoch", "step", "train_loss", "val_loss", "seconds")
    return {
        member: {
            name: np.array([float(record[name] or "nan") for record in listed]) + (1 if name == "epoch" else 0)
            for name in names
        }
        for member, listed in rows.items()
    }


def scores(metrics: JsonObject, config: JsonObject) -> list[Content]:
    """What predicts, and a table of the scores of each target: the model beside its parts and baselines."""
    columns: dict[str, dict[str, dict[str, float]]] = {}
    labels = labels_of(config.get("task-type", "regression"))
    baselines = {
        labels.get(name, _spaced(name)): scores_by_split
        for name, scores_by_split in (metrics.get("baselines") or {}).items()
    }
    for split in SPLITS:
        parts = (metrics.get("parts") or {}).get(split, {})
        models = {"edgewise": metrics.get(split) or {}}
        models |= {f"{COMPANIONS.get(name, name)} alone": by_target for name, by_target in parts.items()}
        models |= {label: by_split.get(split) or {} for label, by_split in baselines.items()}
        for label, by_target in models.items():
            for target, numbers in _by_target(by_target).items():
                columns.setdefault(target, {})[f"{label}, {split}"] = numbers
    tables: list[Content] = []
    for target, by_column in columns.items():
        names = list(dict.fromkeys(score for numbers in by_column.values() for score in numbers))
        rows = [
            [_spaced(name), *(_number(numbers.get(name)) for numbers in by_column.values())]
            for name in names[:MAX_SCORES]
        ]
        cut = f", the first {MAX_SCORES} of {plural(len(names), 'score')}" if len(names) > MAX_SCORES else ""
        tables.append(PageTable((target or "All") + cut, ["", *by_column], rows))
    sizes = [plural(metrics["parameters"], "parameter")] if "parameters" in metrics else []
    predicted_by = [f"{line[0].upper()}{line[1:]}." for line in what_predicts(metrics, config)]
    return [*predicted_by, *tables, *(f"{size}." for size in sizes)] or ["No data was left to score the model on."]


def number_sections(target: Numbers, metrics: JsonObject) -> list[Section]:
    """A target that is a number: predictions, errors, promises, and the worst predicted rows."""
    rows = target.known_rows
    if not len(rows):
        return []
    errors = target.residuals
    content: list[Content] = [
        f"{_tested(target)}; half of the errors are below "
        f"{formatted(np.median(np.abs(errors)))}, the largest is "
        f"{formatted(np.abs(errors).max())}; on average predictions are {formatted(abs(errors.mean()))} too "
        f"{'high' if errors.mean() > 0 else 'low'}.",
        Picture(
            svg(draw_numbers(target.true[rows], target.predicted[rows])),
            "Predictions over true values, errors over predictions, and how often each error occurs.",
        ),
    ]
    covered = coverage(target, metrics.get("coverage", {}).get("curve", {}).get(target.name))
    if covered is not None:
        promise = metrics.get("coverage", {}).get("promised")
        content.append(
            Picture(
                svg(draw_coverage(covered.nominal, covered.observed, covered.num_rows, promise)),
                f"The share of the test values inside intervals of several promises, made of {len(target.errors):,} "
                "validation errors. Below the line, intervals promise too much; the band is what chance explains.",
            )
        )

    digits = num_digits(float(np.abs(target.true[rows]).max()), float(np.abs(errors).mean()), least=5, finest=0.05)

    def cells(row: int) -> list[str]:
        true, predicted = float(target.true[row]), float(target.predicted[row])
        return [formatted(true, digits), formatted(predicted, digits), formatted(predicted - true, 5)]

    content.append(_worst("The rows with the largest errors", target, "predicted less true", cells, ()))
    return [(f"{target.name}: predicted and true", content)]


def _tested(target: Numbers | Labels) -> str:
    """How many test rows the section is about."""
    count, read, tested = len(target.known_rows), len(target.rows.numbers), target.rows.num_tested
    return plural(count, "test row") if read == tested else f"{count:,} of {tested:,} test rows, evenly chosen"


def label_sections(target: Labels) -> list[Section]:
    """A target that is a class: what was taken for what, probabilities, and the worst predicted rows."""
    rows = target.known_rows
    if not len(rows):
        return []
    true, predicted = ([target.classes[number] for number in side[rows]] for side in (target.true, target.predicted))
    mixed = confusion(true, predicted, target.classes)
    right = sum(one == other for one, other in zip(true, predicted, strict=True))
    content: list[Content] = [
        f"{_tested(target)}, {right:,} of them right.",
        Picture(
            svg(draw_confusion(mixed.labels, mixed.counts)), "A row is a true class, shaded by its share of the row."
        ),
    ]
    reliable = reliability(target)
    if reliable is not None:
        content.append(
            Picture(
                svg(draw_reliability(reliable.mean, reliable.observed, reliable.counts, reliable.event)),
                "Predicted probability against observed frequency. On average the probabilities are "
                f"{percent(reliable.error)} off.",
            )
        )
    if (rows[target.true[rows] != target.predicted[rows]]).size:

        def cells(row: int) -> list[str]:
            true, predicted = target.true[row], target.predicted[row]
            probability = formatted(float(target.probabilities[row, true]))
            return [_cut(target.classes[true]), _cut(target.classes[predicted]), probability]

        title = "Wrong rows, the least probable true class first"
        content.append(_worst(title, target, "probability of the true class", cells, (1, 2)))
    return [(f"{target.name}: predicted and true", content)]


def tag_sections(sentences: Sequence[tuple[list[str], list[str], list[str]]], numbers: Sequence[int]) -> list[Section]:
    """Tags of words: what was taken for what, and the sentences with the most wrong ones, by their numbers in the
    data."""
    if not sentences:
        return []
    mixed = confusion(
        [tag for _, true, _ in sentences for tag in true], [tag for *_, predicted in sentences for tag in predicted]
    )
    wrong = sorted(
        (
            (sum(one != other for one, other in zip(true, predicted)), number)
            for number, (_, true, predicted) in enumerate(sentences)
        ),
        key=lambda each: (-each[0], each[1]),
    )
    rows = []
    for count, number in wrong[:MAX_WORST]:
        if count:
            words, true, predicted = sentences[number]
            off = [
                f"{word}: {one}, predicted {other}" for word, one, other in zip(words, true, predicted) if one != other
            ]
            rows.append([str(numbers[number]), f"{count} of {len(words)}", _cut("; ".join(off)), _cut(" ".join(words))])
    content: list[Content] = [
        Picture(
            svg(draw_confusion(mixed.labels, mixed.counts)),
            "Words of the test sentences. A row is a true tag, shaded by its share of the row.",
        )
    ]
    if rows:
        header = ["sentence", "wrong", "which", "words"]
        content.append(PageTable("Sentences with the most wrong tags", header, rows, (2, 3)))
    return [("Tags: predicted and true", content)]


def data(folder: RunFolder, metrics: JsonObject, config: JsonObject) -> list[Content]:
    """The files, how many rows each split has, which were rejected and why, and what is in two splits."""
    named = [config[name] for name in FILE_SETTINGS if name in config]
    files = [file for value in named for file in ([value] if isinstance(value, str) else value)]
    content: list[Content] = [f"Read from {', '.join(files)}."]
    for name, what in (("rows", "rows"), ("texts", "texts"), ("tokens", "tokens")):
        counts = metrics.get(name)
        if isinstance(counts, Mapping):
            listed = [[_spaced(str(split)), f"{count:,}"] for split, count in counts.items()]
            content.append(PageTable(f"How many {what} each split has", ["split", what], listed))
    rejected = rejected_rows(folder)
    if rejected:
        counts = Counter((column, reason) for _, _, column, _, reason in rejected)
        first = {(column, reason): (file, line) for file, line, column, _, reason in reversed(rejected)}
        listed = [
            [_cut(column), _cut(reason), f"{count:,}", f"{first[column, reason][0]}, line {first[column, reason][1]}"]
            for (column, reason), count in counts.most_common(MAX_REASONS)
        ]
        title = f"{plural(len(rejected), 'row')} could not be used; all of them are in rejected.csv"
        content.append(PageTable(title, ["column", "why", "rows", "the first"], listed, (1, 3)))
    return content + leakage_section(metrics)


def rejected_rows(folder: RunFolder) -> list[list[str]]:
    """The lines of rejected.csv: file, line, column, value, reason; none if the file is missing."""
    path = folder.path / "rejected.csv"
    if not path.is_file():
        return []
    return [row for row in itertools.islice(csv_rows(path), 1, None) if len(row) == 5]


GRAVE_LEAKAGE = 0.05
"""The share of leaked rows from which the warning calls the score interpolation."""


def leakage_warnings(metrics: JsonObject) -> list[Content]:
    """Warnings where leakage between the splits makes the scores look better than they are."""

    leakage = metrics.get("leakage") or {}
    cautions: list[Content] = []
    for split in ("test", "validation"):
        scores = leakage.get(split) or {}
        unit, rows = leakage.get("unit", "rows"), scores.get("rows", 0)
        same = scores.get("same", 0)
        if same:
            overlap = f"{same:,} of {rows:,} {split} rows contain {unit} that are also in the training set"
            if same >= GRAVE_LEAKAGE * rows:
                cautions.append(Caution(f"Data leakage: {overlap}, so this score measures interpolation."))
            else:
                cautions.append(Caution(f"{overlap}, {percent(same / rows)}, which moves this score by little."))
        if scores.get("near"):
            compared = f"{scores['compared']:,} {'other ' if same else ''}{split} rows"
            compared += " that were compared" if scores["compared"] < rows - same else ""
            cautions.append(
                Caution(
                    f"{scores['near']:,} of {compared} hold {unit} nearly the same as training rows "
                    f"({leakage['about']} of {leakage['least']:g} or more)."
                )
            )
    return cautions


def leakage_section(metrics: JsonObject) -> list[Content]:
    """The data leakage between the splits, with examples; nothing where it was not measured."""
    leakage = metrics.get("leakage")
    if not leakage:
        return []
    compared_splits = [split for split in ("test", "validation") if split in leakage]
    rows = [
        [
            split,
            *(f"{leakage[split][name]:,}" for name in ("rows", "same")),
            *([f"{leakage[split]['near']:,} of {leakage[split]['compared']:,}"] if "near" in leakage[split] else ["-"]),
        ]
        for split in compared_splits
    ]
    content: list[Content] = [
        PageTable(
            f"{leakage['unit'].capitalize()} that stand in training rows as well",
            ["split", "rows", "the same", "nearly the same, of those compared"],
            rows,
        )
    ]
    examples = [
        [split, str(example["row"]), str(example["training_row"]), _number(example.get("similarity", 1.0))]
        for split in compared_splits
        for example in leakage[split]["examples"]
    ]
    if examples:
        title = (
            f"Some of them; rows counted from 0. Similarity: {leakage['about']}" if leakage["about"] else "Some of them"
        )
        content.append(PageTable(title, ["split", "row", "training row", "similarity"], examples))
    return content


def settings(config: JsonObject) -> PageTable:
    """Every setting of the run."""
    rows = [
        [name, _cut(" ".join(map(str, value)) if isinstance(value, list) else str(value))]
        for name, value in config.items()
    ]
    return PageTable("As in config.toml, which repeats the run", ["setting", "value"], rows, (1,))


def _worst(
    title: str, target: Numbers | Labels, measure: str, cells: Callable[[int], list[str]], words: tuple[int, ...]
) -> PageTable:
    """The worst predicted rows of a target, with their data.

    Args:
        title: Of the table.
        target: The target.
        measure: The head of the column that says how wrong a row is.
        cells: Of each row the truth, the prediction and the measure.
        words: The columns before the data that are words.
    """
    columns = _columns(target.rows)
    header = ["row", "true", "predicted", measure, *(target.rows.header[column] for column in columns)]
    rows = [
        [target.rows.numbers[row], *cells(row), *(_cut(target.rows.cells[row][column]) for column in columns)]
        for row in worst(target, MAX_WORST).tolist()
    ]
    return PageTable(title, header, rows, (*words, *range(4, len(header))))


def _by_target(found: JsonObject) -> dict[str, dict[str, float]]:
    """Scores by target; under the empty name where there is none."""
    if found and all(isinstance(value, Mapping) for value in found.values()):
        return {str(target): _flat(value) for target, value in found.items()}
    return {"": _flat(found)} if found else {}


def _flat(nested: JsonObject) -> dict[str, float]:
    """Nested scores and lists of them, each under a name of its own."""
    flat: dict[str, float] = {}
    for name, value in nested.items():
        if isinstance(value, list):
            value = {f"step {step + 1}": score for step, score in enumerate(value)}
        if isinstance(value, Mapping):
            flat |= {f"{name}, {inner}": score for inner, score in _flat(dict(value)).items()}
        else:
            flat[str(name)] = value
    return flat


def _columns(rows: EvaluatedRows) -> list[int]:
    """Which columns of the data are shown beside a row: the first ones, those that are the same everywhere left out."""
    varied = [column for column in range(len(rows.header)) if len({cells[column] for cells in rows.cells}) > 1]
    return (varied or list(range(len(rows.header))))[:MAX_COLUMNS]


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _number(value: object) -> str:
    """A score, a count, or a word; a dash where there is none."""
    return formatted(value) if value is None or isinstance(value, int | float) else str(value)
