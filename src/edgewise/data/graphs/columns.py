"""Which column of a table of nodes says what, and which file holds what, where a row is a graph; free of numpy."""

from dataclasses import dataclass

from edgewise.data.columns import Columns
from edgewise.data.graphs.source import GraphSource


@dataclass(frozen=True)
class GraphColumns(Columns):
    """Which column says what; targets, weights and parts are those of a graph, and stand at one of its nodes or more.

    `descriptors_columns` are numbers of a node.
    """

    graph_column: str = "graph"
    """Which graph each node belongs to."""
    graph_feature_columns: tuple[str, ...] = ()
    """Numbers of a graph as a whole: a temperature, a cosmology."""

    def roles(self) -> dict[str, tuple[str, ...]]:
        """The columns of each role."""
        return {
            "graph_column": (self.graph_column,),
            **super().roles(),
            "graph_feature_columns": self.graph_feature_columns,
        }

    @property
    def of_graphs(self) -> tuple[str, ...]:
        """The columns that say something of a graph as a whole."""
        others = (self.weight_column, self.splits_column, self.group_column)
        return (*self.target_columns, *(name for name in others if name), *self.graph_feature_columns)


@dataclass(frozen=True)
class GraphsSource(GraphSource):
    """Where the edges of many graphs are, how they are read, and where more stands of the graphs."""

    graphs: str | None = None
    """A table of graphs, a row each: its name, targets, weights, parts and numbers; None where the table of nodes
    says them."""
