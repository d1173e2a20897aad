"""One pass over the bytes of a delimited file, before any of it is read: its header, where its rows begin, its faults.

The pass holds one row and a few megabytes at a time. It rejects bytes that are not text and rows beyond the limits, and
finds out whether every quote opens or closes a cell. Then a fast reader gives the same cells as Python's `csv`, which
is the judge of all other files.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgewise.learn.tables.decode import TextFile
from edgewise.learn.tables.options import ReadLimits, TableFormat

_WINDOW = 2**16
"""Bytes in which a line of a plain table ends."""
_NEWLINE, _RETURN, _QUOTE = b'\n\r"'


@dataclass
class FileLayout:
    """The result of the pass."""

    header: list[str] = field(default_factory=list)
    """The cells of the first row that is not blank; none before it was found."""
    header_line: int = 1
    """Its line."""
    start: int = 0
    """The number of bytes before the first row after the header."""
    is_regular: bool = True
    """Whether every quote opens or closes a cell or stands doubled in one, and no line ends in a bare \\r."""
    has_breaks: bool = False
    """Whether a cell holds a line break."""
    has_text: bool = False
    """Whether anything but blanks stands in the file."""
    form: TableFormat = field(default_factory=TableFormat)
    """Whether quotes enclose cells."""
    longest_row: int = 0
    """Bytes of it, at most."""
    lines: list[np.ndarray | range] = field(default_factory=list)
    """The line of each row after the header of a regular file; blank rows of several columns are left out."""

    @property
    def line_of_row(self) -> np.ndarray:
        """The same as one array."""
        line_numbers, first = np.empty(sum(map(len, self.lines)), dtype=np.int64), 0
        for block in self.lines:
            line_numbers[first : first + len(block)] = (
                np.arange(block.start, block.stop) if isinstance(block, range) else block
            )
            first += len(block)
        return line_numbers


class LineCursor:
    """The lines of rows that are read some at a time.

    Args:
        blocks: as in `FileLayout.lines`.
    """

    def __init__(self, blocks: Iterable[np.ndarray | range]):
        self.blocks, self.rest = iter(blocks), np.zeros(0, dtype=np.int64)

    def take(self, count: int) -> np.ndarray:
        """The lines of the next rows; fewer at the end."""
        parts, num_rows = [self.rest], len(self.rest)
        while num_rows < count and (block := next(self.blocks, None)) is not None:
            parts.append(np.asarray(block, dtype=np.int64))
            num_rows += len(block)
        line_numbers = np.concatenate(parts)
        self.rest = line_numbers[count:]
        return line_numbers[:count]


def scan(file: TextFile, delimiter: str, limits: ReadLimits) -> FileLayout:
    """Pass over a file.

    Raises:
        DataError: it is not text in UTF-8, holds a zero byte, or a row or the header is larger than the limits.
    """
    layout, remainder, line, waiting = FileLayout(form=file.form), b"", 1, list[bytes]()
    special = [b'"', b"\r"] if file.form.has_quotes else [b"\r"]
    layout.start = file.mark
    for chunk in file.chunks():
        layout.has_text |= not chunk.isspace()
        if (
            layout.header
            and layout.is_regular
            and not waiting
            and (num_lines := _num_plain_lines(remainder, chunk, special))
        ):
            layout.longest_row = max(layout.longest_row, 2 * _WINDOW)
            layout.lines.append(range(line, line + num_lines))
            remainder, line = chunk[chunk.rfind(b"\n") + 1 :], line + num_lines
            continue

        waiting.append(chunk)
        # A long row is looked at anew only when it has doubled.
        if (size := sum(map(len, waiting))) < len(remainder) and len(remainder) + size <= limits.max_row_bytes:
            continue
        piece, waiting = b"".join([remainder, *waiting]), []
        used, num_lines = _scan_chunk(file.name, piece, False, line, layout, delimiter, limits)
        remainder, line = piece[used:], line + num_lines
        if len(remainder) > limits.max_row_bytes:
            raise limits.row_error(file.name, line)

    if remainder := b"".join([remainder, *waiting]):
        _scan_chunk(file.name, remainder, True, line, layout, delimiter, limits)
    return layout


def _scan_chunk(
    name: str, piece: bytes, is_last: bool, line: int, layout: FileLayout, delimiter: str, limits: ReadLimits
) -> tuple[int, int]:
    """Look at the rows that are whole in a piece that begins with a row; how many bytes and lines they have."""
    if not layout.is_regular:
        return _skip_lines(name, piece, line, limits)
    signs = np.frombuffer(piece, dtype=np.uint8)
    ends = _line_ends(piece, signs, is_last, layout)
    row_ends = _row_ends(piece, signs, ends, is_last, layout, delimiter) if layout.is_regular else ends
    if is_last and (not len(row_ends) or row_ends[-1] != len(piece)):
        row_ends = np.append(row_ends, len(piece))

    if not len(row_ends):
        return 0, 0
    starts = np.concatenate([[0], row_ends[:-1]])
    lengths = row_ends - starts

    # As many lines end before a row as begin before it; without breaks in cells, each row is a line.
    is_plain = len(row_ends) <= len(ends) + 1 and np.array_equal(row_ends[: len(ends)], ends)
    lines = line + (np.arange(len(starts)) if is_plain else np.searchsorted(ends, starts, side="right"))
    layout.longest_row = max(layout.longest_row, int(lengths.max()))
    if layout.longest_row > limits.max_row_bytes:
        raise limits.row_error(name, int(lines[(lengths > limits.max_row_bytes).argmax()]))
    is_blank = (lengths < 3) & _are_ends(signs, starts, row_ends)
    first = 0

    if not layout.header and layout.is_regular:
        if is_blank.all():
            layout.start += int(row_ends[-1])
            return int(row_ends[-1]), len(ends)
        index = int(is_blank.argmin())
        _read_header(name, piece[starts[index] : row_ends[index]], int(lines[index]), layout, delimiter, limits)
        layout.start += int(row_ends[index])
        first = index + 1

    keep = slice(first, None)
    layout.lines.append(_as_range(lines[keep] if len(layout.header) == 1 else lines[keep][~is_blank[keep]]))
    return int(row_ends[-1]), int(np.searchsorted(ends, row_ends[-1], side="right"))


def _as_range(lines: np.ndarray) -> np.ndarray | range:
    """Lines that follow on each other take no memory."""
    is_run = len(lines) > 0 and lines[-1] - lines[0] == len(lines) - 1
    return range(int(lines[0]), int(lines[-1]) + 1) if is_run else lines


def _skip_lines(name: str, piece: bytes, line: int, limits: ReadLimits) -> tuple[int, int]:
    """Look at nothing but how long lines are: Python's `csv` will read the file, and finds out the rest."""
    used = max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1
    first = min((position for position in (piece.find(b"\n"), piece.find(b"\r")) if position >= 0), default=0)
    if first > limits.max_row_bytes:
        raise limits.row_error(name, line)
    return used, piece.count(b"\n", 0, used)


