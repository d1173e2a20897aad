"""Single cells as numbers, and the record of those that cannot be read."""

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64

from edgewise.errors import MissingExtraError
from edgewise.learn.tables.magnitude import (
    LARGEST,
    is_too_small,
    largest_absolute,
    largest_of,
    reason_too_large,
    reason_too_small,
    too_large,
)

try:
    import pyarrow as pa
    import pyarrow.compute
except ImportError as error:
    raise MissingExtraError("pyarrow", "train") from error

Texts: TypeAlias = Any
"""A column of cells: of a table, an array of pyarrow, or a list of texts. Of numbers by their type no text is made."""
Item = TypeVar("Item")
Result = TypeVar("Result")
NUMBER_KINDS = "iuf"
"""Types of arrays, as numpy letters them, whose items are numbers."""
OK = "ok"
"""The status of a row that can be used."""

# What numpy and pandas write for a missing number.
_MISSING = ("", "nan")
# The last blank of ASCII, and the first code after its letters; nothing in between is a blank.
_BLANK, _NOT_ASCII = 0x20, 0x7F
# How pandas, R and Excel write truth values.
_TRUTH_VALUES = {"true": 1.0, "false": 0.0}
# Numbers that pyarrow and Python read alike; all others are judged by `read_number`.
_NUMBER = r"^-?([0-9]{1,100}(\.[0-9]{0,100})?|\.[0-9]{1,100})([eE][-+]?[0-9]{1,2})?$"


def is_predicted(status: str) -> bool:
    """Whether a row with this status is predicted: it is `OK`, or `OK` and a remark.

    >>> [is_predicted(status) for status in ("ok", "ok, but T is missing", "ok; smiles was drawn", "okay: empty")]
    [True, True, True, False]
    """
    return status == OK or status.startswith((f"{OK},", f"{OK};"))


def has_remark(status: str) -> bool:
    """Whether the status of a predicted row says something about its prediction."""
    return status != OK and is_predicted(status)


@dataclass(frozen=True, slots=True)
class Rejection:
    """One row that cannot be used, and why."""

    file: str
    """The file, as it was named."""
    line: int
    """Line of the file on which the row begins; the header is line 1. For Parquet, the row, counted likewise; for
    arrays, the position."""
    column: str
    """The first column that cannot be read."""
    value: str
    """The cell as written in the file."""
    reason: str
    """What is wrong with it."""


@dataclass
class Problems:
    """The first unreadable cell of each row."""

    first: dict[int, tuple[str, str, str]] = field(default_factory=dict)
    """Row (from 0) → column, cell, reason."""
    counts: Counter[str] = field(default_factory=Counter)
    """The number of unreadable cells of each column."""
    reasons: dict[str, str] = field(default_factory=dict)
    """The reason of the first unreadable cell of each column."""

    def add(self, row: int, column: str, value: str, reason: str) -> None:
        """Remember a cell, as that of its row unless the row has a problem already."""
        self.first.setdefault(row, (column, value, reason))
        self.counts[column] += 1
        self.reasons.setdefault(column, reason)

    def add_bad(self, column: str, bad: dict[int, tuple[str, str]], *, imputes: bool) -> None:
        """Remember the bad cells of a column of numbers.

        Args:
            column: its name.
            bad: each cell with the reason, by its row.
            imputes: pass over those that are missing, which are filled later.
        """
        for row, (cell, reason) in bad.items():
            if not (imputes and is_missing(cell)):
                self.add(row, column, cell, reason)

    def unreadable(self, num_rows: int) -> str:
        """In words, the entirely unreadable columns, without that of the first row; empty without any."""
        first = self.first[0][0] if 0 in self.first else None
        others = [name for name in self.unreadable_columns(num_rows) if name != first]
        return "".join(f" No cell of {name!r} can be read either: {self.reasons[name]}." for name in others)

    def unreadable_columns(self, num_rows: int) -> list[str]:
        """The columns without a readable cell, in a table with that many rows."""
        return [column for column, count in self.counts.items() if count >= num_rows]


def read_number(cell: str) -> tuple[float, str]:
    """A finite number and no reason, or NaN and the reason; an empty cell, or `nan`, is NaN with a reason too."""
    text = cell.strip()
    if text == "":
        return math.nan, "empty cell, expected a number"
    try:
        # Python's own `float` accepts 1_000, which no table means.
        number = math.nan if "_" in text else float(text)
    except ValueError:
        number = math.nan
    if math.isinf(number):
        return math.nan, f"{text!r} is infinite, expected a finite number"
    return number, f"{text!r} is not a number" if math.isnan(number) else ""


