"""The records of the line file → Example → Batch → model → Prediction → Explanation.

Plain dataclasses that can move between devices; every field documents its shape and unit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from edgewise.neighborhood import EdgeRows, Edges, Relations, Types, looped, membership
from edgewise.neighborhood.index import sent, unchecked


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


RecordType = TypeVar("RecordType", bound="Record")


class Record:
    """A record that moves between devices."""

    def to(self: RecordType, device: torch.device | str) -> RecordType:
        """The same record with every tensor, edge list and graph in it on `device`, including cached ones."""
        moved: dict[str, Any] = {}
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                moved[name] = sent(value, device)
            elif hasattr(value, "to"):  # edges, types, graphs, records
                moved[name] = value.to(device)
        return unchecked(self, **moved)


@dataclass(frozen=True, eq=False)
class EdgeTypes(Record):
    """The distinct rows of edge features, and the row of each edge."""

    features: Float[Tensor, " type edge_feature"]
    """One row per type."""
    rows: EdgeRows
    """The type of each edge, followed by a loop on every node, whose type is the last one."""


@dataclass(frozen=True, eq=False)
class Batch(Record):
    """A batch of rows of a table: the disjoint union of their distinct graphs, and the numbers of each row.

    A graph that several rows share is stored once; `graph_of_row` has the graphs of each row.
    """

    node_features: Float[Tensor, " node node_feature"]
    """All nodes of all graphs, graph after graph."""
    edges: Edges
    """Edges of the disjoint union."""
    edge_features: Float[Tensor, " edge edge_feature"]
    """One row per edge, in the order of `edges`."""
    global_features: Float[Tensor, " graph graph_feature"]
    """Features of each whole graph."""
    offsets: Int64[Tensor, " boundary"]
    """Nodes of graph g are `offsets[g]:offsets[g + 1]`."""
    graph_of_row: Int64[Tensor, " row component"]
    """The graph in each component column (a cation, an anion) of each row."""
    conditions: Float[Tensor, " row condition"]
    """Numbers of the row rather than a graph: temperature, pressure. Of size 0 without any."""
    targets: Float[Tensor, " row target"] | None = None
    """Targets in model units; NaN for empty cells."""
    weights: Float[Tensor, " row"] | None = None
    """The weight of each row in the loss; 1 by default."""
    coordinates: Float[Tensor, " node space"] | None = None
    """The position of each node; None if the model does not use it."""
    substructures: Float[Tensor, " graph substructure"] | None = None
    """Counts of each substructure in a graph; None if the model does not use them."""

    @property
    def looped(self) -> Edges:
        """The edges, followed by a loop on every node; created at first use, cached, and moved with the batch."""
        return _cached(self, "_looped", lambda: looped(self.edges))

    @property
    def edge_types(self) -> EdgeTypes | None:
        """The types of the edges of `looped`, if they were set; a copy with other fields does not have them."""
        return getattr(self, "_edge_types", None)

    def with_edge_types(self, types: EdgeTypes) -> "Batch":
        """The same batch with the types of its edges set."""
        return unchecked(self, _edge_types=types)

    @property
    def members(self) -> Edges:
        """Every node as an edge from itself to its graph; cached like `looped`."""
        return _cached(self, "_members", lambda: membership(self.offsets, self.node_features.shape[0]))

    @property
    def num_graphs(self) -> int:
        """The number of distinct graphs in the batch."""
        return self.offsets.shape[0] - 1

    @property
    def num_rows(self) -> int:
        """The number of rows in the batch."""
        return self.graph_of_row.shape[0]


@dataclass(frozen=True, eq=False)
class SparseFeatures(Record):
    """Sparse features of nodes: each node is connected with its nonzero features."""

    edges: Edges
    """Edges from each feature to each node that has it."""
    values: Float[Tensor, " entry"]
    """The value of the feature at the node."""

    @property
    def shape(self) -> tuple[int, int]:
        """(node, feature)."""
        return self.edges.num_receivers, self.edges.num_senders


@dataclass(frozen=True, eq=False)
class NodeBatch(Record):
    """A graph, and the nodes to predict."""

    features: Float[Tensor, " node node_feature"] | SparseFeatures
    """The features of each node."""
    edges: Edges
    """Edges; virtual nodes, without features, come after the others."""
    edge_features: Float[Tensor, " edge edge_feature"]
    """The features of each edge, possibly of size 0."""
    rows: Int64[Tensor, " row"]
    """The nodes to predict."""
    targets: Float[Tensor, " row target"] | None = None
    """The targets, in model units; NaN where unknown."""
    weights: Float[Tensor, " row"] | None = None
    """The weight of each row in the loss."""
    positions: Float[Tensor, " node position"] | None = None
    """Positional encodings of each node: Laplacian eigenvectors, then random walks."""
    types: Types | None = None
    """The type of each node; None for a single type."""
    relations: Relations | None = None
    """The edges by relation; None for a single relation."""
    degrees: Float[Tensor, " node"] | None = None
    """The in-degree of each node, or the sum of edge weights, if the edges are a sample of the graph's."""


@dataclass(frozen=True, eq=False)
class GraphBatch(Record):
    """The disjoint union of graphs, and the targets of each."""

    features: Float[Tensor, " node node_feature"]
    """Features of each node, graph after graph."""
    edges: Edges
    """Edges of the disjoint union."""
    edge_features: Float[Tensor, " edge edge_feature"]
    """The features of each edge, possibly of size 0."""
    offsets: Int64[Tensor, " boundary"]
    """Nodes of graph g are `offsets[g]:offsets[g + 1]`."""
    roots: Int64[Tensor, " root"]
    """The root of each graph, to which all paths lead, as a node of the union; empty if not needed."""
    conditions: Float[Tensor, " graph condition"]
    """Numbers of each whole graph. Of size 0 without any."""
    targets: Float[Tensor, " graph target"] | None = None
    """The targets of each graph, in model units; NaN if unknown."""
    weights: Float[Tensor, " graph"] | None = None
    """The weight of each graph in the loss."""

    @property
    def members(self) -> Edges:
        """Every node as an edge from itself to its graph; created at first use, cached, and moved with the batch."""
        return _cached(self, "_members", lambda: membership(self.offsets, self.features.shape[0]))

    @property
    def nodes(self) -> NodeBatch:
        """The union alone, and its roots as the nodes to predict."""
        return NodeBatch(self.features, self.edges, self.edge_features, self.roots)


@dataclass(frozen=True, eq=False)
class LinkBatch(Record):
    """A graph, and pairs of its nodes, which are linked or not."""

    graph: NodeBatch
    """The edges along which messages go, without rows."""
    senders: Int64[Tensor, " row"]
    """The first node of each pair."""
    receivers: Int64[Tensor, " row"]
    """The node at the end of each predicted edge."""
    targets: Float[Tensor, " row target"] | None = None
    """1 for links, 0 for negative pairs."""
    weights: None = None
    """All pairs have the same weight."""


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


def _cached(record: Any, name: str, make: Callable[[], Edges]) -> Edges:
    """A derived value of a record, created once; a copy with other fields, or a traced program, creates its own."""
    value = getattr(record, name, None)
    if value is None:
        value = make()
        if not torch.compiler.is_compiling():
            object.__setattr__(record, name, value)
    return value
