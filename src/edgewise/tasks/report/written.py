"""The page about a finished run, written into its folder."""

from collections.abc import Sequence
from pathlib import Path

from edgewise.tasks.report.sections import Section, sections
from edgewise.train.folder import RunFolder, corrupt_as_run_error


def write_report(folder: RunFolder, found: Sequence[Section] | None = None) -> Path:
    """Writes report.html into a finished run; where it is.

    Args:
        folder: the run.
        found: what stands on the page; None is what `sections` finds in the folder.

    Raises:
        MissingExtraError: matplotlib is not installed.
        RunFolderError: a file of the folder is missing or damaged.
    """
    if found is None:
        with corrupt_as_run_error(folder.path):
            found = sections(folder)
    from edgewise.view.page import page

    kind = (folder.read_format() or "").removeprefix("edgewise ")
    with folder.locked():
        folder.write("report.html", page(f"{folder.path.resolve().name}: {kind}", found).encode())
    return folder.path / "report.html"