def read_feature(cell: str) -> tuple[float, str]:
    """The same of a cell that can only be a number: true is 1, false is 0. A label may be called so."""
    truth = _TRUTH_VALUES.get(cell.strip().lower())
    return read_number(cell) if truth is None else (truth, "")


def read_numbers(
    cells: Texts,
    column: str,
    problems: Problems,
    *,
    may_be_missing: bool = False,
    may_be_negative: bool = True,
    limit: float = LARGEST,
) -> Float64[np.ndarray, " row"]:
    """One column of numbers, NaN where missing or unreadable; what is unreadable, or too large to be scaled, goes to
    `problems`."""
    values, bad = within(cells, *parse_numbers(cells), limit)
    if not may_be_negative:
        for row in np.flatnonzero(values < 0).tolist():
            values[row], cell = math.nan, _text_at(cells, row)
            problems.add(row, column, cell, f"{cell.strip()!r} is negative, expected zero or more")

    for row, (cell, reason) in bad.items():
        if not (may_be_missing and is_missing(cell)):
            problems.add(row, column, cell, reason)
    return values


def parse_numbers(
    cells: Texts, *, in_parallel: bool = True
) -> tuple[Float64[np.ndarray, " row"], dict[int, tuple[str, str]]]:
    """A column as numbers, NaN where `read_feature` finds none, and each such cell with the reason, by its row.

    All cells are converted at once; only those that are refused there are judged one by one.

    Args:
        cells: the column.
        in_parallel: convert its chunks side by side; for callers that do so with several columns, False.
    """
    texts = to_arrow(cells)
    if is_numeric(texts.type):
        return _finite(joined(texts))
    try:
        if in_parallel:
            numbers = pa.chunked_array(in_threads(lambda chunk: chunk.cast(pa.float64()), texts.chunks), pa.float64())
        else:
            numbers = texts.cast(pa.float64())
    except pa.ArrowInvalid:
        trimmed = pa.compute.utf8_trim_whitespace(texts)
        is_number = pa.compute.match_substring_regex(trimmed, _NUMBER)
        numbers = pa.compute.if_else(is_number, trimmed, "nan").cast(pa.float64())

    values = np.require(numbers.to_numpy(), requirements="W")
    rows = np.flatnonzero(~np.isfinite(values))
    bad: dict[int, tuple[str, str]] = {}
    parsed: dict[str, tuple[float, str]] = {}

    refused = texts.filter(pa.array(~np.isfinite(values))).to_pylist() if len(rows) else []
    for row, cell in zip(rows.tolist(), refused, strict=True):
        if cell not in parsed:
            parsed[cell] = read_feature(cell)
        values[row], reason = parsed[cell]
        if reason:
            bad[row] = (cell, reason)

    return values, bad


def _finite(column: "pa.Array") -> tuple[Float64[np.ndarray, " row"], dict[int, tuple[str, str]]]:
    """Numbers by their type, and those that are missing or infinite."""
    numbers = column.cast(pa.float64(), safe=False).fill_null(math.nan).to_numpy(zero_copy_only=False)
    values = np.require(numbers, requirements="W")
    bad = {}
    for row in np.flatnonzero(~np.isfinite(values)).tolist():
        cell = as_text(column[row].as_py())
        values[row], bad[row] = math.nan, (cell, read_number(cell)[1])
    return values, bad


def parse_columns(
    columns: Sequence[Texts], dtype: type[np.floating]
) -> tuple[Float[np.ndarray, " row column"], list[dict[int, tuple[str, str]]]]:
    """Several columns as one table of numbers, and the bad cells of each, as `parse_numbers` finds both; those that are
    too large to be scaled are bad, too, and all of a column that is lost in numbers of this type."""
    values = np.empty((len(columns[0]) if columns else 0, len(columns)), dtype=dtype)

    def parse(index: int) -> dict[int, tuple[str, str]]:
        texts = columns[index]
        numbers, bad = parse_numbers(texts, in_parallel=len(columns) == 1)
        values[:, index], bad = within(texts, numbers, bad, largest_of(dtype))
        return bad

    return values, in_threads(parse, range(len(columns)))


