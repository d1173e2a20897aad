"""How a kernel is started: by what triton has compiled for arguments like these, without asking it again.

Triton looks at every argument of every launch, in which kernels over edges have some forty: that takes longer than to
start the kernel. What it looks for is the same from launch to launch. It is read off here in one walk, and of what many
launches have in common only once.
"""

from typing import Any

import torch

import triton
from edgewise.operator import PLAIN

ALIGNED = 16
"""What addresses, and whole numbers, may be multiples of: a kernel is compiled for those that are, and for others."""
_compiled: dict[tuple, tuple[Any, tuple]] = {}
"""Kernels, and the constants that they are called with, by what they were compiled for."""
_kinds: dict[tuple, int] = {}
"""Numbers for the kinds of arguments that launches have in common."""


class Common:
    """Arguments that many launches have in common, looked at once."""

    def __init__(self, arguments: tuple):
        self.arguments = arguments
        kinds: list[Any] = []
        self.given = described(arguments, kinds)
        """With addresses for tensors."""
        self.kind = _kinds.setdefault(tuple(kinds), len(_kinds))
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
    found, key = None, ()
    if isinstance(kernel, triton.JITFunction) and not torch.version.hip:  # of AMD's devices triton asks more
        kinds = [kernel, torch.cuda.current_device(), *constants.values(), *options.values()]
        given = described(arguments, kinds)
        key = tuple(kinds)
        found = _compiled.get(key)
    if found is not None:
        compiled, rest = found
        compiled[(*grid, 1, 1)[:3]](*given, *rest)
        return
    apart = [x.arguments if type(x) is Common else x for x in arguments]
    compiled = kernel[grid](*apart, **constants, **options)
    if key:
        _compiled[key] = compiled, tuple([constants[name] for name in kernel.arg_names if name in constants])


def described(arguments: tuple, kinds: list) -> tuple:
    """The arguments with addresses for tensors; what a kernel is compiled for is added to `kinds`."""
    given: list[Any] = []
    for x in arguments:
        kind: Any = type(x)
        if kind in PLAIN:
            address = x.data_ptr()
            kinds += x.dtype, address % ALIGNED == 0
            x = address
        elif kind is int:  # 1 is known to the compiler
            kinds.append(1 if x == 1 else (x % ALIGNED == 0, -(2**31) <= x < 2**31))
        elif x is None or kind is float:
            kinds.append(kind)
        elif kind is Common:
            kinds.append(x.kind)
            x = x.given
        else:
            x = described(x, kinds)
        given.append(x)
    return tuple(given)
