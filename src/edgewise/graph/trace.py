"""The attention weights of a model, recorded layer by layer."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from jaxtyping import Bool, Int64
from torch import Tensor

from edgewise.graph.graph import Graph, Weights
from edgewise.neighborhood import Edges
from edgewise.neighborhood.checks import count


class WeightedGraph:
    """`Graph` under its earlier name, with its fields in another order; calling it makes a `Graph`."""

    def __new__(  # type: ignore[misc]
        cls,
        edges: Edges,
        edge_features: Tensor | None,
        node_features: Tensor | None = None,
        names: Sequence[Hashable] | None = None,
    ) -> Graph:
        """The graph."""
        return Graph(node_features, edges, edge_features, names=None if names is None else tuple(names))

    @staticmethod
    def unweighted(edges: Edges, node_features: Tensor | None = None, names: Sequence[Hashable] | None = None) -> Graph:
        """Edges without features."""
        return WeightedGraph(edges, None, node_features, names)  # type: ignore[return-value]


@dataclass(eq=False)
class Trace:
    """Records attention weights: pass it to a model, `model(batch, trace=trace)`, and every layer adds its weights."""

    top: int | None = None
    """Record only this many of the strongest neighbors of every query."""
    queries: Int64[Tensor, " chosen"] | Bool[Tensor, " chosen"] | list[int] | None = None
    """Record only these queries: their positions, or a mask `(query)`."""
    weights: list[Weights] = field(default_factory=list)
    """The recorded weights, in the order in which the layers ran, each `(*batch, head, pair)`."""

    def __post_init__(self) -> None:
        if self.top is not None:
            self.top = count("Trace", "top", self.top)

    def record(self, weights: Weights) -> None:
        """Add one layer's weights."""
        self.weights.append(weights)