def _num_plain_lines(remainder: bytes, chunk: bytes, special: Sequence[bytes]) -> int:
    """The number of rows in a chunk of plain lines, without quotes, blank or long ones; 0 for other chunks.

    Args:
        remainder: the beginning of the first row.
        chunk: what follows it.
        special: what may make a row of more or less than a line.
    """
    if any(sign in part for part in (remainder, chunk) for sign in special):
        return 0
    if len(remainder) > _WINDOW or (not remainder and chunk.startswith(b"\n")):
        return 0
    windows = range(0, len(chunk) - _WINDOW, _WINDOW)
    if not all(chunk.find(b"\n", at, at + _WINDOW) >= 0 for at in windows):
        return 0

    is_end = np.frombuffer(chunk, dtype=np.uint8) == _NEWLINE
    return 0 if (is_end[1:] & is_end[:-1]).any() else int(np.count_nonzero(is_end))


def _line_ends(piece: bytes, signs: np.ndarray, is_last: bool, layout: FileLayout) -> np.ndarray:
    """One past each line break; a \\r at the end of a piece waits for what follows it."""
    ends = np.flatnonzero(signs == _NEWLINE) + 1
    if b"\r" not in piece or piece.count(b"\r") == piece.count(b"\r\n"):
        return ends
    returns = np.flatnonzero(signs == _RETURN)
    if not is_last and returns[-1] == len(signs) - 1:
        returns = returns[:-1]
    following = signs[np.minimum(returns + 1, len(signs) - 1)]
    bare = returns[(following != _NEWLINE)] + 1
    if len(bare):
        layout.is_regular = False
    return np.sort(np.concatenate([ends, bare]))


def _row_ends(
    piece: bytes, signs: np.ndarray, ends: np.ndarray, is_last: bool, layout: FileLayout, delimiter: str
) -> np.ndarray:
    """The line breaks outside quotes; all of them where quotes are elsewhere than around cells."""
    if not layout.form.has_quotes or b'"' not in piece:
        return ends
    quotes = np.flatnonzero(signs == _QUOTE)
    is_edge = np.zeros(256, dtype=bool)
    is_edge[[ord(delimiter), _NEWLINE, _RETURN, _QUOTE]] = True
    opening, closing = quotes[::2], quotes[1::2]
    opens = is_edge[signs[np.maximum(opening - 1, 0)]] | (opening == 0)
    closes = is_edge[signs[np.minimum(closing + 1, len(signs) - 1)]] | (closing == len(signs) - 1)
    if not opens.all() or not closes.all() or (is_last and len(quotes) % 2):
        layout.is_regular = False
        return ends

    is_inside = np.searchsorted(quotes, ends) % 2 == 1
    layout.has_breaks |= bool(is_inside.any())
    return ends[~is_inside]


def _are_ends(signs: np.ndarray, starts: np.ndarray, row_ends: np.ndarray) -> np.ndarray:
    """Which rows hold nothing but a line break, or nothing: they begin with one, or are empty."""
    if not len(signs):
        return np.ones(len(starts), dtype=bool)
    first = signs[np.minimum(starts, len(signs) - 1)]
    return (first == _NEWLINE) | (first == _RETURN) | (starts == row_ends)


def _read_header(name: str, row: bytes, line: int, layout: FileLayout, delimiter: str, limits: ReadLimits) -> None:
    try:
        text, quoting = io.StringIO(row.decode(), newline=""), layout.form.csv_quoting
        layout.header = next(csv.reader(text, delimiter=delimiter, quoting=quoting, strict=True))
    except csv.Error:
        layout.is_regular = False
    layout.header_line = line
    limits.check_columns(name, line, len(layout.header))
