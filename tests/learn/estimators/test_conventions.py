"""What scikit-learn expects of every estimator: parameters, folders, scores and weights."""

import inspect
import itertools
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.utils import estimator_checks
from torch_geometric.data import Data

import edgewise.learn.estimators as estimators
from edgewise import Edges, Graph
from edgewise.errors import DataError, RunFolderError
from edgewise.learn.estimators import (
    EdgeRegressor,
    Forecaster,
    GraphRegressor,
    LinkPredictor,
    MoleculeClassifier,
    MoleculeRegressor,
    NodeClassifier,
    NodeRegressor,
    Tagger,
    TextClassifier,
    TextRegressor,
    Translator,
)
from edgewise.learn.estimators.labels import class_numbers, r2
from edgewise.learn.estimators.parameters import changed_values
from edgewise.learn.training.folder import RunFolder
from explain_cases import link_model

NODES = {"model": "gcn", "epochs": 2, "model_dim": 4}
SMILES = ["C" * size + end for size in range(1, 9) for end in ("O", "N", "Cl")]
SIZES = np.array([float(len(text)) for text in SMILES])
MOLECULES = {"epochs": 1, "model_dim": 8, "num_layers": 1, "molecule_descriptors": False, "validation_size": 0.4}


@pytest.fixture(scope="module")
def graph():
    """Nodes on a ring: features, numbers with a gap, edges."""
    generator = np.random.default_rng(0)
    nodes = np.arange(30)
    features = generator.normal(size=(30, 3))
    numbers = features @ [[1.0, 2.0], [0.0, 1.0], [1.0, 0.0]]
    numbers[4] = np.nan
    edges = np.stack([np.r_[nodes, (nodes + 1) % 30], np.r_[(nodes + 1) % 30, nodes]])
    return features, numbers, edges


@pytest.fixture(scope="module")
def regressor(graph):
    features, numbers, edges = graph
    return NodeRegressor(**NODES, validation_size=0.4).fit(features, numbers[:, 0], edges)


@pytest.mark.parametrize("name", sorted(set(estimators.__all__) - {"GraphEdges", "GraphNodes", "NodeKFold"}))
def test_parameters_are_handled_as_scikit_learn_does(name):
    kind = getattr(estimators, name)
    estimator = kind()
    for check in ("check_no_attributes_set_in_init", "check_get_params_invariance", "check_set_params"):
        getattr(estimator_checks, check)(name, estimator)
    changed = clone(estimator.set_params(epochs=3, random_state=1))
    assert (changed.get_params()["epochs"], changed_values(changed)) == (3, {"epochs": 3, "random_state": 1})
    assert not [each for each in vars(changed) if each.endswith("_")], "nothing is fitted yet"
    listed = {each.name: each.default for each in inspect.signature(kind).parameters.values()}
    assert listed == kind().get_params(), "the signature shows every parameter with its default"
    for parameter in listed:
        assert re.search(rf"^        {parameter}: \S", kind.__doc__, re.MULTILINE), "and the docstring what each means"
    with pytest.raises(TypeError, match="unexpected keyword argument 'epoch'"):
        kind(epoch=1)
    with pytest.raises(NotFittedError, match=f"this {name} is not fitted yet"):
        kind().save("nowhere")


def test_a_regressor_of_nodes_has_intervals_and_a_score(graph, regressor):
    features, numbers, edges = graph
    predicted, (low, high) = regressor.predict(features, edges), regressor.predict_interval(features, edges)
    assert predicted.shape == low.shape == high.shape
    assert ((low < predicted) & (predicted < high)).all()
    narrow = regressor.predict_interval(features, edges, coverage=0.3)
    assert (narrow[1] - narrow[0] < high - low).all()
    known = ~np.isnan(numbers[:, 0])
    assert regressor.score(features, numbers[:, 0], edges) == pytest.approx(
        r2_score(numbers[known, 0], predicted[known]), rel=1e-6
    )
    some, weights = np.arange(30) < 12, np.arange(1.0, 31)
    chosen = some & known
    assert regressor.score(features, numbers[:, 0], edges, nodes=some, sample_weight=weights) == pytest.approx(
        r2_score(numbers[chosen, 0], predicted[chosen], sample_weight=weights[chosen]), rel=1e-6
    )
    with pytest.raises(DataError, match=r"y is \(30, 2\), but predictions are \(30,\)"):
        regressor.score(features, numbers, edges)
    two = NodeRegressor(**NODES).fit(features, numbers, edges)
    assert two.predict_interval(features, edges, coverage=0.5)[0].shape == (30, 2)
    assert np.isfinite(two.score(features, numbers, edges))


