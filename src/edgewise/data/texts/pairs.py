"""Texts and their translations: two columns of a table, or two files that are aligned line by line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int64

from edgewise.data.tables.cell import OK, Rejection
from edgewise.data.tables.options import TABLES
from edgewise.data.tables.read import check_columns_exist, join_cells, read_cells
from edgewise.data.texts.split import parts_of
from edgewise.data.texts.tokenizer import read_text
from edgewise.errors import DataError, SettingError
from edgewise.plural import plural

Texts = Any
"""Several texts: a list, an array, a column of a table."""


@dataclass(frozen=True, eq=False)
class TextPairs:
    """Texts in the order of their files, each with its translation; what cannot be used keeps its place."""

    files: tuple[str, ...]
    """The tables, or each two aligned files joined by `+`."""
    file_of_row: Int64[np.ndarray, " row"]
    """Which of them each pair stands in, counted from 0."""
    lines: Int64[np.ndarray, " row"]
    """The line of its file."""
    sources: list[str]
    """What is to be translated."""
    targets: list[str]
    """What it becomes."""
    status: list[str]
    """`ok`, or why the pair cannot be used."""
    rejected: list[Rejection]
    """Pairs that cannot be used, in file order."""

    def split(self, sizes: Sequence[float], seed: int) -> dict[str, Int64[np.ndarray, " _"]]:
        """The rows of each part: files in the order train, (val), test; or one file parted at random.

        Args:
            sizes: parts of training, validation and test rows of one file.
            seed: of the draw.
        """
        return parts_of(self.status, self.file_of_row, len(self.files), sizes, seed)


def read_pairs(paths: Sequence[str], text_columns: Sequence[str], target_columns: Sequence[str]) -> TextPairs:
    """Read one, two (train, test) or three (train, val, test) tables; or two, four or six aligned files.

    Raises:
        DataError: a file cannot be used, or two aligned files have not as many lines.
        SettingError: the number of files or columns is another.
    """
    return _from_tables(paths, text_columns, target_columns) if is_table(paths[0]) else _from_lines(paths)


def pairs_of(parts: Mapping[str, tuple[Texts, Texts]]) -> TextPairs:
    """Texts that are in memory, by the names of their parts.

    Raises:
        DataError: a part has not as many translations as texts, or something in it is no text.
    """
    for name, sides in parts.items():
        check_pairs(name, *sides)
    file_of_row = np.repeat(np.arange(len(parts)), [len(sides[0]) for sides in parts.values()])
    lines = np.concatenate([np.arange(len(sides[0])) for sides in parts.values()])
    sources, targets = ([text for sides in parts.values() for text in sides[side]] for side in (0, 1))
    return _checked(tuple(parts), file_of_row, lines, sources, targets, ("source", "target"))


def check_pairs(name: str, sources: Texts, targets: Texts) -> None:
    """Raise DataError unless there are as many texts on both sides."""
    for side in (sources, targets):
        check_texts(name, side)
    if len(sources) != len(targets):
        raise DataError(f"{name}: {plural(len(sources), 'text')}, but {plural(len(targets), 'translation')}.")


def check_texts(name: str, texts: Texts) -> None:
    """Raise DataError unless it is several texts, not one."""
    if isinstance(texts, str):
        raise DataError(f"{name} must be several texts, not one; put it in a list.")
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"{name}: number {row} is {text!r}, not a text.")


def is_table(path: str) -> bool:
    """Whether a file holds columns, by its name."""
    return path.lower().endswith(TABLES)


def _from_tables(paths: Sequence[str], text_columns: Sequence[str], target_columns: Sequence[str]) -> TextPairs:
    if len(text_columns) != 1 or len(target_columns) != 1:
        raise SettingError(
            "a translation has one column to read and one to write: --text-columns en --target-columns de."
        )
    if len(paths) > 3:
        raise SettingError(f"{len(paths)} tables were given; expected one, two (train, test) or three.")
    parts = [read_cells(path) for path in paths]
    for part in parts:
        check_columns_exist(part, (text_columns[0], target_columns[0]))
    cells = join_cells(parts)
    sources, targets = (cells.texts(column) for column in (text_columns[0], target_columns[0]))
    return _checked(cells.files, cells.file_of_row, cells.lines, sources, targets, (text_columns[0], target_columns[0]))


def _from_lines(paths: Sequence[str]) -> TextPairs:
    if len(paths) not in (2, 4, 6):
        raise SettingError(
            f"{plural(len(paths), 'file of lines was', 'files of lines were')} given; expected "
            "two (texts, translations), four with those of the test "
            "behind, or six with those of the validation between."
        )
    files: list[str] = []
    file_of_row: list[int] = []
    lines: list[int] = []
    sources: list[str] = []
    targets: list[str] = []
    for number, (source, target) in enumerate(zip(paths[::2], paths[1::2], strict=True)):
        read = [read_text(path).splitlines() for path in (source, target)]
        if len(read[0]) != len(read[1]):
            raise DataError(
                f"{source} has {plural(len(read[0]), 'line')}, {target} {len(read[1]):,}: aligned "
                "files have as many lines."
            )
        files.append(f"{source}+{target}")
        file_of_row += [number] * len(read[0])
        lines += range(1, len(read[0]) + 1)
        sources += read[0]
        targets += read[1]
    return _checked(tuple(files), np.array(file_of_row), np.array(lines), sources, targets, ("source", "target"))


def _checked(
    files: tuple[str, ...],
    file_of_row: np.ndarray,
    lines: np.ndarray,
    sources: list[str],
    targets: list[str],
    names: tuple[str, str],
) -> TextPairs:
    """The pairs, those with an empty text marked."""
    status, rejected = [OK] * len(sources), []
    for row, pair in enumerate(zip(sources, targets, strict=True)):
        for name, text in zip(names, pair, strict=True):
            if status[row] == OK and not text.strip():
                status[row] = f"{name}: the text is empty"
                rejected.append(Rejection(files[file_of_row[row]], int(lines[row]), name, text, "the text is empty"))
    if len(rejected) == len(sources):
        raise DataError(f"{', '.join(files)}: none of the {len(sources)} pairs can be used; a text is empty in each.")
    return TextPairs(files, file_of_row, lines, sources, targets, status, rejected)
