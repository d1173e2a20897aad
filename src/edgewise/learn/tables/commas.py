"""Numbers with a decimal comma: which columns of a table have them, and the same numbers with a point."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from edgewise.errors import DataError
from edgewise.learn.tables.cell import pa

# Numbers of a file with a decimal comma; numbers with a point, which may separate thousands; and all others.
_COMMA_NUMBER = r"^\s*[-+]?([0-9]+,[0-9]*|,[0-9]+)([eE][-+]?[0-9]+)?\s*$"
_POINT_NUMBER = r"^\s*[-+]?[0-9]*(\.[0-9]+)+(,[0-9]*)?([eE][-+]?[0-9]+)?\s*$"
_WHOLE = r"^\s*([-+]?[0-9]+([eE][-+]?[0-9]+)?|(?i:nan))?\s*$"


@dataclass
class NumberSigns:
    """Which numbers a column holds."""

    has_comma: bool = False
    """Whether a cell is a number with a comma."""
    is_number: bool = True
    """Whether all cells are numbers."""
    point: tuple[int, str] | None = None
    """The line and the content of the first cell that is a number with a point."""


@dataclass
class CommaColumns:
    """The columns of a table, seen part by part."""

    columns: dict[str, NumberSigns] = field(default_factory=dict)
    """The signs of each column by its name."""

    def add(self, table: "pa.Table", lines: np.ndarray) -> None:
        """Adds further rows."""
        compute = pa.compute
        for name, texts in zip(table.column_names, table.columns, strict=True):
            column = self.columns.setdefault(name, NumberSigns())
            is_comma = compute.match_substring_regex(texts, _COMMA_NUMBER)
            is_point = compute.match_substring_regex(texts, _POINT_NUMBER)
            is_whole = compute.match_substring_regex(texts, _WHOLE)
            column.has_comma |= bool(compute.any(is_comma).as_py())
            column.is_number &= compute.all(compute.or_(is_comma, compute.or_(is_point, is_whole))).as_py() is not False
            if column.point is None and compute.any(is_point).as_py():
                row = compute.index(is_point, True).as_py()
                column.point = int(lines[row]), texts[row].as_py()

    def check(self, source: str) -> None:
        """Raise a DataError where a column of numbers has a point in a cell: it may separate thousands or the
        fraction."""
        for name, column in self.columns.items():
            if column.point is not None and (column.has_comma or column.is_number):
                line, cell = column.point
                raise DataError(
                    f"{source}, line {line}, column {name!r}: {cell!r} has a point, but --decimal is ','; write all "
                    "numbers with a comma and without thousands separators."
                )

    @classmethod
    def check_all(cls, source: str, parts: Iterable[tuple["pa.Table", np.ndarray]]) -> None:
        """The same of a table that is seen part by part."""
        commas = cls()
        for table, lines in parts:
            commas.add(table, lines)
        commas.check(source)


def with_points(table: "pa.Table") -> "pa.Table":
    """The numbers with a decimal comma written with a decimal point."""
    compute = pa.compute

    def written(texts: "pa.ChunkedArray") -> "pa.ChunkedArray":
        is_comma = compute.match_substring_regex(texts, _COMMA_NUMBER)
        return compute.if_else(is_comma, compute.replace_substring(texts, ",", "."), texts)

    return pa.table([written(texts) for texts in table.columns], table.column_names)