def test_r2_says_which_row_cannot_be_predicted():
    truth, found = np.array([1.0, np.nan, 3.0]), np.array([1.0, 2.0, np.nan])
    with pytest.raises(DataError, match="score: row 2 has a target, but cannot be predicted: broken"):
        r2(truth, found, ["ok", "ok", "broken"])
    assert r2(truth, np.array([1.0, np.nan, 3.0]), ["ok"] * 3) == 1
    with pytest.raises(DataError, match="y is empty; expected targets"):
        r2([np.nan], np.array([1.0]), ["ok"])


def test_weights_are_never_read_as_conditions():
    weights = np.linspace(0.1, 1, len(SMILES))
    with pytest.raises(TypeError, match="positional"):
        MoleculeRegressor(**MOLECULES).fit(SMILES, SIZES, weights)
    with pytest.raises(TypeError, match="positional"):
        MoleculeClassifier(**MOLECULES).fit(SMILES, SIZES > 5, weights)
    conditions = np.linspace(280, 320, len(SMILES))[:, None]
    model = MoleculeRegressor(**MOLECULES).fit(SMILES, SIZES, conditions=conditions, sample_weight=weights)
    predicted = model.predict(SMILES, conditions)
    expected = r2_score(SIZES, predicted, sample_weight=weights)
    assert model.score(SMILES, SIZES, weights, conditions=conditions) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("kind", ["molecule", "node", "text", "series"])
def test_a_finished_run_is_not_replaced_and_parameters_come_back(kind, graph, regressor, tmp_path):
    features = graph[0]
    made = {
        "molecule": lambda: MoleculeRegressor(**MOLECULES, temperature=np.inf, head_dim=8).fit(SMILES, SIZES),
        "node": lambda: regressor,
        "text": lambda: TextRegressor(epochs=1, model_dim=8, num_heads=1, tokens="characters").fit(SMILES, SIZES),
        "series": lambda: Forecaster(model="gru", context=1, horizon=2, epochs=1, batch_size=None).fit(features),
    }[kind]()
    made.save(tmp_path / "run")
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    with pytest.raises(RunFolderError, match="choose another folder, or replace it with overwrite") as refused:
        made.save(tmp_path / "run")
    assert "-o" not in str(refused.value).split()
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before
    made.save(tmp_path / "run", overwrite=True)
    loaded = type(made).load(tmp_path / "run")
    assert loaded.get_params() == made.get_params()
    clone(loaded)
    if kind == "series":
        np.testing.assert_array_equal(loaded.predict(features), made.predict(features))


def test_parameters_of_a_folder_that_the_class_does_not_have_are_named(graph, tmp_path):
    estimator = NodeClassifier(model="gcn", epochs=1, patience=None, checkpoint=None).fit(
        graph[0], [0, 1] * 15, graph[2]
    )
    estimator.save(tmp_path / "run")
    loaded = NodeClassifier.load(tmp_path / "run")
    assert (loaded.patience, loaded.checkpoint) == (None, None), "None is not the default"
    folder = RunFolder(tmp_path / "run")
    content = folder.read_json("model.json")
    for text, message in (("depth = 3", "parameters of NodeClassifier cannot be read: .*depth"), ("{", "is damaged")):
        folder.write_model({**content, "estimator": text})
        with pytest.raises(RunFolderError, match=message):
            NodeClassifier.load(folder.path)


