"""The estimators that are the only ones of their task: links, series, motion, one text, tags and translations."""

from collections.abc import Mapping
from dataclasses import fields, replace

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

from edgewise.choices import CELLS
from edgewise.learn.networks.graph_layers import layers_for
from edgewise.learn.networks.text_settings import CONFIGURATIONS, SamplingSettings
from edgewise.learn.networks.time_settings import DYNAMICS_MODELS, FORECAST_MODELS
from edgewise.learn.settings import helps


def fields_as_arguments(settings: type) -> list[tuple[str, str, str, str]]:
    """The name, type, meaning and default of each of some settings."""
    meanings, listed = helps(settings), []
    for each in fields(settings):
        type_ = each.type.__name__ if isinstance(each.type, type) else str(each.type)
        listed.append((each.name, type_, meanings[each.name], str(each.default)))
    return listed


Y_EDGES = Argument("y", '"EdgesInput | None"', "The edges, as `edges`, where X holds features of nodes.")
SERIES_EDGES = Argument(
    "edges",
    '"EdgesInput | None"',
    "`Edges`; whole numbers (2, edge), senders in the first row; or a sparse matrix of SciPy, whose entry [i, j] is an "
    "edge from j to i. The other way of each is added where it is missing, unless `directed`. None where nodes are "
    "alone, and for a `Series`, which has its own.",
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
    raises = {"SettingError": "Unknown target, label or method."}
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
        'extra_inputs = {"edges": state.one_of("fit", y=y, edges=edges), "edge_features": edge_features}\n'
        "links.fit(self, X, extra_inputs, splits=splits, sample_weight=sample_weight, validation=validation)",
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
        (pair, 2): the probabilities that each pair is not a link and that it is one.

        They hold for a test with as many negative pairs as in training; of all pairs of a graph far fewer are
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
            Argument("y", "ArrayLike", "(pair): whether each is a link: True or 1, else False or 0.", None),
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
            "DataError": "Unknown node, or the two are the same.",
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
    "DataFrame name the nodes. An index of dates, of periods or of text that reads as dates, or its `time_column`, "
    "has the times: rows are sorted by them, and `gaps` says what happens to missing and repeated ones.",
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
        'known_edges = state.one_of("fit", y=y, edges=edges)\n'
        "forecast.fit(self, X, known_edges, sample_weight=sample_weight, validation=validation)",
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
        (Argument("item", "object", "An item.", None),),
        '"Explanation"',
        "Raise UnsupportedError: series cannot be explained.",
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
        "return language.generate(self, prompt, "
        + ", ".join(f"{name}={name}" for name, *_ in fields_as_arguments(SamplingSettings))
        + ")",
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
        (Argument("item", "object", "An item.", None),),
        '"Explanation"',
        "Raise UnsupportedError: motion cannot be explained.",
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
    held = {**attributes, **TRAINED, "metrics_": "Its scores on the splits that were scored."}
    return EstimatorClass(name, task, ("Estimator",), text, methods, attributes=held, **declared)  # type: ignore[arg-type]


CLASSES = (
    one_class(
        "LinkPredictor",
        "links",
        """
        Predicts which nodes of a graph are linked.

            LinkPredictor(model="gcn").fit(graph).predict_proba([[0, 5], [2, 7]])
        """,
        LINK_METHODS,
        models=layers_for("links"),
        placeholders={"data": ("the nodes",)},
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
        placeholders={"data": ("the series",)},
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
        placeholders={"data": ("the motion",)},
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
        placeholders={"data": ("the text",)},
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
        placeholders={"data": ("the sentences",)},
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
        placeholders={"data": ("the texts",)},
        own={"model": None},
    ),
)
