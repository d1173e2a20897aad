"""From a call over runs of keys to the plain tensors of its operators, and back."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from edgewise.backends.call import Call
from edgewise.backends.lower import Lowered, lower
from edgewise.backends.triton.ranges import operators, weights
from edgewise.backends.triton.sizes import together
from edgewise.neighborhood import Ranges


def over_ranges(lowered: Lowered, seed: Tensor) -> Tensor:
    """The operator over runs of keys: `(*batch, query, value_dim)`."""
    call = lowered.call
    assert call.value is not None
    arranged = Arranged.of(lowered)
    value = _of_members(call.value, arranged.batch, 2)
    out, _ = operators.attend_ranges(
        arranged.query, arranged.key, value.expand(*arranged.key.shape[:2], *value.shape[2:]), arranged.bias,
        arranged.vector, arranged.starts, arranged.stops, *arranged.score, call.dropout, seed,
    )  # fmt: skip
    return out.reshape(*arranged.batch, *out.shape[2:])


def strongest(call: Call, top: int, queries: Tensor | None) -> tuple[Tensor, Tensor]:
    """The strongest weights of all queries or of some, and their keys, `(*batch, query, top)`; without a gradient.

    The strongest stand first, of equals that with the smallest key. Where a query has fewer neighbors the weight is −∞.
    """
    arranged = Arranged.of(lower(call), queries)
    found = weights.weigh_ranges(
        arranged.query, arranged.key, arranged.bias, arranged.vector, arranged.starts, arranged.stops, *arranged.score,
        top,
    )  # fmt: skip
    values, keys = (x.reshape(*arranged.batch, *x.shape[2:]) for x in found)
    return values, keys


@dataclass(frozen=True, eq=False)
class Arranged:
    """What scores are made of, as the operators take it: the batch axes as two."""

    batch: tuple[int, ...]
    """The batch axes of all together."""
    query: Tensor
    """`(outer, inner, query, key_dim)`."""
    key: Tensor
    """`(outer, inner, key, key_dim)`."""
    bias: Tensor | None
    """`(outer or 1, inner or 1, query or 1, key or 1)`."""
    vector: Tensor | None
    """`(outer, inner, key_dim)`."""
    starts: Tensor
    """`(outer or 1, inner or 1, query)`, the first key that each query sees."""
    stops: Tensor
    """One past the last."""
    score: tuple[str, str, bool, float, str]
    """Its kind, activation, root and number, and the name of the normalizer."""

    @classmethod
    def of(cls, lowered: Lowered, queries: Tensor | None = None) -> "Arranged":
        """The operands of a call over runs; of some of its queries, where they are named."""
        call = lowered.call
        assert isinstance(call.neighborhood, Ranges)
        query, key, bias = call.query, call.key, call.bias
        if lowered.kind == "Blind":
            query, key = query[..., :0], key[..., :0]
        places = torch.arange(call.num_queries, device=query.device) if queries is None else queries
        runs = torch.broadcast_tensors(*call.neighborhood.runs(places, call.num_queries, call.num_keys))
        if queries is not None:
            query = query.index_select(-2, queries)
            bias = bias if bias is None or bias.shape[-2] == 1 else bias.index_select(-2, queries)
        shapes = [x.shape[:-2] for x in (query, key, call.value) if x is not None] + [runs[0].shape[:-1]]
        shapes += [] if bias is None else [bias.shape[:-2]]
        shapes += [] if lowered.vector is None else [lowered.vector.shape[:-1]]
        batch = together(shapes)
        members = math.prod(batch[:-1]), batch[-1] if batch else 1
        query, key = (_of_members(x, batch, 2) for x in (query, key))
        vector = None
        if lowered.vector is not None:
            vector = lowered.vector.float().expand(*lowered.vector.shape[:-1], query.shape[-1])
            vector = _of_members(vector, batch, 1).expand(*members, -1)
        starts, stops = (_of_members(x.to(torch.int32), batch, 1).contiguous() for x in runs)
        return cls(
            batch=batch,
            query=query.expand(*members, *query.shape[2:]),
            key=key.expand(*members, *key.shape[2:]),
            bias=None if bias is None else _of_members(bias, batch, 2),
            vector=vector,
            starts=starts,
            stops=stops,
            score=lowered.formula,
        )


def _of_members(x: Tensor, batch: tuple, axes: int) -> Tensor:
    """The batch axes as two, `(outer or 1, inner or 1, …)`: where there are more, the first ones become one."""
    x = x[(None,) * (max(len(batch), 2) + axes - x.dim())]
    if len(batch) > 2:
        outer = x.shape[: len(batch) - 1]
        is_shared = math.prod(outer) == 1
        x = (x if is_shared else x.expand(*batch[:-1], *x.shape[len(batch) - 1 :])).flatten(0, len(batch) - 2)
    return x if axes == 1 or x.stride(-1) == 1 or x.shape[-1] <= 1 else x.contiguous()