def test_the_parameters_of_a_run_of_the_command_line(tmp_path):
    made = MoleculeRegressor(**MOLECULES).fit(SMILES, SIZES)
    made.save(tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    content = folder.read_json("model.json")
    content.pop("estimator")
    folder.write_model(content)
    config = {"data": ["d.csv"], "smiles-columns": ["s"], "model-dim": 8, "score": "dot", "seed": 3, "head-dim": 4}
    folder.write_config({**config, "task-type": "regression", "split-sizes": [0.8, 0.1, 0.1]})
    params = MoleculeRegressor.load(folder.path).get_params()
    assert (params["model_dim"], params["attention_score"], params["random_state"]) == (8, "dot", 3)
    assert params["head_dim"] == 4


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, "1", "one"], r"several types, 1 \(int\) and '1' \(str\)"),
        (np.array([1, "1"], dtype=object), "several types"),
        (["a", None, "b"], "row 1 of y has no label"),
        ([0.0, np.nan], "row 1 of y has no label"),
        ([0.5, 1.0], "0.5, a number with a fraction"),
        (["a", "a"], "y holds 1 class"),
        ([["a", "b"], ["b", "a"]], "y has 2 axes"),
        ([b"hi", b"lo"], r"y holds b'hi' \(bytes\); expected texts, numbers or truth values"),
        (np.array([b"hi", b"lo"]), r"y holds b'hi' \(bytes\)"),
        (np.array(["2026-01-01", "2026-01-02"], "datetime64[D]"), r"\(datetime64\); expected texts"),
        (np.array(["2026-01-01", "2026-01-02"], "datetime64[ns]"), r"\(datetime64\); expected texts"),
        (np.array([1, 2], "timedelta64[ns]"), r"\(timedelta64\); expected texts"),
        ([np.timedelta64(1, "s"), np.timedelta64(2, "s")], r"\(timedelta64\); expected texts"),
        ([1 + 2j, 3.0], r"\(complex\); expected texts"),
    ],
)
def test_labels_that_are_refused(labels, message):
    with pytest.raises(DataError, match=message):
        class_numbers(labels)


def test_labels_stay_apart_and_those_that_are_alike_are_named():
    classes, numbers = class_numbers([2**53, 2**53 + 1, 2**53])
    assert (classes.tolist(), numbers.tolist()) == ([2**53, 2**53 + 1], [0, 1, 0])
    assert len(class_numbers([10**400, 10**400 + 1])[0]) == 2
    assert class_numbers([5, 2**63 + 1, 2**63])[0].tolist() == [5, 2**63, 2**63 + 1]
    assert class_numbers([2**53, 2**53 + 1, 1.0])[0].tolist() == [1, 2**53, 2**53 + 1]
    booleans, numbers = class_numbers([np.bool_(True), np.bool_(False), True])
    assert (booleans.dtype, numbers.tolist()) == (bool, [1, 0, 1])
    with pytest.warns(UserWarning, match="'Pos' and 'pos'"):
        assert class_numbers(["pos", "Pos"])[0].tolist() == ["Pos", "pos"]


def test_minus_one_is_a_class_of_two_and_is_never_dropped_without_a_word(graph):
    features, numbers, edges = graph
    signs = np.where(np.nan_to_num(numbers[:, 0]) > 0, 1, -1)
    two = NodeClassifier(**NODES).fit(features, signs, edges)
    assert two.classes_.tolist() == [-1, 1]
    assert two.score(features, signs, edges) == np.mean(two.predict(features, edges) == signs)
    three = np.where(np.arange(30) < 7, 0, signs)
    with pytest.warns(UserWarning, match=f"{np.sum(three == -1)} nodes have the label -1, read as no label"):
        some = NodeClassifier(**NODES).fit(features, three, edges)
    assert some.classes_.tolist() == [0, 1]
    known = three != -1
    assert some.score(features, three, edges) == np.mean(some.predict(features, edges)[known] == three[known])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        words = np.array([None if each == -1 else str(each) for each in three], dtype=object)
        assert NodeClassifier(**NODES).fit(features, words, edges).classes_.tolist() == ["0", "1"]


@pytest.mark.parametrize(
    "with_gap",
    [list, pd.Series, lambda y: pd.Series(y, dtype="Int64"), lambda y: [[label, label] for label in y]],
    ids=["None", "NaN", "NA", "targets"],
)
def test_minus_one_beside_a_gap_is_no_label(graph, with_gap):
    features, _, edges = graph
    labels = [None, *[-1, 0, 1] * 9, 0, 1]
    y = with_gap(labels)
    with pytest.warns(UserWarning, match="9 nodes have the label -1, read as no label"):
        model = NodeClassifier(**NODES).fit(features, y, edges)
    assert np.unique(model.classes_).tolist() == [0, 1]
    has_label = np.isin(labels, [0, 1])
    is_right = model.predict(features, edges).reshape(30, -1) == np.array(labels)[:, None]
    assert model.score(features, y, edges) == np.mean(is_right.all(axis=1)[has_label])


