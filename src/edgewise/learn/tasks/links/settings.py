"""The settings of a run over the links of a graph."""

from dataclasses import dataclass, field, replace
from typing import Literal

from edgewise.errors import SettingError
from edgewise.learn.networks.graph_layers import layers_for, with_recipe
from edgewise.learn.networks.graph_settings import LinkSettings, NodeSettings
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.settings import check, setting
from edgewise.learn.tables.columns import AUTO, MISSING, Columns
from edgewise.learn.tables.options import TableFormat
from edgewise.learn.tasks.config import TaskSettings, check_split_sizes
from edgewise.learn.tasks.graph_settings import GRAPH_RECIPE, FeatureScaling, named_layer, unread
from edgewise.learn.training.settings import TrainSettings

RECIPE = replace(GRAPH_RECIPE, epochs=100, patience=20, final_learning_rate=1e-4, weight_decay=0.0, clip_norm=1.0)
"""The default recipe for links; the batch size counts links."""
STEPS_PER_EPOCH = 10
"""Steps in which each training link is predicted once, by default: nine tenths carry messages."""
LAYERS = NodeSettings(model="gcn")
"""The layers by default, without the recipe of the layer."""
SIZES = (0.85, 0.05, 0.1)
FOREIGN = {
    "target_columns": "the targets are the links themselves",
    "weight_column": "all links count the same",
    "group_column": "links are drawn one by one",
    "split": "links are split at random, or by --splits-column of the table of edges",
    "coverage": "a probability has no interval",
    "calibration": "a probability has no interval",
    "ensemble_size": "one model is trained",
    "loss_function": "links are learned by cross-entropy",
    "huber_width": "links are learned by cross-entropy",
    "node_type_column": "no model of links reads types of nodes and edges",
    "edge_type_column": "no model of links reads types of nodes and edges",
    **unread("links"),
}
"""Settings of other tasks, and why they do nothing here."""


@dataclass(frozen=True)
class LinkRunSettings:
    """The settings of a run over the links of a graph."""

    table: TableFormat = field(default_factory=TableFormat, kw_only=True)
    """How tables and texts are written."""
    data: tuple[str, ...]
    """The table of nodes, or the graph in one .npz file."""
    graph: GraphSource = field(default_factory=GraphSource)
    """Where the edges are."""
    model: NodeSettings = with_recipe("links", LAYERS.model, LAYERS)[0]
    """The layers that give nodes their vectors."""
    link: LinkSettings = field(default_factory=LinkSettings)
    """How two vectors become a score."""
    train: TrainSettings = RECIPE
    """The recipe; a step sees the whole graph without the links that it predicts."""
    task_type: Literal["link"] = "link"
    """The one task type."""
    node_column: str = setting(AUTO, metavar="COLUMN")
    """The names of the nodes; `auto` is a column called id, node or node_id, else the row."""
    descriptors_columns: tuple[str, ...] = setting((), metavar="COLUMN", aliases=("feature-columns",))
    """Features of the nodes; by default every column that has no other role."""
    category_columns: tuple[str, ...] = setting((), metavar="COLUMN")
    """Words of a node, such as its element: each is one-hot encoded."""
    ignore_columns: tuple[str, ...] = setting((), metavar="COLUMN")
    """Columns of the nodes without a role."""
    missing: str = setting("impute", choices=MISSING)
    """Features without a number: `impute` fills them with the median of all nodes and marks them; `drop` reads 0."""
    splits_column: str | None = setting(None, metavar="COLUMN")
    """The column of the table of edges with the split (train, val or test) of each link."""
    split_sizes: tuple[float, ...] = setting(SIZES, metavar="FRACTION")
    """Fractions of training, validation and test links."""
    data_seed: int = setting(0, at_least=0)
    """Seed of the split, and of the negative pairs in validation and test."""
    negatives: int = setting(1, at_least=1)
    """Negative pairs for each link, in training, validation and test."""
    scaling: FeatureScaling = field(default_factory=FeatureScaling)
    """How features of nodes are scaled."""
    baselines: bool = setting(True)
    """Whether scores that need no learning are computed on the same pairs."""
    strict: bool = setting(False)
    """Stop at the first bad cell instead of listing it in `rejected.csv`."""

    def __post_init__(self) -> None:
        check(self)
        check_split_sizes(self.split_sizes, 3)
        if self.splits_column is not None and self.split_sizes != SIZES:
            raise SettingError("--split-sizes does nothing beside --splits-column; leave it out.")

    @property
    def columns(self) -> Columns:
        """What each column of the table of nodes is."""
        columns = Columns(
            node_column=self.node_column,
            descriptors_columns=self.descriptors_columns,
            category_columns=self.category_columns,
            ignore_columns=self.ignore_columns,
            missing=self.missing,
        )
        return self.scaling.to_read(columns)


SETTINGS = TaskSettings(
    name="links",
    task="edgewise.learn.tasks.links.task:TASK",
    run_type=LinkRunSettings,
    format="edgewise link model",
    summary="which nodes of a graph are linked",
    example="links nodes.csv --edges edges.csv",
    predict_flags=("descriptors_columns", "node_column", "edges", "features", "nodes"),
    estimators=("LinkPredictor",),
    unused=FOREIGN,
    choices={"model": layers_for("links")},
    derive=named_layer("links", LAYERS, RECIPE),
)
