"""The base of all estimators: parameters, saving and loading."""

import os
import tomllib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import tomli_w

from edgewise.errors import SettingError, UnsupportedError
from edgewise.explain.explanation import Explanation
from edgewise.formatting import plural
from edgewise.learn.estimators.names import column_names, in_order, one_row, series_name
from edgewise.learn.estimators.params import (
    Parameter,
    constructor,
    documented,
    new_parameters,
    old_names,
    parameters_of,
    plain,
    without_flags,
)
from edgewise.learn.renames import renamed
from edgewise.learn.tables.cell import refuse_single_text
from edgewise.learn.tasks.registry import explainable_of
from edgewise.learn.tasks.run import fit
from edgewise.learn.tasks.task import Prepared, Task
from edgewise.learn.training.device import pick_device
from edgewise.learn.training.document import read_part
from edgewise.learn.training.folder import RunFolder, corrupt_as_run_error

try:
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import NotFittedError as _NotFittedError
except ModuleNotFoundError:
    # A saved model is loaded and used without scikit-learn.
    BaseEstimator = object  # type: ignore[assignment, misc]
    _NotFittedError = ValueError  # type: ignore[assignment, misc]

KEY = "estimator"
"""Where model.json holds the parameters of an estimator, as TOML, which has infinity."""
NAMES = "column_names"
"""Where it holds the names of the columns that an estimator was trained on, by the argument that has them."""


class NotFittedError(_NotFittedError, SettingError):
    """An estimator is used before `fit` or `load`; scikit-learn's own error, and one of Edgewise."""


