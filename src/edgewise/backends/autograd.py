"""Operators of torch whose outputs and gradients kernels compute, and which derivatives torch wants of them.

Derivatives beyond the gradients come from a formula in plain torch: gradients that are made with create_graph=True save
the kernels' values, and where they are differentiated again the formula is computed anew, so that nothing is held for
it before.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from edgewise.neighborhood.operator import Differentiation, Outputs, define, on_its_device, with_signature


class Context(Protocol):
    """What torch hands from a forward to its backward pass, with what is kept here beside tensors."""

    saved_tensors: tuple[Tensor, ...]
    needs_input_grad: tuple[bool, ...]
    formula: Callable[..., Tensor]
    places: list[int]
    """The gradients that are not None."""
    others: list[object]
    """The arguments that are not tensors, and what stands for those that are."""

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keeps tensors for `saved_tensors`."""

    def set_materialize_grads(self, value: bool) -> None:
        """Whether zeros stand for gradients that are None."""


@dataclass(frozen=True)
class Gradient:
    """How an operator is differentiated with respect to its first arguments, by way of its first output."""

    backward: Callable[..., Sequence[Tensor | None]]
    """Gradients of the first arguments, from the gradient of the output, the saved outputs, all arguments, and for each
    argument whether its gradient is wanted."""
    formula: Callable[..., Tensor]
    """The output in plain torch, from the same arguments."""
    saved_outputs: tuple[int, ...] = ()
    """Which outputs `backward` reads."""


def define_with_gradient(
    name: str,
    inputs: type[NamedTuple],
    forward: Callable,
    shapes: Callable,
    backward: Callable[..., Sequence[Tensor]],
    formula: Callable[..., Tensor],
    *,
    num_differentiable: int,
    saved_outputs: tuple[int, ...] = (),
    tags: tuple[torch.Tag, ...] = (),
) -> Callable:
    """Register an operator of many arguments and its gradients, `<name>_backward`, and give back the first to call.

    Args:
        inputs: a named tuple of the arguments; its annotations become the schema of both operators.
        forward: the outputs, from `inputs`; its annotation says how many.
        shapes: the same on tensors that hold nothing, for tracing.
        backward: gradients of the first inputs, of their shapes and dtypes, from the gradient of the first output, the
            outputs that were saved, `inputs`, and for each of the first whether its gradient is wanted.
        formula: the first output in plain torch, from `inputs`.
        num_differentiable: how many inputs have a gradient.
        saved_outputs, tags: as in `Gradient` and `operator.define`.
    """
    fields = dict(zip(inputs._fields, inputs.__annotations__.values(), strict=True))
    outputs = {f"output_{index}": Tensor for index in saved_outputs}

    def apart(arguments: tuple) -> tuple[Tensor, list[Tensor], NamedTuple, Sequence[bool]]:
        grad_out, *saved_and_inputs, needs = arguments
        return grad_out, saved_and_inputs[: len(saved_outputs)], inputs(*saved_and_inputs[len(saved_outputs) :]), needs

    def gradients(*arguments: Any) -> tuple[Tensor, ...]:
        computed = backward(*apart(arguments))
        return tuple([x if need else x.new_empty(0) for x, need in zip(computed, arguments[-1], strict=True)])

    def gradient_shapes(*arguments: Any) -> tuple[Tensor, ...]:
        grad_out, _, operands, needs = apart(arguments)
        return tuple(x.new_empty(x.shape) if need else grad_out.new_empty(0) for x, need in zip(operands, needs))

    def differentiate(grad_out: Tensor, outputs: list, arguments: list, needs: list[bool]) -> list[Tensor | None]:
        needs = needs[:num_differentiable]
        computed = compute_gradients(grad_out, *outputs, *arguments, needs)
        return [x if need else None for x, need in zip(computed, needs)]

    schema = {"grad_out": Tensor, **outputs, **fields, "needs": Sequence[bool]}
    gradients = with_signature(gradients, schema, tuple[(Tensor,) * num_differentiable])  # type: ignore[misc]
    compute_gradients = define(f"{name}_backward", gradients, gradient_shapes, tags=tags)

    function = with_signature(lambda *arguments: forward(inputs(*arguments)), fields, forward.__annotations__["return"])
    gradient = Gradient(differentiate, lambda *arguments: formula(inputs(*arguments)), saved_outputs)
    return define(
        name, function, lambda *arguments: shapes(inputs(*arguments)), _differentiation(function, gradient), tags
    )


def transform_at_work() -> str:
    """Which transform of torch needs operations of torch, where kernels would compute past it; empty for none."""
    if torch.compiler.is_compiling():
        return ""
    if torch._C._are_functorch_transforms_active():
        return "a transform of torch.func is at work"
    if torch.autograd.forward_ad._current_level >= 0:
        return "forward-mode differentiation is at work"
    return ""


