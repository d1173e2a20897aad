"""The base of estimators over rows of a table, a classifier and a regressor of them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from edgewise.errors import DataError, MissingExtraError, RunFolderError
from edgewise.formatting import plural
from edgewise.graph.records import Prediction
from edgewise.learn.estimators.estimator import Estimator
from edgewise.learn.estimators.labels import accuracy, class_numbers, has_label, label_columns, plain_array, r2
from edgewise.learn.estimators.names import as_rows, below, in_order, naming_rows, row_name
from edgewise.learn.estimators.numbers import as_numbers
from edgewise.learn.estimators.params import old_names
from edgewise.learn.readers.graphs.types import UNLEARNED
from edgewise.learn.tables.cell import OK, refuse_single_text
from edgewise.learn.tables.read import ARRAYS
from edgewise.learn.tables.split import Splits, calibration_of, split_rows
from edgewise.learn.tasks.run import fit
from edgewise.learn.tasks.table_task import TableTask

try:
    from sklearn.base import ClassifierMixin, RegressorMixin
except ModuleNotFoundError as error:
    raise MissingExtraError("scikit-learn", "train") from error

NUMBERS, CLASSES = ("regression",), ("classification", "multiclass")
"""The tasks of a regressor, and those of a classifier."""


class TableEstimator(Estimator):
    """An ensemble over rows: nodes, graphs, molecules or texts."""

    task: ClassVar[TableTask]
    task_types: ClassVar[tuple[str, ...]]
    fit_options = ("groups",)
    positional: ClassVar[Mapping[str, tuple[str, ...]]] = {"score": ("sample_weight",)}

    def table_of(self, data: Any, job: Any = None, **options: Any) -> Any:
        """Rows as a table.

        Args:
            data: The rows.
            job: Of a training; None for rows to predict.
            options: Targets, weights and groups of a training, and the further arguments of the methods.
        """
        raise NotImplementedError

    def _table(self, data: Any, job: Any = None, **options: Any) -> Any:
        """`table_of` with the columns of DataFrames taken by their names, as scikit-learn does."""
        data = in_order("X", as_rows("X", data), self._known_names("X"))
        return self.table_of(data, job, **self._ordered(options))

    def predictions(self, data: Any, coverage: float | None = None, **options: Any) -> list[Prediction]:
        """The prediction of each target."""
        trained, table = self.trained, self._table(data, **options)
        self._say("predict", data, table)
        found: list[Prediction] = trained.predict(table, coverage=coverage, device=self._device)
        return found

    def status_of(self, data: Any, **options: Any) -> Sequence[str]:
        """Of each row, `ok`, what to know of its prediction, or why it has none."""
        found: Sequence[str] = self.trained.statuses(self._table(data, **options))
        return found

    @old_names
    def fingerprint(self, data: Any, *old: Any, **options: Any) -> np.ndarray:
        """(row, dim): the learned vector of each row; NaN where it cannot be read. Arguments as in `predict`."""
        options = self._named("predict", old, options)
        table = self._table(data, **options)
        self._say("fingerprint", data, table)
        found: np.ndarray = self.trained.fingerprint(table, self._device)
        self._say_unread("fingerprint", data, options, np.isnan(found).all(axis=1))
        return found

    def _say(self, method: str, data: Any, table: Any) -> None:
        """Warns of what speaks against predictions: texts that are cut, unknown words, numbers that are filled."""
        trained = self.trained
        count = getattr(self.task, "tally", None)
        notes = [] if count is None else count(trained, table).notes(trained.max_tokens)
        statuses = self._of_rows(data, trained.statuses(table))
        doubtful = [row for row, status in enumerate(statuses) if status != OK and status.startswith(OK)]
        if doubtful and not notes:
            first = statuses[doubtful[0]].removeprefix(OK).lstrip(",; ").removeprefix("but ")
            notes.append(
                f"{plural(len(doubtful), 'row lacks', 'rows lack')} something, the first of them "
                f"{row_name(data, doubtful[0])}: {first}; status_of says it of each"
            )
        self._warn(method, notes)

    def _say_unread(self, method: str, data: Any, options: Mapping[str, Any], is_unread: np.ndarray) -> None:
        """Warns of rows that cannot be read, in whose place NaN, or no label, stands."""
        statuses = self.status_of(data, **options) if is_unread.any() else ()
        # Types of nodes that the model does not predict stand among the others in every graph.
        is_unread = is_unread & [not status.endswith(UNLEARNED) for status in statuses] if len(statuses) else is_unread
        if is_unread.any():
            row = int(is_unread.argmax())
            reason = f"{row_name(data, row)}: {statuses[row]}; status_of says why of each"
            found = f"{int(is_unread.sum()):,} of {plural(len(is_unread), 'row')} cannot be read"
            self._warn(method, [f"{found} and nothing is predicted there, the first of them {reason}"])

    def _of_rows(self, data: Any, statuses: Sequence[str]) -> Sequence[str]:
        """The statuses of the rows that were asked for, out of those of a table."""
        return statuses

    @old_names
    def fit(
        self,
        data: Any,
        y: Any = None,
        *old: Any,
        sample_weight: Any = None,
        validation: Any = None,
        **options: Any,
    ) -> Self:
        """Trains the model.

        Args:
            data: The rows.
            y: (row) or (row, target) class labels or numbers; None or NaN where one of several labels, or a number, is
                missing. A Series or a DataFrame names the targets.
            sample_weight: (row).
            validation: (row) True for those that choose the epoch and calibrate intervals; or (data, y), further rows.
                Models of molecules learn from them in the end: score a model on rows that `fit` has not seen.
                By default `validation_size` of the rows, drawn at random.
            options: `groups` (row): rows of one group are all training or all validation rows. And those of `predict`.

        Raises:
            DataError: A row cannot be used; the message says which and why.
            SettingError: A parameter has a value that it cannot have.
        """
        options = self._named("fit", old, {**options, "sample_weight": sample_weight, "validation": validation})
        data = as_rows("X", data)
        self._learn_names(data, y, options)
        with naming_rows(data, y, options.get("validation")):
            return self._fit_rows(data, y, options)

    def _fit_rows(self, data: Any, y: Any, options: dict[str, Any]) -> Self:
        """Trains on rows and those of the validation."""
        if isinstance(validation := options.get("validation"), tuple):
            data, y, options = self._with_rows(data, y, validation, options)
        y = self._targets(data, y)
        if y is None:
            raise DataError(f"{type(self).__name__}.fit requires y to be passed, but the target y is None.")
        cells, task_type = self._cells(y)
        if (weights := options.get("sample_weight")) is not None:
            _check_weights(as_numbers("sample_weight", weights), len(cells))
        return self._fit(data, cells, task_type, **options)

    def _targets(self, data: Any, y: Any) -> Any:
        """The targets as they are given."""
        return y

    def _truth(self, data: Any, y: Any) -> Any:
        """The targets that predictions are compared with, columns taken by their names."""
        return self._targets(data, self._targets_in_order("y", y))

    def _targets_in_order(self, argument: str, y: Any) -> Any:
        """Several targets of a DataFrame in the order of the training; one needs no name."""
        names = self._known_names("y")
        return in_order(argument, y, names) if len(names) > 1 else y

    def _cells(self, y: Any) -> tuple[Any, str]:
        """The targets as the cells of a table, and the type of the task."""
        raise NotImplementedError

    def _with_rows(self, data: Any, y: Any, more: tuple[Any, Any], options: dict[str, Any]) -> tuple[Any, Any, Any]:
        """Rows and targets with those of the validation behind them, whose columns are taken by their names."""
        if others := options.keys() - {"validation", "sample_weight"}:
            raise DataError(f"fit: validation is (data, y), which has no {min(others)}; give a mask (row) instead.")
        if len(more) != 2:
            raise DataError(f"fit: validation holds {plural(len(more), 'part')}; expected (data, y), or a mask (row).")
        added = in_order("validation", as_rows("validation", more[0]), self._known_names("X"))
        y = np.concatenate([plain_array(y), plain_array(self._targets_in_order("y of validation", more[1]))])
        size, num_added = len(self._rows(data)), len(self._rows(added))
        if len(y) != size + num_added:
            raise DataError(f"fit: {plural(size + num_added, 'row')} with validation, but y has {len(y)}.")
        options = {**options, "validation": np.arange(len(y)) >= size}
        if "sample_weight" in options:
            given = np.asarray(options["sample_weight"], dtype=np.float64)
            usual = given.mean() if len(given) else 1.0  # a model may learn from them, too, when they have judged
            options["sample_weight"] = np.concatenate([given, np.full(num_added, usual)])
        if hasattr(data, "columns"):
            return below("validation", data, added), y, options
        return [*self._rows(data), *self._rows(added)], y, options

    def _names_of_run(self) -> dict[str, tuple[str, ...]]:
        names = self.trained.columns.inputs
        return {"X": names} if names else {}

    def _rows(self, data: Any) -> list[Any]:
        refuse_single_text("X", data)
        return data.to_numpy(dtype=object).tolist() if hasattr(data, "to_numpy") else list(data)

    def _fit(
        self,
        data: Any,
        cells: Any,
        task_type: str,
        *,
        sample_weight: Any = None,
        validation: Any = None,
        groups: Any = None,
        **options: Any,
    ) -> Self:
        """Trains on targets as the cells of a table."""
        job = self._job(data, task_type, options)
        table = self._table(data, job, targets=self._with_names(cells), weights=sample_weight, groups=groups, **options)
        if table.num_rows < 2:
            raise DataError("fit: n_samples = 1; expected two rows or more, to train on and to validate.")
        if validation is None:
            size: float = self.validation_size  # type: ignore[attr-defined]
            kind = "random" if groups is None else "group"
            sizes = (1 - size, size, 0)
            splits = split_rows(table, kind=kind, sizes=sizes, seed=job.train.seed, calibration=job.calibration)
        else:
            splits = _masked(table, validation)
            kind = calibration_of(table, splits.train, splits.test)
            splits = replace(splits, calibration=job.calibration or kind)
        self._check_job(job, table)
        prepared = self.task.prepared(job, table, splits)
        self._warn("fit", self.task.warnings(prepared))
        fit(self.task, prepared)
        self.trained_, self.metrics_ = prepared.fitted, self.task.validation_metrics(prepared)
        self._name_classes()
        return self

    def _with_names(self, cells: Any) -> Any:
        """The cells of the targets with the names that y has."""
        import pandas

        names = self._known_names("y")
        return pandas.DataFrame(np.reshape(cells, (len(cells), -1)), columns=list(names)) if names else cells

    def _job(self, data: Any, task_type: str, options: Mapping[str, Any]) -> Any:
        return self.settings(task_type=task_type)

    def _check_job(self, job: Any, table: Any) -> None:
        """Raise SettingError where the data holds what the model cannot use."""

    def _name_classes(self) -> None:
        """Gives the model the names of the classes in place of their numbers."""

    @classmethod
    def _check(cls, trained: Any, folder: str | os.PathLike[str]) -> None:
        if trained.task_type not in cls.task_types:
            raise RunFolderError(
                f"{folder} holds a model for {trained.task_type}; expected {' or '.join(cls.task_types)}."
            )


class TableClassifier(ClassifierMixin, TableEstimator):
    """A classifier of rows: two classes or more, and their probabilities."""

    task_types = CLASSES
    classes_: np.ndarray | list[np.ndarray]
    """(class): the classes in order; where y is (row, target), those of each target."""

    def _cells(self, y: Any) -> tuple[Any, str]:
        columns = label_columns(y)
        known = [self._is_known(labels) for labels in columns]
        self._check_labels(np.any(known, axis=0))
        cells, all_classes = np.full((len(columns[0]), len(columns)), "", dtype=object), []
        for place, (labels, is_there) in enumerate(zip(columns, known)):
            classes, numbers = class_numbers(labels[is_there])
            cells[is_there, place] = [str(number) for number in numbers.tolist()]
            all_classes.append(classes)
        several = len(columns) > 1
        self.classes_ = all_classes if several else all_classes[0]
        return cells if several else cells[:, 0], CLASSES[max(map(len, all_classes)) > 2]

    def _is_known(self, labels: np.ndarray) -> np.ndarray:
        """(row): where a label of a training is known."""
        return has_label(labels)

    def _check_labels(self, has_any: np.ndarray) -> None:
        """Raise DataError for a row without any label."""
        for row in np.flatnonzero(~has_any)[:1]:
            raise DataError(f"fit: {ARRAYS[0]}, row {row} of y has no label; leave the row out.")

    @property
    def _classes_of_targets(self) -> list[np.ndarray]:
        return self.classes_ if isinstance(self.classes_, list) else [self.classes_]

    def _name_classes(self) -> None:
        names = self.trained_.columns.target_columns
        classes = [tuple(each.tolist()) for each in self._classes_of_targets]
        self.trained_.classes = dict(zip(names, classes, strict=True))

    def _restore(self) -> None:
        classes = [np.array(self.trained_.classes[name]) for name in self.trained_.columns.target_columns]
        self.classes_ = classes if len(classes) > 1 else classes[0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _probabilities(self, data: Any, options: Mapping[str, Any]) -> list[np.ndarray]:
        """The probabilities of each target."""
        return [each.probabilities for each in self.predictions(data, **options)]  # type: ignore[misc]

    def _labels(self, probabilities: Sequence[np.ndarray]) -> np.ndarray:
        """(row), or (row, target) where y has that shape: the most probable classes."""
        targets = zip(probabilities, self._classes_of_targets, strict=True)
        columns = [self._most_probable(found, classes) for found, classes in targets]
        if len(columns) == 1:
            return columns[0]
        kinds = {column.dtype.kind for column in columns}
        return np.stack(columns if len(kinds) == 1 else [column.astype(object) for column in columns], axis=1)

    def _most_probable(self, probabilities: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """(row): the most probable class of a target."""
        return classes[probabilities.argmax(axis=1)]

    @old_names
    def predict_proba(self, data: Any, *old: Any, **options: Any) -> np.ndarray | list[np.ndarray]:
        """(row, class): probabilities in the order of `classes_`; NaN for a row that cannot be predicted.

        A list with those of each target, where y is (row, target).
        """
        options = self._named("predict", old, options)
        found = self._probabilities(data, options)
        self._say_unread("predict_proba", data, options, np.isnan(found[0]).any(axis=1))
        return found if len(found) > 1 else found[0]

    @old_names
    def predict(self, data: Any, *old: Any, **options: Any) -> np.ndarray:
        """(row): the most probable class; (row, target) where y has that shape.

        Raises:
            DataError: A row cannot be read: no class could say so.
        """
        options = self._named("predict", old, options)
        found = self._probabilities(data, options)
        for row in np.flatnonzero(np.isnan(found[0]).any(axis=1))[:1]:
            status = self.status_of(data, **options)[row]
            raise DataError(f"predict: {row_name(data, row)} cannot be read: {status}")
        return self._labels(found)

    @old_names
    def score(self, data: Any, y: Any = None, *old: Any, sample_weight: Any = None, **options: Any) -> float:
        """The share of the rows whose class is predicted right, each counted by its weight; of several targets, all.

        A label that is missing in one of several targets does not count.
        """
        options = self._named("score", old, {**options, "sample_weight": sample_weight})
        weight = options.pop("sample_weight", None)
        return accuracy(self._truth(data, y), self.predict(data, **options), weight)


class TableRegressor(RegressorMixin, TableEstimator):
    """A regressor of rows: numbers, and intervals around them."""

    task_types = NUMBERS
    one_target_: bool
    """Whether y has the shape (row), and predictions have it too."""

    def _cells(self, y: Any) -> tuple[Any, str]:
        targets = as_numbers("y", y, in_fit=True)
        self.one_target_ = targets.ndim == 1
        return targets, "regression"

    def _restore(self) -> None:
        self.one_target_ = len(self.trained_.columns.target_columns) == 1

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _shaped(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """The values of all targets in the shape of y."""
        return columns[0] if self.one_target_ else np.stack(columns, axis=1)

    @old_names
    def predict(self, data: Any, *old: Any, return_std: bool = False, **options: Any) -> Any:
        """(row), or (row, target) where y has that shape; NaN for a row that cannot be predicted.

        Args:
            data: The rows.
            old: Further arguments in order, as earlier versions took them.
            return_std: Whether to return the standard deviations of the targets around these as well, each as the
                predictions, as scikit-learn's `GaussianProcessRegressor` does; NaN without validation rows.
            options: Further arguments of the task, by name.
        """
        options = self._named("predict", old, options)
        found = self.predictions(data, **options)
        self._say_unread("predict", data, options, np.isnan(found[0].value))
        values = self._shaped([each.value for each in found])
        return (values, self._shaped([each.std for each in found])) if return_std else values

    @old_names
    def predict_interval(
        self, data: Any, *old: Any, coverage: float | None = None, **options: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """The lower and upper ends of the intervals, each as `predict`; NaN with too few validation rows.

        Args:
            data: As in `predict`.
            old: As in `predict`.
            coverage: The promised probability that a value lies in its interval; that of the constructor by default.
            options: As in `predict`.
        """
        options = self._named("predict_interval", old, options)
        coverage = options.pop("coverage", coverage)
        found = self.predictions(data, coverage, **options)
        self._say_unread("predict_interval", data, options, np.isnan(found[0].value))
        if note := self.trained.interval_note(coverage):
            self._warn("predict_interval", [note])
        return self._shaped([each.low for each in found]), self._shaped([each.high for each in found])

    @old_names
    def score(self, data: Any, y: Any = None, *old: Any, sample_weight: Any = None, **options: Any) -> float:
        """R² over the targets that are known, of several the mean."""
        options = self._named("score", old, {**options, "sample_weight": sample_weight})
        weight = options.pop("sample_weight", None)
        return r2(self._truth(data, y), self.predict(data, **options), self.status_of(data, **options), weight)


def _check_weights(weights: np.ndarray, num_rows: int) -> None:
    """Raise DataError unless there is a weight for each row, and one that is not zero."""
    if weights.shape != (num_rows,):
        raise DataError(f"fit: sample_weight is {weights.shape}; expected a weight for each row, ({num_rows},).")
    if not weights.any():
        raise DataError("fit: every weight in sample_weight is zero; there is nothing to learn from.")


def _masked(table: Any, validation: Any) -> Splits:
    """Training and validation rows by a mask.

    Raises:
        DataError: It has another length, or leaves no row for training or none for validation.
    """
    mask = np.asarray(validation, dtype=bool)
    if mask.shape != (table.num_rows,):
        raise DataError(f"fit: validation is {mask.shape}; expected a mask ({table.num_rows},).")
    train, val = np.flatnonzero(table.trainable & ~mask), np.flatnonzero(table.trainable & mask)
    if not len(train) or not len(val):
        raise DataError(
            f"fit: validation leaves {len(train)} rows with a target to train on and {len(val)} to validate."
        )
    return Splits(train, val, np.zeros(0, dtype=np.int64))
