"""Command lines for the reader to paste: complete, quoted for the shell, on files that exist."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgewise.train.folder import RunFolder

FILE_FLAGS = ("edges", "features", "graphs")
"""Further files that `predict` reads together with the data."""
NODE_COLUMNS = ("id", "node", "node_id")
"""Names of a column of nodes that `predict` finds by itself."""


def command(*words: object) -> str:
    """A command line as the shell reads it back, whatever its words hold."""
    return shlex.join(["edgewise", *map(str, words)])


def prediction(config: Mapping[str, Any], folder: RunFolder, output: str, *, data: str | None = None) -> str:
    """The command that predicts the file of the run that was read last: its test rows where they have a file.

    Args:
        config: config.toml of the run.
        folder: the run.
        output: what the file of predictions is called, unless there is one already.
        data: another file.
    """
    words: list[object] = ["predict", folder.path, data or files_of(config)[-1]]
    for flag in FILE_FLAGS:
        if config.get(flag):
            words += [f"--{flag}", config[flag]]
    if (column := config.get("node-column")) and column not in NODE_COLUMNS:
        words += ["--node-column", column]
    return command(*words, "-o", free_name(output))


def files_of(config: Mapping[str, Any]) -> Sequence[str]:
    """The data files of a run."""
    data = config["data"]
    return [data] if isinstance(data, str) else data


def free_name(name: str) -> str:
    """The name, or, where a file is called so already, with a number: a pasted command must not be refused."""
    path, number = Path(name), 1
    stem, dot, end = path.name.partition(".")
    while path.exists():
        number += 1
        path = path.with_name(f"{stem}_{number}{dot}{end}")
    return str(path)