def derivatives_at_work(tensors: Callable[[], Sequence[Tensor]]) -> str:
    """Which transforms of torch need derivatives of tensors that an operation with one gradient of torch's own does
    not have: forward ones, and second ones; empty for none."""
    if torch.compiler.is_compiling():
        return ""
    if torch.autograd.forward_ad._current_level >= 0:
        return "forward-mode differentiation is at work"
    if not torch._C._are_functorch_transforms_active():
        return ""
    kinds = [interpreter.key() for interpreter in torch._C._functorch.get_interpreter_stack() or ()]
    levels = kinds.count(torch._C._functorch.TransformType.Grad)
    is_outer = levels == 1 and torch.is_grad_enabled() and any(_innermost(x).requires_grad for x in tensors())
    return "torch.func differentiates a second time" if levels > 1 or is_outer else ""


def is_gradient_hidden(x: Tensor) -> bool:
    """Whether torch.func.vmap alone is at work, and has wrapped a tensor that wants a gradient once it is done."""
    if torch.compiler.is_compiling() or not torch._C._are_functorch_transforms_active():
        return False
    kinds = [interpreter.key() for interpreter in torch._C._functorch.get_interpreter_stack() or ()]
    is_alone = torch._C._functorch.TransformType.Grad not in kinds
    return is_alone and torch.is_grad_enabled() and _innermost(x).requires_grad


def _innermost(x: Tensor) -> Tensor:
    """The tensor that the transforms of torch.func have wrapped."""
    while torch._C._functorch.is_functorch_wrapped_tensor(x):
        x = torch._C._functorch.get_unwrapped(x)
    return x


def attach_formula(
    gradients: Sequence[Tensor | None], formula: Callable[..., Tensor], grad_out: Tensor, tensors: Sequence[Tensor]
) -> Sequence[Tensor | None]:
    """Gradients that kernels have computed, differentiable any number of times.

    Args:
        gradients: those of `tensors`, their values; None where none is wanted.
        formula: the output from `tensors`, in plain torch.
        grad_out: the gradient of the output.
        tensors: all that the output is made of and that want gradients, now or when gradients are differentiated.
    """
    if is_transformed(grad_out):
        return gradients_of(formula, grad_out, tensors)
    attached = iter(
        _Attached.apply(formula, [None if x is None else x.detach() for x in gradients], grad_out, *tensors)
    )
    return [None if x is None else next(attached) for x in gradients]


def fork(out: Tensor, formula: Callable[..., Tensor], tensors: Sequence[Tensor | None]) -> Tensor:
    """An output whose gradients are its own, but where they are recorded (create_graph=True) those of a formula."""
    forked: Tensor = _Fork.apply(out, formula, *tensors)
    return forked


def gradients_of(formula: Callable[..., Tensor], grad_out: Tensor, wanted: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """The gradients of a formula; differentiable themselves where gradients are recorded."""
    is_recorded = torch.is_grad_enabled()
    with torch.enable_grad(), torch.autocast(grad_out.device.type, enabled=False):
        copies = [x.view_as(x) for x in wanted]  # one tensor in two places has a gradient for each
        out = formula(*copies)
        if not out.requires_grad:
            return (None,) * len(copies)
        computed: tuple[Tensor | None, ...] = torch.autograd.grad(
            out, copies, grad_out, create_graph=is_recorded, allow_unused=True
        )
    return computed


def is_transformed(gradient: Tensor) -> bool:
    """Whether a gradient is not a plain tensor: one of many that are computed together (`is_grads_batched`), part of a
    transform, which started after the output was computed, or zeros without memory."""
    is_batched = torch._C._functorch.is_legacy_batchedtensor(gradient)
    return bool(transform_at_work()) or is_batched or gradient._is_zerotensor()


class _Attached(torch.autograd.Function):
    """Gradients whose values are known, with those of a formula as their derivatives."""

    @staticmethod
    def forward(
        ctx: Context, formula: Callable, gradients: list[Tensor | None], grad_out: Tensor, *tensors: Tensor
    ) -> tuple:
        ctx.formula = formula
        ctx.places = [index for index, x in enumerate(gradients) if x is not None]
        ctx.save_for_backward(grad_out, *tensors)
        ctx.set_materialize_grads(False)
        return tuple([x for x in gradients if x is not None])

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor | None) -> tuple:
        needs, is_recorded = ctx.needs_input_grad[2:], torch.is_grad_enabled()
        if is_recorded:
            sources = [x.view_as(x) for x in ctx.saved_tensors]
        else:
            sources = [x.detach().requires_grad_(need) for x, need in zip(ctx.saved_tensors, needs)]

        with torch.enable_grad():
            first = gradients_of(ctx.formula, sources[0], sources[1:])
        pairs = [(first[index], x) for index, x in zip(ctx.places, gradients, strict=True) if x is not None]
        pairs = [(x, outward) for x, outward in pairs if x is not None and x.requires_grad]
        if not pairs:
            return (None,) * (2 + len(needs))

        outputs, outward = zip(*pairs)
        inputs = [x for x, need in zip(sources, needs) if need]
        with torch.autocast(sources[0].device.type, enabled=False):
            second_gradients = torch.autograd.grad(
                outputs, inputs, outward, create_graph=is_recorded, allow_unused=True
            )

        second = iter(second_gradients)
        return None, None, *(next(second) if need else None for need in needs)


