"""Heads side by side, for every layer that attends: split, attended, recorded, joined."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise.attend import attend, attention_weights
from edgewise.errors import SettingError
from edgewise.neighborhood import GivenNeighborhood
from edgewise.trace import Trace


def require_multiple(owner: str, name: str, size: int, by: int, by_name: str = "num_heads") -> None:
    """Raise a SettingError where a size cannot be divided among heads."""
    if by < 1 or size % by != 0:
        raise SettingError(f"{owner}: {name} ({size}) must be a multiple of {by_name} ({by}).")


def require_choice(owner: str, name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise a SettingError where a name is none of the choices."""
    if value not in choices:
        listed = ", ".join(map(repr, choices[:-1])) + f" or {choices[-1]!r}"
        raise SettingError(f"{owner}: {name} must be {listed}, not {value!r}.")


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """`(*batch, node, head · dim)` as `(*batch, head, node, dim)`, a view: in memory a node's heads stay together."""
    return x.unflatten(-1, (num_heads, -1)).movedim(-2, -3)


def join_heads(heads: Tensor) -> Tensor:
    """The way back."""
    return heads.movedim(-3, -2).flatten(-2)


def products_with_heads(x: Tensor, vectors: Tensor) -> Tensor:
    """a_h · x_h of every head, `(kind, *batch, head, node, 1)`, in one product of matrices with a block a head.

    torch sums so few numbers slowly. The vectors lie in rows, because MKL is slow at the gradient of a matrix with few
    columns.

    Args:
        x: `(*batch, node, head · dim)`.
        vectors: a, some kinds of them, `(kind, head, dim)`.
    """
    num_heads = vectors.shape[1]
    blocks = vectors.unsqueeze(2) * torch.eye(num_heads, device=vectors.device, dtype=vectors.dtype).unsqueeze(-1)
    found = F.linear(x, blocks.flatten(2).flatten(0, 1).to(x.dtype))
    return found.unflatten(-1, (-1, num_heads, 1)).movedim(-3, 0).movedim(-2, -3)


def record(trace: Trace | None, query: Tensor, key: Tensor, neighborhood: GivenNeighborhood, **parts: Any) -> None:
    """Record the weights of an attention where there is a trace; `parts` are those of `attention_weights`."""
    if trace is not None:
        found = attention_weights(query, key, neighborhood, top=trace.top, queries=trace.queries, **parts)
        trace.record(found)


def attend_and_record(
    trace: Trace | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    neighborhood: GivenNeighborhood,
    *,
    edge_value: Tensor | None = None,
    dropout: float = 0.0,
    backend: str = "auto",
    **parts: Any,
) -> Tensor:
    """`attend`, and its weights into the trace where there is one."""
    record(trace, query, key, neighborhood, **parts)
    beside: dict[str, Any] = {"edge_value": edge_value, "dropout": dropout, "backend": backend}
    return attend(query, key, value, neighborhood, **beside, **parts)
