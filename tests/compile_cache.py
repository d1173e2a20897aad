"""Compiled kernels that outlive a clone: tests of a fresh clone load what tests of another one compiled.

Numba keeps the code of a kernel in a folder named after the path of its source, so that a new clone would compile
everything again. Here the folder is named after the content of the sources. Its files name what else the code depends
on: the version of numba, the processor, the types of the arguments. torch names its files in the same way.
"""

import hashlib
import importlib.util
import os
import shutil
from contextlib import suppress
from pathlib import Path

from numba import config
from numba.core.caching import UserProvidedCacheLocator

MAX_FOLDERS = 4
"""Folders that stay: of the sources that were tested last."""


def use_cache() -> None:
    """Set NUMBA_CACHE_DIR and TORCHINDUCTOR_CACHE_DIR, also for processes that a test starts, unless they are set.

    The place is the user's cache folder. Where nothing can be written, each clone compiles for itself.
    """
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(home).expanduser() / "edgewise-tests"
    try:
        if "NUMBA_CACHE_DIR" not in os.environ:
            os.environ["NUMBA_CACHE_DIR"] = str(numba_folder(folder))
            config.reload_config()
        if "TORCHINDUCTOR_CACHE_DIR" not in os.environ:
            (folder / "inductor").mkdir(exist_ok=True)
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
    except OSError:
        return  # slower, and the same


def numba_folder(folder: Path) -> Path:
    """The folder of the code of these kernels, made where it is missing; those that have long been unused go."""
    sources = Path(importlib.util.find_spec("edgewise").origin).parent / "backends/numba"  # type: ignore[arg-type, union-attr]
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in sorted(sources.glob("*.py")))).hexdigest()
    own = folder / f"numba-{digest[:16]}"
    (own / "kernels").mkdir(parents=True, exist_ok=True)
    os.utime(own)
    link = own / UserProvidedCacheLocator.get_suitable_cache_subpath(str(sources / "compiled.py"))
    with suppress(FileExistsError):
        link.symlink_to("kernels")
    for path in sorted(folder.glob("numba-*"), key=lambda path: path.stat().st_mtime)[:-MAX_FOLDERS]:
        shutil.rmtree(path, ignore_errors=True)
    return own
