"""A setting is declared once, as a dataclass field: type, default, bounds, other names; its docstring is its help.

    epochs: int | None = setting(None, at_least=1, aliases=("num-epochs",))
    \"\"\"Passes over the training rows; None is a number that fits the table.\"\"\"

Flags, config files, constructor parameters and the tables of the docs come from these fields. A library (jsonargparse,
tyro, cyclopts) would build the objects itself; here a flag that was not typed must leave no trace, since the model that
another flag names brings its own defaults.
"""

import ast
import dataclasses
import inspect
import itertools
import math
import sys
import textwrap
from collections.abc import Mapping
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Union, get_args, get_origin

from edgewise.errors import SettingError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SettingField: TypeAlias = "dataclasses.Field[Any]"
"""The declaration of a setting, whatever its type is."""
Values: TypeAlias = Mapping[str, Any]
"""Values of settings by their names in Python."""

NUM_LAYERS_ALIASES = ("depth", "n-layers", "n-layer", "num-hidden-layers")
NUM_HEADS_ALIASES = ("n-heads", "n-head", "num-attention-heads")
MODEL_DIM_ALIASES = ("hidden-size", "message-hidden-dim", "n-embd", "d-model")
CONTEXT_ALIASES = ("block-size", "max-seq-length")
"""The names that chemprop, Hugging Face and nanoGPT use for settings of several models."""
MAX_LAYERS, MAX_DIM = 1000, 2**20
"""The deepest and the widest models: a mistyped number beyond them would be built until memory ends."""
MAX_INTEGER = 2**63 - 1
"""The largest whole number that numpy and torch count with."""
BOUNDS = {
    "at_least": ("at least", lambda value, bound: value >= bound),
    "above": ("above", lambda value, bound: value > bound),
    "at_most": ("at most", lambda value, bound: value <= bound),
    "below": ("below", lambda value, bound: value < bound),
}


def setting(
    default: Any = dataclasses.MISSING,
    *,
    factory: Any = dataclasses.MISSING,
    choices: tuple[str, ...] = (),
    aliases: tuple[str, ...] = (),
    metavar: str = "",
    flag: str = "",
    hidden: bool = False,
    is_file: bool = False,
    even: bool = False,
    **bounds: float,
) -> Any:
    """A dataclass field that is a setting.

    Args:
        default: Its default; None needs a type that allows None.
        factory: Makes the default.
        choices: The allowed values, where the type is not a Literal.
        aliases: Other spellings of the flag, as other programs have them.
        metavar: What stands for the value in the help.
        flag: The spelling of the flag, where the name does not give it.
        hidden: It is set in files only, without a flag.
        is_file: It names a file, a store or a run that is read, whose content a run that is continued must find again.
        even: Only even numbers are allowed.
        bounds: `at_least`, `above`, `at_most`, `below`.
    """
    assert bounds.keys() <= BOUNDS.keys(), bounds
    metavar = metavar or ("FILE" if is_file else "")
    details = {"choices": choices, "aliases": aliases, "metavar": metavar, "flag": flag, "hidden": hidden}
    return dataclasses.field(
        default=default,
        default_factory=factory,
        metadata={**details, "is_file": is_file, "even": even, "bounds": bounds},
    )


NUMBERS: dict[type, type] = {int: Integral, float: Real}
"""What may stand where a field has one of these types."""


def check(settings: "DataclassInstance") -> None:
    """Raise SettingError unless each field has a value that its declaration allows."""
    for field in dataclasses.fields(settings):
        check_value(field, getattr(settings, field.name))


