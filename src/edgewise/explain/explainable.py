"""`Explainable`: what the methods of explanation need of one input of a model."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor

from edgewise.explain.explanation import Curve, Layer, Part
from edgewise.explain.occlusion import occlude
from edgewise.trace import Weights


@dataclass(frozen=True, eq=False)
class Attended:
    """Where one member of an ensemble attends, over the positions that it reads."""

    direct: Tensor | None = None
    """`(position)`: the weights that the prediction itself reads with; None where there are none."""
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
    """What is shown: the weights of the first member."""
    members: Sequence[Attended] = ()
    """Where each member attends; empty where none does."""
    about: str = ""
    """What the direct weights are, in a sentence."""
    about_rollout: str = ""
    """What their product through all layers is, in a sentence."""
    is_signed: bool = False
    """Whether direct weights may be negative."""


@dataclass(frozen=True, eq=False)
class Differentiable:
    """The explained number of one member of an ensemble as a function of the features of its input."""

    function: Callable[[Tensor], Tensor]
    """From the features of some copies of the input, `(copy, row, feature)`, to the number of each, `(copy)`."""
    features: Tensor
    """Those of the input, `(row, feature)`."""
    baseline: Tensor | None = None
    """Those of an input without information; zeros where None."""
    by_unit: Callable[[np.ndarray], np.ndarray] | None = None
    """From one number a row to one number a unit; None where the rows are the units."""
    words: tuple[str, str] = ("features", "zeros")
    """What the features and the baseline are called."""
    batch_size: int = 1
    """How many copies the function takes at once."""


@dataclass(frozen=True, eq=False)
class Links:
    """The links between units, which can be removed too."""

    ends: Sequence[tuple[int, int]]
    """Two units each."""
    edges: Sequence[np.ndarray]
    """The edges of each link, for as many of the first links as are removed."""
    predict: Callable[[Sequence[np.ndarray]], np.ndarray]
    """The explained number without each of some lists of edges."""


class Explainable(ABC):
    """One input of a model, and the number of its prediction that is explained.

    A task defines which units can be removed and computes the number without them. All methods are built on that.
    """

    methods: tuple[str, ...] = ("occlusion", "integrated gradients", "gradient × input", "attention", "rollout")
    """The methods that are applied by default."""
    absent: float = np.nan
    """The attribution of a unit that is never removed."""

    @property
    @abstractmethod
    def num_units(self) -> int:
        """Units with an attribution: the first ones of the explanation; any others have NaN."""

    @property
    @abstractmethod
    def about(self) -> str:
        """What the effect of removing a unit is, in a sentence."""

    @property
    def budget(self) -> int | None:
        """Predictions for all curves of faithfulness, about; None where there is no limit."""
        return None

    @property
    def scale(self) -> float:
        """What a change of the explained number is measured in: 1 for a probability, the spread of a target."""
        return 1.0

    @property
    def points(self) -> int:
        """Points of an integral of gradients."""
        return 32

    @property
    def groups(self) -> Sequence[np.ndarray]:
        """Units that are removed together; each alone by default."""
        return [np.array([unit]) for unit in range(self.num_units)]

    @abstractmethod
    def predict(self, removed: Sequence[np.ndarray]) -> np.ndarray:
        """The explained number without each of some lists of units, `(list)`."""

    @abstractmethod
    def trace(self) -> Attention:
        """Where the model attends."""

    @abstractmethod
    def differentiable(self) -> Sequence[Differentiable]:
        """The explained number as a function of the features, for each member of an ensemble."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """The fields of the `Explanation` that no method computes: kind, title, predictions, units, notes, …"""

    def links(self) -> Links | None:
        """The links between units; None where there are none."""
        return None

    def parts(self) -> Sequence[Part]:
        """Larger parts of the input; those with a NaN effect are removed to find it."""
        return ()

    def curves(self) -> Sequence[Curve]:
        """The prediction over each number of the row."""
        return ()

    @cached_property
    def attention(self) -> Attention:
        """`trace()`, computed once."""
        return self.trace()

    @cached_property
    def linked(self) -> Links | None:
        """`links()`, computed once."""
        return self.links()

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
        groups = self.groups
        return np.sort(np.concatenate(groups)) if len(groups) else np.zeros(0, dtype=np.int64)

    def spread(self, effects: np.ndarray) -> np.ndarray:
        """One number a unit out of one number a group, which its units share evenly."""
        values = np.full(self.num_units, self.absent)
        for group, effect in zip(self.groups, effects, strict=True):
            values[group] = effect / len(group)
        return values
