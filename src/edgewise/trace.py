"""What attention weights are recorded in: `Weights` for one call, `Trace` for a model."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from edgewise.errors import ShapeError
from edgewise.neighborhood import Edges
from edgewise.neighborhood.checks import can_be_read
from edgewise.plural import plural


@dataclass(frozen=True, eq=False)
class Weights:
    """Attention weights as a weighted graph: edge e carries senders[e] → receivers[e] with weight values[…, e]."""

    senders: Int64[Tensor, " ... edge"]
    """The key of each weight; one list for all, or `(*batch, edge)` where the strongest differ between heads."""
    receivers: Int64[Tensor, " edge"]
    """The query of each weight."""
    values: Float[Tensor, " *batch edge"]
    """α; a row sums to one under softmax when all of it is here."""
    num_senders: int
    """How many keys there are."""
    num_receivers: int
    """How many queries there are."""

    def to_dense(self) -> Float[Tensor, " *batch query key"]:
        """The weights as a table, zero where there is no edge; the weights of parallel edges add up."""
        cell = self.receivers * self.num_senders + self.senders
        size = self.num_receivers * self.num_senders
        table = self.values.new_zeros(*self.values.shape[:-1], size)
        if cell.dim() == 1 and can_be_read(cell) and bool((cell[1:] > cell[:-1]).all()):
            # Each cell stands once: nothing adds up, and a list as long as the table is the table.
            table = self.values.clone() if cell.shape[0] == size else table.index_copy(-1, cell, self.values)
        else:
            table = table.scatter_add(-1, cell.expand(self.values.shape), self.values)
        return table.unflatten(-1, (self.num_receivers, self.num_senders))

    def to_graph(self, names: Sequence[Hashable] | None = None) -> "WeightedGraph":
        """The weights as a graph whose edges carry one feature a head (or other batch axis).

        Where the heads keep different senders (`top`), an edge stands once for each, with 0 in the other heads.

        Args:
            names: what the nodes are called, as in `WeightedGraph`.
        """
        names = None if names is None else tuple(names)
        heads = self.values.reshape(-1, self.values.shape[-1])
        senders = self.senders.expand(self.values.shape).reshape(heads.shape)
        cells = self.receivers * self.num_senders + senders
        if self.senders.dim() == 1:
            edges = Edges(self.senders, self.receivers, self.num_senders, self.num_receivers)
            return WeightedGraph(edges, heads.T, names=names)
        codes, place = cells.unique(return_inverse=True)
        features = heads.new_zeros(codes.shape[0], heads.shape[0])
        columns = torch.arange(heads.shape[0], device=heads.device)[:, None].expand_as(place)
        features = features.index_put((place, columns), heads, accumulate=True)
        edges = Edges(codes % self.num_senders, codes // self.num_senders, self.num_senders, self.num_receivers)
        return WeightedGraph(edges, features, names=names)


@dataclass(frozen=True, eq=False)
class WeightedGraph:
    """Edges with features: what an attention matrix is, seen as a graph."""

    edges: Edges
    """Sender → receiver."""
    edge_features: Float[Tensor, " edge head"]
    """The weight of each head, or whatever numbers an edge has; `(edge, 0)` where it has none."""
    node_features: Float[Tensor, " node node_feature"] | None = None
    """What is known of each node; needs one set of nodes."""
    names: tuple[Hashable, ...] | None = None
    """What the nodes are called, each by another name; needs one set of nodes. Without them, 0, 1, 2, … ."""

    def __post_init__(self) -> None:
        if self.edge_features.dim() != 2 or self.edge_features.shape[0] != self.edges.num_edges:
            raise ShapeError(
                f"WeightedGraph: edge_features is {tuple(self.edge_features.shape)}, expected "
                f"({self.edges.num_edges}, head): a row an edge."
            )
        for what, given in (("node_features", self.node_features), ("names", self.names)):
            if given is not None and self.is_bipartite:
                raise ShapeError(f"WeightedGraph: {what} needs one set of nodes, {self._said}; {JOIN}.")
            if given is not None and len(given) != self.edges.num_senders:
                raise ShapeError(f"WeightedGraph: {what} has {plural(len(given), 'row')}, but {self._said}.")
        first: dict[Hashable, int] = {}
        for place, name in enumerate(self.names or ()):
            if name is None:
                raise ShapeError(f"WeightedGraph: node {place} is called None; give it a name.")
            if first.setdefault(name, place) != place:
                raise ShapeError(
                    f"WeightedGraph: nodes {first[name]} and {place} are both called {name!r}, names must differ; "
                    "number them: names=[f'{place} {name}' for place, name in enumerate(names)]."
                )

    @classmethod
    def unweighted(
        cls,
        edges: Edges,
        node_features: Float[Tensor, " node node_feature"] | None = None,
        names: Sequence[Hashable] | None = None,
    ) -> "WeightedGraph":
        """Edges of which nothing more is known."""
        nothing = torch.zeros(edges.num_edges, 0, device=edges.senders.device)
        return cls(edges, nothing, node_features, None if names is None else tuple(names))

    @property
    def is_bipartite(self) -> bool:
        """Whether senders and receivers are two sets of nodes, as their numbers say."""
        return self.edges.num_senders != self.edges.num_receivers

    def joined(self) -> "WeightedGraph":
        """Senders and receivers as one set of nodes, the receivers behind the senders.

            (j → i)  becomes  (j → num_senders + i)

        Raises:
            ShapeError: names or node features say that they are one set already.
        """
        if self.names is not None or self.node_features is not None:
            raise ShapeError("joined: senders and receivers are one set of nodes already, with names or features.")
        size = self.edges.num_senders + self.edges.num_receivers
        receivers = self.edges.receivers + self.edges.num_senders
        return WeightedGraph(Edges(self.edges.senders, receivers, size, size), self.edge_features)

    def to_weights(self) -> Weights:
        """The way back from `Weights.to_graph`: each edge feature is a head."""
        edges = self.edges
        return Weights(edges.senders, edges.receivers, self.edge_features.T, edges.num_senders, edges.num_receivers)

    @property
    def _said(self) -> str:
        if self.is_bipartite:
            return f"there are {self.edges.num_senders} senders and {plural(self.edges.num_receivers, 'receiver')}"
        return f"there are {self.edges.num_senders} nodes"


JOIN = "graph.joined() makes them one, the receivers behind the senders"
"""The remedy where a graph of two sets of nodes meets something that knows only one."""


@dataclass(eq=False)
class Trace:
    """Hand it to a model, `model(batch, trace=trace)`, and every attention layer records its weights into it."""

    top: int | None = None
    """Record only this many of the strongest neighbors of every query."""
    queries: Int64[Tensor, " chosen"] | Bool[Tensor, " chosen"] | list[int] | None = None
    """Record only these queries: their positions, or a mask `(query)`."""
    weights: list[Weights] = field(default_factory=list)
    """What was recorded, layer after layer, in the order in which the layers ran."""

    def record(self, weights: Weights) -> None:
        """Add one layer's weights."""
        self.weights.append(weights)
