"""From a call to the plain tensors of an operator: few scores, one layout, all of it differentiable by torch.

The kernels know few scores; the others are these of changed operands. Cosine is the product of unit vectors, bilinear
that of q W and k; GAT is the bent sum of one number a node; a Gaussian of length ℓ is minus the square of the gap of
operands divided by ℓ√2. A temperature divides an operand as well, and the bias.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise.backends.call import Call
from edgewise.backends.numba import edge_operators, extreme_operators, range_operators
from edgewise.backends.numba.normalize import ENTMAX15, HARDMAX, IDENTITY, MEAN, SIGMOID, SOFTMAX, SPARSEMAX
from edgewise.backends.numba.score import ACTIVATIONS
from edgewise.backends.numba.simd import WIDTH
from edgewise.neighborhood import Edges, Plan, Ranges
from edgewise.normalize import Entmax15, Hardmax, Identity, Mean, Sigmoid, Softmax, Sparsemax
from edgewise.score import GAT, Additive, Bilinear, Constant, Cosine, Distance, Dot, GATv2, ScaledDot

CODES = {
    Softmax: SOFTMAX,
    Hardmax: HARDMAX,
    Sparsemax: SPARSEMAX,
    Entmax15: ENTMAX15,
    Sigmoid: SIGMOID,
    Mean: MEAN,
    Identity: IDENTITY,
}
Factor = float | Tensor


@dataclass(frozen=True)
class Lowered:
    """A call in the terms of the kernels."""

    call: Call
    """With the operands as they were or as they became."""
    kind: str
    """The name of one of the classes in `score.PARTS`."""
    number: float = 1.0
    """Its scale, value or slope."""
    flag: int = 0
    """Which activation; or 1 where the root is taken."""
    vector: Tensor | None = None
    """Its vector, `(*batch, key_dim)`."""
    normalizer: int = SOFTMAX
    """One of the codes of `normalize`."""
    is_narrow: bool = False
    """Whether each head has one number a node, and the vector is 1: over edges, lanes are then heads."""


def run(call: Call) -> Tensor:
    """o_i = Σ_j α_ij (v_j + v^e_ij), by the form of the neighborhood."""
    seed = torch.randint(2**62, (1,)) if call.dropout > 0 else _no_seed()
    if isinstance(call.normalize, Hardmax) and call.normalize.straight_through:
        return _straight_through(call, seed)
    return _run(call, seed)


def _run(call: Call, seed: Tensor) -> Tensor:
    assert call.value is not None
    dtype, width = call.query.dtype, call.value.shape[-1]
    lowered = lower(call)
    if isinstance(call.neighborhood, Edges):
        out = over_edges(lowered, call.neighborhood, seed)
    else:
        assert isinstance(call.neighborhood, Ranges)
        out = over_ranges(lowered, call.neighborhood, seed)
    out = out if out.shape[-1] == width else out[..., :width]
    return out if out.dtype == dtype else out.to(dtype)


def _straight_through(call: Call, seed: Tensor) -> Tensor:
    """The output of Hardmax; its values get their gradient from there, its scores from Softmax."""
    free = {name: x.detach() for name, x in call.tensors.items() if name in ("query", "key", "edge_key", "bias")}
    fixed = {name: x.detach() for name, x in call.tensors.items() if name in ("value", "edge_value")}
    hard = _run(replace(call, normalize=Hardmax(), **free), seed)
    soft = _run(replace(call, normalize=Softmax(), **fixed), seed)
    return hard + (soft - soft.detach())


def lower(call: Call) -> Lowered:
    """The score as one that the kernels know, with the temperature in its operands."""
    call, coldness = _coldness(call)
    normalizer = CODES[type(call.normalize)]
    if normalizer == MEAN:
        return Lowered(replace(call, bias=None, edge_key=None), "Blind", normalizer=MEAN)
    if not _runs_as_it_is(call, coldness):
        call = call.in_float32()
    if call.bias is not None and not _is_one(coldness):
        call = replace(call, bias=_cooled(call.bias, coldness, call.bias.dim() - _batch_rank(call)))
    lowered = _known_score(call, coldness)
    return lowered if normalizer == SOFTMAX else replace(lowered, normalizer=normalizer)


def _coldness(call: Call) -> tuple[Call, Factor]:
    """1 / temperature, and the call with a normalizer that has none; the ends of the scale are other normalizers."""
    if not isinstance(call.normalize, Softmax):
        return call, 1.0
    temperature = call.normalize.temperature
    if isinstance(temperature, Tensor):
        return replace(call, normalize=Softmax()), 1 / temperature
    if temperature == 1:
        return call, 1.0
    if temperature == 0:
        return replace(call, normalize=Hardmax()), 1.0
    if temperature == math.inf:
        return replace(call, normalize=Mean()), 1.0
    return replace(call, normalize=Softmax()), 1 / temperature


def _runs_as_it_is(call: Call, coldness: Factor) -> bool:
    """Whether half precision can stay as it is stored: the operands are not changed before the kernel reads them."""
    return isinstance(call.score, Dot | ScaledDot | Additive | GATv2 | Constant) and not isinstance(coldness, Tensor)


def _known_score(call: Call, coldness: Factor) -> Lowered:
    match call.score:
        case Dot() | ScaledDot() | Cosine() | Bilinear():
            call, scale = _factored(call)
            if isinstance(coldness, Tensor):
                return Lowered(replace(call, query=_times(call.query, coldness, 2)), "Product", scale)
            return Lowered(call, "Product", scale * coldness)
        case Additive(vector=vector, activation="relu"):
            return Lowered(call, "Bent", 0.0, vector=_times(vector, coldness, 1))
        case Additive(vector=vector, activation=activation):
            flag = ACTIVATIONS.index(activation)
            return Lowered(call, "Smooth", flag=flag, vector=_times(vector, coldness, 1))
        case GATv2(vector=vector, negative_slope=slope):
            return Lowered(call, "Bent", slope, vector=_times(vector, coldness, 1))
        case GAT():
            return _one_number_a_node(call, call.score, coldness)
        case Distance():
            return _gap(call, call.score, coldness)
    return _constant(call, call.score, coldness)


def _factored(call: Call) -> tuple[Call, float]:
    """The two factors of a product, and the scale that the kernel multiplies with."""
    match call.score:
        case ScaledDot(scale=scale):
            return call, 1 / math.sqrt(call.query.shape[-1]) if scale is None else scale
        case Dot():
            return call, 1.0
        case Cosine() if call.edge_key is not None:  # the length is that of the sum: a key of its own for each edge
            assert isinstance(call.neighborhood, Edges)
            whole = call.key.index_select(-2, call.neighborhood.senders) + call.edge_key
            query, edge_key = call.score.factors(call.query, whole)
            nothing = call.key.new_zeros((1,) * _batch_rank(call) + call.key.shape[-2:])
            return replace(call, query=query, key=nothing, edge_key=edge_key), 1.0
        case Cosine() | Bilinear():
            query, key = call.score.factors(call.query, call.key)
            return replace(call, query=query, key=key), 1.0
    raise AssertionError(call.score)


def _one_number_a_node(call: Call, score: GAT, coldness: Factor) -> Lowered:
    """LeakyReLU(a·q + b·k): LeakyReLU(t x) = t LeakyReLU(x) for positive t, so the coldness goes into both vectors."""

    def reduced(x: Tensor, vector: Tensor) -> Tensor:
        return (x * _times(vector, coldness, 1).unsqueeze(-2).to(x.dtype)).sum(-1, keepdim=True)

    edge_key = None if call.edge_key is None else reduced(call.edge_key, score.key_vector)
    query, key = reduced(call.query, score.query_vector), reduced(call.key, score.key_vector)
    call = replace(call, query=query, key=key, edge_key=edge_key)
    return Lowered(call, "Bent", score.negative_slope, vector=query.new_ones(1), is_narrow=True)


def _gap(call: Call, score: Distance, coldness: Factor) -> Lowered:
    """−‖f q − f k‖² or −‖f q − f k‖, f what makes them the score."""
    gaussian = score.kind == "gaussian"
    factor: Any = (coldness / 2) ** 0.5 / score.length if gaussian else coldness / score.length
    scaled: dict[str, Any] = {
        name: _times(x, factor, 2) for name, x in call.tensors.items() if name in ("query", "key", "edge_key")
    }
    return Lowered(replace(call, **scaled), "Square", flag=0 if gaussian else 1)


def _constant(call: Call, score: Any, coldness: Factor) -> Lowered:
    value = score.edge_weight
    if isinstance(coldness, Tensor):  # the same for all pairs, but not for all heads
        axes = 1 if isinstance(call.neighborhood, Edges) else 2
        every = (value * coldness)[(...,) + (None,) * axes].to(call.query.dtype)
        shape = (call.neighborhood.num_edges,) if isinstance(call.neighborhood, Edges) else (1, 1)
        every = every.expand(*every.shape[:-axes], *shape)
        return Lowered(
            replace(call, bias=every if call.bias is None else call.bias + every, edge_key=None), "Blind", 0.0
        )
    return Lowered(replace(call, edge_key=None), "Blind", value * coldness)


def _is_one(factor: Factor) -> bool:
    return not isinstance(factor, Tensor) and factor == 1.0


def _times(x: Tensor, factor: Factor, axes: int) -> Tensor:
    """x · factor, the factor `(*batch)`, x with this many axes more."""
    if isinstance(factor, Tensor):
        return x * factor[(...,) + (None,) * axes].to(x.dtype)
    return x if factor == 1.0 else x * factor


def _cooled(bias: Tensor, coldness: Factor, axes: int) -> Tensor:
    """bias · coldness, where −∞ stays what it is: its product would give the temperature the gradient 0 · ∞."""
    shut = bias == -math.inf
    return torch.where(shut, bias, _times(torch.where(shut, 0.0, bias), coldness, axes))


def _batch_rank(call: Call) -> int:
    return call.query.dim() - 2


def over_edges(lowered: Lowered, edges: Edges, seed: Tensor) -> Tensor:
    """The operator over lists: `(*batch, query, value_dim)`, the value_dim that of padded values."""
    call = lowered.call
    assert call.value is not None
    query, key, edge_key = call.query, call.key, call.edge_key
    if lowered.kind == "Blind":
        query, key = query[..., :0], key[..., :0]
    originals = (call.query, call.key, call.value, call.edge_key, call.edge_value)
    shapes = tuple([() if x is None else x.shape[:-2] for x in originals])
    vector_batch = () if lowered.vector is None else lowered.vector.shape[:-1]
    bias_batch = () if call.bias is None else call.bias.shape[:-1]
    batch = _together(*shapes, vector_batch, bias_batch)
    bias = None if call.bias is None else _head_lanes(call.bias.unsqueeze(-1), batch).squeeze(-1)
    arrange = partial(_head_lanes, batch=batch) if lowered.is_narrow else _node_major
    query, key, value = arrange(query), arrange(key), _node_major(call.value)
    edge_key = None if edge_key is None else arrange(edge_key)
    edge_value = None if call.edge_value is None else _node_major(call.edge_value)
    heads = _own_heads(shapes, batch) if torch.compiler.is_compiling() else _same_heads(shapes, batch)
    vector = lowered.vector
    if vector is not None:
        vector = vector.to(_compute_dtype(query))
        vector = (vector if lowered.is_narrow else _padded(vector)).expand(*batch, -1).reshape(heads.shape[1], -1)
    out, _ = edge_operators.attend_edges(
        query, key, value, edge_key, edge_value, bias, vector, heads,
        _lists(edges.plan),
        lowered.kind, lowered.number, lowered.flag, lowered.normalizer, call.dropout, seed,
    )  # fmt: skip
    if len(batch) == 1:
        return out.transpose(0, 1)
    return out.unflatten(1, batch).movedim(0, -2) if batch else out.squeeze(1)


def largest(call: Call) -> Tensor:
    """The largest of each feature over the edges of each receiver, `(*batch, query, value_dim)`."""
    assert isinstance(call.neighborhood, Edges) and call.value is not None
    tensors = [x for x in (call.value, call.edge_value) if x is not None]
    batch, width = _together(*(x.shape[:-2] for x in tensors)), call.value.shape[-1]
    flat = [_node_major(x.expand(*batch, *x.shape[-2:])).flatten(1) for x in tensors]
    out = extreme_operators.largest_over_edges(
        flat[0], flat[1] if len(flat) > 1 else None, _lists(call.neighborhood.plan)
    )
    return out.unflatten(1, (*batch, -1)).movedim(0, -2)[..., :width]


def _lists(plan: Plan) -> list[Tensor]:
    by_receiver = [plan.receiver_offsets, plan.senders, plan.receiver_edges]
    return [*by_receiver, plan.sender_offsets, plan.receivers, plan.sender_edges]


def _own_heads(shapes: tuple, batch: tuple) -> Tensor:
    """For each head of the call, which head of each tensor, with its own batch axes, it reads: `(tensor, head)`."""
    rows = []
    for own in shapes:
        lifted = (1,) * (len(batch) - len(own)) + own
        rows.append(torch.arange(math.prod(lifted)).view(lifted).expand(batch).reshape(-1))
    return torch.stack(rows)


@lru_cache(maxsize=1024)
def _same_heads(shapes: tuple, batch: tuple) -> Tensor:
    with torch.inference_mode(False):  # what is remembered while evaluating may serve training later
        return _own_heads(shapes, batch)


def _no_seed() -> Tensor:
    """The seed of a dropout that there is not."""
    return torch.zeros(1, dtype=torch.int64) if torch.compiler.is_compiling() else _same_seed()


@lru_cache
def _same_seed() -> Tensor:
    with torch.inference_mode(False):
        return torch.zeros(1, dtype=torch.int64)


def _together(*shapes: tuple) -> tuple:
    """The shape that all of these broadcast to. Mostly they are alike, and torch's own answer takes its time."""
    if torch.compiler.is_compiling():  # sizes may be symbols, which a comparison would bind
        return tuple(torch.broadcast_shapes(*shapes))
    some = [tuple(shape) for shape in shapes if shape]
    alike = all(shape == some[0] for shape in some)
    return (some[0] if some else ()) if alike else tuple(torch.broadcast_shapes(*some))


