"""The settings of a run over the nodes of a graph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from edgewise.data.columns import AUTO
from edgewise.data.graphs.source import GraphSource
from edgewise.data.tables.options import array_names
from edgewise.errors import SettingError
from edgewise.models.graph_settings import OF_ALL, OF_ONE_GRAPH, OF_SOME, RELATIONAL, NodeSettings
from edgewise.settings import setting, spelled
from edgewise.tasks.config import check_edge_features, check_foreign
from edgewise.tasks.table_job import TableJob
from edgewise.train.settings import TrainSettings

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
    checkpoint="best",
)
"""How a graph is learned by default: each step sees all of it."""
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
TYPE_COLUMNS = {"node_type_column": "columns", "edge_type_column": "graph"}
"""Columns that give nodes and edges their types, and the group of settings they stand in."""
REMEDY = f"take --model {' or '.join(RELATIONAL)}"


@dataclass(frozen=True)
class NodeJob(TableJob):
    """The settings of a run over the nodes of a graph."""

    SUMMARY = "classes or numbers of the nodes of one graph"
    EXAMPLE = "nodes nodes.csv --edges edges.csv --target-columns label"
    FOREIGN = dict.fromkeys(("smiles_columns", "text_columns"), "")
    CHOICES: ClassVar = {"model": tuple(PAPERS)}

    graph: GraphSource = field(default_factory=GraphSource)
    """Where the edges are."""
    model: NodeSettings = field(default_factory=NodeSettings)
    """The model."""
    train: TrainSettings = RECIPE
    """The recipe; a step sees the whole graph."""
    feature_scale: str = setting("auto", choices=SCALES)
    """Features in units of their spread over all nodes (standard), as fractions of their sum over the node's features
    (rows), or as they are (none); auto is rows for bags of words, else standard."""

    @property
    def files(self) -> tuple[str, ...]:
        """All files that are read."""
        return (*self.data, *(file for file in (self.graph.edges, self.graph.features) if file is not None))

    @classmethod
    def build(cls, own: dict[str, Any], groups: dict[str, dict[str, Any]], **made: Any) -> Self:
        """As of every run; the named model brings its own sizes and recipe."""
        types = {name: groups[group].get(name) for name, group in TYPE_COLUMNS.items()}
        usual = WITH_TYPES if any(types.values()) or holds_types(own["data"]) else NodeSettings().model
        named = groups["model"].get("model", usual)
        for name, column in types.items():
            if column and named not in RELATIONAL:
                raise SettingError(f"{spelled(name)} does nothing with --model {named}; leave it out, or {REMEDY}.")
        model, train = PAPERS[named]
        check_foreign(groups["model"], model, (*OF_ALL, *OF_SOME[named], *OF_ONE_GRAPH.get(named, ())), named)
        check_edge_features(groups["graph"], named)
        made = {"model": replace(model, **groups["model"]), "train": replace(train, **groups["train"])}
        return super().build(own, groups, **made)


def node_job(config: Mapping[str, Any], source: str = "the settings") -> NodeJob:
    """The settings that a flat table describes; a row is a node, and targets are what they look like."""
    config = {name.replace("-", "_"): value for name, value in config.items()}
    return NodeJob.of({"node_column": AUTO, "task_type": AUTO, **config}, source)


def holds_types(files: Sequence[str]) -> bool:
    """Whether one of the files is a graph that says the types of its nodes or edges."""
    arrays = [array_names(name) for name in files if name.lower().endswith(".npz")]
    return any({"node_type", "edge_type"} & names for names in arrays)


SETTINGS = NodeJob
