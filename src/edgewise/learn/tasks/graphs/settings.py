"""The settings of a run over many graphs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgewise.learn.networks.graph_layers import layers_for
from edgewise.learn.networks.graph_settings import GraphSettings, NodeSettings
from edgewise.learn.readers.graphs.source import GraphColumns, GraphsSource
from edgewise.learn.settings import check_heads
from edgewise.learn.tasks.config import Sign, TaskSettings, Values
from edgewise.learn.tasks.graph_settings import unread, with_layer
from edgewise.learn.tasks.table_settings import NODE_DEFAULTS, TableRunSettings
from edgewise.learn.training.settings import TrainSettings

LAYERS = NodeSettings(model="attention", num_layers=3, num_heads=4, model_dim=64, dropout=0.05)
"""The layers over the edges by default."""


@dataclass(frozen=True)
class GraphRunSettings(TableRunSettings):
    """The settings of a run over many graphs."""

    columns: GraphColumns
    """The role of each column."""
    graph: GraphsSource = field(default_factory=GraphsSource)
    """Where the edges are."""
    model: NodeSettings = LAYERS
    """The layers over the edges."""
    whole: GraphSettings = field(default_factory=GraphSettings)
    """The readout and the head."""


def sizes_of_layer(run: Values, groups: Mapping[str, Values]) -> Values:
    """The named model brings its own sizes; a readout that attends has heads whatever the layer is."""
    attends = GraphSettings(**groups["whole"]).readout in ("attention", "attention_sum", "root")
    derived = with_layer("graphs", groups, LAYERS, TrainSettings(), ("num_heads",) if attends else ())
    if attends:
        check_heads(derived["model"])
    return derived


SETTINGS = TaskSettings(
    name="graphs",
    task="edgewise.learn.tasks.graphs.task:TASK",
    run_type=GraphRunSettings,
    format="edgewise graph model",
    summary="classes or numbers of whole graphs",
    example="graphs nodes.csv --edges edges.csv --graph-column graph --target-columns y",
    signs=(Sign(strength=7, flag="graph_column"),),
    predict_flags=("coverage", "descriptors_columns", "node_column", "graph_column", "edges", "features", "graphs"),
    estimators=("GraphClassifier", "GraphRegressor"),
    defaults=NODE_DEFAULTS,
    unused={
        **dict.fromkeys(("smiles_columns", "text_columns"), ""),
        **dict.fromkeys(
            ("node_type_column", "edge_type_column"),
            "no model of many graphs reads types; name the words of nodes with --category-columns",
        ),
        **unread("graphs"),
    },
    choices={"model": layers_for("graphs")},
    derive=sizes_of_layer,
)
