"""TextClassifier and TextRegressor: rows of texts."""

from collections.abc import Sequence
from typing import Any, get_args

from edgewise.data.texts.table import texts_from_arrays
from edgewise.errors import DataError
from edgewise.estimators.params import old_names
from edgewise.estimators.table import TableClassifier, TableEstimator, TableRegressor
from edgewise.explain.methods import Choice
from edgewise.explanation import Explanation
from edgewise.models.text_settings import CONFIGURATIONS, EncoderName
from edgewise.plural import plural
from edgewise.tasks.texts.explainable import explain_text
from edgewise.tasks.texts.task import TASK
from edgewise.tasks.texts.trained import TrainedTexts

ENCODERS = (*(name for name in get_args(EncoderName) if name != "transformer"), *CONFIGURATIONS)
"""What `model` may name."""


class TextEstimator(
    TableEstimator,
    task=TASK,
    fitted_type=TrainedTexts,
    required={"data": ("the texts",), "text_columns": ("text",)},
    positional={"fit": ("sample_weight",), "score": ("sample_weight",), "predict_interval": ("coverage",)},
):
    """An ensemble over texts: (row), or (row, column) where several belong together; a list, array or DataFrame."""

    def table_of(self, data: Any, job: Any = None, **options: Any) -> Any:
        """The texts as a table; an empty one to predict keeps its place."""
        rows = data.to_numpy(dtype=object) if hasattr(data, "to_numpy") else list(data)
        if job is not None:
            return texts_from_arrays(rows, **options, task_type=job.columns.task_type, strict=True)
        table, known = texts_from_arrays(rows), self.trained.columns.text_columns
        if len(table.columns.text_columns) != len(known):
            raise DataError(
                f"predict: {plural(len(table.columns.text_columns), 'column')} of texts, but the model was trained on "
                f"{len(known)}."
            )
        return table

    @old_names
    def explain(
        self,
        item: str | Sequence[str],
        target: str | None = None,
        label: Any = None,
        *,
        top: int | None = None,
        methods: Choice = None,
    ) -> Explanation:
        """One row, explained: where the model attends, and what changes its prediction.

        Args:
            item: A text, or one for each column.
            target: The target that is explained; the first by default.
            label: The class whose probability is explained; the predicted one by default.
            top: How many of the strongest weights of each token are shown.
            methods: Names of methods; see `edgewise.explain.methods`.
        """
        return explain_text(self.trained, item, target=target, label=label, top=top, methods=methods)


class TextClassifier(TableClassifier, TextEstimator, models=ENCODERS, own={"model": None, "validation_size": 0.1}):
    """Predicts classes of texts, two or more, and their probabilities.

    TextClassifier(model="lstm").fit(reviews, labels).predict(["a film to remember"])
    """


class TextRegressor(TableRegressor, TextEstimator, models=ENCODERS, own={"model": None, "validation_size": 0.1}):
    """Predicts numbers of texts, and intervals around them."""