class Estimator(BaseEstimator):
    """A scikit-learn compatible model. The constructor stores its parameters; `fit` checks them."""

    parameters: ClassVar[Mapping[str, Parameter]] = {}
    """Those of the constructor, by name."""
    task: ClassVar[Task]
    """The task."""
    fitted_type: ClassVar[Any]
    """What is trained; has `save` and `load`."""
    keep: ClassVar[tuple[str, ...]] = ()
    """Settings of runs over files that the estimator needs, too."""
    required: ClassVar[Mapping[str, Any]] = {"data": ("the data",)}
    """Settings that a job needs, but an estimator does not: names of files and columns."""
    positional: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """By method, what further positional arguments mean."""
    options: ClassVar[tuple[str, ...]] = ()
    """Further keyword arguments of all methods, and of `fit` alone (`fit_options`)."""
    fit_options: ClassVar[tuple[str, ...]] = ()
    trained_: Any
    """What has been trained; there after `fit` or `load`."""
    named: ClassVar[tuple[str, ...]] = ()
    """Arguments beside the data whose columns may have names."""
    feature_names_in_: np.ndarray
    """(column): the names of the columns, where `fit` got a DataFrame whose columns have names."""
    column_names_: dict[str, tuple[str, ...]]
    """The same by argument, `X`, `y` and those in `named`."""
    metrics_: dict[str, Any]
    """Its scores on the validation rows, and where the model was trained on files on all splits; there after `fit` or
    `load`, empty where the folder has none."""

    def __init_subclass__(
        cls,
        *,
        models: Iterable[str | Mapping[str, Any]] | None = None,
        own: Mapping[str, Any] | None = None,
        **attributes: Any,
    ) -> None:
        """Makes the constructor out of the settings.

        Args:
            models: The models, by name or settings, whose settings become parameters, beside those of the default.
            own: Parameters that are no setting, or have another default.
            attributes: Of the class, see above.
        """
        super().__init_subclass__()
        for name, value in attributes.items():
            setattr(cls, name, value)
        if models is not None:
            variants = [{}, *({"model": each} if isinstance(each, str) else each for each in models)]
            jobs = [(each, cls.task.settings_type.of({**cls.required, **each}, cls.__name__)) for each in variants]
            cls.parameters = parameters_of(jobs, cls.keep, own or {})
            cls.__init__ = constructor(cls.parameters)  # type: ignore[method-assign]
        if cls.parameters:
            cls.__doc__ = documented(cls.__doc__, cls.parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters of the constructor."""
        return {name: getattr(self, name) for name in self.parameters}

    def set_params(self, **params: Any) -> Self:
        """Sets parameters."""
        for name, value in new_parameters(type(self).__name__, params, self.parameters).items():
            setattr(self, name, value)
        return self

    def given(self) -> dict[str, Any]:
        """The parameters that differ from their default."""
        values = self.get_params()
        return {name: values[name] for name, each in self.parameters.items() if each.is_given(values[name])}

    def settings(self, **fixed: Any) -> Any:
        """The job that the parameters describe.

        Args:
            fixed: Settings that follow from the data.

        Raises:
            SettingError: A parameter has a value that it cannot have.
        """
        found = {self.parameters[name].field: plain(value) for name, value in self.given().items()}
        found.pop("validation_size", None)
        if not 0 <= getattr(self, "validation_size", 0) < 1:
            raise SettingError(
                f"validation_size is {self.validation_size}; expected at least 0 and below 1."  # type: ignore[attr-defined]
            )
        return self.task.settings_type.of({**self.required, **found, **fixed}, type(self).__name__)

    @property
    def trained(self) -> Any:
        """What has been trained; raises NotFittedError before."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(…) or load(folder) first.")
        return self.trained_

    def _train(self, prepared: Prepared) -> Self:
        """Trains and scores the model."""
        self._warn("fit", self.task.warnings(prepared))
        self.metrics_ = self.task.evaluate(prepared, fit(self.task, prepared))
        self.trained_ = prepared.fitted
        return self

    @old_names
    def explain(self, item: Any, target: Any = None, label: Any = None, **options: Any) -> Explanation:
        """One item, explained: where the model attends, and what changes its prediction.

        Args:
            item: One of what `predict` takes: a text, or one for each column, which a dict, a Series or a DataFrame of
                one row may name; the words of a sentence; a prompt.
            target: What is explained: a target by its name; of tags and translations a word, by its place or itself.
            label: The class, the tag or the token whose probability is explained; the predicted one by default.
            options: `top`, how many of the strongest weights of each token are shown; and `methods`, names of methods:
                see `edgewise.explain.methods`.

        Raises:
            SettingError: There is no such target, label or method.
            UnsupportedError: There is no explanation for models of this kind.
        """
        kind = explainable_of(self.task)
        if kind is None:
            raise UnsupportedError(f"{type(self).__name__} has no explanations.")
        options = {"target": target, "label": label, "top": None, **options}
        columns = getattr(getattr(self.trained, "columns", None), "inputs", ())
        item = one_row("item", item, self._known_names("X"), columns)
        item = item.to_numpy(dtype=object)[0].tolist() if hasattr(item, "columns") else item
        return kind(self.trained).explain(kind.row(item), **options)

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the trained model to a folder that `load` and `edgewise predict` read.

        Raises:
            NotFittedError: There is none yet.
            RunFolderError: The folder holds a run, and `overwrite` is False; or it is no place for one.
        """
        trained, text = self.trained, tomli_w.dumps(plain(self.given()))
        with RunFolder(Path(folder)).claimed(overwrite=overwrite) as claimed:
            claimed.begin()
            trained.save(claimed)
            names = getattr(self, "column_names_", {})
            added = {KEY: text, **({NAMES: names} if names else {})}
            claimed.write_model({**claimed.read_json("model.json"), **added})

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """The estimator of a run folder, which `save` or `edgewise train` wrote, with the parameters of its training.

        Raises:
            RunFolderError: It is damaged, or holds a model for another task.
        """
        found = RunFolder.finished(folder)
        trained = cls.fitted_type.load(found)
        cls._check(trained, folder)
        with corrupt_as_run_error(found.path):
            loaded = cls(**cls._read_parameters(found))
        loaded.trained_ = trained
        loaded.metrics_ = found.read_json("metrics.json") if found.is_finished else {}
        loaded._restore()
        content = found.read_json("model.json")
        names = read_part(dict[str, list[str]], content.get(NAMES, {}), NAMES, found.path / "model.json")
        loaded._set_names({argument: tuple(each) for argument, each in names.items()})
        if KEY not in content:
            loaded._set_names(loaded._names_of_run())
        return loaded

    @classmethod
    def _read_parameters(cls, folder: RunFolder) -> dict[str, Any]:
        """The parameters of the estimator in a folder, or those that the settings of its command are."""
        text = folder.read_json("model.json").get(KEY)
        if isinstance(text, str):
            return new_parameters(cls.__name__, tomllib.loads(text), cls.parameters, warn=False)
        if not folder.is_started:
            return {}
        names = {each.field: name for name, each in cls.parameters.items()}
        config = {name.replace("-", "_"): value for name, value in folder.read_config().items()}
        config = renamed(config, names)
        return {names[field]: value for field, value in config.items() if field in names}

    @classmethod
    def _check(cls, trained: Any, folder: str | os.PathLike[str]) -> None:
        """Raise RunFolderError where a model is none of this estimator."""

    def _restore(self) -> None:
        """Sets the attributes that follow from the trained model."""

    def _learn_names(self, data: Any, y: Any, options: Mapping[str, Any]) -> None:
        """Remembers what a training calls its columns; those of a training before are forgotten."""
        held = {"X": data, "y": y, **{name: options[name] for name in self.named if name in options}}
        found = {argument: column_names(argument, values) for argument, values in held.items()}
        found |= {argument: names for argument, names in getattr(data, "column_names", {}).items() if names}
        found["y"] = found["y"] or series_name(y)
        self._set_names({argument: names for argument, names in found.items() if names})

    def _set_names(self, names: dict[str, tuple[str, ...]]) -> None:
        self.column_names_ = names
        self.__dict__.pop("feature_names_in_", None)
        if "X" in names:
            self.feature_names_in_ = np.array(names["X"], dtype=object)

    def _names_of_run(self) -> dict[str, tuple[str, ...]]:
        """The names of columns in the files that a run of the command line was trained on, by argument."""
        return {}

    def _known_names(self, argument: str) -> tuple[str, ...]:
        """The names of the columns of an argument in the order of the training; none where they had no names."""
        return getattr(self, "column_names_", {}).get(argument, ())

    def _ordered(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments with the columns of DataFrames in the order of the training; see `in_order`."""
        return {name: in_order(name, value, self._known_names(name)) for name, value in options.items()}

    def _named(self, method: str, old: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Any]:
        """The further arguments of a method by their names; those that are None are left out.

        Raises:
            TypeError: There are too many, or one is not known.
        """
        names, owner = self.positional.get(method, ()), f"{type(self).__name__}.{method}()"
        if len(old) > len(names):
            raise TypeError(f"{owner} takes {plural(len(names), 'more positional argument')}, but {len(old)} came.")
        found = dict(zip(names, old)) | {name: value for name, value in options.items() if value is not None}
        known = (*names, *self.options, *(self.fit_options if method == "fit" else ()))
        if unknown := found.keys() - set(known) - {"sample_weight", "validation"}:
            raise TypeError(f"{owner} got an unexpected keyword argument {min(unknown)!r}.")
        for name, value in found.items():
            if isinstance(value, str | bytes):
                refuse_single_text(name, value)
        return {name: value for name, value in found.items() if value is not None}

    def _warn(self, method: str, notes: Sequence[str]) -> None:
        """Warns of what the command line says in the same place, each once."""
        for note in notes:
            said = without_flags(note.removeprefix("warning: "), self.parameters)
            warnings.warn(f"{method}: {said}.", stacklevel=5)

    def _refuse(self, **given: tuple[Any, str]) -> None:
        """Raise SettingError where an argument of `fit` is given that this estimator cannot use, and say why."""
        for name, (value, reason) in given.items():
            if value is not None:
                raise SettingError(f"{type(self).__name__}.fit: {name} does nothing here: {reason}; leave it out.")

    @property
    def _device(self) -> str:
        return pick_device(self.device)  # type: ignore[attr-defined]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "trained_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags
