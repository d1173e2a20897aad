"""A call in the terms of fused kernels: few scores, and operands that are differentiable by torch.

The kernels know few scores; the others are these of changed operands. Cosine is the dot product of unit vectors,
bilinear that of q W and k; GAT is the LeakyReLU of the sum of two numbers, one a query and one a key; a Gaussian of
length ℓ is minus the squared distance of operands divided by ℓ√2. A temperature divides an operand, and the bias.
"""

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, cast

import torch
from torch import Tensor

from edgewise.backends.call import Call
from edgewise.neighborhood import Edges, Ranges
from edgewise.neighborhood.checks import broadcast_shape, can_be_read
from edgewise.normalize import (
    MIN_TEMPERATURE,
    Entmax15,
    Hardmax,
    Identity,
    Mean,
    Normalize,
    Sigmoid,
    Softmax,
    Sparsemax,
)
from edgewise.score import GAT, Activation, Additive, Bilinear, Constant, Cosine, Distance, Dot, GATv2, ScaledDot, Score

Kind = Literal["Dot", "Constant", "GATv2", "Additive", "Distance"]
Factor = float | Tensor
_NORMALIZERS = {
    normalizer.__name__: normalizer for normalizer in (Softmax, Hardmax, Sparsemax, Entmax15, Sigmoid, Mean, Identity)
}


@dataclass(frozen=True)
class Lowered:
    """A call in the terms of the kernels.

    Dot       s = number · q·k                  GATv2     s = v · LeakyReLU(q + k), number the slope
    Constant  s = number, whatever the pair     Additive  s = v · f(q + k), f the activation
    Distance  s = −‖q − k‖², or −‖q − k‖ where the root is taken
    """

    call: Call
    """The call, with operands that make the score one of the five."""
    kind: Kind
    """The score, one of the five."""
    number: float = 1.0
    """The scale of Dot, the value of Constant, the slope of GATv2."""
    activation: str = ""
    """f of Additive: tanh, sigmoid, silu or gelu."""
    takes_root: bool = False
    """Whether Distance is the distance itself, not its square."""
    vector: Tensor | None = None
    """v, `(*batch, key_dim)`."""
    normalizer: type = Softmax
    """The class of the normalizer, without a temperature."""
    is_narrow: bool = False
    """Whether a head has one feature, and v is 1."""

    @property
    def nodes(self) -> tuple[Tensor, Tensor]:
        """Query and key; without features where the score does not read them."""
        query, key = self.call.query, self.call.key
        return (query[..., :0], key[..., :0]) if self.kind == "Constant" else (query, key)

    @property
    def formula(self) -> tuple[str, str, bool, float, str]:
        """Kind, activation, root and number of the score, and the name of the normalizer, as operators take them."""
        return self.kind, self.activation, self.takes_root, self.number, self.normalizer.__name__


def score_of(name: str, number: float, activation: str, takes_root: bool, vector: Tensor | None) -> Score:
    """One of the five in plain torch, which is what the kernels' gradients are differentiated by."""
    if name == "Dot":
        return ScaledDot(number)
    if name == "Distance":
        return Distance("laplacian" if takes_root else "gaussian", 1.0 if takes_root else math.sqrt(0.5))
    if name == "Constant":
        return Constant(number)
    assert vector is not None
    return GATv2(vector, number) if name == "GATv2" else Additive(vector, cast(Activation, activation))


def normalizer_of(name: str) -> Normalize:
    """The normalizer of this class, without a temperature."""
    return _NORMALIZERS[name]()


def lower(call: Call, stored: tuple[str, ...] = ()) -> Lowered:
    """The score as one that the kernels know, with the temperature in its operands.

    Where operands change, all become float32, but for those that may stay as they are stored.

    Args:
        call: the call.
        stored: names of operands that keep their dtype.
    """
    call, inverse_temperature = _inverse_temperature(call)
    normalizer = type(call.normalize)
    if normalizer is Mean:
        return Lowered(_without(call, "bias", "edge_key"), "Constant", normalizer=Mean)
    if not _runs_as_it_is(call, inverse_temperature):
        call = without_unpaired(call).in_float32(but=stored)
    if call.bias is not None and not _is_one(inverse_temperature):
        call = replace(call, bias=scaled_bias(call.bias, inverse_temperature, call.bias.dim() - _batch_rank(call)))
    lowered = _known_score(call, inverse_temperature)
    return lowered if normalizer is Softmax else replace(lowered, normalizer=normalizer)


def straight_through(call: Call) -> tuple[Call, Call, Call]:
    """Hardmax with the gradient of Softmax, as three calls: the result is first + (third − second), and that is first.

    Scores get no gradient in the first two calls: values get their gradient from Hardmax, scores theirs from Softmax.
    """
    names = ("query", "key", "edge_key", "bias")
    detached_operands = {name: x.detach() for name, x in call.tensors.items() if name in names}
    score = call.score
    parts = {field.name: getattr(score, field.name) for field in fields(score)}  # type: ignore[arg-type]
    detached_fields = {name: x.detach() for name, x in parts.items() if isinstance(x, Tensor)}
    detached_score = replace(score, **detached_fields) if detached_fields else score  # type: ignore[type-var]
    detached = replace(call, score=detached_score, normalize=Softmax(), **detached_operands)
    return replace(detached, normalize=Hardmax()), detached, replace(call, normalize=Softmax())


