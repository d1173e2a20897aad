"""`Explainable`: what the methods of explanation need to know of one input of a model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor

from edgewise.explain.additive import Contributions
from edgewise.explain.explanation import Curve, Layer, Part
from edgewise.explain.occlusion import occlude
from edgewise.graph import Weights


@dataclass(frozen=True, eq=False)
class Attended:
    """The attention of one member of an ensemble over the positions that it reads."""

    direct: Tensor | None = None
    """`(position)`: the weights that the prediction itself reads with; None if it reads with no weights."""
    top: Tensor | None = None
    """`(position)`: how much of the prediction comes from each position above the last layer; None without rollout."""
    layers: Sequence[Weights] = ()
    """Weights of all layers among the positions, first layer first."""
    residual: float = 0.5
    """The share of the residual connection in a layer."""
    positions: Sequence[int] | Tensor | None = None
    """The position of each unit; None where the first positions are the units."""


@dataclass(frozen=True, eq=False)
class Attention:
    """The attention of a model on one input."""

    layers: Sequence[Layer] = ()
    """The weights that are shown: those of the first member."""
    members: Sequence[Attended] = ()
    """Where each member attends; empty for models without attention."""
    about: str = ""
    """What the direct weights are, in a sentence."""
    about_rollout: str = ""
    """What their product through all layers is, in a sentence."""
    is_signed: bool = False
    """Whether direct weights may be negative."""
    notes: Sequence[str] = ()
    """What should be known of it."""


@dataclass(frozen=True, eq=False)
class Differentiable:
    """The explained output of one member of an ensemble, as a function of the features of its input."""

    function: Callable[[Tensor], Tensor]
    """Maps the features of copies of the input, `(copy, row, feature)`, to the output of each, `(copy)`."""
    features: Tensor
    """The features of the input, `(row, feature)`."""
    baseline: Tensor | None = None
    """The features of an input without information; None for zeros."""
    by_unit: Callable[[np.ndarray], np.ndarray] | None = None
    """Maps one number per row to one per unit; None if the rows are the units."""
    words: tuple[str, str] = ("features", "zeros")
    """The names of the features and of the baseline."""
    batch_size: int = 1
    """How many copies the function takes at once."""


@dataclass(frozen=True, eq=False)
class UnitLinks:
    """The links between units, which can be removed too."""

    ends: Sequence[tuple[int, int]]
    """The two units of each link."""
    edges: Sequence[np.ndarray]
    """The edges of each link; may list only the first links, those that are removed."""
    predict: Callable[[Sequence[np.ndarray]], np.ndarray]
    """The explained output without each list of edges."""
    notes: Sequence[str] = ()
    """What should be known of them."""


MAX_POINTS = 512
"""Points that integrated gradients take where gradients jump, at most."""
DEFAULT_METHODS = ("occlusion", "integrated gradients", "gradient × input", "attention", "rollout")


@dataclass(frozen=True, eq=False, kw_only=True)
class Explainable:
    """One input of a model, and the output of its prediction that is explained.

    A task passes in which units can be removed, and what computes the output without them. All methods build on that.
    """

    num_units: int
    """Units with an attribution: the first ones of the explanation; any others have NaN."""
    about: str
    """What the effect of removing a unit is, in a sentence."""
    groups: Sequence[np.ndarray]
    """Units that are removed together; see `each_alone`."""
    predict: Callable[[Sequence[np.ndarray]], np.ndarray]
    """The explained output without each list of units, `(list)`."""
    attend: Callable[[], Attention]
    """Where the model attends."""
    differentiable: Callable[[], Sequence[Differentiable]]
    """The explained output as a function of the features, for each member of an ensemble."""
    describe: Callable[["Explainable"], dict[str, Any]]
    """The fields of the `Explanation` that no method computes: kind, title, predictions, units, notes, …"""
    methods: tuple[str, ...] = DEFAULT_METHODS
    """The methods that are applied by default."""
    absent: float = np.nan
    """The attribution of a unit that is never removed."""
    budget: int | None = None
    """About how many predictions the curves of faithfulness may take; None for no limit."""
    scale: float = 1.0
    """The unit for changes of the explained output: 1 for a probability, the standard deviation of a target."""
    points: int = 32
    """Number of points that integrated gradients begin with."""
    max_points: int = MAX_POINTS
    """How many they take at most, about, where gradients jump."""
    contributions: Callable[[], Contributions] | None = None
    """What each unit adds to the explained output; None if the task lacks this method."""
    links: Callable[[], UnitLinks] | None = None
    """The links between units; None if there are none."""
    parts: Callable[[], Sequence[Part]] = tuple
    """Larger parts of the input; a part with a NaN effect is removed to compute it."""
    curves: Callable[[], Sequence[Curve]] = tuple
    """The prediction over each number of the row."""

    @cached_property
    def attention(self) -> Attention:
        """`attend()`, computed once."""
        return self.attend()

    @cached_property
    def linked(self) -> UnitLinks | None:
        """`links()`, computed once."""
        return None if self.links is None else self.links()

    @cached_property
    def link_effects(self) -> np.ndarray:
        """The effect of each link; NaN for those that are not removed."""
        links = self.linked
        if links is None:
            return np.zeros(0)
        effects = np.full(len(links.ends), np.nan)
        count = 1 + max((int(edges.max()) for edges in links.edges if len(edges)), default=-1)
        effects[: len(links.edges)] = occlude(links.predict, count, links.edges)
        return effects

    @cached_property
    def occlusion(self) -> np.ndarray:
        """The effect of each unit."""
        return self.spread(occlude(self.predict, self.num_units, self.groups))

    @property
    def removable(self) -> np.ndarray:
        """The units that can be removed."""
        return np.sort(np.concatenate(self.groups)) if len(self.groups) else np.zeros(0, dtype=np.int64)

    def spread(self, effects: np.ndarray) -> np.ndarray:
        """The effects of groups as effects of units; the units of a group share its effect evenly."""
        values = np.full(self.num_units, self.absent)
        for group, effect in zip(self.groups, effects, strict=True):
            values[group] = effect / len(group)
        return values


def each_alone(count: int) -> list[np.ndarray]:
    """The first units, each removed alone."""
    return [np.array([unit]) for unit in range(count)]
