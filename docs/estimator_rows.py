"""The estimators over rows: molecules, texts, graphs, and the nodes and edges of one graph."""

from dataclasses import dataclass, replace

from estimator_parts import (
    EDGE_FEATURES,
    EDGES,
    ENCODERS,
    GRAPH,
    HOPS,
    LABEL,
    METHODS,
    SAVE,
    TARGET,
    TOP,
    TRAINED,
    Argument,
    EstimatorClass,
    Method,
    loading,
    tags,
)

from edgewise.learn.networks.graph_layers import layers_for

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
NODES = Argument(
    "nodes", "ArrayLike | None", "(row): True for the rows that are scored; None scores all.", by_name=True
)
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
    extra_inputs: tuple[Argument, ...] = ()
    """The further arguments that describe rows, such as the edges of a graph."""
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
    explains_extra_inputs: bool = True
    """Whether `explain` takes the extra inputs of an item."""
    fingerprint_reads_extra_inputs: bool = True
    item: str = "One row as `predict` takes it."
    extra_inputs_of_item: str = "As in `fit`."
    """What the extra inputs of an item mean."""
    item_type: str = ""
    """The type of an item, where it is another one than that of X."""

    @property
    def dictionary(self) -> str:
        """The arguments beside X, as the functions take them."""
        return "{" + ", ".join(f'"{argument.name}": {argument.name}' for argument in self.extra_inputs) + "}"

    def arguments(self, by_place: tuple[str, ...], *, explain: bool = True) -> tuple[Argument, ...]:
        """The arguments beside X, those by place first."""
        listed = [replace(each, by_name=each.name not in by_place) for each in self.extra_inputs]
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
        "The share of the rows with a label whose class is predicted right; of several targets, all that are known."
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
    if rows.fingerprint_reads_extra_inputs:
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
    extra_inputs = tuple(replace(each, by_name=True, meaning=rows.extra_inputs_of_item) for each in rows.extra_inputs)
    names = [argument.name for argument in arguments[1:]]
    passed = ", ".join(f"{name}={name}" for name in names)
    if not rows.explains_extra_inputs:
        body = f"return state.explain_item(self, _{rows.module}(), item, {passed})"
        return Method("explain", arguments, '"Explanation"', rows.explain_text, body)
    body = f"""
        from edgewise.learn.estimators.{rows.module} import explain

        return explain(self, item, {rows.dictionary}, {passed})
    """
    return Method("explain", (*arguments, *extra_inputs), '"Explanation"', rows.explain_text, body)


ONE_GRAPH = {"classes_": "(class): the classes in order; of several targets a list with those of each."}
CLASSES_ANNOTATION = ("classes_: np.ndarray | list[np.ndarray]",)
NUMBERS_ANNOTATION = ("one_target_: bool",)
ONE_TARGET = {"one_target_": "Whether y had the shape (row), and predictions have it, too."}

EDGE_ROWS = Rows(
    module="edges",
    rows="edges",
    X=replace(GRAPH, meaning=GRAPH.meaning.format(rows="GraphEdges")),
    extra_inputs=(EDGES, EDGE_FEATURES),
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
    extra_inputs=(
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
    label_note="(node) or (node, target): class labels. None, NaN or an empty text is a missing label. −1 among whole "
    "numbers "
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
    extra_inputs=(Argument("graph_features", '"Table | None"', "(row, feature): numbers of each graph as a whole."),),
    by_place=("graph_features",),
    y_by_default=True,
    label_note="(row) or (row, target): class labels; None or NaN where one of several is missing. By default the `y` "
    "of each graph.",
    number_note="(row) or (row, target): numbers; NaN where one is missing. By default the `y` of each graph.",
    explain_text="Explain one graph: where the model attends, and what changes its prediction.",
    extra_inputs_of_item="(feature): numbers of the graph as a whole.",
    item="A graph, as in `fit`.",
    item_type='"GraphInput"',
    fingerprint_reads_extra_inputs=False,
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
    extra_inputs=(
        Argument("conditions", '"Table | None"', "(row, condition): numbers such as temperature and pressure."),
    ),
    by_place=("conditions",),
    validation_note="The forest and the Gaussian process learn from them in the end: score a model on rows that `fit` "
    "has not seen.",
    explain_text="Explain one row: which atoms the model attends to, and what changes its prediction.",
    extra_inputs_of_item="(condition): the numbers of the row.",
    item="One row as `predict` takes it, or one molecule; a dict or a Series names the values of a row.",
    item_type='"Table | Mapping[str, object]"',
)
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
    explains_extra_inputs=False,
)


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
        placeholders={"data": ("the edges",)},
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
        placeholders={"data": ("the graphs",)},
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
        placeholders={"data": ("the molecules",), "smiles_columns": ("smiles",)},
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
        placeholders={"data": ("the nodes",)},
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
        placeholders={"data": ("the texts",), "text_columns": ("text",)},
        own={"model": None, "validation_size": 0.1},
    ),
)
