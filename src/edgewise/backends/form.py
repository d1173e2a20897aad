"""The form of a call: all that its checks and the choice of a backend read, so that calls of one form need neither.

Forms hold no tensors, and so nothing of what a call computes with: of a tensor they have the shape, the strides, the
dtype and whether it requires gradients, of a score and a normalizer the class and the numbers.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from edgewise.backends.kernels import NORMALIZERS, SCORES
from edgewise.neighborhood import Edges
from edgewise.neighborhood.operator import PLAIN, is_recorded
from edgewise.normalize import Normalize
from edgewise.score import Score

MAX_FORMS = 1024
"""How many forms are remembered; the first goes when one more comes."""
VALUES = (type(None), str, float, int, bool)
"""Types of what is compared as it is."""
Value = TypeVar("Value")
RunAgain = Callable[[Edges, Score, Normalize, tuple[Tensor | None, ...], float], Tensor]
"""Runs a call whose form is known: neighborhood, score, normalizer, tensors (query, key, value, bias, edge_key and
edge_value) and dropout."""


class Remembered(Generic[Value]):
    """What follows from forms, for the last of them."""

    def __init__(self) -> None:
        self.by_form: dict[Any, Value] = {}
        self.get: Callable[[Any], Value | None] = self.by_form.get

    def put(self, form: Any, value: Value) -> None:
        """Remember it; without a lock, which a child that is forked meanwhile would wait for."""
        while len(self.by_form) >= MAX_FORMS:
            with suppress(RuntimeError, StopIteration):  # another thread has changed it
                self.by_form.pop(next(iter(self.by_form)), None)
        self.by_form[form] = value

    def clear(self) -> None:
        """Forget all."""
        self.by_form.clear()


def form_of(
    neighborhood: Any, score: Any, normalize: Any, tensors: tuple[Tensor | None, ...], *others: Any
) -> tuple | None:
    """The form of a call over edges on a CPU; None for other calls, and where torch does more than to compute.

    Args:
        neighborhood, score, normalize: as in `attend`.
        tensors: those beside them.
        others: what else the call depends on, as it is.
    """
    if type(neighborhood) is not Edges or is_torch_at_work():
        return None
    if type(score) not in SCORES or type(normalize) not in NORMALIZERS:
        return None

    form = [type(score), type(normalize), neighborhood.num_receivers, neighborhood.num_senders]
    form += (neighborhood.senders.shape, neighborhood.senders.is_cpu)
    for x in (*tensors, *score.__dict__.values(), *normalize.__dict__.values(), *others):
        if type(x) in VALUES:
            form.append(x)
        elif not isinstance(x, Tensor):
            return None  # the checks say what is wrong with it
        elif (tensor_form := form_of_tensor(x)) is None:
            return None
        else:
            form += tensor_form

    return tuple(form)


def form_of_tensor(x: Tensor) -> tuple | None:
    """That of a plain tensor on a CPU whose numbers stand in memory as they are; None for others."""
    if type(x) not in PLAIN or not x.is_cpu or x.layout is not torch.strided:
        return None
    if x.is_neg() or x.is_conj() or x._is_zerotensor():
        return None
    return x.shape, x.stride(), x.dtype, x.requires_grad


def is_torch_at_work() -> bool:
    """Whether torch traces or transforms what is called, casts its arguments, or hands each operation to a mode."""
    return bool(
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch.autograd.forward_ad._current_level >= 0
        or torch._C._len_torch_function_stack()
        or is_recorded()
        or torch.is_autocast_enabled("cpu")
    )
