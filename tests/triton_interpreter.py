"""Triton's interpreter, without work that it repeats: kernels run in it on machines that have no CUDA device."""

import types
from dataclasses import replace
from functools import cache
from typing import Any


def speed_up(look_for_overflows: bool) -> None:
    """Let the interpreter prepare `triton.language` once for a kernel, and not again for each function it calls.

    A launch replaces what `triton.language` holds by what the interpreter computes, and puts it back afterwards. Each
    function that the kernel calls looks through all of it again, mostly with nothing left to replace: half of the time.
    Some more goes into a table of dtypes that is made for each operation, into the type of each block and the shape of
    each tensor, which are remembered, and into a second computation of each operation of whole numbers, which looks for
    overflows.
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
    builder = interpreter.interpreter_builder
    builder.options = replace(builder.options, sanitize_overflow=look_for_overflows)
    remember_types(language.core)


def remember_types(core: Any) -> None:
    """Let the types of blocks, and the shapes of tensors of a type, be made once."""
    make_block, make_tensor = core.block_type.__init__, core.tensor.__init__
    blocks: dict[Any, dict[str, Any]] = {}
    shapes: dict[str, tuple[Any, Any]] = {}

    def block(self: Any, element_ty: Any, shape: Any) -> None:
        sizes = tuple([x.value if isinstance(x, core.constexpr) else x for x in shape])
        known = blocks.get((element_ty.name, sizes))
        if known is None:
            make_block(self, element_ty, shape)
            blocks[element_ty.name, sizes] = dict(vars(self))
        else:
            vars(self).update(known)

    def tensor(self: Any, handle: Any, type: Any) -> None:
        known = shapes.get(type.name)
        if known is None:
            make_tensor(self, handle, type)
            shapes[type.name] = self.shape, self.numel
        else:
            self.handle, self.type, self.dtype = handle, type, type.scalar
            self.shape, self.numel = known

    core.block_type.__init__ = block
    core.tensor.__init__ = tensor
