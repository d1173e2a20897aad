"""Arrays in an .npz file: declared sizes are checked before memory is allocated, and nothing is unpickled."""

import math
import warnings
import zipfile
import zlib
from typing import cast

import numpy as np

from edgewise.errors import DataError
from edgewise.learn.memory import available_memory
from edgewise.learn.tables.decode import check_file
from edgewise.learn.tables.options import current_limits

SHARE_OF_MEMORY = 0.5
"""The share of free memory that one file may fill, unless another limit is set."""


def read_arrays(path: str) -> dict[str, np.ndarray]:
    """The arrays of an .npz file by their names.

    Raises:
        DataError: it is missing, damaged, holds more than plain arrays, or more than fits into memory.
    """
    file = check_file(str(path), "a file that ends in .npz")
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            if len({entry.filename for entry in entries}) < len(entries):
                raise DataError(f"{path}: not a valid .npz file: a name occurs twice.")
            _check_size(str(path), file.stat().st_size, sum(entry.file_size for entry in entries))
            return {entry.filename.removesuffix(".npy"): _array(path, archive, entry) for entry in entries}
    except DataError:
        raise
    except (
        zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, LookupError, RuntimeError, OverflowError,
        NotImplementedError, SyntaxError, TypeError, AttributeError, RecursionError,
    ) as error:  # fmt: skip
        raise DataError(f"{path}: not a valid .npz file of plain arrays: {error}") from error


def require_kind(path: str, name: str, array: np.ndarray, kinds: str) -> None:
    """Raise a DataError unless the dtype kind of an array is among `kinds` (numpy's one-letter codes)."""
    if array.dtype.kind not in kinds:
        names = {"b": "true and false", "i": "whole numbers", "f": "numbers", "U": "strings"}
        expected = " or ".join(names[letter] for letter in kinds if letter in names)
        raise DataError(f"{path}: {name} is {array.dtype} {array.shape}, expected {expected}.")


def _array(path: str, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    """One array, of no more bytes than the list of contents declares."""
    with archive.open(entry) as opened:
        stream = cast(zipfile.ZipExtFile, opened)
        shape, fortran_order, dtype, header_size = _read_header(stream)
        if dtype.hasobject:
            raise DataError(f"{path}: {entry.filename} holds Python objects, expected numbers or strings.")

        # Python's whole numbers: those of numpy would overflow.
        size = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or not dtype.itemsize or header_size + size != entry.file_size:
            raise DataError(
                f"{path}: {entry.filename} declares {dtype} {shape}, {size:,} bytes, but holds "
                f"{max(entry.file_size - header_size, 0):,}."
            )

        content = bytearray(size)
        view, offset = memoryview(content), 0
        while offset < size:
            count = stream.readinto(view[offset:])
            if not count:
                raise DataError(f"{path}: {entry.filename} ends after {offset:,} of {size:,} bytes.")
            offset += count

        stream.read(1)  # the end, where the checksum is compared

    return np.frombuffer(content, dtype).reshape(shape, order="F" if fortran_order else "C")


def _read_header(stream: zipfile.ZipExtFile) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """The shape, whether the order is Fortran's, the dtype, and the size of the header in bytes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Damaged headers can make Python warn.
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran_order, dtype = read(stream)
    return shape, fortran_order, dtype, stream.tell()


def _check_size(path: str, packed: int, unpacked: int) -> None:
    """Raise a DataError where a file would fill the memory, or unpacks to suspiciously much."""
    limits = current_limits()
    limits.check_unpacked(path, packed, unpacked)
    limit, free = limits.max_unpacked_gb, available_memory()
    max_bytes = limit * 1e9 if limit is not None else math.inf if free is None else SHARE_OF_MEMORY * free
    if unpacked > max_bytes:
        raise DataError(
            f"{path}: it unpacks to {unpacked / 1e9:,.1f} GB, expected at most {max_bytes / 1e9:,.1f}; if the file is "
            "what it should be, raise --max-unpacked-gb."
        )
