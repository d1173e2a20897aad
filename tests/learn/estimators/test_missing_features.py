"""NaN among the features: filled by the median of what was trained on, for every estimator that reads features."""

from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pytest
import torch

from edgewise import (
    DataError,
    EdgeClassifier,
    EdgeRegressor,
    Graph,
    GraphClassifier,
    GraphNodes,
    GraphRegressor,
    LinkPredictor,
    MoleculeRegressor,
    NodeClassifier,
    NodeKFold,
    NodeRegressor,
)
from edgewise.learn.estimators.labels import has_label, labels_of
from edgewise.learn.estimators.numbers import as_numbers

pytestmark = pytest.mark.filterwarnings("ignore:[a-z_]+. [0-9]+ rows? lacks? something")  # see test_python_warns.py
SMALL = {"model_dim": 8, "epochs": 2, "dropout": 0.0}
FILLED = (
    "missing numbers? of {} w(as|ere) filled with the median of (the training rows|all nodes|all edges), and marked: {}"
)


def graph(num_nodes=30):
    generator = np.random.default_rng(0)
    features = generator.normal(size=(num_nodes, 2))
    edges = generator.integers(0, num_nodes, (2, 80))
    label = np.where(features[:, 0] > 0, "yes", "no")
    features[3, 1] = np.nan
    return features, edges, label


def test_nodes(tmp_path):
    features, edges, label = graph()
    with pytest.warns(UserWarning, match=FILLED.format("nodes", "feature 1 1")):
        classifier = NodeClassifier(model="gcn", **SMALL).fit(features, label, edges)
    assert classifier.trained_.encoder.on_graph.scaler.imputer.marked == (1,)
    assert classifier.n_features_in_ == 2
    classifier.save(tmp_path / "run")
    again = NodeClassifier.load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict_proba(features, edges), classifier.predict_proba(features, edges))
    features[5, 0] = np.nan  # a column that lacked nothing in training
    status = again.status_of(features, edges=edges)
    assert status[5] == "ok, but feature 0 is missing, filled with the median"
    assert status[3] == "ok, but feature 1 is missing, filled with the median"
    assert set(status) - {status[3], status[5]} == {"ok"}
    filled = np.where(np.isnan(features), [np.median(np.delete(features[:, 0], 5)), 0], features)
    filled[3, 1] = np.nan
    found = again.predict_proba(features, edges)
    assert np.isfinite(found).all()
    assert not np.allclose(found, classifier.predict_proba(np.where(np.isnan(features), 9.0, features), edges))
    features[0, 0] = np.inf
    with pytest.raises(DataError, match=r"X\[0, 0\] is inf"):
        again.predict(features, edges)


def test_features_as_they_are_are_not_filled():
    features, edges, label = graph()
    with pytest.raises(DataError, match="X holds NaN"):
        NodeClassifier(model="gcn", feature_scale="none", **SMALL).fit(features, label, edges)
    features[3, 1] = 0.0
    classifier = NodeClassifier(model="gcn", feature_scale="none", **SMALL).fit(features, label, edges)
    features[3, 1] = np.nan
    with pytest.raises(DataError, match="X holds NaN"):
        classifier.predict(features, edges)


@pytest.mark.parametrize("scale", ["none", "rows"])
@pytest.mark.parametrize("estimator", [NodeRegressor, EdgeRegressor])
def test_numbers_of_edges_are_filled_however_features_of_nodes_are_scaled(estimator, scale):
    """The scale of the features of nodes made numbers of edges count as dropped."""
    features, edges, _ = graph()
    features[3, 1], of_edges = 0.0, np.random.default_rng(1).normal(size=(80, 2))
    of_edges[7, 0] = np.nan
    target = features[:, 0] if estimator is NodeRegressor else features[edges[0], 0]
    with pytest.warns(UserWarning, match=FILLED.format("edges", "feature 0 1")):
        model = estimator(model="gat", feature_scale=scale, **SMALL).fit(
            features, target, edges, edge_features=of_edges
        )
    assert np.isfinite(model.predict(features, edges, edge_features=of_edges)).all()
    of_edges[9, 1] = np.nan  # a number that no edge lacked in training
    assert np.isfinite(model.predict(features, edges, edge_features=of_edges)).all()
    features[3, 1] = np.nan
    with pytest.raises(DataError, match="X holds NaN"):
        model.predict(features, edges, edge_features=of_edges)


