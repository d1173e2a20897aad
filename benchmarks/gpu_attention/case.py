"""A case: one computation, everyone's way of doing it, and what it must move at least."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

OURS = "edgewise"
"""The peer that all others are compared with."""
PLAIN = "plain PyTorch (edgewise, backend gather)"
PYG, PYG_COMPILED = "PyTorch Geometric", "PyTorch Geometric, compiled"
SDPA = "torch SDPA"
TURBO = "turbo-gnn"
EAGER, EAGER_COMPILED = "eager PyTorch", "eager PyTorch, compiled"
VARLEN = "torch varlen_attn (edgewise, backend varlen)"
FLEX = "torch FlexAttention (edgewise, backend flex)"
TRITON = "edgewise, backend triton"
COMPILED = (PYG_COMPILED, EAGER_COMPILED, FLEX)
"""Peers that are compiled first, which takes long."""
REPLAYED = (OURS, PYG, SDPA)
"""Peers that are timed as captured graphs too, where launches dominate."""
FORWARD, BOTH = "forward", "forward_backward"
MODES = (FORWARD, BOTH)

Run = Callable[[], Tensor]
Results = tuple[Tensor, ...]
"""The output and, after both passes, the gradient of every leaf."""


@dataclass(frozen=True)
class Case:
    """One computation, and everyone's way of doing it."""

    make: Mapping[str, Callable[[], Run]]
    """By name, ours first: makes the attention alone, projections and index structures made before."""
    leaves: dict[str, Tensor]
    """What a call is given; gradients are taken with respect to those that require one."""
    cotangent: Tensor
    """What the gradient of the output is, in the backward pass."""
    difference: Callable[[Results], float]
    """How far results lie from what is right at most, as a part of the largest value there."""
    tolerance: float
    """How far ours may."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Sizes, for the record."""
    given_bytes: int = 0
    """Of what a call is given besides leaves and cotangent: the lists of edges."""
    floors: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Bytes that must move, for each mode: `gathered`, every gather from memory; `once`, every tensor once."""

    def differentiated(self) -> list[Tensor]:
        """What gradients are taken with respect to."""
        return [x for x in self.leaves.values() if x.requires_grad]

    def held_bytes(self, mode: str) -> dict[str, int]:
        """Bytes of what a call is given, and of what it returns."""
        leaves, grads = (sum(map(num_bytes, found)) for found in (self.leaves.values(), self.differentiated()))
        given, returned = leaves + self.given_bytes, num_bytes(self.cotangent)
        return {
            "inputs": given + (num_bytes(self.cotangent) if mode == BOTH else 0),
            "outputs": returned + (grads if mode == BOTH else 0),
        }


def num_bytes(x: Tensor) -> int:
    """What a tensor takes."""
    return x.numel() * x.element_size()
