"""Settings that runs over graphs share: a model that is named by its layer, and how features of nodes are scaled."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from edgewise.errors import SettingError
from edgewise.learn.files import JsonObject
from edgewise.learn.networks.graph_layers import LAYERS, Task, layers_for, with_recipe
from edgewise.learn.networks.graph_settings import NodeSettings
from edgewise.learn.settings import Values, check, setting, spelled
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tables.options import array_names
from edgewise.learn.training.settings import TrainSettings

GRAPH_RECIPE = TrainSettings(
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
"""The default recipe for one graph: each step sees all of it."""


@dataclass(frozen=True)
class FeatureScaling:
    """How features of the nodes of one graph are scaled."""

    feature_scale: str = setting("auto", choices=("auto", "rows", "standard", "none"))
    """Features of nodes: z-scores per node type, also of logarithms of values over decades (standard);
    x / Σ|x| over a node (rows); or as they are (none); auto is rows for bags of words, else standard."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def missing(self) -> str:
        """What is done with missing numbers: features that are not scaled by their spread are not filled."""
        return "drop" if self.feature_scale in ("rows", "none") else "impute"

    def to_read(self, columns: Columns) -> Columns:
        """The columns as a run reads them."""
        return replace(columns, missing="drop") if self.missing == "drop" else columns


def holds_types(files: Sequence[str]) -> bool:
    """Whether one of the files is a graph that says the types of its nodes or edges."""
    arrays = [array_names(name) for name in files if name.lower().endswith(".npz")]
    return any({"node_type", "edge_type"} & names for names in arrays)


def unread(task: Task) -> dict[str, str]:
    """The settings of layers that no layer of a task reads, and why they do nothing."""
    names = {name for layer in layers_for(task) for name in LAYERS[layer].readable(task)}
    return {field.name: "no model of this task reads it" for field in fields(NodeSettings) if field.name not in names}


def named_layer(
    task: Task, model: NodeSettings, train: TrainSettings, *, head_reads_edges: bool = False
) -> Callable[[Values, Mapping[str, Values]], Values]:
    """What derives the settings of a task whose model brings its own sizes and recipe; see `with_layer`."""
    return lambda run, groups: with_layer(task, groups, model, train, head_reads_edges=head_reads_edges)


def check_model_reads(given: Mapping[str, object], defaults: object, read: Sequence[str], name: str) -> None:
    """Raise SettingError where a setting was changed that the model `name` does not read.

    Args:
        given: What was given; a run that is continued gives everything, unchanged.
        defaults: The settings of the model by default.
        read: Those that it reads.
        name: What it is called.
    """
    for changed, value in given.items():
        if changed not in read and value != getattr(defaults, changed):
            raise SettingError(f"{spelled(changed)} does nothing with --model {name}; leave it out.")


def with_layer(
    task: Task,
    groups: Mapping[str, Values],
    model: Any,
    train: Any,
    also: Sequence[str] = (),
    head_reads_edges: bool = False,
) -> JsonObject:
    """The groups `model` and `train`: those of the task, changed by the recipe of the named layer and by what is given.

    Args:
        task: One that has graph layers.
        groups: What is given for each group of settings.
        model: The settings of the task, which name its layer by default.
        train: Its recipe.
        also: Settings of `model` that are read whatever the layer is.
        head_reads_edges: Whether edge features are read after the layers too.

    Raises:
        SettingError: A setting is given that the layer does not read.
    """
    name = groups["model"].get("model", model.model)
    defaults, recipe = with_recipe(task, name, model, train)
    check_model_reads(groups["model"], defaults, (*LAYERS[name].readable(task), *also), name)
    numbers, words = (
        groups["graph"].get(f"edge_{feature_type}_columns", ()) for feature_type in ("feature", "category")
    )
    if (numbers or words) and not head_reads_edges:
        flag = spelled("edge_feature_columns" if numbers else "edge_category_columns")
        LAYERS[name].check_edge_features(flag, None if words else len(numbers))
    return {"model": replace(defaults, **groups["model"]), "train": replace(recipe, **groups["train"])}
