"""A sheet of an Excel workbook as rows of values."""

import warnings
import zipfile
import zlib
from datetime import date, datetime, time
from typing import Any

from edgewise.errors import DataError, MissingExtraError
from edgewise.learn.tables.options import current_limits

MISSING = "#N/A"
"""The value that Excel displays where it is not available."""


def read_sheet(name: str, sheet: str | None) -> tuple[list[str], list[list[object]], list[int]]:
    """Read one sheet.

    Args:
        name: the file.
        sheet: the sheet, which may be hidden; None is the first one that is not.

    Returns:
        The header: the first row that is not blank. The rows after it that are not blank, each as long as the
        header; dates and times are text as in ISO 8601, and `#N/A` is None. The row of the sheet for the header and
        for each row.

    Raises:
        DataError: the file is not a workbook, lacks the sheet, or is larger than the limits; a cell holds a formula
            without a value, or stands after the last column; or the sheet is empty.
        MissingExtraError: openpyxl is not installed.
    """
    try:
        import openpyxl
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError as error:
        raise MissingExtraError("openpyxl", "excel") from error

    _check_archive(name)
    with warnings.catch_warnings():
        # Of openpyxl, about styles and checks of the workbook that it ignores.
        warnings.simplefilter("ignore")
        try:
            values = openpyxl.load_workbook(name, read_only=True, data_only=True)
            title = _title(name, values.worksheets, sheet)
            rows = _rows(name, values[title])
            values.close()
            if any(None in cells for cells in rows.values()):
                formulas = openpyxl.load_workbook(name, read_only=True)
                _check_formulas(name, rows, formulas[title])
                formulas.close()
        except DataError:
            raise
        except (
            zipfile.BadZipFile, zlib.error, InvalidFileException, OSError, EOFError, ValueError, LookupError, TypeError,
            AttributeError, SyntaxError, OverflowError, RuntimeError,
        ) as error:  # fmt: skip
            raise DataError(f"{name}: it is named .xlsx, but cannot be read ({error}).") from error

    rows = {row: cells for row, cells in rows.items() if any(cell not in (None, "") for cell in cells)}
    if not rows:
        raise DataError(f"{name}: the sheet {title!r} is empty, expected a first row with the names of the columns.")
    lines = list(rows)
    width = max(len(cells) for cells in rows.values())
    table = [cells + [None] * (width - len(cells)) for cells in rows.values()]
    used = [index for index in range(width) if any(cells[index] not in (None, "") for cells in table)]
    header = [_text(table[0][index]) for index in used]
    current_limits().check_columns(name, lines[0], len(header))

    for index, column in zip(used, header, strict=True):
        if column is None:
            line = next(line for line, cells in zip(lines, table, strict=True) if cells[index] not in (None, ""))
            raise DataError(
                f"{name}, line {line}: a cell stands in a column without a name; name it in line {lines[0]}."
            )

    return [str(column) for column in header], [[_text(cells[index]) for index in used] for cells in table[1:]], lines


def _check_archive(name: str) -> None:
    """Raise a DataError unless the file is a workbook that fits into memory."""
    try:
        with zipfile.ZipFile(name) as archive:
            sizes = [(entry.compress_size, entry.file_size) for entry in archive.infolist()]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise DataError(f"{name}: not an Excel workbook ({error}); save it as .xlsx, without a password.") from error
    current_limits().check_unpacked(name, sum(packed for packed, _ in sizes), sum(size for _, size in sizes))


def _title(name: str, sheets: list[Any], sheet_name: str | None) -> str:
    if sheet_name is None:
        visible = [sheet.title for sheet in sheets if sheet.sheet_state == "visible"]
        if visible:
            return visible[0]
        sheet_name = ""
    titles = [sheet.title for sheet in sheets]
    if sheet_name not in titles:
        hidden = {sheet.title for sheet in sheets if sheet.sheet_state != "visible"}
        listed = ", ".join(repr(title) + (" (hidden)" if title in hidden else "") for title in titles)
        problem = f"no sheet {sheet_name!r}" if sheet_name else "every sheet is hidden"
        raise DataError(f"{name}: {problem}; the workbook has {listed or 'none'}. Name one with --sheet.")
    return sheet_name


def _rows(name: str, sheet: Any) -> dict[int, list[object]]:
    """The values of each row of a sheet, counted from 1."""
    # Some programs write wrong sizes.
    sheet.reset_dimensions()
    rows = {}
    for row, cells in enumerate(sheet.iter_rows(values_only=True), start=1):
        current_limits().check_columns(name, row, len(cells))
        rows[row] = list(cells)
    return rows


def _check_formulas(name: str, rows: dict[int, list[object]], sheet: Any) -> None:
    """Raise a DataError where a cell holds a formula without its computed value."""
    sheet.reset_dimensions()
    for row, cells in enumerate(sheet.iter_rows(), start=1):
        for index, cell in enumerate(cells):
            if cell.data_type == "f" and rows[row][index] is None:
                raise DataError(
                    f"{name}, cell {cell.coordinate}: the formula lacks a computed value; open the workbook in Excel "
                    "or "
                    "LibreOffice and save it, or paste the values."
                )


def _text(cell: object) -> object:
    """A cell as `as_text` of other formats expects it: dates as ISO 8601, empty for unavailable values."""
    if isinstance(cell, datetime) and cell.time() == time():
        cell = cell.date()
    if isinstance(cell, date | time):
        return cell.isoformat(" ") if isinstance(cell, datetime) else cell.isoformat()
    return None if cell == MISSING or cell == "" else cell
