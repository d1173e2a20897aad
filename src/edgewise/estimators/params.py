"""The settings of an estimator, as scikit-learn handles them, and in its run folder."""

import tomllib
from dataclasses import fields
from typing import Any, Self

import numpy as np
import tomli_w

from edgewise.data.columns import Columns
from edgewise.data.graphs.source import GraphColumns, GraphSource, GraphsSource
from edgewise.train.folder import RunFolder, corrupt_as_run_error

try:
    from sklearn.base import BaseEstimator
except ModuleNotFoundError:
    # A model of texts is loaded and used without scikit-learn.
    BaseEstimator = object  # type: ignore[assignment, misc]

OF_FILES = {"data", "task_type", "split", "split_sizes", "data_seed", "strict", "baselines", "time_column"} | {
    each.name for kind in (Columns, GraphColumns, GraphSource, GraphsSource) for each in fields(kind)
}
"""Settings of a run over files, for which an estimator over arrays has no use."""
KEY = "estimator"
"""Where model.json holds the settings that an estimator was made with, as TOML, which has infinity."""


class Settings(BaseEstimator):
    """Any settings of the command line, by their names in Python.

    Args:
        settings: Any of them.
    """

    def __init__(self, **settings: Any):
        self.settings = settings

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings that were given; after `load`, those that the model was trained with."""
        return dict(self.settings)

    def set_params(self, **settings: Any) -> Self:
        """Gives other settings."""
        self.settings = {**self.settings, **settings}
        return self


def save_params(folder: RunFolder, params: dict[str, Any]) -> None:
    """Adds the settings of an estimator to the model of its folder; those that are None are left out."""
    text = tomli_w.dumps(_plain(params))
    folder.write_json("model.json", {**folder.read_json("model.json"), KEY: text})


def load_params(folder: RunFolder, own: tuple[str, ...] = ()) -> dict[str, Any]:
    """The settings that the model of a folder was trained with: those of its estimator, or of its command.

    Args:
        folder: A finished run.
        own: Names in `OF_FILES` that this estimator has a use for.
    """
    text = folder.read_json("model.json").get(KEY)
    if isinstance(text, str):
        with corrupt_as_run_error(folder.path):
            return tomllib.loads(text)
    if not folder.is_begun:
        return {}
    config = {name.replace("-", "_"): value for name, value in folder.read_config().items()}
    return {name: value for name, value in config.items() if name not in OF_FILES or name in own}


def _plain(value: Any) -> Any:
    """Numbers of numpy as Python's, and nothing that is None."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value.item() if isinstance(value, np.generic) else value
