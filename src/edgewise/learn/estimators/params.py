"""Constructor parameters of estimators, made from the fields of the settings; and arguments by their old names."""

import dataclasses
import difflib
import functools
import inspect
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from types import NoneType
from typing import Any, TypeVar, get_args

import numpy as np

from edgewise.errors import DataError, SettingError, UnsupportedError
from edgewise.learn.readers.graphs.source import GraphColumns, GraphSource, GraphsSource
from edgewise.learn.renames import ARGUMENTS, SETTINGS
from edgewise.learn.settings import helps
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tables.options import TableFormat

Result = TypeVar("Result")

FLAG = re.compile(r"(?<![\w-])--(no-)?([a-z][a-z0-9]*(?:-[a-z0-9]+)*)")
AUTO = "auto"
"""The default of a parameter whose value follows from the model, the data or the machine."""
FIELDS = {"random_state": "seed", "attention_score": "score"}
"""Parameters that are called otherwise than their setting: scikit-learn has its own word, or a method has that name."""
OF_FILES = {
    *("data", "task_type", "split", "split_sizes", "data_seed", "num_folds", "num_repeats", "fold"),
    *("metrics", "strict", "baselines", "time_column", "gaps", "validation_data"),
    *(each.name for kind in (Columns, GraphColumns, GraphSource, GraphsSource, TableFormat) for each in fields(kind)),
}
"""Settings of a run over files, which an estimator over arrays does not need."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a constructor."""

    field: str
    """The setting."""
    default: Any
    """`auto` where it follows from something else."""
    type: Any = Any
    """The type of the setting."""
    help: str = ""
    """What it means, in a sentence."""

    def is_given(self, value: Any) -> bool:
        """Whether a value is another one than the default; None is the default where the setting cannot be None."""
        if value is None and NoneType not in get_args(self.type):
            return False
        return type(value) is not type(self.default) or bool(value != self.default)


def parameters_of(
    jobs: Iterable[tuple[Mapping[str, Any], Any]], keep: Iterable[str], own: Mapping[str, Any]
) -> dict[str, Parameter]:
    """The parameters of an estimator: the settings that some jobs have, with their defaults.

    Args:
        jobs: What chooses a model, and the job that comes of it, the default first. Where other settings of the jobs
            differ, the default of the parameter is `auto`.
        keep: Names in `OF_FILES` that the estimator needs.
        own: Parameters that are no setting, or have another default, and their defaults.
    """
    found: dict[str, Parameter] = {}
    names = {field: name for name, field in FIELDS.items()}
    for chosen, job in jobs:
        for kind, field, value in _settings_of(job):
            name = names.get(field.name, field.name)
            if field.name in OF_FILES and field.name not in keep:
                continue
            if name not in found:
                default = AUTO if name == "threads" else value
                found[name] = Parameter(field.name, default, field.type, helps(kind).get(field.name, ""))
            elif name not in chosen and found[name].default != value:
                found[name] = dataclasses.replace(found[name], default=AUTO)
    for name, default in own.items():
        known = found.get(name, Parameter(name, default, type(default) | None))
        found[name] = dataclasses.replace(known, default=default, help=known.help or HELP.get(name, ""))
    return {"model": found.pop("model"), **found} if "model" in found else found


HELP = {
    "model": "The model by its name, such as lstm, gpt2 or bert.",
    "validation_size": "The fraction of the rows for validation, where `fit` is given no `validation`.",
}


def _settings_of(job: Any) -> Iterator[tuple[type, "dataclasses.Field[Any]", Any]]:
    """The fields of a job and of the settings in it: their class, the field and the value."""
    for field in fields(job):
        value = getattr(job, field.name)
        if dataclasses.is_dataclass(value):
            yield from ((type(value), each, getattr(value, each.name)) for each in fields(value))
        else:
            yield type(job), field, value


