"""Class labels: the task of a column of targets, the names of its classes, and its cells as their numbers."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from jaxtyping import Float64

from edgewise.errors import DataError, plural
from edgewise.explain.numbers import num_digits
from edgewise.learn.tables.cell import Problems, Texts, distinct, is_missing, pa, parse_numbers, read_number, stripped

Classes = dict[str, list[str]]
Label = str | int | float | bool
"""The name of a class: as a table writes it, or as Python gives it."""
LARGEST = 2**53
"""Beyond it float64 merges whole numbers, so that a label of more digits is taken as text."""
MAX_CLASSES, MIN_CLASS_ROWS = 20, 50
"""Whole numbers are classes where so few are different, and each has so many rows on average: a count has not."""
MAX_SHOWN = 5
"""Labels that a message lists."""

NO_LABEL = frozenset(("na", "n/a", "#n/a", "<na>", "null", "none", "nil", "?", "-", "--", ".", "missing", "unknown"))
"""How tables write that a label is missing; they may be labels, too."""

_WRITTEN_NUMBER = re.compile(r"[<>~≈≤≥]?\s*[$€£¥]?\s*[-+−]?\d[\d.,' ]*\s*(%|°?[^\W\d_]{1,4})?")
"""A number with a decimal comma, thousands, a currency, a unit or a bound."""
_WHOLE_NUMBER = re.compile(r"[+-]?(0|[1-9][0-9]{0,15})(\.0*)?")
_ANY_WHOLE_NUMBER = re.compile(r"([+-]?)0*([0-9]+)(\.0*)?")


def label_of(cell: str) -> str:
    """The label that a cell writes: its text, or a small whole number in one writing (1.0 is 1); nothing for none."""
    text = cell.strip()
    if is_missing(text):
        return ""
    return str(int(text.partition(".")[0])) if is_whole(text) else text


def spellings_of(words: Iterable[str], known: Iterable[str] | None = None) -> dict[str, str]:
    """How each word is written: as one that is known, else as a label; nothing for a cell without a word.

    pandas writes 2 as 2.0 where another cell of the column is empty, so that a new table may have the other writing.

    Args:
        words: As cells have them.
        known: The words of a trained model.
    """
    known = list(known or ())
    exact, known_of_label = set(known), {label_of(word): word for word in reversed(known)}
    labels = {word: label_of(word) for word in words}
    return {
        word: word if label and word in exact else known_of_label.get(label, label) for word, label in labels.items()
    }


def words_of(cells: Texts, known: Iterable[str] | None = None) -> "pa.ChunkedArray":
    """A column of words, each as `spellings_of` writes it."""
    values, codes = distinct(stripped(cells))
    spelling = spellings_of(values, known)
    return pa.chunked_array([pa.array([spelling[value] for value in values], pa.large_string()).take(pa.array(codes))])


def is_whole(text: str) -> bool:
    """Whether a text is exactly a small whole number; `007` and numbers from 2^53 on are names."""
    return bool(_WHOLE_NUMBER.fullmatch(text)) and abs(int(text.partition(".")[0])) < LARGEST


def counts_of(cells: Texts) -> Counter[str]:
    """How often each label stands in a column; cells without one are left out."""
    counts: Counter[str] = Counter()
    values, codes = distinct(cells)
    for cell, count in zip(values, np.bincount(codes, minlength=len(values)).tolist(), strict=True):
        if label := label_of(cell):
            counts[label] += count
    return counts


def is_numeric(counts: Mapping[str, int]) -> bool:
    """Whether most cells are numbers."""
    return 2 * sum(count for label, count in counts.items() if not read_number(label)[1]) > sum(counts.values())


def choose_task(columns: Mapping[str, Texts], source: str, labels: Collection[str] = ()) -> str:
    """The task type of columns of targets, where it is not given.

        text, and two different values                     classes
        whole numbers that are labels by their type        classes, where there are two rows of each on average
        other whole numbers                                classes, where at most `MAX_CLASSES` of them are different
                                                           and each has `MIN_CLASS_ROWS` rows on average
        all else                                           numbers

    A number that is the same in all rows says nothing. Several targets are numbers where one of them is, as long as the
    others can be.

    Args:
        columns: The cells of each target.
        source: What an error calls the table.
        labels: Columns that are labels by their type.

    Raises:
        DataError: Some targets are numbers and others text, or every cell of one is empty.
    """
    tasks, may_be_numbers = {}, True
    for name, cells in columns.items():
        if _are_fractions(cells):
            tasks[name] = "regression"
            continue
        counts = counts_of(cells)
        if not counts:
            raise DataError(f"{source}, column {name!r}: every cell is empty, expected numbers or classes.")
        numeric = is_numeric(counts)
        # A mistyped cell among numbers must not change the task: it is rejected later.
        counted = [label for label in counts if not numeric or not read_number(label)[1]]
        counts = counts if len(counted) < 2 else Counter({label: counts[label] for label in counted})
        if numeric and len(counts) < 2:  # one number alone is as good for either
            continue
        is_number = numeric and any(map(_is_fraction, counts))
        is_number |= numeric and len(counts) > 2 and not _are_classes(counts, name in labels)
        tasks[name] = "regression" if is_number else "classification" if len(counts) < 3 else "multiclass"
        may_be_numbers &= is_number or numeric

    task_types = set(tasks.values())
    if "regression" in task_types and not may_be_numbers:
        listed = ", ".join(f"{name} ({task})" for name, task in tasks.items())
        raise DataError(
            f"{source}: some targets are numbers, others classes: {listed}; train them apart, or name the task of all "
            "with --task-type."
        )

    return next(
        (task_type for task_type in ("regression", "multiclass", "classification") if task_type in task_types),
        "regression",
    )


def _are_classes(counts: Counter[str], is_label: bool) -> bool:
    """Whether whole numbers with more than two different values are classes."""
    rows = counts.total()
    if is_label:
        return rows >= 2 * len(counts)
    return len(counts) <= MAX_CLASSES and rows >= MIN_CLASS_ROWS * len(counts)


def target_notes(
    targets: Float64[np.ndarray, " row target"], names: Sequence[str], classes: Mapping[str, Sequence[str]]
) -> list[str]:
    """A line for each target: its classes with their numbers of rows, or the range of its numbers.

    Args:
        targets: Numbers, or the places of classes; NaN where missing.
        names: Of the targets.
        classes: The classes of each target; none where the targets are numbers.
    """
    notes = []
    for column, name in zip(targets.T[:MAX_SHOWN], names):
        if name not in classes:
            notes.append(f"{name}{_range_note(column)}")
            continue
        labels = classes[name]
        counts = [np.count_nonzero(column == index) for index in range(len(labels[:MAX_SHOWN]))]
        listed = ", ".join(f"{label} ({count:,})" for label, count in zip(labels, counts))
        more = f" and {len(labels) - MAX_SHOWN} more" if len(labels) > MAX_SHOWN else ""
        remedy = "; for numbers: --task-type regression" if all(map(is_whole, labels)) else ""
        notes.append(f"{name}: classes {listed}{more}{remedy}")

    if len(names) > MAX_SHOWN:
        notes.append(f"and {len(names) - MAX_SHOWN} more targets")
    return notes


def _range_note(column: Float64[np.ndarray, " row"]) -> str:
    """The range of a column of numbers, and what makes classes of whole ones; nothing where all are missing."""
    is_missing = np.isnan(column)
    present = column[~is_missing] if is_missing.any() else column
    if not len(present):
        return ""
    # Most columns show a fraction at once.
    is_whole_number = all((part == np.floor(part)).all() for part in (present[:1000], present))
    remedy = "; for classes: --task-type multiclass" if is_whole_number else ""
    low, high = float(present.min()), float(present.max())
    digits = num_digits(max(abs(low), abs(high)), high - low, least=3, finest=0.01)
    return f": a number, {low:.{digits}g} to {high:.{digits}g}{remedy}"


def find_classes(cells: Texts, column: str, file: str, *, two: bool) -> list[str]:
    """The names of the classes in a column, in the order of their numbers.

    Numbers with fractions that come again, such as versions, are names. Whole numbers stand in the order of numbers
    before names, which stand in that of the alphabet. Where most cells are whole numbers, a number with a fraction is
    no class but a mistake; and so is whatever else stands in a column of two classes, most of which is two numbers.

    Raises:
        DataError: the column is empty, has one class, more than two where two are expected, or numbers with
            fractions.
    """
    counts = counts_of(cells)
    if not counts:
        raise DataError(f"{file}, column {column!r}: every cell is empty, expected classes.")
    whole_numbers = [label for label in counts if is_whole(label)]
    fractions = [label for label in counts if not is_whole(label) and _is_fraction(label)]

    names = set(counts)
    numbers = [label for label in counts if not read_number(label)[1]]
    if two and len(numbers) == 2 and not fractions and is_numeric(counts):
        names = set(numbers)  # as `choose_task` counts them: `007` and `1e3`, too
    elif 2 * sum(counts[label] for label in whole_numbers) > counts.total():
        names = set(whole_numbers) if two and len(whole_numbers) == 2 else names - set(fractions)
    elif fractions and 2 * len(fractions) > sum(counts[label] for label in fractions):
        raise DataError(
            f"{file}, column {column!r}: {min(fractions)} is a number with a fraction, expected classes; "
            "use the task type regression."
        )

    ordered = sorted(names, key=_order)
    if two and names <= {"0", "1"}:
        return ["0", "1"]
    if len(ordered) == 1:
        raise DataError(f"{file}, column {column!r}: the only class is {ordered[0]!r}, expected two or more.")
    if two and len(ordered) > 2:
        raise DataError(
            f"{file}, column {column!r}: {plural(len(ordered), 'class', 'classes')} "
            f"({_listed(ordered)}), expected two; use the task type "
            "multiclass."
        )

    return ordered


def read_labels(cells: Texts, column: str, names: Sequence[str], problems: Problems) -> Float64[np.ndarray, " row"]:
    """One column of classes as indices into `names`, NaN where missing or unknown."""
    index_of_label = {name: float(index) for index, name in enumerate(names)}
    values, codes = distinct(cells)
    labels = [label_of(cell) for cell in values]
    is_unknown = np.array([label != "" and label not in index_of_label for label in labels], dtype=bool)
    for row in np.flatnonzero(is_unknown[codes]).tolist():
        cell = values[codes[row]]
        problems.add(row, column, cell, f"{cell.strip()!r} is not one of the classes {_listed(names)}")
    return np.array([index_of_label.get(label, math.nan) for label in labels], dtype=np.float64)[codes]


def alike(labels: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of labels that differ only in case, spaces, invisible characters or how a number is written."""
    first: dict[str, str] = {}
    pairs = []
    for label in labels:
        spelling = first.setdefault(_folded(label), label)
        if spelling != label:
            pairs.append((spelling, label))
    return pairs


