"""Dataclasses as JSON documents and back: every value is checked against the type of its field when it is read."""

import contextlib
import dataclasses
import json
import math
import types
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union

from edgewise.errors import DataError, RunFolderError, SettingError, plural
from edgewise.learn.files import JsonObject, parse_json

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Content = TypeVar("Content")
MAX_INTEGER = 2**53
"""Whole numbers beyond it are none that a run writes, but as names of classes."""
MAX_LAYERS = 4096
"""Layers, and members of an ensemble: a loop over more would not end."""
TRANSIENT = {"saved": False}
"""The metadata of dataclass fields that no document holds."""
INLINE = {"inline": True}
"""The metadata of fields that are dataclasses themselves, whose fields stand in the document beside the others."""
_MAX_SHOWN = 60


def read_document(kind: type[Content], content: Mapping[str, object], path: Path) -> Content:
    """The content of a file as a dataclass; names that it does not have are left out.

    Raises:
        RunFolderError: A value is missing or of another type; the message names the file and the field.
    """
    with invalid_as_run_error(path):
        return kind(**read_fields(kind, content))


def read_part(kind: type[Content], value: object, field_path: str, path: Path) -> Content:
    """A part of a document whose type another part says; unlike in `read_document`, every name must be known."""
    with invalid_as_run_error(path):
        return read_value(kind, value, field_path)


@contextlib.contextmanager
def invalid_as_run_error(path: Path) -> Iterator[None]:
    """Turns a DataError or SettingError about the content of a file into a RunFolderError that names the file."""
    try:
        yield
    except (DataError, SettingError) as error:
        raise RunFolderError(f"{path} is damaged: {error}") from error


def is_saved(field: "dataclasses.Field[object]") -> bool:
    """Whether a field is part of the document; those with the metadata `TRANSIENT` are not."""
    return field.metadata.get("saved", True)


def to_document(value: "DataclassInstance") -> JsonObject:
    """The saved fields of a dataclass, as JSON can hold them."""
    document: JsonObject = {}
    for field in filter(is_saved, dataclasses.fields(value)):
        part = getattr(value, field.name)
        document |= to_document(part) if field.metadata.get("inline") else {field.name: to_json(part)}
    return document


