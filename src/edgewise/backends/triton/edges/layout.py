"""From a call over edges to the plain tensors of its operators, and back."""

import math
from dataclasses import dataclass

from torch import Tensor

from edgewise.backends.call import Call
from edgewise.backends.lower import Lowered, lower
from edgewise.backends.triton.edges import operators
from edgewise.backends.triton.edges.launch import forms_of
from edgewise.backends.triton.sizes import together
from edgewise.neighborhood import Edges, Plan


def over_edges(lowered: Lowered, seed: Tensor) -> Tensor:
    """The operator over lists: `(*batch, query, value_dim)`."""
    call = lowered.call
    assert call.value is not None
    arranged = Arranged.of(lowered)
    out, _, _ = operators.attend_edges(
        arranged.query, arranged.key, _node_major(call.value, arranged.batch), arranged.edge_key,
        None if call.edge_value is None else _of_edges(call.edge_value, arranged.batch, arranged.may_share),
        arranged.bias, arranged.vector, arranged.lists, *arranged.score, call.dropout, seed,
    )  # fmt: skip
    return _by_batch(out, arranged.batch)


def weights(call: Call) -> Tensor:
    """α of every edge, `(*batch, edge)`, in the caller's order; without a gradient."""
    arranged = Arranged.of(lower(call))
    found = operators.edge_weights(
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
        batch = together(shapes)
        num_heads, key_dim = math.prod(batch), query.shape[-1]
        if vector is not None:
            vector = vector.float().expand(*batch, key_dim).reshape(num_heads, key_dim)
        value_dim = 1 if call.value is None else call.value.shape[-1]
        form, *_ = forms_of(lowered.kind, "", False, "", False, False, False, False, num_heads, key_dim, value_dim)
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
            score=lowered.formula,
        )


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
