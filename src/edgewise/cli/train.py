"""`edgewise train`: its flags by task, its help, and in which processes it runs."""

import argparse
import dataclasses
import os
import textwrap
from collections.abc import Sequence
from typing import Any

from edgewise.cli.flags import Parser, add_engine_flags, add_settings, positive, require_engine, spellings_of
from edgewise.cli.training import all_flags, run_in_group
from edgewise.errors import SettingError
from edgewise.learn.settings import spelled
from edgewise.learn.tasks.registry import names, settings_of

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
"""Headings of groups of settings; the heading of any other group is its field."""
DEFAULTS_OF_MODELS = (
    "Defaults here and of the training are those of the default model; another may have its own, which config.toml of "
    "its run shows."
)
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
    parser.set_defaults(words=("train", *words))
    parser.add_argument("data", nargs="*", metavar="DATA", default=argparse.SUPPRESS, help="the files")
    add_command_flags(parser)
    for name in (named,) if named else names():
        add_task_flags(parser, name)

    if named:
        declared = settings_of(named)
        parser.description = f"Train a model: {declared.summary}."
        parser.epilog = f"Example: edgewise train {declared.example}"
    else:
        parser.format_help = overview  # type: ignore[method-assign]

    return parser


def add_command_flags(parser: Any) -> None:
    """Flags of every task that are not settings."""
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
    group = parser.add_argument_group("several processes (each computes its share of a batch)")
    group.add_argument("--devices", type=positive, metavar="N", help="processes on this machine, one a GPU", **absent)
    group.add_argument("--num-nodes", type=positive, metavar="N", help="machines; start the command on each", **absent)
    group.add_argument(
        "--strategy",
        choices=("ddp", "fsdp"),
        help="ddp: each process has the whole model (the default); fsdp: each stores a part of it",
        **absent,
    )
    add_engine_flags(group)


def add_task_flags(parser: Parser, name: str) -> None:
    """The flags of a task, under a heading for each group of its settings."""
    from edgewise.learn.tasks.config import defaults_of, groups_of

    declared = settings_of(name)
    defaults, types_by_group = defaults_of(declared), groups_of(declared.run_type)
    groups = [("", (declared.run_type,)), *types_by_group.items()]
    for group, group_types in groups:
        heading = parser.add_argument_group(TITLES.get(group, group))
        if group == "model" and declared.presets and "--model" not in spellings_of(parser):
            choices = "{" + ",".join(declared.presets) + "}"
            heading.add_argument(
                "--model",
                metavar=choices,
                default=argparse.SUPPRESS,
                help="the model by its name; other flags change it",
            )

        fields = {field.name for group_type in group_types for field in dataclasses.fields(group_type)}
        if group and ("model" in fields or (group == "model" and declared.presets)):
            heading.description = DEFAULTS_OF_MODELS

        # A group may have the name of one of its settings, such as model.
        leave_out = declared.unused if group else {"data", *declared.unused, *types_by_group}
        for group_type in group_types:
            is_first = group_type is group_types[0]
            if not is_first:  # another model's settings have the defaults of that model
                heading = parser.add_argument_group(f"{group} ({group_type.__name__.removesuffix('Settings').lower()})")
            group_defaults = defaults if is_first else None
            add_settings(heading, group_type, defaults=group_defaults, leave_out=leave_out, choices=declared.choices)


def overview() -> str:
    """The help of `edgewise train`: each task with an example, and the flags of every task."""
    tasks = []
    for name in names():
        declared = settings_of(name)
        tasks += [f"  {name:<12} {declared.summary}", f"{'':<15}edgewise train {declared.example}"]

    command = Parser(prog="edgewise train")
    add_command_flags(command)
    lines = command.format_help().splitlines()
    first = next(line_number for line_number, line in enumerate(lines) if "--output-dir" in line)
    first_task, *others = names()
    flags_of_others = [all_flags(other) for other in others]
    shared_flags = [
        flag for name, flag in all_flags(first_task).items() if all(name in flags for flags in flags_of_others)
    ]
    shared = textwrap.fill(
        " ".join(shared_flags), 100, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
    )

    return OVERVIEW.format(tasks="\n".join(tasks), command="\n".join(lines[first:]), shared=shared)


def run(arguments: argparse.Namespace) -> int:
    """Trains, in this process or in several; prints the scores and the next command."""
    flags = vars(arguments)
    devices, num_nodes = (flags.get(name, 1) for name in ("devices", "num_nodes"))
    is_one_of_several = all(os.environ.get(name) for name in ("RANK", "WORLD_SIZE"))
    is_in_ray = flags.get("engine") == "ray"
    if is_in_ray and is_one_of_several:
        raise SettingError("--engine ray starts its workers itself; start edgewise without torchrun.")

    if not is_in_ray:
        require_engine(flags)
    if not is_one_of_several and not is_in_ray and devices * num_nodes == 1:
        if "devices" not in flags:
            require_several(flags)
        return run_in_group(flags)

    from edgewise.cli.processes import PARENT, launch, resume_command, run_as_member, run_in_ray

    if is_one_of_several:
        if not os.environ.get(PARENT):
            refuse_processes(flags)
        return run_as_member(flags)
    if is_in_ray:
        return run_in_ray(flags)

    return launch(flags["words"], devices, num_nodes, resume_command(flags))


def refuse_processes(flags: dict[str, Any]) -> None:
    """Raise SettingError if flags ask for processes in one that torchrun or the like has started as one of several."""
    if named := [spelled(name) for name in ("devices", "num_nodes") if name in flags]:
        raise SettingError(
            f"{named[0]} starts processes, but RANK and WORLD_SIZE are set, as in a process of torchrun; leave it out, "
            "or unset RANK and WORLD_SIZE."
        )


def require_several(flags: dict[str, Any]) -> None:
    """Raise SettingError if flags about several processes are given for one."""
    if "strategy" in flags:
        raise SettingError("--strategy is for several processes; set their number with --devices.")
