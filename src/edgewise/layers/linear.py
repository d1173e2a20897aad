"""Matrix products of layers: torch's own, or oneDNN's where torch takes a library that is half as fast.

torch multiplies in float32 with MKL, which keeps its instructions of 512 bits to processors of Intel. oneDNN, which
torch brings too, takes them on all. `benchmarks/products.py` compares the two.
"""

import platform
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from edgewise.backends.autograd import transform_at_work

SMALLEST = 2**22
"""Multiplications from which on the time saved is more than a step of autograd in Python takes."""
WORTH_A_COPY = 128
"""Size of rows from which on the time saved is more than a copy of the output takes."""
PLAIN = (Tensor, nn.Parameter)
"""Kinds of tensors that hold their numbers themselves: not those of tracers, or of several processes together."""
WIDE_FAMILY = 26
"""The family of AMD's processors from which on they compute 512 bits at once."""
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
"""Where a module keeps what its call runs besides `forward`; weight and spectral norm of old are such hooks."""
PARTS = 8
"""oneDNN compiles code for each number of rows that it meets, which takes as long as some products. It gets the largest
multiple of a power of two that is a sixteenth to an eighth of the rows, torch the rest: so few numbers are met."""


class Linear(nn.Linear):
    """torch's layer y = W x + b, with the faster of two products on a CPU."""

    def forward(self, input: Tensor) -> Tensor:
        """y of every row."""
        return linear(input, self.weight, self.bias)


def is_plain(layer: nn.Module, *kinds: type[nn.Module]) -> bool:
    """Whether a formula with the layer's weights computes what calling it would: it is of one of these classes, and
    nothing that a user put on it (a hook, a parametrization, a forward of its own) would be skipped."""
    return is_unchanged(layer, *kinds) and not _has_any_global_hook()


def is_unchanged(layer: nn.Module, *kinds: type[nn.Module]) -> bool:
    """`is_plain`, but for hooks on the modules of all models."""
    has_hooks = any(getattr(layer, hooks) for hooks in HOOKS)
    return type(layer) in kinds and not has_hooks and "forward" not in layer.__dict__


def may_be_joined(layers: Sequence[nn.Module]) -> bool:
    """Whether one product with the weights of all of these linear layers computes what calling each would."""
    return all(is_plain(layer, Linear, nn.Linear) for layer in layers)


def products(x: Tensor, layers: Sequence[nn.Module]) -> Sequence[Tensor]:
    """What each linear layer makes of x: by one product, where it computes what calling each would and none has a bias.

    Args:
        x: `(*batch, input)`.
        layers: of that input size.
    """
    if not may_be_joined(layers) or any(layer.bias is not None for layer in layers):
        return [layer(x) for layer in layers]
    weights = [cast(Tensor, layer.weight) for layer in layers]
    return linear(x, torch.cat(weights)).split([len(weight) for weight in weights], -1)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b, as `torch.nn.functional.linear`.

    Args:
        x: `(*batch, input)`.
        weight: W, `(output, input)`.
        bias: b, `(output)`.
    """
    # First, as what traces a call writes down every comparison of sizes.
    if torch.compiler.is_compiling() or not is_onednn_faster():
        return F.linear(x, weight, bias)
    if not is_worth_it(x, weight) or not _may_be_onednn(x, weight, bias):
        return F.linear(x, weight, bias)
    return _Linear.apply(x.reshape(-1, x.shape[-1]), weight, bias).view(*x.shape[:-1], -1)


def is_worth_it(x: Tensor, weight: Tensor) -> bool:
    """Whether a product is large enough for oneDNN."""
    if weight.dim() != 2 or x.dim() == 0 or x.numel() * weight.shape[0] < SMALLEST:
        return False
    rows = x.numel() // x.shape[-1]
    return min(weight.shape) >= WORTH_A_COPY or _head(rows) == rows


def _may_be_onednn(*tensors: Tensor | None) -> bool:
    """Whether it computes the same, and no transform or kind of tensor of torch's has to see how."""
    if torch.is_autocast_enabled("cpu") or transform_at_work() or not torch._C._get_mkldnn_enabled():
        return False
    operands = [x for x in tensors if x is not None]
    if any(type(x) not in PLAIN or x.layout != torch.strided for x in operands):
        return False
    return all(x.dtype == torch.float32 and x.device.type == "cpu" for x in operands)


@cache
def is_onednn_faster() -> bool:
    """Whether torch multiplies with MKL, and MKL with half the width of this processor's instructions.

    Those of AMD compute 512 bits at once from family 26 on (Zen 5); before, such an instruction took two steps.
    """
    if not torch.backends.mkl.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    return amd_family(_processor()) >= WIDE_FAMILY


def amd_family(processor: str) -> int:
    r"""The family of a processor of AMD by what the system says of it, and 0 of others.

    >>> amd_family("vendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2")
    26
    >>> amd_family("vendor_id\t: GenuineIntel\ncpu family\t: 6"), amd_family("AMD64 Family 25 Model 17, AuthenticAMD")
    (0, 25)
    """
    match = re.search(r"family\s*:?\s*(\d+)", processor, re.IGNORECASE) if "AuthenticAMD" in processor else None
    return int(match[1]) if match else 0


def _processor() -> str:
    """What the system says of the processor, its vendor and family among it."""
    with suppress(OSError), Path("/proc/cpuinfo").open() as lines:
        return lines.read(4096)
    return platform.processor()


class _Linear(torch.autograd.Function):
    """x Wᵀ + b of rows x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        (x, weight), gradient = ctx.saved_tensors, gradients[0].contiguous()
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            _Linear.apply(gradient, weight.t(), None) if needs_x else None,
            _Outer.apply(gradient, x) if needs_weight else None,
            gradient.sum(0) if needs_bias else None,
        )


class _Outer(torch.autograd.Function):
    """gᵀ x, the sum over all rows of their outer products."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(g, x)
        head = _head(len(x))
        product = _onednn(g[:head].t(), x[:head].t())
        return product if head == len(x) else product.addmm_(g[head:].t(), x[head:])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None]:
        (g, x), gradient = ctx.saved_tensors, gradients[0].contiguous()
        needs_g, needs_x = ctx.needs_input_grad
        return (
            _Linear.apply(x, gradient, None) if needs_g else None,
            _Linear.apply(g, gradient.t(), None) if needs_x else None,
        )


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    head = _head(len(x))
    if head == len(x):
        return _onednn(x, weight, bias)
    product = x.new_empty(len(x), len(weight))
    product[:head] = _onednn(x[:head], weight, bias)
    tail_operands = (x[head:], weight.t())
    if bias is None:
        torch.mm(*tail_operands, out=product[head:])
    else:
        torch.addmm(bias, *tail_operands, out=product[head:])
    return product


def _head(count: int) -> int:
    """How many of some rows oneDNN gets; the others are copied beside."""
    block = 1 << max(count // PARTS, 1).bit_length() - 1
    return count - count % block


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
