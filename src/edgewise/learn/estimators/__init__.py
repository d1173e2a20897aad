"""scikit-learn compatible estimators over the tasks, and folds over the nodes of a graph.

Their classes stand in classes.py, which docs/estimators.py writes.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # written by docs/tasks.py
    from edgewise.learn.estimators.classes import DynamicsModel as DynamicsModel
    from edgewise.learn.estimators.classes import EdgeClassifier as EdgeClassifier
    from edgewise.learn.estimators.classes import EdgeRegressor as EdgeRegressor
    from edgewise.learn.estimators.classes import Forecaster as Forecaster
    from edgewise.learn.estimators.classes import GraphClassifier as GraphClassifier
    from edgewise.learn.estimators.classes import GraphRegressor as GraphRegressor
    from edgewise.learn.estimators.classes import LanguageModel as LanguageModel
    from edgewise.learn.estimators.classes import LinkPredictor as LinkPredictor
    from edgewise.learn.estimators.classes import MoleculeClassifier as MoleculeClassifier
    from edgewise.learn.estimators.classes import MoleculeRegressor as MoleculeRegressor
    from edgewise.learn.estimators.classes import NodeClassifier as NodeClassifier
    from edgewise.learn.estimators.classes import NodeRegressor as NodeRegressor
    from edgewise.learn.estimators.classes import Tagger as Tagger
    from edgewise.learn.estimators.classes import TextClassifier as TextClassifier
    from edgewise.learn.estimators.classes import TextRegressor as TextRegressor
    from edgewise.learn.estimators.classes import Translator as Translator
    from edgewise.learn.estimators.graph_input import GraphEdges as GraphEdges
    from edgewise.learn.estimators.graph_input import GraphNodes as GraphNodes
    from edgewise.learn.estimators.selection import NodeKFold as NodeKFold

NAMES = (
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
)


def __getattr__(name: str) -> object:
    # On first use: `--help` must wait neither for torch nor for scikit-learn.
    if name == "__all__":
        return list(NAMES)
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from edgewise.learn.estimators import classes, graph_input, selection
    from edgewise.view.notebook import register

    register()  # a notebook then shows explanations as pages
    for module in (classes, graph_input, selection):
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(NAMES)