def test_a_score_of_graphs_looks_at_what_the_model_looks_at():
    generator = np.random.default_rng(0)
    graphs = [(generator.normal(size=(3, 2)), np.array([[0, 1], [1, 2]])) for _ in range(12)]
    wholes, heights = generator.normal(size=(12, 1)), generator.normal(size=12)
    model = GraphRegressor(epochs=1, model_dim=4, num_heads=1).fit(graphs, heights, graph_features=wholes)
    heights[3] = np.nan
    known = ~np.isnan(heights)
    expected = r2_score(heights[known], model.predict(graphs, wholes)[known])
    assert model.score(graphs, heights, graph_features=wholes) == pytest.approx(expected, rel=1e-6)


def test_links_have_a_score():
    predictor = LinkPredictor()
    predictor.trained_ = link_model("gcn")
    pairs, weights = [["n0", "n1"], ["n2", "n5"], ["n3", "n7"]], [1.0, 2.0, 5.0]
    found = predictor.predict(pairs)
    known = found.copy()
    known[1] = not known[1]
    assert predictor.score(pairs, known, weights) == 6 / 8
    with pytest.raises(DataError, match=r"y is \(2,\), but there are 3 pairs"):
        predictor.score(pairs, known[:2])
    assert predictor.score(pairs, known.astype(int).tolist(), weights) == 6 / 8
    for value in ("no", np.nan, None, 2):
        with pytest.raises(DataError, match=f"row 2 of y is {value!r}; expected True or 1 for a link"):
            predictor.score(pairs, [True, 0, value])
    with pytest.raises(DataError, match=r"sample_weight is \(2,\); expected a weight for each row, \(3,\)"):
        predictor.score(pairs, known, weights[:2])


def test_weights_of_a_score_are_as_many_as_rows(graph, regressor):
    features, numbers, edges = graph
    message = r"score: sample_weight is \(4,\); expected a weight for each row, \(30,\)"
    with pytest.raises(DataError, match=message):
        regressor.score(features, numbers[:, 0], edges, sample_weight=np.ones(4))
    labels = np.where(np.nan_to_num(numbers[:, 0]) > 0, "a", "b")
    classifier = NodeClassifier(**NODES).fit(features, labels, edges)
    with pytest.raises(DataError, match=message):
        classifier.score(features, labels, edges, sample_weight=np.ones(4))
    with pytest.raises(DataError, match=r"y holds 1, 0; classes_ are 'a', 'b'"):
        classifier.score(features, (labels == "a").astype(int), edges)


def test_a_forecaster_takes_arrays():
    torch = pytest.importorskip("torch")
    noise = np.random.default_rng(0).normal(size=60)
    values, edges = np.stack([noise, np.roll(noise, 1)], axis=1), np.array([[0], [1]])
    settings = {"context": 3, "horizon": 2, "model_dim": 4, "epochs": 1, "directed": True}
    model = Forecaster(**settings).fit(values, edges)
    predicted = model.predict(values)
    assert predicted.shape == (2, 2)
    for held in (values.tolist(), torch.tensor(values)):
        np.testing.assert_allclose(model.predict(held, torch.tensor(edges)), predicted, rtol=1e-6)
    framed = Forecaster(**settings).fit(pd.DataFrame(values, columns=["a", "b"]), edges)
    assert framed.trained.encoder.names == ("a", "b")
    np.testing.assert_allclose(framed.predict(values), predicted, rtol=1e-6)
    assert not np.allclose(model.predict(values, np.zeros((2, 0), int)), predicted), "neighbors matter"
    for X, more, message in (
        (values[:, 0], edges, "X has 1 axis"),
        (np.full((9, 2), np.inf), edges, "infinite number at time 0, node 0"),
        (values, np.array([[0], [2]]), "nodes are 0 to 1"),
    ):
        with pytest.raises(DataError, match=message):
            Forecaster(**settings).fit(X, more)


COUNTS, TEXTS = np.arange(12.0), ["a", "b"] * 6


