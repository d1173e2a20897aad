"""How tables are written, and how large they may be; free of numpy and pandas, so that it can stand in settings."""

import codecs
import csv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Literal

from edgewise.errors import DataError, SettingError, plural
from edgewise.learn.settings import check, setting, spelled

TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".xlsx", ".parquet")
"""Endings of the files that are read as tables."""
WRITTEN_TABLES = tuple(ending for ending in TABLES if ending != ".xlsx")
"""Endings of the tables that are written."""
_FREE = 2**28
"""Bytes that any file may unpack to."""


@dataclass(frozen=True)
class TableFormat:
    """How the tables of a command are written; each field is a flag.

    Raises:
        SettingError: A field has a value it cannot have.
    """

    delimiter: str | None = setting(None, metavar="SIGN", aliases=("sep",))
    """What separates the cells of a text table, one character; a comma in .csv and a tab in .tsv by default. `tab` and
    `\\t` are the tab."""
    quoting: str = setting("minimal", choices=("minimal", "none"))
    """What a double quote means in a text table: `minimal`, it may enclose a cell, which then may hold delimiters and
    line breaks; `none`, it is a character like any other."""
    decimal: str = setting(".", metavar="SIGN")
    """What separates the fraction of a number, `.` or `,`."""
    encoding: str = setting("utf-8")
    """The encoding of text files, by a name that Python knows: `cp1252`, `utf-16`."""
    sheet: str | None = setting(None)
    """The sheet of an Excel workbook; the first one that is not hidden by default."""

    def __post_init__(self) -> None:
        check(self)
        if self.delimiter in ("tab", r"\t"):
            object.__setattr__(self, "delimiter", "\t")
        sign = self.delimiter
        if sign is not None and (len(sign) != 1 or not sign.isascii() or sign.isalnum() or sign in '"\r\n\0'):
            raise SettingError(
                f"--delimiter is {sign!r}; expected one ASCII character other than a letter, digit, quote or line "
                "break, "
                "such as ';' or 'tab'."
            )
        if self.decimal not in (".", ","):
            raise SettingError(f"--decimal is {self.decimal!r}; expected '.' or ','.")
        if self.decimal == sign:
            raise SettingError(f"--decimal and --delimiter are both {sign!r}; expected two different characters.")

        try:
            "".encode(self.encoding)
            codecs.lookup(self.encoding)
        except (LookupError, ValueError) as error:
            raise SettingError(
                f"--encoding is {self.encoding!r}, which Python does not know; expected a name such as utf-8, cp1252, "
                "latin-1 or utf-16."
            ) from error

    @property
    def has_quotes(self) -> bool:
        """Whether double quotes may enclose cells."""
        return self.quoting != "none"

    @property
    def csv_quoting(self) -> Literal[0, 3]:
        """The same for Python's `csv`."""
        return csv.QUOTE_MINIMAL if self.has_quotes else csv.QUOTE_NONE

    @property
    def is_utf8(self) -> bool:
        """Whether text files are in UTF-8, with or without a byte order mark."""
        return codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig", "ascii")


@dataclass(frozen=True)
class ReadLimits:
    """Limits of a table; each is a flag of the commands that read tables."""

    max_columns: int = setting(30_000, at_least=1)
    """Columns of a table, at most."""
    max_row_bytes: int = setting(2**24, at_least=1)
    """Bytes of one row, at most, line breaks within quotes counted: a quote that is never closed makes a row of all the
    rest."""
    max_unpack_ratio: int = setting(100, at_least=1)
    """How many times larger than a packed file (.gz, .parquet, .npz) its content may be, where it unpacks to more than
    256 MiB."""
    max_unpacked_gb: int | None = setting(None, at_least=1)
    """Gigabytes (10⁹ bytes) that an .npz file may unpack to; None is half of the free memory."""

    def __post_init__(self) -> None:
        check(self)

    def check_unpacked(self, name: str, packed: int, unpacked: int) -> None:
        """Raise a DataError where a file of `packed` bytes unpacks to too many bytes."""
        if unpacked > _FREE and unpacked > self.max_unpack_ratio * packed:
            raise DataError(
                f"{name}: {packed:,} bytes unpack to {unpacked:,} or more, over {self.max_unpack_ratio} times as many; "
                f"if the file is what it should be, raise {spelled('max_unpack_ratio')}."
            )

    def check_columns(self, name: str, line: int, num_columns: int) -> None:
        """Raise a DataError where a table has too many columns."""
        if num_columns > self.max_columns:
            raise DataError(
                f"{name}, line {line}: {plural(num_columns, 'column')}, expected at most "
                f"{self.max_columns:,}; if the table is "
                f"meant to be so wide, raise {spelled('max_columns')}."
            )

    def row_error(self, name: str, line: int) -> DataError:
        """The error for a row that is too long."""
        return DataError(
            f"{name}, line {line}: the row that begins here has more than {self.max_row_bytes:,} bytes. Is a quote "
            '(") in it never closed? Where quotes belong to the text, add --quoting none. If the row is meant to be '
            f"so long, raise {spelled('max_row_bytes')}."
        )


@dataclass(frozen=True)
class Reading:
    """How files are read within a block."""

    form: TableFormat = TableFormat()
    """How tables are written."""
    limits: ReadLimits = ReadLimits()
    """How large they may be."""


DEFAULT_READING = Reading()
_READING = ContextVar("reading", default=DEFAULT_READING)


def current_format() -> TableFormat:
    """The format of `table_format`, or the default."""
    return _READING.get().form


def current_limits() -> ReadLimits:
    """The limits of `read_limits`, or the defaults."""
    return _READING.get().limits


@contextmanager
def table_format(form: TableFormat) -> Iterator[None]:
    """Every reader of tables and texts inside expects this format.

    >>> with table_format(TableFormat(delimiter=";", decimal=",")):
    ...     current_format().delimiter
    ';'
    """
    token = _READING.set(replace(_READING.get(), form=form))
    try:
        yield
    finally:
        _READING.reset(token)


@contextmanager
def read_limits(**limits: Any) -> Iterator[None]:
    """Read tables within other limits, the fields of `ReadLimits`.

    >>> with read_limits(max_columns=1_000_000):
    ...     current_limits().max_columns
    1000000
    """
    token = _READING.set(replace(_READING.get(), limits=ReadLimits(**limits)))
    try:
        yield
    finally:
        _READING.reset(token)


def array_names(path: str) -> frozenset[str]:
    """The names of the arrays in an .npz file, from its list of contents; none where it cannot be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            return frozenset(name.removesuffix(".npy") for name in archive.namelist())
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return frozenset()
