"""Attention over words and edges: one operator for sequences and graphs.

    from edgewise import attend, Edges, Causal

Names are imported on first use, so that the command line answers before torch is loaded.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgewise.attend import aggregate, attend, attention_weights, why
    from edgewise.errors import (
        DataError,
        EdgewiseError,
        MissingExtraError,
        RunFolderError,
        SettingError,
        ShapeError,
        UnsupportedError,
        WriteError,
    )
    from edgewise.estimators import *  # noqa: F403
    from edgewise.graph import Graph, Weights
    from edgewise.layers import MeanConvolution, MultiHeadAttention, Readout, ResidualBlock, SymmetricConvolution
    from edgewise.neighborhood import Causal, Edges, Full, Lengths, Mask, Segments, Window
    from edgewise.normalize import Entmax15, Hardmax, Identity, Mean, Sigmoid, Softmax, Sparsemax
    from edgewise.score import GAT, Additive, Bilinear, Constant, Cosine, Distance, Dot, GATv2, ScaledDot
    from edgewise.trace import Trace, WeightedGraph

__version__ = "0.1.0"

_HOMES = {
    "edgewise.attend": ["aggregate", "attend", "attention_weights", "why"],
    "edgewise.errors": [
        "DataError",
        "EdgewiseError",
        "MissingExtraError",
        "RunFolderError",
        "SettingError",
        "ShapeError",
        "UnsupportedError",
        "WriteError",
    ],
    "edgewise.graph": ["Graph", "Weights"],
    "edgewise.layers": ["MeanConvolution", "MultiHeadAttention", "Readout", "ResidualBlock", "SymmetricConvolution"],
    "edgewise.neighborhood": ["Causal", "Edges", "Full", "Lengths", "Mask", "Segments", "Window"],
    "edgewise.normalize": ["Entmax15", "Hardmax", "Identity", "Mean", "Sigmoid", "Softmax", "Sparsemax"],
    "edgewise.score": [
        "GAT",
        "Additive",
        "Bilinear",
        "Constant",
        "Cosine",
        "Distance",
        "Dot",
        "GATv2",
        "ScaledDot",
    ],
    "edgewise.trace": ["Trace", "WeightedGraph"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
# What the estimators import. Without one of these `from edgewise import *` gives the operator and the layers alone.
_EXTRAS = ("pandas", "pyarrow", "rdkit", "scipy", "sklearn", "tokenizers")


def __getattr__(name: str) -> Any:
    if name == "__all__":
        has_extras = all(find_spec(package) is not None for package in _EXTRAS)
        return [*sorted([*_HOME_OF, *(_estimators() if has_extras else ())]), "__version__"]
    # Modules are looked up here too before they are imported: only names of classes may be those of estimators.
    if name in _HOME_OF or (name[:1].isupper() and name in _estimators()):
        value = getattr(import_module(_HOME_OF.get(name, "edgewise.estimators")), name)
        setattr(sys.modules[__name__], name, value)
        return value
    raise AttributeError(f"module 'edgewise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*sorted([*_HOME_OF, *_estimators()]), "__version__"]


def _estimators() -> list[str]:
    """The estimators, which the settings of tasks declare."""
    found: list[str] = import_module("edgewise.estimators").__all__
    return found


class _Package(ModuleType):
    """`edgewise.attend` is a function and the file it lives in; the name means the function, in whatever order."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value.attend if name == "attend" and isinstance(value, ModuleType) else value)


sys.modules[__name__].__class__ = _Package
