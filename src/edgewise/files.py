"""Writing a file: whole or not at all, and never through a link. Every file of the package is written here."""

import contextlib
import os
import secrets
from pathlib import Path

from edgewise.errors import WriteError

PART_PREFIX, PART_SUFFIX = ".edgewise-", ".part"
"""What the temporary files are called; a killed process can leave one."""


def write_bytes(path: str | os.PathLike[str], content: bytes | memoryview) -> None:
    """Writes a file in one step: a reader sees the old content or the new, never a part.

    The content goes to a fresh file beside `path`, to the disk, and then takes the name. A link that has this name is
    replaced, not followed.

    Raises:
        WriteError: The file cannot be written; what was there before is unchanged, and nothing is left beside it.
    """
    path = Path(path)
    part = path.with_name(f"{PART_PREFIX}{secrets.token_hex(8)}{PART_SUFFIX}")
    try:
        # "x" is O_EXCL: a name that exists, and be it a link to nothing, is an error.
        with open(part, "xb") as file, contextlib.ExitStack() as cleanup:
            cleanup.callback(_remove, part)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.replace(part, path)
            cleanup.pop_all()
    except OSError as error:
        raise WriteError(path, error) from error


def remove_parts(folder: Path) -> None:
    """Removes the temporary files that killed processes left in a folder."""
    for path in folder.glob(f"{PART_PREFIX}*{PART_SUFFIX}"):
        _remove(path)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
