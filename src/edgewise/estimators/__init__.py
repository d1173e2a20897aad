"""scikit-learn compatible estimators over the tasks, and folds over the nodes of a graph."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgewise.estimators.edges import EdgeClassifier, EdgeRegressor
    from edgewise.estimators.forecast import Forecaster
    from edgewise.estimators.graph_input import GraphEdges, GraphNodes
    from edgewise.estimators.graphs import GraphClassifier, GraphRegressor
    from edgewise.estimators.language import LanguageModel
    from edgewise.estimators.links import LinkPredictor
    from edgewise.estimators.molecules import MoleculeClassifier, MoleculeRegressor
    from edgewise.estimators.motion import DynamicsModel
    from edgewise.estimators.nodes import NodeClassifier, NodeRegressor
    from edgewise.estimators.selection import NodeKFold
    from edgewise.estimators.tagging import Tagger
    from edgewise.estimators.texts import TextClassifier, TextRegressor
    from edgewise.estimators.translation import Translator

_HOMES = {
    "DynamicsModel": "motion",
    "EdgeClassifier": "edges",
    "EdgeRegressor": "edges",
    "Forecaster": "forecast",
    "GraphClassifier": "graphs",
    "GraphEdges": "graph_input",
    "GraphNodes": "graph_input",
    "GraphRegressor": "graphs",
    "LanguageModel": "language",
    "LinkPredictor": "links",
    "MoleculeClassifier": "molecules",
    "MoleculeRegressor": "molecules",
    "NodeClassifier": "nodes",
    "NodeKFold": "selection",
    "NodeRegressor": "nodes",
    "Tagger": "tagging",
    "TextClassifier": "texts",
    "TextRegressor": "texts",
    "Translator": "translation",
}
__all__ = [
    "DynamicsModel",
    "EdgeClassifier",
    "EdgeRegressor",
    "Forecaster",
    "GraphClassifier",
    "GraphEdges",
    "GraphNodes",
    "GraphRegressor",
    "LanguageModel",
    "LinkPredictor",
    "MoleculeClassifier",
    "MoleculeRegressor",
    "NodeClassifier",
    "NodeKFold",
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

    register()  # a notebook then shows explanations as pages
    return getattr(import_module(f"edgewise.estimators.{_HOMES[name]}"), name)
