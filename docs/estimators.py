"""Writes src/edgewise/learn/estimators/classes.py: every estimator with an explicit constructor and explicit methods.

    python docs/estimators.py

Parameters, their types, defaults and meanings come from the settings of the tasks; the classes, their methods and what
these say stand in docs/estimator_rows.py and docs/estimator_tasks.py. A test says when the file is stale.
"""

import dataclasses
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

sys.path.insert(0, str(Path(__file__).parent))

import estimator_rows
import estimator_tasks
from estimator_parts import Argument, EstimatorClass, Method

from edgewise.choices import SCORES
from edgewise.learn.estimators.parameters import AUTO, FILE_SETTINGS, PARAMETER_OF, without_flags
from edgewise.learn.networks.graph_layers import LAYERS
from edgewise.learn.settings import choices_of, helps
from edgewise.learn.tasks.registry import settings_of
from edgewise.learn.tasks.table_settings import OF_NUMBERS
from edgewise.learn.training.settings import NUMBER_OUTPUTS

FILE = Path(__file__).parent.parent / "src/edgewise/learn/estimators/classes.py"
WIDTH = 120
CLASSES: tuple[EstimatorClass, ...] = (*estimator_rows.CLASSES, *estimator_tasks.CLASSES)
HEADER = '''"""Estimators: written by docs/estimators.py from the settings of tasks; change those, and run it again.

A constructor stores its parameters; `fit` checks them. What methods do stands in the functions that they call.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from edgewise.learn.estimators import graph_rows, row_methods, state
from edgewise.learn.estimators.rows import RowAdapter, Supervision
from edgewise.learn.estimators.scikit_learn import ClassifierMixin, RegressorMixin, tags_of
from edgewise.learn.estimators.state import Estimator

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from edgewise.explain.explanation import Explanation
    from edgewise.explain.methods import Choice
    from edgewise.learn.estimators.inputs import EdgesInput, GraphInput, GraphsInput, SeriesInput, Table
    from edgewise.learn.readers.motion.motion import Motion
    from edgewise.learn.tasks.motion.forces import Rollout

# Tasks are imported where they are used first: a model of nodes needs no RDKit.


def _edges() -> RowAdapter:
    from edgewise.learn.estimators.edges import EDGES

    return EDGES


def _graphs() -> RowAdapter:
    from edgewise.learn.estimators.graphs import GRAPHS

    return GRAPHS


def _molecules() -> RowAdapter:
    from edgewise.learn.estimators.molecules import MOLECULES

    return MOLECULES


def _nodes() -> RowAdapter:
    from edgewise.learn.estimators.nodes import NODES

    return NODES


def _texts() -> RowAdapter:
    from edgewise.learn.estimators.texts import TEXTS

    return TEXTS
'''
MEANINGS = {
    "model": "The model by its name, such as lstm, gpt2 or bert.",
    "logger": "The logger of a run of the command line; an estimator writes no logs and refuses others than csv.",
    "validation_size": "The fraction of the rows for validation, where `fit` is given no `validation`.",
}
"""Of parameters that are not settings, or mean something else here."""


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A parameter of a constructor."""

    type: str
    default: object
    meaning: str


def parameters_of(kind: EstimatorClass) -> dict[str, Parameter]:
    """The parameters of an estimator, by name: the settings of its models, `auto` where their defaults differ."""
    declared = settings_of(kind.task)
    variants: list[Mapping[str, Any]] = [
        {},
        *({"model": name} if isinstance(name, str) else name for name in kind.models),
    ]
    listed: dict[str, Parameter] = {}
    for variant in variants:
        job = declared.of({**kind.placeholders, **variant}, kind.name)
        for owner, field, value in fields_of(job):
            name = PARAMETER_OF.get(field.name, field.name)
            if field.name in FILE_SETTINGS and field.name not in kind.keep:
                continue
            if name not in listed:
                choices = declared.choices.get(field.name) or choices_of(field)
                meaning = helps(owner).get(field.name, "")
                listed[name] = Parameter(
                    written_type(field.type, choices), AUTO if name == "threads" else value, meaning
                )
            elif name not in variant and listed[name].default != value:
                listed[name] = dataclasses.replace(listed[name], default=AUTO)

    for name, default in kind.own.items():
        known = listed.get(name, Parameter(type(default).__name__, default, ""))
        type_ = "str | None" if name == "model" and default is None else known.type
        listed[name] = Parameter(type_, default, known.meaning or MEANINGS[name])
    refused = OF_NUMBERS if kind.name.endswith("Classifier") else ("class_weight",) if has_twin(kind) else ()
    twin = "regressors" if kind.name.endswith("Classifier") else "classifiers"
    for name in refused:
        if name in listed:
            meaning = f"{listed[name].meaning} For {twin} alone: any other value is refused."
            listed[name] = dataclasses.replace(listed[name], meaning=meaning)
    listed["logger"] = dataclasses.replace(listed["logger"], meaning=MEANINGS["logger"])
    return {"model": listed.pop("model"), **listed}


def has_twin(kind: EstimatorClass) -> bool:
    """Whether there is an estimator of classes beside one of numbers, which refuse each other's parameters."""
    return kind.name.endswith(("Classifier", "Regressor"))


def fields_of(job: Any) -> Iterator[tuple[type, "dataclasses.Field[Any]", object]]:
    """The settings of a job and of the groups in it: their class, the field and the value."""
    for field in dataclasses.fields(job):
        value = getattr(job, field.name)
        if dataclasses.is_dataclass(value):
            yield from ((type(value), part, getattr(value, part.name)) for part in dataclasses.fields(value))
        else:
            yield type(job), field, value


