"""The settings of a run over many graphs."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from edgewise.learn.networks.graph_layers import layers_for
from edgewise.learn.networks.graph_settings import GraphSettings, NodeSettings
from edgewise.learn.readers.graphs.source import GraphColumns, GraphsSource
from edgewise.learn.settings import check_heads
from edgewise.learn.tasks.config import Sign
from edgewise.learn.tasks.named_layer import with_layer
from edgewise.learn.tasks.table_settings import GraphTableRunSettings
from edgewise.learn.training.settings import TrainSettings

LAYERS = NodeSettings(model="attention", num_layers=3, num_heads=4, model_dim=64, dropout=0.05)
"""The layers over the edges by default."""


@dataclass(frozen=True)
class GraphRunSettings(GraphTableRunSettings):
    """The settings of a run over many graphs."""

    FORMAT = "edgewise graph model"
    SUMMARY = "classes or numbers of whole graphs"
    EXAMPLE = "graphs nodes.csv --edges edges.csv --graph-column graph --target-columns y"
    SIGNS = (Sign(7, flag="graph_column"),)
    READS = ("coverage", "descriptors_columns", "node_column", "graph_column", "edges", "features", "graphs")
    ESTIMATORS = ("GraphClassifier", "GraphRegressor")
    FOREIGN: ClassVar = {
        **dict.fromkeys(("smiles_columns", "text_columns"), ""),
        **dict.fromkeys(
            ("node_type_column", "edge_type_column"),
            "no model of many graphs reads types; name the words of nodes with --category-columns",
        ),
    }
    CHOICES: ClassVar = {"model": layers_for("graphs")}

    columns: GraphColumns
    """The role of each column."""
    graph: GraphsSource = field(default_factory=GraphsSource)
    """Where the edges are."""
    model: NodeSettings = LAYERS
    """The layers over the edges."""
    whole: GraphSettings = field(default_factory=GraphSettings)
    """The readout and the head."""

    @classmethod
    def build(cls, own: dict[str, Any], groups: dict[str, dict[str, Any]], **made: Any) -> Self:
        """As of every run; settings that the named model does not read are refused."""
        attends = cls.group("whole", groups["whole"]).readout in ("attention", "attention_sum", "root")
        also = ("num_heads",) if attends else ()
        built = super().build(own, groups, **with_layer("graphs", groups, LAYERS, TrainSettings(), also))
        if attends:
            check_heads(built.model)
        return built


SETTINGS = GraphRunSettings
