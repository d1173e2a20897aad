"""The settings of a run over the edges of a graph."""

from dataclasses import dataclass, field, replace

from edgewise.errors import SettingError
from edgewise.learn.networks.graph_layers import layers_for
from edgewise.learn.networks.graph_settings import NodeSettings
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.settings import setting
from edgewise.learn.tables.columns import AUTO
from edgewise.learn.tasks.config import TaskSettings
from edgewise.learn.tasks.graph_settings import GRAPH_RECIPE, FeatureScaling, named_layer, unread
from edgewise.learn.tasks.table_settings import NODE_DEFAULTS, TableRunSettings
from edgewise.learn.training.settings import TrainSettings

LAYERS = NodeSettings(model="sage", dropout=0.1)
RECIPE = replace(GRAPH_RECIPE, patience=50, final_learning_rate=1e-4, weight_decay=0.0, clip_norm=1.0)
"""The layers and the recipe by default."""


@dataclass(frozen=True)
class EdgeRunSettings(TableRunSettings):
    """The settings of a run over the edges of a graph."""

    data: tuple[str, ...]
    """The table of edges, a row each; two tables (training, test) or three (training, validation, test)."""
    graph: GraphSource = field(default_factory=GraphSource)
    """How the edges are read."""
    nodes: str | None = setting(None, is_file=True)
    """The table of nodes, with their names and features; None takes names from the edges, and degrees as features."""
    model: NodeSettings = LAYERS
    """The layers that give nodes their vectors."""
    train: TrainSettings = RECIPE
    """The recipe; a step sees all training edges, and the whole graph."""
    scaling: FeatureScaling = field(default_factory=FeatureScaling)
    """How features of nodes are scaled."""

    def __post_init__(self) -> None:
        super().__post_init__()
        columns = self.columns
        of_nodes = columns.descriptors_columns or columns.category_columns or self.graph.features
        if self.nodes is None and (of_nodes or columns.node_column not in (None, AUTO)):
            raise SettingError(
                "--descriptors-columns, --category-columns, --features and --node-column need --nodes nodes.csv."
            )


SETTINGS = TaskSettings(
    name="edges",
    task="edgewise.learn.tasks.edges.task:TASK",
    run_type=EdgeRunSettings,
    format="edgewise edge model",
    summary="classes or numbers of the edges of one graph",
    example="edges edges.csv --nodes nodes.csv --target-columns rating",
    predict_flags=("coverage", "descriptors_columns", "node_column", "nodes", "features"),
    estimators=("EdgeClassifier", "EdgeRegressor"),
    defaults=NODE_DEFAULTS,
    unused={
        **dict.fromkeys(("smiles_columns", "text_columns"), ""),
        "edges": "the data are the edges",
        **dict.fromkeys(("node_type_column", "edge_type_column"), "no model of edges reads types"),
        **unread("links"),
    },
    choices={"model": layers_for("links")},
    derive=named_layer("links", LAYERS, RECIPE, head_reads_edges=True),
)
