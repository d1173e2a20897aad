"""Command lines for the reader to paste: complete, quoted for the shell, on files that exist."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

NODE_COLUMNS = ("id", "node", "node_id")
"""Names of a column of nodes that `predict` finds by itself."""


def command(*words: object) -> str:
    """A command line as the shell reads it back, whatever its words hold."""
    return shlex.join(["edgewise", *map(str, words)])


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
