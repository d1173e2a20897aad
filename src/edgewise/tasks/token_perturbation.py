"""A model of tokens, asked about a text without some of them: what texts, prompts, sentences and translations
share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64

Kept = Bool[np.ndarray, " token"]
"""Which tokens are left."""

TOGETHER = 2**15
"""Tokens that are computed at a time, about."""
MOST_TOKENS = 2**18
"""Tokens that are read for one kind of question, about: a long text is asked about in fewer, larger parts."""
MOST_PARTS, LEAST_PARTS = 512, 16
"""Into how many parts a text is cut at most, and at least where it has as many tokens."""


@dataclass(frozen=True, eq=False)
class TokenQuestions:
    """What is told of a text without some of its tokens; the others move together, as if they had stood there alone."""

    stays: Kept
    """The tokens that are never taken away, such as those that stand for no text."""
    told: Callable[[Sequence[Kept]], np.ndarray]
    """The number that is explained, for each of some lists of what is left."""
    beside: int = 0
    """Tokens that are read with every question and are never taken away: the translation of what is left."""

    def __call__(self, removed: Sequence[np.ndarray]) -> Float64[np.ndarray, " question"]:
        """The number without each of these lists of tokens."""
        told, kept, size = [], [], 0
        for units in removed:
            left = np.ones(len(self.stays), dtype=bool)
            left[units] = False
            kept.append(left | self.stays)
            size += int(kept[-1].sum()) + self.beside
            if size >= TOGETHER:
                told.append(self.told(kept))
                kept, size = [], 0
        return np.concatenate([*told, *([self.told(kept)] if kept else [])])

    @property
    def most_parts(self) -> int:
        """How many questions of one kind are asked at most."""
        return max(LEAST_PARTS, min(MOST_PARTS, MOST_TOKENS // max(len(self.stays) + self.beside, 1)))

    @property
    def units(self) -> np.ndarray:
        """The tokens that can be taken away."""
        return np.flatnonzero(~self.stays)

    def groups(self) -> list[np.ndarray]:
        """Tokens that are taken away together: each alone, or neighbors where there are too many."""
        units = self.units
        return np.array_split(units, min(len(units), self.most_parts)) if len(units) else []


def shortened(text: str, size: int = 60) -> str:
    """The beginning of a text on one line, cut at a word."""
    words = " ".join(text.split())
    if len(words) <= size:
        return words
    return (words[:size].rsplit(" ", 1)[0] if " " in words[:size] else words[:size]) + " …"