def test_types():
    features, edges, label = graph()
    kinds = np.where(np.arange(30) % 2, "paper", "author")
    features[kinds == "author", 1] = np.nan  # no feature of authors
    features[4, 0] = np.nan
    with pytest.warns(UserWarning, match=FILLED.format("nodes", "feature 0 1, feature 1 1")):
        classifier = NodeClassifier(model="rgcn", **SMALL).fit(features, label, edges, node_types=kinds)
    assert [each.imputer.marked for each in classifier.trained_.encoder.on_graph.scaler.scalers] == [(0,), (1,)]
    assert np.isfinite(classifier.predict_proba(features, edges, node_types=kinds)).all()


def test_edges_and_links(tmp_path):
    features, edges, _ = graph()
    of_edges = np.random.default_rng(1).normal(size=(80, 1))
    of_edges[7] = np.nan
    label = np.where(edges[0] > edges[1], "up", "down")
    with (
        pytest.warns(UserWarning, match=FILLED.format("nodes", "feature 1 1")),
        pytest.warns(UserWarning, match=FILLED.format("edges", "feature 0 1")),
    ):
        classifier = EdgeClassifier(model="gat", **SMALL).fit(features, label, edges=edges, edge_features=of_edges)
    given = {"edges": edges, "edge_features": of_edges}
    assert np.isfinite(classifier.predict_proba(features, **given)).all()
    assert classifier.status_of(features, **given)[7] == "ok, but feature 0 is missing, filled with the median"
    with (
        pytest.warns(UserWarning, match=FILLED.format("nodes", "feature 1 1")),
        pytest.warns(UserWarning, match="3 edges are self-loops"),
    ):
        predictor = LinkPredictor(model="gcn", model_dim=8, epochs=1).fit(features, edges)
    predictor.save(tmp_path / "run")
    pairs = [[3, 4]]
    found = LinkPredictor.load(tmp_path / "run").predict_proba(pairs)
    np.testing.assert_array_equal(found, predictor.predict_proba(pairs))


def test_graphs(tmp_path):
    generator = np.random.default_rng(0)
    graphs = []
    for number in range(20):
        size = 4 + number % 3
        ring = np.stack([np.arange(size), np.roll(np.arange(size), 1)])
        graphs.append((generator.normal(size=(size, 2)), ring, generator.normal(size=(size, 1))))
    heat = generator.normal(size=(20, 1))
    graphs[0][0][1, 0], graphs[1][2][2, 0], heat[2, 0] = np.nan, np.nan, np.nan
    with (
        pytest.warns(UserWarning, match=FILLED.format("nodes", "feature 0 1")),
        pytest.warns(UserWarning, match=FILLED.format("edges", "feature 0 1")),
        pytest.warns(UserWarning, match=FILLED.format("graphs", "'number_1' 1")),
    ):
        regressor = GraphRegressor(**SMALL, num_heads=2, validation_size=0).fit(
            graphs, np.arange(20.0), graph_features=heat
        )
    assert regressor.status_of(graphs, graph_features=heat)[:4] == [
        "ok, but feature 0 of a node is missing, filled with the median",
        "ok, but feature 0 of an edge is missing, filled with the median",
        "ok, but 'number_1' is missing, filled with the median",
        "ok",
    ]
    regressor.save(tmp_path / "run")
    predicted = regressor.predict(graphs, graph_features=heat)
    again = GraphRegressor.load(tmp_path / "run").predict(graphs, graph_features=heat)
    np.testing.assert_array_equal(again, predicted)
    values = np.concatenate([features for features, _, _ in graphs])
    node = regressor.trained_.encoder.scales.node
    assert node.imputer.median == pytest.approx(tuple(np.nanmedian(values, axis=0)), rel=1e-6)


def test_conditions_of_molecules():
    smiles, heat = ["CCO", "CCN", "CCC", "CCCl"] * 5, np.arange(20.0)
    heat[4] = np.nan
    with pytest.warns(UserWarning, match=FILLED.format("rows", "'condition' 1")):
        regressor = MoleculeRegressor(model_dim=8, num_layers=1, epochs=1, num_heads=2).fit(
            smiles, np.arange(20.0), conditions=heat
        )
    assert np.isfinite(regressor.predict(["CCO"], conditions=[np.nan])).all()
    assert regressor.status_of(["CCO"], conditions=[np.nan]) == [
        "ok, but 'condition' is missing, filled with the median"
    ]


