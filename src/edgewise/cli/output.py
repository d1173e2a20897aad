"""The output file of a verb: its format follows from its name, it never replaces a file unless asked, and it is written
atomically."""

import argparse
import contextlib
import csv
import io
import os
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgewise.learn.files import PartFile

FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
"""First characters of cells that a spreadsheet evaluates when it opens a CSV file."""


def check_output(arguments: argparse.Namespace, formats: tuple[str, ...]) -> str:
    """The ending of the output file; raises if the file cannot or must not be written."""
    from edgewise.errors import DataError, SettingError

    if arguments.output == "-" and ".csv" in formats:
        return ".csv"

    path = Path(arguments.output)
    suffix = next((end for end in sorted(formats, key=len, reverse=True) if path.name.lower().endswith(end)), None)
    if suffix is None:
        raise SettingError(f"-o is {arguments.output}; expected a name that ends in {', '.join(formats)}.")
    if path.exists() and any(path.samefile(file) for file in files_in(arguments)):
        raise DataError(f"{path} is the input; choose another name with -o.")
    if getattr(arguments, "escape_formulas", False) and not suffix.startswith((".csv", ".tsv")):
        raise SettingError(f"--escape-formulas is for .csv and .tsv, but -o is {arguments.output}; drop it.")
    if path.exists() and not arguments.overwrite:
        raise DataError(f"{path} exists already; choose another name with -o, or replace it with --overwrite.")
    if not path.parent.is_dir():
        raise DataError(f"{path.parent} is not a folder; create it, or choose another name with -o.")
    try:
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        reason = error.strerror or error
        raise DataError(f"{path.parent}: no file can be written here: {reason}. Choose another with -o.") from error

    return suffix


def files_in(arguments: argparse.Namespace) -> list[Path]:
    """The existing files that flags name, except the output: all input files are among them."""
    values = [value for name, value in vars(arguments).items() if name != "output"]
    words = [word for value in values for word in (value if isinstance(value, list | tuple) else [value])]
    return [Path(word) for word in words if isinstance(word, str) and os.path.isfile(word)]


def write(content: Any, output: str, suffix: str, *, escape_formulas: bool = False) -> None:
    """Writes a file at once; arguments as for `opened`, and the content that its function takes."""
    with opened(output, suffix, escape_formulas=escape_formulas) as add:
        add(content)


@contextlib.contextmanager
def opened(output: str, suffix: str, *, escape_formulas: bool = False) -> Iterator[Callable[[Any], None]]:
    """A file that is written in parts; it appears when the block ends, and nothing is left after an error.

    Args:
        output: the file; `-` is stdout, which shows each part at once.
        suffix: the ending of its name.
        escape_formulas: put an apostrophe before each cell of a CSV text that a spreadsheet would evaluate.

    Returns:
        A function that adds content: bytes, a DataFrame for Parquet, or CSV text, whose commas become tabs for .tsv.
    """
    from edgewise.learn.files import atomic_write, cells_up_to
    from edgewise.learn.training.folder import csv_text

    def text_of(content: str) -> str:
        if not escape_formulas and not suffix.startswith(".tsv"):
            return content
        rows: Iterator[list[str]] = csv.reader(io.StringIO(content, newline=""))
        if escape_formulas:
            rows = ([escaped(cell) for cell in row] for row in rows)
        # Cells may be as long as those that were read.
        with cells_up_to(len(content)):
            return csv_text(None, rows, "\t" if suffix.startswith(".tsv") else ",")

    if output == "-":

        def show(content: str) -> None:
            sys.stdout.write(text_of(content))
            sys.stdout.flush()

        yield show
        return

    with atomic_write(Path(output)) as file:
        if suffix == ".parquet":
            with _parquet(file) as add:
                yield add
            return

        packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS) if suffix.endswith(".gz") else None

        def add_text(content: str | bytes) -> None:
            data = content if isinstance(content, bytes) else text_of(content).encode()
            file.write(data if packer is None else packer.compress(data))

        yield add_text
        if packer is not None:
            file.write(packer.flush())


@contextlib.contextmanager
def _parquet(file: "PartFile") -> Iterator[Callable[[Any], None]]:
    """Adds DataFrames or Arrow tables of the same columns to a file; the first sets the types."""
    import pyarrow as pa
    from pyarrow import parquet

    writer: parquet.ParquetWriter | None = None

    def add(content: Any) -> None:
        nonlocal writer
        schema = None if writer is None else writer.schema
        is_table = isinstance(content, pa.Table)
        table = content if is_table else pa.Table.from_pandas(content, schema, preserve_index=False)
        if writer is None:
            writer = parquet.ParquetWriter(file, table.schema, compression="snappy")
        writer.write_table(table)

    try:
        yield add
        if writer is not None:
            writer.close()
    finally:
        if writer is not None:
            writer.is_open = False  # or its finalizer would try to finish the file


def escaped(cell: str) -> str:
    """The cell, with an apostrophe if a spreadsheet would read it as a formula; numbers stay as they are."""
    if not cell.startswith(FORMULA_SIGNS):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
