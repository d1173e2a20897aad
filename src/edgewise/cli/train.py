"""`edgewise train`: from a file to a run folder."""

import argparse
import sys
import textwrap
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.cli.flags import Parser, add_settings, did_you_mean, spellings_of
from edgewise.plural import listed
from edgewise.settings import spelled
from edgewise.tasks.registry import inferred, names, settings_of, tasks_with

if TYPE_CHECKING:
    from edgewise.tasks.run import Run

TITLES = {
    "": "data and run",
    "graph": "edges",
    "whole": "readout and head",
    "text": "reading texts",
    "reader": "reading texts",
    "link": "scores of links",
    "beam": "beam search",
    "train": "training",
    "limits": "limits on molecules",
}
"""Headings of groups of settings; others are called as their field."""
COMMAND = ("run", "config_path", "output_dir", "overwrite", "resume", "task", "data_path")
"""Words of the command that are no settings of the run."""
OVERVIEW = """\
usage: edgewise train [TASK] DATA [DATA ...] [flags]

Train a model, score it beside simple models on rows that it has not seen, and write a run folder.

tasks (edgewise train TASK --help shows all flags of one; without TASK it follows from files and flags):
{tasks}

flags of every task:
{command}
{shared}
"""


def parser_of(words: Sequence[str]) -> Parser:
    """The parser of the task that the first word names; without one, a parser of the flags of all tasks."""
    named = words[0] if words and words[0] in names() else None
    parser = Parser(prog=f"edgewise train {named}" if named else "edgewise train")
    parser.usage = f"{parser.prog} DATA [DATA ...] [flags]"
    if named:
        parser.add_argument("task", metavar=argparse.SUPPRESS, help=argparse.SUPPRESS)
    parser.add_argument("data", nargs="*", metavar="DATA", default=argparse.SUPPRESS, help="the files")
    add_command_flags(parser)
    for name in (named,) if named else names():
        add_task_flags(parser, name)
    if named:
        kind = settings_of(named)
        parser.description = f"Train a model: {kind.SUMMARY}."
        parser.epilog = f"Example: edgewise train {kind.EXAMPLE}"
        parser.explain_unknown = lambda flag: elsewhere(flag, parser.spellings)  # type: ignore[method-assign]
    else:
        parser.format_help = overview  # type: ignore[method-assign]
    return parser


def add_command_flags(parser: Any) -> None:
    """The flags of every task that are no settings."""
    group = parser.add_argument_group("run folder")
    absent = {"default": argparse.SUPPRESS}
    group.add_argument(
        *("-o", "--output-dir", "--save-dir", "--out-dir"),
        metavar="FOLDER",
        help="the run folder (default: runs/ and the name of the data file)",
        **absent,
    )
    group.add_argument(
        "--config-path",
        metavar="FILE",
        help="a TOML file of flags without their dashes, such as config.toml of an earlier run; typed flags win",
        **absent,
    )
    group.add_argument("--overwrite", action="store_true", help="replace an earlier run in the folder", **absent)
    group.add_argument("--resume", action="store_true", help="continue an interrupted run in the folder", **absent)
    group.add_argument("--data-path", nargs="+", metavar="DATA", help=argparse.SUPPRESS, **absent)


def add_task_flags(parser: Parser, name: str) -> None:
    """The flags of a task, under a heading for each group of its settings."""
    from edgewise.tasks.config import defaults_of, groups_of

    kind = settings_of(name)
    defaults = defaults_of(kind)
    groups = [("", (kind,)), *groups_of(kind).items()]
    for group, kinds in groups:
        heading = parser.add_argument_group(TITLES.get(group, group))
        if group == "model" and kind.PRESETS and "--model" not in spellings_of(parser):
            choices = "{" + ",".join(kind.PRESETS) + "}"
            heading.add_argument(
                "--model",
                metavar=choices,
                default=argparse.SUPPRESS,
                help="the model by its name; other flags change it",
            )
        # A group may be called like one of its settings, such as the model.
        leave_out = kind.FOREIGN if group else {"data", *kind.FOREIGN, *groups_of(kind)}
        for each in kinds:
            add_settings(heading, each, defaults=defaults, leave_out=leave_out, choices=kind.CHOICES)


def elsewhere(flag: str, known: Collection[str]) -> str:
    """What is known about a flag that a task does not have; empty where no task has it.

    Args:
        flag: As typed.
        known: The flags of the task.
    """
    others = tasks_with(flag.removeprefix("--").removeprefix("no-").replace("-", "_"))
    return f"{flag} applies to {listed(others)} only.{did_you_mean(flag, known)}" if others else ""


def check_typed(name: str, typed: Collection[str]) -> None:
    """Raise SettingError where a flag was typed that the task does not have."""
    from edgewise.errors import SettingError

    own = all_flags(name)
    for each in typed:
        if each not in ("data", "task_type", "model", *own) and not settings_of(name).FOREIGN.get(each):
            raise SettingError(f"the task is {name}: {elsewhere(spelled(each), [spelled(flag) for flag in own])}")


def overview() -> str:
    """The help of `edgewise train`: the tasks with an example each, and the flags that all of them have."""
    tasks = []
    for name in names():
        kind = settings_of(name)
        tasks += [f"  {name:<12} {kind.SUMMARY}", f"{'':<15}edgewise train {kind.EXAMPLE}"]
    command = Parser(prog="edgewise train")
    add_command_flags(command)
    lines = command.format_help().splitlines()
    first = next(place for place, line in enumerate(lines) if "--output-dir" in line)
    first_task, *others = names()
    every = [name for name in all_flags(first_task) if all(name in all_flags(each) for each in others)]
    shared = textwrap.fill(
        " ".join(map(spelled, every)), 100, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
    )
    return OVERVIEW.format(tasks="\n".join(tasks), command="\n".join(lines[first:]), shared=shared)


