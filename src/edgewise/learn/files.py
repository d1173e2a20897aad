"""Atomic writes that do not follow links, scratch files, mapped arrays. Every file of the package is written here."""

import contextlib
import csv
import hashlib
import json
import mmap
import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from edgewise.errors import WriteError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Content: TypeAlias = Any  # what has a buffer: `collections.abc.Buffer` from Python 3.12 on
"""What is written: bytes, or those of an array."""
JsonObject: TypeAlias = dict[str, Any]
"""An object of a JSON file, or a table of a TOML file; whoever reads a value of it says what it must be."""
PART_PREFIX, PART_SUFFIX = ".edgewise-", ".part"
"""What the temporary files are called; a killed process can leave one."""
MAX_CELL = 2**31 - 1
"""Characters of a cell in a file that a run wrote, as many as a cell of its data."""
COPY_CHUNK = 2**10
"""Rows that are copied at a time: with each the system reads some kilobytes around it."""


class RepeatedKeyError(ValueError):
    """An object of JSON has a key twice."""


def parse_json(content: str | bytes | bytearray) -> Any:
    """What JSON holds; of a key that an object has twice Python would take the last value without a word.

    Raises:
        ValueError: It is not JSON, or a RepeatedKeyError that names the key.
        RecursionError: It is nested too deeply.
    """
    return json.loads(content, object_pairs_hook=_without_repeats)


def _without_repeats(pairs: list[tuple[str, object]]) -> JsonObject:
    content: JsonObject = {}
    for key, value in pairs:
        if key in content:
            raise RepeatedKeyError(f"the key {key[:60]!a} stands twice in one object")
        content[key] = value
    return content


def write_bytes(path: str | os.PathLike[str], content: bytes | memoryview, *, backup: Path | None = None) -> None:
    """Writes a file atomically, see `atomic_write`.

    Args:
        path: The file.
        content: What it will hold.
        backup: Where the old content is moved once the new one is on disk; None deletes it.

    Raises:
        WriteError: The file cannot be written; what was there before is unchanged, and nothing is left beside it.
    """
    with atomic_write(path, backup=backup) as file:
        file.write(content)


class PartFile:
    """A file that is written piece by piece; errors of the system become WriteError."""

    def __init__(self, path: Path, file: FileIO):
        self.path, self.file, self.size = path, file, 0

    closed = False

    def write(self, content: bytes | memoryview) -> int:
        """Adds some bytes; all of them, or it raises WriteError."""
        unwritten = memoryview(content).cast("B")
        size = len(unwritten)
        try:
            while unwritten:
                unwritten = unwritten[self.file.write(unwritten) or 0 :]
        except OSError as error:
            raise WriteError(self.path, error) from error
        self.size += size
        return size

    def tell(self) -> int:
        """How many bytes were written."""
        return self.size

    def flush(self) -> None:
        """Nothing waits to be written."""

    def close(self) -> None:
        """Nothing: whoever opened the file closes it."""


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str], *, backup: Path | None = None) -> Iterator[PartFile]:
    """A file that is written piece by piece and replaced in one step: readers see the old content or the new one whole.

    The content goes to a temporary file beside `path`, which takes its name when the block ends without an error. If
    `path` is a link, the link is replaced, not followed.

    Args:
        path: The file.
        backup: Where the old content is moved once the new one is on disk; None deletes it.

    Raises:
        WriteError: The file cannot be written. After this and any other error of the block, what was there before is
            unchanged, and nothing is left beside it.
    """
    path = Path(path)
    temporary = path.with_name(f"{PART_PREFIX}{secrets.token_hex(8)}{PART_SUFFIX}")
    with contextlib.ExitStack() as cleanup:
        try:
            # "x" is O_EXCL: an existing name is an error, even a dangling link.
            file = cleanup.enter_context(open(temporary, "xb", buffering=0))
        except OSError as error:
            raise WriteError(path, error) from error

        cleanup.callback(_remove, temporary)
        yield PartFile(path, file)
        try:
            os.fsync(file.fileno())
            if backup is not None and path.is_file():
                os.replace(path, backup)
            os.replace(temporary, path)
        except OSError as error:
            raise WriteError(path, error) from error


class FileWriter:
    """`atomic_write` for arrays, with the checksum of what was written."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path, self._digest, self._exits = Path(path), hashlib.sha256(), contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._file = self._exits.enter_context(atomic_write(self.path))
        return self

    def write(self, content: Content) -> None:
        """Adds bytes, or those of an array; raises WriteError where the file cannot be written."""
        if (view := memoryview(content)).nbytes:
            self._file.write(view.cast("B"))
            self._digest.update(view.cast("B"))

    @property
    def sha256(self) -> str:
        """The checksum so far."""
        return self._digest.hexdigest()

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return self._exits.__exit__(error_type, error, traceback)


class Scratch:
    """A folder of temporary files, which are deleted when its block ends.

    Args:
        folder: where it is made; the system's folder of temporary files by default.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None):
        self.parent, self._count = folder, 0

    def __enter__(self) -> Self:
        try:
            self.folder = Path(tempfile.mkdtemp(prefix=PART_PREFIX, suffix=PART_SUFFIX, dir=self.parent))
        except OSError as error:
            raise WriteError(self.parent or tempfile.gettempdir(), error) from error
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextlib.contextmanager
    def files(self, count: int) -> Iterator[list["ScratchFile"]]:
        """New files to append to; they stay until they are removed."""
        with contextlib.ExitStack() as opened:
            scratch_files = []
            for _ in range(count):
                self._count += 1
                scratch_files.append(opened.enter_context(ScratchFile(self.folder / str(self._count))))
            yield scratch_files


