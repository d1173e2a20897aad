"""Everything that decides a run over the links of a graph."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from edgewise.data.columns import AUTO, Columns
from edgewise.data.graphs.source import GraphSource
from edgewise.errors import SettingError
from edgewise.models.graph_settings import DECODERS, OF_ALL, OF_SOME, LinkSettings, NodeSettings
from edgewise.tasks.config import arranged, check_foreign, check_three_parts
from edgewise.tasks.nodes.job import SCALES
from edgewise.train.settings import TrainSettings, require, require_one_of

RECIPE = TrainSettings(
    epochs=100,
    patience=20,
    optimizer="adam",
    learning_rate=1e-2,
    final_learning_rate=1e-4,
    warmup=0.0,
    weight_decay=0.0,
    second_moment_decay=0.999,
    clip_norm=1.0,
    ema_decay=0.0,
    keep="best",
)
"""How links are learned where nothing else is asked for; the batch size counts links."""
STEPS_AN_EPOCH = 10
"""Steps in which all training links are told once, where no batch size says otherwise: nine tenths carry messages."""
USUAL: dict[str, NodeSettings] = {
    "hops": NodeSettings(model="hops"),
    "attention": NodeSettings(model="attention", attention_dropout=0.1),
    "gcn": NodeSettings(model="gcn", model_dim=128),
    "mean": NodeSettings(model="mean", model_dim=128),
    "gat": NodeSettings(model="gat"),
    "gatv2": NodeSettings(model="gatv2"),
}
"""The sizes of each model; flags change them."""
DEFAULT = "gcn"
"""The model where none is named."""
SIZES = (0.85, 0.05, 0.1)
PARTS = {"graph": GraphSource, "model": NodeSettings, "link": LinkSettings, "train": TrainSettings}
MISSING = {
    "data": "no data file was given: edgewise train nodes.csv --edges edges.csv --task-type link, or edgewise train "
    "graph.npz --task-type link (the file stands before flags that take several values)."
}
FOREIGN = {
    "target_columns": "the targets are the links themselves",
    "weight_column": "all links count the same",
    "group_column": "links are drawn one by one",
    "split": "links are parted at random, or by --splits-column of the table of edges",
    "coverage": "a probability has no interval",
    "ensemble_size": "one model is trained",
    "loss_function": "links are learned by cross-entropy",
    "huber_width": "links are learned by cross-entropy",
    "node_type_column": "no model of links looks at kinds of nodes and edges",
    "edge_type_column": "no model of links looks at kinds of nodes and edges",
}
"""Flags of other tasks, and why they do nothing here."""


@dataclass(frozen=True)
class LinkJob:
    """One training on the links of a graph."""

    data: tuple[str, ...]
    """The table of nodes, or the graph in one .npz file."""
    graph: GraphSource = field(default_factory=GraphSource)
    """Where the edges are."""
    model: NodeSettings = USUAL[DEFAULT]
    """The layers that give nodes their vectors."""
    link: LinkSettings = field(default_factory=LinkSettings)
    """What is made of two vectors."""
    train: TrainSettings = RECIPE
    """The recipe; a step sees the whole graph but the links that it tells."""
    task_type: Literal["link"] = "link"
    """What is learned."""
    node_column: str = AUTO
    """The names of the nodes; `auto` is a column that is called so, else the row."""
    descriptors_columns: tuple[str, ...] = ()
    """Features of the nodes; where it is empty, every column that has no other role."""
    ignore_columns: tuple[str, ...] = ()
    """Columns of the nodes without a role."""
    splits_column: str | None = None
    """The column of the table of edges that says train, val or test."""
    split_sizes: tuple[float, ...] = SIZES
    """The parts of training, validation and test links."""
    data_seed: int = 0
    """Seed of the parts, and of the pairs that are no link in validation and test."""
    negatives: int = 1
    """Pairs that are no link for each link, in training, validation and test."""
    feature_scale: str = "auto"
    """As for nodes."""
    baselines: bool = True
    """Whether what needs no learning is scored on the same pairs."""
    strict: bool = False
    """Whether a bad cell stops the run instead of being listed in `rejected.csv`."""

    def __post_init__(self) -> None:
        check_three_parts(self.split_sizes)
        require("--data-seed", self.data_seed, self.data_seed >= 0, "at least 0")
        require("--negatives", self.negatives, self.negatives >= 1, "at least 1")
        require_one_of("--feature-scale", self.feature_scale, SCALES)
        if self.splits_column is not None and self.split_sizes != SIZES:
            raise SettingError("--split-sizes does nothing beside --splits-column, which says the parts; leave it out.")

    @property
    def columns(self) -> Columns:
        """What each column of the table of nodes is."""
        return Columns(
            node_column=self.node_column,
            descriptors_columns=self.descriptors_columns,
            ignore_columns=self.ignore_columns,
        )

    @property
    def files(self) -> tuple[str, ...]:
        """All files that are read."""
        return (*self.data, *(file for file in (self.graph.edges, self.graph.features) if file is not None))


def link_job(config: Mapping[str, Any], source: str = "the settings") -> LinkJob:
    """The job that a flat table describes; the model that it names brings its own sizes.

    Raises:
        SettingError: A name is not known, a value is of the wrong kind, or a setting does nothing for links.
    """
    config = {name.replace("-", "_"): value for name, value in config.items()}
    for name, why in FOREIGN.items():
        usual = getattr(RECIPE, name, None)
        if config.get(name, usual) not in (usual, []):
            raise SettingError(f"--{name.replace('_', '-')} does nothing with --task-type link: {why}; leave it out.")
    own, parts = arranged(config, source, LinkJob, PARTS, MISSING)
    named = parts["model"].get("model", DEFAULT)
    require_one_of("--model", named, tuple(USUAL), "for links ")
    require_one_of("--decoder", parts["link"].get("decoder", DECODERS[0]), DECODERS)
    check_foreign(parts["model"], USUAL[named], (*OF_ALL, *OF_SOME[named]), named)
    if parts["graph"].get("edge_feature_columns") and named != "attention":
        raise SettingError(f"--edge-feature-columns does nothing with --model {named}; only attention looks at edges.")
    return LinkJob(
        **own,
        graph=GraphSource(**parts["graph"]),
        model=replace(USUAL[named], **parts["model"]),
        link=LinkSettings(**parts["link"]),
        train=replace(RECIPE, **parts["train"]),
    )
