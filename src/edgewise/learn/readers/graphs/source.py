"""The files of a graph and the roles of their columns; without numpy."""

from dataclasses import dataclass
from typing import TypeVar

from edgewise.errors import SettingError
from edgewise.learn.settings import check, setting
from edgewise.learn.tables.columns import Columns, check_one_role


@dataclass(frozen=True)
class GraphSource:
    """The file of the edges and the options for reading it."""

    edges: str | None = setting(None, is_file=True)
    """The table of edges, each row the names of two nodes; left out where the nodes are in an .npz file, which holds
    its edges. To predict, `none` stands for a table without rows."""
    features: str | None = setting(None, is_file=True)
    """Features of the nodes in an .npz file, a row a node in the order of the table: x, or arrays of SciPy's CSR."""
    edge_columns: tuple[str, ...] = setting((), metavar="COLUMN")
    """Sender and receiver; by default the columns whose names say so, such as source and target, else the first two
    whose cells name nodes."""
    edge_feature_columns: tuple[str, ...] = setting((), metavar="COLUMN")
    """Numbers of an edge."""
    edge_category_columns: tuple[str, ...] = setting((), metavar="COLUMN")
    """Words of an edge, such as the type of a bond: each becomes as many features as there are words, one of them
    1."""
    edge_type_column: str | None = setting(None, metavar="COLUMN")
    """The type of each edge, where there are several."""
    directed: bool = setting(False)
    """Whether an edge is one way; else the reverse of each is added where it is missing."""

    def __post_init__(self) -> None:
        check(self)
        if len(self.edge_columns) not in (0, 2):
            raise SettingError(f"--edge-columns names {len(self.edge_columns)}, expected two: sender and receiver.")
        for role in ("edge_columns", "edge_feature_columns", "edge_category_columns"):
            check_one_role({role: getattr(self, role)})


AnySource = TypeVar("AnySource", bound=GraphSource)


@dataclass(frozen=True)
class GraphColumns(Columns):
    """The role of each column; targets, weights and splits belong to graphs, and are written at one of their nodes or
    more.

    `descriptors_columns` are numbers of a node.
    """

    graph_column: str = setting("graph", metavar="COLUMN")
    """Which graph each node belongs to."""
    graph_feature_columns: tuple[str, ...] = setting((), metavar="COLUMN")
    """Numbers of a graph as a whole: a temperature, a cosmology."""

    @property
    def of_graphs(self) -> tuple[str, ...]:
        """The columns of graphs as a whole."""
        others = (self.weight_column, self.splits_column, self.group_column)
        return (*self.target_columns, *(name for name in others if name), *self.graph_feature_columns)


@dataclass(frozen=True)
class GraphsSource(GraphSource):
    """Where the edges of many graphs are, how they are read, and the table of the graphs themselves."""

    graphs: str | None = setting(None, is_file=True)
    """A table of graphs, a row each: its name, targets, weights, splits and numbers; left out where the table of nodes
    holds them."""
