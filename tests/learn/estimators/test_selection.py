"""scikit-learn's cross-validation over rows of every kind, and over the nodes of one graph."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from torch_geometric.data import Data

from edgewise import (
    DataError,
    Edges,
    Graph,
    GraphNodes,
    GraphRegressor,
    MoleculeRegressor,
    NodeClassifier,
    NodeKFold,
    NodeRegressor,
    SettingError,
    Tagger,
    TextClassifier,
    Translator,
)
from edgewise.learn.estimators import nodes as nodes_module

FEW = {"epochs": 2, "model_dim": 8, "device": "cpu"}
RANDOM = np.random.default_rng(0)
TEAM = np.arange(40) % 2
FEATURES = np.stack([TEAM + 0.1 * RANDOM.normal(size=40), RANDOM.normal(size=40)], axis=1)
SENDERS = RANDOM.integers(0, 40, 160)
INDEX = np.stack([SENDERS, (SENDERS + 2 * RANDOM.integers(1, 20, 160)) % 40])
LABELS = np.array(["blue", "red"], dtype=object)[TEAM]


@pytest.fixture
def graph():
    return Graph(torch.tensor(FEATURES), Edges.from_edge_index(torch.tensor(INDEX), 40))


def test_rows_of_nodes_leave_the_graph_whole(graph):
    nodes = GraphNodes(graph)
    assert (len(nodes), nodes.shape) == (40, (40, 1))
    some = nodes[5:20][np.array([1, 3])]
    assert (len(some), some.graph) == (2, graph)
    assert some.rows.tolist() == [6, 8]
    assert nodes[np.arange(40) > 37].rows.tolist() == [38, 39]
    classifier = NodeClassifier(model="gcn", **FEW).fit(graph, LABELS)
    every, (left, right) = classifier.predict_proba(graph), classifier.predict_proba(some)
    np.testing.assert_array_equal([left, right], every[[6, 8]])
    assert classifier.predict(some).tolist() == classifier.predict(graph)[[6, 8]].tolist()
    regressor = NodeRegressor(model="gcn", **FEW, validation_size=0.4).fit(nodes, FEATURES[:, 1])
    low, high = regressor.predict_interval(some)
    assert (low < regressor.predict(some)).all() and (regressor.predict(some) < high).all()
    assert np.isfinite(regressor.score(nodes[:9], FEATURES[:9, 1]))
    predicted = classifier.explain(nodes[[6]], label="red")
    assert predicted.title == classifier.explain(graph, node=6).title
    with pytest.raises(SettingError, match="explain: node is missing"):
        classifier.explain(nodes)
    with pytest.raises(DataError, match="y has 2 rows, but there are 15 nodes"):
        classifier.fit(nodes[5:20], LABELS[:2])


@pytest.mark.parametrize("held", ["graph", "pyg", "arrays", "sparse"])
def test_a_grid_search_over_nodes(graph, held):
    nodes = {
        "graph": lambda: GraphNodes(graph),
        "pyg": lambda: GraphNodes(Data(x=torch.tensor(FEATURES), edge_index=torch.tensor(INDEX))),
        "arrays": lambda: GraphNodes(FEATURES, INDEX),
        "sparse": lambda: GraphNodes(scipy.sparse.csr_array(FEATURES), INDEX),
    }[held]()
    y = LABELS.copy()
    y[:10:3] = None
    estimator = NodeClassifier(model="gcn", **FEW, random_state=1)
    search = GridSearchCV(estimator, {"model": ["gcn", "sage"]}, cv=NodeKFold(3), error_score="raise").fit(nodes, y)
    assert search.best_params_["model"] in ("gcn", "sage")
    assert search.best_estimator_.predict(nodes).shape == (40,)
    assert search.cv_results_["mean_test_score"].shape == (2,)


def test_no_label_of_a_test_node_reaches_the_training(graph, monkeypatch):
    seen = []
    original = nodes_module.nodes_from_arrays

    def watching(*args, targets=None, **more):
        if targets is not None:
            seen.append(np.array([not pd.isna(cell) and cell != "" for cell in targets]))
        return original(*args, targets=targets, **more)

    monkeypatch.setattr(nodes_module, "nodes_from_arrays", watching)
    nodes, folds = GraphNodes(graph), list(NodeKFold(3).split(GraphNodes(graph), LABELS))
    for train, test in folds:
        changed = LABELS.copy()
        changed[test] = np.where(LABELS[test] == "red", "blue", "red")
        fitted = [NodeClassifier(model="gcn", **FEW).fit(nodes[train], y[train]) for y in (LABELS, changed)]
        found = [each.predict_proba(nodes) for each in fitted]
        np.testing.assert_array_equal(found[0], found[1])
    cross_val_score(NodeClassifier(model="gcn", **FEW), nodes, LABELS, cv=NodeKFold(3), error_score="raise")
    expected = [np.isin(np.arange(40), train) for train, _ in folds]
    np.testing.assert_array_equal(seen, [*np.repeat(expected, 2, axis=0), *expected])


def test_folds_of_the_nodes_with_a_target():
    y = np.array([0, 1, 2] * 6 + [None] * 4)
    folds = list(NodeKFold(3, random_state=7).split(y, y))
    assert sorted(np.concatenate([test for _, test in folds]).tolist()) == list(range(18)), "each labelled node once"
    for train, test in folds:
        assert not np.intersect1d(train, test).size and max(train.max(), test.max()) < 18
        assert np.bincount(y[test].astype(int)).tolist() == [2, 2, 2], "stratified"
    again = list(NodeKFold(3, random_state=7).split(y, y))
    assert all((a[1] == b[1]).all() for a, b in zip(folds, again))
    numbers = np.array([[1.0, np.nan], [np.nan, np.nan], [3.0, 1.0], [2.0, 0.0]])
    tests = [test.tolist() for _, test in NodeKFold(3).split(numbers, numbers)]
    assert sorted(row for test in tests for row in test) == [0, 2, 3]
    groups = np.arange(22) // 3
    for train, test in NodeKFold(3).split(y, y, groups):
        assert not set(groups[train]) & set(groups[test])
    assert NodeKFold(4).get_n_splits() == 4
    assert repr(NodeKFold(4)) == "NodeKFold(4, random_state=0)"
    with pytest.raises(SettingError, match="n_splits is 1; expected at least 2"):
        NodeKFold(1)
    with pytest.raises(DataError, match="2 nodes have a target, fewer than folds"):
        list(NodeKFold(3).split([1, 2, None], [1, 2, None]))
    with pytest.raises(DataError, match="y has 3 rows, but there are 2 nodes"):
        list(NodeKFold(2).split([1, 2], [1, 2, None]))


@pytest.mark.parametrize("y", [np.array(["a", "b"] * 15), np.linspace(0, 1, 30)], ids=["labels", "numbers"])
def test_the_seed_shuffles_groups_too(y):
    """With groups, every random_state gave the same folds."""
    groups = np.repeat(np.arange(15), 2)

    def tests(seed: int) -> list[list[int]]:
        return [test.tolist() for _, test in NodeKFold(3, random_state=seed).split(y, y, groups)]

    folds = tests(1)
    assert folds == tests(1) != tests(2)
    assert [len(test) for test in folds] == [10, 10, 10], "of equal size"
    assert all(test[::2] == [row - 1 for row in test[1::2]] for test in folds), "groups are whole"
    if y.dtype.kind == "U":
        assert all((y[test] == "a").sum() == 5 for test in folds), "stratified"


STRATA = [0, 1, 2] * 6
FRACTIONS = [number + 0.5 for number in range(18)]


@pytest.mark.parametrize("gap", [None, np.nan])
@pytest.mark.parametrize(
    "labels",
    [STRATA, [float(label) for label in STRATA], [label > 0 for label in STRATA], list(map(str, STRATA))],
    ids=["whole", "float", "bool", "text"],
)
@pytest.mark.parametrize("holds", [list, pd.Series, lambda y: np.array(y, dtype=object), pd.DataFrame])
def test_labels_are_stratified_however_they_are_held(labels, gap, holds):
    y = [*labels, *[gap] * 4]
    for _, test in NodeKFold(3).split(y, holds(y)):
        counts = pd.Series([y[row] for row in test]).value_counts()
        assert dict(counts) == {label: labels.count(label) // 3 for label in set(labels)}


@pytest.mark.parametrize(
    "y",
    [
        FRACTIONS,
        np.array(FRACTIONS),
        pd.Series(FRACTIONS, dtype=object),
        range(18),
        np.arange(18) - 1,
        np.array([-1.0, 0.0, 1.0] * 6),
        [-1.0, 0.0, 1.0] * 6,
        np.array([[-1, -1], [0, 1], [1, 2]] * 6),
        [Decimal(number) for number in range(18)],
    ],
    ids=["list", "array", "object", "counts", "counts from -1", "-1.0", "list of -1.0", "targets", "decimals"],
)
def test_each_number_of_a_regressor_is_in_one_fold(y):
    tests = [test for _, test in NodeKFold(3).split(range(18), y)]
    assert sorted(np.concatenate(tests).tolist()) == list(range(18))
    with_gap = [*np.asarray(y, dtype=object).tolist(), [None] * 2 if np.ndim(y) == 2 else None]
    tests = [test for _, test in NodeKFold(3).split(range(19), with_gap)]
    assert sorted(np.concatenate(tests).tolist()) == list(range(18))


@pytest.mark.parametrize("gap", [[], [None]])
def test_a_warning_counts_the_nodes_whose_label_is_minus_one(gap):
    y = [*[-1, 0, 1] * 6, *gap]
    with pytest.warns(
        UserWarning, match=r"6 nodes have the label -1.*are in no fold; where -1 is a number, give -1\.0"
    ):
        tests = [test for _, test in NodeKFold(3).split(range(len(y)), y)]
    assert sorted(np.concatenate(tests).tolist()) == [row for row, label in enumerate(y) if label in (0, 1)]


def test_a_regressor_is_validated_on_whole_numbers(graph):
    scores = cross_val_score(
        NodeRegressor(model="gcn", **FEW), GraphNodes(graph), np.arange(40), cv=NodeKFold(3), error_score="raise"
    )
    assert np.isfinite(scores).all()


def test_cross_validation_of_rows():
    words = ["good film", "bad film", "good book", "bad book"] * 5
    said = np.array(["yes", "no"] * 10)
    texts = TextClassifier(model="gru", **FEW)
    assert cross_val_predict(texts, words, said, cv=2).shape == (20,)
    pipeline = Pipeline([("lower", FunctionTransformer(lambda rows: [row.upper() for row in rows])), ("model", texts)])
    search = GridSearchCV(pipeline, {"model__random_state": [0, 1]}, cv=2, error_score="raise").fit(words, said)
    assert search.best_params_["model__random_state"] in (0, 1)
    rings = [(np.eye(size, 1), np.stack([np.arange(size), np.roll(np.arange(size), 1)])) for size in [3, 4, 5] * 5]
    sizes = np.array([3.0, 4.0, 5.0] * 5)
    graphs = GraphRegressor(model="gcn", epochs=1, model_dim=8, num_heads=2)
    assert np.isfinite(cross_val_score(graphs, rings, sizes, cv=KFold(2, shuffle=True, random_state=0))).all()
    assert cross_val_predict(graphs, [Graph.of(ring) for ring in rings], sizes, cv=2).shape == (15,)
    molecules = MoleculeRegressor(epochs=1, model_dim=8, num_heads=2, molecule_descriptors=False)
    smiles = ["C" * size for size in range(1, 13)]
    assert cross_val_predict(molecules, smiles, np.arange(12.0), cv=2).shape == (12,)
    sentences, tags = [row.split() for row in words], [["A", "N"]] * 20
    tagger = Tagger(model="gru", num_layers=1, **FEW)
    assert np.isfinite(cross_val_score(tagger, sentences, tags, cv=2, error_score="raise")).all()
    translator = Translator(model="gru", num_layers=1, vocabulary_size=260, max_length=4, **FEW)
    assert np.isfinite(cross_val_score(translator, words, words[::-1], cv=2, error_score="raise")).all()


def test_further_rows_for_validation_are_the_same_as_a_mask():
    words, stars = ["good film", "bad film", "dull book", "fine book"] * 4, np.arange(16.0)
    mask = np.arange(16) >= 12
    settings = {"model": "gru", "epochs": 2, "model_dim": 8}
    from edgewise import TextRegressor

    found = [
        TextRegressor(**settings).fit(words, stars, validation=mask),
        TextRegressor(**settings).fit(words[:12], stars[:12], validation=(words[12:], stars[12:])),
    ]
    np.testing.assert_array_equal(found[0].predict(words), found[1].predict(words))
    assert found[0].trained_.intervals.errors.shape == (4, 1)
    with pytest.raises(DataError, match=r"validation is \(3,\); expected a mask \(16,\)"):
        TextRegressor(**settings).fit(words, stars, validation=mask[:3])
    with pytest.raises(DataError, match="validation leaves 0 rows"):
        TextRegressor(**settings).fit(words, stars, validation=mask | True)
    sentences, tags = [row.split() for row in words], [["A", "N"]] * 16
    tagger = Tagger(model="gru", num_layers=1, **FEW).fit(sentences, tags, validation=mask)
    assert tagger.metrics_["rows"] == {"train": 12, "val": 4, "test": 0, "rejected": 0}
    translator = Translator(model="gru", num_layers=1, vocabulary_size=260, **FEW).fit(words, words, validation=mask)
    assert translator.metrics_["rows"] == {"train": 12, "val": 4, "rejected": 0}


def test_rows_of_nodes_by_their_names(graph):
    """A list of names was an IndexError of numpy; a table of numbers was taken for rows."""
    nodes = GraphNodes(replace(graph, names=tuple(f"v{node}" for node in range(40))))
    assert nodes[["v3", "v1"]].rows.tolist() == [3, 1]
    assert nodes[5:]["v7"].rows.tolist() == [7]
    assert len(nodes[[]]) == 0
    with pytest.raises(DataError, match=r"no row is called 'v1'; rows are called v5, v6, v7, …\."):
        nodes[5:][["v1"]]
    for rows in ([0.5], [[0, 1]], [True]):
        with pytest.raises(DataError, match=r"^rows are .*; expected numbers, names, a slice or a mask \("):
            nodes[rows]
    with pytest.raises(DataError, match="rows are <U2"):
        GraphNodes(graph)[["v1"]]


def test_folds_of_whole_numbers_with_gaps_are_stratified():
    y = pd.Series([0, 1, None] * 4, dtype="Int64")
    for _, test in NodeKFold(2).split(y, y):
        assert sorted(y[test].tolist()) == [0, 0, 1, 1]
