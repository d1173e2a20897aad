"""The test predictions of a finished run, read from its folder, beside the true numbers, classes or tags."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64

from edgewise.learn.training.conformal import COVERAGES, interval_radius
from edgewise.learn.training.folder import RunFolder

NUM_BINS = 10
"""Bins of predicted probability in the reliability diagram."""
MAX_LABELS = 20
"""The most classes in a confusion matrix; rarer ones are merged into `OTHERS`."""
OTHERS = "(others)"
MAX_ROWS = 2**16
"""Test rows that a report reads; evenly chosen where there are more."""


@dataclass(frozen=True, eq=False)
class EvaluatedRows:
    """The test rows as they stand in `test_predictions.csv`."""

    numbers: list[str]
    """The row of each in the data, counted from 0; its position among the test rows where that is unknown."""
    header: tuple[str, ...]
    """The columns of the data, without targets."""
    cells: list[tuple[str, ...]]
    """The cells of each row in these columns."""
    num_tested: int
    """The number of all test rows, of which these may be some, evenly chosen."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """A target that is a number."""

    name: str
    """The target."""
    true: Float64[np.ndarray, " row"]
    """Its value in each test row; NaN where there is none."""
    predicted: Float64[np.ndarray, " row"]
    """What was predicted."""
    rows: EvaluatedRows
    """The rows."""
    errors: Float64[np.ndarray, " error"]
    """Prediction minus target on the validation rows, which the intervals are made of."""

    @cached_property
    def known_rows(self) -> Int64[np.ndarray, " known"]:
        """The rows whose value and prediction are known."""
        return np.flatnonzero(~np.isnan(self.true) & ~np.isnan(self.predicted))

    @cached_property
    def residuals(self) -> Float64[np.ndarray, " known"]:
        """Prediction minus target where both are known."""
        return (self.predicted - self.true)[self.known_rows]


@dataclass(frozen=True, eq=False)
class Labels:
    """A target that is a class."""

    name: str
    """The target."""
    classes: tuple[str, ...]
    """The classes in the order of their numbers."""
    true: Int64[np.ndarray, " row"]
    """The class of each test row; -1 where there is none."""
    probabilities: Float64[np.ndarray, "row class"]
    """What was predicted."""
    rows: EvaluatedRows
    """The rows."""

    @cached_property
    def known_rows(self) -> Int64[np.ndarray, " known"]:
        """The rows whose class and prediction are known."""
        return np.flatnonzero((self.true >= 0) & ~np.isnan(self.probabilities).any(axis=1))

    @cached_property
    def predicted(self) -> Int64[np.ndarray, " row"]:
        """The most probable class of each row."""
        return np.where(np.isnan(self.probabilities), -1, self.probabilities).argmax(axis=1)


@dataclass(frozen=True, eq=False)
class Confusion:
    """How often each class was predicted for each."""

    labels: tuple[str, ...]
    """The classes, or the most frequent ones and all others together."""
    counts: Int64[np.ndarray, "label label"]
    """[true, predicted]."""


@dataclass(frozen=True, eq=False)
class Coverage:
    """Observed against nominal coverage of intervals."""

    nominal: Float64[np.ndarray, " step"]
    """The coverages that the validation rows are enough for."""
    observed: Float64[np.ndarray, " step"]
    """The share of the test values inside their interval."""
    num_rows: int
    """How many values there were."""


@dataclass(frozen=True, eq=False)
class Reliability:
    """Reliability: predicted probability against observed frequency, by bin."""

    event: str
    """The event that the probabilities are of."""
    mean: Float64[np.ndarray, " bin"]
    """The mean probability in each bin with rows."""
    observed: Float64[np.ndarray, " bin"]
    """The share of the rows of each bin in which the event occurred."""
    counts: Int64[np.ndarray, " bin"]
    """The number of rows in each bin."""

    @property
    def error(self) -> float:
        """The mean distance of the two, weighted by rows (expected calibration error)."""
        return float((np.abs(self.mean - self.observed) * self.counts).sum() / self.counts.sum())


def coverage(target: Numbers, curve: Sequence[tuple[float, float]] | None = None) -> Coverage | None:
    """Observed coverage of conformal intervals, for each promise that the validation rows are enough for.

    Args:
        target: the test rows.
        curve: promised and observed coverage out of metrics.json. Runs of older versions have none; their intervals
            are as wide for all rows: observed(c) = mean over test rows of [|error| ≤ r(c)], r = `interval_radius`.

    Returns:
        None without any.
    """
    sizes = np.abs(target.residuals)
    if curve is not None:
        points = np.array(curve, dtype=np.float64).reshape(-1, 2)
        return Coverage(points[:, 0], points[:, 1], len(sizes)) if curve else None
    radii = [interval_radius(target.errors, promise) for promise in COVERAGES]
    good = [number for number, radius in enumerate(radii) if np.isfinite(radius)]
    if not len(sizes) or not good:
        return None
    # The file has seven digits: a value on the edge of its interval lies inside.
    observed = [float((sizes <= radii[number] * (1 + 1e-6)).mean()) for number in good]
    return Coverage(np.array([COVERAGES[number] for number in good]), np.array(observed), len(sizes))


def reliability(target: Labels) -> Reliability | None:
    """Predicted probability against observed frequency, by bin; None without rows.

    With two classes the probability of the second, with more that of the predicted class.
    """
    rows = target.known_rows
    if not len(rows):
        return None
    predicted = target.probabilities[rows]
    if len(target.classes) == 2:
        event, chance, occurred = f"being {target.classes[1]}", predicted[:, 1], target.true[rows] == 1
    else:
        event, chance, occurred = "being right", predicted.max(axis=1), predicted.argmax(axis=1) == target.true[rows]
    bin_of_row = np.minimum((chance * NUM_BINS).astype(int), NUM_BINS - 1)
    counts = np.bincount(bin_of_row, minlength=NUM_BINS)
    full = np.flatnonzero(counts)
    sums = [
        np.bincount(bin_of_row, weights, NUM_BINS)[full] / counts[full] for weights in (chance, occurred.astype(float))
    ]
    return Reliability(event, sums[0], sums[1], counts[full])


def confusion(true: Sequence[str], predicted: Sequence[str], order: Sequence[str] = ()) -> Confusion:
    """How often each label was predicted for each; the labels stand as in `order`, else by how often they occur.

    Beyond `MAX_LABELS` the rarer ones are taken together.
    """
    often = Counter([*true, *predicted])
    labels = [label for label in order if label in often] or [label for label, _ in often.most_common()]
    if len(labels) > MAX_LABELS:
        frequent = {label for label, _ in often.most_common(MAX_LABELS - 1)}
        labels = [*(label for label in labels if label in frequent), OTHERS]
    index_of_label = {label: number for number, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    last = len(labels) - 1
    np.add.at(
        counts,
        ([index_of_label.get(label, last) for label in true], [index_of_label.get(label, last) for label in predicted]),
        1,
    )
    return Confusion(tuple(labels), counts)


def worst(target: Numbers | Labels, most: int) -> np.ndarray:
    """The worst predicted rows: those with the largest errors, or the wrong ones whose true class was
    least probable."""
    rows = target.known_rows
    if isinstance(target, Numbers):
        return rows[np.argsort(-np.abs(target.residuals), kind="stable")[:most]]
    wrong = rows[target.predicted[rows] != target.true[rows]]
    return wrong[np.argsort(target.probabilities[wrong, target.true[wrong]], kind="stable")[:most]]


def evaluated_targets(folder: RunFolder) -> list[Numbers | Labels]:
    """The targets of the test rows of a finished run over a table, beside their predictions; nothing without rows."""
    if (tested := _cells(folder)) is None:
        return []
    (cells, num_tested), model = tested, folder.read_object("model.json")
    # pandas takes a moment, and other runs do without it.
    from edgewise.learn.tables.cell import Problems, read_numbers
    from edgewise.learn.tables.labels import read_labels

    names = tuple(model["columns"]["target_columns"])
    header = list(cells)
    data_columns = header[1 : header.index(f"{names[0]}_pred")] if f"{names[0]}_pred" in header else []
    rows = _rows(cells, tuple(name for name in data_columns if name not in names), num_tested)
    targets: list[Numbers | Labels] = []
    for column_number, name in enumerate(names):
        if name not in cells or f"{name}_pred" not in cells:
            continue
        if not model["classes"]:
            values, predictions = (
                read_numbers(cells[column], column, Problems(), may_be_missing=True)
                for column in (name, f"{name}_pred")
            )
            targets.append(Numbers(name, values, predictions, rows, _errors(folder, column_number)))
            continue
        classes = tuple(str(label) for label in model["classes"][name])
        true = np.nan_to_num(read_labels(cells[name], name, classes, Problems()), nan=-1).astype(np.int64)
        chances = [f"{name}_prob_{label}" for label in classes]
        probabilities = [read_numbers(cells[column], column, Problems(), may_be_missing=True) for column in chances]
        targets.append(Labels(name, classes, true, np.stack(probabilities, axis=1), rows))
    return targets


def evaluated_links(folder: RunFolder) -> list[Numbers | Labels]:
    """The test pairs of a finished run over links, beside their predictions; nothing without pairs."""
    if (tested := _cells(folder)) is None:
        return []
    cells, num_tested = tested
    from edgewise.learn.tables.cell import Problems, read_numbers

    is_link = np.array(cells["is_link"], dtype=np.int64)
    chance = read_numbers(cells["link_prob"], "link_prob", Problems(), may_be_missing=True)
    rows = _rows(cells, ("sender", "receiver"), num_tested)
    return [Labels("link", ("no link", "link"), is_link, np.stack([1 - chance, chance], axis=1), rows)]


def _cells(folder: RunFolder) -> tuple[dict[str, list[str]], int] | None:
    """The cells of test_predictions.csv by column, of some rows where there are many, and the number of all rows; None
    without rows."""
    path = folder.path / "test_predictions.csv"
    if not _has_rows(path):
        return None
    from edgewise.learn.tables.options import TableFormat
    from edgewise.learn.tables.read import read_cells
    from edgewise.learn.tables.split import evenly_spaced

    # A run writes its own tables in one format, whatever that of its data.
    frame = read_cells(path, TableFormat()).frame
    read = frame.iloc[evenly_spaced(np.arange(len(frame)), MAX_ROWS)] if len(frame) > MAX_ROWS else frame
    return {name: read[name].tolist() for name in read.columns}, len(frame)


def tagged(folder: RunFolder) -> tuple[list[tuple[list[str], list[str], list[str]]], list[int]]:
    """For each test sentence its words, their true tags and the predicted tags, and its number in the data; empty
    without predictions of tags."""
    path = folder.path / "test_predictions.jsonl"
    if not path.is_file():
        return [], []
    sentences = [list(json.loads(line).values()) for line in path.read_text("utf-8").split("\n") if line]
    numbers: list[int] = folder.read_object("splits.json")["test"]
    return [(words, true, predicted) for words, true, predicted in sentences], numbers


def _rows(cells: dict[str, list[str]], header: tuple[str, ...], num_tested: int) -> EvaluatedRows:
    length = len(next(iter(cells.values())))
    numbers = cells.get("row_in_data", [str(number) for number in range(length)])
    cells_of_rows = list(zip(*(cells[name] for name in header), strict=True)) or [()] * length
    return EvaluatedRows(numbers, header, cells_of_rows, num_tested)


def _errors(folder: RunFolder, place: int) -> np.ndarray:
    """The errors of a target on the validation rows; none where there are none."""
    from safetensors import safe_open

    with safe_open(folder.path / "model.safetensors", "np") as tensors:
        name = "validation.errors"
        errors = tensors.get_tensor(name) if name in tensors.keys() else np.zeros((0, 0))  # noqa: SIM118
    column = errors[:, place] if errors.shape[1:] and place < errors.shape[1] else np.zeros(0)
    return column[~np.isnan(column)].astype(np.float64)


def _has_rows(path: Path) -> bool:
    """Whether a CSV file has more than a header."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return bool(file.readline()) and bool(file.readline().strip())
