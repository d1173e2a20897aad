"""The estimators that docs/estimators.py writes: their names, what they say, and the methods that they have."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import get_args

from edgewise.choices import CELLS
from edgewise.learn.networks.graph_layers import layers_for
from edgewise.learn.networks.text_settings import CONFIGURATIONS, EncoderName, SamplingSettings
from edgewise.learn.networks.time_settings import DYNAMICS_MODELS, FORECAST_MODELS
from edgewise.learn.settings import helps

HEADER = '''"""Estimators: written by docs/estimators.py from the settings of tasks; change those, and run it again.

A constructor stores its parameters; `fit` checks them. What methods do stands in the functions that they call.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from edgewise.learn.estimators import graph_rows, row_methods, state
from edgewise.learn.estimators.rows import RowAdapter, Supervision
from edgewise.learn.estimators.scikit_learn import ClassifierMixin, RegressorMixin, tags_of
from edgewise.learn.estimators.state import Estimator
from edgewise.learn.networks.text_settings import SamplingSettings

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from edgewise.explain.explanation import Explanation
    from edgewise.explain.methods import Choice
    from edgewise.learn.estimators.inputs import EdgesInput, GraphInput, GraphsInput, SeriesInput, Table
    from edgewise.learn.readers.motion.motion import Motion
    from edgewise.learn.tasks.motion.trained import Rollout

# Tasks are imported where they are used first: a model of nodes needs no RDKit.


def _edges() -> RowAdapter:
    from edgewise.learn.estimators.edges import EDGES

    return EDGES


def _graphs() -> RowAdapter:
    from edgewise.learn.estimators.graphs import GRAPHS

    return GRAPHS


def _molecules() -> RowAdapter:
    from edgewise.learn.estimators.molecules import MOLECULES

    return MOLECULES


def _nodes() -> RowAdapter:
    from edgewise.learn.estimators.nodes import NODES

    return NODES


def _texts() -> RowAdapter:
    from edgewise.learn.estimators.texts import TEXTS

    return TEXTS