def test_conditions_without_any_number_lack_nothing():
    """They are ignored: rows were said to be "filled with the median", of which there was none. Conditions in a
    DataFrame were called `condition_1`."""
    frame = pd.DataFrame({"drug": ["CCO", "CCN", "CCC", "CCCl"] * 5, "heat": np.nan, "bar": np.arange(20.0)})
    with pytest.warns(UserWarning, match="fit: 'heat' (of rows has no number|has one value)"):
        regressor = MoleculeRegressor(model_dim=8, num_layers=1, epochs=1, num_heads=2).fit(frame, np.arange(20.0))
    assert regressor.status_of(frame[:2]) == ["ok", "ok"]
    lacks = frame[:2].assign(bar=np.nan, drug=["CCO", "C(("])
    first, second = regressor.status_of(lacks)
    assert first == "ok, but 'bar' is missing, filled with the median"
    assert second.startswith("drug: 'C((' is not a SMILES")
    assert regressor.explain(frame.iloc[0]).title == "CCO"


def test_weights_of_edges_without_any_number_are_refused():
    """They were read as 0: no edge carried a message."""
    features, edges, label = graph()
    features[3, 1] = 0.0
    with pytest.raises(DataError, match="no edge has a weight: its one feature, which model gcn reads as one, is"):
        NodeClassifier(model="gcn", **SMALL).fit(features, label, edges, edge_features=np.full((80, 1), np.nan))


def test_what_is_missing_says_something():
    """The class is whether a number is missing: only the mark can tell."""
    generator = np.random.default_rng(0)
    graphs, label = [], np.arange(40) % 2
    for number in range(40):
        features = generator.normal(size=(4, 1))
        features[0] = np.nan if label[number] else features[0]
        graphs.append((features, np.stack([np.arange(4), np.roll(np.arange(4), 1)])))
    with pytest.warns(UserWarning, match="20 missing numbers of nodes"):
        classifier = GraphClassifier(model_dim=8, num_heads=2, epochs=20, dropout=0.0).fit(graphs, label)
    assert classifier.score(graphs, label) == 1.0


@pytest.mark.filterwarnings("ignore:fit. 1 missing number of nodes")
def test_what_an_array_masks_is_missing():
    features, edges, _ = graph()
    numbers = np.nan_to_num(features[:, 0]) * 2
    mask = np.arange(len(numbers)) % 5 == 1
    masked = np.ma.array(np.where(mask, 1e9, numbers), mask=mask)
    np.testing.assert_array_equal(as_numbers("y", masked), np.where(mask, np.nan, numbers))
    np.testing.assert_array_equal(as_numbers("y", np.ma.array([1, 2], mask=[False, True])), [1, np.nan])
    hidden = np.ma.masked_invalid(np.array(features))
    hidden.data[hidden.mask] = 1e9
    np.testing.assert_array_equal(GraphNodes(hidden, edges).graph.node_features.numpy(), features)

    settings = {"model": "gcn", **SMALL, "random_state": 0}
    found = NodeRegressor(**settings).fit(hidden, masked, edges)
    expected = NodeRegressor(**settings).fit(features, np.where(mask, np.nan, numbers), edges)
    np.testing.assert_array_equal(found.predict(hidden, edges), expected.predict(features, edges))
    assert found.score(hidden, masked, edges) == found.score(features, np.where(mask, np.nan, numbers), edges)

    with pytest.raises(DataError, match=r"Graph\.of: an array masks numbers, which tensors do not"):
        Graph.of((hidden, edges))
    types = np.ma.array(["x", "y", "x"] * 10, mask=mask)
    with pytest.raises(DataError, match="node_types, row 1: the type is missing; give each of the nodes one"):
        GraphNodes(features, edges, node_types=types)

    texts = np.array(["a", "b", "c"] * 10)
    labels = labels_of(np.ma.array(texts, mask=mask))
    np.testing.assert_array_equal(has_label(labels), ~mask)
    np.testing.assert_array_equal(labels[~mask], texts[~mask])


