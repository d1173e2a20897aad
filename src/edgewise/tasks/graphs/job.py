"""Everything that decides a run over many graphs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from edgewise.data.columns import AUTO
from edgewise.data.graphs.source import GraphColumns, GraphsSource
from edgewise.errors import SettingError
from edgewise.models.graph_settings import (
    GRAPH_READOUTS,
    NODE_MODELS,
    OF_ALL,
    OF_SOME,
    RELATIONAL,
    GraphSettings,
    NodeSettings,
)
from edgewise.tasks.config import arranged, check_foreign
from edgewise.tasks.table_job import TableJob
from edgewise.train.settings import TrainSettings, require_one_of

MODELS = tuple(name for name in NODE_MODELS if name not in RELATIONAL)
LAYERS = NodeSettings(model="attention", num_layers=3, num_heads=4, model_dim=64, dropout=0.05)
"""The layers over the edges where nothing else is asked for."""
PARTS = {
    "columns": GraphColumns,
    "graph": GraphsSource,
    "model": NodeSettings,
    "whole": GraphSettings,
    "train": TrainSettings,
}
MISSING = {
    "data": "no data file was given: edgewise train nodes.csv --edges edges.csv --graph-column graph --target-columns "
    "y (the file stands before flags that take several values).",
}
"""What is said where a setting without a default is not given."""


@dataclass(frozen=True)
class GraphJob(TableJob):
    """One training on many graphs."""

    columns: GraphColumns
    """What each column is."""
    graph: GraphsSource = field(default_factory=GraphsSource)
    """Where the edges are."""
    model: NodeSettings = LAYERS
    """The layers over the edges."""
    whole: GraphSettings = field(default_factory=GraphSettings)
    """How the nodes of a graph become one vector."""

    @property
    def files(self) -> tuple[str, ...]:
        """All files that are read."""
        others = (self.graph.edges, self.graph.features, self.graph.graphs)
        return (*self.data, *(file for file in others if file is not None))


def graph_job(config: Mapping[str, Any], source: str = "the settings") -> GraphJob:
    """The job that a flat table describes.

    Raises:
        SettingError: A name is not known, a value is of the wrong kind, or it does nothing with what else is chosen.
    """
    config = {name.replace("-", "_"): value for name, value in config.items()}
    config.setdefault("node_column", AUTO)
    config.setdefault("task_type", AUTO)
    own, parts = arranged(config, source, GraphJob, PARTS, MISSING)
    named = parts["model"].get("model", LAYERS.model)
    require_one_of("--model", named, MODELS, "for graphs ")
    if parts["columns"].get("node_type_column") or parts["graph"].get("edge_type_column"):
        raise SettingError(
            "--node-type-column and --edge-type-column do nothing with --graph-column: no model of many graphs looks "
            "at kinds; name the words of nodes with --category-columns, or leave them out."
        )
    readout = parts["whole"].get("readout", GraphSettings().readout)
    require_one_of("--readout", readout, GRAPH_READOUTS, "for graphs ")
    attends = readout in ("attention", "attention_sum", "root")
    model = replace(LAYERS, model=named)
    check_foreign(parts["model"], model, (*OF_ALL, *OF_SOME[named], *(("num_heads",) if attends else ())), named)
    model = replace(model, **parts["model"])
    if attends and model.model_dim % model.num_heads:
        raise SettingError(f"--model-dim ({model.model_dim}) must be a multiple of --num-heads ({model.num_heads}).")
    if parts["graph"].get("edge_feature_columns") and named != "attention":
        raise SettingError(f"--edge-feature-columns does nothing with --model {named}; only attention looks at edges.")
    return GraphJob(
        **own,
        columns=GraphColumns(**parts["columns"]),
        graph=GraphsSource(**parts["graph"]),
        model=model,
        whole=GraphSettings(**parts["whole"]),
        train=TrainSettings(**parts["train"]),
    )
