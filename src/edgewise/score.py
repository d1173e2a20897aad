"""How well a query and a key match: s(q_i, k_j).

A score is any callable on two tensors that broadcast, `(*pair, *batch, key_dim)` each, and gives `(*pair, *batch)`. The
formula is written for one pair; the batch axes, and with them the heads, stand right before the features, so that a
field of shape `(*batch, key_dim)` needs no reshaping. A score of your own is a function:

    attend(query, key, value, score=lambda query, key: -(query - key).abs().sum(-1))

Scores that are a dot product of something say so (`DotProduct.factors`), and then run as a matrix product.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.errors import SettingError, ShapeError
from edgewise.neighborhood.checks import broadcast_shape, not_positive, number

Score = Callable[[Tensor, Tensor], Tensor]
Activation = Literal["tanh", "relu", "sigmoid", "silu", "gelu"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "gelu": F.gelu,
}


def score_pairs(score: Score, query: Tensor, key: Tensor) -> Tensor:
    """s of every pair, `(*pair, *batch)`, where a score of one's own may read one side only.

    Raises:
        ShapeError: the score gave another shape.
    """
    scores, pairs = score(query, key), broadcast_shape(query.shape[:-1], key.shape[:-1])
    if not isinstance(scores, Tensor):
        raise ShapeError(f"score: {_name(score)} gave the type {type(scores).__name__}; expected a tensor.")
    if scores.shape == pairs:
        return scores

    # The tensors of a score may have batch axes where queries and keys have 1.
    varies = isinstance(score, nn.Module) or any(isinstance(x, Tensor) for x in getattr(score, "__dict__", {}).values())

    fits = scores.dim() == len(pairs) and all(
        score_size in (1, size) or (size == 1 and varies) for score_size, size in zip(scores.shape, pairs)
    )
    if not fits:
        raise ShapeError(
            f"score: {_name(score)} gave the shape {tuple(scores.shape)}; expected {tuple(pairs)}, one number for each "
            f"pair of queries {tuple(query.shape)} and keys {tuple(key.shape)}, whose last axis is the features."
        )

    return scores.expand(broadcast_shape(scores.shape, pairs))


class DotProduct:
    """A score that is the dot product of a function of the query and a function of the key."""

    def factors(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """The two factors, for queries and keys `(*batch, node, key_dim)`, whose dot product is the score."""
        raise NotImplementedError(f"{type(self).__name__} has no factors().")

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        left, right = self.factors(query.unsqueeze(-2), key.unsqueeze(-2))
        return (left * right).sum(-1).squeeze(-1)


def is_dot_product(score: object) -> TypeGuard[DotProduct]:
    """Whether a score is the dot product of its factors: a subclass with a `__call__` of its own is not."""
    return isinstance(score, DotProduct) and type(score).__call__ is DotProduct.__call__


@dataclass(frozen=True, eq=False)
class Dot(DotProduct):
    """s = q·k (Luong et al. 2015, "dot")."""

    def factors(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        return query, key


@dataclass(frozen=True, eq=False)
class ScaledDot(DotProduct):
    """s = q·k / √key_dim (Vaswani et al. 2017, eq. 1): unit variance for unit features, not bounded by ±1."""

    scale: float | None = None
    """What the dot product is multiplied by; 1/√key_dim where None."""

    def __post_init__(self) -> None:
        if self.scale is not None:
            object.__setattr__(self, "scale", _finite("ScaledDot", "scale", self.scale))

    def factor(self, key_dim: int) -> float:
        """What the dot product is multiplied by; without features, it is 0 whatever the factor."""
        if self.scale is not None:
            return self.scale
        return 1.0 if key_dim == 0 else 1 / math.sqrt(key_dim)

    def factors(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        return query * self.factor(query.shape[-1]), key


@dataclass(frozen=True, eq=False)
class Cosine(DotProduct):
    """s = q·k / (‖q‖ ‖k‖), between −1 and 1; 0 where either is the zero vector."""

    def factors(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        return _unit(query), _unit(key)


@dataclass(frozen=True, eq=False)
class Bilinear(DotProduct):
    """s = qᵀ W k (Luong et al. 2015, "general"); query and key may have different sizes."""

    weight: Float[Tensor, " *batch query_dim key_dim"]
    """W."""

    def __post_init__(self) -> None:
        _require_axes("Bilinear", "weight", self.weight, ("query_dim", "key_dim"))

    def factors(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        return query @ self.weight.to(query.dtype), key


@dataclass(frozen=True, eq=False)
class Additive:
    """s = v · f(q + k), f = tanh (Bahdanau et al. 2015); Luong's "concat" is the same after projections."""

    vector: Float[Tensor, " *batch key_dim"]
    """v."""
    activation: Activation = "tanh"
    """f."""

    def __post_init__(self) -> None:
        _require_axes("Additive", "vector", self.vector, ("key_dim",))
        if self.activation not in tuple(ACTIVATIONS):
            raise SettingError(
                f"Additive: activation must be one of {', '.join(ACTIVATIONS)}, not {self.activation!r}."
            )

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        return (self.vector * ACTIVATIONS[self.activation](query + key)).sum(-1)


@dataclass(frozen=True, eq=False)
class GATv2:
    """s = a · LeakyReLU(q + k) (Brody et al. 2022, eq. 7)."""

    vector: Float[Tensor, " *batch key_dim"]
    """a."""
    negative_slope: float = 0.2
    """Slope of LeakyReLU below zero."""

    def __post_init__(self) -> None:
        _require_axes("GATv2", "vector", self.vector, ("key_dim",))
        object.__setattr__(self, "negative_slope", _finite("GATv2", "negative_slope", self.negative_slope))

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        return (self.vector * F.leaky_relu(query + key, self.negative_slope)).sum(-1)