def constructor(parameters: Mapping[str, Parameter]) -> Callable[..., None]:
    """An `__init__` that stores its parameters, unchanged, as scikit-learn demands; its signature lists them."""

    def __init__(self: Any, **given: Any) -> None:  # noqa: N807
        given = new_parameters(type(self).__name__, given, parameters)
        for name, parameter in parameters.items():
            setattr(self, name, given.get(name, parameter.default))

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    listed = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=each.type)
        for name, each in parameters.items()
    ]
    __init__.__signature__ = inspect.Signature([own, *listed])  # type: ignore[attr-defined]
    return __init__


def documented(text: str | None, parameters: Mapping[str, Parameter]) -> str:
    """A docstring with the parameters behind it."""
    listed = "".join(f"\n    {name} (default: {each.default!r}): {each.help}" for name, each in parameters.items())
    return f"{inspect.cleandoc(text or '')}\n\nArgs:{listed}\n"


def new_parameters(owner: str, given: Mapping[str, Any], known: Iterable[str], *, warn: bool = True) -> dict[str, Any]:
    """Parameters by their new names.

    Args:
        owner: The estimator.
        given: Parameters, perhaps by old names; `more`, the old name for a dict of further ones, is spread out.
        known: All parameters.
        warn: Whether old names give a warning.

    Raises:
        SettingError: A name is not known.
    """
    known = list(known)
    more = given.get("more", {}) or {}
    if "more" in given and warn:
        _deprecated(owner, "more", "the names of its content as parameters")
    found = {}
    for name, value in {**{name: value for name, value in given.items() if name != "more"}, **more}.items():
        if name not in known and SETTINGS.get(name) in known:
            if warn and name not in more:
                _deprecated(owner, name, SETTINGS[name])
            name = SETTINGS[name]
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0].replace('_', '-')!r}?" if close else "."
            hint = f"; {name} is of runs over files: give the rows to fit." if name in OF_FILES else hint
            raise SettingError(f"{owner} has the unknown setting {name.replace('_', '-')!r}{hint}")
        found[name] = value
    return found


def old_names(method: Callable[..., Result]) -> Callable[..., Result]:
    """A method that takes the old names of its arguments too; `X`, scikit-learn's name of the data, without warning."""
    known = inspect.signature(method).parameters
    first = next(name for name in known if name != "self")

    @functools.wraps(method)
    def renaming(self: Any, *args: Any, **given: Any) -> Result:
        found = {}
        for name, value in given.items():
            new = first if name == "X" else ARGUMENTS.get(name, name)
            if new not in ("data", *known, *self.options, *self.fit_options):
                new = name  # an old name of something else, such as a layer's
            new = first if new == "data" and "data" not in known else new
            if new != name and name != "X" and name not in known:
                _deprecated(f"{type(self).__name__}.{method.__name__}", name, new)
            found[name if name in known else new] = value
        try:
            return method(self, *args, **found)
        except (DataError, SettingError, UnsupportedError) as error:
            error.args = (without_flags(str(error), self.parameters), *error.args[1:])
            raise

    return renaming


def without_flags(message: str, parameters: Mapping[str, Parameter]) -> str:
    """A message with the parameters of an estimator in place of the flags of the command line.

    Args:
        message: Any; `--no-baselines` becomes `baselines=False`, `--context 2` becomes `context 2`.
        parameters: Those of the constructor, by name.
    """
    names = {each.field: name for name, each in parameters.items()}

    def parameter(flag: "re.Match[str]") -> str:
        name = flag[2].replace("-", "_")
        if name not in names and name not in OF_FILES:
            return flag[0]
        return names.get(name, name) + ("=False" if flag[1] else "")

    return FLAG.sub(parameter, message)


def _deprecated(owner: str, name: str, new: str) -> None:
    warnings.warn(f"{owner}: {name} is now {new}; the old name goes with the next release.", DeprecationWarning, 4)


def plain(value: Any) -> Any:
    """Numbers of numpy as Python's, and nothing that is None."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return type(value)(plain(each) for each in value)
    return value.item() if isinstance(value, np.generic) else value
