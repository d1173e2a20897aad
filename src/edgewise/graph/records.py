"""What networks over texts, bodies and series take, a molecule as it was written, and a prediction.

Graphs have `Batch` and `Supervision` in `edgewise.graph`. Every field documents its shape and unit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from edgewise.graph.record import Record
from edgewise.neighborhood import Edges


@dataclass(frozen=True, eq=False)
class Span:
    """The origin of one node: the text `source[start:stop]`."""

    source: str
    """The column or file of the text, such as `smiles`."""
    start: int
    """First character."""
    stop: int
    """One past the last character."""


@dataclass(frozen=True, eq=False)
class Example:
    """One graph, such as a molecule, and the span of text that each of its nodes came from."""

    name: str
    """The name of the graph in its source: a SMILES string, a title."""
    node_features: Float[Tensor, " node node_feature"]
    """One row per node."""
    edges: Edges
    """Sender → receiver; a chemical bond is two edges."""
    edge_features: Float[Tensor, " edge edge_feature"]
    """One row per edge, in the order of `edges`."""
    global_features: Float[Tensor, " graph_feature"]
    """Features of the whole graph; of size 0 without any."""
    spans: tuple[Span, ...]
    """One span per node."""


@dataclass(frozen=True, eq=False)
class BodyBatch(Record):
    """Bodies at several times, time after time, and their targets."""

    positions: Float[Tensor, " row space"]
    """The position of each body."""
    velocities: Float[Tensor, " row space"]
    """The velocity of each body."""
    charges: Float[Tensor, " row charge"]
    """Properties of each body: its mass, its charge."""
    edges: Edges
    """Edges from every body to every other one at the same time."""
    couplings: Float[Tensor, " edge coupling"]
    """Properties of each pair."""
    targets: Float[Tensor, " row space"] | None = None
    """Its future position, or its acceleration."""
    sizes: Float[Tensor, " row"] | None = None
    """The scale of its error; None if all have the same scale."""

    @property
    def weights(self) -> Float[Tensor, " row"] | None:
        """The factor of each error."""
        return None if self.sizes is None else 1 / self.sizes


@dataclass(frozen=True, eq=False)
class SeriesBatch(Record):
    """Windows of time series on one graph: past and future values of its nodes."""

    values: Float[Tensor, " row time node"]
    """Past values, in model units."""
    phases: Float[Tensor, " row step"]
    """The phase of each step in its period, from 0 to 1, including predicted steps."""
    edges: Edges
    """Sender → receiver."""
    targets: Float[Tensor, " row target"] | None = None
    """Targets, step after step; NaN if unknown."""
    weights: None = None
    """All windows have the same weight."""


@dataclass(frozen=True, eq=False)
class TextBatch(Record):
    """Tokens of several texts: as rows if they have the same length, else packed one after the other."""

    tokens: Int64[Tensor, " *batch token"]
    """Token ids."""
    targets: Int64[Tensor, " *batch token"] | None = None
    """The token to predict at each position; −1 for none."""
    offsets: Int64[Tensor, " boundary"] | None = None
    """Packed texts: tokens of text g are `offsets[g]:offsets[g + 1]`; None if each row is one text."""
    segments: Int64[Tensor, " *batch token"] | None = None
    """The index of the text in the input that each token belongs to; None for a single text."""
    weights: None = None
    """All tokens have the same weight."""

    @classmethod
    def packed(cls, texts: Sequence[np.ndarray]) -> "TextBatch":
        """Packs texts one after the other."""
        offsets = torch.from_numpy(np.cumsum([0, *map(len, texts)]))
        return cls(torch.from_numpy(np.concatenate(texts)), offsets=offsets)

    @property
    def places(self) -> Int64[Tensor, " token"]:
        """The position of each token of packed texts in its text."""
        assert self.offsets is not None
        begins = self.offsets[:-1].repeat_interleave(self.offsets.diff(), output_size=self.tokens.shape[-1])
        return torch.arange(self.tokens.shape[-1], device=begins.device) - begins


@dataclass(frozen=True, eq=False)
class MaskedBatch(Record):
    """Texts with masked tokens, and the tokens to predict."""

    tokens: Int64[Tensor, " token"]
    """Token ids, packed one text after the other; mostly the mask token at masked positions."""
    offsets: Int64[Tensor, " boundary"]
    """Tokens of text g are `offsets[g]:offsets[g + 1]`."""
    places: Int64[Tensor, " place"]
    """The masked positions, in increasing order."""
    targets: Int64[Tensor, " place"]
    """The token to predict at each of these positions."""
    weights: None = None
    """All tokens have the same weight."""

    @property
    def texts(self) -> TextBatch:
        """The tokens alone."""
        return TextBatch(self.tokens, offsets=self.offsets)


@dataclass(frozen=True, eq=False)
class TextRows(Record):
    """Rows of a table of texts: their tokens, packed one after the other, and the targets of each row."""

    tokens: Int64[Tensor, " token"]
    """Token ids."""
    offsets: Int64[Tensor, " boundary"]
    """Tokens of row r are `offsets[r]:offsets[r + 1]`."""
    segments: Int64[Tensor, " token"] | None = None
    """The text column of each token; None for a single column."""
    targets: Float[Tensor, " row target"] | None = None
    """Targets in model units; NaN for empty cells."""
    weights: Float[Tensor, " row"] | None = None
    """The weight of each row in the loss."""

    @classmethod
    def packed(cls, texts: Sequence[np.ndarray], segments: Sequence[np.ndarray]) -> "TextRows":
        """Packs rows one after the other."""
        offsets = torch.from_numpy(np.cumsum([0, *map(len, texts)]))
        return cls(torch.from_numpy(np.concatenate(texts)), offsets, torch.from_numpy(np.concatenate(segments)))

    @property
    def texts(self) -> TextBatch:
        """The tokens alone."""
        return TextBatch(self.tokens, offsets=self.offsets, segments=self.segments)


@dataclass(frozen=True, eq=False)
class PairBatch(Record):
    """Texts and their translations, padded to the longest of the batch."""

    source: Int64[Tensor, " graph key"]
    """Tokens of the source texts."""
    source_lengths: Int64[Tensor, " graph"]
    """The length of each source text without padding."""
    tokens: Int64[Tensor, " graph token"]
    """Tokens of the target texts, each before the token to predict; the first is the start token."""
    targets: Int64[Tensor, " graph token"] | None = None
    """The token to predict at each position, the last the end token; −1 in the padding."""
    weights: None = None
    """All tokens have the same weight."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """The prediction of one target for every row of a table; NaN if a row cannot be predicted."""

    value: np.ndarray
    """(row), in the unit of the target; for classes the index of the most probable one."""
    std: np.ndarray
    """(row): the standard deviation of the target around its prediction, for one model and an ensemble alike: by the
    errors on validation rows, which intervals are made of, NaN without such rows; for classes √(p(1 − p)), that of the
    outcome "it is this class"."""
    low: np.ndarray
    """(row): lower end of the interval; NaN for classes, and with too few validation rows."""
    high: np.ndarray
    """(row): upper end of the interval."""
    probabilities: np.ndarray | None
    """(row, class); None for regression."""
    sigma: np.ndarray | None = None
    """(row): the expected size of the error, of which the width of the interval is a multiple; None for classes."""
    ensemble_std: np.ndarray | None = None
    """(row): the standard deviation over the members of an ensemble, for classes of the probability of `value`; it is
    usually far smaller than `std`. None for a single model."""
    parts: Mapping[str, np.ndarray] = field(default_factory=dict)
    """What the network alone predicts, and each companion, by name: `(row)`, or `(row, class)` probabilities; empty
    where nothing stands beside the network."""