def check_value(field: SettingField, value: Any) -> None:
    """Raise SettingError unless a value is what a field allows; the message names the flag."""
    if value is None and is_optional(field):
        return
    choices = choices_of(field)
    values = value if isinstance(value, tuple) else (value,)
    if choices and (wrong := [item for item in values if item not in choices]):
        raise SettingError(f"{flag_of(field)} is {wrong[0]!r}; expected one of {', '.join(map(str, choices))}.")
    if field.type is bool and not isinstance(value, bool):
        raise SettingError(f"{flag_of(field)} is {value}; expected True or False.")

    kinds = {*kinds_of(field.type)}
    if kinds and kinds <= NUMBERS.keys() and not isinstance(value, tuple(NUMBERS[kind] for kind in kinds)):
        expected = "a number" if float in kinds else "a whole number"
        raise SettingError(f"{flag_of(field)} is {value!r:.60}; expected {expected}.")

    bounds = field.metadata.get("bounds", {})
    if isinstance(value, int) and abs(value) > MAX_INTEGER and "at_most" not in bounds:
        bounds = {**bounds, "at_most": MAX_INTEGER}
    is_odd = field.metadata.get("even") and value % 2
    if not is_odd and all(BOUNDS[name][1](value, bound) for name, bound in bounds.items()):
        return

    words = [
        "finite" if bound == math.inf else f"{BOUNDS[name][0]} {bound if isinstance(bound, int) else f'{bound:g}'}"
        for name, bound in bounds.items()
    ]
    if field.metadata.get("even"):
        words.append("even")

    raise SettingError(f"{flag_of(field)} is {value}; expected {' and '.join(words)}.")


def check_heads(settings: Any) -> None:
    """Raise SettingError unless the heads divide the size of the model."""
    if settings.model_dim % settings.num_heads != 0:
        raise SettingError(
            f"--model-dim ({settings.model_dim}) must be a multiple of --num-heads ({settings.num_heads})."
        )


def spelled(name: str) -> str:
    """The flag of a name in Python."""
    return f"--{name.replace('_', '-')}"


def flag_of(field: SettingField) -> str:
    """How the flag of a field is spelled."""
    return field.metadata.get("flag") or spelled(field.name)


def names_of_flag(field: SettingField) -> list[str]:
    """The name of the flag of a field, and its aliases, as names in Python."""
    flags = (flag_of(field).removeprefix("--"), *field.metadata.get("aliases", ()))
    return [flag.replace("-", "_") for flag in flags]


def is_optional(field: SettingField) -> bool:
    """Whether a field may be None."""
    return NoneType in get_args(field.type)


def _choices(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) in (Union, UnionType):
        return tuple(choice for part in get_args(annotation) for choice in _choices(part))
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def choices_of(field: SettingField) -> tuple[Any, ...]:
    """What a field may be, where it is one of several words."""
    return field.metadata.get("choices") or _choices(field.type)


def kinds_of(annotation: Any) -> tuple[type, ...]:
    """The plain types that an annotation allows, None left out."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return tuple(allowed for part in get_args(annotation) for allowed in kinds_of(part))
    if origin is Literal:
        return tuple(dict.fromkeys(type(choice) for choice in get_args(annotation)))
    plain_type = origin or annotation
    return () if plain_type is NoneType else (plain_type,)


def to_field_type(source: str, field: SettingField, value: Any) -> Any:
    """A value out of a file or a call in the type of its field.

    Args:
        source: What an error calls the place, such as a file name.

    Raises:
        SettingError: It cannot be.
    """
    kinds = kinds_of(field.type)
    if tuple in kinds:
        if isinstance(value, (list, tuple)):
            return tuple(value)
        if isinstance(value, (str, int, float)):
            return (value,)

    if float in kinds and type(value) is int and abs(value) <= sys.float_info.max:
        return float(value)
    if type(value) in kinds or (value is None and is_optional(field)):
        return value
    expected = " or ".join(allowed.__name__ for allowed in kinds)
    raise SettingError(f"{source} has {field.name.replace('_', '-')} = {value!r:.60}; expected {expected}.")


@cache
def helps(kind: type) -> dict[str, str]:
    """The docstring of each field of a dataclass, inherited ones included; empty where the source is not installed."""
    help_of_field: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        try:
            body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0].body  # type: ignore[attr-defined]
        except OSError:
            continue
        for field, text in itertools.pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                help_of_field[field.target.id] = " ".join(str(text.value.value).split())  # type: ignore[union-attr]
    return help_of_field
