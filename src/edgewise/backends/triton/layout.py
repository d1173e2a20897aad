"""From a call to the plain tensors of the operators, and back: one layout for edges, one for ranges."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from edgewise.backends.call import Call
from edgewise.backends.lower import Lowered, lower
from edgewise.backends.triton import edge_operators, range_operators
from edgewise.backends.triton.launch import forms_of
from edgewise.neighborhood import Edges, Plan, Ranges
from edgewise.normalize import Hardmax, Softmax


def run(call: Call) -> Tensor:
    """o_i = Σ_j α_ij (v_j + v^e_ij)."""
    seed = torch.empty(1, dtype=torch.int64, device=call.query.device)
    if call.dropout > 0:
        seed = seed.random_(2**31 - 1)
    if isinstance(call.normalize, Hardmax) and call.normalize.straight_through:
        free = {name: x.detach() for name, x in call.tensors.items() if name in ("query", "key", "edge_key", "bias")}
        fixed = {name: x.detach() for name, x in call.tensors.items() if name in ("value", "edge_value")}
        hard = _run(lower(replace(call, normalize=Hardmax(), **free)), seed)
        soft = _run(lower(replace(call, normalize=Softmax(), **fixed)), seed)
        return (hard + (soft - soft.detach())).to(call.query.dtype)
    return _run(lower(call), seed).to(call.query.dtype)


def _run(lowered: Lowered, seed: Tensor) -> Tensor:
    return over_edges(lowered, seed) if isinstance(lowered.call.neighborhood, Edges) else over_ranges(lowered, seed)


def over_edges(lowered: Lowered, seed: Tensor) -> Tensor:
    """The operator over lists: `(*batch, query, value_dim)`."""
    call = lowered.call
    assert call.value is not None
    arranged = Arranged.of(lowered)
    out, _, _ = edge_operators.attend_edges(
        arranged.query, arranged.key, _node_major(call.value, arranged.batch), arranged.edge_key,
        None if call.edge_value is None else _of_edges(call.edge_value, arranged.batch, arranged.may_share),
        arranged.bias, arranged.vector, arranged.lists, *arranged.score, call.dropout, seed,
    )  # fmt: skip
    return _by_batch(out, arranged.batch)


def weights(call: Call) -> Tensor:
    """α of every edge, `(*batch, edge)`, in the caller's order; without a gradient."""
    arranged = Arranged.of(lower(call))
    found = edge_operators.edge_weights(
        arranged.query, arranged.key, arranged.edge_key, arranged.bias, arranged.vector, arranged.lists, *arranged.score
    )
    return found.t().unflatten(0, arranged.batch) if arranged.batch else found.squeeze(1)


@dataclass(frozen=True, eq=False)
class Arranged:
    """What scores are made of, as the operators take it."""

    batch: tuple[int, ...]
    """The batch axes of all together, which are the heads."""
    may_share: bool
    """Whether one program has all heads, so that what an edge carries for all of them is not repeated."""
    query: Tensor
    """`(receiver, head, key_dim)`."""
    key: Tensor
    """`(sender, head, key_dim)`."""
    edge_key: Tensor | None
    """`(edge, head or 1, key_dim)`."""
    bias: Tensor | None
    """`(edge, head or 1)`."""
    vector: Tensor | None
    """`(head, key_dim)`."""
    lists: list[Tensor]
    """Offsets, neighbors and edges by receiver, then by sender."""
    score: tuple[str, str, bool, float, str]
    """Its kind, activation, root and number, and the name of the normalizer."""

    @classmethod
    def of(cls, lowered: Lowered) -> "Arranged":
        """The operands of a call over edges."""
        call = lowered.call
        assert isinstance(call.neighborhood, Edges)
        query, key = call.query, call.key
        if lowered.kind == "Blind":
            query, key = query[..., :0], key[..., :0]
        nodes = (call.query, call.key, call.value, call.edge_key, call.edge_value)
        shapes = [x.shape[:-2] for x in nodes if x is not None]
        shapes += [] if call.bias is None else [call.bias.shape[:-1]]
        vector = None if lowered.is_narrow else lowered.vector
        shapes += [] if vector is None else [vector.shape[:-1]]
        batch = _together(shapes)
        num_heads, key_dim = math.prod(batch), query.shape[-1]
        if vector is not None:
            vector = vector.float().expand(*batch, key_dim).reshape(num_heads, key_dim)
        value_dim = 1 if call.value is None else call.value.shape[-1]
        form, *_ = forms_of(lowered.kind, "", False, "", False, False, False, num_heads, key_dim, value_dim)
        may_share = form.heads >= num_heads
        return cls(
            batch=batch,
            may_share=may_share,
            query=_node_major(query, batch),
            key=_node_major(key, batch),
            edge_key=None if call.edge_key is None else _of_edges(call.edge_key, batch, may_share),
            bias=None if call.bias is None else _of_edges(call.bias.unsqueeze(-1), batch, may_share).squeeze(-1),
            vector=vector,
            lists=_lists(call.neighborhood.plan),
            score=_score_of(lowered),
        )


