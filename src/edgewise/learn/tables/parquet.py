"""A Parquet file as columns of strings, whole or some rows at a time."""

import io
import json
import re
from collections.abc import Iterator

import numpy as np

from edgewise.errors import DataError, MissingExtraError, plural
from edgewise.learn.tables.cell import as_texts
from edgewise.learn.tables.delimited import Part, check_header, joined_parts
from edgewise.learn.tables.options import current_limits

try:
    import pandas as pd
except ImportError as error:
    raise MissingExtraError("pandas", "train") from error
try:
    import pyarrow as pa
    from pyarrow import parquet
except ImportError as error:
    raise MissingExtraError("pyarrow", "train") from error

READ_ERRORS = (pa.ArrowException, OSError, ValueError, OverflowError)
"""What pyarrow raises for damaged files; ValueError is for texts that are not UTF-8."""
_ROWS_AT_ONCE = 2**13
"""Rows of a part, where a file is read part by part."""
_BUFFER_BYTES = 2**20
"""Bytes of a column that are read at once then."""
_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")
"""What pandas calls an index without a name in a file."""
_HEADER_LINE, _FIRST_ROW_LINE = 1, 2
"""Rows are counted as the lines of a CSV file with a header, so that messages agree."""


class ParquetTable:
    """A Parquet file, of which the schema and the number of rows have been read.

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
                self.header, self.num_rows = _header_of(content.schema_arrow), content.metadata.num_rows
                size = file.seek(0, io.SEEK_END)
        except READ_ERRORS as error:
            raise self._unreadable(error) from error
        limits.check_columns(name, _HEADER_LINE, len(self.header))
        # Each cell is an offset of eight bytes, and a text.
        limits.check_unpacked(name, size, 8 * self.num_rows * len(self.header))
        check_header(name, self.header, _HEADER_LINE)

    def whole(self) -> Part:
        """All rows at once, as texts."""
        empty = pa.table({name: pa.array([], pa.large_string()) for name in self.header}), np.zeros(0, dtype=np.int64)
        return joined_parts([empty, *self._texts(self.typed_batches())])

    def parts(self) -> Iterator[Part]:
        """The same rows some at a time."""
        return self._texts(self.typed_batches(batch_size=_ROWS_AT_ONCE, buffer_size=_BUFFER_BYTES))

    def _texts(self, parts: Iterator[tuple["pa.RecordBatch", np.ndarray]]) -> Iterator[Part]:
        return (
            (pa.table([as_texts(batch[name]) for name in self.header], self.header), lines) for batch, lines in parts
        )

    def typed_batches(
        self, columns: list[str] | None = None, *, batch_size: int = 2**16, buffer_size: int = 0
    ) -> Iterator[tuple["pa.RecordBatch", np.ndarray]]:
        """The rows some at a time, columns with their types, and the line of each.

        Args:
            columns: those that are read; by default all, with the unnamed index of pandas.
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
                    yield batch, _FIRST_ROW_LINE + np.arange(num_rows, num_rows + len(batch))
                    num_rows += len(batch)
        except READ_ERRORS as error:
            raise self._unreadable(error, f" after row {num_rows:,}" if num_rows else "") from error
        if num_rows != self.num_rows:
            raise DataError(
                f"{self.name}: the file is damaged, it declares {plural(self.num_rows, 'row')}, but holds {num_rows:,}."
            )

    def _unreadable(self, error: Exception, place: str = "") -> DataError:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        return DataError(f"{self.name}: it is named .parquet, but cannot be read{place} ({reason}).")


def _header_of(schema: "pa.Schema") -> list[str]:
    """The names of the columns, without the unnamed index of pandas, which only counts rows."""
    written_by_pandas = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    index_columns = written_by_pandas.get("index_columns") if isinstance(written_by_pandas, dict) else None
    unnamed = filter(_UNNAMED_INDEX.fullmatch, schema.names)
    indexes = {name for name in unnamed if isinstance(index_columns, list) and name in index_columns}
    return [name for name in schema.names if name not in indexes]


class TypeRestorer:
    """Gives columns of a Parquet file that were read as text their types again, for a table that is written as Parquet
    too.

    Args:
        name: the path as it was given.
    """

    def __init__(self, name: str):
        self._batches = (batch for batch, _ in ParquetTable(name).typed_batches(batch_size=_ROWS_AT_ONCE))
        self._waiting: list[pa.RecordBatch] = []
        self._typed: frozenset[str] | None = None

    def with_types(self, frame: pd.DataFrame) -> "pa.Table":
        """The rows of a table with the values and types of the file in each column that has the same texts there.

        Called for one part of the table after the other, in the order of the file; the first decides which columns
        are those of the file.

        Raises:
            DataError: the file has changed since it was read.
        """
        table, rows = pa.Table.from_pandas(frame, preserve_index=False), self._next(len(frame))
        shared = [name for name in table.column_names if name in rows.column_names]
        same = [name for name in shared if _texts_of(rows[name]) == table[name].cast(pa.large_string()).to_pylist()]
        if self._typed is None:
            self._typed = frozenset(same)

        if self._typed != frozenset(same):
            raise DataError("the table of rows to predict was changed while it was read; predict it again.")
        for index, name in enumerate(table.column_names):
            if name in self._typed:
                table = table.set_column(index, rows.schema.field(name), rows[name])
        for name in rows.column_names:
            if name not in shared and name not in _header_of(rows.schema):
                table = table.append_column(rows.schema.field(name), rows[name])

        # pandas reads the types that it finds there; those of the frame are text.
        return table.replace_schema_metadata(rows.schema.metadata)

    def _next(self, count: int) -> "pa.Table":
        """The next rows, at most that many."""
        while sum(map(len, self._waiting)) < count and (batch := next(self._batches, None)) is not None:
            self._waiting.append(batch)
        rows = pa.Table.from_batches(self._waiting) if self._waiting else pa.table({})
        self._waiting = rows.slice(count).to_batches()
        return rows.slice(0, count)


def _texts_of(column: "pa.ChunkedArray") -> list[str | None]:
    """The cells of a column as texts."""
    return [text for chunk in column.chunks for text in as_texts(chunk).to_pylist()]
