"""The settings of a run over the nodes of a graph."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgewise.errors import SettingError
from edgewise.learn.networks.graph_layers import LAYERS, layers_for
from edgewise.learn.networks.graph_settings import RELATIONAL, NodeSettings
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.settings import setting, spelled
from edgewise.learn.tasks.config import Sign, TaskSettings, Values
from edgewise.learn.tasks.graph_settings import GRAPH_RECIPE, FeatureScaling, holds_types, with_layer
from edgewise.learn.tasks.table_settings import NODE_DEFAULTS, TableRunSettings
from edgewise.learn.training.settings import TrainSettings

DEFAULT_TYPED_MODEL = "hgt"
"""The model where nodes or edges are of several types and no model is named."""
TYPE_COLUMNS = {"node_type_column": "columns", "edge_type_column": "graph"}
"""Columns that give nodes and edges their types, and the group of settings they stand in."""


@dataclass(frozen=True)
class NodeRunSettings(TableRunSettings):
    """The settings of a run over the nodes of a graph."""

    graph: GraphSource = field(default_factory=GraphSource)
    """Where the edges are."""
    model: NodeSettings = field(default_factory=NodeSettings)
    """The model."""
    train: TrainSettings = GRAPH_RECIPE
    """The recipe; without `fanouts` a step sees the whole graph."""
    scaling: FeatureScaling = field(default_factory=FeatureScaling)
    """How features of nodes are scaled."""
    fanouts: tuple[int, ...] = setting((), metavar="EDGES", aliases=("num-neighbors",))
    """Edges a node that a step samples in each hop, -1 for all, such as 15 10; a batch is then 1024 nodes, or
    --batch-size. Without it a step sees the whole graph, where it fits into memory. Validation and predictions always
    do."""
    whole_graph: bool = setting(False, hidden=True)
    """Whether a step sees the whole graph without fanouts, however much memory is free: it was found to fit when the
    run was started, and goes on so."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for value in self.fanouts:
            if type(value) is not int or value < -1 or value == 0:
                raise SettingError(f"--fanouts has {value!r}; expected edges a node, at least 1, or -1 for all.")
        if self.fanouts and self.model.num_virtual_nodes:
            raise SettingError(
                "--fanouts samples neighbors, but virtual nodes are joined with all nodes; leave out "
                "--num-virtual-nodes."
            )


def sizes_of_layer(run: Values, groups: Mapping[str, Values]) -> Values:
    """The named model brings its own sizes and recipe; nodes or edges of several types need one that reads types."""
    types = {name: groups[group].get(name) for name, group in TYPE_COLUMNS.items()}
    default = DEFAULT_TYPED_MODEL if any(types.values()) or holds_types(run["data"]) else NodeSettings().model
    model = {"model": default, **groups["model"]}
    named = model["model"]
    for name, column in types.items():
        if column and not LAYERS[named].is_relational:
            raise SettingError(f"{spelled(name)} does nothing with --model {named}; leave it out, or {RELATIONAL}.")
    return with_layer("nodes", {**groups, "model": model}, NodeSettings(), GRAPH_RECIPE)


SETTINGS = TaskSettings(
    name="nodes",
    task="edgewise.learn.tasks.nodes.task:TASK",
    run_type=NodeRunSettings,
    format="edgewise node model",
    summary="classes or numbers of the nodes of one graph",
    example="nodes nodes.csv --edges edges.csv --target-columns label",
    signs=(
        Sign(strength=5, flag="edges"),
        Sign(strength=5, endings=(".npz",), holds="holds a graph"),
        Sign(strength=5, inside="store.json", holds="is a store, which holds a graph"),
    ),
    predict_flags=(
        *("coverage", "descriptors_columns", "node_column", "node_type_column"),
        *("edges", "features", "edge_type_column"),
    ),
    estimators=("NodeClassifier", "NodeRegressor"),
    defaults=NODE_DEFAULTS,
    unused=dict.fromkeys(("smiles_columns", "text_columns"), ""),
    choices={"model": layers_for("nodes")},
    derive=sizes_of_layer,
)
