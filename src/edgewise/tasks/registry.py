"""All tasks, each imported where it is needed; and which one a file, its flags or a run folder ask for.

This is the one place that tells tasks apart.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from edgewise.errors import RunFolderError, SettingError
from edgewise.tasks.task import Task
from edgewise.train.folder import RunFolder

FORMATS = {
    "edgewise property model": "molecules",
    "edgewise text model": "texts",
    "edgewise node model": "nodes",
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


def task(name: str) -> Task:
    """A task by its name."""
    if name not in NAMES:
        raise SettingError(f"there is no task {name!r}; expected one of {', '.join(NAMES)}.")
    found: Task = import_module(f"edgewise.tasks.{name}.task").TASK
    return found


def task_of(folder: RunFolder) -> Task:
    """The task of a finished run.

    Raises:
        RunFolderError: its model.json is damaged, or of no known format.
    """
    found = folder.read_format()
    if found not in FORMATS:
        known = "it names no format" if found is None else f"its format is {str(found)[:60]!r}"
        raise RunFolderError(f"{folder.path / 'model.json'} is no model of Edgewise that is known here: {known}.")
    return task(FORMATS[found])


def inferred(settings: Mapping[str, Any]) -> str:
    """The name of the task that settings ask for: by --task-type, by the columns and by how the files end."""
    data = settings.get("data") or []
    first = data if isinstance(data, str) else str(data[0]) if data else ""
    task_type = settings.get("task_type")
    if task_type in TASK_TYPES:
        return TASK_TYPES[task_type]
    if settings.get("graph_column"):
        return "graphs"
    if settings.get("edges") or first.lower().endswith(".npz"):
        return "motion" if _holds_motion(first) else "nodes"
    if settings.get("text_columns"):
        return "tagging" if task_type is None and first.lower().endswith(SENTENCES) else "texts"
    if task_type is None and first.lower().endswith(SENTENCES):
        return "tagging"
    return "language" if task_type is None and first.lower().endswith(LINES) else "molecules"


def _holds_motion(name: str) -> bool:
    """Whether an .npz file holds trajectories."""
    from edgewise.data.tables.options import array_names

    return {"positions", "velocities"} <= array_names(name)
