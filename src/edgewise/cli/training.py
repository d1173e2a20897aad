"""A training run: from typed flags and a configuration file to a finished run folder."""

import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.cli.flags import did_you_mean
from edgewise.errors import SettingError, listed, plural
from edgewise.learn.settings import flag_of, spelled
from edgewise.learn.tasks.registry import by_setting, inferred, names, settings_of, tasks_with

if TYPE_CHECKING:
    from edgewise.learn.engine.workers import Workers
    from edgewise.learn.tasks.run import Run
    from edgewise.learn.tasks.task import Task
    from edgewise.learn.training.distributed import WorkerGroup
    from edgewise.learn.training.folder import RunFolder

PROCESSES = ("devices", "num_nodes", "strategy", "engine", "num_workers", "ray_address")
"""Flags about the processes of a training, which do not change its result."""
COMMAND = (
    *("run", "words", "current_folder", "read_limits", "config_path", "output_dir", "overwrite", "resume", "task"),
    "data_path",
    *PROCESSES,
)
"""Arguments of the command that are not settings of the run."""


def job_of(flags: dict[str, Any]) -> tuple[dict[str, Any], "RunFolder", dict[str, Any]]:
    """The settings of a run, its folder, and the other arguments of `train`."""
    from edgewise.learn.tasks.config import plain
    from edgewise.learn.training.folder import RunFolder, read_toml

    typed = {name: value for name, value in flags.items() if name not in COMMAND}
    typed["data"] = [*typed.get("data", ()), *flags.get("data_path", ())]
    named = task_name(flags.get("task"), typed["data"])
    if named is None and typed["data"]:
        check_is_file(typed["data"][0])
    if not typed["data"]:
        del typed["data"]
    resume, overwrite, config_path = (flags.get(name) for name in ("resume", "overwrite", "config_path"))
    config = by_setting(read_toml(config_path), config_path) if config_path else {}
    folder = RunFolder(Path(flags.get("output_dir") or default_folder({**config, **typed})))
    if resume and not config_path and folder.is_started:
        config, config_path = plain(folder.read_config()), str(folder.path / "config.toml")
    source = config_path or "the command line"
    options = {"typed": typed, "named": named, "overwrite": bool(overwrite), "resume": bool(resume), "source": source}

    return {**config, **typed}, folder, options


def run_in_group(flags: dict[str, Any], group: "WorkerGroup | None" = None) -> int:
    """Trains as one process of a group; None for a single process."""
    settings, folder, options = job_of(flags)
    return train(settings, folder, **options, group=group)


def task_name(named: str | None, data: Sequence[str]) -> str | None:
    """The name of the task, which may also be the name of a file.

    Raises:
        SettingError: There is such a file, and no other data.
    """

    if named is None or not Path(named).is_file():
        return named
    if not data:
        raise SettingError(
            f"{named} is a task and a file here: write ./{named} for the file, or give the data after the task."
        )

    print(f"edgewise: note: {named} is read as the task; write ./{named} for the file", file=sys.stderr)
    return named


def check_is_file(first: str) -> None:
    """Raise SettingError if the first file is a bare word that does not exist, such as a misspelled task."""
    if Path(first).exists() or Path(first).suffix or len(Path(first).parts) > 1:
        return
    raise SettingError(
        f"{first} is neither a task nor a file.{did_you_mean(first, list(names()))} The tasks are {', '.join(names())}."
    )


def default_folder(settings: dict[str, Any]) -> str:
    """The default run folder: runs/ and the name of the data file."""
    data = settings.get("data") or ["run"]
    # What else a configuration file has in its place is refused later.
    name = Path(str(data[0] if isinstance(data, list | tuple) else data)).name
    return f"runs/{name.split('.')[0] or 'run'}"


