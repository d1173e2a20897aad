"""Problems for the kernels over edges: a small graph with every kind of row, and every score and normalizer."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from edgewise import (
    GAT,
    Additive,
    Bilinear,
    Constant,
    Cosine,
    Distance,
    Dot,
    Edges,
    Entmax15,
    GATv2,
    Hardmax,
    Identity,
    Mean,
    ScaledDot,
    Sigmoid,
    Softmax,
    Sparsemax,
    attend,
)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
"""Where the kernels run: on a machine that has no such device, in triton's interpreter."""
HEADS, KEY_DIM, VALUE_DIM = 3, 5, 3
SENDERS, RECEIVERS = 7, 9
CHUNK = 16
"""Edges of a piece of a hub: few, so that a small graph has hubs."""

SCORES: dict[str, Callable[[dict[str, Tensor]], Any]] = {
    "dot": lambda p: Dot(),
    "scaled": lambda p: ScaledDot(),
    "cosine": lambda p: Cosine(),
    "bilinear": lambda p: Bilinear(p["matrix"]),
    "tanh": lambda p: Additive(p["vector"]),
    "relu": lambda p: Additive(p["vector"], "relu"),
    "sigmoid": lambda p: Additive(p["vector"], "sigmoid"),
    "silu": lambda p: Additive(p["vector"], "silu"),
    "gelu": lambda p: Additive(p["vector"], "gelu"),
    "gat": lambda p: GAT(p["other"], p["vector"]),
    "gatv2": lambda p: GATv2(p["vector"]),
    "gaussian": lambda p: Distance("gaussian", p["positive"]),
    "laplacian": lambda p: Distance("laplacian"),
    "constant": lambda p: Constant(0.7),
}
NORMALIZERS: dict[str, Callable[[dict[str, Tensor]], Any]] = {
    "softmax": lambda p: Softmax(),
    "temperature": lambda p: Softmax(p["positive"]),
    "hardmax": lambda p: Hardmax(),
    "straight_through": lambda p: Hardmax(straight_through=True),
    "sparsemax": lambda p: Sparsemax(),
    "entmax": lambda p: Entmax15(),
    "sigmoid": lambda p: Sigmoid(),
    "mean": lambda p: Mean(),
    "identity": lambda p: Identity(),
}


def by_day(cases: Iterable[tuple]) -> list:
    """Cases as parameters of a test: each value of each parameter comes up by day, further combinations by night."""
    seen: set[tuple[int, Any]] = set()
    found = []
    for case in cases:
        new = {*enumerate(case)} - seen
        seen |= new
        found.append(pytest.param(*case, marks=() if new else pytest.mark.nightly))
    return found


@dataclass(frozen=True)
class Problem:
    """Numbers in float64, and the edges they belong to."""

    edges: Edges
    """Low rows, high rows, a hub on either side, rows without an edge, edges that occur twice."""
    tensors: dict[str, Tensor]
    """query, key, value, and what the edges carry."""
    parts: dict[str, Tensor]
    """Parameters of scores and normalizers."""


def problem(shared: bool = False, heads: int = HEADS, key_dim: int = KEY_DIM, value_dim: int = VALUE_DIM) -> Problem:
    """A bipartite graph; with `shared`, all heads have the same keys and the same of each edge."""
    generator = torch.Generator().manual_seed(1)
    degrees = torch.randint(0, 5, (RECEIVERS,), generator=generator)
    degrees[3], degrees[5], degrees[7], degrees[8] = 33, 9, 0, 6
    receivers = torch.repeat_interleave(torch.arange(RECEIVERS), degrees)
    senders = torch.randint(0, SENDERS, receivers.shape, generator=generator)
    senders[::3] = 4  # a hub among the senders, and edges that occur twice
    order = torch.randperm(len(receivers), generator=generator)
    edges = Edges(senders[order], receivers[order], SENDERS, RECEIVERS)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    own = 1 if shared else heads
    tensors = {
        "query": numbers(heads, RECEIVERS, key_dim),
        "key": numbers(own, SENDERS, key_dim),
        "value": numbers(heads, SENDERS, value_dim),
        "bias": numbers(own, len(order)),
        "edge_key": numbers(own, len(order), key_dim),
        "edge_value": numbers(own, len(order), value_dim),
    }
    parts = {
        "vector": numbers(heads, key_dim),
        "other": numbers(heads, key_dim),
        "matrix": numbers(heads, key_dim, key_dim),
        "positive": numbers(heads).abs() + 0.5,
    }
    return Problem(edges, tensors, parts)


def solve(
    given: Problem, score: str, normalizer: str, carries: bool, backend: str, dtype: torch.dtype, device: str = "cpu",
    dropout: float = 0.0, needs: list[str] | None = None,
) -> dict[str, Tensor]:  # fmt: skip
    """The output, and the gradient of everything that has one or of what is named, in float64 on the CPU."""
    at = {name: x.to(device, dtype).clone() for name, x in (given.tensors | given.parts).items()}
    at = {name: x.requires_grad_(needs is None or name in needs) for name, x in at.items()}
    parts = {name: at.pop(name) for name in given.parts}
    carried = {name: at[name] for name in ("bias", "edge_key", "edge_value")} if carries else {}
    out = attend(
        at["query"], at["key"], at["value"], given.edges.to(device),
        score=SCORES[score](parts), normalize=NORMALIZERS[normalizer](parts), dropout=dropout, backend=backend,
        **carried,
    )  # fmt: skip
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    (out * weights.to(device, dtype)).sum().backward()
    found = {f"gradient of {name}": x.grad for name, x in {**at, **parts}.items() if x.grad is not None}
    return {name: x.detach().cpu().double() for name, x in {"output": out, **found}.items()}
