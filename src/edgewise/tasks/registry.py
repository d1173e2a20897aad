"""All tasks, each imported where it is needed; and which one a file, its flags or a run folder belong to.

This is the one place that distinguishes tasks.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from edgewise.errors import RunFolderError, SettingError
from edgewise.train.folder import RunFolder

if TYPE_CHECKING:
    from edgewise.tasks.config import RunSettings
    from edgewise.tasks.explainable import ExplainableModel
    from edgewise.tasks.task import Task

FORMATS = {
    "edgewise property model": "molecules",
    "edgewise text model": "texts",
    "edgewise node model": "nodes",
    "edgewise edge model": "edges",
    "edgewise link model": "links",
    "edgewise graph model": "graphs",
    "edgewise forecast model": "forecast",
    "edgewise dynamics model": "motion",
    "edgewise tagging model": "tagging",
    "edgewise translation model": "translation",
    "edgewise masked model": "masked",
    "edgewise language model": "language",
}
"""The task of each format of model.json."""
NAMES = tuple(FORMATS.values())
"""All tasks."""
TASK_TYPES = {"link": "links", "dynamics": "motion"} | {
    name: name for name in ("language", "translation", "masked", "tagging", "forecast")
}
"""The task that --task-type names; the other types say what the targets of a table are."""
LINES = (".txt", ".txt.gz")
SENTENCES = tuple(name + end for name in (".conll", ".iob", ".bio") for end in ("", ".gz"))


def task(name: str) -> "Task":
    """A task by its name."""
    if name not in NAMES:
        raise SettingError(f"there is no task {name!r}; expected one of {', '.join(NAMES)}.")
    found: Task = import_module(f"edgewise.tasks.{name}.task").TASK
    return found


def task_of(folder: RunFolder) -> "Task":
    """The task of a finished run.

    Raises:
        RunFolderError: its model.json is damaged, or of no known format.
    """
    found = folder.read_format()
    if found not in FORMATS:
        known = "it names no format" if found is None else f"its format is {str(found)[:60]!r}"
        raise RunFolderError(f"{folder.path / 'model.json'} is no model of Edgewise that is known here: {known}.")
    return task(FORMATS[found])


def explainable_of(task: "Task") -> "type[ExplainableModel] | None":
    """What opens run folders of a task for explanations and for the server; None where there is nothing."""
    if not task.has_explanations:
        return None
    found: type[ExplainableModel] = import_module(f"edgewise.tasks.{task.name}.explainable").EXPLAINABLE
    return found


def settings_of(name: str) -> "type[RunSettings]":
    """The settings of a task; imports no torch."""
    found: type[RunSettings] = import_module(f"edgewise.tasks.{name}.job").SETTINGS
    return found


def tasks_with(setting: str) -> list[str]:
    """The tasks that have a setting, by its name in Python or one of its other names."""
    from edgewise.tasks.config import owners_of

    found = []
    for name in NAMES:
        kind = settings_of(name)
        for each, (_, field) in owners_of(kind).items():
            named = {each, *(alias.replace("-", "_") for alias in field.metadata.get("aliases", ()))}
            if setting in named and each not in kind.FOREIGN and not field.metadata.get("hidden"):
                found.append(name)
    return found


def inferred(settings: Mapping[str, Any]) -> tuple[str, str]:
    """The name of the task that settings ask for, by --task-type, by the columns and by how the files end; and why."""
    data = settings.get("data") or []
    first = data if isinstance(data, str) else str(data[0]) if data else ""
    ending, task_type = first.lower(), settings.get("task_type")
    if task_type in TASK_TYPES:
        return TASK_TYPES[task_type], f"--task-type {task_type} is given"
    if settings.get("graph_column"):
        return "graphs", "--graph-column is given"
    if settings.get("edges") or ending.endswith(".npz"):
        reason = "--edges is given" if settings.get("edges") else f"{first} holds a graph"
        return ("motion", f"{first} holds trajectories") if _holds_motion(first) else ("nodes", reason)
    if task_type is None and ending.endswith(SENTENCES):
        return "tagging", f"{first} holds sentences with tags"
    if settings.get("text_columns"):
        return "texts", "--text-columns is given"
    if task_type is None and ending.endswith(LINES):
        return "language", f"{first} is a text"
    return "molecules", "--smiles-columns is given" if settings.get("smiles_columns") else "nothing names another task"


def _holds_motion(name: str) -> bool:
    """Whether an .npz file holds trajectories."""
    from edgewise.data.tables.options import array_names

    return {"positions", "velocities"} <= array_names(name)
