"""What a terminal or a page shows of a run: its data in lines, its scores in tables, and commands to paste."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.errors import plural
from edgewise.explain.numbers import formatted, percent
from edgewise.learn.companions import LABELS, NETWORK
from edgewise.learn.files import JsonObject
from edgewise.learn.training.folder import RunFolder

if TYPE_CHECKING:
    from edgewise.learn.tables.cell import Rejection

NODE_COLUMNS = ("id", "node", "node_id")
"""Names of a column of nodes that `predict` finds by itself."""


def command(*words: object) -> str:
    """A command line as the shell reads it back, whatever its words hold."""
    return shlex.join(["edgewise", *map(str, words)])


def files_of(config: JsonObject) -> Sequence[str]:
    """The data files of a run."""
    data: str | Sequence[str] = config["data"]
    return [data] if isinstance(data, str) else data


def free_name(name: str) -> str:
    """The name, or, where a file is called so already, with a number: a pasted command must not be refused."""
    path, number = Path(name), 1
    stem, dot, end = path.name.partition(".")
    while path.exists():
        number += 1
        path = path.with_name(f"{stem}_{number}{dot}{end}")
    return str(path)


@dataclass(frozen=True)
class ScoreTable:
    """A table of scores: the model beside its baselines."""

    title: str
    """What is scored."""
    header: Sequence[str]
    """The first column is empty, the others name the scores."""
    rows: Sequence[Sequence[str]]
    """A row for each model."""


def score_table(title: str, models: Mapping[str, Mapping[str, float | None]], scores: Mapping[str, str]) -> ScoreTable:
    """The scores of several models, a row each; a dash where a model has none.

    Args:
        title: What is scored.
        models: The scores of each model by their names, the model by its label.
        scores: The names of the scores that are shown, and the heads of their columns.
    """
    rows = [[label, *(formatted(of_model.get(name)) for name in scores)] for label, of_model in models.items()]
    return ScoreTable(title, ["", *scores.values()], rows)


def by_own_name(*names: str) -> dict[str, str]:
    """Scores whose columns are headed by their names."""
    return dict(zip(names, names, strict=True))


def split_lines(
    counts: Mapping[str, int], row_noun: str, plural_noun: str | None = None, details: str = ""
) -> list[str]:
    """How many rows each split has, and what follows where none validate.

    Args:
        counts: The rows of train, val and test.
        row_noun: What a row is called.
        plural_noun: Its plural, where it does not end in s.
        details: Ends the line of the counts.
    """
    tested = plural(counts["test"], f"test {row_noun}", None if plural_noun is None else f"test {plural_noun}")
    lines = [f"{counts['train']:,} training, {counts['val']:,} validation and {tested}{details}"]
    if not counts["val"]:
        lines.append(f"  no validation {plural_noun or f'{row_noun}s'}: the last epoch is used")
    return lines


def first_rejected(rejected: "Sequence[Rejection]", folder: RunFolder) -> list[str]:
    """Where the first cell stands that cannot be used, and where all are listed; nothing where all can."""
    return [
        f"  the first in {rejection.file}, line {rejection.line}: {rejection.column}: {rejection.reason} "
        f"(all in {folder.path / 'rejected.csv'})"
        for rejection in rejected[:1]
    ]


def training_line(metrics: JsonObject) -> str:
    """How large the model is, and how long it was trained."""
    unit = "step" if "steps" in metrics else "epoch"
    count = plural(metrics[f"{unit}s"], unit)
    line = f"{metrics['parameters']:,} parameters, {count} in {metrics['training_seconds']:.0f} s"
    best = metrics.get(f"best_{unit}", 0)
    return f"{line}; the validation loss was lowest in {unit} {best:,}" if best > 0 else line


def lengths_line(metrics: JsonObject) -> list[str]:
    """How many epochs or steps each model was trained for, and which was the best; nothing for runs that did not keep
    it."""
    unit = "step" if "steps" in metrics else "epoch"
    if not metrics.get(f"{unit}s"):
        return []
    counts = [plural(count, unit) for count in metrics[f"{unit}s"]]
    best = [number for number in metrics[f"best_{unit}s"] if number is not None]
    line = ", ".join(dict.fromkeys(counts))
    if best:
        line += f"; the validation loss was lowest in {unit} {', '.join(map(str, best))}"
    return [line]


def what_predicts(metrics: JsonObject, config: JsonObject) -> list[str]:
    """How much the network and its companions count, in a line; nothing for tasks without companions."""
    if not (shares := metrics.get("shares")):
        return []
    name_of_network = config.get("model") or config.get("encoder")
    model = f" ({name_of_network})" if name_of_network else ""
    parts = [
        f"{LABELS.get(name, name)}{model if name == NETWORK else ''} {percent(share)}" for name, share in shares.items()
    ]
    return [f"predicted by: {', '.join(parts)}"]
