"""Triton's interpreter, without work that it repeats: kernels run in it on machines that have no CUDA device."""

import types
from functools import cache
from typing import Any


def speed_up() -> None:
    """Let the interpreter prepare `triton.language` once for a kernel, and not again for each function it calls.

    A launch replaces what `triton.language` holds by what the interpreter computes, and puts it back afterwards. Each
    function that the kernel calls looks through all of it again, mostly with nothing left to replace: half of the time.
    Some more goes into a table of dtypes that is made for each operation.
    """
    from triton.runtime import interpreter

    from triton import language

    if interpreter.InterpretedFunction.__call__.__module__ != interpreter.__name__:
        return  # done before
    dtype_of_any = interpreter._get_np_dtype
    dtypes: dict[str, Any] = {}

    @cache
    def languages(function: types.FunctionType) -> list[Any]:
        return [lang for lang in (language, language.core) if any(x is lang for x in function.__globals__.values())]

    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        rewritten = function.rewrite()
        if any(lang.static_print is not print for lang in languages(function.fn)):  # not replaced
            interpreter._patch_lang(function.fn)
        try:
            return rewritten(*args, **kwargs)
        except Exception as error:
            raise interpreter.InterpreterError(repr(error)) from error

    def dtype_of(kind: Any) -> Any:
        scalar = kind.scalar
        if scalar.is_ptr():
            return dtype_of_any(scalar)
        if scalar.name not in dtypes:
            dtypes[scalar.name] = dtype_of_any(scalar)
        return dtypes[scalar.name]

    interpreter.InterpretedFunction.__call__ = call  # type: ignore[method-assign]
    interpreter._get_np_dtype = dtype_of
