"""A row of texts as the tokens that a model reads, each with the place that it came from."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from jaxtyping import Bool, Int64

from edgewise.data.tables.cell import OK
from edgewise.data.texts.tokenizer import ALL_UNKNOWN, Tokenizer, Tokens


@dataclass(frozen=True, eq=False)
class RowTokens:
    """The tokens of a row: those of several columns behind each other, each column with its end, where there is one."""

    numbers: Int64[np.ndarray, " token"]
    """Places in the vocabulary."""
    columns: Int64[np.ndarray, " token"]
    """The column that each stands in, counted from 0."""
    starts: Int64[np.ndarray, " token"]
    """Its first character in the text of that column."""
    stops: Int64[np.ndarray, " token"]
    """One past the last; of a token that stands for no text, its start."""
    num_cut: int
    """How many more there are, which the model does not read."""

    @classmethod
    def of(cls, tokenizer: Tokenizer, texts: Sequence[str], context: int) -> Self:
        """The first `context` tokens of some texts."""
        parts = []
        for place, text in enumerate(texts):
            found = tokenizer.encode(text)
            begin = tokenizer.begin if place == 0 else None
            parts.append(_with_special(found, begin, tokenizer.end, len(text)))
        columns = np.repeat(np.arange(len(parts)), [len(part.numbers) for part in parts])
        joined = [np.concatenate(each) for each in zip(*((p.numbers, p.starts, p.stops) for p in parts), strict=True)]
        numbers, starts, stops = (each[:context] for each in joined)
        return cls(numbers, columns[:context], starts, stops, max(0, len(columns) - context))

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def is_special(self) -> Bool[np.ndarray, " token"]:
        """Which stand for no text: the beginning, the end."""
        return self.starts == self.stops


def _with_special(tokens: Tokens, begin: int | None, end: int | None, length: int) -> Tokens:
    """Tokens between those that say where a text begins and ends."""
    before, after = ([] if token is None else [token] for token in (begin, end))
    numbers = np.concatenate([before, tokens.numbers, after]).astype(np.int64)
    sides = [
        np.concatenate([[0] * len(before), side, [length] * len(after)]).astype(np.int64)
        for side in (tokens.starts, tokens.stops)
    ]
    return Tokens(numbers, *sides)


def status_of(tokenizer: Tokenizer, texts: Iterable[str]) -> str:
    """The status of a row of texts: `OK`, or `ALL_UNKNOWN` where the vocabulary has no word of it."""
    return ALL_UNKNOWN if tokenizer.knows_none(texts) else OK