def _node_major(x: Tensor) -> Tensor:
    """`(*batch, node, feature)` as `(node, head, feature)`, a node's heads together in memory; features padded."""
    if x.dim() == 3:
        return _padded(x.transpose(0, 1))
    x = x.movedim(-2, 0)
    x = x.flatten(1, -2) if x.dim() > 2 else x.unsqueeze(1)
    return _padded(x)


def _padded(x: Tensor) -> Tensor:
    """Zeros up to a whole number of vectors."""
    missing = -x.shape[-1] % WIDTH
    return F.pad(x, (0, missing)) if missing else x


def _head_lanes(x: Tensor, batch: Any) -> Tensor:
    """`(*batch, node, 1)` as `(node, lane, 1)`, every head of the call its own lane, padded to whole vectors."""
    x = x.expand(*batch, *x.shape[-2:]).movedim(-2, 0)
    x = x.flatten(1, -2) if x.dim() > 2 else x.unsqueeze(1)
    missing = -x.shape[1] % WIDTH
    return F.pad(x, (0, 0, 0, missing)) if missing else x


def _compute_dtype(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def over_ranges(lowered: Lowered, ranges: Ranges, seed: Tensor) -> Tensor:
    """The operator over runs of keys: `(*batch, query, value_dim)`, the value_dim that of padded values."""
    call = lowered.call.in_float32()
    assert call.value is not None
    query, key, value = call.query, call.key, _padded(call.value)
    if lowered.kind == "Blind":
        query, key = query[..., :0], key[..., :0]
    key_dim = query.shape[-1]
    query, key = _padded(query), _padded(key)
    starts, stops = ranges.runs(torch.arange(call.num_queries), call.num_queries, call.num_keys)
    vector_batch = () if lowered.vector is None else lowered.vector.shape[:-1]
    bias_batch = () if call.bias is None else call.bias.shape[:-2]
    shapes = [x.shape[:-2] for x in (query, key, value)]
    batch = _together(*shapes, vector_batch, bias_batch, starts.shape[:-1], stops.shape[:-1])
    query, key, value = (x.expand(*batch, *x.shape[-2:]) for x in (query, key, value))
    starts, stops = (x.contiguous().expand(*batch, x.shape[-1]) for x in torch.broadcast_tensors(starts, stops))
    bias, vector = call.bias, lowered.vector
    if bias is not None:
        bias = bias.to(query.dtype).expand(*batch, call.num_queries, call.num_keys)
    if vector is not None:
        vector = vector.to(query.dtype).expand(*vector_batch, key_dim)
        vector = _padded(vector).expand(*batch, -1)
    return range_operators.attend_ranges(
        query, key, value, bias, vector, starts, stops, key_dim, lowered.kind, lowered.number, lowered.flag,
        lowered.normalizer, call.dropout, seed,
    )  # fmt: skip