def _inverse_temperature(call: Call) -> tuple[Call, Factor]:
    """The call with a normalizer of temperature 1, and 1 / temperature; temperature 0 is Hardmax, infinity is Mean."""
    if not isinstance(call.normalize, Softmax):
        return call, 1.0
    temperature = call.normalize.temperature
    if isinstance(temperature, Tensor):
        precise = temperature.to(torch.promote_types(temperature.dtype, torch.float32))  # before a quotient is rounded
        return replace(call, normalize=Softmax()), 1 / precise.clamp(min=MIN_TEMPERATURE)
    if temperature == 1:
        return call, 1.0
    if temperature == 0:
        return replace(call, normalize=Hardmax()), 1.0
    if temperature == math.inf:
        return replace(call, normalize=Mean()), 1.0
    return replace(call, normalize=Softmax()), 1 / temperature


def _runs_as_it_is(call: Call, inverse_temperature: Factor) -> bool:
    """Whether half precision can stay as it is stored: the operands are not changed before the kernel reads them."""
    if isinstance(inverse_temperature, Tensor):
        return False
    return isinstance(call.score, Dot | ScaledDot | Additive | GATv2 | Constant)


def without_unpaired(call: Call) -> Call:
    """The call with zeros for queries and keys that are in no pair: a NaN there would reach the gradient of what torch
    multiplies all of them with, a vector, a matrix or a temperature."""
    query, key = call.query, call.key
    if can_be_read(query) and math.isfinite(query.detach().sum() + key.detach().sum()):
        return call
    has_key, has_query = _in_a_pair(call)
    return replace(call, query=torch.where(has_key, query, 0.0), key=torch.where(has_query, key, 0.0))


def _in_a_pair(call: Call) -> tuple[Tensor, Tensor]:
    """Which queries and which keys are in a pair, `(*batch, query, 1)` and `(*batch, key, 1)`."""
    neighborhood, device = call.neighborhood, call.query.device
    if isinstance(neighborhood, Edges):
        sides = (call.num_queries, neighborhood.receivers), (call.num_keys, neighborhood.senders)
        has_key, has_query = (
            torch.zeros(size, 1, dtype=torch.bool, device=device).index_fill(0, index, True) for size, index in sides
        )
        return has_key, has_query
    assert isinstance(neighborhood, Ranges)
    positions = torch.arange(call.num_queries, device=device)
    starts, stops = torch.broadcast_tensors(*neighborhood.kernel_runs(positions, call.num_queries, call.num_keys))
    open_runs = torch.zeros(*starts.shape[:-1], call.num_keys + 1, dtype=torch.int64, device=device)
    one = torch.ones_like(starts)
    open_runs = open_runs.scatter_add(-1, starts, one).scatter_add(-1, stops, -one).cumsum(-1)
    return (stops > starts).unsqueeze(-1), (open_runs[..., :-1] > 0).unsqueeze(-1)


def _known_score(call: Call, inverse_temperature: Factor) -> Lowered:
    match call.score:
        case Dot() | ScaledDot() | Cosine() | Bilinear():
            call, scale = _factored(call)
            if isinstance(inverse_temperature, Tensor):
                return Lowered(replace(call, query=_scaled(call.query, inverse_temperature, 2)), "Dot", scale)
            return Lowered(call, "Dot", scale * inverse_temperature)
        case Additive(vector=vector, activation="relu"):
            return Lowered(call, "GATv2", 0.0, vector=_scaled_vector(vector, inverse_temperature))
        case Additive(vector=vector, activation=activation):
            return Lowered(call, "Additive", activation=activation, vector=_scaled_vector(vector, inverse_temperature))
        case GATv2(vector=vector, negative_slope=slope):
            return Lowered(call, "GATv2", slope, vector=_scaled_vector(vector, inverse_temperature))
        case GAT():
            return _gat(call, call.score, inverse_temperature)
        case Distance():
            return _distance(call, call.score, inverse_temperature)

    return _constant(call, call.score, inverse_temperature)


def _factored(call: Call) -> tuple[Call, float]:
    """The call with a query and a key whose dot product is the score, but for a scale; and that scale."""
    match call.score:
        case ScaledDot() as score:
            return call, score.factor(call.query.shape[-1])
        case Dot():
            return call, 1.0
        case Cosine() if call.edge_key is not None:  # the length is that of the sum: a key of its own for each edge
            assert isinstance(call.neighborhood, Edges)
            edge_keys = call.key.index_select(-2, call.neighborhood.senders) + call.edge_key
            query, edge_key = call.score.factors(call.query, edge_keys)
            zeros = call.key.new_zeros((1,) * _batch_rank(call) + call.key.shape[-2:])
            return replace(call, query=query, key=zeros, edge_key=edge_key), 1.0
        case Cosine() | Bilinear():
            query, key = call.score.factors(call.query, call.key)
            return replace(call, query=query, key=key), 1.0

    raise AssertionError(call.score)


