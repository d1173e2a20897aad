"""A function of plain tensors as an operator of torch: one node for torch.compile and torch.export.

`torch.library.custom_op` does the same and imports the whole compiler for it, a second in every process. And the way of
an operator through torch's dispatcher takes a third of a millisecond, which is why it is taken only while tracing.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.autograd.function import once_differentiable

LIBRARY = torch.library.Library("edgewise", "FRAGMENT")


def define(
    name: str,
    function: Callable,
    shapes: Callable,
    gradient: tuple[Callable, Callable] | None = None,
    tags: tuple[torch.Tag, ...] = (),
) -> Any:
    """Register `function` as `torch.ops.edgewise.<name>` and give back what to call.

    Args:
        function: what it does, its first argument a tensor, on the device of which it runs; its annotations become the
            schema. It changes none of its arguments.
        shapes: the same call on tensors that hold nothing, for tracing.
        gradient: what to keep of a call, and the gradient, as `torch.library.register_autograd` takes them.
        tags: what compilers are to know of it.

    Where the module is loaded again the operator stays that of the first time: to register it anew would free the old
    one under whoever still holds it.
    """
    function = _on_its_device(function)
    operators = torch.ops.edgewise
    if not hasattr(operators, name):
        LIBRARY.define(name + torch.library.infer_schema(function, mutates_args=()), tags=tags)
        LIBRARY.impl(name, function, "CompositeExplicitAutograd")
        torch.library.register_fake(f"edgewise::{name}", shapes, lib=LIBRARY)
        if gradient is not None:
            keep, differentiate = gradient
            torch.library.register_autograd(f"edgewise::{name}", differentiate, setup_context=keep, lib=LIBRARY)
    operator = getattr(operators, name)
    direct = function if gradient is None else _differentiable(function, *gradient)

    def call(*arguments: Any) -> Any:
        if torch.compiler.is_compiling():
            return operator(*arguments)
        return direct(*arguments) if torch.is_grad_enabled() else function(*arguments)

    return call


def _on_its_device(function: Callable) -> Callable:
    """The function where the device of its first argument is the current one: kernels are started on that."""

    @wraps(function)
    def run(*arguments: Any) -> Any:
        device = arguments[0].device
        if device.type != "cuda" or device.index == torch.cuda.current_device():
            return function(*arguments)
        with torch.cuda.device(device):
            return function(*arguments)

    return run


def _differentiable(function: Callable, keep: Callable, differentiate: Callable) -> Callable:
    class Direct(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *arguments: Any) -> Any:  # a setup_context beside it would cost a look at the signature
            output = function(*arguments)
            keep(ctx, arguments, output)
            return output

        @staticmethod
        @once_differentiable  # a gradient of a gradient is refused, where it would be silently wrong
        def backward(ctx: Any, *gradients: Any) -> Any:
            # A list of tensors has one place here, and as many as it has members in an operator.
            return tuple(None if isinstance(x, list) else x for x in differentiate(ctx, *gradients))

    return Direct.apply
