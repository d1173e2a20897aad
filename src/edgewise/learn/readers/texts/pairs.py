"""Texts in files: pairs of texts and their translations, or texts alone; lines of text files or cells of tables."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Int64

from edgewise.errors import DataError, SettingError, plural, refuse_single_text, refuse_table
from edgewise.learn.readers.texts.tokenizer import read_text
from edgewise.learn.tables.cell import OK, Rejection
from edgewise.learn.tables.decode import lines_of
from edgewise.learn.tables.options import TABLES
from edgewise.learn.tables.read import read_tables

SPLITS = ("train", "val", "test")


Texts: TypeAlias = Collection[str]
"""Several texts: a list, an array, a column of a table."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FileRows:
    """Rows in the order of their files; one that cannot be used keeps its place."""

    files: tuple[str, ...]
    """The paths; of aligned files two joined by `+`."""
    file_of_row: Int64[np.ndarray, " row"]
    """The file of each row, counted from 0."""
    lines: Int64[np.ndarray, " row"]
    """The line on which each begins."""
    status: list[str]
    """`ok`, or why the row cannot be used and is in no split."""
    rejected: list[Rejection]
    """The unusable rows, in file order."""

    def split(self, sizes: Sequence[float], seed: int) -> dict[str, Int64[np.ndarray, " _"]]:
        """The rows of each split: files in the order train, (val), test; or one file divided at random.

        Args:
            sizes: fractions of training, validation and test rows of one file.
            seed: of the draw.
        """
        rows = np.flatnonzero([row_status == OK for row_status in self.status])
        if len(self.files) == 1:
            order, shares = np.random.default_rng(seed).permutation(rows), np.cumsum(sizes)
            cuts = np.rint(shares[:2] * len(rows)).astype(int)
            return dict(zip(SPLITS, (np.sort(part) for part in np.split(order, cuts)), strict=True))
        by_file = [rows[self.file_of_row[rows] == number] for number in range(len(self.files))]
        val = by_file[1] if len(by_file) == 3 else np.zeros(0, dtype=np.int64)
        return {"train": by_file[0], "val": val, "test": by_file[-1]}


@dataclass(frozen=True, eq=False, kw_only=True)
class TextPairs(FileRows):
    """Texts, each with its translation."""

    sources: list[str]
    """The texts to translate."""
    targets: list[str]
    """The translations."""


def read_pairs(paths: Sequence[str], text_columns: Sequence[str], target_columns: Sequence[str]) -> TextPairs:
    """Read one, two (train, test) or three (train, val, test) tables; or two, four or six aligned files.

    Raises:
        DataError: a file cannot be used, or two aligned files have not as many lines.
        SettingError: the number of files or columns is another.
    """
    return _from_tables(paths, text_columns, target_columns) if is_table(paths[0]) else _from_lines(paths)


def pairs_of(parts: Mapping[str, tuple[Texts, Texts]]) -> TextPairs:
    """Texts that are in memory, by the names of their splits.

    Raises:
        DataError: a split has another number of translations than texts, or something in it is not text.
    """
    for name, (sources, targets) in parts.items():
        check_pairs(name, sources, targets)
    return _aligned(parts, 0)


def check_pairs(name: str, sources: Texts, targets: Texts) -> None:
    """Raise DataError unless the numbers of texts and translations are equal."""
    for argument, texts in (("X", sources), ("y", targets)):
        check_texts(name, texts, argument)
    if len(sources) != len(targets):
        raise DataError(f"{name}: {plural(len(sources), 'text')}, but {plural(len(targets), 'translation')}.")


def check_texts(name: str, texts: Texts, argument: str = "X") -> None:
    """Raise DataError unless it is several texts, not one."""
    refuse_single_text(f"{name}: {argument}", texts)
    refuse_table(f"{name}: {argument}", texts)
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
    cells = read_tables(paths, (text_columns[0], target_columns[0]))
    sources, targets = (cells.texts(column) for column in (text_columns[0], target_columns[0]))
    return _checked(cells.files, cells.file_of_row, cells.lines, sources, targets, (text_columns[0], target_columns[0]))


def _from_lines(paths: Sequence[str]) -> TextPairs:
    if len(paths) not in (2, 4, 6):
        raise SettingError(
            f"{plural(len(paths), 'file of lines was', 'files of lines were')} given; expected "
            "two (texts, translations), four with those of the test last, or six with those of the validation between."
        )

    parts = {}
    for source, target in zip(paths[::2], paths[1::2], strict=True):
        texts, translations = (lines_of(read_text(path)) for path in (source, target))
        if len(texts) != len(translations):
            raise DataError(
                f"{source} has {plural(len(texts), 'line')}, {target} {len(translations):,}: aligned "
                "files have as many lines."
            )
        parts[f"{source}+{target}"] = texts, translations

    return _aligned(parts, 1)


