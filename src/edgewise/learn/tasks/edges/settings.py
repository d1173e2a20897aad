"""The settings of a run over the edges of a graph."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from edgewise.errors import SettingError
from edgewise.learn.networks.graph_layers import layers_for
from edgewise.learn.networks.graph_settings import NodeSettings
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.settings import setting
from edgewise.learn.tables.columns import AUTO
from edgewise.learn.tasks.config import TaskSettings, Values
from edgewise.learn.tasks.links.settings import RECIPE as LINKS_RECIPE
from edgewise.learn.tasks.named_layer import with_layer
from edgewise.learn.tasks.nodes.settings import SCALES
from edgewise.learn.tasks.table_settings import NODE_DEFAULTS, TableRunSettings
from edgewise.learn.training.settings import TrainSettings

RECIPE = replace(LINKS_RECIPE, epochs=200, patience=50)
"""The recipe by default: a step sees all training edges."""
LAYERS = NodeSettings(model="sage", dropout=0.1)
"""The layers by default."""


@dataclass(frozen=True)
class EdgeRunSettings(TableRunSettings):
    """The settings of a run over the edges of a graph."""

    data: tuple[str, ...]
    """The table of edges, a row each; two tables (training, test) or three (training, validation, test)."""
    graph: GraphSource = field(default_factory=GraphSource)
    """How the edges are read."""
    nodes: str | None = setting(None, is_file=True)
    """The table of nodes, with their names and features; None takes the names from the edges, and their degrees as
    features."""
    model: NodeSettings = LAYERS
    """The layers that give nodes their vectors."""
    train: TrainSettings = RECIPE
    """The recipe; a step sees the whole graph."""
    feature_scale: str = setting("auto", choices=SCALES)
    """Features of nodes in units of their spread over all nodes (standard), as fractions of their sum over the node's
    features (rows), or as they are (none); auto is rows for bags of words, else standard."""

    def __post_init__(self) -> None:
        super().__post_init__()
        columns = self.columns
        of_nodes = columns.descriptors_columns or columns.category_columns or self.graph.features
        if self.nodes is None and (of_nodes or columns.node_column not in (None, AUTO)):
            raise SettingError(
                "--descriptors-columns and --node-column belong to a table of nodes, as do --category-columns and "
                "--features; name it: --nodes."
            )


def sizes_of_layer(run: Values, groups: Mapping[str, Values]) -> Values:
    """The named model brings its own sizes."""
    return with_layer("links", groups, LAYERS, RECIPE, head_reads_edges=True)


SETTINGS = TaskSettings(
    name="edges",
    task="edgewise.learn.tasks.edges.task:TASK",
    run_type=EdgeRunSettings,
    format="edgewise edge model",
    summary="classes or numbers of the edges of one graph",
    example="edges edges.csv --nodes nodes.csv --target-columns rating",
    reads=("coverage", "descriptors_columns", "node_column", "nodes", "features"),
    estimators=("EdgeClassifier", "EdgeRegressor"),
    usual=NODE_DEFAULTS,
    foreign={
        **dict.fromkeys(("smiles_columns", "text_columns"), ""),
        "edges": "the data are the edges",
        **dict.fromkeys(("node_type_column", "edge_type_column"), "no model of edges reads types"),
    },
    choices={"model": layers_for("links")},
    derive=sizes_of_layer,
)
