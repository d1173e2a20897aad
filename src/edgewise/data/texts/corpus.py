"""Texts without targets: the lines of text files, or the cells of some columns of tables."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from edgewise.data.tables.cell import Rejection
from edgewise.data.tables.read import check_columns_exist, join_cells, read_cells
from edgewise.data.texts.pairs import is_table
from edgewise.data.texts.tokenizer import read_text
from edgewise.errors import DataError, SettingError


@dataclass(frozen=True, eq=False)
class Corpus:
    """Texts in the order of their files, and the row that each stands in."""

    files: tuple[str, ...]
    """The paths as they were given."""
    texts: list[str]
    """Those that are not empty; the cells of one row follow each other."""
    row_of_text: Int64[np.ndarray, " text"]
    """The row of the table, or the line, counted from 0 over all files."""
    rejected: list[Rejection]
    """Cells that hold no text, in file order; blank lines of a text file are none of them."""

    def split(self, sizes: Sequence[float], seed: int) -> dict[str, Int64[np.ndarray, " part_row"]]:
        """The rows of each part, drawn at random; the texts of one row stay together.

        Args:
            sizes: parts of training and validation rows.
            seed: of the draw.
        """
        rows = np.unique(self.row_of_text)
        order = np.random.default_rng(seed).permutation(rows)
        cuts = np.rint(np.cumsum(sizes) * len(rows)).astype(int)
        train, val, _ = (np.sort(part) for part in np.split(order, cuts))
        return {"train": train, "val": val}

    def of_rows(self, rows: Int64[np.ndarray, " part_row"]) -> list[str]:
        """The texts that stand in some rows."""
        return [self.texts[place] for place in np.flatnonzero(np.isin(self.row_of_text, rows))]


def read_corpus(paths: Sequence[str], columns: Sequence[str]) -> Corpus:
    """Read text files, each line a text, or tables, each cell of the columns a text.

    Args:
        paths: .txt, .txt.gz or other text; or .csv, .tsv, .csv.gz, .tsv.gz, .xlsx or .parquet.
        columns: of the tables; none for text files.

    Raises:
        DataError: a file cannot be used, a column is missing, or there is no text.
        SettingError: columns were given for text files, none for tables, one twice, or files are of both kinds.
    """
    tables = [path for path in paths if is_table(path)]
    if tables and len(tables) < len(paths):
        other = next(path for path in paths if path not in tables)
        raise SettingError(f"{tables[0]} is a table, {other} is not; give files of one kind.")
    if not tables:
        if columns:
            raise SettingError(f"{paths[0]} has no columns, its lines are the texts; leave --text-columns out.")
        return _from_lines(paths)
    if not columns:
        raise SettingError(f"{paths[0]} is a table; name the columns that hold texts: --text-columns text.")
    if twice := [column for column in columns if list(columns).count(column) > 1]:
        raise SettingError(f"--text-columns names {twice[0]!r} twice.")
    return _from_tables(paths, tuple(columns))


def _from_lines(paths: Sequence[str]) -> Corpus:
    texts, rows, before = [], [], 0
    for path in paths:
        lines = [line.removesuffix("\r") for line in read_text(path).split("\n")]
        full = [row for row, line in enumerate(lines) if line.strip()]
        texts += [lines[row] for row in full]
        rows += [before + row for row in full]
        before += len(lines)
    return Corpus(tuple(paths), texts, np.array(rows, dtype=np.int64), [])


def _from_tables(paths: Sequence[str], columns: tuple[str, ...]) -> Corpus:
    parts = [read_cells(path) for path in paths]
    for part in parts:
        check_columns_exist(part, columns)
    cells = join_cells(parts)
    texts, rows, rejected = [], [], []
    for row, found in enumerate(zip(*(cells.texts(column) for column in columns), strict=True)):
        for column, text in zip(columns, found, strict=True):
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