class _Fork(torch.autograd.Function):
    """See `fork`."""

    @staticmethod
    def forward(ctx: Context, out: Tensor, formula: Callable, *tensors: Tensor | None) -> Tensor:
        ctx.formula = formula
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        return out.view_as(out)

    @staticmethod
    def backward(ctx: Context, grad_out: Tensor | None) -> tuple:
        needs = ctx.needs_input_grad[2:]
        if grad_out is None or not torch.is_grad_enabled():
            return grad_out, None, *[None] * len(needs)
        tensors = ctx.saved_tensors
        wanted = [x for x, need in zip(tensors, needs) if need]

        def formula(*wanted: Tensor) -> Tensor:
            wanted_tensors = iter(wanted)
            return ctx.formula(*[next(wanted_tensors) if need else x for x, need in zip(tensors, needs)])

        gradients = iter(gradients_of(formula, grad_out, wanted))
        return None, None, *(next(gradients) if need else None for need in needs)


def _differentiation(function: Callable, gradient: Gradient) -> Differentiation:
    function = on_its_device(function)

    def save(ctx: Context, inputs: tuple, output: Outputs) -> None:
        _save(ctx, gradient, inputs, output)

    def differentiate(ctx: Context, *gradients: Tensor | None) -> tuple:
        return _differentiate(ctx, gradient, gradients)

    class Direct(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Context, *arguments: Any) -> Outputs:  # torch inspects the signature of a setup_context
            output = function(*arguments)
            save(ctx, arguments, output)
            return output

        @staticmethod
        def backward(ctx: Context, *gradients: Tensor | None) -> tuple:
            # A list of tensors has one place here, and as many as it has members in an operator.
            return tuple([None if isinstance(x, list) else x for x in differentiate(ctx, *gradients)])

    return Differentiation(save, differentiate, Direct.apply)


def _save(ctx: Context, gradient: Gradient, inputs: tuple, output: Outputs) -> None:
    """Save the outputs that are read again and all arguments: tensors, None, lists of tensors, and settings."""
    outputs = output if isinstance(output, tuple) else (output,)
    tensors: list[Tensor | None] = [outputs[index] for index in gradient.saved_outputs]
    others: list[object] = []

    for x in inputs:
        if x is None or isinstance(x, Tensor):
            tensors.append(x)
            others.append(_SAVED)
        elif isinstance(x, list):
            tensors += x
            others.append(_Members(len(x)))
        else:
            others.append(x)

    ctx.save_for_backward(*tensors)
    ctx.others = others
    ctx.set_materialize_grads(False)  # zeros for outputs that nothing is computed from would cost time


_SAVED = object()
"""Stands for an argument that is a tensor or None."""


class _Members(int):
    """Stands for a list of so many tensors."""


def _differentiate(ctx: Context, gradient: Gradient, gradients: tuple) -> tuple:
    """The gradients of all arguments, from that of the first output."""
    others, grad_out = ctx.others, gradients[0]
    no_gradients = [[None] * x if type(x) is _Members else None for x in others]
    if grad_out is None:
        return tuple(no_gradients)

    saved = iter(ctx.saved_tensors)
    outputs = [next(saved) for _ in gradient.saved_outputs]
    arguments = [
        next(saved) if x is _SAVED else [next(saved) for _ in range(x)] if type(x) is _Members else x for x in others
    ]
    needs = [need is True and x is _SAVED for need, x in zip(ctx.needs_input_grad, others)]
    if is_transformed(grad_out):
        return gradients_by_formula(gradient.formula, grad_out, arguments, needs, no_gradients, None)

    with torch.no_grad():
        computed = gradient.backward(grad_out, outputs, arguments, needs)
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        return gradients_by_formula(gradient.formula, grad_out, arguments, needs, no_gradients, computed)

    return *computed, *no_gradients[len(computed) :]


def gradients_by_formula(
    formula_of_all: Callable[..., Tensor],
    grad_out: Tensor,
    arguments: list,
    needs: Sequence[bool],
    no_gradients: list,
    values: Sequence | None,
) -> tuple:
    """The gradients of all arguments by the formula, with `values` where kernels have computed them; differentiable
    where gradients are recorded."""
    wanted = [index for index, need in enumerate(needs) if need]

    def formula(*tensors: Tensor) -> Tensor:
        changed = list(arguments)
        for index, x in zip(wanted, tensors, strict=True):
            changed[index] = x
        return on_its_device(formula_of_all)(*changed)

    tensors = [arguments[index] for index in wanted]
    if values is None:
        grads = gradients_of(formula, grad_out, tensors)
    else:
        grads = attach_formula([values[index] for index in wanted], formula, grad_out, tensors)

    all_gradients = list(no_gradients)
    for index, x in zip(wanted, grads, strict=True):
        all_gradients[index] = x
    return tuple(all_gradients)
