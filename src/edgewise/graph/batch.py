"""What a network over graphs takes: a graph, and what is predicted of it."""

from dataclasses import dataclass, replace

from jaxtyping import Float, Int64
from torch import Tensor

from edgewise.graph.features import SparseFeatures
from edgewise.graph.graph import Graph
from edgewise.graph.record import Record
from edgewise.neighborhood.index import cached, unchecked


@dataclass(frozen=True, eq=False)
class Supervision(Record):
    """What is predicted of a graph, a row each, and the targets.

    A row is a node, a pair of nodes (an edge, a link), or several graphs (a cation and an anion); where none of these
    is given, each graph is a row.
    """

    nodes: Int64[Tensor, " row"] | None = None
    """The node of each row; for trees their roots, at which a tree is read."""
    senders: Int64[Tensor, " row"] | None = None
    """The first node of each predicted pair."""
    receivers: Int64[Tensor, " row"] | None = None
    """The second node of each predicted pair."""
    graph_of_row: Int64[Tensor, " row component"] | None = None
    """The graph in each component column of each row; rows may share a graph."""
    row_features: Float[Tensor, " row row_feature"] | None = None
    """Features of the row itself, such as those of a predicted edge, or temperature and pressure."""
    targets: Float[Tensor, " row target"] | None = None
    """In model units, or the number of a class; NaN where unknown."""
    weights: Float[Tensor, " row"] | None = None
    """The weight of each row in the loss; None if all are the same."""


@dataclass(frozen=True, eq=False)
class Batch(Record):
    """A graph, or many as their disjoint union, and what is predicted of it."""

    graph: Graph
    """The inputs of the network."""
    supervision: Supervision
    """The rows that are predicted, and their targets."""
    substructures: Float[Tensor, " graph substructure"] | None = None
    """Counts of each substructure in a graph, which companions of the network read; None without companions."""

    @property
    def targets(self) -> Tensor | None:
        """Those of the supervision."""
        return self.supervision.targets

    @property
    def weights(self) -> Tensor | None:
        """Those of the supervision."""
        return self.supervision.weights

    def with_node_features(self, features: Tensor | SparseFeatures) -> "Batch":
        """The same batch with other features of its nodes."""
        return replace(self, graph=unchecked(self.graph, **cached(self.graph), node_features=features))

    def with_targets(self, targets: Tensor, weights: Tensor | None) -> "Batch":
        """The same batch with targets, to learn from."""
        return replace(self, supervision=replace(self.supervision, targets=targets, weights=weights))