def to_json(value: object) -> object:
    """A value as JSON can hold it: dataclasses become objects, tuples lists, and infinity a word."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_document(value)
    if isinstance(value, Mapping):
        return {name: to_json(entry) for name, entry in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_json(entry) for entry in value]
    return "inf" if value == math.inf else value


def read_fields(kind: type, content: Mapping[str, object], field_path: str = "") -> dict[str, Any]:
    """The saved fields of a dataclass out of a JSON object, which may hold other names too.

    Raises:
        DataError: A value is missing or of another type.
    """
    type_of_field, inline = _annotations(kind), {}
    for field in dataclasses.fields(kind):
        if field.metadata.get("inline"):
            part = type_of_field[field.name]
            inline[field.name] = part(**read_fields(part, content, field_path))

    saved = [field for field in dataclasses.fields(kind) if is_saved(field) and field.name not in inline]
    needed = [field.name for field in saved if field.default is field.default_factory is dataclasses.MISSING]
    if missing := [name for name in needed if name not in content]:
        raise DataError(f"{_inside(field_path, missing[0])} is missing.")

    fields = {
        saved_field.name: read_value(
            type_of_field[saved_field.name], content[saved_field.name], _inside(field_path, saved_field.name)
        )
        for saved_field in saved
        if saved_field.name in content
    }
    for name, value in fields.items():
        if name.endswith("_layers") and isinstance(value, int) and value > MAX_LAYERS:
            raise _mismatch(value, f"at most {MAX_LAYERS}", _inside(field_path, name))

    return fields | inline


def read_value(kind: object, value: object, field_path: str) -> Any:
    """A JSON value in the type of an annotation; lists become tuples where it says so.

    Raises:
        DataError: It is none; the message says where.
    """
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if kind is object:
        return value
    if origin in (Union, types.UnionType):
        return _one_of(parts, value, field_path)
    if origin is Literal:
        if any(type(value) is type(choice) and value == choice for choice in parts):
            return value
        raise _mismatch(value, f"one of {', '.join(map(str, parts))}", field_path)
    if origin is dict:
        if not isinstance(value, dict):
            raise _mismatch(value, "an object", field_path)
        return {name: read_value(parts[1], entry, _inside(field_path, name)) for name, entry in value.items()}
    if origin in (tuple, list):
        return _several(origin, parts, value, field_path)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _dataclass(kind, value, field_path)

    assert isinstance(kind, type)
    return _plain(kind, value, field_path)


def _one_of(kinds: tuple[object, ...], value: object, field_path: str) -> object:
    if value is None and types.NoneType in kinds:
        return None
    if type(value) is int and int in kinds:  # a class is called by any whole number, of which float would round some
        return value
    others = [choice for choice in kinds if choice is not types.NoneType]
    for choice in others[:-1]:
        try:
            return read_value(choice, value, field_path)
        except DataError:
            continue
    return read_value(others[-1], value, field_path)


def _several(origin: type, parts: tuple[object, ...], value: object, field_path: str) -> object:
    if not isinstance(value, list):
        raise _mismatch(value, "a list", field_path)
    if origin is list or parts[1:] == (...,):
        return origin(read_value(parts[0], entry, f"{field_path}[{index}]") for index, entry in enumerate(value))
    if len(value) != len(parts):
        raise _mismatch(value, plural(len(parts), "value"), field_path)
    return tuple(
        read_value(part, entry, f"{field_path}[{index}]") for index, (part, entry) in enumerate(zip(parts, value))
    )


def _dataclass(kind: type, value: object, field_path: str) -> object:
    annotations = _annotations(kind)
    if isinstance(value, str):  # some files hold a scaler as a line of JSON
        try:
            value = parse_json(value)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{field_path}: it is not JSON ({error}).") from error

    if isinstance(value, list) and len(annotations) == 1:
        value = {next(iter(annotations)): value}
    if not isinstance(value, dict):
        raise _mismatch(value, "an object", field_path)
    if unknown := sorted(set(value) - set(annotations)):
        raise DataError(f"{_inside(field_path, unknown[0][:_MAX_SHOWN])} is not known here.")

    fields = read_fields(kind, value, field_path)
    try:
        return kind(**fields)
    except (SettingError, DataError) as error:
        raise DataError(f"{field_path or 'the document'}: {error}") from error


@cache
def _annotations(kind: type) -> dict[str, Any]:
    named = typing.get_type_hints(kind)
    return {field.name: named[field.name] for field in dataclasses.fields(kind)}  # type: ignore[arg-type]


def _plain(kind: type, value: object, field_path: str) -> object:
    if kind is float:
        if value == "inf":  # JSON cannot write infinity
            return math.inf
        if (
            isinstance(value, int | float)
            and type(value) is not bool
            and abs(value) <= MAX_INTEGER**8
            and math.isfinite(value)
        ):
            return float(value)
        raise _mismatch(value, "a finite number", field_path)
    if type(value) is not kind:
        names = {int: "a whole number", str: "text", bool: "true or false"}
        raise _mismatch(value, names.get(kind, kind.__name__), field_path)
    if type(value) is int and abs(value) > MAX_INTEGER:
        raise _mismatch(value, f"at most {MAX_INTEGER}", field_path)
    return value


def _inside(field_path: str, name: str) -> str:
    return f"{field_path}.{name}" if field_path else name


def _mismatch(value: object, expected: str, field_path: str) -> DataError:
    if type(value) is int and abs(value) > 10**_MAX_SHOWN:  # Python refuses to write very long ones
        text = "a long number"
    else:
        written = json.dumps(value, default=repr)
        text = written[:_MAX_SHOWN] + ("…" if len(written) > _MAX_SHOWN else "")
    return DataError(f"{field_path or 'the document'} is {text}, expected {expected}.")