def alike_note(labels: Iterable[str]) -> str:
    """A sentence about classes with similar names; empty without any."""
    pairs = alike(labels)
    if not pairs:
        return ""
    listed = "; ".join(f"{one!r} and {other!r}" for one, other in pairs[:MAX_SHOWN])
    return f"different classes have names that are alike: {listed}; write them the same way if they mean the same"


def label_notes(cells: Texts, column: str, names: Sequence[str]) -> list[str]:
    """What should be known of the classes of a column: names that are alike, that may mean no label, or numbers, names
    among numbers, and classes of one row each."""
    counts = counts_of(cells)
    notes = many_classes(counts, column)
    if note := alike_note(names):
        notes.append(f"{column!r}: {note}")

    texts = [name for name in names if read_number(name)[1]]
    if texts and len(texts) < len(names):
        rows = f"{sum(counts[name] for name in texts):,} of {plural(counts.total(), 'row')}"
        notes.append(f"{column!r}: beside whole numbers, {_listed(texts)} {_are(texts)} too, in {rows}")

    for name in names:
        if counts[name] and (name.lower() in NO_LABEL or (name == "-1" and len(names) > 2)):
            rows = f"{counts[name]:,} of {plural(counts.total(), 'row')}"
            shown = name if name == "-1" else repr(name)
            notes.append(f"{column!r}: {shown} is a class, in {rows}; where it means no label, leave the cell empty")

    return notes


