"""A Parquet file as columns of strings, whole or some rows at a time."""

import io
from collections.abc import Iterator

import numpy as np

from edgewise.errors import DataError, MissingExtraError, plural
from edgewise.learn.tables.cell import as_texts
from edgewise.learn.tables.delimited import Part, check_header, joined_parts
from edgewise.learn.tables.options import current_limits

try:
    import pandas as pd
except ImportError as error:
    raise MissingExtraError("pandas", "molecules") from error
try:
    import pyarrow as pa
    from pyarrow import parquet
except ImportError as error:
    raise MissingExtraError("pyarrow", "molecules") from error

UNREADABLE = (pa.ArrowException, OSError, ValueError, OverflowError)
"""Errors of damaged files; names and texts in them are not always UTF-8."""
_ROWS_AT_ONCE = 2**13
_BUFFER = 2**20
"""Bytes of a column that are read at once where a file is read part by part."""


class ParquetTable:
    """A Parquet file whose description was read.

    Args:
        name: the path as it was given.

    Raises:
        DataError: it is not a Parquet file, or larger than the limits.
    """

    def __init__(self, name: str):
        self.name, limits = name, current_limits()
        try:
            with open(name, "rb") as file:
                content = parquet.ParquetFile(file)
                self.header, self.num_rows = content.schema_arrow.names, content.metadata.num_rows
                size = file.seek(0, io.SEEK_END)
        except UNREADABLE as error:
            raise self._unreadable(error) from error
        limits.check_columns(name, 1, len(self.header))
        # Each cell is an offset of eight bytes, and a text.
        limits.check_unpacked(name, size, 8 * self.num_rows * len(self.header))
        check_header(name, self.header, 1)

    def whole(self) -> Part:
        """All rows at once, as texts."""
        empty = pa.table({name: pa.array([], pa.large_string()) for name in self.header}), np.zeros(0, dtype=np.int64)
        return joined_parts([empty, *self._texts(self.typed_batches())])

    def parts(self) -> Iterator[Part]:
        """The same rows some at a time."""
        return self._texts(self.typed_batches(batch_size=_ROWS_AT_ONCE, buffer_size=_BUFFER))

    def _texts(self, parts: Iterator[tuple["pa.RecordBatch", np.ndarray]]) -> Iterator[Part]:
        return ((pa.table([as_texts(column) for column in batch], self.header), lines) for batch, lines in parts)

    def typed_batches(
        self, columns: list[str] | None = None, *, batch_size: int = 2**16, buffer_size: int = 0
    ) -> Iterator[tuple["pa.RecordBatch", np.ndarray]]:
        """The rows some at a time, columns with their types, and the line of each.

        Args:
            columns: those that are read; by default all.
            batch_size: rows of each part, at most.
            buffer_size: bytes of a column that are read at once; 0 reads it whole.

        Raises:
            DataError: the file is damaged.
        """
        num_rows = 0
        try:
            with open(self.name, "rb") as file:
                content = parquet.ParquetFile(file, buffer_size=buffer_size)
                for batch in content.iter_batches(batch_size=batch_size, columns=columns):
                    batch.validate(full=True)
                    yield batch, np.arange(num_rows + 2, num_rows + 2 + len(batch))
                    num_rows += len(batch)
        except UNREADABLE as error:
            raise self._unreadable(error, f" behind row {num_rows:,}" if num_rows else "") from error
        if num_rows != self.num_rows:
            raise DataError(
                f"{self.name}: the file is damaged, it declares {plural(self.num_rows, 'row')}, but holds {num_rows:,}."
            )

    def _unreadable(self, error: Exception, place: str = "") -> DataError:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        return DataError(f"{self.name}: it is named .parquet, but cannot be read{place} ({reason}).")


class TypedColumns:
    """The columns of a Parquet file with their types, for a table of its rows that is written as Parquet, too.

    Args:
        name: the path as it was given.
    """

    def __init__(self, name: str):
        self._batches = (batch for batch, _ in ParquetTable(name).typed_batches(batch_size=_ROWS_AT_ONCE))
        self._waiting: list[pa.RecordBatch] = []
        self._typed: frozenset[str] | None = None

    def restored(self, frame: pd.DataFrame) -> "pa.Table":
        """The next rows of the file as a table, columns of the file among its texts as they are there.

        Raises:
            DataError: the file has changed since it was read.
        """
        table, rows = pa.Table.from_pandas(frame, preserve_index=False), self._next(len(frame))
        same = [
            name
            for name in table.column_names
            if name in rows.column_names
            and pa.concat_arrays([as_texts(chunk) for chunk in rows[name].chunks] or [pa.array([], pa.large_string())])
            .to_pylist() == table[name].cast(pa.large_string()).to_pylist()
        ]  # fmt: skip
        if self._typed is None:
            self._typed = frozenset(same)

        if self._typed != frozenset(same):
            raise DataError("the table of rows to predict was changed while it was read; predict it again.")
        for index, name in enumerate(table.column_names):
            if name in self._typed:
                table = table.set_column(index, rows.schema.field(name), rows[name])

        return table

    def _next(self, count: int) -> "pa.Table":
        """The next rows, at most that many."""
        while sum(map(len, self._waiting)) < count and (batch := next(self._batches, None)) is not None:
            self._waiting.append(batch)
        rows = pa.Table.from_batches(self._waiting) if self._waiting else pa.table({})
        self._waiting = rows.slice(count).to_batches()
        return rows.slice(0, count)
