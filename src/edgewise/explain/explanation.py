"""`Explanation`: what a model predicts for one input, where it attended, and what really changes its prediction.

The last record of the straight line file → Example → Batch → model → Prediction → Explanation. Who explains makes one;
pictures and pages are drawn from it alone, and know no model. Plain numbers throughout, so that it is JSON as is.
"""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

Kind = Literal["text", "molecule", "graph"]
"""What the input is: texts, molecules, or a node in its graph."""


@dataclass(frozen=True, eq=False)
class Unit:
    """What an explanation speaks of: a token, an atom, a node."""

    name: str
    """What it is called: the token, the atom's symbol, the node's name."""
    source: str = ""
    """The column whose text it comes from; empty where it comes from no text, as the nodes of a graph do."""
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
    """The prediction less the prediction without the link; NaN where that was not computed."""


@dataclass(frozen=True, eq=False)
class Layer:
    """The weights of one attention layer, from the computation that made the prediction."""

    name: str
    """`layer 1`, `layer 2`, …, or `readout`; of a translation `encoder 1`, `decoder 1`, `cross 1`, …."""
    senders: Int[np.ndarray, " edge"]
    """The unit that is attended to."""
    receivers: Int[np.ndarray, " edge"]
    """The unit that attends; in a readout always 0, the whole."""
    values: Float[np.ndarray, " head edge"]
    """The weight in each head."""
    is_readout: bool = False
    """Whether the whole attends to its units, rather than units to each other."""
    top: int | None = None
    """How many of the strongest are listed of each receiver (and head); None where all are."""


@dataclass(frozen=True, eq=False)
class Attribution:
    """How much each unit has to do with the prediction, by one method."""

    name: str
    """`attention`, `rollout`, `occlusion`, `shared occlusion`, `integrated gradients`, `gradient × input`."""
    values: Float[np.ndarray, " unit"]
    """One number a unit; positive where the unit raises what is explained, NaN where nothing was computed of it."""
    is_signed: bool = True
    """Whether values may be negative; shares of attention are not."""
    about: str = ""
    """In a sentence, what the numbers are."""


@dataclass(frozen=True, eq=False)
class Part:
    """Units that are taken away together: a fragment of a molecule, a sentence of a text."""

    name: str
    """What it is called: a ring, a functional group, its SMILES."""
    kind: str
    """Which way of cutting it comes from: `BRICS`, `ring`, `functional group`, `component`, `sentence`, `column`,
    `type of node`, `type of edge`."""
    units: tuple[int, ...]
    """The units; of edges, the ends that are shown."""
    effect: float
    """The prediction less the prediction without them."""


@dataclass(frozen=True, eq=False)
class Curve:
    """How the prediction answers to one number of the row, all else as it is."""

    name: str
    """The column, such as a temperature."""
    at: Float[np.ndarray, " step"]
    """Values of the number."""
    predictions: Float[np.ndarray, " step"]
    """What is predicted at each."""
    here: float
    """Its value in the row."""


@dataclass(frozen=True, eq=False)
class Removal:
    """What remains of the prediction while units are taken away, or put back, the most important first."""

    method: str
    """The attribution that says which are important."""
    shares: Float[np.ndarray, " step"]
    """The share of the units that has been taken away (deletion) or put back (insertion), from 0 to 1."""
    deletion: Float[np.ndarray, " step"]
    """The prediction at each step of taking away."""
    insertion: Float[np.ndarray, " step"]
    """The prediction at each step of putting back."""
    area: float
    """How much farther the prediction moves, on average, when the most important units are taken away first than when
    the least important are: in probability, or in standard deviations of the training targets. 0 is chance, large is
    faithful."""


@dataclass(frozen=True, eq=False)
class Faithfulness:
    """Whether the attributions can be believed."""

    removals: tuple[Removal, ...]
    """Deletion and insertion by each method, and by chance (`random`)."""
    agreement: dict[str, float]
    """Spearman's rank correlation of each method's sizes with those of occlusion; NaN where it is not defined."""


@dataclass(frozen=True, eq=False)
class TargetPrediction:
    """What is predicted of one target."""

    name: str
    """The target."""
    value: float
    """The predicted value; the number of the class for classes, how likely a text is for one that is written."""
    label: str = ""
    """The predicted class, or the text that is written, `(an empty text)` where it has no words; empty for numbers."""
    std: float = math.nan
    """The standard deviation of the target around its prediction, as in `Prediction`."""
    ensemble_std: float = math.nan
    """The standard deviation over the members of an ensemble; NaN for one model."""
    low: float = math.nan
    """The lower end of the interval; NaN for classes."""
    high: float = math.nan
    """The upper end."""
    probabilities: dict[str, float] = field(default_factory=dict)
    """Of each class; empty for numbers."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """One input, explained."""

    kind: Kind
    """What it is."""
    title: str
    """What it is called: the first words, the SMILES, the node."""
    sources: dict[str, str]
    """The text of each column as it came, SMILES for molecules; empty for graphs."""
    predictions: tuple[TargetPrediction, ...]
    """What is predicted of each target."""
    explained: str
    """Which number the attributions speak of: a target, or `target = class` for the probability of a class."""
    units: tuple[Unit, ...]
    """Tokens, atoms, nodes."""
    links: tuple[Link, ...] = ()
    """Bonds, or the edges of a graph; none for texts."""
    layers: tuple[Layer, ...] = ()
    """The attention of each layer, first layer first."""
    attributions: tuple[Attribution, ...] = ()
    """How much each unit matters, by several methods; the first is what is shown first."""
    parts: tuple[Part, ...] = ()
    """What happens without whole groups of units."""
    curves: tuple[Curve, ...] = ()
    """How the prediction answers to the numbers of the row."""
    faithfulness: Faithfulness | None = None
    """Whether the attributions can be believed."""
    center: int | None = None
    """The node that is explained, in a graph; of two, the first."""
    other_end: int | None = None
    """The second, where two nodes are explained together: the other end of a link."""
    notes: tuple[str, ...] = ()
    """What else a reader should know, a sentence each: what was cut, what was left out."""

    def to_json(self) -> dict[str, Any]:
        """The explanation as dictionaries, lists, words and numbers to seven digits; null where there is no number."""
        return _plain(self)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind == "f":  # millions of them, in one go
        return [float(f"{each:.7g}") if math.isfinite(each) else None for each in value.tolist()]
    if isinstance(value, np.ndarray) and value.ndim > 0:
        return value.tolist() if value.dtype.kind in "iu" else [_plain(each) for each in value]
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    if isinstance(value, np.integer):
        return int(value)
    return value
