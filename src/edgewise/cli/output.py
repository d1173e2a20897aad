"""The file that a verb writes: its kind by its name, never over another one unasked, in one stroke."""

import argparse
import io
import sys
from pathlib import Path
from typing import Any

FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
"""How cells begin that a spreadsheet computes when it opens a CSV file."""


def check_output(arguments: argparse.Namespace, formats: tuple[str, ...]) -> str:
    """The ending of the output file; raises where it cannot or must not be written."""
    from edgewise.errors import DataError, SettingError

    if arguments.output == "-" and ".csv" in formats:
        return ".csv"
    path = Path(arguments.output)
    suffix = next((end for end in sorted(formats, key=len, reverse=True) if path.name.lower().endswith(end)), None)
    if suffix is None:
        raise SettingError(f"-o is {arguments.output}; expected a name that ends in {', '.join(formats)}.")
    data = getattr(arguments, "data", None)  # a verb that makes its data has none
    if data is not None and path.exists() and Path(data).exists() and path.samefile(data):
        raise DataError(f"{path} is the input; choose another name with -o.")
    if getattr(arguments, "escape_formulas", False) and not suffix.startswith((".csv", ".tsv")):
        raise SettingError(f"--escape-formulas is for .csv and .tsv, but -o is {arguments.output}; leave it out.")
    if path.exists() and not arguments.overwrite:
        raise DataError(f"{path} exists already; choose another name with -o, or replace it with --overwrite.")
    if not path.parent.is_dir():
        raise DataError(f"{path.parent} is no folder; make it, or choose another name with -o.")
    return suffix


def write(content: Any, output: str, suffix: str, *, escape_formulas: bool = False) -> None:
    """Writes in one stroke: bytes as they are, a DataFrame as Parquet, and text, commas becoming tabs for .tsv.

    Args:
        content: what is written.
        output: the file; `-` is the screen.
        suffix: how its name ends.
        escape_formulas: put an apostrophe before each cell of a CSV text that a spreadsheet would compute.
    """
    import csv
    import gzip

    from edgewise.files import write_bytes

    if escape_formulas or suffix.startswith(".tsv"):
        table = io.StringIO()
        writer = csv.writer(table, delimiter="\t" if suffix.startswith(".tsv") else ",", lineterminator="\n")
        for row in csv.reader(io.StringIO(content, newline="")):
            writer.writerow([escaped(cell) for cell in row] if escape_formulas else row)
        content = table.getvalue()
    if output == "-":
        sys.stdout.write(content)
        sys.stdout.flush()
        return
    if isinstance(content, bytes):
        write_bytes(Path(output), content)
        return
    if suffix == ".parquet":
        buffer = io.BytesIO()
        content.to_parquet(buffer, index=False)
        write_bytes(Path(output), buffer.getvalue())
        return
    data = content.encode()
    write_bytes(Path(output), gzip.compress(data, mtime=0) if suffix.endswith(".gz") else data)


def escaped(cell: str) -> str:
    """The cell with an apostrophe before it where a spreadsheet would take it for a formula; numbers stay numbers."""
    if not cell.startswith(FORMULA_SIGNS):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
