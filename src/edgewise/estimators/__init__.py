"""From a file to a trained model in one call: data, model and training composed, a folder for each kind of data."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgewise.estimators.dynamics.estimator import DynamicsModel
    from edgewise.estimators.forecast.estimator import Forecaster
    from edgewise.estimators.graph.estimator import GraphClassifier, GraphRegressor
    from edgewise.estimators.language.estimator import LanguageModel
    from edgewise.estimators.link.estimator import LinkPredictor
    from edgewise.estimators.molecule.estimator import MoleculeClassifier, MoleculeRegressor
    from edgewise.estimators.node.estimator import NodeClassifier, NodeRegressor
    from edgewise.estimators.tagging.estimator import Tagger
    from edgewise.estimators.text.estimator import TextClassifier, TextRegressor
    from edgewise.estimators.translation.estimator import Translator

_HOMES = {
    "DynamicsModel": "dynamics",
    "Forecaster": "forecast",
    "GraphClassifier": "graph",
    "GraphRegressor": "graph",
    "LanguageModel": "language",
    "LinkPredictor": "link",
    "MoleculeClassifier": "molecule",
    "MoleculeRegressor": "molecule",
    "NodeClassifier": "node",
    "NodeRegressor": "node",
    "Tagger": "tagging",
    "TextClassifier": "text",
    "TextRegressor": "text",
    "Translator": "translation",
}
__all__ = [
    "DynamicsModel",
    "Forecaster",
    "GraphClassifier",
    "GraphRegressor",
    "LanguageModel",
    "LinkPredictor",
    "MoleculeClassifier",
    "MoleculeRegressor",
    "NodeClassifier",
    "NodeRegressor",
    "Tagger",
    "TextClassifier",
    "TextRegressor",
    "Translator",
]


def __getattr__(name: str) -> Any:
    # On first use: the settings beside them are read for `--help`, which must not wait for scikit-learn.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from edgewise.view.notebook import register

    register()  # a notebook then shows what faces explain as pages
    return getattr(import_module(f"edgewise.estimators.{_HOMES[name]}.estimator"), name)
