"""How large a table may be before it is refused: what a hostile or damaged file would fill the memory with."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields

from edgewise.errors import DataError, SettingError
from edgewise.plural import plural

_FREE = 2**28
"""Bytes that any file may unpack to."""


@dataclass(frozen=True)
class ReadLimits:
    """What a table may have at most; each is a flag of the commands that read tables."""

    max_columns: int = 30_000
    """Columns of a table."""
    max_row_bytes: int = 2**24
    """Bytes of one row, line breaks within quotes counted: a quote that is never closed makes a row of all the rest."""
    max_unpack_ratio: int = 100
    """How many times larger than the file its content may be, when it is packed (.gz, .parquet, .npz) and unpacks to
    more than 256 MiB."""
    max_unpacked_gb: int | None = None
    """To how many gigabytes (10⁹ bytes) an .npz file may unpack; None is half of the free memory."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and value < 1:
                raise SettingError(f"{flag(field.name)} is {getattr(self, field.name)}; expected at least 1.")

    def check_unpacked(self, name: str, packed: int, unpacked: int) -> None:
        """Raise a DataError where a file of `packed` bytes unpacks to too many."""
        if unpacked > _FREE and unpacked > self.max_unpack_ratio * packed:
            raise DataError(
                f"{name}: {packed:,} bytes unpack to {unpacked:,} or more, over {self.max_unpack_ratio} times as many; "
                f"if the file is what it should be, raise {flag('max_unpack_ratio')}."
            )

    def check_columns(self, name: str, line: int, num_columns: int) -> None:
        """Raise a DataError where a table has too many columns."""
        if num_columns > self.max_columns:
            raise DataError(
                f"{name}, line {line}: {plural(num_columns, 'column')}, expected at most "
                f"{self.max_columns:,}; if the table is "
                f"meant to be so wide, raise {flag('max_columns')}."
            )

    def row_error(self, name: str, line: int) -> DataError:
        """The error for a row that is too long."""
        return DataError(
            f"{name}, line {line}: the row that begins here has more than {self.max_row_bytes:,} bytes. Is a quote "
            f'(") in it never closed? If the row is meant to be so long, raise {flag("max_row_bytes")}.'
        )


def flag(name: str) -> str:
    """What a limit is called on the command line."""
    return f"--{name.replace('_', '-')}"


_LIMITS: ContextVar[ReadLimits] = ContextVar("read_limits")
_DEFAULTS = ReadLimits()


def current_limits() -> ReadLimits:
    """The limits of `read_limits`, or the defaults."""
    return _LIMITS.get(_DEFAULTS)


@contextmanager
def read_limits(**limits: int) -> Iterator[None]:
    """Read tables within other limits, the fields of `ReadLimits`.

    >>> with read_limits(max_columns=1_000_000):
    ...     current_limits().max_columns
    1000000
    """
    token = _LIMITS.set(ReadLimits(**limits))
    try:
        yield
    finally:
        _LIMITS.reset(token)
