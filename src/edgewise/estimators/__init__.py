"""From a table of molecules to a trained model in one call: data, model and training composed."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgewise.estimators.molecule import MoleculeClassifier, MoleculeRegressor
    from edgewise.estimators.text import TextClassifier, TextRegressor

_HOMES = {
    "MoleculeClassifier": "molecule",
    "MoleculeRegressor": "molecule",
    "TextClassifier": "text",
    "TextRegressor": "text",
}
__all__ = ["MoleculeClassifier", "MoleculeRegressor", "TextClassifier", "TextRegressor"]


def __getattr__(name: str) -> Any:
    # On first use: the settings beside them are read for `--help`, which must not wait for scikit-learn.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"edgewise.estimators.{_HOMES[name]}"), name)
