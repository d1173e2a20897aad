"""A case: one computation, and everyone's way of doing it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

OURS = "edgewise"
"""The name of the peer that all others are compared with."""
OURS_IN_FLOAT32 = "edgewise, stored in float32"
PLAIN, COMPILED = "torch gather and scatter", "torch.compile of it"


@dataclass(frozen=True)
class Peer:
    """One way of computing the case."""

    run: Callable[[], Tensor]
    """The attention alone: projections, index structures and the like are made before."""
    leaves: dict[str, Tensor]
    """What gradients are taken with respect to, by the same names for every peer."""
    cotangent: Tensor | None = None
    """The case's, where the output has another dtype."""


@dataclass(frozen=True)
class Case:
    """One computation, and everyone's way of doing it; all give the same output and the same gradients."""

    peers: dict[str, Peer]
    """By name, ours first."""
    cotangent: Tensor
    """What the gradient of the output is, in the backward pass."""
    tolerance: float = 2e-4
    """How far an output or gradient may lie from ours, as a part of its largest value."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Sizes, for the record."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Peers that cannot take part, and why."""
    table: str | None = None
    """The workload whose gather bandwidth limits the forward pass, if it is a gather."""
    gathered_bytes: int = 0
    """What a forward pass must gather."""
    plan_ms: float | None = None
    """What our index structure costs, once a graph."""
