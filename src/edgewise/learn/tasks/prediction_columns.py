"""Predictions as columns of a table: their names, their cells, and a file of both."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from edgewise.errors import DataError
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.outputs import Label, Prediction
from edgewise.learn.tables.cell import to_text_arrow
from edgewise.learn.training.folder import csv_text

if TYPE_CHECKING:
    from pandas import DataFrame


def prediction_columns(
    trained: FittedTable, predictions: Sequence[Prediction], *, show_parts: bool = False
) -> dict[str, np.ndarray | list[Label | str]]:
    """The columns that predictions add to a table, in order: value, probabilities of classes, standard deviations,
    interval; with `show_parts` also the value or the probabilities by the network alone and by each companion."""
    columns: dict[str, np.ndarray | list[Label | str]] = {}
    for name, prediction in zip(trained.columns.target_columns, predictions, strict=True):
        if prediction.probabilities is None:
            columns[f"{name}_pred"] = prediction.value
        else:
            classes = trained.classes[name]
            columns[f"{name}_pred"] = ["" if np.isnan(v) else classes[int(v)] for v in prediction.value]
            for number, label in enumerate(classes):
                columns[f"{name}_prob_{label}"] = prediction.probabilities[:, number]
        columns[f"{name}_std"] = prediction.std
        if prediction.ensemble_std is not None:
            columns[f"{name}_ensemble_std"] = prediction.ensemble_std
        if prediction.probabilities is None:
            columns[f"{name}_low"], columns[f"{name}_high"] = prediction.low, prediction.high
        for part, values in (prediction.parts if show_parts else {}).items():
            ending = part.replace("-", "_")
            if prediction.probabilities is None:
                columns[f"{name}_pred_{ending}"] = values
                continue
            for number, label in enumerate(trained.classes[name]):
                columns[f"{name}_prob_{label}_{ending}"] = values[:, number]
    return columns


def format_cell(value: object) -> object:
    """A cell of a CSV file: numbers to seven significant digits, empty for a missing number."""
    if isinstance(value, (float, np.floating)):
        return "" if np.isnan(value) else f"{value:.7g}"
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
        return frame.assign(**added)
    columns = {name: to_text_arrow(frame[name]).to_pylist() for name in frame.columns}
    columns |= {name: [format_cell(value) for value in values] for name, values in added.items()}
    return csv_text(list(columns) if with_header else None, zip(*columns.values(), strict=True))
