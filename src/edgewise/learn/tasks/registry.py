"""All tasks, each imported where it is needed; and which one a file, its flags or a run folder belong to.

A task is a folder with settings.py, which ends in `SETTINGS`, and task.py, which ends in `TASK`: a folder beside this
file that `OWN` names, or a package that an entry point of the group `edgewise.tasks` names. Its settings declare all
that is looked for here.
"""

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.errors import RunFolderError, SettingError
from edgewise.learn.training.folder import RunFolder

if TYPE_CHECKING:
    from edgewise.learn.tasks.config import TaskSettings
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
    package_of_task: dict[str, str] = {}
    for home in [*(f"edgewise.learn.tasks.{name}" for name in OWN), *added()]:
        name = home.rpartition(".")[2]
        if package_of_task.setdefault(name, home) != home:
            raise SettingError(
                f"two tasks are called {name}, those of {package_of_task[name]} and {home}; remove one package."
            )
    return dict(sorted(package_of_task.items()))


def added() -> list[str]:
    """The packages of tasks that other installed packages bring."""
    for folder in sys.path:
        for file in Path(folder or ".").glob("*-info/entry_points.txt"):
            if GROUP in file.read_text("utf-8", "replace"):
                from importlib.metadata import entry_points  # takes longer than all other imports of `--help`

                return sorted({entry_point.value for entry_point in entry_points(group=GROUP)})
    return []


def names() -> tuple[str, ...]:
    """All tasks."""
    return tuple(homes())


def home_of(name: str) -> str:
    """The package of a task.

    Raises:
        SettingError: unknown task.
    """
    if name not in homes():
        raise SettingError(f"unknown task {name!r}; expected one of {', '.join(names())}.")
    return homes()[name]


def settings_of(name: str) -> "TaskSettings":
    """What a task declares; imports no torch.

    Raises:
        SettingError: unknown task, or one that is not called like its folder.
    """
    home = home_of(name)
    declared: TaskSettings = import_module(f"{home}.settings").SETTINGS
    if declared.name != name:
        raise SettingError(
            f"{home}.settings: the name of the task is {declared.name!r}; expected {name!r}, its folder."
        )
    return declared


def task(name: str) -> "Task":
    """A task by its name."""
    loaded: Task = import_module(f"{home_of(name)}.task").TASK
    return loaded


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
    format = folder.read_format()
    for name in names():
        if format == settings_of(name).format:
            return task(name)
    reason = "it names no format" if format is None else f"its format is {str(format)[:60]!r}"
    raise RunFolderError(
        f"{folder.path / 'model.json'} is not a model that this version of Edgewise can read: {reason}."
    )


def tasks_with(setting: str) -> list[str]:
    """The tasks that have a setting, by its name in Python or one of its other names."""
    from edgewise.learn.tasks.config import owners_of

    tasks = []
    for name in names():
        declared = settings_of(name)
        for setting_name, (_, field) in owners_of(declared.run_type).items():
            spellings = {setting_name, *(alias.replace("-", "_") for alias in field.metadata.get("aliases", ()))}
            if setting in spellings and setting_name not in declared.foreign and not field.metadata.get("hidden"):
                tasks.append(name)
    return tasks


def inferred(settings: Mapping[str, object]) -> tuple[str, str]:
    """The task whose signs settings show, by --task-type, other flags, and how the first file ends; and why."""
    data, task_type = settings.get("data"), settings.get("task_type")
    first = data if isinstance(data, str) else str(data[0]) if isinstance(data, Sequence) and data else ""
    candidates = [(0, USUAL, "nothing names another task")]
    for name in names():
        declared = settings_of(name)
        if task_type is not None and declared.task_type is not None:
            if declared.task_type == task_type:
                return name, f"--task-type {task_type} is given"
            continue
        reasons = ((sign.strength, name, sign.reason(settings, first)) for sign in declared.signs)
        candidates += [candidate for candidate in reasons if candidate[2]]
    _, name, reason = max(candidates, key=lambda candidate: candidate[0])
    return name, reason
