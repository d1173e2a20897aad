"""Heads side by side, for every layer that attends: split, attended, recorded, joined."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise.attend import attend, attention_weights
from edgewise.errors import SettingError, ShapeError
from edgewise.graph import Trace, Weights
from edgewise.neighborhood import GivenNeighborhood, Mask, Neighborhood, neighborhood_of
from edgewise.neighborhood.checks import count, joint_batch
from edgewise.neighborhood.pairs import Joined


def require_multiple(owner: str, name: str, size: int, by: int, by_name: str = "num_heads") -> None:
    """Raise a SettingError where a size cannot be divided among heads."""
    if count(owner, name, size, 0) % count(owner, by_name, by) != 0:
        raise SettingError(f"{owner}: {name} ({size}) must be a multiple of {by_name} ({by}).")


def require_choice(owner: str, name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise a SettingError where a name is not one of the choices."""
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
    products = F.linear(x, blocks.flatten(2).flatten(0, 1).to(x.dtype))
    return products.unflatten(-1, (-1, num_heads, 1)).movedim(-3, 0).movedim(-2, -3)


def over_heads(
    owner: str, neighborhood: Neighborhood, batch_shapes: Sequence[torch.Size], head_shape: tuple[int, ...]
) -> Neighborhood:
    """A neighborhood for nodes `(*batch, node, feature)` as one for their heads, `(*batch, *head, node, dim)`.

    One that varies over the batch axes serves all heads. One with an axis more varies over heads, too.

    Args:
        owner: the layer, for messages.
        neighborhood: whose shape is checked.
        batch_shapes: the batch axes of query, key and value.
        head_shape: the heads; two axes where some share their keys, none where the layer lacks them.

    Raises:
        ShapeError: its axes are neither those of the batch nor, where there are heads, those with one of heads after
            them.
    """
    if isinstance(neighborhood, Joined):
        parts = tuple(over_heads(owner, part, batch_shapes, head_shape) for part in neighborhood.parts)
        return replace(neighborhood, parts=parts)  # type: ignore[arg-type]  # each stays of its kind

    varying = neighborhood.batch_shape
    if not varying:
        for _ in head_shape:
            neighborhood = neighborhood.with_head_axis()
        return neighborhood

    batch = joint_batch(owner, batch_shapes)
    has_head_axis, num_heads = len(head_shape) > 0 and len(varying) == len(batch) + 1, math.prod(head_shape)
    expected = (*batch, num_heads) if has_head_axis else tuple(batch)
    fits = len(varying) <= len(expected) and all(
        size in (1, full_size) for size, full_size in zip(reversed(varying), reversed(expected), strict=False)
    )

    if not fits:
        heads = f" and the layer {num_heads} heads" if head_shape else ""
        or_with_heads = f" or {(*batch, num_heads)}" if head_shape else ""
        raise ShapeError(
            f"{owner}: the neighborhood varies over axes {tuple(varying)}, but the nodes have batch axes "
            f"{tuple(batch)}{heads}; expected {tuple(batch)}{or_with_heads}, with 1 where one serves all."
        )
    if not has_head_axis:
        for _ in head_shape:
            neighborhood = neighborhood.with_head_axis()
        return neighborhood
    if len(head_shape) == 1:
        return neighborhood
    if varying[-1] == 1:
        return neighborhood.with_head_axis()
    if not isinstance(neighborhood, Mask):
        raise ShapeError(
            f"{owner}: heads that share their keys can have neighborhoods of their own as a Mask only, not as "
            f"{type(neighborhood).__name__}; use Mask(neighborhood.to_mask(num_queries, num_keys))."
        )

    return Mask(neighborhood.mask.unflatten(-3, head_shape))


def for_nodes(owner: str, edges: GivenNeighborhood, source: Any, target: Any) -> Neighborhood:
    """The neighborhood of a layer without heads, which may vary over the batch axes of the nodes alone.

    Raises:
        ShapeError: it varies over others.
    """
    neighborhood = neighborhood_of(owner, edges, target.shape[-2], source.shape[-2])
    return over_heads(owner, neighborhood, [torch.Size(nodes.shape[:-2]) for nodes in (source, target)], ())


def record(
    trace: Trace | None,
    query: Tensor,
    key: Tensor,
    neighborhood: GivenNeighborhood,
    *,
    num_head_axes: int = 1,
    **parts: Any,
) -> None:
    """Record the weights of an attention where there is a trace; `parts` are those of `attention_weights`.

    Args:
        trace: where they are recorded, with one axis of heads.
        query, key, neighborhood: as in `attention_weights`.
        num_head_axes: the axes of heads of queries and keys; two where some share their keys, none without heads.
        parts: further arguments of `attention_weights`.
    """
    if trace is not None:
        weights = attention_weights(query, key, neighborhood, top=trace.top, queries=trace.queries, **parts)
        trace.record(with_one_head_axis(weights, num_head_axes))


def with_one_head_axis(weights: Weights, num_head_axes: int) -> Weights:
    """Weights `(*batch, *head, pair)` as `(*batch, head, pair)`, which is what those who read a trace expect."""
    if num_head_axes == 1:
        return weights

    def joined(x: Tensor) -> Tensor:
        num_heads = math.prod(x.shape[-1 - num_head_axes : -1])
        return x.reshape(*x.shape[: -1 - num_head_axes], num_heads, x.shape[-1])

    senders = weights.senders if weights.senders.dim() == 1 else joined(weights.senders)  # (pair): one list for all
    return replace(weights, senders=senders, values=joined(weights.values))


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
    num_head_axes: int = 1,
    **parts: Any,
) -> Tensor:
    """`attend`, and its weights into the trace where there is one; `num_head_axes` as in `record`."""
    record(trace, query, key, neighborhood, num_head_axes=num_head_axes, **parts)
    return attend(query, key, value, neighborhood, edge_value=edge_value, dropout=dropout, backend=backend, **parts)
