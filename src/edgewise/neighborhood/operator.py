"""A function of plain tensors as an operator of torch: one node for torch.compile and torch.export.

`torch.library.custom_op` does the same and imports the whole compiler for it, a second in every process. And the way of
an operator through torch's dispatcher takes a third of a millisecond, which is why it is taken only while tracing.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, Signature
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

LIBRARY = torch.library.Library("edgewise", "FRAGMENT")
PLAIN = (Tensor, torch.nn.Parameter)
"""Types of tensors that hold numbers; others are those of tracers, or know themselves what an operator does to them."""


Outputs: TypeAlias = Tensor | Sequence[Tensor]
"""What an operator gives: a tensor, or a tuple or list of them, as its schema says."""


class Differentiation(NamedTuple):
    """How torch differentiates an operator, traced and called directly."""

    setup_context: Callable[..., None]
    """Saves what `backward` reads, from a context, the arguments and the outputs."""
    backward: Callable[..., tuple]
    """The gradients of all arguments, from the context and the gradients of the outputs."""
    apply: Callable[..., Any]
    """Calls the function and lets torch record how its outputs are differentiated."""


def define(
    name: str,
    function: Callable,
    shapes: Callable,
    differentiation: Differentiation | None = None,
    tags: tuple[torch.Tag, ...] = (),
) -> Any:
    """Register `function` as `torch.ops.edgewise.<name>` and give back what to call.

    Args:
        function: what it does, its first argument a tensor, on the device of which it runs; its annotations become the
            schema. It changes none of its arguments.
        shapes: the same call on tensors that hold nothing, for tracing.
        differentiation: how it is differentiated; without it, it is not.
        tags: what compilers are to know of it.

    Where the module is loaded again the operator stays that of the first time: to register it anew would free the old
    one that others still hold.
    """
    function = on_its_device(function)
    operators = torch.ops.edgewise
    if not hasattr(operators, name):
        LIBRARY.define(name + torch.library.infer_schema(function, mutates_args=()), tags=tags)
        LIBRARY.impl(name, _contiguous(function), "CompositeExplicitAutograd")
        torch.library.register_fake(f"edgewise::{name}", shapes, lib=LIBRARY)
        if differentiation is not None:
            save, backward = differentiation.setup_context, differentiation.backward
            torch.library.register_autograd(f"edgewise::{name}", backward, setup_context=save, lib=LIBRARY)

    operator = getattr(operators, name)
    direct = function if differentiation is None else differentiation.apply

    def call(*arguments: Any) -> Outputs:
        # torch 2.11 does not say that it compiles while it traces a backward pass: then tensors are not plain ones.
        # What is traced otherwise (jit.trace, make_fx) must see an operator, too, not what a kernel writes into memory.
        if torch.compiler.is_compiling() or type(arguments[0]) not in PLAIN or is_recorded():
            return operator(*arguments)
        return direct(*arguments) if torch.is_grad_enabled() else function(*arguments)

    return call


def is_recorded() -> bool:
    """Whether a tracer writes down the operations of torch, or a mode takes each of them."""
    return bool(torch._C._len_torch_dispatch_stack()) or torch._C._get_tracing_state() is not None


def with_signature(function: Callable, parameters: Mapping[str, object], returns: object) -> Callable:
    """The function of `*arguments` with named ones, of which a schema can be made."""
    positional = Parameter.POSITIONAL_OR_KEYWORD
    named = [Parameter(name, positional, annotation=annotation) for name, annotation in parameters.items()]
    function.__signature__ = Signature(named, return_annotation=returns)  # type: ignore[attr-defined]
    return function


def on_its_device(function: Callable) -> Callable:
    """The function where the device of its first argument is the current one: kernels are started on that. Zeros that
    torch holds without memory, as of a tangent that is none, get some, which kernels read."""

    @wraps(function)
    def run(*arguments: Any) -> Outputs:
        arguments = tuple([x.clone() if isinstance(x, Tensor) and x._is_zerotensor() else x for x in arguments])
        device = arguments[0].device
        if device.type != "cuda" or device.index == torch.cuda.current_device():
            return function(*arguments)
        with torch.cuda.device(device):
            return function(*arguments)

    return run


def _contiguous(function: Callable) -> Callable:
    """The function with contiguous outputs, as tracers expect them."""

    @wraps(function)
    def run(*arguments: Any) -> Outputs:
        outputs = function(*arguments)
        return outputs.contiguous() if isinstance(outputs, Tensor) else tuple([x.contiguous() for x in outputs])

    return run
