"""The bytes of a file as text: UTF-8, also gzip-compressed, or an error that names the line and the byte."""

import gzip
import zlib
from pathlib import Path

from edgewise.errors import DataError

_GZIP_NAMES = {"CSV": ".csv.gz or .tsv.gz", "text": ".txt.gz", "CoNLL": ".conll.gz", "JSON": ".jsonl.gz"}
# What a file begins with when it is something else under the name of a text.
_MAGIC = {
    b"PK\x03\x04": "an Excel workbook or a zip archive; save the sheet as {kind}",
    b"\x1f\x8b": "gzip-compressed; let its name end in {gzip}",
    b"PAR1": "a Parquet file; let its name end in .parquet",
    b"\xff\xfe": "text in UTF-16; save it as UTF-8",
    b"\xfe\xff": "text in UTF-16; save it as UTF-8",
}


def check_file(name: str, expected: str) -> Path:
    """The path; raises DataError where there is no file.

    Args:
        name: the path as it was given.
        expected: what the file should be, for the message.
    """
    file = Path(name)
    if file.is_dir():
        raise DataError(f"{name}: is a folder, expected {expected}.")
    if not file.exists():
        raise DataError(f"{name}: no such file.")
    return file


def uncompressed(name: str, file: Path) -> bytes:
    """What a gzip file holds."""
    try:
        return gzip.decompress(file.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{name}: its name says gzip, but it cannot be unpacked ({error}).") from error


def read_decoded(name: str, kind: str, expected: str) -> str:
    """The text of a file, unpacked where its name ends in .gz.

    Args:
        name: the path as it was given.
        kind: what the file should be, as in `decoded`.
        expected: the same in the words of a message, such as "a text file".

    Raises:
        DataError: it is missing, something else, or not UTF-8.
    """
    file = check_file(name, expected)
    content = uncompressed(name, file) if file.name.lower().endswith(".gz") else file.read_bytes()
    return decoded(name, content, kind)


def decoded(name: str, content: bytes, kind: str) -> str:
    """The text that stands in a file, with or without a mark at its beginning.

    Args:
        name: the path as it was given.
        content: the bytes of the file.
        kind: what the file should be, "CSV", "text", "CoNLL" or "JSON", for the messages.

    Raises:
        DataError: it is something else, or not UTF-8; the message names the line and the byte.
    """
    for magic, found in _MAGIC.items():
        if content.startswith(magic):
            raise DataError(f"{name}: not a {kind} file but {found.format(kind=kind, gzip=_GZIP_NAMES[kind])}.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The offset counts from behind the mark that utf-8-sig takes away.
        offset = error.start + (3 if content.startswith(b"\xef\xbb\xbf") else 0)
        line = content.count(b"\n", 0, offset) + 1
        raise DataError(
            f"{name}, line {line}: byte {content[offset]:#04x} at offset {offset} is not UTF-8; save the file as UTF-8."
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(f"{name}, line {line}: not a {kind} file, it holds a zero byte.")
    return text
