"""The records that travel along the straight line: file → Example → Batch → model → Prediction → Explanation.

Plain dataclasses without behavior beyond moving between devices; every field documents its shape and unit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from edgewise.neighborhood import EdgeRows, Edges, Relations, Types, looped, membership
from edgewise.neighborhood.index import sent, unchecked


@dataclass(frozen=True, eq=False)
class Span:
    """Where one node came from: `source[start:stop]`, in the words of the file."""

    source: str
    """The column or file that holds the text, such as `smiles`."""
    start: int
    """First character."""
    stop: int
    """One past the last character."""


@dataclass(frozen=True, eq=False)
class Example:
    """One graph, such as a molecule, and the place in the source that each of its nodes came from."""

    name: str
    """What the graph is called in its source: a SMILES string, a title."""
    node_features: Float[Tensor, " node node_feature"]
    """One row a node."""
    edges: Edges
    """Who attends to whom; a chemical bond is two edges."""
    edge_features: Float[Tensor, " edge edge_feature"]
    """One row an edge, in the order of `edges`."""
    global_features: Float[Tensor, " graph_feature"]
    """What is known of the graph as a whole; of size 0 where nothing is."""
    spans: tuple[Span, ...]
    """One span a node."""


Own = TypeVar("Own", bound="Record")


class Record:
    """A record that moves between devices."""

    def to(self: Own, device: torch.device | str) -> Own:
        """The same record with every tensor, edge list and graph in it on `device`, those too that it caches."""
        moved: dict[str, Any] = {}
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                moved[name] = sent(value, device)
            elif hasattr(value, "to"):  # edges, types, graphs, records
                moved[name] = value.to(device)
        return unchecked(self, **moved)


@dataclass(frozen=True, eq=False)
class EdgeTypes(Record):
    """The few rows of features that edges have, and which of them each edge has."""

    features: Float[Tensor, " type edge_feature"]
    """One row a type."""
    rows: EdgeRows
    """The type of each edge; behind the edges a loop on every node, whose type comes after all others."""


@dataclass(frozen=True, eq=False)
class Batch(Record):
    """Rows of a table together: the disjoint union of their distinct graphs, and the numbers of each row.

    A graph that several rows share stands here once; `graph_of_row` names those of each row.
    """

    node_features: Float[Tensor, " node node_feature"]
    """All nodes of all graphs, graph after graph."""
    edges: Edges
    """Edges of the disjoint union."""
    edge_features: Float[Tensor, " edge edge_feature"]
    """One row an edge, in the order of `edges`."""
    global_features: Float[Tensor, " graph graph_feature"]
    """What is known of each graph as a whole."""
    offsets: Int64[Tensor, " boundary"]
    """Nodes of graph g are `offsets[g]:offsets[g + 1]`."""
    graph_of_row: Int64[Tensor, " row component"]
    """The graph in each component column (a cation, an anion) of each row."""
    conditions: Float[Tensor, " row condition"]
    """Numbers that belong to the row and to no graph: temperature, pressure. Of size 0 where there are none."""
    targets: Float[Tensor, " row target"] | None = None
    """What is to be predicted, in model units; NaN where the cell is empty."""
    weights: Float[Tensor, " row"] | None = None
    """How much each row counts in the loss; 1 where the table does not say."""
    coordinates: Float[Tensor, " node space"] | None = None
    """Where each node is; None where the model does not look at it."""
    substructures: Float[Tensor, " graph substructure"] | None = None
    """How often each kind of neighborhood occurs in a graph; None where the model does not look at them."""

    @property
    def looped(self) -> Edges:
        """The edges, and behind them a loop on every node; made at first use, then cached, and moved with the batch."""
        return _cached(self, "_looped", lambda: looped(self.edges))

    @property
    def edge_types(self) -> EdgeTypes | None:
        """The types of the edges of `looped`, where who made the batch knew them; a copy with other fields does not."""
        return getattr(self, "_edge_types", None)

    def with_edge_types(self, types: EdgeTypes) -> "Batch":
        """The same batch, which knows the types of its edges."""
        return unchecked(self, _edge_types=types)

    @property
    def members(self) -> Edges:
        """Every node as an edge from itself to its graph; cached as `looped` is."""
        return _cached(self, "_members", lambda: membership(self.offsets, self.node_features.shape[0]))

    @property
    def num_graphs(self) -> int:
        """How many distinct graphs the batch holds."""
        return self.offsets.shape[0] - 1

    @property
    def num_rows(self) -> int:
        """How many rows of the table the batch holds."""
        return self.graph_of_row.shape[0]


@dataclass(frozen=True, eq=False)
class SparseFeatures(Record):
    """Features of nodes, nearly all of them zero: each node is connected with the few features it has."""

    edges: Edges
    """From each feature to each node that has it."""
    values: Float[Tensor, " entry"]
    """How much of it the node has."""

    @property
    def shape(self) -> tuple[int, int]:
        """(node, feature)."""
        return self.edges.num_receivers, self.edges.num_senders


@dataclass(frozen=True, eq=False)
class NodeBatch(Record):
    """A whole graph, and the nodes to predict."""

    features: Float[Tensor, " node node_feature"] | SparseFeatures
    """The features of each node."""
    edges: Edges
    """Who is connected with whom; virtual nodes, of which no features are known, stand behind the others."""
    edge_features: Float[Tensor, " edge edge_feature"]
    """The features of each edge, possibly of size 0."""
    rows: Int64[Tensor, " row"]
    """The nodes to predict."""
    targets: Float[Tensor, " row target"] | None = None
    """The targets, in model units; NaN where unknown."""
    weights: Float[Tensor, " row"] | None = None
    """How much each row counts in the loss."""
    positions: Float[Tensor, " node position"] | None = None
    """Where each node stands in the graph: Laplacian positions, then those of random walks."""
    types: Types | None = None
    """The type of each node; None where all are of one."""
    relations: Relations | None = None
    """The edges by what they mean; None where all mean the same."""
    degrees: Float[Tensor, " node"] | None = None
    """Edges that each node receives, or the sum of their weights, where the edges are only some of the graph's."""