def train(
    settings: dict[str, Any],
    folder: Any,
    *,
    overwrite: bool,
    resume: bool,
    source: str,
    named: str | None = None,
    typed: Collection[str] = (),
    group: "WorkerGroup | None" = None,
    workers: "Workers | None" = None,
) -> int:
    """Trains the run that `settings` describes, in `folder`; `edgewise demo` calls it too.

    Args:
        workers: Workers that train the folds or the members of the ensemble.
    """
    from edgewise.cli.report import after_training
    from edgewise.cli.scores import print_run
    from edgewise.learn.progress import stage
    from edgewise.learn.tables.options import table_format
    from edgewise.learn.tasks.parts import train_members
    from edgewise.learn.tasks.registry import task
    from edgewise.learn.tasks.run import Run
    from edgewise.learn.tasks.scores import command
    from edgewise.learn.training.device import keep_memory
    from edgewise.learn.training.distributed import ALONE

    group = group or ALONE
    name, reason = (named, "") if named else inferred(settings)
    task_to_train = task(name)
    if group.share(resume and folder.is_finished):
        with group.together():
            if group.leads:
                task_to_train = check_resumed(folder, named, settings) or task_to_train
        if not group.leads:
            return 0
        print(f"{folder.path} is finished; there is nothing to resume.")
        if folder.is_started and not (folder.path / "report.html").exists():  # written last: the run was killed before
            with stage("writing the report"):
                print(after_training(folder))
        print_run(task_to_train, folder)
        return 0

    try:
        check_typed(name, typed)
        check_task_type(name, settings.get("task_type"))
        job: Any = task_to_train.settings.of(settings, source)
        if has_folds(job):
            if not group.is_alone:
                raise SettingError(
                    "--num-folds trains the folds one after the other in one process; drop --devices, or train them "
                    "in parallel with --engine ray."
                )
            return cross_validate(task_to_train, job, folder, overwrite=overwrite, resume=resume, workers=workers)

        with table_format(job.table):
            run = Run.prepare(task_to_train, job, folder, overwrite=overwrite, resume=resume, group=group)
            keep_memory()
            if reason:
                print(f"task: {name}, because {reason}")
            describe(run)
            if workers is not None:
                run = train_members(workers, run)
            run.finish()
    except KeyboardInterrupt:
        if not group.leads:
            return 130
        if not folder.is_started:
            raise
        resume_with = command("train", "--resume", "-o", folder.path)
        print(f"edgewise: interrupted; continue with: {resume_with}", file=sys.stderr)
        return 130
    if not group.leads:
        return 0

    with stage("writing the report"):
        print(after_training(folder))
    print_run(task_to_train, folder)
    return 0


def check_resumed(folder: "RunFolder", named: str | None, settings: dict[str, Any]) -> "Task | None":
    """The task of the finished run in a folder; None without a configuration.

    Raises:
        RunFolderError: It is of another task than the named one, or of other settings or data.
    """
    from edgewise.errors import RunFolderError
    from edgewise.learn.tasks.config import check_finished
    from edgewise.learn.tasks.registry import task_of

    if not folder.is_started:  # a converted checkpoint lacks a configuration to compare with
        return None

    finished_task = task_of(folder)
    declared = finished_task.settings
    if named is not None and declared is not settings_of(named):
        raise RunFolderError(
            f"{folder.path} is a run of another task, an {declared.format}, but the task is {named}; "
            "choose another folder with -o, or replace the run with --overwrite."
        )

    check_finished(folder, declared, settings)
    return finished_task


def has_folds(job: Any) -> bool:
    """Whether a run is a cross-validation."""
    return getattr(job, "num_folds", None) is not None and job.fold is None


def describe(run: "Run") -> None:
    """Prints a summary of the data, and the device of the training."""
    from edgewise.learn.progress import stage
    from edgewise.learn.tasks.task import model_name

    with stage("inspecting the data"):
        lines = run.task.describe(run.prepared, run.folder)
    if name := model_name(run.prepared.settings):
        lines.append(f"model: {name}")
    lines.append(device_line(run.prepared.settings.train))
    if not run.group.is_alone:
        lines[-1] += f" in each of {run.group.size} processes ({run.group.strategy})"
    print("\n".join(lines), flush=True)


