"""TextClassifier and TextRegressor: a table of texts from Python, in the habit of scikit-learn."""

import os
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from edgewise.data.split import split_rows
from edgewise.data.texts.table import TextTable, texts_from_arrays
from edgewise.errors import DataError, MissingExtraError, SettingError
from edgewise.estimators.faces import (
    CLASSES,
    NUMBERS,
    SettingsEstimator,
    class_numbers,
    joined,
    most_probable,
    r2,
    task_of,
)
from edgewise.explanation import Explanation
from edgewise.plural import plural
from edgewise.records import Prediction
from edgewise.tasks.run import fit
from edgewise.tasks.texts.explain import explain_text
from edgewise.tasks.texts.job import text_job
from edgewise.tasks.texts.task import TASK
from edgewise.tasks.texts.trained import TrainedTexts
from edgewise.train.device import pick_device

try:
    from sklearn.base import ClassifierMixin, RegressorMixin
    from sklearn.utils.validation import check_is_fitted
except ModuleNotFoundError as error:
    raise MissingExtraError("scikit-learn", "train") from error

Texts = Any
"""Texts (row), or (row, column) where several belong together; a list, an array, a Series or a DataFrame."""


class TextEstimator(SettingsEstimator):
    """What both estimators share: their settings, fitting, saving and loading.

    Args:
        settings: Any setting of `edgewise train` over texts by its name in Python: model, num_layers, model_dim,
            dropout, tokens, from_run, epochs, learning_rate, ensemble_size, seed, device ...; and validation_size, the
            part of the rows that chooses nothing but calibrates intervals and shows the loss (default: 0.1).
    """

    def fit_targets(self, X: Texts, targets: Any, sample_weight: Any, groups: Any, task_type: str) -> Self:
        """Trains on targets as the cells of a table."""
        settings = dict(self.settings)
        validation_size = settings.pop("validation_size", 0.1)
        if not 0 <= validation_size < 1:
            raise SettingError(f"validation_size is {validation_size}; expected at least 0 and below 1.")
        table = texts_from_arrays(rows_of(X), targets, sample_weight, groups, task_type=task_type, strict=True)
        given = {"data": ("the texts",), "text_columns": table.columns.text_columns, "task_type": task_type}
        job = text_job({**settings, **given}, type(self).__name__)
        kind = "random" if groups is None else "group"
        splits = split_rows(
            table, kind=kind, sizes=(1 - validation_size, validation_size, 0), seed=job.train.seed
        )  # fmt: skip
        prepared = TASK.prepared(job, table, splits)
        fit(TASK, prepared)
        self.trained_ = prepared.fitted
        return self

    def table_of(self, X: Texts) -> TextTable:
        """Rows to predict; those that are empty keep their place."""
        check_is_fitted(self, "trained_")
        table, known = texts_from_arrays(rows_of(X)), self.trained_.columns.text_columns
        if len(table.columns.text_columns) != len(known):
            raise DataError(
                f"predict: {plural(len(table.columns.text_columns), 'column')} of texts, but the model was trained on "
                f"{len(known)}."
            )
        return table

    def predictions(self, X: Texts, coverage: float | None = None) -> list[Prediction]:
        """What the model says of each target; NaN for empty texts."""
        table, device = self.table_of(X), pick_device(self.settings.get("device", "auto"))
        return self.trained_.predict(table, coverage=coverage, device=device)

    def fingerprint(self, X: Texts) -> np.ndarray:
        """(row, dim): one vector that sums up each text; NaN where it is empty."""
        table, device = self.table_of(X), pick_device(self.settings.get("device", "auto"))
        return self.trained_.fingerprint(table, device)

    def explain(
        self, texts: str | Sequence[str], *, target: str | None = None, label: Any = None, top: int | None = None
    ) -> Explanation:
        """One row, explained: where the model attends, and what changes its prediction; see `explain_text`.

        Args:
            texts: A text, or one for each column.
            target: The target that is explained; the first by default.
            label: The class whose probability is explained; the predicted one by default.
            top: How many of the strongest weights of each token are kept.
        """
        check_is_fitted(self, "trained_")
        return explain_text(self.trained_, texts, target=target, label=label, top=top)


class TextClassifier(ClassifierMixin, TextEstimator):
    """Tells classes of texts, two or more, and their probabilities.

    Example:
        classifier = TextClassifier(model="lstm").fit(reviews, labels)
        classifier.predict(["a film to remember"])
    """

    def fit(self, X: Texts, y: Any, sample_weight: Any = None, *, groups: Any = None) -> Self:
        """Trains the model.

        Args:
            X: Texts (row) or (row, column).
            y: (row) class labels.
            sample_weight: (row).
            groups: (row); rows of one group are all training or all validation rows.

        Raises:
            DataError: A row cannot be used; the message says which and why.
        """
        self.classes_, numbers = class_numbers(y)
        self.fit_targets(X, [str(number) for number in numbers], sample_weight, groups, task_of(self.classes_))
        self.trained_.classes = {"target": self.classes_.tolist()}
        return self

    def predict_proba(self, X: Texts) -> np.ndarray:
        """(row, class): probabilities in the order of `classes_`; NaN for an empty text."""
        probabilities = self.predictions(X)[0].probabilities
        assert probabilities is not None
        return probabilities

    def predict(self, X: Texts) -> np.ndarray:
        """(row): the most probable class.

        Raises:
            DataError: A text is empty: there is no class that would say so.
        """
        probabilities = self.predict_proba(X)
        return most_probable(probabilities, self.classes_, self.table_of(X).status)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """The classifier of a run folder with one target, written by `save` or by `edgewise train`."""
        return cls.load_as(TrainedTexts, folder, CLASSES)


class TextRegressor(RegressorMixin, TextEstimator):
    """Tells numbers of texts, and intervals around them."""

    def fit(self, X: Texts, y: Any, sample_weight: Any = None, *, groups: Any = None) -> Self:
        """Trains the model; as `TextClassifier.fit`, with y: (row) or (row, target) numbers, NaN where missing."""
        targets = np.asarray(y, dtype=np.float64)
        self.one_target_ = targets.ndim == 1
        return self.fit_targets(X, targets, sample_weight, groups, "regression")

    def predict(self, X: Texts) -> np.ndarray:
        """(row), or (row, target) where y had that shape; NaN for an empty text."""
        return joined([prediction.value for prediction in self.predictions(X)], self.one_target_)

    def predict_interval(self, X: Texts, coverage: float | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The lower and upper ends of the intervals, each as `predict`; NaN with too few validation rows."""
        found = self.predictions(X, coverage)
        return joined([each.low for each in found], self.one_target_), joined(
            [each.high for each in found], self.one_target_
        )

    def score(self, X: Texts, y: Any, sample_weight: Any = None) -> float:
        """R² over the targets that are known, of several the mean."""
        return r2(y, self.predict(X), self.table_of(X).status, sample_weight)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """The regressor of a run folder, written by `save` or by `edgewise train`."""
        return cls.load_as(TrainedTexts, folder, NUMBERS)


def rows_of(X: Texts) -> Any:
    """Texts as an array, whatever held them."""
    return X.to_numpy(dtype=object) if hasattr(X, "to_numpy") else list(X)
