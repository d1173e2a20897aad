"""`edgewise defaults`: the settings of a task where no flag changes them, as a configuration file."""

import argparse
import textwrap
from typing import Any

from edgewise.cli.flags import shown
from edgewise.learn.tasks.registry import names, settings_of

DESCRIPTION = (
    "Print the default settings of a task, each with its meaning, as a TOML file that edgewise train --config-path "
    "reads; without TASK, a table of the settings whose defaults differ between tasks."
)
ROWS = (
    *("num_layers", "num_heads", "model_dim", "hidden_dim", "dropout", "context"),
    *("epochs", "batch_size", "optimizer", "learning_rate", "final_learning_rate", "warmup", "weight_decay"),
    *("clip_norm", "ema_decay", "checkpoint"),
)
"""The settings of the table."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verb."""
    parser.add_argument("task", nargs="?", choices=names(), metavar="TASK", help=", ".join(names()))


def run(arguments: argparse.Namespace) -> int:
    """Prints the file, or the table."""
    print(config_file(arguments.task) if arguments.task else table_of_defaults())
    return 0


def config_file(name: str) -> str:
    """The defaults of a task as TOML; a setting without one is a comment."""
    import tomli_w

    from edgewise.learn.settings import helps
    from edgewise.learn.tasks.config import defaults_of, groups_of, owners_of

    declared = settings_of(name)
    types_by_group = {"": (declared.run_type,), **groups_of(declared.run_type)}
    lines = [f"# edgewise train {name} --config-path FILE"]
    for setting, value in defaults_of(declared).items():
        group, field = owners_of(declared.run_type)[setting]
        if setting in declared.unused or field.metadata.get("hidden"):
            continue
        text = next((helps(member)[setting] for member in types_by_group[group] if setting in helps(member)), "")
        lines += ["", *textwrap.wrap(text, 110, initial_indent="# ", subsequent_indent="# ")]
        key = setting.replace("_", "-")
        plain_value = list(value) if isinstance(value, tuple) else value
        has_no_default = plain_value is None or plain_value == []
        lines.append(f"# {key} = ..." if has_no_default else tomli_w.dumps({key: plain_value}).strip())

    return "\n".join(lines)


def table_of_defaults() -> str:
    """The defaults of every task, settings in rows; a dash where there is none or it follows from the data."""
    from edgewise.learn.tasks.config import defaults_of

    defaults_by_task = {name: defaults_of(settings_of(name)) for name in names()}
    rows = [["", *defaults_by_task]]
    rows += [
        [f"--{name.replace('_', '-')}", *(cell(defaults.get(name)) for defaults in defaults_by_task.values())]
        for name in ROWS
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows]
    return "Defaults by task (- where it follows from the data):\n" + "\n".join(f"  {line}" for line in lines)


def cell(value: Any) -> str:
    """A default as it is typed on the command line."""
    return "-" if value is None else shown(value)
