"""Tables that do not fit into memory: their cells in files without names, which are mapped, and texts known by hashes.

cells of the file, chunk after chunk      `TableChunks`
a column of them                          `GrowingTexts`, mapped as one array of pyarrow
which texts came before                   `DigestIndex`, 24 bytes each
"""

import hashlib
import itertools
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import overload

import numpy as np
import numpy.typing as npt
from jaxtyping import Int64, UInt64

from edgewise.learn.files import GrowingArray, release_memory
from edgewise.learn.progress import stage
from edgewise.learn.tables.cell import Texts, pa, text_arrays, to_text_arrow
from edgewise.learn.tables.read import Cells, TableChunks, check_same_columns

MAPPED_ROWS = 2**16
"""Rows of a table above which its cells and features are mapped files; those of smaller tables are in memory."""
ROWS = 2**13
"""Rows of a mapped table that are read together."""


def is_large(tables: Sequence[TableChunks]) -> bool:
    """Whether the rows of some files are too many to be held in memory."""
    return sum(table.num_rows or 0 for table in tables) > MAPPED_ROWS or any(map(_is_large_file, tables))


def _is_large_file(table: TableChunks) -> bool:
    return table.num_rows is None and not table.is_whole


def mapped_cells(tables: Sequence[TableChunks]) -> Cells:
    """The rows of several files below each other, as `join_cells` gives them, in mapped files.

    Raises:
        DataError: as `read_cells` and `join_cells`.
        WriteError: the disk of temporary files is full.
    """
    columns: dict[str, GrowingTexts] = {}
    lines, file_of_row = GrowingArray(np.int64), GrowingArray(np.int64)
    names = [table.name for table in tables]

    total = sum(table.num_rows or 0 for table in tables)
    with stage(f"reading {', '.join(names)}", total or None) as current:
        first: Cells | None = None
        for file_number, table in enumerate(tables):
            for cells in table:
                if first is None:
                    first, columns = cells, {name: GrowingTexts() for name in cells.frame.columns}
                check_same_columns(first, cells)
                for name, column in columns.items():
                    column.append(cells.frame[name])
                lines.append(cells.lines)
                file_of_row.append(np.full(len(cells.lines), file_number))
                current.done += len(cells.lines)

    texts = {name: column.mapped() for name, column in columns.items()}
    all_cells = Cells(tuple(names), file_of_row.mapped(), pa.table(texts).to_pandas(), lines.mapped())
    arrays = [
        all_cells.file_of_row,
        all_cells.lines,
        *(array for column in columns.values() for array in column.arrays),
    ]

    return replace(all_cells, mapped=tuple(arrays))


def parts(cells: Cells, column: str) -> Iterator[tuple[int, "pa.ChunkedArray"]]:
    """The cells of a column and the row of the first of them: some at a time where they are mapped, else all."""
    texts = to_text_arrow(cells.frame[column])
    step = ROWS if cells.mapped else max(1, len(texts))
    for start in range(0, len(texts), step):
        yield start, texts.slice(start, step)
        release_memory(cells.mapped)


def with_column(cells: Cells, name: str, texts: "GrowingTexts | ListedTexts") -> Cells:
    """The cells with another column in place of one."""
    column = pa.table({name: texts.mapped()}).to_pandas()[name]
    return replace(cells, frame=cells.frame.assign(**{name: column}), mapped=(*cells.mapped, *texts.arrays))


def mapped_note(num_rows: int) -> str:
    """A note that a table is not in memory."""
    return (
        f"{num_rows:,} rows, more than {MAPPED_ROWS:,}: cells and features are in files in {tempfile.gettempdir()} "
        "(TMPDIR) while the run lasts, not in memory"
    )


class ListedArray:
    """The same as a `GrowingArray`, in memory."""

    def __init__(self, dtype: npt.DTypeLike, row: tuple[int, ...] = ()):
        self.dtype, self.row, self.num_rows = dtype, row, 0
        self._parts = [np.zeros((0, *row), dtype)]

    def append(self, rows: np.ndarray | Sequence[int]) -> None:
        """Appends rows."""
        self._parts.append(np.asarray(rows, self.dtype))
        self.num_rows += len(rows)

    def mapped(self) -> np.ndarray:
        """All rows."""
        return np.concatenate(self._parts)


def growing(dtype: npt.DTypeLike, row: tuple[int, ...] = (), *, is_mapped: bool) -> GrowingArray | ListedArray:
    """An array to which rows are appended, in a file or in memory."""
    return GrowingArray(dtype, row) if is_mapped else ListedArray(dtype, row)


