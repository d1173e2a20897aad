"""TextClassifier and TextRegressor: rows of texts."""

from typing import Any, get_args

from edgewise.errors import DataError
from edgewise.formatting import plural
from edgewise.learn.estimators.table import TableClassifier, TableEstimator, TableRegressor
from edgewise.learn.networks.text_settings import CONFIGURATIONS, EncoderName
from edgewise.learn.readers.texts.table import texts_from_arrays
from edgewise.learn.tables.cell import refuse_single_text
from edgewise.learn.tasks.texts.task import TASK, FittedTexts

ENCODERS = (*(name for name in get_args(EncoderName) if name != "transformer"), *CONFIGURATIONS)
"""What `model` may name."""


class TextEstimator(
    TableEstimator,
    task=TASK,
    fitted_type=FittedTexts,
    required={"data": ("the texts",), "text_columns": ("text",)},
    positional={"fit": ("sample_weight",), "score": ("sample_weight",), "predict_interval": ("coverage",)},
):
    """An ensemble over texts: (row), or (row, column) where several belong together; a list, array or DataFrame."""

    def table_of(self, data: Any, job: Any = None, **options: Any) -> Any:
        """The texts as a table; an empty one to predict keeps its place."""
        refuse_single_text("X", data)
        rows = data.to_numpy(dtype=object) if hasattr(data, "to_numpy") else list(data)
        if job is not None:
            return texts_from_arrays(rows, **options, task_type=job.columns.task_type, strict=True)
        table, known = texts_from_arrays(rows), self.trained.columns.text_columns
        if len(table.columns.text_columns) != len(known):
            raise DataError(
                f"predict: {plural(len(table.columns.text_columns), 'column')} of texts, but the model was trained on "
                f"{len(known)}: a row is {'one text' if len(known) == 1 else f'a list of {len(known)} texts'}."
            )
        return table


class TextClassifier(TableClassifier, TextEstimator, models=ENCODERS, own={"model": None, "validation_size": 0.1}):
    """Predicts classes of texts, two or more, and their probabilities.

    TextClassifier(model="lstm").fit(reviews, labels).predict(["a film to remember"])
    """


class TextRegressor(TableRegressor, TextEstimator, models=ENCODERS, own={"model": None, "validation_size": 0.1}):
    """Predicts numbers of texts, and intervals around them."""
