"""scikit-learn compatible estimators over the tasks, and folds over the nodes of a graph.

Those of a task are declared in its settings, and stand in the file that is called like the task.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # written by docs/tasks.py
    from edgewise.learn.estimators.edges import EdgeClassifier as EdgeClassifier
    from edgewise.learn.estimators.edges import EdgeRegressor as EdgeRegressor
    from edgewise.learn.estimators.forecast import Forecaster as Forecaster
    from edgewise.learn.estimators.graph_input import GraphEdges as GraphEdges
    from edgewise.learn.estimators.graph_input import GraphNodes as GraphNodes
    from edgewise.learn.estimators.graphs import GraphClassifier as GraphClassifier
    from edgewise.learn.estimators.graphs import GraphRegressor as GraphRegressor
    from edgewise.learn.estimators.language import LanguageModel as LanguageModel
    from edgewise.learn.estimators.links import LinkPredictor as LinkPredictor
    from edgewise.learn.estimators.molecules import MoleculeClassifier as MoleculeClassifier
    from edgewise.learn.estimators.molecules import MoleculeRegressor as MoleculeRegressor
    from edgewise.learn.estimators.motion import DynamicsModel as DynamicsModel
    from edgewise.learn.estimators.nodes import NodeClassifier as NodeClassifier
    from edgewise.learn.estimators.nodes import NodeRegressor as NodeRegressor
    from edgewise.learn.estimators.selection import NodeKFold as NodeKFold
    from edgewise.learn.estimators.tagging import Tagger as Tagger
    from edgewise.learn.estimators.texts import TextClassifier as TextClassifier
    from edgewise.learn.estimators.texts import TextRegressor as TextRegressor
    from edgewise.learn.estimators.translation import Translator as Translator

OTHERS = {"GraphEdges": "graph_input", "GraphNodes": "graph_input", "NodeKFold": "selection"}
"""Classes that belong to no task, and their files."""


def _homes() -> dict[str, str]:
    """The file of each class."""
    from edgewise.learn.tasks.registry import own_names, settings_of

    return OTHERS | {each: name for name in own_names() for each in settings_of(name).ESTIMATORS}


def __getattr__(name: str) -> Any:
    # On first use: the settings beside them are read for `--help`, which must not wait for scikit-learn.
    if name == "__all__":
        return sorted(_homes())
    if not name[:1].isupper() or name not in _homes():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from edgewise.view.notebook import register

    register()  # a notebook then shows explanations as pages
    return getattr(import_module(f"edgewise.learn.estimators.{_homes()[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_homes())
