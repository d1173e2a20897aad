"""Everything that decides a run over the nodes of a graph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edgewise.data.columns import AUTO, Columns
from edgewise.data.graphs.source import GraphSource
from edgewise.data.tables.options import array_names
from edgewise.errors import SettingError
from edgewise.models.graph_settings import OF_ALL, OF_ONE_GRAPH, OF_SOME, RELATIONAL, NodeSettings
from edgewise.tasks.config import arranged, check_foreign
from edgewise.tasks.table_job import TableJob
from edgewise.train.settings import TrainSettings, require_one_of

SCALES = ("auto", "rows", "standard", "none")
RECIPE = TrainSettings(
    epochs=200,
    optimizer="adam",
    learning_rate=1e-2,
    final_learning_rate=1e-2,
    warmup=0.0,
    weight_decay=5e-4,
    second_moment_decay=0.999,
    clip_norm=0.0,
    ema_decay=0.0,
    keep="best",
)
"""How a graph is learned where nothing else is asked for: each step sees all of it."""
PAPERS: dict[str, tuple[NodeSettings, TrainSettings]] = {
    "hops": (
        NodeSettings(model="hops"),
        replace(RECIPE, weight_decay=5e-3, epochs=1000, patience=100),
    ),
    "attention": (NodeSettings(model="attention", attention_dropout=0.5), RECIPE),
    "gcn": (NodeSettings(model="gcn", model_dim=16), RECIPE),
    "mean": (NodeSettings(model="mean", model_dim=64), RECIPE),
    "gat": (
        NodeSettings(model="gat", dropout=0.6, attention_dropout=0.6),
        replace(RECIPE, learning_rate=5e-3, final_learning_rate=5e-3, epochs=1000, patience=100),
    ),
    "gatv2": (
        NodeSettings(model="gatv2", dropout=0.6, attention_dropout=0.6),
        replace(RECIPE, learning_rate=5e-3, final_learning_rate=5e-3, epochs=1000, patience=100),
    ),
    "rgcn": (NodeSettings(model="rgcn"), RECIPE),
    "hgt": (
        NodeSettings(model="hgt", dropout=0.2),
        replace(RECIPE, optimizer="adamw", learning_rate=5e-3, final_learning_rate=1e-6),
    ),
}
"""The sizes and the recipe of each model, as its paper has them for citation graphs; flags change them. Those of
rgcn and hgt have other graphs: theirs are the optimizers, and how the rate falls."""
WITH_TYPES = "hgt"
"""The model where nodes or edges are of several kinds and no model is named."""
REMEDY = f"take --model {' or '.join(RELATIONAL)}"
PARTS = {"columns": Columns, "graph": GraphSource, "model": NodeSettings, "train": TrainSettings}
MISSING = {
    "data": "no data file was given: edgewise train nodes.csv --edges edges.csv --target-columns label, or edgewise "
    "train graph.npz (the file stands before flags that take several values).",
}
"""What is said where a setting without a default is not given."""


@dataclass(frozen=True)
class NodeJob(TableJob):
    """One training on the nodes of a graph."""

    graph: GraphSource = field(default_factory=GraphSource)
    """Where the edges are."""
    model: NodeSettings = field(default_factory=NodeSettings)
    """The model."""
    train: TrainSettings = RECIPE
    """The recipe; a step sees the whole graph."""
    feature_scale: str = "auto"
    """Features in units of their spread over all nodes (standard), as parts of their sum over the node's features
    (rows), or as they are (none); auto is rows for bags of words, else standard."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of("--feature-scale", self.feature_scale, SCALES)

    @property
    def files(self) -> tuple[str, ...]:
        """All files that are read."""
        return (*self.data, *(file for file in (self.graph.edges, self.graph.features) if file is not None))


def node_job(config: Mapping[str, Any], source: str = "the settings") -> NodeJob:
    """The job that a flat table describes; the model that it names brings its own sizes and recipe.

    Raises:
        SettingError: A name is not known, or a value is of the wrong kind.
    """
    config = {name.replace("-", "_"): value for name, value in config.items()}
    config.setdefault("node_column", AUTO)
    config.setdefault("task_type", AUTO)
    own, parts = arranged(config, source, NodeJob, PARTS, MISSING)
    kinds = {"--node-type-column": parts["columns"].get("node_type_column")}
    kinds["--edge-type-column"] = parts["graph"].get("edge_type_column")
    usual = WITH_TYPES if any(kinds.values()) or holds_types(own["data"]) else NodeSettings().model
    named = parts["model"].get("model", usual)
    require_one_of("--model", named, tuple(PAPERS), "for nodes ")
    for flag, column in kinds.items():
        if column and named not in RELATIONAL:
            raise SettingError(f"{flag} does nothing with --model {named}; leave it out, or {REMEDY}.")
    model, train = PAPERS[named]
    check_foreign(parts["model"], model, (*OF_ALL, *OF_SOME[named], *OF_ONE_GRAPH.get(named, ())), named)
    if parts["graph"].get("edge_feature_columns") and named != "attention":
        raise SettingError(f"--edge-feature-columns does nothing with --model {named}; only attention looks at edges.")
    return NodeJob(
        **own,
        columns=Columns(**parts["columns"]),
        graph=GraphSource(**parts["graph"]),
        model=replace(model, **parts["model"]),
        train=replace(train, **parts["train"]),
    )


def holds_types(files: Sequence[str]) -> bool:
    """Whether one of the files is a graph with types of nodes or edges."""
    arrays = [array_names(name) for name in files if name.lower().endswith(".npz")]
    return any({"node_type", "edge_type"} & names for names in arrays)
