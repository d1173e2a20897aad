"""Data leakage: molecules, texts or graphs of test rows that are also, or nearly, in the training rows.

Scores on rows like those of the training measure interpolation, and say little of others.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MAX_QUERIED, MAX_KNOWN = 1_000, 10_000
"""Different contents that are compared with those of the training rows, and of those; evenly chosen where there are
more."""
MAX_CANDIDATES = 100
"""Training texts that one text is compared with word by word."""
MAX_EXAMPLES = 10
"""Pairs that are shown of each split."""
_WORD = re.compile(r"\w+")

Near = Callable[[Sequence[Any], Sequence[Any]], tuple[np.ndarray, np.ndarray]]
"""From contents and known ones to the largest similarity of each, and the place of the known one it is to; -1 where
none is near."""


@dataclass(frozen=True, eq=False)
class SplitContents:
    """The rows of a split and what they hold."""

    unit: str
    """What a row holds, in the plural: molecules, texts."""
    rows: Mapping[str, Sequence[int]]
    """The numbers of the rows of each split: train, val, test."""
    contents: Mapping[str, Sequence[Hashable]]
    """What each of these rows holds, equal where it is the same."""
    near: Near | None = None
    """Finds contents that are nearly the same; None where none are compared."""
    least: float = 1.0
    """The similarity from which on it is."""
    about: str = ""
    """In a few words, what the similarity is."""


def leakage(split: SplitContents) -> dict[str, Any]:
    """Who of the validation and test rows is also, or nearly, among the training rows; for `metrics.json`.

    A row is the same as a training row where their contents are equal, and near one where the similarity of its
    content to that of any training row is at least `split.least`.

    Args:
        split: the split.

    Returns:
        unit, least, about, and for `validation` and `test`: rows, how many of them are the same as a training row
        (`same`), near one (`near`) of how many that were compared (`compared`), and examples of both.

    Cost: O(rows) for equal ones, and at most MAX_QUERIED × MAX_KNOWN comparisons a split.
    """
    known = list(split.contents["train"])
    first = dict(zip(reversed(known), reversed(split.rows["train"]), strict=True))  # the first row wins
    distinct = _chosen(list(dict.fromkeys(known)), MAX_KNOWN)
    found: dict[str, Any] = {"unit": split.unit, "least": split.least, "about": split.about}
    for key, name in (("val", "validation"), ("test", "test")):
        contents, rows = split.contents.get(key, ()), split.rows.get(key, ())
        if not len(rows):
            continue
        others = [(content, row) for content, row in zip(contents, rows, strict=True) if content not in first]
        same = [(content, row) for content, row in zip(contents, rows, strict=True) if content in first]
        scores: dict[str, Any] = {"rows": len(rows), "same": len(same)}
        examples: list[dict[str, Any]] = [
            {"row": int(row), "training_row": int(first[content])} for content, row in same[:MAX_EXAMPLES]
        ]
        if split.near is not None and distinct:
            queried = _chosen(list(dict.fromkeys(content for content, _ in others)), MAX_QUERIED)
            looked_at = set(queried)
            how_near, place = split.near(queried, distinct)
            near = {
                content: (float(value), int(first[distinct[at]]))
                for content, value, at in zip(queried, how_near.tolist(), place.tolist(), strict=True)
                if at >= 0 and value >= split.least
            }
            rows_near = sorted(
                ((*near[content], int(row)) for content, row in others if content in near), key=lambda each: -each[0]
            )
            scores |= {"near": len(rows_near), "compared": sum(content in looked_at for content, _ in others)}
            examples += [
                {"row": row, "training_row": other, "similarity": round(value, 4)}
                for value, other, row in rows_near[:MAX_EXAMPLES]
            ]
        found[name] = scores | {"examples": examples}
    return found


def molecule_contents(
    unit: str, rows: Mapping[str, Sequence[int]], contents: Mapping[str, Sequence[Hashable]]
) -> SplitContents:
    """A split of molecules, as canonical SMILES, one or several a row."""

    def near(queried: Sequence[Any], known: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        # RDKit is an extra, which texts do without.
        from edgewise.data.molecules.molecule import nearest

        return nearest(queried, known)

    return SplitContents(unit, rows, contents, near, 0.95, "Tanimoto similarity of Morgan fingerprints")


def text_contents(unit: str, rows: Mapping[str, Sequence[int]], texts: Mapping[str, Sequence[str]]) -> SplitContents:
    """A split of texts: the same where their words are, whatever their case, spaces and signs."""
    contents = {split: [normalized(text) for text in some] for split, some in texts.items()}
    return SplitContents(unit, rows, contents, near_texts, MIN_SHARED, "shared part of their different words")


def normalized(text: str) -> str:
    """The words of a text in small letters, one space between them; a text without a word as it is."""
    return " ".join(_WORD.findall(text.casefold())) or text.strip()


MIN_SHARED = 0.9
"""The share of their different words that near texts share."""


def near_texts(queried: Sequence[str], known: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The Jaccard similarity of each text to the nearest known one, J(a, b) = |a ∩ b| / |a ∪ b| over their words.

    Two sets with J ≥ t share one of the ⌊(1 − t)·|a|⌋ + 1 rarest words of each: only such pairs are compared.

    Args:
        queried, known: normalized texts.

    Returns:
        (text) similarities and places; 0 and -1 where none shares `MIN_SHARED` of its words.

    Source: Chaudhuri et al. 2006, A primitive operator for similarity joins, the prefix filter.
    """
    words = {text: frozenset(text.split()) for text in {*queried, *known}}
    counts = Counter(word for text in words.values() for word in text)

    def rarest(text: str) -> list[str]:
        ordered = sorted(words[text], key=lambda word: (counts[word], word))
        return ordered[: len(ordered) - math.ceil(MIN_SHARED * len(ordered) - 1e-9) + 1]

    holders: dict[str, list[int]] = {}
    for place, text in enumerate(known):
        for word in rarest(text):
            holders.setdefault(word, []).append(place)
    values, places = np.zeros(len(queried)), np.full(len(queried), -1)
    for number, text in enumerate(queried):
        candidates = list(dict.fromkeys(place for word in rarest(text) for place in holders.get(word, ())))
        for place in candidates[:MAX_CANDIDATES]:
            shared = len(words[text] & words[known[place]])
            ratio = shared / (len(words[text]) + len(words[known[place]]) - shared)
            if ratio >= MIN_SHARED and ratio > values[number]:
                values[number], places[number] = ratio, place
    return values, places


def _chosen(values: list[Any], most: int) -> list[Any]:
    """At most so many of them, evenly spaced."""
    if len(values) <= most:
        return values
    return [values[place] for place in np.linspace(0, len(values) - 1, most).round().astype(int).tolist()]