def within(
    cells: Texts, values: np.ndarray, bad: dict[int, tuple[str, str]], limit: float, *, is_lost: bool | None = None
) -> tuple[np.ndarray, dict[int, tuple[str, str]]]:
    """The numbers of a column within ±limit, and the bad cells with those beyond it.

    Args:
        cells, values, bad: the column, and what `parse_numbers` finds there.
        limit: the largest absolute value.
        is_lost: whether all numbers of the whole column are too small, so that those other than 0 are bad; by default
            these are the whole column.
    """
    for row in too_large(values, limit).tolist():
        values[row], cell = math.nan, _text_at(cells, row)
        bad[row] = (cell, reason_too_large(cell, limit))
    if is_lost is None:
        is_lost = limit < LARGEST and is_too_small(largest_absolute(values))
    if is_lost:
        for row in np.flatnonzero(np.nan_to_num(values)).tolist():
            values[row], cell = math.nan, _text_at(cells, row)
            bad[row] = (cell, reason_too_small(cell))
    return values, bad


def to_text_arrow(cells: Texts) -> "pa.ChunkedArray":
    """A column of texts as pyarrow has it; numbers as they would be written."""
    column = to_arrow(cells)
    return pa.chunked_array([as_texts(chunk) for chunk in column.chunks], pa.large_string())


def to_arrow(cells: Texts) -> "pa.ChunkedArray":
    """A column as pyarrow has it: numbers by their type as numbers, all else as text."""
    column = cells
    # `pa.array` would take a column of pyarrow apart, cell by cell.
    if not isinstance(cells, pa.ChunkedArray | pa.Array):
        is_number = getattr(getattr(cells, "dtype", None), "kind", "O") in NUMBER_KINDS
        column = pa.array(cells, None if is_number else pa.large_string())
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


def _text_at(cells: Texts, row: int) -> str:
    """One cell as text."""
    return as_texts(joined(to_arrow(cells).slice(row, 1)))[0].as_py()


def as_text(value: object) -> str:
    """A value as it would stand in a CSV file, with every digit; empty for None and NaN."""
    if isinstance(value, bytes):
        # Programs without a type for text write bytes; bytes that cannot be decoded, such as pictures, stay bytes.
        with contextlib.suppress(UnicodeDecodeError):
            return value.decode()
    if isinstance(value, str):
        return value
    is_nan = isinstance(value, float | np.floating) and value != value
    return "" if value is None or is_nan or str(value) == "<NA>" else str(value)


def as_texts(column: "pa.Array") -> "pa.Array":
    """The cells of a column as texts; empty where they are null."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_integer(column.type) or pa.types.is_string(column.type):
        column = column.cast(pa.large_string())
    if pa.types.is_large_string(column.type):
        return column.fill_null("") if column.null_count else column
    if pa.types.is_floating(column.type):
        # Numpy's scalars keep their type: 0.1 of float32 is 0.10000000149011612 as a Python float.
        return pa.array(map(as_text, column.to_numpy(zero_copy_only=False)), pa.large_string())
    return pa.array([as_text(value) for value in column.to_pylist()], pa.large_string())


def is_numeric(kind: "pa.DataType") -> bool:
    """Whether a column holds numbers by its type."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def encoded(cells: Texts) -> "pa.ChunkedArray":
    """A column of texts, dictionary-encoded, so that equal cells are processed once, and numbers written once."""
    column = to_arrow(cells)
    if pa.types.is_dictionary(column.type):
        return column
    if not is_numeric(column.type):
        return to_text_arrow(column).dictionary_encode()
    codes = joined(column).dictionary_encode(null_encoding="encode")
    return pa.chunked_array([pa.DictionaryArray.from_arrays(codes.indices, as_texts(codes.dictionary))])


def distinct(cells: Texts) -> tuple[list[str], Int64[np.ndarray, " row"]]:
    """The different cells of a column in the order of their first row, and which of them each row holds."""
    chunks = encoded(cells).chunks
    # All chunks share the dictionary of the last.
    values = chunks[-1].dictionary.to_pylist() if chunks else []
    return values, np.concatenate([np.zeros(0, dtype=np.int64), *(chunk.indices for chunk in chunks)])


def joined(texts: "pa.Array | pa.ChunkedArray") -> "pa.Array":
    """A column as one array."""
    if not isinstance(texts, pa.ChunkedArray):
        return texts
    return pa.concat_arrays(texts.chunks) if texts.num_chunks else pa.array([], texts.type)