def all_flags(name: str) -> list[str]:
    """The settings of a task that have a flag."""
    from edgewise.tasks.config import owners_of

    kind = settings_of(name)
    return [
        each
        for each, (_, field) in owners_of(kind).items()
        if each not in ("data", "task_type", *kind.FOREIGN) and not field.metadata.get("hidden")
    ]


def run(arguments: argparse.Namespace) -> int:
    """Trains, prints the scores and the next command."""
    from edgewise.train.folder import RunFolder, read_toml

    given = vars(arguments)
    typed = {name: value for name, value in given.items() if name not in COMMAND}
    typed["data"] = [*typed.get("data", ()), *given.get("data_path", ())]
    named = task_word(given.get("task"), typed["data"])
    if not typed["data"]:
        del typed["data"]
    resume, overwrite, config_path = (given.get(name) for name in ("resume", "overwrite", "config_path"))
    config = plain(read_toml(config_path)) if config_path else {}
    folder = RunFolder(Path(given.get("output_dir") or default_folder({**config, **typed})))
    if resume and not config_path and folder.is_started:
        config, config_path = plain(folder.read_config()), str(folder.path / "config.toml")
    settings, source = {**config, **typed}, config_path or "the command line"
    return train(
        settings, folder, typed=typed, named=named, overwrite=bool(overwrite), resume=bool(resume), source=source
    )


def task_word(named: str | None, data: Sequence[str]) -> str | None:
    """The task that was named first, which may be a file that is called like one.

    Raises:
        SettingError: There is such a file, and no other data.
    """
    from edgewise.errors import SettingError

    if named is None or not Path(named).is_file():
        return named
    if not data:
        raise SettingError(
            f"{named} is a task and a file here: write ./{named} for the file, or name the data of the task behind it."
        )
    print(f"edgewise: note: {named} is read as the task; write ./{named} for the file", file=sys.stderr)
    return named


def plain(config: dict[str, Any]) -> dict[str, Any]:
    """The names of a configuration file as Python writes them, old names as the new ones."""
    from edgewise.renames import renamed

    known = {setting for name in names() for setting in all_flags(name)}
    return renamed({name.replace("-", "_"): value for name, value in config.items()}, known)


def default_folder(settings: dict[str, Any]) -> str:
    """runs/ and the name of the data file."""
    data = settings.get("data") or ["run"]
    name = Path(data if isinstance(data, str) else str(data[0])).name
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
) -> int:
    """The run that `settings` describes, in `folder`; also what `edgewise demo` does."""
    from edgewise.cli.pictures import after_training
    from edgewise.cli.report import print_run
    from edgewise.data.tables.options import table_format
    from edgewise.progress import stage
    from edgewise.tasks.registry import task
    from edgewise.tasks.run import Run
    from edgewise.tasks.scores import command
    from edgewise.train.device import keep_memory

    name, reason = (named, "") if named else inferred(settings)
    chosen = task(name)
    if resume and folder.is_finished:
        print(f"{folder.path} is finished; there is nothing to resume.")
        print_run(chosen, folder)
        return 0
    try:
        check_typed(name, typed)
        job: Any = chosen.settings_type.of(settings, source)
        if getattr(job, "num_folds", None) is not None and job.fold is None:
            return cross_validate(chosen, job, folder, overwrite=overwrite, resume=resume)
        with table_format(job.table):
            run = Run.prepare(chosen, job, folder, overwrite=overwrite, resume=resume)
            keep_memory()
            if reason:
                print(f"task: {name}, because {reason}")
            describe(run)
            run.finish()
    except KeyboardInterrupt:
        if not folder.is_started:
            raise
        again = command("train", "--resume", "-o", folder.path)
        print(f"edgewise: interrupted; continue with: {again}", file=sys.stderr)
        return 130
    with stage("writing the report"):
        print(after_training(folder))
    print_run(chosen, folder)
    return 0


def describe(run: "Run") -> None:
    """Prints what was read, and where the training computes."""
    from edgewise.progress import stage

    with stage("looking at the data"):
        lines = run.task.describe(run.prepared, run.folder)
    print("\n".join([*lines, where(run.prepared.settings.train)]), flush=True)


def cross_validate(task: Any, job: Any, folder: Any, *, overwrite: bool, resume: bool) -> int:
    """A run for each fold, and a table of them all."""
    from edgewise.cli.report import print_table
    from edgewise.data.tables.options import table_format
    from edgewise.tasks.folds import CrossValidation, score_tables
    from edgewise.train.device import keep_memory
    from edgewise.train.folder import RunFolder

    def show(run: "Run") -> None:
        print(f"fold {run.prepared.settings.fold + 1} of {job.num_folds}: {run.folder.path}")
        describe(run)

    keep_memory()
    with table_format(job.table):
        metrics = CrossValidation(task, job, folder).finish(show, overwrite=overwrite, resume=resume)
        task_type = RunFolder(folder.path / metrics["folds"][0]["folder"]).read_config()["task-type"]
    for table in score_tables(metrics, task_type, job.metrics):
        print_table(table.title, table.header, table.rows)
    print(f"The folds are in {folder.path}, each a run of its own; metrics.json has the scores of all.")
    return 0


def where(settings: Any) -> str:
    """Which device a training computes on, and with how many threads."""
    from edgewise.plural import plural
    from edgewise.train.device import pick_device

    device = pick_device(settings.device)
    return (
        f"training on the CPU with {plural(settings.threads, 'thread')}" if device == "cpu" else f"training on {device}"
    )
