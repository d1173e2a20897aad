"""Sorting more records than fit into memory: they are dealt out into files by their key until each file fits."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from edgewise.learn.files import Scratch, ScratchFile

MAX_BINS, MAX_FILES = 2**14, 128
"""Ranges of keys that are counted, and files that are written at once."""
Records: TypeAlias = np.ndarray
"""An array of records: a field a column."""


class Key(NamedTuple):
    """A sort key of records."""

    of: Callable[[Records], np.ndarray]
    """Whole numbers from 0, one a record."""
    bound: int
    """All of them are below it."""


class Block(NamedTuple):
    """Sorted records whose keys lie in a range; ranges follow on each other, and leave no key out."""

    low: int
    """The least key."""
    high: int
    """One more than the largest."""
    pieces: Iterable[Records]
    """The records, in several pieces where those of one key do not fit into memory together."""


def read_pieces(path: str, dtype: np.dtype, size: int) -> Iterator[Records]:
    """The records of a file, in pieces."""
    with open(path, "rb") as file:
        while len(records := np.fromfile(file, dtype, size)):
            yield records


def sorted_blocks(
    paths: Sequence[str], dtype: np.dtype, keys: Sequence[Key], scratch: Scratch, limit: int, then: str | None = None
) -> Iterator[Block]:
    """The records of some files by the first key, block after block.

    Args:
        paths: the files.
        dtype: of their records.
        keys: the first sorts; where too many records share it, they are dealt out by the next.
        scratch: where files are put.
        limit: bytes of records that are held.
        then: a field that sorts records of one key; else they stay in their order.

    Cost: every record is read and written once for each level of files, of which one is enough for 128 times the limit.
    """
    size = max(1, limit // dtype.itemsize)
    return _blocks(list(paths), dtype, list(keys), (0, keys[0].bound), scratch, size, then)


def _blocks(
    paths: list[str],
    dtype: np.dtype,
    keys: list[Key],
    within: tuple[int, int],
    scratch: Scratch,
    size: int,
    then: str | None,
) -> Iterator[Block]:
    low, high = within
    total = sum(_count(path, dtype) for path in paths)
    if total <= size:
        records = np.concatenate([np.fromfile(path, dtype) for path in paths])
        order = keys[0].of(records).argsort(kind="stable")
        if then is not None:
            order = np.lexsort((records[then], keys[0].of(records)))
        yield Block(low, high, [records[order]])
        return
    if high - low == 1 and len(keys) == 1:
        yield Block(low, high, (piece for path in paths for piece in read_pieces(path, dtype, size)))
        return
    if high - low == 1:  # those of the next key, all of which have this one
        for block in _blocks(paths, dtype, keys[1:], (0, keys[1].bound), scratch, size, then):
            yield Block(low, high, block.pieces)
        return

    bounds = _bounds(paths, dtype, keys[0], low, high, size)
    with scratch.files(len(bounds) - 1) as files:
        _deal(paths, dtype, keys[0], bounds, files, size)
    for index, file in enumerate(files):
        yield from _blocks([str(file.path)], dtype, keys, (bounds[index], bounds[index + 1]), scratch, size, then)
        file.remove()


def _bounds(paths: list[str], dtype: np.dtype, key: Key, low: int, high: int, size: int) -> list[int]:
    """Where the keys of each file begin, and where the last ends."""
    width = -(-(high - low) // MAX_BINS)
    counts = np.zeros(-(-(high - low) // width), dtype=np.int64)
    for path in paths:
        for piece in read_pieces(path, dtype, size):
            counts += np.bincount((key.of(piece) - low) // width, minlength=len(counts))

    room = max(size, int(counts.sum()) // (MAX_FILES - 1))
    bounds, num_records = [low], 0
    for index, count in enumerate(counts.tolist()):
        if num_records and num_records + count > room:
            bounds.append(low + index * width)
            num_records = 0
        num_records += count

    bounds.append(high)
    return bounds


def _deal(paths: list[str], dtype: np.dtype, key: Key, bounds: list[int], files: list[ScratchFile], size: int) -> None:
    """Writes each record to the file of its range, in its order."""
    for path in paths:
        for piece in read_pieces(path, dtype, size):
            file_of_record = np.searchsorted(bounds, key.of(piece), side="right") - 1
            order = file_of_record.argsort(kind="stable")
            ends = np.searchsorted(file_of_record[order], np.arange(len(files) + 1))
            dealt = piece[order]
            for number, file in enumerate(files):
                file.write(dealt[ends[number] : ends[number + 1]])


def _count(path: str, dtype: np.dtype) -> int:
    from pathlib import Path

    return Path(path).stat().st_size // dtype.itemsize
