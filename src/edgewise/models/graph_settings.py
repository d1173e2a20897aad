"""How the nodes of a graph become one vector, and what is told of it; free of torch so that the command line can show
it."""

from dataclasses import dataclass, replace
from typing import Literal, get_args

from edgewise.errors import SettingError
from edgewise.models.settings import check_unit, variants_for

GraphReadoutName = Literal["attention_sum", "attention", "mean", "sum", "max", "root"]
GRAPH_READOUTS: tuple[str, ...] = get_args(GraphReadoutName)


@dataclass(frozen=True)
class GraphSettings:
    """What stands behind the layers over the edges."""

    readout: GraphReadoutName = "attention_sum"
    """What makes one vector of all nodes: attention and sum side by side, one of attention, mean, sum and max, or the
    root of a tree, which looks at all nodes that lead to it."""
    head_dim: int = 128
    """Size of a graph's vector, where it meets numbers of the graph."""
    num_head_layers: int = 2
    """Blocks that a graph's vector goes through."""
    num_variants: int | None = None
    """Variants of the head that share their matrices and are averaged; None is 8, or 4 where batches are large."""
    head_dropout: float = 0.05
    """In the blocks of the head."""

    def __post_init__(self) -> None:
        if self.readout not in GRAPH_READOUTS:
            raise SettingError(
                f"--readout is {self.readout!r}; for graphs expected one of {', '.join(GRAPH_READOUTS)}."
            )
        for name in ("head_dim", "num_head_layers", "num_variants"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingError(f"--{name.replace('_', '-')} is {value}; expected at least 1.")
        if not 0 <= self.head_dropout <= 0.5:
            raise SettingError(f"--head-dropout is {self.head_dropout}; expected 0 to 0.5.")

    @property
    def needs_roots(self) -> bool:
        """Whether every graph must have a root."""
        return self.readout == "root"

    def resolved(self, batch_size: int) -> "GraphSettings":
        """The same choices with a number of variants that fits the graphs of a step."""
        return replace(self, num_variants=self.num_variants or variants_for(batch_size))


@dataclass(frozen=True)
class GraphSizes:
    """What a model of graphs must know of the data it is made for."""

    num_features: int
    """Features of a node."""
    num_edge_features: int
    """Features of an edge."""
    num_conditions: int
    """Numbers of a graph as a whole."""
    num_outputs: int
    """Numbers to tell of a graph."""
    typical_nodes: float
    """Nodes of a typical training graph, the unit in which sums over nodes are taken."""

    def __post_init__(self) -> None:
        check_unit("typical_nodes", self.typical_nodes)
