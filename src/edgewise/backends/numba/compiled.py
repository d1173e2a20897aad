"""How the kernels are compiled, and where their code is cached for other processes.

A kernel is compiled at its first call for each kind of arguments, which takes seconds. Its code is cached where numba
caches code: in NUMBA_CACHE_DIR, beside the source or in the user's cache, the first that can be written to; where none
can, each process compiles for itself. Code is stale as soon as any file of this folder changes: kernels are made of
helpers from all of them.
"""

from array import array
from collections.abc import Callable
from functools import partial
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

import numpy as np
from numba import typeof, types

from edgewise.backends.numba import threads, words
from edgewise.neighborhood.jit import CodeCache, compiled, digest, inlined_with

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False}
ALONE: dict[str, Any] = OPTIONS | {"no_cfunc_wrapper": True}
"""Options of a kernel: Python calls it, and nothing in C does."""
inlined: Any = inlined_with(**OPTIONS)
"""Compiles a helper that becomes part of every kernel that calls it."""


class Kernel:
    """A function that is compiled at its first call for each kind of arguments, and cached where a folder is writable.

    It takes the number of its share, how many shares there are, and arguments: arrays, whole numbers and named tuples
    of both. The classes of the tuples and the dtypes of the arrays say all about their kind; numba's own way to find it
    is slow for tuples, and swallows a Ctrl-C that falls into it.
    """

    def __init__(self, function: Callable, options: dict[str, Any]):
        self.compiled = compiled(function, CachedCode, **options)
        self.variants: dict[tuple, Variant] = {}

    def bind(self, *arguments: Any) -> "BoundKernel":
        """The kernel with arguments of which some are slots, whose values come at each call."""
        return BoundKernel(self, arguments)

    def run(self, num_chunks: int, *arguments: Any) -> None:
        """Run it on as many threads as torch uses, or as there are pieces of work."""
        signature = tuple([kind_of(argument) for argument in arguments])
        variant = self.variants.get(signature)
        if variant is None:
            variant = self.variants[signature] = Variant(
                self.compiled, tuple(typeof(argument) for argument in arguments)
            )
        count = threads.threads_for(num_chunks)
        if count > 1 and threads.start_team:
            variant.run_on_team(count, arguments)
        else:
            threads.run(lambda share, number: variant.entry(share, number, *arguments), num_chunks)


class BoundKernel:
    """A kernel with arguments of which some are slots, whose values come at each call.

    What it is made of takes some hundred microseconds and stays; a call takes a few.
    """

    def __init__(self, kernel: Kernel, arguments: tuple):
        kinds = tuple([words.type_of(argument) for argument in arguments])
        self.kernel = address_of(kernel.compiled, (types.int64, types.int64, *kinds))
        address = words.Words(types.Tuple(kinds))
        self.function = address_of(with_words, (types.int64, types.int64, types.int64, address, types.int64))
        on_words.compile(ON_WORDS)
        self.entry: Callable = on_words.overloads[ON_WORDS].entry_point
        self.arrays: list[np.ndarray] = []  # their memory must live as long as the words
        self.words = array("q", [word for argument in arguments for word in words.words_of(argument, self.arrays)])

    def run(self, num_chunks: int, values: array) -> None:
        """Run it on as many threads as torch uses, or as there are pieces of work.

        Raises:
            MemoryError: there was none for the scratch of a thread; nothing else fails in a kernel.
        """
        count = threads.threads_for(num_chunks)
        addresses = self.kernel, self.words.buffer_info()[0], values.buffer_info()[0]
        if count == 1 or threads.start_team:
            start_team = threads.start_team if count > 1 else 0
            return _require_memory(self.entry(self.function, start_team, 0, count, *addresses))

        def work(share: int, number: int) -> None:
            _require_memory(self.entry(self.function, 0, share, number, *addresses))

        threads.run(work, num_chunks)


def _require_memory(num_failed: int) -> None:
    if num_failed:
        raise MemoryError("A kernel found no memory for its scratch.")


class Variant:
    """The code of a kernel for one kind of arguments."""

    def __init__(self, kernel: Any, kinds: tuple):
        self.kinds, signature = kinds, (types.int64, types.int64, *kinds)
        kernel.compile(signature)
        self.entry: Callable = kernel.overloads[signature].entry_point
        """What Python calls, with one share."""
        self.address = address_of(kernel, signature)
        """Where the code itself is."""
        self.entry_on_team: Callable | None = None

    def run_on_team(self, count: int, arguments: tuple) -> None:
        """All shares, on the threads of OpenMP.

        Raises:
            MemoryError: there was none for the scratch of a thread; nothing else fails in a kernel.
        """
        if self.entry_on_team is None:
            signature = (types.int64, types.int64, types.int64, types.Tuple(self.kinds))
            team.compile(signature)
            self.entry_on_team = team.overloads[signature].entry_point
        _require_memory(self.entry_on_team(self.address, threads.start_team, count, arguments))


def address_of(function: Any, signature: tuple) -> int:
    """The address of the code of a function for these types, compiled where there is none yet."""
    function.compile(signature)
    code = function.overloads[signature]
    return int(code.library.get_pointer_to_function(code.fndesc.llvm_func_name))


def kind_of(argument: Any) -> Any:
    """What the code for an argument depends on."""
    argument_type = type(argument)
    if argument_type is np.ndarray:
        return argument.dtype

    if argument_type not in _varying_fields:
        fields = list(enumerate(argument)) if isinstance(argument, tuple) else []
        _varying_fields[argument_type] = tuple(
            [n for n, x in fields if isinstance(x, field_type)] for field_type in (np.ndarray, tuple)
        )

    arrays, tuples = _varying_fields[argument_type]
    if tuples:
        return (
            argument_type,
            *[kind_of(argument[index]) for index in tuples],
            *[argument[index].dtype for index in arrays],
        )

    return (argument_type, *[argument[index].dtype for index in arrays]) if arrays else argument_type


_varying_fields: dict[type, tuple[list[int], ...]] = {}
"""The indices of arrays and of tuples in a named tuple."""


class CachedCode(CodeCache):
    """The code of one kernel on disk, stale as soon as any file of this folder changes."""

    def stamp(self) -> str:
        return SOURCES


def stamp_of(folder: Traversable) -> str:
    """A hash of the sources in a folder."""
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return digest(*(file.read_text("utf-8") for file in files if file.name.endswith(".py")))


SOURCES = stamp_of(resources.files(__package__))
"""The sources of these kernels, as they were when they were loaded."""

kernel: Any = partial(Kernel, options=ALONE)
bound_kernel: Any = partial(Kernel, options=ALONE | {"no_cpython_wrapper": True})
"""A kernel that is only called bound, for which numba compiles no way in."""
with_words = compiled(words.with_words, CachedCode, **ALONE, no_cpython_wrapper=True)
team, on_words = (compiled(function, CachedCode, **ALONE) for function in (threads.on_team, words.on_words))
ON_WORDS = (types.int64,) * 7
"""The types of what `on_words` takes."""
