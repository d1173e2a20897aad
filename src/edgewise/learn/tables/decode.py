"""The bytes of a file as UTF-8, also gzip-compressed, or an error that names the line and the byte."""

import codecs
import gzip
import zlib
from collections.abc import Iterator, Sequence
from io import SEEK_END, BufferedIOBase, BytesIO
from pathlib import Path
from typing import cast

from edgewise.errors import DataError
from edgewise.learn.tables.options import TableFormat, current_format, current_limits

_CHUNK = 2**17
"""Bytes that stay in the processor's cache while they are looked at several times."""
_GZIP_NAMES = {"CSV": ".csv.gz or .tsv.gz", "text": ".txt.gz", "CoNLL": ".conll.gz", "JSON": ".jsonl.gz"}
_PARQUET = b"PAR1"
"""What a Parquet file begins and ends with."""
# What a file begins with when it is something else under the name of a text.
_MAGIC = {
    b"PK\x03\x04": "an Excel workbook or a zip archive; let its name end in .xlsx, or save the sheet as {kind}",
    b"\x1f\x8b": "gzip-compressed; let its name end in {gzip}",
    _PARQUET: "a Parquet file; let its name end in .parquet",
    b"\xff\xfe": "text in UTF-16; save it as UTF-8, or add --encoding utf-16",
    b"\xfe\xff": "text in UTF-16; save it as UTF-8, or add --encoding utf-16",
}


def check_file(name: str, expected: str) -> Path:
    """The path; raises DataError unless it is a file.

    Args:
        name: the path as it was given.
        expected: what the file should be, for the message.
    """
    file = Path(name)
    if file.is_dir():
        is_store = (file / "store.json").is_file()
        what = "a store, which models of nodes alone read," if is_store else "a folder,"
        raise DataError(f"{name}: is {what} expected {expected}.")
    if not file.exists():
        raise DataError(f"{name}: no such file.")
    return file


def check_files_differ(names: Sequence[str]) -> None:
    """Raise a DataError where two paths of the data are the same file, however they are written.

    Rows of it would be counted twice, or train a model and judge it.
    """
    files = [name for name in map(str, names) if Path(name).exists()]
    for index, name in enumerate(files):
        for other in files[:index]:
            if Path(name).samefile(other):
                also = "" if name == other else f", as {other} and as {name}"
                raise DataError(
                    f"{name} is given twice as data{also}: the same rows would be read again, as other rows than "
                    "those before. Give each file once; one file is split into parts by itself."
                )


