"""What the operators of the kernels compute, in plain torch: the meaning of derivatives of their gradients.

Operators take plain tensors, and so do these formulas: they make a call of them and give it to `gather`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from edgewise.backends import gather
from edgewise.backends.call import Call
from edgewise.neighborhood import Causal, Edges, Full, Ranges
from edgewise.normalize import Identity, Normalize, Softmax
from edgewise.score import Constant, ScaledDot, Score


def over_edges(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edge_key: Tensor | None,
    edge_value: Tensor | None,
    bias: Tensor | None,
    lists: Sequence[Tensor],
    score: Score,
    normalize: Normalize,
    factors: Tensor | None,
) -> Tensor:
    """Attention over lists of edges.

    Args:
        query, key, value, edge_key, edge_value: `(node or edge, head or 1, …)`; bias `(edge, head or 1)`.
        lists: offsets, neighbors and edges by receiver, as in a `Plan`.
        factors: what dropout multiplies the weights with, `(edge, head)`.

    Returns:
        `(receiver, head, value_dim)`.
    """
    edges = edges_of(lists, key.shape[0], query.shape[0])
    query, key, value = (x.transpose(0, 1) for x in (query, key, value))
    edge_key, edge_value = (None if x is None else x.transpose(0, 1) for x in (edge_key, edge_value))
    bias = None if bias is None else bias.t()
    call = Call(query, key, value, edges, score, normalize, bias, edge_key, edge_value, 0.0)
    drop = None if factors is None else lambda weights: weights * factors.to(weights.dtype)
    return gather.run(call, drop).transpose(0, 1).to(value.dtype)


def over_ranges(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    starts: Tensor,
    stops: Tensor,
    score: Score,
    normalize: Normalize,
    drop: gather.Drop | None,
) -> Tensor:
    """Attention over runs of keys: query i attends to keys starts[i]:stops[i].

    Args:
        query, key, value: `(*batch, node, …)`; bias `(*batch, query or 1, key or 1)`; starts, stops `(*batch, query)`.
        drop: as `gather` takes it.

    Returns:
        `(*batch, query, value_dim)`.
    """
    return gather.run(Call(query, key, value, Runs(starts, stops), score, normalize, bias, None, None, 0.0), drop)


def largest(value: Tensor, edge_value: Tensor | None, lists: Sequence[Tensor]) -> Tensor:
    """The largest v + v^e of every receiver, `(receiver, feature)`, of `(sender, feature)` and `(edge, feature)`."""
    edges = edges_of(lists, value.shape[0], lists[0].shape[0] - 1)
    query, key = value.new_zeros(edges.num_receivers, 0), value.new_zeros(edges.num_senders, 0)
    return gather.largest(Call(query, key, value, edges, Constant(), Identity(), None, None, edge_value, 0.0))


def over_table(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool, scale: float | None
) -> Tensor:
    """Softmax over products of queries and keys, as torch's own kernels take them: a mask is bool or added to the
    score, and a causal one begins where queries and keys begin."""
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.where(mask, 0.0, -math.inf)
    neighborhood = Causal(align="start") if is_causal else Full()
    return gather.run(Call(query, key, value, neighborhood, ScaledDot(scale), Softmax(), mask, None, None, 0.0))


def edges_of(lists: Sequence[Tensor], num_senders: int, num_receivers: int) -> Edges:
    """The edges in the caller's order, from a plan's lists by receiver."""
    offsets, neighbors, numbers = (x.to(torch.int64) for x in lists[:3])
    nodes = torch.arange(num_receivers, device=offsets.device)
    receivers = nodes.repeat_interleave(offsets.diff(), output_size=len(numbers))
    senders = torch.empty_like(neighbors).index_copy_(0, numbers, neighbors)
    return Edges(senders, torch.empty_like(receivers).index_copy_(0, numbers, receivers), num_senders, num_receivers)


@dataclass(frozen=True, eq=False)
class Runs(Ranges):
    """Runs that are known: query i attends to keys starts[i]:stops[i]."""

    starts: Tensor
    """`(*batch, query)`."""
    stops: Tensor
    """`(*batch, query)`."""

    @property
    def batch_shape(self) -> torch.Size:
        return self.starts.shape[:-1]

    def runs(self, query: Tensor, num_queries: int, num_keys: int) -> tuple[Tensor, Tensor]:
        return self.starts.index_select(-1, query), self.stops.index_select(-1, query)

    def key_span(self, query_start: int, query_stop: int, num_queries: int, num_keys: int) -> tuple[int, int]:
        starts, stops = self.starts[..., query_start:query_stop], self.stops[..., query_start:query_stop]
        if starts.device.type != "cpu" or starts.numel() == 0:
            return 0, num_keys
        start, stop = max(int(starts.min()), 0), min(int(stops.max()), num_keys)
        return min(start, num_keys), max(min(start, num_keys), stop)
