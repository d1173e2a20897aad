"""Where the edges of a table of nodes are, and how they are read; free of numpy, so that it can stand in settings."""

from dataclasses import dataclass

from edgewise.errors import SettingError


@dataclass(frozen=True)
class GraphSource:
    """Where the edges are, and how they are read."""

    edges: str | None = None
    """The table of edges; None where the nodes stand in an .npz file, which has its edges inside."""
    features: str | None = None
    """Features of the nodes in an .npz file, a row a node in the order of the table: x, or the parts of SciPy's CSR."""
    edge_columns: tuple[str, ...] = ()
    """Sender and receiver; the first two columns by default."""
    edge_feature_columns: tuple[str, ...] = ()
    """Numbers of an edge."""
    edge_type_column: str | None = None
    """What an edge is called, where there are edges of several types."""
    directed: bool = False
    """Whether an edge is one way; else the other way of each is added where it is missing."""

    def __post_init__(self) -> None:
        if len(self.edge_columns) not in (0, 2):
            raise SettingError(f"--edge-columns names {len(self.edge_columns)}, expected two: sender and receiver.")
