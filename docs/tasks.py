"""Writes the lists of tasks that stand in files: the README's table, the guides, the estimators for type checkers."""

import re
from pathlib import Path

from edgewise.learn.estimators import OTHERS
from edgewise.learn.tasks.registry import own_names, settings_of

ROOT = Path(__file__).parent.parent


def table() -> str:
    """A row for each task: what it does, its command, its classes."""
    rows = ["| task | command | in Python |", "|---|---|---|"]
    for name in own_names():
        kind = settings_of(name)
        classes = ", ".join(f"`{each}`" for each in kind.ESTIMATORS)
        rows.append(f"| {kind.SUMMARY} | `edgewise train {name}` | {classes} |")
    return "\n".join(rows) + "\n"


def imports() -> str:
    """Every estimator by its file."""
    found = OTHERS | {each: name for name in own_names() for each in settings_of(name).ESTIMATORS}
    named = sorted(found.items(), key=lambda each: (each[1], each[0]))
    return "".join(f"    from edgewise.learn.estimators.{file} import {each} as {each}\n" for each, file in named)


def guides() -> str:
    """Every page by its title."""
    pages = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "index.md"]
    titles = {page.name: re.split("[:,]", page.read_text().splitlines()[0].removeprefix("# "))[0] for page in pages}
    listed = sorted(titles, key=lambda page: titles[page].removeprefix("The ").casefold())
    return f"Guides: {' · '.join(f'[{titles[page]}]({page})' for page in listed)}\n"


LISTS = {
    "docs/index.md": (r"Guides: .*\n", guides),
    "README.md": (r"\| task \| command .*\n(\|.*\n)+", table),
    "src/edgewise/learn/estimators/__init__.py": (
        r"(    from edgewise\.learn\.estimators\.\w+ import \w+ as \w+\n)+",
        imports,
    ),
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
