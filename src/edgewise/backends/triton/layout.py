"""From a call to the plain tensors of the operators, and back."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from edgewise.backends.call import Call
from edgewise.backends.lower import Lowered, lower
from edgewise.backends.triton import edge_operators
from edgewise.backends.triton.launch import forms_of
from edgewise.neighborhood import Edges, Plan
from edgewise.normalize import Hardmax, Softmax


def run(call: Call) -> Tensor:
    """o_i = Σ_j α_ij (v_j + v^e_ij)."""
    seed = torch.randint(2**31 - 1, (1,), device=call.query.device)
    if isinstance(call.normalize, Hardmax) and call.normalize.straight_through:
        free = {name: x.detach() for name, x in call.tensors.items() if name in ("query", "key", "edge_key", "bias")}
        fixed = {name: x.detach() for name, x in call.tensors.items() if name in ("value", "edge_value")}
        hard = over_edges(lower(replace(call, normalize=Hardmax(), **free)), seed)
        soft = over_edges(lower(replace(call, normalize=Softmax(), **fixed)), seed)
        return (hard + (soft - soft.detach())).to(call.query.dtype)
    return over_edges(lower(call), seed).to(call.query.dtype)


def over_edges(lowered: Lowered, seed: Tensor) -> Tensor:
    """The operator over lists: `(*batch, query, value_dim)`."""
    call = lowered.call
    assert call.value is not None and isinstance(call.neighborhood, Edges)
    query, key = call.query, call.key
    if lowered.kind == "Blind":
        query, key = query[..., :0], key[..., :0]
    shapes = [x.shape[:-2] for x in (call.query, call.key, call.value, call.edge_key, call.edge_value) if x is not None]
    shapes += [] if call.bias is None else [call.bias.shape[:-1]]
    shapes += [] if lowered.vector is None or lowered.is_narrow else [lowered.vector.shape[:-1]]
    batch = torch.broadcast_shapes(*shapes)
    num_heads, key_dim = math.prod(batch), query.shape[-1]
    vector = None
    if lowered.vector is not None and not lowered.is_narrow:
        vector = lowered.vector.float().expand(*batch, key_dim).reshape(num_heads, key_dim)
    form, _ = forms_of(lowered.kind, "", False, "", False, False, num_heads, key_dim, call.value.shape[-1])
    may_share = form.heads >= num_heads
    bias = None if call.bias is None else _of_edges(call.bias.unsqueeze(-1), batch, may_share).squeeze(-1)
    out, _, _ = edge_operators.attend_edges(
        _node_major(query, batch), _node_major(key, batch), _node_major(call.value, batch),
        None if call.edge_key is None else _of_edges(call.edge_key, batch, may_share),
        None if call.edge_value is None else _of_edges(call.edge_value, batch, may_share),
        bias, vector, _lists(call.neighborhood.plan), lowered.kind, lowered.activation, lowered.takes_root,
        lowered.number, lowered.normalizer.__name__, call.dropout, seed,
    )  # fmt: skip
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
