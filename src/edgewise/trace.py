"""What attention weights are recorded in: `Weights` for one call, from `edgewise.graph`; `Trace` for a model."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from jaxtyping import Bool, Int64
from torch import Tensor

from edgewise.graph import Graph, Weights
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
        """Edges of which nothing more is known."""
        return WeightedGraph(edges, None, node_features, names)  # type: ignore[return-value]


@dataclass(eq=False)
class Trace:
    """Hand it to a model, `model(batch, trace=trace)`, and every attention layer records its weights into it."""

    top: int | None = None
    """Record only this many of the strongest neighbors of every query."""
    queries: Int64[Tensor, " chosen"] | Bool[Tensor, " chosen"] | list[int] | None = None
    """Record only these queries: their positions, or a mask `(query)`."""
    weights: list[Weights] = field(default_factory=list)
    """What was recorded, layer after layer, in the order in which the layers ran."""

    def __post_init__(self) -> None:
        if self.top is not None:
            self.top = count("Trace", "top", self.top)

    def record(self, weights: Weights) -> None:
        """Add one layer's weights."""
        self.weights.append(weights)