class ScratchFile:
    """A file of a `Scratch`."""

    closed = False

    def __init__(self, path: Path):
        self.path = path

    def __enter__(self) -> Self:
        try:
            self._file = open(self.path, "xb", buffering=0)
        except OSError as error:
            raise WriteError(self.path, error) from error
        self._part = PartFile(self.path, self._file)
        return self

    def write(self, content: Content) -> int:
        """Appends bytes, or those of an array; raises WriteError where the disk is full."""
        view = memoryview(content)
        return self._part.write(view.cast("B")) if view.nbytes else 0

    def flush(self) -> None:
        """Nothing waits to be written."""

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def remove(self) -> None:
        """Removes it."""
        _remove(self.path)


def mapped_array(
    shape: tuple[int, ...], dtype: "npt.DTypeLike", folder: str | os.PathLike[str] | None = None
) -> "np.ndarray":
    """An array of zeros in an unnamed file that is mapped into memory, so that it may be larger than the memory.

    Its disk space is allocated at once: a full disk is an error here, not a crash later.

    Args:
        shape, dtype: of the array.
        folder: where the file is created; the system's folder of temporary files by default.

    Raises:
        WriteError: the disk is full.
    """
    import numpy as np

    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if not size:
        return np.zeros(shape, dtype)
    try:
        with _unnamed_file(folder) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:  # macOS
                file.truncate(size)
            return np.asarray(np.memmap(file, dtype, "r+", shape=shape))
    except OSError as error:
        raise WriteError(folder or tempfile.gettempdir(), error) from error


class GrowingArray:
    """An array in an unnamed file, to which rows are appended before it is mapped into memory.

    The system removes such a file when the process ends, also when it is killed.

    Args:
        dtype: of the numbers.
        row: the shape of a row; `()` where rows are numbers.
        folder: where the file is created; the system's folder of temporary files by default.

    Raises:
        WriteError: the disk is full.
    """

    def __init__(self, dtype: "npt.DTypeLike", row: tuple[int, ...] = (), folder: str | os.PathLike[str] | None = None):
        self.dtype, self.row, self.num_rows = dtype, row, 0
        directory = Path(folder or tempfile.gettempdir())
        try:
            self._file = PartFile(directory, _unnamed_file(folder))
        except OSError as error:
            raise WriteError(directory, error) from error
        weakref.finalize(self, self._file.file.close)  # also where an error ends the reading of a table

    def append(self, rows: "np.ndarray | Sequence[int]") -> None:
        """Appends rows."""
        import numpy as np

        content: Content = np.ascontiguousarray(rows, self.dtype)
        self.num_rows += len(content)
        if content.nbytes:
            self._file.write(memoryview(content).cast("B"))

    def mapped(self) -> "np.ndarray":
        """All rows, mapped into memory; nothing can be appended any more."""
        import numpy as np

        shape = (self.num_rows, *self.row)
        with self._file.file as file:
            if not self._file.size:
                return np.zeros(shape, self.dtype)
            return np.asarray(np.memmap(file, self.dtype, "r+", shape=shape))


@contextlib.contextmanager
def cells_up_to(length: int) -> Iterator[None]:
    """Lets `csv` read cells of so many characters, by default 131,072; the limit is one of the whole process."""
    before = csv.field_size_limit(max(length, csv.field_size_limit()))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def csv_rows(path: Path) -> Iterator[list[str]]:
    """The lines of a CSV file that a run wrote, however long its cells are."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        while True:
            with cells_up_to(MAX_CELL):
                row = next(reader, None)
            if row is None:
                return
            yield row


def release_memory(arrays: "Iterable[np.ndarray]") -> None:
    """Releases the memory of mapped arrays; later reads come from their files.

    Other arrays stay as they are. Does nothing on systems without MADV_DONTNEED.
    """
    if not hasattr(mmap, "MADV_DONTNEED"):
        return
    for array in arrays:
        base: object = array
        while base is not None and not isinstance(base, mmap.mmap):
            base = getattr(base, "base", None)
        if base is not None:
            base.madvise(mmap.MADV_DONTNEED)


def copied_rows(array: "np.ndarray", rows: "np.ndarray") -> "np.ndarray":
    """A copy of some rows of an array; for a mapped array little else is read into memory."""
    import numpy as np

    copy = np.empty((len(rows), *array.shape[1:]), array.dtype)
    for start in range(0, len(rows), COPY_CHUNK):
        block = slice(start, start + COPY_CHUNK)
        copy[block] = array[rows[block]]
        release_memory([array])
    return copy


def _unnamed_file(folder: str | os.PathLike[str] | None) -> FileIO:
    return tempfile.TemporaryFile(buffering=0, prefix=PART_PREFIX, suffix=PART_SUFFIX, dir=folder)


def remove_parts(folder: Path) -> None:
    """Removes the temporary files that killed processes left in a folder."""
    for path in folder.glob(f"{PART_PREFIX}*{PART_SUFFIX}"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            _remove(path)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
