"""Old names of settings and of their values: they keep working for one release, in files, flags and Python alike."""

import warnings
from collections.abc import Collection, Mapping
from typing import Any

SETTINGS: dict[str, str] = {
    "told": "target_quantity",
    "ahead": "horizon",
    "weighing": "aggregation",
    "from": "pretrained",
    "from_run": "pretrained",
    "keep": "checkpoint",
    "mask_part": "mask_fraction",
    "look": "attention",
    "local": "local_attention",
    "seed": "random_state",
    "score": "attention_score",
}
"""Old names of settings, as Python writes them, and the new ones. The last two are names of flags: only in Python they
are old."""
FLAGS = ("seed", "score")
"""Names of this table that flags and files have today."""
ARGUMENTS: dict[str, str] = {
    "node_kinds": "node_types",
    "edge_kinds": "edge_types",
    "parts": "splits",
    "num_kinds": "num_types",
    "kinds": "types",
    **dict.fromkeys(("motion", "pairs", "sentences", "sources", "text", "texts"), "data"),
    **dict.fromkeys(("tags", "targets"), "y"),
    **dict.fromkeys(("graph", "prompt", "sentence"), "item"),
}
"""Old names of arguments of estimators and layers, and the new ones."""
VALUES: dict[str, dict[str, str]] = {"model": {"hops": "hop_attention", "mean": "sage"}}
"""Old values of a setting, by its new name, and the new ones."""


def renamed(values: Mapping[str, Any], known: Collection[str] | None = None, *, note: bool = False) -> dict[str, Any]:
    """Settings under their new names; hyphens and underscores stay as they are written.

    Args:
        values: Settings by name.
        known: The names that exist; a name that exists is never an old one. None renames what is old in files.
        note: Whether a DeprecationWarning names what is old. What a program wrote itself needs none.
    """
    found = {}
    for name, value in values.items():
        plain = name.replace("-", "_")
        new = SETTINGS.get(plain, plain)
        is_old = plain not in FLAGS if known is None else plain not in known and new in known
        if new != plain and is_old:
            warn_old_name(note, f"{_flag(plain)} is now {_flag(new)}")
            name, plain = new.replace("_", "-") if "-" in name else new, new
        if isinstance(value, str) and value in VALUES.get(plain, {}):
            today = VALUES[plain][value]
            warn_old_name(note, f"{_flag(plain)} {value} is now {_flag(plain)} {today}")
            value = today
        found[name] = value
    return found


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def warn_old_name(wanted: bool, what: str) -> None:
    """Warn of an old name where that is wanted."""
    if wanted:
        warnings.warn(f"{what}; the old name works in this release only.", DeprecationWarning, stacklevel=2)