@pytest.mark.parametrize("y", [COUNTS, COUNTS[:, None], pd.DataFrame({"count": COUNTS})])
def test_one_target_of_validation_may_have_another_shape(y):
    scores = []
    for added in (COUNTS[:4], COUNTS[:4, None], pd.Series(COUNTS[:4]), pd.DataFrame({"other": COUNTS[:4]}), range(4)):
        model = TextRegressor(epochs=1, model_dim=4, num_heads=1, companions=["none"])
        scores.append(model.fit(TEXTS, y, validation=(TEXTS[:4], added)).metrics_["validation"])
        assert model.predict(TEXTS).shape == np.shape(y)
    assert all(found == scores[0] for found in scores)


def test_graphs_of_validation_may_hold_their_targets():
    edges = torch.tensor([[0, 1], [1, 2]])
    graphs = [Data(x=torch.eye(3) * count, edge_index=edges, y=torch.tensor([count])) for count in COUNTS]
    model, scores = GraphRegressor(epochs=1, model_dim=4, num_heads=1), []
    for y, added in itertools.product((None, COUNTS), (None, COUNTS[:4])):
        scores.append(model.fit(graphs, y, validation=(graphs[:4], added)).metrics_["validation"])
    assert all(found == scores[0] for found in scores)


@pytest.mark.parametrize(
    ("kind", "y", "validation", "message"),
    [
        (TextRegressor, COUNTS, (TEXTS[:4], None), "fit: validation lacks y; expected (X, y), or a mask (row)"),
        (TextRegressor, None, (TEXTS[:4], COUNTS[:4]), "TextRegressor.fit requires y to be passed"),
        (TextRegressor, np.zeros((12, 2)), (TEXTS, COUNTS), "y is (12, 2), but y of validation is (12,)"),
        (TextRegressor, COUNTS, (TEXTS, np.zeros((12, 2))), "y is (12,), but y of validation is (12, 2)"),
        (TextRegressor, COUNTS, [TEXTS[:4], [1.0]], "validation is a list of several parts; expected a mask (12,)"),
        (
            TextClassifier,
            np.array(["1", "2"] * 6),
            (TEXTS, np.array([1, 2] * 6)),
            "several types, '1' (str) and 1 (int)",
        ),
        (
            TextClassifier,
            np.array([1, 2] * 6),
            (TEXTS, np.array(["1", "2"] * 6)),
            "several types, 1 (int) and '1' (str)",
        ),
        (TextClassifier, [True, False] * 6, (TEXTS, np.array([1, 0] * 6)), "several types, True (bool) and 1 (int)"),
        (Tagger, [["X"]] * 12, ([["a"]], None), "fit: y of validation is None; expected the tags of each sentence"),
        (Tagger, None, None, "fit: y is None; expected the tags of each sentence"),
        (Translator, TEXTS, (TEXTS, None), "validation: y is None; expected the translation of each text"),
        (Translator, None, None, "fit: y is None; expected the translation of each text"),
    ],
)
def test_targets_of_validation_that_are_refused(kind, y, validation, message):
    X = [["a"]] * 12 if kind is Tagger else TEXTS
    with pytest.raises(DataError, match=re.escape(message)):
        kind(epochs=1).fit(X, y, validation=validation)


MASKS = [
    (pd.array([None, *[True] * 4, *[False] * 7], dtype="boolean"), "<NA>"),
    (np.ma.masked_array(np.arange(12) < 4, mask=np.arange(12) == 0), "None"),
    ([float("nan"), *[1.0] * 4, *[0.0] * 7], "nan"),
    (["no", *["yes"] * 4, *["no"] * 7], "'no'"),
]