@dataclass(frozen=True, eq=False)
class GAT:
    """s = LeakyReLU(a·q + b·k) (Veličković et al. 2018, eq. 3, with its one vector split in two)."""

    query_vector: Float[Tensor, " *query_batch query_dim"]
    """a, `(*batch, query_dim)`."""
    key_vector: Float[Tensor, " *key_batch key_dim"]
    """b, `(*batch, key_dim)`."""
    negative_slope: float = 0.2
    """Slope of LeakyReLU below zero."""

    def __post_init__(self) -> None:
        _require_axes("GAT", "query_vector", self.query_vector, ("query_dim",))
        _require_axes("GAT", "key_vector", self.key_vector, ("key_dim",))
        object.__setattr__(self, "negative_slope", _finite("GAT", "negative_slope", self.negative_slope))

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        return F.leaky_relu((self.query_vector * query).sum(-1) + (self.key_vector * key).sum(-1), self.negative_slope)


@dataclass(frozen=True, eq=False)
class Distance:
    """Nearer keys score higher; under softmax the weights are a normalized kernel of the distance.

        gaussian   s = −‖q − k‖² / (2 length²)       weights ∝ exp(−‖q − k‖² / (2 length²))
        laplacian  s = −‖q − k‖ / length             weights ∝ exp(−‖q − k‖ / length)

    The score is the logarithm of the kernel, because `Softmax` exponentiates (Nadaraya–Watson regression).
    """

    kind: Literal["gaussian", "laplacian"] = "gaussian"
    """Which kernel."""
    length: float | Float[Tensor, " *batch"] = 1.0
    """The distance over which the weight falls by e, or by √e for the Gaussian; positive."""

    def __post_init__(self) -> None:
        if self.kind not in ("gaussian", "laplacian"):
            raise SettingError(f"Distance: kind must be 'gaussian' or 'laplacian', not {self.kind!r}.")
        if not isinstance(self.length, Tensor):
            object.__setattr__(self, "length", number("Distance", "length", self.length))
        if (wrong := not_positive(self.length)) is not None:
            raise SettingError(f"Distance: length must be positive, not {wrong}.")

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        squares = (query - key).square().sum(-1)
        if self.kind == "gaussian":
            return -squares / (2 * self.length**2)
        return -safe_sqrt(squares) / self.length


@dataclass(frozen=True, eq=False)
class Constant:
    """s = c, blind to the content: a convolution. One number for all pairs, one an edge, or one a (query, key) cell.

    With `Identity()` the output is Σ c_ij v_j. A tensor follows the order and shape of `bias`.
    """

    edge_weight: float | Float[Tensor, " ..."] = 1.0
    """c, of the shape that `bias` would have."""

    def __post_init__(self) -> None:
        if not isinstance(self.edge_weight, Tensor):
            object.__setattr__(self, "edge_weight", number("Constant", "edge_weight", self.edge_weight))

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        blind = broadcast_shape(query.shape[:-1], key.shape[:-1])
        weight = self.edge_weight if isinstance(self.edge_weight, Tensor) else query.new_tensor(self.edge_weight)
        return weight.to(query).expand(broadcast_shape(blind, weight.shape))


def _unit(vector: Tensor) -> Tensor:
    """x / ‖x‖, and 0 with zero gradient for the zero vector.

    In float32 or better: in half precision, a square is 0 below 2e-4 and infinite above 256, and the derivative of the
    length overflows below 0.03. Divided by its largest feature first: in float32, a square is 0 below 1e-23 and
    infinite above 1e19. The unit vector does not depend on this factor, so that it needs no gradient. With the features
    of a node together in memory: else torch sums several nodes at once, and the last ones in another order, so that
    equal vectors get lengths that differ in the last digit.
    """
    x = vector.to(torch.promote_types(vector.dtype, torch.float32))
    if x.dim() > 0 and x.stride(-1) != 1:
        x = x.contiguous()
    if x.numel() == 0:
        return vector
    largest = torch.linalg.vector_norm(x.detach(), math.inf, -1, keepdim=True)
    zero = largest == 0
    x = x / torch.where(zero, 1.0, largest)
    squares = x.square().sum(-1, keepdim=True)
    return torch.where(zero, 0.0, x * torch.where(zero, 1.0, squares).rsqrt()).to(vector.dtype)


def parted(scale: float) -> tuple[float, float]:
    """A scale as a power of two, at most 1, and the rest: what to multiply with before the product and after it.

    A product that is scaled afterwards may be beyond the largest number though the score is not; a power of two rounds
    nothing.
    """
    if not 0 < abs(scale) < 1:
        return 1.0, scale
    _, exponent = math.frexp(scale)
    before = math.ldexp(1.0, exponent - 1)
    return before, scale / before


def _require_axes(owner: str, name: str, value: Tensor, axes: tuple[str, ...]) -> None:
    """Raise where a field of a score has fewer axes than its last ones."""
    if isinstance(value, Tensor) and value.dim() >= len(axes):
        return
    actual = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
    raise ShapeError(f"{owner}: {name} must be a tensor (*batch, {', '.join(axes)}), not {actual}.")


def _finite(owner: str, name: str, value: Any) -> float:
    checked = number(owner, name, value)
    if not abs(checked) <= sys.float_info.max:  # `math.isfinite` takes no symbol of torch's compiler
        raise SettingError(f"{owner}: {name} must be a finite number, not {checked}.")
    return checked


def _name(score: Score) -> str:
    return getattr(score, "__name__", type(score).__name__)


def safe_sqrt(squares: Tensor) -> Tensor:
    """√x with gradient 0, not infinite, at 0."""
    zero = squares == 0
    return torch.where(zero, 0.0, torch.where(zero, 1.0, squares).sqrt())
