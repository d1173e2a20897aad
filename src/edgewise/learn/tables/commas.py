"""Numbers with a decimal comma: which columns of a table have them, and the same numbers with a point."""

from collections.abc import Iterable

import numpy as np

from edgewise.errors import DataError
from edgewise.learn.tables.cell import pa

# Numbers of a file with a decimal comma; numbers with one point, or with points between thousands, which dates and
# versions have not; and all others.
_COMMA_NUMBER = r"^\s*[-+]?([0-9]+,[0-9]*|,[0-9]+)([eE][-+]?[0-9]+)?\s*$"
_POINT_NUMBER = r"^\s*[-+]?([0-9]*\.[0-9]+|[0-9]{1,3}(\.[0-9]{3})+(,[0-9]*)?)([eE][-+]?[0-9]+)?\s*$"
_WHOLE = r"^\s*([-+]?[0-9]+([eE][-+]?[0-9]+)?|(?i:nan))?\s*$"


def check_points(source: str, parts: Iterable[tuple["pa.Table", np.ndarray]]) -> None:
    """Raise a DataError where a column of numbers has a point in a cell: it may separate thousands or the fraction.

    Args:
        source: what the message calls the file.
        parts: some rows, and the line of each.
    """
    compute, names = pa.compute, list[str]()
    has_comma, has_other = set[str](), set[str]()
    first_point: dict[str, tuple[int, str]] = {}
    for table, lines in parts:
        names = table.column_names
        for name, texts in zip(names, table.columns, strict=True):
            is_comma, is_point, is_whole = (
                compute.match_substring_regex(texts, number) for number in (_COMMA_NUMBER, _POINT_NUMBER, _WHOLE)
            )
            if compute.any(is_comma).as_py():
                has_comma.add(name)
            if compute.all(compute.or_(is_comma, compute.or_(is_point, is_whole))).as_py() is False:
                has_other.add(name)
            if name not in first_point and compute.any(is_point).as_py():
                row = compute.index(is_point, True).as_py()
                first_point[name] = int(lines[row]), texts[row].as_py()

    for name in filter(first_point.__contains__, names):
        line, cell = first_point[name]
        if name in has_comma or name not in has_other:
            raise DataError(
                f"{source}, line {line}, column {name!r}: {cell!r} has a point, but --decimal is ','; write all "
                "numbers with a comma and without thousands separators."
            )


def with_points(table: "pa.Table") -> "pa.Table":
    """The numbers with a decimal comma written with a decimal point."""
    compute = pa.compute

    def written(texts: "pa.ChunkedArray") -> "pa.ChunkedArray":
        is_comma = compute.match_substring_regex(texts, _COMMA_NUMBER)
        return compute.if_else(is_comma, compute.replace_substring(texts, ",", "."), texts)

    return pa.table([written(texts) for texts in table.columns], table.column_names)
