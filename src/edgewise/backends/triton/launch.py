"""How a kernel is started: by what triton has compiled for arguments like these, without asking it again.

Triton inspects every argument of every launch, in which kernels over edges have some forty: that takes longer than to
start the kernel. What it looks for is the same from launch to launch. It is read off here in one walk, and of what many
launches have in common only once.
"""

from itertools import count
from typing import Any

import torch
from torch import Tensor

import triton
from edgewise.neighborhood.operator import PLAIN

ALIGNED = 16
"""What addresses, and whole numbers, may be multiples of: a kernel is compiled for those that are, and for others."""
_compiled: dict[tuple, tuple[Any, tuple]] = {}
"""Kernels, and the constants that they are called with, by what they were compiled for."""
_kinds: dict[tuple, int] = {}
"""Numbers for the kinds of arguments that launches have in common, each given once by any thread."""
_numbers = count()


class Common:
    """Arguments that many launches have in common, inspected once."""

    def __init__(self, arguments: tuple):
        self.arguments = arguments
        kinds: list[Any] = []
        self.given = described(arguments, kinds)
        """With addresses for tensors."""
        self.kind = _kinds.setdefault(tuple(kinds), next(_numbers))
        """What a kernel is compiled for."""


def start(kernel: Any, grid: tuple[int, ...], arguments: tuple, constants: dict[str, Any], options: dict) -> None:
    """Runs a kernel.

    Args:
        kernel: of triton.
        grid: how many programs along each axis.
        arguments: tensors on the current device, whole numbers, floats, None, tuples of these, and `Common` ones.
        constants: what the kernel is compiled for, by name.
        options: how it is compiled.
    """
    variant, key = None, ()
    knobs = triton.knobs
    if isinstance(kernel, triton.JITFunction) and not torch.version.hip:  # of AMD's devices triton asks more
        modes = knobs.compilation.instrumentation_mode, knobs.runtime.debug
        kinds = [kernel, torch.cuda.current_device(), *modes, *constants.values(), *options.values()]
        values = described(arguments, kinds)
        key = tuple(kinds)
        variant = _compiled.get(key)
    if variant is not None:
        compiled, constants_of_kernel = variant
        compiled[(*grid, 1, 1)[:3]](*values, *constants_of_kernel)
        return

    apart = [x.arguments if type(x) is Common else x for x in arguments]
    compiled = kernel[grid](*apart, **constants, **options)
    if key and hasattr(compiled, "__getitem__"):  # what hooks of triton refuse or compile later is none yet
        _compiled[key] = compiled, tuple([constants[name] for name in kernel.arg_names if name in constants])


def described(arguments: tuple, kinds: list) -> tuple:
    """The arguments with addresses for tensors; what a kernel is compiled for is added to `kinds`."""
    values: list[Any] = []
    for x in arguments:
        argument_type: Any = type(x)
        if argument_type in PLAIN:
            address = x.data_ptr()
            kinds += x.dtype, address % ALIGNED == 0
            x = address
        elif argument_type is int:  # 1 is known to the compiler
            kinds.append(1 if x == 1 else (x % ALIGNED == 0, -(2**31) <= x < 2**31))
        elif x is None or argument_type is float:
            kinds.append(argument_type)
        elif argument_type is Common:
            kinds.append(x.kind)
            x = x.given
        elif isinstance(x, tuple):
            x = described(x, kinds)
        elif isinstance(x, Tensor):  # of a type of the caller's
            (x,) = described((x.as_subclass(Tensor),), kinds)
        else:
            raise TypeError(f"a kernel takes no {argument_type.__name__}")

        values.append(x)

    return tuple(values)
