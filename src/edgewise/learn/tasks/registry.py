"""All tasks, each imported where it is needed; and which one a file, its flags or a run folder belong to.

A task is a folder with settings.py, which ends in `SETTINGS`, and task.py, which ends in `TASK`: a folder beside this
file that `OWN` names, or a package that an entry point of the group `edgewise.tasks` names. Its settings declare all
that is looked for here.
"""

import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.errors import RunFolderError, SettingError
from edgewise.learn.training.folder import RunFolder

if TYPE_CHECKING:
    from edgewise.learn.tasks.config import RunSettings
    from edgewise.learn.tasks.explainable import ExplainableTask
    from edgewise.learn.tasks.task import Task

OWN = (
    "edges",
    "forecast",
    "graphs",
    "language",
    "links",
    "masked",
    "molecules",
    "motion",
    "nodes",
    "tagging",
    "texts",
    "translation",
)
"""The tasks of this package."""
GROUP = "edgewise.tasks"
"""The group of entry points by which other packages add tasks."""
USUAL = "molecules"
"""The task where nothing names another one."""


@cache
def homes() -> dict[str, str]:
    """The package of each task, by the name of the task, which is that of its folder.

    Raises:
        SettingError: two tasks have one name.
    """
    found: dict[str, str] = {}
    for home in [*(f"edgewise.learn.tasks.{name}" for name in OWN), *added()]:
        name = home.rpartition(".")[2]
        if found.setdefault(name, home) != home:
            raise SettingError(f"two tasks are called {name}, those of {found[name]} and {home}; remove one package.")
    return dict(sorted(found.items()))


def added() -> list[str]:
    """The packages of tasks that other installed packages bring."""
    for place in sys.path:
        for file in Path(place or ".").glob("*-info/entry_points.txt"):
            if GROUP in file.read_text("utf-8", "replace"):
                from importlib.metadata import entry_points  # takes longer than all other imports of `--help`

                return sorted({each.value for each in entry_points(group=GROUP)})
    return []


def names() -> tuple[str, ...]:
    """All tasks."""
    return tuple(homes())


def home_of(name: str) -> str:
    """The package of a task.

    Raises:
        SettingError: there is no such task.
    """
    if name not in homes():
        raise SettingError(f"there is no task {name!r}; expected one of {', '.join(names())}.")
    return homes()[name]


def settings_of(name: str) -> "type[RunSettings]":
    """The settings of a task; imports no torch."""
    found: type[RunSettings] = import_module(f"{home_of(name)}.settings").SETTINGS
    return found


def task(name: str) -> "Task":
    """A task by its name."""
    found: Task = import_module(f"{home_of(name)}.task").TASK
    return found


def explainable_of(task: "Task") -> "ExplainableTask | None":
    """What opens run folders of a task for explanations and for the server; None where there is nothing."""
    if task.explainable is None:
        return None
    explainable: ExplainableTask = import_module(task.explainable).EXPLAINABLE
    return explainable


def task_of(folder: RunFolder) -> "Task":
    """The task of a finished run.

    Raises:
        RunFolderError: its model.json is damaged, or of no known format.
    """
    found = folder.read_format()
    for name in names():
        if found == settings_of(name).FORMAT:
            return task(name)
    known = "it names no format" if found is None else f"its format is {str(found)[:60]!r}"
    raise RunFolderError(f"{folder.path / 'model.json'} is no model of Edgewise that is known here: {known}.")


def tasks_with(setting: str) -> list[str]:
    """The tasks that have a setting, by its name in Python or one of its other names."""
    from edgewise.learn.tasks.config import owners_of

    found = []
    for name in names():
        kind = settings_of(name)
        for each, (_, field) in owners_of(kind).items():
            named = {each, *(alias.replace("-", "_") for alias in field.metadata.get("aliases", ()))}
            if setting in named and each not in kind.FOREIGN and not field.metadata.get("hidden"):
                found.append(name)
    return found


def inferred(settings: Mapping[str, Any]) -> tuple[str, str]:
    """The task whose signs settings show, by --task-type, other flags, and how the first file ends; and why."""
    data, task_type = settings.get("data") or [], settings.get("task_type")
    first = data if isinstance(data, str) else str(data[0]) if data else ""
    found = [(0, USUAL, "nothing names another task")]
    for name in names():
        kind = settings_of(name)
        if task_type is not None and (own := kind.own_task_type()) is not None:
            if own == task_type:
                return name, f"--task-type {task_type} is given"
            continue
        reasons = ((sign.strength, name, sign.reason(settings, first)) for sign in kind.SIGNS)
        found += [each for each in reasons if each[2]]
    _, name, reason = max(found, key=lambda each: each[0])
    return name, reason
