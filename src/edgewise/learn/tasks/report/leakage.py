"""Data leakage: molecules, texts or graphs of test rows that are also, or nearly, in the training rows.

Scores on rows like those of the training measure interpolation, and say little of others.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from edgewise.learn.files import JsonObject
from edgewise.learn.tables.split import evenly_spaced

MAX_QUERIED, MAX_TRAINING = 1_000, 10_000
"""Different contents that are compared with those of the training rows, and of those; evenly chosen where there are
more."""
MAX_EXAMPLES = 10
"""Pairs that are shown of each split."""
_WORD = re.compile(r"\w+")

Content = TypeVar("Content")
Near = Callable[[Sequence[Hashable], Sequence[Hashable]], tuple[np.ndarray, np.ndarray]]
"""From contents and those of training rows to the largest similarity of each, and the index of the training content
that it is to; -1 where none is near."""


@dataclass(frozen=True, eq=False)
class SplitContents:
    """The rows of a split and what they hold."""

    noun: str
    """What a row holds, in the plural: molecules, texts."""
    rows: Mapping[str, Sequence[int] | np.ndarray]
    """The numbers of the rows of each split: train, val, test."""
    contents: Mapping[str, Sequence[Hashable] | np.ndarray]
    """What each of these rows holds, equal where it is the same; or numbers that stand for it."""
    near: Near | None = None
    """Finds contents that are nearly the same; None where none are compared."""
    least: float = 1.0
    """The similarity from which on it is."""
    about: str = ""
    """In a few words, what the similarity is."""


def leakage(split: SplitContents) -> JsonObject:
    """Which of the validation and test rows are also, or nearly, among the training rows; for `metrics.json`.

    A row is the same as a training row where their contents are equal, and near one where the similarity of its
    content to that of any training row is at least `split.least`.

    Args:
        split: the split.

    Returns:
        unit, least, about, and for `validation` and `test`: rows, how many of them are the same as a training row
        (`same`), near one (`near`) of how many that were compared (`compared`), and examples of both.

    Cost: O(rows) for equal ones, and at most MAX_QUERIED × MAX_TRAINING comparisons a split.
    """
    keys, content_of = _numbered(split.contents)
    train_rows = np.asarray(split.rows["train"])
    train_keys, first = np.unique(keys["train"], return_index=True)
    first_row = train_rows[first] if len(train_keys) else train_rows
    distinct = evenly_spaced(train_keys[np.argsort(first)], MAX_TRAINING)
    metrics: JsonObject = {"unit": split.noun, "least": split.least, "about": split.about}

    def training_row(key: int) -> int:
        return int(first_row[np.searchsorted(train_keys, key)])

    for split_key, name in (("val", "validation"), ("test", "test")):
        split_keys, rows = keys.get(split_key, train_keys[:0]), np.asarray(split.rows.get(split_key, ()))
        if not len(rows):
            continue
        is_same = np.isin(split_keys, train_keys)
        scores: JsonObject = {"rows": len(rows), "same": int(is_same.sum())}
        examples: list[dict[str, float]] = [
            {"row": int(rows[index]), "training_row": training_row(split_keys[index])}
            for index in np.flatnonzero(is_same)[:MAX_EXAMPLES].tolist()
        ]
        if split.near is not None and len(distinct):
            others = np.flatnonzero(~is_same)
            _, firsts = np.unique(split_keys[others], return_index=True)
            queried = evenly_spaced(split_keys[others][np.sort(firsts)], MAX_QUERIED)
            how_near, nearest = split.near(content_of(queried), content_of(distinct))
            near = {
                key: (float(value), training_row(distinct[at]))
                for key, value, at in zip(queried.tolist(), how_near.tolist(), nearest.tolist(), strict=True)
                if at >= 0 and value >= split.least
            }
            is_near = others[np.isin(split_keys[others], list(near))]
            rows_near = sorted(
                (
                    (*near[key], row)
                    for key, row in zip(split_keys[is_near].tolist(), rows[is_near].tolist(), strict=True)
                ),
                key=lambda each: -each[0],
            )
            scores |= {"near": len(rows_near), "compared": int(np.isin(split_keys[others], queried).sum())}
            examples += [
                {"row": row, "training_row": other, "similarity": round(value, 4)}
                for value, other, row in rows_near[:MAX_EXAMPLES]
            ]
        metrics[name] = scores | {"examples": examples}
    return metrics


def _numbered(
    contents: Mapping[str, Sequence[Hashable] | np.ndarray],
) -> tuple[dict[str, np.ndarray], Callable[[np.ndarray], list[Hashable]]]:
    """A number for each content, and what contents are handed on for some numbers."""
    if all(isinstance(content, np.ndarray) for content in contents.values()):
        return {split: np.asarray(content) for split, content in contents.items()}, lambda keys: keys.tolist()
    numbers: dict[Hashable, int] = {}
    keys = {
        split: np.array([numbers.setdefault(content, len(numbers)) for content in contents_of_split], np.int64)
        for split, contents_of_split in contents.items()
    }
    distinct = list(numbers)
    return keys, lambda some: [distinct[key] for key in some.tolist()]


def molecule_contents(
    noun: str,
    rows: Mapping[str, Sequence[int] | np.ndarray],
    contents: Mapping[str, Sequence[Hashable] | np.ndarray],
    molecules: Callable[[Sequence[Hashable]], Sequence[str | Sequence[str]]],
) -> SplitContents:
    """A split of molecules, one or several a row.

    Args:
        noun, rows: as in `SplitContents`.
        contents: canonical SMILES, or numbers that stand for them.
        molecules: from some of the numbers to canonical SMILES.
    """

    def near(queried: Sequence[Hashable], training: Sequence[Hashable]) -> tuple[np.ndarray, np.ndarray]:
        # RDKit is an extra, which texts do without.
        from edgewise.learn.readers.molecules.similarity import nearest

        return nearest(molecules(queried), molecules(training))

    return SplitContents(noun, rows, contents, near, 0.95, "Tanimoto similarity of Morgan fingerprints")


def text_contents(
    noun: str,
    rows: Mapping[str, Sequence[int] | np.ndarray],
    texts: Mapping[str, Sequence[str] | np.ndarray],
    read: Callable[[Sequence[Hashable]], Sequence[str]] | None = None,
) -> SplitContents:
    """A split of texts: the same where their words are, whatever their case, spaces and signs.

    Args:
        noun, rows: as in `SplitContents`.
        texts: the texts, or numbers that stand for normalized ones.
        read: from some of these numbers to normalized texts.
    """

    def near(queried: Sequence[Hashable], training: Sequence[Hashable]) -> tuple[np.ndarray, np.ndarray]:
        return near_texts(*(read(some) if read else [str(text) for text in some] for some in (queried, training)))

    contents = (
        texts
        if read
        else {split: [normalized(text) for text in texts_of_split] for split, texts_of_split in texts.items()}
    )
    return SplitContents(noun, rows, contents, near, MIN_SHARED, "shared part of their different words")


def contents_of_texts(
    noun: str, rows: Mapping[str, Sequence[int] | np.ndarray] | None, text_of_row: Callable[[int], str]
) -> SplitContents:
    """A split of rows that hold a text each.

    Args:
        noun, rows: as in `SplitContents`.
        text_of_row: the text of a row, by its number.
    """
    assert rows is not None
    texts = {split: [text_of_row(row) for row in rows_of_split] for split, rows_of_split in rows.items()}
    return text_contents(noun, rows, texts)


def by_key(
    rows: Mapping[str, Sequence[int] | np.ndarray],
    keys: Mapping[str, Sequence[Hashable] | np.ndarray],
    read: Callable[[np.ndarray], list[Content]],
) -> Callable[[Sequence[Hashable]], list[Content]]:
    """From numbers that stand for the contents of rows to these contents.

    Args:
        rows: of each split, an array.
        keys: of each of these rows; equal where their contents are.
        read: the contents of some rows.
    """
    all_rows, all_keys = (np.concatenate([*of_split.values()]) for of_split in (rows, keys))
    distinct, first = np.unique(all_keys, return_index=True)
    return lambda some: read(all_rows[first[np.searchsorted(distinct, np.asarray(some))]])


def normalized(text: str) -> str:
    """The words of a text in small letters, one space between them; a text without a word as it is."""
    text = unicodedata.normalize("NFC", text)
    return " ".join(_WORD.findall(text.casefold())) or text.strip()


MIN_SHARED = 0.9
"""The share of their different words that near texts share."""


def near_texts(queried: Sequence[str], training: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The Jaccard similarity of each text to the nearest training text, J(a, b) = |a ∩ b| / |a ∪ b| over their words.

    Two sets with J ≥ t share one of the ⌊(1 − t)·|a|⌋ + 1 rarest words of each: only such pairs are compared.

    Args:
        queried: normalized texts.
        training: those that they are compared with, normalized.

    Returns:
        (text) similarities and places; 0 and -1 where none shares `MIN_SHARED` of its words.

    Source: Chaudhuri et al. 2006, A primitive operator for similarity joins, the prefix filter.
    """
    from scipy.sparse import csr_array

    words = {text: frozenset(text.split()) for text in {*queried, *training}}
    counts = Counter(word for text in words.values() for word in text)
    number_of_word = {word: number for number, word in enumerate(counts)}

    def rarest(text: str) -> list[str]:
        ordered = sorted(words[text], key=lambda word: (counts[word], word))
        return ordered[: len(ordered) - math.ceil(MIN_SHARED * len(ordered) - 1e-9) + 1]

    holders: dict[str, list[int]] = {}
    for candidate, text in enumerate(training):
        for word in rarest(text):
            holders.setdefault(word, []).append(candidate)
    candidates_of_word = {word: np.array(of_word, dtype=np.int64) for word, of_word in holders.items()}
    sizes = np.array([len(words[text]) for text in training], dtype=np.int64)
    numbers = np.array([number_of_word[word] for text in training for word in words[text]], dtype=np.int64)
    ones, offsets = np.ones(len(numbers), dtype=np.int32), np.concatenate([[0], np.cumsum(sizes)])
    contents = csr_array((ones, numbers, offsets), shape=(len(training), len(counts)))

    values, nearest = np.zeros(len(queried)), np.full(len(queried), -1)
    for number, text in enumerate(queried):
        of_words = [candidates_of_word[word] for word in rarest(text) if word in candidates_of_word]
        if not of_words:
            continue
        candidates = np.unique(np.concatenate(of_words))
        is_in_text = np.zeros(len(counts), dtype=np.int32)
        is_in_text[[number_of_word[word] for word in words[text]]] = 1
        shared = contents[candidates] @ is_in_text
        ratios = shared / (len(words[text]) + sizes[candidates] - shared)
        if ratios.max() >= MIN_SHARED:
            values[number], nearest[number] = ratios.max(), candidates[ratios.argmax()]
    return values, nearest
