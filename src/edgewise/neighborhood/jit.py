"""Functions that numba compiles, whose code other processes find on disk; imported where one is first needed.

Three things are not as in numba. Code is loaded without its tables of all that it can compile. Each piece of code has a
file named by all that it depends on: numba has an index, which it reads, changes and writes back, so that of two
processes that compile at once one may leave its code under the other's kind of arguments. And a helper is optimized as
part of the kernels that call it, not by itself before, which took a sixth of the time of compiling.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.runtime import rtsys


class CodeFiles(IndexDataCacheFile):
    """A file for each kind of arguments, written in one step."""

    def __init__(self, folder: str, function_name: str, source_stamp: str):
        super().__init__(folder, function_name, source_stamp)
        self.folder, self.function_name = Path(folder), function_name
        self._read, self._write = self._load_data, self._save_data

    def load(self, key: object) -> object:
        """What was saved for this kind of arguments; None where nothing was, or it cannot be read."""
        try:
            saved, data = self._read(self.name_of(key))
        except (OSError, EOFError, UnpicklingError):
            return None
        return data if saved == key else None

    def save(self, key: object, data: object) -> None:
        """Save it, and remove what was made from other sources."""
        name, _, line_and_version = self.function_name.rpartition("-")
        for path in self.folder.glob(f"{name}-*.{line_and_version.partition('.')[2]}.*"):
            if not path.name.startswith(f"{self.function_name}.{self._source_stamp}."):
                path.unlink(missing_ok=True)
        self._write(self.name_of(key), (key, data))

    def name_of(self, key: object) -> str:
        """A name made of all that the code depends on: the sources, numba, the processor, the kind of arguments."""
        return f"{self.function_name}.{self._source_stamp}.{digest(self._version, repr(key))}.nbc"


class CodeCache(FunctionCache):
    """The code of one function on disk, in the folder that numba chooses.

    Raises:
        AttributeError: this numba keeps code in another way.
    """

    def __init__(self, function: Callable):
        super().__init__(function)
        self._cache_file = CodeFiles(self._cache_path, self._impl.filename_base, self.stamp())
        self._load = self._load_overload

    def stamp(self) -> str:
        """The sources that the code is made of: by default the file of the function, as it stands on disk."""
        return digest(repr(self._impl.locator.get_source_stamp()))

    def load_overload(self, sig: object, target_context: object) -> object:
        """The code that was saved for these kinds of arguments; None where none was.

        numba would first fill its tables of all functions that it can compile, which takes half a second. Code that is
        there needs none of them but the counter of references, and what compiles anew fills them itself.
        """
        rtsys.initialize(target_context)
        return self._load(sig, target_context)

    def save_overload(self, sig: object, data: object) -> None:
        """Save it if it can be saved: a disk may be full, or a folder have gone."""
        with suppress(OSError):
            super().save_overload(sig, data)


def compiled(function: Callable, cache: type[FunctionCache] = CodeCache, **options: Any) -> Any:
    """The function, compiled at its first call for each kind of arguments, and cached where a folder can be written.

    A numba that keeps code in another way caches as it does by itself.
    """
    dispatcher = njit(**options)(function)
    with suppress(RuntimeError):  # no folder can be written
        try:
            dispatcher._cache = cache(function)
        except (AttributeError, TypeError):
            dispatcher.enable_caching()
    return dispatcher


class PartOfKernels(JITCodeLibrary):
    """The code of a helper, which is not optimized by itself."""

    def _optimize_final_module(self) -> None:
        pass


class HelperCompiler(Compiler):
    """Compiles a helper into a library of its own, as numba does, but for its optimization."""

    def compile_extra(self, func: Callable) -> Any:
        self.state.library = PartOfKernels(self.state.targetctx.codegen(), func.__qualname__)
        return super().compile_extra(func)


def inlined_with(**options: Any) -> Any:
    """Compiles helpers: functions that become part of every kernel that calls them, and cannot be called otherwise."""
    inside: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": True}
    return njit(pipeline_class=HelperCompiler, **options, **inside)


def digest(*texts: str) -> str:
    """A short name for texts, different for different ones."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
