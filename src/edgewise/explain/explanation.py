"""`Explanation`: what a model predicts for one input, where it attended, and what really changes its prediction.

The last record of the line file → Graph → Batch → model → Prediction → Explanation. Pictures and pages are drawn from
it alone, without the model. All fields are plain numbers, so that it can be written as JSON.
"""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from edgewise.explain.numbers import MAX_DIGITS, NUM_DIGITS, formatted, num_digits

Kind = Literal["text", "molecule", "graph"]
"""What the input is: texts, molecules, or a node in its graph."""


@dataclass(frozen=True, eq=False)
class Unit:
    """A unit of an explanation: a token, an atom, a node."""

    name: str
    """The token, the atom's symbol, or the node's name."""
    source: str = ""
    """The column whose text it comes from; empty for units that are not text, such as nodes."""
    start: int = 0
    """Its first character in that text."""
    stop: int = 0
    """One past the last."""


@dataclass(frozen=True, eq=False)
class Link:
    """Two units that are connected: a bond, an edge."""

    first: int
    """A unit; the sender, where directions matter."""
    second: int
    """The other one."""
    effect: float = math.nan
    """The prediction less the prediction without the link; NaN if it was not computed."""


@dataclass(frozen=True, eq=False)
class Layer:
    """The weights of one attention layer, from the computation that made the prediction."""

    name: str
    """`layer 1`, `layer 2`, …, or `readout`; for a translation `encoder 1`, `decoder 1`, `cross 1`, …."""
    senders: Int[np.ndarray, " edge"]
    """The unit that is attended to."""
    receivers: Int[np.ndarray, " edge"]
    """The unit that attends; in a readout always 0, for the whole input."""
    values: Float[np.ndarray, " head edge"]
    """The weight in each head."""
    is_readout: bool = False
    """Whether the input as a whole attends to its units, rather than units to each other."""
    top: int | None = None
    """How many of the strongest weights are listed for each receiver (and head); None for all."""


@dataclass(frozen=True, eq=False)
class Attribution:
    """The importance of each unit for the prediction, by one method."""

    name: str
    """`removal`, `attention`, `rollout`, `occlusion`, `shared occlusion`, `integrated gradients`, …: see `METHODS`."""
    values: Float[np.ndarray, " unit"]
    """One number per unit; positive if the unit raises the explained output, NaN if it was not computed."""
    is_signed: bool = True
    """Whether values may be negative; shares of attention are not."""
    about: str = ""
    """A sentence that says what the numbers are."""
    baseline: float = math.nan
    """The explained output less the sum of the values, where that has a meaning; NaN for other methods."""


@dataclass(frozen=True, eq=False)
class Part:
    """Units that are removed together: a fragment of a molecule, a sentence of a text."""

    name: str
    """Its name: a ring, a functional group, or its SMILES."""
    kind: str
    """The decomposition it comes from: `BRICS`, `ring`, `functional group`, `component`, `sentence`, `column`,
    `type of node`, `type of edge`."""
    units: tuple[int, ...]
    """The units; for edges, the ends that are shown."""
    effect: float
    """The prediction less the prediction without them."""


@dataclass(frozen=True, eq=False)
class Curve:
    """The prediction as one numeric input varies, everything else unchanged."""

    name: str
    """The column, such as a temperature."""
    at: Float[np.ndarray, " step"]
    """Values of the number."""
    predictions: Float[np.ndarray, " step"]
    """The prediction at each value."""
    here: float
    """Its value in the row."""


@dataclass(frozen=True, eq=False)
class Removal:
    """The prediction while units are removed, or inserted, the most important first."""

    method: str
    """The attribution that orders the units."""
    shares: Float[np.ndarray, " step"]
    """The share of units that have been removed (deletion) or inserted (insertion), from 0 to 1."""
    deletion: Float[np.ndarray, " step"]
    """The prediction at each step of removal."""
    insertion: Float[np.ndarray, " step"]
    """The prediction at each step of insertion."""
    area: float
    """How much farther the prediction moves, on average, when the most important units are removed first than when
    the least important are: in probability, or in standard deviations of the training targets. 0 is chance, large is
    faithful."""


@dataclass(frozen=True, eq=False)
class Faithfulness:
    """How faithful the attributions are to the model."""

    removals: tuple[Removal, ...]
    """Deletion and insertion by each method, and by chance (`random`)."""
    agreement: dict[str, float]
    """Spearman's rank correlation of each method's sizes with those of occlusion; NaN where it is not defined."""


