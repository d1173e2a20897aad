"""From scores to weights, row by row: α_i· = normalize_{j∈N(i)}(s_ij).

A normalizer is any callable `(scores, rows) -> weights`. `Rows` knows which scores belong to one query, in a table or a
list of edges; a normalizer is written once over its few verbs and works on every neighborhood. A row without a neighbor
has nothing to sum, so its output is zero. The arithmetic is float32 or better.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from edgewise.choices import NormalizerName
from edgewise.errors import SettingError, ShapeError
from edgewise.neighborhood.checks import not_positive, number


class Rows(ABC):
    """Which scores belong to the same query, and sums over them, given back at every pair."""

    @abstractmethod
    def keep(self, x: Tensor) -> Tensor:
        """x at the pairs of the neighborhood, zero elsewhere, whatever stood there."""

    @abstractmethod
    def total(self, x: Tensor) -> Tensor:
        """The sum of x over its row."""

    @abstractmethod
    def largest(self, x: Tensor) -> Tensor:
        """The largest x of its row, without gradient; 0 where all are −∞."""

    @abstractmethod
    def softmax(self, x: Tensor) -> Tensor:
        """exp(x − largest) over the total of its row, `softmax_of` or something faster."""

    @abstractmethod
    def descending(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """In each row's descending order: the rank of x (from 1), and Σx and Σx² down to and with it, in float64."""

    @abstractmethod
    def spread(self, x: Tensor) -> Tensor:
        """A tensor of shape `(*batch)` in the shape of the scores."""


MIN_TEMPERATURE = 1e-19
"""The smallest temperature, but 0, at which scores are divided before the largest of their row is subtracted: what is
divided by a smaller one may overflow. One that is a tensor counts as no smaller than this; its weights are the same."""
NOTHING = -1000.0
"""A logarithm of a weight that is 0 in every precision."""
Normalize = Callable[[Tensor, Rows], Tensor]


@dataclass(frozen=True, eq=False)
class Softmax:
    """α_ij = exp((s_ij − m_i)/T) / Σ_k exp((s_ik − m_i)/T), m_i the largest score of the row.

    T → 0 puts all weight on the largest (`Hardmax`), T → ∞ makes the weights equal (`Mean`); both ends are exact, as
    numbers. A tensor must be positive: at 0 the score and T have no gradient. It is checked on a CPU only; a device
    would have to be waited for.
    """

    temperature: float | Float[Tensor, " *batch"] = 1.0
    """T, not negative; a tensor may be learned and must be positive."""

    def __post_init__(self) -> None:
        temperature = self.temperature
        if isinstance(temperature, Tensor):
            if (wrong := not_positive(temperature)) is not None:
                remedy = "; the number 0 is Hardmax: Softmax(0)" if wrong == 0 else ""
                raise SettingError(f"Softmax: temperature must be positive where it is a tensor, not {wrong}{remedy}.")
            return
        if type(temperature) is not float:
            temperature = number("Softmax", "temperature", temperature)
            object.__setattr__(self, "temperature", temperature)
        if not temperature >= 0:  # NaN is neither
            raise SettingError(f"Softmax: temperature must not be negative, not {temperature}.")

    def __call__(self, scores: Tensor, rows: Rows) -> Tensor:
        if is_hard(self, scores.dtype):
            return Hardmax()(scores, rows)
        if not isinstance(self.temperature, Tensor):
            if self.temperature == math.inf:
                return Mean()(scores, rows)
            if self.temperature == 1:
                return rows.softmax(scores)
        gap = rows.keep(scores - rows.largest(scores))
        if isinstance(self.temperature, Tensor):
            temperature = rows.spread(self.temperature.clamp(min=MIN_TEMPERATURE))
            shut = gap < NOTHING * temperature.detach()  # zero weight would give T the gradient 0 · ∞
            grown = torch.exp(torch.where(shut, 0.0, gap) / temperature)
            return _shares(torch.where(shut, 0.0, grown), rows)
        finite = min(self.temperature, torch.finfo(gap.dtype).max)  # −∞ / ∞ is NaN
        return _shares(torch.exp(gap / finite), rows)


@dataclass(frozen=True, eq=False)
class Hardmax:
    """All weight on the largest score; ties share it, so that permuting the nodes permutes the outputs."""

    straight_through: bool = False
    """Give the gradient that Softmax would have; without it the scores get none."""

    def __call__(self, scores: Tensor, rows: Rows) -> Tensor:
        largest = rows.largest(scores)
        hard = _shares(torch.where(largest.isnan(), largest, (scores == largest).to(scores.dtype)), rows)
        if not self.straight_through:
            return hard
        soft = Softmax()(scores, rows)
        return hard + (soft - soft.detach())


@dataclass(frozen=True, eq=False)
class Sparsemax:
    """α = max(s − τ, 0), the point of the simplex nearest to s (Martins & Astudillo 2016); many exact zeros."""

    def __call__(self, scores: Tensor, rows: Rows) -> Tensor:
        x = _within_reach(scores, rows)
        with torch.no_grad():
            rank, sums, _ = rows.descending(x)
            support = rows.keep(((1 + rank * x.double() > sums) & (scores > -math.inf)).to(x.dtype))
        count = rows.total(support).clamp(min=1)
        # In double precision, as the sums of the ranks: thousands of scores may lie as near to the threshold as to 1.
        threshold = ((rows.total((support * x).double()) - 1) / count).to(x.dtype)
        return rows.keep(torch.relu(x - threshold) * support)


