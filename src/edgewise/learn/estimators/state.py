"""What every estimator holds: its trained model, its scores, the names of its columns; and how a folder holds it."""

import os
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Generic, TypeVar

import numpy as np
import tomli_w

from edgewise.errors import EdgewiseError, RunFolderError, SettingError, UnsupportedError
from edgewise.explain.explanation import Explanation
from edgewise.explain.methods import Choice
from edgewise.learn.estimators.names import column_names, has_columns, one_row, series_name
from edgewise.learn.estimators.parameters import (
    changed_settings,
    changed_values,
    naming_parameters,
    parameters_from_config,
    parameters_of,
    plain,
    without_flags,
)
from edgewise.learn.estimators.scikit_learn import BaseEstimator
from edgewise.learn.estimators.scikit_learn import NotFittedError as _NotFittedError
from edgewise.learn.files import JsonObject
from edgewise.learn.fitted import Fitted
from edgewise.learn.tasks.config import RunSettings, defaults_of
from edgewise.learn.tasks.registry import explainable_of
from edgewise.learn.tasks.run import fit
from edgewise.learn.tasks.task import Prepared, Task
from edgewise.learn.training.device import pick_device, usual_tensors
from edgewise.learn.training.document import read_part
from edgewise.learn.training.folder import RunFolder

PARAMETERS_KEY = "estimator"
"""The key of model.json with the constructor parameters that are not the defaults, as TOML, which has infinity."""
NONE_KEY = "estimator_none"
"""The key with the names of those that are None, which TOML does not have."""
COLUMN_NAMES_KEY = "column_names"
"""The key of model.json with the names of the columns that an estimator was trained on, by argument."""
Y_HAS_COLUMNS_KEY = "y_has_columns"
"""The key that says whether y was (row, target), the shape of predictions; also of one target."""
PACKAGE = str(Path(__file__).parents[2]) + os.sep
"""The files of Edgewise, which no warning points to."""

Names = dict[str, tuple[str, ...]]
"""The names of the columns of DataFrames, by the argument that has them."""


class NotFittedError(_NotFittedError, EdgewiseError):
    """An estimator is used before `fit` or `load`; scikit-learn's own error, and one of Edgewise."""


