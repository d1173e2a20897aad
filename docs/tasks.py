"""Writes the lists of tasks that stand in files: the README's table, the guides, the estimators for type checkers."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from estimators import CLASSES

from edgewise.learn.tasks.registry import OWN, settings_of

ROOT = Path(__file__).parent.parent
OTHERS = {"GraphEdges": "graph_input", "GraphNodes": "graph_input", "NodeKFold": "selection"}
"""Classes of `edgewise.learn.estimators` that belong to no task, and their files."""


def table() -> str:
    """A row for each task: what it does, its command, its classes."""
    rows = ["| task | command | in Python |", "|---|---|---|"]
    for name in OWN:
        declared = settings_of(name)
        classes = ", ".join(f"`{estimator}`" for estimator in declared.estimators)
        rows.append(f"| {declared.summary} | `edgewise train {name}` | {classes} |")
    return "\n".join(rows) + "\n"


def exports() -> str:
    """Every estimator by its file, for type checkers, and the names alone."""
    files = OTHERS | {kind.name: "classes" for kind in CLASSES}
    named = sorted(files.items(), key=lambda named: (named[1], named[0]))
    lines = [f"    from edgewise.learn.estimators.{file} import {name} as {name}" for name, file in named]
    names = [f'    "{name}",' for name in sorted(files)]
    return "\n".join(["if TYPE_CHECKING:  # written by docs/tasks.py", *lines, "", "NAMES = (", *names, ")\n"])


def guides() -> str:
    """Every page by its title."""
    pages = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "index.md"]
    titles = {page.name: re.split("[:,]", page.read_text().splitlines()[0].removeprefix("# "))[0] for page in pages}
    listed = sorted(titles, key=lambda page: titles[page].removeprefix("The ").casefold())
    return f"Guides: {' · '.join(f'[{titles[page]}]({page})' for page in listed)}\n"


LISTS = {
    "docs/index.md": (r"Guides: .*\n", guides),
    "README.md": (r"\| task \| command .*\n(\|.*\n)+", table),
    "src/edgewise/learn/estimators/__init__.py": (r"(?s)if TYPE_CHECKING:.*\n\)\n", exports),
}
"""By file, what is replaced, and by what."""


def written(file: str) -> str:
    """The content of a file with its list as it is today."""
    pattern, made = LISTS[file]
    content, count = re.subn(pattern, lambda found: made(), (ROOT / file).read_text())
    assert count == 1, file
    return content


if __name__ == "__main__":
    for file in LISTS:
        (ROOT / file).write_text(written(file))