@pytest.mark.parametrize(("mask", "shown"), MASKS)
@pytest.mark.parametrize(
    "fit",
    [
        lambda mask: TextRegressor(epochs=1).fit(["a", "b"] * 6, np.arange(12), validation=mask),
        lambda mask: NodeRegressor(**NODES).fit(np.eye(12), np.arange(12), np.zeros((2, 0), int), validation=mask),
        lambda mask: Tagger(epochs=1).fit([["a"]] * 12, [["X"], ["O"]] * 6, validation=mask),
        lambda mask: Translator(epochs=1).fit(["a"] * 12, ["b"] * 12, validation=mask),
        lambda mask: LinkPredictor(epochs=1, directed=True).fit(
            np.eye(13), edges=np.stack([np.arange(12), np.arange(12) + 1]), validation=mask
        ),
    ],
)
def test_a_mask_of_validation_is_true_or_false(fit, mask, shown):
    """NaN is true for numpy, and what an array masks has a value underneath."""
    with pytest.raises(DataError, match=re.escape(f"fit: row 0 of validation is {shown}; expected True or False.")):
        fit(mask)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (-1.0, "score: row 2 of sample_weight is -1.0; expected a finite number, zero or more"),
        (np.nan, "score: row 2 of sample_weight is nan; expected"),
        (np.inf, "score: row 2 of sample_weight is inf; expected"),
        (None, "score: every weight in sample_weight is zero"),
    ],
)
def test_weights_of_a_score_weigh(graph, regressor, weight, message):
    features, numbers, edges = graph
    weights = np.zeros(30) if weight is None else np.where(np.arange(30) == 2, weight, 1.0)
    with pytest.raises(DataError, match=message):
        regressor.score(features, numbers[:, 0], edges, sample_weight=weights)
    weights = np.where(np.arange(30) == 4, 1.0, 0.0)
    with pytest.raises(DataError, match="of the rows with a label add up to zero"):
        regressor.score(features, numbers[:, 0], edges, sample_weight=weights)


ROWS = ["a", "b"] * 4
RING = Graph(torch.eye(3), Edges(torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0]), 3, 3))


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (
            lambda: TextRegressor().fit(ROWS, np.arange(7), validation=(ROWS[:2], np.arange(3))),
            "fit: X has 8 rows, but its y has 7.",
        ),
        (
            lambda: TextRegressor().fit(ROWS, np.arange(8), validation=(ROWS[:2], np.arange(3))),
            "fit: validation has 2 rows, but its y has 3.",
        ),
        (
            lambda: Tagger().fit([["a"]] * 8, [["X"], ["O"], *[["X"]] * 5], validation=([["a"]], [["X"], ["O"]])),
            "8 sentences were given, but tags of 7",
        ),
        (lambda: Tagger().fit([["a"]] * 2, [["X"], ["O"]], validation=([["a"]],)), "fit: validation holds 1 part;"),
        (lambda: Translator().fit(ROWS, ROWS, validation=(ROWS, ROWS, ROWS)), "fit: validation holds 3 parts;"),
        (  # "X is a Graph, where a sequence is expected" came of a graph as X, which is right
            lambda: NodeRegressor().fit(RING, [1.0, 2.0, 3.0], validation=(np.eye(3), [1.0, 2.0, 3.0])),
            "fit: validation is a tuple of several parts; expected a mask (3,).",
        ),
        (
            lambda: EdgeRegressor().fit(RING, [1.0, 2.0, 3.0], validation=(RING, [1.0, 2.0, 3.0])),
            "fit: validation is a tuple of several parts; expected a mask (3,).",
        ),
        (
            lambda: NodeRegressor().fit(np.eye(2), [1, 2], pd.DataFrame({"target": [0, 1], "source": [1, 0]})),
            "edges is a DataFrame; give whole numbers (2, edge)",
        ),
        (
            lambda: NodeRegressor().fit(np.eye(3), [1, 2, 3], [[0, 1], [1, 2], [2, 0]]),
            "expected Edges, or whole numbers (2, edge); where each row is an edge, give the transpose.",
        ),
        (
            lambda: NodeRegressor().fit(np.eye(4), [1, 2, 3, 4], [(0, 1), (2, 3)]),
            "edges is [(0, 1), (2, 3)], which may be two edges, or two senders above their receivers; give np.array(e",
        ),
        (
            lambda: NodeRegressor().fit(np.eye(4), [1, 2, 3, 4], [[0, 1], [2, 3]]),
            "edges is [[0, 1], [2, 3]], which may be two edges, or two senders above their receivers; give np.array(e",
        ),
    ],
)
def test_rows_and_edges_that_do_not_fit_are_refused(fit, message):
    """Each part by itself: a target too many there and one too few here shifted all that lay between."""
    with pytest.raises(DataError) as caught:
        fit()
    assert message in str(caught.value)


def test_a_split_of_links_that_is_missing_is_none():
    edges = np.stack([np.arange(29), np.arange(29) + 1])
    words = pd.Series([np.nan, None, *["train"] * 19, *["val"] * 8], dtype=object)
    model = LinkPredictor(epochs=1, model_dim=8).fit(np.eye(30), edges=edges, splits=words)
    assert model.metrics_["validation"]["num_links"] == 8
