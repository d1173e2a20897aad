"""All tasks, each imported where it is needed; and which one a file, its flags or a run folder belong to.

`TASKS` has what each task declares, all that is looked for here; the declaration names the task itself.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from edgewise.choices import Registry, load
from edgewise.errors import RunFolderError, SettingError
from edgewise.learn.settings import names_of_flag
from edgewise.learn.tasks.config import TaskSettings, owners_of
from edgewise.learn.training.folder import RunFolder

if TYPE_CHECKING:
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
TASKS: "Registry[TaskSettings]" = Registry(
    "task", {name: f"edgewise.learn.tasks.{name}.settings:SETTINGS" for name in OWN}, TaskSettings
)
"""What each task declares; free of torch."""
DEFAULT_TASK = "molecules"
"""The task where nothing names another one."""


def names() -> tuple[str, ...]:
    """All tasks."""
    return tuple(sorted(TASKS))


def settings_of(name: str) -> "TaskSettings":
    """What a task declares; imports no torch.

    Raises:
        SettingError: unknown task, or its entry point does not lead to one.
    """
    return TASKS[name]


def task(name: str) -> "Task":
    """A task by its name."""
    declared = TASKS[name].task
    loaded: Task = load(declared) if isinstance(declared, str) else declared()
    return loaded


def explainable_of(task: "Task") -> "ExplainableTask | None":
    """What opens run folders of a task for explanations and for the server; None where there is nothing."""
    if task.explainable is None:
        return None
    explainable: ExplainableTask = load(task.explainable)
    return explainable


def task_of(folder: RunFolder) -> "Task":
    """The task of a finished run.

    Raises:
        RunFolderError: its model.json is damaged, or of no known format.
    """
    format = folder.read_format()
    for name, declared in TASKS.items():
        if format == declared.format:
            return task(name)
    reason = "it names no format" if format is None else f"its format is {str(format)[:60]!r}"
    raise RunFolderError(
        f"{folder.path / 'model.json'} is not a model that this version of Edgewise can read: {reason}."
    )


def tasks_with(setting: str) -> list[str]:
    """The tasks that have a setting, by one of the names of its flag."""
    tasks = []
    for name in names():
        declared = settings_of(name)
        for setting_name, (_, field) in owners_of(declared.run_type).items():
            is_free = setting_name not in declared.unused and not field.metadata.get("hidden")
            if is_free and setting in names_of_flag(field):
                tasks.append(name)
    return tasks


def by_setting(config: Mapping[str, object], source: str) -> dict[str, object]:
    """The values of a configuration file by the names of settings in Python; the file may name a setting by its flag.

    Raises:
        SettingError: Two of its names are of one setting.
    """
    fields = [item for name in names() for item in owners_of(settings_of(name).run_type).items()]
    settings = {spelling: setting for setting, (_, field) in fields for spelling in names_of_flag(field)}
    settings |= {setting: setting for setting, _ in fields}
    values: dict[str, object] = {}
    written: dict[str, str] = {}
    for key, value in config.items():
        setting = settings.get(key.replace("-", "_"), key.replace("-", "_"))
        if setting in values:
            raise SettingError(
                f"{source} has {written[setting]!r} and {key!r}, which are one setting; keep one of them."
            )
        values[setting], written[setting] = value, key
    return values


def inferred(settings: Mapping[str, object]) -> tuple[str, str]:
    """The task whose signs settings show, by --task-type, other flags, and how the first file ends; and why."""
    data, task_type = settings.get("data"), settings.get("task_type")
    first = data if isinstance(data, str) else str(data[0]) if isinstance(data, Sequence) and data else ""
    candidates = [(0, DEFAULT_TASK, "nothing names another task")]
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