def _aligned(parts: Mapping[str, tuple[Texts, Texts]], first_line: int) -> TextPairs:
    """The pairs of several files, or of several splits in memory."""
    counts = [len(part_sources) for part_sources, _ in parts.values()]
    lines = np.concatenate([np.arange(count) + first_line for count in counts])
    sources = [text for part_sources, _ in parts.values() for text in part_sources]
    targets = [text for _, part_targets in parts.values() for text in part_targets]
    file_of_row = np.repeat(np.arange(len(parts)), counts)
    return _checked(tuple(parts), file_of_row, lines, sources, targets, ("source", "target"))


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
    return TextPairs(
        files=files, file_of_row=file_of_row, lines=lines, sources=sources, targets=targets, status=status,
        rejected=rejected,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Corpus:
    """Texts in the order of their files, and the row of each."""

    files: tuple[str, ...]
    """The paths as they were given."""
    texts: list[str]
    """The texts that are not empty; those of one row are adjacent."""
    row_of_text: Int64[np.ndarray, " text"]
    """The row of the table, or the line, counted from 0 over all files."""
    rejected: list[Rejection]
    """Cells that hold no text, in file order; blank lines of a text file are none of them."""

    def split(self, sizes: Sequence[float], seed: int) -> dict[str, Int64[np.ndarray, " part_row"]]:
        """The rows of each split, drawn at random; the texts of one row stay together.

        Args:
            sizes: shares of training and validation rows.
            seed: of the draw.
        """
        rows = np.unique(self.row_of_text)
        order = np.random.default_rng(seed).permutation(rows)
        cuts = np.rint(np.cumsum(sizes) * len(rows)).astype(int)
        train, val, _ = (np.sort(part) for part in np.split(order, cuts))
        return {"train": train, "val": val}

    def of_rows(self, rows: Int64[np.ndarray, " part_row"]) -> list[str]:
        """The texts of some rows."""
        return [self.texts[number] for number in np.flatnonzero(np.isin(self.row_of_text, rows))]


def read_corpus(paths: Sequence[str], columns: Sequence[str]) -> Corpus:
    """Read text files, each line a text, or tables, each cell of the columns a text.

    Args:
        paths: .txt, .txt.gz or other text; or .csv, .tsv, .csv.gz, .tsv.gz, .xlsx or .parquet.
        columns: of the tables; none for text files.

    Raises:
        DataError: a file cannot be used, a column is missing, or all texts are empty.
        SettingError: columns were given for text files, none for tables, one twice, or files are of both kinds.
    """
    tables = [path for path in paths if is_table(path)]
    if tables and len(tables) < len(paths):
        text_file = next(path for path in paths if path not in tables)
        raise SettingError(f"{tables[0]} is a table, {text_file} is not; give files of one kind.")
    if not tables:
        if columns:
            raise SettingError(f"{paths[0]} is a text file, whose lines are the texts; leave --text-columns out.")
        return _corpus_from_lines(paths)
    if not columns:
        raise SettingError(f"{paths[0]} is a table; name the columns that hold texts: --text-columns text.")
    if duplicates := [column for column in columns if list(columns).count(column) > 1]:
        raise SettingError(f"--text-columns names {duplicates[0]!r} twice.")

    return _corpus_from_tables(paths, tuple(columns))


def _corpus_from_lines(paths: Sequence[str]) -> Corpus:
    texts, rows, num_rows = [], [], 0
    for path in paths:
        # Rows are numbered as runs before have them: what follows the last line break counts, be it nothing.
        lines = lines_of(read_text(path) + "\n")
        full = [row for row, line in enumerate(lines) if line.strip()]
        texts += [lines[row] for row in full]
        rows += [num_rows + row for row in full]
        num_rows += len(lines)
    return Corpus(tuple(paths), texts, np.array(rows, dtype=np.int64), [])


def _corpus_from_tables(paths: Sequence[str], columns: tuple[str, ...]) -> Corpus:
    cells = read_tables(paths, columns)
    texts, rows, rejected = [], [], []
    for row, row_texts in enumerate(zip(*(cells.texts(column) for column in columns), strict=True)):
        for column, text in zip(columns, row_texts, strict=True):
            if text.strip():
                texts.append(text)
                rows.append(row)
            else:
                file, line = cells.files[cells.file_of_row[row]], int(cells.lines[row])
                rejected.append(Rejection(file, line, column, text, "the text is empty"))
    if not texts:
        shown = ", ".join(map(repr, columns))
        raise DataError(f"{cells.source}: every cell of {shown} is empty, expected texts to learn from.")
    return Corpus(cells.files, texts, np.array(rows, dtype=np.int64), rejected)