def _together(shapes: list[torch.Size]) -> tuple[int, ...]:
    """The batch axes of all; mostly they are alike, which is asked in no time."""
    return tuple(shapes[0] if all(shape == shapes[0] for shape in shapes) else torch.broadcast_shapes(*shapes))


def _score_of(lowered: Lowered) -> tuple[str, str, bool, float, str]:
    return lowered.kind, lowered.activation, lowered.takes_root, lowered.number, lowered.normalizer.__name__


def _by_batch(out: Tensor, batch: tuple[int, ...]) -> Tensor:
    """`(query, head, value_dim)` as `(*batch, query, value_dim)`."""
    return out.unflatten(1, batch).movedim(0, -2) if batch else out.squeeze(1)


def _node_major(x: Tensor, batch: tuple) -> Tensor:
    """`(*batch, node, feature)` as `(node, head, feature)`, seen as it lies in memory where its strides allow."""
    x = x.expand(*batch, *x.shape[-2:]).movedim(-2, 0).reshape(x.shape[-2], math.prod(batch), x.shape[-1])
    return x if x.stride(-1) == 1 or x.shape[-1] <= 1 else x.contiguous()


def _of_edges(x: Tensor, batch: tuple, may_share: bool) -> Tensor:
    """The same; where all heads share one, and one program has them all, it is not repeated."""
    is_shared = may_share and math.prod(x.shape[:-2]) == 1
    return _node_major(x[(0,) * (x.dim() - 2)] if is_shared else x, () if is_shared else batch)


def _lists(plan: Plan) -> list[Tensor]:
    by_receiver = [plan.receiver_offsets, plan.senders, plan.receiver_edges]
    return [*by_receiver, plan.sender_offsets, plan.receivers, plan.sender_edges]


def over_ranges(lowered: Lowered, seed: Tensor) -> Tensor:
    """The operator over runs of keys: `(*batch, query, value_dim)`."""
    call = lowered.call
    assert call.value is not None and isinstance(call.neighborhood, Ranges)
    query, key = call.query, call.key
    if lowered.kind == "Blind":
        query, key = query[..., :0], key[..., :0]
    places = torch.arange(call.num_queries, device=query.device)
    runs = torch.broadcast_tensors(*call.neighborhood.runs(places, call.num_queries, call.num_keys))
    shapes = [x.shape[:-2] for x in (query, key, call.value)] + [runs[0].shape[:-1]]
    shapes += [] if call.bias is None else [call.bias.shape[:-2]]
    shapes += [] if lowered.vector is None else [lowered.vector.shape[:-1]]
    batch = _together(shapes)
    query, key, value = (_of_members(x, batch, 2) for x in (query, key, call.value))
    members = math.prod(batch[:-1]), batch[-1] if batch else 1
    query, key, value = (x.expand(*members, *x.shape[2:]) for x in (query, key, value))
    bias = None if call.bias is None else _of_members(call.bias, batch, 2)
    vector = None
    if lowered.vector is not None:
        vector = lowered.vector.float().expand(*lowered.vector.shape[:-1], query.shape[-1])
        vector = _of_members(vector, batch, 1).expand(*members, -1)
    starts, stops = (_of_members(x.to(torch.int32), batch, 1).contiguous() for x in runs)
    out, _ = range_operators.attend_ranges(
        query, key, value, bias, vector, starts, stops, lowered.kind, lowered.activation, lowered.takes_root,
        lowered.number, lowered.normalizer.__name__, call.dropout, seed,
    )  # fmt: skip
    return out.reshape(*batch, *out.shape[2:])


def _of_members(x: Tensor, batch: tuple, axes: int) -> Tensor:
    """The batch axes as two, `(outer or 1, inner or 1, …)`: where there are more, the first ones become one."""
    x = x[(None,) * (max(len(batch), 2) + axes - x.dim())]
    if len(batch) > 2:
        outer = x.shape[: len(batch) - 1]
        is_shared = math.prod(outer) == 1
        x = (x if is_shared else x.expand(*batch[:-1], *x.shape[len(batch) - 1 :])).flatten(0, len(batch) - 2)
    return x if axes == 1 or x.stride(-1) == 1 or x.shape[-1] <= 1 else x.contiguous()
