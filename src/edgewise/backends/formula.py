"""What the operators of the kernels take, and what they compute in plain torch: the meaning of second derivatives.

Operators take plain tensors, and so do these formulas: they make a call of them and give it to `gather`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from edgewise.backends import gather
from edgewise.backends.call import Call
from edgewise.backends.lower import normalizer_of, score_of
from edgewise.neighborhood import Causal, Edges, Full, Ranges
from edgewise.normalize import Identity, Normalize, Softmax
from edgewise.score import Constant, ScaledDot, Score


class EdgeInputs(NamedTuple):
    """What operators over lists of edges take, whatever compiles their kernels."""

    query: Tensor
    """`(receiver, head, key_dim)`; of no features where the score does not read them."""
    key: Tensor
    """`(sender, head, key_dim)`."""
    value: Tensor | None
    """`(sender, head, value_dim)`; None where the keys are the values, whose gradients are one then."""
    edge_key: Tensor | None
    """`(edge, head or 1, key_dim)`, in the caller's order."""
    edge_value: Tensor | None
    """`(edge, head or 1, value_dim)`."""
    bias: Tensor | None
    """`(edge, head or 1)`."""
    vector: Tensor | None
    """`(head, key_dim)`, of scores that have one; ones where None."""
    both: bool
    """Whether edge_key is added to the values too, and edge_value is None."""
    lists: Sequence[Tensor]
    """Offsets, neighbors and edges by receiver, then by sender, as in a `Plan`."""
    heads: Tensor | None
    """Numba: `(5, head)`, which head of query, key, value, edge_key, edge_value each head of the call reads."""
    kind: str
    """The score, as `lower` names it."""
    activation: str
    """f of Additive."""
    root: bool
    """Whether Distance is the distance itself."""
    number: float
    """Scale, slope or value of the score."""
    normalizer: str
    """The class of the normalizer."""
    dropout: float
    """The rate."""
    seed: Tensor
    """`(1)`."""


class RangeInputs(NamedTuple):
    """What operators over runs of keys take; triton has the batch axes as two, `outer` and `inner`."""

    query: Tensor
    """`(*batch, query, key_dim)`, batch axes expanded alike; of no features where the score does not read them."""
    key: Tensor
    """`(*batch, key, key_dim)`."""
    value: Tensor
    """`(*batch, key, value_dim)`."""
    bias: Tensor | None
    """`(*batch, query or 1, key or 1)`; batch axes may be 1."""
    vector: Tensor | None
    """`(*batch, key_dim)`, of scores that have one."""
    starts: Tensor
    """`(*batch, query)`, the first key that each query attends to."""
    stops: Tensor
    """One past the last."""
    key_dim: int
    """Features of a key that are not padding."""
    kind: str
    activation: str
    root: bool
    number: float
    normalizer: str
    dropout: float
    seed: Tensor


def value_of(inputs: EdgeInputs) -> Tensor:
    """The values, which may be the keys."""
    return inputs.key if inputs.value is None else inputs.value


def over_edges(inputs: EdgeInputs, factors: Tensor | None) -> Tensor:
    """Attention over lists of edges, `(receiver, head, value_dim)`; dropout multiplies weights with `(edge, head)`."""
    edges = edges_of(inputs.lists, inputs.key.shape[0], inputs.query.shape[0])
    query, key, value = (x.transpose(0, 1) for x in (inputs.query, inputs.key, value_of(inputs)))
    edge_key, edge_value = (None if x is None else x.transpose(0, 1) for x in (inputs.edge_key, inputs.edge_value))
    edge_value = edge_key if inputs.both else edge_value
    bias = None if inputs.bias is None else inputs.bias.t()
    call = Call(query, key, value, edges, *_parts_of(inputs), bias, edge_key, edge_value, 0.0)
    drop = None if factors is None else lambda weights: weights * factors.to(weights.dtype)
    return gather.run(call, drop).transpose(0, 1).to(query.dtype)


def over_ranges(inputs: RangeInputs, drop: gather.Drop | None) -> Tensor:
    """Attention over runs of keys, `(*batch, query, value_dim)`; `drop` as `gather` takes it."""
    runs = KnownRuns(inputs.starts, inputs.stops)
    call = Call(*inputs[:3], runs, *_parts_of(inputs), inputs.bias, None, None, 0.0)
    return gather.run(call, drop)


def _parts_of(inputs: EdgeInputs | RangeInputs) -> tuple[Score, Normalize]:
    """The score and the normalizer."""
    vector = inputs.query.new_ones(inputs.query.shape[-1]) if inputs.vector is None else inputs.vector
    score = score_of(inputs.kind, inputs.number, inputs.activation, inputs.root, vector)
    return score, normalizer_of(inputs.normalizer)


def largest(value: Tensor, edge_value: Tensor | None, lists: Sequence[Tensor]) -> Tensor:
    """The largest v + v^e of every receiver, `(receiver, feature)`, of `(sender, feature)` and `(edge, feature)`."""
    edges = edges_of(lists, value.shape[0], lists[0].shape[0] - 1)
    query, key = value.new_zeros(edges.num_receivers, 0), value.new_zeros(edges.num_senders, 0)
    return gather.largest(Call(query, key, value, edges, Constant(), Identity(), None, None, edge_value, 0.0))


def onward(start: Tensor, sent: Tensor, reverse: Tensor, lists: Sequence[Tensor]) -> Tensor:
    """ReLU(start_e + Σ sent_e' over the edges e' that arrive where e leaves, but for the reverse of e)."""
    edges = edges_of(lists, lists[3].shape[0] - 1, lists[0].shape[0] - 1)
    total = sent.new_zeros(edges.num_receivers, sent.shape[-1]).index_add(0, edges.receivers, sent)
    back = torch.where((reverse >= 0).unsqueeze(-1), sent[reverse.clamp(min=0)], 0.0)
    return torch.relu(start + total[edges.senders] - back)


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
class KnownRuns(Ranges):
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