class Estimator(BaseEstimator):
    """A model that scikit-learn can clone, search and put into a pipeline; the constructor stores its parameters."""

    model: str | None
    """The name of the model."""
    device: str
    """Where it is computed."""
    validation_size: float
    """The fraction of the rows that is held out for validation; of estimators over rows."""
    trained_: Any
    """What has been trained; there after `fit` or `load`, as all that ends in an underscore."""
    metrics_: JsonObject
    """Its scores on the splits that were scored; empty where a folder has none."""
    column_names_: Names
    """The names of the columns that `fit` was given, by argument: `X`, `y` and those beside them."""
    feature_names_in_: np.ndarray
    """(column): the names of the columns of X, where `fit` got a DataFrame whose columns have names."""
    n_features_in_: int
    """The features of X, where it is an array of numbers."""

    @property
    def trained(self) -> Any:
        """What has been trained; raises NotFittedError before."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(…) or load(folder) first.")
        return self.trained_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "trained_")


EstimatorType = TypeVar("EstimatorType", bound=Estimator)
Job = TypeVar("Job", bound=RunSettings)
Trained = TypeVar("Trained", bound=Fitted)


def no_names(trained: object) -> Names:
    """No names of columns: what `Adapter.names_of_run` is by default."""
    return {}


@dataclass(frozen=True, kw_only=True)
class Adapter(Generic[Job, Trained]):
    """How estimators use a task."""

    task: Task[Job, Any, Any, Trained]
    """The task."""
    placeholders: Mapping[str, object] = field(default_factory=lambda: {"data": ("the data",)})
    """Settings that a job needs and arrays do not have: names of files and columns."""
    names_of_run: Callable[[Trained], Names] = no_names
    """From a run of `edgewise train`, the names of the columns of each argument of `fit`."""


def settings_of(estimator: Estimator, adapter: Adapter[Job, Trained], **fixed: object) -> Job:
    """The settings of the job that the parameters of an estimator describe.

    Args:
        estimator: The estimator.
        adapter: How it uses its task.
        fixed: Settings that follow from the data.

    Raises:
        SettingError: A parameter has a value that it cannot have.
    """
    values = {**adapter.placeholders, **changed_settings(estimator), **fixed}
    return adapter.task.settings.of(values, type(estimator).__name__)


def train(estimator: Estimator, adapter: Adapter, prepared: Prepared) -> None:
    """Train a model, and score it on all splits."""
    warn(estimator, "fit", adapter.task.warnings(prepared))
    estimator.metrics_ = adapter.task.evaluate(prepared, fit(adapter.task, prepared))
    estimator.trained_ = prepared.fitted


@naming_parameters
def explain_item(
    estimator: Estimator,
    adapter: Adapter,
    item: object,
    *,
    target: str | int | None = None,
    label: object = None,
    top: int | None = None,
    methods: Choice = None,
) -> Explanation:
    """Explain the prediction for one item.

    Raises:
        SettingError: Unknown target, label or method.
        UnsupportedError: Models of this kind cannot be explained.
    """
    explainable = explainable_of(adapter.task)
    if explainable is None:
        raise UnsupportedError(f"{type(estimator).__name__} cannot be explained.")

    columns = getattr(getattr(estimator.trained, "columns", None), "inputs", ())
    row = one_row("item", item, names_of(estimator, "X"), columns)
    row = row.to_numpy(dtype=object)[0].tolist() if has_columns(row) else row
    explained = explainable.of(estimator.trained)
    return explained.explain(explainable.row(row), target=target, label=label, top=top, methods=methods)


@naming_parameters
def save(estimator: Estimator, folder: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Write a trained model to a folder that `load` and `edgewise predict` read.

    Raises:
        NotFittedError: There is none yet.
        RunFolderError: The folder holds a run, and `overwrite` is False; or a run cannot be written there.
    """
    changed = {name: plain(value) for name, value in changed_values(estimator).items()}
    are_none = sorted(name for name, value in changed.items() if value is None)
    trained = estimator.trained
    parameters = tomli_w.dumps({name: value for name, value in changed.items() if value is not None})
    with RunFolder(Path(folder)).claimed(overwrite=overwrite) as claimed:
        claimed.begin()
        trained.save(claimed)

        names = getattr(estimator, "column_names_", {})
        added: JsonObject = {PARAMETERS_KEY: parameters}
        y_has_columns = not getattr(estimator, "one_target_", True)
        optional = ((NONE_KEY, are_none), (COLUMN_NAMES_KEY, names), (Y_HAS_COLUMNS_KEY, y_has_columns))
        added |= {key: value for key, value in optional if value}
        claimed.write_model({**claimed.read_object("model.json"), **added})


def load(
    kind: type[EstimatorType],
    adapter: Adapter[Job, Trained],
    folder: str | os.PathLike[str],
    check: Callable[[Trained], None] = lambda trained: None,
) -> EstimatorType:
    """The estimator of a run folder, which `save` or `edgewise train` wrote, with the parameters of its training.

    Args:
        kind: The class of the estimator.
        adapter: How it uses its task.
        folder: The folder.
        check: Raises RunFolderError where a trained model does not belong to the class.

    Raises:
        RunFolderError: It is damaged, or holds a model for another task.
    """
    run = RunFolder.finished(folder)
    with usual_tensors():
        trained = adapter.task.load(run)
    check(trained)
    parameters = _read_parameters(kind, run)
    try:
        estimator = kind(**parameters)
    except TypeError as error:
        raise RunFolderError(f"{run.path}: the parameters of {kind.__name__} cannot be read: {error}.") from error
    # As after the training: another number of threads may round otherwise.
    threads = changed_values(estimator).get("threads")
    trained.threads = threads if isinstance(threads, int) else defaults_of(adapter.task.settings)["threads"]
    estimator.trained_ = trained
    estimator.metrics_ = run.read_object("metrics.json") if run.is_finished else {}

    content = run.read_object("model.json")
    names = read_part(
        dict[str, list[str]], content.get(COLUMN_NAMES_KEY, {}), COLUMN_NAMES_KEY, run.path / "model.json"
    )
    was_saved_from_python = PARAMETERS_KEY in content
    columns = {argument: tuple(listed) for argument, listed in names.items()}
    set_names(estimator, columns if was_saved_from_python else adapter.names_of_run(trained))
    return estimator


