"""Dropout of features, with the activation before it in one pass where the CPU's kernel takes it."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise.backends import numba
from edgewise.backends.autograd import transform_at_work
from edgewise.layers.linear import is_plain
from edgewise.score import ACTIVATIONS

TYPES = (torch.float32, torch.float64)
MODULES = {"tanh": nn.Tanh, "relu": nn.ReLU, "sigmoid": nn.Sigmoid, "silu": nn.SiLU, "gelu": nn.GELU}
"""The layers of torch that compute them."""
FUSED = ("", "tanh", "sigmoid", "silu", "gelu")
"""Activations that the kernel knows; none among them."""


def dropout(x: Tensor, rate: float, training: bool, activation: str = "") -> Tensor:
    """Activation, then dropout: in training each number is 0 with probability `rate`, the others grow by 1/(1 − rate).

    Args:
        x: any shape.
        rate: 0 ≤ rate < 1.
        training: whether numbers are dropped at all.
        activation: a name of `score.ACTIVATIONS`; empty for none.
    """
    if training and 0 < rate < 1 and _is_fused(x, activation):
        from edgewise.backends.numba.dropout import dropout as fused

        return fused(x.contiguous(), activation, rate, torch.randint(2**62, (1,), device="cpu"))
    activated = ACTIVATIONS[activation](x) if activation else x
    return F.dropout(activated, rate, training) if rate > 0 else activated


def _is_fused(x: Tensor, activation: str) -> bool:
    """Whether the kernel takes a call; torch's own way draws other numbers of the same distribution."""
    if x.device.type != "cpu" or x.dtype not in TYPES or activation not in FUSED or torch.compiler.is_compiling():
        return False
    return 0 < x.numel() < 2**31 and not transform_at_work() and not numba.import_error()


class Dropout(nn.Dropout):
    """torch's layer, drawn by the kernel on a CPU."""

    def forward(self, input: Tensor) -> Tensor:
        """The input, some of its numbers 0 in training."""
        return dropout(input, self.p, self.training)


class FeedForward(nn.Sequential):
    """W₂ dropout(f(W₁ x)), with torch's names of a Sequential: the second and third layer are one pass.

    Args:
        first, activation, drop, second: W₁, f, the dropout and W₂.
        name: f, as `score.ACTIVATIONS` names it; empty where it is none of them.
    """

    def __init__(self, first: nn.Linear, activation: nn.Module, drop: nn.Dropout, second: nn.Linear, name: str):
        super().__init__(first, activation, drop, second)
        self.name = name if name in ACTIVATIONS else ""

    def forward(self, input: Tensor) -> Tensor:
        """The nodes after both layers."""
        first, activation, drop, second = self
        hidden, is_exact = first(input), getattr(activation, "approximate", "none") == "none"
        if self.name and is_exact and is_plain(activation, MODULES[self.name]):
            return second(activate_and_drop(hidden, self.name, drop))
        return second(drop(activation(hidden)))


def activate_and_drop(x: Tensor, activation: str, drop: nn.Module) -> Tensor:
    """Activation, then the dropout of a layer; in one pass where that is torch's or ours, and no user changed it."""
    if is_plain(drop, Dropout, nn.Dropout):
        return dropout(x, drop.p, drop.training, activation)  # type: ignore[arg-type]  # torch has a number there
    return drop(ACTIVATIONS[activation](x))