'''


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
    required: Mapping[str, object] = field(default_factory=lambda: {"data": ("the data",)})
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
    "Write the trained model to a folder that `load`, `edgewise predict`, `explain` and `serve` read.",
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


# Estimators over rows: classifiers and regressors

WEIGHT = Argument("sample_weight", "ArrayLike | None", "(row): how much each row counts.", by_name=True)
GROUPS = Argument(
    "groups", "ArrayLike | None", "(row): rows of one group are all training or all validation rows.", by_name=True
)
VALIDATION = Argument(
    "validation",
    'ArrayLike | tuple["{X}", "Table"] | None',
    "(row) True for the rows that choose the epoch and calibrate intervals; or (X, y), further rows. By default "
    "`validation_size` of the rows, drawn at random.",
    by_name=True,
)
MASK = Argument(
    "validation",
    "ArrayLike | None",
    "(row) True for the rows that choose the epoch and calibrate intervals; by default `validation_size` of them, "
    "drawn at random.",
    by_name=True,
)
COVERAGE = Argument(
    "coverage",
    "float | None",
    "The promised probability that a value lies in its interval; that of the constructor by default.",
    by_name=True,
)
NODES = Argument("nodes", "ArrayLike | None", "(row, bool): the rows that count; all where None.", by_name=True)
TARGET = Argument("target", "str | None", "The target that is explained; the first by default.", by_name=True)
LABEL = Argument(
    "label", "object", "The class whose probability is explained; the predicted one by default.", by_name=True
)
HOPS = Argument(
    "hops", "int | None", "How far away nodes are shown; by default as far as the model looks.", by_name=True
)
METHODS = Argument("methods", '"Choice"', "Names of methods; see `edgewise.explain.methods`.", by_name=True)
FIT_RAISES = {
    "DataError": "A row cannot be used; the message says which and why.",
    "SettingError": "A parameter has a value that it cannot have.",
}


@dataclass(frozen=True)
class Rows:
    """What differs between the estimators over molecules, texts, graphs, nodes and edges."""

    module: str
    """Where their functions are, and what the function of classes.py that gives their adapter is called."""
    rows: str
    """What rows are."""
    X: Argument
    """The rows."""
    beside: tuple[Argument, ...] = ()
    """What stands beside them."""
    by_place_in_fit: tuple[str, ...] = ()
    """Which of these may follow y."""
    by_place: tuple[str, ...] = ()
    """Which may follow X in `predict`."""
    has_groups: bool = True
    y_by_default: bool = False
    """Whether X may hold the targets."""
    is_one_graph: bool = False
    reads_arrays: bool = False
    validation_note: str = ""
    label_note: str = ""
    number_note: str = ""
    explained: tuple[Argument, ...] = ()
    """Further arguments of `explain`."""
    explain_text: str = ""
    explains_beside: bool = True
    """Whether `explain` has a function of the rows' own, which takes what stands beside an item."""
    fingerprint_reads_beside: bool = True
    item: str = "One row as `predict` takes it."
    beside_item: str = "As in `fit`."
    """What stands beside an item."""
    item_type: str = ""
    """The type of an item, where it is another one than that of X."""

    @property
    def dictionary(self) -> str:
        """The arguments beside X, as the functions take them."""
        return "{" + ", ".join(f'"{argument.name}": {argument.name}' for argument in self.beside) + "}"

    def arguments(self, by_place: tuple[str, ...], *, explain: bool = True) -> tuple[Argument, ...]:
        """The arguments beside X, those by place first."""
        listed = [replace(each, by_name=each.name not in by_place) for each in self.beside]
        listed.sort(key=lambda argument: argument.by_name)
        return tuple(each if explain else replace(each, meaning="As in `fit`.") for each in listed)

    def y(self, text: str, type_: str = '"Table"') -> Argument:
        """The targets."""
        type_, default = (f'{type_[:-1]} | None"', "None") if self.y_by_default else (type_, None)
        return Argument("y", type_, text, default)


def methods_of(rows: Rows, *, is_classifier: bool) -> tuple[Method, ...]:
    """The methods of a classifier or a regressor of rows."""
    called = f"self, _{rows.module}(), X"
    functions = "graph_rows" if rows.is_one_graph else "row_methods"
    predict_arguments = (replace(rows.X, meaning="As in `fit`."), *rows.arguments(rows.by_place, explain=False))

    listed = [_fit(rows, is_classifier=is_classifier)]
    if is_classifier:
        listed.append(_predict_classes(rows, f"return {functions}.predict_classes({called}, {rows.dictionary})"))
        text = "(row, class): probabilities in the order of `classes_`; of several targets a list with those of each; "
        text += "NaN for a row that cannot be predicted."
        body = f"return row_methods.predict_proba({called}, {rows.dictionary})"
        listed.append(Method("predict_proba", predict_arguments, "np.ndarray | list[np.ndarray]", text, body))
    else:
        listed += _predict_numbers(rows, called, predict_arguments)

    listed.append(_score(rows, f"{functions}.score_{'classes' if is_classifier else 'numbers'}({called}, y"))
    listed.append(_explain(rows))
    listed.append(_fingerprint(rows, called, predict_arguments))
    body = f"return row_methods.status_of({called}, {rows.dictionary})"
    text = "For each row `ok`, what to know of its prediction, or why it has none."
    listed.append(Method("status_of", predict_arguments, "list[str]", text, body))
    loader = "load_classifier" if is_classifier else "load_regressor"
    reads = ", is_table=True" + (", reads_arrays=True" if rows.reads_arrays else "")
    return (*listed, SAVE, loading(f"return row_methods.{loader}(cls, _{rows.module}(), folder)"), tags(reads))


def _fit(rows: Rows, *, is_classifier: bool) -> Method:
    """The training."""
    if is_classifier:
        text = "(row) or (row, target): class labels; None or NaN where one of several is missing."
        y = rows.y(f"{rows.label_note or text} A Series or a DataFrame names the targets.")
    else:
        text = "(row) or (row, target): numbers; NaN where one is missing."
        y = rows.y(f"{rows.number_note or text} A Series or a DataFrame names the targets.")

    further = replace(VALIDATION, type=VALIDATION.type.format(X=rows.X.type.strip('"')))
    further = replace(further, meaning=f"{further.meaning} {rows.validation_note}".strip())
    validation = MASK if rows.is_one_graph else further
    arguments = (rows.X, y, *rows.arguments(rows.by_place_in_fit), WEIGHT, *([GROUPS] if rows.has_groups else []))
    groups = "groups" if rows.has_groups else "None"
    encode = f', graph_rows.label_targets("{rows.rows}")' if rows.is_one_graph and is_classifier else ""
    body = f"""
        supervision = Supervision(sample_weight, {groups}, validation)
        row_methods.fit_{"classes" if is_classifier else "numbers"}(
            self, _{rows.module}(), X, y, {rows.dictionary}, supervision{encode})
        return self
    """
    return Method("fit", (*arguments, validation), "Self", f"Train on {rows.rows}.", body, FIT_RAISES)


def _predict_classes(rows: Rows, body: str) -> Method:
    """The classes."""
    arguments = (replace(rows.X, meaning="As in `fit`."), *rows.arguments(rows.by_place, explain=False))
    if rows.is_one_graph:
        text = "(row), or (row, target): the most probable class; −1 or None, as in `fit`, where nothing is predicted."
        return Method("predict", arguments, "np.ndarray", text, body)
    raises = {"DataError": "A row cannot be read: no class could say so."}
    text = "(row): the most probable class; (row, target) where y has that shape."
    return Method("predict", arguments, "np.ndarray", text, body, raises)


def _predict_numbers(rows: Rows, called: str, arguments: tuple[Argument, ...]) -> list[Method]:
    """The numbers, and intervals around them."""
    std = Argument(
        "return_std",
        "bool",
        "Whether to return the standard deviations of the targets around these as well, as scikit-learn's "
        "`GaussianProcessRegressor` does; NaN without validation rows.",
        "False",
        True,
    )
    numbers = Method(
        "predict",
        (*arguments, std),
        "Any",
        "(row), or (row, target) where y has that shape: numbers; NaN for a row that cannot be predicted.",
        f"return row_methods.predict_numbers({called}, {rows.dictionary}, return_std)",
    )
    interval = Method(
        "predict_interval",
        (*arguments, COVERAGE),
        "tuple[np.ndarray, np.ndarray]",
        "The lower and upper ends of the intervals, each as `predict`; NaN with too few validation rows.",
        f"return row_methods.predict_interval({called}, {rows.dictionary}, coverage)",
    )
    return [numbers, interval]


def _score(rows: Rows, call: str) -> Method:
    """The score."""
    X = replace(rows.X, meaning="As in `fit`.")
    y = rows.y("(row) or (row, target): what is true; missing as in `fit`.")
    is_accuracy = "classes" in call
    text = (
        "The share of the rows whose class is predicted right; of several targets, all that are known."
        if is_accuracy
        else "R² over the targets that are known, of several the mean."
    )
    if rows.is_one_graph:
        arguments = (X, y, *rows.arguments(rows.by_place, explain=False), NODES, WEIGHT)
        return Method("score", arguments, "float", text, f"return {call}, {rows.dictionary}, nodes, sample_weight)")
    weight = replace(WEIGHT, by_name=False)
    arguments = (X, y, weight, *rows.arguments((), explain=False))
    return Method("score", arguments, "float", text, f"return {call}, {rows.dictionary}, sample_weight)")


def _fingerprint(rows: Rows, called: str, arguments: tuple[Argument, ...]) -> Method:
    """The learned vectors."""
    if rows.fingerprint_reads_beside:
        text = "(row, dim): the learned vector of each row; NaN for a row that cannot be read."
        body = f"return row_methods.fingerprint({called}, {rows.dictionary})"
        return Method("fingerprint", arguments, "np.ndarray", text, body)
    body = f"""
        from edgewise.learn.estimators.{rows.module} import fingerprint

        return fingerprint(self, X)
    """
    text = "(row, dim): the learned vector of each graph, without its numbers as a whole; NaN where it cannot be read."
    return Method("fingerprint", arguments[:1], "np.ndarray", text, body)


def _explain(rows: Rows) -> Method:
    """The explanation of one row."""
    item = Argument("item", rows.item_type or rows.X.type, rows.item, None)
    arguments = (item, *rows.explained, TARGET, LABEL, *([HOPS] if rows.is_one_graph else []), METHODS)
    beside = tuple(replace(each, by_name=True, meaning=rows.beside_item) for each in rows.beside)
    names = [argument.name for argument in arguments[1:]]
    passed = ", ".join(f"{name}={name}" for name in names)
    if not rows.explains_beside:
        body = f"return state.explain_item(self, _{rows.module}(), item, {passed})"
        return Method("explain", arguments, '"Explanation"', rows.explain_text, body)
    body = f"""
        from edgewise.learn.estimators.{rows.module} import explain

        return explain(self, item, {rows.dictionary}, {passed})
    """
    return Method("explain", (*arguments, *beside), '"Explanation"', rows.explain_text, body)


# One graph

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
    "The edges beside features of nodes: `Edges`, whole numbers (2, edge), sender above receiver, or a sparse matrix "
    "of SciPy, a row a receiver. They are taken as they are: give both ways where both are meant.",
)
EDGE_FEATURES = Argument("edge_features", '"Table | None"', "(edge, feature), beside `edges`.")
ONE_GRAPH = {"classes_": "(class): the classes in order; of several targets a list with those of each."}
CLASSES_ANNOTATION = ("classes_: np.ndarray | list[np.ndarray]",)
NUMBERS_ANNOTATION = ("one_target_: bool",)
ONE_TARGET = {"one_target_": "Whether y had the shape (row), and predictions have it, too."}

EDGE_ROWS = Rows(
    module="edges",
    rows="edges",
    X=replace(GRAPH, meaning=GRAPH.meaning.format(rows="GraphEdges")),
    beside=(EDGES, EDGE_FEATURES),
    by_place_in_fit=("edges",),
    by_place=("edges", "edge_features"),
    has_groups=False,
    is_one_graph=True,
    label_note="(edge) or (edge, target): class labels; None, NaN or an empty text is none, and −1 among whole numbers "
    "with two or more other values. Edges without a label only carry messages.",
    number_note="(edge) or (edge, target): numbers; NaN where there is none. Such edges only carry messages.",
    explained=(Argument("edge", "int | None", "The number of the edge.", by_name=True),),
    explain_text="Explain one edge: what its two nodes attend to, and what changes its prediction.",
    item="One row of `GraphEdges`; or a graph, with `edge`.",
)


NODE_ROWS = Rows(
    module="nodes",
    rows="nodes",
    X=replace(
        GRAPH,
        meaning=GRAPH.meaning.format(rows="GraphNodes").replace(
            "Geometric's `Data`", "Geometric's `Data` or `HeteroData`"
        ),
    ),
    beside=(
        EDGES,
        EDGE_FEATURES,
        Argument("node_types", '"Table | None"', "(node): words or whole numbers, beside `edges`."),
        Argument("edge_types", '"Table | None"', "(edge): words or whole numbers, beside `edges`."),
    ),
    by_place_in_fit=("edges",),
    by_place=("edges", "edge_features"),
    has_groups=False,
    is_one_graph=True,
    reads_arrays=True,
    label_note="(node) or (node, target): class labels. None, NaN or an empty text is no label. −1 among whole numbers "
    "with two or more other values is none either, with a warning; with fewer it is a class, as in −1 and 1. Nodes "
    "without a label are part of the graph.",
    number_note="(node) or (node, target): numbers; NaN where there is none. Such nodes are part of the graph.",
    explained=(Argument("node", "object", "The number of the node, or its name in a graph with names.", by_name=True),),
    explain_text="Explain one node: what it attends to, and what changes its prediction.",
    item="One row of `GraphNodes`; or a graph, with `node`.",
)
GRAPH_ROWS = Rows(
    module="graphs",
    rows="graphs",
    X=Argument(
        "X",
        '"GraphsInput"',
        "A list of graphs, each a `Graph`, PyTorch Geometric's `Data` or another object with `x`, `edge_index` and "
        "perhaps `edge_attr`, a graph of networkx, a tuple (features, edges) or (features, edges, edge_features); or a "
        "batch of graphs. Edges are taken as they are: give both ways where both are meant.",
        None,
    ),
    beside=(Argument("graph_features", '"Table | None"', "(row, feature): numbers of each graph as a whole."),),
    by_place=("graph_features",),
    y_by_default=True,
    label_note="(row) or (row, target): class labels; None or NaN where one of several is missing. By default the `y` "
    "of each graph.",
    number_note="(row) or (row, target): numbers; NaN where one is missing. By default the `y` of each graph.",
    explain_text="Explain one graph: where the model attends, and what changes its prediction.",
    beside_item="(feature): numbers of the graph as a whole.",
    item="A graph, as in `fit`.",
    item_type='"GraphInput"',
    fingerprint_reads_beside=False,
)
MOLECULE_ROWS = Rows(
    module="molecules",
    rows="molecules",
    X=Argument(
        "X",
        '"Table"',
        "SMILES (row), or (row, component); or a DataFrame, whose text columns are SMILES and whose numbers are "
        "conditions.",
        None,
    ),
    beside=(Argument("conditions", '"Table | None"', "(row, condition): numbers such as temperature and pressure."),),
    by_place=("conditions",),
    validation_note="The forest and the Gaussian process learn from them in the end: score a model on rows that `fit` "
    "has not seen.",
    explain_text="Explain one row: which atoms the model attends to, and what changes its prediction.",
    beside_item="(condition): the numbers of the row.",
    item="One row as `predict` takes it, or one SMILES; a dict or a Series names the values of a row.",
    item_type='"Table | Mapping[str, object]"',
)
TOP = Argument("top", "int | None", "How many of the strongest weights of each token are shown.", by_name=True)
TEXT_ROWS = Rows(
    module="texts",
    rows="texts",
    X=Argument(
        "X",
        '"Table"',
        "Texts (row), or (row, column) where several belong together; a list, array or DataFrame.",
        None,
    ),
    explained=(TOP,),
    explain_text="Explain one row: which tokens the model attends to, and what changes its prediction.",
    item="One text, or one for each column, which a dict, a Series or a DataFrame of one row may name.",
    item_type='"Table | Mapping[str, object]"',
    explains_beside=False,
)
ENCODERS = (*(name for name in get_args(EncoderName) if name != "transformer"), *CONFIGURATIONS)
"""What `model` of texts may name."""


def row_classes(
    rows: Rows, names: tuple[str, str], texts: tuple[str, str], **declared: object
) -> tuple[EstimatorClass, EstimatorClass]:
    """The classifier and the regressor of rows."""
    task = rows.module
    classifier = EstimatorClass(
        names[0],
        task,
        ("ClassifierMixin", "Estimator"),
        texts[0],
        methods_of(rows, is_classifier=True),
        attributes={**ONE_GRAPH, **TRAINED},
        annotations=CLASSES_ANNOTATION,
        **declared,  # type: ignore[arg-type]
    )
    regressor = EstimatorClass(
        names[1],
        task,
        ("RegressorMixin", "Estimator"),
        texts[1],
        methods_of(rows, is_classifier=False),
        attributes={**ONE_TARGET, **TRAINED},
        annotations=NUMBERS_ANNOTATION,
        **declared,  # type: ignore[arg-type]
    )
    return classifier, regressor


# One class a task


def fields_as_arguments(settings: type) -> list[tuple[str, str, str, str]]:
    """The name, type, meaning and default of each of some settings."""
    meanings, listed = helps(settings), []
    for each in fields(settings):
        type_ = each.type.__name__ if isinstance(each.type, type) else str(each.type)
        listed.append((each.name, type_, meanings[each.name], str(each.default)))
    return listed


Y_EDGES = Argument("y", '"EdgesInput | None"', "Beside features of nodes, the edges, as `edges`.")
SERIES_EDGES = Argument(
    "edges",
    '"EdgesInput | None"',
    "`Edges`, whole numbers (2, edge), sender above receiver, or a sparse matrix of SciPy, a row a receiver; the "
    "other way of each is added where it is missing, unless `directed`. None where nodes are alone, and for a "
    "`Series`, which has its own.",
)


def refused(name: str, reason: str) -> Argument:
    """An argument that scikit-learn's estimators have and this one cannot use."""
    return Argument(name, "None", f"Refused: {reason}.", by_name=name != "y")


def delegating(
    module: str,
    name: str,
    arguments: tuple[Argument, ...],
    returns: str,
    text: str,
    call: str,
    raises: Mapping[str, str] | None = None,
) -> Method:
    """A method that calls a function of its task's module, which is imported by then."""
    result = f"{call}\nreturn self" if name == "fit" else call if "return " in call else f"return {call}"
    body = f"from edgewise.learn.estimators import {module}\n\n{result}"
    return Method(name, arguments, returns, text, body, raises or {})


def loading_of(module: str, adapter: str) -> Method:
    """The method that opens a run folder of a task."""
    return loading(
        f"from edgewise.learn.estimators import {module}\n\nreturn state.load(cls, {module}.{adapter}, folder)"
    )


def explaining(module: str, adapter: str, item: Argument, text: str, target: Argument = TARGET) -> Method:
    """The explanation of one item by what opens run folders of a task."""
    arguments = (item, target, LABEL, TOP, METHODS)
    call = f"state.explain_item(self, {module}.{adapter}, item, target=target, label=label, top=top, methods=methods)"
    raises = {"SettingError": "There is no such target, label or method."}
    return delegating(module, "explain", arguments, '"Explanation"', text, call, raises)


WORD = Argument("target", "str | int | None", "The word that is explained, by its place or itself.", by_name=True)
BESIDE_GRAPH = '{"edges": edges, "edge_features": edge_features}'
OTHER_GRAPH = (
    Argument(
        "graph",
        '"GraphInput | None"',
        "Another graph along whose edges messages go, or the features of its nodes, with `edges` beside them. By "
        "default that of the training, with all its links.",
    ),
    replace(EDGES, meaning="The edges of another graph, beside features of its nodes."),
    replace(EDGE_FEATURES, meaning="(edge, feature), beside `edges`."),
)
PAIRS = Argument("X", '"Table"', "(pair, 2) nodes, by their names in a graph with names, else counted from 0.", None)

LINK_METHODS = (
    delegating(
        "links",
        "fit",
        (
            replace(
                GRAPH,
                meaning="A graph: `Graph`, PyTorch Geometric's `Data`, a graph of networkx; or the features of its "
                "nodes (node, feature), None where nothing is known of them: each node then has a vector of its own, "
                "which is learned.",
            ),
            Y_EDGES,
            replace(
                EDGES,
                meaning="The edges beside features of nodes; the other way of each is added where it is missing, "
                "unless `directed`.",
                by_name=True,
            ),
            replace(EDGE_FEATURES, by_name=True),
            Argument(
                "splits",
                "ArrayLike | None",
                "(edge): train, val, test, or nothing for edges that carry messages and are not predicted; drawn at "
                "random by default.",
                by_name=True,
            ),
            refused("sample_weight", "all links count the same"),
            Argument(
                "validation",
                "ArrayLike | None",
                "(edge) True for the links that choose the epoch; the others train.",
                by_name=True,
            ),
        ),
        "Self",
        "Learn the links of a graph; `metrics_` has the scores of validation and test links.",
        'beside = {"edges": y if edges is None else edges, "edge_features": edge_features}\n'
        "links.fit(self, X, beside, splits=splits, sample_weight=sample_weight, validation=validation)",
        {
            "DataError": "Shapes do not fit, an edge names no node, or there are too few links, or pairs that are "
            "none.",
            "SettingError": "A parameter has a value that it cannot have.",
        },
    ),
    delegating(
        "links",
        "predict_proba",
        (PAIRS, *OTHER_GRAPH),
        "np.ndarray",
        """
        (pair, 2): the probabilities that each pair is no link and that it is one.

        They hold for a test with as many pairs that are no link as in training; of all pairs of a graph far fewer are
        links.
        """,
        f"links.predict_proba(self, X, graph, {BESIDE_GRAPH})",
        {"DataError": "Pairs have another shape, or name no node or one node twice."},
    ),
    delegating(
        "links",
        "predict",
        (
            replace(PAIRS, meaning="As in `predict_proba`, as all that follows."),
            *(replace(each, meaning="") for each in OTHER_GRAPH),
        ),
        "np.ndarray",
        "(pair): whether each pair is more likely a link than not.",
        f"links.predict(self, X, graph, {BESIDE_GRAPH})",
    ),
    delegating(
        "links",
        "score",
        (
            PAIRS,
            Argument("y", "ArrayLike", "(pair): whether each is a link.", None),
            Argument("sample_weight", "ArrayLike | None", "(pair): how much each pair counts."),
            *(replace(each, meaning="As in `predict_proba`.", by_name=True) for each in OTHER_GRAPH),
        ),
        "float",
        "The share of the pairs for which it is predicted right whether they are a link.",
        f"links.score(self, X, y, sample_weight, graph, {BESIDE_GRAPH})",
    ),
    delegating(
        "links",
        "explain",
        (
            Argument(
                "item",
                '"tuple[object, object] | ArrayLike"',
                "The pair, (sender, receiver), as in `predict_proba`.",
                None,
            ),
            TARGET,
            LABEL,
            HOPS,
            METHODS,
            *(replace(each, meaning="As in `predict_proba`.", by_name=True) for each in OTHER_GRAPH),
        ),
        '"Explanation"',
        """
        Explain one pair of nodes: what its ends attend to, and what changes the probability of the link.

        Where the graph has the link, no message goes along it, as in training; `predict_proba` leaves it in.
        """,
        f"links.explain(self, item, graph, {BESIDE_GRAPH}, target=target, label=label, hops=hops, methods=methods)",
        {
            "DataError": "There is no such node, or it is one twice.",
            "SettingError": "It is not a pair, or `hops` is below 1.",
        },
    ),
    delegating(
        "links",
        "fingerprint",
        OTHER_GRAPH,
        "np.ndarray",
        "(node, dim): the learned vector of each node of a graph, that of the training by default.",
        f"links.fingerprint(self, graph, {BESIDE_GRAPH})",
    ),
    SAVE,
    loading_of("links", "LINKS"),
    tags(),
)

SERIES = Argument(
    "X",
    '"SeriesInput"',
    "(time, node), with NaN where nothing is known: an array, a tensor, a DataFrame or a `Series`. The columns of a "
    "DataFrame name the nodes. A DatetimeIndex, or its `time_column`, has the times: rows are sorted by them, and "
    "`gaps` says what happens to missing and repeated ones.",
    None,
)
FORECAST_METHODS = (
    delegating(
        "forecast",
        "fit",
        (
            SERIES,
            replace(Y_EDGES, meaning="The edges, as `edges`: a series is its own target."),
            replace(SERIES_EDGES, by_name=True),
            refused("sample_weight", "all steps count the same"),
            refused("validation", "validation and test are the last parts of the time, see `split_sizes`"),
        ),
        "Self",
        "Learn a series.",
        "forecast.fit(self, X, y if edges is None else edges, sample_weight=sample_weight, validation=validation)",
        {
            "DataError": "Shapes do not fit, a value is infinite, or an edge names no node.",
            "SettingError": "A parameter has a value that it cannot have, or the series is too short.",
        },
    ),
    delegating(
        "forecast",
        "predict",
        (
            replace(
                SERIES,
                meaning="As in `fit`; without its column of times, rows are taken as they come. With the edges of "
                "`fit`, the nodes of a DataFrame are taken by their names, and come in the order of the training.",
            ),
            replace(
                SERIES_EDGES,
                meaning="As in `fit`, and those by default; a model that was loaded from a folder does not know them.",
            ),
        ),
        "Any",
        """
        (horizon, node): what follows the last step of a series.

        It is an array; where a DataFrame has times, a DataFrame whose index has those that follow.
        """,
        "forecast.predict(self, X, edges)",
        {"DataError": "Shapes do not fit, or the edges are not known."},
    ),
    delegating(
        "forecast",
        "score",
        (
            replace(SERIES, meaning="As in `predict`."),
            Argument("y", '"Table"', "(horizon, node), what followed; NaN where nothing is known.", None),
            replace(SERIES_EDGES, meaning="As in `predict`."),
        ),
        "float",
        "R² of the predicted steps, over all nodes and steps that are known.",
        "forecast.score(self, X, y, edges)",
    ),
    delegating(
        "forecast",
        "explain",
        (Argument("item", "object", "Any.", None),),
        '"Explanation"',
        "Raise UnsupportedError: there are no explanations of series.",
        "state.explain_item(self, forecast.SERIES, item)",
    ),
    SAVE,
    loading_of("forecast", "SERIES"),
    tags(),
)

TEXT = Argument("X", "str", "The text.", None)
LANGUAGE_METHODS = (
    delegating(
        "language",
        "fit",
        (
            TEXT,
            refused("y", "a text is its own target"),
            refused("sample_weight", "all tokens count the same"),
            Argument(
                "validation",
                "str | None",
                "Another text for validation; by default the last part of X, see `split_sizes`.",
                by_name=True,
            ),
        ),
        "Self",
        "Learn a text.",
        "language.fit(self, X, y=y, sample_weight=sample_weight, validation=validation)",
        {
            "DataError": "It is shorter than the context.",
            "SettingError": "A parameter has a value that it cannot have.",
        },
    ),
    delegating(
        "language",
        "generate",
        (
            Argument("prompt", "str", "The text to continue.", None),
            *(
                Argument(name, type_, meaning, default, by_name=True)
                for name, type_, meaning, default in fields_as_arguments(SamplingSettings)
            ),
        ),
        "str",
        "The prompt and what follows it.",
        "sampling = SamplingSettings("
        + ", ".join(f"{name}={name}" for name, *_ in fields_as_arguments(SamplingSettings))
        + ")\nreturn language.generate(self, prompt, sampling)",
    ),
    delegating(
        "language",
        "score",
        (replace(TEXT, meaning="Another text."), replace(refused("y", "a text is its own target"), meaning="Nothing.")),
        "float",
        "The mean of ln p over the tokens of another text.",
        "language.score(self, X)",
    ),
    explaining(
        "language",
        "LANGUAGE",
        Argument("item", "str", "A prompt.", None),
        "Explain the next token: where the model attends, and what changes its probability.",
    ),
    SAVE,
    loading_of("language", "LANGUAGE"),
    tags(),
)

BODIES = Argument("X", '"Motion"', "As `edgewise.learn.readers.motion.motion.read_motion` reads them.", None)
MOMENT = Argument("moment", "int", "The moment that is read, by its number in the file.", "0")
MOTION_METHODS = (
    delegating(
        "motion",
        "fit",
        (
            BODIES,
            refused("y", "the targets are later moments, or the accelerations of X"),
            refused("sample_weight", "all moments count the same"),
            Argument(
                "validation",
                '"Motion | None"',
                "Other trajectories for validation; all of X then trains. By default see `split_sizes`.",
                by_name=True,
            ),
        ),
        "Self",
        "Learn trajectories.",
        "motion.fit(self, X, y=y, sample_weight=sample_weight, validation=validation)",
        {
            "SettingError": "A parameter has a value that it cannot have, or there are fewer moments than it needs.",
            "DataError": "Accelerations are to be learned, and cannot be.",
        },
    ),
    delegating(
        "motion",
        "predict",
        (replace(BODIES, meaning="The bodies."), MOMENT),
        "np.ndarray",
        "(trajectory, body, space): where the bodies will be, or their accelerations.",
        "motion.predict(self, X, moment)",
    ),
    delegating(
        "motion",
        "score",
        (
            replace(BODIES, meaning="The bodies."),
            Argument("y", "ArrayLike | None", "(trajectory, body, space), as `predict`; by default what X has."),
            MOMENT,
        ),
        "float",
        "R² over all coordinates of one moment.",
        "motion.score(self, X, y, moment)",
    ),
    delegating(
        "motion",
        "rollout",
        (
            replace(BODIES, meaning="The bodies; of what comes after `moment`, only the times are read."),
            Argument(
                "num_moments",
                "int | None",
                "How many moments, the first included; None is all that the file has from there on.",
            ),
            replace(MOMENT, meaning="Where the simulation starts.", by_name=True),
            Argument("time_step", "float | None", "Of the integrator; None is that of the file.", by_name=True),
        ),
        '"Rollout"',
        "Simulate the bodies with the learned forces, from one moment of a file on.",
        "motion.rollout(self, X, num_moments, moment=moment, time_step=time_step)",
        {
            "SettingError": "Positions were learned, the moments lie outside the file, or the step is not above 0.",
        },
    ),
    delegating(
        "motion",
        "explain",
        (Argument("item", "object", "Any.", None),),
        '"Explanation"',
        "Raise UnsupportedError: there are no explanations of motion.",
        "state.explain_item(self, motion.MOTION, item)",
    ),
    SAVE,
    loading_of("motion", "MOTION"),
    tags(),
)

WORDS = Argument("X", "Sequence[Sequence[str]]", "The words of each sentence.", None)
TAGS_OF_WORDS = Argument("y", "Sequence[Sequence[str]]", "The tag of each word.", None)
TAGGER_METHODS = (
    delegating(
        "tagging",
        "fit",
        (
            WORDS,
            TAGS_OF_WORDS,
            refused("sample_weight", "all words count the same"),
            Argument(
                "validation",
                "ArrayLike | tuple[Sequence[Sequence[str]], Sequence[Sequence[str]]] | None",
                "(sentence) True for those that choose the epoch; or (sentences, tags), further ones. By default "
                "`validation_size` of them, drawn at random.",
                by_name=True,
            ),
        ),
        "Self",
        "Learn the tags of some sentences.",
        "tagging.fit(self, X, y, sample_weight=sample_weight, validation=validation)",
        {
            "DataError": "A sentence has not as many tags as words; the message names it.",
            "SettingError": "A parameter has a value that it cannot have.",
        },
    ),
    delegating(
        "tagging",
        "predict",
        (WORDS,),
        "list[list[str]]",
        "The tag of each word of some sentences.",
        "tagging.predict(self, X)",
    ),
    delegating(
        "tagging",
        "score",
        (WORDS, TAGS_OF_WORDS),
        "float",
        "The F1 of the spans; where tags mark none, the share of the words whose tag is right.",
        "tagging.score(self, X, y)",
    ),
    explaining(
        "tagging",
        "TAGS",
        Argument("item", "Sequence[str] | str", "The words of a sentence.", None),
        "Explain the tag of one word: where the model attends, and what changes its probability.",
        WORD,
    ),
    SAVE,
    loading_of("tagging", "TAGS"),
    tags(),
)

SOURCES = Argument("X", "Sequence[str]", "The texts that are read.", None)
TRANSLATOR_METHODS = (
    delegating(
        "translation",
        "fit",
        (
            SOURCES,
            Argument("y", "Sequence[str]", "Their translations.", None),
            refused("sample_weight", "all texts count the same"),
            Argument(
                "validation",
                "ArrayLike | tuple[Sequence[str], Sequence[str]] | None",
                "(texts, translations) that choose the epoch, or (text) True for those of X; without them the weights "
                "of the last epoch are the result.",
                by_name=True,
            ),
        ),
        "Self",
        "Learn to translate.",
        "translation.fit(self, X, y, sample_weight=sample_weight, validation=validation)",
        {
            "DataError": "A text is empty, no text at all, or longer than the context; the message names it.",
            "SettingError": "A parameter has a value that it cannot have.",
        },
    ),
    delegating(
        "translation",
        "predict",
        (SOURCES,),
        "list[str | None]",
        "The translation of each text; None where one is empty or longer than the model reads.",
        "translation.predict(self, X)",
    ),
    delegating(
        "translation",
        "score",
        (SOURCES, Argument("y", "Sequence[str]", "Their translations.", None)),
        "float",
        "The BLEU of the translations, 0 to 100; what cannot be translated counts as an empty text.",
        "translation.score(self, X, y)",
    ),
    explaining(
        "translation",
        "TRANSLATIONS",
        Argument("item", "str", "A text.", None),
        "Explain one word of a translation: where the model attends, and what changes its probability.",
        WORD,
    ),
    SAVE,
    loading_of("translation", "TRANSLATIONS"),
    tags(),
)


def one_class(
    name: str, task: str, text: str, methods: tuple[Method, ...], attributes: Mapping[str, str] = {}, **declared: object
) -> EstimatorClass:
    """The only class of a task."""
    held = {**attributes, **TRAINED}
    return EstimatorClass(name, task, ("Estimator",), text, methods, attributes=held, **declared)  # type: ignore[arg-type]


CLASSES = (
    *row_classes(
        EDGE_ROWS,
        ("EdgeClassifier", "EdgeRegressor"),
        (
            """
            Predicts classes of the edges of one graph, two or more, and their probabilities.

                EdgeClassifier(model="gin").fit(graph, y).predict(graph)

            All edges carry messages, both ways unless `directed`. Targets stand in the order of the edges.
            """,
            """
            Predicts numbers of the edges of one graph, and intervals around them.

                EdgeRegressor(epochs=50).fit(graph, y).predict_interval(graph)

            All edges carry messages, both ways unless `directed`. Targets stand in the order of the edges.
            """,
        ),
        models=layers_for("links"),
        required={"data": ("the edges",)},
        keep=("directed",),
        own={"validation_size": 0.1},
    ),
    *row_classes(
        GRAPH_ROWS,
        ("GraphClassifier", "GraphRegressor"),
        (
            """
            Predicts classes of graphs, two or more, and their probabilities.

                GraphClassifier(model="gatv2").fit(graphs, y).predict(graphs)
            """,
            """
            Predicts numbers of graphs, and intervals around them.

                GraphRegressor(model="gin").fit(graphs, y).predict_interval(graphs)
            """,
        ),
        models=layers_for("graphs"),
        required={"data": ("the graphs",)},
        own={"validation_size": 0.1},
    ),
    *row_classes(
        MOLECULE_ROWS,
        ("MoleculeClassifier", "MoleculeRegressor"),
        (
            """
            Predicts classes of molecules, two or more, and their probabilities.

                MoleculeClassifier().fit(smiles, is_toxic).predict_proba(["CCO", "c1ccccc1"])
            """,
            """
            Predicts numbers of molecules, and intervals around them.

                MoleculeRegressor(ensemble_size=5).fit(smiles, solubility).predict(["CCO", "c1ccccc1"])
            """,
        ),
        models=layers_for("molecules"),
        required={"data": ("the molecules",), "smiles_columns": ("smiles",)},
        own={"validation_size": 0.1},
    ),
    *row_classes(
        NODE_ROWS,
        ("NodeClassifier", "NodeRegressor"),
        (
            """
            Predicts classes of the nodes of one graph, two or more, and their probabilities.

                NodeClassifier(model="gat").fit(graph, y).predict(graph)

            Without a name the model is the default, or that for types where the graph has them.
            """,
            """
            Predicts numbers of the nodes of one graph, and intervals around them.

                NodeRegressor(epochs=50).fit(graph, y).predict_interval(graph)

            Without a name the model is the default, or that for types where the graph has them.
            """,
        ),
        models=layers_for("nodes"),
        required={"data": ("the nodes",)},
        own={"model": "auto", "validation_size": 0.1},
    ),
    *row_classes(
        TEXT_ROWS,
        ("TextClassifier", "TextRegressor"),
        (
            """
            Predicts classes of texts, two or more, and their probabilities.

                TextClassifier(model="lstm").fit(reviews, labels).predict(["a film to remember"])
            """,
            """
            Predicts numbers of texts, and intervals around them.

                TextRegressor(epochs=10).fit(reviews, stars).predict(["a film to remember"])
            """,
        ),
        models=ENCODERS,
        required={"data": ("the texts",), "text_columns": ("text",)},
        own={"model": None, "validation_size": 0.1},
    ),
    one_class(
        "LinkPredictor",
        "links",
        """
        Predicts which nodes of a graph are linked.

            LinkPredictor(model="gcn").fit(graph).predict_proba([[0, 5], [2, 7]])
        """,
        LINK_METHODS,
        models=layers_for("links"),
        required={"data": ("the nodes",)},
        keep=("split_sizes", "data_seed", "directed", "baselines"),
    ),
    one_class(
        "Forecaster",
        "forecast",
        """
        Predicts the next steps of series on a graph.

            Forecaster(horizon=6).fit(values, edges=edges).predict(values)
        """,
        FORECAST_METHODS,
        models=FORECAST_MODELS,
        required={"data": ("the series",)},
        keep=("split_sizes", "directed", "time_column", "gaps"),
    ),
    one_class(
        "DynamicsModel",
        "motion",
        """
        A model of moving bodies: where they will be, or their accelerations.

            DynamicsModel(epochs=100).fit(motion).predict(other)
        """,
        MOTION_METHODS,
        models=({"target_quantity": "accelerations"}, *(name for name in DYNAMICS_MODELS if name != "forces")),
        required={"data": ("the motion",)},
        keep=("split_sizes", "data_seed"),
        own={"model": "auto", "horizon": "auto"},
    ),
    one_class(
        "LanguageModel",
        "language",
        """
        A model of a text, which predicts each token from those before it.

            LanguageModel(steps=2000).fit(text).generate("ROMEO:")
        """,
        LANGUAGE_METHODS,
        models=tuple(CONFIGURATIONS),
        required={"data": ("the text",)},
        keep=("split_sizes",),
        own={"model": None},
    ),
    one_class(
        "Tagger",
        "tagging",
        """
        Predicts the tag of each word, such as its part of speech, or whether a name begins at it.

            Tagger(model="lstm").fit(sentences, tags).predict([["Mr", "Lund", "came"]])
        """,
        TAGGER_METHODS,
        models=ENCODERS,
        required={"data": ("the sentences",)},
        own={"model": None, "validation_size": 0.1},
    ),
    one_class(
        "Translator",
        "translation",
        """
        Learns to translate from texts and their translations.

            Translator(model="lstm", epochs=20).fit(english, german).predict(["a dog runs"])

        `model` is lstm, gru, rnn or the name of a transformer; without it the model is a transformer.
        """,
        TRANSLATOR_METHODS,
        models=(*CELLS, *CONFIGURATIONS),
        required={"data": ("the texts",)},
        own={"model": None},
    ),
)
