"""What attention weights are recorded in: `Weights` for one call, `Trace` for a model."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from edgewise.neighborhood import Edges


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
        cell = (self.receivers * self.num_senders + self.senders).expand(self.values.shape)
        table = self.values.new_zeros(*self.values.shape[:-1], self.num_receivers * self.num_senders)
        return table.scatter_add(-1, cell, self.values).unflatten(-1, (self.num_receivers, self.num_senders))

    def to_graph(self) -> "WeightedGraph":
        """The weights as a graph whose edges carry one feature a head (or other batch axis).

        Where the heads keep different senders (`top`), an edge stands once for each, with 0 in the other heads.
        """
        heads = self.values.reshape(-1, self.values.shape[-1])
        senders = self.senders.expand(self.values.shape).reshape(heads.shape)
        cells = self.receivers * self.num_senders + senders
        if self.senders.dim() == 1:
            edges = Edges(self.senders, self.receivers, self.num_senders, self.num_receivers)
            return WeightedGraph(edges, heads.T)
        codes, place = cells.unique(return_inverse=True)
        features = heads.new_zeros(codes.shape[0], heads.shape[0])
        columns = torch.arange(heads.shape[0], device=heads.device)[:, None].expand_as(place)
        features = features.index_put((place, columns), heads, accumulate=True)
        edges = Edges(codes % self.num_senders, codes // self.num_senders, self.num_senders, self.num_receivers)
        return WeightedGraph(edges, features)


@dataclass(frozen=True, eq=False)
class WeightedGraph:
    """Edges with features: what an attention matrix is, seen as a graph."""

    edges: Edges
    """Sender → receiver."""
    edge_features: Float[Tensor, " edge head"]
    """The weight of each head."""


@dataclass(eq=False)
class Trace:
    """Hand it to a model, `model(batch, trace=trace)`, and every attention layer records its weights into it."""

    top: int | None = None
    """Record only this many of the strongest neighbors of every query."""
    queries: Int64[Tensor, " chosen"] | list[int] | None = None
    """Record only these queries."""
    weights: list[Weights] = field(default_factory=list)
    """What was recorded, layer after layer, in the order in which the layers ran."""

    def record(self, weights: Weights) -> None:
        """Add one layer's weights."""
        self.weights.append(weights)