@pytest.mark.filterwarnings("ignore:(fit|predict). ")
def test_what_an_array_beside_features_masks_is_missing():
    """The hidden number was read as a condition, a weight or a number of a graph or an edge."""
    numbers, mask = np.random.default_rng(0).normal(size=(30, 2)), np.zeros((30, 2), dtype=bool)
    mask[4] = True, False
    missing, masked = np.where(mask, np.nan, numbers), np.ma.array(np.where(mask, 1e9, numbers), mask=mask)
    smiles, target = ["C" * (row % 7 + 1) + "O" for row in range(30)], np.arange(30.0)
    edges = np.stack([np.arange(30), np.roll(np.arange(30), 1)])
    graphs = [(np.arange(4.0 + row % 3)[:, None], edges[:, 1:3]) for row in range(30)]
    settings = {"epochs": 2, "model_dim": 8, "dropout": 0.0, "random_state": 0}
    for estimator, rows, name, beside in (
        (MoleculeRegressor(epochs=2, companions=(), random_state=0), smiles, "conditions", {}),
        (GraphRegressor(**settings, num_heads=2), graphs, "graph_features", {}),
        (EdgeRegressor(**settings), numbers, "edge_features", {"edges": edges}),
    ):
        expected = estimator.fit(rows, target, **{name: missing}, **beside).predict(rows, **{name: missing}, **beside)
        for values in (masked, list(masked)):
            found = estimator.fit(rows, target, **{name: values}, **beside)
            np.testing.assert_array_equal(found.predict(rows, **{name: values}, **beside), expected)
        with pytest.raises(DataError, match="row 4 of sample_weight is nan; expected"):
            estimator.fit(rows, target, **{name: values}, **beside, sample_weight=np.abs(masked[:, 0]))

    molecules = MoleculeRegressor(epochs=2, companions=()).fit(smiles, target, conditions=missing)
    by_nan, by_mask = (molecules.explain("CCO", conditions=row) for row in (missing[4], masked[4]))
    assert by_mask.predictions[0].value == by_nan.predictions[0].value


def test_tensors_of_a_computation():
    for tensor in (torch.ones(3, 2, requires_grad=True), torch.ones(3, 2, dtype=torch.bfloat16)):
        for values in (tensor, list(tensor)):
            np.testing.assert_array_equal(as_numbers("y", values), np.ones((3, 2)))
        for y in (tensor, list(tensor), tensor[:, 0]):
            assert sorted(test.item() for _, test in NodeKFold(3).split(tensor, y)) == [0, 1, 2]
    features, edges, _ = graph()
    targets = torch.arange(30.0, requires_grad=True)
    NodeRegressor(model="gcn", **SMALL).fit(np.nan_to_num(features), targets, edges)
    NodeRegressor(model="gcn", **SMALL).fit(np.nan_to_num(features), targets.to(torch.bfloat16), edges)


@pytest.mark.parametrize(
    "times",
    [
        np.array(["2024-01-01", "NaT"], "M8[s]"),
        np.array([5, "NaT"], "m8[s]"),
        list(np.array([5, 7], "m8[s]")),
        [timedelta(seconds=5), None],
        [None, datetime(2024, 1, 1)],
        pd.Series(pd.to_timedelta([5, 7], unit="s")),
        pd.DataFrame({"y": pd.to_datetime(["2024-01-01", None], utc=True)}),
    ],
)
def test_dates_and_durations_are_no_targets(times):
    with pytest.raises(DataError, match=r"y.* holds .*; give numbers, such as the seconds of each"):
        as_numbers("y", times)


def test_columns_without_any_number_have_no_median():
    """They were "filled with the median of all edges", of which there was none."""
    features, edges, label = graph()
    features[3, 1] = 0.0
    nothing = np.full((80, 1), np.nan)
    message = "fit: feature 0 of edges has no number in any row: each is read as 0.$"
    with pytest.warns(UserWarning, match=message) as caught:
        NodeClassifier(model="gatv2", **SMALL).fit(features, label, edges, edge_features=nothing)
    assert not any("median" in str(warning.message) for warning in caught)


@pytest.mark.parametrize("dtype", ["Int64", "int64[pyarrow]", "category"])
def test_whole_numbers_beside_a_gap_stay_whole(dtype):
    """pandas makes fractions of them: classes were 0.0 and 5.0, and large ones became one class."""
    features, edges, _ = graph(6)
    features[3, 1] = 0.0
    edges = edges % 6
    large = 2**60
    for y in (pd.Series([large, large + 1, None] * 2, dtype=dtype), pd.Series([0, 5, None] * 2, dtype=dtype)):
        for labels in (y, y.to_frame()[0]):
            trained = NodeClassifier(model="gcn", **SMALL).fit(features, labels, edges)
            assert trained.classes_.dtype == np.int64
            assert trained.classes_.tolist() == y[:2].tolist()