def _gat(call: Call, score: GAT, inverse_temperature: Factor) -> Lowered:
    """LeakyReLU(a·q + b·k). As LeakyReLU(t x) = t LeakyReLU(x) for positive t, 1 / temperature goes into a and b."""

    def reduced(x: Tensor, vector: Tensor) -> Tensor:
        parts = x * _scaled_vector(vector, inverse_temperature).unsqueeze(-2).to(x.dtype)
        return parts if parts.shape[-1] == 1 else parts.sum(-1, keepdim=True)

    edge_key = None if call.edge_key is None else reduced(call.edge_key, score.key_vector)
    query, key = reduced(call.query, score.query_vector), reduced(call.key, score.key_vector)
    call = replace(call, query=query, key=key, edge_key=edge_key)
    return Lowered(call, "GATv2", score.negative_slope, vector=query.new_ones(1), is_narrow=True)


def _distance(call: Call, score: Distance, inverse_temperature: Factor) -> Lowered:
    """The score as −‖f q − f k‖² or −‖f q − f k‖, with a factor f."""
    gaussian, length = score.kind == "gaussian", score.length
    if isinstance(length, Tensor):
        length = length.to(torch.promote_types(length.dtype, torch.float32))  # a quotient may overflow half precision
    factor: Any = (inverse_temperature / 2) ** 0.5 / length if gaussian else inverse_temperature / length
    scaled: dict[str, Any] = {
        name: _scaled(x, factor, 2) for name, x in call.tensors.items() if name in ("query", "key", "edge_key")
    }
    return Lowered(replace(call, **scaled), "Distance", takes_root=not gaussian)


def _constant(call: Call, score: Any, inverse_temperature: Factor) -> Lowered:
    value = score.edge_weight
    if not _is_one(inverse_temperature) and abs(value) < math.inf:
        value = 0.0  # softmax does not see what all pairs share, and divided by the temperature it may overflow
    if isinstance(inverse_temperature, Tensor):  # the same for all pairs, but not for all heads
        axes = 1 if isinstance(call.neighborhood, Edges) else 2
        constant_bias = (value * inverse_temperature)[(...,) + (None,) * axes].to(call.query.dtype)
        shape = (call.neighborhood.num_edges,) if isinstance(call.neighborhood, Edges) else (1, 1)
        constant_bias = constant_bias.expand(*constant_bias.shape[:-axes], *shape)
        biased = replace(call, bias=constant_bias if call.bias is None else call.bias + constant_bias)
        return Lowered(_without(biased, "edge_key"), "Constant", 0.0)
    return Lowered(_without(call, "edge_key"), "Constant", value * inverse_temperature)


def _without(call: Call, *names: str) -> Call:
    """The call without operands that the weights do not depend on, and without tensors of the score. The query is
    expanded to their batch axes."""
    shapes = {name: shape for name, shape in call.batch_shapes.items() if name in names or "." in name}
    if not shapes:
        return call
    batch = broadcast_shape(call.query.shape[:-2], *shapes.values())
    left_out: dict[str, Any] = dict.fromkeys(names)
    return replace(call, query=call.query.expand(*batch, *call.query.shape[-2:]), **left_out)


def _is_one(factor: Factor) -> bool:
    return not isinstance(factor, Tensor) and factor == 1.0


def _scaled(x: Tensor, factor: Factor, axes: int) -> Tensor:
    """x · factor, where the factor is `(*batch)` and x has so many axes behind the batch."""
    if isinstance(factor, Tensor):
        return x * factor[(...,) + (None,) * axes].to(x.dtype)
    return x if factor == 1.0 else x * factor


def _scaled_vector(vector: Tensor, inverse_temperature: Factor) -> Tensor:
    """vector / temperature, in float32 or better, for the same reasons as the bias."""
    if _is_one(inverse_temperature):
        return vector
    return _scaled(vector.to(torch.promote_types(vector.dtype, torch.float32)), inverse_temperature, 1)


def scaled_bias(bias: Tensor, inverse_temperature: Factor, axes: int) -> Tensor:
    """bias / temperature, in float32 or better: in half precision a large one overflows, or is rounded by more than the
    scores differ. Infinite numbers stay as they are: their product would give the temperature the gradient 0 · ∞, also
    for pairs outside the neighborhood. Finite numbers stay finite: infinity forbids a pair, and two make NaN. A
    quotient beyond the largest number becomes this number, and the bias gets its gradient all the same."""
    bias = bias.to(torch.promote_types(bias.dtype, torch.float32))
    is_infinite = ~bias.isfinite()
    finite = torch.where(is_infinite, 0.0, bias)
    scaled = _scaled(finite, inverse_temperature, axes)
    if isinstance(inverse_temperature, Tensor) or inverse_temperature > 1:
        largest = torch.finfo(bias.dtype).max
        zero = _scaled(finite - finite.detach(), inverse_temperature, axes)
        scaled = torch.where(scaled.isinf(), zero + scaled.detach().clamp(-largest, largest), scaled)
    return torch.where(is_infinite, bias, scaled)


def _batch_rank(call: Call) -> int:
    return call.query.dim() - 2