def text_arrays(names: "pa.Array | pa.ChunkedArray") -> tuple[np.ndarray, np.ndarray]:
    """The lengths of texts, and their concatenated bytes."""
    texts = joined(names)
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    letters = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    return np.diff(offsets), letters


def texts_of(offsets: np.ndarray, letters: np.ndarray, start: int, stop: int) -> "pa.Array":
    """The texts `start:stop`, from the arrays of `text_arrays`."""
    bounds = np.array(offsets[start : stop + 1])
    inside = letters[bounds[0] : bounds[-1]].tobytes()
    buffers = [None, pa.py_buffer((bounds - bounds[0]).tobytes()), pa.py_buffer(inside)]
    return pa.Array.from_buffers(pa.large_string(), stop - start, buffers)


def in_threads(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The results for several columns or chunks, side by side: pyarrow and numpy leave the interpreter free."""
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(pa.cpu_count()) as threads:
        return list(threads.map(work, items))


def stripped(cells: Texts) -> "pa.ChunkedArray":
    """A column of texts without blanks around them."""
    texts = to_text_arrow(cells)
    return pa.chunked_array([_stripped(chunk) for chunk in texts.chunks], texts.type)


def _stripped(texts: "pa.Array") -> "pa.Array":
    _, offsets, content = texts.buffers()
    offsets = np.frombuffer(offsets or b"", dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    signs = np.frombuffer(content or b"", dtype=np.uint8)
    if not len(texts) or offsets[0] == offsets[-1]:
        return texts
    used = signs[offsets[0] : offsets[-1]]
    if used.min() > _BLANK and used.max() < _NOT_ASCII:
        return texts

    # Signs that are a blank, or not ASCII and perhaps a blank. An empty text sees those of its neighbors, and stays.
    ends = np.stack([signs[np.minimum(offsets[:-1], len(signs) - 1)], signs[offsets[1:] - 1]])
    rows = ((ends <= _BLANK) | (ends >= _NOT_ASCII)).any(axis=0)
    if not rows.any():
        return texts
    if used.max() < _NOT_ASCII and not ((used >= 0x1C) & (used < _BLANK)).any():
        return pa.compute.ascii_trim_whitespace(texts)

    # Python's blanks, not all of which pyarrow knows.
    short = [text.strip() for text in texts.filter(pa.array(rows)).to_pylist()]
    return pa.compute.replace_with_mask(texts, pa.array(rows), pa.array(short, texts.type))


def whole_numbers(texts: "pa.Array | pa.ChunkedArray", beginning: str) -> Int64[np.ndarray, " row"] | None:
    """The integers after a prefix; None unless every text is the prefix followed by digits."""
    if len(texts) and not texts[0].as_py().removeprefix(beginning).isdecimal():
        return None
    parts, num_signs = [np.zeros(0, dtype=np.int64)], 0
    # Chunk by chunk, so that what is cut off is never held for all of them.
    for chunk in texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]:
        if beginning:
            if not pa.compute.all(pa.compute.starts_with(chunk, beginning), min_count=0).as_py():
                return None
            chunk = pa.compute.binary_replace_slice(chunk, 0, len(beginning.encode()), "")
        try:
            parts.append(chunk.cast(pa.int64()).to_numpy())
        except pa.ArrowInvalid:
            return None
        num_signs += pa.compute.sum(pa.compute.binary_length(chunk), min_count=0).as_py()

    numbers = np.concatenate(parts)
    if not len(numbers):
        return numbers

    # No number is written with fewer signs than it has digits: where the sums agree, none has a zero before it.
    smallest, largest = int(numbers.min()), int(numbers.max())
    num_digits = len(numbers) + sum(np.count_nonzero(numbers >= 10**more) for more in range(1, len(str(largest))))
    return numbers if smallest >= 0 and num_signs == num_digits else None


def missing(cells: Texts) -> Bool[np.ndarray, " row"]:
    """Which cells of a column stand for a missing number."""
    lower = pa.compute.utf8_lower(stripped(cells))
    return np.array(pa.compute.is_in(lower, pa.array(_MISSING, pa.large_string())))


def is_missing(cell: str) -> bool:
    """Whether a cell stands for a missing number."""
    return cell.strip().lower() in _MISSING