class TextFile:
    """A file of text, packed with gzip or not, that is read chunk by chunk and checked on the way."""

    def __init__(self, name: str, kind: str, expected: str, form: TableFormat | None = None):
        """Look at the beginning of the file.

        Args:
            name: the path as it was given; packed where it ends in .gz.
            kind: what the file should be, "CSV", "text", "CoNLL" or "JSON", for the messages.
            expected: the same in the words of a message, such as "a text file".
            form: its encoding; by default that of `table_format`.

        Raises:
            DataError: it is missing, cannot be unpacked, cannot be decoded, or is something else.
        """
        self.name, self.kind = name, kind
        self.form = current_format() if form is None else form
        self._decoded: bytes | None = None
        self.path = check_file(name, expected)
        self.is_packed = name.lower().endswith(".gz")
        with self.binary() as file:
            begin = self._read(file, 4)

        self.mark = len(codecs.BOM_UTF8) if begin.startswith(codecs.BOM_UTF8) else 0
        """Bytes of the byte order mark."""
        for magic, description in _MAGIC.items():
            # A first column may be called PAR1.
            is_other = begin.startswith(magic) and (magic != _PARQUET or self._ends_with(magic))
            if is_other and (self.form.is_utf8 or "--encoding" not in description):
                raise DataError(
                    f"{name}: not a {kind} file but {description.format(kind=kind, gzip=_GZIP_NAMES[kind])}."
                )

        if not self.form.is_utf8:
            self._decoded, self.mark = self._decode(), 0

    @property
    def is_plain(self) -> bool:
        """Whether the file holds UTF-8 as it is, neither packed nor in another encoding."""
        return not self.is_packed and self._decoded is None

    def binary(self) -> BufferedIOBase:
        """The bytes in UTF-8, unpacked, mark and all."""
        if self._decoded is not None:
            return BytesIO(self._decoded)
        return cast(BufferedIOBase, gzip.open(self.path) if self.is_packed else open(self.path, "rb"))

    def chunks(self, size: int = _CHUNK) -> Iterator[bytes]:
        """The bytes after the byte order mark in chunks, each checked before it is returned.

        Raises:
            DataError: it is not UTF-8, holds a zero byte, cannot be unpacked, or unpacks to too much; the message
                names the line and the byte.
        """
        limits, decoder = current_limits(), codecs.getincrementaldecoder("utf-8")()
        packed, offset = self.path.stat().st_size, self.mark
        with self.binary() as file:
            self._read(file, self.mark)
            while chunk := self._read(file, size):
                if self.is_packed and self._decoded is None:
                    limits.check_unpacked(self.name, packed, offset + len(chunk))
                # Most texts are ASCII all through, and that is fast to see.
                if decoder.getstate()[0] or not chunk.isascii():
                    self._check_utf8(decoder, chunk, offset)
                if (position := chunk.find(b"\0")) >= 0:
                    line = self._line_at(offset + position)
                    raise DataError(f"{self.name}, line {line}: not a {self.kind} file, it holds a zero byte.")
                yield chunk
                offset += len(chunk)
            self._check_utf8(decoder, b"", offset)

    def _ends_with(self, ending: bytes) -> bool:
        """Whether the bytes of the file end so; those of a packed one are not unpacked."""
        with open(self.path, "rb") as file:
            file.seek(-min(len(ending), self.path.stat().st_size), SEEK_END)
            return file.read() == ending

    def _line_at(self, offset: int) -> int:
        """The line of a byte; lines are counted only for errors."""
        line = 1
        with self.binary() as file:
            while offset and (chunk := self._read(file, min(offset, _CHUNK))):
                line, offset = line + chunk.count(b"\n"), offset - len(chunk)
        return line

    def _check_utf8(self, decoder: codecs.IncrementalDecoder, chunk: bytes, offset: int) -> None:
        """Raise a DataError where the chunk at an offset, or what waits before it for its end, is not UTF-8."""
        waiting = decoder.getstate()[0]
        try:
            decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            content, position = waiting + chunk, offset - len(waiting) + error.start
            raise DataError(
                f"{self.name}, line {self._line_at(position)}: byte {content[error.start]:#04x} at offset {position} "
                "is not "
                "UTF-8; save the file as UTF-8, or name its encoding, such as --encoding cp1252."
            ) from error

    def _decode(self) -> bytes:
        """The content of a file in another encoding as UTF-8, without a mark, held in memory."""
        limits, packed, chunks, size = current_limits(), self.path.stat().st_size, list[bytes](), 0
        with self.binary() as file:
            while chunk := self._read(file, 2**20):
                chunks.append(chunk)
                size += len(chunk)
                if self.is_packed:
                    limits.check_unpacked(self.name, packed, size)

        content = b"".join(chunks)
        try:
            return content.decode(self.form.encoding).removeprefix("\ufeff").encode()
        except UnicodeError as error:
            start = error.start if isinstance(error, UnicodeDecodeError) else 0
            line = content[:start].decode(self.form.encoding, "replace").count("\n") + 1
            raise DataError(
                f"{self.name}, line {line}: byte {content[start]:#04x} at offset {start} is not {self.form.encoding}; "
                "name another --encoding, or save the file as UTF-8 and leave --encoding out."
            ) from error

    def _read(self, file: BufferedIOBase, size: int) -> bytes:
        try:
            return file.read(size)
        except (OSError, EOFError, zlib.error) as error:
            if not self.is_packed:
                raise
            raise DataError(f"{self.name}: it is named .gz, but cannot be unpacked ({error}).") from error


def lines_of(text: str) -> list[str]:
    """The lines of a text; a last one that is empty is none.

    A line ends in \\n, \\r\\n or \\r, as in a table, and in nothing else: `str.splitlines` also ends it in marks
    that stand within texts, such as U+2028 and U+0085, and lines of aligned files would no longer be aligned.

    >>> lines_of("one\\r\\ntwo\\u2028three\\n")
    ['one', 'two\\u2028three']
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def read_decoded(name: str, kind: str, expected: str, form: TableFormat | None = None) -> str:
    """The text of a file, unpacked where its name ends in .gz, without its byte order mark.

    Args:
        name, kind, expected, form: as in `TextFile`.

    Raises:
        DataError: it is missing, something else, not UTF-8, or holds a zero byte.
    """
    return b"".join(TextFile(name, kind, expected, form).chunks()).decode()
