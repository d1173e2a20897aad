"""What a written estimator is made of: its arguments, methods and parameters, and what several estimators share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_args

from edgewise.learn.networks.text_settings import CONFIGURATIONS, EncoderName


@dataclass(frozen=True)
class Argument:
    """An argument of a method."""

    name: str
    type: str
    meaning: str = ""
    default: str | None = "None"
    """As it is written; None where the argument is required."""
    by_name: bool = False
    """Whether it is given by name alone."""


@dataclass(frozen=True)
class Method:
    """A method of a class."""

    name: str
    arguments: tuple[Argument, ...]
    returns: str
    text: str
    body: str
    raises: Mapping[str, str] = field(default_factory=dict)
    decorator: str = ""


@dataclass(frozen=True)
class EstimatorClass:
    """A class, and what its parameters follow from."""

    name: str
    task: str
    bases: tuple[str, ...]
    text: str
    methods: tuple[Method, ...]
    models: tuple[object, ...] = ()
    """The models, by name or settings, whose settings become parameters, beside those of the default."""
    placeholders: Mapping[str, object] = field(default_factory=lambda: {"data": ("the data",)})
    """Settings that a job needs, but an estimator does not: names of files and columns."""
    keep: tuple[str, ...] = ()
    """Settings of runs over files that the estimator needs, too."""
    own: Mapping[str, object] = field(default_factory=dict)
    """Parameters that are not settings, or have another default."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """What `fit` and `load` set, and what it is."""
    annotations: tuple[str, ...] = ()
    """The types of attributes that no base declares."""


# What all estimators have

TRAINED = {
    "trained_": "The trained model.",
    "metrics_": "Its scores on the validation rows; of a run of the command line, those of all splits.",
    "column_names_": "The names of the columns of DataFrames, by argument.",
    "feature_names_in_": "(column): those of X, where it was a DataFrame.",
}
FOLDER = "str | os.PathLike[str]"
SAVE = Method(
    "save",
    (
        Argument("folder", FOLDER, "Where.", None),
        Argument("overwrite", "bool", "Whether a run in it is replaced.", "False", True),
    ),
    "None",
    "Write the trained model to a folder, which `load` and the commands of `edgewise` read.",
    "state.save(self, folder, overwrite=overwrite)",
    {"NotFittedError": "There is none yet.", "RunFolderError": "The folder holds a run, and `overwrite` is False."},
)


def loading(body: str) -> Method:
    """The method that opens a run folder."""
    return Method(
        "load",
        (Argument("folder", FOLDER, "The run folder.", None),),
        "Self",
        "Open a run folder that `save` or `edgewise train` wrote, with the parameters of its training.",
        body,
        {"RunFolderError": "It is damaged, or holds a model for another task."},
        "classmethod",
    )


def tags(arguments: str = "") -> Method:
    """What scikit-learn asks about an estimator."""
    text = "What scikit-learn asks: which data it reads."
    return Method("__sklearn_tags__", (), '"Tags"', text, f"return tags_of(super().__sklearn_tags__(){arguments})")


# Arguments of several estimators

TARGET = Argument("target", "str | None", "The target that is explained; the first by default.", by_name=True)
LABEL = Argument(
    "label", "object", "The class whose probability is explained; the predicted one by default.", by_name=True
)
HOPS = Argument(
    "hops", "int | None", "How far away nodes are shown; by default as far as the model looks.", by_name=True
)
METHODS = Argument("methods", '"Choice"', "Names of methods; see `edgewise.explain.methods`.", by_name=True)
TOP = Argument("top", "int | None", "How many of the strongest weights of each token are shown.", by_name=True)
GRAPH = Argument(
    "X",
    '"GraphInput | None"',
    "A graph: `Graph`, PyTorch Geometric's `Data`, a graph of networkx, `{rows}`; or the features of its nodes (node, "
    "feature), a sparse matrix or a DataFrame, too, with `edges` beside them; None where nothing is known of them.",
    None,
)
EDGES = Argument(
    "edges",
    '"EdgesInput | None"',
    "The edges beside features of nodes: `Edges`; whole numbers (2, edge), senders in the first row, as PyTorch "
    "Geometric's `edge_index`; or a sparse matrix of SciPy or torch, whose entry [i, j] is the weight of an edge from "
    "j to i, a feature unless all are 1. They are taken as they are: give both ways where both are meant.",
)
EDGE_FEATURES = Argument("edge_features", '"Table | None"', "(edge, feature), beside `edges`.")

ENCODERS = (*(name for name in get_args(EncoderName) if name != "transformer"), *CONFIGURATIONS)
"""What `model` of texts may name."""
