"""Parameters of constructors: those of an estimator, the settings that they stand for, and messages that name them."""

import functools
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from types import NoneType
from typing import Concatenate, ParamSpec, TypeVar, get_args

import numpy as np

from edgewise.errors import EdgewiseError, SettingError
from edgewise.learn.readers.graphs.source import GraphColumns, GraphSource, GraphsSource
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tables.options import TableFormat
from edgewise.learn.training.device import usual_tensors

Owner = TypeVar("Owner")
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

FLAG = re.compile(r"(?<![\w-])--(no-)?([a-z][a-z0-9]*(?:-[a-z0-9]+)*)")
AUTO = "auto"
"""The default of a parameter whose value follows from the model, the data or the machine."""
SETTING_OF = {"random_state": "seed", "attention_score": "score"}
"""Parameters that are called otherwise than their setting: scikit-learn has its own word, or a method has that name."""
PARAMETER_OF = {setting: name for name, setting in SETTING_OF.items()}
"""The same the other way round."""
FILE_SETTINGS = {
    *("data", "nodes", "task_type", "split", "split_sizes", "data_seed", "num_folds", "num_repeats", "fold"),
    *("metrics", "strict", "baselines", "time_column", "gaps", "validation_data", "overwrite", "whole_graph"),
    *(
        field.name
        for settings in (Columns, GraphColumns, GraphSource, GraphsSource, TableFormat)
        for field in fields(settings)
    ),
}
"""Settings of a run over files, which an estimator over arrays does not need."""


def parameters_of(estimator_type: type) -> dict[str, inspect.Parameter]:
    """The parameters of a class's constructor, by name."""
    parameters = inspect.signature(estimator_type.__init__).parameters  # type: ignore[misc]
    return {name: parameter for name, parameter in parameters.items() if name != "self"}


def values_of(estimator: object) -> dict[str, object]:
    """The values of an estimator's parameters, by name."""
    return {name: getattr(estimator, name) for name in parameters_of(type(estimator))}


def changed_values(estimator: object) -> dict[str, object]:
    """The parameters of an estimator that differ from their default."""
    parameters = parameters_of(type(estimator))
    return {name: value for name, value in values_of(estimator).items() if _differs(parameters[name], value)}


def _differs(parameter: inspect.Parameter, value: object) -> bool:
    """Whether a value is another one than the default; None is the default where the parameter cannot be None."""
    if value is None and NoneType not in get_args(parameter.annotation):
        return False
    return type(value) is not type(parameter.default) or bool(value != parameter.default)


def changed_settings(estimator: object) -> dict[str, object]:
    """The settings that the changed parameters of an estimator stand for.

    Raises:
        SettingError: `validation_size` is not a fraction, `random_state` not a whole number, or `logger` names one
            that would get nothing.
    """
    size = getattr(estimator, "validation_size", 0)
    if not isinstance(size, int | float | np.number) or not 0 <= size < 1:
        raise SettingError(f"validation_size is {size}; expected at least 0 and below 1.")

    if not isinstance(seed := getattr(estimator, "random_state", 0), int | np.integer):
        raise SettingError(f"random_state is {seed!r:.60}; expected a whole number.")

    if (logger := plain(getattr(estimator, "logger", None))) not in (None, "csv"):
        raise SettingError(
            f"logger is {logger!r:.60}; an estimator writes no logs: leave it out, or train with `edgewise train`."
        )

    changed = {name: plain(value) for name, value in changed_values(estimator).items() if name != "validation_size"}
    return {SETTING_OF.get(name, name): value for name, value in changed.items()}


def plain(value: object) -> object:
    """Numbers and arrays of numpy as Python's, and nothing that is None."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items() if part is not None}
    if isinstance(value, list | tuple):
        return type(value)(plain(part) for part in value)
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


def parameters_from_config(config: Mapping[str, object], parameters: Collection[str]) -> dict[str, object]:
    """The parameters that the settings of a run of the command line are; settings without one are left out."""
    settings = {name.replace("-", "_"): value for name, value in config.items()}
    named = {PARAMETER_OF.get(name, name): value for name, value in settings.items()}
    return {name: value for name, value in named.items() if name in parameters}


def without_flags(message: str, parameters: Collection[str]) -> str:
    """A message with the parameters of an estimator in place of the flags of the command line.

    Args:
        message: whichever; `--no-baselines` becomes `baselines=False`, `--context 2` becomes `context 2`, and the
            flag `-o` is left out.
        parameters: The names of those of the constructor.
    """

    def parameter(flag: "re.Match[str]") -> str:
        setting = flag[2].replace("-", "_")
        name = setting if setting in parameters else PARAMETER_OF.get(setting, setting)
        if name not in parameters and setting not in FILE_SETTINGS:
            return flag[0]
        return (name if name in parameters else setting) + ("=False" if flag[1] else "")

    return FLAG.sub(parameter, message.replace(" with -o", ""))


def naming_parameters(
    function: Callable[Concatenate[Owner, Arguments], Result],
) -> Callable[Concatenate[Owner, Arguments], Result]:
    """A function of an estimator whose errors name parameters in place of flags, and leave the estimator as it was: the
    names and edges of a training that failed belong to no model.

    Its tensors lie on the CPU or on the estimator's `device`, wherever `torch.set_default_device` puts others.
    """

    @functools.wraps(function)
    def wrapper(estimator: Owner, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        before, has_returned = dict(vars(estimator)), False
        try:
            with usual_tensors():
                result = function(estimator, *args, **kwargs)
            has_returned = True
            return result
        except EdgewiseError as error:
            error.args = (without_flags(str(error), parameters_of(type(estimator))), *error.args[1:])
            raise
        finally:
            if not has_returned:
                vars(estimator).clear()
                vars(estimator).update(before)

    return wrapper
