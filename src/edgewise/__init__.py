"""Attention over words and edges: one operator for sequences and graphs.

    from edgewise import attend, Edges, Causal

Names are imported on first use, so that the command line answers before torch is loaded.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # `X as X` is what a strict type checker takes for an export
    from edgewise.attend import aggregate as aggregate
    from edgewise.attend import attend as attend
    from edgewise.attend import attention_weights as attention_weights
    from edgewise.attend import why as why
    from edgewise.backends.capture import capture as capture
    from edgewise.errors import DataError as DataError
    from edgewise.errors import EdgewiseError as EdgewiseError
    from edgewise.errors import MissingExtraError as MissingExtraError
    from edgewise.errors import RunFolderError as RunFolderError
    from edgewise.errors import SettingError as SettingError
    from edgewise.errors import ShapeError as ShapeError
    from edgewise.errors import UnsupportedError as UnsupportedError
    from edgewise.errors import WriteError as WriteError
    from edgewise.graph import Graph as Graph
    from edgewise.graph import Trace as Trace
    from edgewise.graph import WeightedGraph as WeightedGraph
    from edgewise.graph import Weights as Weights
    from edgewise.layers import MeanConvolution as MeanConvolution
    from edgewise.layers import MultiHeadAttention as MultiHeadAttention
    from edgewise.layers import Readout as Readout
    from edgewise.layers import ResidualBlock as ResidualBlock
    from edgewise.layers import SymmetricConvolution as SymmetricConvolution
    from edgewise.learn.estimators import *  # noqa: F403
    from edgewise.neighborhood import Causal as Causal
    from edgewise.neighborhood import Edges as Edges
    from edgewise.neighborhood import Full as Full
    from edgewise.neighborhood import Lengths as Lengths
    from edgewise.neighborhood import Mask as Mask
    from edgewise.neighborhood import Segments as Segments
    from edgewise.neighborhood import Window as Window
    from edgewise.normalize import Entmax15 as Entmax15
    from edgewise.normalize import Hardmax as Hardmax
    from edgewise.normalize import Identity as Identity
    from edgewise.normalize import Mean as Mean
    from edgewise.normalize import Sigmoid as Sigmoid
    from edgewise.normalize import Softmax as Softmax
    from edgewise.normalize import Sparsemax as Sparsemax
    from edgewise.score import GAT as GAT
    from edgewise.score import Additive as Additive
    from edgewise.score import Bilinear as Bilinear
    from edgewise.score import Constant as Constant
    from edgewise.score import Cosine as Cosine
    from edgewise.score import Distance as Distance
    from edgewise.score import Dot as Dot
    from edgewise.score import GATv2 as GATv2
    from edgewise.score import ScaledDot as ScaledDot

__version__ = "0.2.0"

_HOMES = {
    "edgewise.attend": ["aggregate", "attend", "attention_weights", "why"],
    "edgewise.backends.capture": ["capture"],
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
    "edgewise.graph": ["Graph", "Trace", "WeightedGraph", "Weights"],
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
        value = getattr(import_module(_HOME_OF.get(name, "edgewise.learn.estimators")), name)
        setattr(sys.modules[__name__], name, value)
        return value
    raise AttributeError(f"module 'edgewise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*sorted([*_HOME_OF, *_estimators()]), "__version__"]


def _estimators() -> list[str]:
    """The estimators, which the settings of tasks declare."""
    names: list[str] = import_module("edgewise.learn.estimators").__all__
    return names


class _Package(ModuleType):
    """`edgewise.attend` is a function and the file it lives in; the name means the function, in whatever order."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value.attend if name == "attend" and isinstance(value, ModuleType) else value)


sys.modules[__name__].__class__ = _Package