@dataclass(frozen=True, eq=False)
class Entmax15:
    """α = max(s/2 − τ, 0)² with Σα = 1 (Peters, Niculae & Martins 2019, α = 1.5): between softmax and sparsemax."""

    def __call__(self, scores: Tensor, rows: Rows) -> Tensor:
        x = _within_reach(scores / 2, rows)
        with torch.no_grad():
            rank, sums, squares = rows.descending(x)
            mean = sums / rank
            spread = ((1 - (squares - rank * mean.square())) / rank).clamp(min=0)
            support = rows.keep(((mean - spread.sqrt() <= x.double()) & (scores > -math.inf)).to(x.dtype))
        count = rows.total(support).clamp(min=1)
        mean = (rows.total((support * x).double()) / count).to(x.dtype)
        scatter = rows.total((support * (x - mean).square()).double())
        spread = ((1 - scatter) / count).to(x.dtype).clamp(min=torch.finfo(x.dtype).tiny)
        return rows.keep(torch.relu(x - mean + spread.sqrt()).square() * support)


@dataclass(frozen=True, eq=False)
class Sigmoid:
    """α_ij = 1 / (1 + exp(−s_ij)): each pair for itself, rows need not sum to one."""

    def __call__(self, scores: Tensor, rows: Rows) -> Tensor:
        return rows.keep(torch.sigmoid(scores))


@dataclass(frozen=True, eq=False)
class Mean:
    """α_ij = 1 / |N(i)|: blind to the scores."""

    def __call__(self, scores: Tensor, rows: Rows) -> Tensor:
        return _shares(torch.ones_like(scores), rows)


@dataclass(frozen=True, eq=False)
class Identity:
    """α_ij = s_ij: the plain weighted sum."""

    def __call__(self, scores: Tensor, rows: Rows) -> Tensor:
        return rows.keep(scores)


def is_hard(normalize: Normalize, dtype: torch.dtype) -> bool:
    """Whether all weight goes to the largest scores of this dtype, so that it matters which of them are equal."""
    if isinstance(normalize, Softmax) and not isinstance(normalize.temperature, Tensor):
        return normalize.temperature < torch.finfo(dtype).tiny  # 0, or what the scores cannot be divided by
    return isinstance(normalize, Hardmax)


def weights_of(normalize: Normalize, scores: Tensor, rows: Rows) -> Tensor:
    """The weights of some scores.

    Raises:
        ShapeError: the normalizer returned another shape, which would be broadcast, or no tensor.
    """
    weights = normalize(scores, rows)
    if isinstance(weights, Tensor) and (
        weights.shape == scores.shape or _has_larger_axes(normalize, weights.shape, scores.shape)
    ):
        return weights

    came = f"shape {tuple(weights.shape)}" if isinstance(weights, Tensor) else f"the type {type(weights).__name__}"
    raise ShapeError(
        f"normalize: the weights have {came}, but the scores {tuple(scores.shape)}; a normalizer returns a weight for "
        "each score."
    )


def _has_larger_axes(normalize: Normalize, weights: torch.Size, scores: torch.Size) -> bool:
    """Whether the one shape is the other, but larger where it was 1, as the temperature varies over that batch axis."""
    if not isinstance(getattr(normalize, "temperature", None), Tensor) or len(weights) != len(scores):
        return False
    return all(size in (1, other) for size, other in zip(scores, weights, strict=True))


def softmax_of(scores: Tensor, rows: Rows) -> Tensor:
    """The formula of `Softmax` at temperature 1, for any rows."""
    return _shares(torch.exp(rows.keep(scores - rows.largest(scores))), rows)


def _shares(x: Tensor, rows: Rows) -> Tensor:
    """x / Σx over each row, and 0 where the sum is 0 (an empty row, or one whose scores are all −∞)."""
    total = rows.total(x)
    return rows.keep(x / torch.where(total == 0, 1.0, total))


def _within_reach(scores: Tensor, rows: Rows) -> Tensor:
    """Scores less the largest of their row. What lies 1 below it has weight 0; what lies 2 below is cut, to keep sums
    exact (a cut at 1 would lie on the threshold itself, where rounding decides who gets a gradient)."""
    return rows.keep(scores - rows.largest(scores)).clamp(min=-2)


def normalizer_of(name: NormalizerName, temperature: float = 1.0) -> Normalize:
    """The normalizer that a name of `choices.NORMALIZERS` stands for; the temperature is softmax's."""
    if name == "softmax":
        return Softmax(temperature)
    choices: dict[str, Normalize] = {
        "hardmax": Hardmax(straight_through=True),
        "sparsemax": Sparsemax(),
        "entmax15": Entmax15(),
        "sigmoid": Sigmoid(),
        "mean": Mean(),
        "identity": Identity(),
    }
    return choices[name]
