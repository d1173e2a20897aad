"""Arrays as rows of texts: the functions behind TextClassifier and TextRegressor."""

from typing import TYPE_CHECKING

from edgewise.errors import DataError, plural, refuse_single_text
from edgewise.learn.estimators.names import RowsLike, has_columns
from edgewise.learn.estimators.row_methods import inputs_of_run
from edgewise.learn.estimators.rows import Inputs, RowAdapter, TrainingColumns
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.readers.texts.data import TextData, texts_from_arrays
from edgewise.learn.tables.read import Values
from edgewise.learn.tasks.text_encoder import TextEncoder
from edgewise.learn.tasks.texts.settings import TextRunSettings
from edgewise.learn.tasks.texts.task import TABLE, TASK

if TYPE_CHECKING:
    from pandas import DataFrame


def training_data(job: TextRunSettings, inputs: Inputs, columns: TrainingColumns) -> TextData:
    """The texts, to train on."""
    return texts_from_arrays(
        rows_of(inputs.X),
        columns.targets,
        columns.weights,
        columns.groups,
        task_type=columns.task_type,
        strict=True,
    )


def prediction_data(trained: FittedTable[TextEncoder], inputs: Inputs) -> TextData:
    """The texts, to predict; an empty one keeps its place."""
    read, expected = texts_from_arrays(rows_of(inputs.X)), len(trained.columns.text_columns)
    if (count := len(read.rows.columns.text_columns)) != expected:
        row = "one text" if expected == 1 else f"a list of {expected} texts"
        raise DataError(
            f"predict: {plural(count, 'column')} of texts, but the model was trained on {expected}: a row is {row}."
        )
    return read


def rows_of(X: "RowsLike | DataFrame") -> Values:
    """The rows of a list or an array; a DataFrame keeps the names of its columns."""
    refuse_single_text("X", X)
    if has_columns(X):
        return X
    rows: Values = X.to_numpy(dtype=object) if hasattr(X, "to_numpy") else list(X)
    return rows


TEXTS = RowAdapter(
    task=TASK,
    table_task=TABLE,
    placeholders={"data": ("the texts",), "text_columns": ("text",)},
    names_of_run=inputs_of_run,
    training_data=training_data,
    prediction_data=prediction_data,
)
"""The adapter of TextClassifier and TextRegressor."""
