"""Predictions as columns of a table: their names, their cells, and a file of both."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from edgewise.errors import DataError
from edgewise.explain.numbers import NUM_DIGITS, num_digits
from edgewise.learn.files import release_memory
from edgewise.learn.fitted_table import ComparesRows, FittedTable
from edgewise.learn.outputs import Prediction
from edgewise.learn.progress import note
from edgewise.learn.tables.cell import to_text_arrow
from edgewise.learn.tables.labels import Label
from edgewise.learn.tables.read import Cells
from edgewise.learn.training.folder import csv_text

if TYPE_CHECKING:
    from pandas import DataFrame


ROW_CHUNK = 2**13
"""Rows whose cells are in memory at the same time."""


class LongNumber(float):
    """A number of which seven digits are too few to tell it from the others of its column."""

    digits: int
    """The significant digits that are written."""

    @classmethod
    def column(cls, values: np.ndarray, digits: int) -> np.ndarray:
        """(row): numbers that are written with so many digits; as they are where seven do."""
        if digits <= NUM_DIGITS:
            return values
        numbers = np.array([None] * len(values), dtype=object)
        for row, value in enumerate(values.tolist()):
            numbers[row] = cls(value)
            numbers[row].digits = digits
        return numbers


def prediction_columns(
    trained: FittedTable, predictions: Sequence[Prediction], *, show_parts: bool = False
) -> dict[str, np.ndarray | list[Label | str]]:
    """The columns that predictions add to a table, in order: value, probabilities of classes, standard deviations,
    interval; with `show_parts` also the value or the probabilities by the network alone and by each companion.

    Targets far from zero, such as seconds since 1970, are columns of `LongNumber`.
    """
    scale = trained.target_scale
    columns: dict[str, np.ndarray | list[Label | str]] = {}
    for target, (name, prediction) in enumerate(zip(trained.columns.target_columns, predictions, strict=True)):
        digits = NUM_DIGITS
        if scale is not None:
            digits = num_digits(scale.mean[target], scale.std[target])
        if prediction.probabilities is None:
            columns[f"{name}_pred"] = LongNumber.column(prediction.value, digits)
        else:
            classes = trained.classes[name]
            columns[f"{name}_pred"] = ["" if np.isnan(v) else classes[int(v)] for v in prediction.value]
            for number, label in enumerate(classes):
                columns[f"{name}_prob_{label}"] = prediction.probabilities[:, number]
        columns[f"{name}_std"] = prediction.std
        if prediction.ensemble_std is not None:
            columns[f"{name}_ensemble_std"] = prediction.ensemble_std
        if prediction.probabilities is None:
            for end, values in (("low", prediction.low), ("high", prediction.high)):
                columns[f"{name}_{end}"] = LongNumber.column(values, digits)
        for part, values in (prediction.parts if show_parts else {}).items():
            ending = part.replace("-", "_")
            if prediction.probabilities is None:
                columns[f"{name}_pred_{ending}"] = LongNumber.column(values, digits)
                continue
            for number, label in enumerate(trained.classes[name]):
                columns[f"{name}_prob_{label}_{ending}"] = values[:, number]
    return columns


def check_names(untrained: FittedTable, source: str, *, has_folds: bool) -> None:
    """Raise DataError where a column that the model reads or learns has the name of one that predictions add."""
    columns, none, empty = untrained.columns, np.zeros(0), []
    for name in columns.target_columns:
        classes = untrained.classes.get(name)
        probabilities = None if classes is None else np.zeros((0, len(classes)))
        empty.append(Prediction(none, none, none, none, probabilities, ensemble_std=none))
    added = {"row_in_data", *prediction_columns(untrained, empty)} | ({"fold"} if has_folds else set())
    if isinstance(untrained.encoder, ComparesRows):
        added |= {"similarity"}
        added |= {"new", *(f"similarity_{name}" for name in columns.inputs)} if len(columns.inputs) > 1 else set()
    if taken := [name for name in (*columns.target_columns, *columns.inputs) if name in added]:
        raise DataError(f"{source}: predictions add a column {taken[0]!r} to a table; give this one another name.")


def rows_with(
    cells: Cells, rows: np.ndarray, added: Mapping[str, np.ndarray | Sequence[object]]
) -> tuple[list[str], Iterator[list[object]]]:
    """The header of a file of some rows of a table and the columns that predictions add, and its lines.

    A column of the table that has the name of an added one is left out, and a note says so.
    """
    names = [name for name in cells.frame.columns if name not in added and name != "row_in_data"]
    for name in (name for name in cells.frame.columns if name not in names):
        note(f"test_predictions.csv lacks the column {name!r} of the data: one of the predictions has this name.")

    def lines() -> Iterator[list[object]]:
        for start in range(0, len(rows), ROW_CHUNK):
            chunk = slice(start, start + ROW_CHUNK)
            read = [to_text_arrow(cells.frame[name].iloc[rows[chunk]]).to_pylist() for name in names]
            columns = [rows[chunk], *read, *(values[chunk] for values in added.values())]
            yield from ([format_cell(value) for value in row] for row in zip(*columns, strict=True))
            release_memory(cells.mapped)

    return ["row_in_data", *names, *added], lines()


def format_cell(value: object) -> object:
    """A cell of a CSV file: numbers to seven significant digits, or more where a column needs them, empty for a
    missing number."""
    if isinstance(value, (float, np.floating)):
        digits = value.digits if isinstance(value, LongNumber) else NUM_DIGITS
        return "" if np.isnan(value) else f"{value:.{digits}g}"
    return value


def with_columns(
    frame: "DataFrame",
    added: Mapping[str, np.ndarray | Sequence[object]],
    source: str,
    suffix: str,
    *,
    with_header: bool = True,
) -> "DataFrame | str":
    """A table with further columns, for a file: a DataFrame for .parquet, in full precision, else CSV rows.

    Args:
        frame: the cells, a DataFrame.
        added: the new columns.
        source: where the table is from, for messages.
        suffix: how the file ends.
        with_header: whether CSV rows begin with the names of the columns.

    Raises:
        DataError: the table has a column of such a name.
    """
    if existing := [name for name in added if name in frame.columns]:
        raise DataError(
            f"{source} already has the column {existing[0]!r}, which predictions need; give it another name."
        )
    if suffix == ".parquet":
        return frame.assign(**{name: _without_digits(values) for name, values in added.items()})
    columns = {name: to_text_arrow(frame[name]).to_pylist() for name in frame.columns}
    columns |= {name: [format_cell(value) for value in values] for name, values in added.items()}
    return csv_text(list(columns) if with_header else None, zip(*columns.values(), strict=True))


def _without_digits(values: np.ndarray | Sequence[object]) -> np.ndarray | Sequence[object]:
    """A column of `LongNumber` as plain numbers; others as they are."""
    is_long = len(values) > 0 and isinstance(values[0], LongNumber)
    return np.asarray(values, dtype=np.float64) if is_long else values