@dataclass(frozen=True, eq=False)
class TargetPrediction:
    """The prediction of one target."""

    name: str
    """The target."""
    value: float
    """The predicted value; for classes the index of the class, for generated text its likelihood."""
    label: str = ""
    """The predicted class, or the generated text (`(an empty text)` if it has no words); empty for numbers."""
    std: float = math.nan
    """The standard deviation of the target around its prediction, as in `Prediction`."""
    ensemble_std: float = math.nan
    """The standard deviation over the members of an ensemble; NaN for one model."""
    low: float = math.nan
    """The lower end of the interval; NaN for classes."""
    high: float = math.nan
    """The upper end of the interval; NaN for classes."""
    probabilities: dict[str, float] = field(default_factory=dict)
    """The probability of each class; empty for numbers."""

    def in_words(self, value: float) -> str:
        """A value of this target, such as an end of the interval, with the digits that its deviation leaves."""
        return formatted(value, num_digits(self.value, self.std, least=4, finest=0.05))


@dataclass(frozen=True, eq=False)
class Explanation:
    """The explanation of one input."""

    kind: Kind
    """The type of the input."""
    title: str
    """Its name: the first words, the SMILES, the node."""
    sources: dict[str, str]
    """The text of each column as given, SMILES for molecules; empty for graphs."""
    predictions: tuple[TargetPrediction, ...]
    """The prediction of each target."""
    explained: str
    """The output that is explained: a target, or `target = class` for the probability of a class."""
    units: tuple[Unit, ...]
    """Tokens, atoms, nodes."""
    links: tuple[Link, ...] = ()
    """Bonds, or the edges of a graph; none for texts."""
    layers: tuple[Layer, ...] = ()
    """The attention of each layer, first layer first."""
    attributions: tuple[Attribution, ...] = ()
    """The importance of each unit, by several methods; the first one is shown first."""
    parts: tuple[Part, ...] = ()
    """The prediction without whole groups of units."""
    curves: tuple[Curve, ...] = ()
    """The prediction as each numeric input varies."""
    faithfulness: Faithfulness | None = None
    """How faithful the attributions are; None if it was not computed."""
    center: int | None = None
    """The node that is explained, in a graph; the first of two."""
    other_end: int | None = None
    """The second node, if two are explained together: the other end of a link."""
    notes: tuple[str, ...] = ()
    """Further notes, a sentence each: what was cut, what was left out."""

    def in_words(self, value: float) -> str:
        """A value of the explained output, such as a baseline, with the digits that its prediction has."""
        numbers = [each for each in self.predictions if each.name == self.explained and not each.label]
        return numbers[0].in_words(value) if numbers else formatted(value)

    def to_json(self) -> dict[str, Any]:
        """The explanation as dictionaries, lists, strings and numbers of seven digits, or more where predictions lie
        far from 0, and the value of the row on a curve in full; None for NaN."""
        numbers = [prediction for prediction in self.predictions if not prediction.label]
        digits = max((num_digits(number.value, number.std) for number in numbers), default=NUM_DIGITS)
        return _plain(self, digits)


def _plain_curve(curve: Curve, digits: int) -> dict[str, Any]:
    """Numbers of a row may lie far from 0, too, such as years, and the curve must stand beside the row's own."""
    size, span = np.abs(curve.at).max(initial=0), np.ptp(curve.at) if len(curve.at) else 0.0
    return {
        "name": curve.name,
        "at": _plain(curve.at, num_digits(float(size), float(span))),
        "predictions": _plain(curve.predictions, digits),
        "here": _plain(curve.here, MAX_DIGITS),
    }


def _plain(value: Any, digits: int) -> Any:
    if isinstance(value, Curve):
        return _plain_curve(value, digits)
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name), digits) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(name): _plain(item, digits) for name, item in value.items()}

    if (
        isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind == "f"
    ):  # the common case, up to millions of numbers
        return [float(f"{number:.{digits}g}") if math.isfinite(number) else None for number in value.tolist()]
    if isinstance(value, np.ndarray) and value.ndim > 0:
        return value.tolist() if value.dtype.kind in "iu" else [_plain(item, digits) for item in value]
    if isinstance(value, list | tuple):
        return [_plain(item, digits) for item in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else None
    if isinstance(value, np.integer):
        return int(value)

    return value