def cross_validate(
    task: Any, job: Any, folder: Any, *, overwrite: bool, resume: bool, workers: "Workers | None" = None
) -> int:
    """Trains a run for each fold, and prints the scores of all."""
    from edgewise.cli.scores import print_table
    from edgewise.learn.tables.options import table_format
    from edgewise.learn.tasks.folds import CrossValidation, score_tables
    from edgewise.learn.training.device import keep_memory
    from edgewise.learn.training.folder import RunFolder

    def show(run: "Run") -> None:
        print(f"fold {run.prepared.settings.fold + 1} of {job.num_folds}: {run.folder.path}")
        describe(run)

    keep_memory()

    with table_format(job.table):
        validation = CrossValidation(task, job, folder)
        metrics = validation.finish(show, overwrite=overwrite, resume=resume, workers=workers)
        task_type = RunFolder(folder.path / metrics["folds"][0]["folder"]).read_config()["task-type"]

    for table in score_tables(metrics, task_type, job.metrics):
        print_table(table.title, table.header, table.rows)
    print(f"The folds are in {folder.path}, each a separate run; metrics.json has the scores of all.")
    return 0


def device_line(settings: Any) -> str:
    """The device of a training, and its number of threads."""
    from edgewise.learn.training.device import pick_device

    device = pick_device(settings.device)
    return (
        f"training on the CPU with {plural(settings.threads, 'thread')}" if device == "cpu" else f"training on {device}"
    )


def all_flags(name: str) -> dict[str, str]:
    """The settings of a task that have a flag, and how it is spelled."""
    from edgewise.learn.tasks.config import owners_of

    declared = settings_of(name)
    return {
        setting: flag_of(field)
        for setting, (_, field) in owners_of(declared.run_type).items()
        if setting not in ("data", "task_type", *declared.unused) and not field.metadata.get("hidden")
    }


def tasks_note(flag: str) -> str:
    """A note on the tasks that have a flag; empty if none has it."""
    others = tasks_with(flag.removeprefix("--").removeprefix("no-").replace("-", "_"))
    return f"{flag} applies to {listed(others)} only." if others else ""


def check_typed(name: str, typed: Collection[str]) -> None:
    """Raise SettingError, naming all of them, if flags were typed that the task does not have."""
    flags = {"data", "task_type", "model", *all_flags(name), *filter(settings_of(name).unused.get, typed)}
    if extra := [tasks_note(spelled(flag)) for flag in typed if flag not in flags]:
        raise SettingError(f"the task is {name}: {' '.join(extra)}")


def check_task_type(name: str, task_type: object) -> None:
    """Raise SettingError if a task does not have this value of --task-type, naming those that it has and the task that
    has the value, or is called like it."""
    declared, others = settings_of(name), [settings_of(other) for other in names() if other != name]
    if task_type is None or not declared.task_types or task_type in declared.task_types:
        return

    tasks = [other for other in others if task_type in (other.name, *other.task_types)]
    own = next((other for other in tasks if task_type in (other.name, other.task_type)), None)
    if own is not None:
        meant = f" {task_type} is a task of its own: edgewise train {own.example}"
    elif tasks:
        meant = f" {task_type} is a task type of {listed([other.name for other in tasks])}."
    else:
        single = [other.task_type for other in others if other.task_type is not None]
        meant = did_you_mean(str(task_type), [*declared.task_types, *names(), *single])
    expected = ", ".join(declared.task_types) if declared.task_type is None else f"{declared.task_type}, or nothing"
    one_of = "one of " if declared.task_type is None else ""
    raise SettingError(f"--task-type is {task_type!r}; for {name} expected {one_of}{expected}.{meant}")
