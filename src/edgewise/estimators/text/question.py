"""A model of texts, asked about one row without some of its tokens; and which tokens are asked about together."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float64

from edgewise.estimators.explained import Explained
from edgewise.estimators.text.tokens import RowTokens
from edgewise.explanation import Part
from edgewise.records import TextRows

TOGETHER = 2**15
"""Tokens that are computed at a time, about."""
MOST_TOKENS = 2**18
"""Tokens that are read for one kind of question, about: a long text is asked about in fewer, larger parts."""
MOST_PARTS, LEAST_PARTS = 512, 16
"""Into how many parts a text is cut at most, and at least where it has as many tokens."""
SENTENCE = re.compile(r"(\S.*?)(?:(?<=[.!?…])(?=\s)|\n|$)", re.DOTALL)
"""Up to a sign that ends a sentence and a space, or to the end of the line."""


@dataclass(frozen=True, eq=False)
class TextQuestions:
    """What is told of a row without some of its tokens; the others move together, as if they had stood there alone."""

    explained: Explained
    """The number that is told."""
    row: RowTokens
    """The tokens; those that stand for no text always stay."""
    nothing: int
    """The token of a text of which nothing is left, not even its end."""

    def __call__(self, removed: Sequence[np.ndarray]) -> Float64[np.ndarray, " question"]:
        """The number without each of these lists of tokens."""
        told, kept, size = [], [], 0
        for units in removed:
            stays = np.ones(len(self.row), dtype=bool)
            stays[units] = False
            kept.append(stays | self.row.is_special)
            size += int(kept[-1].sum())
            if size >= TOGETHER:
                told.append(self._told(kept))
                kept, size = [], 0
        return np.concatenate([*told, *([self._told(kept)] if kept else [])])

    def _told(self, kept: Sequence[Bool[np.ndarray, " token"]]) -> np.ndarray:
        return self.explained.of_batch(text_rows(self.row, kept, self.nothing))

    @property
    def most_parts(self) -> int:
        """How many questions of one kind are asked at most."""
        return max(LEAST_PARTS, min(MOST_PARTS, MOST_TOKENS // max(len(self.row), 1)))

    def groups(self) -> list[np.ndarray]:
        """Tokens that are taken away together: each alone, or neighbors where there are too many."""
        units = np.flatnonzero(~self.row.is_special)
        return np.array_split(units, min(len(units), self.most_parts)) if len(units) else []


def text_rows(row: RowTokens, kept: Sequence[Bool[np.ndarray, " token"]], nothing: int) -> TextRows:
    """A batch of one row several times, with some of its tokens each; `nothing` where none is left."""
    tokens, columns = [], []
    for stays in kept:
        tokens.append(row.numbers[stays] if stays.any() else np.array([nothing]))
        columns.append(row.columns[stays] if stays.any() else np.zeros(1, dtype=np.int64))
    offsets = np.cumsum([0, *(len(each) for each in tokens)])
    return TextRows(*(torch.from_numpy(each) for each in (np.concatenate(tokens), offsets, np.concatenate(columns))))


def whole(row: RowTokens) -> TextRows:
    """A batch of one row as it is."""
    return text_rows(row, [np.ones(len(row), dtype=bool)], 0)


def sentences(texts: Sequence[str], names: Sequence[str], row: RowTokens) -> Iterator[Part]:
    """The sentences of each text that have tokens, their effects still to be found."""
    is_text = ~row.is_special
    for place, text in enumerate(texts):
        own = is_text & (row.columns == place)
        for found in SENTENCE.finditer(text):
            begin, end = found.span(1)
            units = np.flatnonzero(own & (row.starts >= begin) & (row.starts < end))
            if len(units):
                yield Part(shortened(found[1].strip()), "sentence", tuple(units.tolist()), 0.0)


def shortened(text: str, size: int = 60) -> str:
    """The beginning of a text on one line, cut at a word."""
    words = " ".join(text.split())
    if len(words) <= size:
        return words
    return (words[:size].rsplit(" ", 1)[0] if " " in words[:size] else words[:size]) + " …"