class GrowingTexts:
    """A growing column of texts in two temporary files: the end of each text, and all bytes."""

    def __init__(self) -> None:
        self.offsets, self.letters = GrowingArray(np.int64), GrowingArray(np.uint8)
        self.arrays: tuple[np.ndarray, ...] = ()
        self.offsets.append(np.zeros(1))

    def append(self, texts: Texts) -> None:
        """Appends texts."""
        for chunk in to_text_arrow(texts).chunks:
            if not len(chunk):
                continue
            lengths, letters = text_arrays(chunk)
            self.offsets.append(self.letters.num_rows + np.cumsum(lengths))
            self.letters.append(letters)

    def mapped(self) -> "pa.LargeStringArray":
        """All texts; nothing can be appended any more."""
        self.arrays = offsets, letters = self.offsets.mapped(), self.letters.mapped()
        return pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(letters))

    def texts(self) -> "MappedTexts":
        """The same as a sequence."""
        return MappedTexts(self)


class ListedTexts:
    """The same as `GrowingTexts`, in memory."""

    arrays: tuple[np.ndarray, ...] = ()

    def __init__(self) -> None:
        self._texts = list[str]()

    def append(self, texts: Texts) -> None:
        """Appends texts."""
        self._texts += texts if isinstance(texts, list) else to_text_arrow(texts).to_pylist()

    def mapped(self) -> "pa.LargeStringArray":
        """All texts."""
        return pa.array(self._texts, pa.large_string())

    def texts(self) -> tuple[str, ...]:
        """The same as a sequence."""
        return tuple(self._texts)


def growing_texts(*, is_mapped: bool) -> GrowingTexts | ListedTexts:
    """A column of texts to which others are appended, in files or in memory."""
    return GrowingTexts() if is_mapped else ListedTexts()


class MappedTexts(Sequence[str]):
    """Texts in mapped files, read on access."""

    def __init__(self, texts: GrowingTexts):
        self.array = texts.mapped()
        self.arrays = texts.arrays
        """The mapped files."""

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        value = self.array[index]
        return tuple(value.to_pylist()) if isinstance(index, slice) else value.as_py()

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), ROWS):
            yield from self[start : start + ROWS]


def digests(texts: Iterable[str]) -> UInt64[np.ndarray, "text half"]:
    """128 bits of the hash of each text: two texts with the same are the same."""
    digest_bytes = b"".join(
        hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest() for text in texts
    )
    return np.frombuffer(digest_bytes, np.uint64).reshape(-1, 2)


def keys_of(texts: Iterable[str]) -> Int64[np.ndarray, " text"]:
    """64 bits of the hash of each text; two of a million texts collide with a probability of 10⁻⁷."""
    keys = list[np.ndarray]()
    remaining = iter(texts)
    while batch := list(itertools.islice(remaining, ROWS)):
        keys.append(digests(batch)[:, 0].view(np.int64))
    return np.concatenate([np.zeros(0, np.int64), *keys])


class DigestIndex:
    """The number that belongs to each of many texts, which are known by their digests.

    Sorted runs, each more than twice as long as the next, so that a text is moved O(log texts) times.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def find(self, digests: UInt64[np.ndarray, "text half"]) -> Int64[np.ndarray, " text"]:
        """The number of each text; -1 where it is unknown."""
        text_numbers = np.full(len(digests), -1)
        for first, second, numbers in self._runs:
            positions = np.minimum(np.searchsorted(first, digests[:, 0]), len(first) - 1)
            same = (first[positions] == digests[:, 0]) & (second[positions] == digests[:, 1])
            text_numbers[same] = numbers[positions[same]]
        return text_numbers

    def add(self, digests: UInt64[np.ndarray, "text half"], numbers: Int64[np.ndarray, " text"]) -> None:
        """Takes texts that are not known, each once."""
        if not len(digests):
            return
        new = digests[:, 0], digests[:, 1], np.asarray(numbers, np.int64)
        while self._runs and len(self._runs[-1][0]) <= 2 * len(new[0]):
            old = self._runs.pop()
            new = np.concatenate([old[0], new[0]]), np.concatenate([old[1], new[1]]), np.concatenate([old[2], new[2]])
        order = np.argsort(new[0], kind="stable")
        self._runs.append((new[0][order], new[1][order], new[2][order]))