def many_classes(counts: Counter[str], column: str) -> list[str]:
    """A note about so many classes that they are more likely to be something else: numbers in other writing, or names
    of rows."""
    if _are_classes(counts, is_label=False) or len(counts) < 3 or not all(read_number(label)[1] for label in counts):
        return []
    many = f"{column!r}: {len(counts):,} classes in {counts.total():,} rows"
    if len(counts) > MAX_SHOWN and all(map(_WRITTEN_NUMBER.fullmatch, counts)):
        return [
            f"{many} read as numbers ({_listed(sorted(counts))}); for numbers, leave out units and other signs; "
            "--decimal ',' reads a decimal comma"
        ]
    if len(counts) > MAX_CLASSES and counts.total() < 2 * len(counts):
        return [f"{many}: most stand in one row alone, from which no model can learn them; is this the target?"]
    return []


def class_hint(cells: Texts, column: str) -> str:
    """The remedy where a column of numbers holds words only; empty where it does not."""
    counts = counts_of(cells)
    if not counts or not all(read_number(label)[1] and any(map(str.isalpha, label)) for label in counts):
        return ""
    task, shown = "classification" if len(counts) == 2 else "multiclass", _listed(sorted(counts, key=_order))
    return f"{column!r} holds labels ({shown}), not numbers; for classes: --task-type {task}"


def _are_fractions(cells: Texts) -> bool:
    """Whether all cells are numbers, some of them with fractions; found without a list of the different ones."""
    values, bad = parse_numbers(cells)
    fractions = values % 1 != 0
    return not bad and bool(fractions.any())


def _is_fraction(label: str) -> bool:
    number, reason = read_number(label)
    return not reason and number % 1 != 0


def _are(names: Sequence[str]) -> str:
    return "is a class" if len(names) == 1 else "are classes"


def _order(label: str) -> tuple[bool, int, str]:
    return (False, int(label), "") if is_whole(label) else (True, 0, label)


def _folded(label: str) -> str:
    """The normalized form of a label, for comparison."""
    text = "".join(sign for sign in unicodedata.normalize("NFKC", label) if unicodedata.category(sign) != "Cf")
    text = " ".join(text.casefold().split())
    number = _ANY_WHOLE_NUMBER.fullmatch(text)
    if number is None:
        return text.rstrip("0") if _is_fraction(text) and "e" not in text else text
    return f"{number[1].replace('+', '')}{number[2]}"


def _listed(labels: Sequence[str]) -> str:
    return ", ".join(map(repr, labels[:MAX_SHOWN])) + (", ..." if len(labels) > MAX_SHOWN else "")