def y_had_columns(folder: str | os.PathLike[str]) -> bool:
    """Whether y was (row, target) in the training of a folder that `save` wrote."""
    run = RunFolder.finished(folder)
    value = run.read_object("model.json").get(Y_HAS_COLUMNS_KEY, False)
    return bool(read_part(bool, value, Y_HAS_COLUMNS_KEY, run.path / "model.json"))


def _read_parameters(kind: type[Estimator], run: RunFolder) -> JsonObject:
    """The constructor parameters in a folder; of a run of `edgewise train`, those that its settings stand for."""
    content, path = run.read_object("model.json"), run.path / "model.json"
    if PARAMETERS_KEY in content:
        try:
            parameters: JsonObject = tomllib.loads(read_part(str, content[PARAMETERS_KEY], PARAMETERS_KEY, path))
        except tomllib.TOMLDecodeError as error:
            raise RunFolderError(f"{path}: {PARAMETERS_KEY} is damaged: {error}.") from error
        return parameters | dict.fromkeys(read_part(list[str], content.get(NONE_KEY, []), NONE_KEY, path))
    return parameters_from_config(run.read_config(), parameters_of(kind)) if run.is_started else {}


def learn_names(estimator: Estimator, arguments: Mapping[str, object], names_of_rows: Names) -> None:
    """Remember what a training calls its columns; those of a training before are forgotten.

    Args:
        estimator: The estimator.
        arguments: X, y and what stands beside them, by name.
        names_of_rows: The names of columns of arguments that X holds.
    """
    names = {argument: column_names(argument, values) for argument, values in arguments.items()}
    names |= {argument: listed for argument, listed in names_of_rows.items() if listed}
    if not names.get("y"):
        names["y"] = series_name(arguments.get("y"))
    set_names(estimator, {argument: listed for argument, listed in names.items() if listed})


def set_names(estimator: Estimator, names: Names) -> None:
    """Set the names of the columns of a training, by argument."""
    estimator.column_names_ = names
    estimator.__dict__.pop("feature_names_in_", None)
    if "X" in names:
        estimator.feature_names_in_ = np.array(names["X"], dtype=object)


def names_of(estimator: Estimator, argument: str) -> tuple[str, ...]:
    """The names of the columns of an argument in the order of the training; none where they had no names."""
    names: Names = getattr(estimator, "column_names_", {})
    return names.get(argument, ())


def one_of(method: str, **arguments: object) -> object:
    """The one of two arguments with the same meaning that is given; None where neither is.

    Raises:
        SettingError: both are.
    """
    given = [name for name, value in arguments.items() if value is not None]
    if len(given) > 1:
        raise SettingError(f"{method}: {' and '.join(given)} are both given and mean the same; leave one out.")
    return arguments[given[0]] if given else None


def refuse(estimator: Estimator, **refused: tuple[object, str]) -> None:
    """Raise SettingError where `fit` is given an argument that an estimator cannot use; each comes with the reason."""
    for name, (value, reason) in refused.items():
        if value is not None:
            raise SettingError(f"{type(estimator).__name__}.fit: {name} does nothing here: {reason}; leave it out.")


def device_of(estimator: Estimator) -> str:
    """The device that an estimator computes on."""
    return pick_device(estimator.device or "auto")


def warn(estimator: Estimator, method: str, notes: Iterable[str]) -> None:
    """Issue the notes of the command line as warnings of Python, with parameters in place of flags."""
    for note in notes:
        text = without_flags(note.removeprefix("warning: "), parameters_of(type(estimator)))
        warn_caller(f"{method}: {text}{'' if text.endswith('?') else '.'}")


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, and point to the line outside Edgewise that called it."""
    warnings.warn(message, category, stacklevel=_levels_to_caller())


def _levels_to_caller() -> int:
    """The `stacklevel`, for a warning that `warn_caller` issues, of the first frame outside Edgewise."""
    frame: FrameType | None = sys._getframe(2)
    level = 2
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE) and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    return level
