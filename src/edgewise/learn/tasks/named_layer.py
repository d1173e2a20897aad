"""Settings of a run whose model is named by a graph layer, which brings its own sizes and recipe."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from edgewise.errors import SettingError
from edgewise.learn.files import JsonObject
from edgewise.learn.networks.graph_layers import LAYERS, Task, with_recipe
from edgewise.learn.settings import Values, spelled


def check_foreign(given: Mapping[str, object], usual: object, own: Sequence[str], name: str) -> None:
    """Raise SettingError where a setting was changed that the model `name` does not read.

    Args:
        given: What was given; a run that is continued gives everything, unchanged.
        usual: The settings of the model.
        own: Those that it reads.
        name: What it is called.
    """
    for setting, value in given.items():
        if setting not in own and value != getattr(usual, setting):
            raise SettingError(f"{spelled(setting)} does nothing with --model {name}; leave it out.")


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
        head_reads_edges: Whether edge features are read behind the layers too.

    Raises:
        SettingError: A setting is given that the layer does not read.
    """
    name = groups["model"].get("model", model.model)
    usual, recipe = with_recipe(task, name, model, train)
    check_foreign(groups["model"], usual, (*LAYERS[name].readable(task), *also), name)
    numbers, words = (
        groups["graph"].get(f"edge_{feature_type}_columns", ()) for feature_type in ("feature", "category")
    )
    if (numbers or words) and not head_reads_edges:
        flag = spelled("edge_feature_columns" if numbers else "edge_category_columns")
        LAYERS[name].check_edge_features(flag, None if words else len(numbers))
    return {"model": replace(usual, **groups["model"]), "train": replace(recipe, **groups["train"])}