@dataclass(frozen=True, eq=False)
class GraphBatch(Record):
    """Graphs as one graph, their disjoint union, and the targets of each."""

    features: Float[Tensor, " node node_feature"]
    """What is known of each node, graph after graph."""
    edges: Edges
    """Edges of the disjoint union."""
    edge_features: Float[Tensor, " edge edge_feature"]
    """The features of each edge, possibly of size 0."""
    offsets: Int64[Tensor, " boundary"]
    """Nodes of graph g are `offsets[g]:offsets[g + 1]`."""
    roots: Int64[Tensor, " root"]
    """The node of each graph that all others lead to, counted in the union; none where they are not needed."""
    conditions: Float[Tensor, " graph condition"]
    """Numbers that belong to a graph as a whole. Of size 0 where there are none."""
    targets: Float[Tensor, " graph target"] | None = None
    """The targets of each graph, in model units; NaN where they are unknown."""
    weights: Float[Tensor, " graph"] | None = None
    """How much each graph counts in the loss."""

    @property
    def members(self) -> Edges:
        """Every node as an edge from itself to its graph; made at first use, then cached, and moved with the batch."""
        return _cached(self, "_members", lambda: membership(self.offsets, self.features.shape[0]))

    @property
    def nodes(self) -> NodeBatch:
        """The union alone, and its roots as the nodes to predict."""
        return NodeBatch(self.features, self.edges, self.edge_features, self.roots)


@dataclass(frozen=True, eq=False)
class LinkBatch(Record):
    """A whole graph, and pairs of its nodes, which are linked or not."""

    graph: NodeBatch
    """The edges along which messages go, without rows."""
    senders: Int64[Tensor, " row"]
    """The node at the beginning of each pair."""
    receivers: Int64[Tensor, " row"]
    """The node at the end of each predicted edge."""
    targets: Float[Tensor, " row target"] | None = None
    """1 for links, 0 for pairs that are none."""
    weights: None = None
    """All pairs count the same."""


@dataclass(frozen=True, eq=False)
class BodyBatch(Record):
    """Bodies at some moments, those of one moment behind those of another, and their targets."""

    positions: Float[Tensor, " row space"]
    """Where each body is."""
    velocities: Float[Tensor, " row space"]
    """How it moves."""
    charges: Float[Tensor, " row charge"]
    """What is known of it: its mass, its charge."""
    edges: Edges
    """From every body to every other of its moment."""
    couplings: Float[Tensor, " edge coupling"]
    """What is known of each pair."""
    targets: Float[Tensor, " row space"] | None = None
    """Where it will be, or its acceleration."""
    sizes: Float[Tensor, " row"] | None = None
    """What its error is measured in; None where all are measured alike."""

    @property
    def weights(self) -> Float[Tensor, " row"] | None:
        """What an error is multiplied by."""
        return None if self.sizes is None else 1 / self.sizes


@dataclass(frozen=True, eq=False)
class SeriesBatch(Record):
    """Stretches of series on one graph: what its nodes were, and what they will be."""

    values: Float[Tensor, " row time node"]
    """What is read, in model units."""
    phases: Float[Tensor, " row step"]
    """Where in its period each step lies, from 0 to 1, predicted steps included."""
    edges: Edges
    """Who attends to whom."""
    targets: Float[Tensor, " row target"] | None = None
    """What is to be predicted, steps behind each other; NaN where it is unknown."""
    weights: None = None
    """All stretches count the same."""