EXTENSIBLE = SCORES, LAYERS, NUMBER_OUTPUTS
"""Choices to which other packages add names."""


def written_type(annotation: Any, choices: tuple[object, ...]) -> str:
    """A type as the constructor says it; the choices of a setting stand in it."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        others = [written_type(part, choices) for part in parts if part is not NoneType]
        return " | ".join([*others, *(["None"] if NoneType in parts else [])])
    if origin is Literal or (annotation is str and choices):
        words = [word for word in parts if word in choices] if origin is Literal else choices
        listed = f"Literal[{', '.join(map(quoted, words))}]"
        return f"{listed} | str" if any(set(choices) <= set(names) for names in EXTENSIBLE) else listed
    if origin is tuple:
        return f"Sequence[{written_type(parts[0], ())}]"
    return str(annotation.__name__)


def with_auto(parameter: Parameter) -> str:
    """The type of a parameter, which allows its default."""
    if parameter.default != AUTO or parameter.type == "str" or quoted(AUTO) in parameter.type:
        return parameter.type
    if parameter.type.startswith("Literal"):
        return parameter.type.replace("Literal[", f"Literal[{quoted(AUTO)}, ", 1)
    *others, last = parameter.type.split(" | ")
    parts = [*others, last] if last != "None" else others
    return " | ".join([*parts, f"Literal[{quoted(AUTO)}]", *(["None"] if last == "None" else [])])


def quoted(value: object) -> str:
    """A value as the house writes it."""
    return repr(value).replace("'", '"')


def entry(name: str, meaning: str, indent: int) -> str:
    """One line of an `Args` section, wrapped."""
    room = " " * indent
    return "\n".join(textwrap.wrap(f"{name}: {meaning}", WIDTH, initial_indent=room, subsequent_indent=f"{room}    "))


def paragraphs(text: str, indent: int) -> str:
    """A docstring's text, behind the quotes, each paragraph wrapped; those that are indented are code."""
    room, blocks = " " * indent, textwrap.dedent(f"\n{text}").strip("\n").split("\n\n")
    wrapped = []
    for number, block in enumerate(blocks):
        if block.startswith(" "):
            wrapped.append(textwrap.indent(block, room))
            continue
        first = room + ('"""' if number == 0 else "")
        lines = textwrap.wrap(" ".join(block.split()), WIDTH, initial_indent=first, subsequent_indent=room)
        wrapped.append("\n".join(lines))
    return "\n\n".join(wrapped)


def constructor(parameters: Mapping[str, Parameter]) -> str:
    """The source of `__init__`, which stores its parameters unchanged, as scikit-learn demands."""
    listed = "".join(
        f"        {name}: {with_auto(each)} = {quoted(each.default)},\n" for name, each in parameters.items()
    )
    stored = "".join(f"        self.{name} = {name}\n" for name in parameters)
    return f"    def __init__(\n        self,\n        *,\n{listed}    ) -> None:\n{stored}"


def method(of: Method) -> str:
    """The source of a method."""
    by_place = [declared(argument) for argument in of.arguments if not argument.by_name]
    by_name = [declared(argument) for argument in of.arguments if argument.by_name]
    first = "cls" if of.decorator == "classmethod" else "self"
    signature = ", ".join([first, *by_place, *(["*", *by_name] if by_name else [])])
    lines = [f"    @{of.decorator}"] if of.decorator else []
    lines.append(f"    def {of.name}({signature}) -> {of.returns}:")

    text = paragraphs(of.text, 8)
    if meanings := [entry(each.name, each.meaning, 12) for each in of.arguments if each.meaning]:
        text += "\n\n        Args:\n" + "\n".join(meanings)
    if of.raises:
        text += "\n\n        Raises:\n" + "\n".join(entry(name, meaning, 12) for name, meaning in of.raises.items())
    is_short = "\n" not in text and len(text) + 3 <= WIDTH
    lines.append(text + '"""' if is_short else f'{text}\n        """')
    return "\n".join(lines) + "\n" + textwrap.indent(textwrap.dedent(of.body).strip("\n"), "        ") + "\n"


def declared(argument: Argument) -> str:
    """An argument in a signature."""
    return f"{argument.name}: {argument.type}" + ("" if argument.default is None else f" = {argument.default}")


def estimator(kind: EstimatorClass) -> str:
    """The source of a class."""
    parameters = parameters_of(kind)
    meanings = {name: without_flags(parameter.meaning, parameters) for name, parameter in parameters.items()}
    parts = [
        f"class {kind.name}({', '.join(kind.bases)}):",
        paragraphs(kind.text, 4),
        "\n    Args:",
        *(entry(name, re.sub(r"\s+", " ", meaning), 8) for name, meaning in meanings.items()),
        "\n    Attributes:",
        *(entry(name, meaning, 8) for name, meaning in kind.attributes.items()),
        '    """\n',
        *(f"    {line}" for line in kind.annotations),
        "",
        constructor(parameters),
        *map(method, kind.methods),
    ]
    return "\n".join(parts)


def source() -> str:
    """The whole file, formatted as the house does."""
    text = HEADER + "\n\n" + "\n\n".join(map(estimator, CLASSES))
    for words in (["check", "--fix-only", "--quiet", "--select", "F401"], ["format"]):
        command = [sys.executable, "-m", "ruff", *words, "--stdin-filename", str(FILE), "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    FILE.write_text(source())
