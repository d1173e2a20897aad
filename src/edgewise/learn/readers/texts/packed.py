"""The tokens of all rows of a table, concatenated, in memory or in mapped files."""

from collections.abc import Iterable, Sequence
from typing import overload

import numpy as np

from edgewise.learn.files import release_memory
from edgewise.learn.readers.graphs.union import runs
from edgewise.learn.readers.texts.tokenizer import RowTokens, Tokenizer
from edgewise.learn.tables.mapped import growing

BATCH_SIZE = 2**13
"""Rows whose tokens are joined at the same time."""


class PackedTokens:
    """The tokens of each row, as one vocabulary reads them.

    Args:
        rows: the texts of each row.
        tokenizer: the vocabulary.
        context: tokens of a row, at most.
        is_mapped: whether they are put into mapped files.
    """

    def __init__(self, rows: Iterable[Sequence[str]], tokenizer: Tokenizer, context: int, *, is_mapped: bool):
        self.tokenizer, self.context, self.num_cut = tokenizer, context, 0
        """The vocabulary, the largest number of tokens of a row, and the number of rows with more."""
        offsets, numbers = growing(np.int64, is_mapped=is_mapped), growing(np.int32, is_mapped=is_mapped)
        columns = growing(np.int16, is_mapped=is_mapped)
        counts = growing(np.int32, (2,), is_mapped=is_mapped)
        offsets.append([0])
        waiting = list[RowTokens]()

        def store() -> None:
            offsets.append(numbers.num_rows + np.cumsum([len(row) for row in waiting]))
            numbers.append(np.concatenate([row.numbers for row in waiting]))
            columns.append(np.concatenate([row.columns for row in waiting]))
            counts.append(np.array([(row.num_of_texts, row.num_unknown) for row in waiting]))
            waiting.clear()

        for texts in rows:
            row = tokenizer.row_of(texts, context)
            self.num_cut += row.num_cut > 0
            waiting.append(row)
            if len(waiting) == BATCH_SIZE:
                store()

        if waiting:
            store()
        self.offsets, self.numbers, self.columns = offsets.mapped(), numbers.mapped(), columns.mapped()
        """Tokens of row r are `offsets[r]:offsets[r + 1]`; the number and the text column of each."""
        self.num_of_texts, self.num_unknown = counts.mapped().T
        """Tokens of the texts of each row, those that are cut among them, and those that are out of vocabulary."""
        self._mapped = (self.offsets, self.numbers, self.columns) if is_mapped else ()

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.offsets) - 1

    def packed(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tokens, offsets and text columns of some rows, concatenated."""
        positions, offsets = runs(self.offsets, rows)
        tokens = self.numbers[positions].astype(np.int64), offsets, self.columns[positions].astype(np.int64)
        release_memory(self._mapped)
        return tokens

    def of(self, rows: np.ndarray) -> "RowsOfTokens":
        """Some of the rows."""
        return RowsOfTokens(self, rows)


class RowsOfTokens(Sequence[np.ndarray]):
    """The tokens of some rows, read on access."""

    def __init__(self, tokens: PackedTokens, rows: np.ndarray):
        self.tokens, self.rows = tokens, rows

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, index: slice) -> list[np.ndarray]: ...
    def __getitem__(self, index: int | slice) -> np.ndarray | list[np.ndarray]:
        """The tokens of one row, or of some."""
        if not isinstance(index, slice):
            return self[index : index + 1][0]
        numbers, offsets, _ = self.tokens.packed(self.rows[index])
        return np.split(numbers, offsets[1:-1])