@dataclass(frozen=True, eq=False)
class TextBatch(Record):
    """Tokens of several texts: side by side where they are equally long, else packed one behind the other."""

    tokens: Int64[Tensor, " *batch token"]
    """Numbers in the vocabulary."""
    targets: Int64[Tensor, " *batch token"] | None = None
    """The token to predict at each place; −1 where there is none."""
    offsets: Int64[Tensor, " boundary"] | None = None
    """Packed texts: tokens of text g are `offsets[g]:offsets[g + 1]`; None where each row is one text."""
    segments: Int64[Tensor, " *batch token"] | None = None
    """Which of several texts in one input each token stands in; None where all stand in the first."""
    weights: None = None
    """All tokens count the same."""

    @classmethod
    def packed(cls, texts: Sequence[np.ndarray]) -> "TextBatch":
        """Texts one behind the other."""
        offsets = torch.from_numpy(np.cumsum([0, *map(len, texts)]))
        return cls(torch.from_numpy(np.concatenate(texts)), offsets=offsets)

    @property
    def places(self) -> Int64[Tensor, " token"]:
        """Where each token of packed texts stands in its own."""
        assert self.offsets is not None
        begins = self.offsets[:-1].repeat_interleave(self.offsets.diff(), output_size=self.tokens.shape[-1])
        return torch.arange(self.tokens.shape[-1], device=begins.device) - begins


@dataclass(frozen=True, eq=False)
class MaskedBatch(Record):
    """Texts of which some tokens are hidden, and which tokens those are."""

    tokens: Int64[Tensor, " token"]
    """Numbers in the vocabulary, packed one text behind the other; at hidden places mostly that of the mask."""
    offsets: Int64[Tensor, " boundary"]
    """Tokens of text g are `offsets[g]:offsets[g + 1]`."""
    places: Int64[Tensor, " place"]
    """Where a token is hidden, in increasing order."""
    targets: Int64[Tensor, " place"]
    """The token to predict at each of these places."""
    weights: None = None
    """All tokens count the same."""

    @property
    def texts(self) -> TextBatch:
        """The tokens alone."""
        return TextBatch(self.tokens, offsets=self.offsets)


@dataclass(frozen=True, eq=False)
class TextRows(Record):
    """Rows of a table of texts: their tokens, packed one behind the other, and the targets of each row."""

    tokens: Int64[Tensor, " token"]
    """Numbers in the vocabulary."""
    offsets: Int64[Tensor, " boundary"]
    """Tokens of row r are `offsets[r]:offsets[r + 1]`."""
    segments: Int64[Tensor, " token"] | None = None
    """Which text column each token stands in; None where there is one."""
    targets: Float[Tensor, " row target"] | None = None
    """What is to be predicted, in model units; NaN where the cell is empty."""
    weights: Float[Tensor, " row"] | None = None
    """How much each row counts in the loss."""

    @classmethod
    def packed(cls, texts: Sequence[np.ndarray], segments: Sequence[np.ndarray]) -> "TextRows":
        """Rows one behind the other."""
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
    """Tokens of the texts that are read."""
    source_lengths: Int64[Tensor, " graph"]
    """How many of them are true."""
    tokens: Int64[Tensor, " graph token"]
    """Tokens of the texts that are written, each before the token to predict; the first is the beginning."""
    targets: Int64[Tensor, " graph token"] | None = None
    """The token to predict at each place, the last the end; −1 in the padding."""
    weights: None = None
    """All tokens count the same."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """What the model predicts of one target, for every row of a table; NaN where a row cannot be predicted."""

    value: np.ndarray
    """(row), in the unit of the target; for classes the number of the most probable one."""
    std: np.ndarray
    """(row): the standard deviation of the target around its prediction, for one model and an ensemble alike: by the
    errors on validation rows, which intervals are made of, NaN without such rows; for classes √(p(1 − p)), that of the
    outcome "it is this class"."""
    low: np.ndarray
    """(row): lower end of the interval; NaN for classes, and where there were too few validation rows."""
    high: np.ndarray
    """(row): upper end of the interval."""
    probabilities: np.ndarray | None
    """(row, class); None for regression."""
    sigma: np.ndarray | None = None
    """(row): the size of error to be expected, which the width of the interval is a multiple of; None for classes."""
    ensemble_std: np.ndarray | None = None
    """(row): the standard deviation over the members of an ensemble, for classes of the probability of `value`; it is
    mostly far smaller than `std`. None where there is one model."""


def _cached(record: Any, name: str, make: Callable[[], Edges]) -> Edges:
    """What follows from a record, made once; a copy with other fields makes its own, and so does a traced program."""
    found = getattr(record, name, None)
    if found is None:
        found = make()
        if not torch.compiler.is_compiling():
            object.__setattr__(record, name, found)
    return found
